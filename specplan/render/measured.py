"""The answers of `specplan measure device`, `measure curve` and `hardware import`.

What was measured comes as records of the measuring room, which needs torch and is not imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..hardware import Curve
from ..units import plural, show_bandwidth, show_rate, show_share, show_time
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
