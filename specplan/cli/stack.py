"""The stack that is planned for: its record as limits of the search, and what it reads for the shape that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import DoesNotFit, InputError
from . import options, scenes


@dataclass(frozen=True)
class Aim:
    """A stack with the version that is meant."""

    stack: Any
    capability: Any
    version: str

    @property
    def name(self) -> str:
        return f"{self.stack.name} {self.version}"

    @property
    def names(self) -> tuple[str, ...]:
        """The stack's names, by which its engine may be known."""
        return (self.stack.name, *self.stack.aliases)

    def takes(self, method: str | None) -> None:
        """Refuse a way of drafting that the stack does not have, before anything is computed."""
        from ..stacks.exporting import known_method

        known_method(self.name, self.capability, method)

    def runnable(self, method: str | None = None, *, by_batch: bool = False) -> Any:
        """What the stack runs with a method, in the planner's words."""
        from ..stacks.lowering import runnable

        return runnable(self.capability, method, by_batch=by_batch)


def aimed(given: options.Stack) -> Aim | None:
    """The stack of --stack, None when none was asked for."""
    if given.stack is None:
        return None
    return aim(given.stack)


def names_of(aim: Aim | None) -> tuple[str, ...]:
    """The names of the stack that is planned for; none without one."""
    return () if aim is None else aim.names


def aim(text: str) -> Aim:
    """The stack that NAME or NAME@VERSION names; one in which nothing can be set is refused."""
    from ..stacks.registry import stack_of

    found = Aim(*stack_of(text))
    if found.capability.family == "none":
        raise DoesNotFit(f"{found.name}: {found.capability.note}", hint="specplan stacks lists what the others take")
    return found


def in_planned(
    aim: Aim,
    place: scenes.Scene,
    shape: Any,
    *,
    free: Any = None,
    stretches: Sequence[Any] | None = None,
    method: str | None = None,
    draft: str | None = None,
    model: str | None = None,
    heads: int | None = None,
) -> dict[str, Any]:
    """The `stack` key of a plan or a tree: what the stack reads for `shape`; its notes go to the scene.

    free        the free optimum that the loss is against
    stretches   shapes by batch size: chains where the stack takes lengths by batch size, else one shape for all
    """
    from ..stacks.capability import Scheduled, Wanted
    from ..stacks.exporting import covering, export_to

    method = method or ("chain" if draft is not None else None)
    draft = _put_in(draft, method, place)
    chains = aim.capability.takes_schedules(method) and all(s.nodes == s.depth for s in stretches or ())
    schedule = covering([Scheduled(s.batch_first, s.batch_last, s.nodes) for s in stretches or ()]) if chains else ()
    wanted = Wanted(
        shape.tree,
        shape.dynamic,
        schedule,
        method=method,
        draft=hub_name(draft),
        model=hub_name(model),
        heads=heads,
        batch=max([place.load.batch, *(s.batch_last for s in stretches or ())]),
        exit_layer=place.inputs.get("exit_layer"),
        survival=shape.level_survival,
    )
    found = export_to(aim.stack, aim.capability, aim.version, wanted)
    place.notes.extend(found.notes)
    place.warnings.extend(found.warnings)
    return stack_keys(aim, found, shape, None if free is None else loss(shape, free))


def in_compared(
    aim: Aim, place: scenes.Scene, rows: Mapping[str, Any], draft: options.Draft, model: str | None, heads: int
) -> dict[str, dict[str, Any]]:
    """By method, what the stack reads for its recommended shape; plain decoding needs nothing.

    The exporter's notes on each are left to `specplan plan --method NAME --stack ...`.
    """
    from ..stacks.exporting import DRAFT_MODEL

    record = aim.capability
    family = record.planned or record.family
    place.assumptions.append((f"{aim.name} drafts by {', '.join(record.methods)}; family {family}", record.source))
    place.inputs["stack"] = aim.name
    found = {}
    for name, row in rows.items():
        if row.plan is None or row.plan.recommended is None or not row.plan.recommended.nodes:
            continue
        apart = place.at_batch(place.load.batch)
        apart.inputs["exit_layer"] = row.method.exit_layer
        try:
            found[name] = in_planned(
                aim,
                apart,
                row.plan.recommended,
                free=row.plan.best.shape,
                method=name,
                draft=draft.draft[0] if draft.draft and name in DRAFT_MODEL else None,
                model=model,
                heads=heads if name == "medusa" else None,
            )
        except (InputError, DoesNotFit) as lack:
            place.notes.append(f"{name}: no settings for {aim.name}: {lack.message}")
    return found


def given_or_lowered(
    aim: Aim, place: scenes.Scene, given: options.Stack, tree: Any, acceptance: Any, costs: Any
) -> tuple[Any, Any]:
    """(tree, settings of a dynamic one): the tree that was given, or with --lower the best that the stack runs."""
    if tree is None or not given.lower:
        return tree, None
    from ..stacks.export import export

    found = export(tree, to=f"{aim.stack.name}@{aim.version}", lower=True, acceptance=acceptance, costs=costs)
    place.notes.extend(note for note in found.notes if note.startswith("in place of"))
    return found.tree, found.dynamic


def tree_in_stack(
    aim: Aim,
    place: scenes.Scene,
    acceptance: Any,
    limits: Any,
    costs: Any,
    given: tuple[Any, Any],
    draft: options.Draft,
    model: str | None,
) -> tuple[Any, dict[str, Any]]:
    """(the best shape that the stack runs, None for a given tree; what the stack reads for it)."""
    from ..search.best import best_tree
    from ..search.shape import shape_of
    from ..search.within import dynamic_shape, search_in

    best = free = None
    tree, dynamic = given
    if dynamic is not None:
        shape = dynamic_shape(dynamic, acceptance, costs)
    elif tree is not None:
        shape = shape_of(tree, acceptance, costs)
    else:
        drafts_by = "chain" if draft.draft or draft.draft_params else None
        best = search_in(aim.runnable(drafts_by))(acceptance, limits, costs)
        shape, free = best.shape, best_tree(acceptance, limits, costs).shape
    named = draft.draft[0] if draft.draft else None
    return best, in_planned(aim, place, shape, free=free, draft=named, model=model)


def loss(shape: Any, free: Any) -> float:
    """Share of tokens per second (without times: of tokens per round) that `shape` yields less than `free`."""
    if shape.speedup is not None and free.speedup is not None:
        return float(1 - shape.speedup / free.speedup)
    return float(1 - shape.tau / free.tau)


def stack_keys(aim: Aim, found: Any, shape: Any, lost: float | None) -> dict[str, Any]:
    """What a stack reads, for a document."""
    from ..render.export import as_text, binary_names

    return {
        "name": aim.stack.name,
        "version": aim.version,
        "family": aim.capability.family,
        "settings": found.settings,
        "nodes": shape.nodes,
        "width": shape.nodes + 1,
        "depth": shape.depth if shape.dynamic is None else shape.dynamic.steps,
        "loss": lost,
        "command": found.command,
        "environment": found.environment,
        "files": {name: as_text(content) for name, content in found.files.items()},
        "binary": binary_names(found.files),
    }


def _put_in(draft: str | None, method: str | None, place: scenes.Scene) -> str | None:
    """The draft as the stack is told of it: heads are no models, so a model's name is none of theirs."""
    from ..models.load import aliases
    from ..stacks.exporting import DRAFT_MODEL

    if draft is None or method in DRAFT_MODEL or draft.casefold() not in {name.casefold() for name in aliases()}:
        return draft
    place.notes.append(f"--draft {draft} is a model of its own and no draft of {method}: it is not put in")
    return None


def hub_name(name: str | None) -> str | None:
    """The name that stacks load a bundled model by; others as they are."""
    if name is None or Path(name).exists():
        return name
    from ..models.load import aliases

    known = aliases()
    stem = next((stem for alias, stem in known.items() if alias.casefold() == name.casefold()), None)
    if stem is None or "/" in name:
        return name
    return next((alias for alias, of in known.items() if of == stem and "/" in alias), name)
