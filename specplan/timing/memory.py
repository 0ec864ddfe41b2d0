"""What target, draft and caches take on one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.spec import ModelSpec
    from .draft import Draft


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one device.

    needed_bytes        weights and caches of target and draft, tree included
    device_bytes        what the device has
    draft_kv_sequences  sequences of target cache that the draft's weights and cache take the place of
    freed_bytes         what turning speculation off would free
    """

    needed_bytes: float
    device_bytes: float
    fits: bool
    draft_kv_sequences: float | None
    freed_bytes: float


def kv_per_device(model: ModelSpec, context: int, tp: int) -> float:
    """Cached bytes of one sequence on one of `tp` devices: heads are divided, a latent is replicated."""
    kv = sum(
        a.layers * a.cached_elements * a.tokens_in_reach(context) / (1 if a.latent else min(tp, a.kv_heads))
        for a in model.attention
    )
    return kv * model.kv_bits / 8 + model.state_bytes / tp


def resident_bytes(model: ModelSpec, offload: str | None) -> float:
    """Bytes of weights that stay on the device: all, all but the experts, or none of them."""
    if offload == "all":
        return 0.0
    away = ("experts",) if offload == "experts" else ()
    return sum(size for group, size in model.weight_bytes_by_group().items() if group not in away)


def target_bytes(model: ModelSpec, *, context: int, batch: int, tp: int, offload: str | None = None) -> float:
    """What the target alone takes on one device: its weights, and a cache of `context` + 1 tokens per sequence."""
    return resident_bytes(model, offload) / tp + batch * kv_per_device(model, context + 1, tp)


@dataclass(frozen=True)
class Footprint:
    """Target and draft on one device; what their weights take is counted once.

    weights, draft_weights   bytes on one device
    """

    target: ModelSpec
    draft: Draft
    tp: int
    weights: float
    draft_weights: float

    @classmethod
    def of(cls, target: ModelSpec, draft: Draft, *, tp: int, offload: str | None = None) -> Footprint:
        extra = sum(model.weight_bytes / draft.tp for model in draft.resident)
        return cls(target, draft, tp, resident_bytes(target, offload) / tp, extra)

    def at(self, *, context: int, batch: int, nodes: int, device_bytes: float) -> Memory:
        """With `nodes` drafted tokens for each of `batch` sequences.

        A recurrent state is kept once for every drafted token, since a rejected one has to be undone
        (vllm-project/vllm#54080).
        """
        target, tp = self.target, self.tp
        before, after = (kv_per_device(target, length, tp) for length in (context + 1, context + 1 + nodes))
        tree_kv = batch * (after - before) + batch * nodes * target.state_bytes / tp
        draft_kv = sum(kv_per_device(model, context + 1 + nodes, self.draft.tp) for model in self.draft.resident)
        extra = self.draft_weights + batch * draft_kv
        sequence = kv_per_device(target, context, tp)
        needed = self.weights + batch * before + tree_kv + extra
        displaced = extra / sequence if sequence else None
        return Memory(needed, device_bytes, needed <= device_bytes, displaced, tree_kv + extra)


def memory(
    target: ModelSpec,
    draft: Draft,
    *,
    context: int,
    batch: int,
    tp: int,
    nodes: int,
    device_bytes: float,
    offload: str | None = None,
) -> Memory:
    """What target, draft and caches take on one device; activations and the runtime's reserve are left out."""
    footprint = Footprint.of(target, draft, tp=tp, offload=offload)
    return footprint.at(context=context, batch=batch, nodes=nodes, device_bytes=device_bytes)
