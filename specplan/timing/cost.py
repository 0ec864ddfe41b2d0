"""FLOP and bytes of one pass: values that add. Seconds are `roofline.py`'s business.

Everything is of **one device** and one pass over the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base.errors import InputError

if TYPE_CHECKING:
    from ..models.spec import Attention, Linear, ModelSpec


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOP and bytes of one pass, or of a part of it; costs add.

    flops             2 per weight and token
    attention_flops   2 * heads * (key_dim + value_dim) per pair of new token and cached token
    weight_bytes      weights read, each once
    kv_bytes          cached keys and values read, once per sequence; recurrent state read
    kv_write_bytes    keys and values of the new tokens, written
    activation_bytes  inputs and outputs of the matrices, 2 bytes an element
    """

    flops: float = 0.0
    attention_flops: float = 0.0
    weight_bytes: float = 0.0
    kv_bytes: float = 0.0
    kv_write_bytes: float = 0.0
    activation_bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.attention_flops + other.attention_flops,
            self.weight_bytes + other.weight_bytes,
            self.kv_bytes + other.kv_bytes,
            self.kv_write_bytes + other.kv_write_bytes,
            self.activation_bytes + other.activation_bytes,
        )

    def __mul__(self, times: float) -> Cost:
        return Cost(
            self.flops * times,
            self.attention_flops * times,
            self.weight_bytes * times,
            self.kv_bytes * times,
            self.kv_write_bytes * times,
            self.activation_bytes * times,
        )

    __rmul__ = __mul__

    @property
    def total_flops(self) -> float:
        return self.flops + self.attention_flops

    @property
    def streamed_bytes(self) -> float:
        """Weights and cache, each read once: what the ideal roofline counts."""
        return self.weight_bytes + self.kv_bytes

    @property
    def intensity(self) -> float:
        """FLOP per streamed byte."""
        return self.total_flops / self.streamed_bytes


@dataclass(frozen=True, slots=True)
class Load:
    """How much one pass works on.

    width    new tokens per sequence, root included
    batch    sequences
    context  tokens in each sequence's cache before the pass
    tp       devices that share the model (tensor parallel)
    overlap  0: tokens pick experts independently; 1: all tokens of a pass pick the same ones

    Raises  InputError for a width, batch or tp below 1, a negative context, or an overlap outside [0, 1].
    """

    width: int = 1
    batch: int = 1
    context: int = 0
    tp: int = 1
    overlap: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("batch", 1), ("context", 0), ("tp", 1)):
            value = getattr(self, name)
            if type(value) is not int and hasattr(value, "__index__") and not isinstance(value, bool):
                value = value.__index__()  # numpy's integers
                object.__setattr__(self, name, value)
            if isinstance(value, bool) or not isinstance(value, int) or value < least or value > 2**40:
                raise InputError(
                    f"{name} {value!r} is not a whole number from {least} up",
                    hint=f"give {name} {max(least, 1)} or more",
                )
        if not 0 <= self.overlap <= 1:
            raise InputError(
                f"overlap {self.overlap!r} is not in [0, 1]", hint="0 is independent routing, 1 is full overlap"
            )

    @property
    def tokens(self) -> int:
        """Tokens in the pass, all sequences together."""
        return self.width * self.batch

    def in_reach(self, window: int | None) -> int:
        """Cached tokens that a layer with that window reads; None for no window."""
        return self.context if window is None else min(self.context, window)


def experts_touched(experts: int, active: int, tokens: float, *, overlap: float = 0.0) -> float:
    """Expected number of distinct experts that `tokens` tokens touch in one layer.

    experts * (1 - (1 - active/experts)^tokens) for independent uniform routing; real routing is
    skewed and correlated, so this is an upper bound that `overlap` lowers towards `active`.

    >>> round(experts_touched(8, 2, 4), 3)
    5.469
    """
    spread: float = experts * (1 - (1 - active / experts) ** tokens)
    return active + (spread - active) * (1 - overlap)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One matrix product as the device runs it, `count` times in a pass.

    rows    tokens that each matrix sees: the height of the product
    cost    of one run
    inputs  elements of an input row on one device
    """

    linear: Linear
    count: int
    rows: float
    cost: Cost
    inputs: float


def kernels(model: ModelSpec, load: Load) -> Iterator[Kernel]:
    """The matrix products of one pass on one device, experts as one grouped product a layer."""
    for linear in model.linears:
        share = 1.0 if linear.split == "none" else 1.0 / load.tp
        per_weight = model.format_of(linear.group).bytes_per_weight
        if linear.experts:
            touched = experts_touched(linear.experts, linear.active, load.tokens, overlap=load.overlap)
            rows, matrices, work = load.tokens * linear.active / touched, touched, load.tokens * linear.active
        else:
            rows, matrices, work = 1.0 * load.tokens, 1.0, load.tokens
        inputs = linear.inputs * (share if linear.split == "row" else 1.0)
        outputs = linear.outputs * (1.0 if linear.split == "row" else share)
        yield Kernel(
            linear,
            linear.count,
            rows,
            Cost(
                flops=2.0 * linear.params * work * share,
                weight_bytes=linear.params * matrices * per_weight * share,
                activation_bytes=2.0 * work * (inputs + outputs),
            ),
            inputs,
        )


def attention_cost(group: Attention, model: ModelSpec, load: Load) -> Cost:
    """Cost of one attention layer of this group: the cache is read once for all new tokens of a sequence.

    Left out: pairs among the new tokens themselves, below 1 % once the cache is longer than the tree.
    """
    reach = load.in_reach(group.window)
    shards = 1 if group.latent else min(load.tp, group.kv_heads)
    cached = group.cached_elements * model.kv_bits / 8 / shards
    if group.latent:
        pair = 2.0 * group.heads * (2 * group.latent) / load.tp
    else:
        pair = 2.0 * group.heads * (group.key_dim + group.value_dim) / load.tp
    return Cost(
        attention_flops=pair * load.tokens * reach,
        kv_bytes=cached * reach * load.batch,
        kv_write_bytes=cached * load.tokens,
    )


def pass_cost(
    model: ModelSpec, *, width: int = 1, context: int = 0, batch: int = 1, tp: int = 1, overlap: float = 0.0
) -> Cost:
    """Cost of one forward pass over `width` new tokens per sequence, on one device.

    Counts  weights once (experts: those touched; the input embedding is looked up, not streamed);
            the cache of `context` tokens once per sequence, however wide the tree; norms and biases.
    Omits   the arithmetic of norms, softmax and sampling, below 1 % from 1e9 weights up.

    width, context, batch, tp, overlap   as in `Load`
    Raises   InputError if one is out of range.
    Source   Kaplan et al. 2020, section 2.1 (2 FLOP per weight and token).

    >>> from specplan import ModelSpec
    >>> pass_cost(ModelSpec.from_params(13e9), width=1).weight_bytes
    26000000000.0
    """
    load = Load(width, batch, context, tp, overlap)
    total = Cost(weight_bytes=model.other_params * model.format_of("other").bytes_per_weight)
    for kernel in kernels(model, load):
        total += kernel.cost * kernel.count
    for group in model.attention:
        total += attention_cost(group, model, load) * group.layers
    if model.states:
        total += Cost(kv_bytes=model.state_bytes * batch / tp, kv_write_bytes=model.state_bytes * batch / tp)
    return total
