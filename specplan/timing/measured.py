"""Measured width curves: reading them from a table, and putting them into a profile.

>>> table = "width,ms,context,dtype\\n1,10,128,bf16\\n4,11,128,bf16\\n1,12,2048,bf16\\n4,13,2048,bf16"
>>> [(curve.context, len(curve.points)) for curve in curves_of_table(table, where="x.csv", model="llama-2-7b")]
[(128, 2), (2048, 2)]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.errors import InputError
from ..hardware.curve import Row, curve_of_rows, rows_of
from ..hardware.profile import Curve, Hardware, Point
from ..models.spec import weight_format

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
    """The curves of a CSV or JSON table of `width` and a time, one for each model and load in it.

    A load is dtype, mode (graph or eager), batch and context.

    model, params, dtype   of rows that do not say a model or a dtype
    Raises  InputError naming the row, or what is missing.
    """
    groups: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
    for line, row in rows_of(text, where):
        load = _load(row, f"{where}:{line}", {"model": model, "dtype": dtype})
        groups.setdefault(tuple(load.items()), []).append((line, row))
    found = []
    for group, rows in groups.items():
        load = dict(group)
        curve = curve_of_rows(rows, where=where, batch=load["batch"])
        if curve.relative:
            raise InputError(f"{where}: ratios are no times", hint="give ms, s or tok_s")
        given = None if load["model"] else params
        found.append(curve_of(curve.widths, curve.seconds, params=given, tp=tp, **load))
    return found


def _load(row: Mapping[str, Any], where: str, given: Mapping[str, str | None]) -> dict[str, Any]:
    """What a row was measured on; None where neither it nor the caller says."""
    said: dict[str, Any] = {
        key: str(row.get(key) or "").strip() or given.get(key) for key in ("model", "dtype", "mode")
    }
    if not said["dtype"]:
        raise InputError(f"{where}: the dtype is not known", hint="add a column dtype, or --dtype bf16")
    if said["mode"] not in (None, "graph", "eager"):
        raise InputError(f"{where}: mode {said['mode'][:40]!r} is not known", hint="graph, eager, or no column")
    counts = {key: _count(row, key, least, where) for key, least in (("batch", 1), ("context", 0))}
    return said | counts | {"dtype": weight_format(said["dtype"]).name}


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
