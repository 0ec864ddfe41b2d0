"""specplan stacks"""

from typing import Annotated

import typer

from .app import Command, new_app
from .finish import finish
from .options import Output, command

app = new_app()


@app.command(cls=Command)
@command
def stacks(
    output: Output,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME[@VERSION]", help="One stack with all that is known.")
    ] = None,
) -> None:
    """Serving stacks: what each can run, in which versions, and what it reads.

    \b
    specplan stacks
    specplan stacks sglang
    """
    from dataclasses import replace

    from ..render.export import stack_answer, stacks_answer
    from ..stacks import registry

    if name is None:
        finish(stacks_answer(registry.stacks()), output)
        return
    stack, record, _ = registry.stack_of(name)
    finish(stack_answer(replace(stack, capabilities=(record,)) if "@" in name else stack), output)
