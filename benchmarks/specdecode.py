"""Published end-to-end rows of speculation against what specplan makes of them: writes docs/speculation-accuracy.md.

    python benchmarks/specdecode.py

Rows are in benchmarks/data/speculation.csv and speculation.json. A row counts as fitted when a constant was set
on it, as checked otherwise; a constant belongs to a group of rows and never to a checked row. Where a row prints
its plain pass, a wider pass takes that long plus what the device's kernels take more for it (`added_s`).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from rows import DATA, read_table

from specplan.acceptance import Positional
from specplan.cost import Load
from specplan.drafters import eagle_head, mtp_module
from specplan.engines import load_engine
from specplan.hardware import load_hardware
from specplan.model import ModelSpec, load_model
from specplan.optimize import best_trees
from specplan.roofline import PassTimer
from specplan.rounds import evaluate
from specplan.tree import TokenTree

DOCS = Path(__file__).parents[1] / "docs"
PAGE = "speculation-accuracy.md"

# tokens in the cache where a row does not say: 128 of prompt and half of 128 generated; 300 for chat prompts
SEQUOIA_CONTEXT = 192
CHAT_CONTEXT = 300


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


@dataclass(frozen=True)
class Choice:
    """A verdict or a choice of a shape: what specplan says and what was reported.

    why   reason of a miss
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


def chain_on(gpu: str, target: ModelSpec, draft: ModelSpec, engine: str, load: Load, *, level: int = 1) -> Chain:
    hardware, serving = load_hardware(gpu), load_engine(engine)
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


POWER = ("power-400", "power-500", "power-600")


def power_unfitted(group: str) -> list[Cell]:
    """tokens/s by K on RTX 5090 relative to plain decoding, from the profile, the engine and the printed tau."""
    target = load_model("qwen3.5-27b").with_format("q4_k")
    chain = chain_on("rtx-5090", target, mtp_module(target), "llama.cpp", Load(1, 1, CHAT_CONTEXT))
    return [
        Cell(
            row["id"],
            f"K {row['depth']}",
            float(row["tau"]) * chain.plain_s() / chain.round_s(int(row["depth"])) * float(row["plain_tok_s"]),
            float(row["spec_tok_s"]),
        )
        for row in of(group)
    ]


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


def by_batch(group: str, *, host: bool = True) -> list[Cell]:
    """Speed-up of a chain of 3 in SGLang on H100 by batch.

    The tokens a round are set on the smallest batch, 2; with `host`, the host's time a sequence in a round of
    speculation is set on batch 8.
    """
    target = load_model("llama-3.1-8b")
    draft = eagle_head(target, version=3 if group.endswith("3") else 1)
    rows = of(group)
    chain = {
        int(row["batch"]): chain_on("h100-sxm", target, draft, "sglang", Load(1, int(row["batch"]), CHAT_CONTEXT))
        for row in rows
    }
    printed = {int(row["batch"]): float(row["speedup"]) for row in rows}

    def predicted(batch: int, each_s: float) -> float:
        rounds = {b: chain[b].round_s(3) + b * each_s for b in (2, batch)}
        tau = printed[2] * rounds[2] / chain[2].plain_s()
        return tau * chain[batch].plain_s() / rounds[batch]

    each_s = bisected(lambda s: -predicted(8, s), -printed[8], 0.0, 1e-3) if host else 0.0
    set_on = (2, 8) if host else (2,)
    return [
        Cell(row["id"], f"batch {b}", predicted(b, each_s), printed[b], b in set_on)
        for row, b in zip(rows, printed, strict=True)
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
    """Verdicts and best K of the users' cases that print an acceptance and the costs, or a bundled device."""
    return [choice for case in stated()["cases"] for choice in KINDS[case["kind"]](case)]


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
    return str(case.get("why", ""))


def _line(case: Mapping[str, Any]) -> list[Choice]:
    """A round grows linearly with K, by the first and the last K that were measured."""
    k, tau, tpot = case["k"], case["tau"], case["tpot_ms"]
    rounds = [a * b for a, b in zip(tau, tpot, strict=True)]
    slope = float(rounds[-1] - rounds[0]) / (k[-1] - k[0])
    rates = [t / (rounds[0] + slope * (i - k[0])) for i, t in zip(k, tau, strict=True)]
    best = max(rates) * case["plain_ms"]
    return [
        _best(case, [f"K {i}" for i in k], rates, [1 / t for t in tpot]),
        *_verdicts(case, ["the best"], [best], [case["plain_ms"] / min(tpot)]),
    ]


def _device(case: Mapping[str, Any]) -> list[Choice]:
    """From the bundled device, model and engine; nothing is fitted."""
    chain = _chain_of(case)
    k, tau, batch = case["k"], case["tau"], case.get("batch", 1)
    rounds = [chain.round_s(i, width=case.get("width")) for i in k]
    if "draft_ms" in case:
        rounds = [r - i * chain.draft_s() + i * 1e-3 * case["draft_ms"] for i, r in zip(k, rounds, strict=True)]
    rates = [batch * t / r for t, r in zip(tau, rounds, strict=True)]
    found = [_best(case, [f"K {i}" for i in k], rates, case["tok_s"])] if len(k) > 1 else []
    if case["plain_tok_s"] is None:
        return found
    plain = batch / chain.plain_s()
    return found + _verdicts(case, ["the best"], [max(rates) / plain], [max(case["tok_s"]) / case["plain_tok_s"]])


def _chain_of(case: Mapping[str, Any]) -> Chain:
    target = load_model(case["model"])
    if "dtype" in case:
        target = target.with_format(case["dtype"])
    draft = mtp_module(target) if case.get("mtp") else eagle_head(target, version=case.get("eagle", 3))
    load = Load(1, case.get("batch", 1), CHAT_CONTEXT, case.get("tp", 1))
    return chain_on(case["gpu"], target, draft, case["engine"], load, level=case.get("level", 1))


def _measured(case: Mapping[str, Any]) -> list[Choice]:
    """Draft and verification were measured. Of several drafters, the first sets the overhead and is not counted."""
    rounds = [d + v for d, v in zip(case["draft_ms"], case["verify_ms"], strict=True)]
    set_on = 1 if len(set(rounds)) > 1 else 0
    overhead = case["tau"][0] * case["plain_ms"] / case["speedup"][0] - rounds[0] if set_on else 0.0
    predicted = [t * case["plain_ms"] / (r + overhead) for t, r in zip(case["tau"], rounds, strict=True)]
    return _verdicts(case, case["names"][set_on:], predicted[set_on:], case["speedup"][set_on:])


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
    """The same by batch size, the plain passes as measured; overhead and the host's time a sequence are set on two."""
    rows = list(zip(case["batch"], case["plain_tok_s"], case["tau"], case["tok_s"], strict=True))
    chains_at = {batch: _chain_of(case | {"batch": batch, "level": case["topk"]}) for batch in case["batch"]}
    plain = {batch: batch / rate for batch, rate, _, _ in rows}
    explained = {
        batch: plain[batch] + chain.round_s(case["steps"], width=case["width"]) - chain.plain_s()
        for batch, chain in chains_at.items()
    }
    (first, _, *_), (second, _, *_) = rows[:2]
    left = [batch * tau / rate - explained[batch] for batch, _, tau, rate in rows[:2]]
    each = (left[1] - left[0]) / (second - first)
    gains = [tau * plain[b] / (explained[b] + left[0] + each * (b - first)) for b, _, tau, _ in rows[2:]]
    measured = [rate / base for _, base, _, rate in rows[2:]]
    return _verdicts(case, [f"batch {batch}" for batch in case["batch"][2:]], gains, measured)


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
