"""The best tree for vectors that are tested in order and rise somewhere: dynamic programming.

There the best trees of n and n + 1 nodes need not share anything, so best-first fails. With F the best value of the
nodes below a node and S_k that of its children k, k+1, ... with what is below them, each for exactly m nodes:

    S_k(m) = max over s >= 1 of [p_k (1 + F(s - 1)) + S_(k+1)(m - s)],   F = S_0,   S(0) = 0

Exact, O(nodes^2 children depth) as array operations. A vector that is the same at every depth needs one table per
number of levels left; other vectors one per depth and levels left; measured paths one per path. Trees that must have
exactly so many levels need a second table: one of the children carries the depth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..acceptance.kinds import ByDepth, Paths
from ..base.tree import TokenTree

Floats = NDArray[np.float64]
Key = tuple[int, ...]

# Entries of one intermediate array: 64 MB.
MAX_ENTRIES = 8_000_000


def best_sums(first: Floats, second: Floats, count: int) -> Floats:
    """max over s of first[s] + second[m - s] for m = 0..count; -inf where nothing adds up."""
    size = min(len(first) + len(second) - 1, count + 1)
    padded = np.full(size + len(first) - 1, -np.inf)
    padded[len(first) - 1 :][: len(second)] = second[:size]
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(first))
    step = max(1, MAX_ENTRIES // len(first))
    return np.concatenate([(windows[i : i + step] + first[::-1]).max(axis=1) for i in range(0, size, step)])


class Knapsack:
    """Exact values and trees for rows that rise, and for measured paths whose siblings rise."""

    proved = True
    nested = False

    def __init__(self, acceptance: ByDepth | Paths, max_nodes: int, max_children: int | None = None) -> None:
        self.acceptance = acceptance
        self.count = max_nodes
        self.children = min(max_nodes, max_children or max_nodes)
        self._sums: dict[tuple[Key, int, bool], list[Floats]] = {}

    # ---- what differs between rows and paths

    def _row(self, key: Key) -> Sequence[float]:
        """Child probabilities, or values of the child paths, below a place."""
        if isinstance(self.acceptance, Paths):
            breadth = self.acceptance.breadth(key, len(key) + 1) or 0
            return [self.acceptance.weight((*key, rank)) for rank in range(min(breadth, self.children))]
        return self.acceptance.row(len(key) + 1, self.children)

    def _below(self, key: Key, rank: int) -> Key:
        if isinstance(self.acceptance, Paths):
            return (*key, rank)
        return key if self.acceptance.depth_free else (*key, 0)

    def _with_child(self, key: Key, rank: int, weight: float, below: Floats) -> Floats:
        """Value of a child and what is below it, by the nodes they take; index 0 is to leave it out."""
        known = np.isfinite(below)
        sums = np.where(known, below, 0.0)
        values = weight + sums if isinstance(self.acceptance, Paths) else weight * (1.0 + sums)
        left_out = 0.0 if self.acceptance.any_subset else -np.inf
        if isinstance(self.acceptance, Paths) and self.acceptance.child(key, len(key) + 1, rank) is None:
            return np.array([left_out])
        return np.concatenate([[left_out], np.where(known, values, -np.inf)[: self.count]])

    # ---- tables

    def _tables(self, key: Key, left: int, full: bool = False) -> list[Floats]:
        """S_0, S_1, ... of a place with `left` levels below it; `full`: some node is at the last of them."""
        if (key, left, full) not in self._sums:
            row = self._row(key) if left > 0 else ()
            sums = [np.full(1, -np.inf) if full and left else np.zeros(1)]
            for rank in reversed(range(len(row))):
                parts = [
                    best_sums(*pair, self.count) for pair in self._pairs(key, left, full, rank, row[rank], sums[-1])
                ]
                total = np.full(max(map(len, parts)), -np.inf)
                for part in parts:
                    total[: len(part)] = np.maximum(total[: len(part)], part)
                total[0] = -np.inf if full else 0.0
                sums.append(total)
            self._sums[key, left, full] = sums[::-1]
        return self._sums[key, left, full]

    def _pairs(
        self, key: Key, left: int, full: bool, rank: int, weight: float, rest: Floats
    ) -> list[tuple[Floats, Floats]]:
        """(a child, its younger siblings) by nodes; `full`: the younger siblings carry the depth, or the child does."""
        below = self._below(key, rank)
        child = self._with_child(key, rank, weight, self._tables(below, left - 1)[0])
        if not full:
            return [(child, rest)]
        tall = self._with_child(key, rank, weight, self._tables(below, left - 1, True)[0])
        tall[0] = -np.inf
        return [(child, rest), (tall, self._tables(key, left)[rank + 1])]

    def _levels(self, depth: int) -> int:
        return min(depth, self.count, self.acceptance.max_depth or depth)

    def _best(self, levels: int, full: bool = False) -> Floats:
        if isinstance(self.acceptance, ByDepth) and self.acceptance.depth_free:
            for left in range(levels):
                self._tables((), left, full)
        return self._tables((), levels, full)[0]

    def values(self, depth: int) -> list[float]:
        best = self._best(self._levels(depth))
        return [float(value) for value in best[np.isfinite(best)]]

    def values_to(self, depth: int) -> list[float]:
        """As `values`, for trees whose depth is exactly that; -1 where none has so many nodes."""
        if depth > self._levels(depth):
            return []
        best = self._best(depth, True)
        return np.where(np.isfinite(best), best, -1.0).tolist()  # type: ignore[no-any-return]

    def bound(self, depth: int) -> list[float]:
        return self.values(depth)

    # ---- trees

    def tree(self, nodes: int, depth: int) -> TokenTree:
        return self._drawn(min(nodes, len(self.values(depth)) - 1), self._levels(depth), False)

    def tree_to(self, nodes: int, depth: int) -> TokenTree:
        """The best tree of exactly that depth."""
        return self._drawn(nodes, depth, True)

    def _drawn(self, nodes: int, levels: int, full: bool) -> TokenTree:
        parents: list[int] = []
        ranks: list[int] = []
        todo: list[tuple[int, Key, int, int, bool]] = [(-1, (), nodes, levels, full)]
        while todo:
            node, key, count, left, tall = todo.pop()
            for rank, size, carries in self._shares(key, count, left, tall):
                todo.append((len(parents), self._below(key, rank), size - 1, left - 1, carries))
                parents.append(node)
                ranks.append(rank)
        return TokenTree.from_parents(parents, ranks)

    def _shares(self, key: Key, count: int, left: int, full: bool) -> list[tuple[int, int, bool]]:
        """Rank of each child, the nodes that it takes, itself included, and whether it carries the depth."""
        shares: list[tuple[int, int, bool]] = []
        row = self._row(key) if count else ()
        for rank, weight in enumerate(row):
            if not count:
                break
            rest = self._tables(key, left, full)[rank + 1]
            pairs = self._pairs(key, left, full, rank, weight, rest)
            found = [_split(child, others, count) for child, others in pairs]
            carries = full and found[1] > found[0]
            size = found[carries][1]
            if size:
                shares.append((rank, size, carries))
            full, count = full and not carries, count - size
        return shares


def _split(child: Floats, rest: Floats, count: int) -> tuple[float, int]:
    """Most that `count` nodes are worth when shared by a child and the rest, and the child's share."""
    sizes = np.arange(max(0, count - len(rest) + 1), min(count, len(child) - 1) + 1)
    if not len(sizes):
        return -np.inf, 0
    sums = child[sizes] + rest[count - sizes]
    best = int(np.argmax(sums))
    return float(sums[best]), int(sizes[best])
