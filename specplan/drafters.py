"""What proposes the tokens, and what one of its passes costs.

A `Draft` is a time by level width, the bytes it takes on the device, and how its passes run. Costs
come from a draft model through the same pass time as the target's, or are given directly.

Heads and early exits are models too: `medusa_heads`, `eagle_head`, `first_layers` and `later_layers` derive
them from the target's geometry, so that one pass time serves all. `methods.py` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from .errors import InputError
from .model import Attention, Linear, ModelSpec
from .units import show_count
from .vocabulary import said_of_sizes

if TYPE_CHECKING:
    from .curve import Curve
    from .engines import Engine
    from .hardware import Hardware

SHAPES = ("sequential", "block")
PASSES = ("all_but_leaf", "all", "expanded")


@dataclass(frozen=True)
class Draft:
    """A way of drafting.

    name        what it is, in words
    pass_s      seconds of one draft pass over `width` tokens per sequence, or a constant
    last        widest level that the time is known for, None when it has no end
    model       the draft model, None when only its time is known
    tp          devices that share it
    free        True when nothing was said of the draft: its cost is taken as 0
    beside      models that lie on the device beside the target for it; None: `model` alone
    passes      passes of a round by depth of the tree where it is not the convention's count: Medusa pays none
    """

    name: str
    pass_s: float | Callable[[int], float] = 0.0
    last: int | None = None
    model: ModelSpec | None = None
    tp: int = 1
    free: bool = False
    beside: tuple[ModelSpec, ...] | None = None
    passes: Callable[[int], int] | None = None

    @property
    def resident(self) -> tuple[ModelSpec, ...]:
        """Models whose weights and caches lie on the device beside the target's."""
        if self.beside is not None:
            return self.beside
        return () if self.model is None else (self.model,)

    def times(self) -> float | Callable[[int], float] | list[float]:
        """As the optimizer takes it: a list where the time is known up to a width only."""
        return self.pass_s if self.last is None else [self.at(width) for width in range(1, self.last + 1)]

    def at(self, width: int) -> float:
        """Seconds of a pass over `width` tokens per sequence."""
        return self.pass_s(width) if callable(self.pass_s) else self.pass_s


def free_draft() -> Draft:
    """A draft whose cost is not counted."""
    return Draft("no draft given", 0.0, free=True)


def timed_draft(seconds: float) -> Draft:
    """A draft whose pass takes `seconds` at any width.

    Raises  InputError for a negative time.
    """
    if not 0 <= seconds < 1e6:
        raise InputError(f"a draft pass of {seconds!r} s is not a time", hint="write --draft-pass 0.5ms")
    return Draft("pass time given", seconds)


def draft_by_ratio(ratio: float, plain_s: float) -> Draft:
    """A draft whose pass takes `ratio` of a plain pass of the target."""
    if not 0 <= ratio <= 1000:
        raise InputError(
            f"--draft-ratio {ratio!r} is not a ratio", hint="0.057 is a draft pass of 5.7 % of a plain pass"
        )
    return Draft(f"{ratio:g} of a plain pass", ratio * plain_s)


def draft_by_curve(curve: Curve) -> Draft:
    """A draft whose pass was measured by level width."""
    return Draft("measured by level width", curve.at, last=curve.last)


def draft_model(
    hardware: Hardware,
    model: ModelSpec,
    *,
    batch: int,
    context: int,
    tp: int,
    time: str,
    engine: Engine | None = None,
) -> Draft:
    """A draft model that runs on the target's device, priced as a pass of its own.

    Its LM head is part of every pass; its cache is as long as the target's.
    """

    from .cost import Load
    from .roofline import PassTimer

    timer = PassTimer(hardware, model, time=time, draft=True, engine=engine)

    @cache
    def seconds(width: int) -> float:
        return timer.seconds(Load(width, batch, context, tp))

    curve = timer.curve(Load(1, batch, context, tp))
    return Draft(model.name, seconds, last=None if curve is None else curve.last, model=model, tp=tp)


def several(drafts: Sequence[Draft], *, parallel: bool) -> Draft:
    """Several drafts that each propose a tree a round: in turn (times add) or side by side (the slowest counts).

    >>> several([timed_draft(1e-3), timed_draft(2e-3)], parallel=True).at(4)
    0.002
    """
    combine: Callable[[Sequence[float]], float] = max if parallel else sum
    ends = [draft.last for draft in drafts if draft.last is not None]
    return Draft(
        " + ".join(draft.name for draft in drafts),
        lambda width: combine([draft.at(width) for draft in drafts]),
        last=min(ends, default=None),
        model=drafts[0].model if len(drafts) == 1 else None,
        tp=max(draft.tp for draft in drafts),
        beside=tuple(model for draft in drafts for model in draft.resident),
    )


def check_against_target(draft: ModelSpec, target: ModelSpec) -> list[str]:
    """Warnings on the pair; a draft as large as the target is refused.

    Raises  InputError when the draft has at least the target's active parameters.
    """
    if draft.params_active >= target.params_active and draft != target:
        raise InputError(
            f"the draft {draft.name} is no smaller than the target {target.name}: "
            f"{show_count(draft.params_active)} active parameters against {show_count(target.params_active)}",
            hint="are --model and --draft swapped?",
        )
    warnings = []
    ratio = bytes_ratio(draft, target)
    if ratio > 0.25:
        warnings.append(f"a draft pass reads {ratio:.0%} of the target's active bytes; above 25 % drafting seldom pays")
    guessed = is_count_alone(draft) or is_count_alone(target)
    said = None if guessed else said_of_sizes(draft.vocab, target.vocab)
    return [*warnings, said] if said else warnings


def bytes_ratio(draft: ModelSpec, target: ModelSpec) -> float:
    """Bytes of a draft pass over those of a target pass of one token, weights alone."""
    return _active_bytes(draft) / _active_bytes(target)


def _active_bytes(model: ModelSpec) -> float:
    return sum(m.params_active * model.format_of(m.group).bytes_per_weight for m in model.linears)


def context_warning(draft: ModelSpec, context: int) -> str | None:
    """What to say of a draft that was made for fewer positions than the request has; None where it reaches."""
    if draft.max_context is None or context <= draft.max_context:
        return None
    return (
        f"the draft {draft.name} was made for {draft.max_context} positions, the request has {context}: "
        "past its end it seldom proposes what the target says, and some engines stop drafting there"
    )


# ---- heads, as models

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


# ---- the target cut at an exit layer


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


def is_count_alone(model: ModelSpec) -> bool:
    """Whether the model is known by its number of weights alone, so that its LM head is a guess."""
    return any(text.startswith("geometry of a Llama") for text, _ in model.assumptions)
