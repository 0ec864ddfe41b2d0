"""specplan acceptance"""

from typing import Annotated, Any

import typer

from ..base import units
from ..base.errors import InputError
from . import chances, values
from .app import Command, new_app
from .finish import check_plot, finish
from .options import Acceptance, Length, Live, Output, Plot, Probs, command

app = new_app()


@app.command(cls=Command)
@command
def acceptance(
    given: Acceptance,
    shape: Length,
    probs: Probs,
    live: Live,
    output: Output,
    plot: Plot,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[FILE[=WEIGHT]]...",
            help="Logs, metrics pages, benchmark files, tables, documents; - is stdin.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
) -> None:
    """Acceptance from whatever there is, as one document; and what a rule makes of given distributions.

    \b
    specplan acceptance vllm.log
    specplan acceptance code.log=0.3 chat.log=0.7 --json --out acceptance.json
    specplan acceptance monday.prom tuesday.prom --drift
    specplan acceptance --url http://localhost:8000/metrics --for 60s
    specplan acceptance --accept-length 2.8 --k 5
    specplan acceptance counts.csv --json --out acceptance.json
    specplan acceptance --target-probs 0.5,0.3,0.2 --draft-probs 0.4,0.4,0.2 --rule without_replacement
    """
    from ..render.acceptance import acceptance_answer, rule_answer

    check_plot(plot)
    given.acceptance = [*files, *given.acceptance]
    if live.for_ is not None and live.url is None:
        raise InputError("--for goes with --url", hint="--url http://localhost:8000/metrics --for 60s")
    if shape.k is not None and not (live.drift or given.accept_length or given.accept_rate):
        raise InputError("--k goes with --accept-length, --accept-rate or --drift", hint="leave it out")
    if live.drift:
        _refuse_plot(plot, "--drift")
        _drift(given, shape, output)
        return
    if probs.target_probs is None and probs.draft_probs is None:
        found = chances.acceptance(given, shape) if live.url is None else _live(live, given)
        if found is None:
            raise InputError(
                "no acceptance given", hint="a FILE, --accept-length 2.8 --k 5, --target-probs ..., see --help"
            )
        answer = acceptance_answer(found, chances.described(given, shape))

        def sheet() -> Any:
            from ..render.figures.sheets import acceptance_sheet

            return acceptance_sheet(answer, found)

        finish(answer, output, plot=plot, sheet=sheet)
        return
    _refuse_plot(plot, "--target-probs")
    if probs.target_probs is None or probs.draft_probs is None:
        raise InputError(
            "--target-probs and --draft-probs go together", hint="--target-probs 0.5,0.3,0.2 --draft-probs 0.4,0.4,0.2"
        )
    if chances.described(given, shape).keys() - {"rule"}:
        raise InputError("--target-probs and acceptance options both give the numbers", hint="leave one of them out")
    target = values.read("--target-probs", probs.target_probs, units.parse_list) or []
    draft = values.read("--draft-probs", probs.draft_probs, units.parse_list) or []
    count = len(target) if probs.children is None else values.positive("--children", probs.children)
    epsilon = 0.09 if probs.epsilon is None else values.share("--epsilon", probs.epsilon)
    delta = 0.3 if probs.delta is None else values.share("--delta", probs.delta)
    finish(rule_answer(target, draft, rule=given.rule or "strict", count=count, epsilon=epsilon, delta=delta), output)


def _refuse_plot(plot: Plot, option: str) -> None:
    if plot.plot is not None:
        raise InputError(f"--plot draws no picture of {option}", hint="leave --plot out")


def _live(live: Live, given: Acceptance) -> Any:
    """The acceptance of a running server."""
    from ..stacks.detect import read_url

    if given.acceptance:
        raise InputError("--url and a file both give the acceptance", hint="leave one of them out")
    for_s = values.read("--for", live.for_, units.parse_time)
    assert live.url is not None
    with values.naming("--url"):
        return read_url(live.url, for_s=for_s, **chances.hints(given))


def _drift(given: Acceptance, shape: Length, output: Output) -> None:
    """Two files or snapshots compared."""
    from ..acceptance.drift import drift
    from ..render.drift import drift_answer

    if len(given.acceptance) != 2:
        raise InputError(
            f"--drift compares two files, not {len(given.acceptance)}", hint="specplan acceptance A B --drift"
        )
    first, second = (chances.from_file(path, given, every=given.served is None) for path in given.acceptance)
    k = None if shape.k is None else values.positive("--k", shape.k)
    finish(drift_answer(drift(first, second, k=k), second, chances.described(given, shape)), output)
