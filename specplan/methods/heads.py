"""Heads and early exits as models derived from the geometry of the target, so that one pass time serves all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..base.errors import InputError
from ..models.spec import Attention, Linear, ModelSpec

if TYPE_CHECKING:
    pass
from ..models.pair import is_count_alone

# draft_vocab_size of the published EAGLE-3 heads (yuhuili/EAGLE3-*), whatever the target's vocabulary.
EAGLE3_VOCAB = 32_000


def medusa_heads(target: ModelSpec, heads: int) -> ModelSpec:
    """K Medusa heads: each a residual block h x h and an LM head h x vocabulary of its own.

    Source  Cai et al. 2024, section 2.1.1: one residual block a head.

    >>> round(medusa_heads(ModelSpec.from_params(7e9), 4).params_total / 1e6)
    613
    """
    h, v = target.hidden, target.vocab
    blocks = (Linear("medusa_block", h, h, heads, "head"), Linear("medusa_head", h, v, heads, "head"))
    return _bare(target, f"{heads} Medusa heads", 0, blocks)


def eagle3_fusion(target: ModelSpec) -> ModelSpec:
    """EAGLE-3's 3h x h fusion of three layers' features: run once a round, over the verified tokens."""
    return _bare(target, "EAGLE-3 fusion", 0, (Linear("fusion", 3 * target.hidden, target.hidden, 1, "head"),))


def _bare(target: ModelSpec, name: str, layers: int, linears: tuple[Linear, ...]) -> ModelSpec:
    """Matrices in the target's formats, without layers of attention, embedding or norms."""
    return replace(
        target,
        name=name,
        layers=layers,
        linears=linears,
        attention=(),
        states=(),
        embedding_params=0,
        other_params=0,
        other_active=-1,
        mtp_params=0,
        assumptions=(),
    )


def eagle_head(target: ModelSpec, *, version: int = 1) -> ModelSpec:
    """One layer of the target's attention with a dense MLP of the width that a token's experts have together.

    version   1 (and 2): features and embedding are fused by 2h x h before the layer, the target's LM head is run;
              3: the layer's attention reads both (2h inputs), an LM head of its own over 32000 tokens is run
    Source    Li et al. 2024 (2401.15077, 2406.16858), 2025 (2503.01840); configurations of the published heads.
    """
    h = target.hidden
    layer = [*_attention_layer(target), *_dense_mlp(target)]
    if version == 3:
        layer = [_wider(linear, h) if linear.split != "row" else linear for linear in layer[:-2]] + layer[-2:]
        head = Linear("head", h, min(target.vocab, EAGLE3_VOCAB), 1, "head")
    else:
        layer.insert(0, Linear("fusion", 2 * h, h, 1, "attention"))
        head = Linear("head", h, target.vocab, 1, "head")
    name = "EAGLE-3 head" if version == 3 else "EAGLE head"
    return replace(_bare(target, name, 1, (*layer, head)), attention=_one_attention(target))


def mtp_module(target: ModelSpec) -> ModelSpec:
    """One multi-token-prediction module: a 2h x h fusion, a layer like the target's last, the target's LM head.

    Source  DeepSeek-V3 report (2412.19437), section 2.2.
    """
    h = target.hidden
    layer = (Linear("fusion", 2 * h, h, 1, "attention"), *_attention_layer(target), *_last_mlp(target))
    head = Linear("head", h, target.vocab, 1, "head")
    return replace(_bare(target, "MTP module", 1, (*layer, head)), attention=_one_attention(target))


def without_head(model: ModelSpec) -> ModelSpec:
    """What a head keeps beside the target when it shares the target's LM head."""
    return replace(model, linears=tuple(linear for linear in model.linears if linear.group != "head"))


def _one_attention(target: ModelSpec) -> tuple[Attention, ...]:
    """One layer of the target's attention that reaches back furthest."""
    if not target.attention:
        raise InputError(
            f"{target.name} has no attention layer to model a head on", hint="give the draft's time: --draft-pass 0.5ms"
        )
    return (replace(max(target.attention, key=lambda a: (a.window is None, a.window or 0)), layers=1),)


def _attention_layer(target: ModelSpec) -> list[Linear]:
    """The matrices of one attention layer; those of recurrent layers, which are counted apart, are left out."""
    layers = sum(a.layers for a in target.attention)
    found = [m for m in target.linears if m.group == "attention"]
    own = [m for m in found if m.count == layers] or found
    return [replace(m, count=1) for m in own]


def _last_mlp(target: ModelSpec) -> list[Linear]:
    """The matrices of the feed-forward part of one layer: experts where there are any."""
    of_experts = [m for m in target.linears if m.group in ("router", "experts", "shared_experts")]
    return [replace(m, count=1) for m in of_experts or [m for m in target.linears if m.group == "mlp"]]


def _dense_mlp(target: ModelSpec) -> list[Linear]:
    """Two matrices, up (with gate) and down."""
    found = _last_mlp(target)
    up = sum(m.outputs * max(m.active, 1) for m in found if m.split == "column" and m.group != "router")
    down = sum(m.inputs * max(m.active, 1) for m in found if m.split == "row")
    return [
        Linear("gate_up", target.hidden, up, 1, "mlp"),
        Linear("down", down, target.hidden, 1, "mlp", split="row"),
    ]


def _wider(linear: Linear, more: int) -> Linear:
    """The matrix with `more` further inputs, where it reads the layer's input."""
    if linear.inputs != more:
        return linear
    return replace(linear, inputs=linear.inputs + more, params=linear.params + more * linear.outputs)


def first_layers(target: ModelSpec, exit_layer: int) -> ModelSpec:
    """The first layers and the LM head: what an early exit runs. Its cache and weights are the target's own.

    A model known by its number of weights alone has them spread evenly over its layers.

    Raises  InputError unless 1 <= exit_layer < layers.

    >>> first_layers(ModelSpec.from_params(8e9, layers=32), 8).params_streamed
    2000000000
    """
    return _cut(target, exit_layer, f"first {exit_layer} layers of {target.name}", first=True)


def later_layers(target: ModelSpec, exit_layer: int) -> ModelSpec:
    """The layers behind the exit and the LM head: what verification runs when it reuses the first ones' work."""
    return _cut(target, exit_layer, f"layers from {exit_layer} of {target.name}", first=False)


def _cut(target: ModelSpec, at: int, name: str, *, first: bool) -> ModelSpec:
    if not 1 <= at < target.layers:
        raise InputError(
            f"exit layer {at} of {target.layers} layers",
            hint=f"an early exit lies before the last layer: 1 to {target.layers - 1}",
        )
    share = at / target.layers

    def kept(count: int) -> int:
        early = round(count * share)
        return early if first else count - early

    spread = is_count_alone(target)
    linears = [
        replace(m, params=kept(m.params))
        if m.group == "head" and spread
        else m
        if m.group == "head"
        else replace(m, count=kept(m.count))
        for m in target.linears
    ]
    return replace(
        target,
        name=name,
        layers=kept(target.layers),
        linears=tuple(m for m in linears if m.count),
        attention=tuple(replace(a, layers=kept(a.layers)) for a in target.attention if kept(a.layers)),
        states=tuple(replace(s, layers=kept(s.layers)) for s in target.states if kept(s.layers)),
        other_params=kept(target.other_params),
        other_active=-1 if target.other_active < 0 else kept(target.other_active),
    )
