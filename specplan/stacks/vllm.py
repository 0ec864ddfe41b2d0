"""vLLM: chains with lengths by batch size; its metrics page, log lines, `vllm bench serve` and per-request numbers.

Source: vllm/config/speculative.py and vllm/v1/spec_decode/dynamic/utils.py of 0.33.0.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ..base.errors import DoesNotFit, InputError
from . import _vllm_check, _vllm_token_tree
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page, read_counters
from .reading import (
    PRINTED,
    Asked,
    Reading,
    Series,
    added,
    by_context,
    check_stated,
    histogram,
    length_of,
    number,
    objects_with,
    requests_with,
    total,
)
from .writing import draft_missing, merged, named, simulated

_MARGINAL = (
    "the rate of a position is the share of rounds in which it and all before it were accepted (survival); their sum "
    "+ 1 is the mean length, bonus token included; the percentage is accepted over drafted and no probability p"
)


def from_page(page: Page, asked: Asked) -> Reading | None:
    """The counters of the V1 metrics page."""
    return read_counters(page, "vllm", "vllm-v1-metrics", asked)


class V1Log:
    """`SpecDecoding metrics: Mean acceptance length: 2.92, ..., Per-position acceptance rate: 0.805, 0.632, ...`.

    A line is a window since the line before; windows are added up by their rounds. The earliest versions print
    accepted and drafted tokens alone: rounds are then drafted over K, which --measured-k has to state.
    """

    marks: tuple[str, ...] = ("SpecDecoding metrics:",)
    _mean = re.compile(r"Mean acceptance length: (\d+\.?\d*|nan)")
    _accepted = re.compile(r"Accepted: (\d+) tokens")
    _drafted = re.compile(r"Drafted: (\d+) tokens")
    _rates = re.compile(r"Per-position acceptance rate: (\d+\.?\d*(?:, \d+\.?\d*)*)")
    _rate = re.compile(r"Draft acceptance rate: (\d+\.?\d*)%")

    def __init__(self) -> None:
        self.series = Series()
        self.sums: list[float] = []
        self.accepted = self.drafted = 0.0
        self.counted = True
        self.alone = Series()  # windows of accepted and drafted tokens alone: their rate, weighted by drafted tokens
        self.at = ""

    def add(self, line: str, at: str) -> None:
        text = line[line.index(self.marks[0]) :]
        mean, rates = self._mean.search(text), self._rates.search(text)
        found = (self._accepted.search(text), self._drafted.search(text))
        accepted, drafted = (float(match[1]) if match else None for match in found)
        rate = self._rate.search(text)
        if not mean and not rates and None in (accepted, drafted):
            raise InputError(f"{at}: the metrics line is cut short", hint="mean length or rates by position are needed")
        if (mean and mean[1] == "nan") or drafted == 0:
            return
        if accepted is not None and drafted is not None:
            if accepted > drafted:
                raise InputError(f"{at}: {accepted:g} accepted of {drafted:g} drafted", hint="is the line complete?")
            if rate:
                stated_at(at, float(rate[1]) / 100, accepted / drafted, "draft acceptance rate", 0.0005)
            if not mean and not rates:
                self.alone.add(accepted / drafted, drafted)
                self.at = at
                return
        shares = [float(part) for part in rates[1].split(", ")] if rates else []
        length = float(mean[1]) if mean else 1.0 + sum(shares)
        if shares and abs(1 + sum(shares) - length) > 0.005 + 0.0005 * len(shares) + 1e-6:
            raise InputError(
                f"{at}: a mean length of {length:g}, but the rates by position add up to {1 + sum(shares):.4g}",
                hint="1 + the sum of the rates is the mean length: is the line complete?",
            )
        self._window(length, shares, accepted, drafted)

    def _window(self, length: float, shares: list[float], accepted: float | None, drafted: float | None) -> None:
        rounds = _rounds(length, shares, accepted, drafted)
        self.counted = self.counted and rounds is not None
        weight = 1.0 if rounds is None else rounds
        self.accepted += accepted or 0.0
        self.drafted += drafted or 0.0
        tau = 1.0 + accepted / rounds if rounds and accepted is not None else length
        self.series.add(tau, weight)
        self.sums += [0.0] * (len(shares) - len(self.sums))
        for i, share in enumerate(shares):
            self.sums[i] += share * weight

    def reading(self, asked: Asked) -> Reading | None:
        if self.alone.weight and not self.series.weight:
            return self._of_totals(asked)
        if not self.series.weight:
            return None
        survival = tuple(value / self.series.weight for value in self.sums)
        notes: tuple[str, ...] = () if self.counted else ("the lines state no counts: every line weighs the same",)
        notes += ("lines without a mean length are left out",) if self.alone.weight else ()
        return Reading(
            "vllm-v1-log",
            _MARGINAL,
            tau=self.series.mean,
            rounds=self.series.weight if self.counted else None,
            accepted=self.accepted if self.counted else None,
            drafted=self.drafted if self.counted else None,
            survival=survival,
            resolution=0.0005,
            series=self.series.rows(),
            notes=notes,
        )

    def _of_totals(self, asked: Asked) -> Reading:
        """From the share of drafted tokens that were accepted, once K is known."""
        if asked.k is None:
            raise InputError(
                f"{self.at}: accepted and drafted tokens alone do not say how many rounds there were",
                hint="add --measured-k K, the num_speculative_tokens of the server",
            )
        k, drafted = asked.k, self.alone.weight
        windows = ({"weight": row["weight"] / k, "tau": 1 + k * row["tau"]} for row in self.alone.rows())
        return Reading(
            "vllm-v1-log",
            "accepted over drafted tokens is no probability p: with K drafted a round, 1 + K times it is the tokens "
            "per round, bonus token included",
            k=k,
            rounds=drafted / k,
            drafted=drafted,
            accepted=self.alone.total,
            series=tuple(windows),
            notes=("every draft is taken to have K tokens",),
        )


def stated_at(at: str, stated: float, counted: float, what: str, slack: float) -> None:
    """As `check_stated`, with the line."""
    try:
        check_stated(stated, counted, what, slack)
    except InputError as error:
        raise InputError(f"{at}: {error.message}", hint=error.hint) from None


def _rounds(length: float, shares: list[float], accepted: float | None, drafted: float | None) -> float | None:
    """Rounds of a window: drafted / K where drafts were full, else accepted over the mean accepted.

    Both lie within the print resolution; a whole number is meant.
    """
    if accepted is None or drafted is None:
        return None
    k = len(shares)
    if k and (accepted == 0 or drafted % k == 0):
        full = drafted / k
        if accepted == 0 or abs(accepted / full - (length - 1)) <= 0.0051:
            return full
    mean = sum(shares) or length - 1.0
    return float(round(accepted / mean)) if mean > 0 and accepted else None


class V0Log:
    """`Speculative metrics: Draft acceptance rate: 0.655, System efficiency: 0.649, ...`; counters since the start."""

    marks: tuple[str, ...] = ("Speculative metrics:",)
    _fields: Mapping[str, re.Pattern[str]] = {
        "rate": re.compile(r"Draft acceptance rate: (\d+\.?\d*)"),
        "efficiency": re.compile(r"System efficiency: (\d+\.?\d*)"),
        "k": re.compile(r"Number of speculative tokens: (\d+)"),
        "accepted": re.compile(r"Number of accepted tokens: (\d+)"),
        "drafted": re.compile(r"Number of draft(?: tokens)?(?: tokens)?: (\d+)"),
        "emitted": re.compile(r"Number of emitted(?: tokens)?(?: tokens)?: (\d+)"),
    }
    meaning = (
        "the acceptance rate of vLLM V0 also counts positions after a rejection, so it is too high for planning; "
        "system efficiency = tokens per round / (K + 1), and emitted tokens over rounds are the tokens per round"
    )

    def __init__(self) -> None:
        self.last: dict[str, float] = {}
        self.at = ""

    def add(self, line: str, at: str) -> None:
        text = line[line.index(self.marks[0]) :]
        found = {name: float(match[1]) for name, p in self._fields.items() if (match := p.search(text))}
        if "efficiency" not in found and "emitted" not in found:
            raise InputError(f"{at}: the metrics line is cut short", hint="system efficiency or emitted tokens needed")
        for name in ("drafted", "emitted"):
            if found.get(name, 0.0) < self.last.get(name, 0.0):
                raise InputError(
                    f"{at}: {name} tokens went back from {self.last[name]:g} to {found.get(name, 0.0):g}",
                    hint="the server was restarted: cut the log there",
                )
        self.last, self.at = found, at
        if found.get("drafted") and {"rate", "accepted"} <= found.keys():
            stated_at(at, found["rate"], found["accepted"] / found["drafted"], "draft acceptance rate", 0.0005)

    def reading(self, asked: Asked) -> Reading | None:
        if not self.last:
            return None
        k = asked.k or int(self.last.get("k", 0))
        if not k:
            raise InputError(f"{self.at}: the number of speculative tokens is missing", hint="add --measured-k K")
        if not {"drafted", "emitted"} <= self.last.keys():
            return Reading("vllm-v0-log", self.meaning, tau=self.last["efficiency"] * (k + 1), k=k)
        rounds, emitted = self.last["drafted"] / k, self.last["emitted"]
        if rounds and "efficiency" in self.last:
            efficiency = emitted / (rounds * (k + 1))
            stated_at(self.at, self.last["efficiency"], efficiency, "system efficiency", 0.0005 + 1e-3 / rounds)
        return Reading(
            "vllm-v0-log",
            self.meaning,
            k=k,
            rounds=rounds,
            drafted=self.last["drafted"],
            accepted=emitted - rounds,
            tau=emitted / rounds if rounds else None,
        )


def bench_serve(data: Any, asked: Asked) -> Reading | None:
    """`vllm bench serve --save-result`: one JSON object."""
    found = list(objects_with(data, "spec_decode_acceptance_length"))
    if not found:
        return None
    entry = found[-1]
    rates = entry.get("spec_decode_per_position_acceptance_rates") or []
    percent = number(entry, "spec_decode_acceptance_rate")
    return Reading(
        "vllm-bench-serve",
        _MARGINAL + "; the acceptance rate of this file is in percent",
        tau=number(entry, "spec_decode_acceptance_length"),
        rounds=number(entry, "spec_decode_num_drafts"),
        drafted=number(entry, "spec_decode_draft_tokens"),
        accepted=number(entry, "spec_decode_accepted_tokens"),
        survival=tuple(float(rate) for rate in rates),
        resolution=5e-5,
        rate=None if percent is None else percent / 100,
        rate_printed=5e-4,
        notes=("several results in the file: the last one is taken",) if len(found) > 1 else (),
    )


def per_request(data: Any, asked: Asked) -> Reading | None:
    """`--per-request-spec-decode-metrics`: an object in each response; also AIPerf's record of it."""
    requests = [entry for entry in requests_with(data, "num_spec_steps") if number(entry[0], "num_spec_steps")]
    found = [entry for entry, _ in requests]
    if not found:
        return None
    for i, entry in enumerate(found, 1):
        _agrees(entry, f"request {i}")
    counts = [histogram(entry["acceptance_histogram"]) for entry in found if entry.get("acceptance_histogram")]
    longest = max((length_of(entry, "num_spec_tokens") or 0 for entry in found), default=0)
    return Reading(
        "vllm-per-request",
        f"{len(found)} requests, weighted by their rounds: a mean of per-request means is another number",
        rounds=total(found, "num_spec_steps"),
        drafted=total(found, "num_draft_tokens"),
        accepted=total(found, "num_accepted_draft_tokens"),
        k=longest or None,
        histogram=added([*counts, (0.0,) * (longest + 1)]) if len(counts) == len(found) else (),
        contexts=by_context(
            (prompt, number(entry, "num_spec_steps") or 0.0, number(entry, "num_accepted_draft_tokens") or 0.0)
            for entry, prompt in requests
            if prompt
        ),
    )


def _agrees(entry: Mapping[str, Any], what: str) -> None:
    """The means of a request against its counts."""
    rounds, accepted = number(entry, "num_spec_steps"), number(entry, "num_accepted_draft_tokens")
    drafted = number(entry, "num_draft_tokens")
    length, rate = number(entry, "mean_acceptance_length"), number(entry, "draft_acceptance_rate")
    if rounds and accepted is not None and length is not None:
        check_stated(length, 1 + accepted / rounds, f"{what}: mean_acceptance_length", PRINTED)
    if drafted and accepted is not None and rate is not None:
        check_stated(rate, accepted / drafted, f"{what}: draft_acceptance_rate", PRINTED)


# ---- what it can run

METHODS = {
    "chain": "draft_model",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "ngram": "ngram",
    "dflash": "dflash",
    "dspark": "dspark",
}
_SETTINGS = ("method", "model", "num_speculative_tokens", "num_speculative_tokens_per_batch_size")
_SINCE_SCHEDULES = Capability(
    "chain",
    tuple(METHODS),
    _SETTINGS,
    "vllm/config/speculative.py, vllm/v1/spec_decode/dynamic/utils.py @0.33.0",
    since="0.21.1",
    schedule="ranges",
    synthetic=True,
    note="a length above num_speculative_tokens is cut silently; the last range holds for all larger batches",
)
_CHAINS = Capability(
    "chain",
    tuple(METHODS),
    _SETTINGS[:3],
    "vllm/config/speculative.py @0.21.0",
    since="0.21",
    until="0.21.0",
    note="token trees are gone, lengths by batch size not there yet",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The JSON of --speculative-config, one length or lengths by batch size."""
    if wanted.tree.nodes > wanted.tree.depth:
        return _vllm_token_tree.export(wanted, version)
    k = wanted.longest
    _refuse_odd_length(k, wanted.n_predict)
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["method"] = METHODS[wanted.method]
    if wanted.draft is not None and wanted.method != "ngram":
        settings["model"] = wanted.draft
    settings["num_speculative_tokens"] = k
    notes: list[str] = []
    if wanted.schedule:
        ranges = merged(wanted.schedule, wanted.max_batch)
        settings["num_speculative_tokens_per_batch_size"] = [[entry.first, entry.last, entry.k] for entry in ranges]
        notes += _schedule_notes(wanted, ranges[-1].last, ranges[-1].k, any(entry.k == 0 for entry in ranges))
    if wanted.synthetic:
        settings["rejection_sample_method"] = "synthetic"
        settings["synthetic_acceptance_rates"] = list(simulated(wanted))
    if wanted.method == "mtp" and k > 1 and wanted.n_predict is None:
        notes.append("vLLM refuses a length above the checkpoint's n_predict that is no multiple of it (--n-predict N)")
    config = json.dumps(settings, separators=(",", ":"))
    command = f"vllm serve {named(wanted.model, 'MODEL')} --speculative-config {shlex.quote(config)}"
    warnings = () if wanted.method in ("mtp", "ngram") else draft_missing(wanted)
    return Export(settings, command=command, notes=tuple(notes), warnings=warnings)


def _refuse_odd_length(k: int, n_predict: int | None) -> None:
    if n_predict is not None and k > n_predict and k % n_predict:
        raise DoesNotFit(
            f"vllm: {k} tokens are more than the head's n_predict {n_predict} and no multiple of it",
            hint=f"{k - k % n_predict} or {k + n_predict - k % n_predict} tokens",
        )


def _schedule_notes(wanted: Wanted, last: int, tail: int, pauses: bool) -> list[str]:
    notes = ["batches are counted in scheduled requests, prefills included (vllm#49548); off under data parallelism"]
    if tail:
        notes.append(
            f"above batch {last} vLLM goes on with {tail} tokens: --max-batch says how far the last range goes"
        )
    if pauses:
        notes.append("length 0: throughput may drop around that border (vllm#49548)")
    if wanted.method == "mtp":
        notes.append("with MTP and full CUDA graphs lengths by batch size crash in some versions (vllm#48494)")
    return notes


STACK = Stack(
    name="vllm",
    title="vLLM",
    read="0.33.0",
    capabilities=(_SINCE_SCHEDULES, _CHAINS, _vllm_token_tree.TOKEN_TREE),
    export=export,
    check=_vllm_check.check,
    shape=_vllm_check.shape,
    signs=_vllm_check.SIGNS,
    start="vllm serve {model}",
    pages=(from_page,),
    lines={"vLLM V1 log": V1Log, "vLLM V0 log": V0Log},
    jsons={"vllm bench serve": bench_serve, "vLLM per-request numbers": per_request},
)
