"""The program: verbs loaded on demand, errors in two lines, exit codes by the contract."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from .. import __version__
from ..base.errors import SpecplanError, did_you_mean
from .progress import METER

# verb -> what it does. The module of the same name in this package is imported when the verb is used.
VERBS = {
    "roofline": "What bounds a pass on a device: memory, compute, crossover, tokens per second.",
    "tree": "The best draft tree for a budget, or for a device.",
    "plan": "Does speculation pay here, how much, and with which tree?",
    "compare": "Methods of drafting side by side: chain, Medusa, EAGLE, MTP, LayerSkip, n-gram, ...",
    "advise": "Speculation that is running: keep it, change its shape, or turn it off.",
    "acceptance": "Acceptance from logs, metrics, benchmark files, counts; what a rule makes of given distributions.",
    "sweep": "The answer of plan over a grid, to CSV, JSON lines or Parquet; pivot tables and heat maps of it.",
    "report": "One HTML file to send: methods, charts, sliders for batch and acceptance.",
    "simulate": "Monte Carlo of rounds beside the analytic tokens per round.",
    "export": "A plan, a tree or lengths by batch size as a serving stack reads them.",
    "stacks": "Serving stacks: what each can run, in which versions, and what it reads.",
    "validate": "A plan against benchmark results: the error of each term, the overhead that fits.",
    "hardware": "Device profiles: list, show, check, new, import.",
    "models": "Models: list, show.",
    "measure": "Measure on this machine: device, curve, acceptance, and a decode against its plan.",
    "completion": "A script that completes verbs, options, devices, models and stacks in bash, zsh or fish.",
}

ClickException: Any = typer.BadParameter.__mro__[2]


class _AsTyped:
    """Leaves option values as the texts they are; typer would build a pydantic adapter for each (60 ms)."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return () if value is None and (param.multiple or param.nargs == -1) else value


def _leave_as_typed(params: list[Any]) -> list[Any]:
    for param in params:
        param.get_runtime_param = _AsTyped
    return params


class Command(TyperCommand):
    """A command whose help lists its options by group, in plain text."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _leave_as_typed(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record:
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Other", []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


class Verbs(TyperGroup):
    """A group that imports a verb only when it is used."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _leave_as_typed(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f".{cmd_name}", __package__)
        return typer.main.get_command(module.app)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in VERBS:
            raise typer.BadParameter(
                f"no command {args[0][:40]!r}|{did_you_mean(args[0], VERBS, otherwise='specplan --help lists them')}"
            )
        return super().resolve_command(ctx, args)


def new_app(**options: Any) -> typer.Typer:
    """A typer application in the plain style of specplan."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
        **options,
    )


app = new_app(cls=Verbs, no_args_is_help=True)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"specplan {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Does speculative decoding pay on your hardware, and with which tree?

    specplan roofline --gpu a100 --params 13e9

    specplan tree --p 0.6 --budget 14

    specplan plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6
    """


def run(argv: list[str]) -> int:
    """Run the command line; the exit code by the contract."""
    if sys.stdout is None:
        return _fail(_where(argv), "standard output is closed", "send it somewhere: > answer.txt", 4)
    try:
        with _progress(_where(argv)):
            result = typer.main.get_command(app).main(args=argv, prog_name="specplan", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except SpecplanError as error:
        return _fail(_where(argv), error.message, error.hint, error.exit_code)
    except typer.Exit as error:
        return int(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except (BrokenPipeError, SystemExit):
        # The reader has gone (typer turns that into SystemExit): nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        return _fail(_where(argv), f"cannot write: {error.strerror or error}", "check where the output goes", 4)
    except ClickException as error:
        return _usage(argv, error)
    except Exception as error:
        if os.environ.get("SPECPLAN_TRACEBACK"):
            raise
        hint = "please report this with the command; SPECPLAN_TRACEBACK=1 shows where it happened"
        return _fail(_where(argv), f"a bug in specplan: {type(error).__name__}: {str(error)[:200]}", hint, 70)


@contextlib.contextmanager
def _progress(what: str) -> Iterator[None]:
    """On a terminal, say every second that work goes on once it has taken one."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    import threading
    import time

    done, started = threading.Event(), time.monotonic()

    def tell() -> None:
        shown = False
        while not done.wait(1.0):
            line = f"{what}: working, {time.monotonic() - started:.0f} s {METER.text()}"
            sys.stderr.write(f"\r{line.ljust(len(what) + 70)}")
            sys.stderr.flush()
            shown = True
        if shown:
            sys.stderr.write("\r" + " " * (len(what) + 70) + "\r")
            sys.stderr.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _where(argv: list[str]) -> str:
    verb = next((word for word in argv if word in VERBS), "")
    return f"specplan {verb}".strip()


def _usage(argv: list[str], error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(f"{error.format_message()}\n")
        return 0
    message, _, hint = error.format_message().partition("|")
    for start in ("(Possible options:", "Did you mean"):
        head, found, tail = message.partition(start)
        if found:
            message, hint = head, f"did you mean {tail.strip(' ?).:')}?" if tail.strip() else hint
    message = message.replace("Invalid value: ", "").strip().rstrip(".")
    return _fail(_where(argv), message, hint or f"{_where(argv)} --help lists the options", 2)


def _fail(where: str, message: str, hint: str, code: int) -> int:
    first = " ".join(f"{where}: {message}".split())
    sys.stderr.write(f"{first}\n  hint: {' '.join(hint.split())}\n" if hint else f"{first}\n")
    return code
