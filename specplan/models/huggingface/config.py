"""A `ModelSpec` from the fields of a Hugging Face `config.json`, in whichever dialect they are written.

Read in four steps: the fields of the language model (`hf_fields`), what its class implies
(`hf_families`), the kind of every layer, and the matrices of each kind. Layers of one kind are counted
together, so that a model of 80 equal layers has five matrices.

    >>> model = read_config({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    ...     "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000, "torch_dtype": "float16"})
    >>> model.params_total
    6738415616
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..spec import Attention, Linear, ModelSpec, State
from .families import MULTI_HEAD, Family, family_of
from .fields import MAX_LAYERS, Fields, language_fields
from .quant import placed, read_formats

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "attn_config.kv_n_heads")
HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
VOCAB = ("vocab_size", "padded_vocab_size")
CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_sequence_length", "max_seq_len")
FFN = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "ffn_config.ffn_hidden_size", "hidden_dim")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "ffn_config.moe_num_experts")
ACTIVE = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_top_k",
    "top_k_experts",
    "moe_topk",
    "moe_k",
    "num_selected_experts",
    "ffn_config.moe_top_k",
)
EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size")
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
)
SHARED_MLP = ("shared_intermediate_size",)
WINDOW = ("sliding_window", "sliding_window_size", "attention_window_size", "attention_chunk_size")
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers")

# Classes with a second embedding, of a row per token and layer.
PER_LAYER_INPUT = ("gemma3n", "gemma4")
PURE_MAMBA = ("mamba", "mamba2", "falcon_mamba")

# Names of layer kinds in layer_types, layers_block_type and hybrid_override_pattern.
_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "global_attention": "full",
    "*": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "local": "window",
    "local_attention": "window",
    "linear_attention": "delta",
    "hybrid": "full",
    "mamba": "mamba",
    "mamba2": "mamba",
    "m": "mamba",
    "recurrent": "mamba",
    "conv": "conv",
    "mlp": "mlp",
    "-": "mlp",
    "moe": "moe",
    "e": "moe",
}
# Kinds that are new since: judged by a part of their name.
_KIND_PARTS = (
    ("sliding", "window"),
    ("chunked", "window"),
    ("linear", "delta"),
    ("attention", "full"),
    ("sparse", "full"),
)


@dataclass(frozen=True, slots=True)
class Mixer:
    """What carries information between tokens in one layer.

    kind      full, window, delta, mamba, conv or none
    indexed   sparse attention with an indexer of its own
    reuses    keys and values come from an earlier layer: no weights for them
    parallel  a state-space mixer works beside the attention
    """

    kind: str
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    indexed: bool = False
    reuses: bool = False
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Mlp:
    """What works on each token in one layer; kind is dense, moe, both or none; width is the dense one."""

    kind: str
    width: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """The tensors of one mixer or MLP; `other` are norms and biases, of which a token touches `other_active`."""

    linears: tuple[Linear, ...] = ()
    other: int = 0
    other_active: int = 0
    attention: tuple[Attention, ...] = ()
    states: tuple[State, ...] = ()

    @property
    def params(self) -> int:
        return self.other + sum(m.params_total for m in self.linears)


@dataclass(frozen=True, slots=True)
class Shape:
    """What every layer needs to know: the fields, the class, and the sizes that all layers share.

    eagle3   the config is of an EAGLE-3 draft head
    """

    fields: Fields
    key: str
    family: Family
    hidden: int
    layers: int
    window: int | None
    eagle3: bool = False


def read_config(
    config: Mapping[str, Any],
    *,
    name: str = "",
    dtype: str | None = None,
    where: str = "",
    labels: Mapping[str, str] | None = None,
) -> ModelSpec:
    """The model that a Hugging Face `config.json` describes.

    config   the parsed fields, in any dialect; multimodal configs are read for their language model
    name     for the result, and for messages unless `where` says more
    dtype    every weight in this dtype, whatever the config says
    where    the file that the fields come from
    labels   what that file calls the fields, when it is no config.json
    Counts   every weight of the language model; norms and biases included. Multi-token-prediction layers
             are in `mtp_params` alone; vision and audio towers are left out.
    Raises   InputError that names a missing, wrong or absurd field.

    >>> read_config({"hidden_size": 64}, name="tiny")
    Traceback (most recent call last):
    specplan.base.errors.InputError: tiny: required field 'num_hidden_layers' is missing
      hint: it may also be called n_layer, n_layers, num_layers, num_decoder_layers, decoder_layers; \
add it to the config, or describe the model with --params and --layers
    """
    fields = language_fields(config, where or name or "config")
    shape, assumed = _shape(replace(fields, labels=labels or {}))
    plan: dict[tuple[Mixer, Mlp], list[int]] = {}
    for index in range(shape.layers):
        plan.setdefault((_mixer(shape, index), _mlp(shape, index)), []).append(index)
    parts = [(part, layers) for (mixer, mlp), layers in plan.items() for part in _layer_parts(shape, mixer, mlp)]
    model = _assemble(shape, parts, name, assumed + _doubts(shape, plan))
    return model.with_format(dtype) if dtype else _with_formats(shape, model, parts)


# ---- the whole model


def _shape(fields: Fields) -> tuple[Shape, tuple[tuple[str, str], ...]]:
    """The sizes that all layers share, and what had to be assumed for them."""
    architecture = str(next(iter(fields.items("architectures") or ()), ""))[:200]
    key, family = family_of(fields.text("model_type"), architecture)
    assumed = _class_notes(fields, key, family, architecture)
    if family is None:
        family = Family(norm_parts=2 if fields.raw("layer_norm_eps", "layer_norm_epsilon") else 1)
    elif fields.nested:
        fields, filled = _fill(fields, key, family)
        assumed += filled
    if family.latent and fields.flag("use_mla", default=not fields.says("kv_lora_rank")):
        fields.need("kv_lora_rank")
    layers, hidden = _layers(fields), fields.need(*HIDDEN)
    eagle3 = "eagle3" in architecture.casefold()
    if eagle3:
        assumed += (("an EAGLE-3 head: the embedding is the target's and is not counted", "EAGLE-3, section 3"),)
    return Shape(fields, key, family, hidden, layers, _window(fields, family), eagle3), assumed


def _class_notes(fields: Fields, key: str, family: Family | None, architecture: str) -> tuple[tuple[str, str], ...]:
    """How the class was found, where `model_type` alone does not say it."""
    counted = "its matrices are counted from the fields as a Llama's would be"
    if family is None and key == "unknown":
        return ((f"the config names no model_type; {counted}", "config"),)
    if family is None:
        notes = [f"model class {key[:60]!r} is not known; {counted}"]
        if fields.raw(*EXPERTS) is not None and fields.raw(*EXPERT_WIDTH) is None:
            notes.append("no moe_intermediate_size: the experts are taken to be as wide as intermediate_size")
        return tuple((note, "config") for note in notes)
    if fields.text("model_type"):
        return ()
    return ((f"the config names no model_type: read as {key} by its architecture {architecture[:60]}", "config"),)


def _fill(fields: Fields, key: str, family: Family) -> tuple[Fields, tuple[tuple[str, str], ...]]:
    """A nested config with the class defaults that its writer left out."""
    defaults = dict(family.partial)
    if fields.raw(*HIDDEN, *LAYERS, *HEADS) is None:
        defaults |= family.whole
    missing = {k: v for k, v in defaults.items() if fields.values.get(k) is None}
    if not missing:
        return fields, ()
    shown = ", ".join(f"{k} {v}" for k, v in missing.items())
    text = f"the nested config leaves out {shown}: defaults of the {key} class"
    return replace(fields, values={**fields.values, **missing}), ((text, "transformers, configuration of the class"),)


def _layers(fields: Fields) -> int:
    """The number of layers; a list with one entry per layer says it too."""
    pattern = fields.raw("hybrid_override_pattern", "layers_block_type", "block_configs")
    if fields.raw(*LAYERS) is None and pattern is not None and isinstance(pattern[1], (str, list, tuple)):
        if not 1 <= len(pattern[1]) <= MAX_LAYERS:
            fields.wrong(pattern[0], f"has {len(pattern[1])} entries, not 1 to {MAX_LAYERS}")
        return len(pattern[1])
    return fields.need(*LAYERS, most=MAX_LAYERS)


def _layer_parts(shape: Shape, mixer: Mixer, mlp: Mlp) -> list[Part]:
    """The tensors of one layer of this kind."""
    norms = _norms(shape, mixer, mlp)
    extra = (_per_layer_input(shape), _stream_part(shape))
    return [_mixer_part(shape, mixer), _mlp_part(shape, mlp), *extra, Part(other=norms, other_active=norms)]


def _assemble(
    shape: Shape, parts: Sequence[tuple[Part, list[int]]], name: str, assumed: tuple[tuple[str, str], ...]
) -> ModelSpec:
    """Layers, embeddings and head put together."""
    fields, family, hidden = shape.fields, shape.family, shape.hidden
    vocab = fields.whole("padded_vocab_size", least=1) or fields.need(*VOCAB)
    context = fields.whole(*CONTEXT, least=1, most=10**12)
    tied = fields.flag("tie_word_embeddings", "tie_embedding", default=family.tied)
    final = hidden * family.norm_parts * (2 if family.embedding_norm else 1)
    final += vocab if fields.flag("lm_head_bias", default=family.head_bias) else 0
    table, projection, norm = _per_layer_table(shape, vocab)
    final += norm
    outputs = fields.count("draft_vocab_size", default=vocab, least=1)
    embedding = 0 if tied or shape.eagle3 else vocab * hidden
    return ModelSpec(
        name=name or shape.key,
        layers=shape.layers,
        hidden=hidden,
        vocab=vocab,
        linears=(
            *_merged_linears(parts),
            *projection,
            *_fusion(shape),
            *_streams(shape),
            Linear("head", hidden, outputs, 1, "head"),
        ),
        attention=_merged_attention(parts),
        states=_merged_states(parts),
        embedding_params=_positions(shape, context) + table + embedding,
        tied=tied,
        other_params=final + sum(part.other * len(layers) for part, layers in parts),
        other_active=final + sum(part.other_active * len(layers) for part, layers in parts),
        max_context=context,
        mtp_params=_mtp_params(shape),
        assumptions=assumed,
    )


def _positions(shape: Shape, context: int | None) -> int:
    """Weights of learned positions: stored, looked up by row like the input embedding."""
    if shape.family.positions < 0:
        return 0
    if context is None:
        shape.fields.missing(*CONTEXT)
    return (context + shape.family.positions) * shape.hidden


def _fusion(shape: Shape) -> tuple[Linear, ...]:
    """EAGLE-3's projection of three of the target's hidden states to one."""
    if not shape.eagle3:
        return ()
    target = shape.fields.count("target_hidden_size", default=shape.hidden, least=1)
    return (Linear("fusion", 3 * target, shape.hidden, 1, "mlp"),)


def _streams(shape: Shape) -> tuple[Linear, ...]:
    """Gemma 3n's projections between the hidden state and its further streams, there and back (AltUp)."""
    count = shape.fields.count("altup_num_inputs", default=4, least=1, most=64)
    if shape.key != "gemma3n" or count == 1:
        return ()
    names = ("altup_in", "altup_out")
    return tuple(Linear(name, shape.hidden, shape.hidden, count - 1, "mlp", split="none") for name in names)


def _stream_part(shape: Shape) -> Part:
    """What each layer of Gemma 3n adds: a low-rank residual (Laurel), and the mixing of its streams (AltUp)."""
    if shape.key != "gemma3n":
        return Part()
    hidden, fields = shape.hidden, shape.fields
    rank, count = fields.count("laurel_rank", default=64, least=1), fields.count("altup_num_inputs", default=4, most=64)
    other = 3 * hidden + count**2 + count**3
    return Part(
        (
            Linear("laurel_left", hidden, rank, 1, "mlp", split="none"),
            Linear("laurel_right", rank, hidden, 1, "mlp", split="none"),
            Linear("altup_router", hidden, max(1, count), 1, "mlp", split="none"),
        ),
        other,
        other,
    )


def _per_layer_table(shape: Shape, vocab: int) -> tuple[int, tuple[Linear, ...], int]:
    """A second embedding, with a row per token and layer: its weights, its projection and its norm."""
    size = shape.fields.count("hidden_size_per_layer_input")
    if not size or shape.key not in PER_LAYER_INPUT:
        return 0, (), 0
    width = shape.layers * size
    table = width * shape.fields.count("vocab_size_per_layer_input", default=vocab)
    return table, (Linear("per_layer_projection", shape.hidden, width, 1, "mlp"),), size


def _per_layer_input(shape: Shape) -> Part:
    """What each layer does with its row of that embedding."""
    size = shape.fields.count("hidden_size_per_layer_input")
    if not size or shape.key not in PER_LAYER_INPUT:
        return Part()
    hidden = shape.hidden
    linears = (Linear("per_layer_gate", hidden, size, 1, "mlp"), Linear("per_layer_out", size, hidden, 1, "mlp"))
    return Part(linears, hidden, hidden)


def _merged_linears(parts: Iterable[tuple[Part, list[int]]]) -> list[Linear]:
    counts: Counter[Linear] = Counter()
    for part, layers in parts:
        counts.update({linear: len(layers) for linear in part.linears})
    return [replace(linear, count=count) for linear, count in counts.items()]


def _merged_attention(parts: Iterable[tuple[Part, list[int]]]) -> tuple[Attention, ...]:
    counts: Counter[Attention] = Counter()
    for part, layers in parts:
        counts.update({group: len(layers) for group in part.attention})
    return tuple(replace(group, layers=count) for group, count in counts.items())


def _merged_states(parts: Iterable[tuple[Part, list[int]]]) -> tuple[State, ...]:
    counts: Counter[State] = Counter()
    for part, layers in parts:
        counts.update({state: len(layers) for state in part.states})
    return tuple(replace(state, layers=count) for state, count in counts.items())


def _with_formats(shape: Shape, model: ModelSpec, parts: Sequence[tuple[Part, list[int]]]) -> ModelSpec:
    """The dtypes that the config states, by tensor group."""
    where: dict[Linear, list[int]] = {}
    for part, layers in parts:
        for linear in part.linears:
            where.setdefault(linear, []).extend(layers)
    members = [placed(replace(linear, count=len(layers)), layers, shape.key) for linear, layers in where.items()]
    members += [placed(linear, (), shape.key) for linear in model.linears if linear.group == "head"]
    formats, kv_bits, notes = read_formats(shape.fields, members)
    return replace(model, formats=formats, kv_bits=kv_bits, assumptions=model.assumptions + notes)


def _mtp_params(shape: Shape) -> int:
    """Weights of the multi-token-prediction layers: a layer like the last, a projection of 2 hidden to 1, three norms.

    Source  DeepSeek-V3 technical report, section 2.2; embedding and head are shared with the model.
    """
    modules = shape.fields.count(*MTP, most=64)
    if not modules:
        return 0
    last = shape.layers - 1
    layer = sum(part.params for part in _layer_parts(shape, _mixer(shape, last), _mlp(shape, last)))
    return modules * (layer + 2 * shape.hidden**2 + 3 * shape.hidden)


def _doubts(shape: Shape, plan: Iterable[tuple[Mixer, Mlp]]) -> tuple[tuple[str, str], ...]:
    """What the fields hint at and this reading leaves out."""
    notes = []
    recurrent = any(mixer.kind in ("delta", "mamba", "conv") or mixer.parallel for mixer, _ in plan)
    leftover = sorted(k for k in shape.fields.values if k.startswith(("mamba_", "ssm_", "linear_attn", "linear_num")))
    if leftover and not recurrent:
        notes.append(f"fields {', '.join(leftover[:3])} are not understood here: recurrent layers are not counted")
    if shape.fields.count("num_kv_shared_layers"):
        notes.append("layers that share another layer's cache are counted as if they kept their own: an upper bound")
    if shape.fields.raw("index_topk", "sparse_attention_config", "compress_ratios") is not None:
        notes.append("sparse attention reads part of the cache; a plain cache, read whole, is counted: an upper bound")
    if any(mixer.kind in ("full", "window") for mixer, _ in plan) and _guesses_kv_heads(shape):
        notes.append(f"no {shape.fields.label(KV_HEADS[0])}: as many key-value heads as query heads are counted")
    return tuple((note, "config") for note in notes)


def _guesses_kv_heads(shape: Shape) -> bool:
    """Whether nothing says how many key-value heads there are, in a class that mostly groups its queries."""
    said = (*KV_HEADS, "multi_query", "multi_query_attention", "num_global_key_value_heads", "block_configs")
    silent = shape.fields.raw(*said, "per_layer_config") is None
    return silent and shape.key not in MULTI_HEAD and not _is_latent(shape.fields)


# ---- the kind of each layer


def _window(fields: Fields, family: Family) -> int | None:
    """Tokens in reach of a windowed layer; None when the config switches windows off or they cover everything."""
    named = [name for name in WINDOW if fields.says(name)]
    size = fields.whole(*WINDOW) if named else family.window
    if not fields.flag("use_sliding_window", default=not family.opt_in) or not size:
        return None
    context = fields.whole(*CONTEXT, least=1, most=10**12)
    return None if context is not None and size >= context else size


def _need_window(fields: Fields, family: Family) -> None:
    """Refuses layers that are said to have a window when nothing says, or switches off, how long it is."""
    off = not fields.flag("use_sliding_window", default=not family.opt_in)
    if family.window is None and not off and fields.raw(*WINDOW) is None:
        fields.missing(*WINDOW)


def _kind(shape: Shape, index: int) -> str:
    """Kind of layer `index`: full, window, delta, mamba, conv, or mlp and moe where a layer has no mixer."""
    fields = shape.fields
    named = fields.raw("layer_types", "layers_block_type", "hybrid_override_pattern")
    if named is not None and isinstance(named[1], (list, tuple, str)):
        return _named_kind(fields, named[0], named[1], index)
    if shape.key in PURE_MAMBA:
        return "mamba"
    interval = fields.count("full_attention_interval")
    if interval:
        return "full" if (index + 1) % interval == 0 else "delta"
    period = fields.count("attn_layer_period")
    if period:
        return "full" if index % period == fields.count("attn_layer_offset") else "mamba"
    if shape.key in ("bamba", "granitemoehybrid") and fields.raw("attn_layer_indices") is None:
        return "mamba"
    return _listed_kind(shape, index)


def _named_kind(fields: Fields, name: str, kinds: Any, index: int) -> str:
    if index >= len(kinds):
        fields.wrong(name, f"has {len(kinds)} entries, layer {index} needs one")
    given = str(kinds[index])[:40].casefold()
    kind = _KINDS.get(given) or next((kind for part, kind in _KIND_PARTS if part in given), None)
    if kind == "delta" and fields.raw("linear_num_key_heads", "linear_attn_config") is None:
        kind = "mamba"
    if kind is None:
        fields.wrong(name, f"has an entry {str(kinds[index])[:40]!r} that is not a known layer kind")
    return kind


def _listed_kind(shape: Shape, index: int) -> str:
    """Kind from a list of layer numbers, or else from the window's pattern."""
    for name, other, base in (
        ("attn_layer_indices", "mamba", 0),
        ("full_attn_idxs", "conv", 0),
        ("linear_attn_config.full_attn_layers", "delta", 1),
    ):
        chosen = shape.fields.items(name)
        if chosen is not None:
            return "full" if index + base in chosen else other
    return "window" if _is_windowed(shape, index) else "full"


def _is_windowed(shape: Shape, index: int) -> bool:
    """Whether layer `index` has the window, by the config's pattern or the class's."""
    if shape.window is None:
        return False
    fields, family = shape.fields, shape.family
    lists = ("hybrid_layer_pattern", "sliding_window_pattern", "no_rope_layers")
    listed = fields.items(*lists)
    if listed is not None and not isinstance(listed, str):
        return fields.entry(index, *lists) in (1, True, "L")
    pattern = fields.raw("sliding_window_pattern", "_sliding_window_pattern")
    if pattern is not None and isinstance(pattern[1], str) and set(pattern[1]) <= {"L", "G"} and pattern[1]:
        return pattern[1][index % len(pattern[1])] == "L"
    period = fields.count("sliding_window_pattern", "_sliding_window_pattern", default=family.period)
    if family.windowed == "late":
        return index >= fields.count("max_window_layers", default=28)
    if family.windowed in ("even", "odd") and not period:
        return index % 2 == (1 if family.windowed == "odd" else 0)
    return not period or (index + 1) % period != 0


def _mixer(shape: Shape, index: int) -> Mixer:
    kind = _kind(shape, index)
    if kind in ("mlp", "moe") or _block(shape, index, "attention").get("no_op") is True:
        return Mixer("none")
    if kind not in ("full", "window"):
        return Mixer(kind)
    if kind == "window" and shape.window is None:
        _need_window(shape.fields, shape.family)
    prefix = _local_prefix(shape, kind)
    heads = shape.fields.per_layer(index, *(prefix + name for name in HEADS), *HEADS, least=1)
    if not heads:
        shape.fields.missing(*HEADS)
    key_dim = _head_dim(shape, index, heads, kind)
    value_dim = shape.fields.count(*(("swa_v_head_dim",) if prefix else ()), "v_head_dim", default=key_dim)
    window_kind = "window" if kind == "window" and shape.window is not None else "full"
    return Mixer(
        window_kind,
        heads,
        _kv_heads(shape, index, kind, heads),
        key_dim,
        value_dim,
        indexed=_is_indexed(shape, index),
        reuses=index >= shape.layers - shape.fields.count("num_kv_shared_layers"),
        parallel=shape.key == "falcon_h1",
    )


def _is_indexed(shape: Shape, index: int) -> bool:
    """Whether the layer picks tokens with an indexer of its own (DeepSeek-V3.2, GLM-5, MiniMax M3)."""
    if shape.fields.items("indexer_types") is not None:
        return bool(shape.fields.entry(index, "indexer_types") == "full")
    chosen = "sparse_attention_config.sparse_attention_freq"
    if shape.fields.items(chosen) is not None:
        return shape.fields.entry(index, chosen) in (1, True)
    return shape.fields.raw("index_n_heads", "sparse_attention_config.sparse_num_index_heads") is not None


def _local_prefix(shape: Shape, kind: str) -> str:
    """`swa_` where windowed layers have their own geometry (MiMo)."""
    return "swa_" if kind == "window" and shape.fields.raw("swa_num_key_value_heads") else ""


def _head_dim(shape: Shape, index: int, heads: int, kind: str) -> int:
    """Size of one head: stated, the class's own, or hidden size over heads."""
    fields = shape.fields
    if _is_latent(fields):
        return fields.need("qk_nope_head_dim") + fields.need("qk_rope_head_dim")
    special = ("global_head_dim",) if kind == "full" else (_local_prefix(shape, kind) + "head_dim",)
    own = _override(shape, index, "head_dim")
    size = fields.whole(*own, *special, *HEAD_DIM, least=1) or shape.family.head_dim
    if size is None and shape.hidden % heads:
        fields.wrong(HEADS[0], f"is {heads}, does not divide hidden size {shape.hidden}, and there is no head_dim")
    return size if size is not None else shape.hidden // heads


def _kv_heads(shape: Shape, index: int, kind: str, heads: int) -> int:
    """Key-value heads of layer `index`; as many as query heads when nothing says otherwise."""
    fields = shape.fields
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1
    if fields.flag("multi_query_attention"):
        return fields.need("multi_query_group_num")
    group = _block(shape, index, "attention").get("n_heads_in_group")
    if isinstance(group, int) and group > 0:
        return max(1, heads // group)
    special = ("num_global_key_value_heads",) if kind == "full" else (_local_prefix(shape, kind) + KV_HEADS[0],)
    own = _override(shape, index, KV_HEADS[0])
    count = fields.per_layer(index, *own, *special, *KV_HEADS, default=heads, least=1)
    if count > heads:
        fields.wrong(KV_HEADS[0], f"is {count}, above the {heads} attention heads")
    return count


def _override(shape: Shape, index: int, name: str) -> tuple[str, ...]:
    """The path of a field that `per_layer_config` gives for this layer alone; its keys may be padded with zeros."""
    table = shape.fields.raw("per_layer_config")
    if table is None or not isinstance(table[1], Mapping):
        return ()
    keys = (str(index).zfill(width) for width in range(1, 6))
    return tuple(f"per_layer_config.{key}.{name}" for key in keys if key in table[1])


def _block(shape: Shape, index: int, part: str) -> Mapping[str, Any]:
    """The entry of one layer in `block_configs` (Nemotron NAS), or nothing."""
    blocks = shape.fields.items("block_configs")
    if not blocks or index >= len(blocks) or not isinstance(blocks[index], Mapping):
        return {}
    entry = blocks[index].get(part)
    return entry if isinstance(entry, Mapping) else {}


def _mlp(shape: Shape, index: int) -> Mlp:
    fields = shape.fields
    kind = _kind(shape, index)
    if shape.key in PURE_MAMBA or (shape.key == "nemotron_h" and kind not in ("mlp", "moe")):
        return Mlp("none")
    if _block(shape, index, "ffn").get("no_op") is True:
        return Mlp("none")
    if kind == "moe" or (kind != "mlp" and _is_moe(shape, index)):
        return Mlp("both", _width(shape, index)) if fields.flag("enable_moe_block") else Mlp("moe")
    return Mlp("dense", _width(shape, index))


def _is_moe(shape: Shape, index: int) -> bool:
    """Whether layer `index` has experts."""
    fields = shape.fields
    if fields.per_layer(index, *EXPERTS) < 1 or fields.raw("enable_moe_block") == ("enable_moe_block", False):
        return False
    if fields.items("mlp_layer_types") is not None:
        return fields.entry(index, "mlp_layer_types") in ("sparse", "moe")
    chosen = fields.items("moe_layers", "moe_layers_enum")
    if chosen is not None:
        return index in chosen
    return index not in (fields.items("mlp_only_layers") or ()) and _is_moe_by_step(shape, index)


def _is_moe_by_step(shape: Shape, index: int) -> bool:
    """Dense layers first, then experts in every so many layers."""
    fields = shape.fields
    if fields.items("moe_layer_freq") is not None:
        chosen = fields.entry(index, "moe_layer_freq")
        if chosen not in (0, 1):
            fields.wrong(f"moe_layer_freq[{index}]", "is not 0 or 1")
        return bool(chosen)
    if index < fields.count("first_k_dense_replace", "moe_layer_start_index"):
        return False
    if index > fields.count("moe_layer_end_index", default=MAX_LAYERS):
        return False
    period = fields.count("expert_layer_period")
    if period:
        return index % period == fields.count("expert_layer_offset")
    after = fields.whole("decoder_sparse_step", least=1) or fields.count("interleave_moe_layer_step", default=1)
    every = fields.count("moe_layer_freq", "moe_layer_interval", default=1, least=1)
    return after > 0 and (index + 1) % after == 0 and index % every == 0


def _width(shape: Shape, index: int) -> int:
    """Width of the dense MLP of layer `index`."""
    fields, hidden = shape.fields, shape.hidden
    scale = _block(shape, index, "ffn").get("ffn_mult")
    if isinstance(scale, (int, float)) and not isinstance(scale, bool) and 0 < scale < 1000:
        return -(-int(2 * scale * hidden / 3) // 256) * 256
    dense = ("intermediate_size_mlp", "dense_intermediate_size")
    width = fields.per_layer(index, *dense, *(SHARED_MLP if shape.key == "granitemoehybrid" else ()), *FFN, least=1)
    if fields.flag("use_double_wide_mlp") and index >= shape.layers - fields.count("num_kv_shared_layers"):
        width *= 2
    if not width and shape.family.mlp_ratio:
        width = round(fields.number("expansion_ratio", default=float(shape.family.mlp_ratio)) * hidden)
    if not width:
        fields.missing(*FFN)
    return _class_width(shape, width)


def _class_width(shape: Shape, width: int) -> int:
    """Two classes write another number than the width: Qwen 1 both halves of the gate, LFM2 a target to adjust."""
    if shape.key == "qwen":
        return width // 2
    if shape.key == "lfm2" and shape.fields.flag("block_auto_adjust_ff_dim", default=True):
        adjusted = int(shape.fields.number("block_ffn_dim_multiplier", default=1.0) * int(2 * width / 3))
        multiple = max(1, shape.fields.count("block_multiple_of", default=256))
        return -(-adjusted // multiple) * multiple
    return width


# ---- the matrices of each kind


def _mixer_part(shape: Shape, mixer: Mixer) -> Part:
    if mixer.kind == "none":
        return Part()
    makers = {"delta": _delta, "mamba": _mamba, "conv": _conv}
    if mixer.kind in makers:
        return makers[mixer.kind](shape)
    part = _latent_attention(shape, mixer) if _is_latent(shape.fields) else _attention(shape, mixer)
    return _joined(part, _mamba(shape)) if mixer.parallel else part


def _is_latent(fields: Fields) -> bool:
    return fields.raw("kv_lora_rank") is not None


def _joined(one: Part, two: Part) -> Part:
    """Two parts that work side by side in one layer."""
    return Part(
        one.linears + two.linears,
        one.other + two.other,
        one.other_active + two.other_active,
        one.attention + two.attention,
        one.states + two.states,
    )


def _norms(shape: Shape, mixer: Mixer, mlp: Mlp) -> int:
    """Norm weights of one layer; a layer without mixer or without MLP has half of them."""
    fields, norms = shape.fields, shape.family.norms
    if shape.key in ("falcon", "refinedweb", "refinedwebmodel"):
        parallel = fields.flag("parallel_attn", default=True)
        norms = 1 if parallel and not fields.flag("new_decoder_architecture") else 2
    if shape.key == "stablelm" and fields.flag("use_parallel_residual"):
        norms = 1
    norms += 1 if shape.eagle3 else 0
    if "none" in (mixer.kind, mlp.kind) and norms > 1:
        norms //= 2
    return norms * shape.family.norm_parts * shape.hidden


def _attention(shape: Shape, mixer: Mixer) -> Part:
    """Attention with keys and values in the cache; the engine's fused query-key-value matrix is one."""
    fields, family, hidden = shape.fields, shape.family, shape.hidden
    queries, keys = mixer.heads * mixer.key_dim, mixer.kv_heads * mixer.key_dim
    values = mixer.kv_heads * mixer.value_dim
    gate = 2 if fields.flag("attn_output_gate", default=family.gate_heads) else 1
    shares = fields.flag("attention_k_eq_v") and mixer.kind == "full"
    outputs = gate * queries + (0 if mixer.reuses else keys + (0 if shares else values))
    inner = mixer.heads * mixer.value_dim
    indexer, index_group, index_other = _indexer(shape, mixer, 0)
    other = _qk_norm(shape, mixer) + _sinks(shape, mixer) + index_other
    other += outputs if _bias(fields, family.qkv_keys, family.qkv_bias) else 0
    other += hidden if _bias(fields, family.o_keys, family.o_bias) else 0
    window = shape.window if mixer.kind == "window" else None
    return Part(
        (
            Linear("qkv", 2 * hidden if shape.eagle3 else hidden, outputs, 1, "attention"),
            Linear("o", inner, hidden, 1, "attention", split="row"),
            *indexer,
        ),
        other,
        other,
        (Attention(1, mixer.heads, mixer.kv_heads, mixer.key_dim, mixer.value_dim, window), *index_group),
    )


def _bias(fields: Fields, keys: tuple[str, ...], default: bool) -> bool:
    return fields.flag(*keys, default=default) if keys else default


def _qk_norm(shape: Shape, mixer: Mixer) -> int:
    """Weights of the norms on queries and keys."""
    fields, family = shape.fields, shape.family
    default = bool(family.qk_norm) and family.qk_default
    if family.qk_norm == "none" or not fields.flag("use_qk_norm", "qk_layernorm", default=default):
        return 0
    wide = {"per_layer": True, "per_head": False}.get(fields.text("qk_norm_type"), family.qk_norm == "full")
    return (mixer.heads + mixer.kv_heads if wide else 1 if mixer.reuses else 2) * mixer.key_dim


def _sinks(shape: Shape, mixer: Mixer) -> int:
    """One sink logit per head, where the class has them."""
    kind = "add_swa_attention_sink_bias" if mixer.kind == "window" else "add_full_attention_sink_bias"
    return mixer.heads if shape.fields.flag(kind, default=shape.family.sinks) else 0


def _latent_attention(shape: Shape, mixer: Mixer) -> Part:
    """Attention over a compressed latent (DeepSeek-V2, section 2.1): one latent and one rotary key are cached."""
    fields, hidden, heads = shape.fields, shape.hidden, mixer.heads
    latent, rope = fields.need("kv_lora_rank"), fields.need("qk_rope_head_dim")
    plain, value_dim = fields.need("qk_nope_head_dim"), fields.need("v_head_dim")
    rank = fields.count("q_lora_rank")
    queries = heads * (plain + rope)
    linears = [Linear("q", hidden, queries, 1, "attention")]
    if rank:
        linears = [Linear("q_a", hidden, rank, 1, "attention", split="none")]
        linears.append(Linear("q_b", rank, queries, 1, "attention"))
    linears += [
        Linear("kv_a", hidden, latent + rope, 1, "attention", split="none"),
        Linear("kv_b", latent, heads * (plain + value_dim), 1, "attention"),
        Linear("o", heads * value_dim, hidden, 1, "attention", split="row"),
    ]
    group = Attention(1, heads, mixer.kv_heads, plain + rope, value_dim, None, latent + rope)
    indexer, index_group, index_other = _indexer(shape, mixer, rank)
    other = rank + latent + index_other
    other += (rank + latent + rope + hidden) if fields.flag("attention_bias") else 0
    return Part((*linears, *indexer), other, other, (group, *index_group))


def _indexer(shape: Shape, mixer: Mixer, rank: int) -> tuple[tuple[Linear, ...], tuple[Attention, ...], int]:
    """Matrices, cache and norms of sparse attention's indexer (DeepSeek-V3.2 report, section 2.1), or nothing."""
    block = "sparse_attention_config."
    heads = shape.fields.count("index_n_heads", block + "sparse_num_index_heads")
    size = shape.fields.count("index_head_dim", block + "sparse_index_dim")
    if not (mixer.indexed and heads and size):
        return (), (), 0
    linears = [
        Linear("index_q", rank or shape.hidden, heads * size, 1, "attention", split="none"),
        Linear("index_k", shape.hidden, size, 1, "attention", split="none"),
    ]
    if rank:
        linears.append(Linear("index_weights", shape.hidden, heads, 1, "attention", split="none"))
    return tuple(linears), (Attention(1, heads, 1, size, 0),), 2 * size


def _delta(shape: Shape) -> Part:
    """A gated delta net (Qwen3-Next): a state of key by value per value head, and a short convolution."""
    fields, hidden = shape.fields, shape.hidden
    linear = "linear_attn_config."
    key_heads = fields.need("linear_num_key_heads", linear + "num_heads")
    value_heads = fields.need("linear_num_value_heads", linear + "num_heads")
    key_dim = fields.need("linear_key_head_dim", linear + "head_dim")
    value_dim = fields.need("linear_value_head_dim", linear + "head_dim")
    kernel = fields.count("linear_conv_kernel_dim", linear + "short_conv_kernel_size", default=4, least=1)
    keys, values = key_heads * key_dim, value_heads * value_dim
    mixed = 2 * keys + values
    other = mixed * kernel + 2 * value_heads + value_dim
    return Part(
        (
            Linear("delta_in", hidden, mixed + values + 2 * value_heads, 1, "attention"),
            Linear("delta_out", values, hidden, 1, "attention", split="row"),
        ),
        other,
        other,
        states=(State(1, value_heads * key_dim * value_dim, _state_bits(fields)), State(1, mixed * (kernel - 1), 16.0)),
    )


def _state_bits(fields: Fields) -> float:
    """Bits per element of a recurrent state: 32 unless the config names another dtype."""
    named = fields.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    return 16.0 if named in ("bfloat16", "float16") else 32.0


def _mamba(shape: Shape) -> Part:
    """A state-space layer: Mamba 2 where the config counts heads, Mamba 1 otherwise."""
    names = ("mamba_num_heads", "mamba_n_heads", *(("num_heads",) if shape.key == "mamba2" else ()))
    heads = shape.fields.count(*names)
    return _mamba2(shape, heads) if heads else _mamba1(shape)


def _mamba2(shape: Shape, heads: int) -> Part:
    """Source: Dao and Gu 2024 (Mamba-2), section 7; tensors as in the Nemotron-H and Bamba checkpoints."""
    fields, hidden = shape.fields, shape.hidden
    inner = _mamba2_inner(shape, heads)
    size = fields.need("ssm_state_size", "mamba_d_state", "state_size")
    groups = fields.count("n_groups", "mamba_n_groups", default=1, least=1)
    kernel = fields.count("conv_kernel", "mamba_d_conv", default=4, least=1)
    mixed = inner + 2 * groups * size
    convolution = mixed * (kernel + (1 if fields.flag("use_conv_bias", "mamba_conv_bias", default=True) else 0))
    other = convolution + 3 * heads + (inner if fields.flag("mamba_rms_norm", default=True) else 0)
    return Part(
        (
            Linear("mamba_in", hidden, inner + mixed + heads, 1, "attention"),
            Linear("mamba_out", inner, hidden, 1, "attention", split="row"),
        ),
        other,
        other,
        states=(State(1, inner * size, _state_bits(fields)), State(1, mixed * (kernel - 1), 16.0)),
    )


def _mamba2_inner(shape: Shape, heads: int) -> int:
    """Width of a Mamba 2 mixer: stated, heads times their size, or a multiple of the hidden size."""
    fields = shape.fields
    stated = fields.count("mamba_d_ssm")
    head = fields.raw("mamba_head_dim", "mamba_d_head", *(("head_dim",) if shape.key == "mamba2" else ()))
    if stated:
        return stated
    if head is not None and head[1] != "auto":
        return heads * fields.need(head[0])
    return round(fields.number("mamba_expand", "expand", default=2.0) * shape.hidden)


def _mamba1(shape: Shape) -> Part:
    fields, hidden = shape.fields, shape.hidden
    inner = fields.count("intermediate_size") if shape.key in PURE_MAMBA else 0
    inner = inner or round(fields.number("mamba_expand", "expand", default=2.0) * hidden)
    size = fields.need("mamba_d_state", "ssm_state_size", "state_size")
    kernel = fields.count("mamba_d_conv", "conv_kernel", default=4, least=1)
    found = fields.raw("mamba_dt_rank", "time_step_rank")
    rank = math.ceil(hidden / 16) if found is None or found[1] == "auto" else fields.need(found[0])
    other = inner * (kernel + 1) + inner + inner * size + inner
    other += rank + 2 * size if shape.key == "jamba" else 0
    return Part(
        (
            Linear("mamba_in", hidden, 2 * inner, 1, "attention"),
            Linear("mamba_x", inner, rank + 2 * size, 1, "attention", split="row"),
            Linear("mamba_dt", rank, inner, 1, "attention"),
            Linear("mamba_out", inner, hidden, 1, "attention", split="row"),
        ),
        other,
        other,
        states=(State(1, inner * size, _state_bits(fields)), State(1, inner * (kernel - 1), 16.0)),
    )


def _conv(shape: Shape) -> Part:
    """A gated short convolution (LFM2)."""
    hidden, kernel = shape.hidden, shape.fields.count("conv_L_cache", default=3, least=1)
    other = hidden * kernel
    return Part(
        (
            Linear("conv_in", hidden, 3 * hidden, 1, "attention"),
            Linear("conv_out", hidden, hidden, 1, "attention", split="row"),
        ),
        other,
        other,
        states=(State(1, hidden * (kernel - 1), 16.0),),
    )


def _mlp_part(shape: Shape, mlp: Mlp) -> Part:
    if mlp.kind == "none":
        return Part()
    if mlp.kind == "dense":
        return _dense(shape, mlp.width, "mlp")
    if mlp.kind == "moe":
        return _experts(shape)
    return _joined(_joined(_dense(shape, mlp.width, "mlp"), _experts(shape)), _beside(shape))


def _beside(shape: Shape) -> Part:
    """Norms and scales of experts that work beside a dense MLP (Gemma 4): three norms, two scales."""
    scales = 4 * shape.hidden + shape.fields.count(*EXPERTS)
    return Part(other=scales, other_active=scales)


def _dense(shape: Shape, width: int, group: str) -> Part:
    """Gate, up and down, gate and up fused as engines do; or up and down."""
    hidden, family = shape.hidden, shape.family
    prefix = "shared_" if group == "shared_experts" else ""
    up = 2 * width if family.gated else width
    other = up + hidden if _bias(shape.fields, family.mlp_keys, family.mlp_bias) else 0
    return Part(
        (
            Linear(prefix + ("gate_up" if family.gated else "up"), hidden, up, 1, group),
            Linear(prefix + "down", width, hidden, 1, group, split="row"),
        ),
        other,
        other,
    )


def _experts(shape: Shape) -> Part:
    """Router, experts and shared experts of one layer."""
    fields, hidden, family = shape.fields, shape.hidden, shape.family
    experts, active = fields.need(*EXPERTS, most=100_000), fields.need(*ACTIVE)
    if active > experts:
        fields.wrong(ACTIVE[0], f"is {active}, above the {experts} experts")
    width = fields.per_layer(shape.layers - 1, *EXPERT_WIDTH)
    if not width and family.own_width:
        fields.missing(*EXPERT_WIDTH)
    width = width or fields.per_layer(shape.layers - 1, *FFN)
    if not width:
        fields.missing(*EXPERT_WIDTH, *FFN)
    inner = fields.count("moe_latent_size") or hidden
    up = 2 * width if family.gated else width
    shared = _shared(shape, width)
    router_bias = experts if _router_bias(shape) else 0
    biases = (up + inner) if family.expert_bias else 0
    return Part(
        (
            Linear("router", hidden, experts, 1, "router", split="none"),
            Linear("experts_gate_up" if family.gated else "experts_up", inner, up, 1, "experts", experts, active),
            Linear("experts_down", width, inner, 1, "experts", experts, active, "row"),
            *_latent_experts(hidden, inner),
            *shared.linears,
        ),
        router_bias + biases * experts + shared.other,
        router_bias + biases * active + shared.other,
    )


def _router_bias(shape: Shape) -> bool:
    """Whether the router adds a bias per expert."""
    fields = shape.fields
    corrected = fields.text("topk_method") == "noaux_tc"
    return fields.flag("use_routing_bias", "use_moe_router_bias", default=shape.family.router_bias or corrected)


def _latent_experts(hidden: int, inner: int) -> tuple[Linear, ...]:
    """The projections around experts that work in a narrower space (Nemotron 3 Super)."""
    if inner == hidden:
        return ()
    return (
        Linear("experts_in", hidden, inner, 1, "mlp", split="none"),
        Linear("experts_out", inner, hidden, 1, "mlp", split="none"),
    )


def _shared(shape: Shape, width: int) -> Part:
    """Shared experts, given by total width, by count, or by the class."""
    fields = shape.fields
    total = fields.count(*SHARED_WIDTH) or fields.count(*SHARED_COUNT) * width
    total = total or fields.count(*SHARED_MLP) or (width if shape.family.shared else 0)
    if not total:
        return Part()
    part = _dense(shape, total, "shared_experts")
    if not shape.family.shared_gate:
        return part
    gate = Linear("shared_gate", shape.hidden, 1, 1, "router", split="none")
    return replace(part, linears=(*part.linears, gate))
