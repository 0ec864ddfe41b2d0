"""The best shape inside what a stack can run, and what that costs against the free optimum.

    free      any static tree
    chain     one candidate a level
    uniform   every node of a level has the same number of children
    medusa    static tree, depth <= heads, ranks < max_rank
    dynamic   (steps, topk, nodes) of engines that build the tree anew every round from draft scores

A family is searched by itself, never cut out of the free optimum afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from .acceptance import Acceptance, ByDepth, Mixture
from .families import best_uniform
from .plan import Costs, Limits, Shape, best_chain, best_tree, shape_of

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


# ---- dynamic trees


def _dynamic(acceptance: Acceptance, limits: Limits, costs: Costs | None, free: Shape) -> Family | None:
    """The best (steps, topk, nodes): every step feeds the topk best nodes, each proposes its topk best children,
    and the best `nodes` of all proposed ones are verified."""
    contexts = _contexts(acceptance)
    if contexts is None:
        return None
    most = limits.nodes if costs is None else min(limits.nodes, len(costs.verify_s) - 1)
    best: tuple[float, int, int, int, float, float | None] | None = None
    widest = MOST_TOPK if costs is None or costs.draft.last is None else costs.draft.last
    for topk in range(1, min(MOST_TOPK, limits.children or MOST_TOPK, most, widest) + 1):
        for steps, sums in enumerate(_pools(contexts, topk, min(limits.depth, most)), 1):
            drafting = 0.0 if costs is None else _dynamic_draft_s(costs, steps, topk)
            for nodes in range(steps, min(most, len(sums) - 1) + 1):
                tau = 1 + sums[nodes]
                round_s = None if costs is None else drafting + costs.verify_s[nodes] + costs.overhead_s
                rate = tau if round_s is None else tau / round_s
                if best is None or rate > best[0] * (1 + 1e-12):
                    best = rate, steps, topk, nodes, tau, round_s
    if best is None:
        return None
    rate, steps, topk, nodes, tau, round_s = best
    speedup = None if costs is None else rate * costs.plain_s
    note = (
        "expected over the contexts of the mixture, draft scores taken as calibrated"
        if isinstance(acceptance, Mixture)
        else "one context: the static tree of this family; scores that know the context do better"
    )
    return Family(
        nodes,
        steps,
        None,
        {"steps": steps, "topk": topk, "draft_tokens_with_root": nodes + 1},
        tau,
        round_s,
        None if costs is None or costs.relative else rate * costs.batch,
        speedup,
        _loss(speedup, tau, free),
        note,
    )


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
