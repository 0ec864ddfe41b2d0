"""specplan compare"""

from typing import Any

from . import scenes, stack
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
from .side_by_side import Given, side_by_side

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
    from ..methods.catalogue import METHODS
    from ..render.compare import compare_answer

    check_plot(plot)
    aim = stack.aimed(serving)
    place = scenes.scene(device, target, serves=stack.names_of(aim))
    asked = Given(target, base, how, of, draft, acceptance, shape, verify)
    found = side_by_side(place, asked, default=METHODS, aim=aim)
    scenes.refuse_if_strict(place, output)
    served = None if aim is None else stack.in_compared(aim, place, found.rows, draft, target.model, found.heads)
    answer = compare_answer(place, found.rows, found.costs, found.given, found.shared, served)

    def sheet() -> Any:
        from ..render.figures.sheets import compare_sheet

        return compare_sheet(answer, found.rows, found.given)

    pays = any(row.plan is not None and row.plan.verdict.speculate for row in found.rows.values())
    finish(answer, output, failed=not pays, plot=plot, sheet=sheet)
