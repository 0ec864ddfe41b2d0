"""The best tree per second when a draft pass takes longer the more nodes it feeds.

Levels are separable up to one thing: a level's nodes need their parents. Leave that out (S_d(w): the best w values of
level d of the uncut tree) and the best widths for a price `lam` per second follow from a recursion over levels; the
price at which the best gain is 0 is the best rate of the relaxation (Dinkelbach), and no tree is faster. Where the
widths found keep every node's parents the answer is exact. Otherwise a depth-first search over widths, with each
level's true values and the recursion as the bound, closes the gap or reports what is left of it.

The level-by-level beam is the best tree of given widths: componentwise larger parents have componentwise larger
children. Acceptances without such a beam go to `grove.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..acceptance.kinds import Acceptance
from ..base.errors import InputError
from ..base.tree import TokenTree
from .exact import Fees, fastest
from .frontier import BestFirst, Engine, LevelLists

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Places of the depth-first search that are visited before it stops and reports a gap, times nodes.
MAX_VISITS = 2_000_000
# Largest node count for which expanded widths get their own table (nodes^2 floats a level).
MAX_EXPANDED = 1200
# Largest node count for which neighbouring widths are tied (nodes^3 operations a level).
MAX_CHAINED = 300
# Above this only node counts that could beat the best are searched.
FEW_NODES = 300
# Tables have nodes^2 entries; no published tree is larger.
MAX_SEARCHED = 4096
TOLERANCE = 1e-11
# Up to this many nodes a tree is drawn for every cap on the depth that could be the fastest.
FEW_DRAWN = 64
# Trees by accepted tokens from which single leaves are moved.
SEEDS = 3
# A beam is tried for a row that is not the optimum when it could gain more than this.
ROW_GAIN = 1e-5


@dataclass(frozen=True)
class Found:
    """Rows by nodes, and the rate that no tree exceeds."""

    depth: list[int | None]
    tau: list[float]
    round_s: list[float]
    draw: Callable[[int], TokenTree]
    limit: float


@dataclass(frozen=True)
class Prices:
    """Times by nodes or width as arrays. verify[n] with the overhead, plain apart; draft[w], draft[0] = 0."""

    verify: Floats
    draft: Floats
    passes: str

    def up_to(self, nodes: int) -> Prices:
        """The same for fewer nodes."""
        return Prices(self.verify[: nodes + 1], self.draft[: nodes + 1], self.passes)

    @property
    def root_s(self) -> float:
        """The root's pass."""
        return float(self.draft[1])

    def draft_s(self, fed: Sequence[tuple[int, int]]) -> float:
        """Seconds of all draft passes of a tree with (expanded above, width) by level."""
        if self.passes == "expanded":
            return float(sum(self.draft[e] for e, _ in fed))
        paid = fed if self.passes == "all" else fed[:-1]
        return self.root_s + float(sum(self.draft[w] for _, w in paid))


# (expanded nodes of the level above, nodes) by level
Profile = tuple[tuple[int, int], ...]


@dataclass
class Level:
    """Best values of a level, descending; above: index of each one's parent in the level above; rank: which child."""

    values: Floats
    above: Ints
    rank: Ints

    @property
    def size(self) -> int:
        return len(self.values)


def grow(values: Floats, row: Floats, room: int, *, cut: bool = True) -> Level:
    """The best `room` children of these (descending) values; of equal ones those of earlier parents first.

    cut   False: all that are among the best `room` of some first parents
    """
    counts = np.minimum(room // np.arange(1, min(len(values), room) + 1), len(row))
    above = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(above)) - np.repeat(np.cumsum(counts) - counts, counts)
    found = values[above] * row[rank]
    order = np.argsort(-found, kind="stable")[: room if cut else None]
    return Level(found[order], above[order], rank[order])


def grow_all(values: Floats, row: Floats, expanded: int, width: int) -> Level | None:
    """The best `width` children of the first `expanded` values, at least one of each; None where there are fewer."""
    kept = values[:expanded]
    if len(kept) < expanded or width < expanded or width > expanded * len(row):
        return None
    rest = grow(kept, row[1:], width - expanded) if width > expanded else Level(*_nothing())
    found = np.concatenate([kept * row[0], rest.values])
    above = np.concatenate([np.arange(expanded), rest.above])
    rank = np.concatenate([np.zeros(expanded, np.int64), rest.rank + 1])
    order = np.lexsort((rank, above, -found))
    return Level(found[order], above[order], rank[order])


def _nothing() -> tuple[Floats, Ints, Ints]:
    return np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)


class Beams:
    """The uncut levels of non-increasing rows, and trees of given widths."""

    def __init__(self, engine: LevelLists, nodes: int, depth: int) -> None:
        self.engine = engine
        self.rows = [np.array(engine.row(d)[0], dtype=np.float64) for d in range(1, depth + 1)]
        self.levels: list[Level] = []
        values = np.ones(1)
        for row in self.rows:
            level = grow(values, row, nodes)
            if not level.size:
                break
            self.levels.append(level)
            values = level.values

    def beam(self, profile: Profile, passes: str) -> list[Level] | None:
        """Level by level the best nodes of these widths; None where they cannot be drawn."""
        values = np.ones(1)
        levels = []
        for (expanded, width), row in zip(profile, self.rows):
            level = grow_all(values, row, expanded, width) if passes == "expanded" else grow(values, row, width)
            if level is None or level.size < width:
                return None
            levels.append(level)
            values = level.values
        return levels

    def tree(self, levels: Sequence[Level]) -> TokenTree:
        """The tree of a beam."""
        parents: list[int] = []
        ranks: list[int] = []
        first = -1
        for d, level in enumerate(levels, 1):
            names = self.engine.row(d)[1]
            start = len(parents)
            parents += [first + int(a) if d > 1 else -1 for a in level.above]
            ranks += [names[k] if names else int(k) for k in level.rank]
            first = start
        return TokenTree.from_parents(parents, ranks)

    def taken(self, levels: Sequence[Level]) -> Profile:
        """The widths of a beam with the nodes that it really expands."""
        return tuple((len(np.unique(level.above)), level.size) for level in levels)


# ---- relaxation


@dataclass
class Sums:
    """Most that w nodes of level d can be worth, whatever is above them. sums[d][w], -inf where there are fewer nodes.

    expanded[d][e, w]   the same when they are children of e nodes, each with at least one; empty when not known
    needs[d][w]         nodes of the level above that the best w nodes need
    """

    sums: list[Floats]
    expanded: list[Floats] = field(default_factory=list)
    needs: list[Ints] = field(default_factory=list)


def _padded(values: Floats, size: int, fill: float) -> Floats:
    return np.concatenate([values[:size], np.full(max(0, size - len(values)), fill)])


def sums_of(beams: Beams, nodes: int, expanded: bool) -> Sums:
    """From the uncut levels."""
    sums = [_padded(np.concatenate([[-np.inf], np.cumsum(level.values)]), nodes + 1, -np.inf) for level in beams.levels]
    needs = [
        _padded(np.concatenate([[0], np.maximum.accumulate(level.above) + 1]), nodes + 1, 0).astype(np.int64)
        for level in beams.levels
    ]
    tables = []
    if expanded and nodes <= MAX_EXPANDED:
        above = [np.ones(1)] + [level.values for level in beams.levels[:-1]]
        tables = [_expanded_table(values, row, nodes) for values, row in zip(above, beams.rows)]
    return Sums(sums, tables, needs)


def _expanded_table(values: Floats, row: Floats, nodes: int) -> Floats:
    """[e, w]: first children of the best e values and the best w - e of their other children."""
    most = min(len(values), nodes)
    table = np.full((most + 1, nodes + 1), -np.inf)
    if not len(row):
        return table
    firsts = np.cumsum(values[:most]) * row[0]
    rest = grow(values[:most], row[1:], nodes, cut=False)
    for e in range(1, most + 1):
        kept = rest.values[rest.above < e][: nodes - e]
        table[e, e] = firsts[e - 1]
        table[e, e + 1 : e + 1 + len(kept)] = firsts[e - 1] + np.cumsum(kept)
    return table


def _pair_table(values: Floats, row: Floats, nodes: int) -> Floats:
    """[v, w]: the best w children of the best v values; -inf where v + w is above `nodes`."""
    most = min(len(values), nodes)
    table = np.full((most + 1, nodes + 1), -np.inf)
    found = grow(values[:most], row, nodes, cut=False)
    for v in range(1, most + 1):
        kept = found.values[found.above < v][: nodes - v + (v == 1)]
        table[v, 1 : len(kept) + 1] = np.cumsum(kept)
    return table


@dataclass(frozen=True)
class Solution:
    """Of one price: gain by nodes; widths and expanded counts of the level above by [level, nodes], else 0."""

    lam: float
    gain: Floats
    widths: Ints
    expanded: Ints

    def profile(self, nodes: int) -> Profile:
        pairs = zip(self.expanded[:, nodes], self.widths[:, nodes])
        return tuple((int(e), int(w)) for e, w in pairs if w)


class Relaxation:
    """Best widths for a price per second, by nodes."""

    def __init__(self, sums: Sums, prices: Prices) -> None:
        self.sums = sums
        self.prices = prices
        self.nodes = len(prices.verify) - 1

    def gains(self, lam: float) -> tuple[list[Floats], list[Floats], list[Ints | None]]:
        """Gain of w nodes in each level as the last level, and with a level below; and the best expanded counts."""
        sums, draft = self.sums.sums, lam * self.prices.draft
        if self.prices.passes == "all":
            paid = [s - draft for s in sums]
            return paid, paid, [None] * len(sums)
        if self.prices.passes == "all_but_leaf":
            return sums, [s - draft for s in sums], [None] * len(sums)
        if not self.sums.expanded:
            paid = [s - (_cheapest(draft) if d else draft[1]) for d, s in enumerate(sums)]
            return paid, paid, [None] * len(sums)
        priced = [table - draft[: len(table), None] for table in self.sums.expanded]
        best = [np.argmax(p, axis=0) for p in priced]
        paid = [np.take_along_axis(p, b[None, :], axis=0)[0] for p, b in zip(priced, best)]
        return paid, paid, list(best)

    def root_s(self) -> float:
        """The root's pass, where it is not the expansion of level 1."""
        return 0.0 if self.prices.passes == "expanded" else self.prices.root_s

    def solve(self, lam: float) -> Solution:
        """Gain by nodes (1 + sums - lam seconds), and the widths that have it."""
        stop, go, expanded = self.gains(lam)
        best = np.full(self.nodes + 1, -np.inf)
        choices: list[Ints] = []
        for d in reversed(range(len(stop))):
            windows = np.lib.stride_tricks.sliding_window_view(_before(best), self.nodes + 1)[:, ::-1]
            total = windows + go[d]
            choice = np.argmax(total, axis=1)
            onward = np.take_along_axis(total, choice[:, None], axis=1)[:, 0]
            last = stop[d] >= onward
            choices.append(np.where(last, np.arange(self.nodes + 1), choice))
            best = np.where(last, stop[d], onward)
            best[0] = -np.inf
        verify = self.prices.verify
        gain = np.where(np.isfinite(verify), 1.0 + best - lam * (verify + self.root_s()), -np.inf)
        return Solution(lam, gain, *_all_widths(choices[::-1], expanded))

    def seconds(self, found: Solution) -> Floats:
        """Seconds of the rounds of a solution, as the relaxation counts them."""
        draft, widths = self.prices.draft, found.widths
        paid = draft[widths]
        if self.prices.passes == "expanded":
            paid = draft[found.expanded] if self.sums.expanded else _cheapest(draft)[widths]
            paid[0] = draft[1]
            paid = np.where(widths > 0, paid, 0.0)
        if self.prices.passes == "all_but_leaf":
            paid = np.where(np.roll(widths, -1, axis=0) > 0, paid, 0.0)
            paid[-1] = 0.0
        seconds: Floats = self.prices.verify + self.root_s() + paid.sum(axis=0)
        return seconds

    def rest(self, lam: float) -> list[Floats]:
        """Bound by level and nodes used so far: the best from this level down, verification paid."""
        stop, go, _ = self.gains(lam)
        final = -lam * self.prices.verify
        bounds = [np.full(self.nodes + 1, -np.inf)]
        for d in reversed(range(len(stop))):
            ends = _ahead(final) + stop[d]
            onward = _ahead(bounds[-1]) + go[d]
            bounds.append(np.maximum(ends, onward).max(axis=1))
        return bounds[::-1]


class Chained:
    """The relaxation with each level's choice tied to the width above it.

    value[d][v, m] is the best of m nodes from level d down when the level above has v: level d takes the best children
    of the best v nodes of the uncut level above. O(nodes^3) a level, so for small counts only.
    """

    def __init__(self, beams: Beams, prices: Prices, nodes: int) -> None:
        self.prices, self.nodes = prices, nodes
        above = [np.ones(1)] + [level.values for level in beams.levels[:-1]]
        make = _expanded_table if prices.passes == "expanded" else _pair_table
        self.tables = [make(values, row, nodes) for values, row in zip(above, beams.rows)]

    def priced(self, lam: float) -> list[tuple[Floats, Floats]]:
        """Gain [v, w] of level d as the last level, and with a level below."""
        draft = lam * self.prices.draft[: self.nodes + 1]
        if self.prices.passes == "expanded":
            best = [np.maximum.accumulate(table - draft[: len(table), None], axis=0) for table in self.tables]
            return list(zip(best, best))
        paid = [table - draft for table in self.tables]
        return list(zip(paid, paid)) if self.prices.passes == "all" else list(zip(self.tables, paid))

    def solve(self, lam: float) -> None:
        """Fills `value` and `onward`: [w, m] with w nodes in this level and m from this level down."""
        size = self.nodes + 1
        self.lam, self.gains = lam, self.priced(lam)
        self.value: list[Floats] = []
        self.onward: list[Floats] = []
        below = np.full((size, size), -np.inf)
        for stop, go in reversed(self.gains):
            self.onward.append(_moved(below, size))
            below = np.maximum(stop, _best_products(go, self.onward[-1]))
            self.value.append(below)
        self.value.reverse()
        self.onward.reverse()

    def root_s(self) -> float:
        return 0.0 if self.prices.passes == "expanded" else self.prices.root_s

    def gain(self) -> Floats:
        """1 + sums - lam seconds by nodes."""
        gain = 1.0 + self.value[0][1] - self.lam * (self.prices.verify[: self.nodes + 1] + self.root_s())
        return np.where(np.isfinite(self.prices.verify[: self.nodes + 1]), gain, -np.inf)

    def widths(self, nodes: int) -> tuple[Profile, float]:
        """The widths with that gain, and what the relaxation takes them to be worth."""
        found: list[tuple[int, int]] = []
        above, value = 1, 1.0
        for d, (stop, go) in enumerate(self.gains):
            onward = go[above] + self.onward[d][:, nodes]
            width = nodes if stop[above, nodes] >= onward.max() else int(np.argmax(onward))
            expanded = self._expanded(d, above, width)
            value += float(self.tables[d][expanded or above, width])
            found.append((expanded, width))
            above, nodes = width, nodes - width
            if not nodes:
                break
        return tuple(found), value

    def _expanded(self, d: int, above: int, width: int) -> int:
        if self.prices.passes != "expanded":
            return 0
        table = self.tables[d][: above + 1, width]
        return int(np.argmax(table - self.lam * self.prices.draft[: len(table)]))


def _moved(values: Floats, size: int) -> Floats:
    """[w, m] = values[w, m - w]."""
    moved = np.full((size, size), -np.inf)
    for w in range(1, min(len(values), size)):
        moved[w, w + 1 :] = values[w, 1 : size - w]
    return moved


def _best_products(first: Floats, second: Floats) -> Floats:
    """[v, m] = max over w of first[v, w] + second[w, m]."""
    best = np.full((len(first), second.shape[1]), -np.inf)
    for w in range(1, len(second)):
        rows = np.flatnonzero(np.isfinite(first[:, w]))
        if len(rows):
            last = rows[-1] + 1
            np.maximum(best[:last, w:], first[:last, w, None] + second[w, w:], out=best[:last, w:])
    return best


def _before(values: Floats) -> Floats:
    """Padded so that windows reversed give values[m - w]."""
    return np.concatenate([np.full(len(values) - 1, -np.inf), values])


def _ahead(values: Floats) -> Floats:
    """[u, w] = values[u + w]."""
    padded = np.concatenate([values, np.full(len(values) - 1, -np.inf)])
    return np.lib.stride_tricks.sliding_window_view(padded, len(values))


def _cheapest(draft: Floats) -> Floats:
    """Least time of a pass over at most that many nodes."""
    return np.concatenate([[0.0], np.minimum.accumulate(draft[1:])])


def _all_widths(choices: Sequence[Ints], expanded: Sequence[Ints | None]) -> tuple[Ints, Ints]:
    """Widths and expanded counts [level, nodes], for every number of nodes."""
    left = np.arange(len(choices[0]))
    widths, counts = [], []
    for d, (choice, best) in enumerate(zip(choices, expanded)):
        width = choice[left]
        widths.append(width)
        counts.append(best[width] if best is not None and d else np.minimum(width, 1))
        left = left - width
    return np.array(widths), np.array(counts)


# ---- rows


class Rows:
    """The best tree found for each node count."""

    def __init__(self, prices: Prices, plain_s: float) -> None:
        size = len(prices.verify)
        self.prices = prices
        self.tau = np.ones(size)
        self.round_s = np.full(size, np.inf)
        self.round_s[0] = plain_s
        self.depth = np.zeros(size, np.int64)
        self.how: list[Any] = [None] * size
        self.seen: set[Profile] = set()

    @property
    def rate(self) -> Floats:
        rate: Floats = self.tau / self.round_s
        return rate

    def best_rate(self) -> float:
        return float(self.rate.max())

    def take(self, nodes: int, depth: int, tau: float, draft_s: float, how: Any) -> None:
        """Keeps it when it is faster."""
        seconds = float(self.prices.verify[nodes]) + draft_s
        if np.isfinite(seconds) and tau * self.round_s[nodes] > self.tau[nodes] * seconds * (1 + 1e-14):
            self.tau[nodes], self.round_s[nodes], self.depth[nodes] = tau, seconds, depth
            self.how[nodes] = how

    def found(self, draw: Callable[[Any, int], TokenTree], limit: float) -> Found:
        known = [nodes == 0 or bool(np.isfinite(seconds)) for nodes, seconds in enumerate(self.round_s)]
        depth = [int(d) if ok else None for d, ok in zip(self.depth, known)]
        return Found(depth, self.tau.tolist(), self.round_s.tolist(), lambda nodes: draw(self.how[nodes], nodes), limit)


def take_nested(rows: Rows, levels: Ints, firsts: NDArray[np.bool_], values: Floats, how: Any) -> None:
    """All trees of one order of nodes: level (0-based), whether first child of its parent, value, by position.

    how   called with nodes, widths and expanded counts; says how to draw the tree
    """
    if not len(levels):
        return
    depth = int(levels.max()) + 1
    widths = np.cumsum(levels[:, None] == np.arange(depth), axis=0)
    fed = np.cumsum((levels[:, None] == np.arange(depth)) & firsts[:, None], axis=0)
    draft = rows.prices.draft
    draft_s = draft[fed].sum(axis=1) if rows.prices.passes == "expanded" else draft[1] + draft[widths].sum(axis=1)
    deep = (widths > 0).sum(axis=1)
    if rows.prices.passes == "all_but_leaf":
        draft_s = draft[1] + np.where(np.arange(depth) < deep[:, None] - 1, draft[widths], 0.0).sum(axis=1)
    tau = 1.0 + np.cumsum(values)
    for i in range(len(levels)):
        rows.take(i + 1, int(deep[i]), float(tau[i]), float(draft_s[i]), how(i + 1, widths[i], fed[i]))


def _uncut_orders(beams: Beams, rows: Rows) -> None:
    """The best trees for every cap on depth: prefixes of the uncut levels."""
    for depth in range(1, len(beams.levels) + 1):
        kept = beams.levels[:depth]
        values = np.concatenate([level.values for level in kept])
        where = np.repeat(np.arange(depth), [level.size for level in kept])
        firsts = np.concatenate([level.rank for level in kept]) == 0
        order = np.argsort(-values, kind="stable")[: len(rows.tau) - 1]
        take_nested(rows, where[order], firsts[order], values[order], _as_profile)


def _as_profile(nodes: int, widths: Ints, fed: Ints) -> Profile:
    return tuple((int(e), int(w)) for e, w in zip(fed, widths) if w)


# ---- search


def search_widths(
    acceptance: Acceptance,
    engine: Engine,
    verify: list[float],
    draft: list[float],
    costs: Any,
    depth: int,
    children: int | None,
) -> Found:
    """Rows by nodes with the optimum among them, and the rate that no tree exceeds."""
    if len(verify) > MAX_SEARCHED + 1:
        raise InputError(
            f"{len(verify) - 1} nodes with a draft time that depends on the width",
            hint=f"at most {MAX_SEARCHED} are searched; limit the nodes, or give one draft time for any width",
        )
    paid = np.array(verify) + costs.overhead_s
    prices = Prices(paid, np.array(draft), costs.passes)
    rows = Rows(prices, verify[0])
    if isinstance(engine, LevelLists):
        return _search_beams(engine, prices, rows, depth)
    _frontier_rows(engine, rows, depth)
    fees = Fees.by_width(paid.tolist(), draft, costs.passes, depth)
    best = np.argsort(-rows.rate[1:], kind="stable")[:SEEDS] + 1
    seeds = [_drawn(engine, rows.how[n], int(n)) for n in best if rows.how[n]]
    nodes = int(np.flatnonzero(rows.rate >= rows.best_rate() * (1 - 1e-12))[0])
    trees, limit = fastest(acceptance, fees, children, seeds, rows.best_rate(), nodes)
    for tree in trees:
        fed = tuple(zip((1, *tree.expanded_widths), tree.widths))
        rows.take(tree.nodes, tree.depth, acceptance.tau(tree), prices.draft_s(fed), tree)
    return rows.found(lambda how, nodes: _drawn(engine, how, nodes), limit)


def _drawn(engine: Engine, how: int | TokenTree, nodes: int) -> TokenTree:
    """A row's tree, or the engine's for that cap on the depth."""
    return how if isinstance(how, TokenTree) else engine.tree(nodes, how)


def _relaxed_rate(relaxation: Relaxation, lam: float, see: Callable[[Solution], None]) -> float:
    """The rate that no tree exceeds, from a rate that is reached; `see` gets every solution on the way."""
    while True:
        found = relaxation.solve(lam)
        see(found)
        nodes = int(np.argmax(found.gain[1:])) + 1
        if not found.gain[nodes] > TOLERANCE:
            return lam
        better = lam + float(found.gain[nodes] / relaxation.seconds(found)[nodes])
        if better <= lam * (1 + 1e-13):
            return better
        lam = better


def _search_beams(engine: LevelLists, prices: Prices, rows: Rows, depth: int) -> Found:
    nodes = len(prices.verify) - 1
    beams = Beams(engine, nodes, depth)
    _uncut_orders(beams, rows)
    draw = lambda profile, n: beams.tree(beams.beam(profile, prices.passes) or [])  # noqa: E731
    if nodes > FEW_NODES:
        nodes = _hopeful(Relaxation(sums_of(beams, nodes, False), prices), rows)
    if not nodes:
        return rows.found(draw, rows.best_rate())
    relaxation = Relaxation(sums_of(beams, nodes, prices.passes == "expanded"), prices.up_to(nodes))

    def see(found: Solution) -> None:
        _take_solution(beams, relaxation, rows, found)

    limit = _relaxed_rate(relaxation, rows.best_rate(), see)
    if limit > rows.best_rate() * (1 + 1e-12):
        limit = _close(beams, relaxation, rows, limit)
    for lam in _prices_of_rows(rows, nodes):
        see(relaxation.solve(lam))
    return rows.found(draw, limit)


def _hopeful(relaxation: Relaxation, rows: Rows) -> int:
    """The largest number of nodes with which a tree could be faster than the best row; 0 when none could."""
    hopeful = np.flatnonzero(relaxation.solve(rows.best_rate()).gain[1:] > TOLERANCE)
    return int(hopeful[-1]) + 1 if len(hopeful) else 0


def _prices_of_rows(rows: Rows, nodes: int) -> list[float]:
    """Rates of rows at which the rows are looked at once more."""
    rates = np.unique(rows.rate[1 : nodes + 1][np.isfinite(rows.round_s[1 : nodes + 1])])
    picked = np.linspace(0, len(rates) - 1, min(len(rates), 16 if nodes <= FEW_NODES else 4))
    return [float(rate) for rate in rates[picked.astype(int)]]


def _take_solution(beams: Beams, relaxation: Relaxation, rows: Rows, found: Solution) -> None:
    """The widths of every node count: kept as they are where every parent is, else with their beam's value."""
    seconds = relaxation.seconds(found)
    known = np.isfinite(found.gain) & np.isfinite(seconds)
    tau = np.where(known, found.gain + found.lam * np.where(known, seconds, 0.0), 0.0)
    whole = _keep_parents(relaxation, found.widths)
    rate = rows.rate[: len(tau)]
    gained = np.divide(tau, seconds, out=np.zeros(len(tau)), where=known) - rate
    for nodes in np.flatnonzero(gained[1:] > np.where(whole, 1e-13, ROW_GAIN)[1:] * rate[1:]) + 1:
        profile = found.profile(int(nodes))
        if whole[nodes]:
            draft_s = float(seconds[nodes] - relaxation.prices.verify[nodes])
            rows.take(int(nodes), len(profile), float(tau[nodes]), draft_s, profile)
        elif profile not in rows.seen:
            rows.seen.add(profile)
            _take_beam(beams, rows, profile)


def _keep_parents(relaxation: Relaxation, widths: Ints) -> NDArray[np.bool_]:
    """Whether the widths [level, nodes] keep the parents of the best nodes of each level; by nodes."""
    kept = np.full(widths.shape[1], relaxation.prices.passes != "expanded")
    for d in range(1, len(widths)):
        kept &= relaxation.sums.needs[d][widths[d]] <= widths[d - 1]
    return kept


# ---- closing the gap


def _close(beams: Beams, relaxation: Relaxation, rows: Rows, limit: float) -> float:
    """Looks for a faster tree until there is none; returns the rate that no tree exceeds.

    Only node counts that could beat the best are looked at.
    """
    nodes = _hopeful(relaxation, rows)
    if not nodes:
        return rows.best_rate()
    bounds: Chained | Relaxation = relaxation
    if nodes <= MAX_CHAINED:
        bounds = Chained(beams, relaxation.prices, nodes)
        limit = min(limit, _chained_rate(beams, bounds, rows))
        if limit <= rows.best_rate() * (1 + 1e-12):
            return limit
    if relaxation.prices.passes == "expanded" and nodes > MAX_EXPANDED:
        return limit
    return _branch(_DepthFirst(beams, bounds, nodes), rows, limit)


def _chained_rate(beams: Beams, chained: Chained, rows: Rows) -> float:
    """As `_relaxed_rate`, for the tied relaxation; trees met on the way are kept."""
    lam = rows.best_rate()
    while True:
        chained.solve(lam)
        gain = chained.gain()
        nodes = int(np.argmax(gain[1:])) + 1
        if not gain[nodes] > TOLERANCE:
            return lam
        profile, value = chained.widths(nodes)
        _take_beam(beams, rows, profile)
        better = value / (float(chained.prices.verify[nodes]) + chained.prices.draft_s(profile))
        if better <= lam * (1 + 1e-13):
            return better
        lam = better


def _branch(search: _DepthFirst, rows: Rows, limit: float) -> float:
    try:
        while True:
            profile = search.improve(rows.best_rate())
            if not profile:
                return rows.best_rate()
            _take_beam(search.beams, rows, profile)
    except _Stop:
        if search.profile:
            _take_beam(search.beams, rows, search.profile)
        return limit


def _take_beam(beams: Beams, rows: Rows, profile: Profile) -> None:
    levels = beams.beam(profile, rows.prices.passes)
    if levels is not None:
        taken = beams.taken(levels) if rows.prices.passes == "expanded" else profile
        value = 1.0 + sum(float(level.values.sum()) for level in levels)
        rows.take(sum(w for _, w in taken), len(taken), value, rows.prices.draft_s(taken), taken)


class _Stop(Exception):
    """The search has visited enough."""


class _DepthFirst:
    """Widths level by level with true values; at a price `lam` it looks for a tree with a gain above 0."""

    def __init__(self, beams: Beams, bounds: Chained | Relaxation, nodes: int) -> None:
        self.beams, self.bounds, self.nodes = beams, bounds, nodes
        self.prices = bounds.prices
        self.visits = max(300, MAX_VISITS // (nodes * (8 if self.prices.passes == "expanded" else 1)))

    def improve(self, lam: float) -> Profile:
        """The widths with the largest gain over `lam`; none when nothing is faster."""
        self.lam = lam
        self.final = -lam * self.prices.verify[: self.nodes + 1]
        self.best = TOLERANCE
        self.profile: Profile = ()
        if isinstance(self.bounds, Chained):
            self.bounds.solve(lam)
        else:
            self.rest = self.bounds.rest(lam)
        self._visit(0, np.ones(1), 0, 1.0 - lam * self.bounds.root_s(), ())
        return self.profile

    def _visit(self, d: int, values: Floats, used: int, score: float, path: Profile) -> None:
        self.visits -= 1
        if self.visits < 0:
            raise _Stop
        expanded, widths, total, stop_s, go_s = self._moves(d, values, used, score)
        if not len(widths):
            return
        ends = total - self.lam * stop_s + self.final[used + widths]
        last = int(np.argmax(ends))
        if ends[last] > self.best:
            self.best, self.profile = float(ends[last]), (*path, (int(expanded[last]), int(widths[last])))
        if d + 1 == len(self.beams.levels):
            return
        onward = total - self.lam * go_s
        hopes = onward + self._hope(d + 1, widths, used)
        for i in np.argsort(-hopes, kind="stable"):
            if not hopes[i] > self.best:
                break
            move = (int(expanded[i]), int(widths[i]))
            self._visit(d + 1, self._kept(d, values, move), used + move[1], float(onward[i]), (*path, move))

    def _hope(self, d: int, above: Ints, used: int) -> Floats:
        """The best that can follow from level d down, verification paid."""
        if not isinstance(self.bounds, Chained):
            return self.rest[d][used + above]
        value = self.bounds.value[d]
        known = np.unique(above)
        ends = _ahead(self.final)[used + known]
        best: Floats = (value[np.minimum(known, len(value) - 1)] + ends).max(axis=1)
        return best[np.searchsorted(known, above)]

    def _moves(self, d: int, values: Floats, used: int, score: float) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """(expanded, width, score with these nodes, seconds if last, seconds if not) of every choice."""
        room = self.nodes - used
        row, draft = self.beams.rows[d], self.prices.draft
        if self.prices.passes == "expanded":
            table = _expanded_table(values, row, room)
            expanded, widths = np.nonzero(np.isfinite(table))
            return expanded, widths, score + table[expanded, widths], draft[expanded], draft[expanded]
        sums = np.cumsum(grow(values, row, room).values) if room else np.zeros(0)
        widths = np.arange(1, len(sums) + 1)
        paid = draft[widths]
        return (
            np.zeros(len(sums), np.int64),
            widths,
            score + sums,
            paid if self.prices.passes == "all" else 0 * paid,
            paid,
        )

    def _kept(self, d: int, values: Floats, move: tuple[int, int]) -> Floats:
        row = self.beams.rows[d]
        if self.prices.passes != "expanded":
            return grow(values, row, move[1]).values
        level = grow_all(values, row, *move)
        return level.values if level else np.zeros(0)


# ---- acceptances without beams


def _frontier_rows(engine: Engine, rows: Rows, depth: int) -> None:
    """The best trees by accepted tokens, with what their levels cost."""
    if not isinstance(engine, BestFirst):
        _take_trees(engine, rows, depth)
        return
    for cap in range(1, depth + 1):
        arena, order = engine.arena, engine.order(cap)
        firsts = _first_of_parent([arena[node].parent for node in order])
        levels = np.array([arena[node].depth - 1 for node in order], np.int64)
        values = np.array([arena[node].value for node in order])
        take_nested(rows, levels, firsts, values, lambda n, w, e, cap=cap: cap)


def _first_of_parent(parents: Sequence[int]) -> NDArray[np.bool_]:
    seen: set[int] = set()
    firsts = []
    for parent in parents:
        firsts.append(parent not in seen)
        seen.add(parent)
    return np.array(firsts, np.bool_)


def _take_trees(engine: Engine, rows: Rows, depth: int) -> None:
    """Every tree that could be faster than its row; of many nodes only the one that would be with equal levels."""
    values = [engine.values(cap) for cap in range(1, depth + 1)]
    for nodes in range(1, len(values[-1])):
        caps = [cap for cap in range(1, depth + 1) if nodes < len(values[cap - 1])]
        if nodes > FEW_DRAWN:
            even = [_rate_if(rows.prices, nodes, values[cap - 1][nodes], cap, -(-nodes // cap)) for cap in caps]
            _take_tree(engine, rows, nodes, values, caps[int(np.argmax(even))])
        if nodes <= FEW_DRAWN or not np.isfinite(rows.round_s[nodes]):
            for cap in caps:
                _take_tree(engine, rows, nodes, values, cap)


def _take_tree(engine: Engine, rows: Rows, nodes: int, values: list[list[float]], cap: int) -> None:
    """The best tree within that depth, unless its row is faster than it could be."""
    value, cheapest = values[cap - 1][nodes], int(np.argmin(rows.prices.draft[1:])) + 1
    if _rate_if(rows.prices, nodes, value, cap, cheapest) > rows.rate[nodes] * (1 + 1e-13):
        tree = engine.tree(nodes, cap)
        fed = tuple(zip((1, *tree.expanded_widths), tree.widths))
        rows.take(nodes, tree.depth, 1.0 + value, rows.prices.draft_s(fed), cap)


def _rate_if(prices: Prices, nodes: int, value: float, cap: int, width: int) -> float:
    """Tokens per second if every draft pass but the root's took as long as one over `width` nodes."""
    passes = cap if prices.passes == "all" else cap - 1
    paid = float(prices.draft[width]) * passes if passes else 0.0
    return float((1.0 + value) / (prices.verify[nodes] + prices.root_s + paid))
