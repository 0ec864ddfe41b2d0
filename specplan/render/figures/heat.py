"""The rate over nodes and levels as a heat map, with the optimum; for chains a curve over their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...planning.views import RateGrid
from ...search.optimize import Candidate
from ...search.shape import Shape
from .style import Theme, legend_below, point, title, whole_axis


def draw_heat(axes: Any, theme: Theme, grid: RateGrid, *, optimum: Shape, recommended: Shape | None) -> None:
    """Speed-up of the best tree with that many nodes and at most that many levels."""
    import numpy as np

    rates = np.array([[np.nan if value is None else value for value in row] for row in grid.speedup])
    axes.set_facecolor(theme.faint)
    # As pixels: an SVG with a path for each cell would weigh ten times as much.
    extent = (-0.5, len(grid.nodes) - 0.5, 0.5, len(grid.depths) + 0.5)
    mesh = axes.imshow(rates, origin="lower", aspect="auto", extent=extent, cmap=theme.heat, interpolation="nearest")
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label("x plain decoding")
    bar.outline.set_visible(False)
    _mark(axes, theme, grid, optimum, "*", "optimum", theme.paper)
    if recommended is not None and recommended.nodes and recommended.parents != optimum.parents:
        _mark(axes, theme, grid, recommended, "o", "recommended", theme.paper)
    shown = _spread(len(grid.nodes), 10)
    axes.set_xticks(shown, [str(grid.nodes[i]) for i in shown])
    whole_axis(axes.yaxis)
    axes.grid(False)
    title(axes, "Speed-up by size and depth of the tree", "nodes (grey: no such tree)", "levels at most")
    legend_below(axes)


def _mark(axes: Any, theme: Theme, grid: RateGrid, shape: Shape, marker: str, name: str, color: str) -> None:
    words = f"{name}: {shape.nodes} nodes, depth {shape.depth}, {shape.speedup or 1:.2f} x"
    axes.plot(
        [grid.nodes.index(shape.nodes)],
        [max(shape.depth, 1)],
        marker,
        color=color,
        markeredgecolor=theme.ink,
        markersize=15 if marker == "*" else 9,
        label=words,
        linestyle="none",
        clip_on=False,
        zorder=5,
    )


def _spread(count: int, most: int) -> list[int]:
    """At most `most` indices from first to last, evenly."""
    if count <= most:
        return list(range(count))
    return [round(i * (count - 1) / (most - 1)) for i in range(most)]


def draw_lengths(
    axes: Any, theme: Theme, candidates: Sequence[Candidate], *, optimum: Shape, recommended: Shape | None
) -> None:
    """Speed-up by number of nodes, where a shape has no second dimension."""
    known = [row for row in candidates if row.speedup is not None]
    axes.plot(
        [row.nodes for row in known],
        [row.speedup for row in known],
        color=theme.strong,
        marker="." if len(known) <= 40 else None,
        label="best shape of that many nodes",
    )
    axes.axhline(1, color=theme.ink, linestyle="--", linewidth=1, label="plain decoding")
    point(axes, theme, optimum.nodes, optimum.speedup or 1, "*", f"optimum: {optimum.nodes} nodes")
    if recommended is not None and recommended.nodes != optimum.nodes:
        words = f"recommended: {recommended.nodes} nodes"
        point(axes, theme, recommended.nodes, recommended.speedup or 1, "D", words, color=theme.accent)
    axes.set_ylim(bottom=0)
    whole_axis(axes.xaxis)
    title(axes, "Speed-up by number of drafted tokens", "nodes", "x plain decoding")
    legend_below(axes)
