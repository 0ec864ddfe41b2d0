"""Monte Carlo: against the sums, against rounds played one by one, and against its own seed."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from specplan.acceptance.kinds import Acceptance, Chain, DepthTable, Independent, Mixture, Paths, Positional
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.planning.simulate import simulate
from specplan.search.optimize import best_trees

CASES: list[tuple[Acceptance, TokenTree]] = [
    (Independent(0.6), TokenTree.full(2, 3)),
    (Independent(0.8, decay=0.9), TokenTree.chain(6)),
    (Positional([0.55, 0.2, 0.1]), TokenTree.full([3, 2, 1])),
    (Positional([0.1, 0.5]), TokenTree.from_paths([(0,), (1,), (1, 0), (1, 1)])),
    (DepthTable([[0.7, 0.3], [0.5, 0.25]]), TokenTree.full(2, 2)),
    (Chain((0.9, 0.5, 0.8)), TokenTree.chain(3)),
    (Paths({(0,): 0.5, (1,): 0.3, (0, 0): 0.5, (1, 0): 0.1}), TokenTree.from_paths([(0,), (1,), (0, 0), (1, 0)])),
    (Mixture([Independent(0.9), Independent(0.4)], [1, 2]), TokenTree.full(2, 4)),
]


@pytest.mark.parametrize(("acceptance", "tree"), CASES, ids=lambda value: getattr(value, "kind", ""))
def test_the_mean_of_many_rounds_is_tau(acceptance: Acceptance, tree: TokenTree):
    played = simulate(tree, acceptance, rounds=1_000_000, seed=11)
    assert abs(played.tau - acceptance.tau(tree)) < 4.5 * played.se + 1e-12
    assert sum(played.accepted_counts) == played.rounds == 1_000_000


@pytest.mark.parametrize(("acceptance", "tree"), CASES, ids=lambda value: getattr(value, "kind", ""))
def test_rounds_end_at_each_depth_as_often_as_survival_says(acceptance: Acceptance, tree: TokenTree):
    rounds = 400_000
    played = simulate(tree, acceptance, rounds=rounds, seed=5)
    survival = [1.0, *acceptance.level_survival(tree), 0.0]
    for count, here, further in zip(played.accepted_counts, survival, survival[1:]):
        share = here - further
        assert abs(count / rounds - share) < 5 * math.sqrt(max(share, 1e-9) / rounds) + 1e-12


def test_rounds_played_candidate_by_candidate_give_the_same_spread():
    """Every candidate passes with probability p of its own, in turn, as the textbook describes it."""
    tree, p, draws = best_trees(Independent(0.6), max_nodes=14, max_depth=5).tree(14, 5), 0.6, random.Random(3)
    children = {node: [i for i, parent in enumerate(tree.parents) if parent == node] for node in range(-1, tree.nodes)}

    def accepted() -> int:
        node, depth = -1, 0
        while (passed := next((child for child in children[node] if draws.random() < p), None)) is not None:
            node, depth = passed, depth + 1
        return depth

    one_by_one = [accepted() for _ in range(60_000)]
    together = simulate(tree, Independent(p), rounds=1_000_000, seed=2)
    mean = sum(one_by_one) / len(one_by_one)
    spread = math.sqrt(sum((x - mean) ** 2 for x in one_by_one) / len(one_by_one))
    assert 1 + mean == pytest.approx(together.tau, abs=5 * spread / math.sqrt(len(one_by_one)))
    assert spread == pytest.approx(together.se * 1000, rel=0.03)


def test_the_same_seed_plays_the_same_rounds_and_another_seed_others():
    tree = TokenTree.full(2, 3)
    first, again, other = (simulate(tree, [0.5, 0.2], rounds=10_000, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.accepted_counts != other.accepted_counts


def test_plain_decoding_yields_one_token_a_round():
    played = simulate(TokenTree.empty(), Independent(0.6), rounds=10)
    assert (played.tau, played.se, played.accepted_counts) == (1.0, 0.0, (10,))


def test_p_one_accepts_the_whole_chain_and_p_zero_nothing():
    assert simulate(TokenTree.chain(3), Independent(1.0), rounds=10).accepted_counts == (0, 0, 0, 10)
    assert simulate(TokenTree.chain(3), Independent(0.0), rounds=10).accepted_counts == (10, 0, 0, 0)


@pytest.mark.parametrize(
    "arguments", [{"rounds": 0}, {"rounds": 1.5}, {"rounds": True}, {"seed": -1}, {"rounds": 10**20}]
)
def test_no_number_of_rounds_or_seed_is_refused(arguments: dict[str, Any]):
    with pytest.raises(InputError, match="give a whole number"):
        simulate(TokenTree.chain(1), [0.5], **arguments)
