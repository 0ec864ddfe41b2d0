"""Lengths measured for each K by itself: exactly those are used, everywhere, and nothing between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specplan.acceptance.by_k import ByK, at_length, mixed
from specplan.acceptance.documents import acceptance_document, acceptance_from_document
from specplan.acceptance.fit import fit
from specplan.acceptance.kinds import Chain, Independent, Mixture
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.planning.plan import plan
from specplan.search.best import best_tree
from specplan.search.costs import RoundCosts
from specplan.search.optimize import best_trees, fastest_tree
from specplan.search.space import Space
from specplan.stacks.detect import read_any

PROFILE = str(Path(__file__).parent / "data" / "dialects" / "speculation_profile.json")
DEVICE = "--gpu h100 --model llama-3-8b --draft llama-3.2-1b"
# A block drafter whose length falls at large K: InferenceX, golden_al_distribution, dsv4-pro-0813-dspark.yaml
# (Apache-2.0), tokens per round by number of speculative tokens.
DSPARK = {1: 1.84, 2: 2.51, 3: 3.01, 4: 3.36, 5: 3.61, 6: 3.77, 7: 3.73, 8: 3.47}
GOLDEN = """# Acceptance Length (AL) reference values measured with SPEED-Bench.
# dataset: coding | temperature: 1.0 | output_len: 4096
deepseek-v4-pro-0813:
  thinking_on:
    1: 1.84
    2: 2.51
    3: 3.01
    4: 3.36
    5: 3.61
    6: 3.77
    7: 3.73
    8: 3.47
"""


@pytest.mark.parametrize("k", DSPARK)
def test_a_chain_of_a_measured_length_has_exactly_its_tokens_per_round(k):
    found = ByK(DSPARK)
    assert found.tau(TokenTree.chain(k)) == DSPARK[k]
    assert 1 + sum(found.level_survival(TokenTree.chain(k))) == pytest.approx(DSPARK[k])


def test_a_length_between_and_one_beyond_are_refused_and_so_is_a_tree():
    found = ByK({1: 1.84, 3: 3.01})
    for tree in (TokenTree.chain(2), TokenTree.chain(4), TokenTree.full(2, 1)):
        assert not found.knows(tree)
        with pytest.raises(InputError, match="was not measured") as error:
            found.tau(tree)
        assert "k 1, 3" in error.value.hint


def test_the_golden_lengths_are_read_with_what_their_comments_say():
    found = read_any(GOLDEN, where="golden.yaml")
    assert (found.kind, found.temperature, found.about["workload"]) == ("by_k", 1.0, "coding")
    assert dict(found.lengths) == DSPARK
    assert (found.about["k"], found.about["tau"]) == (None, None)


def test_a_golden_file_of_two_modes_needs_one_of_them_named():
    two = GOLDEN + "  thinking_off: {1: 1.9, 2: '2.6'}\n"
    with pytest.raises(InputError, match="2 curves in the file") as error:
        read_any(two, where="golden.yaml")
    assert "--served thinking_on" in error.value.hint
    assert dict(read_any(two, where="golden.yaml", served="thinking_off").lengths) == {1: 1.9, 2: 2.6}


@pytest.mark.parametrize(("model", "kind"), [("measured_per_k", "by_k"), ("chain_analytic", "chain"), (None, "chain")])
def test_the_profile_says_whether_another_k_may_be_extrapolated(model, kind):
    data = json.loads(Path(PROFILE).read_text()) | {"accept_length_model": model, "method": "eagle3"}
    found = read_any(json.dumps(data), where="profile")
    assert found.kind == kind
    assert found.max_depth == (None if model == "chain_analytic" else 3)
    if model == "chain_analytic":
        assert found.tau(TokenTree.chain(4)) == pytest.approx(2.65 + 0.33 * 0.33 / 0.52)


def test_a_placeholder_profile_is_refused_and_block_verification_is_warned_of():
    data = json.loads(Path(PROFILE).read_text())
    with pytest.raises(InputError, match="not measured"):
        read_any(json.dumps(data | {"measured": False}), where="profile")
    found = read_any(json.dumps(data | {"verification_method": "block"}), where="profile")
    assert "longest prefix" in found.about["warnings"][0]
    assert found.rule is None


def test_the_document_keeps_the_lengths_and_reads_back():
    found = read_any(Path(PROFILE).read_text(), where="profile")
    again = acceptance_from_document(json.loads(json.dumps(acceptance_document(found))))
    assert again == found
    assert again.survival == (0.8, 0.52, 0.33)


def test_the_best_chain_is_one_of_those_that_were_measured():
    costs = RoundCosts(verify_s=[0.010 + 0.0005 * i for i in range(9)])
    rates = {k: tau / (0.010 + 0.0005 * k) for k, tau in DSPARK.items()}
    best = max(rates, key=rates.get)
    found = best_tree(ByK(DSPARK), Space(8, children=1), costs)
    assert (found.shape.nodes, found.shape.tau, found.optimality) == (best, DSPARK[best], "proved")
    some = ByK({2: 2.51, 8: 3.47})
    assert fastest_tree(some, verify_s=costs.verify_s, max_nodes=8, max_depth=8).tree.nodes in (2, 8)
    answer = plan(some, costs, Space(8, children=1))
    assert {row.nodes for row in answer.best.candidates if row.depth is not None} == {0, 2, 8}
    assert best_tree(some, Space(7, children=1), None).shape.nodes == 2
    with pytest.raises(InputError, match="measured shapes alone"):
        best_trees(some, max_nodes=4, max_depth=4)


def test_a_curve_that_ends_early_leaves_the_lengths_that_it_times():
    found = fastest_tree(ByK({2: 2.5, 6: 6.9}), verify_s=[1.0] * 4, max_nodes=8, max_depth=8)
    assert found.tree.nodes == 2
    assert fastest_tree(ByK({2: 2.5}), verify_s=[1.0] * 9, max_nodes=1, max_depth=1).tree.nodes == 0


def test_the_verbs_use_the_measured_lengths(specplan):
    planned = specplan(f"plan {DEVICE} --acceptance {PROFILE} --json").json
    taus = {0: 1.0, 1: 1.8, 2: 2.32, 3: 2.65}
    assert planned["recommended"]["tau"] == taus[planned["recommended"]["nodes"]]
    assert specplan(f"tree --acceptance {PROFILE} --k 2 --json").json["tau"] == 2.32
    rows = specplan(f"compare {DEVICE} --acceptance {PROFILE} --json").json["methods"]
    assert rows["chain"]["recommended"]["tau"] == taus[rows["chain"]["recommended"]["nodes"]]
    advised = specplan(f"advise {DEVICE} --acceptance {PROFILE} --json").json
    assert (advised["tau"], advised["used"]["nodes"]) == (2.65, 3)
    swept = specplan(f"sweep {DEVICE} --acceptance {PROFILE} --batch 1,8 --json")
    assert swept.code == 0
    assert "2 of 2 points" in specplan(f"sweep {DEVICE} --acceptance {PROFILE} --batch 1,8").out.splitlines()[0]
    late = specplan(f"plan {DEVICE} --acceptance {PROFILE} --tokens 60 --deadline 2s --percentile 99 --json")
    assert late.code == 0


@pytest.mark.parametrize("stack", ["vllm", "sglang", "trtllm", "llamacpp"])
def test_inside_a_stack_a_measured_chain_is_taken(specplan, stack):
    ran = specplan(f"plan {DEVICE} --acceptance {PROFILE} --stack {stack} --json")
    assert ran.code == 0, ran.err
    assert ran.json["recommended"]["nodes"] in (1, 2, 3)


def test_a_length_that_was_not_measured_is_refused_on_the_command_line(refused):
    assert "a chain of 5 was not measured" in refused(f"tree --acceptance {PROFILE} --k 5")
    assert "a chain of 5 was not measured" in refused(f"advise {DEVICE} --acceptance {PROFILE} --k 5")
    assert "say nothing of siblings" in refused(f"tree --acceptance {PROFILE} --budget 8 --assume-ranks")


def test_mixing_keeps_the_lengths_that_all_know():
    found = mixed([ByK({1: 1.8, 3: 3.0}), Chain.from_accept_length(2.0, 3)], [3, 1])
    assert isinstance(found, ByK)
    assert found.tau(TokenTree.chain(3)) == pytest.approx(0.75 * 3.0 + 0.25 * 2.0)
    with pytest.raises(InputError, match="in common"):
        mixed([ByK({1: 1.8}), ByK({3: 3.0})], [1, 1])
    with pytest.raises(InputError, match="mixed"):
        Mixture((ByK({1: 1.8}), Independent(0.5)), (1, 1))


def test_one_p_is_compared_with_every_length():
    found = fit(ByK(DSPARK))
    assert (found.kind, found.flagged) == ("by_k", True)
    single = Independent(Chain.from_accept_length(3.47, 8).alpha[0])
    worst = max(abs(single.accepted(TokenTree.chain(k)) / (DSPARK[k] - 1) - 1) for k in DSPARK)
    assert found.single_p_error == pytest.approx(worst)


def test_lengths_that_no_one_draft_can_have_are_each_kept():
    rows = [{"batch_size": 1, "steps": k, "topk": 1, "num_draft_tokens": k + 1, "acc_length": a}
            for k, a in ((3, 2.9), (5, 2.8))]  # fmt: skip
    found = read_any("\n".join(map(json.dumps, rows)), where="case")
    assert found.kind == "by_k"
    assert dict(found.lengths) == {3: 2.9, 5: 2.8}


@pytest.mark.parametrize("lengths", [{1: 2.1}, {2: 0.9}, {"x": 1.5}, {3: float("nan")}])
def test_lengths_outside_what_k_allows_are_refused(lengths):
    with pytest.raises(InputError):
        ByK(lengths)


def test_a_mean_of_unknown_k_is_fitted_at_the_k_in_use(specplan):
    found = read_any('{"average_tokens_per_forward": 2.65}', where="case")
    assert "k" in found.about["unknown"]
    known = at_length(found, 3)
    assert known.tau(TokenTree.chain(3)) == pytest.approx(2.65)
    assert "k" not in known.about["unknown"]
    assert not any("--measured-k" in note for note in known.notes)
    page = "tests/data/dialects/atom.prom"
    ran = specplan(f"advise --k 3 --acceptance {page} --measured-tpot 25ms --round 30ms --json").json
    assert ran["tau"] == pytest.approx(2.65)


# ---- categories of a profile, and parts of other files

CATEGORIES = {
    "num_speculative_tokens": 3,
    "verification_method": "greedy",
    "conditional_accept_rates": [0.8, 0.65, 0.6346],
    "mean_accept_length": 2.65,
    "per_category": {
        "coding": {"conditional_accept_rates": [0.9, 0.8, 0.8], "mean_accept_length": 3.196},
        "writing": {"marginal_accept_rates": [0.6, 0.3, 0.1]},
        "math": 2.5,
    },
}


def test_a_profile_keeps_the_lengths_of_its_categories_and_one_can_be_taken():
    text = json.dumps(CATEGORIES)
    whole = read_any(text, where="profile")
    assert whole.about["by_category"] == pytest.approx({"coding": 3.196, "writing": 2.0, "math": 2.5})
    coding = read_any(text, where="profile", served="coding")
    assert coding.survival == pytest.approx((0.9, 0.72, 0.576))
    assert (coding.rule, coding.about["workload"], coding.about["k"]) == ("greedy", "coding", 3)
    assert read_any(text, where="profile", served="math").tau(TokenTree.chain(3)) == pytest.approx(2.5)
    with pytest.raises(InputError) as error:
        read_any(text, where="profile", served="cooking")
    assert "coding, writing, math" in error.value.hint


def test_categories_mix_by_share_with_a_mark_behind_the_file(specplan, refused, tmp_path):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(CATEGORIES))
    ran = specplan(
        ["tree", "--acceptance", f"{file}#coding=0.3", "--acceptance", f"{file}#math=0.7", "--k", "3", "--json"]
    )
    assert ran.json["tau"] == pytest.approx(0.3 * 3.196 + 0.7 * 2.5)
    assert "coding" in specplan(["acceptance", str(file)]).out
    document = str(tmp_path / "coding.json")
    specplan(["acceptance", f"{file}#coding", "--json", "--out", document])
    assert "is no part of it" in refused(["acceptance", f"{document}#coding"])


def test_a_name_in_a_file_that_holds_one_run_is_refused(refused):
    for name in ("vllm-v1.log", "counts.csv", "tgi.prom", "speculation_profile.json"):
        refused(["acceptance", str(Path(PROFILE).with_name(name)), "--served", "somewhere"])


def test_the_gauges_of_two_models_are_not_averaged():
    page = 'sglang:spec_accept_length{model_name="a"} 2.0\nsglang:spec_accept_length{model_name="b"} 3.0\n'
    with pytest.raises(InputError, match="2 models"):
        read_any(page, where="page")
    assert read_any(page, where="page", served="b").about["tau"] == 3.0
