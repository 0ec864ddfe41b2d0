"""specplan tree"""

from .. import units
from ..errors import InputError
from . import inputs
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Device, Draft, Mask, Output, Shape, Target, Verify, command

app = new_app()


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
    shown: Mask,
) -> None:
    """The best draft tree: for a node budget, or per second with a device or measured curves.

    \b
    specplan tree --p 0.6 --budget 14
    specplan tree --p 0.6 --gpu a100 --model llama-2-13b --draft llama-68m
    specplan tree --child-prob 0.63,0.11,0.06 --verify-curve verify.csv --draft-pass 0.5ms
    """
    from ..render.tree import sweep_answer, tree_answer

    ps = (
        None
        if acceptance.p is None or not _is_range(acceptance.p)
        else inputs.read("--p", acceptance.p, units.parse_shares)
    )
    likely = None if ps else inputs.acceptance(acceptance, shape)
    if likely is None and not ps:
        raise InputError(
            "no acceptance given",
            hint="--p 0.6, --child-prob, --acceptance FILE, ...; `specplan plan` shows the break-even without one",
        )
    place = inputs.scene(device, target)
    place.inputs["acceptance"] = inputs.described(acceptance, shape)
    costs = inputs.costs(place, draft, verify, most=inputs.read("--budget", shape.budget, units.parse_integer))
    given = inputs.given_tree(shape, acceptance)
    limits = None if given is not None else inputs.limits(shape, costs, inputs.crossover_width(place))
    if limits is not None:
        place.inputs.update(budget=limits.nodes, max_depth=limits.depth, max_children=limits.children)
    if ps:
        finish(sweep_answer(place, ps, acceptance, limits, costs, given), output)
        return
    if given is None:
        inputs.refuse_unknown_siblings(likely, limits)
    finish(tree_answer(place, likely, limits, costs, given, mask=shown.mask), output)


def _is_range(text: str) -> bool:
    return ".." in text or "," in text
