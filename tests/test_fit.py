"""The simplest model that reproduces an acceptance, and when one p is not enough."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.fit import TOLERANCE, fit, survival_of
from specplan.acceptance.kinds import Chain, Counts, DepthTable, Independent, Mixture, Positional
from specplan.base.errors import InputError

MTP = (0.7617, 0.6158, 0.5125, 0.4243, 0.364, 0.3094, 0.2722, 0.2365)


@pytest.mark.parametrize("p", [0.1, 0.6, 0.95])
def test_a_constant_rate_is_one_p_without_error(p):
    found = fit(Chain((p,) * 5))
    assert found.kind == "independent"
    assert found.p == pytest.approx(p)
    assert found.error < 1e-9
    assert not found.flagged


def test_a_mean_alone_gives_one_p_whose_error_cannot_be_told():
    found = fit(Chain.from_accept_length(2.176, 3))
    assert found.p == pytest.approx(0.6)
    assert (found.error, found.flagged) == (None, False)


def test_a_mixture_is_fitted_over_as_many_positions_as_its_parts_measured():
    parts = (Chain.from_accept_length(3.2, 3), Chain.from_accept_length(1.5, 3))
    found = fit(Mixture(parts, (0.5, 0.5)))
    assert found.single_p_error > 0.05
    assert found.error < TOLERANCE


def test_rising_rates_are_a_mixture_and_one_p_is_flagged():
    found = fit(Chain.from_survival(MTP))
    assert found.kind == "mixture"
    assert found.flagged
    assert found.single_p_error > 0.05
    assert found.error < TOLERANCE
    assert Mixture(found.model.components, found.model.weights).is_monotone


def test_falling_rates_decay_and_one_p_is_flagged():
    found = fit(Chain.from_survival((0.77, 0.45, 0.24)))
    assert found.kind == "decaying"
    assert found.parameters["decay"] < 1
    assert found.flagged


def test_flat_rates_need_one_p():
    found = fit(Chain.from_survival((0.805, 0.632, 0.483)))
    assert found.kind == "independent"
    assert not found.flagged


def test_rates_of_no_pattern_are_kept_by_position():
    alpha = (0.9, 0.2, 0.95, 0.3, 0.99)
    found = fit(Chain(alpha))
    assert found.kind == "positional"
    assert found.parameters["alpha"] == pytest.approx(list(alpha))
    assert found.error == pytest.approx(0.0, abs=1e-12)


def test_children_that_one_p_overstates_are_flagged():
    row = (0.63, 0.11, 0.06, 0.02)  # independent candidates of p 0.63 would have 0.86 for two
    found = fit(Positional(row))
    assert found.flagged
    assert found.single_p_error == pytest.approx((1 - 0.37**4) / sum(row) - 1, abs=0.02)
    assert not fit(Positional(Independent(0.5).row(1, 4))).flagged


def test_the_error_is_the_largest_over_the_chain_lengths():
    found = fit(DepthTable(((0.8,), (0.4,))))
    p = next(p / 1e5 for p in range(1, 100_000) if p / 1e5 + (p / 1e5) ** 2 >= 0.8 + 0.32)
    assert found.single_p_error == pytest.approx(1 - p / 0.8, abs=1e-3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8))
def test_the_fit_is_within_its_error_at_every_length(alpha):
    chain = Chain(tuple(alpha))
    found = fit(chain)
    measured, model = survival_of(chain), survival_of(found.model, len(alpha))
    for k in range(1, len(alpha) + 1):
        assert math.fsum(model[:k]) == pytest.approx(math.fsum(measured[:k]), rel=found.error + 1e-9)
    assert found.kind == "positional" or found.error < TOLERANCE
    assert found.flagged == (found.single_p_error >= TOLERANCE)


def test_counts_travel_untouched_and_a_tolerance_is_checked():
    chain = Chain((0.6, 0.5), counts=Counts(rounds=100))
    assert fit(chain, tolerance=0.5).kind == "independent"
    with pytest.raises(InputError, match="tolerance"):
        fit(chain, tolerance=0.0)


def test_the_answer_says_how_far_one_p_is_off(specplan):
    ran = specplan(["acceptance", "--survival", ",".join(map(str, MTP)), "--json"]).json
    assert (ran["fit"]["kind"], ran["fit"]["flagged"]) == ("mixture", True)
    assert "a single p is off by" in specplan(["acceptance", "--survival", "0.77,0.45,0.24"]).out
    assert "its error cannot be told" in specplan("acceptance --accept-length 2.8 --k 5").out
