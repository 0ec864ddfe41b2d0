"""Exports for transformers, run through its own assisted generation on models of a few thousand weights."""

from __future__ import annotations

import pytest

from specplan.base.tree import TokenTree
from specplan.stacks.export import export

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
candidates = pytest.importorskip("transformers.generation.candidate_generator")

pytestmark = pytest.mark.filterwarnings("ignore")


def tiny(seed=1):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def drafted(monkeypatch):
    """(tokens so far, tokens drafted) of every round, as the stack's own candidate generators propose them."""
    lengths = []
    for generator in (candidates.AssistedCandidateGenerator, candidates.PromptLookupCandidateGenerator):
        original = generator.get_candidates

        def spy(self, input_ids, *args, original=original, **kwargs):
            proposed = original(self, input_ids, *args, **kwargs)
            lengths.append((input_ids.shape[1], proposed[0].shape[1] - input_ids.shape[1]))
            return proposed

        monkeypatch.setattr(generator, "get_candidates", spy)
    return lengths


PROMPT, TOKENS = (1, 2, 3), 60


def left(so_far):
    """Tokens that may still be drafted: the round itself emits the last one."""
    return len(PROMPT) + TOKENS - so_far - 1


def run(command, prompt=PROMPT):
    """Run an exported command with a model that drafts what it would say itself, so that all is accepted."""
    model, assistant = tiny(), tiny()
    inputs = {
        "input_ids": torch.tensor([prompt]),
        "max_new_tokens": TOKENS,
        "do_sample": False,
        "pad_token_id": 0,
        "eos_token_id": None,
    }
    exec(command, {"model": model, "assistant": assistant, "inputs": inputs})


@pytest.mark.parametrize("k", [1, 5, 16])
def test_every_round_drafts_the_exported_length(drafted, k):
    run(export(TokenTree.chain(k), to="transformers", method="chain").command)
    assert drafted[0][1] == k
    assert [length for _, length in drafted] == [min(k, left(so_far)) for so_far, _ in drafted]


def test_the_same_numbers_as_arguments_of_generate_are_ignored(drafted):
    # Why the exported command goes through the assistant's generation config. If this fails, generate() reads them now.
    settings = export(TokenTree.chain(5), to="transformers", method="chain").settings
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    run(f"model.generate(**inputs, assistant_model=assistant, {arguments})")
    assert drafted[0][1] != 5


def test_an_early_exit_drafts_the_exported_length(drafted):
    run(export(TokenTree.chain(4), to="transformers", method="layerskip", exit_layer=1).command)
    assert drafted[0][1] == 4
    assert [length for _, length in drafted] == [min(4, left(so_far)) for so_far, _ in drafted]


def test_prompt_lookup_drafts_at_most_the_exported_length(drafted):
    run(export(TokenTree.chain(3), to="transformers", method="ngram").command, prompt=(1, 2, 3) * 4)
    assert max(length for _, length in drafted) == 3


def test_settings_are_keys_of_the_generation_config():
    known = transformers.GenerationConfig().to_dict()
    for method, how in (("chain", {}), ("layerskip", {"exit_layer": 1}), ("ngram", {}), ("mtp", {})):
        assert set(export(TokenTree.chain(2), to="hf", method=method, **how).settings) <= set(known)
