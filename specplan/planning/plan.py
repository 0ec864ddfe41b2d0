"""Verdict, candidates, comparisons: from an acceptance and the costs of a round to an answer.

    round_s = draft passes + one verification pass + overhead
    tokens_per_s = batch * tau / round_s

Plain decoding is always one of the candidates: nodes 0, tau 1, one pass of width 1, no overhead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..acceptance.kinds import Acceptance, Independent, tau_interval
from ..base.errors import DoesNotFit
from ..base.tree import TokenTree
from ..base.units import plural, show_bytes
from ..search.best import Best, best_chain, best_tree, recommended
from ..search.costs import RoundCosts
from ..search.optimize import evaluate
from ..search.shape import Shape, shape_of
from ..search.space import Space
from ..timing.memory import Memory

# ---- the best tree


# ---- break-even


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where speculation begins to pay.

    tau      tokens per round at which this shape's round equals plain decoding: round_s / plain pass
    p        probability of independent candidates at which the shape yields that tau; None if none does
    round_s  of the shape
    nodes, depth   of the shape
    """

    tau: float
    p: float | None
    round_s: float
    nodes: int
    depth: int


def break_even(tree: TokenTree, costs: RoundCosts, *, round_s: float | None = None) -> BreakEven:
    """The break-even of one shape.

    round_s   of its round, where the tree alone does not say it

    >>> from specplan.base.tree import TokenTree
    >>> round(break_even(TokenTree.chain(1), RoundCosts(verify_s=[1.0, 1.2])).p, 6)
    0.2
    """
    at = evaluate(tree, Independent(0.5), **costs.arguments())
    took = at.round_s if round_s is None else round_s
    needed = took / costs.plain_s
    accepted = _accepted_over_p(tree)
    p = _smallest(lambda q: costs.proposed * accepted(q) + 1 >= needed)
    return BreakEven(needed, p, took, tree.nodes, tree.depth)


def _accepted_over_p(tree: TokenTree) -> Callable[[float], float]:
    """`Independent(p).accepted(tree)` as a function of p: nodes with as many levels and earlier siblings count alike.

    >>> from specplan.base.tree import TokenTree
    >>> round(_accepted_over_p(TokenTree.full(2, 3))(0.6), 3)
    2.138
    """
    missed: list[int] = []
    for parent, rank in zip(tree.parents, tree.ranks):
        missed.append(rank + (missed[parent] if parent >= 0 else 0))
    alike = Counter(zip(tree.position_offsets, missed))
    return lambda p: math.fsum(count * p**depth * (1 - p) ** siblings for (depth, siblings), count in alike.items())


def _smallest(holds: Callable[[float], bool], *, steps: int = 100) -> float | None:
    """The smallest p in [0, 1] at which `holds`, found on a grid and then by bisection."""
    grid = [i / steps for i in range(steps + 1)]
    first = next((i for i, p in enumerate(grid) if holds(p)), None)
    if first is None or first == 0:
        return None if first is None else 0.0
    low, high = grid[first - 1], grid[first]
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def break_even_table(
    limits: Space, costs: RoundCosts, *, lengths: Sequence[int] = (1, 2, 3, 4, 5, 6, 8, 12, 16)
) -> list[BreakEven]:
    """The break-even of chains of several lengths."""
    longest = min(limits.nodes, limits.depth, len(costs.verify_s) - 1)
    known = (k for k in lengths if k <= longest and math.isfinite(costs.verify_s[k]))
    return [break_even(TokenTree.chain(k), costs) for k in known]


# ---- the plan


@dataclass(frozen=True, slots=True)
class Verdict:
    """speculate is None when no acceptance was given; interval is that of the speed-up, from counts."""

    speculate: bool | None
    reason: str
    speedup: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Plan:
    """The whole answer; keys as in contract.md.

    legal   the best shape that a stack can run, where the plan is for one; `best` is the free optimum then
    """

    verdict: Verdict
    break_even: BreakEven | None
    break_even_table: tuple[BreakEven, ...]
    best: Best | None
    recommended: Shape | None
    best_chain: Shape | None
    plain: Shape
    memory: Memory | None
    noise: float = 0.0
    legal: Best | None = None


def plan(
    acceptance: Acceptance | None,
    costs: RoundCosts,
    limits: Space,
    *,
    tie: float = 0.01,
    memory_of: Callable[[int], Memory] | None = None,
    search: Callable[[Acceptance, Space, RoundCosts | None], Best] = best_tree,
) -> Plan:
    """Does speculation pay, how much, and with which tree?

    acceptance   None: the break-even is all that can be said
    memory_of    memory needed with that many nodes, where a device and a model are known
    search       finds the optimum; by default among all trees within the limits
    Raises       DoesNotFit when the target alone is larger than the device.

    >>> p = plan(Independent(0.6), RoundCosts(verify_s=[1.0] * 15), Space(14))
    >>> p.verdict.speculate, p.best.shape.nodes, round(p.best.shape.tau, 3)
    (True, 14, 3.382)
    """
    check_memory(memory_of)
    nothing = Independent(0.0)
    plain = shape_of(TokenTree.empty(), acceptance or nothing, costs)
    table = tuple(break_even_table(limits, costs))
    if acceptance is None:
        return _without_acceptance(plain, table, costs, limits, memory_of)
    choice = choose(acceptance, costs, limits, tie=tie, memory_of=memory_of, search=search)
    best, chosen, spent = choice.best, choice.shape, choice.memory
    chain = best_chain(acceptance, limits, costs)
    shown = chosen if chosen.nodes else _best_speculative(acceptance, best, costs) or chain
    even = break_even(shown.tree, costs, round_s=shown.round_s) if shown.nodes else None
    verdict = _verdict(chosen, shown, even, acceptance, spent)
    return Plan(verdict, even, table, best, chosen, chain, plain, spent, noise(acceptance, best))


@dataclass(frozen=True)
class Choice:
    """The optimum, the shape to run, and the memory that was asked of it: plain decoding runs where it does not fit."""

    best: Best
    shape: Shape
    memory: Memory | None


def choose(
    acceptance: Acceptance,
    costs: RoundCosts,
    limits: Space,
    *,
    tie: float,
    memory_of: Callable[[int], Memory] | None = None,
    search: Callable[[Acceptance, Space, RoundCosts | None], Best] = best_tree,
) -> Choice:
    """The optimum and the shape to run.

    Raises  DoesNotFit when the target alone is larger than the device.
    """
    check_memory(memory_of)
    best = search(acceptance, limits, costs)
    chosen = recommended(acceptance, best, costs, max(tie, noise(acceptance, best)))
    spent = memory_of(chosen.nodes) if memory_of else None
    fits = spent is None or spent.fits
    return Choice(best, chosen if fits else shape_of(TokenTree.empty(), acceptance, costs), spent)


def noise(acceptance: Acceptance, best: Best) -> float:
    """The share of tokens per second that the counts behind the acceptance leave open below the optimum, 95 %."""
    bounds = tau_interval(acceptance, best.tree) if best.tree.nodes else None
    return 0.0 if bounds is None else 1 - bounds.low / best.shape.tau


def check_memory(memory_of: Callable[[int], Memory] | None) -> None:
    """Raises  DoesNotFit when the target alone is larger than the device."""
    if memory_of is None:
        return
    least = memory_of(0)
    target_alone = least.needed_bytes - least.freed_bytes
    if target_alone > least.device_bytes:
        needed, missing = show_bytes(target_alone), show_bytes(target_alone - least.device_bytes)
        raise DoesNotFit(
            f"the model needs {needed} on a device of {show_bytes(least.device_bytes)}, {missing} too much",
            hint="a larger --tp, a smaller --dtype, less --batch or --context, or --offload all",
        )


def _best_speculative(acceptance: Acceptance, best: Best, costs: RoundCosts) -> Shape | None:
    """The best shape that drafts at all, for when plain decoding wins."""
    rows = [row for row in best.candidates if row.nodes and row.speedup is not None]
    if not rows:
        return None
    top = max(rows, key=lambda row: (row.speedup or 0.0, -row.nodes))
    return best.shape_at(top.nodes, acceptance, costs)


def _without_acceptance(
    plain: Shape,
    table: tuple[BreakEven, ...],
    costs: RoundCosts,
    limits: Space,
    memory_of: Callable[[int], Memory] | None,
) -> Plan:
    known = [row for row in table if row.p is not None]
    easiest = min(known, key=lambda row: (row.p, row.nodes)) if known else None
    reason = (
        "no acceptance was given, and none is assumed"
        if easiest is None
        else f"no acceptance was given; a chain of {easiest.nodes} pays from p {easiest.p:.3f} up"
    )
    spent = memory_of(min(limits.nodes, len(costs.verify_s) - 1)) if memory_of else None
    return Plan(Verdict(None, reason, None), easiest, table, None, None, None, plain, spent)


def _verdict(
    chosen: Shape, shown: Shape, even: BreakEven | None, acceptance: Acceptance, spent: Memory | None
) -> Verdict:
    if spent is not None and not spent.fits:
        over = show_bytes(spent.needed_bytes - spent.device_bytes)
        return Verdict(False, f"target, draft and caches need {over} more than the device has", 1.0)
    if not chosen.nodes:
        needed = (
            f"its round needs {even.tau:.3f} tokens to break even and yields {shown.tau:.3f}"
            if even
            else "nothing can be drafted"
        )
        size = plural(shown.nodes, "node")
        return Verdict(False, f"no shape beats plain decoding; the best has {size}: {needed}", 1.0)
    assert even is not None
    reason = f"a round yields {chosen.tau:.3f} tokens and costs as much as {even.tau:.3f} plain passes"
    return Verdict(True, reason, chosen.speedup, _speedup_interval(chosen, acceptance))


def _speedup_interval(chosen: Shape, acceptance: Acceptance) -> tuple[float, float] | None:
    """The interval of the speed-up that the counts behind the acceptance leave, 95 %."""
    bounds = tau_interval(acceptance, chosen.tree)
    if bounds is None or chosen.speedup is None:
        return None
    return bounds.low / chosen.tau * chosen.speedup, bounds.high / chosen.tau * chosen.speedup
