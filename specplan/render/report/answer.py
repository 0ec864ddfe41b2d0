"""The answer of `specplan report`: what is in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.units import show_bytes
from ...planning.cells import Cell
from ...planning.compare import Row
from ...planning.plan import Plan
from ..compare import best_row, comparison_assumptions, method_tables, reasons, short_shape, verdict_words
from ..output import Answer, Table, answer_of
from ..plan import verdict_words as plan_verdict
from .data import Survey


def report_answer(
    place: Any, survey: Survey, given: Mapping[str, Any], shared: Sequence[str], *, lead: str | None
) -> Answer:
    """The verdict, the best method by batch, and the cells that the sliders show.

    lead   method that was asked to lead; None: the verdict is that of the comparison
    """
    best = best_row(survey.rows)
    plan = survey.rows[lead].plan if lead is not None else None
    return answer_of(
        "report",
        verdict=verdict_words({**survey.rows, **survey.missing}, best)
        if plan is None
        else _led(plan, lead, survey.rows, best),
        inputs=place.inputs,
        keys={
            "file": None,
            "bytes": None,
            "lead": survey.lead,
            "methods": list(survey.cells),
            "not_planned": {name: row.reason for name, row in survey.missing.items()},
            "batches": list(survey.batches),
            "acceptances": survey.stops,
            "start": dict(zip(("batch", "acceptance"), survey.start)),
            "cells": {name: [[_keys(at) for at in line] for line in grid] for name, grid in survey.cells.items()},
        },
        parts=[_best_by_batch(survey)] if survey.cells and survey.given is not None else [],
        why=list(reasons(survey.rows, best, shared)),
        assumptions=comparison_assumptions(place, {**survey.rows, **survey.missing}, given, shared),
        notes=place.notes,
        warnings=place.warnings,
    )


def _led(plan: Plan, lead: str | None, rows: Mapping[str, Row], best: Row | None) -> str:
    """The plan's own verdict, and the method that would be better."""
    said = plan_verdict(plan).removesuffix(".")
    speedup = plan.verdict.speedup or 1.0
    other = None if best is None or best.plan is None or best.name == lead else best.plan.verdict.speedup
    return said + (f"; {best.name} would reach {other:.2f} x." if best and other and other > speedup * 1.01 else ".")


def _keys(at: Cell | None) -> dict[str, Any] | None:
    if at is None:
        return None
    names = ("nodes", "width", "depth", "tau", "tokens_per_s", "speedup")
    return {name: getattr(at.shape, name) for name in names}


def _best_by_batch(survey: Survey) -> Table:
    """The best method at each batch, at the acceptance that was given."""
    acceptance = survey.start[1]
    rows = []
    for i, batch in enumerate(survey.batches):
        known = [(at.shape, name) for name, grid in survey.cells.items() if (at := grid[i][acceptance]) is not None]
        if not known:
            rows.append((str(batch), "does not fit", "-", "-", "-"))
            continue
        shape, name = max(known, key=lambda pair: pair[0].speedup or 0.0)
        rate = "-" if shape.tokens_per_s is None else f"{shape.tokens_per_s:.1f}"
        rows.append(
            (
                str(batch),
                name if shape.nodes else "plain decoding",
                short_shape(shape),
                rate,
                f"{shape.speedup or 1:.3f}",
            )
        )
    return Table(("batch", "best method", "shape", "tokens/s", "x plain"), rows)


def details(survey: Survey, costs: Any) -> list[Table]:
    """Tables of the page: what the methods ask for, and those that could not be planned."""
    return [table for table in method_tables({**survey.rows, **survey.missing}, costs) if table.columns[0] != "method"]


def written(answer: Answer, path: str, size: int) -> Answer:
    """The answer with the file that holds it."""
    from dataclasses import replace

    document = {**answer.document, "file": path, "bytes": size}
    return replace(answer, document=document, why=[*answer.why, f"Report: {path}, {show_bytes(size)}."])
