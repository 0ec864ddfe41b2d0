"""The last step of every command: draw and print the answer, and the exit code that `--strict` asks for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import typer

from ..render.output import Answer, emit
from .options import Output, Plot


def check_plot(plot: Plot) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    if plot.plot is not None:
        from ..render.figures.sheet import check_plot as check

        check(plot.plot, plot.plot_theme)


def finish(
    answer: Answer,
    output: Output,
    *,
    failed: bool = False,
    plot: Plot | None = None,
    sheet: Callable[[], Any] | None = None,
) -> None:
    """Print `answer`; with --plot draw its `sheet` first; with --strict, exit with 1 if `failed`."""
    if output.command is not None:
        inputs = {**answer.document["inputs"], "command": output.command}
        answer = replace(answer, document={**answer.document, "inputs": inputs})
    if plot is not None and plot.plot is not None and sheet is not None:
        from ..render.figures.sheet import write_sheet

        write_sheet(sheet(), plot.plot, theme=plot.plot_theme)
    emit(answer, as_json=output.json, out=output.out, quiet=output.quiet, color=output.color)
    if failed and output.strict:
        raise typer.Exit(1)
