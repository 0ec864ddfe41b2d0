"""The tree as an icicle: a row a level, the area of a node is the probability that a round reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.tree import TokenTree
from ...planning.views import best_chain, spans
from .style import Theme, title

# Room that a label needs, as a share of the width of the picture.
LABEL_SHARE = 0.042


def tree_inches(tree: TokenTree) -> float:
    """A height at which every level can be told apart."""
    return min(max(1.4 + 0.34 * (tree.depth + 1), 2.6), 9.0)


def draw_tree(axes: Any, theme: Theme, tree: TokenTree, reach: Sequence[float], *, name: str | None = None) -> None:
    """Nodes under their parents; what is left free beside the children is where a round ends.

    reach   probability that each node is reached and accepted
    name    of the method, where several were compared
    """
    left, best = spans(tree, reach), best_chain(tree, reach)
    depths = tree.position_offsets
    thin = 0.8 if tree.nodes <= 128 else 0.3
    axes.bar(0.5, 0.94, 1.0, bottom=-0.47, color=theme.faint, edgecolor=theme.paper, linewidth=thin)
    for chosen, color, hatch in ((False, theme.weak, ""), (True, theme.middle, "////")):
        nodes = [i for i in range(tree.nodes) if (i in best) is chosen]
        if not nodes:
            continue
        axes.bar(
            [left[i] + reach[i] / 2 for i in nodes],
            0.94,
            [reach[i] for i in nodes],
            bottom=[depths[i] - 0.47 for i in nodes],
            color=color,
            edgecolor=theme.paper,
            linewidth=thin,
            hatch=hatch,
            label="likeliest path" if chosen else "other nodes",
        )
    _label(axes, theme, tree, reach, left, best)
    axes.set_ylim(tree.depth + 0.55, -0.55)
    axes.set_xlim(0, 1)
    stride = -(-(tree.depth + 1) // 24)
    shown = range(0, tree.depth + 1, stride)
    axes.set_yticks(list(shown), ["root" if level == 0 else f"{level}" for level in shown])
    axes.grid(False)
    kind = "chain" if tree.depth == tree.nodes else "tree"
    whose = "The" if name is None else f"{name}: the"
    title(axes, f"{whose} {kind} of {tree.nodes}, area is the chance to be reached", "share of rounds", "level")
    right = axes.secondary_yaxis("right")
    survival = [sum(reach[i] for i in range(tree.nodes) if depths[i] == level) for level in range(1, tree.depth + 1)]
    right.set_yticks(list(shown), ["1" if level == 0 else f"{survival[level - 1]:.3g}" for level in shown])
    right.set_ylabel("rounds that get there")
    right.tick_params(length=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.85 / tree_inches(tree)), ncols=2)


def _label(
    axes: Any, theme: Theme, tree: TokenTree, reach: Sequence[float], left: Sequence[float], best: set[int]
) -> None:
    """The probability in each node that is wide enough for it."""
    boxed = {"boxstyle": "square,pad=0.15", "facecolor": theme.middle, "edgecolor": "none"}
    for i, depth in enumerate(tree.position_offsets):
        if reach[i] >= LABEL_SHARE:
            words = f"{reach[i]:.2f}" if reach[i] >= 0.1 else f"{reach[i]:.2f}"[1:]
            box = boxed if i in best else None
            place = left[i] + reach[i] / 2
            color = theme.paper if i in best else theme.ink
            axes.text(place, depth, words, ha="center", va="center", fontsize=7.5, color=color, bbox=box)
    axes.text(0.5, 0, "last emitted token", ha="center", va="center", fontsize=8)
