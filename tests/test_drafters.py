"""Methods of drafting: what each pays, what it may draft, what it refuses."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Chain, Independent, Positional
from specplan.base.errors import InputError, Missing
from specplan.base.tree import TokenTree
from specplan.hardware.profile import load_hardware
from specplan.methods.catalogue import (
    METHODS,
    NEEDS,
    RULES_OF,
    Setting,
    chain,
    coverage_bounds,
    drafted_tokens,
    eagle,
    joint_coverage,
    keep_rate,
    layerskip,
    medusa,
    merged_paths,
    mtp,
    ngram,
    rule_warning,
    sequoia,
    specinfer,
    stopping,
)
from specplan.methods.heads import (
    eagle3_fusion,
    eagle_head,
    first_layers,
    later_layers,
    medusa_heads,
    mtp_module,
    without_head,
)
from specplan.models.pair import bytes_ratio, context_warning
from specplan.models.spec import ModelSpec, load_model, model_names
from specplan.planning.compare import (
    best_exit,
    method_acceptance,
    method_costs,
    method_limits,
    plan_method,
    union_acceptance,
)
from specplan.planning.plan import plan
from specplan.search.costs import RoundCosts
from specplan.search.shape import shape_of
from specplan.search.space import Space
from specplan.timing.cost import Load
from specplan.timing.draft import free_draft, several, timed_draft
from specplan.timing.memory import memory
from specplan.timing.roofline import pass_time

A100 = load_hardware("a100-80gb-sxm")
LLAMA = load_model("llama-3-8b")


def setting(model=LLAMA, *, time="ideal", **load):
    return Setting(A100, model, Load(**load), time)


def costs(model=LLAMA, *, time="ideal", most=32, **given):
    return RoundCosts(verify_s=[pass_time(A100, model, width=w, time=time).pass_s for w in range(1, most + 2)], **given)


# ---- LayerSkip


def test_layerskip_with_8_of_32_layers_is_a_quarter_three_quarters_and_2_56():
    model = ModelSpec.from_params(6.74e9, layers=32)
    method = layerskip(setting(model), exit_layer=8)
    plain = costs(model).plain_s
    assert method.draft.at(1) / plain == pytest.approx(0.25, abs=1e-6)
    assert method.verify_s(7) / plain == pytest.approx(0.75, abs=1e-6)
    rate = Chain.from_accept_rate(0.7945, 6)
    shape = shape_of(TokenTree.chain(6), rate, method_costs(costs(model), method))
    assert shape.round_s / plain == pytest.approx(2.25, abs=1e-6)
    assert shape.speedup == pytest.approx((1 + 6 * 0.7945) / 2.25, abs=1e-6)
    assert round(shape.speedup, 2) == 2.56


@given(st.sampled_from(["llama-2-7b", "llama-3-8b", "qwen3-30b-a3b", "gemma-3-27b", "deepseek-v3"]), st.data())
@settings(max_examples=20, deadline=None)
def test_the_two_parts_of_a_cut_model_are_the_model_and_a_second_head(name, data):
    model = load_model(name)
    at = data.draw(st.integers(1, model.layers - 1))
    early, late = first_layers(model, at), later_layers(model, at)
    head = sum(m.params_total for m in model.linears if m.group == "head")
    total = sum(m.params_total for m in model.linears)
    assert sum(m.params_total for part in (early, late) for m in part.linears) == total + head
    assert early.layers + late.layers == model.layers
    assert sum(a.layers for part in (early, late) for a in part.attention) == sum(a.layers for a in model.attention)


def test_layerskip_keeps_nothing_beside_the_target():
    method = layerskip(setting(load_model("llama-2-7b"), context=1000), exit_layer=8)
    spent = memory(load_model("llama-2-7b"), method.draft, context=1000, batch=1, tp=1, nodes=6, device_bytes=80e9)
    assert spent.freed_bytes == pytest.approx(6 * load_model("llama-2-7b").kv_bytes_per_token)


def test_calibrated_layerskip_pays_the_last_levels_way_through_the_first_layers():
    method = layerskip(setting(time="calibrated"), exit_layer=8)
    shape = shape_of(TokenTree.chain(4), Independent(0.5), method_costs(costs(time="calibrated"), method))
    assert shape.draft.passes == 5


@pytest.mark.parametrize("layer", [0, 32, 40])
def test_an_exit_at_or_past_the_last_layer_is_refused(layer):
    with pytest.raises(InputError, match=f"exit layer {layer} of 32 layers"):
        layerskip(setting(), exit_layer=layer)


def test_a_measured_pass_is_shared_out_by_bytes():
    measured = Setting(None, LLAMA, Load(), verify_s=lambda width: 1.0 + width / 100)
    method = layerskip(measured, exit_layer=16)
    assert method.draft.at(3) == pytest.approx(bytes_ratio(first_layers(LLAMA, 16), LLAMA) * 1.03)
    assert method.verify_s(9) == pytest.approx(bytes_ratio(later_layers(LLAMA, 16), LLAMA) * 1.09)


def test_the_best_exit_layer_is_the_one_with_the_best_speed_up():
    rates = {4: Chain.constant(0.45), 8: Chain.constant(0.8), 16: Chain.constant(0.85), 24: Chain.constant(0.9)}

    def plan_of(method, rate):
        return plan_method(rate, costs(), Space(16, children=1), method, tie=0.0)

    best, answer = best_exit(rates, lambda layer: layerskip(setting(), exit_layer=layer), plan_of)
    speedups = {
        layer: plan_of(layerskip(setting(), exit_layer=layer), rate).best.shape.speedup for layer, rate in rates.items()
    }
    assert best == max(speedups, key=speedups.get) == 8
    assert answer.best.shape.speedup == speedups[best]


# ---- Medusa


@pytest.mark.parametrize("time", ["ideal", "calibrated"])
def test_medusa_pays_no_draft_pass_and_reads_its_heads_in_verification(time):
    method = medusa(setting(time=time), heads=4, max_rank=10)
    shape = shape_of(TokenTree.full(2, 3), Independent(0.5), method_costs(costs(time=time), method))
    assert (shape.draft.passes, shape.draft.total_s) == (0, 0.0)
    alone = pass_time(A100, LLAMA, width=15, time=time).pass_s
    heads = medusa_heads(LLAMA, 4).weight_bytes / A100.memory.bandwidth
    assert (
        shape.verify_s - alone == pytest.approx(heads, rel=1e-9) if time == "ideal" else shape.verify_s > alone + heads
    )


def test_plain_decoding_beside_medusa_runs_no_heads():
    priced = method_costs(costs(), medusa(setting(), heads=4, max_rank=10))
    assert priced.plain_s == costs().plain_s
    assert priced.verify_s[1] > costs().verify_s[1]


def test_a_medusa_tree_is_no_deeper_than_its_heads_and_no_wider_than_its_ranks():
    answer = plan_method(Independent(0.9), costs(most=64), Space(64), medusa(setting(), heads=3, max_rank=2), tie=0.0)
    assert answer.best.shape.depth <= 3
    assert max(answer.best.shape.ranks) <= 1


def test_medusa_heads_weigh_a_block_and_an_lm_head_each():
    assert medusa_heads(LLAMA, 4).params_total == 4 * (4096**2 + 4096 * 128256)


# ---- EAGLE and MTP


def test_an_eagle_pass_reads_its_layer_and_the_lm_head():
    layer, fusion, head = 218_103_808, 2 * 4096**2, 4096 * 128256
    assert eagle_head(LLAMA).params_total == layer + fusion + head
    method = eagle(setting())
    assert method.draft.at(1) == pytest.approx(2 * (layer + fusion + head) / A100.memory.bandwidth)
    assert sum(m.params_total for m in method.draft.resident) == layer + fusion


def test_an_eagle3_head_has_a_small_lm_head_of_its_own():
    head = eagle_head(LLAMA, version=3)
    assert [m.outputs for m in head.linears if m.group == "head"] == [32000]
    assert head.params_total == 218_103_808 + 4096 * 6144 + 4096 * 32000
    method = eagle(setting(), version=3)
    assert sum(m.params_total for m in method.draft.resident) == head.params_total + 3 * 4096**2
    assert eagle3_fusion(LLAMA).params_total == 3 * 4096**2


def test_an_eagle_tree_pays_a_pass_a_level_by_its_width():
    method = eagle(setting(time="calibrated"))
    tree = TokenTree.full([4, 2, 1])
    shape = shape_of(tree, Independent(0.5), method_costs(costs(time="calibrated"), method))
    assert shape.draft.passes == 3
    assert shape.draft.total_s == pytest.approx(sum(method.draft.at(width) for width in (1, 4, 8)))


def test_topk_sets_the_width_of_every_pass_after_the_first_and_steps_the_depth():
    free, fixed = eagle(setting(time="calibrated")), eagle(setting(time="calibrated"), steps=3, topk=8)
    assert fixed.draft.at(1) == free.draft.at(1)
    assert fixed.draft.at(2) == free.draft.at(8)
    assert fixed.draft.at(20) == free.draft.at(20)
    assert method_limits(Space(64), fixed) == Space(64, 3, 8)


def test_a_measured_head_replaces_the_derived_one():
    assert eagle(setting(), measured=timed_draft(0.7e-3)).draft.at(5) == 0.7e-3
    assert eagle(setting(), measured=free_draft()).draft.at(5) == eagle(setting()).draft.at(5)


@pytest.mark.parametrize("name", [name for name in model_names() if load_model(name).mtp_params])
def test_an_mtp_module_has_the_weights_that_the_model_states(name):
    model = load_model(name)
    module = without_head(mtp_module(model)).params_total
    modules = round(model.mtp_params / module)
    assert modules >= 1
    assert modules * module == pytest.approx(model.mtp_params, rel=1e-4)
    kept = mtp(setting(model)).draft.resident
    assert sum(m.params_total for m in kept) == pytest.approx(model.mtp_params, rel=1e-4)


def test_a_model_without_mtp_modules_lacks_the_method():
    with pytest.raises(Missing, match="no multi-token-prediction module"):
        mtp(setting())


@pytest.mark.parametrize("name", model_names())
def test_every_bundled_model_can_carry_a_head(name):
    model = load_model(name)
    for head in (eagle_head(model), eagle_head(model, version=3)):
        assert head.layers == 1
        assert 0 < head.params_total < model.params_total
        assert all(m.count == 1 for m in head.linears)


# ---- draft models


def test_a_chain_draws_one_guess_a_position_and_sequoia_pays_every_level():
    draft = timed_draft(0.1)
    answers = {
        method.name: plan_method(Independent(0.6), RoundCosts([1.0] * 15), Space(14), method, tie=0.0)
        for method in (chain(draft), sequoia(draft))
    }
    assert set(answers["chain"].best.shape.widths) == {1}
    assert answers["chain"].best.shape.draft.passes == answers["chain"].best.shape.depth
    assert answers["sequoia"].best.shape.draft.passes == answers["sequoia"].best.shape.depth + 1


def test_methods_that_need_a_draft_say_so():
    for build in (chain, sequoia, lambda draft: specinfer([draft])):
        with pytest.raises(Missing, match="no draft"):
            build(free_draft())
    with pytest.raises(Missing, match="no draft"):
        specinfer([])


def test_several_drafts_add_in_turn_and_the_slowest_counts_side_by_side():
    drafts = [timed_draft(1e-3), timed_draft(2e-3)]
    assert several(drafts, parallel=False).at(3) == pytest.approx(3e-3)
    assert several(drafts, parallel=True).at(3) == 2e-3


def test_a_context_past_the_drafts_end_is_named():
    assert "2048 positions" in context_warning(load_model("llama-68m"), 8192)
    assert context_warning(load_model("llama-68m"), 2048) is None


# ---- SpecInfer


def test_specinfer_gives_a_whole_level_the_same_number_of_children():
    shape = plan_method(Independent(0.6), RoundCosts([1.0] * 41), Space(40), specinfer([timed_draft(0.01)])).best.shape
    for above, width in itertools.pairwise((1, *shape.widths)):
        assert width % above == 0
    given = specinfer([timed_draft(0.01)], widths=(1, 1, 3, 1))
    assert plan_method(Independent(0.6), RoundCosts([1.0] * 41), Space(40), given).best.shape.widths == (1, 1, 3, 3)


def test_an_expansion_past_the_budget_is_refused():
    with pytest.raises(InputError, match="8 nodes and 4 levels"):
        plan_method(Independent(0.6), RoundCosts([1.0] * 8), Space(7), specinfer([timed_draft(0)], widths=(1, 1, 3, 1)))


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=40))
def test_the_joint_coverage_of_counts_lies_between_the_bounds_of_the_marginals(rounds):
    counts = {pattern: rounds.count(list(pattern)) for pattern in map(tuple, rounds)}
    marginals = [sum(held[i] for held in rounds) / len(rounds) for i in range(3)]
    low, high = coverage_bounds(marginals)
    assert low - 1e-12 <= joint_coverage(counts) <= high + 1e-12


@given(st.lists(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=5), min_size=1, max_size=3))
def test_a_merged_tree_has_the_prefixes_of_all_trees_and_no_others(trees):
    merged = set(merged_paths(*trees))
    prefixes = {tuple(path[:n]) for tree in trees for path in tree for n in range(1, len(path) + 1)}
    assert merged == prefixes
    singles = [set(merged_paths(tree)) for tree in trees]
    assert max(map(len, singles)) <= len(merged) <= sum(map(len, singles))


def test_equal_tokens_under_different_parents_stay_apart():
    assert merged_paths([[1, 9]], [[2, 9]]) == ((1,), (2,), (1, 9), (2, 9))


@given(st.floats(0.05, 0.9), st.integers(2, 4))
def test_drafts_that_never_agree_cover_at_most_their_sum(p, drafts):
    one, union = Independent(p), union_acceptance(Independent(p), drafts, depth=3)
    row = one.row(1, 16)
    assert sum(union.row(1, 64)) == pytest.approx(min(1.0, drafts * sum(row)))
    assert sum(union.row(1, 64)) >= sum(row) - 1e-12


def test_rates_of_each_draft_alone_give_an_interval_and_those_of_the_merged_tree_none():
    method = specinfer([timed_draft(0.05), timed_draft(0.05)])
    alone = plan_method(Independent(0.4), RoundCosts([1.0] * 33), Space(32), method)
    low, high = alone.verdict.interval
    assert low == alone.verdict.speedup < high
    assert (
        plan_method(Independent(0.4), RoundCosts([1.0] * 33), Space(32), method, merged=True).verdict.interval is None
    )


# ---- n-gram


def test_rounds_without_a_proposal_are_plain_passes():
    method = ngram(setting(), measured=timed_draft(0.1), proposal_share=0.4)
    base = RoundCosts([1.0, 1.2, 1.4, 1.6], overhead_s=0.5)
    acceptance = method_acceptance(Chain((0.8, 0.7, 0.6)), method)
    shape = shape_of(TokenTree.chain(3), acceptance, method_costs(base, method))
    accepted = 0.8 + 0.8 * 0.7 + 0.8 * 0.7 * 0.6
    assert shape.tau == pytest.approx(1 + 0.4 * accepted)
    assert shape.round_s == pytest.approx(0.1 + 0.4 * (1.6 + 0.5) + 0.6 * 1.0)
    assert shape.draft.passes == 1


def test_the_break_even_of_lookups_is_that_of_rounds_with_a_proposal():
    method = ngram(setting(), measured=timed_draft(0.1), proposal_share=0.5)
    even = plan_method(Independent(0.9), RoundCosts([1.0] * 5), Space(1), method).break_even
    assert even.tau == pytest.approx(1.1)
    assert even.p == pytest.approx(0.2)


# ---- drafting that stops early


@given(st.integers(2, 16), st.floats(0, 1))
def test_the_keep_rate_is_the_inverse_of_the_mean_length(most, share):
    drafted = 1 + share * (most - 1)
    assert drafted_tokens(keep_rate(drafted, most), most) == pytest.approx(drafted, abs=1e-9)


@pytest.mark.parametrize("drafted", [0.5, 9.0])
def test_a_mean_outside_one_and_the_cap_is_refused(drafted):
    with pytest.raises(InputError, match="with at most 8"):
        keep_rate(drafted, 8)


def test_stopping_pays_the_passes_and_the_width_of_the_expected_length():
    base = RoundCosts([1.0, 1.1, 1.3, 1.6])
    method = stopping(chain(timed_draft(0.2)), drafted=1.75, most=3)
    shape = shape_of(TokenTree.chain(3), Chain((0.8, 0.8, 0.8)), method_costs(base, method))
    assert shape.draft.total_s == pytest.approx(1.75 * 0.2)
    assert shape.verify_s == pytest.approx(0.5 * 1.1 + 0.25 * 1.3 + 0.25 * 1.6)
    never = stopping(chain(timed_draft(0.2)), drafted=3, most=3)
    full = shape_of(TokenTree.chain(3), Chain((0.8, 0.8, 0.8)), method_costs(base, never))
    assert (full.draft.total_s, full.verify_s) == (pytest.approx(0.6), pytest.approx(1.6))


# ---- all of them


def test_every_method_says_what_it_needs_and_what_verifies_it():
    assert set(NEEDS) == set(RULES_OF) == {*METHODS, "tree"}
    assert "typical" not in {rule for name, rules in RULES_OF.items() if name != "medusa" for rule in rules}


def test_numbers_measured_under_another_rule_are_warned_of_by_name():
    typical = Positional((0.7, 0.2), rule="typical")
    assert "typical" in rule_warning("eagle", typical)
    assert rule_warning("medusa", typical) is None
    assert rule_warning("chain", Independent(0.6)) is None


def test_a_plan_with_a_method_and_without_an_acceptance_gives_the_break_even():
    answer = plan_method(None, costs(), Space(16), eagle(setting()))
    assert answer.verdict.speculate is None
    assert answer.break_even.p is not None


@given(st.floats(0.1, 0.9), st.floats(0.0, 0.3))
def test_a_free_tree_is_never_slower_than_the_chain_of_the_same_draft(p, pass_s):
    base = RoundCosts([1.0 + 0.02 * i for i in range(17)])
    free = plan(Independent(p), method_costs(base, chain(timed_draft(pass_s))), Space(16))
    only = plan_method(Independent(p), base, Space(16), chain(timed_draft(pass_s)))
    assert only.best.shape.speedup <= free.best.shape.speedup * (1 + 1e-12)


def test_state_snapshots_of_a_hybrid_model_are_counted_once_a_node():
    model = load_model("qwen3-next-80b-a3b")
    spent = [
        memory(model, free_draft(), context=100, batch=2, tp=1, nodes=n, device_bytes=1e12).needed_bytes for n in (0, 5)
    ]
    assert spent[1] - spent[0] == pytest.approx(2 * 5 * (model.state_bytes + model.kv_bytes_per_token))


# ---- options that would be ignored in silence


ON_A100 = "--gpu a100 --model llama-3-8b --p 0.6 --budget 8"


@pytest.mark.parametrize("method", ["eagle3", "medusa", "ngram"])
def test_a_draft_model_that_the_method_does_not_use_is_said(specplan, method):
    notes = specplan(f"plan {ON_A100} --method {method} --draft llama-3.2-1b --json").json["notes"]
    assert any("--draft llama-3.2-1b has no part in it" in note for note in notes)
    own = specplan(f"plan {ON_A100} --method sequoia --draft llama-3.2-1b --json").json["notes"]
    assert not any("no part" in note for note in own)


def test_one_number_of_children_is_one_step_of_specinfer(specplan):
    ran = specplan(f"plan {ON_A100} --method specinfer --draft llama-3.2-1b --topk 3 --json").json
    assert ran["recommended"]["widths"] == [3]


def test_a_draft_known_by_its_number_of_weights_has_no_vocabulary_to_compare(specplan):
    counted = specplan(f"plan {ON_A100} --draft-params 1e9 --json").json
    assert not any("vocabularies" in text for text in counted["warnings"])
    named = specplan(f"plan {ON_A100} --draft llama-68m --json").json
    assert any("vocabularies differ" in text for text in named["warnings"])
