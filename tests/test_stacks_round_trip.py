"""Rounds are simulated, written in each dialect, and read back with the same tokens per round."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.stacks.detect import read_any

histograms = st.lists(st.integers(0, 5000), min_size=2, max_size=9).filter(lambda counts: sum(counts[1:]) > 0)


def played(rates, rounds, seed):
    """Rounds by accepted tokens of a chain with these rates."""
    draw = random.Random(seed)
    counts = [0] * (len(rates) + 1)
    for _ in range(rounds):
        accepted = 0
        while accepted < len(rates) and draw.random() < rates[accepted]:
            accepted += 1
        counts[accepted] += 1
    return counts


class Run:
    def __init__(self, histogram):
        self.histogram = histogram
        self.k = len(histogram) - 1
        self.rounds = sum(histogram)
        self.reached = [sum(histogram[i:]) for i in range(1, self.k + 1)]
        self.accepted = sum(self.reached)
        self.drafted = self.rounds * self.k
        self.tau = 1 + self.accepted / self.rounds


def counters(prefix):
    def write(run):
        base = f"{prefix}:spec_decode_num"
        rows = [("drafts", run.rounds), ("draft_tokens", run.drafted), ("accepted_tokens", run.accepted)]
        lines = [f"{base}_{name}_total {value}" for name, value in rows]
        return "\n".join(
            lines + [f'{base}_accepted_tokens_per_pos_total{{position="{i}"}} {n}' for i, n in enumerate(run.reached)]
        )

    return write


def vllm_bench(run):
    return json.dumps(
        {
            "spec_decode_acceptance_length": run.tau,
            "spec_decode_num_drafts": run.rounds,
            "spec_decode_draft_tokens": run.drafted,
            "spec_decode_accepted_tokens": run.accepted,
            "spec_decode_acceptance_rate": 100 * run.accepted / run.drafted,
            "spec_decode_per_position_acceptance_rates": [n / run.rounds for n in run.reached],
        }
    )


def per_request(run):
    numbers = {"num_spec_steps": run.rounds, "num_accepted_draft_tokens": run.accepted, "num_draft_tokens": run.drafted}
    more = {"acceptance_histogram": run.histogram, "num_spec_tokens": run.k}
    return json.dumps({"metrics": {"speculative_decoding": numbers | more}})


def meta_info(run):
    return json.dumps({"meta_info": {"completion_tokens": run.rounds + run.accepted, "spec_verify_ct": run.rounds}})


def trtllm(run):
    return json.dumps(
        {
            "specDecodingStats": {
                "numDraftTokens": run.drafted,
                "numAcceptedTokens": run.accepted,
                "numRequestsWithDraftTokens": run.rounds,
            }
        }
    )


def timings(run):
    generated = run.rounds + run.accepted
    return json.dumps({"predicted_n": generated, "draft_n": run.drafted, "draft_n_accepted": run.accepted})


def example(run):
    generated = run.rounds + run.accepted
    return f"n_draft = {run.k}\nn_predict = {generated}\nn_drafted = {run.drafted}\nn_accept = {run.accepted}\n"


def server_log(run):
    generated = run.rounds + run.accepted
    rate = run.accepted / run.drafted
    return (
        f"       eval time = 100.00 ms / {generated} tokens ( 1.00 ms per token)\n"
        f"draft acceptance rate = {rate:.5f} ({run.accepted:5d} accepted / {run.drafted:5d} generated)\n"
    )


def v0_log(run):
    rate = run.accepted / run.drafted
    efficiency = (run.rounds + run.accepted) / (run.rounds * (run.k + 1))
    return (
        f"Speculative metrics: Draft acceptance rate: {rate:.3f}, System efficiency: {efficiency:.3f}, "
        f"Number of speculative tokens: {run.k}, Number of accepted tokens: {run.accepted}, "
        f"Number of draft tokens: {run.drafted}, Number of emitted tokens: {run.rounds + run.accepted}."
    )


def mlc(run):
    counts = [run.rounds, *run.reached]
    return json.dumps({"draft_count": [run.rounds] * len(counts), "accept_count": counts})


def spec_bench(run):
    lengths = [j + 1 for j, count in enumerate(run.histogram) for _ in range(count)]
    return json.dumps({"question_id": 1, "choices": [{"accept_lengths": lengths}]})


def eagle(run):
    return json.dumps({"choices": [{"idxs": [run.rounds - 1], "new_tokens": [run.rounds + run.accepted]}]})


def tgi(run):
    return f"tgi_request_skipped_tokens_sum {run.accepted}\ntgi_request_skipped_tokens_count {run.rounds}\n"


def tokens_of_a_step(run):
    counts = {str(j + 1): count for j, count in enumerate(run.histogram)}
    return json.dumps({"Average_AL": 1.0, "Acceptance_Length_Histogram": counts})


def table(run):
    rows = zip([run.rounds, *run.reached], run.reached)
    lines = [f"{depth},0,{accepted},{trials}" for depth, (trials, accepted) in enumerate(rows, 1) if trials]
    return "\n".join(["depth,rank,accepted,trials", *lines])


def atom(run):
    shares = {str(j): count for j, count in enumerate(run.histogram)}
    drafted = {"total_draft_tokens": run.drafted, "acceptance_rate": round(run.accepted / run.drafted, 4)}
    return json.dumps({"average_tokens_per_forward": round(run.tau, 3), "distribution": shares} | drafted)


def aiperf(run):
    counts = {str(j): count for j, count in enumerate(run.histogram) if count}
    total = {"unit": "tokens", "avg": float(run.drafted)}
    return json.dumps({"pooled_spec_decode_acceptance_histogram": counts, "total_draft_tokens": total})


def lm_studio(run):
    counts = {"acceptedDraftTokensCount": run.accepted, "predictedTokensCount": run.rounds + run.accepted}
    return json.dumps({"stats": counts | {"totalDraftTokensCount": run.drafted}})


def tgi_buckets(run):
    rows = [f'tgi_request_skipped_tokens_bucket{{le="{j}"}} {run.rounds - n}' for j, n in enumerate(run.reached)]
    rows.append(f'tgi_request_skipped_tokens_bucket{{le="{run.k}"}} {run.rounds}')
    return "\n".join(rows) + "\n" + tgi(run)


def rows_of_json(run):
    pairs = zip([run.rounds, *run.reached], run.reached)
    return json.dumps([{"depth": d, "rank": 0, "accepted": a, "trials": t} for d, (t, a) in enumerate(pairs, 1) if t])


def early_v1_log(run):
    percent = 100 * run.accepted / run.drafted
    line = f"Draft acceptance rate: {percent:.1f}%, Accepted: {run.accepted} tokens, Drafted: {run.drafted} tokens"
    return json.dumps({"log": f"INFO SpecDecoding metrics: {line}\n", "stream": "stderr"})


def lmdeploy(run):
    counts = {"num_drafts": run.rounds, "num_draft_tokens": run.drafted, "num_accepted_tokens": run.accepted}
    return json.dumps({"spec_info": counts})


WRITERS = {
    "vllm page": counters("vllm"),
    "llama.cpp page": counters("llamacpp"),
    "lmdeploy page": counters("lmdeploy"),
    "histogram": lambda run: json.dumps({"accepted_counts": run.histogram}),
    **{f.__name__: f for f in (vllm_bench, per_request, meta_info, trtllm, timings, example, server_log, v0_log)},
    **{f.__name__: f for f in (atom, aiperf, lm_studio, tgi_buckets, rows_of_json, early_v1_log, lmdeploy)},
    **{f.__name__: f for f in (mlc, spec_bench, eagle, tgi, tokens_of_a_step, table)},
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("rates", [(0.8, 0.65, 0.63), (0.5,), (0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5)])
def test_simulated_rounds_come_back_with_the_same_tokens_per_round(name, rates):
    run = Run(played(rates, 2000, seed=len(rates)))
    found = read_any(WRITERS[name](run), where=name, k=run.k)
    tau = found.about.get("tau", 1 + sum(found.level_survival(chain(run.k))))
    assert tau == pytest.approx(run.tau, abs=1e-9)
    if found.counts and found.counts.rounds:
        assert found.counts.rounds == run.rounds


def chain(k):
    from specplan.base.tree import TokenTree

    return TokenTree.chain(k)


@settings(max_examples=60, deadline=None)
@given(histograms)
def test_any_histogram_comes_back_from_counters_and_from_itself(histogram):
    run = Run(histogram)
    for write in (counters("vllm"), WRITERS["histogram"], mlc):
        found = read_any(write(run), where="case")
        assert found.about["tau"] == pytest.approx(run.tau, abs=1e-9)
        assert found.survival == pytest.approx([n / run.rounds for n in run.reached], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.05, 0.99), min_size=1, max_size=8), st.integers(20, 5000))
def test_a_printed_window_comes_back_within_its_rounding(rates, rounds):
    run = Run(played(rates, rounds, seed=1))
    shares = ", ".join(f"{n / run.rounds:.3f}" for n in run.reached)
    percent = 100 * run.accepted / run.drafted
    line = (
        f"SpecDecoding metrics: Mean acceptance length: {run.tau:.2f}, Accepted: {run.accepted} tokens, "
        f"Drafted: {run.drafted} tokens, Per-position acceptance rate: {shares}, "
        f"Avg Draft acceptance rate: {percent:.1f}%"
    )
    found = read_any(line, where="case")
    assert found.about["tau"] == pytest.approx(run.tau, abs=1e-9)
    assert found.counts.rounds == run.rounds


def test_windows_are_weighted_by_their_rounds():
    line = "SpecDecoding metrics: Mean acceptance length: {}, Accepted: {} tokens, Drafted: {} tokens, Per-position "
    line += "acceptance rate: {}"
    text = "\n".join([line.format("2.00", 100, 100, "1.000"), line.format("1.10", 30, 300, "0.100")])
    found = read_any(text, where="case")
    assert found.about["tau"] == pytest.approx(1 + 130 / 400)
    assert len(found.about["series"]) == 2
