"""A plan for several batch sizes: the shape of each, or what a stack with one shape, or chains alone, makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..planning.batch import ForAll, Stretch, doublings, fewest_stretches, mean, one_for_all, schedule
from ..planning.in_stack import plan_with
from ..planning.plan import Plan
from ..search.costs import RoundCosts
from ..search.shape import Shape
from ..search.space import Space
from ..search.within import priced_again
from . import pricing, scenes

# Batch -> the plan there with its costs and limits.
PlanAt = Callable[[int], tuple[Plan, RoundCosts, Space]]


@dataclass(frozen=True)
class ByBatch:
    """Shapes by batch size.

    answer     the plan of the first batch where another shape than its own is recommended, None: its own
    stretches  ranges of batch sizes with their shape
    shapes     by the batch sizes that were tried
    """

    answer: Plan | None
    stretches: list[Stretch]
    shapes: dict[int, Shape]


def each_its_own(batches: Sequence[int], plan_at: PlanAt, *, tie: float | None = None) -> ByBatch:
    """The recommended shape of every batch size; with a tie, chains in as few ranges as stay within it."""
    plans: dict[int, Plan] = {}

    def plan_of(batch: int) -> Plan:
        plans[batch] = plan_at(batch)[0]
        return plans[batch]

    stretches = schedule(batches, plan_of)
    if tie is not None:
        stretches = fewest_stretches(batches, plans, tie)
    return ByBatch(None, stretches, {batch: found.recommended or found.plain for batch, found in plans.items()})


def one_or_chains(
    place: scenes.Scene,
    name: str,
    batches: Sequence[int],
    plan_at: PlanAt,
    costs_at: Callable[[int, int], RoundCosts],
    acceptance: Any,
    chains: ByBatch | None,
) -> ByBatch:
    """One shape for all batch sizes, or chains by batch size where those are faster on the mean or it does not pay.

    The shape is chosen of those that are best at one batch size, plain decoding included.

    costs_at   (batch, nodes) -> costs that reach so many nodes
    chains     None where the stack named has one shape for all batches
    """
    tried = sorted({*doublings(batches), place.load.batch})
    planned = {batch: plan_at(batch) for batch in tried}
    own = {batch: found.recommended or found.plain for batch, (found, _, _) in planned.items()}
    widest = max(shape.nodes for shape in own.values())
    costs = {batch: costs_at(batch, widest) for batch in tried}

    def price(shape: Shape, batch: int) -> Shape | None:
        if shape.width > len(costs[batch].verify_s):
            return None
        needed = pricing.memory_of(place.at_batch(batch), costs[batch])
        fits = not shape.nodes or needed is None or needed(shape.nodes).fits
        return priced_again(shape, acceptance, costs[batch]) if fits else None

    first, priced, limits = planned[place.load.batch]
    one = one_for_all([*own.values(), first.plain], tried, price)
    shape = one.at[place.load.batch]
    if chains is not None and (shape.nodes == shape.depth or not _faster(place, name, one, chains)):
        return chains
    memory_of = pricing.memory_of(place.at_batch(place.load.batch), priced)
    _say_of_one(place, name, one, own)
    answer = plan_with(shape, acceptance, priced, limits, free=first.best, memory_of=memory_of)
    return ByBatch(answer, one.stretches, dict(one.at))


def _say_of_one(place: scenes.Scene, name: str, one: ForAll, own: Mapping[int, Shape]) -> None:
    """What one shape for all batch sizes costs at some of them."""
    lost = {batch: 1 - _rate(shape) / _rate(own[batch]) for batch, shape in one.at.items()}
    worst = max(lost, key=lost.__getitem__)
    tried = _listed(list(one.at))
    note = f"{name}: one shape for all batches, of those that are best at {tried} the one with the best mean"
    if lost[worst] > 0.01:
        note += f"; it loses most at batch {worst}, {100 * lost[worst]:.2g} % (--batch {worst} plans for that alone)"
    place.notes.append(note)
    slower = [batch for batch, shape in one.at.items() if _rate(shape) < 1]
    if slower:
        place.warnings.append(f"slower than plain decoding at batch {_listed(slower)}")


def _faster(place: scenes.Scene, name: str, one: ForAll, chains: ByBatch) -> bool:
    """Whether one tree pays at all batch sizes and beats chains on the mean; says which wins where."""
    rates = {batch: _rate_at(chains.stretches, batch) for batch in one.at}
    ahead = [batch for batch, shape in one.at.items() if _rate(shape) > rates[batch]]
    behind = [batch for batch in one.at if batch not in ahead]
    shape = one.at[place.load.batch]
    at = shape.dynamic
    what = f"{shape.nodes} nodes" if at is None else f"steps {at.steps}, topk {at.topk}, {at.nodes} nodes"
    both = f"{one.mean:.2f} and {mean(list(rates.values())):.2f} x plain on the mean of {_listed(list(one.at))}"
    place.notes.append(
        f"{name}: one tree for all batches ({what}) or chains by batch size: {both}; "
        f"the tree is faster at {_listed(ahead)}, chains at {_listed(behind)}"
    )
    return one.pays_everywhere and one.mean > mean(list(rates.values()))


def _rate(shape: Shape) -> float:
    return 1.0 if shape.speedup is None else shape.speedup


def _rate_at(stretches: Sequence[Stretch], batch: int) -> float:
    return next(s.speedup for s in stretches if s.batch_first <= batch <= s.batch_last)


def _listed(batches: Sequence[int]) -> str:
    return ", ".join(map(str, batches)) or "none"
