"""specplan hardware list | show | check"""

from typing import Annotated

import typer

from ..errors import InputError
from . import values
from .app import Command, new_app
from .finish import finish
from .options import Output, command

app = new_app(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Device profiles."""


@app.command("list", cls=Command)
@command
def list_(output: Output) -> None:
    """All bundled device profiles."""
    from ..hardware import hardware_names, load_hardware
    from ..render.hardware import list_answer

    finish(list_answer([load_hardware(name) for name in hardware_names()]), output)


@app.command(cls=Command)
@command
def show(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Profile name, driver name or YAML file.")],
    output: Output,
) -> None:
    """One profile with its derived numbers and sources."""
    from ..hardware import load_hardware
    from ..render.hardware import show_answer

    finish(show_answer(load_hardware(name)), output)


@app.command(cls=Command)
@command
def check(file: Annotated[str, typer.Argument(metavar="FILE", help="A profile of your own.")], output: Output) -> None:
    """Check a profile: units, sparse peaks, ratios, missing sources. Exit 1 on an error."""
    from ..hardware import check_hardware
    from ..render.hardware import check_answer

    problems = check_hardware(values.read_file("FILE", file), where=file)
    finish(check_answer(file, problems), output)
    if any(problem.severity == "error" for problem in problems):
        raise typer.Exit(1)


@app.command(cls=Command)
@command
def new(
    like: Annotated[str, typer.Option("--like", metavar="NAME", help="Profile to start from.")],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Write here; refused when the file exists.")] = "",
) -> None:
    """A commented starting file for a device of your own."""
    import os
    import sys

    from ..hardware import load_hardware, new_profile_text
    from ..render.output import write_whole

    text = new_profile_text(load_hardware(like))
    if not out:
        sys.stdout.write(text)
        return
    if os.path.exists(out):
        raise InputError(f"--out {out} exists", hint="choose another name; nothing was written")
    write_whole(out, text)
