"""Methods side by side: speed-up as bars, with intervals where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...planning.compare import Row
from .style import Theme, title

HATCHES = ("", "///", "...", "\\\\\\", "xx", "++", "oo", "**", "--")


def methods_inches(count: int) -> float:
    """Height of the picture of that many methods."""
    return 1.5 + 0.42 * count


def draw_methods(axes: Any, theme: Theme, rows: Mapping[str, Row]) -> None:
    """One bar a method that could be planned, the best on top."""
    planned = [row for row in rows.values() if row.shape is not None and row.shape.speedup is not None]
    places = range(len(planned))
    speedups = [row.shape.speedup or 1.0 for row in planned]  # type: ignore[union-attr]
    for place, row, speedup, hatch in zip(places, planned, speedups, HATCHES):
        axes.barh(place, speedup, color=theme.weak, edgecolor=theme.strong, hatch=hatch, height=0.62, linewidth=1)
        between = row.plan.verdict.interval if row.plan is not None else None
        if between is not None:
            low, high = between
            axes.errorbar(
                speedup,
                place,
                xerr=[[max(0.0, speedup - low)], [max(0.0, high - speedup)]],
                color=theme.accent,
                capsize=4,
            )
    ends = [max(s, _high(row)) for s, row in zip(speedups, planned)]
    room = 0.02 * max(ends)
    for place, row, end in zip(places, planned, ends):
        axes.text(end + room, place, _words(row), va="center", fontsize=8.5)
    axes.axvline(1, color=theme.ink, linestyle="--", linewidth=1.2)
    axes.set_yticks(list(places), [row.name for row in planned])
    axes.set_ylim(len(planned) - 0.4, -0.6)
    axes.set_xlim(0, 1.55 * max(ends))
    axes.grid(axis="y", visible=False)
    title(axes, "Methods of drafting", "x plain decoding (dashed: plain decoding)", "")


def _high(row: Row) -> float:
    between = None if row.plan is None else row.plan.verdict.interval
    return 0.0 if between is None else between[1]


def _words(row: Row) -> str:
    shape = row.shape
    assert shape is not None
    if not shape.nodes:
        return "off: plain decoding is faster"
    what = f"chain of {shape.nodes}" if shape.nodes == shape.depth else f"{shape.nodes} nodes, depth {shape.depth}"
    return f"{shape.speedup:.2f} x, {what}"


def draw_break_even(axes: Any, theme: Theme, needed: Sequence[tuple[str, float]], *, label: str) -> None:
    """The acceptance that each of these needs to pay, for when none was given."""
    places = range(len(needed))
    axes.barh(places, [p for _, p in needed], color=theme.weak, edgecolor=theme.strong, height=0.62)
    for place, (_, p) in zip(places, needed):
        axes.text(p + 0.012, place, f"{p:.3f}", va="center", fontsize=8.5)
    axes.set_yticks(list(places), [name for name, _ in needed])
    axes.set_ylim(len(needed) - 0.4, -0.6)
    axes.set_xlim(0, max(1.0, 1.15 * max((p for _, p in needed), default=0.0)))
    axes.grid(axis="y", visible=False)
    title(axes, label, "acceptance p of a candidate from which it pays", "")
