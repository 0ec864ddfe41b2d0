"""specplan plan"""

from typing import Any

from ..base import units
from . import chances, goals, methods, pricing, scenes, stack, values
from .app import Command, new_app
from .finish import check_plot, finish
from .options import (
    Acceptance,
    Baseline,
    Device,
    Draft,
    Goal,
    Methods,
    More,
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
def plan(
    device: Device,
    target: Target,
    base: Baseline,
    draft: Draft,
    how: Methods,
    acceptance: Acceptance,
    shape: Shape,
    verify: Verify,
    more: More,
    serving: Stack,
    goal: Goal,
    output: Output,
    plot: Plot,
) -> None:
    """Does speculation pay here, how much, and with which tree?

    \b
    specplan plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6

    Without an acceptance the break-even is printed: none is ever assumed. --tokens 60 --deadline 2s
    asks how often a burst is in time, --price-per-hour 2 what a million tokens costs.
    --stack vllm plans what vLLM can run and prints its settings; with --batch 1..256 lengths by batch size.
    """
    from ..planning.batch import most_tokens
    from ..planning.in_stack import plan_in_stack
    from ..planning.plan import Plan
    from ..planning.plan import plan as make_plan
    from ..render.plan import plan_answer
    from ..search.costs import RoundCosts
    from ..search.shape import shape_of
    from ..search.space import Space
    from .batches import each_its_own, one_or_chains

    check_plot(plot)
    batches = values.read("--batch", target.batch, units.parse_integers) or [1]
    target.batch = str(batches[0])
    aim = stack.aimed(serving)
    place = scenes.scene(device, target, serves=stack.names_of(aim))
    batches = scenes.batches_that_fit(place, batches)
    if verify.verify_curve is None:
        place.require()
    scenes.say_of_baseline(place, base.measured_tpot)
    wanted = methods.asked(how, shape, more.heads, more.max_rank, families=more.families)
    name = methods.only_one(wanted)
    if aim is not None:
        aim.takes(name)
    drafts_by = name or ("chain" if draft.draft or draft.draft_params else None)
    runnable = None if aim is None else aim.runnable(drafts_by, by_batch=len(batches) > 1)
    any_shape = None if aim is None else aim.runnable(drafts_by)
    methods.rate_of_drafted(place, acceptance, wanted.stop)
    likely = methods.exits_or(wanted, chances.acceptance(acceptance, shape, target))
    tree = chances.given_tree(shape, acceptance)
    chances.refuse_without_chains(likely)
    chances.warn_of_conditions(place, likely)
    place.inputs["acceptance"] = chances.described(acceptance, shape)
    tie = 0.01 if shape.tie is None else values.tie(shape.tie)

    def plan_at(place: scenes.Scene, runnable: Any = runnable) -> tuple[Plan, RoundCosts, Space]:
        most = values.read("--budget", shape.budget, units.parse_integer)
        costs = pricing.costs(place, draft, verify, most=most, drafted=name is None)
        limits = pricing.limits(shape, costs, scenes.crossover_width(place))
        if likely is not None:
            limits = chances.chains_only_if_needed(place, likely, limits)
        place.inputs.update(budget=limits.nodes, max_depth=limits.depth, max_children=limits.children, tie=tie)
        if name is not None:
            return methods.plan_at(place, costs, limits, draft, wanted, likely, tie, shape, tree, runnable)
        memory_of = pricing.memory_of(place, costs)
        if runnable is not None:
            found = plan_in_stack(likely, costs, limits, runnable, tie=tie, memory_of=memory_of)
        else:
            found = make_plan(likely, costs, limits, tie=tie, memory_of=memory_of)
        return found, costs, limits

    answer, costs, limits = plan_at(place)
    found = None
    if len(batches) > 1 and likely is not None:
        asked_for = sorted(set(batches))

        def costs_at(batch: int, nodes: int) -> RoundCosts:
            there = place.at_batch(batch)
            reaching = pricing.costs(there, draft, verify, most=max(nodes, 1), drafted=name is None)
            put_in = methods.repricer(place, draft, wanted, likely)
            return put_in(there, reaching) if put_in else reaching  # type: ignore[no-any-return]

        scheduled = aim is not None and aim.capability.takes_schedules(drafts_by)
        if aim is None or scheduled:
            found = each_its_own(
                asked_for, lambda batch: plan_at(place.at_batch(batch)), tie=tie if scheduled else None
            )
        if aim is not None and (not scheduled or any_shape != runnable):
            found = one_or_chains(
                place,
                aim.name,
                asked_for,
                lambda batch: plan_at(place.at_batch(batch), any_shape),
                costs_at,
                methods.acceptance_of(place, wanted, likely),
                found,
            )
        answer = (found and found.answer) or answer
        place.inputs["batch"] = batches
    joint = None if found is None else most_tokens(found.shapes)
    if verify.verify_curve is None and answer.recommended is not None:
        scenes.say_of_attention(place, answer.recommended.width)
    likely = methods.acceptance_of(place, wanted, likely)
    extra = pricing.extra(place, more, draft, verify, methods.repricer(place, draft, wanted, likely))
    asked = goals.asked(place, goal, answer, costs, limits, likely)
    given = None if tree is None or likely is None else shape_of(tree, chances.as_deep_as(place, tree, likely), costs)
    scenes.refuse_if_strict(place, output)
    keys = None
    if aim is not None and answer.recommended is not None and answer.best is not None:
        keys = stack.in_planned(
            aim,
            place,
            answer.recommended,
            free=answer.best.shape,
            stretches=None if found is None else found.stretches,
            method=drafts_by,
            draft=draft.draft[0] if draft.draft else None,
            model=target.model,
        )
    shown = plan_answer(
        place,
        answer,
        costs,
        limits,
        likely,
        None if found is None else found.stretches,
        extra,
        asked,
        given,
        keys,
        joint,
    )

    def sheet() -> Any:
        from ..render.figures.sheets import plan_sheet

        free = name != "specinfer"
        return plan_sheet(shown, place, answer, costs, limits, likely, {} if found is None else found.shapes, free=free)

    finish(shown, output, failed=answer.verdict.speculate is not True, plot=plot, sheet=sheet)
