"""What a stack reads for a shape: the checks that all stacks share, then the stack's own exporter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..base.errors import DoesNotFit, InputError
from ..base.tree import TokenTree
from ..search.space import Dynamic
from .capability import Capability, Export, Scheduled, Stack, Wanted, is_later
from .limits import require_within

# Ways of drafting with a draft model; a stack that takes one takes its chains, whatever tree the method grows.
DRAFT_MODEL = ("chain", "sequoia", "specinfer")


_LOWER = "--lower takes the best that it runs, with its loss"


def export_to(stack: Stack, capability: Capability, version: str, wanted: Wanted) -> Export:
    """What the stack reads for `wanted`.

    Raises  DoesNotFit, naming the constraint, for a shape, a method or a schedule that has no form in it.
    """
    fitted = fitting(stack, capability, version, wanted)
    if not fitted.longest:
        return Export({}, command=stack.serve(fitted.model), notes=("plain decoding: no speculative setting",))
    found = stack.export(fitted, capability, version)
    if is_later(version, stack.read):
        note = f"{stack.name} was read up to {stack.read}: {version} is taken to be the same"
        return replace(found, notes=(*found.notes, note))
    return found


def fitting(stack: Stack, capability: Capability, version: str, wanted: Wanted) -> Wanted:
    """`wanted` as the stack takes it: its way of drafting, one length or several, settings in place of a tree.

    Raises  DoesNotFit, naming the constraint, as `export_to` does.
    """
    name = f"{stack.name} {version}"
    if capability.family == "none":
        raise DoesNotFit(f"{name}: {capability.note}", hint="specplan stacks lists what the others take")
    wanted = replace(wanted, method=known_method(name, capability, wanted.method))
    if wanted.schedule:
        return _scheduled(name, capability, wanted)
    if wanted.dynamic is not None:
        return _built_by_the_engine(name, capability, wanted)
    if wanted.tree.nodes:
        require_within(name, wanted.tree, capability, heads=wanted.heads, max_rank=wanted.max_rank)
        return _as_settings(name, capability, wanted)
    return wanted


def known_method(name: str, capability: Capability, method: str | None) -> str | None:
    """The stack's way of drafting for a method; DoesNotFit where it has none."""
    if method is None or method in capability.methods:
        return method
    if method in DRAFT_MODEL and "chain" in capability.methods:
        return "chain"
    raise DoesNotFit(f"{name} does not draft by {method}", hint=f"it takes {', '.join(capability.methods)}")


def _scheduled(name: str, capability: Capability, wanted: Wanted) -> Wanted:
    """Lengths by batch size; one length is no schedule."""
    check_schedule(wanted.schedule)
    longest = max(entry.k for entry in wanted.schedule)
    if longest:
        require_within(name, TokenTree.chain(longest), capability, heads=wanted.heads)
    wanted = replace(wanted, tree=TokenTree.chain(longest), dynamic=None)
    if len({entry.k for entry in wanted.schedule}) == 1:
        return _as_settings(name, capability, replace(wanted, schedule=()))
    if not capability.takes_schedules(wanted.method):
        ks = ", ".join(str(entry.k) for entry in wanted.schedule)
        whose = f" of {wanted.method}" if capability.schedule is not None else ""
        raise DoesNotFit(f"{name} has one length{whose} for all batches, not {ks}", hint="--lower takes the first one")
    return wanted


def check_schedule(schedule: tuple[Scheduled, ...]) -> None:
    """Raises InputError unless the ranges begin at 1, rise and leave no gap."""
    expected = 1
    for entry in schedule:
        if entry.first != expected or entry.last < entry.first or entry.k < 0:
            raise InputError(
                f"range {entry.first}-{entry.last}: batch {expected} comes next",
                hint="ranges begin at 1, rise and leave no gap: 1-4:4,5-16:2,17-512:0",
            )
        expected = entry.last + 1


def covering(ranges: Sequence[Scheduled]) -> tuple[Scheduled, ...]:
    """Lengths of the batch sizes that were planned as lengths of all: a length holds up to the next, the first from 1.

    >>> covering((Scheduled(2, 2, 4), Scheduled(8, 16, 0)))
    (Scheduled(first=1, last=7, k=4), Scheduled(first=8, last=16, k=0))
    """
    firsts = [1, *(entry.first for entry in ranges[1:])]
    lasts = [*(entry.first - 1 for entry in ranges[1:]), *(entry.last for entry in ranges[-1:])]
    return tuple(Scheduled(first, last, entry.k) for first, last, entry in zip(firsts, lasts, ranges))


def _as_settings(name: str, capability: Capability, wanted: Wanted) -> Wanted:
    """The settings of an engine that builds the tree; of a given tree, only a chain is one of its trees for sure."""
    if capability.family != "dynamic" or not wanted.tree.nodes:
        return wanted
    if wanted.tree.nodes > wanted.tree.depth:
        raise DoesNotFit(
            f"{name} builds the tree anew every round: a fixed tree has no form in it",
            hint="specplan plan --stack NAME finds the best steps, topk and nodes; --lower takes the nearest ones",
        )
    return replace(wanted, dynamic=Dynamic(wanted.tree.depth, 1, wanted.tree.nodes))


def _built_by_the_engine(name: str, capability: Capability, wanted: Wanted) -> Wanted:
    """Settings as another kind of engine takes them, or refused."""
    at = wanted.dynamic
    assert at is not None
    if capability.family != "dynamic":
        tree = TokenTree.chain(at.steps) if at.topk == 1 else wanted.tree
        require_within(name, tree, capability, heads=wanted.heads, max_rank=wanted.max_rank)
        return replace(wanted, tree=tree, dynamic=None)
    most_topk = capability.max_topk if capability.draws_trees(wanted.method) else 1
    for what, given, limit in (
        ("steps", at.steps, capability.max_depth),
        ("topk", at.topk, most_topk),
        ("nodes, the root not counted", at.nodes, capability.max_nodes),
    ):
        if limit is not None and given > limit:
            whose = f" with {wanted.method}" if limit == 1 and most_topk == 1 else ""
            raise DoesNotFit(f"{name}{whose}: {given} {what}; at most {limit} can be run", hint=_LOWER)
    most = pool_size(capability.pool, at)
    if at.nodes > most:
        how = "topk * steps" if capability.pool == "linear" else "topk + (steps - 1) topk^2"
        raise DoesNotFit(
            f"{name}: {at.nodes} nodes out of {how} = {most} (steps {at.steps}, topk {at.topk}, root not counted)",
            hint="fewer nodes, or more steps or topk; --lower takes the best that fits",
        )
    if at.nodes < at.steps and capability.pool == "linear":
        raise DoesNotFit(f"{name}: {at.nodes} nodes for {at.steps} steps; at least one a step is needed", hint=_LOWER)
    return wanted


def pool_size(pool: str, at: Dynamic) -> int:
    """Nodes that these settings propose at most.

    >>> pool_size("square", Dynamic(2, 2, 5)), pool_size("linear", Dynamic(2, 2, 5))
    (6, 4)
    """
    return at.topk * at.steps if pool == "linear" else at.topk + (at.steps - 1) * at.topk**2
