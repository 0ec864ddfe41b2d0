"""The best tree for vectors that are tested in order and rise somewhere: dynamic programming.

There the best trees of n and n + 1 nodes need not share anything, so best-first fails. With F the best value of the
nodes below a node and S_k that of its children k, k+1, ... with what is below them, each for exactly m nodes:

    S_k(m) = max over s >= 1 of [p_k (1 + F(s - 1)) + S_(k+1)(m - s)],   F = S_0,   S(0) = 0

Exact, O(nodes^2 children depth) as array operations. A vector that is the same at every depth needs one table per
number of levels left; other vectors one per depth and levels left; measured paths one per path.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .acceptance import ByDepth, Paths
from .tree import Path, TokenTree

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
        self._sums: dict[tuple[Key, int], list[Floats]] = {}

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

    def _with_child(self, weight: float, below: Floats) -> Floats:
        """Value of a child and what is below it, by the nodes they take; index 0 is impossible."""
        values = (
            weight + below
            if isinstance(self.acceptance, Paths)
            else np.where(np.isfinite(below), weight * (1.0 + np.where(np.isfinite(below), below, 0.0)), -np.inf)
        )
        return np.concatenate([[-np.inf], values[: self.count]])

    # ---- tables

    def _tables(self, key: Key, left: int) -> list[Floats]:
        """S_0, S_1, ... of a place with `left` levels below it."""
        if (key, left) not in self._sums:
            row = self._row(key) if left > 0 else ()
            sums = [np.zeros(1)]
            for rank in reversed(range(len(row))):
                child = self._with_child(row[rank], self._tables(self._below(key, rank), left - 1)[0])
                total = best_sums(child, sums[-1], self.count)
                total[0] = 0.0
                sums.append(total)
            self._sums[key, left] = sums[::-1]
        return self._sums[key, left]

    def _best(self, depth: int) -> Floats:
        levels = min(depth, self.count, self.acceptance.max_depth or depth)
        if isinstance(self.acceptance, ByDepth) and self.acceptance.depth_free:
            for left in range(levels):
                self._tables((), left)
        return self._tables((), levels)[0]

    def values(self, depth: int) -> list[float]:
        best = self._best(depth)
        return [float(value) for value in best[np.isfinite(best)]]

    def bound(self, depth: int) -> list[float]:
        return self.values(depth)

    # ---- trees

    def tree(self, nodes: int, depth: int) -> TokenTree:
        reachable = len(self.values(depth)) - 1
        paths: list[Path] = []
        levels = min(depth, self.count, self.acceptance.max_depth or depth)
        todo: list[tuple[Path, Key, int, int]] = [((), (), min(nodes, reachable), levels)]
        while todo:
            path, key, count, left = todo.pop()
            for rank, size in enumerate(self._shares(key, count, left)):
                paths.append((*path, rank))
                todo.append(((*path, rank), self._below(key, rank), size - 1, left - 1))
        return TokenTree.from_paths(paths)

    def _shares(self, key: Key, count: int, left: int) -> list[int]:
        """Nodes that each child takes, itself included."""
        shares: list[int] = []
        row = self._row(key) if count else ()
        for rank, weight in enumerate(row):
            if not count:
                break
            child = self._with_child(weight, self._tables(self._below(key, rank), left - 1)[0])
            rest = self._tables(key, left)[rank + 1]
            sizes = np.arange(max(1, count - len(rest) + 1), min(count, len(child) - 1) + 1)
            shares.append(int(sizes[np.argmax(child[sizes] + rest[count - sizes])]))
            count -= shares[-1]
        return shares
