"""The optimizer against enumeration: every tree up to 9 nodes, every width profile up to 11, 500 random instances each.

Every ordered tree is built once, as the exponents of each node's rank product, and evaluated for all instances with
numpy. Instances come from a fixed seed.
"""

from __future__ import annotations

import numpy as np
import pytest

from specplan.acceptance.kinds import Positional
from specplan.search.optimize import best_trees, fastest_tree

RANKS = 4
INSTANCES = 500


def ordered_trees(nodes: int) -> list[tuple[tuple[int, int], ...]]:
    """Every tree of that many drafted nodes in which child k has its elder siblings: (parent, rank), breadth first."""

    def grow(tree, counts, first):
        # Nodes are added in breadth-first order: the next one hangs below the last parent or a later node.
        if len(tree) == nodes:
            yield tuple(tree)
            return
        for parent in range(first, len(tree)):
            if counts.get(parent, 0) < RANKS:
                rank = counts.get(parent, 0)
                yield from grow([*tree, (parent, rank)], {**counts, parent: rank + 1}, parent)

    return list(grow([], {}, -1)) if nodes else [()]


def as_arrays(
    trees: list[tuple[tuple[int, int], ...]],
) -> tuple[np.ndarray, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Exponents of each node's product (trees x nodes x ranks), level widths, and widths of the nodes with children."""
    exponents, widths, expanded = [], [], []
    for tree in trees:
        rows, depth = [], []
        for parent, rank in tree:
            row = list(rows[parent]) if parent >= 0 else [0] * RANKS
            row[rank] += 1
            rows.append(row)
            depth.append(depth[parent] + 1 if parent >= 0 else 1)
        parents = {parent for parent, _ in tree if parent >= 0}
        levels = max(depth, default=0)
        exponents.append(rows)
        widths.append(tuple(depth.count(d) for d in range(1, levels + 1)))
        expanded.append(tuple(sum(depth[i] == d for i in parents) for d in range(1, levels)))
    return np.array(exponents, dtype=float), widths, expanded


@pytest.fixture(scope="module")
def every_tree():
    """By number of nodes: exponents, widths, expanded widths of every tree."""
    return {nodes: as_arrays(ordered_trees(nodes)) for nodes in range(1, 10)}


def accepted(exponents: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Accepted tokens of every tree for one vector."""
    return np.exp(exponents @ np.log(row)).sum(axis=1)


def random_row(random: np.random.Generator, *, falling: bool) -> np.ndarray:
    row = random.dirichlet(np.ones(RANKS + 1))[:RANKS] + 1e-6
    row *= random.uniform(0.3, 0.99) / row.sum()
    return np.sort(row)[::-1] if falling else row


def test_the_number_of_trees_is_the_known_one(every_tree):
    # Plane trees by edges: Catalan numbers, as long as no node has more than 4 children.
    assert [len(every_tree[n][1]) for n in (1, 2, 3, 4)] == [1, 2, 5, 14]
    assert len(every_tree[5][1]) == 41  # 42 less the fan of 5


@pytest.mark.parametrize("falling", [True, False])
def test_the_best_value_of_every_size_is_that_of_all_trees(every_tree, falling):
    random = np.random.default_rng(7)
    for _ in range(INSTANCES // 2):
        row = random_row(random, falling=falling)
        exact = best_trees(tuple(row), max_nodes=9, max_depth=9).exact[9]
        for nodes, (exponents, _, _) in every_tree.items():
            assert exact[nodes] == pytest.approx(accepted(exponents, row).max(), rel=1e-9)


@pytest.mark.parametrize("passes", ["all", "all_but_leaf", "expanded"])
def test_the_fastest_tree_is_the_fastest_of_all_trees(every_tree, passes):
    random = np.random.default_rng(11)
    for _ in range(INSTANCES // 3 + 1):
        row = random_row(random, falling=True)
        verify = np.cumsum(random.uniform(0, 0.2, 10)) + 1 if random.random() < 0.5 else random.uniform(1, 2, 10)
        draft = random.uniform(0.0, 0.3, 10) if random.random() < 0.5 else np.cumsum(random.uniform(0, 0.05, 10))
        overhead = random.choice([0.0, 0.1])
        best = 1 / verify[0]
        for nodes, (exponents, widths, expanded) in every_tree.items():
            values = 1 + accepted(exponents, row)
            for value, level, fed in zip(values, widths, expanded):
                paid = {"all": level, "all_but_leaf": level[:-1], "expanded": fed}[passes]
                round_s = verify[nodes] + draft[0] + sum(draft[w - 1] for w in paid) + overhead
                best = max(best, value / round_s)
        found = fastest_tree(
            tuple(row),
            verify_s=list(verify),
            draft_s=list(draft),
            overhead_s=overhead,
            max_nodes=9,
            max_depth=9,
            draft_passes=passes,
        )
        assert found.tokens_per_s <= best * (1 + 1e-9)
        assert found.tokens_per_s * (1 + found.gap) >= best * (1 - 1e-9)
        if found.optimality == "proved":
            assert found.tokens_per_s == pytest.approx(best, rel=1e-9)


def profiles(nodes: int) -> list[tuple[int, ...]]:
    """Every way to spread that many nodes over levels."""
    if nodes == 0:
        return [()]
    return [(first, *rest) for first in range(1, nodes + 1) for rest in profiles(nodes - first)]


def beam(row: np.ndarray, widths: tuple[int, ...]) -> float | None:
    """Accepted tokens of the best tree with these level widths: the best candidates of each level are kept."""
    level, total = np.ones(1), 0.0
    for width in widths:
        children = np.sort(np.outer(level, row).ravel())[::-1]
        if width > len(children):
            return None
        level = children[:width]
        total += level.sum()
    return total


@pytest.mark.parametrize("passes", ["all", "all_but_leaf"])
def test_the_fastest_tree_is_the_fastest_of_all_width_profiles(passes):
    random = np.random.default_rng(13)
    every = [widths for nodes in range(1, 12) for widths in profiles(nodes) if len(widths) <= 5]
    for _ in range(INSTANCES // 50):
        row = random_row(random, falling=True)
        sums = [(widths, beam(row, widths)) for widths in every]
        for _ in range(25):  # 25 cost tables a vector
            verify = random.uniform(1, 2, 12) if random.random() < 0.5 else np.cumsum(random.uniform(0, 0.2, 12)) + 1
            draft = np.cumsum(random.uniform(0, 0.05, 12))
            best = 1 / verify[0]
            for widths, value in sums:
                if value is not None:
                    paid = widths if passes == "all" else widths[:-1]
                    best = max(best, (1 + value) / (verify[sum(widths)] + draft[0] + sum(draft[w - 1] for w in paid)))
            found = fastest_tree(
                Positional(tuple(row)),
                verify_s=list(verify),
                draft_s=list(draft),
                max_nodes=11,
                max_depth=5,
                draft_passes=passes,
            )
            assert found.tokens_per_s == pytest.approx(best, rel=1e-9)
            assert found.optimality == "proved"
