"""specplan hardware list | show | check | new | import"""

import os
from typing import Annotated, Any

import typer

from ..base.errors import InputError
from . import values
from .app import Command, new_app
from .finish import finish
from .measuring import check_profile_path
from .options import Imported, Output, Printed, command

app = new_app(no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Device profiles."""


@app.command("list", cls=Command)
@command
def list_(output: Output) -> None:
    """All bundled device profiles."""
    from ..hardware.profile import hardware_names, load_hardware
    from ..render.hardware import list_answer

    finish(list_answer([load_hardware(name) for name in hardware_names()]), output)


@app.command(cls=Command)
@command
def show(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="Profile name, driver name or YAML file.")],
    output: Output,
) -> None:
    """One profile with its derived numbers and sources."""
    from ..hardware.profile import load_hardware
    from ..render.hardware import show_answer

    finish(show_answer(load_hardware(name)), output)


@app.command(cls=Command)
@command
def check(file: Annotated[str, typer.Argument(metavar="FILE", help="A profile of your own.")], output: Output) -> None:
    """Check a profile: units, sparse peaks, ratios, missing sources. Exit 1 on an error."""
    from ..hardware.profile import check_hardware
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
    import sys

    from ..hardware.profile import load_hardware, new_profile_text
    from ..render.output import write_whole

    text = new_profile_text(load_hardware(like))
    if not out:
        sys.stdout.write(text)
        return
    if os.path.exists(out):
        raise InputError(f"--out {out} exists", hint="choose another name; nothing was written")
    write_whole(out, text)


@app.command("import", cls=Command)
@command
def import_(imported: Imported, output: Printed) -> None:
    """Others' measured width curves (llama-bench, or a table) as a profile, without torch.

    \b
    llama-bench -m model.gguf -o json -p 1,2,4,8,16,32,64 -n 32 -d 0,2048 > bench.json
    specplan hardware import --llama-bench bench.json --out my-gpu.yaml
    specplan hardware import --csv curve.csv --gpu a100 --model llama-2-13b --dtype bf16 --out my-gpu.yaml
    """
    from ..hardware.profile import load_hardware, profile_text
    from ..render.measured import import_answer
    from ..render.output import write_whole
    from ..timing.measured import with_curves

    if (imported.llama_bench is None) == (imported.csv is None):
        raise InputError("nothing to import", hint="give --llama-bench FILE or --csv FILE, one of them")
    if imported.out is not None:
        check_profile_path("--out", imported.out)
    file = imported.llama_bench or imported.csv or ""
    curves, device, notes = _bench(imported, file) if imported.llama_bench else _table(imported, file)
    if imported.gpu is None and device is None:
        raise InputError(f"{file}: does not name a device", hint="say which was measured: --gpu a100")
    hardware = load_hardware(imported.gpu or device or "")
    source = f"imported from {os.path.basename(file)}"
    made = with_curves(hardware, curves, source=source + (" (llama-bench)" if imported.llama_bench else ""))
    if imported.out is not None:
        write_whole(imported.out, profile_text(made))
    inputs = {"file": file, "gpu": hardware.name}
    finish(import_answer(file, curves, inputs=inputs, written=imported.out, notes=notes), output.as_output())


def _bench(imported: Imported, file: str) -> tuple[Any, str | None, list[str]]:
    """(curves, device, notes) of a llama-bench file."""
    from ..stacks.llama_bench import read_llama_bench

    bench = read_llama_bench(
        values.read_file("--llama-bench", file),
        where=file,
        model=_model_name(imported.model),
        dtype=_dtype(imported.dtype),
    )
    return bench.curves, bench.device, list(bench.notes)


def _table(imported: Imported, file: str) -> tuple[Any, str | None, list[str]]:
    """(curves, None, notes) of a table; it names no device."""
    from ..base import units
    from ..timing.measured import curves_of_table

    model, params = _model_name(imported.model), values.read("--params", imported.params, units.parse_count)
    text = values.read_file("--csv", file)
    return curves_of_table(text, where=file, model=model, params=params, dtype=_dtype(imported.dtype)), None, []


def _model_name(given: str | None) -> str | None:
    """The bundled model's own name, so that --model finds the curve by any of its names."""
    from ..models.spec import load_model

    return None if given is None else load_model(given).name


def _dtype(given: str | None) -> str | None:
    from ..models.spec import weight_format

    with values.naming("--dtype"):
        return None if given is None else weight_format(given).name
