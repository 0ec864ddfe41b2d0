"""`export`: a shape, a plan or lengths by batch size as a serving stack reads them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..acceptance.kinds import Acceptance, as_acceptance
from ..base.errors import DoesNotFit, InputError
from ..base.tree import TokenTree
from ..search.costs import RoundCosts
from ..search.shape import Shape
from ..search.space import Dynamic, Space
from .capability import Capability, Export, Scheduled, Stack, Wanted
from .exporting import check_schedule, export_to, fitting
from .registry import stack_of
from .sources import Source, of_lengths, read_source

if TYPE_CHECKING:
    from .lowering import Lowered


@runtime_checkable
class Planned(Protocol):
    """A plan: what it recommends is exported."""

    @property
    def recommended(self) -> Shape | None: ...


@dataclass(frozen=True)
class Exported:
    """What a stack reads, and what it stands for.

    settings   the stack's own names with underscores
    files      name -> content; bytes where the stack reads a binary file
    command    the line that starts the server, with `environment` before it
    nodes, depth   drafted tokens and levels, the root not counted; of the longest length where there is a schedule
    loss       share of tokens per second (without times: of tokens per round) lost where another shape was put in its
               place; 0 for the shape itself, None where no acceptance is known
    """

    stack: str
    version: str
    family: str
    settings: Mapping[str, Any]
    files: Mapping[str, str | bytes]
    command: str
    environment: Mapping[str, str]
    nodes: int
    depth: int
    loss: float | None
    tree: TokenTree
    dynamic: Dynamic | None = None
    schedule: tuple[Scheduled, ...] = ()
    instead: Shape | None = None
    shape: Shape | None = None
    buffers: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Tokens of the verification pass: the nodes and the root."""
        return self.nodes + 1

    @property
    def adaptive_config(self) -> dict[str, Any] | None:
        """SGLang's lengths by batch size, None elsewhere."""
        content = self.files.get("adaptive.json")
        return None if content is None else dict(json.loads(content))


def export(
    shape: Source | Planned | Shape | TokenTree | Dynamic | Sequence[Any] | str,
    *,
    to: str,
    lower: bool = False,
    acceptance: Acceptance | Sequence[float] | None = None,
    costs: RoundCosts | None = None,
    limits: Space | None = None,
    **wanted: Any,
) -> Exported:
    """A shape as a stack reads it.

    shape       a plan, a tree, settings of a dynamic tree, a list of paths, lengths by batch size (`Scheduled`), or the
                name of a file that holds a plan or a tree
    to          NAME or NAME@VERSION
    lower       take the best member of the stack's family where the shape has no form in it
    acceptance, costs, limits   to find that member and what is lost; of a plan's own where it has them
    wanted      method, draft, model, heads, max_rank, batch, max_batch, exit_layer, n_predict, survival, synthetic,
                passes: as in `Wanted`
    Raises      DoesNotFit, naming the constraint, for what has no form in the stack; InputError for what is wrong

    >>> export([[0], [0, 0], [0, 0, 0]], to="sglang", method="eagle3").settings["speculative_num_draft_tokens"]
    4
    >>> export([[0], [1]], to="vllm")
    Traceback (most recent call last):
    specplan.base.errors.DoesNotFit: vllm 0.33.0: a node has 2 children; only a chain can be run
      hint: --lower gives the best shape that it can run, with the loss stated
    """
    stack, capability, version = stack_of(to)
    source = as_source(shape)
    if acceptance is not None:
        source = replace(source, acceptance=as_acceptance(acceptance), survival=())
    if costs is not None:
        source = replace(source, costs=costs, limits=limits or source.limits)
    asked = _wanted(source, wanted)
    given: Lowered | None = None
    try:
        found = export_to(stack, capability, version, asked)
    except DoesNotFit:
        if not lower or capability.family == "none":
            raise
        from .lowering import lowered

        given = lowered(source, asked, capability)
        asked = given.wanted
        found = export_to(stack, capability, version, asked)
    return _exported(stack, capability, version, source, fitting(stack, capability, version, asked), found, given)


def as_source(shape: Any) -> Source:
    """What an export starts from, of any kind that `export` takes."""
    if isinstance(shape, Source):
        return shape
    if isinstance(shape, Planned):
        if shape.recommended is None:
            raise InputError("the plan has no shape: it was made without an acceptance", hint="give it one")
        shape = shape.recommended
    if isinstance(shape, Shape):
        return Source(shape.tree, shape.dynamic, survival=shape.level_survival)
    if isinstance(shape, TokenTree):
        return Source(shape)
    if isinstance(shape, Dynamic):
        return Source(TokenTree.chain(shape.steps), shape)
    if isinstance(shape, str):
        return read_source(shape)
    entries = list(shape)
    if entries and all(isinstance(entry, Scheduled) for entry in entries):
        check_schedule(tuple(entries))
        return of_lengths(entries)
    return Source(TokenTree.from_paths(entries))


def _wanted(source: Source, given: Mapping[str, Any]) -> Wanted:
    """What is wanted: what the source says, with what is given in its place."""
    own = {"method": source.method, "draft": source.draft, "model": source.model, "batch": source.batch}
    said = {**own, "exit_layer": source.exit_layer, **{key: value for key, value in given.items() if value is not None}}
    said.setdefault("survival", _survival(source))
    said.setdefault("passes", _passes(source.costs))
    try:
        return Wanted(source.tree, source.dynamic, source.schedule, **said)
    except TypeError as error:
        raise InputError(f"export: {str(error).partition(') ')[2] or error}", hint="the fields of Wanted") from None


def _yielded(source: Source) -> Shape | None:
    if source.acceptance is None:
        return None
    from .lowering import yielded

    return yielded(source)


def _passes(costs: RoundCosts | None) -> tuple[tuple[int, float], ...]:
    """(tokens in the pass, seconds) of the plan's verification passes."""
    if costs is None or costs.relative:
        return ()
    times = enumerate(costs.verify_s, 1)
    return tuple((costs.batch * width, seconds) for width, seconds in times if 0 < seconds < math.inf)


def _survival(source: Source) -> tuple[float, ...]:
    """At least i drafted tokens accepted, as far as the shape is deep."""
    longest = max((entry.k for entry in source.schedule), default=0)
    if source.acceptance is not None and longest > len(source.survival):
        survival = tuple(source.acceptance.level_survival(TokenTree.chain(longest)))
    elif source.survival or source.acceptance is None:
        return source.survival
    else:
        shape = _yielded(replace(source, costs=None))
        survival = () if shape is None else shape.level_survival
    # Levels that nothing is known of count as never accepted in a plan; they are no rates to simulate.
    return survival[: source.acceptance.max_depth]


def _exported(
    stack: Stack,
    capability: Capability,
    version: str,
    source: Source,
    asked: Wanted,
    found: Export,
    given: Lowered | None,
) -> Exported:
    schedule = asked.schedule
    longest = TokenTree.chain(asked.longest) if schedule else asked.tree
    dynamic = None if schedule else asked.dynamic
    notes = found.notes if given is None else (*given.notes, *found.notes)
    instead = None if given is None else given.instead
    return Exported(
        stack.name,
        version,
        capability.family,
        found.settings,
        found.files,
        found.command,
        found.environment,
        longest.nodes if dynamic is None else dynamic.nodes,
        longest.depth if dynamic is None else dynamic.steps,
        0.0 if given is None else given.loss,
        longest,
        dynamic,
        schedule,
        instead,
        _yielded(source) if given is None and not schedule else None if given is None else given.shape,
        found.buffers,
        notes,
        found.warnings,
    )
