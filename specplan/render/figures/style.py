"""What all figures share: colours, marks, axes. Marks differ in lightness and in shape, never in hue alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Theme:
    """Colours of one theme, `strong` to `weak` by contrast with the paper.

    heat   name of a colour map whose lightness rises steadily
    """

    paper: str
    ink: str
    faint: str
    strong: str
    middle: str
    weak: str
    accent: str
    heat: str = "cividis"

    def rc(self) -> Any:
        """matplotlib settings; text stays text in SVG, fonts are embedded in PDF, and nothing depends on the day."""
        return {
            "figure.facecolor": self.paper,
            "savefig.facecolor": self.paper,
            "axes.facecolor": self.paper,
            "axes.edgecolor": self.faint,
            "axes.labelcolor": self.ink,
            "axes.titlecolor": self.ink,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10.5,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.labelsize": 9,
            "figure.titlesize": 10.5,
            "font.family": "DejaVu Sans",
            "font.size": 9,
            "grid.color": self.faint,
            "grid.linewidth": 0.5,
            "grid.alpha": 0.55,
            "hatch.linewidth": 0.6,
            "legend.fontsize": 8.5,
            "legend.frameon": False,
            "legend.labelcolor": self.ink,
            "lines.linewidth": 1.8,
            "text.color": self.ink,
            "xtick.color": self.ink,
            "ytick.color": self.ink,
            "xtick.labelsize": 8.5,
            "ytick.labelsize": 8.5,
            "svg.fonttype": "none",
            "svg.hashsalt": "specplan",
            "pdf.fonttype": 42,
        }


THEMES = {
    "light": Theme("#ffffff", "#1c2430", "#c9ced6", "#12355b", "#c0561a", "#7fb2c9", "#8c1d40"),
    "dark": Theme("#14181f", "#e8ebef", "#4a5260", "#d7e8ff", "#f0a04b", "#5b8fae", "#ff8fab"),
}


def title(axes: Any, text: str, x: str, y: str) -> None:
    """Title and axis labels; a title too long for a column is broken."""
    from textwrap import fill

    axes.set_title(fill(text, 56))
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def legend_below(axes: Any, *, columns: int = 2, drop: float = 0.19) -> None:
    """The legend under the x label, where it hides nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -drop), ncols=columns, handlelength=1.8, columnspacing=1.4)


def point(axes: Any, theme: Theme, x: float, y: float, marker: str, label: str, *, color: str | None = None) -> None:
    """One marked point with its words in the legend; a diamond is hollow, so that it shows around another mark."""
    ink = color or theme.middle
    hollow = marker == "D"
    axes.plot(
        [x],
        [y],
        marker,
        color="none" if hollow else ink,
        markersize={"*": 14, "D": 11}.get(marker, 9),
        markeredgecolor=ink if hollow else theme.paper,
        markeredgewidth=1.8 if hollow else 1.0,
        label=label,
        linestyle="none",
        zorder=5,
        clip_on=False,
    )


def log_axis(axis: Any, low: float, high: float, show: Callable[[float], str], *, base: int = 10) -> None:
    """A log axis from `low` to `high` whose labels are plain numbers, at most eight of them."""
    import math

    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    stride = max(1, -(-(last - first + 1) // 8))
    ticks = [float(base) ** e for e in range(first, last + 1, stride)]
    if base == 10 and len(ticks) < 3:
        ticks = sorted(
            {m * 10.0**e for e in range(first - 1, last + 1) for m in (1, 2, 5) if low <= m * 10.0**e <= high}
        )
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))


def whole_axis(axis: Any) -> None:
    """Ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=9, integer=True))


def width_axis(axis: Any, last: int) -> None:
    """Ticks at multiples of a power of two, where tiles of a device end."""
    from matplotlib.ticker import MultipleLocator

    stride = 1
    while last / stride > 9:
        stride *= 2
    axis.set_major_locator(MultipleLocator(stride))


def time_unit(seconds: Iterable[float]) -> tuple[float, str]:
    """The unit that suits the largest of these times, as (seconds of one, name).

    >>> time_unit([0.0004, 0.012])
    (0.001, 'ms')
    """
    largest = max(seconds)
    return next(((scale, name) for scale, name in ((1.0, "s"), (1e-3, "ms")) if largest >= scale), (1e-6, "us"))
