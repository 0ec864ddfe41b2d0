"""A value of a sweep over two of its axes, as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..sweep import Pivot
from .style import Theme, title

# Cells up to which each carries its number.
MOST_LABELLED = 160
LONGEST = 28


def draw_pivot(axes: Any, theme: Theme, pivot: Pivot) -> None:
    """Numbers by colour, with the number in each cell where there is room; grey where nothing is known."""
    import numpy as np

    values = np.array([[np.nan if cell is None else float(cell) for cell in row] for row in pivot.cells])
    axes.set_facecolor(theme.faint)
    axes.set(xlim=(0, len(pivot.column_values)), ylim=(0, len(pivot.row_values)))
    if np.isfinite(values).any():
        mesh = axes.pcolormesh(values, cmap=theme.heat)
        bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
        bar.set_label(pivot.value)
        bar.outline.set_visible(False)
    _ticks(axes.xaxis, pivot.column_values)
    _ticks(axes.yaxis, pivot.row_values)
    axes.invert_yaxis()
    axes.grid(False)
    if np.isfinite(values).any() and values.size <= MOST_LABELLED:
        _number(axes, values)
    several = "" if pivot.points == 1 else f", the {pivot.of} of up to {pivot.points} points"
    title(axes, f"{pivot.value}{several}", pivot.columns, pivot.rows)


def _ticks(axis: Any, names: Sequence[Any]) -> None:
    """At most sixteen names, at the middle of their cells."""
    stride = -(-len(names) // 16)
    shown = range(0, len(names), stride)
    texts = ["-" if names[i] is None else str(names[i])[:LONGEST] for i in shown]
    axis.set_ticks([i + 0.5 for i in shown], texts)
    if axis.axis_name == "x" and max(map(len, texts)) > 6:
        for label in axis.get_ticklabels():
            label.set(rotation=30, ha="right")


def _number(axes: Any, values: Any) -> None:
    import numpy as np

    low, high = np.nanmin(values), np.nanmax(values)
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = high > low and (value - low) / (high - low) < 0.55
            ink = "#ffffff" if dark else "#000000"
            axes.text(j + 0.5, i + 0.5, f"{value:.3g}", ha="center", va="center", color=ink, fontsize=8)
