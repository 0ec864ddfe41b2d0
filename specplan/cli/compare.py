"""specplan compare"""

from functools import partial
from typing import Any

from .. import units
from ..errors import InputError
from . import chances, methods, pricing, scenes, stack, values
from .app import Command, new_app
from .finish import check_plot, finish
from .options import (
    Acceptance,
    Baseline,
    Compared,
    Device,
    Draft,
    Methods,
    Output,
    Plot,
    Shape,
    Stack,
    Target,
    Verify,
    command,
)

app = new_app()


@app.command(cls=Command)
@command
def compare(
    device: Device,
    target: Target,
    base: Baseline,
    how: Methods,
    of: Compared,
    draft: Draft,
    acceptance: Acceptance,
    shape: Shape,
    verify: Verify,
    serving: Stack,
    output: Output,
    plot: Plot,
) -> None:
    """Methods of drafting side by side, each with its own cost, limits and best shape.

    \b
    specplan compare --gpu a100 --model llama-3-8b --draft llama-3.2-1b --p 0.6
    specplan compare --gpu a100 --model llama-3-8b --method eagle3 --method medusa --acceptance-of eagle3=0.75 --p 0.6

    Methods that lack an input stay in the table with the reason. The acceptance is the same for all
    unless --acceptance-of says otherwise. With --stack vllm each is planned inside what vLLM can run, and those
    that it does not draft by stay with the reason.
    """
    from ..compare import compare as put_side_by_side
    from ..methods import METHODS, Missing
    from ..render.compare import compare_answer

    check_plot(plot)
    place = scenes.scene(device, target)
    if verify.verify_curve is None:
        place.require()
    scenes.say_of_baseline(place, base.measured_tpot)
    wanted = methods.asked(how, shape, of.heads, of.max_rank, every=True)
    names = wanted.names or METHODS
    aim = stack.aimed(serving)
    if wanted.stop is not None and len(names) > 1:
        raise InputError("--drafted-per-round is of one method", hint="add that one --method, or use specplan plan")
    methods.rate_of_drafted(place, acceptance, wanted.stop)
    common = chances.acceptance(acceptance, shape)
    own = _own(of.acceptance_of, METHODS)
    for likely in (common, *own.values()):
        chances.warn_of_conditions(place, likely)
    chances.refuse_given_tree(shape, acceptance)
    tie = 0.01 if shape.tie is None else values.share("--tie", shape.tie)
    most = values.read("--budget", shape.budget, units.parse_integer)
    costs = pricing.costs(place, draft, verify, most=most, drafted=False)
    limits = pricing.limits(shape, costs, scenes.crossover_width(place))
    if common is not None:
        chances.chains_only_if_needed(place, common, limits)
    place.inputs.update(
        methods=list(names),
        acceptance=chances.described(acceptance, shape),
        acceptance_of=dict(entry.split("=", 1) for entry in of.acceptance_of),
        budget=limits.nodes,
        max_depth=limits.depth,
        max_children=limits.children,
        tie=tie,
    )
    builder = methods.Builder.at(place, costs, draft, wanted, common, alone=len(names) == 1)
    place.inputs["draft"] = [given.name for given in builder.drafts]

    def planned(name: str) -> Any:
        if aim is not None and name not in aim.capability.methods:
            raise Missing(f"{aim.name} does not draft by it")
        runnable = None if aim is None else aim.runnable(name)
        likely = own.get(name, common)
        plan_of = methods.planner(place, costs, limits, builder, tie, merged=name in own, runnable=runnable)
        method, plan = plan_of(name, likely)
        warnings = [text for text in methods.warnings_of(method, likely) if text not in place.warnings]
        place.warnings.extend(warnings)
        return method, plan

    rows = put_side_by_side({name: partial(planned, name) for name in names}, costs=costs, limits=limits)
    given = {name: own.get(name, common) for name in names}
    if wanted.exits and "layerskip" in rows and rows["layerskip"].method is not None:
        given["layerskip"] = wanted.exits[rows["layerskip"].method.exit_layer or 0]
    shared = [name for name in rows if rows[name].available and given[name] is common and common is not None]
    scenes.refuse_if_strict(place, output)
    served = None
    if aim is not None:
        served = stack.in_compared(aim, place, rows, draft, target.model, wanted.heads)
    answer = compare_answer(place, rows, costs, given, shared, served)

    def sheet() -> Any:
        from ..render.figures.sheets import compare_sheet

        return compare_sheet(answer, rows, given)

    pays = any(row.plan is not None and row.plan.verdict.speculate for row in rows.values())
    finish(answer, output, failed=not pays, plot=plot, sheet=sheet)


def _own(entries: list[str], known: tuple[str, ...]) -> dict[str, Any]:
    """METHOD=P or METHOD=FILE: acceptance of one method."""
    from ..acceptance import Independent
    from ..stacks.detect import read_acceptance

    own = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or name not in known or not value:
            raise InputError(
                f"--acceptance-of {entry[:60]!r} is not METHOD=P or METHOD=FILE", hint="--acceptance-of eagle3=0.75"
            )
        with values.naming("--acceptance-of"):
            own[name] = (
                Independent(values.share("--acceptance-of", value)) if _is_number(value) else read_acceptance(value)
            )
    return own


def _is_number(text: str) -> bool:
    return text.rstrip("%").replace(".", "", 1).isdigit()
