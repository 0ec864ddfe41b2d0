"""specplan sweep"""

import contextlib
import itertools
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..base.errors import EnvironmentProblem, InputError
from . import options, values
from .app import Command, new_app
from .finish import check_plot, finish
from .grid import Wanted, fill
from .grid_options import Chances, Devices, Drafts, Grid, Limit, Rows, Targets, Ways
from .options import Group, Plot, command
from .progress import METER

app = new_app()

MOST_POINTS = 50_000_000
MOST_LISTED = 100_000


@app.command(cls=Command)
@command
def sweep(
    device: Devices,
    target: Targets,
    draft: Drafts,
    how: Ways,
    acceptance: Chances,
    shape: Limit,
    grid: Grid,
    output: Rows,
    plot: Plot,
) -> None:
    """The answer of `plan` over a grid: devices, models, methods, batches, contexts, acceptances.

    \b
    specplan sweep --gpu a100,h100 --model llama-3-8b --method eagle3,medusa --batch 1,8,64 --p 0.5..0.9
    specplan sweep --grid grid.yaml --out grid.parquet --jobs 8
    specplan sweep --table grid.parquet --pivot batch,context,speedup --plot grid.svg

    Rows come in the order of the grid, the same from one process, from many and from a Dask cluster.
    An interrupted sweep goes on where it stopped when the same command is given again.
    """
    from ..render.rows import check_format
    from ..render.sweep import pivot_names

    check_plot(plot)
    names = None if grid.pivot is None else pivot_names(grid.pivot)
    if plot.plot is not None and names is not None:
        _refuse_words(names[2])
    groups = (device, target, draft, how, acceptance, shape)
    if grid.table is not None:
        _answer_from(grid.table, names, groups, grid, output, plot)
        return
    if grid.grid is not None:
        fill(groups, grid.grid)
    if output.out is not None:
        check_format(output.out)
    wanted = Wanted(device, target, draft, how, acceptance, shape)
    if wanted.points > MOST_POINTS:
        raise InputError(f"{wanted.points} points are more than {MOST_POINTS}", hint="a coarser grid, or several")
    if output.out is None and wanted.points > MOST_LISTED:
        raise InputError(f"{wanted.points} points need a file", hint="--out FILE.csv, .jsonl or .parquet")
    names = names or (wanted.longest_axes() if plot.plot is not None else None)
    jobs = values.positive("--jobs", grid.jobs) if grid.jobs is not None else _cores()
    with _executor(jobs, grid.scheduler, wanted) as executor:
        _run(wanted, executor, names, grid, output, plot)


def _refuse_words(column: str) -> None:
    """A heat map is of numbers."""
    from ..render.rows import TYPES

    if TYPES[column] is str:
        raise InputError(f"--plot draws numbers, {column} is words", hint="--pivot batch,context,speedup")


# ---- running it


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _executor(jobs: int, scheduler: str | None, wanted: Wanted) -> Iterator[Any]:
    """Where chunks are evaluated: a Dask cluster, processes, or None for here."""
    from ..planning.sweep import POINTS

    if scheduler is not None:
        with _cluster(scheduler) as executor:
            yield executor
    elif jobs == 1 or wanted.points <= POINTS // 16:
        yield None
    else:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        kinds = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in kinds else "spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """An interrupt is the parent's to handle."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise EnvironmentProblem("--scheduler needs Dask", hint="pip install 'specplan[dask]'") from None
    try:
        client: Any = distributed.Client(address, timeout=10)  # type: ignore[no-untyped-call, unused-ignore]
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:120]
        raise EnvironmentProblem(
            f"--scheduler {address[:80]}: {reason}", hint="is a scheduler running there? dask scheduler starts one"
        ) from None
    with client:
        yield client.get_executor(pure=False)


def _run(wanted: Wanted, executor: Any, names: Any, grid: Grid, output: Rows, plot: Plot) -> None:
    """Evaluate what is not there yet, write the file, and answer."""
    from ..planning.sweep import chunks
    from ..render.rows import Partial, read_csv_text, values_of
    from ..render.sweep import Summary, pivoted

    todo = chunks(wanted.cells, wanted.loads, wanted.chances)
    if output.out is None:
        texts: list[str] = []
        found = Summary()
        rate = _evaluate(todo, executor, texts.append, found, wanted.points)
        listed = [values_of(cells) for cells in read_csv_text("".join(texts))]
        pivot = None if names is None else pivoted(listed, names)
    else:
        partial = Partial(output.out, wanted.fingerprint())
        todo, kept = _after(todo, partial.rows(restart=grid.restart))
        with partial.adding(kept) as add:
            found = Summary.of(partial.lines()) if kept else Summary()
            if kept:
                wanted.notes.append(f"{kept} of {wanted.points} points were there already, from an interrupted sweep")
            try:
                rate = _evaluate(todo, executor, add, found, wanted.points)
            except KeyboardInterrupt:
                points = found.whole.points
                sys.stderr.write(f"note: {points} points are kept in {partial.path}; the same command goes on\n")
                raise
        listed = None
        pivot = None if names is None else pivoted(map(values_of, partial.lines()), names)
        partial.finish()
    if not output.quiet and not output.json and rate:
        sys.stderr.write(f"note: {_round(rate)} points a second\n")
    _finish(wanted.inputs, found, output, plot, listed=listed, pivot=pivot, wanted=wanted)


def _evaluate(todo: Iterator[Any], executor: Any, add: Callable[[str], Any], found: Any, points: int) -> float:
    """Hands the rows of each chunk to `add` and what is said of them to `found`; returns points a second."""
    from ..planning.sweep import sweep as swept
    from ..render.sweep import evaluate

    started, before, done = time.monotonic(), found.whole.points, 0
    rate = 0.0
    for text, summary in swept(todo, evaluate, executor):
        add(text)
        found.add(summary)
        done += summary.whole.points
        rate = done / (time.monotonic() - started)
        METER.tell((before + done) / points, f"{_round(rate)} points/s")
    return rate


def _round(rate: float) -> str:
    """Two digits are what a rate is good for.

    >>> _round(23456.7)
    '23000'
    """
    digits = 1 - math.floor(math.log10(rate)) if rate > 0 else 0
    return f"{round(rate, digits):.0f}" if rate >= 10 else f"{rate:.2g}"


def _after(todo: Iterator[Any], kept: int) -> tuple[Iterator[Any], int]:
    """The chunks behind those whose rows are all there, and how many rows those have."""
    there = 0
    for chunk in todo:
        if there + chunk.points > kept:
            return itertools.chain([chunk], todo), there
        there += chunk.points
    return iter(()), there


def _answer_from(path: str, names: Any, groups: Sequence[Group], grid: Grid, output: Rows, plot: Plot) -> None:
    """The answer from the rows of an earlier sweep."""
    from ..render.rows import cells_from, read_rows
    from ..render.sweep import AXES, Summary, longest_axes, pivoted

    given = [
        type(group).declared()[name].names[0]
        for group in groups
        for name, option in type(group).declared().items()
        if getattr(group, name) not in (None, option.default)
    ]
    if given or grid.grid:
        raise InputError(
            f"--table holds rows that are computed: {(given or ['--grid'])[0]} changes nothing", hint="leave it out"
        )
    if output.out is not None:
        raise InputError("--table and --out: the rows are in a file already", hint="leave --out away")
    counts: dict[str, set[Any]] = {name: set() for name in AXES}

    def told() -> Iterator[Any]:
        for row in read_rows(path):
            for name, seen in counts.items():
                seen.add(row.get(name))
            yield cells_from(row)

    found = Summary.of(told())
    if plot.plot is not None and names is None:
        names = (*longest_axes({name: len(seen) for name, seen in counts.items()}), "speedup")
    if not found.groups and plot.plot is not None:
        raise InputError(f"{path} has no rows to draw", hint="specplan sweep --out writes them")
    pivot = None if names is None else pivoted(read_rows(path), names)
    _finish({"table": path}, found, output, plot, pivot=pivot)


def _finish(
    inputs: dict[str, Any],
    found: Any,
    output: Rows,
    plot: Plot,
    *,
    listed: Any = None,
    pivot: Any = None,
    wanted: Wanted | None = None,
) -> None:
    from ..render.sweep import sweep_answer

    answer = sweep_answer(
        inputs,
        found,
        assumptions=() if wanted is None else wanted.assumptions,
        notes=() if wanted is None else wanted.notes,
        file=output.out if wanted is not None else None,
        listed=listed if output.json or wanted is None or wanted.points <= MOST_LISTED else None,
        pivot=pivot,
    )

    def sheet() -> Any:
        from ..render.figures.sheets import sweep_sheet

        return sweep_sheet(answer, pivot)

    shown = options.Output(**{name: getattr(output, name) for name in options.Output.declared()} | {"out": None})
    finish(answer, shown, failed=not found.whole.paying, plot=plot, sheet=sheet)
