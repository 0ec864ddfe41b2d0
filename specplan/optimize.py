"""The best tree for a node budget, and the best tree per second.

    >>> best_trees([0.6, 0.24, 0.096], max_nodes=14, max_depth=5).tree(14, 5).widths
    (3, 5, 4, 1, 1)

The best tree per second maximises tau / (draft + verify + overhead) over every node count and depth. Plain decoding
is always a candidate: nodes 0, no draft, no overhead. Verify times may be any curve (stairs, cliffs, not rising);
every width is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, overload

from .acceptance import Acceptance, as_acceptance
from .errors import InputError, did_you_mean
from .frontier import Engine, LevelLists, engine_for
from .tree import MAX_DEPTH, MAX_NODES, TokenTree

# Times of a pass by its width: index i is a pass over i + 1 tokens; or a function of the width.
Times = Sequence[float] | Callable[[int], float]

PASSES = ("all_but_leaf", "all", "expanded")
SHAPES = ("sequential", "block")

# Two rates closer than this are one: sums of the same terms in another order differ by less.
TIE = 1e-12

# Tables up to this many entries are kept once computed.
KEPT_ENTRIES = 4_000_000


def _limit(value: Any, what: str, most: int) -> int:
    """A whole number from 1 to `most`."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 1 <= int(value) <= most:
        raise InputError(f"{what} is {str(value)[:20]}", hint=f"give a whole number from 1 to {most}")
    return int(value)


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
    Raises         InputError for limits out of range

    >>> frontier = best_trees([0.5, 0.2], max_nodes=3, max_depth=2)
    >>> [round(value, 3) for value in frontier.accepted[2]]
    [0.0, 0.5, 0.75, 0.95]
    """
    nodes = _limit(max_nodes, "max_nodes", MAX_NODES)
    depth = _limit(max_depth, "max_depth", MAX_DEPTH)
    children = None if max_children is None else _limit(max_children, "max_children", MAX_NODES)
    known = as_acceptance(acceptance)
    return Frontier(known, nodes, depth, engine_for(known, nodes, children))


# ---- times


def _seconds(value: Any, what: str, *, least: float) -> float:
    """A time; None where no time is known becomes infinity: such a width is never chosen."""
    if value is None:
        return math.inf
    if isinstance(value, (bool, str, bytes)):
        raise InputError(f"{what} is {str(value)[:30]!r}", hint="give seconds as a number")
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{what} is {str(value)[:30]!r}", hint="give seconds as a number") from None
    if math.isnan(seconds) or seconds < least or (seconds == 0 and least > 0):
        raise InputError(
            f"{what} is {seconds:g} s", hint="a pass takes a time above 0" if least else "a time is not negative"
        )
    return seconds


def _listed(times: Any, what: str) -> Callable[[int], Any] | list[Any]:
    """A function of the width, or a list by width - 1."""
    if callable(times):
        return times  # type: ignore[no-any-return]
    values = times.tolist() if hasattr(times, "tolist") else times
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise InputError(
            f"{what} is {str(times)[:30]!r}", hint="give a list of seconds by width, or a function of the width"
        )
    if not values:
        raise InputError(f"{what} is empty", hint="give the seconds of a pass over 1, 2, 3, ... tokens")
    return list(values)


@dataclass(frozen=True)
class Costs:
    """Times of the passes of a round.

    verify   seconds by width; draft: seconds by width, or one time for any width
    passes   all: the root's pass and one over every level; all_but_leaf: none over the last level, so that a chain
             of g tokens pays g passes; expanded: a pass feeds only the nodes that get children
    shape    sequential; block: one draft pass of width = depth of the tree
    """

    verify: Callable[[int], Any] | list[Any]
    draft: Callable[[int], Any] | list[Any] | float
    overhead_s: float
    passes: str
    shape: str

    @classmethod
    def of(cls, verify_s: Any, draft_s: Any, overhead_s: Any, draft_passes: str, draft_shape: str) -> Costs:
        for given, known, what in ((draft_passes, PASSES, "draft_passes"), (draft_shape, SHAPES, "draft_shape")):
            if given not in known:
                otherwise = f"use {', '.join(known)}"
                raise InputError(
                    f"{what} is {str(given)[:30]!r}", hint=did_you_mean(str(given), known, otherwise=otherwise)
                )
        plain = draft_s is None or (not callable(draft_s) and not hasattr(draft_s, "__len__"))
        draft = _seconds(draft_s or 0.0, "draft_s", least=0.0) if plain else _listed(draft_s, "draft_s")
        overhead = _seconds(overhead_s, "overhead_s", least=0.0)
        return cls(_listed(verify_s, "verify_s"), draft, overhead, draft_passes, draft_shape)

    def verify_time(self, width: int) -> float:
        return self._time(self.verify, width, "verify_s", math.ulp(0.0))

    def draft_time(self, width: int) -> float:
        return self.draft if isinstance(self.draft, float) else self._time(self.draft, width, "draft_s", 0.0)

    @staticmethod
    def _time(times: Callable[[int], Any] | list[Any], width: int, what: str, least: float) -> float:
        if callable(times):
            return _seconds(times(width), f"{what}({width})", least=least)
        if width > len(times):
            return math.inf
        return _seconds(times[width - 1], f"{what}[{width - 1}]", least=least)

    def verify_times(self, max_nodes: int) -> list[float]:
        """By nodes 0..max_nodes, or to the end of the curve."""
        end = max_nodes + 1 if callable(self.verify) else min(max_nodes + 1, len(self.verify))
        return [self.verify_time(width) for width in range(1, end + 1)]

    def draft_times(self, max_width: int) -> list[float]:
        """By width 0..max_width; no time for a width of 0."""
        return [0.0] + [self.draft_time(width) for width in range(1, max_width + 1)]

    def pass_widths(self, tree: TokenTree) -> tuple[int, ...]:
        """Widths of the draft passes of a tree, the root's first."""
        if not tree.nodes:
            return ()
        if self.shape == "block":
            return (tree.depth,)
        if self.passes == "expanded":
            return (1, *tree.expanded_widths[:-1])
        return (1, *(tree.widths if self.passes == "all" else tree.widths[:-1]))


@dataclass(frozen=True)
class Round:
    """One round with a given tree: what it yields and what it takes.

    pass_s   seconds of each draft pass
    tokens_per_s   of one sequence; speedup: against a verification pass of width 1 and nothing else
    """

    nodes: int
    width: int
    depth: int
    widths: tuple[int, ...]
    accepted: float
    tau: float
    pass_s: tuple[float, ...]
    draft_s: float
    verify_s: float
    overhead_s: float
    round_s: float
    tokens_per_s: float
    speedup: float

    @property
    def passes(self) -> int:
        """Draft passes."""
        return len(self.pass_s)


def evaluate(
    tree: TokenTree,
    acceptance: Any,
    *,
    verify_s: Times,
    draft_s: Times | float | None = None,
    overhead_s: float = 0.0,
    draft_passes: str = "all_but_leaf",
    draft_shape: str = "sequential",
) -> Round:
    """What one round with this tree yields and takes.

    verify_s, draft_s   verify_s[i] is the time of a pass over i + 1 tokens; or functions of the width; draft_s may
                        be one time for any width, None is no cost
    overhead_s          per round, in addition
    Raises              InputError where a curve ends before the width that the tree needs

    >>> evaluate(TokenTree.full(2, 3), [0.6, 0.24], verify_s=lambda width: 12.75e-3).round_s
    0.01275
    """
    costs = Costs.of(verify_s, draft_s, overhead_s, draft_passes, draft_shape)
    return _round(tree, as_acceptance(acceptance), costs)


def _round(tree: TokenTree, acceptance: Acceptance, costs: Costs) -> Round:
    pass_s = tuple(_known(costs.draft_time(width), "draft", width) for width in costs.pass_widths(tree))
    verify_s = _known(costs.verify_time(tree.width), "verify", tree.width)
    plain_s = _known(costs.verify_time(1), "verify", 1)
    overhead_s = costs.overhead_s if tree.nodes else 0.0
    accepted = acceptance.accepted(tree)
    draft_s = math.fsum(pass_s)
    round_s = draft_s + verify_s + overhead_s
    rate = (1.0 + accepted) / round_s
    return Round(
        nodes=tree.nodes,
        width=tree.width,
        depth=tree.depth,
        widths=tree.widths,
        accepted=accepted,
        tau=1.0 + accepted,
        pass_s=pass_s,
        draft_s=draft_s,
        verify_s=verify_s,
        overhead_s=overhead_s,
        round_s=round_s,
        tokens_per_s=rate,
        speedup=rate * plain_s,
    )


def _known(seconds: float, what: str, width: int) -> float:
    if math.isinf(seconds):
        raise InputError(
            f"no {what} time for a pass over {width} tokens",
            hint=f"give a {what} curve up to that width, or a smaller tree",
        )
    return seconds


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
    Exact               whenever the draft's time depends on the depth only; with times by level width for
                        non-increasing vectors, unless `optimality` is "gap"

    >>> fastest_tree([0.6, 0.24], verify_s=[10, 10, 10, 10, 30], max_nodes=4, max_depth=4).tree.widths
    (2, 1)
    """
    known = as_acceptance(acceptance)
    costs = Costs.of(verify_s, draft_s, overhead_s, draft_passes, draft_shape)
    verify = costs.verify_times(_limit(max_nodes, "max_nodes", MAX_NODES))
    _known(verify[0], "verify", 1)
    nodes = len(verify) - 1
    depth = min(_limit(max_depth, "max_depth", MAX_DEPTH), nodes, known.max_depth or nodes)
    children = None if max_children is None else _limit(max_children, "max_children", MAX_NODES)
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
    engine = engine_for(known, nodes, children)
    if costs.shape == "block":
        return _by_depth(engine, verify, [costs.draft_time(d) + costs.overhead_s for d in range(1, depth + 1)])
    draft = costs.draft_times(nodes)
    if all(seconds == draft[1] for seconds in draft[2:]):
        paid = 1 if costs.passes == "all" else 0
        return _by_depth(engine, verify, [draft[1] * (d + paid) + costs.overhead_s for d in range(1, depth + 1)])
    from .width_search import search_widths

    found = search_widths(known, engine, verify, draft, costs, depth, children)
    return _Search(found.depth, found.tau, found.round_s, found.draw, found.limit)


def _by_depth(engine: Engine, verify: list[float], cost: list[float]) -> _Search:
    """Draft times depend on the depth: every node count and depth is looked at.

    cost   seconds of a round of that depth besides verification, depth 1 first
    """
    found = _Search.plain(verify)
    caps: list[int] = [0] * len(verify)
    found.draw = lambda nodes: engine.tree(nodes, caps[nodes])
    falls = any(after < before for before, after in zip(cost, cost[1:]))
    if falls:
        return _by_exact_depth(engine, verify, cost, found)
    before: list[float] = []
    for depth, extra in enumerate(cost, 1):
        values = engine.values(depth)
        if engine.nested and values == before:
            break
        before = values
        _take(found, caps, depth, values, [v + extra for v in verify])
        if not engine.proved:
            _raise_to_bound(found, engine.bound(depth), [v + extra for v in verify])
    return found


def _take(found: _Search, caps: list[int], depth: int, values: list[float], seconds: list[float]) -> None:
    """Keeps what is faster than the rows so far."""
    tau, round_s = found.tau, found.round_s
    for nodes in range(1, len(values)):
        if (1.0 + values[nodes]) * round_s[nodes] > tau[nodes] * seconds[nodes] and seconds[nodes] < math.inf:
            tau[nodes], round_s[nodes] = 1.0 + values[nodes], seconds[nodes]
            found.depth[nodes] = caps[nodes] = depth


def _by_exact_depth(engine: Engine, verify: list[float], cost: list[float], found: _Search) -> _Search:
    """The draft's time falls somewhere with the depth: a tree pays for its own depth, not for the cap."""
    caps = [0] * len(verify)
    if isinstance(engine, LevelLists):
        found.draw = lambda nodes: engine.tree_to(nodes, caps[nodes])
        for depth, extra in enumerate(cost, 1):
            _take(found, caps, depth, engine.values_to(depth), [v + extra for v in verify])
        return found
    cheapest = list(accumulate(reversed(cost), min))[::-1]
    found.draw = lambda nodes: engine.tree(nodes, caps[nodes])
    for depth in range(1, len(cost) + 1):
        _raise_to_bound(found, engine.bound(depth), [v + cheapest[0] for v in verify])
        for nodes, value in enumerate(engine.values(depth)):
            if nodes and (1.0 + value) / (verify[nodes] + cheapest[0]) > found.rate(nodes):
                own = engine.tree(nodes, depth).depth
                _take_one(found, caps, nodes, depth, own, value, verify[nodes] + cost[own - 1])
    return found


def _take_one(found: _Search, caps: list[int], nodes: int, cap: int, depth: int, value: float, seconds: float) -> None:
    if seconds < math.inf and (1.0 + value) / seconds > found.rate(nodes):
        found.tau[nodes], found.round_s[nodes], found.depth[nodes], caps[nodes] = 1.0 + value, seconds, depth, cap


def _raise_to_bound(found: _Search, bound: list[float], seconds: list[float]) -> None:
    """No tree is faster than `limit`."""
    rates = [(1.0 + value) / s for value, s in zip(bound[1:], seconds[1:])]
    found.limit = max([found.limit, *rates])


def _finish(found: _Search, known: Acceptance, costs: Costs) -> Fastest:
    """The answer; its row holds the tree's own sums."""
    nodes = found.best()
    tree = found.draw(nodes) if nodes else TokenTree.empty()
    best = _round(tree, known, costs)
    found.depth[nodes], found.tau[nodes], found.round_s[nodes] = best.depth, best.tau, best.round_s
    gap = max(0.0, found.limit / best.tokens_per_s - 1.0)
    gap = 0.0 if gap < 1e-9 else gap
    candidates = Candidates(found.depth, found.tau, found.round_s)
    return Fastest(tree, best, "gap" if gap else "proved", gap, candidates, found.draw)


# ---- families


def full_tree_fitting(
    acceptance: Any,
    budget: int,
    *,
    max_depth: int | None = None,
    max_children: int | None = None,
    verify_s: Times | None = None,
    **costs: Any,
) -> TokenTree | None:
    """The best full k-ary tree (k >= 2) of at most `budget` nodes; None when not even two nodes fit.

    Best by accepted tokens, or by tokens per second when `verify_s` (and the costs of `evaluate`) are given.

    >>> full_tree_fitting([0.6, 0.24], 14).widths
    (2, 4, 8)
    """
    known = as_acceptance(acceptance)
    most = _limit(budget, "budget", MAX_NODES)
    levels = min(max_depth or most, known.max_depth or most)
    shapes = _full_shapes(most, levels, min(max_children or most, _children_known(known, most)))
    return _best_of([TokenTree.full(k, depth) for k, depth in shapes], known, verify_s, costs)


def _full_shapes(budget: int, max_depth: int, max_children: int) -> Iterator[tuple[int, int]]:
    """(children, depth) of the full trees that fit. Of one depth only the widest: a child more never accepts less,
    but it may be slower, so the narrower ones are kept too."""
    for k in range(2, max_children + 1):
        for depth in range(1, max_depth + 1):
            if (k ** (depth + 1) - k) // (k - 1) > budget:
                break
            yield k, depth


def _children_known(acceptance: Acceptance, limit: int) -> int:
    """Children of the root that something is known about."""
    known = acceptance.breadth(acceptance.start(), 1)
    return limit if known is None else min(limit, known)


def _best_of(
    trees: list[TokenTree], known: Acceptance, verify_s: Times | None, given: dict[str, Any]
) -> TokenTree | None:
    """The first of the best."""
    if verify_s is None:
        return max(trees, key=known.accepted, default=None)
    costs = Costs.of(verify_s, given.get("draft_s"), given.get("overhead_s", 0.0), *_conventions(given))
    affordable = [tree for tree in trees if _affordable(tree, costs)]
    return max(affordable, key=lambda tree: _round(tree, known, costs).tokens_per_s, default=None)


def _conventions(given: dict[str, Any]) -> tuple[str, str]:
    return given.get("draft_passes", "all_but_leaf"), given.get("draft_shape", "sequential")


def _affordable(tree: TokenTree, costs: Costs) -> bool:
    """Whether the curves have a time for every pass."""
    times = [costs.verify_time(tree.width), *map(costs.draft_time, costs.pass_widths(tree))]
    return all(map(math.isfinite, times))
