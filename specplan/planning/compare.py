"""Methods side by side: each planned in its own family of shapes and at its own cost, on one device, model and load.

>>> from specplan.timing.draft import timed_draft
>>> from specplan.methods.catalogue import chain, sequoia
>>> from specplan.acceptance.kinds import Independent
>>> costs, limits = RoundCosts(verify_s=[1.0] * 15), Space(14)
>>> for method in (chain(timed_draft(0.1)), sequoia(timed_draft(0.1))):
...     print(method.name, plan_method(Independent(0.6), costs, limits, method, tie=0.0).best.shape.widths)
chain (1, 1, 1)
sequoia (4, 6, 4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..acceptance.by_k import mixed
from ..acceptance.kinds import Acceptance, ByDepth, DepthTable, Independent
from ..base.errors import Missing
from ..base.tree import TokenTree
from ..methods.catalogue import NEEDS, Method, Needs
from ..search.best import Best, best_tree
from ..search.costs import RoundCosts
from ..search.shape import Shape
from ..search.space import Runnable, Space
from ..search.within import best_uniform_tree, only
from ..timing.memory import Memory
from .in_stack import plan_in_stack
from .plan import Plan, plan

# Ranks of a row that the union of several drafts is made of: what lies behind adds below 1e-4 at p 0.5 and up.
UNION_RANKS = 16


@dataclass(frozen=True)
class Row:
    """One method in the comparison.

    reason     why it is not available, or the verdict's reason
    plan, costs, limits   None where it is not available
    """

    name: str
    needs: Needs
    reason: str
    method: Method | None = None
    plan: Plan | None = None
    costs: RoundCosts | None = None
    limits: Space | None = None

    @property
    def available(self) -> bool:
        """Whether it could be planned; the verdict may still be no."""
        return self.plan is not None

    @property
    def shape(self) -> Shape | None:
        """The recommended shape; where plain decoding is, the plain one."""
        if self.plan is None:
            return None
        return self.plan.recommended or self.plan.plain


# ---- one method


def method_costs(costs: RoundCosts, method: Method) -> RoundCosts:
    """The costs of a round with this method; plain decoding keeps its own pass.

    Where nothing is proposed in some rounds, a plain pass runs there, without overhead; where drafting stops early,
    a pass is as wide as what was drafted: both as expectations.
    """
    verify, plain, share = list(costs.verify_s), costs.plain_s, method.proposal_share
    if method.verify_s is not None:
        verify = [plain, *(method.verify_s(width) for width in range(2, len(verify) + 1))]
    if method.draft.last is not None:
        verify = verify[: max(method.draft.last, 256) + 1]
    if method.keep is not None:
        verify = _stopped(verify, method.keep)
    return replace(
        costs,
        verify_s=[plain, *(share * seconds + (1 - share) * plain for seconds in verify[1:])],
        draft=method.draft,
        overhead_s=share * costs.overhead_s,
        proposed=share,
        draft_passes=method.draft_passes or costs.draft_passes,
        draft_shape=method.draft_shape or costs.draft_shape,
    )


def _stopped(verify: Sequence[float], keep: float) -> list[float]:
    """Expected seconds of verification by the cap on drafted tokens, when drafting goes on at `keep` after each."""
    expected, before, going = list(verify[:1]), 0.0, 1.0
    for drafted in range(1, len(verify)):
        expected.append(before + going * verify[drafted])
        before += going * (1 - keep) * verify[drafted]
        going *= keep
    return expected


def method_limits(limits: Space, method: Method) -> Space:
    """Shapes that this method can draft, within the limits asked for."""
    return Space(
        limits.nodes,
        min(limits.depth, method.max_depth or limits.depth),
        min(filter(None, (limits.children, method.max_children)), default=None),
    )


def method_acceptance(acceptance: Acceptance, method: Method) -> Acceptance:
    """The acceptance over all rounds: those without a proposal accept nothing."""
    if method.proposal_share == 1:
        return acceptance
    shares = (method.proposal_share, 1 - method.proposal_share)
    return mixed((acceptance, Independent(0.0)), shares, rule=acceptance.rule, temperature=acceptance.temperature)


def plan_method(
    acceptance: Acceptance | None,
    costs: RoundCosts,
    limits: Space,
    method: Method,
    *,
    tie: float = 0.01,
    memory_of: Callable[[RoundCosts], Callable[[int], Memory]] | None = None,
    merged: bool = False,
    runnable: Runnable | None = None,
) -> Plan:
    """The plan with this method: its costs, its limits, its family of shapes.

    costs    of the target's pass and the overhead; the method puts its own draft and verification in
    merged   True when the acceptance is that of the merged tree of several drafts; else it is that of each draft by
             itself, and the speed-up is an interval between drafts that agree and drafts that never do
    runnable what a stack runs: the recommended shape is one of those; None: any of the method's
    Raises   DoesNotFit when the target alone does not fit; Missing where the acceptance does not say enough
    """
    priced, within = method_costs(costs, method), method_limits(limits, method)
    given = None if acceptance is None else method_acceptance(acceptance, method)
    needed = None if memory_of is None else memory_of(priced)
    how: dict[str, Any] = {"tie": tie, "memory_of": needed, "search": search_of(method)}
    if runnable is None:
        answer = plan(given, priced, within, **how)
    else:
        answer = plan_in_stack(given, priced, within, runnable, **how)
    if method.drafts == 1 or merged or given is None:
        return answer
    return _between(answer, given, priced, within, method)


def search_of(method: Method) -> Callable[[Acceptance, Space, RoundCosts | None], Best]:
    """The search in the method's family."""
    if method.widths is not None:
        tree = TokenTree.full(list(method.widths))
        return lambda acceptance, limits, costs: only(tree, acceptance, limits, costs)
    return best_uniform_tree if method.family == "uniform" else best_tree


# ---- several drafts with marginal rates


def union_acceptance(acceptance: Acceptance, drafts: int, *, depth: int) -> DepthTable:
    """Child probabilities of a merged tree if the drafts never propose the same token: rows add, up to 1.

    The upper bound min(1, sum A_s) at every level; a lower bound is one draft's own acceptance.

    >>> union_acceptance(Independent(0.3), 2, depth=1).row(1, 3)
    (0.3, 0.3, 0.21)
    """
    if not isinstance(acceptance, ByDepth):
        raise Missing(f"no bounds from {acceptance.kind}", hint="give child probabilities by depth and rank")
    rows = []
    for level in range(1, min(depth, acceptance.max_depth or depth) + 1):
        room, row = 1.0, []
        for value in (p for p in acceptance.row(level, UNION_RANKS) for _ in range(drafts)):
            row.append(min(value, room))
            room = max(0.0, room - value)
        rows.append(tuple(row))
    return DepthTable(tuple(rows), rule=acceptance.rule, temperature=acceptance.temperature)


def _between(answer: Plan, acceptance: Acceptance, costs: RoundCosts, limits: Space, method: Method) -> Plan:
    """The plan of drafts that always agree, with the speed-up of drafts that never do as the upper end."""
    union = union_acceptance(acceptance, method.drafts, depth=limits.depth)
    low = answer.recommended.speedup if answer.recommended is not None else 1.0
    high = best_uniform_tree(union, replace(limits, children=None), costs).shape.speedup
    bounds = (low or 1.0, max(high or 1.0, low or 1.0))
    reason = (
        f"{answer.verdict.reason}; with rates of each draft alone, {method.drafts} drafts yield "
        f"{bounds[0]:.2f} to {bounds[1]:.2f} x (they always agree, they never do)"
    )
    return replace(answer, verdict=replace(answer.verdict, reason=reason, interval=bounds))


# ---- the comparison


def compare(
    plans: Mapping[str, Callable[[], tuple[Method, Plan]]], *, costs: RoundCosts, limits: Space
) -> dict[str, Row]:
    """One row a method, best speed-up first; those that lack an input come last with the reason.

    plans   by name, what builds and plans a method; one that raises Missing gives a row that is not available
    """
    rows = [_row(name, planned, costs, limits) for name, planned in plans.items()]
    rows.sort(key=lambda row: (not row.available, -_rank(row)))
    return {row.name: row for row in rows}


def _row(name: str, planned: Callable[[], tuple[Method, Plan]], costs: RoundCosts, limits: Space) -> Row:
    try:
        method, answer = planned()
    except Missing as lack:
        return Row(name, NEEDS[name], f"{lack.message} ({lack.hint})" if lack.hint else lack.message)
    priced, within = method_costs(costs, method), method_limits(limits, method)
    return Row(name, NEEDS[name], answer.verdict.reason, method, answer, priced, within)


def _rank(row: Row) -> float:
    """Speed-up of the recommended shape; without an acceptance, the easier break-even first."""
    if row.plan is None:
        return 0.0
    if row.plan.recommended is not None:
        return row.plan.recommended.speedup or 0.0
    even = row.plan.break_even
    return 0.0 if even is None or even.p is None else 1 - even.p


def best_exit(
    exits: Mapping[int, Acceptance], method_at: Callable[[int], Method], plan_of: Callable[[Method, Acceptance], Plan]
) -> tuple[int, Plan]:
    """The exit layer with the best speed-up, and its plan.

    exits   acceptance by exit layer

    >>> from specplan.acceptance.kinds import Chain
    >>> from specplan.timing.draft import Draft
    >>> costs = RoundCosts(verify_s=[1.0] * 9)
    >>> def at(layer):
    ...     return Method("layerskip", Draft("exit", layer / 32), family="chain", exit_layer=layer)
    >>> rates = {4: Chain.constant(0.3), 8: Chain.constant(0.8), 16: Chain.constant(0.85)}
    >>> best_exit(rates, at, lambda method, rate: plan_method(rate, costs, Space(8, children=1), method))[0]
    8
    """
    plans = {layer: plan_of(method_at(layer), acceptance) for layer, acceptance in exits.items()}
    best = max(plans, key=lambda layer: ((plans[layer].recommended or plans[layer].plain).speedup or 0.0, -layer))
    return best, plans[best]
