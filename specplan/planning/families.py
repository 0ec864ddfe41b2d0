"""The best member of each family of shapes that engines can run, and what it loses against the free optimum.

free      any static tree
chain     one candidate a level
uniform   every node of a level has the same number of children
medusa    static tree, depth <= heads, ranks < max_rank
dynamic   (steps, topk, nodes) of engines that build the tree anew every round from draft scores
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..acceptance.kinds import Acceptance, ByDepth, Mixture
from ..search.best import best_chain, best_tree
from ..search.costs import RoundCosts
from ..search.shape import Shape, shape_of
from ..search.space import MOST_TOPK, Space
from ..search.uniform import best_uniform
from ..search.within import best_dynamic, contexts_of, loss_against

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
    limits: Space,
    costs: RoundCosts | None,
    free: Shape,
    *,
    heads: int = DEFAULT_HEADS,
    max_rank: int = DEFAULT_MAX_RANK,
) -> dict[str, Family | None]:
    """The best member of every family within `limits`; None where the acceptance does not say enough.

    free    the free optimum, which losses are against
    """
    medusa_limits = Space(limits.nodes, min(heads, limits.depth), min(max_rank, limits.children or max_rank))
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
        loss_against(shape.speedup, shape.tau, free),
        note,
    )


def _medusa(acceptance: Acceptance, limits: Space, costs: RoundCosts | None, free: Shape) -> Family:
    shape = best_tree(acceptance, limits, costs).shape
    settings = {"heads": limits.depth, "max_rank": limits.children or 0}
    return _of_shape(shape, free, settings)


def _uniform(acceptance: Acceptance, limits: Space, costs: RoundCosts | None, free: Shape) -> Family | None:
    if not isinstance(acceptance, ByDepth):
        return None
    given = {} if costs is None else costs.arguments()
    tree = best_uniform(acceptance, **limits.arguments(), **given)
    above = (1, *tree.widths)
    children = {f"level_{i + 1}": width // above[i] for i, width in enumerate(tree.widths)}
    return _of_shape(shape_of(tree, acceptance, costs), free, children)


def _dynamic(acceptance: Acceptance, limits: Space, costs: RoundCosts | None, free: Shape) -> Family | None:
    if contexts_of(acceptance) is None:
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
