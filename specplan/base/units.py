"""Text <-> numbers: the only place where a unit is read or shown.

Inside specplan everything is SI: s, bytes, FLOP, FLOP/s, bytes/s, W. GB is 1e9 bytes and GiB is
2^30; they are never mixed. `k` is 1024 in counts of tokens and 1000 everywhere else.

    >>> parse_bandwidth("3350GB/s"), parse_bytes("80 GiB"), parse_tokens("8k"), parse_count("13B")
    (3350000000000.0, 85899345920.0, 8192, 13000000000.0)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from .errors import InputError

DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)\s*(.*?)\s*\Z", re.DOTALL)


def _split(text: str, what: str) -> tuple[float, str]:
    """The leading number of `text` and the unit behind it."""
    match = _NUMBER.match(str(text)) if len(str(text)) <= 100 else None
    if not match:
        raise InputError(f"{str(text)[:60]!r} is not {what}", hint=f"write {EXAMPLES[what]}")
    try:
        value = float(match[1])
    except ValueError:
        raise InputError(f"{str(text)[:60]!r} is not {what}", hint=f"write {EXAMPLES[what]}") from None
    if not math.isfinite(value):
        raise InputError(f"{str(text)[:60]!r} is too large for {what}", hint=f"write {EXAMPLES[what]}")
    return value, match[2]


EXAMPLES = {
    "a size in bytes": "80GB, 80GiB or 5e9",
    "a bandwidth": "2039GB/s or 3.35TB/s",
    "a compute rate": "312TFLOP/s or 624TOP/s",
    "a time": "12.75ms, 350us or 2s",
    "a number": "13e9, 13B or 500M",
    "a count of tokens": "2048 or 8k (8192)",
    "a power": "400W",
    "a share": "0.01 or 1%",
    "a whole number": "14",
}


def _scaled(text: str, what: str, suffix: re.Pattern[str], binary: bool) -> float:
    value, unit = _split(text, what)
    match = suffix.fullmatch(unit)
    prefix = match[1] if match else None
    scale = None
    if prefix is not None:
        scale = DECIMAL.get(prefix, BINARY.get(prefix) if binary else None)
    if scale is None:
        raise InputError(f"{str(text)[:60]!r}: unknown unit {unit[:20]!r} for {what}", hint=f"write {EXAMPLES[what]}")
    scaled = value * scale
    if not math.isfinite(scaled):
        raise InputError(f"{str(text)[:60]!r} is too large for {what}", hint=f"write {EXAMPLES[what]}")
    return scaled


_BYTES = re.compile(r"([KMGT]i|[kKMGTP]?)(?:B|bytes?)?")
_BANDWIDTH = re.compile(r"([KMGT]i|[kKMGTP]?)(?:B|bytes?)?/s")
_RATE = re.compile(r"([kKMGTP]?)(?:FLOP/s|FLOPS|FLOPs/s|FLOPs|OP/s|OPS|OPs)", re.IGNORECASE)
_COUNT = re.compile(r"([KMGT]i|[kKMGBTP]?)")
_POWER = re.compile(r"([kKM]?)W")


def parse_bytes(text: str) -> float:
    """Bytes from `80GB`, `80 GiB`, `5e9`; decimal prefixes are powers of 1000."""
    return _scaled(text, "a size in bytes", _BYTES, True)


def parse_bandwidth(text: str) -> float:
    """Bytes per second from `2039GB/s` or `3.35 TB/s`; a bare number is bytes per second."""
    value, unit = _split(text, "a bandwidth")
    return value if not unit else _scaled(text, "a bandwidth", _BANDWIDTH, True)


def parse_rate(text: str) -> float:
    """FLOP/s (or integer OP/s) from `312TFLOP/s` or `624 TOP/s`; a bare number is FLOP/s."""
    value, unit = _split(text, "a compute rate")
    return value if not unit else _scaled(text, "a compute rate", _RATE, False)


def parse_time(text: str) -> float:
    """Seconds from `12.75ms`, `350us`, `2s`; a bare number is refused except 0.

    >>> parse_time("0.5ms")
    0.0005
    """
    value, unit = _split(text, "a time")
    if not unit and value == 0:
        return 0.0
    if unit not in SECONDS:
        what = f"unknown unit {unit[:20]!r} for a time" if unit else "a time needs a unit"
        raise InputError(f"{str(text)[:60]!r}: {what}", hint=f"write {EXAMPLES['a time']}")
    return value * SECONDS[unit]


def parse_count(text: str) -> float:
    """A plain number with a decimal prefix: `13e9`, `13B`, `500M`; Ki, Mi, Gi are binary."""
    return _scaled(text, "a number", _COUNT, True)


def parse_tokens(text: str) -> int:
    """A count of tokens; `k` is 1024 here: `8k` is 8192."""
    value, unit = _split(text, "a count of tokens")
    scale = {"": 1, "k": 1024, "K": 1024, "Ki": 1024, "M": 1024**2, "Mi": 1024**2}.get(unit)
    if scale is None or value < 0 or (value * scale) != int(value * scale):
        raise InputError(f"{str(text)[:60]!r} is not a count of tokens", hint=f"write {EXAMPLES['a count of tokens']}")
    return int(value * scale)


def parse_integer(text: str) -> int:
    """A whole number."""
    value, unit = _split(text, "a whole number")
    if unit or value != int(value):
        raise InputError(f"{str(text)[:60]!r} is not a whole number", hint=f"write {EXAMPLES['a whole number']}")
    return int(value)


def parse_power(text: str) -> float:
    """Watts from `400W`; a bare number is watts."""
    value, unit = _split(text, "a power")
    return value if not unit else _scaled(text, "a power", _POWER, False)


def parse_share(text: str) -> float:
    """A share: `0.01` or `1%`."""
    value, unit = _split(text, "a share")
    if unit not in ("", "%"):
        raise InputError(
            f"{str(text)[:60]!r}: unknown unit {unit[:20]!r} for a share", hint=f"write {EXAMPLES['a share']}"
        )
    return value / 100 if unit else value


def parse_list(text: str, parse: Callable[[str], float] = parse_share) -> list[float]:
    """Comma-separated values: `0.63,0.11`."""
    parts = str(text).split(",")
    if any(not part.strip() for part in parts):
        raise InputError(
            f"{str(text)[:60]!r} has an empty entry", hint="write values with commas between, such as 0.63,0.11"
        )
    return [parse(part) for part in parts]


def parse_integers(text: str, *, most: int = 100_000) -> list[int]:
    """Whole numbers as a list or a range, ends included: `1,2,4`, `1..64`, `1..64:8`.

    >>> parse_integers("1,2,4..6")
    [1, 2, 4, 5, 6]
    """
    values: list[int] = []
    for part in str(text).split(","):
        first, dots, rest = part.partition("..")
        if not dots:
            values.append(parse_integer(first))
            continue
        last, _, step = rest.partition(":")
        start, stop, stride = parse_integer(first), parse_integer(last), parse_integer(step or "1")
        if stride < 1 or stop < start:
            raise InputError(f"{part[:60]!r} is not a rising range", hint="write first..last, such as 1..64")
        if (stop - start) // stride + len(values) >= most:
            raise InputError(f"{part[:60]!r} has more than {most} values", hint="give a step: 1..100000:100")
        values.extend(range(start, stop + 1, stride))
    return values


def parse_shares(text: str) -> list[float]:
    """Shares as a list or a range in steps of 0.1 or the step given: `0.3..0.9`, `0.3..0.9:0.05`.

    >>> parse_shares("0.3..0.5")
    [0.3, 0.4, 0.5]
    """
    values: list[float] = []
    for part in str(text).split(","):
        first, dots, rest = part.partition("..")
        if not dots:
            values.append(parse_share(first))
            continue
        last, _, step = rest.partition(":")
        start, stop, stride = parse_share(first), parse_share(last), parse_share(step or "0.1")
        if stride <= 0 or stop < start:
            raise InputError(f"{part[:60]!r} is not a rising range", hint="write first..last, such as 0.3..0.9")
        count = math.floor((stop - start) / stride + 1e-9) + 1
        if count > 10_000:
            raise InputError(f"{part[:60]!r} has {count} values", hint="give a larger step: 0.3..0.9:0.1")
        values.extend(round(start + i * stride, 12) for i in range(count))
    return values


def _show(value: float, unit: str, prefixes: str, digits: int) -> str:
    """`value` with the decimal prefix that leaves 1 to 999 before the point."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".strip()
    step = min(max(int(math.floor(math.log10(abs(value)) / 3)), 0), len(prefixes))
    # 999.9996 rounds up to the next prefix
    if step < len(prefixes) and float(f"{abs(value) / 1000**step:.{digits}g}") >= 1000:
        step += 1
    prefix = prefixes[step - 1] if step else ""
    return f"{_digits(value / 1000**step, digits)} {prefix}{unit}".strip()


def _digits(value: float, digits: int) -> str:
    """`digits` significant digits, never in exponent form up to 1e6."""
    if abs(value) >= 10**digits:
        return f"{value:.0f}" if abs(value) < 1e6 else f"{value:.{digits}g}"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:g}"


def show_bytes(value: float, digits: int = 4) -> str:
    """
    >>> show_bytes(26e9)
    '26 GB'
    """
    return _show(value, "B", "kMGTP", digits)


def show_bandwidth(value: float, digits: int = 4) -> str:
    """
    >>> show_bandwidth(2039e9)
    '2039 GB/s'
    """
    if 1e12 <= value < 1e13:
        return f"{_digits(value / 1e9, digits)} GB/s"
    return _show(value, "B/s", "kMGTP", digits)


def show_rate(value: float, unit: str = "FLOP/s", digits: int = 4) -> str:
    return _show(value, unit, "kMGTP", digits)


def show_count(value: float, digits: int = 4) -> str:
    """
    >>> show_count(13015864320)
    '13.02 B'
    """
    return _show(value, "", "kMBT", digits)


def show_time(seconds: float, digits: int = 4) -> str:
    """
    >>> show_time(0.01275)
    '12.75 ms'
    """
    size = abs(seconds)
    if size == 0:
        return "0 ms"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if size >= scale * 0.9999995:
            return f"{_digits(seconds / scale, digits)} {unit}"
    return f"{seconds / 1e-9:.{digits}g} ns"


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "node"), plural(2, "node")
    ('1 node', '2 nodes')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def show_share(value: float, digits: int = 4) -> str:
    """
    >>> show_share(0.9935)
    '99.35 %'
    """
    return f"{_digits(value * 100, digits)} %"
