"""The best shape inside what a stack can run, and what that costs against the free optimum.

    free      any static tree
    chain     one candidate a level
    uniform   every node of a level has the same number of children
    medusa    static tree, depth <= heads, ranks < max_rank
    dynamic   (steps, topk, nodes) of engines that build the tree anew every round from draft scores

A family is searched by itself, never cut out of the free optimum afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..acceptance.kinds import Acceptance
from ..search.best import Best, best_tree
from ..search.costs import RoundCosts
from ..search.optimize import Candidate
from ..search.shape import Shape
from ..search.space import Runnable, Space
from ..search.within import priced_again, rows_by_nodes, search_in
from ..timing.memory import Memory
from .plan import Plan, plan

# ---- one family at a time


def plan_in_stack(
    acceptance: Acceptance | None,
    costs: RoundCosts,
    limits: Space,
    runnable: Runnable,
    *,
    search: Callable[[Acceptance, Space, RoundCosts | None], Best] = best_tree,
    **how: Any,
) -> Plan:
    """The plan inside a family: `recommended` is a shape that the engine runs, `best` stays the free optimum.

    search   finds the free optimum
    how      tie and memory_of, as `plan` takes them

    >>> from specplan.acceptance.kinds import Independent
    >>> costs = RoundCosts(verify_s=[1.0] * 15)
    >>> found = plan_in_stack(Independent(0.6), costs, Space(14), Runnable("dynamic"), tie=0.0)
    >>> found.recommended.dynamic, found.best.shape.widths
    (Dynamic(steps=5, topk=3, nodes=14), (3, 5, 4, 1, 1))
    """
    answer = plan(acceptance, costs, runnable.within(limits), search=search_in(runnable), **how)
    if acceptance is None:
        return answer
    return replace(answer, best=search(acceptance, limits, costs), legal=answer.best)


def plan_with(
    shape: Shape,
    acceptance: Acceptance,
    costs: RoundCosts,
    limits: Space,
    *,
    free: Best | None,
    memory_of: Callable[[int], Memory] | None = None,
) -> Plan:
    """The plan that recommends this shape whatever else is faster here.

    free   the free optimum, which stays the plan's `best`
    """

    def search(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Best:
        here = priced_again(shape, acceptance, costs)
        row = Candidate(here.nodes, here.depth, here.tau, here.round_s, here.tokens_per_s, here.speedup)
        return Best(here, here.tree, "proved", 0.0, rows_by_nodes([row]), lambda _: here.tree, lambda _: here)

    found = plan(acceptance, costs, limits, search=search, tie=0.0, memory_of=memory_of)
    return replace(found, best=free, legal=found.best)


# ---- dynamic trees
