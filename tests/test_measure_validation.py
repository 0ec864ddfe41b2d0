"""`measure decode`: predicted beside measured, the identity of the text, and what is refused."""

from __future__ import annotations

import json

import jsonschema
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch
from measure_files import target_and_draft, write_prompts

from specplan.acceptance.kinds import Positional
from specplan.base.tree import TokenTree
from specplan.measure.outcome import Term, explanation, identity_of, terms_of
from specplan.measure.tree_decode import Decoded, Round
from specplan.measure.validation import Alone, Validated
from specplan.render.measured_decode import NAMES
from specplan.render.schemas import json_schema

TREE = [[0], [1], [0, 0], [0, 1], [0, 0, 0]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    target, draft = target_and_draft(folder)
    (folder / "tree.json").write_text(json.dumps(TREE))
    first, second = (write_prompts(folder / f"{seed}.jsonl", 6, seed=seed) for seed in range(2))
    return {"target": target, "draft": draft, "tree": str(folder / "tree.json"), "first": first, "second": second}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def arguments(files, more=""):
    return (
        f"measure decode --from {files['tree']} --model {files['target']} --draft {files['draft']} "
        f"--prompts {files['second']} --tokens 40 {more}"
    )


def test_a_plan_is_validated_on_other_prompts(specplan, files, tmp_path):
    out = tmp_path / "acceptance.json"
    counted = specplan(
        f"measure acceptance --model {files['target']} --draft {files['draft']} --prompts {files['first']} "
        f"--tokens 40 --out {out}"
    )
    assert counted.code == 0, counted.err
    ran = specplan(arguments(files, f"--acceptance {out} --json"))
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("measure.decode"))
    assert ran.json["identity"] | {"padded": 0} == {
        "prompts": 6, "same": 6, "padded": 0, "largest_gap": 0.0, "lossless": True,
    }  # fmt: skip
    tau = ran.json["terms"]["tau"]
    assert 1.5 < tau["measured"] < 4
    assert tau["low"] <= tau["measured"] <= tau["high"]
    assert tau["error_low"] < tau["error"] < tau["error_high"]
    assert abs(tau["error"]) < 0.25
    terms = ran.json["terms"]
    parts = sum(terms[name]["measured"] for name in ("draft_s", "verify_s", "rest_s"))
    assert parts == pytest.approx(terms["round_s"]["measured"])
    assert terms["tokens_per_s"]["measured"] == pytest.approx(tau["measured"] / terms["round_s"]["measured"])
    said = specplan(arguments(files))
    assert "6 of 6 texts equal plain decoding token for token." in said.out


def test_a_picture_shows_the_terms_that_something_predicts(specplan, files, tmp_path):
    pytest.importorskip("matplotlib")
    ran = specplan(arguments(files, f"--json --plot {tmp_path / 'decode.svg'}"))
    assert ran.code == 0, ran.err
    drawn = (tmp_path / "decode.svg").read_text()
    errors = {name: term["error"] for name, term in ran.json["terms"].items()}
    assert errors["tau"] is None
    assert {name: f"{NAMES[name]}</text>" in drawn for name in errors} == {
        name: error is not None for name, error in errors.items()
    }
    assert f"{errors['verify_s']:+.1%}" in drawn


def test_a_picture_that_cannot_be_written_is_refused_before_anything_runs(refused, files):
    pytest.importorskip("matplotlib")
    assert "--plot" in refused(arguments(files, "--plot picture.gif"))


@pytest.mark.parametrize("draft", ["early-exit:3", "skip:1", "ngram"])
def test_every_way_of_drafting_decodes_the_same_text(specplan, files, draft):
    ran = specplan([*arguments({**files, "draft": draft}).split(), "--json"])
    assert ran.code == 0, ran.err
    assert ran.json["identity"]["same"] == 6
    assert ran.json["terms"]["tau"]["predicted"] is None


def test_a_profile_predicts_the_passes(specplan, files):
    for draft in ("early-exit:3", files["draft"], "ngram"):
        ran = specplan([*arguments({**files, "draft": draft}).split(), "--json", "--profile", "rtx-4090"])
        assert ran.code == 0, ran.err
        terms = ran.json["terms"]
        assert ran.json["profile"] == "rtx-4090"
        assert terms["verify_s"]["predicted"] < ran.json["passes_alone"]["target"]["6"]
        assert (terms["draft_s"]["predicted"] is None) == (draft == "ngram")


def test_sampled_texts_are_not_compared(specplan, files):
    ran = specplan(arguments(files, "--temperature 0.8 --json"))
    assert ran.code == 0, ran.err
    assert ran.json["identity"] is None
    assert ran.json["inputs"]["rule"] == "without_replacement"
    lossy = specplan(arguments(files, "--temperature 0.8 --rule typical"))
    assert "not lossless" in lossy.err


def test_a_missed_tolerance_is_exit_code_1(specplan, files, tmp_path):
    wrong = {"kind": "positional", "child_prob": [0.02, 0.01], "rule": "greedy", "temperature": 0}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    ran = specplan(arguments(files, f"--acceptance {tmp_path / 'wrong.json'} --tolerance 10%"))
    assert ran.code == 1
    assert "outside 10" in ran.out.splitlines()[0]
    assert "accept otherwise" in ran.out or "both contribute" in ran.out


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("--from {empty}", "a tree without nodes is plain decoding"),
        ("--acceptance {sampled}", "measured at rule topk, this decodes at greedy"),
        ("--tolerance much", "--tolerance"),
        ("--prompts {large}", "prompt 1 has token 999, the vocabulary 64"),
    ],
)
def test_what_cannot_be_validated_is_refused(refused, files, tmp_path, change, named):
    (tmp_path / "empty.json").write_text("[]")
    (tmp_path / "large.jsonl").write_text('{"tokens": [999]}')
    (tmp_path / "sampled.json").write_text('{"kind": "positional", "child_prob": [0.5], "rule": "topk"}')
    paths = {"empty": tmp_path / "empty.json", "large": tmp_path / "large.jsonl", "sampled": tmp_path / "sampled.json"}
    assert named in refused(arguments(files, change.format(**paths)))


# ---- the terms, on made-up rounds


def prompt(emitted, draft_s=1.0, verify_s=2.0, rest_s=0.0):
    rounds = tuple(Round(n, 3, draft_s, verify_s, rest_s) for n in emitted)
    plain = tuple(Round(1, 1, 0.0, 1.5, 0.0) for _ in range(sum(emitted)))
    return Validated(Decoded((), plain), Decoded((), rounds), True)


PASSES = Alone({1: 1.5, 3: 2.0}, {1: 1.0})


def test_terms_add_up_when_everything_is_as_predicted():
    found = terms_of([prompt([1, 2]), prompt([2, 1])], TokenTree.full(2, 1), PASSES, acceptance=Positional([0.3, 0.2]))
    assert (found["tau"].measured, found["tau"].predicted) == (1.5, 1.5)
    assert found["round_s"].error == pytest.approx(0)
    assert found["tokens_per_s"].predicted == pytest.approx(0.5)
    assert found["speedup"].measured == pytest.approx(0.75)
    assert explanation(found) == "none"


def test_slow_rounds_are_told_apart_from_few_tokens():
    tree, likely = TokenTree.full(2, 1), Positional([0.3, 0.2])
    slow = terms_of([prompt([1, 2], verify_s=3.0)] * 2, tree, PASSES, acceptance=likely)
    few = terms_of([prompt([1, 1])] * 2, tree, PASSES, acceptance=likely)
    assert (explanation(slow), explanation(few)) == ("time", "acceptance")
    assert few["tau"].within(0.6)
    assert not few["tau"].within(0.4)


def test_an_error_that_the_prompts_cannot_tell_from_none_is_within():
    assert Term(2.0, 1.8, 1.5, 2.1, 0.11, -0.05, 0.3).within(0.08)
    assert not Term(2.0, 1.8, 1.79, 1.81, 0.11, 0.1, 0.12).within(0.08)


def test_a_text_that_differs_is_a_fault_in_high_precision_and_a_tie_within_rounding():
    plain = prompt([1, 1]).plain
    tie = Validated(plain, plain, False, padded=True, gap=2.0)
    bug = Validated(plain, plain, False, padded=False, gap=300.0)
    assert not identity_of([tie], exact=True).lossless
    assert identity_of([tie], exact=False).lossless
    assert not identity_of([tie, bug], exact=False).lossless
