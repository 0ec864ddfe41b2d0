"""A grid of plans: the answer of `plan` at every point of devices, models, methods, batches, contexts and acceptances.

A point is one verification curve and the best shape for it. Where a round's draft time depends on the depth alone
(chains, Medusa, lookups, a draft whose pass takes the same time at any width) the best trees come from one frontier
an acceptance, and many loads are looked at at once, as arrays. Other methods are planned one by one, as `plan` does.

    Cell     device, model and method, with everything that its points share
    Chunk    a cell, some loads and the acceptances: what one process works on at a time
    Row      one point's answer

    sweep(chunks, evaluate, executor)    evaluates chunks in order: here, in processes, or on a cluster
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from ..acceptance.kinds import Acceptance, tau_interval
from ..base.errors import DoesNotFit, InputError
from ..base.tree import TokenTree
from ..methods.catalogue import Method, Setting
from ..search.costs import RoundCosts
from ..search.frontier import Engine, engine_for
from ..search.optimize import TIE
from ..search.space import Space, useful_limit
from ..timing.cost import Load
from ..timing.draft import Draft, free_draft
from ..timing.grid import Floats, crossover_widths, matrix_times, pass_times
from ..timing.memory import Footprint, Memory
from ..timing.roofline import PassTimer
from .compare import method_acceptance, method_costs, method_limits, plan_method
from .plan import Plan

if TYPE_CHECKING:
    from ..hardware.engines import Engine as ServingEngine
    from ..hardware.profile import Hardware
    from ..models.spec import ModelSpec

T = TypeVar("T")
R = TypeVar("R")

POINTS = 4096
"""Points of a chunk: half a second of work at most, so that progress shows and little is lost."""

SINGLY = 32
"""The same where every point is planned by itself."""

BLOCK = 1 << 16
"""Rates in a table of loads, depths and nodes: it stays in the processor's cache."""

ALONE = "the model with its caches does not fit the device"
TOGETHER = "target, draft and caches do not fit the device together"

AHEAD = 64
"""Chunks that an executor is given ahead of the one whose result is waited for."""


_NO_DRAFT = free_draft()

# ---- the grid


@dataclass(frozen=True)
class Chance:
    """An acceptance and its name; p where it is independent, for axes that are numbers. None: none was given."""

    name: str
    p: float | None
    acceptance: Acceptance | None


@dataclass(frozen=True)
class Cell:
    """What points that differ in load and acceptance share.

    labels       values of the columns that name the cell
    build        a setting, the seconds of a plain pass and an acceptance -> the method with its draft; can be pickled
    budget       most drafted tokens; None: as `plan` takes it, from the crossover
    problem      why nothing can be planned here, None where it can
    """

    labels: tuple[Any, ...]
    hardware: Hardware
    model: ModelSpec
    tp: int
    time: str
    engine: ServingEngine | None
    offload: str | None
    build: Callable[[Setting, Any, Acceptance | None], Method]
    overhead_s: float
    draft_passes: str
    draft_shape: str
    budget: int | None
    depth: int
    children: int | None
    tie: float
    problem: str | None = None

    def costs(self, verify_s: Sequence[Any], batch: int, measured: frozenset[int] | None = None) -> RoundCosts:
        """RoundCosts of a round without the method's draft."""
        return RoundCosts(
            verify_s,
            overhead_s=self.overhead_s,
            draft_passes=self.draft_passes,
            draft_shape=self.draft_shape,
            batch=batch,
            measured=measured,
        )

    def limits(self, nodes: int, acceptance: Acceptance | None) -> Space:
        """Space of the search; chains alone where nothing is known of siblings."""
        known = acceptance is None or acceptance.siblings_known
        return Space(nodes, self.depth, self.children if known else 1)


@dataclass(frozen=True)
class Chunk:
    """Loads (batch, context) times acceptances of one cell, the acceptances inner.

    kind   trees or chains: the loads are looked at as arrays; singly: one by one
    """

    cell: Cell
    loads: tuple[tuple[int, int], ...]
    chances: tuple[Chance, ...]
    kind: str

    @property
    def points(self) -> int:
        return len(self.loads) * len(self.chances)


def chunks(cells: Iterable[Cell], loads: Sequence[tuple[int, int]], chances: Sequence[Chance]) -> Iterator[Chunk]:
    """The grid in order, cut the same way whatever evaluates it."""
    for cell in cells:
        kind = _kind(cell, loads[0], chances)
        size = max(1, (SINGLY if kind == "singly" else POINTS) // len(chances))
        for start in range(0, len(loads), size):
            yield Chunk(cell, tuple(loads[start : start + size]), tuple(chances), kind)


# ---- the answer


@dataclass(slots=True)
class Row:
    """One point, null where nothing is known; names as in plan's document.

    speculate    None where nothing was planned (`reason`) or no acceptance was given
    nodes .. tokens_per_s   of the recommended shape, plain decoding included
    break_even_tau          tokens a round from which the shape pays; of the best one that drafts where plain wins
    optimum_nodes, optimum_speedup   of the optimum, of which the recommended shape is the smallest within the tie
    """

    batch: int
    context: int
    p: float | None
    acceptance: str
    speculate: bool | None = None
    speedup: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_sequence: float | None = None
    nodes: int | None = None
    width: int | None = None
    depth: int | None = None
    widths: str | None = None
    tau: float | None = None
    break_even_tau: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    overhead_s: float | None = None
    round_s: float | None = None
    plain_s: float | None = None
    plain_tokens_per_s: float | None = None
    optimum_nodes: int | None = None
    optimum_speedup: float | None = None
    needed_bytes: float | None = None
    fits: bool | None = None
    reason: str | None = None


RESULTS = tuple(item.name for item in fields(Row))


def sweep(
    chunks: Iterable[T], evaluate: Callable[[T], R], executor: Executor | None = None, *, ahead: int = AHEAD
) -> Iterator[R]:
    """`evaluate` of every chunk, in the order of the chunks.

    executor   any `concurrent.futures` executor: a process pool, a Dask client's `get_executor()`; None: here
    ahead      chunks that it is given before the first result is there
    """
    if executor is None:
        yield from map(evaluate, chunks)
        return
    waiting: deque[Future[R]] = deque()
    source = iter(chunks)
    try:
        waiting.extend(executor.submit(evaluate, chunk) for chunk in islice(source, ahead))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(executor.submit(evaluate, chunk) for chunk in islice(source, 1))
            yield result
    finally:
        for future in waiting:
            future.cancel()


def rows(chunk: Chunk) -> list[Row]:
    """The points of a chunk, in order."""
    cell = chunk.cell
    found = [[Row(batch, context, chance.p, chance.name) for chance in chunk.chances] for batch, context in chunk.loads]
    if cell.problem is not None:
        _fail((row for line in found for row in line), cell.problem)
    elif chunk.kind != "singly":
        _fill_at_once(chunk, found)
    else:
        for load, line in zip(chunk.loads, found):
            _plan_line(cell, load, chunk.chances, line)
    return [row for line in found for row in line]


def _fail(rows: Iterable[Row], reason: str) -> None:
    for row in rows:
        row.reason = reason


def _kind(cell: Cell, load: tuple[int, int], chances: Sequence[Chance]) -> str:
    """How the points of this cell are planned: arrays need draft times that depend on the depth of the tree alone."""
    if cell.problem is not None:
        return "trees"
    setting = Setting(cell.hardware, cell.model, Load(1, *load, cell.tp), cell.time, cell.engine, cell.offload)
    kinds = {_kind_of(cell, setting, chance.acceptance) for chance in chances}
    return "singly" if "singly" in kinds or cell.hardware.curves else "trees" if "trees" in kinds else "chains"


def _kind_of(cell: Cell, setting: Setting, acceptance: Acceptance | None) -> str:
    if acceptance is None or not acceptance.by_node:
        return "singly"
    try:
        method = cell.build(setting, 1.0, acceptance)
    except InputError:
        return "trees"  # the rows say why
    chains = method_limits(cell.limits(1, acceptance), method).children == 1
    block = (method.draft_shape or cell.draft_shape) == "block"
    by_depth = block or chains or not callable(method.draft.pass_s)
    searched = method.family != "uniform" and method.keep is None and method_acceptance(acceptance, method).is_monotone
    return "singly" if not (by_depth and searched) else "chains" if chains else "trees"


# ---- point by point


def _plan_line(cell: Cell, load: tuple[int, int], chances: Sequence[Chance], line: Sequence[Row]) -> None:
    """One load with each acceptance."""
    at = Load(1, *load, cell.tp)
    timer = PassTimer(cell.hardware, cell.model, time=cell.time, engine=cell.engine, offload=cell.offload)
    crossover = _crossovers(cell, [load])[0]
    most = cell.budget or useful_limit(crossover, None)
    curve = timer.curve(at)
    if curve is None:
        verify_s = _verify_s(cell, [load], most + 1)[:, 0].tolist()
        measured, known = None, None
    else:
        verify_s = timer.table(at, range(1, most + 2))
        measured, known = frozenset(curve.widths), lambda width: verify_s[width - 1]
    nodes = cell.budget or useful_limit(crossover, None if curve is None else len(verify_s))
    setting = Setting(cell.hardware, cell.model, at, cell.time, cell.engine, cell.offload, verify_s=known)
    for chance, row in zip(chances, line):
        try:
            method = cell.build(setting, verify_s[0], chance.acceptance)
            plan = plan_method(
                chance.acceptance,
                cell.costs(verify_s, at.batch, measured),
                cell.limits(nodes, chance.acceptance),
                method,
                tie=cell.tie,
                memory_of=lambda costs: partial(_memory_of(cell, costs.draft), load),
            )
        except DoesNotFit:
            _too_large(row, _memory_of(cell, _NO_DRAFT)(load, 0))
        except InputError as error:
            _fail([row], error.message)
        else:
            _fill_from(row, plan)


def _fill_from(row: Row, plan: Plan) -> None:
    shape, plain = plan.recommended, plan.plain
    row.speculate = plan.verdict.speculate
    row.plain_s, row.plain_tokens_per_s = plain.verify_s, plain.tokens_per_s
    if plan.break_even is not None:
        row.break_even_tau = plan.break_even.tau
    if plan.memory is not None:
        row.needed_bytes, row.fits = plan.memory.needed_bytes, plan.memory.fits
    if shape is None or plan.best is None:
        return
    if plan.memory is not None and not plan.memory.fits:
        row.reason = TOGETHER
    row.nodes, row.width, row.depth, row.widths = shape.nodes, shape.width, shape.depth, _words(shape.widths)
    row.speedup, row.tau, row.round_s = shape.speedup, shape.tau, shape.round_s
    row.tokens_per_s, row.tokens_per_s_per_sequence = shape.tokens_per_s, shape.tokens_per_s_per_sequence
    row.draft_s, row.verify_s, row.overhead_s = shape.draft.total_s, shape.verify_s, shape.overhead_s
    row.optimum_nodes, row.optimum_speedup = plan.best.shape.nodes, plan.best.shape.speedup


def _words(widths: Sequence[int]) -> str:
    return " ".join(map(str, widths))


def _memory_of(cell: Cell, draft: Draft) -> Callable[[tuple[int, int], int], Memory]:
    """Memory on one device by load and nodes."""
    footprint, capacity = (
        Footprint.of(cell.model, draft, tp=cell.tp, offload=cell.offload),
        cell.hardware.memory.capacity,
    )
    return lambda load, nodes: footprint.at(batch=load[0], context=load[1], nodes=nodes, device_bytes=capacity)


def _too_large(row: Row, alone: Memory) -> None:
    row.needed_bytes, row.fits, row.reason = alone.needed_bytes, False, ALONE


def _crossovers(cell: Cell, loads: Sequence[tuple[int, int]]) -> Floats:
    batches, contexts = np.array(loads).T
    return crossover_widths(cell.hardware, cell.model, batch=batches, context=contexts, tp=cell.tp)


def _verify_s(cell: Cell, loads: Sequence[tuple[int, int]], widest: int) -> Floats:
    """[width - 1, load]: seconds of the target's pass."""
    setting = GridSetting.of(cell, loads)
    return np.asarray(setting.timer(cell.model)(np.arange(1, widest + 1)[:, None]))  # type: ignore[arg-type]


# ---- many loads at once


@dataclass(frozen=True)
class GridSetting(Setting):
    """A setting of many loads: a time is an array, an element a load, and `width` a number or a column of them."""

    batches: Any = None
    contexts: Any = None

    keep: ClassVar[Callable[..., Any]] = staticmethod(lambda seconds: seconds)

    @classmethod
    def of(cls, cell: Cell, loads: Sequence[tuple[int, int]]) -> GridSetting:
        batches, contexts = np.array(loads, dtype=np.int64).T
        load = Load(tp=cell.tp)
        return cls(
            cell.hardware,
            cell.model,
            load,
            cell.time,
            cell.engine,
            cell.offload,
            batches=batches,
            contexts=contexts,
        )

    def draft(self, model: ModelSpec, tp: int) -> Draft:
        seconds = self._passes(model, draft=True, tp=tp, offload=None)
        return Draft(model.name, seconds, model=model, tp=tp)

    def _passes(self, model: ModelSpec, *, draft: bool, tp: int, offload: str | None) -> Callable[[Any], Any]:
        assert self.hardware is not None
        more: dict[str, Any] = {"tp": tp, "time": self.time, "draft": draft, "engine": self.engine, "offload": offload}
        load: dict[str, Any] = {"batch": self.batches, "context": self.contexts}
        hardware = self.hardware
        return lambda width: pass_times(hardware, model, width=width, **load, **more)

    def _matrices(self, model: ModelSpec) -> Callable[[Any], Any]:
        assert self.hardware is not None
        at: dict[str, Any] = {"batch": self.batches, "tp": self.load.tp, "time": self.time, "engine": self.engine}
        hardware = self.hardware
        return lambda width: matrix_times(hardware, model, width=width, **at)


@dataclass
class _Trees:
    """The best trees of an acceptance: by depth and nodes the most accepted tokens, -2 where there are none."""

    acceptance: Acceptance
    engine: Engine
    values: Floats
    drawn: dict[tuple[int, int], tuple[TokenTree, float, str]] = field(default_factory=dict)
    noises: dict[tuple[int, int], float] = field(default_factory=dict)

    @classmethod
    def of(cls, acceptance: Acceptance, nodes: int, depth: int, children: int | None) -> _Trees:
        engine = engine_for(acceptance, nodes, children)
        deepest = min(depth, nodes, acceptance.max_depth or nodes)
        by_depth = [engine.values(d) for d in range(1, deepest + 1)]
        widest = max((len(values) for values in by_depth), default=1)
        table = np.full((max(deepest, 1), widest), -2.0)
        for line, values in zip(table, by_depth):
            line[1 : len(values)] = values[1:]
        return cls(acceptance, engine, table)

    def at(self, nodes: int, depth: int) -> tuple[TokenTree, float, str]:
        """The tree, the tokens it accepts and its level widths in words."""
        key = (nodes, depth)
        if key not in self.drawn:
            tree = self.engine.tree(nodes, depth) if nodes else TokenTree.empty()
            self.drawn[key] = tree, self.acceptance.accepted(tree), _words(tree.widths)
        return self.drawn[key]

    def noise(self, nodes: int, depth: int) -> float:
        """The share of its tokens that the counts behind the acceptance leave open."""
        key = (nodes, depth)
        if key not in self.noises:
            tree, accepted, _ = self.at(nodes, depth)
            bounds = tau_interval(self.acceptance, tree) if nodes else None
            self.noises[key] = 0.0 if bounds is None else 1 - bounds.low / (1 + accepted)
        return self.noises[key]


@lru_cache(maxsize=512)
def _trees(acceptance: Acceptance, nodes: int, depth: int, children: int | None) -> _Trees:
    return _Trees.of(acceptance, nodes, depth, children)


def _trees_for(acceptance: Acceptance, nodes: int, depth: int, children: int | None) -> _Trees:
    """Trees up to a power of two of nodes, so that few tables serve all limits."""
    return _trees(acceptance, 1 << (nodes - 1).bit_length(), depth, children)


def _by_depth(costs: RoundCosts, deepest: int, loads: int) -> Floats:
    """[depth - 1, load]: seconds of all draft passes of a round."""
    draft, depths = costs.draft, range(1, deepest + 1)
    if costs.draft_shape == "block":
        times = [draft.at(depth) for depth in depths]
    else:
        times = [draft.at(1) * (depth + (costs.draft_passes == "all")) for depth in depths]
    return np.array([np.broadcast_to(np.asarray(seconds, dtype=float), loads) for seconds in times])


def _round_s(timed: tuple[list[float], list[float], float], nodes: int, depth: int) -> float:
    verify_s, draft_s, overhead_s = timed
    return draft_s[depth] + verify_s[nodes] + overhead_s if nodes else verify_s[0]


@dataclass
class _Best:
    """By load: the nodes and depth of the optimum, of the recommended shape and of the best shape that drafts."""

    optimum: tuple[Any, Any]
    chosen: tuple[Any, Any]
    drafting: tuple[Any, Any]


def _fill_at_once(chunk: Chunk, found: list[list[Row]]) -> None:
    """All points of a chunk, in blocks of similar limits."""
    cell, loads = chunk.cell, chunk.loads
    if cell.budget is not None:
        limits = [cell.budget] * len(loads)
    else:
        limits = [useful_limit(crossover, None) for crossover in _crossovers(cell, loads).tolist()]
    if chunk.kind == "chains":
        limits = [min(limit, cell.depth) for limit in limits]
    for block in _blocks(limits, cell.depth):
        at = _Block(cell, [loads[i] for i in block], [limits[i] for i in block])
        for a, chance in enumerate(chunk.chances):
            at.fill(chance.acceptance, [found[i][a] for i in block])


def _blocks(limits: Sequence[int], depth: int) -> Iterator[list[int]]:
    """Places of limits that are alike, so that little of a table is empty."""
    order = sorted(range(len(limits)), key=lambda i: (limits[i], i))
    while order:
        first = limits[order[0]]
        alike = [i for i in order if limits[i] <= first + first // 4 + 2]
        widest = limits[alike[-1]]
        block = alike[: max(1, BLOCK // (min(depth, widest) * (widest + 1)))]
        yield block
        order = order[len(block) :]


class _Block:
    """Some loads of a cell; times are arrays over them."""

    def __init__(self, cell: Cell, loads: Sequence[tuple[int, int]], limits: Sequence[int]) -> None:
        self.cell, self.loads = cell, loads
        self.limits = np.array(limits)
        self.most = int(self.limits.max())
        self.setting = GridSetting.of(cell, loads)
        self.plain_s = _verify_s(cell, loads, 1)[0]
        alone = _memory_of(cell, _NO_DRAFT)
        self.alone = [alone(load, 0) for load in loads]
        self._verify: Floats = self.plain_s[None, :]
        self._costs: dict[tuple[float, int, int], tuple[RoundCosts, Floats, Floats]] = {}
        self._memories: dict[tuple[int, int], Memory] = {}

    def fill(self, acceptance: Acceptance | None, rows: Sequence[Row]) -> None:
        """The rows of one acceptance, one a load."""
        assert acceptance is not None
        try:
            method = self.cell.build(self.setting, self.plain_s, acceptance)
        except InputError as error:
            _fail(rows, error.message)
            return
        whole = method_acceptance(acceptance, method)
        within = method_limits(self.cell.limits(self.most, acceptance), method)
        trees = _trees_for(whole, self.most, within.depth, within.children)
        widest = min(self.most + 1, trees.values.shape[1])
        costs, verify, draft = self._priced(method, widest, len(trees.values))
        best = self._search(trees, verify, draft + costs.overhead_s)
        self._write(rows, trees, costs, verify, draft, best)

    def _priced(self, method: Method, widest: int, deepest: int) -> tuple[RoundCosts, Floats, Floats]:
        """The costs of the method; seconds by [width - 1, load] of verification, by [depth - 1, load] of drafting."""
        key = (method.proposal_share, widest, deepest)
        if key not in self._costs:
            columns = np.arange(2, widest + 1)[:, None]
            own = None if method.verify_s is None else np.asarray(method.verify_s(columns))  # type: ignore[arg-type]
            if own is None and len(self._verify) < widest:
                self._verify = _verify_s(self.cell, self.loads, widest)
            timed = method if own is None else replace(method, verify_s=lambda width: own[width - 2])
            verify = self._verify if own is None else np.broadcast_to(self.plain_s, (widest, len(self.loads)))
            costs = method_costs(self.cell.costs(list(verify[:widest]), 1), timed)
            self._costs[key] = costs, np.array(costs.verify_s), _by_depth(costs, deepest, len(self.loads))
        return self._costs[key]

    def _search(self, trees: _Trees, verify: Floats, besides: Floats) -> _Best:
        """The fastest shapes by load; `besides`: [depth - 1, load] seconds of a round that are not verification."""
        tau = 1.0 + trees.values[:, : len(verify)]
        times = np.where(np.arange(len(verify)) <= self.limits[:, None], verify.T, np.inf)
        rates = tau[None] / (times[:, None, :] + besides.T[:, :, None])
        depths = rates.argmax(axis=1)
        rate = np.take_along_axis(rates, depths[:, None, :], axis=1)[:, 0, :]
        depths += 1
        rate[:, 0] = 1.0 / verify[0]
        depths[:, 0] = 0
        load = np.arange(len(rate))
        optimum = (rate >= rate.max(axis=1, keepdims=True) * (1 - TIE)).argmax(axis=1)
        ties = np.full(len(rate), self.cell.tie)
        if trees.acceptance.counts is not None or trees.acceptance.kind == "mixture":
            noise = [trees.noise(n, d) for n, d in zip(optimum.tolist(), depths[load, optimum].tolist())]
            ties = np.maximum(ties, noise)
        enough = (rate[load, optimum] * (1 - ties))[:, None]
        chosen = np.minimum((rate >= enough).argmax(axis=1), optimum)
        drafting = rate[:, 1:].argmax(axis=1) + 1 if rate.shape[1] > 1 else np.zeros_like(optimum)
        return _Best(*((n, depths[load, n]) for n in (optimum, chosen, drafting)))

    def _write(
        self, rows: Sequence[Row], trees: _Trees, costs: RoundCosts, verify: Floats, draft: Floats, best: _Best
    ) -> None:
        memory_of = _memory_of(self.cell, costs.draft)
        picked = [side.tolist() for pair in (best.optimum, best.chosen, best.drafting) for side in pair]
        verify_s, draft_s = verify.T.tolist(), [[0.0, *times] for times in draft.T.tolist()]
        for i, (row, batch, *shapes) in enumerate(zip(rows, self.setting.batches.tolist(), *picked)):
            plain_s = verify_s[i][0]
            if not self.alone[i].fits:
                _too_large(row, self.alone[i])
                continue
            row.plain_s, row.plain_tokens_per_s = plain_s, batch / plain_s
            nodes, depth = shapes[2:4]
            spent = self._spent(memory_of, i, nodes)
            row.needed_bytes, row.fits = spent.needed_bytes, spent.fits
            shown = (nodes, depth) if nodes and spent.fits else tuple(shapes[4:6])
            if not spent.fits:
                nodes, depth = 0, 0
                row.reason = TOGETHER
            timed = (verify_s[i], draft_s[i], costs.overhead_s)
            if shown[0]:
                row.break_even_tau = _round_s(timed, *shown) / plain_s
            _, accepted, optimum = self._shape(trees, timed, plain_s, *shapes[:2])
            row.optimum_nodes, row.optimum_speedup = shapes[0], optimum
            tree, accepted, row.speedup = self._shape(trees, timed, plain_s, nodes, depth)
            row.speculate, row.tau = nodes > 0, 1.0 + accepted
            row.nodes, row.width, row.depth, row.widths = nodes, nodes + 1, tree.depth, trees.at(nodes, depth)[2]
            row.draft_s, row.verify_s = draft_s[i][depth], verify_s[i][nodes]
            row.overhead_s = costs.overhead_s if nodes else 0.0
            row.round_s = _round_s(timed, nodes, depth)
            row.tokens_per_s_per_sequence = row.tau / row.round_s
            row.tokens_per_s = batch * row.tokens_per_s_per_sequence

    def _shape(
        self, trees: _Trees, timed: Any, plain_s: float, nodes: int, depth: int
    ) -> tuple[TokenTree, float, float]:
        """The tree, the tokens it accepts, and its speed-up."""
        tree, accepted, _ = trees.at(nodes, depth)
        return tree, accepted, (1.0 + accepted) / _round_s(timed, nodes, depth) * plain_s

    def _spent(self, memory_of: Callable[[tuple[int, int], int], Memory], i: int, nodes: int) -> Memory:
        key = (i, nodes)
        if key not in self._memories:
            self._memories[key] = memory_of(self.loads[i], nodes)
        return self._memories[key]
