"""The answer of `specplan compare`: one table over methods, and what each asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..base.units import plural, show_bytes, show_share, show_time
from ..planning.compare import Row
from ..search.costs import RoundCosts
from ..search.shape import Shape
from .export import stack_parts
from .extra import NOTHING
from .output import Answer, Table, answer_of
from .plan import plan_keys
from .tree import acceptance_assumptions, cost_assumptions, exactness_words

# A method's keys where it could not be planned.
UNPLANNED: dict[str, Any] = dict.fromkeys(
    (
        "verdict",
        "break_even",
        "optimum",
        "recommended",
        "best_chain",
        "plain",
        "given",
        "time",
        "draft",
        "memory",
        "schedule",
        "joint",
        "deadline",
        "cost",
        "stack",
        "acceptance",
        "costs",
    )
)


def compare_answer(
    place: Any,
    rows: Mapping[str, Row],
    costs: RoundCosts,
    given: Mapping[str, Any],
    shared: Sequence[str],
    served: Mapping[str, Mapping[str, Any]] | None = None,
) -> Answer:
    """Verdict, the methods by speed-up, what they ask for, and those that could not be planned.

    given    acceptance by method
    shared   methods that were planned with the common acceptance
    served   by method, what the serving stack reads for its shape, where shapes are for one
    """
    assumptions = comparison_assumptions(place, rows, given, shared)
    best = best_row(rows)
    keys = {
        "best": None if best is None else best.name,
        "methods": {
            name: _method_keys(place, row, given[name]) | {"stack": (served or {}).get(name)}
            for name, row in rows.items()
        },
    }
    return answer_of(
        "compare",
        verdict=verdict_words(rows, best),
        inputs=place.inputs,
        keys=keys,
        parts=[*method_tables(rows, costs, served), *stack_parts((served or {}).get(best.name if best else ""))],
        why=[*reasons(rows, best, shared), *(exactness_words(given[best.name]) if best is not None else [])],
        assumptions=assumptions,
        notes=place.notes,
        warnings=place.warnings,
    )


def _method_keys(place: Any, row: Row, acceptance: Any | None) -> dict[str, Any]:
    own = {"available": row.available, "reason": row.reason, "needs": asdict(row.needs)}
    if row.plan is None or row.costs is None:
        return UNPLANNED | NOTHING | own
    return plan_keys(place, row.plan, row.costs, acceptance) | NOTHING | own


def best_row(rows: Mapping[str, Row]) -> Row | None:
    """The method with the best speed-up; None where nothing beats plain decoding, or no acceptance is known."""
    paying = [row for row in rows.values() if row.plan is not None and row.plan.verdict.speculate]
    return max(paying, key=lambda row: (row.plan.verdict.speedup or 0.0) if row.plan else 0.0) if paying else None


def verdict_words(rows: Mapping[str, Row], best: Row | None) -> str:
    planned = [row for row in rows.values() if row.plan is not None]
    if not planned:
        if len(rows) == 1:
            return "No verdict: " + "".join(f"{name} could not be planned: {row.reason}." for name, row in rows.items())
        return f"No verdict: none of the {len(rows)} methods could be planned."
    if best is None:
        unknown = all(row.plan is not None and row.plan.verdict.speculate is None for row in planned)
        if not unknown:
            return f"Do not speculate: none of {len(planned)} methods beats plain decoding."
        first = planned[0]
        even = first.plan.break_even if first.plan is not None else None
        p = "" if even is None or even.p is None else f"; {first.name} pays first, from p {even.p:.3f} up"
        return f"No verdict: no acceptance was given, and none is assumed{p}."
    shape = best.shape
    assert shape is not None
    assert best.plan is not None
    others = [row for row in planned if row is not best and row.shape is not None and row.shape.nodes]
    second = "" if not others else f"; next {others[0].name}, {others[0].shape.speedup or 1:.2f} x"  # type: ignore[union-attr]
    return f"Best: {best.name}, {best.plan.verdict.speedup:.2f} x plain decoding with {_shape_words(shape)}{second}."


def _shape_words(shape: Shape) -> str:
    if not shape.nodes:
        return "plain decoding"
    if shape.depth == shape.nodes:
        return f"a chain of {shape.nodes}"
    return f"a tree of {shape.nodes} nodes (verify width {shape.width}), depth {shape.depth}"


def reasons(rows: Mapping[str, Row], best: Row | None, shared: Sequence[str]) -> Iterator[str]:
    """Why the best method is, and what the comparison takes for granted."""
    if len(shared) > 1:
        yield (
            f"THE SAME ACCEPTANCE is used for {', '.join(shared)}. In truth methods differ more in acceptance than in "
            "cost: give each its own with --acceptance-of METHOD=P|FILE."
        )
    if best is not None and best.plan is not None:
        yield f"{best.name}: {best.plan.verdict.reason}."


# ---- tables


def method_tables(
    rows: Mapping[str, Row], costs: RoundCosts, served: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[Table]:
    """The methods by speed-up, what they ask for, and those that could not be planned."""
    planned = [row for row in rows.values() if row.plan is not None]
    if planned:
        columns = (
            "method",
            "shape",
            "tokens/round",
            "draft",
            "verify",
            "overhead",
            "tokens/s",
            "x plain",
            "break-even p",
        )
        cells = [*(_cells(row) for row in planned), _plain_cells(costs)]
        if served is None:
            yield Table((*columns, "memory"), cells)
        else:
            lost = [_lost(served.get(row.name)) for row in planned]
            yield Table((*columns, "memory", "lost to the stack"), [(*c, x) for c, x in zip(cells, [*lost, "-"])])
    asks = [
        (row.name, row.needs.training, row.needs.second_weights, row.needs.drift, _displaced(row), row.needs.exactness)
        for row in rows.values()
    ]
    yield Table(("asks for", "training", "second weights", "drift", "displaced", "exactness"), asks)
    missing = [(row.name, row.reason) for row in rows.values() if row.plan is None]
    if missing:
        yield Table(("not planned", "reason"), missing)
    no = [(row.name, row.reason) for row in planned if row.plan is not None and row.plan.verdict.speculate is False]
    if no:
        yield Table(("does not pay", "reason"), no)


def _cells(row: Row) -> tuple[str, ...]:
    plan, costs = row.plan, row.costs
    assert plan is not None
    assert costs is not None
    even = plan.break_even
    shape = plan.recommended
    needed = "-" if even is None or even.p is None else f"{even.p:.3f}"
    spent = "-" if plan.memory is None else show_bytes(plan.memory.freed_bytes)
    if shape is None:
        return (row.name, "-", "-", "-", "-", "-", "-", "-", needed, spent)
    parts = (shape.draft.total_s, shape.verify_s, shape.overhead_s)
    times = tuple("-" if part is None else _time(part, costs) for part in parts)
    between = plan.verdict.interval
    speed = f"{shape.speedup or 1:.3f}" + ("" if between is None else f" ({between[0]:.2f} to {between[1]:.2f})")
    rate = "-" if shape.tokens_per_s is None else f"{shape.tokens_per_s:.1f}"
    return (row.name, short_shape(shape), f"{shape.tau:.3f}", *times, rate, speed, needed, spent)


def _lost(keys: Mapping[str, Any] | None) -> str:
    """What the stack's shape yields less than the best of all; a gain where its trees adapt to the context."""
    if keys is None or keys["loss"] is None:
        return "-"
    return f"gains {-keys['loss']:.1%}" if keys["loss"] < -5e-4 else show_share(max(keys["loss"], 0.0), 2)


def _plain_cells(costs: RoundCosts) -> tuple[str, ...]:
    rate = "-" if costs.relative else f"{costs.batch / costs.plain_s:.1f}"
    return ("plain decoding", "-", "1.000", "-", _time(costs.plain_s, costs), "-", rate, "1.000", "-", "0 B")


def _time(seconds: float, costs: RoundCosts) -> str:
    return f"{seconds / costs.plain_s:.3f}" if costs.relative else show_time(seconds)


def short_shape(shape: Shape) -> str:
    """A shape in a few words."""
    if not shape.nodes:
        return "off"
    if shape.dynamic is not None and shape.dynamic.topk > 1:
        return f"steps {shape.dynamic.steps}, topk {shape.dynamic.topk}, {plural(shape.nodes, 'node')}"
    return f"chain of {shape.nodes}" if shape.depth == shape.nodes else f"{shape.nodes} nodes, depth {shape.depth}"


def _displaced(row: Row) -> str:
    """Memory that other requests lose: in sequences of this context, else in bytes."""
    memory = None if row.plan is None else row.plan.memory
    if memory is None:
        return "-"
    if memory.draft_kv_sequences is not None:
        return f"{memory.draft_kv_sequences:.1f} sequences"
    return show_bytes(memory.freed_bytes)


# ---- assumptions


def comparison_assumptions(
    place: Any, rows: Mapping[str, Row], given: Mapping[str, Any], shared: Sequence[str]
) -> list[tuple[str, str]]:
    """What is taken for granted, common things once."""
    return [*_said_of_acceptance(shared), *place.assumptions, *_said_of_methods(rows, given)]


def _said_of_acceptance(shared: Sequence[str]) -> list[tuple[str, str]]:
    if len(shared) < 2:
        return []
    text = f"THE SAME ACCEPTANCE for {', '.join(shared)}: an assumption that no measurement bears out"
    return [(text, "--acceptance-of METHOD=P|FILE")]


def _said_of_methods(rows: Mapping[str, Row], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What each method takes for granted; what several have in common is said once."""
    said: dict[tuple[str, str], list[str]] = {}
    for name, row in rows.items():
        if row.method is None:
            continue
        limits = [] if row.limits is None or row.method.max_depth is None else [_limit_words(row)]
        for entry in (*row.method.assumptions, *limits, *cost_assumptions(row.costs)):
            said.setdefault(entry, []).append(name)
        if given[name] is not None:
            for entry in acceptance_assumptions(given[name]):
                said.setdefault(entry, []).append(name)
    planned = [name for name, row in rows.items() if row.method is not None]
    return [
        (text if names == planned else f"{', '.join(names)}: {text}", source) for (text, source), names in said.items()
    ]


def _limit_words(row: Row) -> tuple[str, str]:
    assert row.method is not None
    levels, children = row.method.max_depth, row.method.max_children
    also = "" if children is None else f" and {children} children of a node"
    return f"drafts at most {levels} levels{also}", row.method.draft.name
