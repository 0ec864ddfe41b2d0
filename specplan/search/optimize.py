"""The best tree for a node budget, and the best tree per second.

    >>> best_trees([0.6, 0.24, 0.096], max_nodes=14, max_depth=5).tree(14, 5).widths
    (3, 5, 4, 1, 1)

The best tree per second maximises tau / (draft + verify + overhead) over every node count and depth. Plain decoding
is always a candidate: nodes 0, no draft, no overhead. Verify times may be any curve (stairs, cliffs, not rising);
every width is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from ..acceptance.by_k import ByK
from ..acceptance.kinds import Acceptance, ByDepth, Mixture, Paths, as_acceptance
from ..base.errors import InputError
from ..base.tree import MAX_DEPTH, MAX_NODES, TokenTree, limit
from .frontier import BestFirst, Engine, ExactDepth, engine_for
from .rounds import PASSES, SHAPES, Costs, Round, Times, evaluate, known_time, round_of
from .uniform import best_uniform, full_tree_fitting

__all__ = [
    "PASSES",
    "SHAPES",
    "Candidate",
    "Candidates",
    "Costs",
    "Fastest",
    "Frontier",
    "Round",
    "Times",
    "best_trees",
    "best_uniform",
    "evaluate",
    "fastest_tree",
    "full_tree_fitting",
]

# Two rates closer than this are one: sums of the same terms in another order differ by less.
TIE = 1e-12

# Tables up to this many entries are kept once computed.
KEPT_ENTRIES = 4_000_000


# ---- node budget


class Table(Sequence[list[Any]]):
    """Rows by depth 0..max_depth, computed when asked for."""

    def __init__(self, rows: int, row: Callable[[int], list[Any]], *, keep: bool) -> None:
        self._rows = rows
        self._row = row
        self._kept: dict[int, list[Any]] | None = {} if keep else None

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, index: int) -> list[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._rows))]
        depth = range(self._rows)[index]
        if self._kept is None:
            return self._row(depth)
        if depth not in self._kept:
            self._kept[depth] = self._row(depth)
        return self._kept[depth]


@dataclass(frozen=True)
class Frontier:
    """The best trees by nodes and levels, the root counted in neither.

    optimality   "proved", or "gap": then `bound(depth)[nodes]` says what no tree exceeds
    """

    acceptance: Acceptance
    max_nodes: int
    max_depth: int
    engine: Engine = field(repr=False, compare=False)

    @property
    def optimality(self) -> str:
        return "proved" if self.engine.proved else "gap"

    @cached_property
    def accepted(self) -> Table:
        """accepted[depth][nodes]: most accepted tokens with at most that many nodes and levels; index 0 is 0.0."""
        return self._table(lambda values: values[-1])

    @cached_property
    def exact(self) -> Table:
        """exact[depth][nodes]: with exactly that many nodes, None where no such tree exists."""
        return self._table(lambda values: None)

    def _table(self, beyond: Callable[[list[float]], float | None]) -> Table:
        def row(depth: int) -> list[Any]:
            values: list[Any] = self.engine.values(depth) if depth else [0.0]
            return values + [beyond(values)] * (self.max_nodes + 1 - len(values))

        keep = (self.max_nodes + 1) * (self.max_depth + 1) <= KEPT_ENTRIES
        return Table(self.max_depth + 1, row, keep=keep)

    def bound(self, depth: int) -> list[float]:
        """No tree of that many nodes and levels accepts more."""
        return self.engine.bound(depth) if depth else [0.0]

    def tree(self, nodes: int, depth: int) -> TokenTree:
        """The best tree with that many nodes, or with all that exist within `depth` levels.

        Equal nodes: the shallower and earlier sibling first.
        """
        if not 0 <= nodes <= self.max_nodes or not 0 <= depth <= self.max_depth:
            raise InputError(
                f"{nodes} nodes and {depth} levels, of {self.max_nodes} nodes and {self.max_depth} levels asked for",
                hint="ask best_trees for more",
            )
        return self.engine.tree(nodes, depth) if nodes and depth else TokenTree.empty()


def best_trees(acceptance: Any, *, max_nodes: int, max_depth: int, max_children: int | None = None) -> Frontier:
    """The best tree for every number of nodes up to `max_nodes` and of levels up to `max_depth`.

    acceptance     an Acceptance, or child probabilities in the order in which children are tested
    max_children   most children of a node
    returns        tables and trees, computed when they are asked for
    Exact          for all kinds but mixtures of vectors that rise somewhere (`optimality` says so)
    Raises         InputError for limits out of range, and for lengths by K, which know no trees

    >>> frontier = best_trees([0.5, 0.2], max_nodes=3, max_depth=2)
    >>> [round(value, 3) for value in frontier.accepted[2]]
    [0.0, 0.5, 0.75, 0.95]
    """
    nodes = limit(max_nodes, "max_nodes", MAX_NODES)
    depth = limit(max_depth, "max_depth", MAX_DEPTH)
    children = None if max_children is None else limit(max_children, "max_children", MAX_NODES)
    known = as_acceptance(acceptance)
    return Frontier(known, nodes, depth, engine_for(known, nodes, children))


# ---- throughput


@dataclass(frozen=True, slots=True)
class Candidate:
    """The best tree found with exactly that many nodes; None where none exists or no time is known."""

    nodes: int
    depth: int | None
    tau: float | None
    round_s: float | None
    tokens_per_s: float | None
    speedup: float | None


class Candidates(Sequence[Candidate]):
    """One row for each node count from 0."""

    def __init__(self, depth: list[int | None], tau: list[float], round_s: list[float]) -> None:
        self.depth, self.tau, self.round_s = depth, tau, round_s

    def __len__(self) -> int:
        return len(self.depth)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        nodes = range(len(self))[index]
        depth, tau, round_s = self.depth[nodes], self.tau[nodes], self.round_s[nodes]
        if depth is None:
            return Candidate(nodes, None, None, None, None, None)
        return Candidate(nodes, depth, tau, round_s, tau / round_s, tau * self.round_s[0] / round_s)


@dataclass(frozen=True)
class Fastest:
    """The tree with the most tokens per second, and what was looked at.

    optimality   "proved", or "gap": then no tree is faster by more than the fraction `gap`
    candidates   one row for each node count from 0; the optimum's row holds the optimum. Where the draft's time
                 depends on level widths, the other rows hold the best tree found
    """

    tree: TokenTree
    round: Round
    optimality: str
    gap: float
    candidates: Candidates = field(repr=False)
    _tree_with: Callable[[int], TokenTree] = field(repr=False, compare=False)

    @property
    def tau(self) -> float:
        return self.round.tau

    @property
    def accepted(self) -> float:
        return self.round.accepted

    @property
    def round_s(self) -> float:
        return self.round.round_s

    @property
    def verify_s(self) -> float:
        return self.round.verify_s

    @property
    def draft_s(self) -> float:
        return self.round.draft_s

    @property
    def overhead_s(self) -> float:
        return self.round.overhead_s

    @property
    def tokens_per_s(self) -> float:
        return self.round.tokens_per_s

    @property
    def speedup(self) -> float:
        return self.round.speedup

    def tree_with(self, nodes: int) -> TokenTree:
        """The tree of a row of `candidates`."""
        if not 0 <= nodes < len(self.candidates) or self.candidates[nodes].depth is None:
            raise InputError(f"there is no candidate with {nodes} nodes", hint="ask for a row that has a depth")
        return self._tree_with(nodes) if nodes else TokenTree.empty()


def fastest_tree(
    acceptance: Any,
    *,
    verify_s: Times,
    draft_s: Times | float | None = None,
    overhead_s: float = 0.0,
    max_nodes: int,
    max_depth: int,
    max_children: int | None = None,
    draft_passes: str = "all_but_leaf",
    draft_shape: str = "sequential",
) -> Fastest:
    """The tree that yields the most tokens per second, plain decoding included as a candidate.

    acceptance          an Acceptance, or child probabilities in the order in which children are tested
    verify_s, draft_s   as in `evaluate`; a verify curve that ends early limits the nodes, a draft curve the widths
    draft_passes        all_but_leaf: no pass over the last level; all: Sequoia's and OPT-Tree's; expanded: only nodes
                        that get children
    draft_shape         sequential, or block: one draft pass of width = depth
    returns             the optimum; of equal ones the one with the fewest nodes
    Exact               unless `optimality` is "gap": whenever the draft's time depends on the depth only, but for
                        mixtures of vectors that rise; with times by level width for non-increasing vectors, and for
                        all other kinds as far as branch and bound gets

    >>> fastest_tree([0.6, 0.24], verify_s=[10, 10, 10, 10, 30], max_nodes=4, max_depth=4).tree.widths
    (2, 1)
    """
    known = as_acceptance(acceptance)
    costs = Costs.of(verify_s, draft_s, overhead_s, draft_passes, draft_shape)
    verify = costs.verify_times(limit(max_nodes, "max_nodes", MAX_NODES))
    known_time(verify[0], "verify", 1)
    nodes = len(verify) - 1
    depth = min(limit(max_depth, "max_depth", MAX_DEPTH), nodes, known.max_depth or nodes)
    children = None if max_children is None else limit(max_children, "max_children", MAX_NODES)
    if not depth:
        return _finish(_Search.plain(verify), known, costs)
    return _finish(_search(known, costs, verify, depth, children), known, costs)


@dataclass
class _Search:
    """Best tree found by nodes: depth, tau, time; what no tree exceeds; and how to draw a row."""

    depth: list[int | None]
    tau: list[float]
    round_s: list[float]
    draw: Callable[[int], TokenTree]
    limit: float = 0.0

    @classmethod
    def plain(cls, verify: list[float]) -> _Search:
        """Plain decoding, and nothing else yet."""
        size = len(verify)
        return cls(
            [0] + [None] * (size - 1),
            [1.0] * size,
            [verify[0]] + [math.inf] * (size - 1),
            lambda nodes: TokenTree.empty(),
        )

    def rate(self, nodes: int) -> float:
        return self.tau[nodes] / self.round_s[nodes]

    def best(self) -> int:
        """The fewest nodes among the fastest rows."""
        rates = [tau / seconds for tau, seconds in zip(self.tau, self.round_s)]
        most = max(rates)
        return next(nodes for nodes, rate in enumerate(rates) if rate >= most * (1 - TIE))


def _search(known: Acceptance, costs: Costs, verify: list[float], depth: int, children: int | None) -> _Search:
    nodes = len(verify) - 1
    if isinstance(known, ByK):
        return _measured_chains(known, costs, verify, depth)
    engine = engine_for(known, nodes, children)
    if costs.shape == "block":
        seconds = [costs.draft_time(d) + costs.overhead_s for d in range(1, depth + 1)]
        return _by_depth(known, engine, verify, seconds, children)
    draft = costs.draft_times(nodes)
    if all(seconds == draft[1] for seconds in draft[2:]):
        paid = 1 if costs.passes == "all" else 0
        seconds = [draft[1] * (d + paid) + costs.overhead_s for d in range(1, depth + 1)]
        return _by_depth(known, engine, verify, seconds, children)
    from .widths import search_widths

    found = search_widths(known, engine, verify, draft, costs, depth, children)
    return _Search(found.depth, found.tau, found.round_s, found.draw, found.limit)


def _measured_chains(known: ByK, costs: Costs, verify: list[float], depth: int) -> _Search:
    """Chains of the measured lengths whose times are known."""
    found = _Search.plain(verify)
    found.draw = TokenTree.chain
    for k in known.ks:
        chain = TokenTree.chain(min(k, depth))
        timed = all(costs.draft_time(width) < math.inf for width in costs.pass_widths(chain))
        if k <= depth and verify[k] < math.inf and timed:
            at = round_of(chain, known, costs)
            found.depth[k], found.tau[k], found.round_s[k] = k, at.tau, at.round_s
    return found


def _by_depth(
    known: Acceptance, engine: Engine, verify: list[float], cost: list[float], children: int | None
) -> _Search:
    """Draft times depend on the depth: every node count and depth is looked at.

    cost   seconds of a round of that depth besides verification, depth 1 first
    """
    found = _Search.plain(verify)
    caps: list[int] = [0] * len(verify)
    if any(after < before for before, after in zip(cost, cost[1:])):
        exact = _of_exact_depth(known, engine, len(verify) - 1, children)
        if exact is None:
            _by_own_depth(engine, verify, cost, found, caps)
            return _closed(known, verify, cost, children, found)
        found.draw = lambda nodes: exact.tree_to(nodes, caps[nodes])
        for depth, extra in enumerate(cost, 1):
            _take(found, caps, depth, exact.values_to(depth), [v + extra for v in verify])
        return found
    found.draw = lambda nodes: engine.tree(nodes, caps[nodes])
    before: list[float] = []
    for depth, extra in enumerate(cost, 1):
        values = engine.values(depth)
        if engine.nested and values == before:
            break
        before = values
        _take(found, caps, depth, values, [v + extra for v in verify])
    return found if engine.proved else _closed(known, verify, cost, children, found)


def _take(found: _Search, caps: list[int], depth: int, values: list[float], seconds: list[float]) -> None:
    """Keeps what is faster than the rows so far."""
    tau, round_s = found.tau, found.round_s
    for nodes in range(1, len(values)):
        if (1.0 + values[nodes]) * round_s[nodes] > tau[nodes] * seconds[nodes] and seconds[nodes] < math.inf:
            tau[nodes], round_s[nodes] = 1.0 + values[nodes], seconds[nodes]
            found.depth[nodes] = caps[nodes] = depth


def _of_exact_depth(known: Acceptance, engine: Engine, nodes: int, children: int | None) -> ExactDepth | None:
    """The engine for trees that have exactly so many levels; None where none is exact."""
    if isinstance(known, Mixture):
        falls = engine.proved and not known.any_subset and all(isinstance(part, ByDepth) for part in known.components)
        return BestFirst(known, nodes, children) if falls else None
    if isinstance(known, Paths):
        from .knapsack import Knapsack

        return Knapsack(known, nodes, children)
    return engine if isinstance(engine, ExactDepth) else None


def _by_own_depth(engine: Engine, verify: list[float], cost: list[float], found: _Search, caps: list[int]) -> None:
    """A tree pays for its own depth, not for the cap."""
    found.draw = lambda nodes: engine.tree(nodes, caps[nodes])
    least = min(cost)
    for depth in range(1, len(cost) + 1):
        for nodes, value in enumerate(engine.values(depth)):
            if nodes and (1.0 + value) / (verify[nodes] + least) > found.rate(nodes):
                own = engine.tree(nodes, depth).depth
                _take_one(found, caps, nodes, depth, own, value, verify[nodes] + cost[own - 1])


def _closed(known: Acceptance, verify: list[float], cost: list[float], children: int | None, found: _Search) -> _Search:
    """Looks for faster trees than those that were found."""
    from .exact import Fees, fastest

    best = found.best()
    seeds = [found.draw(best)] if best else []
    trees, found.limit = fastest(known, Fees.by_depth(verify, cost), children, seeds, found.rate(best), best)
    own = {}
    for tree in trees:
        tau, seconds = known.tau(tree), verify[tree.nodes] + cost[tree.depth - 1]
        if tau / seconds > found.rate(tree.nodes):
            own[tree.nodes] = tree
            found.tau[tree.nodes], found.round_s[tree.nodes], found.depth[tree.nodes] = tau, seconds, tree.depth
    draw = found.draw
    found.draw = lambda nodes: own[nodes] if nodes in own else draw(nodes)
    return found


def _take_one(found: _Search, caps: list[int], nodes: int, cap: int, depth: int, value: float, seconds: float) -> None:
    if seconds < math.inf and (1.0 + value) / seconds > found.rate(nodes):
        found.tau[nodes], found.round_s[nodes], found.depth[nodes], caps[nodes] = 1.0 + value, seconds, depth, cap


def _finish(found: _Search, known: Acceptance, costs: Costs) -> Fastest:
    """The answer; its row holds the tree's own sums."""
    nodes = found.best()
    tree = found.draw(nodes) if nodes else TokenTree.empty()
    best = round_of(tree, known, costs)
    found.depth[nodes], found.tau[nodes], found.round_s[nodes] = best.depth, best.tau, best.round_s
    gap = max(0.0, found.limit / best.tokens_per_s - 1.0)
    gap = 0.0 if gap < 1e-9 else gap
    candidates = Candidates(found.depth, found.tau, found.round_s)
    return Fastest(tree, best, "gap" if gap else "proved", gap, candidates, found.draw)
