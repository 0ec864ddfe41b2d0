"""The best tree per second for acceptances whose levels have no beam: mixtures, measured paths, rows that rise.

A tree is worth the sum of fixed node values, whatever else it holds, and costs what its level widths say. Depth-first
branch and bound, level by level: below the nodes chosen so far a small table holds the most that r of their children
are worth, elder siblings included; what may follow further down is bounded by level sums that ignore parents. A set of
children is visited only when both together could beat the best tree so far.

Of two nodes of a level, one of which is at least as likely in every component, the likelier has the larger subtree:
give it the union of both subtrees and the other their intersection; widths stay, no value falls. So the other one
never needs more children, which removes most mirror images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..acceptance.kinds import Acceptance, ByDepth, Mixture, Paths
from ..base.tree import TokenTree
from .knapsack import best_sums

Floats = NDArray[np.float64]

# Table entries and branches that a search may use before it reports a gap: about half a second in Python.
MAX_WORK = 4_000_000
# The same for trees as fast with fewer nodes.
TIE_WORK = 500_000
# Values of a level that are listed one by one; more are bounded component by component.
MAX_LISTED = 5_000
# Gains per second of price below this are rounding.
TOLERANCE = 1e-11
# A bound on the rate is closed in to this fraction.
CLOSE = 1e-5

ROOT = 0


# ---- what levels cost


@dataclass(frozen=True)
class Fees:
    """Seconds of a round by its levels.

    verify   by nodes, overhead included
    root_s   paid by every tree
    stop, go   [level][count]: of a level that is the last, and of one with a level below; by its nodes, or by the
               nodes above it that have children when `by_parents`
    """

    verify: Sequence[float]
    root_s: float
    stop: Sequence[Sequence[float]]
    go: Sequence[Sequence[float]]
    by_parents: bool = False

    @classmethod
    def by_depth(cls, verify: Sequence[float], seconds: Sequence[float]) -> Fees:
        """Of rounds that cost `seconds[d - 1]` besides verification when they have d levels."""
        nothing = [0.0] * len(verify)
        return cls(verify, 0.0, [[s] * len(verify) for s in seconds], [nothing] * len(seconds))

    @classmethod
    def by_width(cls, verify: Sequence[float], draft: Sequence[float], passes: str, depth: int) -> Fees:
        """Of one draft pass a level, `draft[w]` seconds each."""
        paid, nothing = [draft] * depth, [[0.0] * len(draft)] * depth
        if passes == "expanded":
            return cls(verify, 0.0, paid, paid, True)
        return cls(verify, draft[1], paid if passes == "all" else nothing, paid)

    @property
    def depth(self) -> int:
        return len(self.stop)

    def least(self, fees: Sequence[Sequence[float]]) -> list[Floats]:
        """Of each level by its nodes, whatever is above it."""
        if not self.by_parents:
            return [np.asarray(fee, dtype=np.float64) for fee in fees]
        cheapest = [np.concatenate([[0.0], np.minimum.accumulate(np.asarray(fee[1:]))]) for fee in fees]
        return [np.full(len(fees[0]), fees[0][1]), *cheapest[1:]]

    def seconds(self, widths: Sequence[int], parents: Sequence[int]) -> float:
        """Of a round of a tree with these level widths; parents: nodes above each level that have children."""
        counts = parents if self.by_parents else widths
        paid = sum(fee[k] for fee, k in zip(self.go, counts[:-1]))
        return self.verify[sum(widths)] + self.root_s + paid + self.stop[len(widths) - 1][counts[-1]]


# ---- nodes


class Grove:
    """Nodes with their values, found when they are asked for. Node 0 is the root."""

    def __init__(self, acceptance: Acceptance, nodes: int, children: int | None) -> None:
        self.acceptance = acceptance
        self.children = min(nodes, children or nodes)
        self.subsets = acceptance.any_subset
        self.value, self.state, self.level = [1.0], [acceptance.start()], [0]
        self.parent, self.rank = [-1], [0]
        self._below: list[list[int]] = [[]]
        self._next: list[int] = [0]
        self._ends: list[int] = [self._breadth(ROOT)]

    def _breadth(self, node: int) -> int:
        if self.level[node] >= (self.acceptance.max_depth or self.level[node] + 1):
            return 0
        known = self.acceptance.breadth(self.state[node], self.level[node] + 1)
        return self.children if known is None else min(known, self.children)

    def below(self, node: int, room: int) -> list[int]:
        """The children by rank, at least `room` of them where there are as many."""
        found = self._below[node]
        while self._next[node] < self._ends[node] and (len(found) < room or self.subsets):
            self._add(node, self._next[node])
            self._next[node] += 1
        return found

    def _add(self, above: int, rank: int) -> None:
        level = self.level[above] + 1
        state = self.acceptance.child(self.state[above], level, rank)
        if state is None:
            self._next[above] = self.children if not self.subsets else rank
            return
        self._below[above].append(len(self.value))
        self.value.append(self.acceptance.weight(state))
        self.state.append(state)
        self.level.append(level)
        self.parent.append(above)
        self.rank.append(rank)
        self._below.append([])
        self._next.append(0)
        self._ends.append(self._breadth(len(self.value) - 1))

    def likelihoods(self, node: int) -> tuple[float, ...] | None:
        """Value by component where it decides all that is below; None for measured paths."""
        if self.subsets:
            return None
        if isinstance(self.acceptance, ByDepth):
            return (self.value[node],)
        parts = self.acceptance.components if isinstance(self.acceptance, Mixture) else ()
        if not parts or not all(isinstance(part, ByDepth) for part in parts):
            return None
        return tuple(-1.0 if state is None else state for state in self.state[node])

    def tree(self, nodes: Sequence[int]) -> TokenTree:
        index = {node: i for i, node in enumerate(nodes)}
        index[ROOT] = -1
        return TokenTree.from_parents([index[self.parent[n]] for n in nodes], [self.rank[n] for n in nodes])

    def nodes_of(self, tree: TokenTree) -> list[int]:
        """The nodes of a tree whose acceptance is known."""
        found: list[int] = []
        for parent, rank in zip(tree.parents, tree.ranks):
            above = ROOT if parent < 0 else found[parent]
            found.append(next(n for n in self.below(above, rank + 1) if self.rank[n] == rank))
        return found

    def shape(self, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Level widths, and nodes above each level that have children."""
        depth = max((self.level[node] for node in nodes), default=0)
        widths, parents = [0] * depth, [0] * depth
        for node in nodes:
            widths[self.level[node] - 1] += 1
        for above in {self.parent[node] for node in nodes}:
            parents[self.level[above]] += 1
        return widths, parents


# ---- level sums


def level_sums(acceptance: Acceptance, nodes: int, depth: int, children: int | None) -> list[Floats]:
    """Most that w nodes of each level can be worth, [level][w]; parents are free, their elder siblings too."""
    most = min(nodes, children or nodes)
    if isinstance(acceptance, ByDepth):
        return _by_row(acceptance, nodes, depth, most)
    if isinstance(acceptance, Paths):
        return _by_path(acceptance, nodes, depth)
    assert isinstance(acceptance, Mixture)
    total = [np.zeros(nodes + 1) for _ in range(depth)]
    for part, share in zip(acceptance.components, acceptance.weights):
        parts = level_sums(part, nodes, depth, children)
        total = [t + share * np.maximum.accumulate(np.maximum(p, 0.0)) for t, p in zip(total, parts)]
    for d, listed in enumerate(_by_node(acceptance, nodes, depth, most)):
        total[d] = np.minimum(total[d], listed)
    for sums in total:
        sums[0] = -np.inf
    return total


def _padded(values: Floats, nodes: int) -> Floats:
    found = np.full(nodes + 1, -np.inf)
    found[1 : len(values)] = values[1 : nodes + 1]
    return found


def _by_row(acceptance: ByDepth, nodes: int, depth: int, most: int) -> list[Floats]:
    """Level d's nodes below one node: those below each child, times its probability."""
    rows = [acceptance.tested_row(d, most)[0] for d in range(1, depth + 1)]
    if all(a >= b for row in rows for a, b in zip(row, row[1:])):
        return [_padded(sums, nodes) for sums in _falling_sums(rows, nodes)]
    found = [_rising_sums(rows[d : d + 1], np.arange(2.0), nodes) for d in range(depth)]
    for d in range(1, depth):
        if acceptance.depth_free:
            found[d] = _rising_sums(rows[:1], found[d - 1], nodes)
        else:
            found[d] = _rising_sums(rows[:d], found[d], nodes)
    return [_padded(sums, nodes) for sums in found]


def _falling_sums(rows: Sequence[Sequence[float]], nodes: int) -> Iterator[Floats]:
    """The best values of each level come from the best of the one above."""
    values = np.ones(1)
    for row in rows:
        found = [values[: nodes // (k + 1)] * p for k, p in enumerate(row)]
        values = -np.sort(-np.concatenate([np.zeros(0), *found]))[:nodes]
        yield np.concatenate([[0.0], np.cumsum(values)])


def _rising_sums(rows: Sequence[Sequence[float]], below: Floats, nodes: int) -> Floats:
    """From the sums below one node to those below its ancestor, a row a level."""
    for row in reversed(rows):
        total = np.zeros(1)
        for p in reversed(row):
            total = best_sums(p * below, total, nodes)
        below = total
    return below


def _by_path(acceptance: Paths, nodes: int, depth: int) -> list[Floats]:
    levels: list[list[float]] = [[] for _ in range(depth)]
    for path, prob in acceptance.probs:
        if len(path) <= depth:
            levels[len(path) - 1].append(prob)
    found = []
    for level in levels:
        sums = np.concatenate([[0.0], np.cumsum(sorted(level, reverse=True))])
        # Unlisted elder siblings are worth nothing; they may fill a level.
        filled = np.full(nodes + 1, sums[-1])
        filled[: len(sums)] = sums[: nodes + 1]
        filled[0] = -np.inf
        found.append(filled)
    return found


def _by_node(acceptance: Mixture, nodes: int, depth: int, most: int) -> Iterator[Floats]:
    """From the values of all nodes of a level that a tree of that many nodes can hold, while they are not too many."""
    grove = Grove(acceptance, nodes, most)
    level: list[tuple[int, int]] = [(ROOT, 0)]
    for _ in range(depth):
        following = []
        for node, used in level:
            for k, child in enumerate(grove.below(node, nodes - used)):
                needs = used + 1 + (0 if grove.subsets else k)
                if needs <= nodes:
                    following.append((child, needs))
            if len(following) > MAX_LISTED:
                return
        values = sorted((grove.value[node] for node, _ in following), reverse=True)
        sums = np.concatenate([[0.0], np.cumsum(values)])[: nodes + 1]
        yield np.concatenate([sums, np.full(nodes + 1 - len(sums), -np.inf)])
        level = following


# ---- bounds


def _ahead(values: Floats) -> Floats:
    """[u, w] = values[u + w]."""
    padded = np.concatenate([values, np.full(len(values) - 1, -np.inf)])
    return np.lib.stride_tricks.sliding_window_view(padded, len(values))


class Bounds:
    """What levels may still bring, parents ignored, at a price `lam` per second."""

    def __init__(self, sums: Sequence[Floats], fees: Fees) -> None:
        self.sums, self.fees = sums, fees
        self.stop, self.go = fees.least(fees.stop), fees.least(fees.go)

    def up_to(self, nodes: int) -> Bounds:
        """The same for fewer nodes."""
        fees = Fees(self.fees.verify[: nodes + 1], self.fees.root_s, self.fees.stop, self.fees.go, self.fees.by_parents)
        return Bounds([sums[: nodes + 1] for sums in self.sums], fees)

    def rest(self, lam: float) -> list[Floats]:
        """By level and nodes above it: the best from this level down, verification paid."""
        final = -lam * np.asarray(self.fees.verify, dtype=np.float64)
        bounds = [np.full(len(final), -np.inf)]
        size = len(final)
        for sums, stop, go in zip(reversed(self.sums), reversed(self.stop), reversed(self.go)):
            ends = _ahead(final) + (sums - lam * stop[:size])
            onward = _ahead(bounds[-1]) + (sums - lam * go[:size])
            bounds.append(np.maximum(ends, onward).max(axis=1))
        return bounds[::-1]

    def gain(self, lam: float) -> float:
        """No tree gains more over that rate."""
        return float(1.0 - lam * self.fees.root_s + self.rest(lam)[0][0])

    def rate(self, reached: float) -> float:
        """A rate that no tree exceeds, from one that is reached."""
        if self.gain(reached) <= TOLERANCE:
            return reached
        low, high = reached, 2 * reached
        while (most := self.gain(high)) > TOLERANCE:
            low, high = high, 2 * high
        gain = self.gain(low)
        while high > low * (1 + CLOSE):
            # The gain is convex in the price: where the chord is 0 it is not above 0.
            high = max(low, high + (high - low) * most / (gain - most)) if np.isfinite(most) else high
            middle = (low + high) / 2
            low, high = (middle, high) if self.gain(middle) > TOLERANCE else (low, middle)
            gain, most = self.gain(low), self.gain(high)
        return high

    def hopeful(self, lam: float) -> int:
        """The largest number of nodes with which a tree could be faster; 0 when none could."""
        reach = [np.full(len(self.fees.verify), -np.inf)]
        reach[0][0] = 1.0 - lam * self.fees.root_s
        gains = np.full(len(self.fees.verify), -np.inf)
        for sums, stop, go in zip(self.sums, self.stop, self.go):
            size = len(gains)
            before = _before(reach[-1])
            gains = np.maximum(gains, (before + (sums - lam * stop[:size])).max(axis=1))
            reach.append((before + (sums - lam * go[:size])).max(axis=1))
        best = np.flatnonzero(gains - lam * np.asarray(self.fees.verify) > TOLERANCE)
        return int(best[-1]) if len(best) else 0


def _before(values: Floats) -> Floats:
    """[m, w] = values[m - w]."""
    padded = np.concatenate([np.full(len(values) - 1, -np.inf), values])
    return np.lib.stride_tricks.sliding_window_view(padded, len(values))[:, ::-1]


# ---- the answer


def fastest(
    acceptance: Acceptance, fees: Fees, children: int | None, seeds: Sequence[TokenTree], rate: float, nodes: int
) -> tuple[list[TokenTree], float]:
    """Trees faster than any before, and the rate that no tree exceeds.

    seeds   trees from which single leaves are moved first
    rate    tokens per second that are reached, with that many nodes

    >>> from ..acceptance.kinds import Positional
    >>> fees = Fees.by_depth([1.0, 1.1, 1.2, 1.3], [0.1, 0.2, 0.3])
    >>> trees, rate = fastest(Positional((0.2, 0.6)), fees, None, [], 1.0, 0)
    >>> trees[-1].widths, round(rate, 3)
    ((2,), 1.385)
    """
    most = len(fees.verify) - 1
    bounds = Bounds(level_sums(acceptance, most, fees.depth, children), fees)
    grove = Grove(acceptance, most, children)
    best, limit = _faster(grove, bounds, [grove.nodes_of(seed) for seed in seeds], rate)
    if best:
        rate, nodes = _rate(grove, fees, best[-1]), len(best[-1])
    if limit <= rate * (1 + TOLERANCE):
        best += _smaller(grove, bounds, rate, nodes)
    return [grove.tree(tree) for tree in best], max(rate, limit)


def _faster(grove: Grove, bounds: Bounds, seeds: list[list[int]], rate: float) -> tuple[list[list[int]], float]:
    """Trees faster than `rate`, the fastest last, and the rate that no tree exceeds."""
    found: list[list[int]] = []
    most = bounds.hopeful(rate)
    for seed in seeds if most else ():
        better = climb(grove, bounds.fees, seed, len(bounds.fees.verify) - 1)
        if (reached := _rate(grove, bounds.fees, better)) > rate * (1 + TOLERANCE):
            found, rate = [*found, better], reached
    if not (most := bounds.hopeful(rate)):
        return found, rate
    search = Search(grove, bounds.up_to(most))
    try:
        while better := search.improve(rate, most):
            found, rate = [*found, better], _rate(grove, bounds.fees, better)
    except Stop:
        if search.found:
            found, rate = [*found, search.found], _rate(grove, bounds.fees, search.found)
        return found, search.bounds.rate(rate)
    return found, rate


def _smaller(grove: Grove, bounds: Bounds, rate: float, nodes: int) -> list[list[int]]:
    """As fast with fewer nodes, where such a tree is found."""
    found: list[list[int]] = []
    search = Search(grove, bounds.up_to(nodes), TIE_WORK)
    try:
        while nodes > 1 and (tree := search.improve(rate, nodes - 1, -TOLERANCE / 10)):
            found, nodes = [*found, tree], len(tree)
    except Stop:
        pass
    return found


# ---- moves of one leaf


def climb(grove: Grove, fees: Fees, nodes: list[int], most: int) -> list[int]:
    """The tree after leaves were added, removed and moved as long as that makes it faster."""
    best, rate = nodes, _rate(grove, fees, nodes)
    while True:
        moves = list(_moves(grove, best, most, fees.depth))
        rates = [_rate(grove, fees, moved) for moved in moves]
        if not rates or max(rates) <= rate * (1 + 1e-12):
            return best
        rate = max(rates)
        best = moves[rates.index(rate)]


def _rate(grove: Grove, fees: Fees, nodes: Sequence[int]) -> float:
    if not nodes:
        return 0.0
    return (1.0 + sum(grove.value[n] for n in nodes)) / fees.seconds(*grove.shape(nodes))


def _moves(grove: Grove, nodes: list[int], most: int, depth: int) -> Iterator[list[int]]:
    """The most valuable leaf to add and the least valuable to take, by level and by whether a parent is spared."""
    kept = set(nodes)
    children: dict[int, list[int]] = {}
    for node in nodes:
        children.setdefault(grove.parent[node], []).append(node)
    adds = _adds(grove, nodes, kept, children, depth)
    takes = _takes(grove, nodes, children)
    if len(nodes) < most:
        yield from ([*nodes, add] for add in adds)
    for take in takes:
        without = [node for node in nodes if node != take]
        yield without
        apart = take if grove.subsets else grove.parent[take]
        yield from ([*without, add] for add in adds if grove.parent[add] not in (take, apart))


def _adds(grove: Grove, nodes: list[int], kept: set[int], children: dict[int, list[int]], depth: int) -> list[int]:
    best: dict[tuple[int, bool], int] = {}
    for above in (ROOT, *nodes):
        if grove.level[above] < depth:
            have = children.get(above, [])
            found = [n for n in grove.below(above, len(have) + 1) if n not in kept][: None if grove.subsets else 1]
            for node in found:
                key = (grove.level[node], bool(have))
                if key not in best or grove.value[node] > grove.value[best[key]]:
                    best[key] = node
    return list(best.values())


def _takes(grove: Grove, nodes: list[int], children: dict[int, list[int]]) -> list[int]:
    best: dict[tuple[int, bool], int] = {}
    for node in nodes:
        beside = children[grove.parent[node]]
        last = grove.subsets or grove.rank[node] == max(grove.rank[n] for n in beside)
        if node not in children and last:
            key = (grove.level[node], len(beside) > 1)
            if key not in best or grove.value[node] < grove.value[best[key]]:
                best[key] = node
    return list(best.values())


# ---- branch and bound


class Stop(Exception):
    """The search has used its work."""


@dataclass
class _Choices:
    """Children of some nodes, in the order in which they are taken or left.

    values, nodes, after   of each child; after: the next one to look at when this one is left out
    most[i][r]             most that r of the children from i on are worth
    place, rank            which parent, and which of its children
    above                  of each parent one that is at least as likely, or -1
    """

    values: list[float]
    nodes: list[int]
    after: list[int]
    most: list[list[float]]
    place: list[int]
    rank: list[int]
    above: list[int]


class Search:
    """Looks for a tree that gains more than the best so far at a price per second."""

    def __init__(self, grove: Grove, bounds: Bounds, work: int = MAX_WORK) -> None:
        self.grove, self.bounds, self.fees = grove, bounds, bounds.fees
        self.work = work

    def improve(self, lam: float, most: int, least: float = TOLERANCE) -> list[int]:
        """The tree of at most that many nodes with the largest gain above `least`; none when there is none.

        Raises  Stop when the work is used; `found` holds the best so far.
        """
        self.lam, self.room, self.best = lam, most, least
        self.found: list[int] = []
        self.rest = [bound.tolist() for bound in self.bounds.rest(lam)]
        self.final = [-lam * seconds for seconds in self.fees.verify]
        self.stop = [(lam * fee).tolist() for fee in self.bounds.stop]
        self.go = [(lam * fee).tolist() for fee in self.bounds.go]
        self._visit(0, [ROOT], [], 1.0 - lam * self.fees.root_s)
        return self.found

    def _visit(self, d: int, above: list[int], chosen: list[int], score: float) -> None:
        """Below the nodes `above` of level d (the root is level 0), `chosen` being all nodes so far."""
        used = len(chosen)
        choices = self._choices(above, self.room - used)
        for hope, last, width in self._plans(d, used, choices.most[0]):
            if score + hope <= self.best:
                return
            paid = hope - choices.most[0][width]
            for total, taken in self._sets(choices, width, score + paid):
                self._take(d, chosen, [choices.nodes[i] for i in taken], score + total, paid, last)

    def _plans(self, d: int, used: int, most: list[float]) -> list[tuple[float, bool, int]]:
        """(what it may bring at most, whether the last level, width), the most promising first."""
        plans = []
        for width in range(1, len(most)):
            plans.append((most[width] - self.stop[d][width] + self.final[used + width], True, width))
            if d + 1 < self.fees.depth:
                plans.append((most[width] - self.go[d][width] + self.rest[d + 1][used + width], False, width))
        return sorted(plans, key=lambda plan: -plan[0])

    def _take(self, d: int, chosen: list[int], taken: list[int], score: float, paid: float, last: bool) -> None:
        """Ends here, or goes on; where parents are charged, their number is known only now."""
        nodes = chosen + taken
        fee = (self.stop if last else self.go)[d][len(taken)]
        if self.fees.by_parents:
            parents = len({self.grove.parent[node] for node in taken})
            true = self.lam * (self.fees.stop if last else self.fees.go)[d][parents]
            paid, fee = paid + fee - true, true
        if score + paid <= self.best:
            return
        if last:
            self.best, self.found = score + paid, nodes
        else:
            self._visit(d + 1, taken, nodes, score - fee)

    def _choices(self, above: list[int], room: int) -> _Choices:
        grove = self.grove
        above = sorted(above, key=lambda node: -grove.value[node])
        likely = [grove.likelihoods(node) for node in above]
        found = _Choices([], [], [], [], [], [], [_likelier(likely, i) for i in range(len(above))])
        for place, parent in enumerate(above):
            kids = grove.below(parent, room) if room else []
            kids = kids if grove.subsets else kids[:room]
            end = len(found.nodes) + len(kids)
            for rank, kid in enumerate(kids):
                found.values.append(grove.value[kid])
                found.after.append(len(found.nodes) + 1 if grove.subsets else end)
                found.nodes.append(kid)
                found.place.append(place)
                found.rank.append(rank)
        self._spend(1 + len(found.nodes) * (room + 1))
        found.most = _most(found, room)
        return found

    def _spend(self, work: int) -> None:
        self.work -= work
        if self.work < 0:
            raise Stop

    def _sets(self, choices: _Choices, width: int, base: float) -> Iterator[tuple[float, list[int]]]:
        """Sums of sets of that many children, and their places in `choices`, while base + sum is above the best."""
        most, place, rank = choices.most, choices.place, choices.rank
        stack: list[tuple[int, int, float, Any]] = [(0, width, 0.0, None)]
        while stack:
            i, left, total, taken = stack.pop()
            if base + total + most[i][left] <= self.best:
                continue
            if not left:
                yield total, _listed(taken)
                continue
            self._spend(8)
            skip, keep = (
                (choices.after[i], left, total, taken),
                (i + 1, left - 1, total + choices.values[i], (i, taken)),
            )
            limit = choices.above[place[i]]
            if limit >= 0 and rank[i] >= _count(taken, place, limit):
                stack.append(skip)
                continue
            if most[skip[0]][left] > choices.values[i] + most[i + 1][left - 1]:
                stack += [keep, skip]
            else:
                stack += [skip, keep]


def _most(choices: _Choices, room: int) -> list[list[float]]:
    """most[i][r] from the last child to the first."""
    ends = [0.0] + [-np.inf] * room
    most = [ends] * (len(choices.nodes) + 1)
    for i in reversed(range(len(choices.nodes))):
        value, skip = choices.values[i], most[choices.after[i]]
        most[i] = [0.0, *(a if a >= value + b else value + b for a, b in zip(skip[1:], most[i + 1]))]
    return most


def _likelier(likely: list[tuple[float, ...] | None], i: int) -> int:
    """The last one before i that is at least as likely in every component; -1 for none."""
    own = likely[i]
    if own is None:
        return -1
    for j in reversed(range(i)):
        other = likely[j]
        if other is not None and all(a >= b for a, b in zip(other, own)):
            return j
    return -1


def _count(taken: Any, place: list[int], parent: int) -> int:
    """Children of that parent among those taken."""
    count = 0
    while taken is not None and place[taken[0]] >= parent:
        count += place[taken[0]] == parent
        taken = taken[1]
    return count


def _listed(taken: Any) -> list[int]:
    found = []
    while taken is not None:
        found.append(taken[0])
        taken = taken[1]
    return found[::-1]
