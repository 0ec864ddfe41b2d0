"""How long a burst takes: sums against played bursts, against enumeration, and what the command says."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Independent, Mixture, Positional
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.planning.deadline import (
    Burst,
    accepted_counts,
    burst_times,
    cheapest_device,
    offers,
    plain_times,
    rounds_needed,
    smallest_tree,
    tail,
)
from specplan.render.schemas import json_schema
from specplan.search.costs import RoundCosts
from specplan.search.optimize import best_trees
from specplan.search.space import Space

PASS_S = 12.75e-3
BURSTS = 100_000


def played_rounds(tree, acceptance, tokens, *, seed):
    """Rounds of many bursts, each round a walk to the deepest accepted node; contexts are drawn first."""
    random = np.random.default_rng(seed)
    parts, weights = [acceptance], [1.0]
    if isinstance(acceptance, Mixture):
        parts, weights = acceptance.components, acceptance.weights
    ends = []
    for part in parts:
        reach = part.reach(tree)
        stays = [1.0, *reach]
        for node, parent in enumerate(tree.parents):
            stays[parent + 1] -= reach[node]
        ends.append(np.cumsum(stays))
    yields = 1 + np.array([0, *tree.position_offsets])
    left, rounds = np.full(BURSTS, tokens), np.zeros(BURSTS, dtype=int)
    while (going := left > 0).any():
        context = random.choice(len(parts), size=BURSTS, p=weights)
        spot = random.random(BURSTS)
        nodes = np.zeros(BURSTS, dtype=int)
        for i, end in enumerate(ends):
            nodes[context == i] = np.minimum(np.searchsorted(end, spot[context == i], side="right"), len(yields) - 1)
        left = left - np.where(going, yields[nodes], 0)
        rounds += going
    return rounds


CASES = {
    "full binary tree": (TokenTree.full(2, 3), Independent(0.6)),
    "chain": (TokenTree.chain(5), Independent(0.8)),
    "best tree of 14 nodes": (best_trees(Independent(0.6), max_nodes=14, max_depth=8).tree(14, 8), Independent(0.6)),
    "vector": (TokenTree.full(3, 2), Positional([0.63, 0.11, 0.06])),
    "two contexts": (TokenTree.full(2, 3), Mixture([Independent(0.85), Independent(0.3)], [2, 1])),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tokens", [7, 60])
def test_played_bursts_have_the_computed_percentiles_within_1_percent(name, tokens):
    tree, acceptance = CASES[name]
    times = burst_times(Burst(tokens, deadline_s=10.0), accepted_counts(acceptance, tree), PASS_S)
    seconds = played_rounds(tree, acceptance, tokens, seed=tokens) * PASS_S
    for share, computed in ((50, times.p50_s), (95, times.p95_s), (99, times.p99_s)):
        assert np.percentile(seconds, share, method="inverted_cdf") == pytest.approx(computed, rel=0.01)
    assert seconds.mean() == pytest.approx(times.mean_s, rel=0.005)


@pytest.mark.parametrize("name", CASES)
def test_played_bursts_are_in_time_as_often_as_computed(name):
    tree, acceptance = CASES[name]
    counts = accepted_counts(acceptance, tree)
    middle = burst_times(Burst(60), counts, PASS_S).p50_s
    computed = burst_times(Burst(60, deadline_s=middle), counts, PASS_S).probability
    played = (played_rounds(tree, acceptance, 60, seed=5) * PASS_S <= middle + 1e-9).mean()
    assert played == pytest.approx(computed, abs=0.005)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=4), st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_the_convolution_equals_listing_every_sequence_of_rounds(weights, tokens):
    counts = [w / math.fsum(weights) for w in weights]
    ended = [0.0] * (tokens + 1)
    for drawn in itertools.product(range(len(counts)), repeat=tokens):
        sums = list(itertools.accumulate(1 + d for d in drawn))
        rounds = next(r for r, total in enumerate(sums, 1) if total >= tokens)
        ended[rounds] += math.prod(counts[d] for d in drawn)
    assert sum(rounds_needed(counts, tokens)) == pytest.approx(1)
    for r, p in enumerate(rounds_needed(counts, tokens)):
        assert p == pytest.approx(ended[r], abs=1e-12)


@given(st.floats(0.05, 0.95), st.integers(1, 200), st.floats(1e-3, 0.1), st.floats(0, 1))
@settings(deadline=None, max_examples=60)
def test_percentiles_rise_and_lie_between_the_shortest_and_the_longest_burst(p, tokens, round_s, ttft_s):
    times = burst_times(Burst(tokens, ttft_s=ttft_s), accepted_counts(Independent(p), TokenTree.chain(4)), round_s)
    slack = 1 + 1e-9
    assert ttft_s + math.ceil(tokens / 5) * round_s <= times.p50_s * slack
    assert times.p50_s <= times.p95_s <= times.p99_s <= (ttft_s + tokens * round_s) * slack
    assert times.probability is None


@given(st.floats(0.1, 3.0), st.floats(0.1, 3.0))
@settings(deadline=None, max_examples=60)
def test_a_later_deadline_is_met_no_less_often(one, other):
    counts = accepted_counts(Independent(0.6), TokenTree.chain(3))
    early, late = sorted((one, other))
    met = [burst_times(Burst(60, deadline_s=d), counts, 20e-3).probability for d in (early, late)]
    assert 0 <= met[0] <= met[1] <= 1


def test_certain_acceptance_has_no_spread():
    times = burst_times(
        Burst(60, deadline_s=0.19, ttft_s=0.04), accepted_counts(Independent(1.0), TokenTree.chain(3)), 0.01
    )
    assert times.p50_s == times.p99_s == times.mean_s == pytest.approx(0.04 + 15 * 0.01)
    assert times.probability == 1.0


def test_a_burst_that_ends_on_the_dot_is_in_time():
    counts = accepted_counts(Independent(1.0), TokenTree.chain(3))
    assert burst_times(Burst(60, deadline_s=0.3), counts, 0.02).probability == 1.0
    assert plain_times(Burst(60, deadline_s=0.6), 0.01).probability == 1.0
    assert plain_times(Burst(60, deadline_s=0.599), 0.01).probability == 0.0


def test_accepted_counts_have_the_mean_of_the_tree_and_sum_to_1():
    for tree, acceptance in CASES.values():
        counts = accepted_counts(acceptance, tree)
        assert math.fsum(counts) == pytest.approx(1)
        assert math.fsum(d * p for d, p in enumerate(counts)) == pytest.approx(acceptance.accepted(tree))


def test_the_mean_is_above_tokens_over_tau_by_less_than_a_round():
    tree, acceptance = CASES["full binary tree"]
    times = burst_times(Burst(60), accepted_counts(acceptance, tree), PASS_S)
    least = 60 / acceptance.tau(tree) * PASS_S
    assert least <= times.mean_s <= least + PASS_S


# ---- the smallest tree, the cheapest device


def test_the_smallest_tree_is_in_time_and_no_smaller_shape_is():
    acceptance, costs, burst = (
        Independent(0.6),
        RoundCosts(verify_s=[PASS_S] * 7),
        Burst(60, deadline_s=0.4, percentile=0.9),
    )
    met = smallest_tree(burst, acceptance, Space(6), costs)
    assert met.times.probability >= 0.9
    assert met.times.percentile_s <= 0.4
    for nodes in range(met.shape.nodes):
        for parents in itertools.product(*(range(-1, i) for i in range(nodes))):
            tree = TokenTree.from_parents(parents)
            assert tail(burst, tree, acceptance, costs).probability < 0.9


def test_plain_decoding_is_the_smallest_when_it_is_in_time():
    met = smallest_tree(Burst(60, deadline_s=1.0), Independent(0.6), Space(8), RoundCosts(verify_s=[PASS_S] * 9))
    assert met.shape.nodes == 0
    assert met.times.probability == 1.0


def test_no_tree_meets_a_deadline_below_one_round():
    costs = RoundCosts(verify_s=[PASS_S] * 40)
    assert smallest_tree(Burst(60, deadline_s=0.01), Independent(0.9), Space(39), costs) is None
    assert smallest_tree(Burst(60, deadline_s=0.5, ttft_s=0.6), Independent(0.9), Space(39), costs) is None


def test_the_cheapest_device_is_the_cheapest_of_those_in_time():
    devices = {
        "dear": (4.0, RoundCosts(verify_s=[5e-3] * 9)),
        "fit": (2.0, RoundCosts(verify_s=[10e-3] * 9)),
        "slow": (1.0, RoundCosts(verify_s=[40e-3] * 9)),
    }
    burst = Burst(60, deadline_s=0.4)
    chosen = cheapest_device(devices, burst, Independent(0.6), Space(8))
    assert chosen.name == "fit"
    assert [offer.name for offer in offers(devices, burst, Independent(0.6), Space(8))] == ["slow", "fit", "dear"]
    assert cheapest_device(devices, Burst(60, deadline_s=0.02), Independent(0.6), Space(8)) is None


# ---- refusals


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": 0},
        {"tokens": 10**9},
        {"deadline_s": 0.0},
        {"deadline_s": math.inf},
        {"percentile": 1.0},
        {"percentile": math.nan},
        {"ttft_s": -1.0},
    ],
)
def test_a_burst_out_of_range_is_refused(wrong):
    with pytest.raises(InputError):
        Burst(**{"tokens": 60, **wrong})


def test_multiples_of_a_plain_pass_have_no_deadline():
    with pytest.raises(InputError, match="seconds"):
        tail(Burst(60), TokenTree.chain(1), Independent(0.5), RoundCosts(verify_s=[1.0, 1.1], relative=True))


# ---- the command

PLAN = "plan --gpu a100 --params 13e9 --p 0.6 --budget 14 --time ideal"


def test_the_command_gives_the_distribution_and_plain_decoding_beside_it(specplan):
    ran = specplan(f"{PLAN} --tokens 60 --deadline 0.31s --percentile 99 --ttft 20ms --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("plan"))
    found = ran.json["deadline"]
    tree = TokenTree.from_parents(ran.json["recommended"]["parents"])
    expected = burst_times(
        Burst(60, 0.31, 0.99, 0.02), accepted_counts(Independent(0.6), tree), ran.json["recommended"]["round_s"]
    )
    for key in ("p50_s", "p95_s", "p99_s", "probability"):
        assert found[key] == pytest.approx(getattr(expected, key), rel=1e-9)
    assert found["plain"]["p50_s"] == pytest.approx(0.02 + 60 * 26e9 / 2039e9, rel=1e-6)
    assert found["plain"]["probability"] == 0.0
    assert found["meets"] is True
    assert 0 < found["smallest"]["nodes"] <= tree.nodes


def test_without_a_deadline_only_the_distribution_is_given(specplan):
    found = specplan(f"{PLAN} --tokens 60 --json").json["deadline"]
    assert found["p99_s"] > found["p50_s"]
    assert found["probability"] is found["meets"] is found["smallest"] is None


def test_without_a_burst_there_is_no_deadline(specplan):
    assert specplan(f"{PLAN} --json").json["deadline"] is None


def test_without_an_acceptance_only_plain_decoding_is_told(specplan):
    found = specplan("plan --gpu a100 --params 13e9 --tokens 60 --deadline 2s --json").json["deadline"]
    assert found["p50_s"] is None
    assert found["plain"]["p50_s"] > 0.765


def test_the_text_says_whether_bursts_are_in_time(specplan):
    text = specplan(f"{PLAN} --tokens 60 --deadline 0.25s --percentile p90").out
    assert "not enough for the 90 % asked for" in text
    assert "No tree within the limits meets the deadline" in text
    assert "P90" in text


@pytest.mark.parametrize(
    "options",
    [
        "--deadline 2s",
        "--percentile 99",
        "--ttft 1s",
        "--tokens 0",
        "--tokens x",
        "--tokens 60 --deadline 2",
        "--tokens 60 --percentile 0",
        "--tokens 60 --percentile x",
        "--tokens 60 --ttft -1s",
    ],
)
def test_options_without_sense_are_refused(refused, options):
    refused(f"{PLAN} {options}")


def test_the_page_on_deadlines_states_what_the_sums_give():
    page = (Path(__file__).resolve().parent.parent / "docs" / "deadline.md").read_text(encoding="utf-8")
    counts = accepted_counts(Independent(0.6), TokenTree.full(2, 3))
    times = burst_times(Burst(60), counts, 26e9 / 2039e9)
    for shown in (f"{1e3 * times.p50_s:.0f} ms", f"{1e3 * times.p99_s:.0f} ms", f"{60 * 26e3 / 2039:.0f} ms"):
        assert shown in page
