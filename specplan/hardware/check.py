"""Judging a profile, and writing one.

`check` finds what a loader cannot: figures with sparsity taken for dense ones, decimal and binary
sizes mixed up, ratios between precisions that no such chip has, numbers without a source. A doubt
about one number is settled by a source line of its own (`sources: {compute.bf16: ...}`).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..base.records import field_types
from ..base.yaml import Node, inspect_as
from .profile import Hardware, SparseFigure, dotted_numbers, hardware_names, load_hardware


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding; `where` is FILE:LINE:COLUMN. An error makes the check fail, a warning asks for a look."""

    severity: Literal["error", "warning"]
    where: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class _Finding:
    """A problem at a dotted key. Unless it is final, a source line of that key's own settles it."""

    key: str
    what: str
    hint: str
    severity: Literal["error", "warning"] = "warning"
    final: bool = True


def check(text: str, *, where: str) -> list[Problem]:
    """Every problem of a profile's text, errors that hinder reading it first.

    where   name of the file, for messages

    >>> check("name: x", where="x.yaml")[0].what
    "'kind' is missing"
    """
    device, tree, flaws = inspect_as(Hardware, text)
    if device is None or tree is None:
        return [Problem("error", f"{where}:{flaw.line}:{flaw.column}", flaw.what, flaw.hint) for flaw in flaws]
    findings = [one for one in _findings(device, tree) if one.final or one.key not in device.sources]
    return [Problem(one.severity, _place(tree, one.key, where), one.what, one.hint) for one in findings]


def _place(tree: Node, key: str, where: str) -> str:
    node = tree
    for part in key.split("."):
        if part not in node.fields:
            break
        node = node.fields[part]
    return f"{where}:{node.line}:{node.column}"


def _findings(device: Hardware, tree: Node) -> Iterator[_Finding]:
    yield from _sparse(device)
    yield from _ratios(device)
    yield from _sizes(device, tree)
    yield from _ridge(device)
    yield from _unsourced(device)


HALF = ("bf16", "fp16")
"""One rate on nearly all devices, so a figure for the one is looked for under the other."""

SPARSE_TOLERANCE = 0.003
"""Datasheets round these figures to three or four digits."""


def _sparse(device: Hardware) -> Iterator[_Finding]:
    """Peaks that are a published figure with sparsity, or twice the dense peak of the bundled chip of that name."""
    named = set(re.findall(r"[a-z0-9]+", " ".join((device.name, device.title, *device.aliases)).casefold()))
    for key, peak in device.compute.peaks().items():
        figures = _published(key, peak)
        own = (_not_dense_on(key, one, final=True) for one in figures if _chip_words(one.chip) <= named)
        others = (_not_dense_on(key, one, final=False) for one in figures if not one.named)
        finding = next(own, None) or _doubled(named, key, peak) or next(others, None)
        if finding is not None:
            yield finding


def _published(key: str, peak: float) -> list[SparseFigure]:
    from .load import defaults

    return [one for one in defaults().sparse if key in _alike(one.precision) and _near(peak, one.value)]


def _not_dense_on(key: str, figure: SparseFigure, *, final: bool) -> _Finding:
    """Certain on the chip itself; on others an error until a source is named."""
    what = f"{figure.value / 1e12:g}T is the {figure.chip.upper()}'s {key} figure with sparsity, not dense"
    return _not_dense(key, what, figure.dense, final=final)


def _doubled(named: Set[str], key: str, peak: float) -> _Finding | None:
    """Compared with the bundled chips that the names hold; an RTX 4070 Ti, named as a 4070 too, keeps its own peaks.

    A source settles it where the chip knows no sparsity: it may be the figure of a card with two devices.
    """
    alike = [
        (one, one.compute.peaks()[k]) for one in _bundled_as(named) for k in _alike(key) if k in one.compute.peaks()
    ]
    twice = next((one for one, dense in alike if _near(peak, 2 * dense)), None)
    if twice is None or key == "fp32" or any(_near(peak, dense) for _, dense in alike):
        return None
    why = "with sparsity, narrower accumulation or two devices"
    what = f"{peak / 1e12:g}T is twice the dense {key} peak of {twice.name}: {why}"
    return _not_dense(key, what, peak / 2, final=_has_sparsity(twice))


def _not_dense(key: str, what: str, dense: float, *, final: bool) -> _Finding:
    hint = f"dense is {dense / 1e12:g}T"
    if not final:
        hint += f"; or name the source under sources: compute.{key}"
    return _Finding(f"compute.{key}", what, hint, "error", final)


def _near(peak: float, figure: float) -> bool:
    return abs(peak / figure - 1) < SPARSE_TOLERANCE


def _alike(key: str) -> tuple[str, ...]:
    return HALF if key in HALF else (key,)


def _bundled_as(named: Set[str]) -> list[Hardware]:
    """The bundled devices whose chip is among the words of a name."""
    return [load_hardware(name) for name in hardware_names() if _chip_words(name) <= named]


def _has_sparsity(device: Hardware) -> bool:
    """NVIDIA brought tf32 and 2:4 sparsity together (Ampere), AMD fp8 and 2:4 sparsity (CDNA 3, RDNA 4)."""
    peaks = device.compute.peaks()
    return device.kind in ("gpu", "consumer_gpu") and ("tf32" in peaks or "fp8" in peaks)


_VARIANT = re.compile(r"\d+gb|\d+core|gddr\d+x?|sxm|pcie|nvl")


def _chip_words(name: str) -> set[str]:
    """The words of a profile's name that say which chip it is, without the memory's size and the board's form.

    >>> sorted(_chip_words("a100-80gb-sxm"))
    ['a100']
    """
    return {word for word in name.split("-") if not _VARIANT.fullmatch(word)}


GPU_FP8_RATIO = 2.0
"""fp8 over 16-bit on Ada, Hopper, Blackwell, CDNA 3 and RDNA 4."""

RATIO_TOLERANCE = 0.03
"""Datasheets round (L40S: 733 over 362)."""

RATIOS = (
    ("fp32", HALF, 0.05, 1.0),
    ("tf32", HALF, 0.2, 1.0),
    ("fp8", HALF, 1.0, 8.0),
    ("int8", HALF, 0.05, 4.0),
    ("fp4", ("fp8",), 1.0, 4.0),
    ("int4", ("int8",), 1.0, 4.0),
)
"""(precision, what it is compared with, least, most). The least int8 is GB300's, 0.066 of bf16, the least fp32 A30's,
0.062; fp4 of the RTX 50 cards is four times fp8 with fp32 accumulation, fp8 of TPU 8i eight times bf16."""


def _ratios(device: Hardware) -> Iterator[_Finding]:
    peaks = device.compute.peaks()
    for key, others, least, most in RATIOS:
        base = next((one for one in others if one in peaks), None)
        if key not in peaks or base is None:
            continue
        ratio, name = peaks[key] / peaks[base], "the 16-bit peak" if base in HALF else base
        if key == "fp8" and device.kind in ("gpu", "consumer_gpu"):
            yield from _gpu_fp8(ratio)
        elif not least * (1 - RATIO_TOLERANCE) <= ratio <= most * (1 + RATIO_TOLERANCE):
            what = f"{key} is {ratio:.3g} times {name}; devices lie between {least:g} and {most:g}"
            hint = f"check the digits and units of both; or name the source under sources: compute.{key}"
            yield _Finding(f"compute.{key}", what, hint, "error", final=False)
    yield from _half_formats(peaks)


def _gpu_fp8(ratio: float) -> Iterator[_Finding]:
    if abs(ratio / GPU_FP8_RATIO - 1) > RATIO_TOLERANCE:
        what = f"fp8 is {ratio:.3g} times the 16-bit peak; GPUs have exactly 2"
        hint = "one of the two is with sparsity or another accumulation; both must be dense"
        yield _Finding("compute.fp8", what, hint, "error")


def _half_formats(peaks: dict[str, float]) -> Iterator[_Finding]:
    if all(key in peaks for key in HALF) and abs(peaks["fp16"] / peaks["bf16"] - 1) > 0.001:
        what = f"fp16 is {peaks['fp16'] / peaks['bf16']:.3g} times bf16; nearly all devices run both at one rate"
        hint = "take the rate with fp32 accumulation, dense; or name its source under sources: compute.bf16"
        yield _Finding("compute.bf16", what, hint, final=False)


def _sizes(device: Hardware, tree: Node) -> Iterator[_Finding]:
    """A capacity in GiB that looks like datasheet GB, or a GiB count written as GB."""
    capacity, text = device.memory.capacity, tree.at("memory", "capacity").scalar or ""
    whole_gib = capacity / 2**30
    if re.search(r"[KMGT]i", text) and abs(whole_gib / 8 - round(whole_gib / 8)) < 1e-9:
        hint = f"write {whole_gib:g}GB if the datasheet does, or name its source under sources: memory.capacity"
        what = f"{text} in binary units: datasheets count GB of 1e9 bytes"
        yield _Finding("memory.capacity", what, hint, final=False)
    elif "i" not in text and whole_gib > 4 and capacity % 8e9 and abs(whole_gib / round(whole_gib) - 1) < 5e-4:
        hint = f"write {round(whole_gib)}GB if that is the datasheet's figure"
        yield _Finding("memory.capacity", f"{text} is {round(whole_gib)} GiB converted", hint, final=False)
    if re.search(r"[KMGT]i", tree.at("memory", "bandwidth").scalar or ""):
        hint = "datasheets count GB/s of 1e9 bytes"
        yield _Finding("memory.bandwidth", "a bandwidth in binary units", hint, final=False)


RIDGE_RANGE = (1.0, 2000.0)
"""FLOP/byte between which every device known here lies: 2.4 for on-chip memory only, 1277 for a fast inference card."""


def _ridge(device: Hardware) -> Iterator[_Finding]:
    peaks = device.compute.peaks()
    key = next((key for key in ("bf16", "fp16", "fp32") if key in peaks), None)
    if key is None:
        return
    ridge = peaks[key] / device.memory.bandwidth
    if not RIDGE_RANGE[0] <= ridge <= RIDGE_RANGE[1]:
        what = f"{key} peak over bandwidth is {ridge:.3g} FLOP/byte; devices lie between 1 and 2000"
        hint = "check the units of both: GB/s or TB/s, TFLOP/s or PFLOP/s"
        yield _Finding(f"compute.{key}", what, hint, final=False)


def _unsourced(device: Hardware) -> Iterator[_Finding]:
    for key, _ in dotted_numbers(device):
        if not device.source_of(key).strip():
            section = key.split(".")[0]
            hint = f"say where it comes from under sources: {section}: ..."
            yield _Finding(key, f"{key} has no source", hint, "error")
    for key in device.sources:
        if key.split(".")[0] not in field_types(Hardware):
            what = f"sources: {key!r} is no section or key of a profile"
            yield _Finding("sources", what, "name a section such as memory", "error")


# -- writing ----------------------------------------------------------------------------------------------------------

_WIDTH = 116


def write_profile(device: Hardware) -> str:
    """The profile as YAML, keys in one order, quantities with units; reading it back gives the same device.

    >>> memory = {"capacity": "8GB", "bandwidth": "50GB/s"}
    >>> data = {"name": "x", "kind": "cpu", "memory": memory, "compute": {"fp32": "1TFLOP/s"}}
    >>> print(write_profile(Hardware.model_validate(data)), end="")
    name: x
    kind: cpu
    confidence: medium
    memory:
      capacity: 8GB
      bandwidth: 50GB/s
    compute:
      fp32: 1TFLOP/s
    """
    return "\n".join(_lines(device)) + "\n"


def _lines(device: Hardware) -> Iterator[str]:
    yield f"name: {device.name}"
    yield from _text("title", device.title)
    yield f"kind: {device.kind}"
    if device.aliases:
        yield "aliases:"
        yield from (f"  - {_scalar(alias)}" for alias in device.aliases)
    yield from _texts("default_for", device.default_for)
    yield f"confidence: {device.confidence}"
    if device.devices != 1:
        yield f"devices: {device.devices}"
    for section, show in _SECTIONS.items():
        yield from _section(section, dict(getattr(device, section)), show)
    yield from _efficiency(device)
    for section, show in _TIMES.items():
        yield from _section(section, dict(getattr(device, section)), show)
    yield from _curves(device)
    yield from _texts("sources", device.sources)
    yield from _text("notes", device.notes)


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """`value` in the first unit that leaves at least 1 and few digits; the last otherwise."""
    for scale, unit in steps:
        shown = round(value / scale, 6)
        if (shown >= 1 and shown * scale == value) or (abs(shown * scale / value - 1) < 1e-12 and shown >= 1):
            return f"{_number(shown)}{unit}"
    scale, unit = steps[-1]
    return f"{_number(value / scale)}{unit}"


def _bytes(key: str, value: float) -> str:
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")))


def _per_second(key: str, value: float) -> str:
    return _scaled(value, ((1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")))


def _rate(key: str, value: float) -> str:
    unit = "OP/s" if key.startswith("int") else "FLOP/s"
    return _scaled(value, ((1e12, f"T{unit}"), (1e9, f"G{unit}"), (1.0, unit)))


def _watts(key: str, value: float) -> str:
    if key == "clock_share":
        return _number(value)
    return f"{_number(value)}W"


def _seconds(value: float) -> str:
    if 0 < value < 1e-9:
        return f"{_number(round(value * 1e9, 6))}ns"
    return "0" if value == 0 else f"{_number(round(value * 1e6, 6))}us"


def _memory(key: str, value: float) -> str:
    return _bytes(key, value) if key == "capacity" else _per_second(key, value)


def _share_or_time(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return _flow({at: _number(number) for at, number in value.items()})
    if "bandwidth" in key:
        return _per_second(key, value)
    return _seconds(value) if re.search("latency|floor|per_", key) else _number(value)


_SECTIONS = {"memory": _memory, "compute": _rate, "cache": _bytes, "link": _share_or_time, "power": _watts}
_TIMES = {"attention": _share_or_time, "overhead": _share_or_time}


def _section(name: str, values: dict[str, Any], show: Any) -> Iterator[str]:
    stated = {key: value for key, value in values.items() if value is not None}
    if stated:
        yield f"{name}:"
        yield from (f"  {key}: {show(key, value)}" for key, value in stated.items())


def _flow(pairs: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"


def _efficiency(device: Hardware) -> Iterator[str]:
    if device.efficiency:
        yield "efficiency:"
    for precision, entry in device.efficiency.items():
        stated = {key: _share_or_time(key, value) for key, value in entry if value is not None}
        yield f"  {precision}: {_flow(stated)}"


def _curves(device: Hardware) -> Iterator[str]:
    if device.curves:
        yield "curves:"
    for curve in device.curves:
        head = {key: value for key, value in curve if key != "points" and value is not None}
        shown = {key: _scalar(value) if isinstance(value, str) else _number(value) for key, value in head.items()}
        first, *rest = shown.items()
        yield f"  - {first[0]}: {first[1]}"
        yield from (f"    {key}: {value}" for key, value in rest)
        yield "    points:"
        yield from (f"      - {{width: {point.width}, ms: {_number(point.ms)}}}" for point in curve.points)


_PLAIN = re.compile(r"[A-Za-z0-9(][^\n\r\t\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]*")
_SPECIAL = re.compile(r": |:$| #| $|\A(?:null|Null|NULL|~)\Z")


def _scalar(text: str) -> str:
    """`text` as one YAML scalar, quoted when it has to be."""
    if _PLAIN.fullmatch(text) and not _SPECIAL.search(text):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def _text(key: str, text: str, indent: str = "") -> Iterator[str]:
    """`key: text`; folded over several lines when it is long."""
    if not text:
        return
    line = f"{indent}{key}: {_scalar(text)}"
    folds = text.isprintable() and "  " not in text and text == text.strip()
    if len(line) <= _WIDTH or not folds:
        yield line
        return
    yield f"{indent}{key}: >-"
    inner = indent + "  "
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent=inner, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
    )


def _texts(key: str, texts: dict[str, str]) -> Iterator[str]:
    if texts:
        yield f"{key}:"
    for name, text in texts.items():
        yield from _text(_scalar(name), text, "  ") if text else iter([f'  {_scalar(name)}: ""'])


_INTRO = """\
# A device profile for specplan. Use it with --gpu FILE; `specplan hardware check FILE` looks for the usual mistakes.
# The numbers below are those of {like}: replace what differs, delete what you do not know, keep `sources` true.
# - Peaks are DENSE: half of a figure "with sparsity". A precision that the device lacks is left out.
# - GB is 1e9 bytes, GiB is 2^30. A quantity needs its unit: 2039GB/s, 312TFLOP/s, 40MB, 4.5us.
# - `aliases` hold the names that the driver prints; `confidence` is high, medium or low.
# - `efficiency` (shares reached of bandwidth and peak) is best measured; without it the kind's default is used:
#   kind is one of gpu, consumer_gpu, apple, npu, cpu, tpu, accelerator.
"""

_CURVE = """\
# - A measured curve takes the place of the formula for its model, dtype, batch and tp; say its source under `curves`:
# curves:
#   - dtype: bf16
#     model: llama-3.1-8b
#     batch: 1
#     context: 1k
#     points:
#       - {width: 1, ms: 6.4}
#       - {width: 8, ms: 6.6}
"""


def new_profile(like: Hardware) -> str:
    """A commented starting file with the numbers of `like`, which loads and checks clean as it stands."""
    plain = replace(
        like,
        name=f"my-{like.name}"[:80],
        title="",
        aliases=(),
        default_for={},
        notes="",
        sources={key: f"copied from {like.name}: {text}" for key, text in like.sources.items()},
    )
    return _INTRO.format(like=like.name) + write_profile(plain) + _CURVE
