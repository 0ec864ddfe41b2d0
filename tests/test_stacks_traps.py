"""Worked numbers of public reports: which number in a log is the tokens per round."""

from __future__ import annotations

import json

import pytest

from specplan.base.errors import InputError
from specplan.stacks.detect import read_any


def read(text, **hints):
    return read_any(text, where="case", **hints)


def v1(length, rates, accepted=None, drafted=None):
    counts = "" if accepted is None else f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
    shares = ", ".join(f"{rate:.3f}" for rate in rates)
    return (
        f"INFO SpecDecoding metrics: Mean acceptance length: {length}, {counts}Per-position acceptance rate: {shares}"
    )


def v0(rate, efficiency, k):
    return (
        f"INFO Speculative metrics: Draft acceptance rate: {rate}, System efficiency: {efficiency}, "
        f"Number of speculative tokens: {k}, Number of accepted tokens: 1,"
    )


def example(n_draft, n_predict, n_drafted, n_accept):
    return f"n_draft   = {n_draft}\nn_predict = {n_predict}\nn_drafted = {n_drafted}\nn_accept  = {n_accept}\n"


def page(drafts, accepted, *, drafted=None, positions=(), prefix="vllm", generated=None):
    base = f"{prefix}:spec_decode_num"
    rows = [f"{base}_drafts_total {drafts}", f"{base}_accepted_tokens_total {accepted}"]
    rows += [f"{base}_draft_tokens_total {drafted}"] if drafted is not None else []
    rows += [f'{base}_accepted_tokens_per_pos_total{{position="{i}"}} {n}' for i, n in enumerate(positions)]
    rows += [f"{prefix}:generation_tokens_total {generated}"] if generated is not None else []
    return "\n".join(rows)


def test_the_v0_acceptance_rate_counts_positions_after_a_rejection():
    found = read(v0(0.655, 0.649, 4))
    assert found.about["tau"] == pytest.approx(3.245)
    assert "after a rejection" in found.notes[0]
    assert read(v0(0.698, 0.426, 5)).about["tau"] == pytest.approx(2.556)


def test_per_position_rates_of_v1_are_survival_and_not_conditional():
    found = read(v1(2.92, [0.805, 0.632, 0.483]))
    assert found.about["tau"] == pytest.approx(2.92)
    assert found.alpha == pytest.approx((0.805, 0.785, 0.764), abs=1e-3)


@pytest.mark.parametrize(
    ("pairs", "k", "means"),
    [
        ([(2.17, 0.54), (1.95, 0.49), (1.80, 0.45), (2.05, 0.51), (1.57, 0.39)], 3, "older one, length / 4"),
        ([(3.33, 0.78), (3.07, 0.69), (2.84, 0.61), (2.44, 0.48), (1.90, 0.30)], 3, "newer one, (length - 1) / 3"),
        ([(2.17, 0.54)], 3, "older one, length / 4"),
        ([(3.33, 0.78)], 3, "newer one, (length - 1) / 3"),
        ([(2.17, 0.99)], None, "neither definition"),
    ],
)
def test_the_two_rates_of_sglang_are_told_apart_by_consistency(pairs, k, means):
    text = "\n".join(f"Decode batch. #running-req: 1, accept len: {a}, accept rate: {r}, x: 1" for a, r in pairs)
    found = read(text)
    assert found.about["k"] == k
    assert means in found.notes[0]
    assert found.about["tau"] == pytest.approx(sum(a for a, _ in pairs) / len(pairs))


def test_a_drafted_token_of_the_older_sglang_is_accepted_at_039():
    found = read("accept len: 2.17, accept rate: 0.54,")
    assert (found.about["tau"] - 1) / found.about["k"] == pytest.approx(0.39)


def test_nextn_accepted_leaves_the_bonus_token_out():
    assert read(json.dumps({"nextn": 3, "nextn_accepted": 1.9})).about["tau"] == 2.9


def test_a_mean_rate_is_no_p_when_the_rates_given_the_earlier_ones_rise():
    rates = [0.7617, 0.6158, 0.5125, 0.4243, 0.364, 0.3094, 0.2722, 0.2365]
    found = read(v1(4.5, rates))
    assert found.about["tau"] == pytest.approx(4.5)
    assert found.alpha == pytest.approx([0.762, 0.808, 0.832, 0.828, 0.858, 0.85, 0.88, 0.869], abs=2e-3)


def test_rounds_without_a_proposal_count():
    found = read(page(993, 3562, drafted=4965, generated=5376))
    assert found.about["tau"] == pytest.approx(2.96, abs=5e-3)
    assert found.counts.rounds_without_proposal == 821
    assert any("821 of 1814 rounds had no proposal" in note for note in found.notes)
    assert read(page(993, 3562, drafted=4965)).about["tau"] == pytest.approx(4.59, abs=5e-3)


@pytest.mark.parametrize(
    ("numbers", "rounds", "tau", "drafted"),
    [
        ((8, 129, 132, 47), 82, 1.57, 1.6),
        ((16, 371, 912, 313), 58, 6.4, 15.7),
        ((5, 261, 260, 208), 53, 4.92, 4.91),
    ],
)
def test_rounds_of_llama_cpp_are_generated_minus_accepted(numbers, rounds, tau, drafted):
    found = read(example(*numbers))
    assert found.counts.rounds == rounds
    assert found.about["tau"] == pytest.approx(tau, abs=5e-3)
    assert found.about["drafted_per_round"] == pytest.approx(drafted, abs=0.05)
    assert found.about["k"] == numbers[0]


def test_early_stopping_leaves_a_high_rate_with_few_drafted_tokens():
    found = read('{"timings": {"predicted_n": 2048, "draft_n": 1207, "draft_n_accepted": 1186}}')
    assert found.about["acceptance_rate"] == pytest.approx(0.98, abs=5e-3)
    assert found.about["tau"] == pytest.approx(2048 / 862)
    assert found.about["drafted_per_round"] == pytest.approx(1.40, abs=5e-3)
    assert "no probability" in found.notes[0]


def test_accepted_and_drafted_of_an_old_server_line_alone_are_refused():
    line = "draft acceptance rate = 0.56556 ( 1376 accepted /  2433 generated)"
    with pytest.raises(InputError, match="how many rounds"):
        read(line)


def test_the_new_server_line_of_llama_cpp_is_consistent_with_its_counts():
    line = (
        "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92, "
        "acceptance rate per position = (0.805, 0.632, 0.483)"
    )
    found = read(line)
    assert (found.counts.rounds, found.counts.accepted, found.counts.drafted) == (87, 167, 259)
    assert found.about["drafted_per_round"] == pytest.approx(2.98, abs=5e-3)


@pytest.mark.parametrize(
    ("text", "tau"),
    [
        (v1(5.14, [0.96, 0.863, 0.823, 0.782, 0.71]), 5.14),
        (v1(2.16, [0.543, 0.357, 0.264]), 2.16),
        (page(2189, 3187, drafted=6567), 2.46),
        (page(2180, 1918, drafted=2180), 1.88),
        (page(87994, 133034, drafted=263982), 1 + 3 * 0.503951026964),
        ('{"meta_info": {"completion_tokens": 120, "spec_verify_ct": 40}}', 3.0),
        ('{"schema_version": "1.0", "num_speculative_tokens": 3, "mean_acceptance_length": 2.925, '
         '"conditional_accept_rates": [0.816, 0.777, 0.75], "marginal_accept_rates": [0.816, 0.634, 0.475]}', 2.925),
    ],
)  # fmt: skip
def test_reported_lengths_come_out(text, tau):
    assert read(text).about["tau"] == pytest.approx(tau, abs=5e-3)


def test_trees_of_sglangs_grid_are_left_out_where_chains_were_measured():
    rows = [(3, 1, 4, 1.86), (3, 3, 8, 2.2), (7, 4, 16, 2.52), (8, 8, 60, 3.2)]
    text = "\n".join(
        json.dumps({"batch_size": 1, "steps": s, "topk": t, "num_draft_tokens": n, "acc_length": a})
        for s, t, n, a in rows
    )
    found = read(text)
    assert (found.about["tau"], found.about["k"]) == (1.86, 3)
    assert "3 rows of trees (topk above 1) left out" in found.notes


def test_lengths_by_k_give_the_rates_between():
    rows = [(5, 4.68), (8, 5.39)]
    text = "\n".join(
        json.dumps({"batch_size": 1, "steps": k, "topk": 1, "num_draft_tokens": k + 1, "acc_length": a})
        for k, a in rows
    )
    found = read(text)
    for k, length in rows:
        assert 1 + sum(found.survival[:k]) == pytest.approx(length)
    assert found.about["accept_length_by_k"] == {"5": 4.68, "8": 5.39}


@pytest.mark.parametrize(("rate", "length"), [(0.69, 2.4), (0.87, 2.75)])
def test_a_rate_over_drafted_tokens_of_k_2_is_half_the_accepted_ones(rate, length):
    text = f"Accepted {rate * 100:.1f}% of draft tokens"
    assert read(text, denominator="drafted", k=2).about["tau"] == pytest.approx(length, abs=0.03)


def test_a_percentage_is_refused_until_its_denominator_is_said():
    with pytest.raises(InputError, match="share of") as error:
        read("Accepted 60.0% of draft tokens")
    assert "--denominator drafted" in error.value.hint
    assert read("Accepted 60.0% of draft tokens", denominator="generated").about["tau"] == pytest.approx(2.5)
    assert read("Accepted 60.0% of draft tokens", denominator="drafted", k=3).about["tau"] == pytest.approx(2.8)
    with pytest.raises(InputError, match="tokens a round"):
        read("Accepted 60.0% of draft tokens", denominator="drafted")


def test_head_accuracies_say_both_ways_to_read_them():
    found = read('{"heads": [[0.6838, 0.8547], [0.3262, 0.5451], [0.1807, 0.25]]}')
    assert found.row(1, 2) == pytest.approx((0.6838, 0.1709))
    assert any("1.95 tokens" in note and "2.19" in note for note in found.notes)


def test_unequal_counts_of_a_tool_are_read_from_its_histogram_and_not_its_mean_of_requests():
    counts = {"Average_AL": 2.47, "Acceptance_Length_Histogram": {"1": 30, "2": 15, "3": 25, "4": 30}}
    assert read(json.dumps(counts)).about["tau"] == pytest.approx(2.55)


def test_a_sequoia_vector_is_the_same_with_and_without_its_dummy_and_its_reject_bin():
    hits = [423, 72, 38, 15, 13, 10, 3, 2, 8, 3, 5, 3, 4, 2, 1, 2, 1, 2, 0, 2, 2, 2, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1]
    shares = [count / 667 for count in hits]
    forms = (shares, [0.0, *shares], [*shares, 49 / 667], [0.0, *shares, 49 / 667])
    rows = [read(json.dumps(form), shape="child-prob").row(1, 40) for form in forms]
    assert all(row == pytest.approx(shares) for row in rows)


def test_a_measured_k_that_the_source_contradicts_is_refused():
    with pytest.raises(InputError, match="3 drafted positions"):
        read_any("[20, 28, 19, 33]", where="h.json", k=2)
