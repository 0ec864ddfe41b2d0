"""specplan plan"""

from .. import units
from . import inputs
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Device, Draft, More, Output, Shape, Target, Verify, command

app = new_app()


@app.command(cls=Command)
@command
def plan(
    device: Device,
    target: Target,
    draft: Draft,
    acceptance: Acceptance,
    shape: Shape,
    verify: Verify,
    more: More,
    output: Output,
) -> None:
    """Does speculation pay here, how much, and with which tree?

    \b
    specplan plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6

    Without an acceptance the break-even is printed: none is ever assumed.
    """
    from ..batch import schedule
    from ..plan import Costs, Limits, Plan
    from ..plan import plan as make_plan
    from ..render.plan import plan_answer

    batches = inputs.read("--batch", target.batch, units.parse_integers) or [1]
    target.batch = str(batches[0])
    place = inputs.scene(device, target)
    if verify.verify_curve is None:
        place.require()
    likely = inputs.acceptance(acceptance, shape)
    place.inputs["acceptance"] = inputs.described(acceptance, shape)
    tie = 0.01 if shape.tie is None else inputs.share("--tie", shape.tie)

    def plan_at(place: inputs.Scene) -> tuple[Plan, Costs, Limits]:
        costs = inputs.costs(place, draft, verify, most=inputs.read("--budget", shape.budget, units.parse_integer))
        limits = inputs.limits(shape, costs, inputs.crossover_width(place))
        if likely is not None:
            limits = inputs.chains_only_if_needed(place, likely, limits)
        place.inputs.update(budget=limits.nodes, max_depth=limits.depth, max_children=limits.children, tie=tie)
        return make_plan(likely, costs, limits, tie=tie, memory_of=inputs.memory_of(place, costs)), costs, limits

    answer, costs, limits = plan_at(place)
    stretches = None
    if len(batches) > 1 and likely is not None:
        stretches = schedule(sorted(set(batches)), lambda batch: plan_at(place.at_batch(batch))[0])
        place.inputs["batch"] = batches
    if verify.verify_curve is None and answer.recommended is not None:
        inputs.say_of_attention(place, answer.recommended.width)
    extra = inputs.extra(place, more, draft, verify)
    finish(
        plan_answer(place, answer, costs, limits, likely, stretches, extra),
        output,
        failed=answer.verdict.speculate is not True,
    )
