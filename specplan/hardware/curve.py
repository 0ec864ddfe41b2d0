"""A measured width curve: the time of one pass by its width. Curves are stairs, so nothing is smoothed."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import InputError

UNITS = ("ms", "s", "tok_s", "ratio")
BETWEEN = ("linear", "step", "never")


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds of one pass at measured widths.

    widths    new tokens per sequence, rising, the first is 1
    seconds   of the whole pass at that width
    between   linear: straight between neighbours; step: the next measured width's time;
              never: only measured widths exist
    relative  True when `seconds` are multiples of the width-1 pass, whose own time is unknown
    stated    what the file itself stated of batch and context

    >>> Curve((1, 4), (0.010, 0.013)).at(2)
    0.011
    """

    widths: tuple[int, ...]
    seconds: tuple[float, ...]
    batch: int = 1
    context: int | None = None
    between: str = "linear"
    relative: bool = False
    where: str = "curve"
    stated: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    @property
    def last(self) -> int:
        """The last measured width; past it nothing is known."""
        return self.widths[-1]

    def at(self, width: int) -> float:
        """Seconds at `width`; infinite where the curve does not say.

        Raises  InputError past the last measured width.
        """
        if not 1 <= width <= self.last:
            raise InputError(f"{self.where}: no time for width {width}", hint=f"the curve ends at {self.last}")
        i = bisect_left(self.widths, width)
        if self.widths[i] == width or self.between == "step":
            return self.seconds[i]
        if self.between == "never":
            return math.inf
        w0, w1, t0, t1 = self.widths[i - 1], self.widths[i], self.seconds[i - 1], self.seconds[i]
        return t0 + (t1 - t0) * (width - w0) / (w1 - w0)

    def table(self) -> list[float]:
        """Seconds for every width from 1 to the last."""
        return [self.at(width) for width in range(1, self.last + 1)]

    def knee(self, slower: float) -> int | None:
        """Largest width up to which no width is over `slower` slower than width 1; None if the curve ends first.

        >>> Curve((1, 8, 9), (0.010, 0.0105, 0.02)).knee(0.1)
        8
        """
        limit = self.seconds[0] * (1 + slower)
        for i, seconds in enumerate(self.seconds):
            if seconds > limit:
                return self.widths[i - 1]
        return None

    def scaled(self, base_s: float) -> Curve:
        """A relative curve in seconds, given the width-1 pass."""
        first = self.seconds[0]
        return replace(self, seconds=tuple(s / first * base_s for s in self.seconds), relative=False)

    def times(self, unit_s: float) -> Curve:
        """A relative curve in seconds, where 1 is `unit_s`."""
        return replace(self, seconds=tuple(s * unit_s for s in self.seconds), relative=False)

    def neighbours(self, width: int) -> tuple[int, int]:
        """The measured widths at or around `width`."""
        i = bisect_right(self.widths, width)
        return self.widths[max(i - 1, 0)], self.widths[min(i, len(self.widths) - 1)]


def _check(curve: Curve) -> None:
    where = curve.where
    if curve.between not in BETWEEN:
        raise InputError(f"--between {curve.between!r} is not known", hint="one of " + ", ".join(BETWEEN))
    if not curve.widths or len(curve.widths) != len(curve.seconds):
        raise InputError(f"{where}: no measured widths", hint="give rows of width and ms, the first of width 1")
    for width, seconds in zip(curve.widths, curve.seconds):
        if not (math.isfinite(seconds) and seconds > 0):
            raise InputError(
                f"{where}: time {seconds!r} at width {width} is not positive",
                hint="every time is a finite number above 0",
            )
    if curve.widths[0] != 1:
        raise InputError(
            f"{where}: width 1 is missing, the first is {curve.widths[0]}",
            hint="a curve starts at width 1, the plain pass",
        )
    for before, after in zip(curve.widths, curve.widths[1:]):
        if after <= before:
            raise InputError(
                f"{where}: width {after} appears twice", hint="one row a width; take the median of repeats"
            )


def read_curve(
    text: str, *, where: str = "curve", batch: int = 1, context: int | None = None, between: str = "linear"
) -> Curve:
    """A curve from CSV or JSON text: `width` and one of `ms, s, tok_s, ratio`; optional `batch, context`.

    JSON is a list of rows, an object of columns, or either under the key `curve`. Rows of other
    batches are left aside; `tok_s` counts all sequences of the batch.

    Raises  InputError naming the row.

    >>> read_curve("width,ms\\n1,10\\n4,13").at(4)
    0.013
    """
    return curve_of_rows(rows_of(text, where), where=where, batch=batch, context=context, between=between)


Row = tuple[int, Mapping[str, Any]]


def rows_of(text: str, where: str) -> list[Row]:
    """The rows of CSV or JSON text with their line or number, as `read_curve` takes them; one at least."""
    rows = _json_rows(text, where) if text.lstrip()[:1] in ("[", "{") else _csv_rows(text, where)
    if not rows:
        raise InputError(f"{where}: no rows", hint="give rows of width and ms, the first of width 1")
    return rows


def curve_of_rows(
    rows: Sequence[Row], *, where: str, batch: int = 1, context: int | None = None, between: str = "linear"
) -> Curve:
    """See `read_curve`."""
    unit = _unit(rows[0][1], where)
    points = [_point(row, unit, f"{where}:{line}") for line, row in rows]
    points = _select(points, "batch", batch, where)
    if context is not None:
        points = _nearest_context(points, context)
    points.sort(key=lambda point: point["width"])
    return Curve(
        widths=tuple(int(point["width"]) for point in points),
        seconds=tuple(point["seconds"] for point in points),
        batch=batch,
        context=_one(points, "context", where),
        between=between,
        relative=unit == "ratio",
        where=where,
        stated=tuple(key for key in ("batch", "context") if key in points[0]),
    )


def _csv_rows(text: str, where: str) -> list[Row]:
    if "\0" in text:
        raise InputError(f"{where}: not a text file", hint="give CSV or JSON with width and ms")
    import csv
    import io

    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    try:
        reader = csv.DictReader(io.StringIO("\n".join(lines)), skipinitialspace=True)
        return [
            (reader.line_num, {(k or "").strip(): v for k, v in row.items()})
            for row in reader
            if any((v or "") for v in row.values() if not isinstance(v, list))
        ]
    except csv.Error as error:
        raise InputError(f"{where}: not CSV: {error}", hint="give CSV or JSON with width and ms") from None


def _json_rows(text: str, where: str) -> list[Row]:
    from ..base.files import parse_json

    data = parse_json(text, where=where)
    if isinstance(data, dict) and isinstance(data.get("curve"), (list, dict)):
        data = data["curve"]
    if isinstance(data, dict) and isinstance(data.get("width"), list):
        columns = {key: value for key, value in data.items() if isinstance(value, list)}
        if len({len(value) for value in columns.values()}) != 1:
            raise InputError(f"{where}: columns of different lengths", hint="width and ms need one entry a row")
        data = [dict(zip(columns, row)) for row in zip(*columns.values())]
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise InputError(f"{where}: not a list of rows", hint='give a list of rows: [{"width": 1, "ms": 12.3}]')
    return list(enumerate(data, start=1))


def _unit(row: Mapping[str, Any], where: str) -> str:
    found = [unit for unit in UNITS if unit in row]
    if "width" not in row or len(found) != 1:
        have = ", ".join(str(key) for key in list(row)[:6]) or "nothing"
        raise InputError(
            f"{where}: needs columns width and one of {', '.join(UNITS)}, has {have[:80]}", hint="first line: width,ms"
        )
    return found[0]


def _point(row: Mapping[str, Any], unit: str, where: str) -> dict[str, float]:
    width, value = _number(row, "width", where), _number(row, unit, where)
    if width != int(width) or not 1 <= width <= 1_000_000:
        raise InputError(f"{where}: width {row['width']!r} is not a whole number from 1 up", hint="one row a width")
    if not (math.isfinite(value) and value > 0):
        raise InputError(
            f"{where}: {unit} {row[unit]!r} is not a number above 0", hint="leave the row out if it was not measured"
        )
    point = {key: _number(row, key, where) for key in ("batch", "context") if row.get(key) not in (None, "")}
    tokens = width * point.get("batch", 1)
    seconds = {"ms": value / 1e3, "s": value, "tok_s": tokens / value, "ratio": value}[unit]
    return point | {"width": width, "seconds": seconds}


def _number(row: Mapping[str, Any], key: str, where: str) -> float:
    try:
        return float(row[key])
    except (TypeError, ValueError, KeyError):
        shown = repr(row.get(key))[:40]
        raise InputError(f"{where}: {key} {shown} is not a number", hint="each row needs width and one time") from None


def _select(points: list[dict[str, float]], key: str, wanted: float, where: str) -> list[dict[str, float]]:
    """The points measured at `wanted`; points without the column hold for all."""
    known = sorted({point[key] for point in points if key in point})
    if not known or wanted in known:
        return [point for point in points if point.get(key, wanted) == wanted]
    listed = ", ".join(f"{value:g}" for value in known[:8])
    raise InputError(f"{where}: no rows for {key} {wanted:g}", hint=f"measured: {key} {listed}")


def _nearest_context(points: list[dict[str, float]], wanted: int) -> list[dict[str, float]]:
    known = {point["context"] for point in points if "context" in point}
    if not known:
        return points
    nearest = min(known, key=lambda value: (abs(value - wanted), value))
    return [point for point in points if point.get("context", nearest) == nearest]


def _one(points: Sequence[Mapping[str, float]], key: str, where: str) -> int | None:
    values = {point[key] for point in points if key in point}
    if len(values) > 1:
        listed = ", ".join(f"{value:g}" for value in sorted(values)[:8])
        raise InputError(f"{where}: rows of several contexts: {listed}", hint="choose one with --context")
    return int(values.pop()) if values else None
