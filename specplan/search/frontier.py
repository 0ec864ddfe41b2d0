"""The best tree for every number of nodes and levels.

With non-increasing children the best tree of n nodes is the n largest path products, so each level needs its
best values only (`LevelLists`). Where a node's value is not a product, a heap takes the nodes best first
(`BestFirst`). Vectors tested in order that rise somewhere need dynamic programming (`knapsack.py`).

    >>> from ..acceptance.kinds import Independent
    >>> round(LevelLists(Independent(0.6), 14).values(14)[14], 3)
    2.382
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain
from operator import mul, neg
from typing import Any, Protocol, runtime_checkable

from ..acceptance.kinds import Acceptance, ByDepth, Mixture, Paths
from ..base.errors import InputError
from ..base.tree import TokenTree

Row = tuple[tuple[float, ...], "tuple[int, ...] | None"]

# Lists of more values are kept as arrays: a third of the memory, a little slower.
MANY = 50_000


class Engine(Protocol):
    """What finds the best trees.

    proved   whether its values are the optimum
    nested   whether the best tree of n nodes holds the best tree of n - 1, so that a level that adds nothing
             ends the search
    """

    proved: bool
    nested: bool

    def values(self, depth: int) -> list[float]:
        """Best expected accepted tokens with exactly n nodes and at most `depth` levels; as long as trees exist."""

    def tree(self, nodes: int, depth: int) -> TokenTree:
        """A tree with that value: `nodes` nodes, or all that exist."""

    def bound(self, depth: int) -> list[float]:
        """No tree accepts more."""


@runtime_checkable
class ExactDepth(Engine, Protocol):
    """An engine that also knows the best trees of exactly so many levels."""

    def values_to(self, depth: int) -> list[float]:
        """As `values`; -1 where no tree of that depth has so few nodes."""

    def tree_to(self, nodes: int, depth: int) -> TokenTree:
        """A tree with that value."""


def engine_for(acceptance: Acceptance, max_nodes: int, max_children: int | None = None) -> Engine:
    """The engine that is exact for this acceptance, where there is one."""
    if not acceptance.by_node:
        raise InputError(f"no trees from {acceptance.kind}: it values measured shapes alone", hint="fastest_tree")
    if isinstance(acceptance, ByDepth) and acceptance.is_monotone:
        return LevelLists(acceptance, max_nodes, max_children)
    if isinstance(acceptance, (ByDepth, Paths)) and not acceptance.is_monotone:
        from .knapsack import Knapsack

        return Knapsack(acceptance, max_nodes, max_children)
    return BestFirst(acceptance, max_nodes, max_children)


# ---- non-increasing rows


class LevelLists:
    """Each level's values that can be among the best `max_nodes`.

    Of a level only its best n values matter, and they come from the best n values of the level above: the child k
    of the node i (0-based) has (i+1)(k+1) - 1 nodes of its level before it. A value not above the n-th best of the
    levels so far changes no answer and is dropped, which bounds the memory to what any cap on depth can use.

    Values are kept negated: the best come first in ascending order, which is the order of sort and bisect.
    """

    proved = True
    nested = True

    def __init__(self, acceptance: ByDepth, max_nodes: int, max_children: int | None = None) -> None:
        self.acceptance = acceptance
        self.count = max_nodes
        self.children = min(max_nodes, max_children or max_nodes)
        self.levels: list[Sequence[float]] = []
        self._best: list[float] = []
        self._same_row: Row | None = None

    def row(self, depth: int) -> Row:
        """Child probabilities at `depth` as a tree takes them, and their ranks."""
        if not self.acceptance.depth_free:
            return self.acceptance.tested_row(depth, self.children)
        if self._same_row is None:
            self._same_row = self.acceptance.tested_row(1, self.children)
        return self._same_row

    def best(self, depth: int) -> list[float]:
        """The best `max_nodes` values of the first `depth` levels, negated, ascending."""
        while len(self.levels) < depth and (not self.levels or self.levels[-1]):
            self._grow()
        if depth >= len(self.levels):
            return self._best
        return sorted(chain.from_iterable(self.levels[:depth]))[: self.count]

    def _grow(self) -> None:
        above = self.levels[-1] if self.levels else [-1.0]
        last = self._best[-1] if len(self._best) == self.count else math.inf
        level = _next_level(above, self.row(len(self.levels) + 1)[0], self.count, last)
        self.levels.append(level if self.count <= MANY else array("d", level))
        if level:
            self._best = sorted(self._best + level)[: self.count]

    def values(self, depth: int) -> list[float]:
        return list(accumulate(map(neg, self.best(depth)), initial=0.0))

    def bound(self, depth: int) -> list[float]:
        return self.values(depth)

    def tree(self, nodes: int, depth: int) -> TokenTree:
        """Every node above the n-th best value, and of those equal to it the shallowest and first."""
        best = self.best(depth)
        nodes = min(nodes, len(best))
        return self._above(best, nodes, depth) if nodes else TokenTree.empty()

    def values_to(self, depth: int) -> list[float]:
        """As `values`, for trees whose depth is exactly that; -1 where none has so few nodes."""
        self.best(depth)
        if depth > self.count or not all(self.row(d)[0] for d in range(1, depth + 1)):
            return []
        spine = sum(accumulate((self.row(d)[0][0] for d in range(1, depth + 1)), mul))
        rest = map(neg, self._beside(depth)[: self.count - depth])
        return [-1.0] * depth + list(accumulate(rest, initial=spine))

    def _beside(self, depth: int) -> list[float]:
        """Values of all nodes but the first of each level, negated, ascending."""
        return sorted(chain.from_iterable(level[1:] for level in self.levels[:depth]))

    def tree_to(self, nodes: int, depth: int) -> TokenTree:
        """The best tree of exactly that depth: the first node of each level, and the best of the others."""
        return self._above(self._beside(depth), nodes - depth, depth, spine=True)

    def _above(self, best: list[float], count: int, depth: int, *, spine: bool = False) -> TokenTree:
        """The best `count` nodes of these values; `spine`: the first node of each level besides."""
        least = -best[count - 1] if count else math.inf
        equal = count - bisect_left(best, -least)
        parents: list[int] = []
        ranks: list[int] = []
        level = [(1.0, -1)]
        ordered = True
        for d in range(1, depth + 1):
            row, names = self.row(d)
            ordered = ordered and names is None
            following = []
            for place, (value, parent) in enumerate(level):
                for k, p in enumerate(row):
                    child = value * p
                    if not (spine and place == k == 0):
                        if child < least or (child == least and not equal):
                            break
                        equal -= child == least
                    following.append((child, len(parents)))
                    parents.append(parent)
                    ranks.append(names[k] if names else k)
            level = following
        return TokenTree(tuple(parents), tuple(ranks)) if ordered else TokenTree.from_parents(parents, ranks)


def _next_level(above: Sequence[float], row: Sequence[float], count: int, last: float) -> list[float]:
    """The best `count` products of the values above with the row, those not better than `last` left out; negated."""
    found: list[float] = []
    for k, p in enumerate(row):
        kept = above[: count // (k + 1)]
        if kept[0] * p >= last:
            break
        if kept[-1] * p >= last:
            # One ulp too many is harmless, one too few is not.
            kept = kept[: bisect_left(kept, last / p * (1 - 1e-12))]
        found += [value * p for value in kept]
        if len(found) > 4 * count:
            last = min(last, _cut(found, count))
    _cut(found, count)
    return found


def _cut(values: list[float], count: int) -> float:
    """Leaves the best `count` values in order; returns the last."""
    values.sort()
    del values[count:]
    return values[-1] if values else math.inf


# ---- values that are no products


@dataclass(slots=True)
class _Node:
    """A node that was looked at; `first` and `after` are found when they are needed."""

    value: float
    state: Any
    depth: int
    rank: int
    parent: int
    rest: tuple[int, ...] | None = None
    first: int = -1
    after: int = -1


_NONE = -2


class BestFirst:
    """Nodes by value, a child after its parent and a sibling after the earlier one.

    Exact when earlier siblings are never less likely; else `bound` says what is possible at most.
    """

    def __init__(self, acceptance: Acceptance, max_nodes: int, max_children: int | None = None) -> None:
        self.acceptance = acceptance
        self.count = max_nodes
        self.children = min(max_nodes, max_children or max_nodes)
        self.proved = self.nested = acceptance.is_monotone
        self.arena = [_Node(1.0, acceptance.start(), 0, 0, -1)]
        self._orders: dict[int, list[int]] = {}

    def order(self, depth: int) -> list[int]:
        """Indices in the arena, in the order in which nodes join a tree of at most `depth` levels."""
        depth = min(depth, self.acceptance.max_depth or depth)
        if depth not in self._orders:
            self._orders[depth] = self._walk(depth)
        return self._orders[depth]

    def _walk(self, depth: int) -> list[int]:
        return self._walk_from([], [self._first(0)] if depth > 0 else [], depth)

    def _walk_from(self, order: list[int], heads: list[int], depth: int) -> list[int]:
        """These nodes, and then the best first of what follows them."""
        heap = [self._entry(node) for node in heads if node >= 0]
        heapify(heap)
        while heap and len(order) < self.count:
            node = heappop(heap)[-1]
            order.append(node)
            below = self._first(node) if self.arena[node].depth < depth else _NONE
            for following in (self._after(node), below):
                if following >= 0:
                    heappush(heap, self._entry(following))
        return order

    def _entry(self, node: int) -> tuple[float, int, int, int]:
        found = self.arena[node]
        return (-found.value, found.depth, found.rank, node)

    def _first(self, node: int) -> int:
        found = self.arena[node]
        if found.first == -1:
            found.first = self._add(node, self._ranks(found))
        return found.first

    def _after(self, node: int) -> int:
        found = self.arena[node]
        if found.after == -1:
            ranks = (found.rank + 1,) if found.rest is None else found.rest
            found.after = self._add(found.parent, ranks)
        return found.after

    def _ranks(self, above: _Node) -> tuple[int, ...]:
        """Ranks of the children in the order in which they join; (0,) when that is their own order."""
        if not self.acceptance.any_subset:
            return (0,)
        known = self.acceptance.breadth(above.state, above.depth + 1)
        values = {}
        for rank in range(self.children if known is None else min(known, self.children)):
            state = self.acceptance.child(above.state, above.depth + 1, rank)
            if state is not None:
                values[rank] = self.acceptance.weight(state)
        return tuple(sorted(values, key=lambda rank: (-values[rank], rank)))

    def _add(self, parent: int, ranks: tuple[int, ...]) -> int:
        if not ranks or ranks[0] >= self.children:
            return _NONE
        above = self.arena[parent]
        state = self.acceptance.child(above.state, above.depth + 1, ranks[0])
        if state is None:
            return _NONE
        rest = None if not self.acceptance.any_subset else ranks[1:]
        value = self.acceptance.weight(state)
        self.arena.append(_Node(value, state, above.depth + 1, ranks[0], parent, rest))
        return len(self.arena) - 1

    def values(self, depth: int) -> list[float]:
        return list(accumulate((self.arena[node].value for node in self.order(depth)), initial=0.0))

    def bound(self, depth: int) -> list[float]:
        """Each component's best tree for itself, by share."""
        if self.proved or not isinstance(self.acceptance, Mixture):
            return self.values(depth)
        total = [0.0] * (self.count + 1)
        for part, share in zip(self.acceptance.components, self.acceptance.weights):
            values = engine_for(part, self.count, self.children).bound(depth)
            values += values[-1:] * (self.count + 1 - len(values))
            total = [t + share * value for t, value in zip(total, values)]
        return total[: len(self.order(depth)) + 1]

    def tree(self, nodes: int, depth: int) -> TokenTree:
        return self._drawn(self.order(depth)[:nodes])

    def values_to(self, depth: int) -> list[float]:
        """As `values`, for trees whose depth is exactly that.

        For components with non-increasing rows: the first node of each level is then worth more than any other way
        down, and subtrees can be exchanged without loss so that it has the depth.
        """
        order = self._order_to(depth)
        sums = list(accumulate(self.arena[node].value for node in order))
        return [-1.0] * depth + sums[depth - 1 :] if order else []

    def tree_to(self, nodes: int, depth: int) -> TokenTree:
        """The best tree of exactly that depth."""
        return self._drawn(self._order_to(depth)[:nodes])

    def _order_to(self, depth: int) -> list[int]:
        """The first node of each level, and then the others best first; empty where there are too few."""
        spine = [0]
        while len(spine) <= min(depth, self.count) and spine[-1] >= 0:
            spine.append(self._first(spine[-1]) if self.arena[spine[-1]].depth < self._deepest() else _NONE)
        if len(spine) <= depth or spine[-1] < 0:
            return []
        return self._walk_from(spine[1:], [self._after(node) for node in spine[1:]], depth)

    def _deepest(self) -> int:
        return self.acceptance.max_depth or self.count

    def _drawn(self, kept: list[int]) -> TokenTree:
        index = {node: i for i, node in enumerate(kept)}
        index[0] = -1
        found = [self.arena[node] for node in kept]
        return TokenTree.from_parents([index[node.parent] for node in found], [node.rank for node in found])
