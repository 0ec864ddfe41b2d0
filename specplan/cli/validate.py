"""specplan validate"""

from typing import Annotated, Any

import typer

from ..base.errors import InputError
from . import values
from .app import Command, new_app
from .finish import check_plot, finish
from .options import Output, Plot, Validated, command

app = new_app()


@app.command(cls=Command)
@command
def validate(
    measured: Validated,
    output: Output,
    plot: Plot,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The JSON of specplan plan; - is stdin.")],
) -> None:
    """A plan against benchmark results: the error of each term, and the overhead that fits.

    \b
    specplan plan --gpu h100 --model llama-3-8b --draft llama-3.2-1b --p 0.7 --batch 4 --json --out plan.json
    specplan validate plan.json --bench vllm_result.json
    specplan validate plan.json --bench sweep.csv --tolerance 15%

    Results of vllm bench serve, sglang.bench_serving, bench_speculative.py, SpecForge, llama.cpp's speed-bench and
    Spec-Bench are read, and a CSV of batch,k,tokens_per_s,tau (0 is plain decoding).
    """
    from ..planning.validate import validate as compare
    from ..render.validate import NAMES, validate_answer
    from ..search.shape import shape_of
    from ..stacks.bench_files import read_bench
    from ..stacks.sources import read_source

    check_plot(plot)
    if not measured.bench:
        raise InputError("no results to compare with", hint="--bench FILE, repeatable")
    source = read_source(plan)
    if source.acceptance is None or source.costs is None:
        raise InputError(
            f"{plan}: no plan with an acceptance and times",
            hint="specplan plan --gpu ... --p ... --json --out plan.json",
        )
    planned = shape_of(source.tree, source.acceptance, source.costs)
    if source.dynamic is not None:
        from dataclasses import replace

        planned = replace(planned, dynamic=source.dynamic)
    runs = [one for path in measured.bench for one in read_bench(path)]
    found = compare(source.acceptance, source.costs, runs, planned=planned)
    tolerance = values.tolerance(measured.tolerance)
    inputs = {"plan": plan, "bench": measured.bench, "batch": source.costs.batch, "nodes": source.tree.nodes}
    answer = validate_answer(found, inputs, tolerance=tolerance, planned_overhead_s=source.costs.overhead_s)

    def sheet() -> Any:
        from ..render.figures.sheets import terms_sheet

        return terms_sheet(answer, found.terms, NAMES, tolerance=tolerance)

    finish(answer, output, plot=plot, sheet=sheet)
    if tolerance is not None and any(abs(term.error) > tolerance for term in found.terms.values()):
        raise typer.Exit(1)
