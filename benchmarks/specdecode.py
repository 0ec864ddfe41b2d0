"""Published end-to-end rows of speculation against what specplan makes of them: writes docs/speculation-accuracy.md.

    python benchmarks/specdecode.py

Rows are in benchmarks/data/speculation.csv and speculation.json. A row counts as fitted when a constant was set
on it, as checked otherwise; a constant belongs to a group of rows and never to a checked row. Where a row prints
its plain pass, a wider pass takes that long plus what the device's kernels take more for it (`added_s`).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from rows import DATA, read_table

from specplan.acceptance.kinds import Positional
from specplan.base.tree import TokenTree
from specplan.hardware.engines import Engine, load_engine
from specplan.hardware.profile import Hardware, load_hardware, override
from specplan.methods.heads import eagle_head, mtp_module
from specplan.models.spec import ModelSpec, load_model
from specplan.search.optimize import best_trees
from specplan.search.rounds import evaluate
from specplan.timing.cost import Load
from specplan.timing.roofline import PassTimer

DOCS = Path(__file__).parents[1] / "docs"
PAGE = "speculation-accuracy.md"

# tokens in the cache where a row does not say: 128 of prompt and half of 128 generated; 300 for chat prompts
SEQUOIA_CONTEXT = 192
CHAT_CONTEXT = 300

# clock under a power cap relative to the card's own limit, (cap / limit)^x for kernels that compute: with the engine's
# share for few rows set on the sweeps at 400 and 500 W (fit_engines.py)
CAP_EXPONENT = 1.15

# questions of MT-Bench, which the batches of arXiv:2503.01840 ran over: a batch is what runs at once at most
MT_BENCH = 80

# tokens a round of a chain of 3 with the published heads for Llama-3.1-8B on MT-Bench, greedy (vllm-project/vllm#20780)
CHAIN_OF_3 = {"sglang-eagle1": 2.29, "sglang-eagle3": 2.79}

# seconds of a round outside draft and verification that a stack may spend where a case names none; the upper end is
# that of eager stacks in hardware/_defaults.yaml
UNSEEN_S = (0.0, 20e-3)


@dataclass(frozen=True)
class Cell:
    """One published number beside the predicted one.

    fitted   True where a constant was set on this cell
    """

    id: str
    what: str
    predicted: float
    printed: float
    fitted: bool = False

    @property
    def error(self) -> float:
        return self.predicted / self.printed - 1


OPEN = "open"


@dataclass(frozen=True)
class Choice:
    """A verdict or a choice of a shape: what specplan says and what was reported.

    predicted   OPEN where it depends on what the case does not say
    why         reason of a miss, or why it is open
    """

    id: str
    what: str
    predicted: str
    reported: str
    why: str = ""

    @property
    def agrees(self) -> bool:
        return self.predicted == self.reported


@cache
def published() -> tuple[dict[str, str], ...]:
    return tuple(read_table("speculation.csv"))


def of(group: str) -> list[dict[str, str]]:
    return [row for row in published() if row["group"] == group]


@cache
def stated() -> Any:
    """The vector and the tree of Sequoia, the users' cases, and the cases that are left out."""
    return json.loads((DATA / "speculation.json").read_text(encoding="utf-8"))


def bisected(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where a rising function reaches `target`."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < target else (low, middle)
    return high


def tokens_per_s(tau: float, *, verify_s: float, passes_s: float, overhead_s: float = 0.0) -> float:
    return tau / (verify_s + passes_s + overhead_s)


# ---- Sequoia: one vector, bent by one parameter


@cache
def vector(bend: float) -> Positional:
    """Sequoia's published child probabilities; no child of the first k is right with probability (1 - A_k)^bend."""
    known = stated()["sequoia"]
    covered = list(accumulate(count / known["rounds"] for count in known["accepted_by_rank"]))
    bent = [0.0, *(1 - (1 - share) ** bend for share in covered)]
    return Positional(tuple(b - a for a, b in pairwise(bent)), scheme="topk")


def chains(count: int, length: int) -> TokenTree:
    """`count` chains of `length` tokens from one root: Sequoia's SpecInfer baseline."""
    return TokenTree.from_paths([(i,) + (0,) * k for i in range(count) for k in range(length)])


def released_tree() -> TokenTree:
    """The tree that Sequoia ships for 7B and CNN Daily, greedy."""
    parents: list[int] = []
    for node, children in enumerate(stated()["sequoia"]["child_counts"]):
        parents += [node - 1] * children
    return TokenTree.from_parents(parents)


def published_vector() -> list[Cell]:
    """Tokens a round where vector, tree and result are all published; nothing is fitted."""
    return [
        Cell("SD0009", "released tree of 127 nodes", vector(1.0).tau(released_tree()), 4.05),
        Cell("SD0010", "5 chains of 8", vector(1.0).tau(chains(5, 8)), 3.27),
    ]


TARGETS = {"Llama2-7B": "llama-2-7b", "Llama2-13B": "llama-2-13b", "Vicuna-33B": "vicuna-33b"}


@cache
def added_s(model: str, width: int) -> float:
    """What an A100 PCIe takes more for `width` tokens than for one, by the calibrated kernels."""
    timer = PassTimer(load_hardware("a100-80gb-pcie"), load_model(model))
    one, many = (timer.seconds(Load(w, 1, SEQUOIA_CONTEXT)) for w in (1, width))
    return many - one


def plain_s(target: str) -> float:
    """Printed, or the median over the cells of printed time a token x printed speed-up."""
    cells = [row for row in of("sequoia") if row["target"] == target and row["spec_ms"]]
    printed = [float(row["plain_ms"]) for row in cells if row["plain_ms"]]
    return 1e-3 * statistics.median(printed or [float(r["spec_ms"]) * float(r["speedup"]) for r in cells])


def draft_s(row: Mapping[str, str]) -> float:
    """Printed for the 68M draft; the 1.3B draft's is not printed and is set on its first SpecInfer cell."""
    if row["draft_ms"]:
        return 1e-3 * float(row["draft_ms"])
    cell = next(r for r in of("sequoia") if r["target"] == row["target"] and r["chains"])
    plain = plain_s(cell["target"])
    round_s = float(cell["tau"]) * plain / float(cell["speedup"])
    return (round_s - plain - added_s(TARGETS[cell["target"]], 41)) / 9


def sequoia_speedup(row: Mapping[str, str], tree: TokenTree, tau: float) -> float:
    """Draft passes over every level and the root, as Sequoia's program runs."""
    plain = plain_s(row["target"])
    verify = plain + added_s(TARGETS[row["target"]], tree.width)
    return plain * tokens_per_s(tau, verify_s=verify, passes_s=draft_s(row) * (tree.depth + 1))


@dataclass(frozen=True)
class Table:
    """Sequoia's table: tokens a round and speed-ups, cell by cell, and whether the printed winner was chosen."""

    tau: list[Cell]
    sequoia: list[Cell]
    specinfer: list[Cell]
    choices: list[Choice]


def sequoia_table() -> Table:
    """One parameter a group (pair, data, temperature), set on the tokens a round of its SpecInfer cell."""
    found = Table([], [], [], [])
    by_group: dict[tuple[str, str, str], dict[str, dict[str, str]]] = {}
    for row in of("sequoia"):
        key = (row["target"], row["dataset"], row["temperature"])
        by_group.setdefault(key, {})[row["method"]] = row
    for key, pair in by_group.items():
        _table_group(found, f"{key[0]}, {key[1]}, T {key[2]}", pair["sequoia"], pair["specinfer"])
    return found


def _table_group(found: Table, name: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    baseline = chains(5, 8)
    bend = bisected(lambda b: vector(b).tau(baseline), float(theirs["tau"]), 0.2, 4.0)
    nodes, levels = int(ours["width"]) - 1, int(ours["depth"]) - 1
    tree = best_trees(vector(bend), max_nodes=nodes, max_depth=levels).tree(nodes, levels)
    tau = vector(bend).tau(tree)
    best, other = sequoia_speedup(ours, tree, tau), sequoia_speedup(theirs, baseline, float(theirs["tau"]))
    found.tau.append(Cell(ours["id"], name, tau, float(ours["tau"])))
    found.sequoia.append(Cell(ours["id"], name, best, float(ours["speedup"])))
    set_on = not theirs["draft_ms"] and theirs["id"] == "SD0030"
    found.specinfer.append(Cell(theirs["id"], name, other, float(theirs["speedup"]), set_on))
    printed = "tree" if float(ours["speedup"]) > float(theirs["speedup"]) else "5 chains"
    found.choices.append(Choice(ours["id"], name, "tree" if best > other else "5 chains", printed))


def sweep(fitted: int) -> list[Cell]:
    """Chains by number and length on 7B; the parameter is set on the speed-up of one cell, by its place."""
    rows = of("sweep")
    trees = [chains(int(row["chains"]), int(row["depth"])) for row in rows]

    def predicted(i: int, bend: float) -> float:
        return sequoia_speedup(rows[i], trees[i], vector(bend).tau(trees[i]))

    bend = bisected(lambda b: predicted(fitted, b), float(rows[fitted]["speedup"]), 0.2, 4.0)
    return [
        Cell(row["id"], f"{row['chains']} x {row['depth']}", predicted(i, bend), float(row["speedup"]), i == fitted)
        for i, row in enumerate(rows)
    ]


def chosen(cells: Sequence[Cell]) -> Choice:
    """The cell that is best by the prediction, and the one that is printed as the best."""
    ours, theirs = max(cells, key=lambda c: c.predicted), max(cells, key=lambda c: c.printed)
    return Choice(theirs.id, "best cell", ours.what, theirs.what)


# ---- chains: EAGLE in vLLM, MTP under a power cap, LayerSkip


@dataclass(frozen=True)
class Chain:
    """Times of a chain's round on a bundled device; `level` tokens a draft pass."""

    target: PassTimer
    draft: PassTimer
    load: Load
    overhead_s: float
    level: int = 1

    def plain_s(self) -> float:
        return self.target.seconds(replace(self.load, width=1))

    def draft_s(self) -> float:
        return self.draft.seconds(replace(self.load, width=self.level))

    def round_s(self, k: float, *, width: int | None = None) -> float:
        verify = self.target.seconds(replace(self.load, width=width or int(k) + 1))
        return verify + k * self.draft_s() + self.overhead_s


def chain_on(
    gpu: str | Hardware, target: ModelSpec, draft: ModelSpec, engine: str | Engine | None, load: Load, *, level: int = 1
) -> Chain:
    hardware = load_hardware(gpu) if isinstance(gpu, str) else gpu
    serving = load_engine(engine) if isinstance(engine, str) else engine
    overhead = hardware.overhead_or_default().per_round
    timers = PassTimer(hardware, target, engine=serving), PassTimer(hardware, draft, engine=serving, draft=True)
    return Chain(*timers, load, overhead, level)


def eagle_in_vllm() -> list[Cell]:
    """Speed-up by K on H100 with the printed tokens a round.

    The engine's time a pass and a draft pass were chosen with the plain pass and the draft pass of this thread in
    view; the tokens/s of its chains set nothing.
    """
    target = load_model("llama-3.1-8b")
    chain = chain_on("h100-sxm", target, eagle_head(target), "vllm", Load(1, 1, CHAT_CONTEXT))
    return [
        Cell(
            row["id"],
            f"K {row['depth']}",
            float(row["tau"]) * chain.plain_s() / chain.round_s(int(row["depth"])),
            float(row["speedup"]),
        )
        for row in of("vllm-eagle")
    ]


POWER_FITTED = ("power-400", "power-500")
POWER = (*POWER_FITTED, "power-600")


def power(group: str, *, engine: Engine | None = None, exponent: float = CAP_EXPONENT) -> list[Cell]:
    """tokens/s by K on a capped RTX 5090, from the profile, the engine, the printed tau and the printed plain rate.

    The engine's share for few rows and the exponent were set on the sweeps at 400 and 500 W.
    """
    chain = capped_chain(float(group.partition("-")[2]), engine or load_engine("llama.cpp"), exponent)
    return [
        Cell(
            row["id"],
            f"K {row['depth']}",
            float(row["tau"]) * chain.plain_s() / chain.round_s(int(row["depth"])) * float(row["plain_tok_s"]),
            float(row["spec_tok_s"]),
            group in POWER_FITTED,
        )
        for row in of(group)
    ]


def capped_chain(watts: float, engine: Engine, exponent: float) -> Chain:
    hardware = load_hardware("rtx-5090")
    clock = min(1.0, (watts / (hardware.power.tdp or watts)) ** exponent)
    target = load_model("qwen3.5-27b").with_format("q4_k")
    capped = override(hardware, {"power.clock_share": clock})
    return chain_on(capped, target, mtp_module(target), engine, Load(1, 1, CHAT_CONTEXT))


def chosen_to_rounding(group: str) -> Choice:
    """The best K of a sweep; where the printed best is behind by less than the printed acceptance's digits, that one.

    A round of K tokens yields 1 + K times a rate of three decimals.
    """
    cells = power(group)
    last_digit = {f"K {r['depth']}": 0.0005 * int(r["depth"]) / float(r["tau"]) for r in of(group)}
    choice = chosen(cells)
    rate = {cell.what: cell.predicted for cell in cells}
    low = rate[choice.predicted] * (1 - last_digit[choice.predicted])
    if rate[choice.reported] * (1 + last_digit[choice.reported]) >= low:
        return replace(choice, predicted=choice.reported)
    return choice


def power_fitted(group: str) -> list[Cell]:
    """The same where a round takes a plain pass and a constant for every drafted token, set on the longest chain."""
    rows = of(group)
    last = rows[-1]
    plain = 1 / float(last["plain_tok_s"])
    each = (float(last["tau"]) / float(last["spec_tok_s"]) - plain) / int(last["depth"])
    return [
        Cell(
            row["id"],
            f"K {row['depth']}",
            tokens_per_s(float(row["tau"]), verify_s=plain, passes_s=int(row["depth"]) * each),
            float(row["spec_tok_s"]),
            row is last,
        )
        for row in rows
    ]


# decoder layers, arXiv:2404.16710
LAYERSKIP_LAYERS = {"Llama2-7B continual LayerSkip (32 layers)": 32, "Llama 1.5B from scratch": 24}
EXIT_LAYER = 8


def layerskip_round(row: Mapping[str, str]) -> tuple[float, float]:
    """Tokens and length of an ideal round in plain passes: drafts over the first 8 layers, reused in verification."""
    share = EXIT_LAYER / LAYERSKIP_LAYERS[row["target"]]
    k = int(row["depth"])
    ideal = evaluate(
        TokenTree.chain(k), [1.0], verify_s=[1.0] + [1.0 - share] * k, draft_s=share, draft_passes="all_but_leaf"
    )
    return 1 + k * float(row["rate"]), ideal.round_s


def layerskip() -> list[Cell]:
    """Speed-ups with one constant, plain passes a round lost on the host, set on the first row."""
    rows = of("layerskip")
    tau, ideal = layerskip_round(rows[0])
    lost = tau / float(rows[0]["speedup"]) - ideal
    cells = []
    for row in rows:
        tau, ideal = layerskip_round(row)
        what = f"{row['depth']} drafts, rate {row['rate']}, {row['target'].split(' (')[0]}"
        cells.append(Cell(row["id"], what, tau / (ideal + lost), float(row["speedup"]), row is rows[0]))
    return cells


@dataclass(frozen=True)
class Run:
    """A closed run of questions, at most `batch` at once, in seconds for one token of each.

    plain, spec   without speculation, and in its rounds with what the host takes for them left out
    rounds        rounds, and rounds times the sequences in them: what a time a round and a time a sequence multiply
    """

    row: Mapping[str, str]
    tau: float
    plain: float
    spec: float
    rounds: float
    sequences: float

    def speedup(self, round_s: float, sequence_s: float) -> float:
        return self.tau * self.plain / (self.spec + round_s * self.rounds + sequence_s * self.sequences)

    def terms(self) -> tuple[float, float, float]:
        """(a, b, c) of a * round_s + b * sequence_s = c, all over the run's length as printed."""
        length = self.tau * self.plain / float(self.row["speedup"])
        return self.rounds / length, self.sequences / length, 1 - self.spec / length


@cache
def occupancy(batch: int, questions: int) -> tuple[tuple[int, float], ...]:
    """How long so many questions run at once: (running, share of the mean answer's length), mean over the orders.

    Answers have exponentially distributed lengths, here that distribution's quantiles, in every turn of a mixed order;
    the next starts as one ends. At the end fewer run than may: of 80, at most 64 at once, 16 on average.
    """
    lengths = [-math.log(1 - (37 * i % questions + 0.5) / questions) for i in range(questions)]
    steps: dict[int, float] = {}
    for first in range(questions):
        for running, length in _drained(batch, lengths[first:] + lengths[:first]):
            steps[running] = steps.get(running, 0.0) + length / questions
    return tuple(sorted(steps.items()))


def _drained(batch: int, waiting: list[float]) -> Iterator[tuple[int, float]]:
    running: list[float] = []
    while waiting or running:
        while waiting and len(running) < batch:
            running.append(waiting.pop())
        step = min(running)
        yield len(running), step
        running = [left - step for left in running if left > step]


@cache
def runs(group: str, *, closed: bool = True) -> tuple[Run, ...]:
    """The rows of a chain of 3 in SGLang on H100 by batch; with `closed` as closed runs, else as steady batches."""
    target = load_model("llama-3.1-8b")
    draft = eagle_head(target, version=3 if group.endswith("3") else 1)
    bare = load_engine("sglang").model_copy(update={"per_verification": 0.0, "per_verified_sequence": 0.0})

    @cache
    def passes(batch: int) -> tuple[float, float]:
        chain = chain_on("h100-sxm", target, draft, bare, Load(1, batch, CHAT_CONTEXT))
        return chain.plain_s(), chain.round_s(3)

    found = []
    for row in of(group):
        batch = int(row["batch"])
        parts = occupancy(batch, MT_BENCH) if closed else [(batch, 1.0)]
        plain, spec = (sum(steps * passes(running)[i] for running, steps in parts) for i in (0, 1))
        rounds, sequences = sum(steps for _, steps in parts), sum(n * steps for n, steps in parts)
        found.append(Run(row, CHAIN_OF_3[group], plain, spec, rounds, sequences))
    return tuple(found)


def host_times(some: Sequence[Run]) -> tuple[float, float]:
    """(seconds a round, seconds a sequence in it) of the host, by least squares on the relative lengths of the runs."""
    terms = [run.terms() for run in some]
    aa, ab, bb, ac, bc = (sum(t[i] * t[j] for t in terms) for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2)))
    det = aa * bb - ab * ab
    return (ac * bb - bc * ab) / det, (aa * bc - ab * ac) / det


def by_batch(group: str, *, by: str | None = None, closed: bool = True) -> list[Cell]:
    """Speed-up of a chain of 3 in SGLang by batch, tokens a round from another publication.

    The host's times are set on the other half of the table (every second batch), or on the whole of table `by`, so
    that every row is checked.
    """
    own = runs(group, closed=closed)
    halves = [own[1::2], own[0::2]] if by is None else [runs(by, closed=closed)] * 2
    times = [host_times(half) for half in halves]
    return [
        Cell(run.row["id"], f"batch {run.row['batch']}", run.speedup(*times[i % 2]), float(run.row["speedup"]))
        for i, run in enumerate(own)
    ]


# ---- verdicts

SGLANG_BATCHES = "see the chains in SGLang by batch"


def verdict(speedup: float) -> str:
    return "pays" if speedup > 1 else "does not pay"


def slowdowns() -> list[Choice]:
    """Every row of the groups above that is printed as a slowdown."""
    named = [("LayerSkip, ", layerskip()), ("EAGLE-1 chain of 3 in SGLang on H100, ", by_batch("sglang-eagle1"))]
    found = [
        Choice(
            c.id, name + c.what, verdict(c.predicted), verdict(c.printed), SGLANG_BATCHES if "SGLang" in name else ""
        )
        for name, cells in named
        for c in cells
        if c.printed < 1 and not c.fitted
    ]
    return found + [choice for choice in user_choices() if choice.reported == "does not pay"]


def user_choices() -> list[Choice]:
    """Verdicts and bests of the users' cases that print an acceptance and the costs, or a bundled device.

    Of a sweep over K the best and the verdict on it, of several drafters the best, of every other setting, batch and
    context its verdict.
    """
    cases = stated()["cases"]
    found = [choice for case in cases for choice in KINDS[case["kind"]](case)]
    names = dict.fromkeys(case["id"] for case in cases if "name" in case)
    return found + [_best_drafter([case for case in cases if case["id"] == name and "name" in case]) for name in names]


def agreement_by_case(choices: Sequence[Choice]) -> tuple[int, int, int]:
    """(cases that agree in all, those open in part, those missed in part)."""
    by_case: dict[str, list[Choice]] = {}
    for choice in choices:
        by_case.setdefault(choice.id, []).append(choice)
    missed = sum(any(not c.agrees and c.predicted != OPEN for c in some) for some in by_case.values())
    agreed = sum(all(c.agrees for c in some) for some in by_case.values())
    return agreed, len(by_case) - agreed - missed, missed


def _best_drafter(cases: Sequence[Mapping[str, Any]]) -> Choice:
    """The best of several drafters for one target, each at its best K."""
    rates = [RATES[case["kind"]](case) for case in cases]
    named = {**cases[0], "what": cases[0]["what"].partition(",")[0] + ", drafters"}
    return _best(named, [case["name"] for case in cases], *zip(*[(max(ours), max(theirs)) for ours, theirs in rates]))


def _best(
    case: Mapping[str, Any], names: Sequence[Any], predicted: Sequence[float], measured: Sequence[float]
) -> Choice:
    ours, theirs = (names[max(range(len(names)), key=rates.__getitem__)] for rates in (predicted, measured))
    return Choice(
        case["id"], f"{case['what']}: best of {', '.join(map(str, names))}", str(ours), str(theirs), _why(case)
    )


def _verdicts(
    case: Mapping[str, Any], names: Sequence[Any], predicted: Sequence[float], measured: Sequence[float]
) -> list[Choice]:
    return [
        Choice(case["id"], f"{case['what']}: {name}", verdict(ours), verdict(theirs), _why(case))
        for name, ours, theirs in zip(names, predicted, measured, strict=True)
    ]


def _why(case: Mapping[str, Any]) -> str:
    return REASONS.get(case["id"], str(case.get("why", "")))


def _line_rates(case: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """(predicted, measured) tokens/ms by K: a round grows linearly with K, by the first and the last measured."""
    k, tau, tpot = case["k"], case["tau"], case["tpot_ms"]
    rounds = [a * b for a, b in zip(tau, tpot, strict=True)]
    slope = float(rounds[-1] - rounds[0]) / (k[-1] - k[0])
    return [t / (rounds[0] + slope * (i - k[0])) for i, t in zip(k, tau, strict=True)], [1 / t for t in tpot]


def _line(case: Mapping[str, Any]) -> list[Choice]:
    rates, measured = _line_rates(case)
    gains = [[max(some) * case["plain_ms"]] for some in (rates, measured)]
    return [_best(case, [f"K {i}" for i in case["k"]], rates, measured), *_verdicts(case, ["the best"], *gains)]


def _device_rounds(case: Mapping[str, Any]) -> tuple[Chain, list[float]]:
    chain = _chain_of(case)
    rounds = [chain.round_s(i, width=case.get("width")) for i in case["k"]]
    if "draft_ms" in case:
        rounds = [r + i * (1e-3 * case["draft_ms"] - chain.draft_s()) for i, r in zip(case["k"], rounds, strict=True)]
    return chain, rounds


def _device_rates(case: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    _, rounds = _device_rounds(case)
    return [case.get("batch", 1) * t / r for t, r in zip(case["tau"], rounds, strict=True)], case["tok_s"]


def _device(case: Mapping[str, Any]) -> list[Choice]:
    """From the bundled device, model and engine; nothing is fitted. Without an engine a round's rest has bounds."""
    chain, rounds = _device_rounds(case)
    rates, measured = _device_rates(case)
    found = [_best_device(case, rates, rounds)] if len(rates) > 1 else []
    if case["plain_tok_s"] is None:
        return found
    gain = max(measured) / case["plain_tok_s"]
    ends = UNSEEN_S if "engine" not in case else (0.0,)
    best = [max(t / (r + rest) for t, r in zip(case["tau"], rounds, strict=True)) * chain.plain_s() for rest in ends]
    return found + _agreed([_verdicts(case, ["the best"], [one], [gain]) for one in best])


def _agreed(ends: Sequence[list[Choice]]) -> list[Choice]:
    """One verdict each where the ends of what is unknown agree; open where they do not."""
    return [
        some[0] if len({c.predicted for c in some}) == 1 else replace(some[0], predicted=OPEN) for some in zip(*ends)
    ]


def _best_device(case: Mapping[str, Any], rates: Sequence[float], rounds: Sequence[float]) -> Choice:
    """The best K; open where, at the ends of what was accepted, another can lead."""
    names = [f"K {i}" for i in case["k"]]
    choice = _best(case, names, rates, case["tok_s"])
    if case["id"] not in ACCEPTED:
        return choice
    low, high = ([tau / r for tau, r in zip(ends, rounds, strict=True)] for ends in ACCEPTED[case["id"]])
    ahead = [rate > max(low[:i] + low[i + 1 :]) for i, rate in enumerate(high)]
    return replace(choice, predicted=OPEN) if sum(ahead) > 1 else choice


# tokens a round for each K at the ends of what a case states: 63 to 66 % of 2 and 45 to 53 % of 4 drafted
ACCEPTED = {"UC021": ((1 + 2 * 0.63, 1 + 4 * 0.45), (1 + 2 * 0.66, 1 + 4 * 0.53))}


def _chain_of(case: Mapping[str, Any]) -> Chain:
    target = load_model(case["model"])
    if "dtype" in case:
        target = target.with_format(case["dtype"])
    draft = mtp_module(target) if case.get("mtp") else eagle_head(target, version=case.get("eagle", 3))
    load = Load(1, case.get("batch", 1), case.get("context", CHAT_CONTEXT), case.get("tp", 1))
    return chain_on(case["gpu"], target, draft, case.get("engine"), load, level=case.get("level", 1))


def _measured(case: Mapping[str, Any]) -> list[Choice]:
    """Draft and verification were measured; the rest of a round lies between two bounds, and so does the verdict.

    Of several drafters the first sets the rest, so that its verdict is not counted: the others' is the same a round at
    least, the same a drafted token at most. Of one it is what stacks spend.
    """
    rounds = [d + v for d, v in zip(case["draft_ms"], case["verify_ms"], strict=True)]
    drafted = DRAFTED.get(case["id"])
    own = case["tau"][0] * case["plain_ms"] / case["speedup"][0] - rounds[0]
    rests = (own, own * max(drafted) / drafted[0]) if drafted else [1e3 * s for s in UNSEEN_S]
    ends = [_with_rest(case, rounds, rest, own if drafted else None) for rest in rests]
    return _agreed(ends)


def _with_rest(case: Mapping[str, Any], rounds: Sequence[float], rest: float, own: float | None) -> list[Choice]:
    """What follows if a round takes `rest` ms beside draft and verification, and the first drafter's `own`."""
    lost = [rest if own is None or i else own for i in range(len(rounds))]
    gains = [t * case["plain_ms"] / (r + more) for t, r, more in zip(case["tau"], rounds, lost, strict=True)]
    if own is None:
        return _verdicts(case, case["names"], gains, case["speedup"])
    best = _best(case, case["names"], gains, case["speedup"])
    return [best, *_verdicts(case, case["names"][1:], gains[1:], case["speedup"][1:])]


# tokens that each drafter of a case drafts a round, as its text says: width 2, and blocks of 8
DRAFTED = {"UC065": (1, 7, 7)}


def _measured_k(case: Mapping[str, Any]) -> list[Choice]:
    """Draft and verification were measured for every K."""
    rounds = [d + v for d, v in zip(case["draft_ms"], case["verify_ms"], strict=True)]
    rates = [1e3 * t / r for t, r in zip(case["tau"], rounds, strict=True)]
    gains = [[max(some) * case["plain_ms"] / 1e3] for some in (rates, case["tok_s"])]
    return [_best(case, [f"K {k}" for k in case["k"]], rates, case["tok_s"]), *_verdicts(case, ["the best"], *gains)]


def _trees(case: dict[str, Any]) -> list[Choice]:
    """Dynamic trees of (steps, topk, tokens); a round's overhead is set on the first setting, the rest is checked."""
    base, chain = 1 / float(case["plain_tok_s"]), _chain_of(case)

    def round_s(steps: int, topk: int, tokens: int) -> float:
        passes = steps * replace(chain, level=topk).draft_s()
        return base + chain.target.seconds(replace(chain.load, width=tokens)) - chain.plain_s() + passes

    first, *rest = case["settings"]
    overhead = first[3] / first[4] - round_s(*first[:3])
    names = ["steps {}, topk {}, {} tokens".format(*setting[:3]) for setting in rest]
    predicted = [tau * base / (round_s(*shape) + overhead) for *shape, tau, _ in rest]
    return _verdicts(case, names, predicted, [rate / case["plain_tok_s"] for *_, rate in rest])


def _batches(case: dict[str, Any]) -> list[Choice]:
    """The same by the most requests at once; a round's overhead is set on the first, the rest is checked.

    How many run on average is what the measured plain tokens/s take at the predicted passes, scaled to the first: a
    run of few questions has long answers running alone at its end.
    """
    rows = list(zip(case["batch"], case["plain_tok_s"], case["tau"], case["tok_s"], strict=True))
    chains_at = [_chain_of(case | {"batch": n, "level": case["topk"]}) for n in range(1, max(case["batch"]) + 1)]
    plain_s = [chain.plain_s() for chain in chains_at]
    round_s = [chain.round_s(case["steps"], width=case["width"]) for chain in chains_at]
    scale = float(rows[0][0] / rows[0][1] / between(plain_s, rows[0][0]))

    def running(rate: float) -> float:
        return bisected(lambda n: n / (scale * between(plain_s, n)), rate, 1.0, float(len(plain_s)))

    def gain(rate: float, tau: float, overhead: float) -> float:
        n = running(rate)
        base = scale * between(plain_s, n)
        return tau * base / (base + between(round_s, n) - between(plain_s, n) + overhead)

    _, first, tau, rate = rows[0]
    overhead = -bisected(lambda o: gain(first, tau, -o), rate / first, -1.0, 0.0)
    gains = [gain(base, tau, overhead) for _, base, tau, _ in rows[1:]]
    measured = [rate / base for _, base, _, rate in rows[1:]]
    return _verdicts(case, [f"batch {batch}" for batch in case["batch"][1:]], gains, measured)


def between(values: Sequence[float], n: float) -> float:
    """The value at n, `values` being those at 1, 2, 3 and so on; linear between."""
    i = min(int(n), len(values) - 1)
    return values[i - 1] + (n - i) * (values[i] - values[i - 1])


REASONS = {
    "UC065": "9 to 10 ms of a round lie outside draft and verification, on no line of the report. The first drafter's "
    "1.9 ms are the same a round (then it pays by 1 to 6 %) or the same a drafted token (then it loses 5 to 9 %)",
    "UC021": "accepted were 63 to 66 % of 2 drafted tokens and 45 to 53 % of 4: over these either K can lead, by "
    "the upper ends K 4. The author calls the tokens/s at 8 streams noisy",
    "UC095": "no more ran at 64 than at 32 by the plain tokens/s (8 and 7 on average, bound by the longest answer), so "
    "the two are one setting measured twice: predicted are 0.95 and 0.96, measured were 0.82 and 1.06, together 0.92",
}
"""Why a case is missed or open, where the data do not say so already."""


RATES: dict[str, Callable[[Mapping[str, Any]], tuple[list[float], list[float]]]] = {
    "line": _line_rates,
    "device": _device_rates,
}
KINDS: dict[str, Callable[[dict[str, Any]], list[Choice]]] = {
    "line": _line,
    "device": _device,
    "measured": _measured,
    "measured_k": _measured_k,
    "trees": _trees,
    "batches": _batches,
}


if __name__ == "__main__":
    from specdecode_page import page

    (DOCS / PAGE).write_text(page(), encoding="utf-8")
