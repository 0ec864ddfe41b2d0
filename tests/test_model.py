"""Models from configs, bundled files and weight files: every count to the digit."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
import struct
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.base.errors import EnvironmentProblem, InputError
from specplan.models.huggingface.config import read_config
from specplan.models.huggingface.quant import grouped
from specplan.models.load import aliases, data_folder, describe, load, names
from specplan.models.spec import FORMATS, ModelSpec, load_model
from specplan.models.weights import GGML_TYPES, gguf_header, read_safetensors, safetensors_header

DATA = Path(__file__).parent / "data" / "models"
FACTS = list(csv.DictReader((DATA / "model_facts.csv").read_text(encoding="utf-8").splitlines()))
CLASSES = [json.loads(line) for line in (DATA / "class_counts.jsonl").read_text(encoding="utf-8").splitlines()]

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "torch_dtype": "float16",
}
MOE = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "num_hidden_layers": 8,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "torch_dtype": "bfloat16",
}

KV_HEADS = "num_key_value_heads"

# Fields of a row that its columns do not hold: the published configs of these models.
BEYOND_THE_TABLE: dict[str, dict[str, Any]] = {
    "Qwen/Qwen1.5-MoE-A2.7B": {"shared_expert_intermediate_size": 5632, "n_shared_experts": None},
    "Qwen/Qwen3-Next-80B-A3B-Thinking": {
        "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "shared_expert_intermediate_size": 512,
        "n_shared_experts": None,
    },
    "google/gemma-3-1b-it": {"sliding_window": 512, "sliding_window_pattern": 6},
    "openai-community/gpt2": {"n_positions": 1024, "intermediate_size": None},
    "moonshotai/Kimi-K2-Instruct": {"topk_method": "noaux_tc"},
}


def config_of(row: dict[str, str]) -> dict[str, Any]:
    """The row's columns in the words of a config.json."""
    config: dict[str, Any] = {
        "model_type": row["model_type"].split(">")[-1],
        "num_hidden_layers": int(row["layers"]),
        "hidden_size": int(row["hidden"]),
        "num_attention_heads": int(row["heads"]),
        "num_key_value_heads": int(row["kv_heads"]),
        "vocab_size": int(row["vocab"]),
        "tie_word_embeddings": row["tied_embeddings"] == "True",
        "torch_dtype": "bfloat16",
    }
    optional = {
        "intermediate_size": "ffn_intermediate",
        "moe_intermediate_size": "moe_intermediate",
        "num_experts": "experts",
        "num_experts_per_tok": "experts_per_token",
        "n_shared_experts": "shared_experts",
        "first_k_dense_replace": "first_dense_layers",
        "sliding_window": "window_or_pattern",
        "head_dim": "head_dim",
    }
    config |= {field: int(row[column]) for field, column in optional.items() if row[column].isdigit()}
    heads = re.fullmatch(r"qk (\d+)\+(\d+) / v (\d+)", row["head_dim"])
    if heads:
        ranks = re.findall(r"_lora (\d+|none)", row["attention"])
        latent, queries = (None if rank == "none" else int(rank) for rank in ranks)
        nope, rope, value = map(int, heads.groups())
        config |= {"qk_nope_head_dim": nope, "qk_rope_head_dim": rope, "v_head_dim": value}
        config |= {"kv_lora_rank": latent, "q_lora_rank": queries}
    return config | BEYOND_THE_TABLE.get(row["model_id"], {})


def small(**fields: Any) -> ModelSpec:
    return read_config({**LLAMA, "num_hidden_layers": 4, **fields})


# ---- counts


@pytest.mark.parametrize("row", FACTS, ids=[row["model_id"] for row in FACTS])
def test_every_row_of_the_facts_comes_out_to_the_digit(row: dict[str, str]) -> None:
    model = read_config(config_of(row))
    head = embedding = int(row["vocab"]) * int(row["hidden"])
    assert model.params_total == int(row["computed_total_params"])
    assert model.params_active == int(row["computed_active_plus_head_params"])
    assert model.params_active - head == int(row["computed_active_core_params"])
    copies = embedding if model.tied else 2 * embedding
    assert model.params_total - copies == int(row["computed_nonembedding_params"])
    with_embedding = model.params_active + (0 if model.tied else embedding)
    assert with_embedding == int(row["computed_active_plus_emb_head_params"])
    assert model.kv_bytes_per_token == int(row["kv_bytes_per_token_bf16_all_layers"])
    assert model.kv_bytes_per_token_growing == int(row["kv_bytes_per_token_bf16_growing"])


@pytest.mark.parametrize("case", CLASSES, ids=[case["name"] for case in CLASSES])
def test_counts_equal_those_of_the_module_that_transformers_builds(case: dict[str, Any]) -> None:
    assert read_config(case["config"]).params_total == case["params"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("llama-2-7b", 6738415616),
        ("llama-2-13b", 13015864320),
        ("llama-2-70b", 68976648192),
        ("vicuna-33b", 32528943616),
        ("llama-3-8b", 8030261248),
        ("llama-3.1-8b", 8030261248),
        ("llama-3-70b", 70553706496),
        ("llama-3.1-405b", 405853388800),
        ("mistral-7b", 7241732096),
        ("mixtral-8x7b", 46702792704),
        ("qwen2.5-7b", 7615616512),
        ("qwen2.5-72b", 72706203648),
        ("qwen3-30b-a3b", 30532122624),
        ("gemma-2-9b", 9241705984),
        ("phi-4", 14659507200),
        ("deepseek-v3", 671026419200),
        ("gpt-oss-120b", 116829156672),
        ("gpt-oss-20b", 20914757184),
        ("smollm2-135m", 134515008),
        ("gpt2", 124439808),
    ],
)
def test_bundled_models_have_their_published_number_of_weights(name: str, params: int) -> None:
    assert load(name).params_total == params


def test_seven_billion_weights_in_fp16_are_13_48_gb_and_12_55_gib() -> None:
    model = load("llama-2-7b")
    assert round(model.weight_bytes / 1e9, 2) == 13.48
    assert round(model.weight_bytes / 2**30, 2) == 12.55


# ---- dialects


NESTS = ["text_config", "llm_config", "language_config", "language_model", "thinker_config.text_config"]
SHAPE = ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]


@pytest.mark.parametrize("path", NESTS)
def test_the_nested_language_model_wins_over_the_vision_towers_layers(path: str) -> None:
    nested: dict[str, Any] = dict(LLAMA)
    for key in reversed(path.split(".")):
        nested = {key: nested}
    model = read_config({"num_hidden_layers": 24, "hidden_size": 1024, "tie_word_embeddings": True, **nested})
    assert (model.layers, model.hidden, model.tied) == (32, 4096, True)


@pytest.mark.parametrize("field", SHAPE)
@pytest.mark.parametrize("value", ["absent", None])
def test_a_missing_field_is_named_and_never_replaced(field: str, value: object) -> None:
    config = {k: v for k, v in LLAMA.items() if k != field}
    with pytest.raises(InputError, match=field):
        read_config(config if value == "absent" else {**config, field: None})


def test_a_missing_vocabulary_is_reported_under_its_usual_name() -> None:
    with pytest.raises(InputError, match="'vocab_size' is missing") as refused:
        read_config({k: v for k, v in LLAMA.items() if k != "vocab_size"})
    assert "padded_vocab_size" in refused.value.hint
    assert small(padded_vocab_size=32064).vocab == 32064


def test_llava_takes_the_documented_llama_shape_and_says_so() -> None:
    model = read_config({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}})
    assert model.params_total == 6738415616 + 2 * 64 * 4096
    assert any("hidden_size 4096" in text for text, _ in model.assumptions)


def test_a_nested_config_with_half_a_shape_is_not_completed() -> None:
    with pytest.raises(InputError, match="num_hidden_layers"):
        read_config({"text_config": {"model_type": "llama", "vocab_size": 32064, "hidden_size": 4096}})


def test_a_stated_head_dim_beats_hidden_size_over_heads() -> None:
    model = load("qwen3-0.6b")
    assert model.kv_bytes(40_960) == 4.375 * 2**30


def test_ties_that_the_config_leaves_out_follow_the_class() -> None:
    silent = {k: v for k, v in LLAMA.items() if k != "model_type"}
    for key in ("gemma2", "cohere", "starcoder2", "gpt2"):
        assert read_config({**silent, "model_type": key, "n_positions": 8}).tied
    for key in ("llama", "mistral", "qwen3_moe", "gpt_neox"):
        assert not read_config({**silent, "model_type": key}).tied


def test_qwen2_has_a_bias_on_queries_keys_and_values_without_saying_so() -> None:
    plain, biased = small(), small(model_type="qwen2")
    assert biased.params_total - plain.params_total == 4 * 3 * 4096


def test_a_window_that_is_switched_off_or_longer_than_the_context_is_none() -> None:
    off = small(model_type="qwen2", sliding_window=32768, use_sliding_window=False)
    wide = small(model_type="phi3", sliding_window=262144, max_position_embeddings=131072)
    kept = small(model_type="mistral", sliding_window=4096, max_position_embeddings=32768)
    assert [a.window for m in (off, wide, kept) for a in m.attention] == [None, None, 4096]


def test_windows_interleave_as_each_class_does() -> None:
    def windowed(**fields: Any) -> int:
        return sum(a.layers for a in small(num_hidden_layers=12, **fields).attention if a.window)

    assert windowed(model_type="gemma2") == 6
    assert windowed(model_type="gemma3_text", sliding_window=512) == 10
    assert windowed(model_type="gpt_oss", num_experts=4, num_experts_per_tok=2) == 6
    assert windowed(model_type="cohere2") == 9
    assert windowed(model_type="qwen2", use_sliding_window=True, sliding_window=64, max_window_layers=8) == 4
    kinds = ["sliding_attention", "full_attention", "full_attention"] * 4
    assert windowed(model_type="mistral", sliding_window=64, layer_types=kinds) == 4
    assert windowed(model_type="llama4", attention_chunk_size=64) == 9


@pytest.mark.parametrize("stated", [{}, {"sliding_window": None}])
@pytest.mark.parametrize("kind", ["sliding_attention", "chunked_attention"])
def test_layers_with_a_window_of_no_stated_length_are_an_error(kind: str, stated: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="sliding_window"):
        small(layer_types=["full_attention"] * 3 + [kind], **stated)


def test_layers_with_a_window_need_no_length_where_the_class_has_one_or_the_config_switches_it_off() -> None:
    kinds = ["full_attention"] * 3 + ["sliding_attention"]
    assert [a.window for a in small(model_type="gemma2", layer_types=kinds).attention] == [None, 4096]
    assert [a.window for a in small(model_type="qwen2", layer_types=kinds).attention] == [None]
    assert [a.window for a in small(use_sliding_window=False, layer_types=kinds).attention] == [None]


def test_chatglm_spellings_give_the_canonical_result() -> None:
    model = read_config(
        {
            "model_type": "chatglm",
            "hidden_size": 4096,
            "num_layers": 28,
            "num_attention_heads": 32,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "kv_channels": 128,
            "ffn_hidden_size": 13696,
            "padded_vocab_size": 65024,
            "add_qkv_bias": True,
            "add_bias_linear": False,
            "seq_length": 8192,
            "torch_dtype": "float16",
        }
    )
    assert model.params_total == 6243584000
    assert model.kv_bytes_per_token == 28_672


@pytest.mark.parametrize(
    "spelling",
    [
        {"n_embd": 4096, "n_layer": 32, "n_head": 32},
        {"d_model": 4096, "n_layers": 32, "n_heads": 32},
        {"dim": 4096, "num_decoder_layers": 32, "num_heads": 32},
        {"model_dim": 4096, "num_layers": 32, "num_attention_heads": 32},
    ],
)
def test_other_names_of_a_field_give_the_same_model(spelling: dict[str, int]) -> None:
    rest = {"model_type": "llama", "intermediate_size": 11008, "vocab_size": 32000, "torch_dtype": "float16"}
    assert read_config({**rest, **spelling}).params_total == 6738415616


def test_dbrx_and_mpt_nest_their_heads_and_experts() -> None:
    dbrx = {
        "model_type": "dbrx",
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 40,
        "vocab_size": 100352,
        "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752},
    }
    assert read_config(dbrx).params_total == 131596523520
    assert read_config(dbrx).attention[0].kv_heads == 8


def test_multi_query_means_one_key_value_head() -> None:
    assert small(model_type="falcon", multi_query=True).attention[0].kv_heads == 1
    grouped_heads = small(model_type="falcon", multi_query=True, new_decoder_architecture=True, num_kv_heads=8)
    assert grouped_heads.attention[0].kv_heads == 8


def test_qwen_1_writes_twice_the_width_of_its_mlp() -> None:
    down = next(m for m in small(model_type="qwen").linears if m.name == "down")
    assert down.inputs == 11008 // 2


def test_key_value_heads_and_widths_may_differ_by_layer() -> None:
    model = small(num_key_value_heads=[8, 8, 4, 4], intermediate_size=[1024, 1024, 1024, 2048])
    assert model.kv_bytes_per_token == 2 * (8 + 8 + 4 + 4) * 128 * 2
    assert sorted(m.count for m in model.linears if m.name == "down") == [1, 3]
    with pytest.raises(InputError, match="num_key_value_heads"):
        small(num_key_value_heads=[8, 8])


def test_global_and_local_layers_may_have_two_head_sizes() -> None:
    model = load("gemma-4-26b-a4b")
    geometry = {(a.window, a.kv_heads, a.key_dim, a.layers) for a in model.attention}
    assert geometry == {(1024, 8, 256, 25), (None, 2, 512, 5)}


def test_published_pages_with_another_geometry_do_not_matter() -> None:
    model = load("qwen3-8b")
    assert (model.layers, model.attention[0].heads) == (36, 32)


def test_an_unknown_class_is_counted_from_its_fields_and_said() -> None:
    model = small(model_type="brandnew")
    assert model.params_total == small().params_total
    assert any("brandnew" in text for text, _ in model.assumptions)


def said(model: ModelSpec, words: str) -> bool:
    return any(words in text for text, _ in model.assumptions)


def test_an_unstated_number_of_key_value_heads_is_said_where_grouped_queries_are_usual() -> None:
    words = "no num_key_value_heads"
    assert said(small(), words)
    assert said(small(model_type="brandnew"), words)
    assert not said(small(num_key_value_heads=8), words)
    assert not said(small(model_type="gpt_neox"), words)
    assert not said(small(model_type="falcon", multi_query=True), words)
    assert not said(read_config({k: v for k, v in DEEPSEEK.items() if k != KV_HEADS}), words)


def test_a_config_without_a_model_type_says_what_it_is_read_as() -> None:
    by_architecture = small(model_type=None, architectures=["Qwen2ForCausalLM"])
    assert by_architecture.params_total == small(model_type="qwen2").params_total
    assert said(by_architecture, "names no model_type: read as qwen2 by its architecture Qwen2ForCausalLM")
    assert said(small(model_type=None), "names no model_type; its matrices are counted from the fields as a Llama's")
    assert not said(small(), "model_type")


def test_gemma_3n_counts_its_streams_and_its_second_embedding() -> None:
    kinds = ["sliding_attention"] * 4 + ["full_attention"]
    config = {
        "model_type": "gemma3n_text",
        "hidden_size": 2048,
        "intermediate_size": [8192] * 30,
        "num_hidden_layers": 30,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "vocab_size": 262400,
        "vocab_size_per_layer_input": 262144,
        "hidden_size_per_layer_input": 256,
        "laurel_rank": 64,
        "altup_num_inputs": 4,
        "sliding_window": 512,
        "num_kv_shared_layers": 10,
        "max_position_embeddings": 32768,
        "layer_types": kinds * 6,
    }
    model = read_config(config)
    # The module that transformers 5.24 builds from this config.
    assert model.params_total == 4435182688
    assert not said(model, "not known")
    assert sum(a.layers for a in model.attention if a.window == 512) == 24
    assert read_config({**config, "layer_types": None}).attention == model.attention


# ---- latent attention, experts, recurrent layers


@pytest.mark.parametrize("field", ["kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"])
def test_every_size_of_latent_attention_must_be_stated(field: str) -> None:
    with pytest.raises(InputError, match=f"{field!r} is missing"):
        read_config({k: v for k, v in DEEPSEEK.items() if k != field})


def test_a_config_that_switches_latent_attention_off_needs_none_of_its_sizes() -> None:
    sizes = {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}
    plain = {k: v for k, v in DEEPSEEK.items() if k not in sizes}
    for off in ({"use_mla": False}, {"kv_lora_rank": None}):
        assert {a.latent for a in read_config({**plain, **off}).attention} == {0}


@pytest.mark.parametrize("config", [DEEPSEEK, MOE], ids=["deepseek_v3", "qwen3_moe"])
def test_experts_with_a_width_of_their_own_must_state_it(config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="'moe_intermediate_size' is missing"):
        read_config({k: v for k, v in config.items() if k != "moe_intermediate_size"})


def test_experts_are_as_wide_as_a_dense_layer_where_the_class_has_one_width_or_is_not_known() -> None:
    fields = {k: v for k, v in MOE.items() if k != "moe_intermediate_size"}
    mixtral, unknown = (read_config({**fields, "model_type": key}) for key in ("mixtral", "brandnew"))
    assert {m.inputs for model in (mixtral, unknown) for m in model.linears if m.name == "experts_down"} == {11008}
    assert said(unknown, "no moe_intermediate_size")
    assert not said(mixtral, "no moe_intermediate_size")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("moe_layer_freq", [0, 1]),
        ("moe_layer_freq", [2] * 8),
        ("moe_layer_freq", 0),
        ("decoder_sparse_step", 0),
        ("mlp_layer_types", ["dense", "sparse"]),
    ],
)
def test_a_pattern_that_does_not_place_the_experts_of_every_layer_is_an_error(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        read_config({**MOE, field: value})


def test_latent_attention_caches_the_latent_whatever_the_head_count_says() -> None:
    model = read_config(DEEPSEEK)
    assert model.kv_bytes_per_token == 70_272
    assert round(model.kv_bytes(163_840) / 2**30, 2) == 10.72
    assert {a.latent for a in model.attention} == {576}


def test_latent_attention_ignores_head_dim() -> None:
    flash = {
        "model_type": "glm4_moe_lite",
        "num_hidden_layers": 47,
        "hidden_size": 2048,
        "num_attention_heads": 20,
        "num_key_value_heads": 20,
        "head_dim": 64,
        "intermediate_size": 10240,
        "vocab_size": 154880,
        "n_routed_experts": 64,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1536,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "q_lora_rank": 768,
        "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64,
        "v_head_dim": 256,
    }
    model = read_config(flash)
    assert round(model.params_total / 1e9, 2) == 29.94
    assert (model.attention[0].key_dim, model.attention[0].value_dim) == (256, 256)


def test_prediction_layers_are_kept_apart() -> None:
    model = read_config({**DEEPSEEK, "num_nextn_predict_layers": 1})
    assert round(model.params_total / 1e9, 2) == 671.03
    # The published files hold 684.53e9 numbers: 671.03e9, these, copies of embedding and head, and 0.04e9 scales.
    copies = 2 * 129280 * 7168
    assert round((model.params_total + model.mtp_params + copies) / 1e9, 2) == 684.49
    assert model.layers == 61


def test_active_weights_are_core_and_head() -> None:
    assert round(load("gpt-oss-120b").params_active / 1e9, 2) == 5.13
    assert round(load("deepseek-v3").params_active / 1e9, 2) == 36.63
    mixtral = load("mixtral-8x7b")
    assert round((mixtral.params_active + mixtral.embedding_params) / 1e9, 1) == 12.9
    assert round(load("qwen3-next-80b-a3b").params_active / 1e9, 2) == 3.56


@pytest.mark.parametrize(
    ("fields", "layers_with_experts"),
    [
        ({"first_k_dense_replace": 3}, 5),
        ({"mlp_only_layers": [0, 7]}, 6),
        ({"decoder_sparse_step": 2}, 4),
        ({"moe_layer_freq": 2}, 4),
        ({"moe_layer_freq": [0, 0, 0, 1, 1, 1, 1, 1]}, 5),
        ({"interleave_moe_layer_step": 4}, 2),
        ({"moe_layers": [1, 3]}, 2),
        ({"mlp_layer_types": ["dense"] * 2 + ["sparse"] * 6}, 6),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, 4),
    ],
)
def test_patterns_of_dense_and_expert_layers_are_followed(fields: dict[str, Any], layers_with_experts: int) -> None:
    model = read_config({**MOE, **fields})
    assert sum(m.count for m in model.linears if m.name == "experts_down") == layers_with_experts
    assert sum(m.count for m in model.linears if m.name == "down") == 8 - layers_with_experts


def test_shared_experts_come_by_count_or_by_width() -> None:
    by_count = read_config({**MOE, "n_shared_experts": 2})
    by_width = read_config({**MOE, "shared_expert_intermediate_size": 1024})
    assert by_count.params_total == by_width.params_total
    assert sum(m.params_total for m in by_count.linears if m.group == "shared_experts") == 8 * 3 * 1024 * 4096


def test_a_pass_over_experts_counts_some_and_memory_counts_all() -> None:
    model = read_config(MOE)
    down = next(m for m in model.linears if m.name == "experts_down")
    assert (down.experts, down.active, down.count) == (16, 2, 8)
    assert model.params_active < model.params_total - model.embedding_params
    assert model.weight_bytes == 2 * model.params_total


def test_only_attention_layers_of_a_hybrid_have_a_cache() -> None:
    model = load("qwen3.5-27b")
    assert sum(a.layers for a in model.attention) == 16
    assert model.kv_bytes(262_144) - model.state_bytes == 16 * 2**30
    assert sum(s.layers for s in model.states if s.bits == 32) == 48
    assert model.state_bytes == 48 * (48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2)


def test_a_hybrid_pattern_string_places_its_layers() -> None:
    model = load("nemotron-3-nano-30b-a3b")
    assert sum(a.layers for a in model.attention) == 6
    assert next(m.count for m in model.linears if m.name == "experts_up") == 23
    assert next(m.count for m in model.linears if m.name == "mamba_in") == 23


def test_windows_cap_what_is_read_and_growth_is_not_linear() -> None:
    model = load("gpt-oss-120b")
    assert (model.kv_bytes_per_token, model.kv_bytes_per_token_growing) == (73_728, 36_864)
    assert round(32 * load("gpt-oss-20b").kv_bytes(8192) / 2**30, 2) == 6.09
    assert model.kv_bytes(8192) < 8192 * model.kv_bytes(1)


def test_the_indexer_of_sparse_attention_adds_its_weights_and_its_cache() -> None:
    model = read_config({**DEEPSEEK, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048})
    assert model.params_total == 671877944064
    assert model.kv_bytes_per_token == 61 * (576 + 128) * 2
    assert any("upper bound" in text for text, _ in model.assumptions)


def test_an_eagle_3_head_reads_a_doubled_input_and_a_small_vocabulary() -> None:
    llama = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336}
    config = {
        **llama,
        "num_hidden_layers": 1,
        "vocab_size": 128256,
        "draft_vocab_size": 32000,
        "torch_dtype": "float16",
    }
    model = read_config({**config, "model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]})
    qkv, fusion = 2 * 4096 * 6144, 3 * 4096 * 4096
    assert model.params_total == qkv + fusion + 4096 * 4096 + 3 * 4096 * 14336 + 32000 * 4096 + 4 * 4096
    assert model.embedding_params == 0


# ---- dtypes and quantization


def quantized(block: dict[str, Any], **fields: Any) -> ModelSpec:
    return small(quantization_config=block, **fields)


def test_no_dtype_means_bf16_and_is_said() -> None:
    model = small(torch_dtype=None)
    assert model.format_of("mlp").name == "bf16"
    assert any("no dtype" in text for text, _ in model.assumptions)


def test_a_dtype_asked_for_overrides_the_config() -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    assert read_config(config, dtype="fp16").weight_bytes == 2 * 6738415616


@pytest.mark.parametrize(
    ("block", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + 16 / 128 + 4 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, 8 + 16 / 32 + 8 / 32),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, 4 + 16 / 128 + 4 / 128),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "zero_point": False}, 4 + 16 / 64),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
        ({"quant_method": "fp8", "activation_scheme": "static"}, 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4 + 32 / 64),
        ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 4 + 8 / 64 + 32 / (64 * 256)),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "mxfp4"}, 4.25),
        ({"quant_algo": "NVFP4"}, 4.5),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, 8),
        ({"quant_algo": "W4A16_AWQ", "group_size": 128}, 4.125),
    ],
)
def test_bits_per_weight_include_scales_and_zero_points(block: dict[str, Any], bits: float) -> None:
    assert quantized(block).format_of("mlp").bits == pytest.approx(bits)


def test_a_group_of_128_with_a_16_bit_scale_and_a_16_bit_zero_point_takes_4_25_bits() -> None:
    assert grouped(4, 128, zero_bits=16) == 4.25


@pytest.mark.parametrize("method", ["gptq", "awq", "mlx"])
def test_weights_with_one_scale_per_column_are_not_said_to_have_groups_of_zero(method: str) -> None:
    model = quantized({"quant_method": method, "bits": 4, "group_size": -1})
    assert said(model, "per column, left out: 4 bits per weight")


def test_mlx_packs_two_weights_in_a_byte() -> None:
    model = small(quantization={"group_size": 64, "bits": 4})
    assert model.format_of("mlp").bits == 4 + 32 / 64
    assert model.weight_bytes < model.params_total


def test_compressed_tensors_bits_come_from_the_groups_and_the_cache_from_its_own_scheme() -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head", "re:.*self_attn.*"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
    }
    model = quantized(block)
    assert model.format_of("mlp").bits == 4.125
    assert model.format_of("attention").bits == model.format_of("head").bits == 16
    assert model.kv_bits == 8
    assert quantized({k: v for k, v in block.items() if k != "kv_cache_scheme"}).kv_bits == 16


def test_eight_bit_weights_and_activations_multiply_in_int8() -> None:
    weights = {"num_bits": 8, "type": "int", "strategy": "channel"}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": {"num_bits": 8}}
    model = quantized({"quant_method": "compressed-tensors", "config_groups": {"g": group}})
    assert model.format_of("mlp").multiply_in[0] == "int8"
    group = {"targets": ["Linear"], "weights": weights}
    model = quantized({"quant_method": "compressed-tensors", "config_groups": {"g": group}})
    assert model.format_of("mlp").multiply_in[0] == "bf16"


def test_weight_only_4_bit_multiplies_in_16_bits() -> None:
    model = quantized({"quant_method": "awq", "bits": 4, "group_size": 128})
    assert model.format_of("mlp").multiply_in[0] == "bf16"


def test_modules_left_alone_are_subtracted_layer_by_layer() -> None:
    block = {"quant_algo": "FP8", "exclude_modules": ["lm_head", "model.layers.0.self_attn*", "model.layers.1.mlp"]}
    model = quantized(block)
    assert model.format_of("attention").bits == (16 + 3 * 8) / 4
    assert model.format_of("mlp").bits == (16 + 3 * 8) / 4
    assert model.format_of("head").bits == 16
    assert any("25%" in text for text, _ in model.assumptions)


def test_a_plain_module_name_does_not_match_a_longer_one() -> None:
    block = {"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}
    assert quantized(block).format_of("mlp").bits == 8


def test_mixed_precision_is_read_module_by_module() -> None:
    layers = {f"model.layers.{i}.mlp.{m}_proj": {"quant_algo": "NVFP4"} for i in range(4) for m in ("gate", "down")}
    layers |= {f"model.layers.{i}.self_attn.q_proj": {"quant_algo": "FP8"} for i in range(4)}
    model = quantized({"quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "kv_cache_quant_algo": "FP8"})
    assert (model.format_of("mlp").bits, model.kv_bits) == (4.5, 8)
    assert 8 < model.format_of("attention").bits < 16


def test_only_the_experts_of_gpt_oss_are_in_4_bits() -> None:
    model = load("gpt-oss-120b")
    assert model.format_of("experts").bits == 4.25
    assert {model.format_of(group).bits for group in ("attention", "head", "embedding", "router")} == {16}
    assert model.weight_bytes == pytest.approx(65.2e9, rel=0.002)


def test_an_unknown_quantization_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="magic") as refused:
        quantized({"quant_method": "magic"})
    assert "awq" in refused.value.hint


def test_costly_patterns_are_left_out_and_said() -> None:
    start = time.perf_counter()
    model = quantized({"quant_algo": "FP8", "exclude_modules": ["re:(.+)+$!", "re:.*.*.*.*.*x", "re:("]})
    assert time.perf_counter() - start < 2
    assert any("3 module patterns" in text for text, _ in model.assumptions)


# ---- hostile configs


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", 1e30),
        ("num_hidden_layers", 10**400),
        ("num_hidden_layers", 10_001),
        ("num_hidden_layers", True),
        ("num_hidden_layers", "32"),
        ("num_hidden_layers", 0),
        ("hidden_size", -4096),
        ("hidden_size", float("nan")),
        ("hidden_size", float("inf")),
        ("hidden_size", 4096.5),
        ("hidden_size", [4096]),
        ("vocab_size", 1e12),
        ("num_key_value_heads", 64),
        ("num_key_value_heads", 0),
        ("num_key_value_heads", []),
        ("tie_word_embeddings", "yes"),
        ("torch_dtype", 16),
        ("torch_dtype", "float17"),
        ("quantization_config", [4]),
        ("layer_types", ["nonsense"] * 32),
        ("layer_types", ["full_attention"]),
        ("num_experts", -1),
        ("architectures", "LlamaForCausalLM"),
    ],
)
def test_an_absurd_value_is_a_clean_error_that_names_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field if field != "torch_dtype" or value == 16 else "dtype"):
        read_config({**LLAMA, field: value})


def test_more_active_experts_than_experts_is_an_error() -> None:
    with pytest.raises(InputError, match="num_experts_per_tok"):
        read_config({**MOE, "num_experts_per_tok": 17})


def test_ten_thousand_different_layers_are_read_quickly() -> None:
    start = time.perf_counter()
    read_config({**LLAMA, "num_hidden_layers": 10_000, "intermediate_size": list(range(1, 10_001))})
    assert time.perf_counter() - start < 10


EXTRA_NAMES = {"quantization_config", "torch_dtype", "text_config", "quantization", "block_configs"}
NAMES = sorted({key for case in CLASSES for key in case["config"]} | EXTRA_NAMES)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 300)
    | st.integers()
    | st.floats()
    | st.sampled_from(["fp8", "gptq", "auto", "M*-E", "LLG", "bfloat16", "full_attention", "", "re:(a+)+"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def model_or_none(document: Any) -> ModelSpec | None:
    """The model, or None after the one kind of error that is allowed."""
    try:
        return read_config(document)
    except InputError:
        return None


@settings(max_examples=300, deadline=2000)
@given(st.sampled_from(CLASSES), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_any_change_to_a_config_gives_a_model_or_a_clean_error(case: dict[str, Any], change: dict[str, Any]) -> None:
    model = model_or_none({**case["config"], **change})
    if model is not None:
        assert 0 < model.params_active <= model.params_total
        assert model.weight_bytes > 0


@settings(max_examples=200, deadline=2000)
@given(VALUES)
def test_any_json_gives_a_model_or_a_clean_error(document: object) -> None:
    model = model_or_none(document)
    assert model is None or model.params_total > 0


# ---- bundled files and paths


def test_every_bundled_file_loads_and_names_itself_and_its_source() -> None:
    assert len(names()) >= 20
    for name in names():
        model = load(name)
        text = (data_folder() / f"{name}.yaml").read_text(encoding="utf-8")
        assert model.name == name
        assert "\nsources:\n  config: https://" in text
        assert text.startswith(f"name: {name}\n")


def test_the_models_that_people_name_are_there() -> None:
    wanted = """llama-2-7b llama-2-13b llama-2-70b llama-3-8b llama-3-70b llama-3.1-8b llama-3.1-405b llama-3.2-1b
        llama-3.2-3b mistral-7b mixtral-8x7b qwen2.5-7b qwen2.5-72b qwen3-0.6b qwen3-8b qwen3-32b qwen3-30b-a3b
        gemma-2-9b gemma-3-27b phi-4 deepseek-v3 gpt-oss-120b gpt-oss-20b vicuna-7b vicuna-13b vicuna-33b llama-68m
        llama-160m tinyllama-1.1b sheared-llama-1.3b smollm2-135m"""
    assert set(wanted.split()) <= set(names())


def test_an_alias_names_one_model_only() -> None:
    seen: dict[str, str] = {}
    for path in sorted(data_folder().glob("*.yaml")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("  - "):
                assert seen.setdefault(line[4:].casefold(), path.stem) == path.stem
    assert not set(seen) & set(names())


def test_names_and_hub_ids_resolve_in_any_letter_case() -> None:
    assert load("META-LLAMA/llama-2-13B-HF").name == load("Llama-2-13b").name == "llama-2-13b"


def test_an_unknown_name_gets_the_nearest_names_and_how_to_pass_a_path() -> None:
    with pytest.raises(InputError, match="lama-3-8b") as refused:
        load("lama-3-8b")
    assert "'llama-3-8b'" in refused.value.hint
    assert "config.json" in refused.value.hint


@pytest.mark.parametrize("name", ["", "\0", "a" * 5000, "../models/gpt2", "/", "nul\0l.gguf"])
def test_an_odd_name_is_a_clean_error(name: str) -> None:
    with pytest.raises(InputError):
        load(name)


def test_a_config_is_read_from_its_file_and_from_its_directory(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert load(str(tmp_path)).params_total == load(str(tmp_path / "config.json")).params_total == 6738415616


@pytest.mark.parametrize("text", ["", "[1]", "{", "nul", "[" * 100_000])
def test_a_file_that_is_no_config_is_a_clean_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        load(str(tmp_path))


def test_a_key_that_a_config_says_twice_is_an_error(tmp_path: Path) -> None:
    text = json.dumps(LLAMA)
    (tmp_path / "config.json").write_text('{"hidden_size": 8, ' + text[1:])
    with pytest.raises(InputError, match="'hidden_size' appears twice"):
        load(str(tmp_path))


def test_infinity_is_read_since_published_configs_hold_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}))
    assert load(str(tmp_path)).params_total == 6738415616


def test_a_separate_quantization_file_counts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    extra = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(extra))
    model = load(str(tmp_path))
    assert (model.format_of("mlp").bits, model.format_of("head").bits, model.kv_bits) == (4.5, 16, 8)


def test_the_description_adds_up_and_is_plain_json() -> None:
    for name in ("llama-3.2-1b", "gpt-oss-20b", "deepseek-v3", "qwen3.5-27b"):
        facts = describe(load(name))
        assert json.loads(json.dumps(facts, allow_nan=False)) == facts
        assert sum(facts["weight_bytes_by_group"].values()) == facts["weight_bytes"]
        assert facts["params_active"] <= facts["params_streamed"] <= facts["params_total"]
        assert sum(a["layers"] for a in facts["geometry"]["attention"]) <= facts["geometry"]["layers"]


def test_a_tied_head_is_streamed_and_counted_once() -> None:
    model = load("llama-3.2-1b")
    assert model.params_streamed == model.params_total == 1235814400
    assert load("llama-2-13b").params_streamed == 13015864320 - 32000 * 5120


def test_aliases_are_found_without_parsing() -> None:
    assert aliases()["Qwen/Qwen3-8B"] == "qwen3-8b"


# ---- weight files

TINY = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "torch_dtype": "float16",
}
TINY_MATRICES = {
    "self_attn.q_proj": (256, 256),
    "self_attn.k_proj": (128, 256),
    "self_attn.v_proj": (128, 256),
    "self_attn.o_proj": (256, 256),
    "mlp.gate_proj": (512, 256),
    "mlp.up_proj": (512, 256),
    "mlp.down_proj": (256, 512),
}


def write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """A safetensors file with empty data: name -> (dtype, shape, bytes)."""
    header, at = {}, 0
    for name, (dtype, shape, nbytes) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + nbytes]}
        at += nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))


def packed_llama() -> dict[str, tuple[str, list[int], int]]:
    """The tensors of a tiny 4-bit GPTQ checkpoint: eight weights in an int32."""
    tensors = {
        "model.embed_tokens.weight": ("F16", [1000, 256], 512_000),
        "lm_head.weight": ("F16", [1000, 256], 512_000),
        "model.norm.weight": ("F16", [256], 512),
        "vision_tower.weight": ("F16", [512], 1024),
    }
    for layer in range(2):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = ("F16", [256], 512)
        for name, (outputs, inputs) in TINY_MATRICES.items():
            stem, groups = f"model.layers.{layer}.{name}", inputs // 128
            tensors[stem + ".qweight"] = ("I32", [inputs // 8, outputs], inputs * outputs // 2)
            tensors[stem + ".qzeros"] = ("I32", [groups, outputs // 8], groups * outputs // 2)
            tensors[stem + ".scales"] = ("F16", [groups, outputs], 2 * groups * outputs)
    return tensors


def test_packed_integers_are_bytes_and_never_parameters(tmp_path: Path) -> None:
    block = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (tmp_path / "config.json").write_text(json.dumps({**TINY, "quantization_config": block}))
    write_safetensors(tmp_path / "model.safetensors", packed_llama())
    model = load(str(tmp_path))
    expected = sum(nbytes for name, (_, _, nbytes) in packed_llama().items() if "vision" not in name)
    assert model.params_total == read_config(TINY).params_total == 1692928
    assert model.weight_bytes == expected
    assert model.weight_bytes == read_config({**TINY, "quantization_config": block}).weight_bytes
    assert read_safetensors(tmp_path).total_bytes == expected


def test_a_dtype_asked_for_overrides_the_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    write_safetensors(tmp_path / "model.safetensors", packed_llama())
    assert load(str(tmp_path), dtype="fp16").weight_bytes == 2 * 1692928


def test_a_weight_file_alone_points_to_its_directory(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", packed_llama())
    with pytest.raises(InputError, match=r"model\.safetensors: weights, without the config") as refused:
        load(str(tmp_path / "model.safetensors"))
    assert str(tmp_path) in refused.value.hint


def test_layers_past_the_last_are_prediction_layers_and_left_out_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**TINY, "num_nextn_predict_layers": 1}))
    tensors = {name: entry for name, entry in packed_llama().items() if "vision" not in name}
    write_safetensors(tmp_path / "model.safetensors", {**tensors, "model.layers.2.mlp.x": ("F16", [9], 18)})
    assert load(str(tmp_path)).weight_bytes == sum(nbytes for _, _, nbytes in tensors.values())
    assert read_safetensors(tmp_path, layers=2).bytes_by_group["mtp"] == 18


def test_files_with_another_number_of_weights_are_said_and_bytes_come_from_the_geometry(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    write_safetensors(tmp_path / "model.safetensors", {"model.embed_tokens.weight": ("F16", [1000, 256], 512_000)})
    model = load(str(tmp_path))
    assert model.weight_bytes == 2 * 1692928
    assert said(model, "256,000 weights, the config describes 1,692,928: bytes come from the geometry")


@pytest.mark.parametrize("layers", [1, 3])
def test_a_config_and_weight_files_with_different_layers_are_an_error_that_names_both(
    tmp_path: Path, layers: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**TINY, "num_hidden_layers": layers}))
    write_safetensors(tmp_path / "model.safetensors", packed_llama())
    with pytest.raises(InputError, match=rf"config\.json: describes {layers} layers, the weight files .* hold 2"):
        load(str(tmp_path))


def test_a_small_second_stack_of_layers_does_not_count_as_the_models(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    tower = {f"other.layers.{i}.x": ("F16", [9], 18) for i in range(12)}
    write_safetensors(tmp_path / "model.safetensors", {**packed_llama(), **tower})
    assert read_safetensors(tmp_path).layers == load(str(tmp_path)).layers == 2


def test_missing_shards_are_said_and_bytes_come_from_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    write_safetensors(tmp_path / "model-00001-of-00002.safetensors", {"a": ("F16", [4], 8)})
    model = load(str(tmp_path))
    assert model.weight_bytes == 2 * 1692928
    assert said(model, "00002-of-00002.safetensors): bytes come from the geometry")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x10\0\0",
        (2**62).to_bytes(8, "little"),
        (200).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"{x}",
        (8).to_bytes(8, "little") + b'{"a": 1}',
    ],
)
def test_a_damaged_safetensors_header_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        safetensors_header(tmp_path / "model.safetensors")


def test_a_truncated_safetensors_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"a": ("F16", [4], 8)})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="truncated"):
        safetensors_header(path)


def gguf_string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[list[int], int]]) -> None:
    """A GGUF file with empty data: values are uint32, strings, or lists of strings; name -> (shape, type number)."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        data += gguf_string(key)
        if isinstance(value, str):
            data += struct.pack("<I", 8) + gguf_string(value)
        elif isinstance(value, list):
            data += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_string, value))
        else:
            data += struct.pack("<II", 4, value)
    at = 0
    for name, (shape, kind) in tensors.items():
        data += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
        _, block, nbytes = GGML_TYPES[kind]
        at += -(-(math.prod(shape) // block * nbytes) // 32) * 32
    path.write_bytes(data + bytes(-len(data) % 32 + at))


def tiny_gguf(path: Path, *, tied: bool = False, change: dict[str, Any] | None = None, empty: bool = False) -> None:
    """The tiny Llama with q4_0 layers and a q8_0 embedding; `change` replaces metadata, None removes it."""
    sizes = {"block_count": 2, "embedding_length": 256, "feed_forward_length": 512, "context_length": 4096}
    heads = {"attention.head_count": 4, "attention.head_count_kv": 2}
    metadata: dict[str, Any] = {"general.architecture": "llama"}
    metadata |= {f"llama.{key}": value for key, value in {**sizes, **heads}.items()}
    metadata["tokenizer.ggml.tokens"] = [f"t{i}" for i in range(1000)]
    metadata = {k: v for k, v in {**metadata, **(change or {})}.items() if v is not None}
    tensors: dict[str, tuple[list[int], int]] = {"token_embd.weight": ([256, 1000], 8)}
    tensors["output_norm.weight"] = ([256], 0)
    if not tied:
        tensors["output.weight"] = ([256, 1000], 8)
    short = {"self_attn.q": "attn_q", "self_attn.k": "attn_k", "self_attn.v": "attn_v", "self_attn.o": "attn_output"}
    short |= {"mlp.gate": "ffn_gate", "mlp.up": "ffn_up", "mlp.down": "ffn_down"}
    for layer in range(2):
        for name, (outputs, inputs) in TINY_MATRICES.items():
            tensors[f"blk.{layer}.{short[name.removesuffix('_proj')]}.weight"] = ([inputs, outputs], 2)
        for norm in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{norm}.weight"] = ([256], 0)
    write_gguf(path, metadata, {} if empty else tensors)


@pytest.mark.parametrize("tied", [False, True])
def test_a_gguf_file_gives_geometry_and_bytes_by_tensor_type(tmp_path: Path, tied: bool) -> None:
    tiny_gguf(tmp_path / "tiny.gguf", tied=tied)
    model = load(str(tmp_path / "tiny.gguf"))
    layers = 2 * sum(a * b for a, b in TINY_MATRICES.values())
    copies = 1 if tied else 2
    assert model.params_total == read_config({**TINY, "tie_word_embeddings": tied}).params_total
    assert model.weight_bytes == layers * 18 / 32 + copies * 256_000 * 34 / 32 + 5 * 256 * 4
    assert model.format_of("mlp").name == "q4_0"
    assert model.format_of("head").bits == 8.5


def test_a_gguf_file_that_ends_early_is_an_error_wherever_it_is_cut(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "tiny.gguf")
    whole = (tmp_path / "tiny.gguf").read_bytes()
    for cut in (0, 3, 4, 10, 24, 30, 100, 5000, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.gguf").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"cut\.gguf"):
            gguf_header(tmp_path / "cut.gguf")


def test_gguf_data_that_ends_early_names_the_first_tensor_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_gguf(path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(InputError, match=r"'token_embd\.weight' ends past the last of 20000 bytes: .* truncated"):
        load(str(path))
    tiny_gguf(path, change={"general.alignment": 0})
    with pytest.raises(InputError, match=r"general\.alignment"):
        load(str(path))


def test_a_gguf_file_without_tensors_says_that_its_bytes_are_those_of_the_geometry(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "tiny.gguf", empty=True)
    model = load(str(tmp_path / "tiny.gguf"))
    assert model.weight_bytes == 2 * model.params_total
    assert said(model, "no tensors (fp16 is assumed): bytes come from the geometry")
    assert not said(model, "bytes of the weights from the files")


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("block_count", None, r"metadata 'llama\.block_count' is missing"),
        ("block_count", 0, r"metadata 'llama\.block_count' is 0, outside 1 to 10000"),
        ("block_count", 3, r"describes 3 layers, its tensors are of 2"),
        ("embedding_length", None, r"metadata 'llama\.embedding_length' is missing"),
        ("attention.head_count_kv", 64, r"metadata 'llama\.attention\.head_count_kv' is 64, above the 4"),
    ],
)
def test_what_is_wrong_in_a_gguf_file_has_its_path_and_its_own_name(
    tmp_path: Path, key: str, value: object, what: str
) -> None:
    path = tmp_path / "tiny.gguf"
    tiny_gguf(path, change={f"llama.{key}": value})
    with pytest.raises(InputError, match=re.escape(str(path)) + ": " + what) as refused:
        load(str(path))
    assert "num_hidden_layers" not in str(refused.value)


def test_a_gguf_model_is_named_after_its_file(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "tiny.gguf")
    assert load(str(tmp_path / "tiny.gguf")).name == "tiny"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"GGUX" + bytes(20), "magic"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "metadata entries"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60), "string"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 4, 2**60), "array"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1), "array"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 77), "unknown type"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<I", 2**31), "dimensions"),
    ],
)
def test_an_absurd_gguf_header_is_a_clean_error(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "bad.gguf").write_bytes(data)
    with pytest.raises(InputError, match=what):
        gguf_header(tmp_path / "bad.gguf")


@settings(max_examples=200, deadline=1000)
@given(st.binary(max_size=400))
def test_any_bytes_as_a_header_give_a_clean_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("headers")
    for name, start in (("a.gguf", b"GGUF\x03\0\0\0"), ("a.safetensors", b"")):
        (folder / name).write_bytes(start + data)
    for read in (lambda: gguf_header(folder / "a.gguf"), lambda: safetensors_header(folder / "a.safetensors")):
        with contextlib.suppress(InputError):
            read()


def test_formats_of_gguf_types_agree_with_their_blocks() -> None:
    for name, block, nbytes in GGML_TYPES.values():
        if name in FORMATS:
            assert FORMATS[name].bits == 8 * nbytes / block


def test_the_hub_is_asked_only_online_and_its_trouble_is_a_problem_of_the_environment(monkeypatch, tmp_path):
    name = "someone/a-model-of-theirs"
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 128, "vocab_size": 100}))
    hub = types.ModuleType("huggingface_hub")
    hub.hf_hub_download = lambda repo_id, filename: str(tmp_path / filename) if repo_id == name else 1 / 0
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(InputError, match="unknown model"):
        load_model(name)
    assert load_model(name, online=True).layers == 2
    with pytest.raises(EnvironmentProblem, match="division"):
        load_model("someone/else", online=True)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(EnvironmentProblem) as caught:
        load_model(name, online=True)
    assert "specplan[hub]" in caught.value.hint
