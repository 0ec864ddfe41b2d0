"""What a serving stack can run: the record that planning inside a family, exporting and checking share.

A file of this package that holds a `STACK` is a stack; `registry` finds them. Core planning takes only the limits of a
`Capability`, never a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError
from ..base.tree import TokenTree
from ..search.space import Dynamic

if TYPE_CHECKING:
    from .prometheus import Page
    from .reading import Asked, LineReader, Reading

FAMILIES = ("static", "uniform", "dynamic", "chain", "none")
SCHEDULES = ("ranges", "upper_keys", "lower_keys")


@dataclass(frozen=True)
class Capability:
    """What the versions from `since` to `until` (both included, None: open) of a stack can run.

    family         static (any tree it is given), uniform (the same children on a whole level), dynamic (steps, topk and
                   nodes, the tree is built anew every round), chain, or none (nothing to set)
    planned        the family that plans are made in, where the stack takes another one but it cannot pay
    methods        specplan's names of the ways of drafting
    root_counted   whether the stack's own number of tokens counts the root
    max_depth, max_nodes, min_depth   drafted levels and nodes, root not counted; None: no limit known
    min_tree_depth   levels that a tree with branches needs, where a chain may have fewer
    max_rank       largest child rank, from 0; None: no limit known
    pool           dynamic: nodes that topk k and depth d allow: square, k + (d-1) k^2, or linear, k d and at least d
    max_topk       dynamic: largest topk; None: no limit known
    tree_methods, schedule_methods   methods that draft trees, that take lengths by batch size; None: all of them
    max_children   most children of a node, level by level, where levels differ; (): no such limit
    contiguous     whether the ranks below a parent have to be 0, 1, 2, ...
    expanding_first   whether, below a parent, children that have children have to come before those without
    order          what the order of the list has to be, in words; empty: none
    schedule       how lengths by batch size are written: ranges (first, last, K), upper_keys (upper bound: K),
                   lower_keys (lower bound: candidates), or None
    settings       the stack's own names of what is written, with underscores
    synthetic      whether acceptance can be simulated, to check the cost half of a plan
    cost           what its verification costs beyond the pass, in words
    note, source   what else to know; where it was read
    """

    family: str
    methods: tuple[str, ...]
    settings: tuple[str, ...]
    source: str
    since: str | None = None
    until: str | None = None
    root_counted: bool = False
    min_depth: int = 1
    min_tree_depth: int = 1
    max_depth: int | None = None
    max_nodes: int | None = None
    max_rank: int | None = None
    pool: str = "square"
    max_topk: int | None = None
    tree_methods: tuple[str, ...] | None = None
    schedule_methods: tuple[str, ...] | None = None
    max_children: tuple[int, ...] = ()
    contiguous: bool = True
    expanding_first: bool = False
    planned: str | None = None
    order: str = ""
    schedule: str | None = None
    synthetic: bool = False
    cost: str = ""
    note: str = ""

    def draws_trees(self, method: str | None) -> bool:
        """Whether a method drafts more than chains here; an unknown one may."""
        return method is None or self.tree_methods is None or method in self.tree_methods

    def takes_schedules(self, method: str | None) -> bool:
        """Whether lengths by batch size can be set for a method; for an unknown one they may."""
        if self.schedule is None:
            return False
        return method is None or self.schedule_methods is None or method in self.schedule_methods


@dataclass(frozen=True)
class Scheduled:
    """K drafted tokens for batches from `first` to `last`; 0 is plain decoding."""

    first: int
    last: int
    k: int


@dataclass(frozen=True)
class Wanted:
    """What is to be exported, free of any stack's words.

    tree       the shape; a chain where the stack runs chains
    dynamic    steps, topk and nodes where the stack builds the tree itself; nodes without the root
    schedule   lengths by batch size, ascending and without gaps; () for one shape
    method     specplan's name of the way of drafting, None: not known
    draft      name or path of the draft model or head, as the user wrote it
    model      name or path of the target
    heads      heads of a Medusa-like draft
    max_rank   most children of a node that are allowed
    batch      sequences in a pass that the shape was planned for
    max_batch  most requests that the server is to take at a time, None: not said
    exit_layer layers that draft, where the target drafts for itself
    n_predict  tokens that one pass of the checkpoint's own head predicts
    survival   at least i drafted tokens accepted, i = 1, 2, ...: for simulated acceptance; () where not known
    synthetic  whether the settings of simulated acceptance are wanted too
    passes     (tokens in the pass, seconds), rising: the verification pass, for stacks that take its cost
    """

    tree: TokenTree
    dynamic: Dynamic | None = None
    schedule: tuple[Scheduled, ...] = ()
    method: str | None = None
    draft: str | None = None
    model: str | None = None
    heads: int | None = None
    max_rank: int | None = None
    batch: int = 1
    max_batch: int | None = None
    exit_layer: int | None = None
    n_predict: int | None = None
    survival: tuple[float, ...] = ()
    synthetic: bool = False
    passes: tuple[tuple[int, float], ...] = ()

    @property
    def accepted(self) -> float | None:
        """Expected accepted tokens of a round at full length, None where no acceptance is known."""
        return sum(self.survival[: self.longest]) if self.survival else None

    @property
    def longest(self) -> int:
        """Most levels that are drafted; 0 for plain decoding."""
        if self.schedule:
            return max(entry.k for entry in self.schedule)
        return self.tree.depth if self.dynamic is None else self.dynamic.steps


@dataclass(frozen=True)
class Export:
    """What a stack reads.

    settings   the stack's own names with underscores
    files      name -> content; bytes where the stack reads a binary file
    command    the line that starts the server or the run with it
    environment   variables that go before it
    buffers    what the stack makes of a static tree (mask, position ids, retrieve rows, ...), to compare when debugging
    """

    settings: Mapping[str, Any]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    buffers: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """One thing the stack would do with a setting.

    kind     refused (it does not start or crashes), silent (it takes it and does something else), note
    setting  the stack's own name
    """

    kind: str
    setting: str
    text: str


def no_shape(settings: Mapping[str, Any]) -> Dynamic | None:
    """For a stack whose settings say no shape."""
    return None


def no_rules(settings: Mapping[str, Any], capability: Capability, version: str) -> Sequence[Problem]:
    """For a stack of whose settings no rules are known."""
    return ()


@dataclass(frozen=True)
class Stack:
    """A serving stack.

    capabilities   newest versions first; their ranges do not overlap
    read           newest version whose source was read
    export         (wanted, capability, version) -> Export; raises InputError or NoForm
    check          (settings, capability, version) -> problems of hand-written settings
    shape          settings -> the shape that they stand for, None where they do not say
    signs          other names by which settings are known to be for this stack
    start          the command that serves a model without speculation, with {model}
    pages, lines, jsons   readers of its numbers: of metrics pages, of logs by name, of JSON by name
    """

    name: str
    title: str
    read: str
    capabilities: tuple[Capability, ...]
    export: Callable[[Wanted, Capability, str], Export]
    check: Callable[[Mapping[str, Any], Capability, str], Sequence[Problem]] = no_rules
    shape: Callable[[Mapping[str, Any]], Dynamic | None] = no_shape
    signs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    start: str = ""
    pages: tuple[Callable[[Page, Asked], Reading | None], ...] = ()
    lines: Mapping[str, Callable[[], LineReader]] = field(default_factory=dict)
    jsons: Mapping[str, Callable[[Any, Asked], Reading | None]] = field(default_factory=dict)

    def serve(self, model: str | None) -> str:
        """The command that serves the model without speculation; "" where there is none."""
        import shlex

        return self.start.format(model="MODEL" if model is None else shlex.quote(model))

    def at(self, version: str | None = None) -> Capability:
        """The record of a version, the newest without one.

        Raises  InputError for a version that is no version or lies before every record.
        """
        if version in (None, self.read):
            return self.capabilities[0]
        assert version is not None
        for capability in self.capabilities:
            if _within(version, capability):
                return capability
        known = ", ".join(span(capability) for capability in self.capabilities)
        raise InputError(f"{self.name} {version[:30]!r}: nothing is known of this version", hint=f"known: {known}")


def number(version: str) -> tuple[int, ...]:
    """A version as numbers that compare; what follows them (rc1, .post2) is left out.

    >>> number("0.20.2"), number("1.3.0rc20"), number("v1.4")
    ((0, 20, 2), (1, 3, 0), (1, 4))
    """
    import re

    match = re.fullmatch(r"[vb]?(\d+(?:\.\d+)*)(?:[-.+]?[a-z].*)?", version.strip().casefold())
    if match is None:
        raise InputError(f"version {version[:30]!r} is not a version", hint="such as 0.33.0")
    return tuple(int(part) for part in match[1].split("."))


def is_later(version: str, read: str) -> bool:
    """Whether a version comes after the newest that was read; commits do not compare.

    >>> is_later("0.34", "0.33.0"), is_later("0.33.1", "0.33.0"), is_later("0.33", "0.33.0"), is_later("x", "0.33.0")
    (True, True, False, False)
    """
    try:
        return number(version) > number(read)
    except InputError:
        return False


def _within(version: str, capability: Capability) -> bool:
    at = number(version)
    first = () if capability.since is None else number(capability.since)
    last = None if capability.until is None else number(capability.until)
    return first <= at and (last is None or at[: len(last)] <= last)


def span(capability: Capability) -> str:
    """The versions of a record in words."""
    if capability.since is None and capability.until is None:
        return "all versions"
    if capability.until is None:
        return f"{capability.since} and later"
    return f"up to {capability.until}" if capability.since is None else f"{capability.since} to {capability.until}"
