"""The shape to run over batch sizes and acceptances, by method: what the sliders of a report move along.

At every point the trees that accept most are looked at, at 1 to 8 nodes and four node counts an octave above, on
1 to 8 levels and some above, each at its own cost. `plan` looks at every node count and, where a draft pass costs
more on wider levels, at other trees too: it may find more, never less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..acceptance.kinds import Acceptance, tau_interval
from ..base.errors import DoesNotFit, Missing
from ..base.tree import TokenTree
from ..methods.catalogue import Method
from ..search.best import Best
from ..search.costs import RoundCosts
from ..search.optimize import best_trees
from ..search.rounds import Costs as PassCosts
from ..search.shape import Shape, shape_of
from ..search.space import DEFAULT_NODES, Runnable, Space
from ..search.within import search_in
from ..timing.memory import Memory
from .compare import method_acceptance, method_costs, method_limits, search_of
from .plan import check_memory, choose
from .views import spaced_nodes

LEVELS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64)
"""Levels of the trees that are looked at, and the most that is allowed."""

AN_OCTAVE = 4
"""Node counts between a number and its double, from 8 up."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Priced:
    """A method at one batch size.

    memory_of   memory needed with that many nodes, where a device and a model are known
    runnable    what a stack runs, where shapes are for one
    """

    method: Method
    costs: RoundCosts
    limits: Space
    memory_of: Callable[[int], Memory] | None = None
    runnable: Runnable | None = None

    @property
    def search(self) -> Callable[[Acceptance, Space, RoundCosts | None], Best] | None:
        """The search of a family of shapes; None where any tree within the limits will do."""
        at = self.runnable
        if at is not None and (self.limits.children != 1 or at.min_depth > 1):
            return search_in(at)
        return search_of(self.method) if self.method.family == "uniform" else None

    @cached_property
    def fits(self) -> bool:
        """Whether the target alone fits."""
        try:
            check_memory(self.memory_of)
        except DoesNotFit:
            return False
        return True


@dataclass(frozen=True)
class Cell:
    """A method at one batch size and one acceptance.

    shape      the one to run; plain decoding where nothing pays
    by_nodes   speed-up of the best shape with that many nodes; 0 is plain decoding
    """

    shape: Shape
    by_nodes: Mapping[int, float] = field(repr=False)


def price_at(
    costs: RoundCosts,
    limits: Space,
    method: Method,
    memory_of: Callable[[RoundCosts], Callable[[int], Memory] | None],
    runnable: Runnable | None = None,
) -> Priced:
    """The method's own costs and limits within those of the target, and of a stack where shapes are for one."""
    priced, within = method_costs(costs, method), method_limits(limits, method)
    return Priced(method, priced, runnable.within(within) if runnable else within, memory_of(priced), runnable)


def cell(priced: Priced, acceptance: Acceptance, *, tie: float) -> Cell | None:
    """The smallest shape within `tie` of the best; None where the target does not fit.

    Uniform trees, and trees of a stack, are searched as `plan` does.

    >>> from specplan.acceptance.kinds import Independent
    >>> from specplan.timing.draft import timed_draft
    >>> from specplan.methods.catalogue import chain
    >>> method = chain(timed_draft(0.1))
    >>> at = price_at(RoundCosts(verify_s=[1.0] * 9), Space(8), method, lambda costs: None)
    >>> cell(at, Independent(0.6), tie=0.0).shape.nodes
    3
    """
    if not priced.fits:
        return None
    known = method_acceptance(acceptance, priced.method)
    if priced.search is not None:
        return _searched(priced, known, priced.search, tie)
    costs, limits = priced.costs, priced.limits
    # One stock serves all batch sizes, whose limits differ.
    stock = _stock(known, max(DEFAULT_NODES, limits.nodes), limits.depth, limits.children)
    rates = stock.speedups(costs, limits)
    by_nodes = {0: 1.0} | dict(zip(stock.sizes.tolist(), np.maximum.reduceat(rates, stock.starts).tolist()))
    by_nodes = {nodes: value for nodes, value in by_nodes.items() if value > 0}
    best = max(by_nodes.values())
    top = int(rates.argmax()) if best > 1 else None
    ties = max(tie, 0.0 if top is None else stock.noise(top))
    nodes = min(nodes for nodes, value in by_nodes.items() if value >= best * (1 - ties))
    within = np.where(stock.nodes == nodes, rates, 0.0)
    tree = stock.trees[int(within.argmax())] if nodes else TokenTree.empty()
    return Cell(shape_of(_affordable(tree, priced), known, costs), by_nodes)


def _affordable(tree: TokenTree, priced: Priced) -> TokenTree:
    """The tree, or none where target, draft and caches do not fit together."""
    spent = priced.memory_of(tree.nodes) if priced.memory_of else None
    return tree if spent is None or spent.fits else TokenTree.empty()


def _searched(
    priced: Priced, acceptance: Acceptance, search: Callable[[Acceptance, Space, RoundCosts | None], Best], tie: float
) -> Cell | None:
    try:
        choice = choose(acceptance, priced.costs, priced.limits, tie=tie, memory_of=priced.memory_of, search=search)
    except Missing:
        return None
    return Cell(choice.shape, curve_of(choice.best))


def curve_of(best: Best) -> dict[int, float]:
    """Speed-up by nodes of a search's candidates, thinned out; the optimum stays."""
    rows = best.candidates
    wanted = {0, best.shape.nodes, *spaced_nodes(max(row.nodes for row in rows))}
    return {row.nodes: row.speedup for row in rows if row.nodes in wanted and row.speedup is not None}


# ---- trees that accept most


@dataclass(frozen=True)
class Stock:
    """Trees of one acceptance, by nodes and then by levels; arrays hold one entry a tree.

    sizes, starts   node counts that occur, and where each begins
    """

    acceptance: Acceptance
    trees: tuple[TokenTree, ...]
    nodes: Whole
    accepted: Floats
    sizes: Whole
    starts: Whole
    _widths: dict[tuple[str, str], Whole] = field(default_factory=dict, repr=False, compare=False)

    def speedups(self, costs: RoundCosts, limits: Space) -> Floats:
        """Speed-up of each tree; 0 where it is outside the limits or no time is known."""
        widths = self._pass_widths(costs)
        verify = np.array([math.inf, *costs.verify_s])
        known = (self.nodes <= limits.nodes) & (self.nodes < len(costs.verify_s)) & np.isfinite(_draft(costs, widths))
        at = np.where(known, self.nodes + 1, 0)
        seconds = verify[at] + np.where(known, _draft(costs, widths), 0.0) + costs.overhead_s
        return np.asarray((1.0 + self.accepted) * costs.plain_s / seconds)

    def _pass_widths(self, costs: RoundCosts) -> Whole:
        """Widths of the draft passes, one row a tree, filled up with 0."""
        key = (costs.draft_passes, costs.draft_shape)
        if key not in self._widths:
            passes = PassCosts.of([1.0], 0.0, 0.0, *key)
            rows = [passes.pass_widths(tree) for tree in self.trees]
            table = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
            for line, row in zip(table, rows):
                line[: len(row)] = row
            self._widths[key] = table
        return self._widths[key]

    def noise(self, index: int) -> float:
        """The share of its tokens that the counts behind the acceptance leave open."""
        bounds = tau_interval(self.acceptance, self.trees[index])
        return 0.0 if bounds is None else float(1 - bounds.low / (1 + self.accepted[index]))


def _draft(costs: RoundCosts, widths: Whole) -> Floats:
    """Seconds of all draft passes, one entry a tree; infinite where a level is wider than any time that is known."""
    draft, needed = costs.draft, np.unique(widths)
    last = draft.last or int(needed[-1])
    seconds = np.full(int(needed[-1]) + 1, math.inf)
    seconds[0] = 0.0
    for width in needed[(needed > 0) & (needed <= last)].tolist():
        seconds[width] = draft.at(width)
    return np.asarray(seconds[widths].sum(axis=1))


@lru_cache(maxsize=256)
def _stock(acceptance: Acceptance, nodes: int, depth: int, children: int | None) -> Stock:
    frontier = best_trees(acceptance, max_nodes=nodes, max_depth=min(depth, nodes), max_children=children)
    deepest = min(frontier.max_depth, acceptance.max_depth or depth)
    levels = sorted({min(level, deepest) for level in LEVELS} | {deepest})
    rows = [frontier.exact[level] for level in (0, *levels)]
    at = [
        (count, level, row[count])
        for count in spaced_nodes(nodes, an_octave=AN_OCTAVE)
        for before, row, level in zip(rows, rows[1:], levels)
        if row[count] is not None and (count >= len(before) or before[count] is None or row[count] > before[count])
    ]
    trees = tuple(frontier.tree(count, level) for count, level, _ in at)
    sizes = np.array([count for count, _, _ in at])
    found, starts = np.unique(sizes, return_index=True)
    return Stock(acceptance, trees, sizes, np.array([accepted for _, _, accepted in at]), found, starts)


def grid(
    price: Callable[[int], Priced], batches: Sequence[int], acceptances: Sequence[Acceptance | None], *, tie: float
) -> list[list[Cell | None]]:
    """cells[i][j] at batches[i] and acceptances[j]; None where the target does not fit or no acceptance is known."""
    return [
        [None if given is None else cell(priced, given, tie=tie) for given in acceptances]
        for priced in map(price, batches)
    ]
