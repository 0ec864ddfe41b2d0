"""The optimizer against published programs, against brute force, and against its own laws."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Acceptance, ByDepth, Chain, DepthTable, Independent, Mixture, Paths, Positional
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.search.frontier import BestFirst, LevelLists
from specplan.search.knapsack import Knapsack
from specplan.search.optimize import best_trees, best_uniform, evaluate, fastest_tree, full_tree_fitting

CASES = json.loads(gzip.decompress((Path(__file__).parent / "data" / "tree_cases.json.gz").read_bytes()))
VECTORS = {name: vector["p"] for name, vector in CASES["vectors"].items()}
CONVENTIONS = {True: "all", False: "all_but_leaf"}


# ---- every tree


@lru_cache(None)
def forests(nodes: int) -> tuple[Any, ...]:
    """All ordered forests, as nested tuples."""
    if not nodes:
        return ((),)
    return tuple(
        (below, *beside)
        for first in range(1, nodes + 1)
        for below in forests(first - 1)
        for beside in forests(nodes - first)
    )


def paths_of(forest: Any, above: tuple[int, ...] = ()) -> Any:
    for rank, below in enumerate(forest):
        yield (*above, rank)
        yield from paths_of(below, (*above, rank))


@lru_cache(None)
def every_tree(nodes: int) -> tuple[TokenTree, ...]:
    """All trees of that many nodes in which each child has its elder siblings."""
    return tuple(TokenTree.from_paths(paths_of(forest)) for forest in forests(nodes))


def known(tree: TokenTree, acceptance: Acceptance, depth: int, children: int) -> bool:
    """Whether the acceptance has a value for each node and the limits hold."""
    if tree.depth > min(depth, acceptance.max_depth or depth) or any(rank >= children for rank in tree.ranks):
        return False
    states: list[Any] = []
    for parent, rank, level in zip(tree.parents, tree.ranks, tree.position_offsets):
        above = acceptance.start() if parent < 0 else states[parent]
        states.append(acceptance.child(above, level, rank))
        if states[-1] is None:
            return False
    return True


def most_accepted(acceptance: Acceptance, nodes: int, depth: int, children: int) -> float | None:
    trees = (tree for tree in every_tree(nodes) if known(tree, acceptance, depth, children))
    return max((acceptance.accepted(tree) for tree in trees), default=None)


def highest_rates(acceptance: Acceptance, nodes: int, depth: int, children: int, **costs: Any) -> dict[int, float]:
    """Tokens per second of the fastest tree by nodes."""
    rates = {}
    for count in range(nodes + 1):
        trees = [tree for tree in every_tree(count) if known(tree, acceptance, depth, children)]
        if trees:
            rates[count] = max(evaluate(tree, acceptance, **costs).tokens_per_s for tree in trees)
    return rates


def falling(values: list[float]) -> list[float]:
    """Scaled to sum to at most 1, descending."""
    total = max(1.0, sum(values))
    return sorted((value / total for value in values), reverse=True)


@st.composite
def child_rows(draw: st.DrawFn, monotone: bool) -> list[float]:
    values = draw(st.lists(st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7]), min_size=1, max_size=4))
    total = max(1.0, sum(values))
    return falling(values) if monotone else [value / total for value in values]


@st.composite
def by_depth(draw: st.DrawFn, monotone: bool | None = None) -> ByDepth:
    falls = draw(st.booleans()) if monotone is None else monotone
    if draw(st.booleans()):
        return Positional(tuple(draw(child_rows(falls))))
    return DepthTable(tuple(draw(st.lists(child_rows(falls), min_size=1, max_size=4))))


@st.composite
def paths_measured(draw: st.DrawFn) -> Paths:
    probs = {}
    for rank, p in enumerate(draw(child_rows(False))):
        probs[(rank,)] = p
        for k, q in enumerate(draw(child_rows(False))):
            probs[(rank, k)] = p * q
    return Paths(probs)


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    parts = draw(st.lists(by_depth(), min_size=1, max_size=3))
    return Mixture(tuple(parts), tuple(1.0 for _ in parts))


@st.composite
def times(draw: st.DrawFn, count: int, scale: float) -> list[float]:
    """Flat, rising, stairs, or anything."""
    steps = draw(st.sampled_from(["flat", "line", "stairs", "any"]))
    if steps == "any":
        return [scale * draw(st.sampled_from([0.5, 0.9, 1.0, 1.3, 2.0])) for _ in range(count)]
    slope = 0.0 if steps == "flat" else draw(st.sampled_from([0.02, 0.1, 0.4]))
    tile = 3 if steps == "stairs" else 1
    return [scale * (1 + slope * (i // tile)) for i in range(count)]


# ---- published tables


@pytest.mark.parametrize("run", CASES["runs"], ids=lambda run: run["id"])
def test_every_cell_of_the_published_tables_comes_out(run: dict[str, Any]):
    frontier = best_trees(VECTORS[run["vector"]], max_nodes=run["max_budget"] - 1, max_depth=run["max_depth"] - 1)
    table = run["table"]
    for budget, exact, single in zip(table["budgets"], table["exact_f64"], table["sequoia_f32"]):
        ours = [frontier.exact[levels - 1][budget - 1] for levels in table["levels"]]
        assert [value is None for value in ours] == [value is None for value in exact]
        assert [1 + value for value in ours if value is not None] == pytest.approx([v for v in exact if v], rel=1e-6)
        assert [1 + value for value in ours if value is not None] == pytest.approx([v for v in single if v], rel=1e-5)


@pytest.mark.parametrize("run", CASES["runs"], ids=lambda run: run["id"])
def test_a_listed_budget_and_a_flat_draft_give_the_published_pick(run: dict[str, Any]):
    """min over listed budgets and levels of (levels draft + target) / tokens, plain decoding charged one draft pass."""
    frontier = best_trees(VECTORS[run["vector"]], max_nodes=run["max_budget"] - 1, max_depth=run["max_depth"] - 1)
    per_token = {
        (levels * run["draft_time"] + target) / (1 + value): (budget, levels)
        for budget, target in zip(run["valid_budget"], run["target_time"])
        if budget <= run["max_budget"]
        for levels in range(1, run["max_depth"] + 1)
        if (value := frontier.exact[levels - 1][budget - 1]) is not None
    }
    assert min(per_token) == pytest.approx(run["picked"]["time_per_token"], rel=1e-5)
    assert per_token[min(per_token)] == (run["picked"]["nodes"], run["picked"]["levels"])


@pytest.mark.parametrize("case", CASES["brute_force_values"], ids=lambda c: f"{c['vector']}-{c['nodes']}-{c['levels']}")
def test_enumerated_values_come_out(case: dict[str, Any]):
    row = VECTORS[case["vector"]][: case["first_entries_used"]]
    frontier = best_trees(row, max_nodes=case["nodes"] - 1, max_depth=case["levels"] - 1)
    value = frontier.exact[-1][-1]
    if case["best"] is None:
        assert value is None
    else:
        assert 1 + value == pytest.approx(case["best"], rel=1e-9)


@pytest.mark.parametrize(
    "case", CASES["throughput_cases_exact"], ids=lambda c: f"{c['vector']}-{c['cost']}-{c['leaf_level_pass_paid']}"
)
def test_the_fastest_tree_has_the_published_rate(case: dict[str, Any]):
    table = CASES["throughput_cost_tables"][case["cost"]]
    found = fastest_tree(
        VECTORS[case["vector"]],
        verify_s=table["t_verify_n1_to_64"],
        draft_s=table["t_draft_w1_to_64"],
        max_nodes=case["max_nodes"] - 1,
        max_depth=case["max_levels"] - 1,
        draft_passes=CONVENTIONS[case["leaf_level_pass_paid"]],
    )
    assert found.tokens_per_s == pytest.approx(case["rate"], rel=1e-6)
    assert found.tau == pytest.approx(case["expected_tokens"], rel=1e-6)
    assert found.round_s == pytest.approx(case["cost_total"], rel=1e-6)
    assert (found.optimality, found.gap) == ("proved", 0.0)


@pytest.mark.parametrize("case", CASES["throughput_small_brute_force"])
def test_the_fastest_small_tree_is_the_enumerated_one(case: dict[str, Any]):
    found = fastest_tree(
        case["p"],
        verify_s=case["t_verify"],
        draft_s=case["t_draft"],
        max_nodes=case["max_nodes"] - 1,
        max_depth=case["max_levels"] - 1,
        draft_passes=CONVENTIONS[case["leaf_level_pass_paid"]],
    )
    assert found.tokens_per_s == pytest.approx(case["best_rate"], rel=1e-6)
    assert found.tree.widths == tuple(case["widths_below_root"])


@pytest.mark.parametrize(
    "case", CASES["depth_rows"]["greedy_by_source_program"], ids=lambda c: f"{c['model']}-{c['nodes_incl_root']}"
)
def test_rows_by_depth_give_the_values_of_the_greedy_program(case: dict[str, Any]):
    cumulative = CASES["depth_rows"]["cumulative"][case["model"]]
    rows = [[after - before for before, after in zip([0.0, *row], row)] for row in cumulative]
    nodes, depth = case["nodes_incl_root"] - 1, case["levels_incl_root"] - 1
    frontier = best_trees(DepthTable(rows), max_nodes=nodes, max_depth=depth)
    assert 1 + frontier.accepted[depth][nodes] == pytest.approx(case["F_incl_root"], rel=1e-9)


# ---- the worked example


def test_the_best_fourteen_nodes_at_p_06_are_three_five_four_one_one():
    frontier = best_trees(Independent(0.6), max_nodes=14, max_depth=14)
    tree = frontier.tree(14, 14)
    assert tree.widths == (3, 5, 4, 1, 1)
    assert frontier.accepted[14][14] == pytest.approx(2.382, abs=5e-4)
    assert Independent(0.6).accepted(tree) == pytest.approx(frontier.accepted[14][14], abs=1e-12)


def test_at_p_08_a_chain_of_fourteen_beats_the_full_binary_tree():
    assert Independent(0.8).accepted(TokenTree.chain(14)) == pytest.approx(3.824, abs=5e-4)
    assert Independent(0.8).accepted(TokenTree.full(2, 3)) == pytest.approx(2.766, abs=5e-4)


# ---- node budgets, against brute force


@settings(max_examples=120, deadline=None)
@given(by_depth() | paths_measured(), st.integers(1, 4), st.integers(1, 3))
def test_the_frontier_agrees_with_brute_force(acceptance: Acceptance, depth: int, children: int):
    frontier = best_trees(acceptance, max_nodes=7, max_depth=depth, max_children=children)
    assert frontier.optimality == "proved"
    for nodes in range(8):
        best = most_accepted(acceptance, nodes, depth, children)
        value = frontier.exact[depth][nodes]
        if best is None:
            assert value is None
            assert frontier.accepted[depth][nodes] == frontier.accepted[depth][nodes - 1]
        else:
            tree = frontier.tree(nodes, depth)
            assert value == pytest.approx(best, abs=1e-9)
            assert (tree.nodes, known(tree, acceptance, depth, children)) == (nodes, True)
            assert acceptance.accepted(tree) == pytest.approx(best, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(mixtures(), st.integers(1, 3))
def test_a_mixture_is_proved_where_it_says_so_and_bounded_elsewhere(mixture: Mixture, depth: int):
    frontier = best_trees(mixture, max_nodes=6, max_depth=depth)
    for nodes, value in enumerate(frontier.engine.values(depth)):
        best = most_accepted(mixture, nodes, depth, 6)
        assert best is not None
        assert value <= best + 1e-9 <= frontier.bound(depth)[nodes] + 2e-9
        assert mixture.accepted(frontier.tree(nodes, depth)) == pytest.approx(value, abs=1e-9)
        if frontier.optimality == "proved":
            assert value == pytest.approx(best, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(by_depth(monotone=True), st.integers(1, 40), st.integers(1, 5))
def test_level_lists_the_heap_and_the_dynamic_program_agree(acceptance: ByDepth, nodes: int, depth: int):
    lists, heap, table = (engine(acceptance, nodes).values(depth) for engine in (LevelLists, BestFirst, Knapsack))
    assert lists == pytest.approx(heap, abs=1e-12)
    assert lists == pytest.approx(table, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.integers(1, 60), st.integers(1, 8))
def test_more_nodes_and_more_levels_never_accept_less(values: list[float], nodes: int, depth: int):
    frontier = best_trees(falling(values), max_nodes=nodes, max_depth=depth)
    for shallow, deep in zip(frontier.accepted, frontier.accepted[1:]):
        assert all(a <= b + 1e-12 for a, b in zip(shallow, deep))
        assert all(a <= b for a, b in zip(deep, deep[1:]))
        gains = [b - a for a, b in zip(deep, deep[1:])]
        assert all(a >= b - 1e-12 for a, b in zip(gains, gains[1:]))


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 30))
def test_the_best_tree_accepts_more_when_p_is_larger(p: float, q: float, nodes: int):
    low, high = (best_trees(Independent(x), max_nodes=nodes, max_depth=6).accepted[6][nodes] for x in sorted((p, q)))
    assert 0 <= low <= high + 1e-12 <= nodes + 1e-9


def test_where_any_rank_may_be_drafted_the_best_come_first():
    acceptance = Positional([0.1, 0.5, 0.3], "ranked")
    tree = best_trees(acceptance, max_nodes=3, max_depth=2).tree(3, 2)
    assert tree.paths == ((1,), (2,), (1, 1))
    assert best_trees([0.1, 0.5, 0.3], max_nodes=3, max_depth=2).accepted[2][3] < acceptance.accepted(tree)


def test_rows_that_rise_are_not_taken_best_first():
    values = best_trees([0.05, 0.60, 0.10, 0.02], max_nodes=4, max_depth=4).accepted[4]
    assert [1 + value for value in values] == pytest.approx([1, 1.05, 1.65, 1.75, 2.04])


def test_chain_data_gives_chains():
    tree = best_trees(Chain((0.8, 0.5, 0.9)), max_nodes=10, max_depth=5).tree(10, 5)
    assert tree == TokenTree.chain(3)


def test_p_zero_and_p_one_have_the_trees_one_expects():
    never = best_trees(Independent(0.0), max_nodes=5, max_depth=3)
    assert never.accepted[3] == [0.0] * 6
    assert never.tree(5, 3).nodes == 5
    always = best_trees(Independent(1.0), max_nodes=5, max_depth=9)
    assert always.accepted[9][5] == 5.0
    assert always.tree(5, 9) == TokenTree.chain(5)


def test_a_million_nodes_come_out_of_the_level_lists():
    frontier = best_trees(Positional([0.5, 0.25, 0.125]), max_nodes=1_000_000, max_depth=8)
    assert frontier.tree(1_000_000, 8).nodes == 3 * (3**8 - 1) // 2
    assert frontier.accepted[8][1_000_000] == pytest.approx(sum(0.875**d for d in range(1, 9)))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"max_nodes": 0, "max_depth": 3}, "max_nodes is 0"),
        ({"max_nodes": 5, "max_depth": 0}, "max_depth is 0"),
        ({"max_nodes": 5, "max_depth": -1}, "max_depth is -1"),
        ({"max_nodes": 5.0, "max_depth": 2}, "max_nodes is 5.0"),
        ({"max_nodes": 10**9, "max_depth": 2}, "max_nodes is 1000000000"),
        ({"max_nodes": 5, "max_depth": 2, "max_children": 0}, "max_children is 0"),
    ],
)
def test_limits_out_of_range_are_refused(arguments: dict[str, Any], named: str):
    with pytest.raises(InputError, match=named):
        best_trees([0.6], **arguments)
    with pytest.raises(InputError, match=named):
        fastest_tree([0.6], verify_s=lambda width: 1.0, **arguments)


def test_a_frontier_is_not_asked_beyond_its_limits():
    with pytest.raises(InputError, match="6 nodes"):
        best_trees([0.6], max_nodes=5, max_depth=2).tree(6, 2)


# ---- rounds


def test_each_convention_pays_its_passes():
    tree = TokenTree.from_paths([(0,), (1,), (2,), (0, 0), (1, 0)])
    costs: dict[str, Any] = {"verify_s": lambda width: 100.0 + width, "draft_s": [1, 10, 100, 1000], "overhead_s": 5}
    for passes, paid in {"all": (1, 100, 10), "all_but_leaf": (1, 100), "expanded": (1, 10)}.items():
        assert evaluate(tree, [0.6, 0.2, 0.1], draft_passes=passes, **costs).pass_s == paid
    block = evaluate(tree, [0.6, 0.2, 0.1], draft_shape="block", **costs)
    assert (block.pass_s, block.passes, block.round_s) == ((10,), 1, 10 + 106 + 5)


def test_a_chain_of_four_pays_four_passes_and_no_draft_when_there_is_none():
    chain = evaluate(TokenTree.chain(4), [0.8], verify_s=[10] * 5, draft_s=1.0)
    assert (chain.passes, chain.draft_s, chain.round_s) == (4, 4.0, 14.0)
    assert chain.tokens_per_s == pytest.approx((1 + 0.8 + 0.64 + 0.512 + 0.4096) / 14)
    assert evaluate(TokenTree.chain(4), [0.8], verify_s=[10] * 5).round_s == 10


def test_plain_decoding_pays_neither_draft_nor_overhead():
    plain = evaluate(TokenTree.empty(), [0.8], verify_s=[10], draft_s=1.0, overhead_s=3.0)
    assert (plain.round_s, plain.tau, plain.speedup, plain.passes) == (10, 1, 1, 0)


@pytest.mark.parametrize(
    ("costs", "named"),
    [
        ({"verify_s": [1.0] * 3}, "no verify time for a pass over 4 tokens"),
        ({"verify_s": [1.0] * 4, "draft_s": [0.1], "draft_passes": "all"}, "no draft time for a pass over 2 tokens"),
        ({"verify_s": [1.0, 1.0, 1.0, None]}, "no verify time"),
        ({"verify_s": []}, "verify_s is empty"),
        ({"verify_s": [1.0, 0.0, 1.0, 0.0]}, r"verify_s\[3\] is 0 s"),
        ({"verify_s": [1.0, 1.0, 1.0, -1.0]}, r"verify_s\[3\] is -1 s"),
        ({"verify_s": lambda width: math.nan}, r"verify_s\(4\) is nan s"),
        ({"verify_s": [1.0] * 4, "draft_s": -0.1}, "draft_s is -0.1 s"),
        ({"verify_s": [1.0] * 4, "overhead_s": math.nan}, "overhead_s is nan s"),
        ({"verify_s": 1.0}, "verify_s is '1.0'"),
        ({"verify_s": [1.0] * 4, "draft_passes": "leaf"}, "draft_passes is 'leaf'"),
        ({"verify_s": [1.0] * 4, "draft_shape": "blok"}, "draft_shape is 'blok'"),
    ],
)
def test_costs_that_cannot_be_are_refused(costs: dict[str, Any], named: str):
    with pytest.raises(InputError, match=named) as caught:
        evaluate(TokenTree.from_paths([(0,), (1,), (0, 0)]), [0.6, 0.2], **costs)
    assert caught.value.hint


# ---- throughput, against brute force


@st.composite
def costs_of(draw: st.DrawFn, nodes: int) -> dict[str, Any]:
    draft = draw(st.sampled_from(["none", "constant", "curve", "curve", "curve"]))
    scale = draw(st.sampled_from([0.02, 0.1, 0.3]))
    return {
        "verify_s": draw(times(nodes + 1, 1.0)),
        "draft_s": {"none": None, "constant": scale, "curve": draw(times(nodes + 1, scale))}[draft],
        "overhead_s": draw(st.sampled_from([0.0, 0.1])),
        "draft_passes": draw(st.sampled_from(["all", "all_but_leaf", "expanded"])),
        "draft_shape": draw(st.sampled_from(["sequential", "sequential", "sequential", "block"])),
    }


@settings(max_examples=150, deadline=None)
@given(by_depth() | paths_measured() | mixtures(), st.integers(1, 4), st.integers(1, 4), costs_of(6))
def test_the_fastest_tree_agrees_with_brute_force(
    acceptance: Acceptance, depth: int, children: int, costs: dict[str, Any]
):
    rates = highest_rates(acceptance, 6, depth, children, **costs)
    best = max(rates.values())
    found = fastest_tree(acceptance, max_nodes=6, max_depth=depth, max_children=children, **costs)
    assert best / (1 + found.gap) * (1 - 1e-9) <= found.tokens_per_s <= best * (1 + 1e-9)
    assert (found.optimality == "proved") == (found.gap == 0.0)
    if found.optimality == "proved":
        assert found.tree.nodes == min(n for n, rate in rates.items() if rate >= best * (1 - 1e-12))
    assert evaluate(found.tree, acceptance, **costs) == found.round
    for row in found.candidates:
        assert (row.depth is None) == (row.nodes not in rates)
        if row.tokens_per_s is not None:
            tree = found.tree_with(row.nodes)
            drawn = evaluate(tree, acceptance, **costs)
            assert (tree.nodes, tree.depth) == (row.nodes, row.depth)
            assert drawn.tokens_per_s == pytest.approx(row.tokens_per_s, rel=1e-9)
            assert row.tokens_per_s <= rates[row.nodes] * (1 + 1e-9)


@settings(max_examples=80, deadline=None)
@given(by_depth(monotone=True), st.integers(1, 4), costs_of(6))
def test_non_increasing_rows_are_always_proved(acceptance: ByDepth, depth: int, costs: dict[str, Any]):
    assert fastest_tree(acceptance, max_nodes=6, max_depth=depth, **costs).optimality == "proved"


@settings(max_examples=60, deadline=None)
@given(by_depth(), st.integers(1, 4), costs_of(6))
def test_with_a_draft_time_by_depth_every_row_is_exact(acceptance: ByDepth, depth: int, costs: dict[str, Any]):
    costs |= {"draft_s": 0.1, "draft_shape": "sequential"}
    found = fastest_tree(acceptance, max_nodes=6, max_depth=depth, **costs)
    for nodes, rate in highest_rates(acceptance, 6, depth, 6, **costs).items():
        assert found.candidates[nodes].tokens_per_s == pytest.approx(rate, rel=1e-9)


def random_row(random: Random, count: int, *, falls: bool) -> tuple[float, ...]:
    values = [random.random() for _ in range(count)]
    scale = random.uniform(0.4, 0.95) / sum(values)
    row = tuple(value * scale for value in values)
    return tuple(sorted(row, reverse=True)) if falls else row


def random_paths(random: Random, scheme: str) -> Paths:
    probs: dict[tuple[int, ...], float] = {}
    todo: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while todo:
        above, value = todo.pop()
        for rank, p in enumerate(random_row(random, 2, falls=False) if len(above) < 4 else ()):
            probs[(*above, rank)] = value * p
            todo.append(((*above, rank), value * p))
    return Paths(tuple(probs.items()), scheme)


KINDS: dict[str, Any] = {
    "falling table": lambda r: DepthTable(tuple(random_row(r, 3, falls=True) for _ in range(4))),
    "rising table": lambda r: DepthTable(tuple(random_row(r, 3, falls=False) for _ in range(4))),
    "rising vector": lambda r: Positional(random_row(r, 3, falls=False)),
    "paths": lambda r: random_paths(r, "ordered"),
    "ranked paths": lambda r: random_paths(r, "ranked"),
    "mixture": lambda r: Mixture((Independent(r.uniform(0.1, 0.5)), Independent(r.uniform(0.5, 0.95))), (1, 1)),
    "rising mixture": lambda r: Mixture(tuple(Positional(random_row(r, 3, falls=False)) for _ in range(2)), (1, 2)),
    "ranked mixture": lambda r: Mixture(
        tuple(Positional(random_row(r, 3, falls=False), "ranked") for _ in range(2)), (1, 2)
    ),
}


def random_costs(random: Random, nodes: int) -> dict[str, Any]:
    """Verify times that rise or do anything; draft times that rise, fall or do anything."""
    verify = [1.0]
    for _ in range(nodes):
        verify.append(max(0.3, verify[-1] + random.choice([0, 0.01, 0.05, 0.3, -0.1])))
    draft = sorted(random.uniform(0.01, 0.3) for _ in range(nodes + 1))
    random.choice([lambda: None, draft.reverse, lambda: random.shuffle(draft)])()
    shape = random.choice(["sequential", "sequential", "sequential", "block"])
    passes = random.choice(["all", "all_but_leaf", "expanded"])
    return {"verify_s": verify, "draft_s": draft, "draft_passes": passes, "draft_shape": shape}


def subsets_of_ranks(nodes: int) -> tuple[TokenTree, ...]:
    """All trees of that many nodes with ranks 0..2, elder siblings or not."""
    trees = {()}
    for _ in range(nodes):
        trees = {
            tuple(sorted({*tree, (*above, rank)}))
            for tree in trees
            for above in ((), *tree)
            for rank in range(3)
            if (*above, rank) not in tree
        }
    return tuple(TokenTree.from_paths(tree) for tree in trees)


def rate_of_all(acceptance: Acceptance, trees: Any, depth: int, costs: dict[str, Any]) -> float:
    fit = [tree for tree in trees if known(tree, acceptance, depth, 3)]
    return max(evaluate(tree, acceptance, **costs).tokens_per_s for tree in fit)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_proved_up_to_six_nodes_whatever_the_draft_costs(kind: str):
    random = Random(f"proved {kind}")
    ranked = kind.startswith("ranked")
    every = [tree for n in range(5 if ranked else 7) for tree in (subsets_of_ranks(n) if ranked else every_tree(n))]
    nodes = 4 if ranked else 6
    for _ in range(6 if ranked else 40):
        acceptance, depth, costs = KINDS[kind](random), random.choice([2, 3, 4]), random_costs(random, nodes)
        found = fastest_tree(acceptance, max_nodes=nodes, max_depth=depth, max_children=3, **costs)
        assert (found.optimality, found.gap) == ("proved", 0.0)
        assert known(found.tree, acceptance, depth, 3)
        assert found.tokens_per_s == pytest.approx(rate_of_all(acceptance, every, depth, costs), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_of_twelve_nodes_is_proved_and_not_slower_than_without_a_leaf(kind: str):
    random = Random(f"moved {kind}")
    for _ in range(5):
        acceptance, costs = KINDS[kind](random), random_costs(random, 12)
        found = fastest_tree(acceptance, max_nodes=12, max_depth=4, max_children=3, **costs)
        assert (found.optimality, found.gap) == ("proved", 0.0)
        for leaf in found.tree.paths:
            rest = [path for path in found.tree.paths if path != leaf]
            if not any(path[: len(leaf)] == leaf for path in rest) and (*leaf[:-1], leaf[-1] + 1) not in rest:
                fewer = evaluate(TokenTree.from_paths(rest), acceptance, **costs)
                assert fewer.tokens_per_s <= found.tokens_per_s * (1 + 1e-12)


def test_a_mixture_prefers_the_leaves_that_cost_no_pass():
    mixture = Mixture((Independent(0.4), Independent(0.9)), (1, 1))
    found = fastest_tree(
        mixture, verify_s=[1.0] * 6, draft_s=[0.05, 0.15, 0.2, 0.25, 0.3, 0.35], max_nodes=5, max_depth=3
    )
    assert found.tree.paths == ((0,), (0, 0), (0, 0, 0), (0, 0, 1), (0, 0, 2))
    assert (round(found.tokens_per_s, 4), found.optimality) == (2.2629, "proved")


@pytest.mark.parametrize("kind", ["falling table", "rising table", "rising vector", "paths", "ranked paths", "mixture"])
def test_block_drafting_of_forty_nodes_is_proved_for_any_draft_list(kind: str):
    random = Random(f"block {kind}")
    for _ in range(5):
        acceptance, costs = KINDS[kind](random), random_costs(random, 40) | {"draft_shape": "block"}
        found = fastest_tree(acceptance, max_nodes=40, max_depth=6, **costs)
        assert (found.optimality, found.gap) == ("proved", 0.0)
        frontier = best_trees(acceptance, max_nodes=40, max_depth=6)
        for depth in range(1, 7):
            for nodes in (1, 5, 12, 25, 40):
                rate = evaluate(frontier.tree(nodes, depth), acceptance, **costs).tokens_per_s
                assert rate <= found.tokens_per_s * (1 + 1e-9)


def test_where_the_search_stops_no_tree_exceeds_the_gap():
    mixture = Mixture((Independent(0.45), Independent(0.85)), (1, 1))
    costs: dict[str, Any] = {
        "verify_s": lambda n: max(24.0, n / 2) + 0.05 * n,
        "draft_s": lambda w: max(0.6, 0.0375 * w) + 0.01 * w,
        "draft_passes": "expanded",
    }
    found = fastest_tree(mixture, max_nodes=64, max_depth=10, **costs)
    assert 0 <= found.gap < 0.02
    assert (found.optimality == "gap") == (found.gap > 0)
    frontier = best_trees(mixture, max_nodes=64, max_depth=10)
    for depth in (4, 7, 10):
        for nodes in range(1, 65, 9):
            rate = evaluate(frontier.tree(nodes, depth), mixture, **costs).tokens_per_s
            assert rate <= found.tokens_per_s * (1 + 1e-9)


def test_plain_decoding_wins_where_speculation_costs_more_than_it_gives():
    """Sequoia's rule charges plain decoding a draft pass and picks 4 tokens here, slower than plain decoding."""
    verify = [1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.75, 1.9]
    found = fastest_tree(VECTORS["low"], verify_s=verify, draft_s=0.3, max_nodes=7, max_depth=4, draft_passes="all")
    assert (found.tree, found.tau, found.speedup) == (TokenTree.empty(), 1.0, 1.0)
    assert (found.draft_s, found.overhead_s, found.candidates[0].tokens_per_s) == (0.0, 0.0, 1.0)


def test_the_optimum_never_sits_behind_a_cliff():
    verify = [49.7] * 8 + [112.0] * 24
    found = fastest_tree(Independent(0.7), verify_s=verify, draft_s=1.0, max_nodes=31, max_depth=8)
    assert found.tree.width == 8


def test_a_width_without_a_time_is_never_chosen():
    verify = [1.0, None, 1.0, None, 1.0]
    found = fastest_tree([0.8, 0.1], verify_s=verify, draft_s=[0.01, 0.02, None, 0.01], max_nodes=4, max_depth=4)
    assert [row.tokens_per_s is None for row in found.candidates] == [False, True, False, True, False]
    assert found.tree.nodes == 4


def test_a_verify_curve_that_ends_limits_the_nodes_and_a_draft_curve_the_levels():
    def draft(width: int) -> float | None:
        return 0.01 if width < 2 else None

    found = fastest_tree(Independent(0.9), verify_s=[1.0] * 9, draft_s=draft, max_nodes=64, max_depth=64)
    assert len(found.candidates) == 9
    assert max(found.tree.widths[:-1], default=1) == 1
    assert found.tree.nodes == 8


def test_a_block_draft_pays_for_its_own_depth():
    costs: dict[str, Any] = {"verify_s": [1.0] * 6, "draft_s": [0.5, 0.4, 0.05, 0.3, 0.3], "draft_shape": "block"}
    found = fastest_tree([0.4, 0.3], max_nodes=5, max_depth=5, **costs)
    assert found.tree.depth == 3
    assert found.tokens_per_s == pytest.approx(max(highest_rates(Positional([0.4, 0.3]), 5, 5, 2, **costs).values()))


@pytest.mark.parametrize("passes", ["all", "all_but_leaf", "expanded"])
@pytest.mark.parametrize(
    "acceptance", [Independent(0.8), Positional(VECTORS["shipped_isotonic"])], ids=["0.8", "shipped"]
)
@pytest.mark.parametrize(
    ("verify", "draft"),
    [
        (lambda n: max(24.0, n / 2), lambda w: max(0.6, 0.0375 * w)),
        (lambda n: 20 + 2 * math.ceil(n / 16), lambda w: 0.5 * math.ceil(w / 8)),
        (lambda n: 30 + 0.1 * n, lambda w: 3 + 0.25 * w),
    ],
    ids=["roofline", "tiles", "slow"],
)
def test_the_optimum_of_127_nodes_is_proved_and_beats_every_tree_of_the_frontier(
    passes: str, acceptance: ByDepth, verify: Any, draft: Any
):
    costs: dict[str, Any] = {"verify_s": verify, "draft_s": draft, "draft_passes": passes}
    found = fastest_tree(acceptance, max_nodes=127, max_depth=12, max_children=32, **costs)
    assert (found.optimality, found.gap) == ("proved", 0.0)
    frontier = best_trees(acceptance, max_nodes=127, max_depth=12, max_children=32)
    for depth in (2, 4, 8, 12):
        for nodes in range(1, 128, 9):
            rate = evaluate(frontier.tree(nodes, depth), acceptance, **costs).tokens_per_s
            assert rate <= found.tokens_per_s * (1 + 1e-9)
            assert rate <= found.candidates[nodes].tokens_per_s * (1 + 1e-9)


# ---- simple families


@settings(max_examples=40, deadline=None)
@given(by_depth(), st.integers(1, 12), costs_of(12), st.booleans())
def test_the_best_full_tree_is_the_best_of_all_that_fit(
    acceptance: ByDepth, budget: int, costs: dict[str, Any], timed: bool
):
    def value(tree: TokenTree) -> float:
        return evaluate(tree, acceptance, **costs).tokens_per_s if timed else acceptance.tau(tree)

    widest = acceptance.ranks_known(1) or 0
    fit = [
        TokenTree.full(k, depth)
        for k in range(2, widest + 1)
        for depth in range(1, min(3, acceptance.max_depth or 3) + 1)
        if sum(k**d for d in range(1, depth + 1)) <= budget
    ]
    found = full_tree_fitting(acceptance, budget, **(costs if timed else {}))
    assert (found is None) == (not fit)
    if found is not None:
        assert value(found) == pytest.approx(max(map(value, fit)))


def test_a_free_shape_beats_the_best_uniform_one_and_that_beats_the_full_one():
    for p in (0.4, 0.6, 0.8):
        full = full_tree_fitting(Independent(p), 30, max_depth=8)
        assert full is not None
        uniform = best_uniform(Independent(p), max_nodes=30, max_depth=8)
        free = best_trees(Independent(p), max_nodes=30, max_depth=8).accepted[8][30]
        assert Independent(p).accepted(full) <= Independent(p).accepted(uniform) <= free


def test_a_large_budget_has_its_best_full_tree_quickly():
    tree = full_tree_fitting(Independent(0.6), 100_000)
    assert tree is not None
    assert tree.widths[0] ** tree.depth == tree.widths[-1]


# ---- what is not imported


def test_the_optimizer_imports_no_numerics_for_a_depth_only_question():
    code = (
        "import sys; from specplan.acceptance.kinds import Independent; from specplan.search.optimize import *;"
        "fastest_tree(Independent(0.6), verify_s=[1] * 15, draft_s=0.1, max_nodes=14, max_depth=5);"
        "best_trees(Independent(0.6), max_nodes=14, max_depth=14).tree(14, 14);"
        "print([m for m in ('numpy', 'scipy', 'pydantic', 'yaml', 'rich', 'torch') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
