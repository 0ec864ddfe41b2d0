"""specplan export"""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import InputError
from . import chances, checking, options, stack, values
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Exported, Output, Served, command

app = new_app()


@app.command(cls=Command)
@command
def export(
    what: Exported,
    served: Served,
    acceptance: Acceptance,
    output: Output,
    file: Annotated[
        str | None, typer.Argument(metavar="PLAN|TREE", help="A plan's or a tree's JSON, a list of paths; - is stdin.")
    ] = None,
) -> None:
    """A plan, a tree or lengths by batch size as a serving stack reads them, ready to paste.

    \b
    specplan plan --gpu h100 --model llama-3-8b --method eagle3 --p 0.7 --stack sglang --json > plan.json
    specplan export plan.json --to sglang --draft org/eagle3-head
    specplan export tree.json --to medusa --heads 4 --out choices.json
    specplan export --schedule 1-4:4,5-16:2,17-512:0 --to vllm --method eagle3 --draft org/head
    specplan export --check "--speculative-num-steps 3 --speculative-eagle-topk 4" --to sglang
    specplan export plan.json --check config.yaml --to trtllm@1.4

    A shape with no form in the stack is refused (exit 3); --lower takes the best that it runs. --out writes
    the stack's file, or all of them into a folder. --check judges settings that are there already (exit 1 unless
    they are accepted as they are meant); beside a plan, a tree or --k, also whether they stand for that shape.
    """
    if what.check is not None:
        checking.check(None if _nothing(file, what) else _source(file, what), what, served, output)
        return
    from ..render.export import export_answer
    from ..stacks.export import export as exported

    if what.to is None:
        raise InputError("no stack given", hint="--to vllm; specplan stacks lists them")
    aim = stack.aim(what.to)
    source = _source(file, what)
    likely = chances.acceptance(acceptance, _shape(what))
    if what.sweep:
        from ..stacks.sweeps import sweep

        found = sweep(source, aim.stack, aim.capability, aim.version, **_wanted(served, what))
    else:
        found = exported(source, to=what.to, lower=what.lower, acceptance=likely, **_wanted(served, what))
    inputs = {
        "from": file,
        "to": what.to,
        "schedule": what.schedule,
        "k": what.k,
        "lower": what.lower,
        "acceptance": chances.described(acceptance, _shape(what)),
        **{key: value for key, value in vars(served).items() if value is not None},
    }
    answer = export_answer(found, inputs, at=output.out)
    if output.out is not None:
        _write(found, output.out)
    finish(answer, Output(**{**vars(output), "out": None}))


def _shape(what: Exported) -> options.Shape:
    """The shape options that reading an acceptance asks for."""
    given: dict[str, Any] = dict.fromkeys(options.Shape.declared())
    return options.Shape(**{**given, "k": what.k})


def _nothing(file: str | None, what: Exported) -> bool:
    """Whether no shape is given beside the settings that are judged."""
    return file is None and what.k is None and what.schedule is None


def _source(file: str | None, what: Exported) -> Any:
    """What is exported, from the one option that says it."""
    from ..base.tree import TokenTree
    from ..stacks import sources

    ways = {"PLAN|TREE": file, "--schedule": what.schedule, "--k": what.k}
    named = [option for option, value in ways.items() if value is not None]
    if not named:
        raise InputError("nothing to export", hint="a plan's or a tree's JSON, --schedule 1-4:4,5-16:2, or --k 5")
    if len(named) > 1 and named != ["PLAN|TREE", "--k"]:
        raise InputError(f"{named[0]} and {named[1]} both give the shape", hint="leave one of them out")
    if file is not None:
        source = sources.read_source(file)
        return _with_hub_names(source)
    if what.schedule is not None:
        with values.naming("--schedule"):
            ranges = sources.parse_schedule(what.schedule)
            from ..stacks.exporting import check_schedule

            check_schedule(ranges)
            return sources.of_lengths(ranges)
    assert what.k is not None
    return sources.Source(TokenTree.chain(values.positive("--k", what.k)))


def _with_hub_names(source: Any) -> Any:
    """Bundled models under the names that stacks load; what a plan calls its draft may be no name at all."""
    from dataclasses import replace

    from ..models.load import aliases

    known = {name.casefold() for name in aliases()}
    draft = source.draft if source.draft is not None and source.draft.casefold() in known else None
    return replace(source, draft=stack.hub_name(draft), model=stack.hub_name(source.model))


def _wanted(served: Served, what: Exported) -> dict[str, Any]:
    """What the options say beside the shape."""

    def number(option: str, text: str | None) -> int | None:
        return None if text is None else values.positive(option, text)

    return {
        "method": served.method,
        "model": stack.hub_name(served.model),
        "draft": stack.hub_name(served.draft),
        "max_batch": number("--max-batch", served.max_batch),
        "heads": number("--heads", served.heads),
        "max_rank": number("--max-rank", served.max_rank),
        "exit_layer": number("--exit-layer", served.exit_layer),
        "n_predict": number("--n-predict", served.n_predict),
        "synthetic": what.synthetic,
    }


def _write(found: Any, out: str) -> None:
    """The stack's one file, or all of them into a folder: whole, or not at all."""
    from ..render.output import to_json, write_all, write_whole

    files = found.files or {"settings.json": to_json(found.settings)}
    if len(files) > 1 or out.endswith("/") or Path(out).is_dir():
        write_all(out, files)
    else:
        [content] = files.values()
        write_whole(out, content)
