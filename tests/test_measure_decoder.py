"""The decoder: the same numbers as transformers, and rows of a tree equal to their paths run alone."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from specplan import load_model
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.measure.decoder import DecoderConfig, KVCache, causal_mask, random_weights

SHAPE = DecoderConfig(layers=3, hidden=48, intermediate=96, heads=6, kv_heads=2, head_dim=8, vocab=61)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(decoder, tokens, cache, mask=None, positions=None, *, commit=True):
    """Logits of a pass over new tokens; by default after one another, and committed."""
    n, length = len(tokens), cache.length
    rows = torch.arange(length, length + n)
    mask = causal_mask(n, length) if mask is None else mask
    positions = rows if positions is None else positions
    logits = decoder.forward(torch.tensor([tokens]), positions, cache, mask, rows)[0]
    if commit:
        cache.keep(range(n))
    return logits


def tree_inputs(tree, length):
    """The mask over cache and tree, and the positions, from what the tree exports."""
    inner = torch.tensor(tree.mask_with_root(), dtype=torch.bool)
    mask = torch.cat((torch.ones(tree.width, length, dtype=torch.bool), inner), dim=1)
    return mask, torch.tensor([length, *(length + depth for depth in tree.position_offsets)])


TREES = [
    TokenTree.chain(4),
    TokenTree.full([4, 2, 1]),
    TokenTree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (2, 0), (0, 1, 0), (2, 0, 0), (0, 1, 0, 1), (0, 1, 0, 0)]),
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{tree.nodes} nodes")
def test_every_row_of_a_tree_equals_its_path_run_alone(tree):
    decoder = random_weights(SHAPE, dtype=torch.float64, seed=3)
    generator = torch.Generator().manual_seed(5)
    prompt = torch.randint(SHAPE.vocab, (17,), generator=generator).tolist()
    tokens = torch.randint(SHAPE.vocab, (tree.width,), generator=generator).tolist()
    cache = decoder.new_cache(64)
    run(decoder, prompt, cache)
    mask, positions = tree_inputs(tree, len(prompt))
    logits = run(decoder, tokens, cache, mask, positions, commit=False)
    for node in range(tree.nodes):
        path = [*reversed(tree.ancestors(node)), node]
        alone = run(decoder, [*prompt, tokens[0], *(tokens[i + 1] for i in path)], decoder.new_cache(64))[-1]
        assert (logits[node + 1] - alone).abs().max() < 1e-12


@pytest.mark.parametrize("path", [(), (2,), (2, 5), (0, 4, 6)])
def test_after_a_path_is_committed_the_next_token_is_that_of_plain_decoding(path):
    decoder = random_weights(SHAPE, dtype=torch.float64, seed=3)
    tree = TREES[2]
    prompt, tokens = [1, 2, 3, 4, 5], list(range(20, 20 + tree.width))
    cache = decoder.new_cache(64)
    run(decoder, prompt, cache)
    run(decoder, tokens, cache, *tree_inputs(tree, len(prompt)), commit=False)
    cache.keep([0, *(node + 1 for node in path)])
    after = run(decoder, [9], cache)[-1]
    alone = run(decoder, [*prompt, tokens[0], *(tokens[node + 1] for node in path), 9], decoder.new_cache(64))[-1]
    assert (after - alone).abs().max() < 1e-12


def test_sequences_of_a_batch_do_not_see_each_other():
    decoder = random_weights(SHAPE, dtype=torch.float64)
    texts = [[1, 2, 3], [7, 8, 9]]
    together = decoder.forward(
        torch.tensor(texts), torch.arange(3), decoder.new_cache(8, batch=2), causal_mask(3), torch.arange(3)
    )
    for text, logits in zip(texts, together):
        assert (logits - run(decoder, text, decoder.new_cache(8))).abs().max() < 1e-12


def test_an_early_exit_fills_the_first_layers_of_the_cache_with_the_targets_own_values():
    decoder = random_weights(SHAPE, dtype=torch.float64)
    early, full = decoder.new_cache(8), decoder.new_cache(8)
    first = decoder.with_layers(range(2))
    run(first, [1, 2, 3], early.first_layers(2))
    run(decoder, [1, 2, 3], full)
    assert torch.equal(early.buffer[:2], full.buffer[:2])
    assert not early.buffer[2:].any()


def test_rows_may_overlap_when_a_path_is_kept():
    cache = KVCache(torch.arange(6.0).reshape(1, 1, 1, 1, 6, 1).repeat(1, 2, 1, 1, 1, 1), length=1)
    cache.keep([1, 2, 4])
    assert cache.buffer[0, 0, 0, 0, :, 0].tolist() == [0, 2, 3, 5, 4, 5]
    assert cache.length == 4


# ---- the same numbers as transformers

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 5e5,
}  # fmt: skip
SIZES = {
    "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "head_dim": 8,
    "num_key_value_heads": 2, "vocab_size": 61,
}  # fmt: skip


# ---- shapes


def test_a_bundled_model_keeps_its_matrix_sizes():
    model = load_model("llama-3-8b")
    config = DecoderConfig.from_model(model)
    assert config.weights == sum(linear.params_total for linear in model.linears) + model.embedding_params
    assert (config.heads, config.kv_heads, config.intermediate) == (32, 8, 14336)


def test_experts_have_no_decoder_here():
    with pytest.raises(InputError, match="not a dense model"):
        DecoderConfig.from_model(load_model("mixtral-8x7b"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "gemma2"}, "model type 'gemma2'"),
        ({"hidden_act": "gelu"}, "hidden_act gelu"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope scaling 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "rope scaling without a usable factor"),
        ({"num_key_value_heads": 4}, "6 heads over 4 KV heads"),
        ({"sliding_window": 16}, "sliding_window 16"),
        ({"mlp_bias": True}, "mlp_bias True"),
    ],
)
def test_a_config_that_is_not_computed_here_is_refused_by_name(change, named):
    with pytest.raises(InputError, match=named):
        DecoderConfig.from_hf({"model_type": "llama", **SIZES, **change})
