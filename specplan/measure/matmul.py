"""FLOP a second: square products of random matrices, per precision. Zeros would draw less power and clock higher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..base.errors import InputError
from .bandwidth import DTYPES
from .clocks import Budget, Run, out_of_memory, time_all
from .nvml import watching
from .readings import Place, Reading, rate

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
CPU_PRECISIONS = ("fp32", "fp16", "bf16")

SINCE = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}
"""NVIDIA's compute capability from which a precision has units of its own; torch emulates some of them before."""


def precisions(place: Place, asked: Sequence[str] = ()) -> tuple[str, ...]:
    """What to multiply in: what was asked for, else all that is worth trying on this device.

    Raises  InputError where the device has none of those asked for.
    """
    possible: tuple[str, ...] = PRECISIONS if place.is_cuda else CPU_PRECISIONS
    if place.is_cuda and torch.version.cuda is not None:
        own = torch.cuda.get_device_capability(place.device)
        possible = tuple(name for name in PRECISIONS if own >= SINCE.get(name, (0, 0)))
    elif place.is_cuda:
        possible = tuple(name for name in PRECISIONS if name != "tf32")  # AMD's torch takes it for fp32
    if not asked:
        return tuple(name for name in possible if place.is_cuda or name != "fp16")  # few CPUs have fp16 arithmetic
    chosen = tuple(name for name in possible if name in asked)
    if not chosen:
        raise InputError(f"--dtype {','.join(asked)}: not on {place.name}", hint=f"it has {', '.join(possible)}")
    return chosen


def peaks(place: Place, name: str, budget: Budget, *, quick: bool, tell: Callable[[float], None]) -> Iterator[Reading]:
    """The best rate over a few sizes; nothing, with the reason noted, where the device does not multiply in `name`."""
    few, many = ((8192,), (4096, 8192, 16384)) if place.is_cuda else ((1024,), (1024, 2048))
    try:
        yield peak(place, name, few if quick else many, budget, tell=tell)
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        if out_of_memory(error):
            raise
        place.missing[f"{name} products"] = str(error).splitlines()[0][:200]


def peak(place: Place, name: str, sizes: Sequence[int], budget: Budget, *, tell: Callable[[float], None]) -> Reading:
    """FLOP/s (2 a multiply-add) of the best of several square products.

    Raises  RuntimeError where the device or this torch does not multiply in that precision.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        runs = {size: product(place, name, size) for size in sizes}
        with watching(place.library, place.handle) as watch:
            timed = time_all(runs, place.timer, budget, tell=tell)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    best = max(sizes, key=lambda size: size**3 / timed[size].median)
    at = f"{best} x {best} x {best}"
    if watch.capped:
        at += ", power cap reached" + (f" at {watch.sm_clock_hz / 1e6:.0f} MHz" if watch.sm_clock_hz else "")
    slowdowns = tuple(watch.slowdowns)
    return rate("matmul", timed[best], 2.0 * best**3, "FLOP/s", at, dtype=name, slowdowns=slowdowns)


def product(place: Place, name: str, size: int) -> Run:
    """One square product; called once, so that an unknown precision fails here."""
    a, b = (torch.randn(size, size, device=place.device) for _ in range(2))
    run = _fp8(a, b) if name == "fp8" else _plain(a.to(DTYPES[name]), b.to(DTYPES[name]))
    run()
    return run


def _plain(a: Tensor, b: Tensor) -> Run:
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    return lambda: torch.mm(a, b, out=out)


def _fp8(a: Tensor, b: Tensor) -> Run:
    """Both operands in e4m3, one scale each, result in bf16; the second operand lies column by column."""
    left, right = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t().contiguous().t()
    one = torch.ones((), device=a.device)
    return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
