"""specplan plan"""

from .. import units
from . import inputs
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Device, Draft, Output, Shape, Target, Verify, command

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
    output: Output,
) -> None:
    """Does speculation pay here, how much, and with which tree?

    \b
    specplan plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6

    Without an acceptance the break-even is printed: none is ever assumed.
    """
    from ..plan import plan as make_plan
    from ..render.plan import plan_answer

    place = inputs.scene(device, target)
    if verify.verify_curve is None:
        place.require()
    likely = inputs.acceptance(acceptance, shape)
    place.inputs["acceptance"] = inputs.described(acceptance, shape)
    costs = inputs.costs(place, draft, verify, most=inputs.read("--budget", shape.budget, units.parse_integer))
    limits = inputs.limits(shape, costs, inputs.crossover_width(place))
    if likely is not None:
        limits = inputs.chains_only_if_needed(place, likely, limits)
    tie = 0.01 if shape.tie is None else inputs.share("--tie", shape.tie)
    place.inputs.update(budget=limits.nodes, max_depth=limits.depth, max_children=limits.children, tie=tie)
    answer = make_plan(likely, costs, limits, tie=tie, memory_of=inputs.memory_of(place, costs))
    finish(plan_answer(place, answer, costs, likely), output, failed=answer.verdict.speculate is not True)
