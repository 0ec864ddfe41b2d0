"""The best shape inside what a stack can run, and what that costs against the free optimum.

    free      any static tree
    chain     one candidate a level
    uniform   every node of a level has the same number of children
    medusa    static tree, depth <= heads, ranks < max_rank
    dynamic   (steps, topk, nodes) of engines that build the tree anew every round from draft scores

A family is searched by itself, never cut out of the free optimum afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from .acceptance import Acceptance, ByDepth, DepthTable, Mixture, Paths, Positional
from .errors import InputError
from .families import best_uniform
from .memory import Memory
from .methods import Missing
from .optimize import Candidate
from .plan import Best, Costs, DraftTime, Dynamic, Limits, Plan, Shape, best_chain, best_tree, plan, shape_of
from .tree import TokenTree

# topk of EAGLE-2/3 (10) and of SGLang's NGRAM (1-10): no dynamic engine goes past it by default.
MOST_TOPK = 10
# Sources: Medusa's published heads (5 at most, TOPK 10); verification tables step after 64 rows on A100.
DEFAULT_HEADS = 5
DEFAULT_MAX_RANK = 10
NODE_LIMIT = 63


@dataclass(frozen=True)
class Family:
    """The best member of a family.

    settings       the family's own numbers
    loss           fraction of tokens per second (without costs: of tokens per round) lost against the free optimum
    note           what the number means where it is not exact
    """

    nodes: int
    depth: int
    widths: tuple[int, ...] | None
    settings: Mapping[str, int]
    tau: float
    round_s: float | None
    tokens_per_s: float | None
    speedup: float | None
    loss: float
    note: str = ""


def families(
    acceptance: Acceptance,
    limits: Limits,
    costs: Costs | None,
    free: Shape,
    *,
    heads: int = DEFAULT_HEADS,
    max_rank: int = DEFAULT_MAX_RANK,
) -> dict[str, Family | None]:
    """The best member of every family within `limits`; None where the acceptance does not say enough.

    free    the free optimum, which losses are against
    """
    medusa_limits = Limits(limits.nodes, min(heads, limits.depth), min(max_rank, limits.children or max_rank))
    few = replace(limits, nodes=min(limits.nodes, NODE_LIMIT))
    known = acceptance.siblings_known
    found: dict[str, Family | None] = {
        "free": _of_shape(free, free),
        "nodes_63": _of_shape(best_tree(acceptance, few, costs).shape, free) if limits.nodes > NODE_LIMIT else None,
        "chain": _of_shape(best_chain(acceptance, limits, costs), free),
        "uniform": _uniform(acceptance, limits, costs, free) if known else None,
        "medusa": _medusa(acceptance, medusa_limits, costs, free) if known else None,
        "dynamic": _dynamic(acceptance, limits, costs, free) if known else None,
    }
    return found


def _of_shape(shape: Shape, free: Shape, settings: Mapping[str, int] | None = None, note: str = "") -> Family:
    return Family(
        shape.nodes,
        shape.depth,
        shape.widths,
        settings or {},
        shape.tau,
        shape.round_s,
        shape.tokens_per_s,
        shape.speedup,
        _loss(shape.speedup, shape.tau, free),
        note,
    )


def _loss(speedup: float | None, tau: float, free: Shape) -> float:
    if speedup is not None and free.speedup is not None:
        return 1 - speedup / free.speedup
    return 1 - tau / free.tau


def _medusa(acceptance: Acceptance, limits: Limits, costs: Costs | None, free: Shape) -> Family:
    shape = best_tree(acceptance, limits, costs).shape
    settings = {"heads": limits.depth, "max_rank": limits.children or 0}
    return _of_shape(shape, free, settings)


def _uniform(acceptance: Acceptance, limits: Limits, costs: Costs | None, free: Shape) -> Family | None:
    if not isinstance(acceptance, ByDepth):
        return None
    given = {} if costs is None else costs.arguments()
    tree = best_uniform(acceptance, **limits.arguments(), **given)
    above = (1, *tree.widths)
    children = {f"level_{i + 1}": width // above[i] for i, width in enumerate(tree.widths)}
    return _of_shape(shape_of(tree, acceptance, costs), free, children)


# ---- one family at a time


@dataclass(frozen=True)
class Runnable:
    """What an engine can run, in a planner's words; the root is not counted.

    family        static, uniform, dynamic or chain
    children      most children of a node; where the engine builds the tree, the largest topk
    linear_pool   dynamic: at most topk * steps nodes, in place of topk + (steps - 1) topk^2
    contiguous    static: a child is drafted with all those ranked before it
    min_tree_depth   levels that a tree with branches needs; a chain needs min_depth alone
    by_level      uniform: most children of a node, level by level, where levels differ
    """

    family: str
    nodes: int | None = None
    depth: int | None = None
    min_depth: int = 1
    min_tree_depth: int = 1
    children: int | None = None
    linear_pool: bool = False
    contiguous: bool = True
    by_level: tuple[int, ...] = ()

    def within(self, limits: Limits) -> Limits:
        """The limits that hold for both.

        >>> Runnable("chain", depth=4).within(Limits(64, 16))
        Limits(nodes=64, depth=4, children=1)
        """
        widest = 1 if self.family == "chain" else self.children
        return Limits(
            min(limits.nodes, self.nodes or limits.nodes),
            min(limits.depth, self.depth or limits.depth),
            min(filter(None, (limits.children, widest)), default=None),
        )


def plan_in_stack(
    acceptance: Acceptance | None,
    costs: Costs,
    limits: Limits,
    runnable: Runnable,
    *,
    search: Callable[[Acceptance, Limits, Costs | None], Best] = best_tree,
    **how: Any,
) -> Plan:
    """The plan inside a family: `recommended` is a shape that the engine runs, `best` stays the free optimum.

    search   finds the free optimum
    how      tie and memory_of, as `plan` takes them

    >>> from specplan.acceptance import Independent
    >>> found = plan_in_stack(Independent(0.6), Costs(verify_s=[1.0] * 15), Limits(14), Runnable("dynamic"), tie=0.0)
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
    costs: Costs,
    limits: Limits,
    *,
    free: Best | None,
    memory_of: Callable[[int], Memory] | None = None,
) -> Plan:
    """The plan that recommends this shape whatever else is faster here.

    free   the free optimum, which stays the plan's `best`
    """

    def search(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Best:
        here = priced_again(shape, acceptance, costs)
        row = Candidate(here.nodes, here.depth, here.tau, here.round_s, here.tokens_per_s, here.speedup)
        return Best(here, here.tree, "proved", 0.0, rows_by_nodes([row]), lambda _: here.tree, lambda _: here)

    found = plan(acceptance, costs, limits, search=search, tie=0.0, memory_of=memory_of)
    return replace(found, best=free, legal=found.best)


def priced_again(shape: Shape, acceptance: Acceptance, costs: Costs | None) -> Shape:
    """The same shape at other costs."""
    if shape.dynamic is not None:
        return dynamic_shape(shape.dynamic, acceptance, costs)
    return shape_of(shape.tree, acceptance, costs)


def search_in(runnable: Runnable) -> Callable[[Acceptance, Limits, Costs | None], Best]:
    """The search for the best member of a family; plain decoding is one where there are costs."""

    def search(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Best:
        within = runnable.within(limits)
        if runnable.family == "dynamic" and acceptance.by_node:
            return best_dynamic(acceptance, within, costs, linear_pool=runnable.linear_pool)
        if runnable.by_level and within.children != 1 and acceptance.by_node:
            return best_by_level(runnable.by_level, acceptance, within, costs)
        if runnable.family == "uniform" and within.children != 1 and acceptance.by_node:
            return best_uniform_tree(acceptance, within, costs)
        asked = _in_order(acceptance) if runnable.contiguous else acceptance
        return _deep_enough(best_tree(asked, within, costs), acceptance, costs, runnable)

    return search


def _in_order(acceptance: Acceptance) -> Acceptance:
    """The same with children that need those ranked before them."""
    if isinstance(acceptance, (Positional, DepthTable, Paths)) and acceptance.any_subset:
        return replace(acceptance, scheme="ordered")
    if isinstance(acceptance, Mixture):
        return replace(acceptance, components=tuple(map(_in_order, acceptance.components)))
    return acceptance


def _deep_enough(best: Best, acceptance: Acceptance, costs: Costs | None, runnable: Runnable) -> Best:
    """The best of the rows with enough levels, plain decoding included; not proved where that changes it."""

    def deep(nodes: int, depth: int) -> bool:
        least = runnable.min_depth if nodes == depth else max(runnable.min_depth, runnable.min_tree_depth)
        return not nodes or depth >= least

    if deep(best.shape.nodes, best.shape.depth):
        return best
    rows = [row for row in best.candidates if row.tau and deep(row.nodes, row.depth or 0)]
    if costs is None:
        rows = [row for row in rows if row.nodes] or rows
    top = max(rows, key=lambda row: (row.speedup or row.tau or 0.0, -row.nodes))
    shape = best.shape_at(top.nodes, acceptance, costs)
    gap = _loss(shape.speedup, shape.tau, best.shape)
    return Best(shape, shape.tree, "gap", gap, rows_by_nodes(rows), best.tree_with, best.shape_with)


def rows_by_nodes(rows: Iterable[Candidate]) -> list[Candidate]:
    """One row a node count from 0, empty ones where there is none."""
    found = {row.nodes: row for row in rows}
    return [found.get(n) or Candidate(n, None, None, None, None, None) for n in range(max(found, default=0) + 1)]


def best_uniform_tree(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Best:
    """The best tree with the same number of children on a whole level, plain decoding included.

    Raises  Missing for an acceptance that has no rows by depth.
    """
    if not isinstance(acceptance, ByDepth):
        raise Missing(f"no uniform tree from {acceptance.kind}", hint="give child probabilities by depth and rank")
    given = {} if costs is None else costs.arguments()
    return only(best_uniform(acceptance, **limits.arguments(), **given), acceptance, limits, costs)


def best_by_level(most: Sequence[int], acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Best:
    """The best uniform tree with at most so many children of a node on each level; all of them are looked at.

    >>> from specplan.acceptance import Independent
    >>> best_by_level((1, 1, 3, 1), Independent(0.6), Limits(8), None).shape.widths
    (1, 1, 3, 3)
    """
    choices = [range(1, min(count, limits.children or count) + 1) for count in most[: limits.depth]]
    counts = [shape for depth in range(1, len(choices) + 1) for shape in product(*choices[:depth])]
    trees = [tree for shape in counts if (tree := TokenTree.full(shape)).nodes <= limits.nodes]
    shapes = [shape_of(tree, acceptance, costs) for tree in trees if costs is None or tree.width <= len(costs.verify_s)]
    if not shapes:
        return only(TokenTree.empty(), acceptance, limits, costs)
    best = max(shapes, key=lambda shape: (shape.speedup or shape.tau, -shape.nodes))
    return only(best.tree, acceptance, limits, costs)


def only(tree: TokenTree, acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Best:
    """One tree, or plain decoding if that is faster."""
    if tree.nodes > limits.nodes or tree.depth > limits.depth:
        raise Missing(
            f"the shape has {tree.nodes} nodes and {tree.depth} levels, allowed are {limits.nodes} and {limits.depth}",
            hint="a larger --budget or --max-depth, or fewer children a step",
        )
    trees = {0: TokenTree.empty(), tree.nodes: tree}
    shapes = {nodes: shape_of(found, acceptance, costs) for nodes, found in trees.items()}
    best = max(shapes, key=lambda nodes: (shapes[nodes].speedup or shapes[nodes].tau, -nodes))
    rows = [
        Candidate(nodes, shape.depth, shape.tau, shape.round_s, shape.tokens_per_s, shape.speedup)
        for nodes, shape in shapes.items()
    ]
    return Best(shapes[best], trees[best], "proved", 0.0, rows_by_nodes(rows), trees.__getitem__)


# ---- dynamic trees


def _dynamic(acceptance: Acceptance, limits: Limits, costs: Costs | None, free: Shape) -> Family | None:
    if _contexts(acceptance) is None:
        return None
    few = replace(limits, children=min(limits.children or MOST_TOPK, MOST_TOPK))
    shape = best_dynamic(acceptance, few, costs).shape
    note = (
        "expected over the contexts of the mixture, draft scores taken as calibrated"
        if isinstance(acceptance, Mixture)
        else "one context: the static tree of this family; scores that know the context do better"
    )
    at = shape.dynamic
    settings = {} if at is None else {"steps": at.steps, "topk": at.topk, "draft_tokens_with_root": at.nodes + 1}
    return replace(_of_shape(shape, free, settings, note), widths=None, depth=0 if at is None else at.steps)


def best_dynamic(acceptance: Acceptance, limits: Limits, costs: Costs | None, *, linear_pool: bool = False) -> Best:
    """The best (steps, topk, nodes) of an engine that builds the tree anew every round, plain decoding included.

    Every step feeds the topk best nodes, each proposes its topk best children, and the best `nodes` of all proposed
    ones are verified: at most topk + (steps - 1) topk^2, and `steps` at least. All settings within the limits are
    looked at; limits.children bounds topk, 10 without it. Draft scores are taken as calibrated.

    linear_pool   at most topk * steps nodes
    Raises        InputError for an acceptance of path frequencies
    """
    contexts = _contexts(acceptance)
    if contexts is None:
        raise InputError(f"no dynamic tree from {acceptance.kind}", hint="give child probabilities by depth and rank")
    found = _best_settings(contexts, limits, costs, linear_pool)
    plain = shape_of(TokenTree.empty(), acceptance, costs)

    def shape_with(nodes: int) -> Shape:
        return dynamic_shape(found[nodes][0], acceptance, costs) if nodes else plain

    rows = [Candidate(0, 0, 1.0, plain.round_s, plain.tokens_per_s, plain.speedup)]
    rows += [_candidate(at, tau, costs) for at, tau in found.values()]
    top = max(rows, key=lambda row: (row.speedup or row.tau or 0.0, -row.nodes))
    shape = shape_with(top.nodes)
    return Best(shape, shape.tree, "proved", 0.0, rows_by_nodes(rows), lambda n: shape_with(n).tree, shape_with)


def _best_settings(
    contexts: list[tuple[float, ByDepth]], limits: Limits, costs: Costs | None, linear_pool: bool
) -> dict[int, tuple[Dynamic, float]]:
    """The best steps and topk for every number of nodes, with the tokens of a round."""
    most = limits.nodes if costs is None else min(limits.nodes, len(costs.verify_s) - 1)
    fed = most if costs is None or costs.draft.last is None else costs.draft.last
    found: dict[int, tuple[Dynamic, float]] = {}
    rates: dict[int, float] = {}
    for topk in range(1, min(limits.children or MOST_TOPK, most, fed) + 1):
        for steps, sums in enumerate(_pools(contexts, topk, min(limits.depth, most)), 1):
            drafting = 0.0 if costs is None else _dynamic_draft_s(costs, steps, topk)
            last = min(most, len(sums) - 1, topk * steps if linear_pool else most)
            for nodes in range(steps, last + 1):
                tau = 1 + sums[nodes]
                round_s = 1.0 if costs is None else drafting + costs.verify_s[nodes] + costs.overhead_s
                if round_s < math.inf and tau / round_s > rates.get(nodes, 0.0) * (1 + 1e-12):
                    rates[nodes], found[nodes] = tau / round_s, (Dynamic(steps, topk, nodes), tau)
    return found


def _candidate(at: Dynamic, tau: float, costs: Costs | None) -> Candidate:
    if costs is None:
        return Candidate(at.nodes, at.steps, tau, None, None, None)
    round_s = _dynamic_draft_s(costs, at.steps, at.topk) + costs.verify_s[at.nodes] + costs.overhead_s
    rate = None if costs.relative else costs.batch * tau / round_s
    return Candidate(at.nodes, at.steps, tau, round_s, rate, tau * costs.plain_s / round_s)


def dynamic_shape(at: Dynamic, acceptance: Acceptance, costs: Costs | None) -> Shape:
    """What these settings yield and cost; the tree is that of one context, of the mean one where there are several."""
    contexts = _contexts(acceptance) or []
    trees = [dynamic_tree(known, at) for _, known in contexts]
    levels = [known.level_survival(tree) for (_, known), tree in zip(contexts, trees)]
    survival = tuple(
        math.fsum(share * level[i] for (share, _), level in zip(contexts, levels) if i < len(level))
        for i in range(max(map(len, levels)))
    )
    tree = trees[0] if len(trees) == 1 else dynamic_tree(acceptance, at)
    shape = replace(shape_of(tree, acceptance, costs), dynamic=at, level_survival=survival)
    tau = 1 + math.fsum(survival)
    if costs is None:
        return replace(shape, accepted=tau - 1, tau=tau, draft=DraftTime(at.steps, None, None))
    drafting = _dynamic_draft_s(costs, at.steps, at.topk)
    round_s = drafting + costs.verify_s[at.nodes] + costs.overhead_s
    rate = None if costs.relative else costs.batch * tau / round_s
    passes = 1 if costs.draft_shape == "block" else at.steps + (1 if costs.draft_passes == "all" else 0)
    return replace(
        shape,
        accepted=tau - 1,
        tau=tau,
        draft=DraftTime(passes, drafting / passes, drafting),
        round_s=round_s,
        tokens_per_s=rate,
        tokens_per_s_per_sequence=None if rate is None else rate / costs.batch,
        speedup=tau * costs.plain_s / round_s,
    )


# Score, path and state of a proposed node.
_Proposed = tuple[float, tuple[int, ...], Any]


def dynamic_tree(acceptance: Acceptance, at: Dynamic) -> TokenTree:
    """The tree that these settings grow in one context whose draft scores are its acceptance.

    Equal scores go to the shallower node, then to the one found first.

    >>> from specplan.acceptance import Independent
    >>> dynamic_tree(Independent(0.6), Dynamic(steps=2, topk=2, nodes=5)).paths
    ((0,), (1,), (0, 0), (0, 1), (1, 0))
    """
    beam: list[_Proposed] = [(1.0, (), acceptance.start())]
    pool: list[_Proposed] = []
    for level in range(1, at.steps + 1):
        proposed: list[_Proposed] = []
        for _, path, state in beam:
            for rank in range(at.topk):
                below = None if state is None else acceptance.child(state, level, rank)
                proposed.append((0.0 if below is None else acceptance.weight(below), (*path, rank), below))
        proposed.sort(key=lambda grown: -grown[0])
        beam = proposed[: at.topk]
        pool += proposed
    pool.sort(key=lambda grown: -grown[0])
    return TokenTree.from_paths(path for _, path, _ in pool[: at.nodes])


def _contexts(acceptance: Acceptance) -> list[tuple[float, ByDepth]] | None:
    """(share of rounds, acceptance) of each context; None where rows by depth are not known."""
    if isinstance(acceptance, Mixture):
        parts = [part for part in acceptance.components if isinstance(part, ByDepth)]
        return list(zip(acceptance.weights, parts)) if len(parts) == len(acceptance.components) else None
    return [(1.0, acceptance)] if isinstance(acceptance, ByDepth) else None


def _dynamic_draft_s(costs: Costs, steps: int, topk: int) -> float:
    """The root's pass, then one over topk nodes for every further step."""
    if costs.draft_shape == "block":
        return costs.draft.at(steps)
    fed = steps if costs.draft_passes == "all" else steps - 1
    return costs.draft.at(1) + fed * costs.draft.at(topk)


def _pools(contexts: list[tuple[float, ByDepth]], topk: int, depth: int) -> Iterator[list[float]]:
    """After each step: expected accepted tokens of the best n proposed nodes, n = 0, 1, ..."""
    pools: list[list[float]] = [[] for _ in contexts]
    beams: list[list[float]] = [[1.0] for _ in contexts]
    for level in range(1, depth + 1):
        for i, (_, known) in enumerate(contexts):
            row = sorted(known.row(level, topk), reverse=True)
            proposed = sorted((value * p for value in beams[i] for p in row), reverse=True)
            beams[i] = proposed[:topk]
            pools[i] = sorted(pools[i] + proposed, reverse=True)
        if not any(beams):
            return
        size = max(map(len, pools))
        sums, total = [0.0], 0.0
        for n in range(size):
            total += sum(share * pool[n] for (share, _), pool in zip(contexts, pools) if n < len(pool))
            sums.append(total)
        yield sums
