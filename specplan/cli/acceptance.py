"""specplan acceptance"""

from typing import Annotated

import typer

from .. import units
from ..errors import InputError
from . import chances, values
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Output, Probs, Shape, command

app = new_app()


@app.command(cls=Command)
@command
def acceptance(
    given: Acceptance,
    shape: Shape,
    probs: Probs,
    output: Output,
    files: Annotated[
        list[str],
        typer.Argument(metavar="[FILE[=WEIGHT]]...", help="Acceptance documents or tables.", show_default=False),
    ] = [],  # noqa: B006
) -> None:
    """What acceptance numbers say, as one document; and what a rule makes of given distributions.

    \b
    specplan acceptance --accept-length 2.8 --k 5
    specplan acceptance counts.csv --json --out acceptance.json
    specplan acceptance --target-probs 0.5,0.3,0.2 --draft-probs 0.4,0.4,0.2 --rule without_replacement
    """
    from ..render.acceptance import acceptance_answer, rule_answer

    given.acceptance = [*files, *given.acceptance]
    if probs.target_probs is None and probs.draft_probs is None:
        found = chances.acceptance(given, shape)
        if found is None:
            raise InputError(
                "no acceptance given", hint="a FILE, --accept-length 2.8 --k 5, --target-probs ..., see --help"
            )
        finish(acceptance_answer(found, chances.described(given, shape)), output)
        return
    if probs.target_probs is None or probs.draft_probs is None:
        raise InputError(
            "--target-probs and --draft-probs go together", hint="--target-probs 0.5,0.3,0.2 --draft-probs 0.4,0.4,0.2"
        )
    target = values.read("--target-probs", probs.target_probs, units.parse_list) or []
    draft = values.read("--draft-probs", probs.draft_probs, units.parse_list) or []
    count = len(target) if probs.children is None else values.positive("--children", probs.children)
    epsilon = 0.09 if probs.epsilon is None else values.share("--epsilon", probs.epsilon)
    delta = 0.3 if probs.delta is None else values.share("--delta", probs.delta)
    finish(rule_answer(target, draft, rule=given.rule or "strict", count=count, epsilon=epsilon, delta=delta), output)
