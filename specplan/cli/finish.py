"""The last step of every command: print the answer, and the exit code that `--strict` asks for."""

import typer

from ..render.output import Answer, emit
from .options import Output


def finish(answer: Answer, output: Output, *, failed: bool = False) -> None:
    """Print `answer`; with --strict, exit with 1 if `failed`."""
    emit(answer, as_json=output.json, out=output.out, quiet=output.quiet, color=output.color)
    if failed and output.strict:
        raise typer.Exit(1)
