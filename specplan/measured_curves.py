"""Measured width curves: reading them from a table, and putting them into a profile.

>>> table = "width,ms,context,dtype\\n1,10,128,bf16\\n4,11,128,bf16\\n1,12,2048,bf16\\n4,13,2048,bf16"
>>> [(curve.context, len(curve.points)) for curve in curves_of_table(table, where="x.csv", model="llama-2-7b")]
[(128, 2), (2048, 2)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .curve import Row, curve_of_rows, rows_of
from .errors import InputError
from .hardware import Curve, Hardware, Point
from .model import weight_format

KEY = ("dtype", "model", "params", "batch", "context", "tp", "mode")
"""What two curves have in common when one replaces the other."""


def curve_of(widths: Sequence[int], seconds: Sequence[float], **load: Any) -> Curve:
    """The record of a curve; times are kept to six digits.

    load    dtype, and batch, context, model or params, tp, mode as in `hardware.Curve`
    Raises  InputError for a model and a number of weights at once, or for none of them.
    """
    if (load.get("model") is None) == (load.get("params") is None):
        hint = "give --model or --params, one of them"
        raise InputError("a curve is of a model or of a number of weights", hint=hint)
    if len(widths) < 2:
        raise InputError("a curve of one width alone", hint="give width 1 and at least one more")
    points = tuple(Point(width=width, ms=float(f"{1e3 * s:.6g}")) for width, s in zip(widths, seconds))
    return Curve(points=points, **{key: value for key, value in load.items() if value is not None})


def with_curves(hardware: Hardware, curves: Iterable[Curve], *, source: str) -> Hardware:
    """The profile with these curves; one of the same model, dtype, batch, context, tp and mode is replaced.

    source   where the new ones come from; kept beside what the profile says of the others
    """
    added = list(curves)
    replaced = {_key(curve) for curve in added}
    kept = [curve for curve in hardware.curves if _key(curve) not in replaced]
    said = hardware.sources.get("curves", "") if kept else ""
    text = f"{said}; {source}" if said and source not in said else said or source
    return hardware.model_copy(update={"curves": (*kept, *added), "sources": {**hardware.sources, "curves": text}})


def _key(curve: Curve) -> tuple[Any, ...]:
    return tuple(getattr(curve, name) for name in KEY)


def curves_of_table(
    text: str,
    *,
    where: str,
    model: str | None = None,
    params: float | None = None,
    dtype: str | None = None,
    tp: int = 1,
) -> list[Curve]:
    """The curves of a CSV or JSON table of `width` and a time, one for each dtype, batch and context in it.

    dtype   of rows that do not say it
    Raises  InputError naming the row, or what is missing.
    """
    groups: dict[tuple[str, int, int], list[Row]] = {}
    for line, row in rows_of(text, where):
        kind = row.get("dtype") or dtype
        if not kind:
            raise InputError(f"{where}: the dtype is not known", hint="add a column dtype, or --dtype bf16")
        batch, context = (_count(row, key, least, f"{where}:{line}") for key, least in (("batch", 1), ("context", 0)))
        groups.setdefault((weight_format(str(kind)).name, batch, context), []).append((line, row))
    found = []
    for (kind, batch, context), rows in groups.items():
        curve = curve_of_rows(rows, where=where, batch=batch)
        if curve.relative:
            raise InputError(f"{where}: ratios are no times", hint="give ms, s or tok_s")
        load = {"dtype": kind, "batch": batch, "context": context, "tp": tp}
        found.append(curve_of(curve.widths, curve.seconds, model=model, params=params, **load))
    return found


def _count(row: Mapping[str, Any], key: str, least: int, where: str) -> int:
    """A whole number from `least` up; `least` where the column is absent or empty."""
    value = row.get(key)
    if value in (None, ""):
        return least
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number <= 1 << 40 or number != int(number):
        hint = f"write a whole number from {least} up"
        raise InputError(f"{where}: {key} {str(value)[:40]!r} is not a whole number", hint=hint)
    return int(number)
