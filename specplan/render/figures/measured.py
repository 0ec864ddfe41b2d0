"""What was measured against what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .style import Theme, legend_below, time_unit, title, width_axis


@dataclass(frozen=True)
class Compared:
    """One quantity, in one unit.

    low, high   interval of the measurement, None where it has none
    """

    name: str
    predicted: float
    measured: float
    low: float | None = None
    high: float | None = None


def measured_inches(count: int) -> float:
    """Height of the picture of that many quantities."""
    return 1.6 + 0.42 * count


def draw_ratios(axes: Any, theme: Theme, rows: Sequence[Compared], *, tolerance: float | None = None) -> None:
    """Predicted over measured, one row a quantity; the shade is the tolerance asked for."""
    if tolerance is not None:
        axes.axvspan(1 - tolerance, 1 + tolerance, color=theme.faint, alpha=0.5, label=f"within {tolerance:.0%}")
    axes.axvline(1, color=theme.ink, linestyle="--", linewidth=1.2, label="as measured")
    for place, row in enumerate(rows):
        ratio = row.predicted / row.measured
        ends = [ratio if end is None else row.predicted / end for end in (row.high, row.low)]
        bar = [[max(0.0, ratio - ends[0])], [max(0.0, ends[1] - ratio)]]
        axes.errorbar(ratio, place, xerr=bar, marker="o", color=theme.strong, capsize=4, markersize=7)
        axes.annotate(
            f"{ratio - 1:+.1%}", (ratio, place), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8
        )
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.margins(x=0.2)
    axes.grid(axis="y", visible=False)
    title(axes, "Predicted against measured", "predicted over measured", "")
    legend_below(axes, drop=0.75 / measured_inches(len(rows)))


def draw_curves(
    axes: Any,
    theme: Theme,
    *,
    widths: Sequence[int],
    measured_s: Sequence[float],
    predicted_s: Sequence[float],
    spread_s: Sequence[tuple[float, float]] = (),
    name: str = "pass",
) -> None:
    """A measured width curve on the predicted one.

    predicted_s   by width from 1: index i is width i + 1; empty where nothing is predicted
    spread_s      low and high of each measured time, where they are known
    """
    unit, words = time_unit([*measured_s, *predicted_s])
    through = range(1, len(predicted_s) + 1)
    if predicted_s:
        steps = {"drawstyle": "steps-mid", "label": "predicted"}
        axes.plot(through, [s / unit for s in predicted_s], color=theme.strong, **steps)
    bars = [(max(0.0, s - low) / unit, max(0.0, high - s) / unit) for s, (low, high) in zip(measured_s, spread_s)]
    axes.errorbar(
        widths,
        [s / unit for s in measured_s],
        yerr=list(zip(*bars)) if bars else None,
        fmt="o",
        color=theme.middle,
        capsize=3,
        label="measured" + (", 20 to 80 %" if bars else ""),
    )
    axes.set_ylim(bottom=0)
    width_axis(axes.xaxis, max(len(predicted_s), *widths))
    title(axes, f"Time of a {name}", "width", f"time, {words}")
    legend_below(axes)
