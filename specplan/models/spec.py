"""What a model is: its matrices, its attention, and how many bits each of its tensors takes.

A `ModelSpec` lists what one forward pass touches. It is built by `ModelSpec.from_params` (a count
and nothing else), by `ModelSpec.from_hf_config` (the fields of a Hugging Face `config.json`), or by
`load_model` (a bundled name or a path). `cost.py` turns it into bytes and FLOP.

    >>> ModelSpec.from_params(13e9).params_streamed
    13000000000
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.errors import InputError, did_you_mean


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored, and the precisions a device may multiply them in.

    bits         stored bits per weight, scales included
    multiply_in  precisions in order of preference; the first that the device has is used
    note         what the bits include, for the assumptions
    """

    name: str
    bits: float
    multiply_in: tuple[str, ...]
    note: str = ""

    @property
    def bytes_per_weight(self) -> float:
        return self.bits / 8


_HALF = ("bf16", "fp16", "tf32", "fp32")
_SCALES = "with a 16-bit scale and zero point per group of 128 weights; --weight-bits overrides"

# Bits of the GGUF types: ggml's block layouts (bytes of a block over weights in it).
FORMATS: dict[str, WeightFormat] = {
    fmt.name: fmt
    for fmt in (
        WeightFormat("fp32", 32, ("fp32", "tf32", "bf16", "fp16")),
        WeightFormat("fp16", 16, ("fp16", "bf16", "tf32", "fp32")),
        WeightFormat("bf16", 16, _HALF),
        WeightFormat("fp8", 8, ("fp8",) + _HALF),
        WeightFormat("w8a8", 8, ("int8",) + _HALF, "8-bit weights and activations"),
        WeightFormat(
            "int8", 8, _HALF + ("int8",), "8-bit weights only, multiplied in 16 bits (w8a8 multiplies in int8)"
        ),
        WeightFormat("int4", 4.25, _HALF + ("int8", "int4"), "4-bit weights " + _SCALES),
        WeightFormat("mxfp4", 4.25, _HALF + ("int8",), "4-bit weights with an 8-bit scale per block of 32"),
        WeightFormat("nvfp4", 4.5, ("fp4", "fp8") + _HALF, "4-bit weights with an 8-bit scale per block of 16"),
        WeightFormat("q8_0", 8.5, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q6_k", 6.5625, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q5_k", 5.5, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q5_0", 5.5, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q4_k", 4.5, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q4_0", 4.5, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q3_k", 3.4375, _HALF + ("int8",), "GGUF block layout"),
        WeightFormat("q2_k", 2.625, _HALF + ("int8",), "GGUF block layout"),
    )
}

_FORMAT_ALIASES = {
    "float32": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "e4m3": "fp8",
    "fp4": "nvfp4",
    "w4a16": "int4",
    "w8a16": "int8",
    "awq": "int4",
    "gptq": "int4",
}


def weight_format(name: str) -> WeightFormat:
    """The format of that name.

    Raises  InputError with the nearest names.

    >>> weight_format("bfloat16").bits
    16
    """
    key = name.strip().casefold().removeprefix("torch.")
    found = FORMATS.get(_FORMAT_ALIASES.get(key, key))
    if found is None:
        known = ", ".join(FORMATS)
        raise InputError(
            f"unknown dtype {name[:40]!r}",
            hint=did_you_mean(key, FORMATS, otherwise=f"known: {known}"),
        )
    return found


@dataclass(frozen=True, slots=True)
class Linear:
    """A weight matrix y[tokens, outputs] = x[tokens, inputs] W, and how many the model has.

    group    attention, mlp, experts, shared_experts, router, head, mtp: what `bits` are given by
    count    how many such matrices (usually layers)
    experts  0, or experts per layer, of which a token uses `active`; then `params` is of one expert
    split    column, row or none: how tensor parallelism cuts it
    params   weights of one matrix; inputs * outputs unless given
    """

    name: str
    inputs: int
    outputs: int
    count: int = 1
    group: str = "mlp"
    experts: int = 0
    active: int = 0
    split: str = "column"
    params: int = -1

    def __post_init__(self) -> None:
        if self.params < 0:
            object.__setattr__(self, "params", self.inputs * self.outputs)

    @property
    def params_total(self) -> int:
        return self.params * self.count * max(self.experts, 1)

    @property
    def params_active(self) -> int:
        return self.params * self.count * (self.active if self.experts else 1)


@dataclass(frozen=True, slots=True)
class Attention:
    """Layers that share one attention geometry.

    layers     how many
    key_dim, value_dim   per head, as multiplied in attention
    window     tokens that stay in reach, None for all
    latent     elements cached per token and layer in place of keys and values (latent attention), or 0;
               the latent is replicated under tensor parallelism, keys and values are divided by KV head
    """

    layers: int
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    latent: int = 0

    @property
    def cached_elements(self) -> int:
        """Elements cached per token in one layer."""
        return self.latent or self.kv_heads * (self.key_dim + self.value_dim)

    def tokens_in_reach(self, context: int) -> int:
        return context if self.window is None else min(context, self.window)


@dataclass(frozen=True, slots=True)
class State:
    """Recurrent layers (Mamba, gated delta net, short convolution): a fixed state per sequence.

    elements   of one layer and one sequence
    bits       per element
    """

    layers: int
    elements: int
    bits: float = 32.0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder, as one forward pass sees it.

    hidden, vocab, layers   the usual sizes
    linears          every matrix that is multiplied, LM head included
    attention        attention layers by geometry; recurrent layers are in `states`
    embedding_params the input embedding: stored, not streamed (a pass looks up a row); 0 when tied
    other_params     norms, biases, sinks: streamed but not multiplied
    other_active     the part of `other_params` that one token touches (expert biases differ); -1 for all
    formats          WeightFormat by group; `default` is the rest
    kv_bits          bits per cached element
    max_context      positions the model was made for, None when unknown
    mtp_params       weights of multi-token-prediction layers, not counted in params_total
    assumptions      what was assumed, as (text, source) pairs
    """

    name: str
    layers: int
    hidden: int
    vocab: int
    linears: tuple[Linear, ...]
    attention: tuple[Attention, ...]
    states: tuple[State, ...] = ()
    embedding_params: int = 0
    tied: bool = False
    other_params: int = 0
    other_active: int = -1
    formats: Mapping[str, WeightFormat] = field(default_factory=lambda: {"default": FORMATS["bf16"]})
    kv_bits: float = 16.0
    max_context: int | None = None
    mtp_params: int = 0
    assumptions: tuple[tuple[str, str], ...] = ()

    # ---- counts

    @property
    def params_total(self) -> int:
        """Every weight once; a tied embedding is the head and counts once."""
        return self.embedding_params + self.other_params + sum(m.params_total for m in self.linears)

    @property
    def params_streamed(self) -> int:
        """What a pass that touches every expert reads: everything but the input embedding."""
        return self.params_total - self.embedding_params

    @property
    def params_active(self) -> int:
        """What one token multiplies or adds: core and head, without the input embedding."""
        other = self.other_params if self.other_active < 0 else self.other_active
        return other + sum(m.params_active for m in self.linears)

    @property
    def is_moe(self) -> bool:
        return any(m.experts for m in self.linears)

    def format_of(self, group: str) -> WeightFormat:
        return self.formats.get(group) or self.formats["default"]

    @property
    def weight_bytes(self) -> float:
        """Bytes of every weight as stored, input embedding included."""
        return sum(self.weight_bytes_by_group().values())

    def weight_bytes_by_group(self) -> dict[str, float]:
        """Stored bytes by tensor group."""
        groups: dict[str, float] = {}
        for m in self.linears:
            groups[m.group] = groups.get(m.group, 0.0) + m.params_total * self.format_of(m.group).bytes_per_weight
        if self.embedding_params:
            groups["embedding"] = self.embedding_params * self.format_of("embedding").bytes_per_weight
        if self.other_params:
            groups["other"] = self.other_params * self.format_of("other").bytes_per_weight
        return groups

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes that one more token adds to the cache while every window still grows (batch 1)."""
        return sum(a.layers * a.cached_elements for a in self.attention) * self.kv_bits / 8

    @property
    def kv_bytes_per_token_growing(self) -> float:
        """Bytes per token of the layers whose cache grows without end (no window)."""
        return sum(a.layers * a.cached_elements for a in self.attention if a.window is None) * self.kv_bits / 8

    @property
    def state_bytes(self) -> float:
        """Recurrent state of one sequence."""
        return sum(s.layers * s.elements * s.bits / 8 for s in self.states)

    def kv_bytes(self, context: int) -> float:
        """Cached bytes of one sequence of `context` tokens, windows and recurrent state respected."""
        kv = sum(a.layers * a.cached_elements * a.tokens_in_reach(context) for a in self.attention)
        return kv * self.kv_bits / 8 + self.state_bytes

    # ---- variants

    def with_format(self, name: str, *, bits: float | None = None) -> ModelSpec:
        """The same model with every weight in that dtype; `bits` overrides the stored bits per weight."""
        fmt = weight_format(name)
        notes = self.assumptions
        if bits is not None:
            fmt = WeightFormat(fmt.name, bits, fmt.multiply_in)
        elif fmt.note:
            notes += ((f"{fmt.name}: {fmt.note}, {fmt.bits:g} bits per weight", "model.py, FORMATS"),)
        return replace(self, formats={"default": fmt}, assumptions=notes)

    def with_weight_bits(self, bits: float) -> ModelSpec:
        """The same model with every weight stored in `bits` bits and multiplied in 16 bits."""
        if not 0 < bits <= 64:
            raise InputError(
                f"--weight-bits {bits:g} is not in (0, 64]", hint="4.25 is 4-bit with a scale per 128 weights"
            )
        name = self.formats["default"].name
        multiply = self.formats["default"].multiply_in if bits >= 16 else _HALF + ("int8",)
        return replace(self, formats={"default": WeightFormat(name if bits >= 16 else f"{bits:g}-bit", bits, multiply)})

    def with_kv_format(self, name: str) -> ModelSpec:
        """The same model with its KV cache in that dtype."""
        return replace(self, kv_bits=weight_format(name).bits)

    # ---- constructors

    @classmethod
    def from_params(cls, params: float, *, layers: int | None = None, dtype: str = "fp16") -> ModelSpec:
        """A model known by its number of weights alone.

        Every weight is streamed and multiplied: bytes = weights * bytes per weight, FLOP = 2 * weights
        a token, exactly. Where a geometry is needed (KV cache, kernels), that of a Llama of this size
        is assumed and listed in `assumptions`.

        params    number of weights
        layers    decoder layers; by default those of a Llama of this size
        Raises    InputError unless 1e6 <= params <= 1e15 and layers fit.

        >>> ModelSpec.from_params(13e9).layers
        40
        """
        if not (math.isfinite(params) and 1e6 <= params <= 1e15):
            raise InputError(f"{params:g} is not a number of weights from 1e6 to 1e15", hint="write 13e9 or 13B")
        total = round(params)
        depth = layers if layers is not None else _llama_layers(total)
        if not 1 <= depth <= 10_000 or depth > total // 50_000:
            raise InputError(
                f"--layers {depth} does not go with {total:g} weights",
                hint="leave --layers out, or give the model's own",
            )
        return _llama_shaped(total, depth, weight_format(dtype))

    @classmethod
    def from_hf_config(cls, config: Mapping[str, Any], *, name: str = "", dtype: str | None = None) -> ModelSpec:
        """A model from the fields of a Hugging Face `config.json`. See `hf_config.read_config`."""
        from .huggingface.config import read_config

        return read_config(config, name=name, dtype=dtype)


# (weights, layers) of published Llamas: 68M, 1.1B, 3.2B, 6.7B, 13B, 34B, 70B, 405B.
_LLAMA_LADDER = ((68e6, 2), (1.1e9, 22), (3.2e9, 28), (6.7e9, 32), (13e9, 40), (34e9, 48), (70e9, 80), (405e9, 126))


def _llama_layers(total: int) -> int:
    """Layers of a Llama of that many weights, interpolated in the logarithm of both."""
    ladder = _LLAMA_LADDER
    if total <= ladder[0][0]:
        return max(1, min(2, total // 50_000))
    for (n0, l0), (n1, l1) in zip(ladder, ladder[1:]):
        if total <= n1 or n1 == ladder[-1][0]:
            share = math.log(total / n0) / math.log(n1 / n0)
            return max(1, round(float(l0 * (l1 / l0) ** share)))
    raise AssertionError("the ladder has no end")


def _llama_shaped(total: int, layers: int, fmt: WeightFormat) -> ModelSpec:
    head_dim, vocab = 128, 32_000
    body = total - min(vocab * 128, total // 4)
    hidden = max(head_dim, head_dim * round(math.sqrt(body / layers / 12.5) / head_dim))
    vocab = min(vocab, max(1, total // (4 * hidden)))
    heads = hidden // head_dim
    kv_heads = min(8, heads)
    attention = 2 * hidden * hidden + 2 * hidden * kv_heads * head_dim
    ffn = max(1, ((total - vocab * hidden) // layers - attention) // (3 * hidden))
    linears = [
        Linear("qkv", hidden, (heads + 2 * kv_heads) * head_dim, layers, "attention"),
        Linear("o", heads * head_dim, hidden, layers, "attention", split="row"),
        Linear("gate_up", hidden, 2 * ffn, layers, "mlp"),
        Linear("down", ffn, hidden, layers, "mlp", split="row"),
    ]
    rest = total - sum(m.params_total for m in linears)
    if rest < hidden:
        raise InputError(
            f"--layers {layers} does not go with {total:g} weights", hint="leave --layers out, or give the model's own"
        )
    linears.append(Linear("head", hidden, max(1, rest // hidden), 1, "head", params=rest))
    shape = f"{layers} layers of {hidden}, {heads} heads, {kv_heads} KV heads of {head_dim}"
    return ModelSpec(
        name=f"{total:g} parameters",
        layers=layers,
        hidden=hidden,
        vocab=max(1, rest // hidden),
        linears=tuple(linears),
        attention=(Attention(layers, heads, kv_heads, head_dim, head_dim),),
        formats={"default": fmt},
        assumptions=((f"geometry of a Llama of that size: {shape}", "interpolated between published Llama configs"),),
    )


def load_model(
    name: str, *, dtype: str | None = None, overrides: Mapping[str, Any] | None = None, online: bool = False
) -> ModelSpec:
    """A bundled model by name or alias, or the model at a path (`config.json`, its directory, a `.gguf` file).

    dtype      every weight in this dtype, whatever the config says
    overrides  fields of the config to change, for a what-if
    online     a name that is neither bundled nor a path is a model on the Hugging Face hub
    Raises     InputError with the nearest names.

    >>> load_model("llama-2-13b").layers
    40
    """
    from .load import load

    return load(name, dtype=dtype, overrides=overrides, online=online)


def model_names() -> list[str]:
    """Names of the bundled models."""
    from .load import names

    return names()
