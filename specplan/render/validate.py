"""The answer of `specplan validate`: predicted and measured side by side, and the constants that fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..base import units
from ..planning.validate import TERMS, Fitted, Term, Validation
from .output import Answer, Table, answer_of

NAMES = {
    "tau": "tokens a round",
    "round_s": "round",
    "tokens_per_s": "tokens/s",
    "plain_tpot_s": "plain, a token",
    "overhead_s": "overhead of a round",
    "verify_scale": "verification, times the planned",
    "draft_scale": "draft passes, times the planned",
}


def validate_answer(
    found: Validation, inputs: Mapping[str, Any], *, tolerance: float | None, planned_overhead_s: float
) -> Answer:
    """The largest error of each term, every measurement, the fitted constants."""
    outside = [name for name, term in found.terms.items() if tolerance is not None and abs(term.error) > tolerance]
    rows = [
        (NAMES[name], _value(name, term.predicted), _value(name, term.measured), f"{term.error:+.1%}")
        for name, term in found.terms.items()
    ]
    parts = [Table(("largest error", "predicted", "measured", "error"), rows)]
    if len(found.points) > 1:
        parts.append(_points(found))
    if found.fitted:
        parts.append(_fitted(found, planned_overhead_s))
    return answer_of(
        "validate",
        verdict=_verdict(found, tolerance, outside),
        inputs={**inputs, "tolerance": tolerance},
        keys={
            "terms": {name: found.terms.get(name) for name in TERMS},
            "points": [replace(point, terms=dict(point.terms)) for point in found.points],
            "fitted": {
                name: None if name not in found.fitted else found.fitted[name].value
                for name in ("overhead_s", "verify_scale", "draft_scale")
            },
            "intervals": {name: constant.interval for name, constant in found.fitted.items()},
            "within_tolerance": None if tolerance is None else not outside,
        },
        parts=parts,
        why=_why(found, planned_overhead_s),
        notes=found.notes,
    )


def _verdict(found: Validation, tolerance: float | None, outside: list[str]) -> str:
    worst = max(found.terms.values(), key=lambda term: abs(term.error))
    name = next(name for name, term in found.terms.items() if term is worst)
    count = units.plural(len(found.points), "measurement")
    said = f"largest error {worst.error:+.1%}, {NAMES[name]}, over {count}"
    if tolerance is None:
        return f"Predicted against measured: {said}."
    if outside:
        return f"OUTSIDE {tolerance:.0%}: {', '.join(NAMES[name] for name in outside)}; {said}."
    return f"Within {tolerance:.0%}: {said}."


def _points(found: Validation) -> Table:
    terms = [name for name in TERMS if name in found.terms]
    rows = [
        (
            "" if point.batch is None else str(point.batch),
            str(point.nodes),
            *(_error(point.terms.get(name)) for name in terms),
        )
        for point in found.points
    ]
    return Table(("batch", "nodes", *(NAMES[name] for name in terms)), rows, "Errors by measurement")


def _error(term: Term | None) -> str:
    return "" if term is None else f"{term.error:+.1%}"


def _fitted(found: Validation, planned_overhead_s: float) -> Table:
    planned = {"overhead_s": planned_overhead_s, "verify_scale": 1.0, "draft_scale": 1.0}
    rows = [
        (NAMES[name], _value(name, planned[name]), _value(name, constant.value), _interval(name, constant))
        for name, constant in found.fitted.items()
    ]
    return Table(("fitted", "planned", "fits best", "95 %"), rows)


def _interval(name: str, constant: Fitted) -> str:
    if constant.interval is None:
        return f"{units.plural(constant.points, 'point')}: no interval"
    low, high = constant.interval
    return f"{_value(name, low)} to {_value(name, high)}"


def _value(name: str, value: float) -> str:
    if name.endswith("_s") and name != "tokens_per_s":
        return f"-{units.show_time(-value)}" if value < 0 else units.show_time(value)
    return f"{value:.1f}" if name == "tokens_per_s" else f"{value:.3f}"


def _why(found: Validation, planned_overhead_s: float) -> list[str]:
    """What to change in the plan."""
    overhead = found.fitted.get("overhead_s")
    if overhead is None:
        return []
    if overhead.value < 0:
        return ["The fitted overhead is below 0: the planned passes are too slow, which no overhead can mend."]
    if abs(overhead.value - planned_overhead_s) < 0.02 * max(overhead.value, planned_overhead_s):
        return []
    option = f"--overhead {overhead.value * 1000:.3g}ms"
    if len(found.fitted) > 1:
        return [f"These fit best together; {option} sets the overhead alone, a measured curve the passes."]
    return [f"Planned again with {option}, the rounds agree best."]
