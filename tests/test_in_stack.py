"""Families of shapes, limits, sensitivity, batches: against brute force and against each other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Chain, DepthTable, Independent, Mixture, Positional
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.planning.batch import Stretch, best_split, schedule
from specplan.planning.explain import ceiling, scaled, sensitivity, variants
from specplan.planning.families import families
from specplan.planning.plan import plan
from specplan.search.best import best_tree
from specplan.search.costs import RoundCosts
from specplan.search.optimize import best_trees, evaluate
from specplan.search.shape import shape_of
from specplan.search.space import Space
from specplan.search.uniform import best_uniform, full_tree_fitting
from specplan.timing.draft import Draft, timed_draft

acceptances = st.one_of(
    st.builds(Independent, st.floats(0.05, 0.95)),
    st.just(Positional((0.5, 0.2, 0.1))),
    st.just(DepthTable(((0.6, 0.2), (0.4, 0.1), (0.3,)))),
)


@st.composite
def rounds(draw):
    """RoundCosts of a round in every convention."""
    size = draw(st.integers(2, 16))
    level = draw(st.floats(0, 0.05))
    return {
        "verify_s": draw(st.lists(st.floats(1.0, 2.0), min_size=size, max_size=size)),
        "draft_s": draw(st.sampled_from([0.0, 0.1, lambda width: 0.05 + level * width])),
        "overhead_s": draw(st.sampled_from([0.0, 0.1])),
        "draft_passes": draw(st.sampled_from(["all", "all_but_leaf", "expanded"])),
        "draft_shape": draw(st.sampled_from(["sequential", "block"])),
    }


def every_uniform(acceptance, nodes, depth):
    """All uniform trees by brute force; children that nothing is known about are not drafted."""
    for levels in range(1, depth + 1):
        most = [min(nodes, acceptance.ranks_known(level) or nodes) for level in range(1, levels + 1)]
        for counts in itertools.product(*(range(1, count + 1) for count in most)):
            widths = list(itertools.accumulate(counts, lambda a, b: a * b))
            if sum(widths) <= nodes:
                yield TokenTree.full(counts)


@settings(deadline=None, max_examples=60)
@given(acceptances, rounds())
def test_the_best_uniform_tree_is_the_best_of_all_of_them(acceptance, costs):
    nodes = len(costs["verify_s"]) - 1
    depth = min(3, acceptance.max_depth or 3)
    found = best_uniform(acceptance, max_nodes=nodes, max_depth=depth, **costs)
    trees = [TokenTree.empty(), *every_uniform(acceptance, nodes, depth)]
    best = max(evaluate(tree, acceptance, **costs).tokens_per_s for tree in trees)
    assert evaluate(found, acceptance, **costs).tokens_per_s == pytest.approx(best, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(acceptances, rounds())
def test_the_best_full_tree_is_the_best_of_all_of_them(acceptance, costs):
    nodes = len(costs["verify_s"]) - 1
    found = full_tree_fitting(acceptance, nodes, max_depth=3, **costs)
    known = acceptance.ranks_known(1) if hasattr(acceptance, "ranks_known") else None
    trees = [
        TokenTree.full(k, d)
        for k in range(2, min(nodes, known or nodes) + 1)
        for d in range(1, min(3, acceptance.max_depth or 3) + 1)
        if sum(k**i for i in range(1, d + 1)) <= nodes
    ]
    assert (found is None) == (not trees)
    if trees:
        best = max(evaluate(tree, acceptance, **costs).tokens_per_s for tree in trees)
        assert evaluate(found, acceptance, **costs).tokens_per_s == pytest.approx(best)


@settings(deadline=None, max_examples=40)
@given(acceptances, rounds())
def test_no_family_beats_the_free_optimum(acceptance, given_costs):
    # The dynamic family feeds its topk nodes only; where width costs nothing, that saves nothing.
    draft = given_costs["draft_s"] if isinstance(given_costs["draft_s"], float) else 0.2
    costs = RoundCosts(
        verify_s=given_costs["verify_s"],
        draft=Draft("d", draft),
        overhead_s=given_costs["overhead_s"],
        draft_passes="all_but_leaf",
    )
    limits = Space(len(costs.verify_s) - 1, 4)
    free = best_tree(acceptance, limits, costs).shape
    for family in families(acceptance, limits, costs, free).values():
        if family is not None:
            assert family.loss >= -1e-9


def test_a_dynamic_tree_of_one_context_is_a_static_tree_of_its_pool():
    limits = Space(8, 3)
    free = best_tree(Independent(0.6), limits, None).shape
    dynamic = families(Independent(0.6), limits, None, free)["dynamic"]
    assert dynamic.tau == pytest.approx(free.tau)
    assert dynamic.settings["draft_tokens_with_root"] == 9


def test_dynamic_trees_gain_where_contexts_differ():
    # Two contexts, 0.9 and 0.4, half each, 15 drafted nodes: static joint optimum 4.969, per-context optimum 5.387
    # (tree_algorithms, section 3.5, by enumeration).
    mixed = Mixture((Independent(0.9), Independent(0.4)), (0.5, 0.5))
    limits = Space(15, 15)
    free = best_tree(mixed, limits, None).shape
    dynamic = families(mixed, limits, None, free)["dynamic"]
    assert free.tau == pytest.approx(4.969, abs=5e-4)
    assert dynamic.tau == pytest.approx(5.387, abs=5e-4)
    assert dynamic.loss < 0


def test_chain_data_leaves_only_the_chain_family():
    chain = Chain((0.8, 0.7))
    found = families(chain, Space(2, 2, 1), None, shape_of(TokenTree.chain(2), chain, None))
    assert [name for name, family in found.items() if family is not None] == ["free", "chain"]


# ---- limits and sensitivity


def test_no_tree_exceeds_the_closed_form_limits():
    row = Positional((0.5, 0.2, 0.1))
    limit = ceiling(row, depth=4)
    frontier = best_trees(row, max_nodes=3 + 9 + 27 + 81, max_depth=4)
    assert limit.at_depth == pytest.approx(1 + frontier.accepted[4][-1])
    assert limit.any == pytest.approx(5.0)
    assert ceiling(Independent(0.5), depth=3).any is None
    assert ceiling(Independent(0.5), depth=3, children=2).any == pytest.approx(4.0)


def test_the_shipped_sequoia_vector_is_limited_to_13_6_tokens():
    # Its 32 entries sum to 0.92654 (tree_algorithms, section 1).
    assert ceiling(Positional((0.92654,)), depth=10).any == pytest.approx(13.6, abs=0.02)


@given(st.floats(0.0, 1.5))
def test_scaled_rows_stay_probabilities(factor):
    for acceptance in (Independent(0.9), Positional((0.7, 0.3)), Chain((0.9, 0.8)), DepthTable(((0.6, 0.4), (0.3,)))):
        scaled(acceptance, factor)


def test_a_change_that_leaves_the_optimum_costs_nothing():
    costs = RoundCosts(verify_s=[1.0] * 4 + [9.0] * 4, draft=timed_draft(0.05))
    limits = Space(7, 3)
    tree = best_tree(Independent(0.6), limits, costs).tree
    moved = sensitivity(tree, limits, variants(Independent(0.6), costs, None, None))
    assert set(moved) == {"acceptance -10 %", "acceptance +10 %", "draft cost -10 %", "draft cost +10 %"}
    assert all(row.loss >= -1e-12 for row in moved.values())
    assert moved["draft cost +10 %"].loss == pytest.approx(0.0)


# ---- batches


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3), st.integers(1, 7))
def test_the_shared_budget_is_split_as_brute_force_splits_it(ps, nodes):
    known = [Independent(p) for p in ps]
    trees = best_split(known, nodes, max_depth=7)
    assert sum(tree.nodes for tree in trees) <= nodes
    value = sum(acceptance.accepted(tree) for acceptance, tree in zip(known, trees))
    tables = [best_trees(acceptance, max_nodes=nodes, max_depth=7).accepted[7] for acceptance in known]
    splits = itertools.product(range(nodes + 1), repeat=len(ps))
    best = max(sum(t[n] for t, n in zip(tables, split)) for split in splits if sum(split) <= nodes)
    assert value == pytest.approx(best)


def test_a_vector_that_rises_is_refused_where_the_split_would_not_be_exact():
    with pytest.raises(InputError, match="rises"):
        best_split([Positional((0.1, 0.6))], 4, max_depth=3)


def test_the_schedule_finds_every_border_and_where_speculation_ends():
    def plan_at(batch):
        # compute-bound from 16 tokens in the pass on
        verify = [max(1.0, (width * batch) / 16) for width in range(1, 18)]
        return plan(Independent(0.7), RoundCosts(verify_s=verify, batch=batch), Space(16, 8), tie=0.0)

    found = schedule(range(1, 65), plan_at)
    assert found[0].batch_first == 1
    assert found[-1] == Stretch(found[-1].batch_first, 64, 0, 0, 1.0)
    assert all(a.batch_last + 1 == b.batch_first for a, b in zip(found, found[1:]))
    for stretch in found:
        for batch in (stretch.batch_first, stretch.batch_last):
            assert plan_at(batch).recommended.nodes == stretch.nodes


def test_plan_prints_a_schedule_over_batches(specplan):
    ran = specplan("plan --gpu h100 --model llama-3-8b --draft llama-3.2-1b --p 0.7 --batch 1..64 --budget 32 --json")
    schedule = ran.json["schedule"]
    assert (schedule[0]["batch_first"], schedule[-1]["batch_last"]) == (1, 64)
    assert schedule[0]["nodes"] > schedule[-1]["nodes"]


# ---- within what fits and what an engine runs in one pass


BATCHES = "plan --gpu a100-80gb-sxm --model llama-3-8b --method eagle3 --p 0.6 --budget 8 --json"


def test_a_schedule_ends_with_the_last_batch_whose_caches_fit(specplan):
    ran = specplan(f"{BATCHES} --batch 1,32,59,60,256 --context 8k").json
    assert ran["schedule"][-1]["batch_last"] == 59
    assert any("batches above 59 do not fit" in note for note in ran["notes"])


def test_a_limit_on_the_tokens_of_a_pass_holds_for_the_whole_batch(specplan):
    ran = specplan(f"{BATCHES} --batch 1..64 --pass-tokens 128").json
    assert all(s["batch_last"] * (s["nodes"] + 1) <= 128 for s in ran["schedule"])
    assert ran["schedule"][-1]["batch_last"] == 64


def test_a_pass_with_room_for_one_token_a_sequence_leaves_plain_decoding(specplan):
    ran = specplan(f"{BATCHES} --batch 64 --pass-tokens 100").json
    assert ran["recommended"]["nodes"] == 0
    assert any("nothing can be drafted" in note for note in ran["notes"])


def test_batch_and_shape_are_chosen_together_within_the_limits(specplan):
    joint = specplan(f"{BATCHES} --batch 1..64 --pass-tokens 128").json["joint"]
    assert joint["batch"] * (joint["nodes"] + 1) <= 128
    assert joint["tokens_per_s_per_sequence"] == pytest.approx(joint["tokens_per_s"] / joint["batch"])
    alone = specplan(f"{BATCHES} --batch {joint['batch']} --pass-tokens 128").json
    assert alone["joint"] is None
    assert alone["recommended"]["tokens_per_s"] == pytest.approx(joint["tokens_per_s"])


def test_the_largest_batch_is_not_the_best_where_speculation_no_longer_fits_into_the_pass(specplan):
    ran = specplan(f"{BATCHES} --batch 16..40 --pass-tokens 64").json
    assert (ran["joint"]["batch"], ran["joint"]["nodes"]) == (32, 1)
    assert ran["schedule"][-1]["nodes"] == 0
