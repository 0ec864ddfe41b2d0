"""The simplest model that reproduces an acceptance, with its error.

Candidates, simplest first: one rate at every position (independent), a rate that shrinks by a factor a position
(decaying), two kinds of text with a rate each (mixture), a rate for every position (positional).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..base.errors import InputError
from ..base.tree import TokenTree
from .by_k import ByK
from .kinds import Acceptance, Chain, Independent, Mixture

# A model whose accepted tokens are off by this share or more is not used without a word.
TOLERANCE = 0.05
LONGEST = 16


@dataclass(frozen=True)
class Fit:
    """A model and how far it is off.

    kind         independent, decaying, mixture or positional
    p            the rate, None for kinds that have several
    parameters   of the kind, by name
    error        largest relative error of the accepted tokens per round, over chains of 1 to the measured length;
                 None where a mean alone is known
    single_p_error  the same for the single rate, whatever kind was taken
    flagged      whether a single rate is off by the tolerance or more
    """

    kind: str
    p: float | None
    parameters: dict[str, float | list[float]]
    error: float | None
    single_p_error: float | None
    flagged: bool
    model: Acceptance


def fit(acceptance: Acceptance, *, tolerance: float = TOLERANCE) -> Fit:
    """The simplest model within `tolerance` of the accepted tokens of every chain up to the measured length.

    Where children are known, the chance that one of b children is accepted is compared too for the single rate.
    From a mean alone one rate is all there is, and its error cannot be told. Lengths by K are each compared with the
    one rate that gives the longest.
    Raises  InputError for a tolerance that is not above 0, and where no length of a chain is known.

    >>> found = fit(Chain.from_survival([0.77, 0.45, 0.24]))
    >>> found.kind, found.flagged, round(found.single_p_error, 2)
    ('decaying', True, 0.12)
    """
    if not tolerance > 0:
        raise InputError(f"tolerance {tolerance:g} is not above 0", hint="a share such as 0.05")
    if isinstance(acceptance, ByK):
        return _by_k(acceptance, tolerance)
    measured = survival_of(acceptance)
    if isinstance(acceptance, Chain) and acceptance.depth_free:
        p = acceptance.alpha[0]
        return Fit("independent", p, {"p": p}, None, None, False, Independent(p))
    single = Independent(_single_p(measured))
    off = max(_error(measured, survival_of(single, len(measured))), _sibling_error(acceptance, single))
    if off < tolerance:
        p = single.at(1)
        return Fit("independent", p, {"p": p}, off, off, False, single)
    kind, model, parameters, wrong = _simplest(measured, tolerance)
    return Fit(kind, None, parameters, wrong, off, True, model)


def _by_k(acceptance: ByK, tolerance: float) -> Fit:
    """One rate from the longest chain, compared with the lengths of the others."""
    if not acceptance.lengths:
        raise InputError("no chain was measured, so no rate can be fitted", hint="measure chains (topk 1)")
    k, tau = acceptance.lengths[-1]
    single = Independent(Chain.from_accept_length(tau, k).alpha[0])
    pairs = [(length - 1.0, single.accepted(TokenTree.chain(n))) for n, length in acceptance.lengths[:-1]]
    off = max((abs(b - a) / a if a else float(b > 1e-12) for a, b in pairs), default=None)
    flagged = off is not None and off >= tolerance
    if flagged:
        lengths: dict[str, float | list[float]] = {str(n): length for n, length in acceptance.lengths}
        return Fit("by_k", None, lengths, 0.0, off, True, acceptance)
    p = single.at(1)
    return Fit("independent", p, {"p": p}, off, off, False, single)


def extended(acceptance: Acceptance, depth: int) -> Acceptance:
    """The acceptance of a chain as deep as asked for: positions that were not measured follow the fitted model.

    A rate for every position says nothing of later ones: its last rate is held. Other kinds are left as they are.

    >>> [round(a, 3) for a in extended(Chain.from_survival([0.77, 0.45, 0.24]), 5).alpha]
    [0.77, 0.584, 0.533, 0.391, 0.313]
    """
    if not isinstance(acceptance, Chain) or acceptance.extends or len(acceptance.alpha) >= depth:
        return acceptance
    found = fit(acceptance)
    known = len(acceptance.alpha)
    if found.kind == "positional":
        later = [acceptance.alpha[-1]] * (depth - known)
        model = "the last measured rate is held"
    else:
        survival = survival_of(found.model, depth)
        later = [survival[i] / survival[i - 1] if survival[i - 1] else 0.0 for i in range(known, depth)]
        model = f"extrapolated by the model that fits the measured ones ({MODELS[found.kind]})"
    note = f"positions {known + 1} to {depth} were not measured: {model}"
    return replace(acceptance, alpha=(*acceptance.alpha, *later), notes=(*acceptance.notes, note))


# The models in words.
MODELS = {
    "independent": "one p",
    "decaying": "a p that shrinks with depth",
    "mixture": "two kinds of text with a p each",
    "positional": "a rate for every position",
    "by_k": "a length for every K",
}


def survival_of(acceptance: Acceptance, length: int | None = None) -> tuple[float, ...]:
    """P(at least i accepted) of a chain of first children, as long as was measured."""
    return tuple(acceptance.level_survival(TokenTree.chain(length or min(_measured_depth(acceptance), LONGEST))))


def _measured_depth(acceptance: Acceptance) -> int:
    """Positions that were measured; of a mixture, those of the part with the most."""
    if acceptance.max_depth is None and isinstance(acceptance, Mixture):
        return max(map(_measured_depth, acceptance.components))
    return acceptance.max_depth or getattr(acceptance, "measured_depth", None) or 1


def _accepted(survival: Sequence[float]) -> Iterator[float]:
    total = 0.0
    for value in survival:
        total += value
        yield total


def _error(measured: Sequence[float], model: Sequence[float]) -> float:
    pairs = zip(_accepted(measured), _accepted(model))
    return max((abs(b - a) / a if a else float(b > 1e-12) for a, b in pairs), default=0.0)


def _single_p(survival: Sequence[float]) -> float:
    """The rate whose chain of the measured length accepts as many tokens."""
    accepted = math.fsum(survival)
    chain = Chain.from_accept_length(1.0 + accepted, len(survival))
    return chain.alpha[0]


def _sibling_error(acceptance: Acceptance, single: Independent) -> float:
    """How far the chance that one of b children is accepted is off."""
    if not acceptance.siblings_known:
        return 0.0
    breadth = min(acceptance.breadth(acceptance.start(), 1) or 8, 8)
    fans = [TokenTree.full(count, 1) for count in range(1, breadth + 1)]
    pairs = [(acceptance.accepted(fan), single.accepted(fan)) for fan in fans]
    return max((abs(b - a) / a for a, b in pairs if a > 0), default=0.0)


Parameters = dict[str, float | list[float]]


def _simplest(survival: Sequence[float], tolerance: float) -> tuple[str, Acceptance, Parameters, float]:
    """The first candidate within the tolerance; the rates by position always are."""
    for kind, model, parameters in _candidates(survival):
        error = _error(survival, survival_of(model, len(survival)))
        if error < tolerance:
            return kind, model, parameters, error
    chain = Chain.from_survival(_falling(survival))
    return "positional", chain, {"alpha": list(chain.alpha)}, _error(survival, chain.survival)


def _candidates(survival: Sequence[float]) -> Iterator[tuple[str, Acceptance, Parameters]]:
    """Models of a few parameters for every position, simplest first."""
    p, decay = _decaying(survival)
    yield "decaying", Independent(p, decay), {"p": p, "decay": decay}
    high, low, share = _two_rates(survival)
    parts = (Independent(high), Independent(low))
    yield "mixture", Mixture(parts, (share, 1.0 - share)), {"p": [high, low], "weights": [share, 1.0 - share]}


def _falling(survival: Sequence[float]) -> list[float]:
    found: list[float] = []
    for value in survival:
        found.append(min(value, found[-1]) if found else value)
    return found


def _decaying(survival: Sequence[float]) -> tuple[float, float]:
    """p d^(i-1) at position i: for every factor the p that accepts as many tokens; the factor that fits best."""
    best = (math.inf, survival[0], 1.0)
    for step in range(40, 101):
        decay = step / 100
        p = _matching(survival, decay)
        error = _error(survival, _decayed(p, decay, len(survival)))
        best = min(best, (error, p, decay))
    return best[1], best[2]


def _decayed(p: float, decay: float, length: int) -> list[float]:
    values, survival = [], 1.0
    for i in range(length):
        survival *= p * decay**i
        values.append(survival)
    return values


def _matching(survival: Sequence[float], decay: float) -> float:
    wanted, low, high = math.fsum(survival), 0.0, 1.0
    for _ in range(40):
        p = (low + high) / 2
        if math.fsum(_decayed(p, decay, len(survival))) < wanted:
            low = p
        else:
            high = p
    return (low + high) / 2


def _two_rates(survival: Sequence[float]) -> tuple[float, float, float]:
    """Two rates and the share of the higher one: least squares in the share, over a grid of rates."""
    powers = [[(step / 50) ** i for i in range(1, len(survival) + 1)] for step in range(51)]
    best = (math.inf, 1.0, 0.0, 0.5)
    for h in range(1, 51):
        for low in range(h):
            share = _share(survival, powers[h], powers[low])
            model = [share * a + (1 - share) * b for a, b in zip(powers[h], powers[low])]
            best = min(best, (_error(survival, model), h / 50, low / 50, share))
    return best[1], best[2], best[3]


def _share(survival: Sequence[float], high: Sequence[float], low: Sequence[float]) -> float:
    gaps = [a - b for a, b in zip(high, low)]
    square = math.fsum(gap * gap for gap in gaps)
    wanted = math.fsum(gap * (s - b) for gap, s, b in zip(gaps, survival, low))
    return min(1.0, max(0.0, wanted / square)) if square else 0.5
