"""What tensor parallelism adds to a layer: the all-reduce by message size, on the devices that torchrun started.

Before each sample all ranks meet; a sample's time is that of the slowest rank, since the layer waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812

from ..hardware.profile import Hardware, Link
from .clocks import Run, Tell, Timing, captured

SIZES = tuple(4096 * 4**step for step in range(8))
"""Bytes of a message: width x hidden x 2, from one token of a small model to thousands of a large one."""

IN_A_GRAPH = 20
"""All-reduces one after another in a graph, so that its launch and the waiting for its end hardly count."""


@dataclass(frozen=True, slots=True)
class Message:
    """Seconds of an all-reduce of so many bytes, the slowest rank's."""

    bytes: int
    seconds: float
    p20: float
    p80: float
    samples: int


@dataclass(frozen=True)
class LinkReading:
    """The all-reduce of `tp` devices: latency + 2 (tp - 1) / tp bytes / bandwidth.

    backend      nccl or gloo
    mode         graph or eager
    low, high    the 95 % interval of the bandwidth; None where no message was long enough to tell it
    layer_error  largest difference between a layer split over the devices and the whole one, over its largest output
    """

    tp: int
    backend: str
    mode: str
    messages: tuple[Message, ...]
    latency: float
    bandwidth: float | None
    low: float | None
    high: float | None
    layer_error: float


def all_reduce_times(device: torch.device, *, quick: bool, tell: Tell) -> LinkReading:
    """Times all-reduces on every rank of the process group that torchrun describes in the environment.

    >>> SIZES[0], SIZES[-1]
    (4096, 67108864)
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, device_id=device if device.type == "cuda" else None)
    try:
        tp = dist.get_world_size()
        error = split_layer_error(device)
        sizes = SIZES[: 5 if quick else len(SIZES)]
        messages = []
        for index, size in enumerate(sizes):
            tell(index / len(sizes), f"all-reduce of {size} bytes")
            messages.append(_message(device, size, samples=10 if quick else 50))
        latency, bandwidth, low, high = fitted(messages, tp)
        mode = "graph" if device.type == "cuda" else "eager"
        return LinkReading(tp, backend, mode, tuple(messages), latency, bandwidth, low, high, error)
    finally:
        dist.destroy_process_group()


def _message(device: torch.device, size: int, *, samples: int) -> Message:
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    payload = torch.zeros(size // dtype.itemsize, dtype=dtype, device=device)
    in_a_row = IN_A_GRAPH if device.type == "cuda" else 1

    def reduce() -> None:
        for _ in range(in_a_row):
            dist.all_reduce(payload)

    reduce()
    run: Run = captured(reduce, device) if device.type == "cuda" else reduce
    for _ in range(3):
        run()
    taken = torch.tensor([_sample(run, device) for _ in range(samples)], dtype=torch.float64, device=device)
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    timing = Timing(tuple(taken.tolist())).over(in_a_row)
    return Message(size, timing.median, timing.p20, timing.p80, samples)


def _sample(run: Run, device: torch.device) -> float:
    """Seconds on this rank, from the moment when all are ready."""
    if device.type == "cuda":
        dist.barrier(device_ids=[device.index])
        torch.cuda.synchronize(device)
    else:
        dist.barrier()
    started = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def fitted(messages: Sequence[Message], tp: int) -> tuple[float, float | None, float | None, float | None]:
    """(latency, bandwidth, low, high) by least squares of relative errors.

    >>> line = [Message(n, 1e-5 + n / 1e9, 0, 0, 1) for n in SIZES]
    >>> latency, bandwidth, _, _ = fitted(line, 2)
    >>> round(latency * 1e6, 3), round(bandwidth / 1e9, 3)
    (10.0, 1.0)
    """
    import numpy as np
    from scipy.special import stdtrit

    sent = np.array([2 * (tp - 1) / tp * one.bytes for one in messages])
    seconds = np.array([one.seconds for one in messages])
    a = np.stack([1 / seconds, sent / seconds], axis=1)
    (latency, per_byte), *_ = np.linalg.lstsq(a, np.ones(len(seconds)), rcond=None)
    free = max(1, len(seconds) - 2)
    spread = float(np.sum((a @ np.array([latency, per_byte]) - 1) ** 2)) / free
    error = float(np.sqrt(np.linalg.pinv(a.T @ a)[1, 1] * spread) * stdtrit(free, 0.975))
    latency = float(max(latency, 0.0)) or float(min(seconds))
    if per_byte <= 0:
        return latency, None, None, None
    high = None if per_byte <= error else float(1 / (per_byte - error))
    return latency, float(1 / per_byte), float(1 / (per_byte + error)), high


def split_layer_error(device: torch.device, *, hidden: int = 256, tokens: int = 8) -> float:
    """A layer split over the ranks, by rows then by columns, and summed by an all-reduce, against the whole one."""
    rank, tp = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(0)
    inner = 4 * hidden - (4 * hidden) % tp
    x = torch.randn(tokens, hidden, generator=generator).to(device)
    up, down = (torch.randn(*shape, generator=generator).to(device) for shape in ((inner, hidden), (hidden, inner)))
    whole = F.linear(F.silu(F.linear(x, up)), down)
    rows, columns = up.chunk(tp)[rank], down.chunk(tp, dim=1)[rank]
    part = F.linear(F.silu(F.linear(x, rows)), columns)
    dist.all_reduce(part)
    return float((part - whole).abs().max() / whole.abs().max())


def with_link(hardware: Hardware, reading: LinkReading, *, source: str) -> Hardware:
    """The profile with the link as measured: latency, and the share of its bandwidth that such a group reaches.

    A profile without a bandwidth between devices takes the measured one.
    """
    link = hardware.link
    values: dict[str, Any] = _latencies(link, reading)
    if reading.bandwidth is not None:
        stated = link.device_bandwidth
        if stated is None or reading.bandwidth > stated:
            stated = values["device_bandwidth"] = float(f"{reading.bandwidth:.4g}")
        share = min(1.0, float(f"{reading.bandwidth / stated:.4g}"))
        values["all_reduce_share"] = _shares(link, reading.tp, share)
    said = {f"link.{key}": source for key in values}
    rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in values.items()}
    return hardware.model_copy(
        update={"link": link.model_copy(update=rounded), "sources": {**hardware.sources, **said}}
    )


def _latencies(link: Link, reading: LinkReading) -> dict[str, float]:
    """Latencies such that a group of `tp` has the measured one; the formula adds `all_reduce_per_device` beyond two."""
    each = link.all_reduce_per_device
    beyond = reading.tp - 2
    if not beyond or each is None:
        return {"all_reduce_latency": reading.latency} | ({"all_reduce_per_device": 0.0} if beyond else {})
    each = min(each, reading.latency / 2 / beyond)
    return {"all_reduce_latency": reading.latency - each * beyond, "all_reduce_per_device": each}


def _shares(link: Link, tp: int, share: float) -> dict[str, float]:
    """The profile's shares with that of this group; those of smaller and larger groups stay."""
    shares = {**(link.all_reduce_share or {}), str(tp): share}
    return {key: shares[key] for key in sorted(shares, key=int)}
