"""Which shapes may run: limits of the user, of a method, of a serving stack."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..base.errors import InputError

DEFAULT_NODES = 256


DEFAULT_DEPTH = 16


@dataclass(frozen=True)
class Space:
    """Which shapes are looked at; the root is not counted in `nodes`.

    chain   True when only chains may be planned (nothing is known of siblings)
    """

    nodes: int
    depth: int = DEFAULT_DEPTH
    children: int | None = None

    def __post_init__(self) -> None:
        for name in ("nodes", "depth", "children"):
            value = getattr(self, name)
            if value is not None and value < 1:
                option = {"nodes": "--budget", "depth": "--max-depth", "children": "--max-children"}[name]
                raise InputError(f"{option} {value} is below 1", hint=f"{option} is a whole number from 1 up")

    def arguments(self) -> dict[str, Any]:
        return {"max_nodes": self.nodes, "max_depth": min(self.depth, self.nodes), "max_children": self.children}


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Settings of an engine that builds the tree anew every round from draft scores.

    steps   draft passes, and so levels at most
    topk    nodes that a pass feeds, and children that each proposes
    nodes   best proposed nodes that are verified, the root not counted
    """

    steps: int
    topk: int
    nodes: int


def useful_limit(crossover_width: float, last_width: int | None) -> int:
    """The default node limit: min(256, 1.5 x crossover, end of the curve).

    >>> useful_limit(153.0, None), useful_limit(93.0, None), useful_limit(153.0, 9)
    (229, 139, 8)
    """
    limit = DEFAULT_NODES
    if math.isfinite(crossover_width):
        limit = min(limit, int(1.5 * crossover_width))
    if last_width is not None:
        limit = min(limit, last_width - 1)
    return max(limit, 1)


# topk of EAGLE-2/3 (10) and of SGLang's NGRAM (1-10): no dynamic engine goes past it by default.
MOST_TOPK = 10


@dataclass(frozen=True)
class Runnable:
    """What an engine can run, in a planner's words; the root is not counted.

    family        static, uniform, dynamic or chain
    children      most children of a node; where the engine builds the tree, the largest topk
    linear_pool   dynamic: at most topk * steps nodes, in place of topk + (steps - 1) topk^2
    contiguous    static: a child is drafted with all those ranked before it
    min_tree_depth   levels that a tree with branches needs; a chain needs min_depth alone
    by_level      uniform: most children of a node, level by level, where levels differ
    """

    family: str
    nodes: int | None = None
    depth: int | None = None
    min_depth: int = 1
    min_tree_depth: int = 1
    children: int | None = None
    linear_pool: bool = False
    contiguous: bool = True
    by_level: tuple[int, ...] = ()

    def within(self, limits: Space) -> Space:
        """The limits that hold for both.

        >>> Runnable("chain", depth=4).within(Space(64, 16))
        Space(nodes=64, depth=4, children=1)
        """
        widest = 1 if self.family == "chain" else self.children
        return Space(
            min(limits.nodes, self.nodes or limits.nodes),
            min(limits.depth, self.depth or limits.depth),
            min(filter(None, (limits.children, widest)), default=None),
        )
