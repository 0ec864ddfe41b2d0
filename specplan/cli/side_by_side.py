"""Methods side by side from the options: what `compare` prints and `report` lets one move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base import units
from ..base.errors import InputError
from . import chances, methods, options, pricing, scenes, values

DRAFT_MODEL = "tree"
"""A draft model without --method: what `plan` plans from --draft alone."""


@dataclass(frozen=True)
class Given:
    """The option groups that name methods, their drafts, their load and their acceptance."""

    target: options.Target
    base: options.Baseline
    how: options.Methods
    of: options.Compared
    draft: options.Draft
    acceptance: options.Acceptance
    shape: options.Shape
    verify: options.Verify


@dataclass(frozen=True)
class SideBySide:
    """Methods planned for one place.

    rows      by name, the best first
    given     acceptance by method
    shared    methods that were planned with the common acceptance
    heads     of Medusa
    price     (method, batch) -> the method's costs and limits there
    """

    rows: dict[str, Any]
    costs: Any
    given: dict[str, Any]
    common: Any
    shared: list[str]
    tie: float
    heads: int
    price: Callable[[str, int], Any]


def side_by_side(place: scenes.Scene, asked: Given, *, default: tuple[str, ...], aim: Any = None) -> SideBySide:
    """Plan every method that was asked for, each with its own cost, limits and best shape.

    default   methods where no --method is given
    aim       serving stack within whose shapes each is planned; None: any shape of the method
    """
    from ..base.errors import Missing
    from ..methods.catalogue import METHODS
    from ..planning.compare import compare

    if asked.verify.verify_curve is None:
        place.require()
    scenes.say_of_baseline(place, asked.base.measured_tpot)
    wanted = methods.asked(asked.how, asked.shape, asked.of.heads, asked.of.max_rank, every=True)
    names = wanted.names or default
    if wanted.stop is not None and len(names) > 1:
        raise InputError("--drafted-per-round is of one method", hint="add that one --method, or use specplan plan")
    methods.rate_of_drafted(place, asked.acceptance, wanted.stop)
    common = chances.acceptance(asked.acceptance, asked.shape, asked.target)
    chances.refuse_without_chains(common)
    own = _own(asked.of.acceptance_of, METHODS, asked.target)
    for likely in (common, *own.values()):
        chances.warn_of_conditions(place, likely)
    chances.refuse_given_tree(asked.shape, asked.acceptance)
    tie = 0.01 if asked.shape.tie is None else values.share("--tie", asked.shape.tie)
    costs, limits = _target(place, asked)
    if common is not None:
        chances.chains_only_if_needed(place, common, limits)
    place.inputs.update(
        methods=list(names),
        acceptance=chances.described(asked.acceptance, asked.shape),
        acceptance_of=dict(entry.split("=", 1) for entry in asked.of.acceptance_of),
        budget=limits.nodes,
        max_depth=limits.depth,
        max_children=limits.children,
        tie=tie,
    )
    builder = methods.Builder.at(place, costs, asked.draft, wanted, common, alone=len(names) == 1)

    def runnable_of(name: str) -> Any:
        return None if aim is None else aim.runnable(None if name == DRAFT_MODEL else name)

    place.inputs["draft"] = [given.name for given in builder.drafts]

    def planned(name: str) -> Any:
        if aim is not None and name not in (*aim.capability.methods, DRAFT_MODEL):
            raise Missing(f"{aim.name} does not draft by it")
        runnable = runnable_of(name)
        likely = own.get(name, common)
        plan_of = methods.planner(place, costs, limits, builder, tie, merged=name in own, runnable=runnable)
        method, plan = plan_of(name, likely)
        warnings = [text for text in methods.warnings_of(method, likely) if text not in place.warnings]
        place.warnings.extend(warnings)
        return method, plan

    rows = compare({name: partial(planned, name) for name in names}, costs=costs, limits=limits)
    given = {name: own.get(name, common) for name in names}
    if wanted.exits and "layerskip" in rows and rows["layerskip"].method is not None:
        given["layerskip"] = wanted.exits[rows["layerskip"].method.exit_layer or 0]
    shared = [name for name in rows if rows[name].available and given[name] is common and common is not None]
    price = _pricer(place, asked, wanted, common, given, rows, runnable_of)
    return SideBySide(rows, costs, given, common, shared, tie, wanted.heads, price)


def _target(place: scenes.Scene, asked: Given) -> tuple[Any, Any]:
    """What the target's passes cost, and the limits of the search."""
    most = values.read("--budget", asked.shape.budget, units.parse_integer)
    costs = pricing.costs(place, asked.draft, asked.verify, most=most, drafted=False)
    return costs, pricing.limits(asked.shape, costs, scenes.crossover_width(place))


def _pricer(
    place: scenes.Scene,
    asked: Given,
    wanted: methods.Asked,
    common: Any,
    given: dict[str, Any],
    rows: dict[str, Any],
    runnable_of: Callable[[str], Any],
) -> Callable[[str, int], Any]:
    """Prices methods at other batch sizes; what is noted there is not repeated here."""
    from functools import cache

    from ..planning.cells import price_at

    timed = place.hardware is not None and place.model is not None

    @cache
    def at(batch: int) -> tuple[scenes.Scene, Any, Any, methods.Builder]:
        scene = place.at_batch(batch)
        costs, limits = _target(scene, asked)
        return scene, costs, limits, methods.Builder.at(scene, costs, asked.draft, wanted, common, alone=len(rows) == 1)

    def price(name: str, batch: int) -> Any:
        scene, costs, limits, builder = at(batch)
        method = builder.build(name, exit_layer=rows[name].method.exit_layer)
        within = methods.siblings(limits, given[name])

        def memory_of(priced: Any) -> Any:
            return pricing.memory_of(scene, priced) if timed else None

        return price_at(costs, within, method, memory_of, runnable_of(name))

    return price


def _own(entries: list[str], known: tuple[str, ...], target: options.Target) -> dict[str, Any]:
    """METHOD=P or METHOD=FILE: acceptance of one method."""
    from ..acceptance.kinds import Independent

    own = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or name not in known or not value:
            raise InputError(
                f"--acceptance-of {entry[:60]!r} is not METHOD=P or METHOD=FILE", hint="--acceptance-of eagle3=0.75"
            )
        if name in own:
            raise InputError(f"--acceptance-of {name} is given twice", hint="one acceptance for each method")
        with values.naming("--acceptance-of"):
            if _is_number(value):
                own[name] = Independent(values.share("--acceptance-of", value))
            else:
                own[name] = chances.at_context(chances.from_file(value, options.Acceptance.with_defaults()), target)
    return own


def _is_number(text: str) -> bool:
    try:
        float(text.rstrip("%"))
    except ValueError:
        return False
    return True
