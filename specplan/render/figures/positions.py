"""Acceptance by position, with the intervals that the counts leave; and by rank where siblings are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...acceptance.kinds import Interval
from ...planning.views import Position
from .style import Theme, legend_below, title, whole_axis


def draw_positions(axes: Any, theme: Theme, positions: Sequence[Position]) -> None:
    """Conditional acceptance and survival of a chain, position by position."""
    depths = [p.depth for p in positions]
    rates = (
        ([p.conditional for p in positions], [p.conditional_interval for p in positions], theme.strong, "o", "-"),
        ([p.survival for p in positions], [p.survival_interval for p in positions], theme.middle, "s", "--"),
    )
    for (values, intervals, color, marker, line), words in zip(rates, ("given the ones before", "at least this many")):
        known = any(interval is not None for interval in intervals)
        bars = {"yerr": _errors(values, intervals), "capsize": 3} if known else {}
        label = words + (", 95 % interval" if known else "")
        axes.errorbar(depths, values, color=color, marker=marker, linestyle=line, label=label, **bars)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0.5, len(depths) + 0.5)
    whole_axis(axes.xaxis)
    title(axes, "Acceptance by position in the chain", "position", "probability")
    legend_below(axes)


def _errors(values: Sequence[float], intervals: Sequence[Interval | None]) -> tuple[list[float], list[float]]:
    """Lengths of the bars below and above."""
    low = [0.0 if i is None else max(0.0, value - i.low) for value, i in zip(values, intervals)]
    high = [0.0 if i is None else max(0.0, i.high - value) for value, i in zip(values, intervals)]
    return low, high


def draw_ranks(axes: Any, theme: Theme, rows: Sequence[Sequence[float]]) -> None:
    """Probability that the k-th child is the accepted one, one line a level where levels differ."""
    styles = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"))
    colors = (theme.strong, theme.middle, theme.weak, theme.accent)
    for level, (row, (marker, line), color) in enumerate(zip(rows, styles, colors), 1):
        label = "all levels" if len(rows) == 1 else f"level {level}"
        axes.plot(range(1, len(row) + 1), row, color=color, marker=marker, linestyle=line, label=label)
    axes.set_ylim(bottom=0)
    whole_axis(axes.xaxis)
    title(axes, "Acceptance by rank of the child", "rank, 1 is the likeliest", "probability to be the accepted one")
    legend_below(axes, columns=4)
