"""Keep, change or turn off; and what to measure next."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Chain, Independent
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.planning.advise import advise, costs_from_measured
from specplan.render.schemas import json_schema
from specplan.search.costs import RoundCosts
from specplan.search.space import Space

MEASURED = "advise --k 5 --accept-length 2.8 --measured-tpot 25ms"
DEVICE = "advise --gpu h100 --model llama-3-8b --draft llama-3.2-1b"


def judged(k, acceptance, costs, **limits):
    return advise(TokenTree.chain(k), acceptance, Space(len(costs.verify_s) - 1, 16, children=1, **limits), costs)


@pytest.mark.parametrize(
    ("k", "alpha", "verdict", "nodes"),
    [(5, 0.8, "keep", None), (8, 0.5, "change", 2), (1, 0.9, "change", 8), (4, 0.05, "off", 0)],
)
def test_the_verdict_follows_the_acceptance(k, alpha, verdict, nodes):
    costs = RoundCosts(verify_s=[0.010 + 0.0012 * i for i in range(9)], overhead_s=0.001)
    found = judged(k, Chain.constant(alpha), costs)
    assert found.verdict == verdict
    assert (found.change.nodes if found.change else None) == nodes


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.floats(0.0, 1.0), st.floats(0.0, 0.01), st.floats(0.0, 0.02))
def test_changing_never_makes_it_slower_and_keeping_loses_no_more_than_the_tie(k, alpha, slope, overhead):
    costs = RoundCosts(verify_s=[0.010 + slope * i for i in range(9)], overhead_s=overhead)
    found = judged(k, Chain.constant(alpha), costs)
    if found.verdict == "keep":
        assert found.loss <= 0.01
        assert found.used.speedup > 1
    elif found.verdict == "change":
        assert found.change.speedup > found.used.speedup
        assert found.change.speedup > 1.01
    else:
        assert found.verdict == "off"
        assert found.used.speedup <= 1.02


def test_the_measured_round_is_hit_exactly_and_break_even_is_its_ratio():
    used = TokenTree.chain(5)
    costs = costs_from_measured(used, plain_s=0.025, round_s=0.0392)
    found = advise(used, Chain.from_accept_length(2.8, 5), Space(5, 5, children=1), costs)
    assert found.round_s == pytest.approx(0.0392)
    assert found.break_even_tau == pytest.approx(0.0392 / 0.025)
    assert found.used.speedup == pytest.approx(2.8 * 0.025 / 0.0392)


@pytest.mark.parametrize("times", [(0.0, 0.1), (0.1, 0.0), (float("nan"), 0.1), (0.1, float("inf"))])
def test_times_that_are_none_are_refused(times):
    with pytest.raises(InputError, match="time of"):
        costs_from_measured(TokenTree.chain(2), plain_s=times[0], round_s=times[1])


def test_what_to_measure_next_begins_with_plain_decoding_and_is_short():
    costs = RoundCosts(verify_s=[0.010 + 0.0012 * i for i in range(17)])
    found = advise(TokenTree.chain(4), Independent(0.6), Space(16, 8), costs)
    assert found.measure_next[0].nodes == 0
    assert len(found.measure_next) <= 5
    assert len({(trial.nodes, trial.depth, trial.topk) for trial in found.measure_next}) == len(found.measure_next)
    tree = found.measure_next[1]
    assert tree.sglang == f"{tree.depth},{tree.topk},{tree.nodes + 1}"
    assert tree.vllm is None
    chains = [trial for trial in found.measure_next if trial.topk == 1]
    assert all(trial.vllm == {"speculative_config.num_speculative_tokens": trial.nodes} for trial in chains)


@pytest.mark.parametrize(
    "arguments",
    [
        f"{MEASURED} --measured-spec-tpot 14ms",
        f"{MEASURED} --round 80ms",
        "advise --k 4 --measured-tpot 25ms --round 50ms",
        f"{DEVICE} --acceptance tests/data/dialects/vllm-v1.prom",
        f"{DEVICE} --acceptance tests/data/dialects/vllm-v1.prom --before tests/data/dialects/vllm-v1.log",
        f"{DEVICE} --k 3",
        f"{DEVICE} --k 4 --p 0.6 --budget 16",
        f"{DEVICE} --k 4 --p 0.01 --overhead 40ms",
    ],
)
def test_a_document_validates_and_the_text_begins_with_the_verdict(specplan, arguments):
    ran = specplan(f"{arguments} --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("advise"))
    first = specplan(arguments).out.splitlines()[0]
    action = {"keep": "Keep", "change": "Change to", "off": "Turn it off", None: "No acceptance given"}
    assert first.startswith(action[ran.json["verdict"]])


def test_the_time_per_token_with_speculation_gives_the_round(specplan):
    ran = specplan(f"{MEASURED} --measured-spec-tpot 14ms --json").json
    assert ran["round_s"] == pytest.approx(2.8 * 0.014)
    assert ran["speedup"] == pytest.approx(25 / 14)
    slow = specplan(f"{MEASURED} --measured-spec-tpot 30ms --json").json
    assert slow["speedup"] == pytest.approx(25 / 30)
    assert slow["verdict"] in ("change", "off")


def test_no_acceptance_shows_the_break_even_and_assumes_none(specplan):
    ran = specplan("advise --k 4 --measured-tpot 25ms --round 50ms --json").json
    assert (ran["verdict"], ran["tau"], ran["speedup"], ran["change"]) == (None, None, None, None)
    assert ran["break_even"]["tau"] == pytest.approx(2.0)
    assert specplan("advise --k 4 --measured-tpot 25ms --round 50ms --strict").code == 1


def test_the_length_in_use_is_taken_from_the_file(specplan):
    ran = specplan(f"{DEVICE} --acceptance tests/data/dialects/vllm-v1.prom --json").json
    assert ran["inputs"]["depth"] == 3
    assert ran["tau"] == pytest.approx(2.65)
    assert ran["interval"][0] < ran["speedup"] < ran["interval"][1]


def test_a_shape_in_use_past_the_default_limit_is_timed(specplan):
    ran = specplan("advise --gpu rtx-4090 --model llama-3-8b --draft llama-3.2-1b --k 300 --p 0.6 --json").json
    assert ran["verdict"] == "change"
    assert ran["used"]["nodes"] == 300
    assert ran["change"]["depth"] < 20


def test_an_earlier_snapshot_is_compared(specplan):
    ran = specplan(
        f"{DEVICE} --acceptance tests/data/dialects/llamacpp-new.log --before tests/data/dialects/vllm-v1.log --json"
    ).json
    assert ran["drift"]["change"] == pytest.approx((1 + 167 / 87) / 2.65 - 1)
    assert ran["was_best"] in (True, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("advise --accept-length 2.8 --k 5", "no times"),
        ("advise --p 0.6 --measured-tpot 25ms --round 30ms", "what runs now"),
        ("advise --k 5 --p 0.6 --round 30ms", "plain decoding is missing"),
        ("advise --k 5 --measured-tpot 25ms --measured-spec-tpot 14ms", "without an acceptance"),
        ("advise --k 5 --p 0.6 --measured-tpot 25ms --measured-spec-tpot 14ms --round 30ms", "both give the round"),
        (f"{DEVICE} --k 5 --p 0.6 --measured-tpot 25ms --round 30ms", "both give the times"),
        ("advise --gpu h100 --k 5 --p 0.6", "no model"),
        (f"{DEVICE} --k 5 --before tests/data/dialects/counts.csv", "--before"),
        (f"{DEVICE} --k 5 --p 0.6 --from x.json", "both give the tree"),
        ("advise --k 5 --p 0.6 --measured-tpot 25 --round 30ms", "unit"),
    ],
)
def test_what_is_missing_or_given_twice_is_refused(refused, arguments, said):
    assert said in refused(arguments)


def test_a_round_shorter_than_a_plain_pass_is_refused():
    with pytest.raises(InputError, match="shorter than a plain pass"):
        costs_from_measured(TokenTree.chain(3), plain_s=0.025, round_s=0.020)


def test_off_leads_where_the_shape_in_use_loses_and_a_shorter_one_lies_on_a_line_alone(specplan):
    ran = specplan("advise --k 5 --accept-length 1.3 --measured-tpot 25ms --round 40ms --json").json
    assert (ran["verdict"], ran["change"]["nodes"]) == ("off", 0)
    assert "fixed cost" in ran["reason"]
    shorter = ran["measure_next"][1]
    assert shorter["nodes"] == 1
    assert shorter["speedup"] > 1
    # with a curve that was measured at every width there is no line to doubt
    costs = RoundCosts(verify_s=[0.025 + 0.003 * i for i in range(6)])
    assert judged(5, Chain.from_accept_length(1.3, 5), costs).verdict == "change"


def test_a_change_that_lies_on_a_line_is_to_be_measured_first(specplan):
    said = specplan(f"{MEASURED} --measured-spec-tpot 14ms").out
    assert said.startswith("Change to a chain of 3")
    assert "Measure the change first" in said


PAGE = """vllm:spec_decode_num_drafts_total {0}
vllm:spec_decode_num_draft_tokens_total {1}
vllm:spec_decode_num_accepted_tokens_total {2}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} {3}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="1"}} {4}
"""


def test_an_earlier_page_makes_advise_judge_the_rounds_between(specplan, tmp_path):
    before, after = tmp_path / "a.prom", tmp_path / "b.prom"
    before.write_text(PAGE.format(1000, 2000, 1500, 850, 650))
    after.write_text(PAGE.format(2000, 4000, 1600, 940, 660))
    ran = specplan(f"{DEVICE} --acceptance {after} --before {before} --json").json
    assert ran["tau"] == pytest.approx(1.1)  # since the start it is 1.8
    assert ran["verdict"] == "off"
    assert ran["drift"]["window"] is True
    assert any("between the two snapshots" in note for note in ran["notes"])
    assert specplan(f"{DEVICE} --acceptance {after} --json").json["tau"] == pytest.approx(1.8)


ROWS = '{"batch_size": 1, "steps": 3, "topk": 4, "num_draft_tokens": 16, "acc_length": 2.52}'


@pytest.mark.parametrize(("round_s", "verdict"), [("40ms", "keep"), ("70ms", "off")])
def test_a_tree_that_the_engine_built_is_judged_by_its_tokens_per_round(specplan, tmp_path, round_s, verdict):
    file = tmp_path / "rows.jsonl"
    file.write_text(ROWS)
    ran = specplan(f"advise --acceptance {file} --measured-tpot 25ms --round {round_s} --json")
    assert ran.code == 0, ran.err
    assert (ran.json["verdict"], ran.json["tau"]) == (verdict, pytest.approx(2.52))
    assert (ran.json["used"]["nodes"], ran.json["used"]["depth"]) == (15, 3)
    assert ran.json["speedup"] == pytest.approx(2.52 * 25 / float(round_s[:2]))
    planned = specplan(f"{DEVICE} --acceptance {file} --json").json
    assert planned["used"]["nodes"] == 15


@pytest.mark.parametrize(
    "method", ["eagle3", "medusa", "ngram", "layerskip --exit-layer 8", "chain --draft llama-3.2-1b"]
)
def test_a_method_that_runs_is_judged_by_the_costs_that_plan_gives_it(specplan, method):
    log = Path(__file__).parent / "data" / "dialects" / "vllm-v1.log"
    device = f"--gpu h100 --model llama-3-8b --method {method} --acceptance {log} --json"
    found, planned = specplan(f"advise {device}").json, specplan(f"plan {device} --k 3").json
    assert found["speedup"] == pytest.approx(planned["given"]["speedup"])
    assert not any("counted as free" in note for note in found["notes"])


def test_a_method_beside_measured_times_is_refused(refused):
    times = "--k 5 --accept-length 2.8 --measured-tpot 25ms --round 30ms"
    assert "--method needs a device" in refused(f"advise {times} --method eagle3")


def test_a_layer_has_one_rate(refused):
    asked = "plan --gpu a100 --model llama-3-8b --method layerskip --exit-layer 4:0.5,4:0.6"
    assert "two rates" in refused(asked)
