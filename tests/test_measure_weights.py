"""Weights from files: the same logits as transformers, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("torch")

import torch

from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.measure.adapter import load_any
from specplan.measure.decoder import causal_mask
from specplan.measure.drafts import ModelDraft, NgramDraft
from specplan.measure.text import load_tokenizer, read_prompts
from specplan.measure.tree_decode import NoDraft, decode
from specplan.measure.walk import Sampling
from specplan.measure.weights import half_split, load_decoder

gguf = pytest.importorskip("gguf")
safetensors_torch = pytest.importorskip("safetensors.torch")

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 5e5,
}  # fmt: skip
SIZES = {
    "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6, "head_dim": 8,
    "num_key_value_heads": 2, "vocab_size": 61, "max_position_embeddings": 512,
}  # fmt: skip
FAMILIES = {
    "llama": ("LlamaConfig", {}),
    "llama, llama3 positions, tied": ("LlamaConfig", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama, linear positions, biases": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}, "attention_bias": True},
    ),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {}),
}


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


def of_transformers(name, **more):
    """A model of that family with random weights, biases and norms included."""
    transformers = pytest.importorskip("transformers")
    kind, change = FAMILIES[name]
    config = getattr(transformers, kind)(**{**SIZES, **change, **more})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.2 + (1.0 if parameter.dim() == 1 else 0.0)
    return model


def logits_of(decoder, tokens):
    rows = torch.arange(tokens.shape[1])
    return decoder.forward(tokens, rows, decoder.new_cache(64), causal_mask(len(rows)), rows)


TOKENS = torch.arange(40)[None] * 7 % 61


@pytest.mark.parametrize("name", FAMILIES)
def test_a_saved_model_gives_the_logits_of_transformers(name, tmp_path):
    model = of_transformers(name)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ours = logits_of(load_decoder(str(tmp_path), dtype=torch.float64), TOKENS)
    theirs = model(TOKENS).logits
    # Rotary tables of transformers are fp32.
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()


def test_single_precision_agrees_with_transformers(tmp_path):
    model = of_transformers("llama").float()
    model.save_pretrained(tmp_path)
    ours = logits_of(load_decoder(str(tmp_path)), TOKENS)
    theirs = model(TOKENS).logits
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


# ---- GGUF

GGUF_NAMES = {
    "embed_tokens": "token_embd", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip


def interleaved(matrix, heads):
    """What llama.cpp's converter does to q and k: the two halves of a head become neighbours."""
    return matrix.reshape(heads, 2, -1, *matrix.shape[1:]).transpose(1, 2).reshape(matrix.shape)


def write_gguf(path, model, *, kind=None, leave_out=(), tokens=None):
    """The model as llama.cpp stores it; blocks of `kind` for the matrices where given."""
    writer = gguf.GGUFWriter(path, "llama")
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(512)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    if tokens is not None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(tokens)
        writer.add_token_types([3] + [1] * (len(tokens) - 1))
        writer.add_token_merges(["a b"])
        writer.add_eos_token_id(0)
    for name, tensor in model.state_dict().items():
        parts = name.removeprefix("model.").split(".")
        stored = f"blk.{parts[1]}.{GGUF_NAMES[parts[-2]]}.weight" if parts[0] == "layers" else None
        stored = stored or {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight"}.get(
            parts[0], "output.weight"
        )
        if stored in leave_out:
            continue
        values = tensor.float()
        if parts[-2] in ("q_proj", "k_proj"):
            values = interleaved(values, config.num_attention_heads if "q" in parts[-2] else config.num_key_value_heads)
        array = values.numpy()
        if kind is not None and array.ndim == 2:
            writer.add_tensor(stored, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(stored, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_gives_the_logits_of_the_model_it_was_made_from(tmp_path):
    model = of_transformers("llama").float()
    write_gguf(tmp_path / "m.gguf", model)
    ours = logits_of(load_decoder(str(tmp_path / "m.gguf")), TOKENS)
    theirs = model(TOKENS).logits
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


def test_a_gguf_file_without_an_output_matrix_is_tied(tmp_path):
    model = of_transformers(
        "llama, llama3 positions, tied", rope_parameters={"rope_type": "default", "rope_theta": 1e4}
    )
    write_gguf(tmp_path / "m.gguf", model.float(), leave_out=("output.weight",))
    decoder = load_decoder(str(tmp_path / "m.gguf"))
    assert decoder.config.tied
    assert decoder.head is decoder.embedding
    assert (logits_of(decoder, TOKENS) - model(TOKENS).logits).abs().max() < 1e-3


def test_quantised_blocks_come_back_close_to_what_was_stored(tmp_path):
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8}
    model = of_transformers("llama", **sizes).float()
    write_gguf(tmp_path / "m.gguf", model, kind=gguf.GGMLQuantizationType.Q8_0)
    stored = load_decoder(str(tmp_path / "m.gguf")).layers[1].down
    wanted = model.state_dict()["model.layers.1.mlp.down_proj.weight"]
    assert 0 < (stored - wanted).abs().max() < 0.01


def test_undoing_the_interleaving_gives_the_rows_back():
    rows = torch.arange(24.0).reshape(12, 2)
    assert torch.equal(half_split(interleaved(rows, 3), 3), rows)


# ---- texts


def test_a_byte_level_vocabulary_in_a_gguf_file_cuts_digits_apart(tmp_path):
    tokens = ["<end>", "a", "b", "ab", "1", "2", "12", "Ġ"]
    write_gguf(tmp_path / "m.gguf", of_transformers("llama", vocab_size=8).float(), tokens=tokens)
    tokenizer = load_tokenizer(str(tmp_path / "m.gguf"))
    assert tokenizer.encode("ab 12") == [3, 7, 4, 5]
    assert tokenizer.decode([3, 7, 4]) == "ab 1"
    assert tokenizer.encode("a<end>b") == [1, 0, 2]
    assert tokenizer.end_ids == {0}


@pytest.fixture
def prompts(tmp_path):
    def write(text):
        (tmp_path / "p.jsonl").write_text(text, encoding="utf-8")
        return str(tmp_path / "p.jsonl")

    return write


def test_prompts_may_be_token_ids(prompts):
    assert read_prompts(prompts('{"tokens": [1, 2]}\n\n{"tokens": [3]}\n'), None) == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no prompts"),
        ('{"tokens": [1]}\n{"tokens": []}', r"p.jsonl:2: an empty prompt"),
        ('{"tokens": ["a"]}', "p.jsonl:1: tokens is not a list of ids"),
        ('{"tokens": [true]}', "p.jsonl:1: tokens is not a list of ids"),
        ("{broken", "p.jsonl:1: not JSON"),
        ("hello", "p.jsonl:1: the model has no tokenizer"),
    ],
)
def test_a_prompts_file_that_cannot_be_used_names_its_line(prompts, text, named):
    with pytest.raises(InputError, match=named):
        read_prompts(prompts(text), None)


# ---- what is refused


@pytest.fixture
def saved(tmp_path):
    of_transformers("llama").save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def test_a_directory_without_weights_says_what_is_read(saved):
    (saved / "model.safetensors").unlink()
    with pytest.raises(InputError, match="holds no weights"):
        load_decoder(str(saved))


def test_a_pickled_checkpoint_is_refused_unopened(saved):
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin is a pickled checkpoint"):
        load_decoder(str(saved))
    with pytest.raises(InputError, match="pickled"):
        load_decoder(str(saved / "pytorch_model.bin"))


def test_a_tensor_of_another_shape_is_named_with_both_shapes(saved):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    with pytest.raises(
        InputError, match=r"'model.layers.0.mlp.gate_proj.weight' is 96 x 48, the config describes 64 x"
    ):
        load_decoder(str(saved))


def test_a_missing_tensor_is_named(saved):
    tensors = safetensors_torch.load_file(saved / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if name != "model.norm.weight"}
    safetensors_torch.save_file(kept, saved / "model.safetensors")
    with pytest.raises(InputError, match=r"tensor 'model.norm.weight' is missing"):
        load_decoder(str(saved))


def test_a_damaged_file_and_a_missing_shard_are_named(saved, tmp_path):
    (saved / "model.safetensors").write_bytes(b"\x10" * 30)
    with pytest.raises(InputError, match=r"model.safetensors"):
        load_decoder(str(saved))
    of_transformers("llama").save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    shard = sorted((tmp_path / "shards").glob("model-*"))[1]
    shard.unlink()
    with pytest.raises(InputError, match=shard.name):
        load_decoder(str(tmp_path / "shards"))


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_decoder(str(tmp_path / "nothing"))
    shutil.rmtree(tmp_path, ignore_errors=True)


# ---- other architectures


ADAPTED = {
    "GPTNeoXConfig": {"num_key_value_heads": None, "head_dim": None},
    "CohereConfig": {"logit_scale": 0.25, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "Starcoder2Config": {"sliding_window": None},
}


@pytest.mark.parametrize("kind", ADAPTED)
def test_another_architecture_decodes_with_a_tree_as_it_does_plainly(kind, tmp_path):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, kind)(**{**SIZES, **ADAPTED[kind]})
    torch.manual_seed(1)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_any(str(tmp_path), dtype=torch.float64)
    tree = TokenTree.from_paths([(0,), (1,), (0, 0), (1, 0), (1, 0, 0)])
    plain = decode(model, NoDraft(), [3, 1, 2], tokens=40, sampling=Sampling())
    for draft in (ModelDraft("", model, tree, model.vocab), NgramDraft(tree)):
        found = decode(model, draft, [3, 1, 2], tokens=40, sampling=Sampling())
        assert found.tokens == plain.tokens
    itself = decode(model, ModelDraft("", model, tree, model.vocab), [3, 1, 2], tokens=40, sampling=Sampling())
    assert {one.emitted for one in itself.rounds} <= {3, 4}
    whole = model.model(torch.tensor([[3, 1, 2, *plain.tokens[:-1]]])).logits[0, 2:].argmax(-1)
    assert tuple(whole.tolist()) == plain.tokens


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("Cohere2Config", {"sliding_window": 4}, "its layers are sliding_attention"),
        ("Phi3Config", {"sliding_window": 4}, "its layers are windows of 4 tokens"),
        ("Starcoder2Config", {"sliding_window": 4}, "its layers are windows of 4 tokens"),
        ("FalconConfig", {"alibi": True}, "a pass with a tree's mask fails"),
    ],
)
def test_an_architecture_that_does_not_decode_with_a_tree_is_refused(kind, change, said, tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {name: size for name, size in SIZES.items() if kind != "FalconConfig" or name != "head_dim"}
    config = getattr(transformers, kind)(**sizes, **change, pad_token_id=0, bos_token_id=1, eos_token_id=1)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=said):
        load_any(str(tmp_path), dtype=torch.float32)


def test_a_tree_may_reach_beyond_a_table_of_positions(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=11, n_positions=16, bos_token_id=1, eos_token_id=1
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    model = load_any(str(tmp_path), dtype=torch.float64)
    plain, found = (
        decode(model, draft, [3, 1, 2], tokens=13, sampling=Sampling())
        for draft in (NoDraft(), ModelDraft("", model, TokenTree.chain(4), 11))
    )
    assert found.tokens == plain.tokens
