"""`measure device`: everything about a device that a profile holds, one reading after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ..base.errors import EnvironmentProblem, InputError, did_you_mean
from .bandwidth import cache_reading, copy_and_read, streaming
from .clocks import QUICK, THOROUGH, Budget, Tell, out_of_memory, part_of
from .matmul import PRECISIONS, peaks, precisions
from .nvml import watching
from .overhead import fixed_times
from .readings import Place, Reading

Source = Callable[..., Iterator[Reading]]


def streamed_dtypes(place: Place, asked: Sequence[str]) -> tuple[str, ...]:
    """The dtypes whose weights are streamed: of those asked for, else what models are served in here."""
    stored = tuple(name for name in precisions(place, asked) if name in ("fp32", "fp16", "bf16"))
    if not stored:
        stored = tuple(name for name in precisions(place) if name in ("fp32", "fp16", "bf16"))
    return stored[-1:] if place.is_cuda and not asked else stored


def read_dtypes(text: str | None) -> tuple[str, ...]:
    """
    >>> read_dtypes("bf16,fp32")
    ('bf16', 'fp32')
    """
    names = tuple(part.strip().casefold() for part in (text or "").split(",") if part.strip())
    for name in names:
        if name not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            hint = did_you_mean(name, PRECISIONS, otherwise=f"known: {known}")
            raise InputError(f"--dtype {name[:40]!r} is not measured here", hint=hint)
    return names


def readings(place: Place, *, dtypes: Sequence[str] = (), quick: bool = False, tell: Tell) -> Iterator[Reading]:
    """All readings of the device, in the order in which they are worth keeping if it is interrupted.

    dtypes  what to multiply and stream in; empty for all that the device has
    Raises  EnvironmentProblem when the device's memory does not hold the working sets.
    """
    budget = QUICK if quick else THOROUGH
    steps = list(_steps(place, dtypes, budget, quick))
    for done, (what, source) in enumerate(steps):
        tell(done / len(steps), what)
        try:
            with watching(place.library, place.handle) as watch:
                taken = list(source(tell=part_of(tell, what, done, len(steps))))
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            hint = "end other programs on it, or use --quick"
            raise EnvironmentProblem(f"{place.name}: out of memory while measuring {what}", hint=hint) from None
        for reading in taken:
            yield _flagged(reading, watch.slowdowns)
        if place.is_cuda:
            torch.cuda.empty_cache()
    tell(1.0, "done")


def _flagged(reading: Reading, slowdowns: list[str]) -> Reading:
    return replace(reading, slowdowns=tuple(slowdowns)) if slowdowns and not reading.slowdowns else reading


def _steps(place: Place, asked: Sequence[str], budget: Budget, quick: bool) -> Iterator[tuple[str, Source]]:
    """(what, how) of every step."""
    how: dict[str, Any] = {"budget": budget, "quick": quick}
    streamed = streamed_dtypes(place, asked)
    yield "copy and read", partial(copy_and_read, place, **how)
    for name in streamed:
        yield f"{name} weights", partial(streaming, place, name, **how)
    for name in precisions(place, asked):
        yield f"{name} products", partial(peaks, place, name, **how)
    yield "attention", partial(cache_reading, place, streamed[-1], **how)
    yield "overheads", partial(fixed_times, place, streamed[-1], budget=budget)
