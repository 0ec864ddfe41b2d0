"""What a report holds: methods over batch sizes and acceptances, with the shapes that the sliders show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...acceptance.kinds import Acceptance
from ...base.tree import TokenTree
from ...planning.cells import Cell
from ...planning.compare import Row
from ...planning.views import best_chain, spans
from ...search.costs import RoundCosts
from ...search.shape import Shape
from ...timing.roofline import Roofline

# Nodes that a round gets to less often than this are too thin to be seen.
THINNEST = 0.001
# Widths of a stair that are kept.
WIDTHS = 400


@dataclass(frozen=True)
class Stop:
    """A stop of the acceptance slider.

    p   None for an acceptance that is not one number
    """

    label: str
    p: float | None


@dataclass(frozen=True)
class Survey:
    """Everything that is shown.

    rows       methods planned at the batch and the acceptance that were given
    missing    methods that could not be planned
    stops      of the acceptance slider; `given` is the place of the given one, None where none was given
    cells      by method: [batch][acceptance]
    unknown    methods without an acceptance where others have one: nothing stands at the given one
    lead       the method whose tree and stair are shown, None where none could be planned
    chances    the lead's acceptances, one a stop
    stairs     the lead's costs by batch
    roofline   of the target by width, ideal and calibrated; {} without a device and a model
    """

    rows: Mapping[str, Row]
    missing: Mapping[str, Row]
    batches: Sequence[int]
    batch: int
    stops: Sequence[Stop]
    given: int | None
    cells: Mapping[str, Sequence[Sequence[Cell | None]]]
    lead: str | None
    unknown: frozenset[str]
    chances: Sequence[Acceptance | None]
    stairs: Sequence[RoundCosts]
    roofline: Mapping[str, Sequence[Roofline]]

    @property
    def start(self) -> tuple[int, int]:
        """Where the sliders stand at first: at what was asked; without an acceptance where the lead begins to pay."""
        batch = self.batches.index(self.batch)
        if self.given is not None:
            return batch, self.given
        pays = (
            (i for i, at in enumerate(self.cells[self.lead][batch]) if at and at.shape.nodes) if self.lead else iter(())
        )
        return batch, next(pays, len(self.stops) - 1)


def short(value: float | None) -> float | None:
    """Four digits are more than the numbers are worth."""
    return None if value is None else float(f"{value:.4g}")


def page_data(survey: Survey) -> dict[str, Any]:
    """The survey as the page's script takes it.

    Cells are [nodes, depth, tokens a round, tokens/s, x plain], and [steps, topk] where an engine grows the tree.
    """
    batch, acceptance = survey.start
    cells = {name: [[_cell(at) for at in line] for line in grid] for name, grid in survey.cells.items()}
    curves = {name: [[_curve(at) for at in line] for line in grid] for name, grid in survey.cells.items()}
    return {
        "methods": list(survey.cells),
        "lead": survey.lead,
        "batches": list(survey.batches),
        "stops": [{"label": stop.label, "p": stop.p} for stop in survey.stops],
        "start": {"batch": batch, "acceptance": acceptance},
        "unknown": sorted(survey.unknown),
        "cells": cells,
        "curves": curves,
        "trees": [] if survey.lead is None else _trees(survey.cells[survey.lead], survey.chances),
        "stairs": [_stair(costs) for costs in survey.stairs],
        "relative": bool(survey.stairs) and survey.stairs[0].relative,
    }


def _cell(at: Cell | None) -> list[Any] | None:
    if at is None:
        return None
    shape, grown = at.shape, at.shape.dynamic
    settings = [[grown.steps, grown.topk]] if grown is not None and grown.topk > 1 else []
    return [shape.nodes, shape.depth, short(shape.tau), short(shape.tokens_per_s), short(shape.speedup), *settings]


def _curve(at: Cell | None) -> list[list[float | None]]:
    """[nodes, x plain] of shapes that draft."""
    return [] if at is None else [[nodes, short(value)] for nodes, value in sorted(at.by_nodes.items()) if nodes]


def _trees(grid: Sequence[Sequence[Cell | None]], chances: Sequence[Acceptance | None]) -> list[list[Any]]:
    return [
        [None if at is None or given is None else icicle(at.shape, given) for at, given in zip(line, chances)]
        for line in grid
    ]


def icicle(shape: Shape, acceptance: Acceptance) -> list[list[float]]:
    """[level, left, right, whether it is on the likeliest path] of each node that can be seen."""
    tree = TokenTree.from_parents(shape.parents, shape.ranks)
    reach = acceptance.reach(tree)
    left, best = spans(tree, reach), best_chain(tree, reach)
    return [
        [depth, round(left[i], 4), round(left[i] + reach[i], 4), int(i in best)]
        for i, depth in enumerate(tree.position_offsets)
        if reach[i] >= THINNEST
    ]


def _stair(costs: RoundCosts) -> list[list[float | None]]:
    """[width, milliseconds or plain passes]."""
    scale = 1.0 if costs.relative else 1e3
    stride = -(-len(costs.verify_s) // WIDTHS)
    widths = range(1, len(costs.verify_s) + 1, stride)
    return [[width, short(scale * costs.verify_s[width - 1])] for width in widths if costs.verify_s[width - 1] < 1e300]
