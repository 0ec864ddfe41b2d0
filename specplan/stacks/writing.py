"""What exporters share: flags from settings, simulated acceptance, schedules in their dialects."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import InputError
from .capability import Scheduled, Wanted


def flags(settings: Mapping[str, Any]) -> str:
    """Settings as flags; a true one alone is a switch.

    >>> flags({"speculative_num_steps": 3, "speculative_adaptive": True})
    '--speculative-num-steps 3 --speculative-adaptive'
    """
    words = []
    for name, value in settings.items():
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(shlex.quote(str(value)))
    return " ".join(words)


def named(name: str | None, placeholder: str) -> str:
    """A model's name for a command line, or what stands for it."""
    return placeholder if name is None else shlex.quote(name)


def draft_missing(wanted: Wanted, needed: bool = True) -> tuple[str, ...]:
    """The warning where the draft has to be named."""
    return ("the draft is not named: --draft NAME puts it in",) if needed and wanted.draft is None else ()


def method_missing(wanted: Wanted, setting: str) -> tuple[str, ...]:
    """The warning where the way of drafting has to be named."""
    return () if wanted.method is not None else (f"the way of drafting is not known: --method NAME sets {setting}",)


def simulated(wanted: Wanted, what: str = "simulated acceptance") -> tuple[float, ...]:
    """Shares of rounds that accept at least 1, 2, ... drafted tokens, one for each level, never rising.

    what    needs them, for the message

    Raises  InputError where the acceptance does not reach that far.
    """
    if len(wanted.survival) < wanted.longest:
        raise InputError(
            f"{what} needs the rates of {wanted.longest} levels, {len(wanted.survival)} are known",
            hint="export a plan made with an acceptance, or add --p 0.6, --survival 0.8,0.6 or --acceptance FILE",
        )
    rates: list[float] = []
    for value in wanted.survival[: wanted.longest]:
        rates.append(round(min(max(value, 0.0), rates[-1] if rates else 1.0), 6))
    return tuple(rates)


def simulated_length(wanted: Wanted) -> float:
    """Tokens of a round, the bonus token included."""
    return round(1 + sum(simulated(wanted)), 4)


def longest_alone(wanted: Wanted) -> tuple[str, ...]:
    """What one simulated length means where lengths change with the batch."""
    if not (wanted.synthetic and wanted.schedule):
        return ()
    return (f"simulated acceptance is that of the length {wanted.longest}: check the batches that draft as many",)


def merged(schedule: Sequence[Scheduled], max_batch: int | None = None) -> tuple[Scheduled, ...]:
    """Neighbours of one length as one range; the last range reaches to `max_batch` at least.

    >>> merged((Scheduled(1, 2, 4), Scheduled(3, 4, 4), Scheduled(5, 8, 0)), 64)
    (Scheduled(first=1, last=4, k=4), Scheduled(first=5, last=64, k=0))
    """
    found: list[Scheduled] = []
    for entry in schedule:
        if found and found[-1].k == entry.k:
            entry = Scheduled(found.pop().first, entry.last, entry.k)
        found.append(entry)
    last = found[-1]
    found[-1] = Scheduled(last.first, max(last.last, max_batch or 0), last.k)
    return tuple(found)
