"""llama.cpp: chains; timings of a response, server logs old and new, the log of the speculative example, metrics.

Source: common/arg.cpp, common/speculative.cpp @0c1e57098 (builds have no versions that are ordered by time alone).
"""

from __future__ import annotations

import re
from typing import Any

from ..base.errors import InputError
from . import _llamacpp_check
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page, read_counters
from .reading import Asked, Reading, Series, by_context, number, requests_with, total
from .writing import draft_missing, flags, method_missing, named, simulated

_RATE = "accepted over drafted is no probability: drafting may stop early, so that few tokens are drafted a round"
_FROM_TOKENS = "every round emits one token beside the accepted ones: rounds = generated - accepted"


def from_page(page: Page, asked: Asked) -> Reading | None:
    """The counters of the metrics page."""
    return read_counters(page, "llamacpp", "llamacpp-metrics", asked)


def timings(data: Any, asked: Asked) -> Reading | None:
    """`timings` of responses; present only where something was drafted."""
    requests = [entry for entry in requests_with(data, "draft_n", "draft_n_accepted") if number(entry[0], "draft_n")]
    found = [entry for entry, _ in requests]
    if not found:
        return None
    accepted, generated = total(found, "draft_n_accepted"), total(found, "predicted_n")
    if generated is None or accepted is None:
        raise InputError("predicted_n is missing beside draft_n", hint="take the whole timings object")
    return Reading(
        "llamacpp-timings",
        f"{_FROM_TOKENS}; {_RATE}",
        rounds=_rounds(generated, accepted, "timings"),
        drafted=total(found, "draft_n"),
        accepted=accepted,
        contexts=by_context(
            (prompt, (number(entry, "predicted_n") or 0.0) - taken, taken)
            for entry, prompt in requests
            if prompt and (taken := number(entry, "draft_n_accepted")) is not None
        ),
    )


def _rounds(generated: float, accepted: float, at: str) -> float:
    if accepted >= generated:
        raise InputError(
            f"{at}: {accepted:g} accepted of {generated:g} generated tokens",
            hint="a round emits one token beside the accepted ones: are the numbers of one request?",
        )
    return generated - accepted


class ServerLog:
    """`draft acceptance = 0.64479 (167 accepted / 259 generated), mean acceptance length = 2.92, ...` (new), or
    `draft acceptance rate = 0.57576 (171 accepted / 297 generated)` after `eval time = ... / N tokens` (old).

    A line is a request; requests are added up by their rounds.
    """

    marks: tuple[str, ...] = ("draft acceptance", "eval time =", "#gen drafts")
    _counts = re.compile(
        r"draft acceptance(?: rate)? = +(\d+\.?\d*%?) \( *(\d+)(?: accepted)? */ *(\d+)(?: generated)?\)"
    )
    _mean = re.compile(r"mean acceptance length = +(\d+\.?\d*)")
    _rates = re.compile(r"acceptance rate per position = \((\d+\.?\d*(?:, *\d+\.?\d*)*)\)")
    _generated = re.compile(r"(prompt )?eval time = .*?/ +(\d+) (?:tokens|runs)")
    _calls = re.compile(r"statistics +(\S+): +#calls(?:\(b,g,a\))? = +(\d+)(?: +(\d+) +\d+)?, #gen drafts = +(\d+)")
    _tokens = re.compile(r"#gen tokens = +(\d+), #acc tokens = +(\d+)")

    def __init__(self) -> None:
        self.generated: float | None = None
        self.series = Series()
        self.sums: list[float] = []
        self.accepted = self.drafted = 0.0
        self.unknown = 0
        self.statistics: dict[str, tuple[float, float, float, float]] = {}

    def add(self, line: str, at: str) -> None:
        if "#gen drafts" in line:
            self._statistics(line)
        elif "eval time =" in line:
            found = self._generated.search(line)
            if found and not found[1]:
                self.generated = float(found[2])
        elif "draft acceptance" in line:
            counts = self._counts.search(line)
            if not counts:
                if "=" in line:
                    raise InputError(f"{at}: the line is cut short", hint="draft acceptance = 0.6 (6 accepted / ...)")
                return
            if 0 < float(counts[3]) >= float(counts[2]):
                self._agrees(counts[1], float(counts[2]) / float(counts[3]), at)
            self._request(line, float(counts[2]), float(counts[3]), at)

    @staticmethod
    def _agrees(stated: str, counted: float, at: str) -> None:
        """The printed rate against its counts, within its digits."""
        digits = stated.rstrip("%")
        scale = 0.01 if stated.endswith("%") else 1.0
        places = len(digits.partition(".")[2])
        if abs(float(digits) * scale - counted) > 0.51 * scale * 10.0**-places + 1e-9:
            raise InputError(
                f"{at}: a draft acceptance of {stated} stated, the counts give {counted:.6g}",
                hint="the line contradicts itself: is it complete?",
            )

    def _statistics(self, line: str) -> None:
        """The last line of a drafter holds its sums since the start."""
        calls, tokens = self._calls.search(line), self._tokens.search(line)
        if calls and tokens:
            made = float(calls[3] or calls[2])
            self.statistics[calls[1]] = (made, float(calls[4]), float(tokens[1]), float(tokens[2]))

    def _request(self, line: str, accepted: float, drafted: float, at: str) -> None:
        if accepted > drafted:
            raise InputError(f"{at}: {accepted:g} accepted of {drafted:g} drafted", hint="is the line complete?")
        mean, rates = self._mean.search(line), self._rates.search(line)
        shares = [float(part) for part in rates[1].split(",")] if rates else []
        generated, self.generated = self.generated, None
        if accepted and (shares or mean):
            excess = sum(shares) if shares else float(mean[1]) - 1.0 if mean else 0.0
            rounds = float(round(accepted / excess)) if excess > 0 else 0.0
        elif generated is not None and drafted:
            rounds = _rounds(generated, accepted, at)
        else:
            rounds = 0.0
        if not rounds:
            self.unknown += 1
            return
        if shares and abs(accepted / rounds - sum(shares)) > 0.00051 * len(shares) + 0.5 / rounds:
            raise InputError(
                f"{at}: rates by position add up to {sum(shares):.4g}, the counts to {accepted / rounds:.4g} a round",
                hint="the line contradicts itself: is it complete?",
            )
        if mean and abs(1 + accepted / rounds - float(mean[1])) > 0.0051:
            raise InputError(
                f"{at}: a mean length of {mean[1]}, the counts give {1 + accepted / rounds:.4g}",
                hint="the line contradicts itself: is it complete?",
            )
        self.accepted += accepted
        self.drafted += drafted
        self.series.add(1 + accepted / rounds, rounds)
        self.sums += [0.0] * (len(shares) - len(self.sums))
        for i, share in enumerate(shares):
            self.sums[i] += round(share * rounds)

    def reading(self, asked: Asked) -> Reading | None:
        if not self.series.weight:
            return self._from_statistics()
        reached = tuple(self.sums) if abs(sum(self.sums) - self.accepted) < 0.5 else ()
        left = f"{self.unknown} requests without a number of rounds left out"
        return Reading(
            "llamacpp-server-log",
            _RATE if self.sums else f"{_FROM_TOKENS}; {_RATE}",
            rounds=self.series.weight,
            accepted=self.accepted,
            drafted=self.drafted,
            reached=reached,
            survival=() if reached else tuple(value / self.series.weight for value in self.sums),
            resolution=0.0005 + 0.5 / self.series.weight,
            series=self.series.rows(),
            notes=(left,) if self.unknown else (),
        )

    def _from_statistics(self) -> Reading | None:
        """Sums by drafter, where no request line says how many rounds there were."""
        rows = [row for row in self.statistics.values() if row[1]]
        if not rows:
            if self.unknown:
                raise InputError(
                    "accepted and drafted tokens alone do not say how many rounds there were",
                    hint="keep the 'eval time' line of the request, or the 'statistics' line, in the log",
                )
            return None
        made, drafts, drafted, accepted = (sum(column) for column in zip(*rows))
        return Reading(
            "llamacpp-server-log",
            _RATE,
            rounds=drafts,
            without=made - drafts if len(rows) == 1 else 0.0,
            drafted=drafted,
            accepted=accepted,
        )


class ExampleLog:
    """`n_draft`, `n_predict`, `n_drafted`, `n_accept` of the speculative example."""

    marks: tuple[str, ...] = ("n_draft ", "n_draft=", "n_predict", "n_drafted", "n_accept")
    _field = re.compile(r"\b(n_draft|n_predict|n_drafted|n_accept)\s*[=:]\s*(\d+)")

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.k = 0
        self.at = ""

    def add(self, line: str, at: str) -> None:
        for name, value in self._field.findall(line):
            self.at = at
            if name == "n_draft":
                self.k = max(self.k, int(value))
            else:
                self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def reading(self, asked: Asked) -> Reading | None:
        if "n_accept" not in self.sums:
            return None
        missing = [name for name in ("n_predict", "n_drafted") if name not in self.sums]
        if missing:
            raise InputError(f"{self.at}: {missing[0]} is missing", hint="n_predict, n_drafted and n_accept are needed")
        accepted = self.sums["n_accept"]
        return Reading(
            "llamacpp-speculative-example",
            f"{_FROM_TOKENS}; {_RATE}",
            k=self.k or None,
            rounds=_rounds(self.sums["n_predict"], accepted, self.at),
            drafted=self.sums["n_drafted"],
            accepted=accepted,
        )


# ---- what it can run

METHODS = {
    "chain": "draft-simple",
    "eagle3": "draft-eagle3",
    "mtp": "draft-mtp",
    "dflash": "draft-dflash",
    "dspark": "draft-dspark",
    "ngram": "ngram-simple",
}

_RECORD = Capability(
    "chain",
    tuple(METHODS),
    ("spec_type", "spec_draft_model", "spec_draft_n_max", "spec_draft_n_min", "spec_draft_p_min"),
    "common/arg.cpp, common/speculative.cpp @0c1e57098",
    synthetic=True,
    note="--draft, --draft-max and --draft-min are removed; the tree of llama-speculative cannot be set",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Flags of the server. Drafting goes on at any confidence: p-min 0."""
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["spec_type"] = METHODS[wanted.method]
    if wanted.draft is not None and wanted.method != "ngram":
        settings["spec_draft_model"] = wanted.draft
    settings |= {"spec_draft_n_max": wanted.longest, "spec_draft_n_min": 0, "spec_draft_p_min": 0.0}
    if wanted.synthetic:
        settings["spec_synth_rates"] = ",".join(f"{rate:g}" for rate in simulated(wanted))
    notes = ("p-min above 0 stops drafting where the draft is unsure: the length is an upper bound then",)
    warnings = () if wanted.method in ("mtp", "ngram") else draft_missing(wanted)
    warnings += method_missing(wanted, "spec_type")
    command = f"llama-server -m {named(wanted.model, 'MODEL.gguf')} {flags(settings)}"
    return Export(settings, command=command, notes=notes, warnings=warnings)


STACK = Stack(
    name="llamacpp",
    title="llama.cpp",
    read="0c1e57098",
    capabilities=(_RECORD,),
    export=export,
    check=_llamacpp_check.check,
    shape=_llamacpp_check.shape,
    signs=_llamacpp_check.SIGNS,
    aliases=("llama.cpp", "llama-cpp", "llama_cpp"),
    start="llama-server -m {model}",
    pages=(from_page,),
    lines={"llama.cpp server log": ServerLog, "llama.cpp speculative log": ExampleLog},
    jsons={"llama.cpp timings": timings},
)
