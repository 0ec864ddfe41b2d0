"""One way to time anything: warm up, repeat in random order, stop when the samples agree or the time is up.

    cuda   CUDA events around each call; the device's time
    cpu    on one thread the process's CPU time, which other jobs on the machine hardly disturb; else the wall clock

Median and 20th to 80th percentile are kept, never a mean. What is compared is timed in turn, in random order, so that
a drift of the clocks hits all alike.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch

Run = Callable[[], object]
Key = TypeVar("Key", bound=Hashable)
Tell = Callable[[float, str], None]
"""Told the share of the work that is done, and what is being timed."""


def part_of(tell: Tell, what: str, index: int, count: int) -> Callable[[float], None]:
    """Tells the share of the whole when told that of the `index`-th of `count` parts.

    >>> part_of(lambda share, what: print(share, what), "copy", 1, 4)(0.5)
    0.375 copy
    """
    return lambda share: tell((index + share) / count, what)


SETTLED = 0.03
"""Sampling ends when the 20th to 80th percentile spans less than this share of the median."""

UNDISTURBED = 0.95
"""A wall-clock sample counts if it had this share of the CPU time of the least disturbed one."""


def silent(share: float, what: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop.

    warm_calls, warm_s   calls and seconds before the first sample, whichever takes longer, up to `warm_most_s`
    least, most          samples of each thing
    seconds              of sampling, all things together; then a third of `least` is enough
    """

    warm_calls: int = 5
    warm_s: float = 0.3
    warm_most_s: float = 2.0
    least: int = 30
    most: int = 400
    seconds: float = 20.0


THOROUGH = Budget()
QUICK = Budget(warm_calls=2, warm_s=0.05, least=5, most=100, seconds=2.0)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call, from repeated samples.

    >>> Timing((3.0, 1.0, 2.0)).median
    2.0
    """

    samples: tuple[float, ...]

    def at(self, share: float) -> float:
        """A percentile, linear between samples."""
        ordered = sorted(self.samples)
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    @property
    def median(self) -> float:
        return self.at(0.5)

    @property
    def p20(self) -> float:
        return self.at(0.2)

    @property
    def p80(self) -> float:
        return self.at(0.8)

    @property
    def band(self) -> float:
        """The 20th to 80th percentile over the median."""
        return (self.p80 - self.p20) / self.median

    def over(self, calls: float) -> Timing:
        """Of one part where a sample held `calls` equal ones."""
        return Timing(tuple(sample / calls for sample in self.samples))


@dataclass
class Timer:
    """Times calls on one device.

    threads   that torch computes with on a CPU
    scrub     a buffer of twice the last cache, zeroed before each sample of a small working set; None without
    """

    device: torch.device
    threads: int = 1
    scrub: torch.Tensor | None = None
    cpu_shares: list[float] = field(default_factory=list)

    @property
    def clock(self) -> str:
        """Its name, for the record."""
        if self.device.type == "cuda":
            return "CUDA events"
        return "process CPU time" if self.threads == 1 else "wall clock"

    def now(self) -> float:
        """Seconds on the clock that budgets run by: time in which other jobs had the processor does not count."""
        own = self.device.type == "cpu" and self.threads == 1
        return time.process_time() if own else time.perf_counter()

    def wait(self) -> None:
        """Until the device has done all it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def warm(self, run: Run, budget: Budget) -> None:
        """Call until caches, clocks and lazily loaded kernels have settled."""
        started, calls, gone = self.now(), 0, 0.0
        while (calls < budget.warm_calls or gone < budget.warm_s) and (not calls or gone < budget.warm_most_s):
            run()
            self.wait()
            calls, gone = calls + 1, self.now() - started

    def sample(self, run: Run, *, cold: bool = False, queued: bool = False) -> float:
        """Seconds of one call.

        cold     the last cache is overwritten before
        queued   the call is one launch: its own latency is hidden behind the overwriting, as behind a running pass
        """
        if cold and self.scrub is not None:
            self.scrub.zero_()
        if self.device.type == "cuda":
            return self._events(run, synchronise=not queued)
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        self.cpu_shares.append(cpu / wall if wall > 0 else 1.0)
        return cpu if self.threads == 1 else wall

    def _events(self, run: Run, *, synchronise: bool) -> float:
        start, end = _event(), _event()
        if synchronise:
            self.wait()
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


def time_all(
    runs: Mapping[Key, Run],
    timer: Timer,
    budget: Budget,
    *,
    cold: bool = False,
    queued: bool = False,
    tell: Callable[[float], None] | None = None,
    seed: int = 0,
) -> dict[Key, Timing]:
    """The time of each call, sampled in turn in random order until all have settled.

    runs     what to call, by name
    tell     told the share of the time that is gone

    >>> runs = {"few": lambda: sum(range(100)), "many": lambda: sum(range(100_000))}
    >>> timed = time_all(runs, Timer(torch.device("cpu")), QUICK)
    >>> timed["few"].median < timed["many"].median
    True
    """
    for run in runs.values():
        timer.warm(run, budget)
    order, shuffle = list(runs), random.Random(seed).shuffle
    samples: dict[Key, list[float]] = {key: [] for key in runs}
    shares: dict[Key, list[float]] = {key: [] for key in runs}
    started = timer.now()
    while order:
        shuffle(order)
        for key in order:
            samples[key].append(timer.sample(runs[key], cold=cold, queued=queued))
            shares[key].append(timer.cpu_shares[-1] if timer.cpu_shares else 1.0)
        gone = (timer.now() - started) / budget.seconds
        if tell is not None:
            tell(min(1.0, gone))
        order = [key for key in order if not _enough(samples[key], gone, budget)]
    if timer.clock != "wall clock":
        return {key: Timing(tuple(taken)) for key, taken in samples.items()}
    return {key: Timing(undisturbed(samples[key], shares[key])) for key in runs}


def _enough(samples: Sequence[float], gone: float, budget: Budget) -> bool:
    if gone >= 1.0:
        return len(samples) >= max(3, budget.least // 3)
    if len(samples) < budget.least:
        return False
    return len(samples) >= budget.most or Timing(tuple(samples)).band < SETTLED


def undisturbed(samples: Sequence[float], cpu_shares: Sequence[float]) -> tuple[float, ...]:
    """The samples in which the process had nearly all the CPU time that it had in its best one.

    >>> undisturbed([1.0, 1.1, 2.0], [1.99, 1.97, 1.0])
    (1.0, 1.1)
    """
    best = max(cpu_shares)
    return tuple(sample for sample, share in zip(samples, cpu_shares) if share >= UNDISTURBED * best)


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def captured(run: Run, device: torch.device, *, pool: Any = None) -> Run:
    """The call as one CUDA graph: warmed up on a side stream, recorded, replayed.

    pool    memory that several graphs share, which are then replayed one at a time and whose results nobody reads
    Raises  RuntimeError where something in it cannot be recorded.
    """
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # Other threads, such as NCCL's watchdog, may go on calling CUDA meanwhile.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        run()
    return partial(_replay, graph, run)


def _replay(graph: torch.cuda.CUDAGraph, run: Run) -> None:
    """The graph reads the tensors that `run` holds, so they have to live as long as it."""
    graph.replay()


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; a CPU's allocator and an interrupted capture have no error of their own for it.

    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    (True, True)
    """
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    said = isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "out of memory" in str(error))
    return said or (error.__context__ is not None and out_of_memory(error.__context__))
