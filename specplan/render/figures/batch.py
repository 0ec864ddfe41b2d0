"""Speed-up against the number of sequences, and the shape that reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...search.shape import Shape
from .style import Theme, legend_below, log_axis, point, title


def draw_batch(axes: Any, theme: Theme, shapes: Mapping[int, Shape]) -> None:
    """The recommended shape's speed-up at each batch size that was planned; where it is 1, speculation is off."""
    batches = sorted(shapes)
    speedups = [shapes[batch].speedup or 1.0 for batch in batches]
    axes.plot(batches, speedups, color=theme.strong, marker=".", label="recommended shape")
    axes.axhline(1, color=theme.ink, linestyle="--", linewidth=1, label="plain decoding")
    off = [batch for batch in batches if not shapes[batch].nodes]
    if off:
        point(axes, theme, off[0], 1.0, "X", f"off at {off[0]}")
    log_axis(axes.xaxis, batches[0], max(batches[-1], batches[0] * 2), lambda value: f"{value:g}", base=2)
    top = max(speedups)
    axes.set_ylim(min(0.9, min(speedups)), top + 0.22 * (top - 0.9))
    for batch in _spaced(batches):
        shape = shapes[batch]
        if shape.nodes:
            axes.annotate(
                f"{shape.nodes}",
                (batch, shape.speedup or 1.0),
                xytext=(2, 6),
                textcoords="offset points",
                fontsize=8,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": theme.paper, "edgecolor": "none", "alpha": 0.8},
            )
    title(axes, "Speed-up by batch (numbers: nodes)", "sequences in a pass", "x plain decoding")
    legend_below(axes, columns=3)


def _spaced(batches: list[int], *, apart: float = 1.55) -> list[int]:
    """Batch sizes far enough from each other on a log axis for a label each."""
    chosen: list[int] = []
    for batch in batches:
        if not chosen or batch >= chosen[-1] * apart:
            chosen.append(batch)
    return chosen
