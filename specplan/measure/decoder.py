"""A small decoder of the Llama family: what is timed, and what decodes with a tree.

Dense models with RMSNorm, rotary positions, gated MLP and grouped-query attention (Llama, Mistral, Qwen2, Qwen3). The
cache is one preallocated buffer that a pass writes with `index_copy_`, and a pass has no shape that depends on the
length of the text, so that it can be captured as a CUDA graph: the mask's width says how much of the cache is read.

A pass over `n` tokens writes the cache rows it is told to and attends as `mask` says. Rows need not be in the order
of positions: a tree's nodes lie in consecutive rows with the positions of their levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..base.errors import InputError
from ..models.huggingface.fields import Fields, language_fields
from ..models.spec import ModelSpec

# Model types whose layers are computed here, with what differs: biases of q, k and v; norms of q and k per head.
FAMILIES = {
    "llama": {"bias": False, "qk_norm": False},
    "mistral": {"bias": False, "qk_norm": False},
    "qwen2": {"bias": True, "qk_norm": False},
    "qwen3": {"bias": False, "qk_norm": True},
}
ADAPTER = "other architectures run through transformers: give the directory of a model that AutoModelForCausalLM loads"


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The shape of a decoder.

    rope        the config's scaling of rotary positions ({} for none; linear and llama3 are known)
    qkv_bias    biases on the projections of queries, keys and values; `o_bias` on the output of attention
    qk_norm     RMS norms of queries and keys, per head
    tied        the head is the embedding
    """

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    rope: Mapping[str, Any] = field(default_factory=dict)
    tied: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: bool = False
    max_context: int | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise InputError(
                f"{self.heads} heads over {self.kv_heads} KV heads of size {self.head_dim}",
                hint="the heads are a multiple of the KV heads, and their size is even",
            )

    @property
    def qkv(self) -> int:
        """Outputs of the fused projection of queries, keys and values."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def weights(self) -> int:
        """Weights of the matrices, a tied head once."""
        layer = self.hidden * (self.qkv + self.heads * self.head_dim + 3 * self.intermediate)
        return self.layers * layer + self.vocab * self.hidden * (1 if self.tied else 2)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], *, where: str = "config.json") -> DecoderConfig:
        """The decoder that a Hugging Face config describes.

        Raises  InputError for an architecture or a field that is not computed here, naming it.

        >>> DecoderConfig.from_hf({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 99,
        ...     "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}).head_dim
        16
        """
        fields = language_fields(config, where)
        kind = fields.text("model_type")
        if kind not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise InputError(f"{where}: model type {kind[:40]!r} is not one of {known}", hint=ADAPTER)
        _refuse_unknown_parts(fields)
        heads = fields.need("num_attention_heads")
        hidden = fields.need("hidden_size")
        attention_bias = fields.flag("attention_bias", default=False)
        return cls(
            layers=fields.need("num_hidden_layers"),
            hidden=hidden,
            intermediate=fields.need("intermediate_size"),
            heads=heads,
            kv_heads=fields.count("num_key_value_heads", default=heads, least=1),
            head_dim=fields.count("head_dim", default=hidden // heads, least=1),
            vocab=fields.need("vocab_size"),
            norm_eps=fields.number("rms_norm_eps", default=1e-6),
            rope_theta=fields.number("rope_parameters.rope_theta", "rope_theta", default=10_000.0),
            rope=_scaling(fields),
            tied=fields.flag("tie_word_embeddings", default=False),
            qkv_bias=FAMILIES[kind]["bias"] or attention_bias,
            o_bias=attention_bias,
            qk_norm=FAMILIES[kind]["qk_norm"],
            max_context=fields.whole("max_position_embeddings", least=1),
        )

    @classmethod
    def from_model(cls, model: ModelSpec) -> DecoderConfig:
        """The decoder of a model's shape, to be filled with random weights: its matrices have the sizes of the model's.

        Raises  InputError for mixtures of experts, latent attention, recurrent layers and layers that differ.

        >>> from specplan import load_model
        >>> DecoderConfig.from_model(load_model("llama-3.2-1b")).weights
        1235746816
        """
        sizes = {linear.name: linear for linear in model.linears}
        attention = model.attention[0] if len(model.attention) == 1 else None
        matrices = {"qkv", "o", "gate_up", "down", "head"}
        if attention is None or sizes.keys() != matrices or model.states or attention.latent:
            raise InputError(
                f"{model.name}: not a dense model of equal layers with a gated MLP",
                hint="experts, latent attention, windows in some layers and recurrent layers are not computed here",
            )
        shape = cls(
            layers=model.layers,
            hidden=model.hidden,
            intermediate=sizes["down"].inputs,
            heads=attention.heads,
            kv_heads=attention.kv_heads,
            head_dim=attention.key_dim,
            vocab=model.vocab,
            tied=model.tied,
            max_context=model.max_context,
        )
        if shape.qkv != sizes["qkv"].outputs or attention.key_dim != attention.value_dim:
            raise InputError(f"{model.name}: its attention is not computed here", hint=ADAPTER)
        return shape


def _refuse_unknown_parts(fields: Fields) -> None:
    """Refuses what changes the numbers and is not computed here."""
    said = fields.values
    wrong = {
        "hidden_act": said.get("hidden_act", "silu") not in ("silu", "swish"),
        "mlp_bias": fields.flag("mlp_bias", default=False),
        "partial_rotary_factor": said.get("partial_rotary_factor") not in (None, 1, 1.0),
        "sliding_window": said.get("sliding_window") is not None and said.get("use_sliding_window", True),
        "quantization_config": said.get("quantization_config") is not None,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise InputError(f"{fields.where}: {name} {str(said.get(name))[:40]} is not computed here", hint=ADAPTER)


def _scaling(fields: Fields) -> Mapping[str, Any]:
    """The scaling of rotary positions, {} for none."""
    given = fields.group("rope_parameters", "rope_scaling") or {}
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "default":
        return {}
    needed = {"linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor")}.get(str(kind))
    if needed is None:
        raise InputError(f"{fields.where}: rope scaling {str(kind)[:40]!r} is not computed here", hint=ADAPTER)
    old = given.get("original_max_position_embeddings", fields.values.get("max_position_embeddings"))
    values = {name: given.get(name) for name in needed} | ({"original": old} if kind == "llama3" else {})
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise InputError(f"{fields.where}: rope scaling without a usable {name}", hint="correct the config")
    return {"kind": kind, **values}


def rotary_frequencies(config: DecoderConfig) -> Tensor:
    """Radians a position, one for each pair of dimensions. Shape [head_dim / 2], fp32.

    Source  llama3 scaling: Llama 3.1 reference code, apply_scaling.
    """
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = torch.pow(config.rope_theta, -pairs)
    rope = config.rope
    if not rope:
        return frequencies
    factor = float(rope["factor"])
    if rope["kind"] == "linear":
        return frequencies / factor
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    turns = float(rope["original"]) * frequencies / (2 * math.pi)
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (share + (1 - share) / factor)


@dataclass
class KVCache:
    """Keys and values of the tokens so far, in one buffer. Shape [layers, 2, batch, kv_heads, max_length, head_dim].

    length   rows that hold committed tokens: positions 0 .. length - 1; what lies beyond is not seen

    Keys are stored rotated for their positions, so a row may be copied to another place.
    """

    buffer: Tensor
    length: int = 0

    @classmethod
    def empty(
        cls,
        config: DecoderConfig,
        max_length: int,
        *,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> KVCache:
        shape = (config.layers, 2, batch, config.kv_heads, max_length, config.head_dim)
        return cls(torch.zeros(shape, dtype=dtype, device=device))

    @property
    def max_length(self) -> int:
        return int(self.buffer.shape[-2])

    def first_layers(self, layers: int) -> KVCache:
        """The cache of the first layers: the same memory, a length of its own."""
        return KVCache(self.buffer[:layers], self.length)

    def keep(self, path: Sequence[int]) -> None:
        """Commit the rows `length + i` for i in `path`, in ascending order, and no others."""
        if list(path) != list(range(len(path))):
            rows = torch.tensor([self.length + i for i in path], device=self.buffer.device)
            # index_select copies, so source and destination may overlap.
            self.buffer[..., self.length : self.length + len(path), :] = self.buffer.index_select(-2, rows)
        self.length += len(path)


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer. Matrices are [outputs, inputs]; q, k and v are one, gate and up are one.

    attention_norm   None where the layer's input is taken as it is (EAGLE's heads)
    """

    attention_norm: Tensor | None
    qkv: Tensor
    o: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor
    qkv_bias: Tensor | None = None
    o_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None


@dataclass(frozen=True)
class Decoder:
    """Weights, and the pass over them.

    embedding, head   [vocab, hidden]; the same tensor when tied
    norm              of the last layer's output. Shape [hidden]
    """

    config: DecoderConfig
    embedding: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    head: Tensor
    frequencies: Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def vocab(self) -> int:
        return self.config.vocab

    @property
    def max_context(self) -> int | None:
        return self.config.max_context

    def with_layers(self, kept: Sequence[int]) -> Decoder:
        """The same decoder with only these layers: an early exit, or some layers skipped. Nothing is copied."""
        return replace(
            self, config=replace(self.config, layers=len(kept)), layers=tuple(self.layers[index] for index in kept)
        )

    def new_cache(self, max_length: int, *, batch: int = 1) -> KVCache:
        """An empty cache for texts of up to `max_length` tokens."""
        return KVCache.empty(self.config, max_length, batch=batch, dtype=self.dtype, device=self.device)

    def forward(self, tokens: Tensor, positions: Tensor, cache: KVCache, mask: Tensor, rows: Tensor) -> Tensor:
        """Logits of the next token after each of `tokens`. Shapes as in `hidden`; returns [batch, n, vocab]."""
        return self.logits(self.hidden(tokens, positions, cache, mask, rows))

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits from the normed output of the last layer."""
        return F.linear(hidden, self.head)

    def exit_logits(self, x: Tensor) -> Tensor:
        """Logits from the output of any layer, by the final norm and the head."""
        return self.logits(self._norm(x, self.norm))

    def hidden(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: KVCache,
        mask: Tensor,
        rows: Tensor,
        *,
        after_layer: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """The normed output of the last layer. Shape [batch, n, hidden].

        tokens      [batch, n]
        positions   [n], of each token, the same for every sequence
        mask        [n, span], True where token i sees cache row j; rows from `span` on are not read
        rows        [n], cache rows that the tokens' keys and values are written to
        after_layer called with each layer's index and output before the final norm
        """
        x = F.embedding(tokens, self.embedding)
        return self._norm(self.stack(x, positions, cache, mask, rows, after_layer=after_layer), self.norm)

    def stack(
        self,
        x: Tensor,
        positions: Tensor,
        cache: KVCache,
        mask: Tensor,
        rows: Tensor,
        *,
        after_layer: Callable[[int, Tensor], None] | None = None,
    ) -> Tensor:
        """The output of the last layer before the final norm, from embedded tokens `x`. Shapes [batch, n, hidden]."""
        config = self.config
        angles = torch.outer(positions.to(self.frequencies.dtype), self.frequencies)[:, None]
        turn = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        # The query heads of a group become rows of one KV head, so the mask is repeated for each of them.
        seen = mask.repeat(config.heads // config.kv_heads, 1)
        for index, layer in enumerate(self.layers):
            x = x + self._attention(layer, self._norm(x, layer.attention_norm), turn, cache.buffer[index], seen, rows)
            gate, up = F.linear(self._norm(x, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
            if after_layer is not None:
                after_layer(index, x)
        return x

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return x
        return F.rms_norm(x, weight.shape, weight, self.config.norm_eps)

    def _attention(
        self, layer: Layer, x: Tensor, turn: tuple[Tensor, Tensor], cache: Tensor, seen: Tensor, rows: Tensor
    ) -> Tensor:
        """cache [2, batch, kv_heads, max_length, head_dim]; seen [group * n, span]."""
        heads, kv_heads, head_dim = self.config.heads, self.config.kv_heads, self.config.head_dim
        batch, n, _ = x.shape
        qkv = F.linear(x, layer.qkv, layer.qkv_bias).view(batch, n, heads + 2 * kv_heads, head_dim)
        qk, v = torch.split(qkv, [heads + kv_heads, kv_heads], dim=2)
        if layer.q_norm is not None and layer.k_norm is not None:
            qk = torch.cat((self._norm(qk[:, :, :heads], layer.q_norm), self._norm(qk[:, :, heads:], layer.k_norm)), 2)
        q, k = torch.split(rotate(qk, turn), [heads, kv_heads], dim=2)
        cache[0].index_copy_(2, rows, k.transpose(1, 2))
        cache[1].index_copy_(2, rows, v.transpose(1, 2))
        span = seen.shape[1]
        # [batch, n, heads, d] -> [batch, kv_heads, group * n, d]
        grouped = q.reshape(batch, n, kv_heads, -1, head_dim).permute(0, 2, 3, 1, 4)
        folded = grouped.reshape(batch, kv_heads, -1, head_dim)
        out = F.scaled_dot_product_attention(folded, cache[0, :, :, :span], cache[1, :, :, :span], attn_mask=seen)
        out = out.view(batch, kv_heads, -1, n, head_dim).permute(0, 3, 1, 2, 4).reshape(batch, n, heads * head_dim)
        return F.linear(out, layer.o, layer.o_bias)


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions in the half-split order: dimension i is paired with i + head_dim / 2."""
    cos, sin = turn
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def causal_mask(n: int, length: int = 0, *, device: torch.device | str = "cpu") -> Tensor:
    """Each of `n` new tokens sees the `length` cached ones, those before it, and itself. Shape [n, length + n].

    >>> causal_mask(2, 1).tolist()
    [[True, True, False], [True, True, True]]
    """
    return torch.ones(n, length + n, dtype=torch.bool, device=device).tril(length)


def random_weights(
    config: DecoderConfig,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    seed: int = 0,
    layers: int | None = None,
) -> Decoder:
    """A decoder with normal random weights that keep activations of unit size; never zeros, which draw less power.

    layers   fewer layers than the config has
    """
    config = config if layers is None else replace(config, layers=layers)
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        values = torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)
        return values.mul_(shape[-1] ** -0.5) if len(shape) > 1 else values.mul_(0.02)

    def ones(size: int) -> Tensor:
        return torch.ones(size, dtype=dtype, device=device)

    def layer() -> Layer:
        return Layer(
            attention_norm=ones(config.hidden),
            qkv=normal(config.qkv, config.hidden),
            o=normal(config.hidden, config.heads * config.head_dim),
            mlp_norm=ones(config.hidden),
            gate_up=normal(2 * config.intermediate, config.hidden),
            down=normal(config.hidden, config.intermediate),
            qkv_bias=normal(config.qkv) if config.qkv_bias else None,
            o_bias=normal(config.hidden) if config.o_bias else None,
            q_norm=ones(config.head_dim) if config.qk_norm else None,
            k_norm=ones(config.head_dim) if config.qk_norm else None,
        )

    embedding = normal(config.vocab, config.hidden)
    head = embedding if config.tied else normal(config.vocab, config.hidden)
    stack = tuple(layer() for _ in range(config.layers))
    return Decoder(config, embedding, stack, ones(config.hidden), head, frequencies_for(config, dtype, device))


def frequencies_for(config: DecoderConfig, dtype: torch.dtype, device: torch.device | str) -> Tensor:
    """Rotary frequencies in fp32, in fp64 for a model in fp64."""
    return rotary_frequencies(config).to(device=device, dtype=torch.promote_types(dtype, torch.float32))
