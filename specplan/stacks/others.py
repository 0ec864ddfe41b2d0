"""What belongs to no single stack: bare histograms, Spec-Bench answers, percentages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .reading import Asked, Reading, added, flat, histogram, objects_with

_HISTOGRAM_KEYS = ("acceptance_histogram", "accepted_histogram", "accept_histogram", "accepted_counts")


def bare_histogram(data: Any) -> Reading | None:
    """Rounds by accepted tokens: a list of counts, a mapping, or such a thing under a name that says so (AIPerf)."""
    meaning = "rounds by the number of drafted tokens accepted in them; added up over requests, so weighted by rounds"
    given = [entry[key] for key in _HISTOGRAM_KEYS for entry in objects_with(data, key) if entry.get(key)]
    if given:
        counts = added([histogram(entry) for entry in given])
        return Reading("accepted-count-histogram", meaning, histogram=counts)
    if isinstance(data, Mapping) and data and all(str(key).isdigit() for key in data):
        if min(int(key) for key in data) == 1:
            note = "the keys start at 1: they are taken as tokens of the round, the bonus token included"
            return Reading("accepted-count-histogram", meaning, histogram=histogram(data, from_one=True), notes=(note,))
        return Reading("accepted-count-histogram", meaning, histogram=histogram(data))
    if isinstance(data, list) and data and all(type(v) in (int, float) and float(v).is_integer() for v in data):
        return Reading("accepted-count-histogram", meaning, histogram=histogram(data))
    return None


def spec_bench(data: Any) -> Reading | None:
    """Spec-Bench: one question a line, with the tokens of every step (bonus token included)."""
    choices = list(objects_with(data, "accept_lengths"))
    lengths = [length for choice in choices for length in flat(choice["accept_lengths"])]
    if not lengths:
        return None
    if any(length < 1 or length != int(length) for length in lengths):
        raise InputError("a step emitted less than one token", hint="accept_lengths counts the bonus token")
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
