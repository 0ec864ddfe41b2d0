"""The best shape of one family: searched by itself, never cut out of the free optimum afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ..acceptance.kinds import Acceptance, ByDepth, DepthTable, Mixture, Paths, Positional
from ..base.errors import InputError, Missing
from ..base.tree import TokenTree
from .best import Best, best_tree
from .costs import RoundCosts
from .optimize import Candidate
from .shape import DraftTime, Shape, shape_of
from .space import MOST_TOPK, Dynamic, Runnable, Space
from .uniform import best_uniform


def loss_against(speedup: float | None, tau: float, free: Shape) -> float:
    if speedup is not None and free.speedup is not None:
        return 1 - speedup / free.speedup
    return 1 - tau / free.tau


def priced_again(shape: Shape, acceptance: Acceptance, costs: RoundCosts | None) -> Shape:
    """The same shape at other costs."""
    if shape.dynamic is not None:
        return dynamic_shape(shape.dynamic, acceptance, costs)
    return shape_of(shape.tree, acceptance, costs)


def search_in(runnable: Runnable) -> Callable[[Acceptance, Space, RoundCosts | None], Best]:
    """The search for the best member of a family; plain decoding is one where there are costs."""

    def search(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Best:
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


def _deep_enough(best: Best, acceptance: Acceptance, costs: RoundCosts | None, runnable: Runnable) -> Best:
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
    gap = loss_against(shape.speedup, shape.tau, best.shape)
    return Best(shape, shape.tree, "gap", gap, rows_by_nodes(rows), best.tree_with, best.shape_with)


def rows_by_nodes(rows: Iterable[Candidate]) -> list[Candidate]:
    """One row a node count from 0, empty ones where there is none."""
    found = {row.nodes: row for row in rows}
    return [found.get(n) or Candidate(n, None, None, None, None, None) for n in range(max(found, default=0) + 1)]


def best_uniform_tree(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Best:
    """The best tree with the same number of children on a whole level, plain decoding included.

    Raises  Missing for an acceptance that has no rows by depth.
    """
    if not isinstance(acceptance, ByDepth):
        raise Missing(f"no uniform tree from {acceptance.kind}", hint="give child probabilities by depth and rank")
    given = {} if costs is None else costs.arguments()
    return only(best_uniform(acceptance, **limits.arguments(), **given), acceptance, limits, costs)


def best_by_level(most: Sequence[int], acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Best:
    """The best uniform tree with at most so many children of a node on each level; all of them are looked at.

    >>> from specplan.acceptance.kinds import Independent
    >>> best_by_level((1, 1, 3, 1), Independent(0.6), Space(8), None).shape.widths
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


def only(tree: TokenTree, acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Best:
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


def best_dynamic(acceptance: Acceptance, limits: Space, costs: RoundCosts | None, *, linear_pool: bool = False) -> Best:
    """The best (steps, topk, nodes) of an engine that builds the tree anew every round, plain decoding included.

    Every step feeds the topk best nodes, each proposes its topk best children, and the best `nodes` of all proposed
    ones are verified: at most topk + (steps - 1) topk^2, and `steps` at least. All settings within the limits are
    looked at; limits.children bounds topk, 10 without it. Draft scores are taken as calibrated.

    linear_pool   at most topk * steps nodes
    Raises        InputError for an acceptance of path frequencies
    """
    contexts = contexts_of(acceptance)
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
    contexts: list[tuple[float, ByDepth]], limits: Space, costs: RoundCosts | None, linear_pool: bool
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


def _candidate(at: Dynamic, tau: float, costs: RoundCosts | None) -> Candidate:
    if costs is None:
        return Candidate(at.nodes, at.steps, tau, None, None, None)
    round_s = _dynamic_draft_s(costs, at.steps, at.topk) + costs.verify_s[at.nodes] + costs.overhead_s
    rate = None if costs.relative else costs.batch * tau / round_s
    return Candidate(at.nodes, at.steps, tau, round_s, rate, tau * costs.plain_s / round_s)


def dynamic_shape(at: Dynamic, acceptance: Acceptance, costs: RoundCosts | None) -> Shape:
    """What these settings yield and cost; the tree is that of one context, of the mean one where there are several."""
    contexts = contexts_of(acceptance) or []
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

    >>> from specplan.acceptance.kinds import Independent
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


def contexts_of(acceptance: Acceptance) -> list[tuple[float, ByDepth]] | None:
    """(share of rounds, acceptance) of each context; None where rows by depth are not known."""
    if isinstance(acceptance, Mixture):
        parts = [part for part in acceptance.components if isinstance(part, ByDepth)]
        return list(zip(acceptance.weights, parts)) if len(parts) == len(acceptance.components) else None
    return [(1.0, acceptance)] if isinstance(acceptance, ByDepth) else None


def _dynamic_draft_s(costs: RoundCosts, steps: int, topk: int) -> float:
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
