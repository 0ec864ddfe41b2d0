"""What a device is: its datasheet peaks, how much of them it reaches, and what a pass costs beside them.

A `Hardware` is read from one YAML file (`hardware/*.yaml`, or the user's own). Inside everything is SI:
bytes, bytes/s, FLOP/s (OP/s for integers), seconds, W. Peaks are dense, per device, and never a
stand-in for one another: a precision that the device lacks is absent.

Datasheet figures and what is reached of them stay apart. `efficiency` holds shares, fitted to measured
kernels where a source exists; where the file has none, the default of the device's kind is used and
says so in its `source`.

    >>> a100 = load_hardware("a100-80gb-sxm")
    >>> a100.memory.bandwidth, a100.compute.bf16
    (2039000000000.0, 312000000000000.0)
    >>> a100.peak(("fp8", "bf16"))
    ('bf16', 312000000000000.0)
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..base.errors import InputError
from ..base.records import Check, Limits, Quantity, Record, adapter
from ..base.units import (
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_power,
    parse_rate,
    parse_share,
    parse_time,
    parse_tokens,
)

if TYPE_CHECKING:
    from .check import Problem

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4")
"""What a device may multiply in; the keys of `compute`."""

WEIGHT_ONLY = ("w8a16", "w4a16")
"""8- and 4-bit weights multiplied in 16 bits: further keys of `efficiency`, since their kernels differ."""

Kind = Literal["gpu", "consumer_gpu", "apple", "npu", "cpu", "tpu", "accelerator"]

# -- quantities: text with a unit in a file, SI inside ----------------------------------------------------------------

Bytes = Annotated[float, Limits(gt=0), Quantity(parse_bytes, "a size in bytes")]
Bandwidth = Annotated[float, Limits(gt=0), Quantity(parse_bandwidth, "a bandwidth")]
Rate = Annotated[float, Limits(gt=0), Quantity(parse_rate, "a compute rate")]
Time = Annotated[float, Limits(ge=0), Quantity(parse_time, "a time")]
Watts = Annotated[float, Limits(gt=0), Quantity(parse_power, "a power")]
Share = Annotated[float, Limits(gt=0, le=1), Quantity(parse_share, "a share", bare=True)]
Count = Annotated[float, Limits(gt=0), Quantity(parse_count, "a number", bare=True)]
Tokens = Annotated[int, Limits(ge=0), Quantity(parse_tokens, "a count of tokens", bare=True)]


# -- the sections of a profile ----------------------------------------------------------------------------------------


class Memory(Record):
    """Of one device. `capacity` in bytes; `bandwidth` in bytes/s, datasheet, reads."""

    capacity: Bytes
    bandwidth: Bandwidth


class Compute(Record):
    """Dense peaks in FLOP/s, integers in OP/s (a multiply-add counts two). None: the device does not multiply in it."""

    fp32: Rate | None = None
    tf32: Rate | None = None
    fp16: Rate | None = None
    bf16: Rate | None = None
    fp8: Rate | None = None
    int8: Rate | None = None
    int4: Rate | None = None
    fp4: Rate | None = None

    def peaks(self) -> dict[str, float]:
        """The peaks that the device has, by precision."""
        found = {name: getattr(self, name) for name in PRECISIONS}
        return {name: value for name, value in found.items() if value is not None}


def _one_peak_at_least(compute: Compute) -> None:
    if not compute.peaks():
        hint = "give one of " + ", ".join(PRECISIONS) + ", such as bf16: 312TFLOP/s"
        raise InputError("no peak is given", hint=hint)


class Cache(Record):
    """`l2`: bytes of the last cache on the chip that all cores share, whatever its name there."""

    l2: Bytes | None = None


def _device_counts(shares: Mapping[str, float]) -> None:
    """Raises InputError unless the keys are counts of devices that rise from 2 up."""
    counts = [int(key) if re.fullmatch(r"[1-9]\d{0,4}", key) else 0 for key in shares]
    if any(b <= a for a, b in itertools.pairwise([1, *counts])):
        raise InputError("counts of devices do not rise", hint="write {2: 0.6, 8: 0.4}: devices from 2 up")


class Link(Record):
    """One direction, per device. To the host, to another device.

    all_reduce_latency      seconds of one small all-reduce between two devices
    all_reduce_per_device   seconds more for each device beyond two
    all_reduce_share        by devices from which it holds: of `device_bandwidth`, what an all-reduce of 1 MB reaches
    """

    host_bandwidth: Bandwidth | None = None
    device_bandwidth: Bandwidth | None = None
    all_reduce_latency: Time | None = None
    all_reduce_per_device: Time | None = None
    all_reduce_share: Annotated[dict[str, Share], Check(_device_counts)] | None = None


class Power(Record):
    """`tdp` of the datasheet and `limit` in force in W; `clock_share`, the clock under load over that of the peaks."""

    tdp: Watts | None = None
    limit: Watts | None = None
    clock_share: Share | None = None


def _rising_steps(steps: Mapping[str, float]) -> None:
    """Raises InputError unless rows rise from 2 up and factors from 1 up, so that a wider pass is never cheaper."""
    rows = [int(key) if re.fullmatch(r"[1-9]\d{0,6}", key) else 0 for key in steps]
    factors = list(steps.values())
    if any(b <= a for a, b in itertools.pairwise([1, *rows])) or factors != sorted(factors):
        raise InputError("steps do not rise", hint="write {17: 1.05, 65: 1.2}: rows from 2 up, factors from 1 up")


class EfficiencyEntry(Record):
    """What linear layers reach in one precision; fields left out come from the kind's default.

    memory, compute   shares of bandwidth and of the dense peak
    exponent          q of ((bytes/..)^q + (FLOP/..)^q)^(1/q); 1 adds the two, large values take the larger
    tile              rows that the matrix kernel rounds up to; 1 for none
    latency           seconds that each linear kernel costs beside
    latency_per_input seconds more for each element of its input width, since that loop is not spread over the chip
    steps             by rows from which it holds, a factor on the bytes' and FLOP's time: kernels change in stairs
    """

    memory: Share | None = None
    compute: Share | None = None
    exponent: Annotated[float, Limits(ge=1, le=100)] | None = None
    tile: Annotated[int, Limits(ge=1, le=1024)] | None = None
    latency: Time | None = None
    latency_per_input: Time | None = None
    steps: Annotated[dict[str, Annotated[float, Limits(ge=1, le=10)]], Check(_rising_steps)] | None = None


class Attention(Record):
    """Decode attention, seconds per layer.

    floor                   seconds of a layer's one-query attention, whatever the context
    memory                  share of bandwidth at which KV bytes beyond the floor are read
    multi_query_floor       where several queries over one cache use a kernel that does not split the cache:
    multi_query_bandwidth   its seconds per layer, and bytes/s of each KV head of each sequence; absent where it splits
    """

    floor: Time | None = None
    memory: Share | None = None
    multi_query_floor: Time | None = None
    multi_query_bandwidth: Bandwidth | None = None


class Overhead(Record):
    """Seconds: per decoder layer (norms, activation, residuals), and of the host per target pass, draft pass, round.

    per_expert_layer   of a layer with experts: routing, sorting and scheduling beside the products' own latency
    """

    per_layer: Time | None = None
    per_expert_layer: Time | None = None
    per_pass: Time | None = None
    per_round: Time | None = None
    per_draft_pass: Time | None = None


class Point(Record):
    """One measured pass: `width` new tokens per sequence, milliseconds."""

    width: Annotated[int, Limits(ge=1, le=1 << 20)]
    ms: Annotated[float, Limits(gt=0)]


def _rising_from_one(points: Sequence[Point]) -> None:
    widths = [point.width for point in points]
    if not 2 <= len(widths) <= 4096:
        raise InputError(f"{len(widths)} points", hint="give from 2 to 4096 points")
    if any(b <= a for a, b in itertools.pairwise(widths)):
        raise InputError("the widths do not rise", hint="sort the points by width, one for each")
    if widths[0] != 1:
        raise InputError("there is no point of width 1", hint="measure width 1 too: ratios are to it")


class Curve(Record):
    """Measured times of a pass by width, and what they were measured on.

    batch, context   sequences in the pass; tokens in the cache of each
    model, params    which model, or how many weights; tp devices
    mode             graph: kernels replayed as one CUDA graph; eager: launched one by one; None: not said
    points           widths rising, width 1 among them
    """

    dtype: Annotated[str, Limits(min_length=1, max_length=20)]
    batch: Annotated[int, Limits(ge=1)] = 1
    context: Tokens = 0
    model: str | None = None
    params: Count | None = None
    tp: Annotated[int, Limits(ge=1)] = 1
    mode: Literal["graph", "eager"] | None = None
    points: Annotated[tuple[Point, ...], Check(_rising_from_one)]


def _known_precisions(efficiency: Mapping[str, EfficiencyEntry]) -> None:
    known = (*PRECISIONS, *WEIGHT_ONLY)
    for key in efficiency:
        if key not in known:
            raise InputError(f"unknown precision {key[:40]!r}", hint="known: " + ", ".join(known))


class Hardware(Record):
    """A device, as its profile states it. See the module's docstring; None is "not stated".

    aliases       names that mean this device, such as the driver's; exact but for case, blanks and underscores
    default_for   short names that other devices share but that resolve here, with the sentence to print
    devices       how many of these the driver shows for one card (an MI250X shows two)
    sources       where numbers come from, by section ("memory") or dotted key ("compute.int8")
    note          the sentence to print when a `default_for` name was asked for
    """

    name: Annotated[str, Limits(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,79}$")]
    title: Annotated[str, Limits(max_length=200)] = ""
    kind: Kind
    aliases: tuple[str, ...] = ()
    default_for: dict[str, str] = field(default_factory=dict)
    confidence: Literal["high", "medium", "low"] = "medium"
    devices: Annotated[int, Limits(ge=1, le=4096)] = 1
    memory: Memory
    compute: Annotated[Compute, Check(_one_peak_at_least)]
    cache: Cache = Cache()
    link: Link = Link()
    power: Power = Power()
    efficiency: Annotated[dict[str, EfficiencyEntry], Check(_known_precisions)] = field(default_factory=dict)
    attention: Attention = Attention()
    overhead: Overhead = Overhead()
    curves: tuple[Curve, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    notes: str = ""

    @property
    def note(self) -> str | None:
        note: str | None = vars(self).get("_note")
        return note

    def noted(self, note: str | None) -> "Hardware":
        """The same device with a note to print."""
        return self.model_copy(update={"_note": note})

    def peak(self, precisions: Sequence[str]) -> tuple[str, float]:
        """The first of `precisions` that the device has, and its dense peak in FLOP/s.

        Never falls back to a precision that is not in the list.

        Raises  InputError naming what the device has.

        >>> load_hardware("h100-sxm").peak(("fp8", "bf16"))
        ('fp8', 1978900000000000.0)
        """
        peaks = self.compute.peaks()
        for name in precisions:
            if name in peaks:
                return name, peaks[name]
        wanted, known = " or ".join(precisions), ", ".join(peaks)
        raise InputError(
            f"{self.name} has no {wanted} peak",
            hint=f"it has {known}; --set compute.bf16=312TFLOP/s and the like add one",
        )

    def source_of(self, key: str) -> str:
        """The source of a dotted key: its own, or its section's; "" when the file states none.

        A source that reads "as memory", with more behind it or not, is replaced by that section's.

        >>> load_hardware("a100-80gb-sxm").source_of("memory.bandwidth")[:6]
        'NVIDIA'
        """
        parts = key.split(".")
        prefixes = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        text = next((self.sources[prefix] for prefix in prefixes if prefix in self.sources), "")
        same = re.match(r"as ([a-z0-9_.]+)(?=;|$)", text)
        return self.sources[same[1]] + text[same.end() :] if same and same[1] in self.sources else text

    def efficiency_for(self, precision: str) -> "Efficiency":
        """What linear layers reach when they multiply in `precision` ("w4a16": 4-bit weights in 16 bits).

        The profile's own fit comes first, the 16-bit formats standing in for each other and for weight-only
        ones; what it leaves out comes from the default of the kind. `source` says which.

        >>> load_hardware("a100-80gb-sxm").efficiency_for("fp16").memory
        0.816
        """
        key = _entry_key(self.efficiency, precision)
        own = self.efficiency.get(key) if key else None
        values, origin = _merged(self, own, f"efficiency.{key}", _kind_efficiency(self, precision))
        steps = values.pop("steps") or {}
        values["latency_per_input"] = values["latency_per_input"] or 0.0
        return Efficiency(**values, step_rows=tuple(map(int, steps)), step_factors=tuple(steps.values()), source=origin)

    def overhead_or_default(self) -> "OverheadTimes":
        """Fixed times in seconds, from the profile or the default of the kind."""
        values, origin = _merged(self, self.overhead, "overhead", self._defaults().overhead)
        return OverheadTimes(**values, source=origin)

    def attention_or_default(self) -> "AttentionTimes":
        """Attention constants, from the profile or the default of the kind."""
        values, origin = _merged(self, self.attention, "attention", self._defaults().attention)
        return AttentionTimes(**values, source=origin)

    def link_or_default(self) -> "LinkTimes":
        """Link constants, from the profile or the default of the kind; memory shared with the host is its own link."""
        values, origin = _merged(self, self.link, "link", self._defaults().link)
        for key in ("host_bandwidth", "device_bandwidth"):
            values[key] = values[key] or self.memory.bandwidth
        return LinkTimes(**values, source=origin)

    def _defaults(self) -> "KindDefaults":
        from .load import kind_defaults

        return kind_defaults(self.kind)


class KindDefaults(Record):
    """What a kind of device reaches when its profile does not say; `efficiency` by precision, or "any"."""

    efficiency: dict[str, EfficiencyEntry]
    attention: Attention
    overhead: Overhead
    link: Link
    sources: dict[str, str]


class SparseFigure(Record):
    """A headline figure with sparsity, which is not a dense peak: `value` in place of `dense`, on `chip`.

    named   other chips have this figure as a dense peak, so it counts only where the profile names the chip
    """

    chip: str
    precision: str
    value: Rate
    dense: Rate
    named: bool = False


class DefaultsFile(Record):
    """`hardware/_defaults.yaml`: by kind, and the sparse figures that are often taken for dense ones."""

    kinds: dict[Kind, KindDefaults]
    sparse: tuple[SparseFigure, ...]


# -- complete values, with their source -------------------------------------------------------------------------------


class Efficiency(Record):
    """`EfficiencyEntry` with nothing missing."""

    memory: float
    compute: float
    exponent: float
    tile: int
    latency: float
    latency_per_input: float
    step_rows: tuple[int, ...]
    step_factors: tuple[float, ...]
    source: str


class OverheadTimes(Record):
    """`Overhead` with nothing missing."""

    per_layer: float
    per_expert_layer: float
    per_pass: float
    per_round: float
    per_draft_pass: float
    source: str


class AttentionTimes(Record):
    """`Attention` with nothing missing; None for both multi_query values where the kernel splits the cache."""

    floor: float
    memory: float
    multi_query_floor: float | None
    multi_query_bandwidth: float | None
    source: str


class LinkTimes(Record):
    """`Link` with nothing missing."""

    host_bandwidth: float
    device_bandwidth: float
    all_reduce_latency: float
    all_reduce_per_device: float
    all_reduce_share: dict[str, float]
    source: str


_SIXTEEN = ("bf16", "fp16")
_AS_SIXTEEN = (*_SIXTEEN, *WEIGHT_ONLY)


def _entry_key(entries: Mapping[str, object], precision: str) -> str | None:
    """The key of the fit to use for `precision`."""
    if precision in entries or precision not in _AS_SIXTEEN:
        return precision if precision in entries else None
    return next((key for key in _SIXTEEN if key in entries), None)


def _kind_efficiency(hardware: Hardware, precision: str) -> EfficiencyEntry:
    """The kind's entry. The tile of 64 rows is dropped on devices with fp8: from Hopper on kernels show none."""
    entries = hardware._defaults().efficiency
    entry = entries.get(_entry_key(entries, precision) or "any", entries["any"])
    if hardware.compute.fp8 is None:
        return entry
    return entry.model_copy(update={"tile": 1})


def _merged(hardware: Hardware, own: Record | None, section: str, default: Record) -> tuple[dict[str, Any], str]:
    """Every field, the profile's before the default's, and where they come from."""
    stated = dict(own) if own is not None else {}
    values = {key: value if stated.get(key) is None else stated[key] for key, value in default}
    used = [key for key, value in default if value is not None and stated.get(key) is None]
    if len(used) < len(values) and any(value is not None for value in stated.values()):
        own_text = f"{hardware.name}: {hardware.source_of(section) or 'stated in the profile, no source'}"
        return values, own_text + (f"; {', '.join(used)}: {_default_text(hardware, section)}" if used else "")
    return values, _default_text(hardware, section)


def _default_text(hardware: Hardware, section: str) -> str:
    head = section.partition(".")[0]
    return f"default for kind {hardware.kind}: {hardware._defaults().sources[head]}"


# -- loading ----------------------------------------------------------------------------------------------------------


def load_hardware(name_or_path: str | Path) -> Hardware:
    """The profile of a bundled device, by name or alias, or of the user's own YAML file.

    A path ends in .yaml or .yml, holds a slash, or exists. A name is exact but for case, blanks and
    underscores, so that a laptop part or another memory size never stands in.

    Raises  InputError with the nearest names; with the candidates when several devices share the name.

    >>> load_hardware("NVIDIA H200").memory.bandwidth
    4800000000000.0
    """
    from .load import load

    return load(name_or_path)


def hardware_names() -> list[str]:
    """Names of the bundled devices, sorted."""
    from .load import names

    return names()


def override(hardware: Hardware, values: Mapping[str, object]) -> Hardware:
    """The device with fields replaced; keys are dotted, texts carry units, numbers are SI.

    The replaced fields' source becomes "given by the user".

    Raises  InputError naming the key.

    >>> override(load_hardware("h100-sxm"), {"memory.bandwidth": "3.9TB/s"}).memory.bandwidth
    3900000000000.0
    """
    from .load import override as replaced

    return replaced(hardware, values)


def check_hardware(text: str, *, where: str) -> "list[Problem]":
    """Everything doubtful in a profile's text; empty when it is clean. See `hardware_check`."""
    from .check import check

    return check(text, where=where)


def profile_text(hardware: Hardware) -> str:
    """The profile as tidy YAML; reading it back gives the same device."""
    from .check import write_profile

    return write_profile(hardware)


def new_profile_text(like: Hardware) -> str:
    """A commented starting file for a device similar to `like`."""
    from .check import new_profile

    return new_profile(like)


def hardware_schema() -> dict[str, Any]:
    """JSON Schema of a profile, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **adapter(Hardware).json_schema()}


def dotted_numbers(hardware: Hardware) -> Iterable[tuple[str, float]]:
    """Every number that needs a source, as ("memory.bandwidth", bytes/s); a curve counts as one."""
    for section in ("memory", "compute", "cache", "link", "power", "attention", "overhead"):
        for key, value in getattr(hardware, section):
            if value is not None and not isinstance(value, dict):
                yield f"{section}.{key}", float(value)
    for precision, entry in hardware.efficiency.items():
        for key, value in entry:
            if value is not None and not isinstance(value, dict):
                yield f"efficiency.{precision}.{key}", float(value)
    if hardware.curves:
        yield "curves", float(len(hardware.curves))
