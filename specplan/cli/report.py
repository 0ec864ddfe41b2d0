"""specplan report"""

import shlex
from functools import partial
from typing import Annotated, Any

import typer

from ..base import units
from ..base.errors import InputError, did_you_mean
from . import options, scenes, stack, values
from .app import Command, new_app
from .finish import finish
from .options import (
    Acceptance,
    Baseline,
    Compared,
    Device,
    Draft,
    Lead,
    Methods,
    Report,
    Said,
    Shape,
    Stack,
    Target,
    Verify,
    command,
)
from .side_by_side import DRAFT_MODEL, Given, SideBySide, side_by_side

app = new_app()

# Methods that a report shows where none is asked for: sequoia and specinfer draft what `tree` does, in other ways.
SHOWN = (DRAFT_MODEL, "chain", "medusa", "eagle", "eagle3", "mtp", "layerskip", "ngram")
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
MOST_BATCHES = 16
TENTHS = tuple(round(0.1 * i, 1) for i in range(1, 10))


@app.command(cls=Command)
@command
def report(
    device: Device,
    target: Target,
    base: Baseline,
    how: Methods,
    of: Compared,
    led: Lead,
    draft: Draft,
    acceptance: Acceptance,
    shape: Shape,
    verify: Verify,
    serving: Stack,
    to: Report,
    output: Said,
    document: Annotated[
        str | None,
        typer.Argument(metavar="[PLAN]", help="JSON document of plan or compare.", show_default=False),
    ] = None,
) -> None:
    """One HTML file that opens from disk: methods, charts, sliders for batch and acceptance.

    \b
    specplan plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6 --out plan.json
    specplan report plan.json --out report.html
    specplan report --gpu a100 --model llama-3-8b --draft llama-3.2-1b --p 0.6 --batch 1..64 --out report.html

    PLAN asks what its command asked, again; or give the options of plan or compare. With --stack every shape is one
    that the stack runs.
    """
    from ..render.report.page import Library

    path = _html(to.out)
    if document is not None:
        _refuse_both(document, (device, target, base, how, of, draft, acceptance, shape, verify, serving))
        _again(document, path, led.lead, output)
        return
    with Library() as library:
        batches = _batches(target, verify)
        aim = stack.aimed(serving)
        place = scenes.scene(device, target, serves=stack.names_of(aim))
        asked = Given(target, base, how, of, draft, acceptance, shape, verify)
        # In a stack the other methods say how it drafts with a model.
        shown = SHOWN if aim is None or led.lead == DRAFT_MODEL else SHOWN[1:]
        found = side_by_side(place, asked, default=shown, aim=aim)
        lead = _lead(led.lead, found.rows)
        survey = _survey(place, found, batches, lead)
        scenes.refuse_if_strict(place, output)
        place.inputs.update(batch=batches, command=output.command)
        if aim is not None:
            place.inputs["stack"] = aim.name
            place.assumptions.append((f"every shape is one that {aim.name} runs", "--stack"))
        answer = _write(path, place, found, survey, lead, library)
    pays = any(row.plan is not None and row.plan.verdict.speculate for row in found.rows.values())
    finish(answer, output, failed=not pays)


def _write(path: str, place: scenes.Scene, found: SideBySide, survey: Any, lead: str | None, library: Any) -> Any:
    """Write the file; the answer that says so."""
    from ..render.output import write_whole
    from ..render.report.answer import details, report_answer, written
    from ..render.report.page import page

    answer = report_answer(place, survey, found.given, found.shared, lead=lead)
    text = page(survey, answer, details(survey, found.costs), about=_about(place), library=library.text())
    write_whole(path, text)
    return written(answer, path, len(text.encode()))


def _html(out: str | None) -> str:
    if out is None:
        raise InputError("no file given for the report", hint="add --out report.html")
    if not out.lower().endswith((".html", ".htm")):
        raise InputError(f"--out {out[:80]}: a report is HTML", hint="--out report.html")
    return out


def _lead(asked: str | None, rows: dict[str, Any]) -> str | None:
    """The method that was asked to lead."""
    if asked is None:
        return None
    if asked not in rows or not rows[asked].available:
        planned = [name for name, row in rows.items() if row.available]
        why = f": {rows[asked].reason}" if asked in rows else ""
        raise InputError(
            f"--lead {asked[:30]!r} was not planned{why}",
            hint=did_you_mean(asked, planned, otherwise="one of " + ", ".join(planned)),
        )
    return asked


def _batches(target: Target, verify: Verify) -> list[int]:
    """Batch sizes of the slider, the one that was asked for first; `target` keeps that one."""
    given = values.read("--batch", target.batch, units.parse_integers) or [1]
    target.batch = str(given[0])
    if len(given) > 1:
        return [given[0], *_thinned(sorted(set(given) - {given[0]}))]
    measured = verify.verify_curve is not None
    return [given[0], *(() if measured else sorted(set(BATCHES) - {given[0]}))]


def _thinned(batches: list[int]) -> list[int]:
    """As many as a slider needs, evenly by their place on a log axis."""
    if len(batches) < MOST_BATCHES:
        return batches
    last, most = len(batches), MOST_BATCHES - 1
    return [batches[i] for i in sorted({min(last - 1, round(last ** (k / (most - 1))) - 1) for k in range(most)})]


def _survey(place: scenes.Scene, found: SideBySide, batches: list[int], lead: str | None) -> Any:
    """Every method at every batch and acceptance; what was planned already stands at its own place."""
    from ..planning.cells import Cell, curve_of, grid
    from ..render.report.data import Survey

    rows = {name: row for name, row in found.rows.items() if row.available}
    stops, given = _stops(found.common, found.given, rows)
    order = sorted(batches)
    cells = {}
    chances = {name: [_at(stop, found.given[name]) for stop in stops] for name in rows}
    for name, row in rows.items():
        cells[name] = grid(partial(found.price, name), order, chances[name], tie=found.tie)
        if given is not None and row.plan.best is not None:
            planned = Cell(row.plan.recommended or row.plan.plain, curve_of(row.plan.legal or row.plan.best))
            cells[name][order.index(batches[0])][given] = planned
    shown = lead or next(iter(rows), None)
    return Survey(
        rows=rows,
        missing={name: row for name, row in found.rows.items() if not row.available},
        batches=order,
        batch=batches[0],
        stops=stops,
        given=given,
        cells=cells,
        unknown=frozenset(name for name in rows if found.given[name] is None and given is not None),
        lead=shown,
        chances=[] if shown is None else chances[shown],
        stairs=[] if shown is None else [found.price(shown, batch).costs for batch in order],
        roofline=_rooflines(place),
    )


def _stops(common: Any, given: dict[str, Any], rows: dict[str, Any]) -> tuple[list[Any], int | None]:
    """Stops of the acceptance slider, and which of them is the given acceptance."""
    from ..acceptance.kinds import Independent
    from ..render.report.data import Stop

    if all(given[name] is None for name in rows):
        return [Stop(f"p {p:g}", p) for p in TENTHS], None
    if isinstance(common, Independent) and not isinstance(common.p, tuple) and common.decay == 1:
        ps = sorted({*TENTHS, common.p})
        at = ps.index(common.p)
        return [Stop(f"p {p:g}" + (", as given" if i == at else ""), p) for i, p in enumerate(ps)], at
    return [Stop("as given", None), *(Stop(f"p {p:g}", p) for p in TENTHS)], 0


def _at(stop: Any, given: Any) -> Any:
    """The acceptance of a method at a stop: its own at the given one, None where it has none there."""
    from ..acceptance.kinds import Independent

    return given if stop.p is None or "as given" in stop.label else Independent(stop.p)


def _rooflines(place: scenes.Scene) -> dict[str, Any]:
    if place.hardware is None or place.model is None:
        return {}
    from ..timing.roofline import roofline_path

    return roofline_path(place.timer, place.load)


def _about(place: scenes.Scene) -> str:
    """Device, model and load in one line."""
    inputs = place.inputs
    device = None if place.hardware is None else place.hardware.title or place.hardware.name
    model = None if place.model is None else f"{place.model.name} in {inputs['dtype']}"
    load = f"batch {place.load.batch}, context {place.load.context}"
    more = [f"tensor parallel {place.load.tp}"] if place.load.tp > 1 else []
    engine = [] if place.engine is None else [f"engine {place.engine.name}"]
    served = [f"shapes of {inputs['stack']}"] if "stack" in inputs else []
    return "; ".join(filter(None, [device, model, load, *more, *engine, f"{place.time} times", *served]))


# ---- a document


def _refuse_both(document: str, groups: tuple[options.Group, ...]) -> None:
    for group in groups:
        for name, option in type(group).declared().items():
            if getattr(group, name) not in (option.default, None):
                raise InputError(
                    f"{document} and {option.names[0]} both say what to report", hint="leave one of them out"
                )


def _again(document: str, path: str, lead: str | None, output: Said) -> None:
    """Run the command of a document as a report."""
    words, led = _command_of(document)
    lead = lead or led
    said = ["--json"] * output.json + ["--quiet"] * output.quiet + ["--strict"] * output.strict
    more = [*said, "--color", output.color, *([] if lead is None else ["--lead", lead]), "--out", path]
    code = typer.main.get_command(app).main(args=[*words, *more], prog_name="specplan report", standalone_mode=False)
    if code:
        raise typer.Exit(code)


def _command_of(document: str) -> tuple[list[str], str | None]:
    """The options of a document's command that a report takes, and the method that leads."""
    from ..base.files import parse_json, read_text

    where = "standard input" if document == "-" else document
    found = parse_json(read_text(document), where=where)
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema not in ("specplan.plan/1", "specplan.compare/1"):
        raise InputError(f"{where}: not a document of plan or compare", hint="specplan plan ... --out plan.json")
    inputs = found.get("inputs")
    command = inputs.get("command") if isinstance(inputs, dict) else None
    if not isinstance(command, str) or not command.startswith(("specplan plan", "specplan compare")):
        raise InputError(f"{where}: does not say its command", hint="write it again, or give the options to report")
    try:
        words = shlex.split(command)[2:]
    except ValueError:
        raise InputError(f"{where}: its command cannot be read", hint="write the document again") from None
    lead = None
    if schema == "specplan.plan/1":
        drafts = isinstance(inputs, dict) and inputs.get("draft") is not None
        lead = inputs.get("method") or (DRAFT_MODEL if drafts else None) if isinstance(inputs, dict) else None
    # A shape that the plan evaluated beside the best one; a report shows the best one.
    measured_at = any(word.startswith(("--accept-length", "--accept-rate", "--drafted-per-round")) for word in words)
    return _without(words, PLANS_ALONE | {"--from": True} | ({} if measured_at else {"--k": True})), lead


# Options of `plan` that ask for more than a report holds.
PLANS_ALONE = {
    option.names[0]: option.kind is not bool
    for group in (options.Goal, options.More)
    for name, option in group.declared().items()
    if name not in Compared.declared()
}


def _without(words: list[str], left_out: dict[str, bool]) -> list[str]:
    """The words without these options; the value says whether one takes a word with it.

    >>> _without(["--p", "0.6", "--tokens", "60", "--explain", "--gpu=a100"], {"--tokens": True, "--explain": False})
    ['--p', '0.6', '--gpu=a100']
    """
    kept, skip = [], False
    for word in words:
        name, tied, _ = word.partition("=")
        if skip:
            skip = False
        elif name in left_out:
            skip = left_out[name] and not tied
        else:
            kept.append(word)
    return kept
