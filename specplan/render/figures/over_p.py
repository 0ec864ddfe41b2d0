"""Tree against chain over the acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .style import Theme, legend_below, title


def draw_over_p(axes: Any, theme: Theme, rows: Sequence[Mapping[str, Any]]) -> None:
    """The `rows` of a tree's document: speed-up where there are times, else tokens a round."""
    timed = rows[0]["tree"]["speedup"] is not None
    key = "speedup" if timed else "tau"
    for name, marker, line, color in (("tree", "o", "-", theme.strong), ("chain", "s", "--", theme.middle)):
        values = [row[name][key] for row in rows]
        words = f"best {name}"
        axes.plot([row["p"] for row in rows], values, color=color, marker=marker, linestyle=line, label=words)
    axes.set_ylim(bottom=0)
    title(
        axes,
        "Tree and chain over the acceptance",
        "p: each candidate is accepted with this probability",
        "x plain decoding" if timed else "tokens a round",
    )
    legend_below(axes)
