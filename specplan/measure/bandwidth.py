"""Bytes a second: copy, read, and what decoding does, which is streaming weights through small products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from .clocks import Budget, Run, Timing, captured, time_all
from .place import free_memory
from .readings import Place, Reading, duration, rate

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PAST_CACHE = 8
"""A working set is this many times the last cache, so that hardly any of it is found there."""


def working_set(place: Place, *, quick: bool) -> int:
    """Bytes that a bandwidth is measured over: past the cache, within an eighth of the free memory."""
    least = (1 << 30 if place.is_cuda else 1 << 28) // (4 if quick else 1)
    wanted = max(least, (2 if quick else PAST_CACHE) * place.cache_bytes)
    free = place.values.get("memory_free_bytes") or free_memory() or 8 * least
    return int(min(wanted, free // 8))


def copy_and_read(place: Place, budget: Budget, *, quick: bool, tell: Callable[[float], None]) -> Iterator[Reading]:
    """A copy (each byte read and written once) and a sum (each byte read once) of a large buffer."""
    count = working_set(place, quick=quick) // 4
    a = torch.randn(count, device=place.device)
    b = torch.empty_like(a)
    timed = time_all({"copy": lambda: b.copy_(a), "read": a.sum}, place.timer, budget, tell=tell)
    at = f"{count * 4 / 1e6:.0f} MB{in_cache(count * 4, place)}"
    yield rate("copy", timed["copy"], 8.0 * count, "bytes/s", at, dtype="fp32")
    yield rate("read", timed["read"], 4.0 * count, "bytes/s", at, dtype="fp32")


def in_cache(total: float, place: Place) -> str:
    """A word of warning where the working set may be found in the cache."""
    return f", only {total / place.cache_bytes:.1f} x the last cache" if total < PAST_CACHE * place.cache_bytes else ""


@dataclass(frozen=True)
class Chain:
    """Matrices that an input goes through one after another, as the layers of a decoder.

    side     of the square matrices
    """

    side: int
    matrices: tuple[Tensor, ...]

    @property
    def matrix_bytes(self) -> int:
        return self.side * self.side * self.matrices[0].element_size()

    def run(self, rows: int) -> Run:
        """One pass of `rows` tokens through all of them."""
        first = self.matrices[0]
        x = torch.randn(rows, self.side, device=first.device).to(first.dtype)

        def run() -> Tensor:
            y = x
            for matrix in self.matrices:
                y = F.linear(y, matrix)
            return y

        return run


def chain_of(place: Place, side: int, dtype: torch.dtype, total: int, *, most: int = 400) -> Chain:
    """Random matrices of together about `total` bytes, scaled so that the input keeps its size on the way."""
    size = side * side * dtype.itemsize
    count = min(most, max(4, math.ceil(total / size)))
    scale = side**-0.5
    matrices = (torch.randn(side, side, device=place.device).mul_(scale).to(dtype) for _ in range(count))
    return Chain(side, tuple(matrices))


def sides(place: Place) -> tuple[int, int]:
    """A large matrix, whose bytes take the time, and a small one, whose launch does."""
    return (4096, 1024) if place.is_cuda else (2048, 512)


def streaming(
    place: Place, dtype: str, budget: Budget, *, quick: bool, tell: Callable[[float], None]
) -> Iterator[Reading]:
    """Weight streaming: bytes/s of large matrices, and the seconds that each product costs beside its bytes.

    Two sizes of matrix give both: time of one = latency + bytes / rate.
    """
    total = working_set(place, quick=quick)
    chains = [chain_of(place, side, DTYPES[dtype], total) for side in sides(place)]
    runs = {chain.side: runnable(place, chain.run(1)) for chain in chains}
    timed = time_all(runs, place.timer, budget, queued=place.is_cuda, tell=tell)
    large, small = (timed[chain.side].over(len(chain.matrices)) for chain in chains)
    spread = chains[0].matrix_bytes - chains[1].matrix_bytes
    seconds = large.median - small.median
    per_byte = seconds / spread if seconds > 0 else large.median / chains[0].matrix_bytes
    latency = max(0.0, small.median - chains[1].matrix_bytes * per_byte)
    read = sum(chain.matrix_bytes * len(chain.matrices) for chain in chains[:1])
    at = f"{len(chains[0].matrices)} matrices of {chains[0].side} x {chains[0].side}{in_cache(read, place)}"
    more: dict[str, Any] = {"dtype": dtype, "mode": place.mode}
    shown = Timing(tuple(max(1e-12, sample - latency) for sample in large.samples))
    yield rate("stream", shown, chains[0].matrix_bytes, "bytes/s", at, **more)
    both = f"{at.split(',')[0]} and {len(chains[1].matrices)} of {chains[1].side} x {chains[1].side}"
    yield Reading("latency", latency, latency, latency, "s", both, samples=len(small.samples), **more)
    yield from knee(place, chains[0], dtype, budget, quick=quick, tell=tell, latency=latency, per_byte=per_byte)


ROWS = (1, 4, 8, 16, 32, 64, 128, 256, 512)


def knee(
    place: Place,
    chain: Chain,
    dtype: str,
    budget: Budget,
    *,
    quick: bool,
    tell: Callable[[float], None],
    latency: float,
    per_byte: float,
) -> Iterator[Reading]:
    """How memory and compute time combine: the exponent q that fits the chain's time from 1 to 512 rows best.

    1 adds the two, as on a CPU; large values take the larger. The compute rate of the widest rows is fitted beside it,
    since a chain of these matrices reaches less than the square products of `matmul`.
    """
    rows = ROWS[::2] if quick else ROWS
    few = Chain(chain.side, chain.matrices[: min(len(chain.matrices), 16 if place.is_cuda else 4)])
    cold = place.is_cuda
    timed = time_all(
        {count: runnable(place, few.run(count)) for count in rows},
        place.timer,
        budget,
        cold=cold,
        queued=cold,
        tell=tell,
    )
    seconds = [timed[count].median / len(few.matrices) - latency for count in rows]
    q = fitted_exponent(rows, seconds, chain.matrix_bytes * per_byte)
    at = f"{rows[0]} to {rows[-1]} rows through {len(few.matrices)} matrices of {chain.side} x {chain.side}"
    yield Reading("exponent", q, q, q, "", at, dtype=dtype, mode=place.mode, samples=len(timed[rows[0]].samples))


def fitted_exponent(rows: Sequence[int], seconds: Sequence[float], memory_s: float) -> float:
    """The exponent in [1, 8] that fits best, the time of a row being free.

    >>> rows, wanted = [1, 8, 64, 128, 512], 2.0
    >>> fitted_exponent(rows, [(1 + (0.01 * n) ** wanted) ** (1 / wanted) for n in rows], 1.0)
    2.0
    """
    widest = max(1e-12, seconds[-1] / rows[-1])

    def off(q: float, row_s: float) -> float:
        fitted = [(memory_s**q + (row_s * count) ** q) ** (1 / q) for count in rows]
        return sum(math.log(max(t, 1e-12) / f) ** 2 for t, f in zip(seconds, fitted))

    grid = [(1 + step / 20, widest * (0.5 + share / 100)) for step in range(141) for share in range(101)]
    return min(grid, key=lambda pair: off(*pair))[0]


def runnable(place: Place, run: Run) -> Run:
    """As serving runs it: replayed as a graph on CUDA, called on a CPU."""
    return captured(run, place.device) if place.is_cuda else run


def cache_reading(
    place: Place, dtype: str, budget: Budget, *, quick: bool, tell: Callable[[float], None]
) -> Iterator[Reading]:
    """Attention of one query: seconds of a layer with a short cache, and bytes/s beyond that with a long one.

    Eight KV heads of 128 with four queries each; each call goes through layers with caches of their own.
    """
    short, long = 128, (16384 if place.is_cuda else 2048) // (2 if quick else 1)
    layers = 16 if place.is_cuda else 4
    kind = DTYPES[dtype]
    queries = torch.randn(1, 8, 4, 128, device=place.device).to(kind)
    runs: dict[int, Run] = {}
    for span in (short, long):
        caches = [torch.randn(2, 1, 8, span, 128, device=place.device).to(kind) for _ in range(layers)]
        runs[span] = runnable(place, _attending(queries, caches))
    timed = time_all(runs, place.timer, budget, cold=place.is_cuda, queued=place.is_cuda, tell=tell)
    one, far = timed[short].over(layers), timed[long].over(layers)
    cached = 2 * 8 * 128 * kind.itemsize
    per_byte = max(1e-18, (far.median - one.median) / (cached * (long - short)))
    floor = max(0.0, one.median - cached * short * per_byte)
    more: dict[str, Any] = {"dtype": dtype, "mode": place.mode}
    yield duration(
        "attention",
        Timing(tuple(max(floor / 2, s - (one.median - floor)) for s in one.samples)),
        f"{short} tokens",
        **more,
    )
    shown = 1 / per_byte
    yield Reading(
        "cache", shown, shown, shown, "bytes/s", f"{short} to {long} tokens", samples=len(far.samples), **more
    )


def _attending(queries: Tensor, caches: Sequence[Tensor]) -> Run:
    """Without a mask, as in plain decoding, so that a GPU may split the cache over the chip."""

    def run() -> Tensor:
        for keys, values in caches:
            out = F.scaled_dot_product_attention(queries, keys, values)
        return out

    return run
