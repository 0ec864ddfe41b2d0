"""Small models on disk for the tests of `measure`: random weights as a Hugging Face model has them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from specplan.measure.decoder import Decoder, DecoderConfig, random_weights

CONFIG = DecoderConfig(
    layers=4, hidden=32, intermediate=64, heads=4, kv_heads=2, head_dim=8, vocab=64, max_context=512, norm_eps=1e-6
)


def save(decoder: Decoder, folder: Path) -> str:
    """Write the decoder as config.json and safetensors; the folder as text."""
    config, tensors = decoder.config, {"model.embed_tokens.weight": decoder.embedding, "lm_head.weight": decoder.head}
    tensors["model.norm.weight"] = decoder.norm
    q, k = config.heads * config.head_dim, config.kv_heads * config.head_dim
    for index, layer in enumerate(decoder.layers):
        stem = f"model.layers.{index}."
        parts = dict(zip(("q", "k", "v"), layer.qkv.split((q, k, k))))
        tensors |= {f"{stem}self_attn.{name}_proj.weight": part for name, part in parts.items()}
        gate, up = layer.gate_up.chunk(2)
        tensors |= {f"{stem}mlp.gate_proj.weight": gate, f"{stem}mlp.up_proj.weight": up}
        tensors |= {f"{stem}mlp.down_proj.weight": layer.down, f"{stem}self_attn.o_proj.weight": layer.o}
        tensors |= {f"{stem}input_layernorm.weight": layer.attention_norm}
        tensors |= {f"{stem}post_attention_layernorm.weight": layer.mlp_norm}
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    said = {
        "model_type": "llama", "num_hidden_layers": config.layers, "hidden_size": config.hidden,
        "intermediate_size": config.intermediate, "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads, "head_dim": config.head_dim, "vocab_size": config.vocab,
        "max_position_embeddings": config.max_context, "rms_norm_eps": config.norm_eps,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(said))
    return str(folder)


def target_and_draft(folder: Path) -> tuple[str, str]:
    """A model, and a copy with another head that often agrees with it."""
    from dataclasses import replace

    target = random_weights(CONFIG, seed=2)
    noise = torch.randn(target.head.shape, generator=torch.Generator().manual_seed(0)) * target.head.std()
    return save(target, folder / "target"), save(replace(target, head=target.head + 0.3 * noise), folder / "draft")


def write_prompts(path: Path, count: int, *, length: int = 6, seed: int = 0) -> str:
    """Prompts as token ids."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(CONFIG.vocab, (count, length), generator=generator).tolist()
    path.write_text("".join(json.dumps({"tokens": ids}) + "\n" for ids in drawn))
    return str(path)
