"""Time of a pass against its width: a stair, and where the tree sits on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...base.units import show_time
from .style import Theme, legend_below, point, time_unit, title, width_axis

MARKS = ("*", "D", "s", "P")


def draw_stair(
    axes: Any,
    theme: Theme,
    seconds: Mapping[int, float],
    *,
    marked: Mapping[str, int],
    ideal: Mapping[int, float] | None = None,
    limits: Mapping[str, float] | None = None,
    relative: bool = False,
) -> None:
    """The stair of pass times.

    seconds   by width, from 1 up; infinite where no time is known
    marked    words -> width
    ideal     the datasheet's times
    limits    words -> share by which the pass may be slower than at width 1 (0.1 for the knee of 10 %)
    relative  times are multiples of a plain pass
    """
    finite = [s for s in seconds.values() if math.isfinite(s)]
    unit, name = (1.0, "plain passes") if relative else time_unit(finite)
    widths, last = list(seconds), max(seconds)
    times = [s / unit if math.isfinite(s) else math.nan for s in seconds.values()]
    dots = {"marker": "."} if len(times) <= 24 else {}
    axes.plot(widths, times, color=theme.strong, drawstyle="steps-mid", label="verification pass", **dots)
    if ideal is not None:
        axes.plot(list(ideal), [s / unit for s in ideal.values()], color=theme.weak, linestyle="--", label="ideal")
    for line, (words, share) in zip(("-.", ":"), (limits or {}).items()):
        axes.axhline(times[0] * (1 + share), color=theme.ink, alpha=0.6, linestyle=line, linewidth=1.1, label=words)
    for marker, (words, width) in zip(MARKS, marked.items()):
        at = seconds[width]
        took = f"{at:.3f} plain passes" if relative else show_time(at, 3)
        color = theme.middle if marker == "*" else theme.accent
        axes.plot([width, width], [0, at / unit], color=color, linewidth=1, linestyle=":")
        point(axes, theme, width, at / unit, marker, f"{words}, width {width}: {took}", color=color)
    axes.set_xlim(1 if last > 1 else 0.5, max(last, 1.5))
    axes.set_ylim(0, 1.08 * max(max(t for t in times if not math.isnan(t)), times[0] * 1.15))
    width_axis(axes.xaxis, last)
    title(axes, "Time of a verification pass", "width: drafted tokens + 1, per sequence", f"time, {name}")
    legend_below(axes)
