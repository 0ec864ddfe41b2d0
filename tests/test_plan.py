"""Verdicts: laws of the break-even, of the tie rule, and the traps of round costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Chain, Counts, Independent, Positional
from specplan.base.errors import DoesNotFit, InputError
from specplan.base.tree import TokenTree
from specplan.models.pair import check_against_target
from specplan.models.spec import ModelSpec, load_model
from specplan.planning.plan import break_even, plan
from specplan.search.best import best_chain, best_tree
from specplan.search.costs import RoundCosts
from specplan.search.shape import shape_of
from specplan.search.space import Space
from specplan.timing.draft import Draft, free_draft, timed_draft
from specplan.timing.memory import Memory, memory

times = st.lists(st.floats(0.5, 3.0), min_size=2, max_size=14)
ps = st.floats(0.0, 0.95)


@st.composite
def costs(draw):
    return RoundCosts(
        verify_s=draw(times),
        draft=timed_draft(draw(st.floats(0, 0.5))),
        overhead_s=draw(st.floats(0, 0.5)),
        draft_passes=draw(st.sampled_from(["all_but_leaf", "all", "expanded"])),
        draft_shape=draw(st.sampled_from(["sequential", "block"])),
        batch=draw(st.integers(1, 8)),
    )


@given(costs(), st.integers(1, 6))
def test_at_the_break_even_p_the_speed_up_is_one(costs, length):
    tree = TokenTree.chain(min(length, len(costs.verify_s) - 1))
    even = break_even(tree, costs)
    assert even.tau == pytest.approx(even.round_s / costs.plain_s)
    if even.p is not None and even.tau >= 1:
        assert shape_of(tree, Independent(even.p), costs).speedup == pytest.approx(1.0, abs=1e-9)


@given(costs(), ps)
def test_plain_decoding_is_a_candidate_at_its_true_cost(costs, p):
    best = best_tree(Independent(p), Space(13, 6), costs)
    plain = best.candidates[0]
    assert (plain.nodes, plain.depth, plain.tau) == (0, 0, 1.0)
    assert plain.round_s == costs.plain_s
    assert plain.tokens_per_s == pytest.approx(costs.batch / costs.plain_s)
    assert best.shape.speedup >= 1.0


@given(costs(), ps)
def test_the_optimum_is_the_best_candidate_and_its_numbers_fit_together(costs, p):
    best = best_tree(Independent(p), Space(13, 6), costs)
    shape = best.shape
    assert shape.tokens_per_s == pytest.approx(max(row.tokens_per_s for row in best.candidates if row.tokens_per_s))
    assert shape.round_s == pytest.approx(shape.draft.total_s + shape.verify_s + shape.overhead_s)
    assert shape.tokens_per_s == pytest.approx(costs.batch * shape.tau / shape.round_s)
    assert shape.tokens_per_s_per_sequence == pytest.approx(shape.tokens_per_s / costs.batch)
    assert shape.tau == pytest.approx(1 + sum(shape.level_survival))


@settings(deadline=None)
@given(costs(), ps, st.floats(0, 0.2))
def test_the_recommended_shape_is_the_smallest_within_the_tie(costs, p, tie):
    answer = plan(Independent(p), costs, Space(13, 6), tie=tie)
    enough = answer.best.shape.speedup * (1 - tie)
    assert answer.recommended.speedup >= enough * (1 - 1e-9)
    smaller = [row for row in answer.best.candidates if row.speedup and row.nodes < answer.recommended.nodes]
    assert all(row.speedup < enough * (1 + 1e-9) for row in smaller)


@given(costs(), ps)
def test_the_verdict_says_yes_exactly_when_a_shape_is_recommended(costs, p):
    answer = plan(Independent(p), costs, Space(13, 6))
    assert answer.verdict.speculate == (answer.recommended.nodes > 0)
    if answer.verdict.speculate:
        assert answer.verdict.speedup >= 1
        assert answer.recommended.tau >= answer.break_even.tau


@given(costs(), ps)
def test_the_best_chain_is_no_better_than_the_best_tree(costs, p):
    limits = Space(13, 6)
    chain = best_chain(Independent(p), limits, costs)
    assert chain.speedup <= best_tree(Independent(p), limits, costs).shape.speedup * (1 + 1e-12)
    lengths = [k for k in range(1, 7) if k + 1 <= len(costs.verify_s)]
    assert chain.speedup == pytest.approx(
        max(shape_of(TokenTree.chain(k), Independent(p), costs).speedup for k in lengths)
    )


def test_verification_that_is_not_free_is_not_taken_as_free():
    # V100, 7B F16: 5 tokens cost 2.2 passes (ggml-org/llama.cpp#3649); the textbook promises 3.4 x.
    costs = RoundCosts(verify_s=[1.0, 1.3, 1.6, 1.9, 2.2])
    assert shape_of(TokenTree.chain(4), Independent(0.8), costs).speedup == pytest.approx(3.3616 / 2.2)


def test_a_width_just_past_a_cliff_is_not_chosen():
    costs = RoundCosts(verify_s=[0.024] * 4 + [0.0497] * 4 + [0.112] * 8)
    assert best_tree(Independent(0.9), Space(15), costs).shape.width in (4, 8)


def test_a_large_overhead_makes_throughput_flat_and_plain_decoding_win():
    costs = RoundCosts(verify_s=[0.010] * 17, overhead_s=0.5)
    answer = plan(Independent(0.8), costs, Space(16))
    assert answer.verdict.speculate is False
    assert answer.recommended.nodes == 0
    assert answer.plain.tokens_per_s == 100.0


def test_a_block_drafter_pays_one_pass_and_a_chain_of_g_pays_g():
    def drafting(**shape):
        return shape_of(TokenTree.chain(5), Independent(0.5), RoundCosts([1.0] * 6, timed_draft(0.1), **shape)).draft

    assert (drafting().passes, drafting().total_s) == (5, pytest.approx(0.5))
    assert (drafting(draft_passes="all").passes, drafting(draft_passes="all").total_s) == (6, pytest.approx(0.6))
    assert (drafting(draft_shape="block").passes, drafting(draft_shape="block").total_s) == (1, pytest.approx(0.1))


def test_an_interpolated_width_gives_way_to_a_measured_one_within_the_tie():
    verify = [1.0] * 8 + [1.0 + 0.002 * i for i in range(1, 9)]
    costs = RoundCosts(verify_s=verify, measured=frozenset({1, 4, 8, 16}))
    answer = plan(Independent(0.3), costs, Space(15), tie=0.05)
    assert answer.recommended.width in costs.measured
    assert not answer.recommended.interpolated


def test_a_curve_that_ends_limits_the_shapes():
    answer = plan(Independent(0.9), RoundCosts(verify_s=[1.0] * 5), Space(64))
    assert answer.best.shape.width == 5
    with pytest.raises(InputError, match="width 7"):
        shape_of(TokenTree.chain(6), Independent(0.9), RoundCosts(verify_s=[1.0] * 5))


def test_without_an_acceptance_the_break_even_is_shown_and_nothing_is_assumed():
    answer = plan(None, RoundCosts(verify_s=[1.0, 1.2, 1.4, 1.6]), Space(3))
    assert answer.verdict.speculate is None
    assert (answer.best, answer.recommended, answer.best_chain) == (None, None, None)
    assert [row.nodes for row in answer.break_even_table] == [1, 2, 3]
    assert answer.break_even.p == pytest.approx(0.2)


def test_counts_give_the_speed_up_an_interval():
    counts = Counts(by_depth_rank=(((423, 667), (72, 667)),))
    answer = plan(Positional((423 / 667, 72 / 667), counts=counts), RoundCosts(verify_s=[1.0] * 9), Space(8))
    low, high = answer.verdict.interval
    assert low < answer.verdict.speedup < high
    assert (high - low) / answer.verdict.speedup < 0.3


def test_relative_curves_give_a_speed_up_and_no_tokens_per_second():
    shape = shape_of(TokenTree.chain(1), Independent(0.5), RoundCosts(verify_s=[1.0, 1.2], relative=True))
    assert shape.speedup == pytest.approx(1.25)
    assert shape.tokens_per_s is None


# ---- memory


def test_a_target_that_does_not_fit_is_refused_and_a_draft_that_does_not_is_a_no():
    def needs(target, extra):
        return lambda nodes: Memory(target + extra, 100.0, target + extra <= 100.0, None, extra)

    with pytest.raises(DoesNotFit, match="too much"):
        plan(Independent(0.8), RoundCosts([1.0] * 9), Space(8), memory_of=needs(120.0, 1.0))
    answer = plan(Independent(0.8), RoundCosts([1.0] * 9), Space(8), memory_of=needs(95.0, 10.0))
    assert answer.verdict.speculate is False
    assert answer.recommended.nodes == 0
    assert answer.memory.fits is False


def test_memory_counts_the_draft_the_caches_and_the_tree():
    target, draft = load_model("llama-2-13b"), load_model("llama-68m")
    spent = memory(target, Draft("d", model=draft), context=2047, batch=2, tp=1, nodes=14, device_bytes=80e9)
    target_cache, draft_cache = 819_200, draft.kv_bytes_per_token
    assert spent.needed_bytes == pytest.approx(
        target.weight_bytes + draft.weight_bytes + 2 * (2048 + 14) * (target_cache + draft_cache)
    )
    assert spent.freed_bytes == pytest.approx(draft.weight_bytes + 2 * (2062 * draft_cache + 14 * target_cache))
    assert spent.draft_kv_sequences == pytest.approx(
        (draft.weight_bytes + 2 * 2062 * draft_cache) / (2047 * target_cache)
    )


def test_tensor_parallel_divides_weights_and_heads_but_never_below_one_head():
    model = load_model("llama-3-70b")

    def cache(tp):
        spent = memory(model, free_draft(), context=1000, batch=1, tp=tp, nodes=0, device_bytes=80e9)
        return spent.needed_bytes - model.weight_bytes / tp

    assert cache(8) == pytest.approx(cache(1) / 8)
    assert cache(16) == pytest.approx(cache(8))


# ---- the pair


def test_a_draft_as_large_as_the_target_is_refused_unless_it_is_the_target():
    large, small = ModelSpec.from_params(13e9), ModelSpec.from_params(7e9)
    with pytest.raises(InputError, match="no smaller"):
        check_against_target(large, small)
    assert check_against_target(large, large) != []
    assert "25 %" in check_against_target(small, large)[0]


def test_a_vocabulary_that_differs_is_a_warning():
    assert any("vocabular" in text for text in check_against_target(load_model("qwen3-0.6b"), load_model("llama-3-8b")))


def test_a_chain_that_was_measured_is_planned_as_a_chain(specplan):
    ran = specplan("plan --gpu h100 --model llama-3-8b --draft llama-3.2-1b --survival 0.8,0.6,0.45 --json")
    assert set(ran.json["optimum"]["widths"]) == {1}
    assert ran.json["optimum"]["nodes"] <= 3
    assert any("siblings" in note for note in ran.json["notes"])


def test_a_chain_keeps_the_tau_that_it_was_measured_with():
    chain = Chain.from_accept_length(2.8, 5)
    assert shape_of(TokenTree.chain(5), chain, None).tau == pytest.approx(2.8)
