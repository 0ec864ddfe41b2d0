"""Fixed times: of one operation, of a layer and of a pass whose matrices take no time, called and as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from .bandwidth import DTYPES
from .clocks import Budget, Run, Timing, captured, time_all
from .decoder import DecoderConfig, causal_mask, random_weights
from .readings import Place, Reading, duration

NARROW = DecoderConfig(layers=1, hidden=64, intermediate=128, heads=2, kv_heads=1, head_dim=32, vocab=256)
"""So narrow that its matrices take no time: what is left is launching and waiting."""

DEPTHS = (4, 16)


def fixed_times(place: Place, dtype: str, budget: Budget, *, tell: Callable[[float], None]) -> Iterator[Reading]:
    """Of an empty operation, and of a layer and a pass of the narrow model, called (eager) and replayed (graph)."""
    x = torch.zeros(1, device=place.device)
    empty = time_all({"": _repeated(lambda: x.add_(1))}, place.timer, budget)[""].over(100)
    yield duration("empty", empty, "x += 1, 100 times in a row", mode="eager")
    for mode in ("eager", "graph") if place.is_cuda else ("eager",):
        passes: dict[int, Run] = {depth: narrow_pass(place, dtype, depth) for depth in DEPTHS}
        if mode == "graph":
            passes = {depth: captured(run, place.device) for depth, run in passes.items()}
        timed = time_all(passes, place.timer, budget, queued=mode == "graph", tell=tell)
        less, more = DEPTHS
        layer = (timed[more].median - timed[less].median) / (more - less)
        at = f"{less} and {more} layers of width {NARROW.hidden}"
        yield Reading("layer", layer, *_between(timed, layer), "s", at, dtype, mode, len(timed[more].samples))
        rest = max(0.0, timed[less].median - less * layer)
        yield Reading("pass", rest, rest, rest, "s", at, dtype, mode, len(timed[less].samples))


def _between(timed: dict[int, Timing], value: float) -> tuple[float, float]:
    """The layer's time by the 20th and by the 80th percentiles."""
    less, more = DEPTHS
    found = [(timed[more].at(share) - timed[less].at(share)) / (more - less) for share in (0.2, 0.8)]
    return min(*found, value), max(*found, value)


def _repeated(run: Run, times: int = 100) -> Run:
    def many() -> None:
        for _ in range(times):
            run()

    return many


def narrow_pass(place: Place, dtype: str, layers: int, *, width: int = 1) -> Run:
    """A decoding pass of the narrow model with a cache of 128 tokens."""
    model = random_weights(NARROW, dtype=DTYPES[dtype], device=place.device, layers=layers)
    cache = model.new_cache(128 + width)
    cache.buffer.normal_()
    tokens = torch.randint(NARROW.vocab, (1, width), device=place.device)
    rows = torch.arange(128, 128 + width, device=place.device)
    mask = causal_mask(width, 128, device=place.device)
    return lambda: model.forward(tokens, rows, cache, mask, rows)
