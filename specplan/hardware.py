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

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .errors import InputError
from .units import (
    EXAMPLES,
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
    from .hardware_check import Problem

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "fp4")
"""What a device may multiply in; the keys of `compute`."""

WEIGHT_ONLY = ("w8a16", "w4a16")
"""8- and 4-bit weights multiplied in 16 bits: further keys of `efficiency`, since their kernels differ."""

Kind = Literal["gpu", "consumer_gpu", "apple", "npu", "cpu", "tpu", "accelerator"]

# -- quantities: text with a unit in a file, SI inside ----------------------------------------------------------------

_BARE = re.compile(r"[-+\d._]+(?:[eE][-+]?\d+)?")


def _wrong(what: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError("quantity", "{what}", {"what": what, "hint": hint})


def _reader(parse: Callable[[str], float], what: str, *, bare: bool) -> Callable[[object], object]:
    """A validator that reads text by `parse`; `bare` numbers need no unit. Numbers pass as SI."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str):
            return None if isinstance(value, bool) else value
        if not bare and _BARE.fullmatch(value.strip()) and value.strip() != "0":
            raise _wrong(f"{value[:60]!r} has no unit", f"write {EXAMPLES[what]}")
        try:
            return parse(value)
        except InputError as error:
            raise _wrong(error.message, error.hint) from None

    return read


def _quantity(parse: Callable[[str], float], what: str, *, bare: bool = False) -> Any:
    example = EXAMPLES[what].split(" or ")[0].split(", ")[0]
    schema = {"type": ["string", "number"] if bare else "string", "description": what, "examples": [example]}
    return Annotated[float, BeforeValidator(_reader(parse, what, bare=bare)), WithJsonSchema(schema)]


if TYPE_CHECKING:
    Bytes = float
    Bandwidth = float
    Rate = float
    Time = float
    Watts = float
    Share = float
    Count = float
    Tokens = int
else:
    Bytes = Annotated[_quantity(parse_bytes, "a size in bytes"), Field(gt=0)]
    Bandwidth = Annotated[_quantity(parse_bandwidth, "a bandwidth"), Field(gt=0)]
    Rate = Annotated[_quantity(parse_rate, "a compute rate"), Field(gt=0)]
    Time = Annotated[_quantity(parse_time, "a time"), Field(ge=0)]
    Watts = Annotated[_quantity(parse_power, "a power"), Field(gt=0)]
    Share = Annotated[_quantity(parse_share, "a share", bare=True), Field(gt=0, le=1)]
    Count = Annotated[_quantity(parse_count, "a number", bare=True), Field(gt=0)]
    Tokens = Annotated[
        int,
        BeforeValidator(_reader(parse_tokens, "a count of tokens", bare=True)),
        WithJsonSchema({"type": ["string", "integer"], "description": "a count of tokens", "examples": ["8k"]}),
    ]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


# -- the sections of a profile ----------------------------------------------------------------------------------------


class Memory(_Frozen):
    """Of one device. `capacity` in bytes; `bandwidth` in bytes/s, datasheet, reads."""

    capacity: Bytes
    bandwidth: Bandwidth


class Compute(_Frozen):
    """Dense peaks in FLOP/s, integers in OP/s (a multiply-add counts two). None: the device does not multiply in it."""

    fp32: Rate | None = None
    tf32: Rate | None = None
    fp16: Rate | None = None
    bf16: Rate | None = None
    fp8: Rate | None = None
    int8: Rate | None = None
    int4: Rate | None = None
    fp4: Rate | None = None

    @model_validator(mode="after")
    def _one_at_least(self) -> Compute:
        if not self.peaks():
            raise _wrong("no peak is given", "give one of " + ", ".join(PRECISIONS) + ", such as bf16: 312TFLOP/s")
        return self

    def peaks(self) -> dict[str, float]:
        """The peaks that the device has, by precision."""
        found = {name: getattr(self, name) for name in PRECISIONS}
        return {name: value for name, value in found.items() if value is not None}


class Cache(_Frozen):
    """`l2`: bytes of the last cache on the chip that all cores share, whatever its name there."""

    l2: Bytes | None = None


class Link(_Frozen):
    """One direction, per device. To the host, to another device; seconds of one small all-reduce."""

    host_bandwidth: Bandwidth | None = None
    device_bandwidth: Bandwidth | None = None
    all_reduce_latency: Time | None = None


class Power(_Frozen):
    """`tdp` of the datasheet, `limit` in force, both in W."""

    tdp: Watts | None = None
    limit: Watts | None = None


class EfficiencyEntry(_Frozen):
    """What linear layers reach in one precision; fields left out come from the kind's default.

    memory, compute   shares of bandwidth and of the dense peak
    exponent          q of ((bytes/..)^q + (FLOP/..)^q)^(1/q); 1 adds the two, large values take the larger
    tile              rows that the matrix kernel rounds up to; 1 for none
    latency           seconds that each linear kernel costs beside
    """

    memory: Share | None = None
    compute: Share | None = None
    exponent: float | None = Field(default=None, ge=1, le=100)
    tile: int | None = Field(default=None, ge=1, le=1024)
    latency: Time | None = None


class Attention(_Frozen):
    """Decode attention, seconds per layer.

    floor                   seconds of a layer's one-query attention, whatever the context
    memory                  share of bandwidth at which KV bytes beyond the floor are read
    multi_query_floor       where several queries over one cache use a kernel that does not split the cache:
    multi_query_bandwidth   its seconds per layer, and bytes/s over the KV bytes of a layer; absent where it splits
    """

    floor: Time | None = None
    memory: Share | None = None
    multi_query_floor: Time | None = None
    multi_query_bandwidth: Bandwidth | None = None


class Overhead(_Frozen):
    """Seconds: per decoder layer (norms, activation, residuals), and of the host per target pass, draft pass, round."""

    per_layer: Time | None = None
    per_pass: Time | None = None
    per_round: Time | None = None
    per_draft_pass: Time | None = None


class Point(_Frozen):
    """One measured pass: `width` new tokens per sequence, milliseconds."""

    width: int = Field(ge=1, le=1 << 20)
    ms: float = Field(gt=0)


class Curve(_Frozen):
    """Measured times of a pass by width, and what they were measured on.

    batch, context   sequences in the pass; tokens in the cache of each
    model, params    which model, or how many weights; tp devices
    points           widths rising, width 1 among them
    """

    dtype: str = Field(min_length=1, max_length=20)
    batch: int = Field(default=1, ge=1)
    context: Tokens = Field(default=0, ge=0)
    model: str | None = None
    params: Count | None = None
    tp: int = Field(default=1, ge=1)
    points: tuple[Point, ...]

    @field_validator("points")
    @classmethod
    def _rising_from_one(cls, points: tuple[Point, ...]) -> tuple[Point, ...]:
        widths = [point.width for point in points]
        if not 2 <= len(widths) <= 4096:
            raise _wrong(f"{len(widths)} points", "give from 2 to 4096 points")
        if any(b <= a for a, b in itertools.pairwise(widths)):
            raise _wrong("the widths do not rise", "sort the points by width, one for each")
        if widths[0] != 1:
            raise _wrong("there is no point of width 1", "measure width 1 too: ratios are to it")
        return points


class Hardware(_Frozen):
    """A device, as its profile states it. See the module's docstring; None is "not stated".

    aliases       names that mean this device, such as the driver's; exact but for case, blanks and underscores
    default_for   short names that other devices share but that resolve here, with the sentence to print
    devices       how many of these the driver shows for one card (an MI250X shows two)
    sources       where numbers come from, by section ("memory") or dotted key ("compute.int8")
    note          the sentence to print when a `default_for` name was asked for
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,79}$")
    title: str = Field(default="", max_length=200)
    kind: Kind
    aliases: tuple[str, ...] = ()
    default_for: dict[str, str] = {}
    confidence: Literal["high", "medium", "low"] = "medium"
    devices: int = Field(default=1, ge=1, le=4096)
    memory: Memory
    compute: Compute
    cache: Cache = Cache.model_construct()
    link: Link = Link.model_construct()
    power: Power = Power.model_construct()
    efficiency: dict[str, EfficiencyEntry] = {}
    attention: Attention = Attention.model_construct()
    overhead: Overhead = Overhead.model_construct()
    curves: tuple[Curve, ...] = ()
    sources: dict[str, str] = {}
    notes: str = ""
    _note: str | None = PrivateAttr(default=None)

    @field_validator("efficiency")
    @classmethod
    def _known_precisions(cls, value: dict[str, EfficiencyEntry]) -> dict[str, EfficiencyEntry]:
        known = (*PRECISIONS, *WEIGHT_ONLY)
        for key in value:
            if key not in known:
                raise _wrong(f"unknown precision {key[:40]!r}", "known: " + ", ".join(known))
        return value

    @property
    def note(self) -> str | None:
        return self._note

    def noted(self, note: str | None) -> Hardware:
        """The same device with a note to print."""
        copy = self.model_copy()
        copy._note = note
        return copy

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

    def efficiency_for(self, precision: str) -> Efficiency:
        """What linear layers reach when they multiply in `precision` ("w4a16": 4-bit weights in 16 bits).

        The profile's own fit comes first, the 16-bit formats standing in for each other and for weight-only
        ones; what it leaves out comes from the default of the kind. `source` says which.

        >>> load_hardware("a100-80gb-sxm").efficiency_for("fp16").memory
        0.799
        """
        key = _entry_key(self.efficiency, precision)
        own = self.efficiency.get(key) if key else None
        values, origin = _merged(self, own, f"efficiency.{key}", _kind_efficiency(self, precision))
        return Efficiency(**values, source=origin)

    def overhead_or_default(self) -> OverheadTimes:
        """Fixed times in seconds, from the profile or the default of the kind."""
        values, origin = _merged(self, self.overhead, "overhead", self._defaults().overhead)
        return OverheadTimes(**values, source=origin)

    def attention_or_default(self) -> AttentionTimes:
        """Attention constants, from the profile or the default of the kind."""
        values, origin = _merged(self, self.attention, "attention", self._defaults().attention)
        return AttentionTimes(**values, source=origin)

    def link_or_default(self) -> LinkTimes:
        """Link constants, from the profile or the default of the kind; memory shared with the host is its own link."""
        values, origin = _merged(self, self.link, "link", self._defaults().link)
        for key in ("host_bandwidth", "device_bandwidth"):
            values[key] = values[key] or self.memory.bandwidth
        return LinkTimes(**values, source=origin)

    def _defaults(self) -> KindDefaults:
        from .hardware_files import kind_defaults

        return kind_defaults(self.kind)


class KindDefaults(_Frozen):
    """What a kind of device reaches when its profile does not say; `efficiency` by precision, or "any"."""

    efficiency: dict[str, EfficiencyEntry]
    attention: Attention
    overhead: Overhead
    link: Link
    sources: dict[str, str]


class SparseFigure(_Frozen):
    """A headline figure with sparsity, which is not a dense peak: `value` in place of `dense`, on `chip`.

    named   other chips have this figure as a dense peak, so it counts only where the profile names the chip
    """

    chip: str
    precision: str
    value: Rate
    dense: Rate
    named: bool = False


class DefaultsFile(_Frozen):
    """`hardware/_defaults.yaml`: by kind, and the sparse figures that are often taken for dense ones."""

    kinds: dict[Kind, KindDefaults]
    sparse: tuple[SparseFigure, ...]


# -- complete values, with their source -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Efficiency:
    """`EfficiencyEntry` with nothing missing."""

    memory: float
    compute: float
    exponent: float
    tile: int
    latency: float
    source: str


@dataclass(frozen=True, slots=True)
class OverheadTimes:
    """`Overhead` with nothing missing."""

    per_layer: float
    per_pass: float
    per_round: float
    per_draft_pass: float
    source: str


@dataclass(frozen=True, slots=True)
class AttentionTimes:
    """`Attention` with nothing missing; None for both multi_query values where the kernel splits the cache."""

    floor: float
    memory: float
    multi_query_floor: float | None
    multi_query_bandwidth: float | None
    source: str


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """`Link` with nothing missing."""

    host_bandwidth: float
    device_bandwidth: float
    all_reduce_latency: float
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


def _merged(hardware: Hardware, own: BaseModel | None, section: str, default: BaseModel) -> tuple[dict[str, Any], str]:
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
    from .hardware_files import load

    return load(name_or_path)


def hardware_names() -> list[str]:
    """Names of the bundled devices, sorted."""
    from .hardware_files import names

    return names()


def override(hardware: Hardware, values: Mapping[str, object]) -> Hardware:
    """The device with fields replaced; keys are dotted, texts carry units, numbers are SI.

    The replaced fields' source becomes "given by the user".

    Raises  InputError naming the key.

    >>> override(load_hardware("h100-sxm"), {"memory.bandwidth": "3.9TB/s"}).memory.bandwidth
    3900000000000.0
    """
    from .hardware_files import override as replaced

    return replaced(hardware, values)


def check_hardware(text: str, *, where: str) -> list[Problem]:
    """Everything doubtful in a profile's text; empty when it is clean. See `hardware_check`."""
    from .hardware_check import check

    return check(text, where=where)


def profile_text(hardware: Hardware) -> str:
    """The profile as tidy YAML; reading it back gives the same device."""
    from .hardware_check import write_profile

    return write_profile(hardware)


def new_profile_text(like: Hardware) -> str:
    """A commented starting file for a device similar to `like`."""
    from .hardware_check import new_profile

    return new_profile(like)


def hardware_schema() -> dict[str, Any]:
    """JSON Schema of a profile, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Hardware.model_json_schema()}


def dotted_numbers(hardware: Hardware) -> Iterable[tuple[str, float]]:
    """Every number that needs a source, as ("memory.bandwidth", bytes/s); a curve counts as one."""
    for section in ("memory", "compute", "cache", "link", "power", "attention", "overhead"):
        for key, value in getattr(hardware, section):
            if value is not None:
                yield f"{section}.{key}", float(value)
    for precision, entry in hardware.efficiency.items():
        for key, value in entry:
            if value is not None:
                yield f"efficiency.{precision}.{key}", float(value)
    if hardware.curves:
        yield "curves", float(len(hardware.curves))
