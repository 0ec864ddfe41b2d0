"""How long a burst of tokens takes, and how often it is late.

Accepted lengths vary from round to round, so the time of a burst has a distribution. With X accepted tokens, a
round yields 1 + X of them; a burst of N tokens ends with the round that reaches N:

    P(X = d)      = P(X >= d) - P(X >= d + 1), from the survival of the levels
    P(R <= r)     = P(the yields of r rounds sum to at least N)
    burst_s       = ttft_s + R * round_s

The prefill yields the first generated token, which is not one of the N. Rounds are taken as independent; in a
mixture each round draws its context anew. The sums are convolutions, not a normal approximation.

>>> from specplan.acceptance.kinds import Independent
>>> counts = accepted_counts(Independent(0.6), TokenTree.full(2, 3))
>>> times = burst_times(Burst(60, deadline_s=0.3), counts, round_s=12.75e-3)
>>> round(times.p50_s, 4), round(times.p99_s, 4), round(times.probability, 3)
(0.2422, 0.306, 0.985)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..acceptance.kinds import Acceptance, Mixture
from ..base.errors import InputError
from ..base.tree import TokenTree
from ..search.best import Best, best_tree
from ..search.costs import RoundCosts
from ..search.optimize import best_trees
from ..search.rounds import evaluate
from ..search.shape import Shape, shape_of
from ..search.space import Space

MAX_TOKENS = 32_768
# Rounds beyond this remaining probability are given to the last one: far below what a percentile can see.
NEGLIGIBLE = 1e-15


@dataclass(frozen=True, slots=True)
class Burst:
    """What is asked for.

    tokens       generated tokens, without the first one, which the prefill yields
    deadline_s   None: only the distribution is wanted
    percentile   share of bursts that have to be in time, in (0, 1)
    ttft_s       time to the first token, added to every burst
    Raises       InputError for a number out of range
    """

    tokens: int
    deadline_s: float | None = None
    percentile: float = 0.99
    ttft_s: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MAX_TOKENS:
            raise InputError(f"a burst of {self.tokens} tokens", hint=f"give a whole number from 1 to {MAX_TOKENS}")
        if self.deadline_s is not None and not 0 < self.deadline_s < math.inf:
            raise InputError(f"a deadline of {self.deadline_s:g} s", hint="give a time above 0, such as 2s")
        if not 0 < self.percentile < 1:
            raise InputError(
                f"a percentile of {100 * self.percentile:g}", hint="give one between 0 and 100, such as 99"
            )
        if not 0 <= self.ttft_s < math.inf:
            raise InputError(f"a time to the first token of {self.ttft_s:g} s", hint="give a time, such as 0.3s")


@dataclass(frozen=True, slots=True)
class Times:
    """The distribution of the time of a burst, in seconds from the request.

    percentile_s   at the percentile that was asked for
    probability    of meeting the deadline; None without one
    """

    p50_s: float
    p95_s: float
    p99_s: float
    percentile_s: float
    mean_s: float
    probability: float | None


@dataclass(frozen=True)
class Met:
    """A shape that meets the deadline, and its times."""

    shape: Shape
    times: Times


def accepted_counts(acceptance: Acceptance, tree: TokenTree) -> list[float]:
    """P(a round accepts exactly d drafted tokens), d = 0..depth.

    >>> from specplan.acceptance.kinds import Independent
    >>> [round(share, 3) for share in accepted_counts(Independent(0.6), TokenTree.chain(2))]
    [0.4, 0.24, 0.36]
    """
    if isinstance(acceptance, Mixture):
        parts = [accepted_counts(part, tree) for part in acceptance.components]
        return [math.fsum(w * v for w, v in zip(acceptance.weights, values)) for values in zip(*parts)]
    reached = [1.0]
    for survival in acceptance.level_survival(tree):
        reached.append(min(survival, reached[-1]))
    return [here - below for here, below in zip(reached, [*reached[1:], 0.0])]


def rounds_needed(counts: Sequence[float], tokens: int, *, most: int | None = None) -> list[float]:
    """P(the burst ends with round r), r = 0, 1, 2, ...; what is left below 1e-15 goes to the last.

    counts   P(exactly d accepted), d = 0, 1, ...
    most     stop after so many rounds; the sum is then the probability of having ended by then

    >>> rounds_needed([0.5, 0.5], 2)
    [0.0, 0.5, 0.5]
    """
    import numpy as np

    yields = np.concatenate([[0.0], np.asarray(counts, dtype=float)])
    waiting = np.zeros(tokens)
    waiting[0] = 1.0
    left, ended = 1.0, [0.0]
    while left > NEGLIGIBLE and (most is None or len(ended) <= most):
        waiting = np.convolve(waiting, yields)[:tokens]
        before, left = left, float(waiting.sum())
        ended.append(max(before - left, 0.0))
    if most is None:
        ended[-1] += left
    return ended


def burst_times(burst: Burst, counts: Sequence[float], round_s: float) -> Times:
    """The distribution of the burst's time when every round takes `round_s`.

    counts   P(exactly d accepted), d = 0, 1, ..., as `accepted_counts` gives them
    """
    ended = rounds_needed(counts, burst.tokens)

    def at(share: float) -> float:
        return burst.ttft_s + round_s * _quantile(ended, share)

    mean = burst.ttft_s + round_s * math.fsum(r * p for r, p in enumerate(ended))
    met = None if burst.deadline_s is None else min(1.0, math.fsum(ended[: _rounds_in(burst, round_s) + 1]))
    return Times(at(0.5), at(0.95), at(0.99), at(burst.percentile), mean, met)


def plain_times(burst: Burst, plain_s: float) -> Times:
    """Plain decoding: one pass a token, no spread."""
    total = burst.ttft_s + burst.tokens * plain_s
    met = None if burst.deadline_s is None else float(_rounds_in(burst, plain_s) >= burst.tokens)
    return Times(total, total, total, total, total, met)


def _quantile(ended: Sequence[float], share: float) -> int:
    """The first round by which this share of bursts has ended."""
    total = 0.0
    for r, p in enumerate(ended):
        total += p
        if total >= share - 1e-12:
            return r
    return len(ended) - 1


def _rounds_in(burst: Burst, round_s: float) -> int:
    """Whole rounds that end by the deadline; a burst on the dot is in time."""
    assert burst.deadline_s is not None
    return max(0, math.floor((burst.deadline_s - burst.ttft_s) / round_s * (1 + 1e-12)))


# ---- which tree, which device


def tail(burst: Burst, tree: TokenTree, acceptance: Acceptance, costs: RoundCosts) -> Times:
    """The times of a burst with this tree; the empty tree is plain decoding.

    Raises  InputError when costs are multiples of a plain pass: a deadline needs seconds.
    """
    _require_seconds(costs)
    if not tree.nodes:
        return plain_times(burst, costs.plain_s)
    round_s = evaluate(tree, acceptance, **costs.arguments()).round_s
    return burst_times(burst, accepted_counts(acceptance, tree), round_s)


def _require_seconds(costs: RoundCosts) -> None:
    if costs.relative:
        raise InputError("a deadline needs seconds", hint="give the verification curve in ms or s, not as a ratio")


def smallest_tree(
    burst: Burst, acceptance: Acceptance, limits: Space, costs: RoundCosts, *, best: Best | None = None
) -> Met | None:
    """The fewest nodes that meet the deadline at the percentile; None when none does within `limits`.

    Plain decoding counts as 0 nodes. For every node count the fastest tree and the best tree of every depth are
    tried; among those of the smallest count that meets, the one with the lowest time at the percentile.

    best   the fastest trees, where they are known already

    >>> from specplan.acceptance.kinds import Independent
    >>> met = smallest_tree(Burst(60, 0.4), Independent(0.6), Space(14), RoundCosts(verify_s=[12.75e-3] * 15))
    >>> met.shape.nodes, met.shape.depth
    (4, 3)
    """
    if burst.deadline_s is None:
        return None
    _require_seconds(costs)
    for trees in _trees(acceptance, limits, costs, best):
        met = [tree for tree in trees if _meets(burst, tree, acceptance, costs)]
        if met:
            found = [Met(shape_of(tree, acceptance, costs), tail(burst, tree, acceptance, costs)) for tree in met]
            return min(found, key=lambda one: (one.times.percentile_s, one.times.mean_s))
    return None


def _trees(acceptance: Acceptance, limits: Space, costs: RoundCosts, best: Best | None) -> Iterator[list[TokenTree]]:
    """The trees that are tried, by rising node count."""
    yield [TokenTree.empty()]
    best = best or best_tree(acceptance, limits, costs)
    frontier = best_trees(acceptance, **limits.arguments()) if acceptance.by_node else None
    for row in best.candidates[1:]:
        found = {} if row.depth is None else dict.fromkeys([best.tree_with(row.nodes)])
        for depth in range(1, min(limits.depth, row.nodes) + 1):
            if frontier is not None and frontier.exact[depth][row.nodes] is not None:
                found[frontier.tree(row.nodes, depth)] = None
        yield list(found)


def _meets(burst: Burst, tree: TokenTree, acceptance: Acceptance, costs: RoundCosts) -> bool:
    """Whether the burst is in time often enough. Two bounds first: most tokens, and Markov's inequality."""
    if not tree.nodes:
        return plain_times(burst, costs.plain_s).probability == 1.0
    at = evaluate(tree, acceptance, **costs.arguments())
    rounds = _rounds_in(burst, at.round_s)
    if rounds * (tree.depth + 1) < burst.tokens or rounds * at.tau < burst.percentile * burst.tokens:
        return False
    ended = rounds_needed(accepted_counts(acceptance, tree), burst.tokens, most=rounds)
    return math.fsum(ended) >= burst.percentile - 1e-12


@dataclass(frozen=True)
class Offer:
    """A device that could serve the burst.

    price_per_hour   of all devices that share the model
    met              the smallest tree that meets the deadline there, None when none does
    """

    name: str
    price_per_hour: float
    met: Met | None


def offers(
    devices: Mapping[str, tuple[float, RoundCosts]], burst: Burst, acceptance: Acceptance, limits: Space
) -> list[Offer]:
    """Every device with the smallest tree that meets the deadline on it, cheapest first.

    devices   name -> (price per hour, costs of a round there)
    """
    found = [
        Offer(name, price, smallest_tree(burst, acceptance, limits, costs)) for name, (price, costs) in devices.items()
    ]
    return sorted(found, key=lambda offer: offer.price_per_hour)


def cheapest_device(
    devices: Mapping[str, tuple[float, RoundCosts]], burst: Burst, acceptance: Acceptance, limits: Space
) -> Offer | None:
    """The device with the lowest price per hour that meets the deadline; None when none does.

    >>> from specplan.acceptance.kinds import Independent
    >>> devices = {"slow": (1.0, RoundCosts(verify_s=[30e-3] * 9)), "fast": (3.0, RoundCosts(verify_s=[10e-3] * 9))}
    >>> cheapest_device(devices, Burst(60, 0.5), Independent(0.6), Space(8)).name
    'fast'
    """
    return next((offer for offer in offers(devices, burst, acceptance, limits) if offer.met is not None), None)


@dataclass(frozen=True)
class Deadline:
    """The answer on a burst; the times are of the recommended shape.

    meets      whether it is in time at the percentile; None without a deadline
    plain      the same burst by plain decoding
    smallest   the fewest nodes that meet the deadline; None when none does, or without a deadline
    """

    burst: Burst
    times: Times | None
    plain: Times
    meets: bool | None
    smallest: Met | None


def deadline(
    burst: Burst,
    acceptance: Acceptance | None,
    limits: Space,
    costs: RoundCosts,
    *,
    chosen: TokenTree,
    best: Best | None = None,
) -> Deadline:
    """The burst with the chosen tree, by plain decoding, and with the smallest tree that is in time.

    acceptance   None: only plain decoding can be told
    chosen       the recommended tree
    """
    _require_seconds(costs)
    plain = plain_times(burst, costs.plain_s)
    if acceptance is None:
        return Deadline(burst, None, plain, None, None)
    times = tail(burst, chosen, acceptance, costs)
    meets = None if times.probability is None else times.probability >= burst.percentile - 1e-12
    return Deadline(burst, times, plain, meets, smallest_tree(burst, acceptance, limits, costs, best=best))
