"""Which figures each verb shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...base.tree import TokenTree
from ...planning.compare import Row
from ...planning.plan import BreakEven, Plan
from ...planning.views import positions, rank_rows, rate_grid
from ...search.costs import RoundCosts
from ...search.shape import Shape, shape_of
from ...search.space import Space
from ...timing.roofline import Roofline, roofline_path
from ..output import Answer
from ..sweep import Pivot
from .batch import draw_batch
from .heat import draw_heat, draw_lengths
from .measured import Compared, draw_curves, draw_ratios, measured_inches
from .methods import draw_break_even, draw_methods, methods_inches
from .over_p import draw_over_p
from .pivot import draw_pivot
from .positions import draw_positions, draw_ranks
from .roofline import draw_roofline
from .sheet import Panel, Sheet
from .stair import draw_stair
from .tree import draw_tree, tree_inches

# Widths that a stair shows at most, one by one; wider ones are thinned out.
STAIR_WIDTHS = 2048
KNEES = {"10 % slower": 0.1, "50 % slower": 0.5}


def roofline_sheet(answer: Answer, place: Any, widths: Sequence[int]) -> Sheet:
    """The roofline, and the stair of pass times."""
    chosen = max(widths)
    path = roofline_path(place.timer, place.load, chosen=chosen)
    last = max(chosen, round(1.5 * path["ideal"][0].crossover_width), 8)
    shown = range(1, last + 1, -(-last // STAIR_WIDTHS))
    load = replace(place.load, width=1)
    times = {
        name: dict(zip(shown, place.timer(time=name).table(load, [*shown, chosen]))) | _own(path[name], chosen)
        for name in ("calibrated", "ideal")
    }
    stair = partial(
        draw_stair,
        seconds=dict(sorted(times["calibrated"].items())),
        marked={"this pass": chosen},
        ideal=dict(sorted(times["ideal"].items())),
        limits=KNEES,
    )
    return Sheet(answer.verdict, [_roofline_panel(path, chosen), Panel(stair)])


def _own(path: Sequence[Roofline], chosen: int) -> dict[int, float]:
    return {r.width: r.pass_s for r in path if r.width == chosen}


def _roofline_panel(path: Mapping[str, Sequence[Roofline]], chosen: int) -> Panel:
    return Panel(partial(draw_roofline, ideal=path["ideal"], calibrated=path["calibrated"], chosen=chosen))


def terms_sheet(
    answer: Answer, terms: Mapping[str, Any], names: Mapping[str, str], *, tolerance: float | None
) -> Sheet:
    """Predicted over measured of each term; those that nothing predicts are left out.

    terms   by name, with `predicted` and `measured`, and `low` and `high` of the measurement where they are known
    names   in words
    """
    rows = [
        Compared(names[name], term.predicted, term.measured, getattr(term, "low", None), getattr(term, "high", None))
        for name, term in terms.items()
        if term.measured and term.predicted is not None
    ]
    draw = partial(draw_ratios, rows=rows, tolerance=tolerance)
    return Sheet(answer.verdict, [Panel(draw, inches=measured_inches(len(rows)))])


def curve_sheet(answer: Answer, tables: Sequence[Any], formulas: Sequence[Sequence[float]]) -> Sheet:
    """Measured width curves, each on the formula that was fitted to it where there is one.

    formulas   seconds by width from 1, for each table
    """
    modes = len({table.mode for table in tables}) > 1
    return Sheet(answer.verdict, [_curve_panel(table, times, modes) for table, times in zip(tables, formulas)])


def _curve_panel(table: Any, times: Sequence[float], modes: bool) -> Panel:
    widths, measured = [row.width for row in table.rows], [row.seconds for row in table.rows]
    name = f"pass of {table.model}, batch {table.load.batch}, context {table.load.context}"
    name += f", {table.mode}" if modes else ""
    spread = [(row.p20, row.p80) for row in table.rows]
    draw = partial(draw_curves, widths=widths, measured_s=measured, predicted_s=times, spread_s=spread, name=name)
    return Panel(draw)


def tree_sheet(answer: Answer, acceptance: Any | None, limits: Space | None, costs: RoundCosts | None) -> Sheet:
    """The tree with its place on the stair and in the landscape; over a range of p, tree against chain."""
    document = answer.document
    if document["parents"] is None or acceptance is None:
        return Sheet(answer.verdict, [_over_p(document)])
    tree = TokenTree.from_parents(document["parents"], document["ranks"])
    panels = [_tree_panel(tree, acceptance)] if tree.nodes else []
    if costs is not None:
        panels += [_stair_panel(costs, {"the tree": tree.width})]
    if costs is not None and limits is not None:
        shape = shape_of(tree, acceptance, costs)
        panels += [_landscape(acceptance, limits, costs, document["candidates"], shape, None)]
    return Sheet(answer.verdict, panels)


def _over_p(document: Mapping[str, Any]) -> Panel:
    if document["rows"]:
        return Panel(partial(draw_over_p, rows=document["rows"]))
    return _break_even_panel(document["break_even_table"])


def plan_sheet(
    answer: Answer,
    place: Any,
    plan: Plan,
    costs: RoundCosts,
    limits: Space,
    acceptance: Any | None,
    by_batch: Mapping[int, Shape],
    *,
    free: bool,
) -> Sheet:
    """Roofline, stair, tree, landscape, and speed-up by batch where several were asked for.

    free   True where any tree within the limits may be drafted
    """
    shown = plan.recommended or plan.plain
    timed = place.hardware is not None and place.model is not None
    panels = [_roofline_panel(roofline_path(place.timer, place.load, chosen=shown.width), shown.width)] if timed else []
    panels.append(_stair_panel(costs, {"recommended" if shown.nodes else "plain decoding": shown.width}))
    if plan.best is None:
        return Sheet(answer.verdict, [*panels, _break_even_panel(plan.break_even_table)])
    if shown.nodes:
        panels.append(_tree_panel(TokenTree.from_parents(shown.parents, shown.ranks), acceptance))
    if free:
        rows = plan.best.candidates
        panels.append(_landscape(acceptance, limits, costs, rows, plan.best.shape, plan.recommended))
    if len(by_batch) > 1:
        panels.append(Panel(partial(draw_batch, shapes=by_batch)))
    return Sheet(answer.verdict, panels)


def compare_sheet(answer: Answer, rows: Mapping[str, Row], given: Mapping[str, Any]) -> Sheet:
    """The methods as bars, and the tree of the best; without an acceptance, what each needs to pay."""
    planned = [row for row in rows.values() if row.shape is not None and row.plan is not None]
    if not any(row.plan.recommended for row in planned if row.plan):
        needed = [
            (row.name, row.plan.break_even.p)
            for row in planned
            if row.plan is not None and row.plan.break_even is not None and row.plan.break_even.p is not None
        ]
        return Sheet(answer.verdict, [_needed_panel(needed, "Acceptance that each method needs")])
    panels = [Panel(partial(draw_methods, rows=rows), wide=True, inches=methods_inches(len(planned)))]
    best = answer.document["best"]
    if best is not None:
        shape = rows[best].shape
        assert shape is not None
        panels.append(_tree_panel(TokenTree.from_parents(shape.parents, shape.ranks), given[best], name=best))
    return Sheet(answer.verdict, panels)


def acceptance_sheet(answer: Answer, acceptance: Any) -> Sheet:
    """Acceptance by position; by rank where siblings are known."""
    panels = [Panel(partial(draw_positions, positions=positions(acceptance)))]
    rows = rank_rows(acceptance)
    if rows and max(map(len, rows)) > 1:
        panels.append(Panel(partial(draw_ranks, rows=rows)))
    return Sheet(answer.verdict, panels)


# ---- panels that several verbs show


def sweep_sheet(answer: Answer, pivot: Pivot) -> Sheet:
    """A heat map of the pivot."""
    inches = min(12.0, max(3.2, 1.4 + 0.3 * min(len(pivot.row_values), 40)))
    return Sheet(answer.verdict, [Panel(partial(draw_pivot, pivot=pivot), inches=inches)])


def _tree_panel(tree: TokenTree, acceptance: Any, *, name: str | None = None) -> Panel:
    draw = partial(draw_tree, tree=tree, reach=acceptance.reach(tree), name=name)
    return Panel(draw, wide=tree.depth < tree.nodes, inches=tree_inches(tree))


def _stair_panel(costs: RoundCosts, marked: Mapping[str, int]) -> Panel:
    seconds = dict(enumerate(costs.verify_s, 1))
    return Panel(partial(draw_stair, seconds=seconds, marked=marked, limits=KNEES, relative=costs.relative))


def _landscape(
    acceptance: Any, limits: Space, costs: RoundCosts, candidates: Any, optimum: Shape, recommended: Shape | None
) -> Panel:
    """A heat map over nodes and levels; a curve over the nodes where only chains are looked at."""
    if limits.children == 1 or not acceptance.siblings_known or not optimum.nodes or limits.depth == 1:
        return Panel(partial(draw_lengths, candidates=candidates, optimum=optimum, recommended=recommended))
    holding = [shape for shape in (optimum, recommended) if shape is not None]
    grid = rate_grid(acceptance, limits, costs, holding=holding)
    return Panel(partial(draw_heat, grid=grid, optimum=optimum, recommended=recommended))


def _break_even_panel(table: Sequence[BreakEven]) -> Panel:
    needed = [(f"chain of {row.nodes}", row.p) for row in table if row.p is not None]
    return _needed_panel(needed, "Acceptance that chains need to pay")


def _needed_panel(needed: Sequence[tuple[str, float]], label: str) -> Panel:
    return Panel(partial(draw_break_even, needed=needed, label=label), inches=methods_inches(len(needed)))
