"""A profile from readings: the datasheet stays the datasheet, and what is reached of it is a share beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import EnvironmentProblem, InputError
from ..hardware.profile import Attention, Cache, Compute, EfficiencyEntry, Hardware, Link, Memory, Overhead, Power
from .readings import Place, Reading, the

PLAUSIBLE = (0.4, 1.1)
"""Shares of a datasheet's figure that a device may reach; outside, the figure is wrong, not the device."""

FLOP_PER_CLOCK = {"8.0": 2048, "9.0": 4096, "10.0": 8192}
"""By compute capability: dense fp16 and bf16 FLOP of one multiprocessor and clock.

Source  A100 312 TFLOP/s of 108 at 1410 MHz; H100 989 of 132 at 1830; B200 2250 of 148 at 1850: NVIDIA datasheets."""

STAND_IN = {"fp16": "bf16", "bf16": "fp16", "tf32": "fp32"}
"""Whose weights were streamed, where a precision's own were not: they have as many bytes."""

MATRICES_PER_LAYER = 4
"""Products of one layer that the roofline counts: queries, keys and values; output; gate and up; down."""


@dataclass(frozen=True)
class Compared:
    """A datasheet's figure beside what was reached.

    wrong   whether the share is one that no device reaches, so that the measured figure stands in the profile
    """

    what: str
    datasheet: float
    achieved: float
    unit: str
    wrong: bool = False

    @property
    def share(self) -> float:
        return self.achieved / self.datasheet


@dataclass(frozen=True)
class Draft:
    """A profile in the making, with what has to be said about it."""

    hardware: Hardware
    compared: tuple[Compared, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass
class _Making:
    place: Place
    readings: Sequence[Reading]
    base: Hardware | None
    compared: list[Compared] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)

    def measured(self, *taken: Reading | None) -> str:
        """The source of a value that comes from these readings; by what they were taken stands once, under title."""
        parts = [f"{one.quantity}: {one.at}, {one.samples} samples" for one in taken if one is not None]
        return f"as title; {'; '.join(parts)}"

    def keep(self, section: str) -> None:
        """Take over what the datasheet's profile says of the sources of a section."""
        if self.base is not None:
            own = {key: text for key, text in self.base.sources.items() if key.split(".")[0] == section}
            self.sources.update(own)


def profile_of(place: Place, readings: Sequence[Reading], base: Hardware | None, *, name: str, origin: str) -> Draft:
    """The profile of a device.

    base     its datasheet profile, None where there is none: then peaks come from its clocks, or are those reached
    name     of the new profile
    origin   by what, when and how it was measured, for the sources
    """
    making = _Making(place, readings, base)
    making.sources["title"] = origin
    memory, compute = _memory(making), _compute(making)
    efficiency = _efficiency(making, memory, compute)
    making.keep("link")
    hardware = Hardware(
        name=name,
        title=f"{base.title or base.name if base else place.name}, measured",
        kind=base.kind if base else place.kind,
        confidence="high" if base else "medium",
        memory=memory,
        compute=compute,
        cache=_cache(making),
        link=base.link if base else Link(),
        power=_power(making),
        efficiency=efficiency,
        attention=_attention(making, memory),
        overhead=_overhead(making, efficiency),
        sources=making.sources,
    )
    _say_of_slowdowns(making)
    return Draft(hardware, tuple(making.compared), tuple(making.warnings))


def check_place(place: Place, base: Hardware | None) -> None:
    """Raises EnvironmentProblem where neither the system nor a datasheet says how much memory the device has."""
    if base is None and place.values.get("memory_bytes") is None:
        raise EnvironmentProblem(f"{place.name}: its memory is not known", hint="--gpu NAME takes a datasheet's")


def profile_name(path: str) -> str:
    """A profile's name from the name of its file.

    >>> profile_name("out/my gpu (2).yaml")
    'my-gpu-2'
    """
    stem = re.split(r"[/\\]", path)[-1].rsplit(".", 1)[0]
    return re.sub(r"[^A-Za-z0-9._+]+", "-", stem).strip("-._+")[:80] or "measured"


# -- sections ---------------------------------------------------------------------------------------------------------


def _memory(making: _Making) -> Memory:
    place, base = making.place, making.base
    taken = [one for one in making.readings if one.quantity in ("copy", "read", "stream")]
    best = max(taken, key=lambda one: one.value)
    by_clock = None if place.values.get("mig") else place.values.get("datasheet_bandwidth")
    stated = base.memory.bandwidth if base else by_clock
    making.sources["memory"] = making.measured(best)
    bandwidth = _round(best.value)
    if stated:
        wrong = not PLAUSIBLE[0] <= best.value / stated <= PLAUSIBLE[1]
        making.compared.append(Compared("memory bandwidth", stated, best.value, "bytes/s", wrong))
        if wrong:
            making.warnings.append(_wrong("bandwidth", best.value / stated))
        else:
            bandwidth = stated
            clocks = "bus width x 2 x memory clock, as the driver has them"
            making.sources["memory.bandwidth"] = base.source_of("memory.bandwidth") if base else clocks
    if base is not None:
        making.sources["memory.capacity"] = base.source_of("memory.capacity")
        return Memory(capacity=base.memory.capacity, bandwidth=bandwidth)
    check_place(place, base)
    making.sources["memory.capacity"] = "as the system has it"
    return Memory(capacity=_round(place.values["memory_bytes"]), bandwidth=bandwidth)


def _wrong(what: str, share: float) -> str:
    return (
        f"the datasheet's {what} cannot be right: {share:.0%} of it was reached; the profile holds what was measured "
        "(another memory size or board, or clocks that the driver does not tell rightly)"
    )


def _compute(making: _Making) -> Compute:
    """Peaks: the datasheet's, else clocks times known widths, else what was reached."""
    place = making.place
    reached = {one.dtype: one for one in making.readings if one.quantity == "matmul"}
    if making.base is not None:
        stated = making.base.compute.peaks()
        making.keep("compute")
    else:
        stated = _peaks_by_clock(place)
        said = dict.fromkeys(stated, "multiprocessors x clock x FLOP a clock, as the driver has them")
        making.sources.update({f"compute.{name}": text for name, text in said.items()})
    peaks = dict(stated)
    for name, reading in reached.items():
        share = reading.value / stated[name] if name in stated else None
        if share is not None:
            wrong = share > PLAUSIBLE[1]
            making.compared.append(Compared(f"{name} peak", stated[name], reading.value, "FLOP/s", wrong))
            if wrong:
                making.warnings.append(_wrong(f"{name} peak", share))
        if share is None or share > PLAUSIBLE[1]:
            peaks[name] = _round(reading.value)
            making.sources[f"compute.{name}"] = making.measured(reading)
    half = peaks.get("bf16") or peaks.get("fp16")
    if making.base is None and "fp8" in reached and half:
        peaks["fp8"] = 2 * half
        making.sources["compute.fp8"] = "twice the 16-bit peak, as on every GPU with fp8"
    if not peaks:
        raise InputError(f"{place.name} multiplied in none of the dtypes", hint="leave --dtype out to try all")
    return Compute(**peaks)


def _peaks_by_clock(place: Place) -> dict[str, float]:
    per_clock = FLOP_PER_CLOCK.get(str(place.values.get("compute_capability")))
    count, clock = place.values.get("multiprocessors"), place.values.get("sm_clock_hz")
    if not (per_clock and count and clock) or place.values.get("mig"):
        return {}
    half = _round(per_clock * count * clock)
    return {"fp16": half, "bf16": half}


def _efficiency(making: _Making, memory: Memory, compute: Compute) -> dict[str, EfficiencyEntry]:
    found = dict(making.base.efficiency) if making.base else {}
    making.keep("efficiency")
    peaks = compute.peaks()
    for name in peaks:
        product = the(making.readings, "matmul", dtype=name)
        stored = next((one for one in (name, STAND_IN.get(name)) if the(making.readings, "stream", dtype=one)), name)
        stream = the(making.readings, "stream", dtype=stored)
        values: dict[str, Any] = {}
        if product is not None:
            values["compute"] = _share(product.value / peaks[name])
        if stream is not None:
            latency = the(making.readings, "latency", dtype=stored)
            exponent = the(making.readings, "exponent", dtype=stored)
            values["memory"] = _share(stream.value / memory.bandwidth)
            # What the kind's default would add beside: these kernels were measured without.
            values |= {"tile": 1, "latency_per_input": 0.0, "steps": {}}
            values["latency"] = _round(latency.value) if latency else 0.0
            if exponent is not None:
                values["exponent"] = round(exponent.value, 2)
            making.sources[f"efficiency.{name}"] = making.measured(stream, latency, exponent, product)
        elif values:
            making.sources[f"efficiency.{name}"] = making.measured(product)
        if values:
            found[name] = found.get(name, EfficiencyEntry()).model_copy(update=values)
    return found


def _share(value: float) -> float:
    return min(1.0, float(f"{value:.4g}"))


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _attention(making: _Making, memory: Memory) -> Attention:
    floor, cache = the(making.readings, "attention"), the(making.readings, "cache")
    known = making.base.attention if making.base else Attention()
    making.keep("attention")
    if floor is None or cache is None:
        return known
    reached = {"floor": _round(floor.value), "memory": _share(cache.value / memory.bandwidth)}
    making.sources.update(dict.fromkeys((f"attention.{key}" for key in reached), making.measured(floor, cache)))
    return known.model_copy(update=reached)


def _overhead(making: _Making, efficiency: dict[str, EfficiencyEntry]) -> Overhead:
    """A layer's time less its products' and its attention's own; what a pass has beside its layers."""
    layer = the(making.readings, "layer", mode=making.place.mode)
    rest = the(making.readings, "pass", mode=making.place.mode)
    known = making.base.overhead if making.base else Overhead()
    making.keep("overhead")
    if layer is None or rest is None:
        return known
    floor = the(making.readings, "attention")
    own = efficiency.get(layer.dtype)
    counted = MATRICES_PER_LAYER * ((own.latency if own else None) or 0.0) + (floor.value if floor else 0.0)
    fixed = {"per_layer": _round(max(0.0, layer.value - counted)), "per_pass": _round(rest.value)}
    making.sources.update(dict.fromkeys((f"overhead.{key}" for key in fixed), making.measured(layer, rest)))
    return known.model_copy(update=fixed)


def _cache(making: _Making) -> Cache:
    base, size = making.base, making.place.cache_bytes
    if base is not None and base.cache.l2 is not None:
        making.sources["cache"] = base.source_of("cache.l2")
        return base.cache
    if not size:
        return Cache()
    making.sources["cache"] = "as the system has it"
    return Cache(l2=float(size))


def _power(making: _Making) -> Power:
    """The limit in force. The shares were measured at the clock that it leaves, so the clock counts no second time."""
    tdp = making.base.power.tdp if making.base else None
    limit = making.place.values.get("power_limit_w")
    if tdp is None and limit is None:
        return Power()
    making.sources["power"] = making.base.source_of("power.tdp") if making.base and tdp else "as the driver has it"
    if limit is not None:
        making.sources["power.limit"] = "limit in force, as the driver has it"
    capped = tdp is not None and limit is not None and limit < tdp
    if capped:
        making.sources["power.clock_share"] = "the shares were measured under this limit and hold its clock already"
    return Power(tdp=tdp, limit=limit, clock_share=1.0 if capped else None)


def _say_of_slowdowns(making: _Making) -> None:
    seen = sorted({reason for one in making.readings for reason in one.slowdowns})
    if seen:
        hit = ", ".join(
            dict.fromkeys(f"{one.quantity} {one.dtype}".strip() for one in making.readings if one.slowdowns)
        )
        making.warnings.append(f"the device was slowed down ({', '.join(seen)}) while measuring {hit}: measure again")
