"""The answers of `specplan measure device`, `measure curve` and `hardware import`.

What was measured comes as records of the measuring room, which needs torch and is not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.units import plural, show_bandwidth, show_bytes, show_rate, show_share, show_time
from ..hardware.profile import Curve
from .output import Answer, Lines, Table, answer_of

QUANTITIES = {
    "copy": "copy",
    "read": "read",
    "stream": "weight streaming",
    "latency": "a product beside its bytes",
    "exponent": "exponent of memory and compute",
    "matmul": "matrix product",
    "attention": "attention of a layer, short cache",
    "cache": "attention, long cache",
    "empty": "empty operation",
    "layer": "narrow layer",
    "pass": "pass without layers",
}


def show_reading(value: float, unit: str) -> str:
    """A value in the unit that it is read in.

    >>> show_reading(12.3e9, "bytes/s"), show_reading(1.019e12, "FLOP/s"), show_reading(2.5, "")
    ('12.3 GB/s', '1.019 TFLOP/s', '2.5')
    """
    if unit == "bytes/s":
        return show_bandwidth(value)
    if unit == "FLOP/s":
        return show_rate(value)
    return show_time(value) if unit == "s" else f"{value:.4g}"


def device_answer(
    place: Any,
    readings: Sequence[Any],
    *,
    inputs: Mapping[str, Any],
    made: Any | None,
    datasheet: str | None,
    written: str | None,
    complete: bool = True,
    notes: Sequence[str] = (),
) -> Answer:
    """What was measured of a device, beside its datasheet.

    made        the profile in the making, with comparisons and warnings; None when there is too little for one
    datasheet   name of the bundled profile that it is compared with
    written     where the profile was written
    """
    compared = made.compared if made else ()
    warnings = made.warnings if made else ()
    parts: list[Table | Lines] = [_readings_table(readings)]
    if compared:
        parts.append(_compared_table(compared, datasheet))
    missing = [f"{name}: {reason}" for name, reason in place.missing.items()]
    if missing:
        parts.append(Lines([f"  {line}" for line in missing], title="not known of this device"))
    keys = {
        "device": {"name": place.name, "kind": place.kind, "values": place.values, "missing": place.missing},
        "clock": place.timer.clock,
        "mode": place.mode,
        "complete": complete,
        "readings": list(readings),
        "datasheet": {"profile": datasheet, "compared": [_compared(one) for one in compared]},
        "profile": written,
    }
    return answer_of(
        "measure.device",
        verdict=_device_verdict(place, readings, written, complete),
        inputs=inputs,
        keys=keys,
        parts=parts,
        why=[f"Timed with {place.timer.clock}; medians, and the 20th to 80th percentile."],
        notes=notes,
        warnings=warnings,
    )


def _device_verdict(place: Any, readings: Sequence[Any], written: str | None, complete: bool) -> str:
    parts = [
        f"{show_reading(one.value, one.unit)} {'streaming' if one.quantity == 'stream' else 'multiplying'} {one.dtype}"
        for one in readings
        if one.quantity in ("stream", "matmul")
    ]
    head = f"{place.name}: {', '.join(parts) or plural(len(readings), 'reading')}"
    if not complete:
        return f"{head}; interrupted, the profile was left as it was."
    return f"{head}; written to {written}." if written else f"{head}."


def _readings_table(readings: Sequence[Any]) -> Table:
    rows = [
        (
            " ".join(filter(None, (QUANTITIES.get(one.quantity, one.quantity), one.dtype, one.mode))),
            show_reading(one.value, one.unit),
            f"{show_reading(one.low, one.unit)} .. {show_reading(one.high, one.unit)}" if one.low < one.high else "",
            str(one.samples),
            one.at,
        )
        for one in readings
    ]
    return Table(("measured", "median", "20 to 80 %", "samples", "on"), rows)


def _compared(one: Any) -> dict[str, Any]:
    return {
        "what": one.what,
        "datasheet": one.datasheet,
        "achieved": one.achieved,
        "unit": one.unit,
        "share": one.share,
        "wrong": one.wrong,
    }


def _compared_table(compared: Sequence[Any], datasheet: str | None) -> Table:
    rows = [
        (
            one.what,
            show_reading(one.datasheet, one.unit),
            show_reading(one.achieved, one.unit),
            show_share(one.share, 3) + (" (wrong figure)" if one.wrong else ""),
        )
        for one in compared
    ]
    return Table((f"against {datasheet or 'the clocks'}", "datasheet", "achieved", "share"), rows)


def link_answer(place: Any, reading: Any, *, inputs: Mapping[str, Any], written: str | None) -> Answer:
    """The all-reduce by message size, and what it says of the link."""
    rows = [
        (show_bytes(one.bytes), show_time(one.seconds), f"{show_time(one.p20, 3)} .. {show_time(one.p80, 3)}")
        for one in reading.messages
    ]
    if reading.bandwidth is None:
        rate = "no message was long enough to tell the bandwidth"
    else:
        low = show_bandwidth(reading.low, 3)
        interval = f"at least {low}" if reading.high is None else f"{low} .. {show_bandwidth(reading.high, 3)}"
        rate = f"{show_bandwidth(reading.bandwidth)} ({interval})"
    verdict = f"All-reduce of {reading.tp} devices ({reading.backend}): {show_time(reading.latency)} and {rate}"
    return answer_of(
        "measure.link",
        verdict=f"{verdict}; written to {written}." if written else f"{verdict}.",
        inputs=inputs,
        keys={
            "device": {"name": place.name, "kind": place.kind, "values": place.values, "missing": place.missing},
            "tp": reading.tp,
            "backend": reading.backend,
            "mode": reading.mode,
            "messages": [
                {"bytes": one.bytes, "s": one.seconds, "p20_s": one.p20, "p80_s": one.p80, "samples": one.samples}
                for one in reading.messages
            ],
            "latency_s": reading.latency,
            "bandwidth": reading.bandwidth,
            "bandwidth_low": reading.low,
            "bandwidth_high": reading.high,
            "layer_error": reading.layer_error,
            "profile": written,
        },
        parts=[Table(("message", "slowest rank", "20 to 80 %"), rows)],
        why=[f"A layer split over the devices differs from the whole one by {reading.layer_error:.1e} of its size."],
    )


FITTED = {
    "overhead": "overhead of a layer",
    "bandwidth": "bandwidth of weights",
    "peak": "compute rate",
    "width_factor": "overhead, several tokens over one",
    "exponent": "exponent of memory and compute",
    "cache_bandwidth": "bandwidth of the cache",
}


def curve_answer(
    place: Any,
    tables: Sequence[Any],
    summaries: Sequence[Any],
    *,
    inputs: Mapping[str, Any],
    written: str | None,
    complete: bool = True,
    notes: Sequence[str] = (),
) -> Answer:
    """Times by width of each model and load, and what their fit says.

    written   the profile that took the curves
    """
    parts: list[Table | Lines] = [_widths_table(table) for table in tables]
    parts += [_fit_table(one) for one in summaries if one.fit is not None]
    keys = {
        "device": {"name": place.name, "kind": place.kind, "values": place.values, "missing": place.missing},
        "clock": place.timer.clock,
        "complete": complete,
        "tables": [_table_keys(table) for table in tables],
        "fits": [_fit_keys(one) for one in summaries],
        "profile": written,
    }
    return answer_of(
        "measure.curve",
        verdict=_curve_verdict(tables, written, complete),
        inputs=inputs,
        keys=keys,
        parts=parts,
        why=[
            *map(_fit_sentence, summaries),
            f"Timed with {place.timer.clock}; medians, and the 20th to 80th percentile.",
        ],
        notes=notes,
        warnings=[text for one in summaries if (text := _drift_warning(one))],
    )


def _curve_verdict(tables: Sequence[Any], written: str | None, complete: bool) -> str:
    first = tables[0]
    ends = (
        f"{show_time(first.rows[0].seconds)} at width 1, {show_time(first.rows[-1].seconds)} at {first.rows[-1].width}"
    )
    load = f"batch {first.load.batch}, context {first.load.context}, {first.mode}"
    head = f"{first.model} {first.dtype}: {ends} ({load})"
    if not complete:
        return f"{head}; interrupted, the profile was left as it was."
    return f"{head}; {plural(len(tables), 'curve')} written to {written}." if written else f"{head}."


def _widths_table(table: Any) -> Table:
    energy = any(row.joules is not None for row in table.rows)
    first, batch = table.rows[0], table.load.batch
    rows = [
        (
            str(row.width),
            show_time(row.seconds),
            f"{show_time(row.p20, 3)} .. {show_time(row.p80, 3)}",
            f"{row.seconds / first.seconds:.2f}",
            f"{batch * row.width / row.seconds:.4g}",
            *([] if not energy else ["-" if row.joules is None else f"{row.joules / batch / row.width:.3g}"]),
        )
        for row in table.rows
    ]
    how = f"extrapolated from {' and '.join(map(str, table.depths))} layers" if table.extrapolated else table.mode
    title = f"{table.model} {table.dtype}, batch {batch}, context {table.load.context}, {table.mode}"
    title += f", {how}" if table.extrapolated else ""
    columns = ("width", "pass", "20 to 80 %", "x width 1", "tokens/s", *(["J/token"] if energy else []))
    return Table(columns, rows, title=title)


def _fit_table(summary: Any) -> Table:
    rows = [
        (
            FITTED[name],
            show_reading(one.value, one.unit) if one.known else "not identifiable",
            f"{show_reading(one.low, one.unit)} .. {show_reading(one.high, one.unit)}" if one.known else "",
        )
        for name, one in summary.fit.parameters.items()
    ]
    title = f"fit of {summary.model} {summary.dtype}, {summary.mode}: {summary.fit.passes} passes"
    return Table(("", "value", "95 % interval"), rows, title=title)


def _fit_sentence(summary: Any) -> str:
    if summary.fit is None:
        return f"No fit of {summary.model}, {summary.mode}: {summary.reason}."
    fit = summary.fit
    parts = [f"median {show_share(fit.median_error, 2)}, largest {show_share(fit.largest_error, 2)} on its own passes"]
    if summary.other_depth_error is not None:
        parts.append(f"{show_share(summary.other_depth_error, 2)} on a depth that was left out")
    if summary.again_error is not None:
        parts.append(f"{show_share(summary.again_error, 2)} on passes timed again at the end")
    off = ", ".join(parts)
    return f"The fit of {summary.model}, {summary.mode}, is off by {off}; the table holds where it has a time."


def _drift_warning(summary: Any) -> str | None:
    if summary.drift is None or abs(summary.drift) < 0.05:
        return None
    return (
        f"{summary.model}, {summary.mode}: timed again at the end, passes took {summary.drift:+.0%}: "
        "other work on the device, or clocks that changed"
    )


def _table_keys(table: Any) -> dict[str, Any]:
    batch = table.load.batch
    rows = [
        {
            "width": row.width,
            "s": row.seconds,
            "p20_s": row.p20,
            "p80_s": row.p80,
            "samples": row.samples,
            "tokens_per_s": batch * row.width / row.seconds,
            "joules": row.joules,
            "joules_per_token": None if row.joules is None else row.joules / batch / row.width,
        }
        for row in table.rows
    ]
    return {
        "model": table.model,
        "dtype": table.dtype,
        "mode": table.mode,
        "batch": batch,
        "context": table.load.context,
        "layers": table.layers,
        "depths": table.depths,
        "extrapolated": table.extrapolated,
        "drift": table.drift,
        "rows": rows,
    }


def _fit_keys(summary: Any) -> dict[str, Any]:
    fit = summary.fit
    parameters = (
        {}
        if fit is None
        else {
            name: {"value": one.value, "low": one.low, "high": one.high, "unit": one.unit, "known": one.known}
            for name, one in fit.parameters.items()
        }
    )
    return {
        "model": summary.model,
        "dtype": summary.dtype,
        "mode": summary.mode,
        "parameters": parameters,
        "passes": fit.passes if fit else 0,
        "median_error": fit.median_error if fit else None,
        "mean_error": fit.mean_error if fit else None,
        "largest_error": fit.largest_error if fit else None,
        "other_depth_error": summary.other_depth_error,
        "again_error": summary.again_error,
        "drift": summary.drift,
        "reason": summary.reason,
    }


def import_answer(
    file: str, curves: Sequence[Curve], *, inputs: Mapping[str, Any], written: str | None, notes: Sequence[str]
) -> Answer:
    """Curves that were read from others' measurements."""
    points = sum(len(curve.points) for curve in curves)
    where = f"written to {written}" if written else "not written: --out FILE takes the profile"
    return answer_of(
        "hardware.import",
        verdict=f"{file}: {plural(len(curves), 'curve')} of {plural(points, 'width')}; {where}.",
        inputs=inputs,
        keys={"curves": [curve.model_dump(mode="json") for curve in curves], "profile": written},
        parts=[curves_table(curves)],
        notes=notes,
    )


def curves_table(curves: Sequence[Curve]) -> Table:
    """One row a curve: its load, and what it costs at its ends."""
    rows = [
        (
            curve.model or f"{curve.params or 0:.4g} weights",
            curve.dtype,
            str(curve.batch),
            str(curve.context),
            curve.mode or "-",
            str(len(curve.points)),
            show_time(curve.points[0].ms / 1e3),
            f"{curve.points[-1].width}: {show_time(curve.points[-1].ms / 1e3)}",
        )
        for curve in curves
    ]
    return Table(("curve of", "dtype", "batch", "context", "mode", "widths", "width 1", "widest"), rows)
