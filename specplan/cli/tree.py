"""specplan tree"""

from typing import Any

from ..base import units
from ..base.errors import InputError
from . import chances, pricing, scenes, stack, values
from .app import Command, new_app
from .finish import check_plot, finish
from .options import Acceptance, Device, Draft, Mask, More, Output, Plot, Shape, Stack, Target, Verify, command

app = new_app()
TENTHS = [round(0.1 * i, 1) for i in range(1, 10)]


@app.command(cls=Command)
@command
def tree(
    acceptance: Acceptance,
    shape: Shape,
    device: Device,
    target: Target,
    draft: Draft,
    verify: Verify,
    output: Output,
    plot: Plot,
    shown: Mask,
    more: More,
    serving: Stack,
) -> None:
    """The best draft tree: for a node budget, or per second with a device or measured curves.

    \b
    specplan tree --p 0.6 --budget 14
    specplan tree --p 0.6 --gpu a100 --model llama-2-13b --draft llama-68m
    specplan tree --child-prob 0.63,0.11,0.06 --verify-curve verify.csv --draft-pass 0.5ms
    """
    from ..render.tree import break_even_answer, sweep_answer, tree_answer

    check_plot(plot)
    ps = values.read("--p", acceptance.p, units.parse_shares) if acceptance.p and _is_range(acceptance.p) else None
    likely = None if ps else chances.acceptance(acceptance, shape, target)
    known = bool(ps) or likely is not None
    aim = stack.aimed(serving)
    drafts_by = "chain" if draft.draft or draft.draft_params else None
    if aim is not None and likely is None:
        raise InputError("--stack needs an acceptance to search with", hint="--p 0.6, --child-prob 0.6,0.2, ...")
    place = scenes.scene(device, target, serves=stack.names_of(aim))
    place.inputs["acceptance"] = chances.described(acceptance, shape)
    costs = pricing.costs(place, draft, verify, most=values.read("--budget", shape.budget, units.parse_integer))
    given = chances.given_tree(shape, acceptance)
    limits = None if given is not None else pricing.limits(shape, costs, scenes.crossover_width(place))
    if limits is not None:
        place.inputs.update(budget=limits.nodes, max_depth=limits.depth, max_children=limits.children)
    if likely is not None:
        chances.warn_of_conditions(place, likely)
        likely = chances.as_deep_as(place, given, likely)
        if given is None:
            chances.refuse_unknown_siblings(likely, limits if aim is None else aim.runnable(drafts_by).within(limits))
        best, keys = None, None
        if aim is not None:
            chosen = stack.given_or_lowered(aim, place, serving, given, likely, costs)
            given = chosen[0]
            best, keys = stack.tree_in_stack(aim, place, likely, limits, costs, chosen, draft, target.model)
        extra = pricing.extra(place, more, draft, verify)
        answer = tree_answer(place, likely, limits, costs, given, mask=shown.mask, extra=extra, best=best, stack=keys)
    elif known or costs is None or limits is None:
        decay = 1.0 if acceptance.decay is None else values.share("--decay", acceptance.decay)
        answer = sweep_answer(place, ps or TENTHS, limits, costs, given, decay=decay, known=known)
    else:
        answer = break_even_answer(place, limits, costs)

    def sheet() -> Any:
        from ..render.figures.sheets import tree_sheet

        return tree_sheet(answer, likely, limits, costs)

    finish(answer, output, failed=not known, plot=plot, sheet=sheet)


def _is_range(text: str) -> bool:
    return ".." in text or "," in text
