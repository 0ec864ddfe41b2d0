"""Regular trees: the same number of children on a whole level, or in the whole tree.

>>> full_tree_fitting([0.6, 0.24], 14).widths
(2, 4, 8)
>>> best_uniform([0.6, 0.24], max_nodes=14, max_depth=4).widths
(2, 4, 4, 4)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from ..acceptance.kinds import Acceptance, ByDepth, as_acceptance
from ..base.errors import InputError
from ..base.tree import MAX_DEPTH, MAX_NODES, TokenTree, limit
from .rounds import Costs, Times

# A level that is reached less often than this, or a child that adds less, is not worth a pass.
NEGLIGIBLE = 1e-9


def full_tree_fitting(
    acceptance: Any,
    budget: int,
    *,
    max_depth: int | None = None,
    max_children: int | None = None,
    verify_s: Times | None = None,
    **costs: Any,
) -> TokenTree | None:
    """The best full k-ary tree (k >= 2) of at most `budget` nodes; None when not even two nodes fit.

    Best by accepted tokens, or by tokens per second when `verify_s` (and the costs of `evaluate`) are given.
    """
    known = as_acceptance(acceptance)
    most = limit(budget, "budget", MAX_NODES)
    levels = min(max_depth or most, known.max_depth or most)
    widest = min(max_children or most, _children_known(known, most))
    covers = _full_covers(known, most, levels, widest)
    priced = _priced(verify_s, costs)
    best, shape = 0.0, None
    for k, depth in _full_shapes(most, levels, widest):
        value = _full_value(known, covers, k, depth, priced)
        if value > best * (1 + 1e-12):
            best, shape = value, (k, depth)
    return None if shape is None else TokenTree.full(*shape)


def _full_shapes(budget: int, max_depth: int, max_children: int) -> Iterator[tuple[int, int]]:
    """(children, depth) of the full trees that fit."""
    for k in range(2, max_children + 1):
        for depth in range(1, max_depth + 1):
            if (k ** (depth + 1) - k) // (k - 1) > budget:
                break
            yield k, depth


def _children_known(acceptance: Acceptance, most: int) -> int:
    """Children of the root that something is known about."""
    known = acceptance.breadth(acceptance.start(), 1)
    return most if known is None else min(most, known)


def _priced(verify_s: Times | None, given: dict[str, Any]) -> Costs | None:
    if verify_s is None:
        return None
    passes, shape = given.get("draft_passes", "all_but_leaf"), given.get("draft_shape", "sequential")
    return Costs.of(verify_s, given.get("draft_s"), given.get("overhead_s", 0.0), passes, shape)


def _full_covers(known: Acceptance, budget: int, max_depth: int, widest: int) -> list[list[float]]:
    """`_covers` by depth, for every k that a full tree of that depth can have within the budget."""
    covers: list[list[float]] = []
    while isinstance(known, ByDepth) and len(covers) < max_depth and 2 ** (len(covers) + 1) <= budget:
        depth = len(covers) + 1
        covers.append(_covers(known.row(depth, min(widest, int(budget ** (1 / depth)) + 1))))
    return covers


def _full_value(known: Acceptance, covers: list[list[float]], k: int, depth: int, costs: Costs | None) -> float:
    """Tokens of a round (per second, with costs) of the full tree; no tree is built where rows say it all."""
    if isinstance(known, ByDepth):
        tau = 1.0 + math.fsum(
            accumulate((cover[min(k, len(cover)) - 1] if cover else 0.0 for cover in covers[:depth]), mul)
        )
    else:
        tau = known.tau(TokenTree.full(k, depth))
    if costs is None:
        return tau
    widths = [k**level for level in range(1, depth + 1)]
    passes = map(costs.draft_time, costs.pass_widths_of(widths))
    return tau / math.fsum([costs.verify_time(sum(widths) + 1), costs.overhead_s, *passes])


# ---- the same number of children on a whole level


@dataclass(frozen=True, slots=True)
class _Grown:
    """A uniform tree while it grows.

    reached   probability that a round gets through its last level
    draft_s   passes over all its levels but the last
    """

    counts: tuple[int, ...]
    width: int
    nodes: int
    accepted: float
    reached: float
    draft_s: float


def best_uniform(
    acceptance: Any,
    *,
    max_nodes: int,
    max_depth: int,
    max_children: int | None = None,
    verify_s: Times | None = None,
    **costs: Any,
) -> TokenTree:
    """The best tree in which every node of a level has the same number of children; plain decoding included.

    Best by accepted tokens, or by tokens per second when `verify_s` (and the costs of `evaluate`) are given.
    All uniform trees are looked at, but for levels that are reached in less than one round of 1e9.

    Raises  InputError for path frequencies and mixtures, which have no rows by depth.
    """
    known = as_acceptance(acceptance)
    if not isinstance(known, ByDepth):
        raise InputError(f"no uniform tree from {known.kind}", hint="give child probabilities by depth and rank")
    priced = _priced(verify_s, costs)
    most = limit(max_nodes, "max_nodes", MAX_NODES)
    if priced is not None:
        most = len(priced.verify_times(most)) - 1
    depth = min(limit(max_depth, "max_depth", MAX_DEPTH), known.max_depth or max_depth)
    covers = [_covers(known.row(level, min(most, max_children or most))) for level in range(1, depth + 1)]
    # Where a wider pass may be faster, a child that adds nothing may still reach a faster width.
    least = NEGLIGIBLE if priced is None or _never_falls(priced, most) else -1.0
    ahead = _ahead([cover[-1] if cover else 0.0 for cover in covers])
    cheapest = _cheapest(priced, most)
    best, value = _Grown((), 1, 0, 0.0, 1.0, 0.0), 1.0 if priced is None else 1.0 / priced.verify_time(1)
    stack = [best]
    while stack:
        at = stack.pop()
        level = len(at.counts)
        # What no tree grown from this one can exceed: every further level as good as it gets, at no further cost.
        bound = (1 + at.accepted + at.reached * ahead[level]) / (at.draft_s + cheapest[at.nodes])
        if level == depth or bound <= value:
            continue
        for grown in _with_a_level(at, covers[level], most, priced, least):
            rate = (1 + grown.accepted) / (1.0 if priced is None else _round_s(grown, priced))
            if rate > value * (1 + 1e-12):
                best, value = grown, rate
            stack.append(grown)
    return TokenTree.full(best.counts) if best.counts else TokenTree.empty()


def _ahead(covers: list[float]) -> list[float]:
    """Expected tokens of all levels from each one on, if all children were drafted."""
    rest = [0.0]
    for cover in reversed(covers):
        rest.append(cover * (1 + rest[-1]))
    return rest[::-1]


def _cheapest(costs: Costs | None, most: int) -> list[float]:
    """The shortest verification and overhead of any tree with at least that many nodes."""
    if costs is None:
        return [1.0] * (most + 1)
    times = [costs.verify_time(nodes + 1) + costs.overhead_s for nodes in range(most + 1)]
    for nodes in range(most - 1, -1, -1):
        times[nodes] = min(times[nodes], times[nodes + 1])
    return times


def _round_s(grown: _Grown, costs: Costs) -> float:
    draft = grown.draft_s
    if costs.shape == "block":
        draft = costs.draft_time(len(grown.counts))
    elif costs.passes == "all":
        draft += costs.draft_time(grown.width)
    return draft + costs.verify_time(grown.nodes + 1) + costs.overhead_s


def _never_falls(costs: Costs, most: int) -> bool:
    """Whether a wider verification never takes less time, nor a wider draft pass."""
    verify = [costs.verify_time(width) for width in range(1, most + 2)]
    draft = [costs.draft_time(width) for width in range(1, most + 1)]
    return all(a <= b for times in (verify, draft) for a, b in zip(times, times[1:]))


def _with_a_level(at: _Grown, covers: list[float], most: int, costs: Costs | None, least: float) -> Iterator[_Grown]:
    """The tree with one more level of 1, 2, ... children a node, until one adds less than `least` or does not fit."""
    draft_s = at.draft_s + (0.0 if costs is None or costs.shape == "block" else costs.draft_time(at.width))
    before = 0.0
    for count, cover in enumerate(covers, 1):
        width = at.width * count
        if at.nodes + width > most or at.reached * (cover - before) < least:
            return
        before = cover
        reached = at.reached * cover
        yield _Grown((*at.counts, count), width, at.nodes + width, at.accepted + reached, reached, draft_s)


def _covers(row: tuple[float, ...]) -> list[float]:
    """Probability that one of the first b children is accepted, b = 1, 2, ..."""
    total, covers = 0.0, []
    for value in row:
        total += value
        covers.append(total)
    return covers
