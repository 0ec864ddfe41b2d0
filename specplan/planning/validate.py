"""A plan against what was measured: the error of each term, and the constants that would have made it right.

    Measured    what ran and what came out
    validate    terms with their errors, and the fitted overhead

>>> from ..acceptance.kinds import Independent
>>> from .plan import RoundCosts
>>> found = validate(Independent(0.6), RoundCosts([0.02, 0.021, 0.022]), [Measured("run", k=2, tau=2.0, round_s=0.025)])
>>> {name: round(term.error, 3) for name, term in found.terms.items()}
{'tau': -0.02, 'round_s': -0.12}
>>> round(found.fitted["overhead_s"].value, 4)
0.003
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..acceptance.kinds import Acceptance
from ..base.errors import InputError
from ..base.tree import TokenTree
from ..search.costs import RoundCosts
from ..search.shape import Shape, shape_of
from ..stacks.measured import Measured

TERMS = ("tau", "round_s", "tokens_per_s", "plain_tpot_s")


@dataclass(frozen=True)
class Term:
    """A predicted and a measured value; error = predicted / measured - 1."""

    predicted: float
    measured: float
    error: float


@dataclass(frozen=True)
class Point:
    """One measurement beside what the plan says of it."""

    source: str
    batch: int | None
    k: int | None
    nodes: int
    depth: int
    terms: Mapping[str, Term]


@dataclass(frozen=True)
class Fitted:
    """A constant that fits the measurements best, and its 95 % interval where three or more measurements leave one."""

    value: float
    interval: tuple[float, float] | None
    points: int


@dataclass(frozen=True)
class Validation:
    """The largest error of each term over all points, the points, and the constants that fit them."""

    terms: Mapping[str, Term]
    points: tuple[Point, ...]
    fitted: Mapping[str, Fitted]
    notes: tuple[str, ...] = field(default=())


def validate(
    acceptance: Acceptance, costs: RoundCosts, measured: Sequence[Measured], *, planned: Shape | None = None
) -> Validation:
    """The plan's numbers beside the measured ones, and what the overhead of a round must have been.

    planned   the shape of the plan: what a measurement ran that does not say it
    Raises    InputError when no measurement can be compared.
    """
    if costs.relative:
        raise InputError("the plan's times are multiples of a plain pass", hint="plan with a device or measured times")
    notes: list[str] = []
    points: list[Point] = []
    rounds: list[tuple[Shape, float]] = []
    plain: list[float] = []
    for one in measured:
        shape = _shape(one, acceptance, costs, planned, notes)
        if shape is None:
            continue
        notes += [note for note in one.notes if note not in notes]
        same = one.batch in (None, costs.batch)
        if not same:
            notes.append(
                f"{one.source}: batch {one.batch}, the plan is for {costs.batch}: only tokens per round compare"
            )
        terms = _terms(one, shape, same_batch=same)
        if not terms:
            continue
        points.append(Point(one.source, one.batch, one.k, shape.nodes, shape.depth, terms))
        if same and shape.nodes and "round_s" in terms:
            rounds.append((shape, terms["round_s"].measured))
        if "plain_tpot_s" in terms:
            plain.append(terms["plain_tpot_s"].measured)
    if not points:
        said = f": {notes[0]}" if notes else ""
        raise InputError(f"nothing measured can be compared with the plan{said}", hint="a run of the planned shape")
    worst = {
        name: max((p.terms[name] for p in points if name in p.terms), key=lambda term: abs(term.error))
        for name in TERMS
        if any(name in p.terms for p in points)
    }
    return Validation(worst, tuple(points), _fitted(costs, rounds, plain), tuple(dict.fromkeys(notes)))


def _shape(
    one: Measured, acceptance: Acceptance, costs: RoundCosts, planned: Shape | None, notes: list[str]
) -> Shape | None:
    """What the plan says of the shape that ran, None where it says nothing."""
    if one.dynamic is not None and one.dynamic.topk > 1:
        if planned is not None and planned.dynamic == one.dynamic:
            return planned
        at = one.dynamic
        notes.append(
            f"{one.source}: steps {at.steps}, topk {at.topk}, {at.nodes} nodes is not the planned shape and left out"
        )
        return None
    k = one.k if one.dynamic is None else one.dynamic.steps
    if k is None:
        if planned is None:
            notes.append(f"{one.source}: it does not say how many tokens were drafted")
        return planned
    if planned is not None and planned.nodes == planned.depth == k:
        return planned
    try:
        return shape_of(TokenTree.chain(k), acceptance, costs)
    except InputError as error:
        notes.append(f"{one.source}: K {k}: {error.message}")
        return None


def _terms(one: Measured, shape: Shape, *, same_batch: bool) -> dict[str, Term]:
    """The terms that both sides have."""
    if not shape.nodes:
        found = {"plain_tpot_s": (shape.round_s, one.round_s), "tokens_per_s": (shape.tokens_per_s, one.tokens_per_s)}
    else:
        found = {
            "tau": (shape.tau, one.tau),
            "round_s": (shape.round_s, one.round_s),
            "tokens_per_s": (shape.tokens_per_s, one.tokens_per_s),
        }
    return {
        name: Term(predicted, measured, predicted / measured - 1)
        for name, (predicted, measured) in found.items()
        if predicted is not None and measured is not None and measured > 0 and (same_batch or name == "tau")
    }


def _fitted(costs: RoundCosts, rounds: Sequence[tuple[Shape, float]], plain: Sequence[float]) -> dict[str, Fitted]:
    """The overhead of a round; with plain runs the scale of the verification, with several lengths the draft's."""
    fitted: dict[str, Fitted] = {}
    scale = 1.0
    if plain:
        fitted["verify_scale"] = _mean([seconds / costs.plain_s for seconds in plain])
        scale = fitted["verify_scale"].value
    left = [(shape.draft.total_s or 0.0, seconds - scale * (shape.verify_s or 0.0)) for shape, seconds in rounds]
    if len({draft for draft, _ in left}) >= 3:
        fitted["overhead_s"], fitted["draft_scale"] = _line(left)
    elif left:
        fitted["overhead_s"] = _mean([rest - draft for draft, rest in left])
    return fitted


def _mean(values: Sequence[float]) -> Fitted:
    mean = math.fsum(values) / len(values)
    if len(values) < 3:
        return Fitted(mean, None, len(values))
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return _around(mean, spread, len(values) - 1, len(values))


def _line(points: Sequence[tuple[float, float]]) -> tuple[Fitted, Fitted]:
    """Least squares y = a + b x: a and b."""
    n = len(points)
    x0, y0 = (math.fsum(values) / n for values in zip(*points))
    sxx = math.fsum((x - x0) ** 2 for x, _ in points)
    b = math.fsum((x - x0) * (y - y0) for x, y in points) / sxx
    a = y0 - b * x0
    if n < 3:
        return Fitted(a, None, n), Fitted(b, None, n)
    variance = math.fsum((y - a - b * x) ** 2 for x, y in points) / (n - 2)
    return (
        _around(a, math.sqrt(variance * (1 / n + x0 * x0 / sxx)), n - 2, n),
        _around(b, math.sqrt(variance / sxx), n - 2, n),
    )


def _around(value: float, error: float, freedom: int, points: int) -> Fitted:
    from scipy.special import stdtrit

    reach = float(stdtrit(freedom, 0.975)) * error
    return Fitted(value, (value - reach, value + reach), points)
