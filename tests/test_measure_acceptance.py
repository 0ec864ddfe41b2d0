"""`measure acceptance`: counts are those of real rounds, and every command takes the document."""

from __future__ import annotations

import json

import jsonschema
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch
from measure_files import CONFIG, target_and_draft, write_prompts

from specplan.acceptance.rules import child_prob_for
from specplan.base.tree import TokenTree
from specplan.measure.decoder import random_weights
from specplan.measure.draft_names import DraftSource, draft_source
from specplan.measure.drafts import ModelDraft
from specplan.measure.pooled import interval, pooled
from specplan.measure.rank_counts import SCHEMES, count_prompts, replayed
from specplan.measure.tree_decode import decode
from specplan.measure.walk import Sampling
from specplan.render.schemas import json_schema


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return (*target_and_draft(folder), write_prompts(folder / "prompts.jsonl", 6))


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_replayed_rounds_are_those_of_a_real_decode_with_the_measuring_tree():
    target, draft = random_weights(CONFIG, seed=2), random_weights(CONFIG, seed=2, layers=3)
    tree = TokenTree.full([3, 3, 3])
    source = DraftSource("", lambda shape: ModelDraft("", draft, shape, CONFIG.vocab), draft)
    prompts = [[1, 2, 3], [9, 8, 7, 6]]
    with torch.inference_mode():
        (one, two) = count_prompts(target, source, prompts, tokens=80)
        from specplan.measure import rank_counts

        for prompt in prompts:
            found = decode(target, source.make(tree), prompt, tokens=80, sampling=Sampling())
            answered = rank_counts.Answered(tuple(prompt), found.tokens)
            ranks = rank_counts.ranks_of(target, source, answered)
            table = replayed(ranks, len(answered.asked), most_ranks=3, most_depth=3)
            # The last round of the decode may go beyond the answer, where no rank is known.
            assert abs(table[0][0][1] - len(found.rounds)) <= 1
            accepted = sum(hit for row in table for hit, _ in row)
            assert abs(accepted - (found.emitted - len(found.rounds))) <= 3
    assert one.positions == two.positions == 79


def test_the_chances_of_children_agree_with_the_exact_recursion():
    generator = torch.Generator().manual_seed(0)
    target, draft = (torch.softmax(torch.randn(1, 7, generator=generator).double(), dim=1) for _ in range(2))
    sampling = Sampling("topk", 1.0, torch.Generator().manual_seed(1))
    many = (target.expand(20_000, -1), draft.expand(20_000, -1))
    for rule, shares in SCHEMES.items():
        if rule == "typical":
            continue
        found = shares(*many, 3, sampling).mean(dim=0).tolist()
        wanted = child_prob_for(target[0].tolist(), draft[0].tolist(), rule=rule, count=3)
        assert found == pytest.approx(wanted, abs=3e-3 if rule == "without_replacement" else 1e-9)


def test_a_draft_that_is_the_target_is_always_accepted():
    target = random_weights(CONFIG, seed=2)
    source = DraftSource("", lambda tree: ModelDraft("", target, tree, CONFIG.vocab), target)
    with torch.inference_mode():
        greedy = list(count_prompts(target, source, [[1, 2, 3]], tokens=40))
        sampled = list(count_prompts(target, source, [[1, 2, 3]], tokens=40, temperature=1.0))
    assert pooled(greedy, "greedy", 0.0).row(1, 2) == (1.0, 0.0)
    assert pooled(sampled, "without_replacement", 1.0).row(1, 2) == pytest.approx((1.0, 0.0), abs=1e-4)


def test_an_interval_by_prompt_is_wider_when_prompts_differ():
    alike = interval([0.5] * 20, lambda drawn: sum(drawn) / len(drawn))
    apart = interval([0.0, 1.0] * 10, lambda drawn: sum(drawn) / len(drawn))
    assert alike.high - alike.low == 0
    assert apart.high - apart.low > 0.3
    assert interval([1.0], lambda drawn: 1.0) is None


def test_the_document_plans_a_tree(specplan, models, tmp_path):
    target, draft, prompts = models
    out = str(tmp_path / "acceptance.json")
    arguments = f"measure acceptance --model {target} --draft {draft} --prompts {prompts} --tokens 60 --out {out}"
    ran = specplan(f"{arguments} --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("acceptance"))
    assert ran.json == json.loads((tmp_path / "acceptance.json").read_text())
    assert len(ran.json["measured"]["prompts"]) == 6
    assert ran.json["rule"] == "greedy"
    planned = specplan(f"tree --acceptance {out} --budget 8 --json")
    assert planned.code == 0, planned.err
    assert planned.json["tau"] > 1.5
    again = specplan(f"acceptance {out} --json")
    assert again.json["child_prob"] == ran.json["child_prob"]
    said = specplan(arguments)
    assert "tokens a round" in said.out.splitlines()[0]


@pytest.mark.parametrize("rule", ["", "--rule topk", "--rule strict", "--rule typical"])
def test_sampled_answers_give_a_vector_for_every_rule(specplan, models, rule):
    target, draft, prompts = models
    files = f"--model {target} --draft {draft} --prompts {prompts}"
    ran = specplan(f"measure acceptance {files} --tokens 30 --temperature 1 {rule} --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("acceptance"))
    vectors = ran.json["measured"]["child_prob_by_rule"]
    assert set(vectors) == {"topk", "without_replacement", "strict", "typical"}
    assert ran.json["child_prob"] == vectors[ran.json["rule"]]
    assert sum(vectors["without_replacement"][:2]) > sum(vectors["topk"][:2])
    assert sum(vectors["strict"]) <= 1


def test_an_early_exit_gives_the_rate_of_every_layer(specplan, models):
    target, _, prompts = models
    arguments = f"measure acceptance --model {target} --draft early-exit:3 --prompts {prompts} --tokens 60"
    ran = specplan(f"{arguments} --json")
    layers = ran.json["measured"]["exit_layers"]
    assert list(layers) == ["1", "2", "3"]
    assert layers["3"] > layers["1"]
    said = specplan(arguments).out
    rates = next(line for line in said.splitlines() if "--exit-layer" in line).split("--exit-layer ")[1]
    planned = specplan(f"plan --gpu h100 --model llama-3-8b --method layerskip --exit-layer {rates}")
    assert planned.code == 0, planned.err


def test_ngrams_are_counted_along_the_answer(specplan, models):
    target, _, prompts = models
    ran = specplan(f"measure acceptance --model {target} --draft ngram:2 --prompts {prompts} --tokens 200 --json")
    assert ran.code == 0, ran.err
    assert ran.json["child_prob"][0][0] > 0.2
    sampled = specplan(
        f"measure acceptance --model {target} --draft ngram --prompts {prompts} --tokens 60 --temperature 1 --json"
    )
    assert sampled.json["rule"] == "topk"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("--draft early-exit:4", "early-exit:4: give a whole number from 1 to 3"),
        ("--draft early-exit", "give a whole number"),
        ("--draft skip:0-1", "'0-1' is not a layer from 1 to 2"),
        ("--draft nothing", "nothing: no such file or directory"),
        ("--rule topk", "--rule topk at temperature 0"),
        ("--draft ngram --temperature 1 --rule strict", "--rule strict with --draft ngram"),
        ("--temperature -1", "--temperature"),
        ("--temperature 1e-42", "--temperature 1e-42 is neither 0 nor from 0.001 to 100"),
        ("--seed 99999999999999999999999", "--seed 99999999999999999999999 is not from 0"),
        ("--out /nowhere/at/all.json", "/nowhere/at/all.json: cannot be written"),
        ("--dtype int4", "int4"),
        ("--tokens 0", "--tokens"),
        ("--tokens 600", "prompt 1 has 6 tokens, with an answer of 600 longer than the context of 512"),
        ("--device cuda:99", "cuda:99"),
    ],
)
def test_what_cannot_be_measured_is_refused(specplan, models, change, named):
    target, draft, prompts = models
    ran = specplan(f"measure acceptance --model {target} --draft {draft} --prompts {prompts} --tokens 20 {change}")
    assert ran.code == (4 if "cuda" in change or "nowhere" in change else 2)
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 2
    assert named in ran.err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_running_out_of_memory_is_a_matter_of_the_environment(refused, models, monkeypatch, error):
    from specplan.measure import rank_counts

    def full(*arguments, **named):
        raise error

    monkeypatch.setattr(rank_counts, "prefill", full)
    target, draft, prompts = models
    said = refused(f"measure acceptance --model {target} --draft {draft} --prompts {prompts} --tokens 4", code=4)
    assert "out of memory" in said


def test_a_vocabulary_smaller_than_the_ranks_that_are_counted():
    small = type(CONFIG)(layers=1, hidden=16, intermediate=16, heads=2, kv_heads=1, head_dim=8, vocab=5)
    target, draft = random_weights(small, seed=1), random_weights(small, seed=2)
    source = DraftSource("d", lambda tree: ModelDraft("d", draft, tree, 5), draft)
    (counts,) = count_prompts(target, source, [[1, 2]], tokens=9, temperature=1.0)
    for sums in (counts.sums["topk"], counts.sums["without_replacement"]):
        assert len(sums) == 5
        assert sum(sums) == pytest.approx(counts.positions)
    with pytest.raises(Exception, match="a tree with 6 children of a node, and a vocabulary of 5"):
        decode(target, source.make(TokenTree.full(6, 1)), [1, 2], tokens=4, sampling=Sampling())


def test_another_vocabulary_is_refused(models):
    target = random_weights(CONFIG, seed=2)
    with pytest.raises(Exception, match="vocabularies differ"):
        draft_source(
            "x",
            target,
            target_path="y",
            load=lambda path: random_weights(
                type(CONFIG)(layers=1, hidden=16, intermediate=16, heads=2, kv_heads=1, head_dim=8, vocab=999)
            ),
        )


def test_an_interrupted_measurement_keeps_what_it_has(specplan, models, tmp_path, monkeypatch):
    from specplan.measure import rank_counts

    counted_one = rank_counts.count_one
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return counted_one(*arguments)

    monkeypatch.setattr(rank_counts, "count_one", interrupted)
    target, draft, prompts = models
    out = tmp_path / "acceptance.json"
    ran = specplan(f"measure acceptance --model {target} --draft {draft} --prompts {prompts} --tokens 20 --out {out}")
    assert (ran.code, ran.out) == (130, "")
    kept = tmp_path / "acceptance.incomplete.json"
    assert f"2 of 6 prompts are in {kept}" in ran.err
    assert not out.exists()
    assert len(json.loads(kept.read_text())["measured"]["prompts"]) == 2


def test_without_torch_the_install_line_is_said(refused, models, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else find(name, *more))
    for verb in ("acceptance", "decode"):
        assert "pip install 'specplan[measure]'" in refused(f"measure {verb} --model x --draft y --prompts z", 4)
