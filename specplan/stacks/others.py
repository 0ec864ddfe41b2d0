"""What belongs to no single stack: Spec-Bench answers, percentages."""

from __future__ import annotations

import re
from typing import Any

from ..base.errors import InputError
from ..base.tree import MAX_DEPTH
from .reading import Asked, Reading, flat, objects_with


def spec_bench(data: Any, asked: Asked) -> Reading | None:
    """Spec-Bench: one question a line, with the tokens of every step (bonus token included)."""
    choices = list(objects_with(data, "accept_lengths"))
    lengths = [length for choice in choices for length in flat(choice["accept_lengths"])]
    if not lengths:
        return None
    if not all(1 <= length <= MAX_DEPTH + 1 and length == int(length) for length in lengths):
        raise InputError(
            "a step emitted less than one token, or no whole number of them",
            hint="accept_lengths counts the bonus token",
        )
    counts = [0.0] * int(max(lengths))
    for length in lengths:
        counts[int(length) - 1] += 1.0
    return Reading(
        "spec-bench",
        f"{len(choices)} answers: tokens of every step, bonus token included, so the mean accepted tokens of "
        "Spec-Bench is the tokens per round",
        histogram=tuple(counts),
    )


def _from_share(share: float, asked: Asked, dialect: str) -> Reading:
    """Tokens per round from a bare percentage, once it is said what it is a share of."""
    if asked.denominator is None:
        raise InputError(
            "a percentage of accepted tokens does not say what it is a share of",
            hint="--denominator drafted (accepted over drafted) or generated (accepted over all generated tokens)",
        )
    if not 0 <= share <= 1:
        raise InputError(f"{share * 100:g} % of the tokens accepted", hint="at most 100 %")
    if asked.denominator == "generated":
        if share == 1:
            raise InputError("100 % of the generated tokens accepted", hint="every round emits one token of its own")
        meaning = "accepted over all generated tokens: tokens per round are 1 / (1 - share)"
        return Reading(dialect, meaning, tau=1.0 / (1.0 - share), k=asked.k)
    if asked.k is None:
        raise InputError("accepted over drafted needs the drafted tokens a round", hint="add --measured-k K")
    meaning = "accepted over drafted tokens: tokens per round are 1 + K share; it is no probability p"
    return Reading(dialect, meaning, tau=1.0 + asked.k * share, k=asked.k)


class Percentages:
    """`Accepted 62.5% of draft tokens`, as LM Studio and MLX front ends show it; lines weigh the same."""

    marks: tuple[str, ...] = ("draft token", "Draft token", "drafted token")
    _share = re.compile(r"(?:accept\w*\D{0,30}?(\d+\.?\d*) ?%|(\d+\.?\d*) ?%\D{0,30}?accept)", re.IGNORECASE)

    def __init__(self) -> None:
        self.shares: list[float] = []

    def add(self, line: str, at: str) -> None:
        found = self._share.search(line)
        if found and len(self.shares) < 100_000:
            self.shares.append(float(found[1] or found[2]) / 100)

    def reading(self, asked: Asked) -> Reading | None:
        if not self.shares:
            return None
        return _from_share(sum(self.shares) / len(self.shares), asked, "percentage")
