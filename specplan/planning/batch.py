"""Many sequences at once: one verification budget over all of them, and the best shape by batch size."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..acceptance.kinds import Acceptance, as_acceptance
from ..base.errors import InputError
from ..base.tree import TokenTree
from ..search.optimize import best_trees
from ..search.shape import Shape
from .plan import Plan


def best_split(acceptances: Sequence[Acceptance], total_nodes: int, *, max_depth: int) -> list[TokenTree]:
    """The best trees for several sequences that share one budget of drafted tokens.

    Nodes go where they add most, whatever the sequence. Exact where adding a node never adds more than the
    node before did: every acceptance whose children fall in probability.

    Raises  InputError for a vector that rises, where this is not exact.

    >>> from specplan.acceptance.kinds import Independent
    >>> [tree.nodes for tree in best_split([Independent(0.9), Independent(0.7)], 6, max_depth=8)]
    [5, 1]
    """
    known = [as_acceptance(acceptance) for acceptance in acceptances]
    for acceptance in known:
        if not (acceptance.is_monotone or acceptance.any_subset):
            raise InputError(
                "a child probability rises with the rank", hint="sort it (--ranked), or split the budget yourself"
            )
    frontiers = [best_trees(acceptance, max_nodes=total_nodes, max_depth=max_depth) for acceptance in known]
    values = [frontier.accepted[max_depth] for frontier in frontiers]
    taken = [0] * len(known)
    gains = [(-_gain(value, 0), i) for i, value in enumerate(values)]
    heapq.heapify(gains)
    for _ in range(total_nodes):
        gain, i = heapq.heappop(gains)
        if gain >= 0:
            break
        taken[i] += 1
        heapq.heappush(gains, (-_gain(values[i], taken[i]), i))
    return [frontier.tree(nodes, max_depth) for frontier, nodes in zip(frontiers, taken)]


def _gain(accepted: Sequence[float], nodes: int) -> float:
    """What one more node adds."""
    return accepted[nodes + 1] - accepted[nodes] if nodes + 1 < len(accepted) else 0.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of batch sizes with one recommended shape; nodes 0 is plain decoding."""

    batch_first: int
    batch_last: int
    nodes: int
    depth: int
    speedup: float


@dataclass(frozen=True, slots=True)
class Joint:
    """Batch and shape chosen together for the most tokens per second of all sequences."""

    batch: int
    nodes: int
    depth: int
    tokens_per_s: float
    tokens_per_s_per_sequence: float


def most_tokens(shapes: Mapping[int, Shape]) -> Joint | None:
    """The batch whose recommended shape yields the most tokens per second; the smaller of two that yield the same.

    shapes   by the batch sizes that were tried; the limits of the search hold for each
    returns  None where times are no seconds

    >>> from specplan.acceptance.kinds import Independent
    >>> from specplan.search.costs import RoundCosts
    >>> from specplan.search.shape import shape_of
    >>> costs = [RoundCosts([1.0 + 0.1 * batch], batch=batch) for batch in (1, 8)]
    >>> plain = {c.batch: shape_of(TokenTree.empty(), Independent(0.5), c) for c in costs}
    >>> most_tokens(plain).batch
    8
    """
    known = {batch: shape for batch, shape in shapes.items() if shape.tokens_per_s is not None}
    if not known:
        return None
    best = max(known, key=lambda batch: (known[batch].tokens_per_s or 0.0, -batch))
    shape, rate = known[best], known[best].tokens_per_s or 0.0
    return Joint(best, shape.nodes, shape.depth, rate, rate / best)


def schedule(batches: Sequence[int], plan_at: Callable[[int], Plan]) -> list[Stretch]:
    """The recommended shape by batch size, as ranges.

    Batch sizes are tried on a grid and wherever two neighbours on it differ; between two that agree the shape is
    taken to hold. `speedup` is that at the first batch of a range.

    batches   rising batch sizes
    plan_at   the plan for one batch size
    """
    plans: dict[int, tuple[int, int, float]] = {}

    def at(index: int) -> tuple[int, int]:
        batch = batches[index]
        if batch not in plans:
            shape = plan_at(batch).recommended
            plans[batch] = (shape.nodes, shape.depth, shape.speedup or 1.0) if shape is not None else (0, 0, 1.0)
        return plans[batch][:2]

    for first, last in zip(grid := _grid(len(batches)), grid[1:]):
        _refine(at, first, last)
    return _ranges(batches, plans)


def _grid(count: int) -> list[int]:
    """Indices that are always tried: dense at first, then every half octave."""
    points, step = [], 1.0
    while step < count:
        points.append(int(step) - 1)
        step = max(step + 1, step * 1.5)
    return sorted({*points, 0, count - 1})


def _refine(at: Callable[[int], tuple[int, int]], first: int, last: int) -> None:
    """Try between two batch sizes until neighbours agree or touch."""
    if last - first > 1 and at(first) != at(last):
        middle = (first + last) // 2
        _refine(at, first, middle)
        _refine(at, middle, last)
    else:
        at(first), at(last)


def _ranges(batches: Sequence[int], plans: dict[int, tuple[int, int, float]]) -> list[Stretch]:
    tried = sorted(plans)
    starts = [tried[0], *(after for before, after in zip(tried, tried[1:]) if plans[before][:2] != plans[after][:2])]
    ends = [*(batches[batches.index(start) - 1] for start in starts[1:]), batches[-1]]
    return [Stretch(first, last, *plans[first]) for first, last in zip(starts, ends)]


@dataclass(frozen=True, slots=True)
class ForAll:
    """One shape for all batch sizes.

    at     what it yields, by the batch sizes that were tried
    mean   geometric mean of its speed-ups
    """

    at: Mapping[int, Shape]

    @property
    def mean(self) -> float:
        return mean([shape.speedup or 0.0 for shape in self.at.values()])

    @property
    def pays_everywhere(self) -> bool:
        """Whether it speculates and is nowhere slower than plain decoding."""
        return all(shape.nodes and (shape.speedup or 0.0) >= 1 for shape in self.at.values())

    @property
    def stretches(self) -> list[Stretch]:
        """The same shape from each batch size that was tried to before the next."""
        tried = sorted(self.at)
        ends = [*(after - 1 for after in tried[1:]), tried[-1]]
        shapes = [self.at[first] for first in tried]
        return [Stretch(a, b, s.nodes, s.depth, s.speedup or 0.0) for a, b, s in zip(tried, ends, shapes)]


def mean(speedups: Sequence[float]) -> float:
    """Geometric mean; 0 where one is 0.

    >>> round(mean([2.0, 0.5]), 9)
    1.0
    """
    return math.exp(math.fsum(map(math.log, speedups)) / len(speedups)) if min(speedups) > 0 else 0.0


def one_for_all(
    candidates: Sequence[Shape], batches: Sequence[int], price: Callable[[Shape, int], Shape | None]
) -> ForAll:
    """The shape with the best mean over the batch sizes of those that are nowhere slower than plain decoding.

    Every batch size counts the same. Where each shape is slower at one of them, the best mean of all.

    price   the shape at a batch size; None where it cannot run there
    """
    found = []
    for shape in {(shape.dynamic, shape.parents, shape.ranks): shape for shape in candidates}.values():
        at = {batch: price(shape, batch) for batch in batches}
        known = {batch: priced for batch, priced in at.items() if priced is not None}
        if len(known) == len(batches):
            found.append(ForAll(known))
    return max(found, key=lambda one: (one.pays_everywhere, one.mean, -one.at[batches[0]].nodes))


def doublings(batches: Sequence[int]) -> list[int]:
    """Of rising batch sizes the first, those about twice as large each time, and the last.

    >>> doublings(range(1, 65)), doublings([1, 100])
    ([1, 2, 4, 8, 16, 32, 64], [1, 100])
    """
    found = [batches[0]]
    for batch in batches[1:]:
        if batch >= 2 * found[-1]:
            found.append(batch)
    return sorted({*found, batches[-1]})


def fewest_stretches(batches: Sequence[int], plans: Mapping[int, Plan], tie: float) -> list[Stretch]:
    """Chains by batch size as few ranges: within each, one length is within `tie` of the best at every size tried.

    batches   rising batch sizes, all of them
    plans     the plans inside a family of chains for the sizes that were tried
    """
    tried = sorted(plans)
    lengths = {batch: _lengths(plans[batch], tie) for batch in tried}
    ranges: list[tuple[int, set[int]]] = []
    for batch in tried:
        common = ranges[-1][1] & lengths[batch].keys() if ranges else set()
        if common:
            ranges[-1] = ranges[-1][0], common
        else:
            ranges.append((batch, set(lengths[batch])))
    ends = [*(batches[batches.index(first) - 1] for first, _ in ranges[1:]), batches[-1]]
    found = [(first, last, min(common)) for (first, common), last in zip(ranges, ends)]
    return [Stretch(first, last, k, k, lengths[first][k]) for first, last, k in found]


def _lengths(plan: Plan, tie: float) -> dict[int, float]:
    """Speed-up by length of the chains within `tie` of the best; where memory decides, plain decoding alone."""
    best = plan.legal or plan.best
    if best is None or (plan.memory is not None and not plan.memory.fits):
        return {0: 1.0}
    known = {row.nodes: row.speedup for row in best.candidates if row.speedup is not None}
    enough = max(known.values()) * (1 - tie)
    return {nodes: speedup for nodes, speedup in known.items() if speedup >= enough}
