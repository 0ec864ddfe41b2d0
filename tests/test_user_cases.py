"""Acceptance numbers that users reported in public, with what they say of themselves.

Source: the issue or pull request named in each row; values restated as printed there. Tolerance: the printed rounding.
Rows that come as a log or a metrics page are read as such in tests/test_stacks_*.py.
"""

from __future__ import annotations

import pytest

from specplan.acceptance.kinds import Chain
from specplan.base.tree import TokenTree

# (case, K, mean tokens a round with the bonus token)
LENGTHS = [
    ("vllm-project/vllm#20780 EAGLE-1", (2, 3, 4, 5, 6, 7), (2.1, 2.29, 2.39, 2.43, 2.45, 2.47)),
    ("vllm-project/vllm#20780 EAGLE-3", (2, 3, 4, 5, 6, 7), (2.36, 2.79, 3.08, 3.32, 3.46, 3.54)),
    ("vllm-project/vllm PR#16035", (2, 4), (1.89, 2.08)),
    ("vllm-project/vllm PR#24343", (1, 32), (1.63, 2.18)),
    ("sgl-project/SpecForge#339", (3,), (1.86,)),
    ("sgl-project/sglang PR#4247", (8, 5), (5.39, 4.68)),
    ("vllm-project/vllm#41838", (3, 3), (3.07, 2.8)),
]
# (case, per-position rates, mean tokens a round)
POSITIONS = [
    ("eugr/spark-vllm-docker#343 K4", (0.844, 0.599, 0.385, 0.271), 3.1),
    ("eugr/spark-vllm-docker#343 K2", (0.766, 0.545), 2.31),
    ("vllm-project/vllm PR#48892", (0.7617, 0.6158, 0.5125, 0.4243, 0.364, 0.3094, 0.2722, 0.2365), 4.5),
    ("ggml-org/llama.cpp PR#24536", (0.805, 0.632, 0.483), 2.92),
    ("noonghunna/qwen36-27b-single-3090#1", (0.96, 0.863, 0.823, 0.782, 0.71), 5.14),
    ("vllm-project/vllm PR#24344", (0.77, 0.45, 0.24), 2.46),
    ("vllm-project/vllm#19254", (0.543, 0.357, 0.264), 2.16),
]


@pytest.mark.parametrize(("case", "ks", "taus"), LENGTHS, ids=[row[0] for row in LENGTHS])
def test_a_reported_length_is_the_length_of_its_chain(case, ks, taus):
    for k, tau in zip(ks, taus):
        chain = Chain.from_accept_length(tau, k)
        assert chain.tau(TokenTree.chain(k)) == pytest.approx(tau, abs=1e-9)
        assert 0 < chain.alpha[0] < 1


def test_lengths_by_k_are_kept_where_they_were_measured():
    _, ks, taus = LENGTHS[1]
    chain = Chain.from_accept_lengths(dict(zip(ks, taus)))
    assert [chain.tau(TokenTree.chain(k)) for k in ks] == pytest.approx(taus)


@pytest.mark.parametrize(("case", "rates", "tau"), POSITIONS, ids=[row[0] for row in POSITIONS])
def test_per_position_rates_are_not_conditioned_and_sum_to_the_length(case, rates, tau):
    chain = Chain.from_survival(rates)
    assert chain.tau(TokenTree.chain(len(rates))) == pytest.approx(tau, abs=0.006 * len(rates))


def test_rates_that_fall_can_hide_conditional_rates_that_rise():
    # vllm-project/vllm PR#48892: 0.762 ... 0.869 behind 0.7617 ... 0.2365, whose mean of 0.44 is no p.
    alpha = Chain.from_survival(POSITIONS[2][1]).alpha
    assert alpha == pytest.approx((0.762, 0.808, 0.832, 0.828, 0.858, 0.85, 0.88, 0.869), abs=6e-4)


def test_accepted_over_drafted_of_one_token_is_the_rate_itself():
    # HabanaAI/vllm-fork PR#1264: 1918 of 2180 drafted, K 1.
    assert Chain.from_accept_rate(1918 / 2180, 1).tau(TokenTree.chain(1)) == pytest.approx(1.88, abs=0.005)


def test_head_accuracies_give_two_lengths_and_the_reading_must_be_said():
    # NVIDIA/TensorRT-LLM#2506: 0.6838, 0.3262, 0.1807 by head.
    rates = (0.6838, 0.3262, 0.1807)
    assert Chain(rates).tau(TokenTree.chain(3)) == pytest.approx(1.95, abs=0.005)
    assert Chain.from_survival(rates).tau(TokenTree.chain(3)) == pytest.approx(2.19, abs=0.005)
