"""SGLang: trees built anew every round, or chains with lengths by batch size; its logs, metrics and benchmark files.

Source: srt/arg_groups/speculative_hook.py, srt/speculative/adaptive_spec_params.py and dspark_sps.py of 0.5.23.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import DoesNotFit, InputError
from ..search.space import Dynamic
from . import _sglang_check
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page
from .reading import (
    PRINTED,
    Asked,
    Reading,
    Series,
    added,
    by_context,
    check_stated,
    histogram,
    number,
    objects_with,
    requests_with,
    total,
)
from .writing import draft_missing, flags, longest_alone, merged, method_missing, simulated_length

_LENGTH = "the accept length includes the bonus token"


# What the rate means once the drafted tokens are a tree.
_PER_NODE = (
    "with topk above 1 the rate is accepted over the nodes of the tree: it falls as the tree widens, and is no rate of "
    "a chain"
)


def tree_of(asked: Asked, steps: float | None, topk: float | None, drafted: float | None) -> dict[str, int]:
    """The tree that was drafted, {} for a chain or where nothing says so.

    drafted   draft tokens with the root: a chain has steps + 1 of them

    >>> tree_of(Asked(), 3, None, 8), tree_of(Asked(), 3, 1, 4)
    ({'steps': 3, 'nodes': 7}, {})
    """
    topk = asked.topk if asked.topk is not None else topk
    wide = topk is not None and topk > 1
    if not wide and (topk is not None or not steps or not drafted or drafted <= steps + 1):
        return {}
    known = {"steps": steps, "topk": topk, "nodes": None if drafted is None else drafted - 1}
    return {name: int(value) for name, value in known.items() if value}


class Log:
    """`Decode batch. #running-req: 1, ..., accept len: 3.33, accept rate: 0.78, ...`.

    The rate has two definitions: older versions print length / draft tokens (the root counted), newer ones
    (length - 1) / (draft tokens - 1), which for a chain are its steps. Each line leaves a range for the divisor; the
    definition whose ranges share a whole number is the one in use. The length is what is planned with. Whether a chain
    or a tree was drafted stands in the line of the server's arguments, where the log has it.
    """

    marks: tuple[str, ...] = ("accept len", "speculative_eagle_topk=")
    _pair = re.compile(r"accept len(?:gth)?: (\d+\.?\d*|nan)(?:, accept rate: (\d+\.?\d*|nan))?")
    _running = re.compile(r"#running-req: (\d+)")
    _setting = re.compile(r"speculative_(num_steps|eagle_topk|num_draft_tokens)=(\d+)")

    def __init__(self) -> None:
        self.series = Series()
        self.ranges = {"older": [0.0, math.inf], "newer": [0.0, math.inf]}
        self.settings: dict[str, int] = {}

    def add(self, line: str, at: str) -> None:
        if self.marks[1] in line:
            self.settings = {name: int(value) for name, value in self._setting.findall(line) if len(value) < 6}
            return
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
        nodes, said = _definition(older, newer)
        stated = self.settings.get("num_draft_tokens")
        tree = tree_of(
            asked, self.settings.get("num_steps"), self.settings.get("eagle_topk"),
            stated if stated or nodes is None else nodes + 1,
        )  # fmt: skip
        topk = asked.topk or self.settings.get("eagle_topk")
        warning = "whether a chain was drafted is not in the log: a chain is taken; --measured-topk N says otherwise"
        return Reading(
            "sglang-log",
            f"{_LENGTH}; {said}" + (f"; {_PER_NODE}" if tree else ""),
            tau=self.series.mean,
            k=None if tree else nodes or self.settings.get("num_steps"),
            tree=tree,
            series=self.series.rows(),
            notes=("lines are weighted by running requests", *(() if topk else (warning,))),
        )


def _definition(older: int | None, newer: int | None) -> tuple[int | None, str]:
    """Drafted tokens a round (K of a chain) and what the rate means."""
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
    steps, drafted = page.mean("sglang:spec_num_steps"), page.mean("sglang:spec_num_draft_tokens")
    tree = tree_of(asked, steps, None, drafted)
    return Reading(
        "sglang-metrics",
        f"{_LENGTH}; a gauge of the recent past, not a count: no interval can be stated"
        + (f"; {_PER_NODE}" if tree else ""),
        tau=length,
        k=round(steps) if steps and not tree else None,
        tree=tree,
    )


_RIGHT = ("spec_num_correct_drafts", "spec_accept_token_num")
_PROPOSED = ("spec_num_proposed_drafts", "spec_draft_token_num")
_HISTOGRAMS = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def meta_info(data: Any, asked: Asked) -> Reading | None:
    """`meta_info` of responses: tokens over verification passes, added up over requests."""
    requests = [
        (entry, prompt) for entry, prompt in requests_with(data, "spec_verify_ct") if number(entry, "spec_verify_ct")
    ]
    found = [entry for entry, _ in requests]
    if not found:
        return None
    rounds = total(found, "spec_verify_ct")
    accepted = total(found, *_RIGHT)
    completion = total(found, "completion_tokens")
    if accepted is None:
        if completion is None or rounds is None:
            raise InputError("completion_tokens is missing beside spec_verify_ct", hint="take the whole meta_info")
        accepted = completion - rounds
    for entry in found:
        _agrees(entry)
    given = [next((entry[key] for key in _HISTOGRAMS if entry.get(key)), None) for entry in found]
    return Reading(
        "sglang-meta-info",
        f"{len(found)} responses added up: tokens over verification passes, bonus token included; with topk above 1 "
        "the rates are of levels of the tree, not of a chain",
        rounds=rounds,
        accepted=accepted,
        drafted=total(found, *_PROPOSED),
        histogram=added([histogram(counts) for counts in given]) if None not in given else (),
        tree=tree_of(asked, None, None, None),
        contexts=by_context((prompt, *_rounds(entry)) for entry, prompt in requests if prompt),
    )


def _rounds(entry: Mapping[str, Any]) -> tuple[float, float]:
    """Verification passes and accepted drafted tokens of a response."""
    rounds = number(entry, "spec_verify_ct") or 0.0
    accepted = number(entry, *_RIGHT)
    return rounds, (number(entry, "completion_tokens") or rounds) - rounds if accepted is None else accepted


def _agrees(entry: Mapping[str, Any]) -> None:
    """The rates of a response against its counts; the first and the last round may emit a token less or more."""
    rounds, accepted = _rounds(entry)
    length, rate, proposed = (
        number(entry, "spec_accept_length"),
        number(entry, "spec_accept_rate"),
        number(entry, *_PROPOSED),
    )
    if length:
        check_stated(length, 1.0 + accepted / rounds, "spec_accept_length", PRINTED + 2.0 / rounds)
    if rate and proposed:
        check_stated(rate, accepted / proposed, "spec_accept_rate", PRINTED + 2.0 / proposed)


def server_info(data: Any, asked: Asked) -> Reading | None:
    """`/get_server_info`: the mean since the server started."""
    found = list(objects_with(data, "avg_spec_accept_length"))
    lengths = [value for entry in found if (value := number(entry, "avg_spec_accept_length"))]
    if not lengths:
        return None
    settings = next(objects_with(data, "speculative_num_steps"), {})
    steps = number(settings, "speculative_num_steps")
    topk, drafted = number(settings, "speculative_eagle_topk"), number(settings, "speculative_num_draft_tokens")
    tree = tree_of(asked, steps, topk, drafted)
    return Reading(
        "sglang-server-info",
        f"{_LENGTH}; a mean since the server started, over everything that was asked of it",
        tau=math.fsum(lengths) / len(lengths),
        k=int(steps) if steps and not tree else None,
        tree=tree,
    )


def bench_serving(data: Any, asked: Asked) -> Reading | None:
    """`sglang.bench_serving`: a JSON object, or one a line."""
    found = [
        entry
        for entry in objects_with(data, "accept_length")
        if number(entry, "accept_length") and ("backend" in entry or "request_throughput" in entry)
    ]
    if not found:
        return None
    info = next(objects_with(found[-1], "speculative_num_steps"), {})  # server_info, where the tool keeps it
    steps = number(info, "speculative_num_steps")
    tree = tree_of(asked, steps, number(info, "speculative_eagle_topk"), number(info, "speculative_num_draft_tokens"))
    return Reading(
        "sglang-bench-serving",
        f"{_LENGTH}; it is the server's mean since it started, not of this run alone",
        tau=number(found[-1], "accept_length"),
        k=int(steps) if steps and not tree else None,
        tree=tree,
        notes=("several results in the file: the last one is taken",) if len(found) > 1 else (),
    )


def bench_grid(data: Any, asked: Asked) -> Reading | None:
    """`bench_speculative.py` and SpecForge's `bench_eagle3.py`: rows by batch, steps, topk and draft tokens."""
    rows = list(objects_with(data, "steps", "topk", "num_draft_tokens"))
    found = [(row, length) for row in rows if (length := _grid_length(row)) is not None]
    if not found:
        return None
    chains: dict[int, list[float]] = {}
    trees = []
    for row, length in found:
        steps, topk = number(row, "steps") or 0, number(row, "topk") or 0
        if topk == 1 and steps >= 1:
            chains.setdefault(int(steps), []).append(length)
        elif topk > 1:
            trees.append((row, length))
    meaning = f"{_LENGTH}; one server a row"
    if not chains:
        return _grid_of_trees(trees, meaning, asked)
    lengths = {k: math.fsum(values) / len(values) for k, values in chains.items()}
    notes = (f"{len(trees)} rows of trees (topk above 1) left out",) if trees else ()
    k = max(lengths)
    return Reading("sglang-bench-speculative", meaning, tau=lengths[k], k=k, by_k=lengths, notes=notes)


def _grid_of_trees(trees: Sequence[tuple[Mapping[str, Any], float]], meaning: str, asked: Asked) -> Reading | None:
    """The last row of a file without chains."""
    if not trees:
        return None
    row, length = trees[-1]
    tree = tree_of(asked, number(row, "steps"), number(row, "topk"), number(row, "num_draft_tokens"))
    note = f"only trees were measured; of {len(trees)} rows the last one is taken"
    return Reading("sglang-bench-speculative", f"{meaning}; {_PER_NODE}", tau=length, tree=tree, notes=(note,))


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
    tree_methods=("chain", "eagle", "eagle3", "mtp", "ngram"),
    schedule="lower_keys",
    schedule_methods=("eagle", "eagle3", "mtp"),
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
    notes, files = [*_notes(at, wanted.method), *longest_alone(wanted)], {}
    if wanted.schedule:
        settings["speculative_adaptive"] = True
        settings["speculative_adaptive_config"] = "adaptive.json"
        files["adaptive.json"] = _a_tier_a_line(adaptive_config(wanted))
        notes += _adaptive_notes(wanted)
    if wanted.method == "dspark" and wanted.passes:
        settings["speculative_dspark_sps_table_path"] = "sps_table.json"
        files["sps_table.json"] = json.dumps(cost_table(wanted.passes)) + "\n"
        notes.append("the cost table is read with SGLANG_RAGGED_VERIFY_MODE=compact; it holds for the plan's context")
    largest = wanted.schedule[-1].last if wanted.schedule else wanted.batch
    settings["max_running_requests"] = wanted.max_batch or max(largest, DEFAULT_REQUESTS)
    warnings = () if wanted.method in ("mtp", "ngram") else draft_missing(wanted)
    warnings += method_missing(wanted, "speculative_algorithm")
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
        raise DoesNotFit(
            f"sglang: NGRAM searches at most {MOST_BRANCHES} branches, not {at.topk}", hint="a smaller topk"
        )
    return {**numbers, "speculative_ngram_max_bfs_breadth": at.topk}


def _notes(at: Dynamic, method: str | None) -> list[str]:
    if at.topk == 1:
        return []
    backends = "flashinfer" if method == "ngram" else "flashinfer, fa3 or triton"
    notes = [f"topk above 1 with a page size above 1 needs the attention backend {backends}"]
    if at.nodes + 1 > 32:
        notes.append("the bit-packed mask holds 32 tokens; wider trees use the full mask")
    return notes


def adaptive_config(wanted: Wanted) -> dict[str, dict[str, list[int]]]:
    """Lengths by batch size: a key is the smallest batch of its range; one candidate is a fixed length."""
    return {str(entry.first): {"candidate_steps": [entry.k]} for entry in merged(wanted.schedule)}


def _a_tier_a_line(tiers: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(tier)}" for key, tier in tiers.items()) + "\n}\n"


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
    check=_sglang_check.check,
    shape=_sglang_check.shape,
    signs=_sglang_check.SIGNS,
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
