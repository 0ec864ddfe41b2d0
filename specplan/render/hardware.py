"""The answers of `specplan hardware`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..base.units import plural, show_bandwidth, show_bytes, show_rate, show_time
from ..hardware.profile import PRECISIONS, Hardware
from .output import Answer, Lines, Table, answer_of


def _half_peak(device: Hardware) -> float | None:
    peaks = device.compute.peaks()
    return next((peaks[p] for p in ("bf16", "fp16", "fp32", "int8") if p in peaks), None)


def list_answer(devices: Sequence[Hardware]) -> Answer:
    """Name, memory, bandwidth, 16-bit peak and ridge of every profile."""
    rows = [_list_row(device) for device in devices]
    keys = {"devices": [_profile(device) for device in devices]}
    return answer_of(
        "hardware.list",
        verdict=f"{len(devices)} device profiles; specplan hardware show NAME prints one, --gpu FILE takes your own.",
        inputs={},
        keys=keys,
        parts=[Table(("name", "memory", "bandwidth", "16-bit peak", "ridge", "confidence"), rows)],
    )


def _list_row(device: Hardware) -> tuple[str, ...]:
    peak = _half_peak(device)
    return (
        device.name,
        show_bytes(device.memory.capacity),
        show_bandwidth(device.memory.bandwidth),
        "-" if peak is None else show_rate(peak),
        "-" if peak is None else f"{peak / device.memory.bandwidth:.0f}",
        device.confidence,
    )


def _profile(device: Hardware) -> dict[str, Any]:
    peak = _half_peak(device)
    ridge = None if peak is None else peak / device.memory.bandwidth
    return device.model_dump(mode="json", exclude_none=True) | {"ridge_flop_per_byte": ridge}


def show_answer(device: Hardware) -> Answer:
    """One profile: its numbers, what is used where it is silent, and its sources."""
    notes = [device.note] if device.note else []
    keys = {"profile": _profile(device), "effective": _effective(device)}
    parts: list[Table | Lines] = [Table(("", device.name), list(_rows(device))), _efficiency_table(device)]
    names = [f"  {alias}" for alias in device.aliases]
    if names:
        parts.append(Lines(names, title="also called"))
    memory = f"{show_bandwidth(device.memory.bandwidth)}, {show_bytes(device.memory.capacity)}"
    return answer_of(
        "hardware.show",
        verdict=f"{device.title or device.name}: {memory}.",
        inputs={"name": device.name},
        keys=keys,
        parts=parts,
        assumptions=[(key, text) for key, text in device.sources.items()],
        notes=notes,
        why=[device.notes.strip()] if device.notes.strip() else [],
    )


def _rows(device: Hardware) -> Iterator[tuple[str, str]]:
    yield "kind", device.kind
    yield "memory", show_bytes(device.memory.capacity)
    yield "bandwidth", show_bandwidth(device.memory.bandwidth)
    for precision, peak in device.compute.peaks().items():
        unit = "OP/s" if precision.startswith("int") else "FLOP/s"
        yield f"{precision} peak, ridge", f"{show_rate(peak, unit)}, {peak / device.memory.bandwidth:.0f}"
    if device.cache.l2 is not None:
        yield "last-level cache", show_bytes(device.cache.l2)
    if device.power.tdp is not None:
        yield "power", f"{device.power.tdp:.0f} W"
    overhead, attention = device.overhead_or_default(), device.attention_or_default()
    yield (
        "overhead a layer, pass, round",
        ", ".join(show_time(t) for t in (overhead.per_layer, overhead.per_pass, overhead.per_round)),
    )
    yield "attention floor a layer", show_time(attention.floor)


def _efficiency_table(device: Hardware) -> Table:
    rows = []
    for precision in PRECISIONS:
        if precision in device.compute.peaks():
            e = device.efficiency_for(precision)
            rows.append(
                (
                    precision,
                    f"{e.memory:.2f}",
                    f"{e.compute:.2f}",
                    f"{e.exponent:g}",
                    str(e.tile),
                    show_time(e.latency),
                    e.source.partition(": ")[0],
                )
            )
    return Table(("efficiency", "memory", "compute", "exponent", "tile", "a kernel", "source"), rows)


def _effective(device: Hardware) -> dict[str, Any]:
    return {
        "efficiency": {p: device.efficiency_for(p) for p in device.compute.peaks()},
        "overhead": device.overhead_or_default(),
        "attention": device.attention_or_default(),
        "link": device.link_or_default(),
    }


def check_answer(file: str, problems: Sequence[Any]) -> Answer:
    """What a profile's check found."""
    errors = sum(problem.severity == "error" for problem in problems)
    lines = [line for p in problems for line in (f"{p.where}: {p.severity}: {p.what}", f"  hint: {p.hint}")]
    warnings = len(problems) - errors
    count = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}" if problems else "no problems"
    return answer_of(
        "hardware.check",
        verdict=f"{file}: {count}.",
        inputs={"file": file},
        keys={"ok": errors == 0, "problems": list(problems)},
        parts=[Lines(lines)] if lines else [],
    )
