"""The roofline on log axes: what a pass reaches against what the device allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.units import show_bandwidth, show_rate, show_time
from ...timing.roofline import Roofline
from .style import Theme, legend_below, log_axis, point, title


def draw_roofline(
    axes: Any, theme: Theme, *, ideal: Sequence[Roofline], calibrated: Sequence[Roofline], chosen: int
) -> None:
    """Roof, ridge, the path of the pass over the widths, width 1, the knee and the chosen width.

    ideal, calibrated   one a width, the first of width 1, `chosen` among them
    """
    first = ideal[0]
    ridge, peak = first.ridge_flop_per_byte, first.flops / first.t_compute_s
    low = min(0.5, first.intensity_flop_per_byte / 2)
    high = max(ridge * 6, calibrated[-1].intensity_flop_per_byte * 2)
    axes.plot([low, ridge, high], [peak * low / ridge, peak, peak], color=theme.ink, label=_roof_words(peak, ridge))
    axes.axvline(ridge, color=theme.ink, linestyle=":", linewidth=1, label=f"ridge {ridge:.4g} FLOP/byte")
    axes.plot(
        [r.intensity_flop_per_byte for r in calibrated],
        [attained(r) for r in calibrated],
        color=theme.weak,
        linewidth=3,
        label=f"calibrated, width 1 to {calibrated[-1].width}",
    )
    _mark_pass(axes, theme, ideal[0], "o", "ideal", theme.weak)
    _mark_pass(axes, theme, calibrated[0], "o", "calibrated", theme.strong)
    knee = _at_knee(calibrated)
    if knee is not None:
        label = f"10 % slower past {calibrated[0].knee_10_tokens} tokens"
        point(axes, theme, knee.intensity_flop_per_byte, attained(knee), "D", label, color=theme.accent)
    at = next(r for r in calibrated if r.width == chosen)
    if chosen > 1:
        _mark_pass(axes, theme, at, "*", "calibrated", theme.middle)
    floor = min(attained(calibrated[0]), peak * low / ridge)
    log_axis(axes.xaxis, low, high, lambda value: f"{value:g}")
    log_axis(axes.yaxis, floor / 2, peak * 2, lambda value: show_rate(value, digits=2))
    title(axes, "Roofline of the pass", "intensity, FLOP per byte moved", "")
    legend_below(axes)


def attained(r: Roofline) -> float:
    """FLOP/s of the pass."""
    return r.flops / r.pass_s


def _roof_words(peak: float, ridge: float) -> str:
    return f"{show_bandwidth(peak / ridge, 3)}, {show_rate(peak, digits=3)}"


def _mark_pass(axes: Any, theme: Theme, r: Roofline, marker: str, kind: str, color: str) -> None:
    label = f"width {r.width} {kind}: {show_time(r.pass_s, 3)}"
    point(axes, theme, r.intensity_flop_per_byte, attained(r), marker, label, color=color)


def _at_knee(calibrated: Sequence[Roofline]) -> Roofline | None:
    """The pass at the knee, where its width was computed."""
    knee, batch = calibrated[0].knee_10_tokens, calibrated[0].crossover_tokens / calibrated[0].crossover_width
    return None if knee is None else next((r for r in calibrated if r.width == round(knee / batch)), None)
