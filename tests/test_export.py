"""Exports for dynamic and chain stacks: values worked out by hand from the stacks' documented rules.

What a stack refuses and what it takes silently is stated beside the test that holds an export to it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import specplan as sp
from specplan.base.errors import DoesNotFit, InputError
from specplan.base.tree import TokenTree
from specplan.render.schemas import json_schema
from specplan.search.costs import RoundCosts
from specplan.search.space import Dynamic
from specplan.stacks.capability import Scheduled, Wanted
from specplan.stacks.export import export
from specplan.stacks.exporting import check_schedule, export_to
from specplan.stacks.registry import stack_of, stacks
from specplan.stacks.sources import parse_schedule, source_of

T5 = [[0], [1], [0, 0], [0, 1], [1, 0]]
WORKED = (Scheduled(1, 4, 4), Scheduled(5, 16, 2), Scheduled(17, 512, 0))
DEVICE = "--gpu h100 --model llama-3-8b"

# ---- a chain of K in every stack's own numbers

CHAIN_OF_5 = {
    "vllm": ("eagle3", {"method": "eagle3", "num_speculative_tokens": 5}),
    "vllm@0.21.0": ("eagle3", {"method": "eagle3", "num_speculative_tokens": 5}),
    "sglang": (
        "eagle3",
        {
            "speculative_algorithm": "EAGLE3",
            "speculative_num_steps": 5,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 6,
            "max_running_requests": 48,
        },
    ),
    "trtllm": ("eagle3", {"decoding_type": "Eagle3", "max_draft_len": 5}),
    "eagle": ("eagle3", {"total_token": 6, "depth": 4, "top_k": 1}),
    "llamacpp": (
        "chain",
        {"spec_type": "draft-simple", "spec_draft_n_max": 5, "spec_draft_n_min": 0, "spec_draft_p_min": 0.0},
    ),
    "transformers": (
        "chain",
        {
            "num_assistant_tokens": 5,
            "num_assistant_tokens_schedule": "constant",
            "assistant_confidence_threshold": 0.0,
        },
    ),
    "lmdeploy": ("eagle3", {"speculative_algorithm": "eagle3", "speculative_num_draft_tokens": 5}),
    "mlc": ("chain", {"speculative_mode": "small_draft", "spec_draft_length": 5, "spec_tree_width": 1}),
    "tgi": ("medusa", {"speculate": 5}),
    "exllamav2": ("chain", {"num_draft_tokens": 5}),
    "exllamav3": ("chain", {"num_draft_tokens": 5, "dynamic_draft_tokens": False}),
    "atom": ("mtp", {"method": "mtp", "num_speculative_tokens": 5}),
}


@pytest.mark.parametrize("to", CHAIN_OF_5)
def test_a_chain_of_5_has_every_stacks_own_numbers(to):
    method, settings = CHAIN_OF_5[to]
    found = export(TokenTree.chain(5), to=to, method=method)
    assert dict(found.settings) == settings
    assert (found.nodes, found.width, found.depth, found.loss) == (5, 6, 5, 0.0)


@pytest.mark.parametrize("k", [1, 16])
@pytest.mark.parametrize("to", [name for name in CHAIN_OF_5 if name != "tgi"])
def test_short_and_long_chains_keep_the_relation_between_the_numbers(to, k):
    method, _ = CHAIN_OF_5[to]
    settings = export(TokenTree.chain(k), to=to, method=method).settings
    numbers = {
        "sglang": ("speculative_num_steps", "speculative_num_draft_tokens", k, k + 1),
        "eagle": ("depth", "total_token", k - 1, k + 1),
    }
    if to in numbers:
        first, second, a, b = numbers[to]
        assert (settings[first], settings[second]) == (a, b)
    else:
        assert k in settings.values()


def test_layerskip_needs_its_exit_layer():
    assert export(TokenTree.chain(6), to="layerskip", exit_layer=8).settings == {"exit_layer": 8, "num_speculations": 6}
    with pytest.raises(InputError, match="exit layer"):
        export(TokenTree.chain(6), to="layerskip")


def test_aiconfigurator_leaves_the_bonus_token_out_and_stays_within_nextn():
    found = export(TokenTree.chain(3), to="aiconfigurator", acceptance=sp.Chain((0.8, 0.65, 0.635)))
    # .80 + .52 + .3302
    assert found.settings == {"nextn": 3, "nextn_accepted": 1.6502}
    assert "--aic-nextn-accept-rates 0.8,0.65,0.635,0,0" in found.notes[0]
    with pytest.raises(InputError, match="nextn_accepted"):
        export(TokenTree.chain(3), to="aiconfigurator")


def test_ngram_of_each_stack_names_no_draft():
    assert export(TokenTree.chain(4), to="vllm", method="ngram", draft="x").settings == {
        "method": "ngram",
        "num_speculative_tokens": 4,
    }
    assert export(TokenTree.chain(4), to="hf", method="ngram").settings == {"prompt_lookup_num_tokens": 4}
    ngram = export(TokenTree.chain(4), to="sglang", method="ngram").settings
    # NGRAM takes its topk from the breadth of its search, and so is told that breadth.
    assert ngram["speculative_ngram_max_bfs_breadth"] == ngram["speculative_eagle_topk"] == 1
    assert ngram["speculative_num_draft_tokens"] == 5


def test_block_drafters_draft_their_block_in_one_step():
    # SGLang forces steps and topk to 1; DSPARK's draft tokens have to be gamma + 1.
    dspark = export(TokenTree.chain(5), to="sglang", method="dspark").settings
    assert [dspark[f"speculative_{name}"] for name in ("num_steps", "eagle_topk", "num_draft_tokens")] == [1, 1, 6]
    assert dspark["speculative_dspark_block_size"] == 5
    with pytest.raises(DoesNotFit, match="topk"):
        export(Dynamic(3, 2, 5), to="sglang", method="dspark")


# ---- trees that are built anew every round


def test_the_budget_of_t5_in_the_numbers_of_each_dynamic_stack():
    at = Dynamic(steps=2, topk=2, nodes=5)
    sglang = export(at, to="sglang", method="eagle3").settings
    assert [sglang[f"speculative_{name}"] for name in ("num_steps", "eagle_topk", "num_draft_tokens")] == [2, 2, 6]
    assert export(at, to="eagle", method="eagle3").settings == {"total_token": 6, "depth": 1, "top_k": 2}
    # TensorRT-LLM: max_total_draft_tokens lies in [max_draft_len, topK * max_draft_len], here 2..4.
    with pytest.raises(DoesNotFit, match=r"5 nodes out of topk \* steps = 4"):
        export(at, to="trtllm", method="eagle3")
    within = export(Dynamic(2, 2, 4), to="trtllm", method="eagle3").settings
    assert {key: within[key] for key in within if key != "decoding_type"} == {
        "max_draft_len": 2,
        "use_dynamic_tree": True,
        "dynamic_tree_max_topK": 2,
        "max_total_draft_tokens": 4,
    }
    with pytest.raises(DoesNotFit, match="at least one a step"):
        export(Dynamic(3, 2, 2), to="trtllm", method="eagle3")


@given(st.integers(1, 16), st.integers(1, 10), st.integers(1, 200))
def test_the_pool_rule_is_enforced_to_the_node(steps, topk, nodes):
    # N drafted nodes fit k + (s - 1) k^2; draft tokens count the root.
    fits = nodes <= topk + (steps - 1) * topk**2
    try:
        found = export(Dynamic(steps, topk, nodes), to="sglang", method="eagle3")
    except DoesNotFit as error:
        assert not fits
        assert "k^2" in error.message
    else:
        assert fits
        assert found.settings["speculative_num_draft_tokens"] == nodes + 1


def test_methods_that_draft_chains_are_held_to_topk_1():
    with pytest.raises(DoesNotFit, match="topk"):
        export(Dynamic(2, 2, 4), to="trtllm", method="chain")


def test_a_fixed_tree_has_no_form_where_trees_are_built_anew():
    for to in ("sglang", "trtllm", "eagle"):
        with pytest.raises(DoesNotFit, match="anew"):
            export(T5, to=to)


# ---- lengths by batch size


@pytest.mark.parametrize(
    ("version", "name"), [("1.2", "DraftTarget"), ("1.3", "Draft_Target"), ("1.4", "Draft_Target")]
)
def test_tensorrt_llm_names_a_draft_model_as_its_version_does(version, name):
    """Source: llm_args.py; a dispatch by name until 1.2, the class's own literal since the union is discriminated."""
    assert export(TokenTree.chain(3), to=f"trtllm@{version}", method="chain").settings["decoding_type"] == name


def test_the_worked_schedule_in_the_three_dialects():
    vllm = export(WORKED, to="vllm", method="eagle3").settings
    assert vllm["num_speculative_tokens"] == 4
    assert vllm["num_speculative_tokens_per_batch_size"] == [[1, 4, 4], [5, 16, 2], [17, 512, 0]]
    trtllm = export(WORKED, to="trtllm", method="eagle3")
    assert trtllm.settings["max_draft_len"] == 4
    assert trtllm.settings["draft_len_schedule"] == {4: 4, 16: 2}
    written = yaml.safe_load(trtllm.files["config.yaml"])["speculative_config"]
    assert written["draft_len_schedule"] == {4: 4, 16: 2}
    sglang = export(WORKED, to="sglang", method="eagle3")
    assert sglang.adaptive_config == {
        "1": {"candidate_steps": [4]},
        "5": {"candidate_steps": [2]},
        "17": {"candidate_steps": [0]},
    }
    assert sglang.settings["speculative_num_steps"] == 4
    assert sglang.settings["speculative_num_draft_tokens"] == 5
    assert sglang.settings["max_running_requests"] == 512


def vllm_length(settings, batch):
    """What the scheduler makes of the ranges: K cut to the maximum, gaps and the tail carry the last K on."""
    found = None
    for first, last, k in settings["num_speculative_tokens_per_batch_size"]:
        if first <= batch:
            found = min(k, settings["num_speculative_tokens"])
        if batch <= last:
            break
    return found


def trtllm_length(settings, batch):
    """A key is the largest batch of its range; above the last one it is off."""
    return next((k for last, k in sorted(settings["draft_len_schedule"].items()) if batch <= last), 0)


def sglang_length(config, batch):
    """A key is the smallest batch of its range; below the first one, the first holds."""
    keys = sorted(map(int, config))
    return config[str(max([key for key in keys if key <= batch] or keys[:1]))]["candidate_steps"][0]


@st.composite
def falling_schedules(draw):
    """Ranges from 1 on whose first length is the largest; at least two lengths."""
    ks = draw(st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(lambda ks: len(set(ks)) > 1))
    ks.insert(0, max(ks))
    ends, last = [], 0
    for size in draw(st.lists(st.integers(1, 40), min_size=len(ks), max_size=len(ks))):
        ends.append((last + 1, last + size))
        last += size
    return tuple(Scheduled(first, end, k) for (first, end), k in zip(ends, ks))


@given(falling_schedules())
def test_all_three_dialects_give_the_planned_length_at_every_batch(schedule):
    vllm = export(schedule, to="vllm", method="eagle3").settings
    trtllm = export(schedule, to="trtllm", method="eagle3").settings
    config = export(schedule, to="sglang", method="eagle3").adaptive_config
    for entry in schedule:
        for batch in range(entry.first, entry.last + 1):
            assert vllm_length(vllm, batch) == entry.k
            assert trtllm_length(trtllm, batch) == entry.k
            assert sglang_length(config, batch) == entry.k
    # TensorRT-LLM refuses a first key whose length is not max_draft_len.
    assert trtllm["draft_len_schedule"][min(trtllm["draft_len_schedule"])] == trtllm["max_draft_len"]
    # vLLM refuses overlaps and a first range that does not begin at 1.
    ranges = vllm["num_speculative_tokens_per_batch_size"]
    assert ranges[0][0] == 1
    assert all(a[1] + 1 == b[0] for a, b in zip(ranges, ranges[1:]))


def test_the_tail_reaches_to_the_servers_limit():
    schedule = (Scheduled(1, 8, 3), Scheduled(9, 16, 1))
    ranges = export(schedule, to="vllm", method="eagle3", max_batch=64).settings
    assert ranges["num_speculative_tokens_per_batch_size"] == [[1, 8, 3], [9, 64, 1]]
    assert export(schedule, to="trtllm", method="eagle3", max_batch=64).settings["draft_len_schedule"] == {8: 3, 64: 1}
    sglang = export(schedule, to="sglang", method="eagle3", max_batch=64).settings
    assert sglang["max_running_requests"] == 64
    # TensorRT-LLM switches off above the last key: a user whose server takes more is told.
    notes = export(schedule, to="trtllm", method="eagle3").notes
    assert any("above batch 16" in note for note in notes)


def test_one_length_for_all_batches_is_no_schedule():
    found = export((Scheduled(1, 8, 3), Scheduled(9, 99, 3)), to="vllm", method="eagle3")
    assert found.settings == {"method": "eagle3", "num_speculative_tokens": 3}
    assert found.schedule == ()


def test_a_schedule_that_is_off_everywhere_is_plain_decoding():
    found = export((Scheduled(1, 8, 0),), to="vllm", model="org/m")
    assert (found.settings, found.nodes, found.command) == ({}, 0, "vllm serve org/m")


def test_a_schedule_is_refused_where_there_is_one_length():
    for to in ("lmdeploy", "vllm@0.21.0", "llamacpp"):
        with pytest.raises(DoesNotFit, match="one length"):
            export(WORKED, to=to)
    with pytest.raises(DoesNotFit, match="of chain"):
        export(WORKED, to="sglang", method="chain")  # adaptive steps: EAGLE, EAGLE3 and NEXTN alone
    lowered = export(WORKED, to="lmdeploy", method="eagle3", lower=True)
    assert lowered.settings["speculative_num_draft_tokens"] == 4


def test_a_first_length_below_the_largest_has_no_form_in_tensorrt_llm():
    rising = (Scheduled(1, 4, 2), Scheduled(5, 16, 4))
    with pytest.raises(DoesNotFit, match="max_draft_len"):
        export(rising, to="trtllm", method="eagle3")
    lowered = export(rising, to="trtllm", method="eagle3", lower=True)
    assert lowered.settings["max_draft_len"] == 2
    assert export(rising, to="vllm", method="eagle3").settings["num_speculative_tokens"] == 4


@pytest.mark.parametrize("text", ["2-4:4", "1-4:4,6-9:2", "1-4:4,4-9:2", "4-1:2", "1-4:-1", "1-4", "", "1-4:4,", "a:b"])
def test_schedules_with_gaps_overlaps_or_a_wrong_start_are_refused(text):
    with pytest.raises(InputError):
        check_schedule(parse_schedule(text))


# ---- simulated acceptance


def test_simulated_acceptance_in_each_stacks_own_quantity():
    # Survival .80 .52 .33: AL 2.65 with the bonus token, 1.65 without.
    acceptance = sp.Chain.from_survival((0.80, 0.52, 0.33))
    how = {"acceptance": acceptance, "synthetic": True}
    vllm = export(TokenTree.chain(3), to="vllm", method="eagle3", **how).settings
    assert vllm["rejection_sample_method"] == "synthetic"
    assert vllm["synthetic_acceptance_rates"] == pytest.approx([0.80, 0.52, 0.33])  # unconditional
    sglang = export(TokenTree.chain(3), to="sglang", method="eagle3", **how).environment
    assert float(sglang["SGLANG_SIMULATE_ACC_LEN"]) == pytest.approx(2.65)
    trtllm = export(TokenTree.chain(3), to="trtllm", method="eagle3", **how).environment
    assert float(trtllm["TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"]) == pytest.approx(1.65)
    llamacpp = export(TokenTree.chain(3), to="llamacpp", method="chain", **how).settings
    assert llamacpp["spec_synth_rates"] == "0.8,0.52,0.33"
    atom = export(TokenTree.chain(3), to="atom", method="mtp", **how).settings
    assert atom["spec_decode_acceptance_length"] == pytest.approx(2.65)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_simulated_rates_never_rise_and_are_as_many_as_the_length(alpha):
    k = len(alpha)
    found = export(TokenTree.chain(k), to="vllm", method="eagle3", acceptance=sp.Chain(tuple(alpha)), synthetic=True)
    rates = found.settings["synthetic_acceptance_rates"]
    assert len(rates) == found.settings["num_speculative_tokens"] == k
    assert all(1 >= a >= b >= 0 for a, b in zip(rates, rates[1:]))


def test_levels_that_were_not_measured_are_not_simulated_as_never_accepted():
    two = sp.Chain.from_survival((0.9, 0.8))
    with pytest.raises(InputError, match="3 levels, 2 are known"):
        export(TokenTree.chain(3), to="llamacpp", method="chain", acceptance=two, synthetic=True)


def test_simulated_acceptance_without_an_acceptance_is_refused():
    with pytest.raises(InputError, match="simulated acceptance"):
        export(TokenTree.chain(3), to="vllm", synthetic=True)


# ---- what stacks would take silently


def test_vllm_takes_a_multiple_of_n_predict_alone():
    assert export(TokenTree.chain(10), to="vllm", method="mtp", n_predict=5).nodes == 10
    assert export(TokenTree.chain(3), to="vllm", method="mtp", n_predict=5).nodes == 3  # below it anything goes
    with pytest.raises(DoesNotFit, match="no multiple"):
        export(TokenTree.chain(7), to="vllm", method="mtp", n_predict=5)


def test_removed_names_are_never_written():
    everything = [export(TokenTree.chain(3), to=to, method=method) for to, (method, _) in CHAIN_OF_5.items()]
    written = " ".join(found.command + json.dumps(dict(found.settings)) for found in everything)
    for removed in ("--draft-max", "--draft-min", "disable_by_batch_size", "eagle_choices", "num_nextn_predict_layers"):
        assert removed not in written


def test_transformers_runs_one_sequence():
    with pytest.raises(DoesNotFit, match="one sequence"):
        export(TokenTree.chain(3), to="hf", method="chain", batch=4)


# ---- the best member of the family


def test_lowering_gives_the_best_member_and_its_loss():
    found = export(T5, to="vllm", lower=True, acceptance=[0.6, 0.24])
    # T5: .84 + .36 + .144 + .144 = 1.488 accepted; the chain of 5: .6 + ... + .6^5 = 1.38336
    assert (found.nodes, found.depth) == (5, 5)
    assert found.instead.tau == pytest.approx(2.488)
    assert found.loss == pytest.approx(1 - 2.38336 / 2.488)


def test_lowering_per_second_where_times_are_known():
    costs = RoundCosts(verify_s=[1.0] * 9, draft=sp_draft(0.4))
    found = export(T5, to="vllm", lower=True, acceptance=[0.6, 0.24], costs=costs)
    rates = {k: sum(0.6**i for i in range(k + 1)) / (1 + 0.4 * k) for k in range(9)}
    best = max(rates, key=rates.get)
    assert found.nodes == best
    assert found.loss == pytest.approx(1 - rates[best] / (2.488 / 1.8))


def sp_draft(seconds):
    from specplan.timing.draft import timed_draft

    return timed_draft(seconds)


def test_without_an_acceptance_the_loss_is_said_to_be_unknown():
    chain = export(T5, to="vllm", lower=True)
    assert (chain.nodes, chain.loss) == (2, None)
    tree = export(T5, to="trtllm", method="eagle3", lower=True)
    assert tree.dynamic == Dynamic(2, 2, 4)
    assert any("not known without an acceptance" in note for note in tree.notes)


@given(st.lists(st.floats(0.01, 0.3), min_size=1, max_size=3), st.sampled_from(["sglang", "trtllm", "eagle", "vllm"]))
def test_whatever_is_lowered_can_be_exported(row, to):
    tree = TokenTree.full([3, 2, 1])
    found = export(tree, to=to, lower=True, acceptance=row)
    again = export(found.dynamic or found.tree, to=to)
    assert {**again.settings} == {**found.settings}


# ---- documents


@pytest.fixture
def planned(specplan, tmp_path):
    """A plan's document in a file."""

    def make(arguments):
        ran = specplan(f"plan {arguments} --json")
        assert ran.code == 0, ran.err
        file = tmp_path / "plan.json"
        file.write_text(ran.out)
        return str(file)

    return make


@pytest.mark.parametrize("stack", ["vllm", "sglang", "trtllm", "eagle", "llamacpp", "lmdeploy", "medusa"])
def test_an_export_of_a_plan_for_a_stack_is_what_the_plan_printed(specplan, planned, tmp_path, stack):
    method = {"llamacpp": "--draft llama-3.2-1b", "medusa": "--method medusa"}.get(stack, "--method eagle3")
    file = planned(f"{DEVICE} {method} --p 0.7 --budget 24 --stack {stack}")
    plan = json.loads(Path(file).read_text())
    ran = specplan(f"export {file} --to {stack} --json").json
    assert ran["settings"] == plan["stack"]["settings"]
    assert ran["command"] == plan["stack"]["command"]
    assert (ran["nodes"], ran["loss"]) == (plan["recommended"]["nodes"], 0.0)
    assert ran["shape"]["tau"] == pytest.approx(plan["recommended"]["tau"])
    assert ran["shape"]["speedup"] == pytest.approx(plan["recommended"]["speedup"])


def test_a_free_plan_lowered_is_the_plan_for_the_stack(specplan, planned):
    free = planned(f"{DEVICE} --engine sglang --method eagle3 --p 0.7 --budget 24 --tie 0")
    lowered = specplan(f"export {free} --to sglang --lower --json").json
    inside = specplan(f"plan {DEVICE} --method eagle3 --p 0.7 --budget 24 --tie 0 --stack sglang --json").json
    assert lowered["settings"] == inside["stack"]["settings"]
    assert lowered["loss"] == pytest.approx(inside["stack"]["loss"])
    assert lowered["instead_of"]["tokens_per_s"] == pytest.approx(inside["optimum"]["tokens_per_s"])


def test_a_plan_over_batches_is_exported_in_any_dialect(specplan, planned):
    file = planned(f"{DEVICE} --method eagle3 --p 0.7 --batch 1..128 --stack vllm")
    ranges = specplan(f"export {file} --to vllm --json").json["settings"]["num_speculative_tokens_per_batch_size"]
    keys = specplan(f"export {file} --to trtllm --json").json["settings"]["draft_len_schedule"]
    tiers = specplan(f"export {file} --to sglang --json").json["adaptive_config"]
    assert [(last, k) for _, last, k in ranges if k] == [(int(last), k) for last, k in keys.items()]
    assert [(first, k) for first, _, k in ranges] == [(int(b), t["candidate_steps"][0]) for b, t in tiers.items()]


def test_a_plan_that_says_no_is_exported_as_plain_decoding(specplan, planned):
    file = planned(f"{DEVICE} --method eagle3 --p 0.01 --overhead 90ms")
    for to in ("vllm", "sglang", "trtllm", "medusa", "llamacpp"):
        how = "--method medusa" if to == "medusa" else "--method mtp"
        ran = specplan(f"export {file} --to {to} {how} --json").json
        assert (ran["settings"], ran["nodes"], ran["width"], ran["files"]) == ({}, 0, 1, {})


@pytest.mark.parametrize(
    "arguments",
    [
        "export --k 5 --to vllm --p 0.6 --synthetic",
        "export --schedule 1-4:4,5-16:2 --to sglang --method eagle3",
        "export --k 3 --to sglang --method mtp --sweep",
        "export --k 3 --to medusa",
        "stacks",
        "stacks trtllm@1.2",
        "tree --p 0.6 --budget 6 --stack sglang",
        f"plan {DEVICE} --draft llama-3.2-1b --p 0.7 --stack vllm --batch 1..8",
    ],
)
def test_documents_validate_against_their_schemas(specplan, arguments):
    ran = specplan(f"{arguments} --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema(arguments.split()[0]))


def test_plans_are_piped(specplan, planned, monkeypatch):
    import io
    import sys

    text = Path(planned(f"{DEVICE} --method eagle3 --p 0.7 --budget 8 --stack vllm")).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert "num_speculative_tokens" in specplan("export - --to vllm").out


def test_trees_are_canonical_in_the_document(specplan, tmp_path):
    file = tmp_path / "t5.json"
    file.write_text("[[1,0],[0,1],[1],[0,0],[0]]")
    ran = specplan(f"export {file} --to medusa --json").json
    assert ran["paths"] == T5
    assert ran["parents"] == [-1, -1, 0, 0, 1]
    assert ran["position_offsets"] == [1, 1, 2, 2, 2]
    assert ran["mask"][4] == [0, 1, 0, 0, 1]
    assert (ran["nodes"], ran["width"]) == (5, 6)
    assert ran["stack"]["name"] == "medusa"


def test_a_comparison_is_exported_as_its_best_method(specplan, tmp_path):
    ran = specplan(f"compare {DEVICE} --draft llama-3.2-1b --p 0.7 --method chain --method eagle3 --budget 8 --json")
    file = tmp_path / "compare.json"
    file.write_text(ran.out)
    found = specplan(f"export {file} --to sglang --lower --json").json
    expected = {"chain": "STANDALONE", "eagle3": "EAGLE3"}[ran.json["best"]]
    assert found["settings"]["speculative_algorithm"] == expected


def test_dspark_gets_the_plans_pass_times_as_its_cost_table(specplan, planned):
    # SGLang: sample_batch_tokens strictly increasing, rates as many, max_batch_tokens at least the last.
    file = planned(f"{DEVICE} --method eagle3 --p 0.7 --budget 16 --batch 4 --max-children 1")
    costs = json.loads(Path(file).read_text())["costs"]
    ran = specplan(f"export {file} --to sglang --method dspark --json").json
    table = json.loads(ran["files"]["sps_table.json"])
    tokens, rates = table["sample_batch_tokens"], table["sample_steps_per_sec"]
    assert tokens == [4 * width for width in range(1, len(costs["verify_s"]) + 1)]
    assert all(a >= b > 0 for a, b in zip(rates, rates[1:]))
    assert rates[0] == pytest.approx(1 / costs["verify_s"][0], rel=1e-5)
    assert table["max_batch_tokens"] == tokens[-1]
    assert ran["settings"]["speculative_dspark_sps_table_path"] == "sps_table.json"


# ---- the command line


def test_commands_are_ready_to_paste(specplan):
    ran = specplan("export --k 5 --to vllm --method eagle3 --draft org/head --model org/model --json").json
    words = shlex.split(ran["command"])
    assert words[:3] == ["vllm", "serve", "org/model"]
    assert json.loads(words[words.index("--speculative-config") + 1]) == ran["settings"]


def test_names_with_blanks_and_quotes_stay_one_word(specplan):
    for to in ("vllm", "sglang", "trtllm", "llamacpp", "lmdeploy"):
        ran = specplan(["export", "--k", "2", "--to", to, "--model", "my model's", "--draft", "a b'c", "--json"]).json
        assert "my model's" in shlex.split(ran["command"])


def test_one_file_is_written_as_named_and_several_into_a_folder(specplan, tmp_path):
    one = tmp_path / "adaptive.json"
    specplan(f"export --schedule 1-4:4,5-16:2 --to sglang --method eagle3 --out {one}")
    assert json.loads(one.read_text()) == {"1": {"candidate_steps": [4]}, "5": {"candidate_steps": [2]}}
    folder = tmp_path / "sweep"
    assert specplan(f"export --k 4 --to vllm --method eagle3 --sweep --out {folder}").code == 0
    assert sorted(os.listdir(folder)) == ["bench_params.json", "serve_params.json"]
    settings = tmp_path / "settings.json"
    specplan(f"export --k 4 --to vllm --method eagle3 --out {settings}")
    assert json.loads(settings.read_text()) == {"method": "eagle3", "num_speculative_tokens": 4}


def test_of_several_files_all_or_none_are_written(specplan, refused, tmp_path):
    folder = tmp_path / "sweep"
    (folder / "serve_params.json").mkdir(parents=True)  # a folder where a file has to go
    assert "serve_params.json" in refused(f"export --k 4 --to vllm --method eagle3 --sweep --out {folder}", 4)
    assert sorted(os.listdir(folder)) == ["serve_params.json"]
    missing = tmp_path / "no" / "such" / "folder"
    assert refused(f"export --k 4 --to vllm --method eagle3 --sweep --out {missing}", 4)
    assert not (tmp_path / "no").exists()


def test_the_sweep_is_the_plan_with_its_neighbours(specplan):
    ran = specplan("export --schedule 1-4:4,5-16:2 --to vllm --method eagle3 --draft org/d --sweep --json").json
    served = json.loads(ran["files"]["serve_params.json"])
    assert list(served) == ["plain", "k1", "k2", "k3", "k4", "k5", "schedule"]
    assert served["plain"] == {}
    assert served["k3"]["speculative_config"]["num_speculative_tokens"] == 3
    benched = json.loads(ran["files"]["bench_params.json"])
    assert [row["max_concurrency"] for row in benched.values()] == [1, 4, 16]
    listed = specplan("export --k 3 --to sglang --method eagle3 --sweep --json").json["files"]["config_list.txt"]
    # batch,steps,topk,draft tokens; zeros are plain decoding
    assert listed.split() == ["1,0,0,0", "1,2,1,3", "1,3,1,4", "1,4,1,5"]


def test_what_is_missing_or_doubled_is_said(refused, tmp_path):
    assert "--to" in refused("export --k 5")
    assert "nothing to export" in refused("export --to vllm")
    assert "both give the shape" in refused("export --schedule 1-4:4 --k 5 --to vllm")
    assert "'sglang'" in refused("export --k 5 --to sglnag")
    assert "such as 0.33.0" in refused("export --k 5 --to vllm@banana")
    assert "known: " in refused("export --k 5 --to vllm@0.3")
    assert refused(f"export {tmp_path / 'absent.json'} --to vllm")


def test_every_refusal_has_its_hint(refused, tmp_path):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(T5))
    for arguments in (
        f"{file} --to vllm",
        f"{file} --to sglang",
        f"{file} --to trtllm",
        "--k 5 --to ollama",
        "--k 5 --to tgi --method eagle3",
        "--schedule 1-4:2,5-9:4 --to trtllm",
        "--schedule 1-4:4,5-9:2 --to llamacpp",
        "--k 7 --to vllm --method mtp --n-predict 5",
    ):
        refused(f"export {arguments}", 3)


# ---- the registry


def test_the_table_has_every_stack_and_each_is_shown(specplan):
    ran = specplan("stacks --json").json
    assert [row["name"] for row in ran["stacks"]] == sorted(stacks())
    for name in stacks():
        assert specplan(f"stacks {name}").code == 0
    assert specplan("stacks").out.splitlines()[0].startswith(f"{len(stacks())} stacks")


@pytest.mark.parametrize("name", sorted(stacks()))
def test_versions_of_a_stack_do_not_overlap_and_start_with_the_newest(name):
    stack = stacks()[name]
    for record in stack.capabilities:
        for version in filter(None, (record.since, record.until)):
            assert stack.at(version) is record
    assert stack.at() is stack.capabilities[0]


@pytest.mark.parametrize(
    ("version", "family", "schedule"),
    [
        ("0.33.0", "chain", "ranges"),
        ("0.21.1", "chain", "ranges"),
        ("0.21.0", "chain", None),
        ("0.20.2", "uniform", None),
        ("0.10.0", "uniform", None),
    ],
)
def test_vllm_switches_at_its_versions(version, family, schedule):
    _, record, _ = stack_of(f"vllm@{version}")
    assert (record.family, record.schedule) == (family, schedule)


def test_a_stack_is_added_by_one_file(tmp_path, specplan, monkeypatch):
    import specplan.stacks as package

    (tmp_path / "madeup.py").write_text(
        textwrap.dedent(
            """
            from specplan.stacks.capability import Capability, Export, Stack
            from specplan.stacks.reading import Reading

            def export(wanted, capability, version):
                return Export({"tokens": wanted.longest}, command=f"madeup --tokens {wanted.longest}")

            def reading(data, asked):
                if not isinstance(data, dict) or "madeup_tau" not in data:
                    return None
                return Reading("madeup", "tokens a round", tau=data["madeup_tau"], k=3)

            RECORD = Capability("chain", ("chain",), ("tokens",), "nowhere")
            STACK = Stack("madeup", "Made up", "1.0", (RECORD,), export, jsons={"made-up numbers": reading})
            """
        )
    )
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    stacks.cache_clear()
    try:
        assert "madeup" in specplan("stacks").out
        assert specplan("export --k 3 --to madeup --json").json["settings"] == {"tokens": 3}
        assert "made-up numbers" in specplan("stacks madeup --json").json["stacks"][0]["reads"]
        numbers = tmp_path / "numbers.json"
        numbers.write_text('{"madeup_tau": 2.5}')
        assert specplan(f"acceptance {numbers} --json").json["tau"] == 2.5
        assert specplan("plan --gpu h100 --model llama-3-8b --p 0.7 --stack madeup --json").json["stack"]["settings"]
    finally:
        stacks.cache_clear()


# ---- bad input


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"schema": "specplan.plan/1"}',
        b'{"schema": "specplan.plan/1", "inputs": {}, "recommended": 3}',
        b'{"schema": "specplan.plan/1", "inputs": {}, "recommended": {"parents": [0]}}',
        b'{"schema": "specplan.plan/1", "inputs": {}, "recommended": {"parents": [1, 0]}}',
        b'{"schema": "specplan.plan/1", "inputs": {}, "recommended": {"parents": [-1], "ranks": ["x"]}}',
        b'{"schema": "specplan.plan/1", "inputs": {"batch": -2}, "recommended": {"parents": [-1]}}',
        b'{"schema": "specplan.plan/1", "inputs": {}, "recommended": {"parents": [-1]}, "costs": {"verify_s": []}}',
        b'{"schema": "specplan.plan/1", "inputs": {}, "recommended": {"parents": [-1]}, "schedule": [7]}',
        b'{"schema": "specplan.roofline/1", "inputs": {}}',
        b"[[0], [0, \"__import__('os')\"]]",
        b"[[0], [1.5]]",
        b"[[0], [99999999999]]",
        b"\x80\x04K\x05.",
        b"\x00\xff\xfe",
    ],
)
def test_files_that_are_no_plan_and_no_tree_are_refused(content):
    with pytest.raises(InputError):
        source_of(content, where="x.json")


KEYS = ("inputs", "recommended", "parents", "ranks", "costs", "verify_s", "schedule", "dynamic", "acceptance", "batch")
scalars = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5) | st.integers(-5, 5)
values = st.recursive(
    scalars,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(KEYS), part, max_size=4),
    max_leaves=12,
)


@given(values)
def test_any_document_is_a_shape_or_a_clean_refusal(value):
    document = {"schema": "specplan.plan/1", "inputs": {}, "recommended": value}
    if isinstance(value, dict):
        document |= value
        document["schema"] = "specplan.plan/1"
    try:
        source_of(json.dumps(document).encode(), where="x.json")
    except InputError as error:
        assert error.message


# ---- exports against the rules for hand-written settings

SHAPES = [
    TokenTree.chain(1),
    TokenTree.chain(16),
    TokenTree.full([2, 2]),
    TokenTree.full([3, 2, 1]),
    Dynamic(3, 4, 20),
    Dynamic(4, 2, 8),
    WORKED,
    (Scheduled(1, 1, 0), Scheduled(2, 4, 3), Scheduled(5, 9, 5)),
]


@pytest.mark.parametrize("name", sorted(set(stacks()) - {"sequoia", "umbrella"}))
def test_what_is_exported_passes_the_check_of_its_own_stack(name):
    """Growmaps are checked as files, elsewhere."""
    stack, passed = stacks()[name], 0
    for record in stack.capabilities:
        version = record.until or (stack.read if record is stack.capabilities[0] else record.since)
        to = name if record.since is record.until is None else f"{name}@{version}"
        for method in record.methods:
            for shape in SHAPES:
                try:
                    found = export(shape, to=to, method=method, draft="org/d", acceptance=[0.6, 0.2], exit_layer=4)
                except (DoesNotFit, InputError) as refusal:
                    assert refusal.hint
                    continue
                problems = [
                    problem for problem in stack.check(found.settings, record, version) if problem.kind != "note"
                ]
                warned = " ".join(found.warnings)
                assert all(problem.text in warned for problem in problems), (method, shape, problems)
                passed += 1
    assert passed or stack.capabilities[0].family == "none"


@pytest.mark.parametrize("ranks", [True, 3, "0", {"0": 0}])
def test_ranks_that_are_no_list_are_refused(ranks):
    document = {"schema": "specplan.tree/1", "inputs": {}, "parents": [-1], "ranks": ranks}
    with pytest.raises(InputError, match="ranks is no list"):
        source_of(json.dumps(document).encode(), where="x.json")


def test_exporting_to_one_stack_loads_no_other_and_no_search():
    code = (
        "import sys; from specplan.cli.app import run; run(['export', '--k', '5', '--to', 'vllm']); "
        "rooms = ('specplan.stacks.sglang', 'specplan.search.within', 'specplan.timing.roofline');"
        "print([m for m in rooms if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_version_that_was_not_read_is_said_to_be_taken_as_the_newest(specplan):
    later, known = (specplan(f"export --k 3 --to vllm@{version} --json").json for version in ("99.1", "0.32"))
    assert later["settings"] == known["settings"]
    assert any("read up to 0.33.0: 99.1" in note for note in later["notes"])
    assert not any("read up to" in note for note in known["notes"])


def test_a_schedule_that_begins_without_speculation_is_not_sent_to_lower(refused):
    said = refused("export --schedule 1-4:0,5-8:3 --to trtllm --method eagle3", 3)
    assert "begin the schedule with a length" in said


@pytest.mark.parametrize("name", sorted(stacks()))
def test_names_are_quoted_in_every_command_that_is_pasted(name):
    """A plan from elsewhere names models too: what a name holds is never run."""
    stack, record, version = stack_of(name)
    if record.family == "none":
        return
    hostile, survival = "a b;$(touch x)'\"", (0.8, 0.6, 0.4)
    for method in record.methods:
        wanted = Wanted(
            TokenTree.chain(3), method=method, draft=hostile, model=hostile, exit_layer=4, survival=survival, heads=5
        )
        command = export_to(stack, record, version, wanted).command
        if "touch" not in command:
            continue
        if re.match(r"[\w.]+\(", command):  # a Python call
            ast.parse(command)
            assert repr(hostile) in command
        else:
            assert hostile in shlex.split(command)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_names_are_quoted_in_the_commands_of_sweeps(specplan, name):
    hostile = "c d;$(x)'"
    line = ["export", "--k", "3", "--to", name, "--method", "eagle3", "--draft", hostile, "--model", hostile]
    words = shlex.split(specplan([*line, "--sweep", "--json"]).json["command"])
    inner = [shlex.split(word) for word in words if word.startswith("vllm ") and word != "vllm"]
    assert all(hostile in found for found in inner or [words])
