"""specplan models list | show"""

from typing import Annotated

import typer

from . import scenes
from .app import Command, new_app
from .finish import finish
from .options import Output, Stored, command

app = new_app(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Models."""


@app.command("list", cls=Command)
@command
def list_(output: Output) -> None:
    """All bundled models."""
    from ..models.spec import load_model, model_names
    from ..render.models import list_answer

    finish(list_answer({name: load_model(name) for name in model_names()}), output)


@app.command(cls=Command)
@command
def show(
    name: Annotated[str, typer.Argument(metavar="NAME|PATH", help="Bundled model, config.json or its directory.")],
    output: Output,
    stored: Stored,
) -> None:
    """Parameters, bytes, KV cache and geometry of a model."""
    from ..models.spec import load_model
    from ..render.models import show_answer

    model = scenes.with_formats(
        load_model(name),
        ("--dtype", stored.dtype),
        ("--weight-bits", stored.weight_bits),
        ("--kv-dtype", stored.kv_dtype),
    )
    finish(show_answer(model), output)
