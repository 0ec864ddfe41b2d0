"""The best member of a stack's family where a shape has no form in it, with what is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..base.errors import DoesNotFit
from ..base.tree import TokenTree
from ..search.shape import Shape, shape_of
from ..search.space import DEFAULT_DEPTH, MOST_TOPK, Dynamic, Runnable, Space
from ..search.within import dynamic_shape, search_in
from .capability import Capability, Scheduled, Wanted
from .exporting import known_method, pool_size
from .sources import Source


@dataclass(frozen=True)
class Lowered:
    """What is exported in place of the shape.

    shape    what it yields, None where no acceptance is known
    instead  what the given shape yields
    """

    wanted: Wanted
    notes: tuple[str, ...]
    shape: Shape | None = None
    instead: Shape | None = None

    @property
    def loss(self) -> float | None:
        """Share of tokens per second lost, of tokens per round where no times are known; None: not known."""
        if self.shape is None or self.instead is None:
            return None
        if self.shape.speedup is not None and self.instead.speedup is not None:
            return 1 - self.shape.speedup / self.instead.speedup
        return 1 - self.shape.tau / self.instead.tau


def runnable(
    capability: Capability, method: str | None = None, *, by_batch: bool = False, heads: int | None = None
) -> Runnable:
    """What a stack runs with a method, in the planner's words.

    by_batch   True where lengths by batch size are wanted: those are of chains
    heads      of a Medusa-like draft: levels at most
    """
    family = capability.planned or capability.family
    if by_batch and capability.takes_schedules(method):
        family = "chain"
    ranks = None if capability.max_rank is None else capability.max_rank + 1
    topk = (capability.max_topk or MOST_TOPK) if capability.draws_trees(method) else 1
    if family in ("static", "uniform") and not capability.draws_trees(method):
        family = "chain"
    return Runnable(
        family,
        capability.max_nodes,
        min(filter(None, (capability.max_depth, heads)), default=None),
        capability.min_depth,
        capability.min_tree_depth,
        topk if family == "dynamic" else ranks,
        linear_pool=capability.pool == "linear",
        contiguous=capability.contiguous or capability.expanding_first,
        by_level=capability.max_children if family == "uniform" else (),
    )


def yielded(source: Source) -> Shape | None:
    """What the shape of the source yields; None where no acceptance is known."""
    if source.acceptance is None:
        return None
    if source.dynamic is not None:
        return dynamic_shape(source.dynamic, source.acceptance, source.costs)
    return shape_of(source.tree, source.acceptance, source.costs)


def lowered(source: Source, wanted: Wanted, capability: Capability) -> Lowered:
    """The best member of the family: per second where the source has pass times, else of as many nodes at most.

    Raises  DoesNotFit where nothing is known of the acceptance and the family has no nearest member.
    """
    if wanted.schedule:
        return _lowered_schedule(wanted, capability)
    within = runnable(capability, known_method("", capability, wanted.method), heads=wanted.heads)
    if wanted.max_rank is not None and within.family != "chain":
        within = replace(within, children=min(filter(None, (within.children, wanted.max_rank))))
    if source.acceptance is None:
        return _nearest(source, wanted, capability, within)
    limits = _limits(source)
    if not source.acceptance.siblings_known:
        limits = replace(limits, children=1)
    shape = search_in(within)(source.acceptance, limits, source.costs).shape
    instead = yielded(source)
    note = (
        "the best that it runs per second" if source.costs is not None else f"the best of {limits.nodes} nodes at most"
    )
    chosen = replace(wanted, tree=shape.tree, dynamic=shape.dynamic, survival=shape.level_survival)
    return Lowered(chosen, (f"in place of the given shape: {note}",), shape, instead)


def _limits(source: Source) -> Space:
    nodes = max(source.tree.nodes, 1)
    if source.costs is None:
        return Space(nodes, max(DEFAULT_DEPTH, source.tree.depth))
    most = len(source.costs.verify_s) - 1
    return source.limits or Space(max(min(most, nodes), 1))


def _nearest(source: Source, wanted: Wanted, capability: Capability, within: Runnable) -> Lowered:
    """Without an acceptance: the same levels and at most as many nodes; what it loses is not known."""
    tree = source.tree
    note = "what is lost is not known without an acceptance: --p 0.6, --child-prob ..., --acceptance FILE"
    depth = min(tree.depth, within.depth or tree.depth)
    if within.family == "dynamic":
        topk = min(max(tree.root_children, *tree.child_counts), within.children or MOST_TOPK)
        at = Dynamic(depth, topk, 0)
        nodes = max(min(tree.nodes, pool_size(capability.pool, at), within.nodes or tree.nodes), depth)
        at = replace(at, nodes=nodes)
        said = f"settings of the same levels, children and nodes as far as they go; {note}"
        return Lowered(replace(wanted, dynamic=at), (said,))
    if within.family == "chain":
        said = f"the chain of its first ranks, {depth} long; {note}"
        return Lowered(replace(wanted, tree=TokenTree.chain(depth), dynamic=None), (said,))
    raise DoesNotFit(
        "--lower needs an acceptance to find the best tree that the stack runs",
        hint="--p 0.6, --child-prob 0.6,0.2 or --acceptance FILE",
    )


def _lowered_schedule(wanted: Wanted, capability: Capability) -> Lowered:
    """One length for all batches, or no length above the first."""
    first = next((entry.k for entry in wanted.schedule if entry.k), 0)
    if not capability.takes_schedules(wanted.method):
        first = wanted.schedule[0].k
        note = f"one length for all batches: {first}, that of batches up to {wanted.schedule[0].last}"
        return Lowered(replace(wanted, tree=TokenTree.chain(first), schedule=()), (note,))
    most = min(first, capability.max_depth or first)
    cut = tuple(Scheduled(entry.first, entry.last, min(entry.k, most)) for entry in wanted.schedule)
    if cut[0].k != most:
        raise DoesNotFit(
            "speculation that begins above batch 1 has no form in the stack", hint="begin the schedule with a length"
        )
    return Lowered(replace(wanted, schedule=cut), (f"no length above the first, {most}",))
