"""Acceptance models: probabilities, constructors, intervals, documents, tables."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.acceptance.documents import (
    DOCUMENT_KEYS,
    acceptance_document,
    acceptance_from_csv,
    acceptance_from_document,
    parse_path,
)
from specplan.acceptance.kinds import (
    Acceptance,
    Chain,
    Counts,
    DepthTable,
    Independent,
    Mixture,
    Paths,
    Positional,
    as_acceptance,
    is_monotone,
    tau_interval,
    wilson,
)
from specplan.acceptance.rules import child_prob_for
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.search.optimize import best_trees

CASES = json.loads(gzip.decompress((Path(__file__).parent / "data" / "tree_cases.json.gz").read_bytes()))

probabilities = st.floats(0, 1)


@st.composite
def rows(draw: st.DrawFn, most: int = 4) -> list[float]:
    """Child probabilities that sum to at most 1, in any order."""
    weights = draw(st.lists(st.floats(0, 1), min_size=1, max_size=most))
    total = max(1.0, sum(weights))
    return [weight / total for weight in weights]


@st.composite
def acceptances(draw: st.DrawFn, *, deep: bool = True) -> Acceptance:
    """Any kind."""
    kind = draw(st.integers(0, 5 if deep else 4))
    if kind == 0:
        return Independent(draw(probabilities), draw(probabilities))
    if kind == 1:
        return Positional(tuple(draw(rows())), draw(st.sampled_from(["ordered", "ranked"])))
    if kind == 2:
        return DepthTable(tuple(draw(st.lists(rows(), min_size=1, max_size=4))))
    if kind == 3:
        return Chain(tuple(draw(st.lists(probabilities, min_size=1, max_size=4))), draw(st.booleans()))
    if kind == 4:
        row = draw(rows(3))
        return Paths({(k,): p for k, p in enumerate(row)} | {(0, k): row[0] * p for k, p in enumerate(row)})
    parts = draw(st.lists(acceptances(deep=False), min_size=1, max_size=3))
    return Mixture(tuple(parts), tuple(draw(st.floats(0.1, 1)) for _ in parts))


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 9) -> TokenTree:
    count = draw(st.integers(0, max_nodes))
    return TokenTree.from_parents([draw(st.integers(-1, node - 1)) for node in range(count)])


# ---- what each kind says


def test_two_independent_candidates_survive_with_one_minus_both_rejected():
    survival = Independent(0.6).level_survival(TokenTree.full(2, 3))
    assert survival == pytest.approx([0.84, 0.84**2, 0.84**3], abs=1e-12)
    assert Independent(0.8).accepted(TokenTree.full(2, 3)) == pytest.approx(0.96 + 0.9216 + 0.884736)


def test_independent_candidates_decay_with_depth():
    assert Independent(0.8, decay=0.5).row(3, 2) == pytest.approx((0.2, 0.16))
    assert Independent((0.9, 0.5)).accepted(TokenTree.chain(3)) == pytest.approx(0.9 + 0.45)


def test_a_positional_vector_holds_at_every_depth():
    tree = TokenTree.from_paths([(0,), (1,), (1, 0), (1, 0, 1)])
    with pytest.raises(InputError, match="no parent"):
        TokenTree.from_paths([(1, 0, 1)])
    assert Positional([0.5, 0.2]).reach(tree) == pytest.approx([0.5, 0.2, 0.1, 0.02])


def test_a_depth_table_knows_nothing_below_its_last_row():
    table = DepthTable([[0.6, 0.1], [0.4]])
    assert table.max_depth == 2
    assert table.reach(TokenTree.chain(3)) == pytest.approx([0.6, 0.24, 0.0])
    assert table.row(3, 5) == ()


def test_a_rank_that_was_not_measured_is_never_accepted():
    assert Positional([0.6]).reach(TokenTree.full(2, 1)) == [0.6, 0.0]


def test_ranked_vectors_are_taken_best_first_and_keep_their_ranks():
    ranked = Positional([0.3, 0.4, 0.1], "ranked")
    assert ranked.tested_row(1, 3) == ((0.4, 0.3, 0.1), (1, 0, 2))
    assert ranked.is_monotone
    assert not Positional([0.3, 0.4, 0.1]).is_monotone
    assert ranked.reach(TokenTree.from_paths([(1,)])) == [0.4]


def test_path_frequencies_are_taken_as_they_are():
    paths = Paths({(0,): 0.6, (0, 0): 0.5, (1,): 0.2})
    assert paths.reach(TokenTree.from_paths([(0,), (1,), (0, 0), (1, 0)])) == [0.6, 0.2, 0.5, 0.0]
    assert paths.max_depth == 2


@pytest.mark.parametrize(("nodes", "own", "true", "best"), [(8, 2.914, 3.426, 3.681), (16, 3.482, 4.092, 4.969)])
def test_a_mixture_of_contexts_beats_the_vector_measured_at_the_first_token(
    nodes: int, own: float, true: float, best: float
):
    easy, hard = Independent(0.9), Independent(0.4)
    mixture = Mixture([easy, hard], [0.5, 0.5])
    average = [(a + b) / 2 for a, b in zip(easy.row(1, 32), hard.row(1, 32))]
    tree = best_trees(average, max_nodes=nodes - 1, max_depth=12).tree(nodes - 1, 12)
    assert Positional(tuple(average)).tau(tree) == pytest.approx(own, abs=2e-3)
    assert mixture.tau(tree) == pytest.approx(true, abs=2e-2)
    assert 1 + best_trees(mixture, max_nodes=nodes - 1, max_depth=15).accepted[15][nodes - 1] == pytest.approx(
        best, abs=2e-3
    )


def test_the_weights_of_a_mixture_are_shares():
    assert Mixture([Independent(0.9), Independent(0.4)], [3, 1]).weights == (0.75, 0.25)
    with pytest.raises(InputError, match="2 components and 1 weights"):
        Mixture([Independent(0.9), Independent(0.4)], [1])
    with pytest.raises(InputError, match="shares of rounds"):
        Mixture([Independent(0.9), Independent(0.4)], [1, -1])


@given(acceptances(), trees())
def test_tau_lies_between_one_and_all_nodes(acceptance: Acceptance, tree: TokenTree):
    assert 1.0 <= acceptance.tau(tree) <= tree.nodes + 1 + 1e-9
    survival = acceptance.level_survival(tree)
    assert is_monotone([1.0] + [round(s, 9) for s in survival])


@given(trees(), probabilities, probabilities)
def test_tau_of_a_chain_rises_with_p(tree: TokenTree, p: float, q: float):
    chain = TokenTree.chain(tree.depth)
    low, high = sorted((p, q))
    assert Independent(low).tau(chain) <= Independent(high).tau(chain) + 1e-12


# ---- chains


def test_rates_per_position_are_survival_and_give_conditional_rates():
    chain = Chain.from_survival([0.805, 0.632, 0.483])
    assert chain.alpha == pytest.approx((0.805, 0.785, 0.764), abs=1e-3)
    assert chain.tau(TokenTree.chain(3)) == pytest.approx(2.92)
    assert chain.survival == pytest.approx((0.805, 0.632, 0.483))
    assert chain.max_depth == chain.measured_depth == 3


@given(st.floats(0.0, 1.0), st.integers(1, 12))
def test_the_accept_length_of_a_chain_gives_its_rate_back(alpha: float, k: int):
    tau = 1 + sum(alpha**i for i in range(1, k + 1))
    chain = Chain.from_accept_length(tau, k)
    assert chain.tau(TokenTree.chain(k)) == pytest.approx(tau, abs=1e-9)
    assert chain.measured_depth == k
    assert chain.max_depth is None


def test_the_accept_rate_counts_accepted_over_drafted():
    chain = Chain.from_accept_rate(0.4, 5)
    assert chain.tau(TokenTree.chain(5)) == pytest.approx(3.0)


def test_accept_lengths_of_several_k_give_a_rate_for_each_stretch():
    chain = Chain.from_accept_lengths({"1": 1.8, "3": 2.9})
    assert [chain.tau(TokenTree.chain(k)) for k in (1, 3)] == pytest.approx([1.8, 2.9])
    assert chain.alpha[1] == pytest.approx(chain.alpha[2])
    with pytest.raises(InputError, match=r"at k 2 is 2\.7 after 1\.8"):
        Chain.from_accept_lengths({1: 1.8, 2: 2.7})


def test_survival_that_rises_is_refused():
    with pytest.raises(InputError, match=r"survival\[1\] is 0.7 after 0.6"):
        Chain.from_survival([0.6, 0.7])


@pytest.mark.parametrize(("tau", "k"), [(0.5, 3), (4.5, 3), (2.0, 0), (2.0, 1.5), (math.nan, 3)])
def test_an_impossible_accept_length_is_refused(tau: float, k: Any):
    with pytest.raises(InputError):
        Chain.from_accept_length(tau, k)


def test_chain_data_says_nothing_about_siblings_until_that_is_assumed():
    chain = Chain((0.8, 0.5))
    assert not chain.siblings_known
    assert chain.reach(TokenTree.full(2, 1)) == [0.8, 0.0]
    assumed = chain.assume_ranks()
    assert assumed.row(2, 2) == pytest.approx((0.5, 0.25))
    assert assumed.siblings_known
    assert assumed.max_depth == 2
    assert "siblings were not measured" in assumed.notes[-1]


def test_a_constant_chain_extends_below_what_was_measured():
    assert Chain.constant(0.5).accepted(TokenTree.chain(30)) == pytest.approx(1.0)
    assert Chain.constant(0.5).assume_ranks() == Independent(0.5)


# ---- what is refused


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Positional([0.6, 1.2]), r"child_prob[1] is 1.2"),
        (lambda: Positional([0.6, -0.1]), r"child_prob[1] is -0.1"),
        (lambda: Positional([0.7, 0.4]), "child_prob sums to 1.1"),
        (lambda: Positional([]), "child_prob is empty"),
        (lambda: Positional([math.nan]), "child_prob[0] is nan"),
        (lambda: Positional(["0.6"]), "child_prob[0] is '0.6'"),
        (lambda: Positional([None]), "child_prob[0] is 'None'"),
        (lambda: Positional([True]), "child_prob[0] is 'True'"),
        (lambda: Positional(0.6), "child_prob is '0.6'"),
        (lambda: Positional([0.6], "orderd"), "unknown scheme 'orderd'"),
        (lambda: DepthTable([[0.6], []]), "row of depth 2 is empty"),
        (lambda: DepthTable([[0.6], [0.9, 0.9]]), "row of depth 2 sums to 1.8"),
        (lambda: Independent(60), "p is 60"),
        (lambda: Independent(0.6, decay=1.5), "decay is 1.5"),
        (lambda: Chain((0.6, math.inf)), "alpha[1] is inf"),
        (lambda: Paths({(0, 0): 0.5}), "path [0, 0] has no parent"),
        (lambda: Paths({(0,): 0.5, (0, 0): 0.6}), "path [0, 0]: with its siblings"),
        (lambda: Paths({(0,): 0.6, (1,): 0.6}), "path [1]: with its siblings"),
        (lambda: Paths({}), "paths is empty"),
        (lambda: as_acceptance(0.6), "acceptance is 0.6"),
        (lambda: as_acceptance("0.6"), "child_prob is '0.6'"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(make: Any, named: str):
    with pytest.raises(InputError, match=re.escape(named)) as caught:
        make()
    assert caught.value.hint


def test_plain_lists_and_arrays_are_child_probabilities():
    numpy = pytest.importorskip("numpy")
    assert as_acceptance(numpy.array([0.6, 0.2])) == Positional((0.6, 0.2)) == as_acceptance((0.6, 0.2))
    assert as_acceptance(numpy.array([[0.6], [0.5]])) == DepthTable(((0.6,), (0.5,)))
    assert as_acceptance(Independent(0.5)) == Independent(0.5)


# ---- rules


@pytest.mark.parametrize("case", CASES["acceptance_rule_cases"]["cases"], ids=lambda case: str(case["target"]))
@pytest.mark.parametrize(
    ("rule", "key"),
    [
        ("without_replacement", "sequential_without_replacement"),
        ("strict", "sequential_with_replacement"),
        ("topk", "topk_deterministic"),
        ("membership", "membership_iid"),
        ("membership_without_replacement", "membership_without_replacement"),
    ],
)
def test_child_probabilities_of_a_rule_agree_with_enumeration(case: dict[str, Any], rule: str, key: str):
    row = child_prob_for(case["target"], case["draft"], rule=rule, count=case["K"])
    assert row == pytest.approx(case[key], abs=1e-9)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5), st.randoms(use_true_random=False), st.integers(1, 4))
def test_no_rule_accepts_more_than_one_child(weights: list[float], order: random.Random, count: int):
    target = [weight / sum(weights) for weight in weights]
    draft = target.copy()
    order.shuffle(draft)
    for rule in ("strict", "without_replacement", "topk", "membership", "greedy", "typical"):
        row = child_prob_for(target, draft, rule=rule, count=count)
        assert sum(row) <= 1 + 1e-9
        assert min(row) >= 0


def test_one_strict_child_is_accepted_with_one_minus_the_distance_of_the_distributions():
    target, draft = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]
    distance = sum(abs(t - q) for t, q in zip(target, draft)) / 2
    for rule in ("strict", "without_replacement"):
        assert child_prob_for(target, draft, rule=rule, count=1) == pytest.approx((1 - distance,))


def test_greedy_accepts_the_rank_at_which_the_draft_lists_the_best_token():
    assert child_prob_for([0.1, 0.7, 0.2], [0.5, 0.2, 0.3], rule="greedy", count=3) == (0.0, 0.0, 1.0)


def test_typical_acceptance_takes_the_first_child_above_the_threshold():
    target = [0.9, 0.06, 0.04]
    entropy = -sum(t * math.log(t + 1e-5) for t in target)
    assert min(0.09, 0.3 * math.exp(-entropy)) == 0.09
    assert child_prob_for(target, [0.2, 0.5, 0.3], rule="typical", count=3) == (0.0, 0.0, 1.0)
    assert child_prob_for(target, [0.2, 0.5, 0.3], rule="typical", count=3, epsilon=0.05) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("target", "draft", "rule", "named"),
    [
        ([0.5, 0.4], [0.5, 0.5], "strict", "target_probs sums to 0.9"),
        ([0.5, 0.5], [1.0], "strict", "2 target and 1 draft"),
        ([0.5, 0.5], [0.5, 0.5], "strickt", "unknown rule 'strickt'"),
        ([0.01] * 100, [0.01] * 100, "without_replacement", "too many to enumerate"),
    ],
)
def test_distributions_that_do_not_fit_are_refused(target: Any, draft: Any, rule: str, named: str):
    with pytest.raises(InputError, match=named):
        child_prob_for(target, draft, rule=rule, count=8)


# ---- intervals


def test_wilson_agrees_with_its_published_example():
    # Newcombe 1998, table I: 81 of 263.
    interval = wilson(81, 263)
    assert (interval.low, interval.high) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 10).low == 0.0


def test_the_interval_of_one_rate_runs_between_tau_at_both_ends():
    counted = Independent(0.6, counts=Counts(by_depth_rank=(((60, 100),),)))
    rate, tree = wilson(60, 100), TokenTree.full(2, 3)
    interval = tau_interval(counted, tree)
    assert interval is not None
    assert interval.low == pytest.approx(Independent(rate.low).tau(tree))
    assert interval.high == pytest.approx(Independent(rate.high).tau(tree))


def test_the_delta_method_agrees_with_resampled_counts():
    row, trials, tree = [0.55, 0.2, 0.05], 400, best_trees([0.55, 0.2, 0.05], max_nodes=12, max_depth=5).tree(12, 5)
    draws = random.Random(5)
    taus = []
    for _ in range(1500):
        hits = [0, 0, 0, 0]
        for rank in draws.choices(range(4), weights=[*row, 0.2], k=trials):
            hits[rank] += 1
        taus.append(Positional(tuple(hit / trials for hit in hits[:3])).tau(tree))
    mean = sum(taus) / len(taus)
    spread = math.sqrt(sum((tau - mean) ** 2 for tau in taus) / len(taus))
    counted = Positional(tuple(row), counts=Counts(by_depth_rank=(tuple((p * trials, trials) for p in row),)))
    interval = tau_interval(counted, tree)
    assert interval is not None
    assert interval.se == pytest.approx(spread, rel=0.08)


def test_more_rounds_narrow_the_interval_of_path_frequencies():
    probs = {(0,): 0.6, (0, 0): 0.4}
    few, many = (tau_interval(Paths(probs, counts=Counts(rounds=n)), TokenTree.chain(2)) for n in (100, 400))
    assert few is not None
    assert many is not None
    assert few.se == pytest.approx(2 * many.se)
    # Accepted tokens are 0, 1, 2 with 0.4, 0.2, 0.4: variance 0.8.
    assert few.se == pytest.approx(math.sqrt(0.8 / 100))


def test_without_counts_there_is_no_interval():
    assert tau_interval(Positional([0.6]), TokenTree.chain(1)) is None
    counted = Positional([0.6], counts=Counts(by_depth_rank=(((60, 100),),)))
    assert tau_interval(Mixture([counted, Independent(0.5)], [1, 1]), TokenTree.chain(1)) is None
    assert tau_interval(Mixture([counted, counted], [1, 1]), TokenTree.chain(1)) is not None


# ---- documents


@given(acceptances())
def test_a_document_read_back_is_the_same_acceptance(acceptance: Acceptance):
    document = json.loads(json.dumps(acceptance_document(acceptance), allow_nan=False))
    back = acceptance_from_document(document)
    if isinstance(acceptance, Mixture):
        assert isinstance(back, Mixture)
        assert back.components == acceptance.components
        assert back.weights == pytest.approx(acceptance.weights)
    else:
        assert back == acceptance


def test_rule_temperature_counts_and_carried_keys_survive_a_document():
    counts = Counts(rounds=10, accepted=8, by_depth_rank=(((6.0, 10.0),),), by_path=(((0,), 6.0, 10.0),))
    given_one = Positional(
        (0.6,), counts=counts, rule="strict", temperature=0.6, about={"workload": "chat", "k": 4}, notes=("measured",)
    )
    back = acceptance_from_document(acceptance_document(given_one))
    assert back == given_one
    assert (back.about, back.notes) == ({"workload": "chat", "k": 4}, ("measured",))


@pytest.mark.parametrize(
    ("document", "tau"),
    [
        ({"p": 0.6}, 1.96),
        ({"kind": "independent", "fit": {"kind": "independent", "p": 0.6, "error": 0.01}}, 1.96),
        ({"child_prob": [0.6, 0.3]}, 1.96),
        ({"kind": "positional", "child_prob": [[0.6], [0.6]]}, 1.96),
        ({"kind": "chain", "alpha": 0.6}, 1.96),
        ({"survival": [0.6, 0.36]}, 1.96),
        ({"kind": "chain", "tau": 1.96, "k": 2}, 1.96),
        ({"kind": "chain", "acceptance_rate": 0.48, "k": 2}, 1.96),
        ({"kind": "by_k", "accept_length_by_k": {"1": 1.6, "2": 1.96}}, 1.96),
        ({"kind": "paths", "paths": {"0": 0.6, "0-0": 0.36}}, 1.96),
        ({"kind": "paths", "counts": {"by_path": {"0": [60, 100], "0-0": [36, 100]}}}, 1.96),
        ({"kind": "depth_rank", "counts": {"by_depth_rank": [[[6, 10]], [[6, 10]]]}}, 1.96),
        ({"kind": "mixture", "components": [{"p": 0.6}, {"p": 0.6}]}, 1.96),
    ],
)
def test_each_form_of_document_gives_the_chain_of_two_the_same_tau(document: dict[str, Any], tau: float):
    assert acceptance_from_document(document).tau(TokenTree.chain(2)) == pytest.approx(tau)


@pytest.mark.parametrize(
    ("document", "named", "hint"),
    [
        ({"child_probs": [0.6]}, "unknown key 'child_probs'", "child_prob"),
        ({"kind": "positonal", "child_prob": [0.6]}, "unknown kind 'positonal'", "positional"),
        ({}, "no kind", "give kind"),
        ({"kind": "positional", "child_prob": [0.6, 2]}, r"child_prob\[1\] is 2", "0.6, not 60"),
        ({"kind": "chain"}, "without k", "add k"),
        ({"alpha": [0.8, 0.5], "survival": [0.8, 0.7]}, "contradict", "running product"),
        ({"schema": "specplan.tree/1", "p": 0.6}, "schema is 'specplan.tree/1'", "specplan.acceptance/1"),
        ({"p": 0.6, "counts": {"round": 3}}, "unknown key 'round'", "rounds"),
        ({"p": 0.6, "counts": {"by_depth_rank": [[[9, 3]]]}}, "9 accepted of 3", "between 0 and trials"),
        ({"kind": "paths", "paths": [{"prob": 0.3}]}, "has no path", "path"),
        ({"kind": "mixture", "components": [{"p": 2}]}, r"components\[0\]: p is 2", "between 0 and 1"),
    ],
)
def test_a_document_that_says_something_else_is_refused(document: dict[str, Any], named: str, hint: str):
    with pytest.raises(InputError, match=named) as caught:
        acceptance_from_document(document, where="acc.json")
    assert caught.value.message.startswith("acc.json: ")
    assert hint in caught.value.hint


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["chain", "paths"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["path", "prob", "0", "p"]), below),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(DOCUMENT_KEYS), json_values, max_size=4))
def test_any_values_give_an_acceptance_or_an_input_error(document: dict[str, Any]):
    try:
        assert isinstance(acceptance_from_document(document), Acceptance)
    except InputError as error:
        assert error.hint


# ---- tables


def test_a_depth_table_of_counts_is_read_with_its_counts():
    text = "# measured\ndepth,rank,accepted,trials\n1,0,60,100\n1,1,20,100\n2,0,30,60\n"
    acceptance = acceptance_from_csv(text)
    assert isinstance(acceptance, DepthTable)
    assert acceptance.rows == ((0.6, 0.2), (0.5,))
    assert acceptance.counts == Counts(by_depth_rank=(((60.0, 100.0), (20.0, 100.0)), ((30.0, 60.0),)))


def test_a_path_table_of_counts_is_read_in_any_column_order():
    acceptance = acceptance_from_csv('accepted,trials,path\n60,100,0\n36,100,"0,0"\n')
    assert isinstance(acceptance, Paths)
    assert acceptance.table == {(0,): 0.6, (0, 0): 0.36}
    assert acceptance.counts is not None
    assert acceptance.counts.rounds == 100


def test_a_table_of_depth_one_serves_every_depth():
    acceptance = acceptance_from_csv("depth,rank,accepted,trials\n1,0,423,667\n1,1,72,667\n")
    assert isinstance(acceptance, Positional)
    assert "every depth" in acceptance.notes[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "acc.csv: no header"),
        ("depth,rank\n1,0\n", "acc.csv:1: columns are 'depth,rank'"),
        ("depth,rank,accepted,trials\n", "acc.csv: a header and no rows"),
        ("depth,rank,accepted,trials\n1,0,5\n", "acc.csv:2: 3 cells for 4 columns"),
        ("depth,rank,accepted,trials\n0,0,5,9\n", "acc.csv:2: depth is '0'"),
        ("depth,rank,accepted,trials\n1,-1,5,9\n", "acc.csv:2: rank is '-1'"),
        ("depth,rank,accepted,trials\n1,0,5,x\n", "acc.csv:2 is 'x'"),
        ("depth,rank,accepted,trials\n1,0,9,5\n", "acc.csv:2: 9 accepted of 5"),
        ("depth,rank,accepted,trials\n1,0,5,9\n1,0,5,9\n", "acc.csv:3: depth 1, rank 0 is there twice"),
        ("depth,rank,accepted,trials\n1,0,5,9\n1,2,1,9\n", "acc.csv: depth 1, rank 1 is missing"),
        ("path,accepted,trials\n0-a,5,9\n", "acc.csv:2: path '0-a'"),
        ("path,accepted,trials\n0,5,9\n0,5,9\n", "acc.csv:3: path [0] is there twice"),
        ("path,accepted,trials\n0-0,5,9\n", "acc.csv: path [0, 0] has no parent"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(text: str, named: str):
    with pytest.raises(InputError, match=re.escape(named)) as caught:
        acceptance_from_csv(text, where="acc.csv")
    assert caught.value.hint


@given(st.text(alphabet='depthrankcilsu,0123456789.\n"- ', max_size=80))
def test_any_text_is_a_table_or_an_input_error(text: str):
    for header in ("", "depth,rank,accepted,trials\n", "path,accepted,trials\n"):
        try:
            assert isinstance(acceptance_from_csv(header + text), Acceptance)
        except InputError as error:
            assert error.message


@pytest.mark.parametrize("text", ["0 1", "0-1", "0,1", "[0, 1]", "(0, 1)", "0/1", "0->1"])
def test_a_path_is_read_in_the_ways_people_write_it(text: str):
    assert parse_path(text) == (0, 1)


def test_trials_that_follow_a_rejection_or_an_acceptance_are_read_as_such():
    siblings = {"kind": "depth_rank", "counts": {"by_depth_rank": [[[600, 1000], [150, 400]]]}}
    assert acceptance_from_document(siblings).row(1, 2) == pytest.approx((0.6, 0.15))
    paths = {
        "kind": "paths",
        "counts": {
            "rounds": 1000,
            "by_path": [
                {"path": [0], "accepted": 600, "trials": 1000},
                {"path": [0, 0], "accepted": 300, "trials": 600},
            ],
        },
    }
    assert acceptance_from_document(paths).tau(TokenTree.chain(2)) == pytest.approx(1.9)


def test_a_rule_that_does_not_exist_and_endless_nesting_are_refused():
    with pytest.raises(InputError, match="zz"):
        acceptance_from_document({"kind": "independent", "p": 0.5, "rule": "zz"})
    nested: dict[str, object] = {"kind": "independent", "p": 0.5}
    for _ in range(50):
        nested = {"kind": "mixture", "components": [nested], "weights": [1.0]}
    with pytest.raises(InputError, match="nested"):
        acceptance_from_document(nested)
