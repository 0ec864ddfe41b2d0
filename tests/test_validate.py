"""A plan against benchmark files: each program's fields, the error of each term, the fitted constants."""

from __future__ import annotations

import json

import jsonschema
import pytest

from specplan.acceptance.kinds import Independent
from specplan.base.errors import InputError
from specplan.planning.validate import validate
from specplan.render.schemas import json_schema
from specplan.search.costs import RoundCosts
from specplan.search.space import Dynamic
from specplan.stacks.bench_files import bench_of
from specplan.stacks.measured import Measured
from specplan.timing.draft import Draft

# A pass of any width up to 9 takes 20 ms, a draft pass 2 ms, a round 1 ms more; p = 0.5.
COSTS = RoundCosts([0.020] * 9, Draft("draft", 0.002), 0.001, batch=2)
HALF = Independent(0.5)


def round_of(k, *, overhead=0.001, draft=0.002, verify=0.020):
    return verify + k * draft + overhead


def tau_of(k):
    return sum(0.5**i for i in range(k + 1))


# ---- the comparison


def test_a_measurement_that_is_as_planned_has_no_error():
    measured = [
        Measured("run", k=3, batch=2, tau=tau_of(3), round_s=round_of(3), tokens_per_s=2 * tau_of(3) / round_of(3)),
        Measured("plain", k=0, batch=2, round_s=0.020, tokens_per_s=100.0),
    ]
    found = validate(HALF, COSTS, measured)
    assert {name: term.error for name, term in found.terms.items()} == pytest.approx(
        {"tau": 0, "round_s": 0, "tokens_per_s": 0, "plain_tpot_s": 0}, abs=1e-12
    )
    assert found.fitted["overhead_s"].value == pytest.approx(0.001)
    assert found.fitted["verify_scale"].value == pytest.approx(1.0)


def test_errors_are_predicted_over_measured():
    found = validate(HALF, COSTS, [Measured("run", k=2, batch=2, tau=2.0, round_s=0.030)])
    assert found.terms["tau"].error == pytest.approx(1.75 / 2.0 - 1)
    assert found.terms["round_s"].error == pytest.approx(0.025 / 0.030 - 1)
    assert found.fitted["overhead_s"].value == pytest.approx(0.006)
    assert found.fitted["overhead_s"].interval is None


def test_three_lengths_give_the_overhead_and_the_draft_with_intervals():
    rounds = {k: round_of(k, overhead=0.004, draft=0.003) for k in (1, 2, 4, 8)}
    noise = {1: 1e-5, 2: -1e-5, 4: 1e-5, 8: -1e-5}
    measured = [Measured(f"k{k}", k=k, batch=2, round_s=seconds + noise[k]) for k, seconds in rounds.items()]
    found = validate(HALF, COSTS, measured).fitted
    for name, true in (("overhead_s", 0.004), ("draft_scale", 1.5)):
        low, high = found[name].interval
        assert low < true < high
        assert high - low < 0.1 * true
        assert found[name].value == pytest.approx(true, rel=0.02)


def test_a_slower_target_is_told_from_the_overhead_by_plain_runs():
    measured = [
        Measured("plain", k=0, batch=2, round_s=0.025),
        Measured("run", k=2, batch=2, round_s=round_of(2, verify=0.025, overhead=0.003)),
    ]
    found = validate(HALF, COSTS, measured).fitted
    assert found["verify_scale"].value == pytest.approx(1.25)
    assert found["overhead_s"].value == pytest.approx(0.003)


def test_another_batch_compares_tokens_per_round_alone():
    found = validate(HALF, COSTS, [Measured("run", k=2, batch=16, tau=1.7, round_s=0.05, tokens_per_s=544.0)])
    assert set(found.terms) == {"tau"}
    assert "batch 16, the plan is for 2" in found.notes[0]
    assert found.fitted == {}


def test_a_tree_that_is_not_the_planned_one_is_left_out_by_name():
    measured = [
        Measured("tree", dynamic=Dynamic(3, 4, 7), batch=2, tau=2.2),
        Measured("chain", k=1, batch=2, tau=1.5),
    ]
    found = validate(HALF, COSTS, measured)
    assert [point.source for point in found.points] == ["chain"]
    assert "steps 3, topk 4, 7 nodes is not the planned shape" in found.notes[0]
    with pytest.raises(InputError, match="nothing measured can be compared"):
        validate(HALF, COSTS, measured[:1])


def test_a_length_beyond_the_plans_times_is_left_out():
    found = validate(HALF, COSTS, [Measured("long", k=12, batch=2, tau=2.0), Measured("run", k=1, batch=2, tau=1.5)])
    assert any(note.startswith("long: K 12:") for note in found.notes)


# ---- the files


def one(content):
    found = bench_of(content if isinstance(content, str) else json.dumps(content), where="file")
    assert len(found) == 1
    return found[0]


def test_vllm_bench_serve():
    """Invented run: 100 steps, K = 3, 165 accepted; the rate of this file is in percent and not used."""
    found = one(
        {
            "max_concurrency": 8,
            "output_throughput": 900.0,
            "mean_tpot_ms": 8.0,
            "spec_decode_acceptance_rate": 55.0,
            "spec_decode_acceptance_length": 2.65,
            "spec_decode_per_position_acceptance_rates": [0.80, 0.52, 0.33],
        }
    )
    assert (found.k, found.batch, found.tau, found.tokens_per_s) == (3, 8, 2.65, 900.0)
    assert found.round_s == pytest.approx(0.0212)


def test_vllm_bench_serve_without_speculation_is_plain_decoding():
    found = one({"max_concurrency": 8, "output_throughput": 400.0, "mean_tpot_ms": 20.0})
    assert (found.k, found.tau, found.round_s) == (0, None, 0.020)


def test_a_run_without_a_stated_concurrency_says_so():
    found = one({"output_throughput": 400.0, "mean_tpot_ms": 20.0})
    assert found.batch is None
    assert "not stated" in found.notes[0]


def test_sglang_bench_serving():
    lines = [
        {
            "backend": "sglang",
            "max_concurrency": 4,
            "output_throughput": 500.0,
            "mean_tpot_ms": 7.5,
            "accept_length": 2.65,
        },
        {
            "backend": "sglang",
            "max_concurrency": 4,
            "output_throughput": 300.0,
            "mean_tpot_ms": 13.0,
            "accept_length": None,
        },
    ]
    spec, plain = bench_of("\n".join(map(json.dumps, lines)), where="file")
    assert (spec.tau, spec.k, plain.k) == (2.65, None, 0)
    assert spec.round_s == pytest.approx(0.0075 * 2.65)
    assert plain.round_s == pytest.approx(0.013)


def test_bench_speculative():
    rows = [
        {
            "batch_size": 2,
            "steps": 0,
            "topk": 0,
            "num_draft_tokens": 0,
            "acc_length": 1.0,
            "step_time": 0.02,
            "speed": 50,
        },
        {
            "batch_size": 2,
            "steps": 3,
            "topk": 1,
            "num_draft_tokens": 4,
            "acc_length": 2.4,
            "step_time": 0.03,
            "speed": 80,
        },
        {
            "batch_size": 2,
            "steps": 3,
            "topk": 4,
            "num_draft_tokens": 8,
            "acc_length": 2.9,
            "step_time": 0.04,
            "speed": 72.5,
        },
    ]
    plain, chain, tree = bench_of("\n".join(map(json.dumps, rows)), where="file")
    assert (plain.k, chain.k, tree.k) == (0, 3, None)
    assert tree.dynamic == Dynamic(3, 4, 7)
    assert chain.tokens_per_s == pytest.approx(2 * 80)
    assert (plain.round_s, tree.round_s) == (0.02, 0.04)


def test_specforge():
    found = one(
        {
            "mtbench": [
                {
                    "batch_size": 1,
                    "steps": 3,
                    "topk": 1,
                    "num_draft_tokens": 4,
                    "metrics": [
                        {"latency": 10.0, "output_throughput": 100.0, "accept_length": 2.4, "num_questions": 80},
                        {"latency": 10.0, "output_throughput": 110.0, "accept_length": 2.6, "num_questions": 80},
                    ],
                }
            ]
        }
    )
    assert (found.k, found.batch) == (3, 1)
    assert (found.tau, found.tokens_per_s) == pytest.approx((2.5, 105.0))
    assert found.round_s == pytest.approx(2.5 / 105.0)


def test_llama_cpp_speed_bench():
    timings = {"predicted_n": 265, "predicted_ms": 2120.0, "draft_n": 300, "draft_n_accepted": 165}
    found = one({"config": {"concurrency": 1}, "summary": [{"accept_rate": 0.55}], "results": [{"timings": timings}]})
    assert (found.k, found.tau) == (None, pytest.approx(2.65))
    assert found.round_s == pytest.approx(0.0212)
    assert found.tokens_per_s == pytest.approx(125.0)
    plain = {"predicted_n": 100, "predicted_ms": 2000.0, "draft_n": 0, "draft_n_accepted": 0}
    found = one({"config": {"concurrency": 1}, "summary": [{"accept_rate": None}], "results": [{"timings": plain}]})
    assert (found.k, found.round_s) == (0, 0.02)
    found = one(
        {"config": {}, "summary": [{"category": "overall", "accept_rate": 0.5, "avg_pred_t/s": 60.0}], "results": []}
    )
    assert found.tokens_per_s == 60.0


def test_spec_bench():
    first = {"decoding_steps": [4], "new_tokens": [10], "wall_time": [0.1], "accept_lengths": [3, 2, 2, 3]}
    second = {"decoding_steps": [2], "new_tokens": [5], "wall_time": [0.05], "accept_lengths": [3, 2]}
    answers = [{"question_id": i, "choices": [choice]} for i, choice in enumerate((first, second))]
    found = one("\n".join(map(json.dumps, answers)))
    assert (found.k, found.batch, found.tau, found.tokens_per_s) == (None, 1, 2.5, pytest.approx(100.0))
    assert found.round_s == pytest.approx(0.025)


def test_a_sweeps_table():
    text = "batch, k, tokens_per_s, tau, tpot_ms\n2,0,100,,20\n2,3,,1.875,\n4,1,150,1.5,\n"
    plain, chain, other = bench_of(text, where="sweep.csv")
    assert (plain.round_s, plain.tau, chain.tau, chain.round_s) == (0.02, None, 1.875, None)
    assert other.round_s == pytest.approx(4 * 1.5 / 150)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table"),
        ("hello", "no table"),
        ("k,speed\n1,2\n", "column 'speed' is not known"),
        ("batch,k,tau\n1,1.5,2\n", "file:2: k '1.5'"),
        ("batch,k,tau\n1,1,x\n", "tau 'x'"),
        ("batch,k,tau\n0,1,2\n", "batch '0'"),
        ("batch,k,tau\n1,1,-2\n", "tau '-2'"),
        ("{}", "no measurement"),
        ('{"output_throughput": NaN}', "NaN"),
        ("[1, 2", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_benchmark_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        bench_of(text, where="file")


# ---- the command


@pytest.fixture
def planned(specplan, tmp_path):
    """A plan of chains from measured times: width 1 to 8 takes 20 ms, a draft pass 2 ms, 1 ms a round."""
    curve = tmp_path / "verify.csv"
    curve.write_text("width,ms\n" + "".join(f"{width},20\n" for width in range(1, 9)))
    file = tmp_path / "plan.json"
    costs = f"--verify-curve {curve} --draft-pass 2ms --overhead 1ms"
    ran = specplan(f"plan --p 0.5 --max-children 1 --budget 7 {costs} --json --out {file}")
    assert ran.code == 0, ran.err
    return file


def sweep(tmp_path, scale=1.0):
    file = tmp_path / "sweep.csv"
    rows = [f"1,{k},{tau_of(k) / round_of(k) / scale},{tau_of(k)}" for k in (1, 2, 3)]
    file.write_text("batch,k,tokens_per_s,tau\n1,0,50,\n" + "\n".join(rows) + "\n")
    return file


def test_the_command_shows_errors_and_the_fitted_overhead(specplan, planned, tmp_path):
    ran = specplan(f"validate {planned} --bench {sweep(tmp_path)} --tolerance 1% --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("validate"))
    assert set(ran.json["terms"]) == {"tau", "round_s", "tokens_per_s", "plain_tpot_s"}
    assert all(abs(term["error"]) < 1e-9 for term in ran.json["terms"].values())
    assert ran.json["fitted"]["overhead_s"] == pytest.approx(0.001)
    assert ran.json["within_tolerance"] is True
    text = specplan(f"validate {planned} --bench {sweep(tmp_path)}").out
    assert text.startswith("Predicted against measured: largest error")
    assert "overhead of a round" in text


def test_an_error_beyond_the_tolerance_exits_with_1(specplan, planned, tmp_path):
    ran = specplan(f"validate {planned} --bench {sweep(tmp_path, scale=1.3)} --tolerance 15%")
    assert ran.code == 1
    assert ran.out.startswith("OUTSIDE 15%: round, tokens/s")
    assert specplan(f"validate {planned} --bench {sweep(tmp_path, scale=1.3)} --tolerance 40%").code == 0


def test_results_of_several_files_are_taken_together(specplan, planned, tmp_path):
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps({"max_concurrency": 1, "output_throughput": 45.0, "mean_tpot_ms": 22.0}))
    ran = specplan(f"validate {planned} --bench {sweep(tmp_path)} --bench {plain} --json")
    assert len(ran.json["points"]) == 5
    assert ran.json["terms"]["plain_tpot_s"]["measured"] == 0.022


def test_what_cannot_be_validated_is_refused(refused, planned, tmp_path):
    paths = tmp_path / "tree.json"
    paths.write_text("[[0],[0,0]]")
    assert "--bench" in refused(f"validate {planned}")
    assert "no plan with an acceptance" in refused(f"validate {paths} --bench {sweep(tmp_path)}")
    assert "nowhere.csv" in refused(f"validate {planned} --bench nowhere.csv")
    assert "--tolerance" in refused(f"validate {planned} --bench {sweep(tmp_path)} --tolerance -1%")
    assert "15%" in refused(f"validate {planned} --bench {sweep(tmp_path)} --tolerance 15")
