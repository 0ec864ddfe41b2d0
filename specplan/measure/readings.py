"""A measured quantity, and the place where it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..hardware.profile import Kind
from .clocks import Timer, Timing

if TYPE_CHECKING:
    import torch

    from .nvml import Library


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured quantity, SI.

    quantity   copy, read, stream, knee, matmul, attention, launch, layer, pass, empty
    value      at the median time; `low` and `high` between the 20th and the 80th percentile
    unit       bytes/s, FLOP/s, s, or "" for a plain number
    at         what it was measured on
    mode       eager, graph, or "" where it makes no difference
    samples    how many
    slowdowns  what slowed the device down meanwhile, by NVML
    """

    quantity: str
    value: float
    low: float
    high: float
    unit: str
    at: str
    dtype: str = ""
    mode: str = ""
    samples: int = 0
    slowdowns: tuple[str, ...] = ()


def rate(quantity: str, timing: Timing, amount: float, unit: str, at: str, **more: Any) -> Reading:
    """A reading of `amount` bytes or FLOP in the time of a call.

    >>> rate("copy", Timing((1.0, 2.0, 4.0)), 8.0, "bytes/s", "test").value
    4.0
    """
    low, high = amount / timing.p80, amount / timing.p20
    return Reading(quantity, amount / timing.median, low, high, unit, at, samples=len(timing.samples), **more)


def duration(quantity: str, timing: Timing, at: str, **more: Any) -> Reading:
    """A reading of seconds."""
    return Reading(quantity, timing.median, timing.p20, timing.p80, "s", at, samples=len(timing.samples), **more)


def the(
    readings: Sequence[Reading], quantity: str, *, dtype: str | None = None, mode: str | None = None
) -> Reading | None:
    """The last reading of that quantity, None without one."""
    found = [
        one for one in readings if one.quantity == quantity and dtype in (None, one.dtype) and mode in (None, one.mode)
    ]
    return found[-1] if found else None


@dataclass(frozen=True)
class Place:
    """The device, how it is timed, and what is known of it.

    name      as the driver has it
    kind      of profile
    values    memory_bytes, cache_bytes, bus_bits, clocks, power, ...: what torch and NVML say
    missing   why a value is absent
    """

    device: torch.device
    timer: Timer
    library: Library
    handle: Any
    name: str
    kind: Kind
    values: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def mode(self) -> str:
        """How passes are run in serving: replayed graphs on CUDA."""
        return "graph" if self.is_cuda else "eager"

    @property
    def cache_bytes(self) -> int:
        return int(self.values.get("cache_bytes") or 0)
