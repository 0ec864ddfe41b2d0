"""SGLang: trees built anew every round, or chains with lengths by batch size; its logs, metrics and benchmark files.

Source: srt/arg_groups/speculative_hook.py, srt/speculative/adaptive_spec_params.py and dspark_sps.py of 0.5.23.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ..errors import DoesNotFit, InputError
from ..plan import Dynamic
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page
from .reading import Asked, Reading, Series, added, histogram, number, objects_with, total
from .writing import draft_missing, flags, merged, simulated_length

_LENGTH = "the accept length includes the bonus token"


class Log:
    """`Decode batch. #running-req: 1, ..., accept len: 3.33, accept rate: 0.78, ...`.

    The rate has two definitions: older versions print length / draft tokens (the root counted), newer ones
    (length - 1) / steps. Each line leaves a range for the divisor; the definition whose ranges share a whole number
    is the one in use. The length is what is planned with.
    """

    marks: tuple[str, ...] = ("accept len",)
    _pair = re.compile(r"accept len(?:gth)?: (\d+\.?\d*|nan)(?:, accept rate: (\d+\.?\d*|nan))?")
    _running = re.compile(r"#running-req: (\d+)")

    def __init__(self) -> None:
        self.series = Series()
        self.ranges = {"older": [0.0, math.inf], "newer": [0.0, math.inf]}

    def add(self, line: str, at: str) -> None:
        pair = self._pair.search(line)
        if not pair:
            if line.rstrip().endswith(self.marks[0]) or "accept len:" in line:
                raise InputError(f"{at}: the line is cut short", hint="accept len: 3.33, accept rate: 0.78")
            return
        if pair[1] == "nan":
            return
        length = float(pair[1])
        if length == 0:
            return
        if length < 1:
            raise InputError(f"{at}: accept len {length:g} is below 1", hint="the bonus token is included")
        running = self._running.search(line)
        self.series.add(length, max(1.0, float(running[1])) if running else 1.0)
        if pair[2] and pair[2] != "nan":
            rate = float(pair[2])
            if rate > 1.005:
                raise InputError(f"{at}: accept rate {rate:g} is above 1", hint="is it a percentage?")
            self._narrow("older", length, rate)
            self._narrow("newer", length - 1.0, rate)

    def _narrow(self, name: str, top: float, rate: float) -> None:
        """The divisor n of rate = top / n lies in a range, both numbers being printed with two digits."""
        limits = self.ranges[name]
        limits[0] = max(limits[0], (top - 0.005) / (rate + 0.005))
        limits[1] = min(limits[1], (top + 0.005) / (rate - 0.005) if rate > 0.005 else math.inf)

    def _divisor(self, name: str) -> int | None:
        low, high = self.ranges[name]
        first = max(1, math.ceil(low - 1e-9))
        return first if math.isfinite(high) and low > 0 and first <= high + 1e-9 else None

    def reading(self, asked: Asked) -> Reading | None:
        if not self.series.weight:
            return None
        older, newer = self._divisor("older"), self._divisor("newer")
        k, said = _definition(older, newer)
        return Reading(
            "sglang-log",
            f"{_LENGTH}; {said}",
            tau=self.series.mean,
            k=k,
            series=self.series.rows(),
            notes=("lines are weighted by running requests; with topk above 1 the rate is per node of the tree",),
        )


def _definition(older: int | None, newer: int | None) -> tuple[int | None, str]:
    """K and what the rate means."""
    if older is not None and newer is None and older > 1:
        return older - 1, f"the rate is the older one, length / {older} draft tokens with the root: no probability"
    if newer is not None and older is None:
        return newer, f"the rate is the newer one, (length - 1) / {newer}: accepted over drafted, no probability p"
    if older is None and newer is None:
        return None, "the rate agrees with neither definition of SGLang and is not used"
    return None, "the rate fits both definitions of SGLang and is not used"


def from_page(page: Page, asked: Asked) -> Reading | None:
    """Gauges of the metrics page."""
    length = page.mean("sglang:spec_accept_length")
    if length is None:
        return None
    steps = page.mean("sglang:spec_num_steps")
    return Reading(
        "sglang-metrics",
        f"{_LENGTH}; a gauge of the recent past, not a count: no interval can be stated",
        tau=length,
        k=round(steps) if steps else None,
    )


_RIGHT = ("spec_num_correct_drafts", "spec_accept_token_num")
_PROPOSED = ("spec_num_proposed_drafts", "spec_draft_token_num")
_HISTOGRAMS = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def meta_info(data: Any) -> Reading | None:
    """`meta_info` of responses: tokens over verification passes, added up over requests."""
    found = [entry for entry in objects_with(data, "spec_verify_ct") if number(entry, "spec_verify_ct")]
    if not found:
        return None
    rounds = total(found, "spec_verify_ct")
    accepted = total(found, *_RIGHT)
    completion = total(found, "completion_tokens")
    if accepted is None:
        if completion is None or rounds is None:
            raise InputError("completion_tokens is missing beside spec_verify_ct", hint="take the whole meta_info")
        accepted = completion - rounds
    given = [next((entry[key] for key in _HISTOGRAMS if entry.get(key)), None) for entry in found]
    return Reading(
        "sglang-meta-info",
        f"{len(found)} responses added up: tokens over verification passes, bonus token included; with topk above 1 "
        "the rates are of levels of the tree, not of a chain",
        rounds=rounds,
        accepted=accepted,
        drafted=total(found, *_PROPOSED),
        histogram=added([histogram(counts) for counts in given]) if None not in given else (),
    )


def server_info(data: Any) -> Reading | None:
    """`/get_server_info`: the mean since the server started."""
    found = list(objects_with(data, "avg_spec_accept_length"))
    lengths = [value for entry in found if (value := number(entry, "avg_spec_accept_length"))]
    if not lengths:
        return None
    settings = next(objects_with(data, "speculative_num_steps"), {})
    steps = number(settings, "speculative_num_steps")
    topk = number(settings, "speculative_eagle_topk") or 1
    return Reading(
        "sglang-server-info",
        f"{_LENGTH}; a mean since the server started, over everything that was asked of it",
        tau=math.fsum(lengths) / len(lengths),
        k=int(steps) if steps and topk == 1 else None,
        notes=() if topk == 1 else (f"measured with a tree of topk {topk:g}: no chain of it was measured",),
    )


def bench_serving(data: Any) -> Reading | None:
    """`sglang.bench_serving`: a JSON object, or one a line."""
    found = [
        entry
        for entry in objects_with(data, "accept_length")
        if number(entry, "accept_length") and ("backend" in entry or "request_throughput" in entry)
    ]
    if not found:
        return None
    return Reading(
        "sglang-bench-serving",
        f"{_LENGTH}; it is the server's mean since it started, not of this run alone",
        tau=number(found[-1], "accept_length"),
        notes=("several results in the file: the last one is taken",) if len(found) > 1 else (),
    )


def bench_grid(data: Any) -> Reading | None:
    """`bench_speculative.py` and SpecForge's `bench_eagle3.py`: rows by batch, steps, topk and draft tokens."""
    rows = list(objects_with(data, "steps", "topk", "num_draft_tokens"))
    found = [(row, length) for row in rows if (length := _grid_length(row)) is not None]
    if not found:
        return None
    chains: dict[int, list[float]] = {}
    for row, length in found:
        if number(row, "topk") == 1 and (number(row, "steps") or 0) >= 1:
            chains.setdefault(int(number(row, "steps") or 0), []).append(length)
    trees = sum(number(row, "topk") != 1 for row, _ in found)
    meaning = f"{_LENGTH}; one server a row"
    if not chains:
        row, length = found[-1]
        note = f"only trees were measured (steps {row['steps']}, topk {row['topk']}): the last row is taken"
        return Reading("sglang-bench-speculative", meaning, tau=length, notes=(note,))
    lengths = {k: math.fsum(values) / len(values) for k, values in chains.items()}
    notes = (f"{trees} rows of trees (topk above 1) left out",) if trees else ()
    k = max(lengths)
    return Reading("sglang-bench-speculative", meaning, tau=lengths[k], k=k, by_k=lengths, notes=notes)


def _grid_length(row: Any) -> float | None:
    length = number(row, "acc_length", "accept_length")
    if length is not None:
        return length
    lengths = [number(entry, "accept_length") for entry in row.get("metrics") or [] if isinstance(entry, dict)]
    known = [value for value in lengths if value]
    return math.fsum(known) / len(known) if known else None


# ---- what it can run

METHODS = {
    "chain": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "ngram": "NGRAM",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
}
# Unless it is set, the server takes no more requests than this at a time.
DEFAULT_REQUESTS = 48
# NGRAM: the most branches of its search.
MOST_BRANCHES = 10

_RECORD = Capability(
    "dynamic",
    tuple(METHODS),
    (
        "speculative_algorithm",
        "speculative_draft_model_path",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "max_running_requests",
        "speculative_adaptive_config",
    ),
    "srt/arg_groups/speculative_hook.py, srt/speculative/adaptive_spec_params.py @0.5.23",
    root_counted=True,
    schedule="lower_keys",
    synthetic=True,
    cost="topk above 1 draws the tree's mask on the device every round",
    note="lengths by batch size: topk 1 with EAGLE, EAGLE3 or NEXTN alone",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """All three numbers, the most running requests, and the file of lengths by batch size where there are any."""
    at = wanted.dynamic or Dynamic(wanted.longest, 1, wanted.longest)
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["speculative_algorithm"] = METHODS[wanted.method]
    if wanted.draft is not None and wanted.method != "ngram":
        settings["speculative_draft_model_path"] = wanted.draft
    settings |= _numbers(at, wanted.method)
    notes, files = _notes(at, wanted.method), {}
    if wanted.schedule:
        settings["speculative_adaptive"] = True
        settings["speculative_adaptive_config"] = "adaptive.json"
        files["adaptive.json"] = json.dumps(adaptive_config(wanted), indent=2) + "\n"
        notes += _adaptive_notes(wanted)
    if wanted.method == "dspark" and wanted.passes:
        settings["speculative_dspark_sps_table_path"] = "sps_table.json"
        files["sps_table.json"] = json.dumps(cost_table(wanted.passes)) + "\n"
        notes.append("the cost table is read with SGLANG_RAGGED_VERIFY_MODE=compact; it holds for the plan's context")
    largest = wanted.schedule[-1].last if wanted.schedule else wanted.batch
    settings["max_running_requests"] = wanted.max_batch or max(largest, DEFAULT_REQUESTS)
    warnings = () if wanted.method in ("mtp", "ngram") else draft_missing(wanted)
    if wanted.method is None:
        warnings += ("the way of drafting is not known: --method eagle3 names the algorithm",)
    model = "MODEL" if wanted.model is None else wanted.model
    command = f"python -m sglang.launch_server {flags({'model_path': model, **settings})}"
    return Export(settings, files, command, _environment(wanted), notes=tuple(notes), warnings=warnings)


def _numbers(at: Dynamic, method: str | None) -> dict[str, int]:
    """Steps, topk and draft tokens; the root is a draft token here."""
    if method in ("dflash", "dspark"):
        # One pass drafts the block; steps and topk are forced to 1.
        block = {"speculative_num_steps": 1, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": at.nodes + 1}
        return block if method == "dflash" else {**block, "speculative_dspark_block_size": at.nodes}
    numbers = {
        "speculative_num_steps": at.steps,
        "speculative_eagle_topk": at.topk,
        "speculative_num_draft_tokens": at.nodes + 1,
    }
    if method != "ngram":
        return numbers
    if at.topk > MOST_BRANCHES:
        raise DoesNotFit(f"sglang: NGRAM searches at most {MOST_BRANCHES} branches, not {at.topk}")
    return {**numbers, "speculative_ngram_max_bfs_breadth": at.topk}


def _notes(at: Dynamic, method: str | None) -> list[str]:
    if at.topk > 1 and method in ("dflash", "dspark"):
        raise DoesNotFit(f"sglang: {METHODS[method]} drafts chains, topk {at.topk} has no form in it")
    if at.topk == 1:
        return []
    backends = "flashinfer" if method == "ngram" else "flashinfer, fa3 or triton"
    notes = [f"topk above 1 with a page size above 1 needs the attention backend {backends}"]
    if at.nodes + 1 > 32:
        notes.append("the bit-packed mask holds 32 tokens; wider trees use the full mask")
    return notes


def adaptive_config(wanted: Wanted) -> dict[str, dict[str, list[int]]]:
    """Lengths by batch size: a key is the smallest batch of its range; one candidate is a fixed length."""
    if wanted.method not in (None, "eagle", "eagle3", "mtp"):
        raise DoesNotFit(
            f"sglang: lengths by batch size are not for {METHODS[wanted.method]}",
            hint="EAGLE, EAGLE3 and NEXTN have them",
        )
    return {str(entry.first): {"candidate_steps": [entry.k]} for entry in merged(wanted.schedule)}


def _adaptive_notes(wanted: Wanted) -> list[str]:
    ends = ", ".join(str(entry.last) for entry in merged(wanted.schedule)[:-1])
    return [
        f"batches are padded up to a CUDA graph size before their range is looked up: have graphs of {ends}",
        "lengths by batch size are switched off under attention DP, two-batch overlap and PD multiplexing",
    ]


def cost_table(passes: Any) -> dict[str, Any]:
    """DSPARK's table: steps per second by tokens in the pass, which never rise.

    Between two entries the one below holds, so every width of the plan is an entry.

    >>> cost_table([(1, 0.01), (2, 0.0125)])["sample_steps_per_sec"]
    [100.0, 80.0]
    """
    rates: list[float] = []
    for _, seconds in passes:
        rates.append(min(1 / seconds, rates[-1] if rates else math.inf))
    tokens = [count for count, _ in passes]
    return {
        "sample_batch_tokens": tokens,
        "sample_steps_per_sec": [float(f"{rate:.6g}") for rate in rates],
        "max_batch_tokens": tokens[-1],
    }


def _environment(wanted: Wanted) -> dict[str, str]:
    if not wanted.synthetic:
        return {}
    return {
        "SGLANG_SIMULATE_ACC_LEN": str(simulated_length(wanted)),
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
    }


STACK = Stack(
    name="sglang",
    title="SGLang",
    read="0.5.23",
    capabilities=(_RECORD,),
    export=export,
    start="python -m sglang.launch_server --model-path {model}",
    pages=(from_page,),
    lines={"SGLang log": Log},
    jsons={
        "SGLang meta_info": meta_info,
        "SGLang server info": server_info,
        "SGLang bench_speculative": bench_grid,
        "SGLang bench_serving": bench_serving,
    },
)
