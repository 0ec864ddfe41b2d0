"""Grids, curves and shapes behind pictures: the rate over nodes and levels, acceptance by position, the icicle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..acceptance.kinds import Acceptance, ByDepth, Interval, wilson
from ..base.tree import TokenTree
from ..search.costs import RoundCosts
from ..search.optimize import best_trees, evaluate
from ..search.shape import Shape
from ..search.space import Space

# Node counts of a grid: all small ones, then eight an octave.
DENSE, AN_OCTAVE = 8, 8
SHOWN_DEPTH, SHOWN_RANKS = 16, 8


@dataclass(frozen=True)
class RateGrid:
    """speedup[i][j]: of the best tree with nodes[j] nodes and at most depths[i] levels, None where none exists."""

    nodes: tuple[int, ...]
    depths: tuple[int, ...]
    speedup: tuple[tuple[float | None, ...], ...]


def rate_grid(acceptance: Acceptance, limits: Space, costs: RoundCosts, *, holding: Sequence[Shape] = ()) -> RateGrid:
    """The speed-up over nodes and levels: the trees that accept most, at the costs of a round.

    holding   shapes whose node counts and depths are on the grid; their own speed-up stands there, which may be
              above that of the tree that accepts most where a draft pass costs more on wider levels

    >>> from specplan.acceptance.kinds import Independent
    >>> grid = rate_grid(Independent(0.6), Space(4, 2), RoundCosts(verify_s=[1.0] * 5))
    >>> grid.nodes, [round(value, 2) for value in grid.speedup[1]]
    ((1, 2, 3, 4), [1.6, 1.96, 2.2, 2.34])
    """
    last = min(limits.nodes, len(costs.verify_s) - 1)
    nodes = tuple(sorted({*spaced_nodes(last), *(s.nodes for s in holding if s.nodes)}))
    deepest = min(limits.depth, last, acceptance.max_depth or limits.depth)
    frontier = best_trees(acceptance, max_nodes=max(last, 1), max_depth=max(deepest, 1), max_children=limits.children)
    own = {(s.depth, s.nodes): s.speedup for s in holding}

    def at(depth: int, count: int) -> float | None:
        tree = frontier.tree(count, depth)
        if tree.nodes != count or not math.isfinite(costs.verify_s[count]) or not _draftable(tree, costs):
            return own.get((depth, count))
        rate = evaluate(tree, acceptance, **costs.arguments()).speedup
        return max(rate, own.get((depth, count)) or 0.0)

    depths = tuple(range(1, deepest + 1))
    return RateGrid(nodes, depths, tuple(tuple(at(depth, count) for count in nodes) for depth in depths))


def _draftable(tree: TokenTree, costs: RoundCosts) -> bool:
    """Whether the draft's time is known for the widest level."""
    return costs.draft.last is None or max(tree.widths) <= costs.draft.last


def spaced_nodes(last: int, *, an_octave: int = AN_OCTAVE) -> list[int]:
    """Whole numbers up to `last`: dense at first, then a few an octave.

    >>> spaced_nodes(20)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 20]
    """
    octaves = range(1, an_octave * max(0, math.ceil(math.log2(max(last, 1) / DENSE))) + 1)
    wider = (round(DENSE * 2 ** (i / an_octave)) for i in octaves)
    return sorted({*range(1, min(DENSE, last) + 1), *(n for n in wider if n <= last), last})


@dataclass(frozen=True)
class Position:
    """One position of a chain; intervals where rounds or trials were counted."""

    depth: int
    conditional: float
    survival: float
    conditional_interval: Interval | None
    survival_interval: Interval | None


def positions(acceptance: Acceptance) -> list[Position]:
    """Acceptance of a chain by position, as deep as it is known and at most 16.

    >>> from specplan.acceptance.kinds import Chain, Counts
    >>> second = positions(Chain((0.8, 0.5), counts=Counts(rounds=100)))[1]
    >>> second.survival, round(second.survival_interval.low, 2)
    (0.4, 0.31)
    """
    depth = min(acceptance.max_depth or SHOWN_DEPTH, SHOWN_DEPTH)
    survival = [1.0, *acceptance.level_survival(TokenTree.chain(depth))]
    return [_position(acceptance, d, survival[d - 1], survival[d]) for d in range(1, depth + 1)]


def _position(acceptance: Acceptance, depth: int, before: float, survival: float) -> Position:
    counts = acceptance.counts
    rounds = 0.0 if counts is None else counts.rounds or 0.0
    trials = _trials(acceptance, depth)
    if trials is None and rounds * before > 0:
        trials = (min(rounds * survival, rounds * before), rounds * before)
    return Position(
        depth,
        survival / before if before else 0.0,
        survival,
        None if trials is None else wilson(*trials),
        wilson(rounds * survival, rounds) if rounds else None,
    )


def _trials(acceptance: Acceptance, depth: int) -> tuple[float, float] | None:
    """(accepted, trials) of the first child at that depth, where it was counted."""
    rows = () if acceptance.counts is None else acceptance.counts.by_depth_rank
    if not rows or (len(rows) < depth and len(rows) > 1):
        return None
    accepted, trials = rows[min(depth, len(rows)) - 1][0]
    return (accepted, trials) if trials > 0 else None


def rank_rows(acceptance: Acceptance) -> list[tuple[float, ...]]:
    """Child probabilities by rank: one row where all levels are alike, else the first four levels; [] if unknown."""
    if not acceptance.siblings_known or not isinstance(acceptance, ByDepth):
        return []
    levels = 1 if acceptance.depth_free else min(acceptance.max_depth or 4, 4)
    return [acceptance.row(depth, SHOWN_RANKS) for depth in range(1, levels + 1)]


# ---- the tree as an icicle


def spans(tree: TokenTree, reach: Sequence[float]) -> list[float]:
    """Left edge of every node: children side by side from their parent's left edge, likelier ones first."""
    left = [0.0] * tree.nodes
    used: dict[int, float] = {}
    order = sorted(range(tree.nodes), key=lambda i: (tree.position_offsets[i], -reach[i], i))
    for i in order:
        parent = tree.parents[i]
        start = used.get(parent, 0.0 if parent < 0 else left[parent])
        left[i] = start
        used[parent] = start + reach[i]
    return left


def best_chain(tree: TokenTree, reach: Sequence[float]) -> set[int]:
    """The path from the root that takes the likeliest child at each node."""
    path: set[int] = set()
    children: dict[int, list[int]] = {}
    for i, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(i)
    node = -1
    while below := children.get(node):
        node = max(below, key=lambda i: reach[i])
        path.add(node)
    return path
