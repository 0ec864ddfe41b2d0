"""A page of Prometheus text: the samples that say something of speculation, in one pass.

Grammar: the text exposition format, one sample a line, `name{label="value"} number [timestamp]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.errors import InputError
from .reading import Asked, Reading

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*\Z")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NAME = re.compile(r"[A-Za-z_:][\w:]*(?=[{\s]|\Z)")

Labels = tuple[tuple[str, str], ...]


@dataclass
class Page:
    """Samples by name; a counter's `_total` is part of its name."""

    samples: dict[str, dict[Labels, float]] = field(default_factory=dict)
    first: str = ""

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over all series of that name whose labels agree; with or without `_total`."""
        found = [
            value
            for full in (name, f"{name}_total")
            for key, value in self.samples.get(full, {}).items()
            if all(dict(key).get(label) == wanted for label, wanted in labels.items())
        ]
        return math.fsum(found) if found else None

    def grouped(self, name: str, *by: str) -> dict[tuple[str, ...], float]:
        """The sums by the values of these labels, "" where a label is missing; with or without `_total`."""
        found: dict[tuple[str, ...], float] = {}
        for full in (name, f"{name}_total"):
            for key, value in self.samples.get(full, {}).items():
                labels = dict(key)
                group = tuple(labels.get(label, "") for label in by)
                found[group] = found.get(group, 0.0) + value
        return found

    def values(self, label: str, mark: str) -> list[str]:
        """The values that a label takes in samples whose name holds the mark, in order."""
        named = (series for name, series in self.samples.items() if mark in name)
        return sorted({dict(key)[label] for series in named for key in series if label in dict(key)})

    def only(self, label: str, value: str) -> Page:
        """The page without the samples of another value of that label."""
        samples = {
            name: {key: count for key, count in series.items() if dict(key).get(label, value) == value}
            for name, series in self.samples.items()
        }
        return Page({name: series for name, series in samples.items() if series}, self.first)

    def mean(self, name: str) -> float | None:
        """The mean over all series of a gauge; 0 and NaN mean that nothing was measured."""
        found = [value for value in self.samples.get(name, {}).values() if math.isfinite(value) and value > 0]
        return math.fsum(found) / len(found) if found else None


class PageReader:
    """Collects the samples of a page; the stacks say what they mean."""

    marks: tuple[str, ...] = ("spec_", "tgi_request_skipped", "atom:mtp_", "generation_tokens", "request_success",
                              "trtllm_avg_decoded")  # fmt: skip

    def __init__(self, stacks: Sequence[Callable[[Page, Asked], Reading | None]]) -> None:
        self.page = Page()
        self.stacks = stacks

    def add(self, line: str, at: str) -> None:
        name = _NAME.match(line)
        if not name or not any(mark in name[0] for mark in self.marks):
            return
        sample = _SAMPLE.match(line)
        if not sample:
            if "{" in line[: name.end() + 1] or ":" in name[0]:
                raise InputError(f"{at}: the sample {name[0][:60]!r} is cut short", hint="is the page complete?")
            return
        self._store(sample, at)

    def _store(self, sample: re.Match[str], at: str) -> None:
        try:
            value = float(sample[3])
        except ValueError:
            if not sample[2] and ":" not in sample[1]:
                return  # a sentence that starts with such a word
            raise InputError(f"{at}: {sample[3][:20]!r} is not a number", hint="is the page complete?") from None
        labels = tuple(_LABEL.findall(sample[2] or ""))
        series = self.page.samples.setdefault(sample[1], {})
        if labels in series:
            raise InputError(
                f"{at}: {sample[1]} is there twice", hint="one page a file; two pages of a server: --drift A B"
            )
        self.page.first = self.page.first or at
        series[labels] = value

    def reading(self, asked: Asked) -> Reading | None:
        if not self.page.samples:
            return None
        page = _of_model(self.page, asked)
        found = (read(page, asked) for read in self.stacks)
        reading = next((reading for reading in found if reading is not None), None)
        return reading and replace(reading, served=asked.served)


def positions(page: Page, name: str, label: str) -> tuple[float, ...]:
    """Counters by position from 0 up.

    Raises  InputError when one is missing.
    """
    there = page.values(label, name)
    if not all(text.isdigit() for text in there):
        raise InputError(f"{name}: position {there[0][:20]!r}", hint="positions are whole numbers")
    wanted = sorted(int(text) for text in there)
    if wanted != list(range(len(wanted))):
        raise InputError(f"{name}: positions {wanted} have a gap", hint="is the page complete?")
    return tuple(page.total(name, **{label: str(i)}) or 0.0 for i in wanted)


# What the counters of vLLM mean; llama.cpp and LMDeploy took them over with their names.
COUNTERS = (
    "counters since the server started: 1 + accepted / drafts is the tokens per round; a position's rate is the share "
    "of all drafts in which it and all before it were accepted, not a rate given the ones before"
)

# Fewer tokens outside of any draft than this share are the first tokens of requests, not rounds without a proposal.
FIRST_TOKENS = 0.05


def read_counters(page: Page, prefix: str, dialect: str, asked: Asked) -> Reading | None:
    """`PREFIX:spec_decode_num_drafts`, `.._draft_tokens`, `.._accepted_tokens`, `.._accepted_tokens_per_pos`."""
    base = f"{prefix}:spec_decode_num"
    if page.total(f"{base}_drafts") is None and page.total(f"{base}_accepted_tokens") is None:
        return None
    drafts = page.total(f"{base}_drafts")
    drafted = page.total(f"{base}_draft_tokens")
    accepted = page.total(f"{base}_accepted_tokens")
    if drafts is None or accepted is None:
        missing = "drafts" if drafts is None else "accepted_tokens"
        raise InputError(f"{base}_{missing} is missing", hint="is the page complete?")
    reached = positions(page, f"{base}_accepted_tokens_per_pos", "position")
    if reached and abs(sum(reached) - accepted) > 0.5 + 1e-6 * accepted:
        raise InputError(
            f"{accepted:g} tokens accepted, by position {sum(reached):g}",
            hint="counters of different runs, or the page was cut",
        )
    engines = by_engine(page, base)
    notes = (f"{len(engines)} engines added up",) if len(engines) > 1 else ()
    return Reading(
        dialect,
        COUNTERS,
        rounds=drafts,
        drafted=drafted,
        accepted=accepted,
        reached=reached,
        without=_without(page, prefix, drafts, accepted),
        k=_most(drafts, drafted, len(reached)),
        engines=engines if len(engines) <= MOST_ENGINES else (),
        notes=notes,
    )


# More engines than this are added up and not listed.
MOST_ENGINES = 256


def by_engine(page: Page, base: str) -> list[dict[str, Any]]:
    """Rounds, drafted and accepted tokens of each engine and model, and the rounds that reached each position.

    Raises  InputError where an engine has accepted more than it drafted.
    """
    labels = ("model_name", "engine")
    names = {"rounds": "drafts", "drafted": "draft_tokens", "accepted": "accepted_tokens"}
    sums = {key: page.grouped(f"{base}_{name}", *labels) for key, name in names.items()}
    places: dict[tuple[str, ...], dict[int, float]] = {}
    for (name, engine, place), count in page.grouped(f"{base}_accepted_tokens_per_pos", *labels, "position").items():
        if place.isdigit():
            places.setdefault((name, engine), {})[int(place)] = count
    found: list[dict[str, Any]] = []
    for key in sorted(sums["rounds"]):
        row = {name: counts.get(key) for name, counts in sums.items()}
        drafted, accepted = row["drafted"], row["accepted"]
        if drafted is not None and accepted is not None and accepted > drafted:
            raise InputError(
                f"engine {key[1] or '?'}: {accepted:g} tokens accepted of {drafted:g} drafted",
                hint="counters of different runs, or one of them restarted",
            )
        reached = [count for _, count in sorted(places.get(key, {}).items())]
        found.append({"model": key[0] or None, "engine": key[1] or None, **row, "reached": reached})
    return found


def _most(drafts: float, drafted: float | None, known: int) -> int | None:
    return known or (round(drafted / drafts) if drafted and drafts and drafted % drafts == 0 else None)


def _of_model(page: Page, asked: Asked) -> Page:
    """The samples of the model that is meant."""
    models = page.values("model_name", "spec_")
    if asked.every:
        return page
    if asked.served is not None:
        if asked.served not in models:
            there = f"there: {', '.join(models)[:200]}" if models else "the page names none: leave it out"
            raise InputError(f"no model {asked.served[:60]!r} in the page", hint=there)
        return page.only("model_name", asked.served)
    if len(models) > 1:
        raise InputError(
            f"{len(models)} models in the page: {', '.join(models)[:200]}", hint=f"--served {models[0][:60]} takes one"
        )
    return page


def _without(page: Page, prefix: str, drafts: float, accepted: float) -> float:
    """Rounds in which nothing was drafted: generated tokens that no draft accounts for."""
    generated = page.total(f"{prefix}:generation_tokens")
    if generated is None:
        return 0.0
    first = page.total(f"{prefix}:request_success") or 0.0
    rest = generated - drafts - accepted - first
    return rest if rest > FIRST_TOKENS * (drafts + rest) else 0.0
