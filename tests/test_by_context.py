"""Acceptance by prompt length: the row of the context is what is planned with."""

from __future__ import annotations

import json

import pytest

from specplan.acceptance.by_context import at_context
from specplan.acceptance.kinds import Chain, Positional
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree

ROWS = [{"prompt_tokens_to": 512, "rounds": 200, "tau": 2.9}, {"prompt_tokens_to": 8192, "rounds": 100, "tau": 1.5}]
BOTH = Chain.from_survival([0.72, 0.5, 0.22], about={"k": 3, "by_context": ROWS})
DEVICE = ["--gpu", "a100", "--model", "llama-3-8b", "--draft", "llama-3.2-1b"]


def request(prompt: int, histogram: list[int]) -> dict:
    accepted = sum(j * count for j, count in enumerate(histogram))
    spec = {"num_spec_steps": sum(histogram), "num_accepted_draft_tokens": accepted, "num_spec_tokens": 3,
            "num_draft_tokens": 3 * sum(histogram), "acceptance_histogram": histogram}  # fmt: skip
    return {"usage": {"prompt_tokens": prompt}, "metrics": {"speculative_decoding": spec}}


@pytest.fixture
def requests(tmp_path):
    file = tmp_path / "requests.jsonl"
    rows = [request(500, [20, 40, 80, 60]), request(6000, [65, 25, 5, 5])]
    file.write_text("\n".join(map(json.dumps, rows)))
    return str(file)


@pytest.mark.parametrize(("context", "tau"), [(300, 2.9), (512, 2.9), (4097, 1.5), (8192, 1.5)])
def test_a_chain_has_the_tokens_of_the_row_and_keeps_its_shape(context, tau):
    found = at_context(BOTH, context)
    assert found.tau(TokenTree.chain(3)) == pytest.approx(tau, abs=1e-9)
    assert (found.alpha[2] < found.alpha[1]) == (BOTH.alpha[2] < BOTH.alpha[1])
    assert not any(note.startswith("MEASURED AT") for note in found.notes)


def test_a_single_rate_becomes_the_rate_of_that_length():
    one = Chain.from_accept_length(2.4, 3, about={"k": 3, "by_context": ROWS})
    assert at_context(one, 8000).alpha == pytest.approx(Chain.from_accept_length(1.5, 3).alpha)


@pytest.mark.parametrize(("context", "tau"), [(0, 2.9), (100, 2.9), (1000, 2.9), (3000, 1.5), (100_000, 1.5)])
def test_outside_of_what_was_measured_the_nearest_is_taken_with_a_warning(context, tau):
    found = at_context(BOTH, context)
    assert found.tau(TokenTree.chain(3)) == pytest.approx(tau, abs=1e-9)
    assert found.notes[-1].startswith("MEASURED AT prompts up to")


@pytest.mark.parametrize("tau", [1.0, 4.0])
def test_rows_at_the_borders_are_never_and_always_accepted(tau):
    rows = [{"prompt_tokens_to": 512, "rounds": 9, "tau": tau}, ROWS[1]]
    found = at_context(Chain.from_survival([0.72, 0.5, 0.22], about={"k": 3, "by_context": rows}), 512)
    assert found.tau(TokenTree.chain(3)) == pytest.approx(tau, abs=1e-4)


def test_without_a_context_the_mean_stays_and_says_what_it_hides():
    found = at_context(BOTH, None)
    assert found.alpha == BOTH.alpha
    assert "2.900 up to 512, 1.500 up to 8192" in found.notes[-1]


def test_what_is_no_chain_or_has_no_rows_is_left_alone():
    table = Positional([0.6], about={"by_context": ROWS})
    assert at_context(table, 8192) is table
    plain = Chain.constant(0.6)
    assert at_context(plain, 8192) is plain


@pytest.mark.parametrize("bad", [{"tau": 0.5}, {"rounds": 0}, {"tau": "x"}, {"prompt_tokens_to": -1}])
def test_a_row_that_cannot_be_is_refused(bad):
    with pytest.raises(InputError):
        at_context(Chain.constant(0.6, about={"by_context": [ROWS[0], ROWS[1] | bad]}), 512)


def test_plan_tree_compare_and_advise_take_the_row_of_the_context(specplan, requests, tmp_path):
    def speed(verb, *more):
        ran = specplan([verb, *DEVICE, "--acceptance", requests, "--json", *more])
        assert ran.code == 0, ran.err
        return ran.json

    short, long = (speed("plan", "--context", context) for context in ("512", "8k"))
    assert short["recommended"]["speedup"] > long["recommended"]["speedup"]
    assert speed("tree", "--k", "3", "--context", "8k")["tau"] == pytest.approx(1.5, abs=1e-6)
    assert speed("tree", "--k", "3")["tau"] == pytest.approx(1 + 430 / 300)
    assert speed("tree", "--k", "3", "--assume-ranks", "--context", "8k")["tau"] == pytest.approx(1.5, abs=1e-6)
    assert speed("advise", "--context", "8k")["tau"] == pytest.approx(1.5, abs=1e-6)
    assert any("1.500 tokens a round" in said["text"] for said in speed("compare", "--context", "8k")["assumptions"])
    assert any("MEASURED AT prompts" in said for said in speed("plan", "--context", "64k")["warnings"])


def test_the_rows_survive_a_document(specplan, requests, tmp_path):
    document = str(tmp_path / "acceptance.json")
    specplan(["acceptance", requests, "--json", "--out", document])
    ran = specplan(["tree", "--acceptance", document, "--k", "3", "--context", "8k", "--json"])
    assert ran.json["tau"] == pytest.approx(1.5, abs=1e-6)
