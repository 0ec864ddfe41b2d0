"""Bare histograms, EAGLE and Spec-Bench answers, LMDeploy, TGI, MLC-LLM, ATOM, LM Studio."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from .prometheus import Page, read_counters
from .reading import Asked, Reading, added, histogram, number, objects_with, total

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
    lengths = [length for choice in choices for length in _flat(choice["accept_lengths"])]
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


def _flat(given: Any) -> list[float]:
    values = list(itertools.chain.from_iterable(v if isinstance(v, list) else [v] for v in given))
    if not all(type(value) in (int, float) for value in values):
        raise InputError("accept_lengths holds something that is no number", hint="a list of numbers a question")
    return [float(value) for value in values]


def eagle(data: Any) -> Reading | None:
    """EAGLE's answers: new tokens over steps of each turn; `idxs` is the index of the last step, from 0."""
    choices = list(objects_with(data, "idxs", "new_tokens"))
    if not choices:
        return None
    steps = sum(sum(_flat(choice["idxs"])) + len(choice["idxs"]) for choice in choices)
    tokens = sum(sum(_flat(choice["new_tokens"])) for choice in choices)
    return Reading(
        "eagle-answers",
        f"{len(choices)} answers added up: new tokens over steps, bonus token included; plain decoding has 1",
        rounds=steps,
        accepted=tokens - steps,
    )


def lmdeploy_page(page: Page, asked: Asked) -> Reading | None:
    """LMDeploy's counters, named as vLLM's."""
    return read_counters(page, "lmdeploy", "lmdeploy-metrics", asked)


def lmdeploy(data: Any) -> Reading | None:
    """`spec_info` of LMDeploy's responses."""
    found = [entry["spec_info"] for entry in objects_with(data, "spec_info") if isinstance(entry["spec_info"], Mapping)]
    if not found:
        return None
    return Reading(
        "lmdeploy-spec-info",
        "added up over responses; the mean length includes the bonus token",
        rounds=total(found, "num_drafts"),
        drafted=total(found, "num_draft_tokens"),
        accepted=total(found, "num_accepted_tokens"),
        tau=number(found[0], "mean_acceptance_length", "mean_accept_length") if len(found) == 1 else None,
    )


def tgi_page(page: Page, asked: Asked) -> Reading | None:
    """`tgi_request_skipped_tokens`: tokens of a step beyond the first."""
    steps = page.total("tgi_request_skipped_tokens_count")
    skipped = page.total("tgi_request_skipped_tokens_sum")
    if steps is None or skipped is None:
        return None
    return Reading(
        "tgi-metrics",
        "tokens of a step beyond the first, over all steps, those without a draft included",
        rounds=steps,
        accepted=skipped,
    )


def atom_page(page: Page, asked: Asked) -> Reading | None:
    """ATOM's mean tokens of a forward pass."""
    mean = page.mean("atom:mtp_average_tokens_per_forward")
    return None if mean is None else Reading("atom-metrics", _ATOM, tau=mean)


_ATOM = "mean tokens of a forward pass, bonus token included: no counts, so no interval"


def atom(data: Any) -> Reading | None:
    """ATOM's `/debug/mtp_stats`."""
    found = next(objects_with(data, "average_tokens_per_forward"), None)
    if found is None:
        return None
    return Reading("atom-mtp-stats", _ATOM, tau=number(found, "average_tokens_per_forward"))


def mlc(data: Any) -> Reading | None:
    """MLC-LLM's `draft_count` and `accept_count`; index 0 is the token that every round emits."""
    found = list(objects_with(data, "draft_count", "accept_count"))
    if not found:
        return None
    accepted, drafted = (added([_counts(entry[key]) for entry in found]) for key in ("accept_count", "draft_count"))
    if not accepted or not accepted[0]:
        raise InputError("accept_count[0] is 0: no rounds", hint="was speculation on?")
    return Reading(
        "mlc-metrics",
        "rounds by position that was accepted with all before it; the first entry is the token every round emits",
        rounds=accepted[0],
        reached=accepted[1:],
        accepted=sum(accepted[1:]),
        drafted=sum(drafted[1:]) or None,
    )


def _counts(given: Any) -> Sequence[float]:
    """A list, or a mapping of position to count."""
    return histogram(given if isinstance(given, list) else dict(given))


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


def lm_studio(data: Any) -> Reading | None:
    """LM Studio's prediction statistics, which hold counts."""
    found = list(objects_with(data, "acceptedDraftTokensCount", "predictedTokensCount"))
    if not found:
        return None
    accepted, generated = total(found, "acceptedDraftTokensCount"), total(found, "predictedTokensCount")
    if accepted is None or generated is None or accepted >= generated:
        raise InputError("as many tokens accepted as generated", hint="every round emits one token of its own")
    return Reading(
        "lm-studio-stats",
        "every round emits one token beside the accepted ones: rounds = generated - accepted",
        rounds=generated - accepted,
        accepted=accepted,
        drafted=total(found, "totalDraftTokensCount"),
    )
