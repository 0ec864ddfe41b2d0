"""How likely a drafted token is the accepted one.

    Acceptance                     counts, rule and temperature travel with every kind
    |- ByDepth                     the probability depends on depth and rank only
    |  |- Independent              p (1-p)^k: each candidate accepted with probability p
    |  |- Positional               one vector of child probabilities for every depth
    |  |- DepthTable               one vector per depth
    |  `- Chain                    conditional rates by position; says nothing about siblings
    |- Paths                       measured probability of each whole path
    `- Mixture                     shares of rounds, each with its own acceptance

Depth is 1 for the root's children, rank is 0 for the first child. `child_prob[k]` is the probability
that the k-th child is the accepted one given that its parent was accepted; it is not conditioned on
the siblings, so a vector sums to at most 1.

    >>> Independent(0.6).accepted(TokenTree.chain(3))
    1.176
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from .errors import InputError, did_you_mean
from .tree import Path, TokenTree, read_path

# Sums of measured shares may exceed 1 by rounding; float32 vectors of 32 entries stay below 1e-6.
SUM_SLACK = 1e-6
SLACK = 1e-9

# Children are tested in order (child k needs children 0..k-1), or any subset of ranks may be drafted.
SCHEMES = {"ordered": False, "without_replacement": False, "ranked": True, "topk": True}

RULES = ("strict", "without_replacement", "topk", "membership", "membership_without_replacement", "greedy", "typical")


# ---- checking numbers


def _number(value: Any, what: str, *, hint: str = "give a number") -> float:
    """A finite float; text, booleans and None are refused."""
    if isinstance(value, (bool, str, bytes)) or value is None:
        raise InputError(f"{what} is {str(value)[:40]!r}", hint=hint)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} is {str(value)[:40]!r}", hint=hint) from None
    if not math.isfinite(number):
        raise InputError(f"{what} is {number}", hint=hint)
    return number


def _probability(value: Any, what: str) -> float:
    hint = "a probability lies between 0 and 1; write 0.6, not 60"
    number = _number(value, what, hint=hint)
    if not -SLACK <= number <= 1 + SLACK:
        raise InputError(f"{what} is {number:g}", hint=hint)
    return min(max(number, 0.0), 1.0)


def _whole(value: Any, what: str, *, least: int = 1) -> int:
    number = _number(value, what, hint=f"give a whole number from {least} up")
    if number != int(number) or number < least:
        raise InputError(f"{what} is {number:g}", hint=f"give a whole number from {least} up")
    return int(number)


def _values(given: Any, what: str) -> list[Any]:
    """The entries of a list, a tuple or an array."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise InputError(f"{what} is {str(given)[:40]!r}", hint="give a list of numbers, such as [0.63, 0.11]")
    values = list(given)
    if not values:
        raise InputError(f"{what} is empty", hint="give at least one value")
    return values


def _probabilities(given: Any, what: str) -> tuple[float, ...]:
    return tuple(_probability(value, f"{what}[{i}]") for i, value in enumerate(_values(given, what)))


def _row(given: Any, what: str, *, exclusive: bool = True) -> tuple[float, ...]:
    """Child probabilities of one node; at most one child is the accepted one, so they sum to at most 1."""
    row = _probabilities(given, what)
    if exclusive and math.fsum(row) > 1 + SUM_SLACK:
        raise InputError(
            f"{what} sums to {math.fsum(row):.6g}",
            hint="entries are not conditioned on siblings and sum to at most 1; cumulative rates must be differenced",
        )
    return row


def _falls(values: Sequence[float]) -> bool:
    return all(b <= a for a, b in itertools.pairwise(values))


# ---- the kinds


@dataclass(frozen=True)
class Counts:
    """What was counted, so that an interval can be stated.

    rounds          verification rounds
    by_depth_rank   [depth][rank] = (accepted, trials); one row when depths were pooled
    by_path         (path, accepted, trials)
    """

    rounds: float | None = None
    rounds_without_proposal: float | None = None
    drafted: float | None = None
    accepted: float | None = None
    by_depth_rank: tuple[tuple[tuple[float, float], ...], ...] = ()
    by_path: tuple[tuple[Path, float, float], ...] = ()


@dataclass(frozen=True)
class Acceptance:
    """What all kinds share. A walk down a tree carries a state; `weight(state)` is the value of a node.

    rule, temperature   what the numbers were measured under; they hold for nothing else
    counts              the counts behind the numbers, when known
    about               keys of the acceptance document that are carried along, unused here
    notes               what was assumed
    """

    counts: Counts | None = field(default=None, kw_only=True)
    rule: str | None = field(default=None, kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    about: Mapping[str, Any] = field(default_factory=dict, kw_only=True, compare=False)
    notes: tuple[str, ...] = field(default=(), kw_only=True, compare=False)

    kind: ClassVar[str]

    @property
    def max_depth(self) -> int | None:
        """Levels for which something is known; None: all."""
        return None

    @property
    def siblings_known(self) -> bool:
        """Whether the second and later children of a node are known."""
        return True

    @property
    def any_subset(self) -> bool:
        """Whether child k may be drafted without children 0..k-1."""
        return False

    @property
    def is_monotone(self) -> bool:
        """Whether an earlier sibling is never less likely, so that best-first is exact."""
        raise NotImplementedError

    def start(self) -> Any:
        """State of the root."""
        raise NotImplementedError

    def child(self, state: Any, depth: int, rank: int) -> Any:
        """State of the child of that rank at `depth`, None where nothing is known."""
        raise NotImplementedError

    def weight(self, state: Any) -> float:
        """Probability that the node is reached and accepted."""
        raise NotImplementedError

    def breadth(self, state: Any, depth: int) -> int | None:
        """Ranks below a node that can be known; None: no end."""
        raise NotImplementedError

    def reach(self, tree: TokenTree) -> list[float]:
        """Probability that each node is reached and accepted; 0 where nothing is known.

        >>> Positional([0.5, 0.2]).reach(TokenTree.from_paths([(0,), (1,), (1, 0)]))
        [0.5, 0.2, 0.1]
        """
        states: list[Any] = []
        root = self.start()
        for parent, rank, depth in zip(tree.parents, tree.ranks, tree.position_offsets):
            above = root if parent < 0 else states[parent]
            states.append(None if above is None else self.child(above, depth, rank))
        return [0.0 if state is None else self.weight(state) for state in states]

    def level_survival(self, tree: TokenTree) -> list[float]:
        """Probability that at least d tokens are accepted, d = 1..depth.

        Siblings are taken as exclusive; under typical acceptance they are not and the sum is cut at 1.

        >>> [round(s, 4) for s in Independent(0.6).level_survival(TokenTree.full(2, 3))]
        [0.84, 0.7056, 0.5927]
        """
        levels: list[list[float]] = [[] for _ in tree.widths]
        for value, depth in zip(self.reach(tree), tree.position_offsets):
            levels[depth - 1].append(value)
        return [min(1.0, math.fsum(level)) for level in levels]

    def accepted(self, tree: TokenTree) -> float:
        """Expected accepted tokens of a round, without the bonus token."""
        return math.fsum(self.level_survival(tree))

    def tau(self, tree: TokenTree) -> float:
        """Expected tokens of a round, bonus token included."""
        return 1.0 + self.accepted(tree)


@dataclass(frozen=True)
class ByDepth(Acceptance):
    """The probability of a child depends on its depth and rank only."""

    @property
    def depth_free(self) -> bool:
        """Whether every depth has the same row."""
        return False

    def ranks_known(self, depth: int) -> int | None:
        """Length of the row at `depth`; None: no end."""
        raise NotImplementedError

    def probability(self, depth: int, rank: int) -> float:
        """P(the child of that rank at that depth is the accepted one | its parent was); rank must be known."""
        raise NotImplementedError

    def row(self, depth: int, limit: int) -> tuple[float, ...]:
        """Child probabilities at `depth` (1 for the root's children) by rank, `limit` at most.

        >>> Independent(0.5).row(1, 3)
        (0.5, 0.25, 0.125)
        """
        known = self.ranks_known(depth)
        count = limit if known is None else min(limit, known)
        return tuple(self.probability(depth, rank) for rank in range(count))

    def tested_row(self, depth: int, limit: int) -> tuple[tuple[float, ...], tuple[int, ...] | None]:
        """The row as a tree takes it, and the ranks; ranks None: 0, 1, 2, ...

        Where any subset of ranks may be drafted the best come first, else the order is kept.
        """
        row = self.row(depth, limit)
        if not self.any_subset or _falls(row):
            return row, None
        order = tuple(sorted(range(len(row)), key=lambda rank: (-row[rank], rank)))
        return tuple(row[rank] for rank in order), order

    def start(self) -> float:
        return 1.0

    def child(self, state: float, depth: int, rank: int) -> float | None:
        known = self.ranks_known(depth)
        return None if known is not None and rank >= known else state * self.probability(depth, rank)

    def weight(self, state: float) -> float:
        return state

    def breadth(self, state: float, depth: int) -> int | None:
        return self.ranks_known(depth)


@dataclass(frozen=True)
class Independent(ByDepth):
    """Each candidate is accepted with probability p: child_prob[k] = p_d (1 - p_d)^k.

    p       one number, or one for each depth (then nothing is known below the last)
    decay   p_d = p decay^(d-1)
    Source  b siblings survive with 1 - (1-p)^b: the textbook model of tree drafting.

    >>> Independent(0.6, decay=0.5).row(2, 2)
    (0.3, 0.21)
    """

    p: float | tuple[float, ...]
    decay: float = 1.0
    kind: ClassVar[str] = "independent"

    def __post_init__(self) -> None:
        many = hasattr(self.p, "__iter__") and not isinstance(self.p, (str, bytes))
        p = _probabilities(self.p, "p") if many else _probability(self.p, "p")
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "decay", _probability(self.decay, "decay"))

    @property
    def max_depth(self) -> int | None:
        return len(self.p) if isinstance(self.p, tuple) else None

    @property
    def depth_free(self) -> bool:
        return not isinstance(self.p, tuple) and self.decay == 1.0

    @property
    def is_monotone(self) -> bool:
        return True

    def at(self, depth: int) -> float:
        """p at that depth."""
        p = self.p[depth - 1] if isinstance(self.p, tuple) else self.p
        return p * self.decay ** (depth - 1)

    def ranks_known(self, depth: int) -> int | None:
        return 0 if isinstance(self.p, tuple) and depth > len(self.p) else None

    def probability(self, depth: int, rank: int) -> float:
        p = self.at(depth)
        return float(p * (1.0 - p) ** rank)


def _check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise InputError(
            f"unknown scheme {str(scheme)[:40]!r}",
            hint=did_you_mean(str(scheme), SCHEMES, otherwise="use ordered or ranked"),
        )


@dataclass(frozen=True)
class _Table(ByDepth):
    """Rows of numbers."""

    @property
    def _rows(self) -> tuple[tuple[float, ...], ...]:
        raise NotImplementedError

    @property
    def is_monotone(self) -> bool:
        return self.any_subset or all(map(_falls, self._rows))

    def ranks_known(self, depth: int) -> int | None:
        rows = self._rows
        return len(rows[depth - 1]) if depth <= len(rows) else 0

    def probability(self, depth: int, rank: int) -> float:
        return self._rows[depth - 1][rank]


@dataclass(frozen=True)
class Positional(_Table):
    """One vector of child probabilities, the same at every depth.

    scheme   ordered, without_replacement: children are tested in this order, child k needs the ones before it;
             ranked, topk: any subset of ranks may be drafted

    >>> Positional([0.63, 0.11]).accepted(TokenTree.full(2, 1))
    0.74
    """

    child_prob: tuple[float, ...]
    scheme: str = "ordered"
    kind: ClassVar[str] = "positional"

    def __post_init__(self) -> None:
        _check_scheme(self.scheme)
        row = _row(self.child_prob, "child_prob", exclusive=self.rule != "typical")
        object.__setattr__(self, "child_prob", row)

    @property
    def depth_free(self) -> bool:
        return True

    @property
    def any_subset(self) -> bool:
        return SCHEMES[self.scheme]

    @property
    def _rows(self) -> tuple[tuple[float, ...], ...]:
        return (self.child_prob,)

    def ranks_known(self, depth: int) -> int | None:
        return len(self.child_prob)

    def probability(self, depth: int, rank: int) -> float:
        return self.child_prob[rank]


@dataclass(frozen=True)
class DepthTable(_Table):
    """One vector of child probabilities for each depth; nothing is known below the last.

    rows   rows[d-1][k]

    >>> DepthTable([[0.6, 0.1], [0.4]]).accepted(TokenTree.from_paths([(0,), (1,), (0, 0)]))
    0.94
    """

    rows: tuple[tuple[float, ...], ...]
    scheme: str = "ordered"
    kind: ClassVar[str] = "depth_rank"

    def __post_init__(self) -> None:
        _check_scheme(self.scheme)
        exclusive = self.rule != "typical"
        rows = [
            _row(row, f"row of depth {d}", exclusive=exclusive) for d, row in enumerate(_values(self.rows, "rows"), 1)
        ]
        object.__setattr__(self, "rows", tuple(rows))

    @property
    def max_depth(self) -> int | None:
        return len(self.rows)

    @property
    def any_subset(self) -> bool:
        return SCHEMES[self.scheme]

    @property
    def _rows(self) -> tuple[tuple[float, ...], ...]:
        return self.rows


@dataclass(frozen=True)
class Chain(ByDepth):
    """Conditional acceptance by chain position: alpha[i] = P(token i+1 accepted | the ones before it were).

    extends          the last value holds at every later position
    measured_depth   positions that were measured; what lies deeper is extrapolated

    >>> Chain.from_survival([0.8, 0.6]).alpha
    (0.8, 0.7499999999999999)
    """

    alpha: tuple[float, ...]
    extends: bool = False
    measured_depth: int | None = None
    kind: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _probabilities(self.alpha, "alpha"))

    @classmethod
    def constant(cls, alpha: float, **shared: Any) -> Chain:
        """The same rate at every position."""
        return cls((alpha,), extends=True, **shared)

    @classmethod
    def from_survival(cls, survival: Sequence[float], **shared: Any) -> Chain:
        """From P(at least i accepted), i = 1..K. vLLM's rate per position is this one.

        Raises  InputError when it rises.
        """
        values = _probabilities(survival, "survival")
        for i, (before, after) in enumerate(itertools.pairwise(values), 1):
            if after > before + SLACK:
                raise InputError(
                    f"survival[{i}] is {after:g} after {before:g}",
                    hint="survival cannot rise; rates given the earlier tokens were accepted are alpha",
                )
        alpha = [0.0 if b == 0 else min(1.0, a / b) for b, a in zip((1.0, *values), values)]
        return cls(tuple(alpha), measured_depth=len(alpha), **shared)

    @classmethod
    def from_accept_length(cls, tau: float, k: int, **shared: Any) -> Chain:
        """From the mean tokens of a round of a chain of k, bonus included: (1 - a^(k+1)) / (1 - a) = tau.

        >>> round(Chain.from_accept_length(2.176, 3).alpha[0], 9)
        0.6
        """
        count = _whole(k, "k")
        length = _number(tau, "the accept length")
        if not 1 - SLACK <= length <= count + 1 + SLACK:
            raise InputError(
                f"an accept length of {length:g} with k {count}",
                hint=f"bonus included it lies between 1 and {count + 1}; without the bonus, add 1",
            )
        return cls((_constant_rate(length - 1.0, count),), extends=True, measured_depth=count, **shared)

    @classmethod
    def from_accept_rate(cls, rate: float, k: int, **shared: Any) -> Chain:
        """From accepted over drafted tokens of a chain of k: tau = 1 + k rate."""
        share = _probability(rate, "the accept rate")
        return cls.from_accept_length(1.0 + _whole(k, "k") * share, k, **shared)

    @classmethod
    def from_accept_lengths(cls, tau_by_k: Mapping[int, float], **shared: Any) -> Chain:
        """From mean tokens of a round by chain length; between two lengths the rate is constant.

        Raises  InputError where the lengths cannot come from one draft.

        >>> [round(a, 6) for a in Chain.from_accept_lengths({1: 1.8, 2: 2.4}).alpha]
        [0.8, 0.75]
        """
        alpha: list[float] = []
        tau, survival = 1.0, 1.0
        for k, length in _lengths(tau_by_k):
            step, gain = k - len(alpha), length - tau
            if not -SLACK <= gain <= step * survival + SLACK:
                raise InputError(
                    f"the accept length at k {k} is {length:g} after {tau:g}",
                    hint=f"one draft gives {tau:g} to {tau + step * survival:g}; use one length and its k",
                )
            rate = _constant_rate(gain / survival, step) if survival > 0 else 0.0
            alpha += [rate] * step
            tau, survival = length, survival * rate**step
        return cls(tuple(alpha), measured_depth=len(alpha), **shared)

    @property
    def survival(self) -> tuple[float, ...]:
        """P(at least i accepted) at the positions in `alpha`."""
        values, survival = [], 1.0
        for rate in self.alpha:
            survival *= rate
            values.append(survival)
        return tuple(values)

    @property
    def max_depth(self) -> int | None:
        return None if self.extends else len(self.alpha)

    @property
    def depth_free(self) -> bool:
        return self.extends and len(self.alpha) == 1

    @property
    def siblings_known(self) -> bool:
        return False

    @property
    def is_monotone(self) -> bool:
        return True

    def ranks_known(self, depth: int) -> int | None:
        return 1 if self.extends or depth <= len(self.alpha) else 0

    def probability(self, depth: int, rank: int) -> float:
        return self.alpha[min(depth, len(self.alpha)) - 1]

    def assume_ranks(self) -> Independent:
        """Independent candidates with p = alpha at each depth. An assumption: chain data has no siblings in it.

        >>> Chain.constant(0.6).assume_ranks().row(1, 2)
        (0.6, 0.24)
        """
        p: Any = self.alpha[0] if self.depth_free else self.alpha
        note = "siblings were not measured: each later candidate is taken to be accepted like the first (p = alpha)"
        shared = {"counts": self.counts, "rule": self.rule, "temperature": self.temperature, "about": self.about}
        return Independent(p, notes=(*self.notes, note), **shared)  # type: ignore[arg-type]


def _constant_rate(accepted: float, k: int) -> float:
    """The rate a in [0, 1] with a + a^2 + .. + a^k = accepted."""
    low, high = 0.0, 1.0
    if accepted >= k:
        return 1.0
    for _ in range(100):
        a = (low + high) / 2
        if a * (1 - a**k) / (1 - a) < accepted:
            low = a
        else:
            high = a
    return (low + high) / 2


def _lengths(tau_by_k: Mapping[int, float]) -> list[tuple[int, float]]:
    if not tau_by_k:
        raise InputError("no accept length by k", hint='give lengths such as {"1": 1.8, "3": 2.6}')
    pairs = [(_key(k), _number(tau, f"the accept length at k {k}")) for k, tau in tau_by_k.items()]
    return sorted(pair for pair in pairs if pair[0] > 0)


def _key(k: Any) -> int:
    """JSON has text for keys."""
    text = str(k).strip()
    if not text.isdigit():
        raise InputError(f"k is {text[:20]!r}", hint="the keys are chain lengths, such as 3")
    return int(text)


@dataclass(frozen=True)
class Paths(Acceptance):
    """Measured probability that each whole path is accepted; what is not listed was never seen.

    probs    mapping of path to probability, or such pairs; non-increasing along a path
    scheme   as in Positional
    Raises   InputError for a missing parent or a path more likely than its parent.

    >>> Paths({(0,): 0.6, (1,): 0.1, (0, 0): 0.5}).accepted(TokenTree.chain(2))
    1.1
    """

    probs: tuple[tuple[Path, float], ...]
    scheme: str = "ordered"
    kind: ClassVar[str] = "paths"

    def __post_init__(self) -> None:
        _check_scheme(self.scheme)
        given: Any = self.probs.items() if isinstance(self.probs, Mapping) else self.probs
        pairs = {tuple(path): _probability(prob, f"path {list(path)}") for path, prob in _values(given, "paths")}
        tree = TokenTree.from_paths(pairs)
        object.__setattr__(self, "probs", tuple((path, pairs[path]) for path in tree.paths))
        self._check_sums(tree)

    def _check_sums(self, tree: TokenTree) -> None:
        sums = [0.0] * (tree.nodes + 1)
        for node, (path, prob) in enumerate(self.probs):
            above = 1.0 if tree.parents[node] < 0 else self.probs[tree.parents[node]][1]
            sums[tree.parents[node]] += prob
            most = above + SUM_SLACK
            if prob > most or (sums[tree.parents[node]] > most and self.rule != "typical"):
                raise InputError(
                    f"path {list(path)}: with its siblings it is accepted more often ({sums[tree.parents[node]]:.6g}) "
                    f"than its parent ({above:.6g})",
                    hint="give joint frequencies: accepted over all rounds, not over rounds that reached the parent",
                )

    @cached_property
    def table(self) -> dict[Path, float]:
        """Probability by path."""
        return dict(self.probs)

    @cached_property
    def _breadths(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for path, _ in self.probs:
            found[path[:-1]] = max(found.get(path[:-1], 0), path[-1] + 1)
        return found

    @property
    def max_depth(self) -> int | None:
        return len(self.probs[-1][0])

    @property
    def any_subset(self) -> bool:
        return SCHEMES[self.scheme]

    @property
    def is_monotone(self) -> bool:
        table = self.table
        return self.any_subset or all(
            not path[-1] or table.get((*path[:-1], path[-1] - 1), 0.0) >= prob for path, prob in self.probs
        )

    def start(self) -> Path:
        return ()

    def child(self, state: Path, depth: int, rank: int) -> Path | None:
        path = (*state, rank)
        if path in self.table:
            return path
        return path if not self.any_subset and rank < self._breadths.get(state, 0) else None

    def weight(self, state: Path) -> float:
        return self.table.get(state, 0.0) if state else 1.0

    def breadth(self, state: Path, depth: int) -> int | None:
        return self._breadths.get(state, 0)


@dataclass(frozen=True)
class Mixture(Acceptance):
    """Contexts that differ, each fixed within a round: the value of a node is the weighted sum of theirs.

    weights   shares of rounds; scaled to sum to 1

    >>> Mixture([Independent(0.9), Independent(0.4)], [1, 1]).accepted(TokenTree.chain(2))
    1.135
    """

    components: tuple[Acceptance, ...]
    weights: tuple[float, ...]
    kind: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        components = tuple(as_acceptance(part) for part in _values(self.components, "components"))
        weights = [_number(weight, f"weights[{i}]") for i, weight in enumerate(_values(self.weights, "weights"))]
        if len(weights) != len(components):
            raise InputError(
                f"{len(components)} components and {len(weights)} weights", hint="give one weight for each"
            )
        if min(weights) < 0 or sum(weights) <= 0:
            raise InputError(
                f"weights are {weights}"[:100], hint="weights are shares of rounds: none negative, not all 0"
            )
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "weights", tuple(weight / math.fsum(weights) for weight in weights))

    @property
    def max_depth(self) -> int | None:
        known = [part.max_depth for part in self.components if part.max_depth is not None]
        return min(known) if known else None

    @property
    def siblings_known(self) -> bool:
        return all(part.siblings_known for part in self.components)

    @property
    def any_subset(self) -> bool:
        return all(part.any_subset for part in self.components)

    @property
    def is_monotone(self) -> bool:
        return self.any_subset or all(part.is_monotone and not _reorders(part) for part in self.components)

    def start(self) -> tuple[Any, ...]:
        return tuple(part.start() for part in self.components)

    def child(self, state: tuple[Any, ...], depth: int, rank: int) -> tuple[Any, ...] | None:
        states = tuple(
            None if above is None else part.child(above, depth, rank) for part, above in zip(self.components, state)
        )
        return None if all(below is None for below in states) else states

    def weight(self, state: tuple[Any, ...]) -> float:
        parts = zip(self.components, self.weights, state)
        return math.fsum(share * part.weight(below) for part, share, below in parts if below is not None)

    def breadth(self, state: tuple[Any, ...], depth: int) -> int | None:
        found = [part.breadth(above, depth) for part, above in zip(self.components, state) if above is not None]
        return None if any(b is None for b in found) else max((b for b in found if b is not None), default=0)


def _reorders(part: Acceptance) -> bool:
    """Whether the best children of a component are not its first."""
    if isinstance(part, _Table):
        return not all(map(_falls, part._rows))
    return part.any_subset


def as_acceptance(given: Any) -> Acceptance:
    """An acceptance as it is; a list (or array) of child probabilities as Positional, a table as DepthTable.

    >>> as_acceptance([0.63, 0.11]).kind
    'positional'
    """
    if isinstance(given, Acceptance):
        return given
    if not hasattr(given, "__iter__"):
        raise InputError(
            f"acceptance is {str(given)[:40]!r}",
            hint="give child probabilities as a list, or Independent(p) for candidates accepted alike",
        )
    values = _values(given, "child_prob")
    return (
        DepthTable(tuple(values))
        if hasattr(values[0], "__iter__") and not isinstance(values[0], str)
        else Positional(tuple(values))
    )


# ---- how sure


@dataclass(frozen=True)
class Interval:
    """A range that holds the true value with probability `level`, and the standard error."""

    low: float
    high: float
    se: float
    level: float


def _quantile(level: float) -> float:
    from statistics import NormalDist

    if not 0 < level < 1:
        raise InputError(f"level is {level:g}", hint="a level lies between 0 and 1, such as 0.95")
    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(accepted: float, trials: float, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of one rate; it never leaves [0, 1].

    >>> round(wilson(423, 667).low, 4), round(wilson(423, 667).high, 4)
    (0.597, 0.6699)
    """
    count = _number(trials, "trials")
    hits = _number(accepted, "accepted")
    if count <= 0 or not 0 <= hits <= count:
        raise InputError(f"{hits:g} accepted of {count:g}", hint="accepted lies between 0 and trials, trials above 0")
    z = _quantile(level)
    p, scale = hits / count, 1 + z * z / count
    middle = (p + z * z / (2 * count)) / scale
    half = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count)) / scale
    return Interval(max(0.0, middle - half), min(1.0, middle + half), math.sqrt(p * (1 - p) / count), level)


def tau_interval(acceptance: Acceptance, tree: TokenTree, *, level: float = 0.95) -> Interval | None:
    """The interval of tau of a tree, from the counts; None when nothing was counted.

    One rate         Wilson, carried through tau, which rises with it
    Depth x rank     delta method: the gradient of tau against each counted share
    Paths, or rounds only   the spread of accepted tokens among rounds
    Left out         that rounds of one text resemble each other, which widens the interval

    >>> counted = Positional([0.6], counts=Counts(by_depth_rank=(((60, 100),),)))
    >>> round(tau_interval(counted, TokenTree.chain(1)).se, 3)
    0.049
    """
    if isinstance(acceptance, Mixture):
        parts = [tau_interval(part, tree, level=level) for part in acceptance.components]
        if any(part is None for part in parts):
            return None
        se = math.sqrt(sum((w * part.se) ** 2 for w, part in zip(acceptance.weights, parts) if part is not None))
        return _around(acceptance.tau(tree), se, tree, level)
    counts = acceptance.counts
    if counts is None:
        return None
    if counts.by_depth_rank and isinstance(acceptance, ByDepth):
        if isinstance(acceptance, Independent) and not isinstance(acceptance.p, tuple):
            return _one_rate(acceptance, counts.by_depth_rank[0][0], tree, level)
        return _around(acceptance.tau(tree), math.sqrt(_delta_variance(acceptance, counts, tree)), tree, level)
    if not counts.rounds:
        return None
    return _around(acceptance.tau(tree), math.sqrt(_round_variance(acceptance, tree) / counts.rounds), tree, level)


def _around(tau: float, se: float, tree: TokenTree, level: float) -> Interval:
    half = _quantile(level) * se
    return Interval(max(1.0, tau - half), min(tree.nodes + 1.0, tau + half), se, level)


def _one_rate(acceptance: Independent, counted: tuple[float, float], tree: TokenTree, level: float) -> Interval:
    rate = wilson(*counted, level=level)
    low, high = (replace(acceptance, p=p).tau(tree) for p in (rate.low, rate.high))
    low, high = min(low, high), max(low, high)
    return Interval(low, high, (high - low) / (2 * _quantile(level)), level)


def _round_variance(acceptance: Acceptance, tree: TokenTree) -> float:
    """Variance of the accepted tokens of one round: E[X^2] = sum of (2d - 1) P(X >= d)."""
    survival = acceptance.level_survival(tree)
    return max(0.0, sum((2 * d - 1) * s for d, s in enumerate(survival, 1)) - sum(survival) ** 2)


def _gradient(acceptance: ByDepth, tree: TokenTree) -> dict[tuple[int, int], float]:
    """d tau / d child_prob[depth][rank]: what a node would add if it were accepted for sure, by depth and rank."""
    reach = acceptance.reach(tree)
    gain = [1.0] * tree.nodes
    found: dict[tuple[int, int], float] = {}
    depths = tree.position_offsets
    for node in reversed(range(tree.nodes)):
        parent, rank, depth = tree.parents[node], tree.ranks[node], depths[node]
        key = (depth, rank)
        found[key] = found.get(key, 0.0) + (1.0 if parent < 0 else reach[parent]) * gain[node]
        known = acceptance.ranks_known(depth)
        if parent >= 0 and (known is None or rank < known):
            gain[parent] += acceptance.probability(depth, rank) * gain[node]
    return found


def _delta_variance(acceptance: ByDepth, counts: Counts, tree: TokenTree) -> float:
    """Variance of tau. Ranks of a row with equal trials are shares of one count (multinomial)."""
    rows = counts.by_depth_rank
    slopes: dict[tuple[int, int], float] = {}
    for (depth, rank), slope in _gradient(acceptance, tree).items():
        row = min(depth, len(rows)) - 1
        if rank < len(rows[row]):
            slopes[row, rank] = slopes.get((row, rank), 0.0) + slope
    return sum(_row_variance(row, [slopes.get((i, k), 0.0) for k in range(len(row))]) for i, row in enumerate(rows))


def _row_variance(row: Sequence[tuple[float, float]], slopes: Sequence[float]) -> float:
    shares = [((accepted + 0.5) / (trials + 1), max(trials, 1.0)) for accepted, trials in row]
    squares = sum(g * g * p / t for g, (p, t) in zip(slopes, shares))
    if len({trials for _, trials in row}) == 1:
        return max(0.0, squares - sum(g * p for g, (p, _) in zip(slopes, shares)) ** 2 / shares[0][1])
    return sum(g * g * p * (1 - p) / t for g, (p, t) in zip(slopes, shares))


# ---- child probabilities of given distributions


def child_prob_for(
    target_probs: Sequence[float],
    draft_probs: Sequence[float],
    *,
    rule: str,
    count: int,
    epsilon: float = 0.09,
    delta: float = 0.3,
) -> tuple[float, ...]:
    """Child probabilities of `count` children at one node, exactly, for given next-token distributions.

    target_probs, draft_probs   over the same tokens, after temperature and top-p; shape [vocabulary]
    rule   strict                          children drawn from the draft, tested one after the other, each
                                           rejection leaves max(0, target - draft)
           without_replacement             the same, a rejected token leaves the draft
           topk                            the draft's best tokens, accepted with the target's probability
           membership                      drawn children; one token is drawn from the target and followed if among them
           membership_without_replacement  the same with distinct children
           greedy                          the draft's best tokens; the one that is the target's best is accepted
           typical                         the draft's best tokens; the first above min(epsilon, delta exp(-entropy))
    epsilon, delta   of the typical rule; the defaults are Medusa's posterior threshold and alpha
    Raises  InputError for distributions that do not fit each other or have too many tokens to enumerate
    Source  Leviathan et al. 2023 (strict), Miao et al. 2024 (several drawn children), Chen et al. 2024 (without
            replacement), Cai et al. 2024 (typical).

    >>> child_prob_for([0.5, 0.5], [0.5, 0.5], rule="strict", count=2)
    (1.0, 0.0)
    """
    target, draft = _distribution(target_probs, "target_probs"), _distribution(draft_probs, "draft_probs")
    if len(target) != len(draft):
        raise InputError(
            f"{len(target)} target and {len(draft)} draft probabilities", hint="give one pair for each token"
        )
    if rule not in RULES:
        raise InputError(
            f"unknown rule {str(rule)[:40]!r}",
            hint=did_you_mean(str(rule), RULES, otherwise=f"known: {', '.join(RULES)}"),
        )
    children = _whole(count, "count")
    if rule == "typical":
        return _typical(target, draft, children, epsilon, delta)
    return _RULES[rule](target, draft, children)


def _distribution(given: Any, what: str) -> tuple[float, ...]:
    values = _probabilities(given, what)
    total = math.fsum(values)
    if abs(total - 1) > 1e-3:
        raise InputError(f"{what} sums to {total:.6g}", hint="a distribution sums to 1")
    return tuple(value / total for value in values)


def _residual(target: Sequence[float], draft: Sequence[float]) -> tuple[float, ...] | None:
    """What is left of the target after a rejection; None when a rejection cannot happen."""
    left = [max(0.0, t - q) for t, q in zip(target, draft)]
    total = math.fsum(left)
    return tuple(value / total for value in left) if total > 1e-15 else None


def _strict(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    row: list[float] = []
    reached = 1.0
    left: Sequence[float] | None = target
    for _ in range(count):
        hit = 0.0 if left is None else math.fsum(map(min, left, draft))
        row.append(reached * hit)
        reached *= 1 - hit
        left = None if left is None else _residual(left, draft)
    return tuple(row)


# Ordered draws of distinct tokens that are enumerated at most; about a second.
MAX_DRAWS = 200_000


def _without_replacement(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    tokens = sum(q > 0 for q in draft)
    _check_draws(tokens, count)
    row = [0.0] * count
    _draw(target, draft, 1.0, 0, row)
    return tuple(row)


def _check_draws(tokens: int, count: int) -> None:
    if math.perm(tokens, min(tokens, count)) > MAX_DRAWS:
        raise InputError(
            f"{count} distinct draws from {tokens} tokens are too many to enumerate",
            hint="keep the most likely tokens, or fewer children",
        )


def _draw(target: Sequence[float], draft: Sequence[float], weight: float, child: int, row: list[float]) -> None:
    """Adds to row[child:] what drawing child after child without replacement accepts."""
    total = math.fsum(draft)
    if child == len(row) or total <= 0 or weight <= 0:
        return
    now = [q / total for q in draft]
    left = _residual(target, now)
    for token, q in enumerate(now):
        if q > 0:
            hit = min(1.0, target[token] / q)
            row[child] += weight * q * hit
            if hit < 1 and left is not None:
                _draw(left, [*now[:token], 0.0, *now[token + 1 :]], weight * q * (1 - hit), child + 1, row)


def _best_tokens(draft: Sequence[float], count: int) -> list[int]:
    return sorted(range(len(draft)), key=lambda token: (-draft[token], token))[:count]


def _topk(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    return tuple(target[token] for token in _best_tokens(draft, count))


def _membership(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    return tuple(math.fsum(t * q * (1 - q) ** k for t, q in zip(target, draft)) for k in range(count))


def _membership_distinct(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    _check_draws(sum(q > 0 for q in draft), count)
    row = [0.0] * count
    _draw_members(target, draft, 1.0, 0, row)
    return tuple(row)


def _draw_members(target: Sequence[float], draft: Sequence[float], weight: float, child: int, row: list[float]) -> None:
    total = math.fsum(draft)
    if child == len(row) or total <= 0:
        return
    for token, q in enumerate(draft):
        if q > 0:
            drawn = weight * q / total
            row[child] += drawn * target[token]
            _draw_members(target, [*draft[:token], 0.0, *draft[token + 1 :]], drawn, child + 1, row)


def _greedy(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    best = _best_tokens(target, 1)[0]
    return tuple(float(token == best) for token in _best_tokens(draft, count))


def _typical(
    target: Sequence[float], draft: Sequence[float], count: int, epsilon: float, delta: float
) -> tuple[float, ...]:
    # 1e-5 keeps the logarithm finite, as in Medusa's evaluate_posterior.
    entropy = -math.fsum(t * math.log(t + 1e-5) for t in target)
    threshold = min(_number(epsilon, "epsilon"), _number(delta, "delta") * math.exp(-entropy))
    passes = [target[token] > threshold for token in _best_tokens(draft, count)]
    return tuple(float(ok and not any(passes[:k])) for k, ok in enumerate(passes))


_RULES: dict[str, Callable[[Sequence[float], Sequence[float], int], tuple[float, ...]]] = {
    "strict": _strict,
    "without_replacement": _without_replacement,
    "topk": _topk,
    "membership": _membership,
    "membership_without_replacement": _membership_distinct,
    "greedy": _greedy,
}


# ---- the acceptance document

SCHEMA = "specplan.acceptance/1"

_ENVELOPE = ("schema", "version", "inputs", "assumptions", "notes", "warnings")
_SHAPE = (
    "kind", "k", "p", "decay", "child_prob", "scheme", "alpha", "survival", "extends", "measured_depth", "paths",
    "accept_length_by_k", "tau", "acceptance_rate", "components", "weights", "counts", "rule", "temperature",
)  # fmt: skip
_CARRIED = (
    "accept_length_model", "histogram", "drafted_per_round", "interval", "workload", "by_context", "series", "fit",
    "source", "dialect", "unknown",
)  # fmt: skip
DOCUMENT_KEYS = _ENVELOPE + _SHAPE + _CARRIED
_COUNT_KEYS = ("rounds", "rounds_without_proposal", "drafted", "accepted", "by_depth_rank", "by_path")


def acceptance_from_document(mapping: Mapping[str, Any], *, where: str = "acceptance") -> Acceptance:
    """The acceptance that a document states (its keys are in the contract, null means unknown).

    where   file name or option, for messages
    Raises  InputError for unknown keys, a missing or contradictory shape, and values out of range.

    >>> acceptance_from_document({"kind": "positional", "child_prob": [0.63, 0.11]}).row(1, 2)
    (0.63, 0.11)
    """
    if not isinstance(mapping, Mapping):
        raise InputError(f"{where}: not a mapping", hint="an acceptance document has keys such as kind and child_prob")
    _refuse_unknown(mapping, DOCUMENT_KEYS, where)
    data = {key: value for key, value in mapping.items() if value is not None}
    schema = str(data.get("schema", SCHEMA))
    if schema != SCHEMA:
        raise InputError(f"{where}: schema is {schema[:40]!r}", hint=f"this reads {SCHEMA}")
    try:
        return _READERS[_kind_of(data)](data, _shared(data))
    except InputError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, hint=error.hint) from None


def _refuse_unknown(mapping: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in mapping:
        if key not in known:
            raise InputError(
                f"{where}: unknown key {str(key)[:40]!r}",
                hint=did_you_mean(str(key), known, otherwise=f"known: {', '.join(known)}"),
            )


def _kind_of(data: Mapping[str, Any]) -> str:
    """The kind stated, or the one that the keys imply."""
    kind = data.get("kind")
    if kind is None:
        implied = [name for name, keys in _IMPLIED.items() if any(key in data for key in keys)]
        if not implied:
            raise InputError("no kind", hint=f"give kind ({', '.join(_READERS)}) and its numbers")
        kind = implied[0]
    if kind not in _READERS:
        raise InputError(
            f"unknown kind {str(kind)[:40]!r}",
            hint=did_you_mean(str(kind), _READERS, otherwise=f"known: {', '.join(_READERS)}"),
        )
    return "depth_rank" if kind == "positional" and _is_table(data.get("child_prob")) else str(kind)


def _is_table(given: Any) -> bool:
    return (
        isinstance(given, Sequence) and bool(given) and isinstance(given[0], Sequence) and not isinstance(given[0], str)
    )


def _shared(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that every kind has."""
    temperature = data.get("temperature")
    notes = data.get("notes", ())
    return {
        "counts": _counts(data["counts"]) if "counts" in data else None,
        "rule": str(data["rule"]) if "rule" in data else None,
        "temperature": None if temperature is None else _number(temperature, "temperature"),
        "about": {key: data[key] for key in (*_CARRIED, "k", "tau", "acceptance_rate") if key in data},
        "notes": tuple(map(str, notes)) if isinstance(notes, (list, tuple)) else (str(notes),),
    }


def _counts(given: Any) -> Counts:
    if not isinstance(given, Mapping):
        raise InputError("counts is not a mapping", hint=f"it has the keys {', '.join(_COUNT_KEYS)}")
    _refuse_unknown(given, _COUNT_KEYS, "counts")
    data = {key: value for key, value in given.items() if value is not None}
    plain = {key: _number(data[key], f"counts.{key}") for key in _COUNT_KEYS[:4] if key in data}
    rows = tuple(
        tuple(
            _pair(pair, f"counts.by_depth_rank[{d}][{k}]")
            for k, pair in enumerate(_values(row, f"counts.by_depth_rank[{d}]"))
        )
        for d, row in enumerate(data.get("by_depth_rank", ()))
    )
    paths = tuple(_counted_path(entry) for entry in _path_entries(data.get("by_path", ())))
    return Counts(**plain, by_depth_rank=rows, by_path=paths)


def _pair(given: Any, what: str) -> tuple[float, float]:
    """(accepted, trials)."""
    values = _values(given, what)
    if len(values) != 2:
        raise InputError(f"{what} has {len(values)} entries", hint="give accepted and trials")
    accepted, trials = (_number(value, what) for value in values)
    if trials <= 0 or not 0 <= accepted <= trials:
        raise InputError(
            f"{what}: {accepted:g} accepted of {trials:g}", hint="accepted lies between 0 and trials, trials above 0"
        )
    return accepted, trials


def _path_entries(given: Any) -> list[Mapping[str, Any]]:
    """Entries {path, ...}; a mapping of path text to [accepted, trials] or a probability is read too."""
    if isinstance(given, Mapping):
        entries: list[Mapping[str, Any]] = []
        for text, value in given.items():
            many = isinstance(value, (list, tuple)) and len(value) == 2
            entries.append(
                {"path": text, "accepted": value[0], "trials": value[1]} if many else {"path": text, "prob": value}
            )
        return entries
    found = list(given)
    if not all(isinstance(entry, Mapping) and "path" in entry for entry in found):
        raise InputError("an entry of the path table has no path", hint='write {"path": [0, 1], ...}')
    return found


def _counted_path(entry: Mapping[str, Any]) -> tuple[Path, float, float]:
    path = parse_path(entry["path"])
    return (path, *_pair([entry.get("accepted"), entry.get("trials")], f"path {list(path)}"))


def parse_path(given: Any) -> Path:
    """A path from a list of ranks or from text such as `0 1`, `0-1`, `0,1`, `[0, 1]`.

    >>> parse_path("0-1")
    (0, 1)
    """
    if not isinstance(given, str):
        return read_path(given, "path")
    text = given.strip().strip("[]()")
    for mark in ",;/->.":
        text = text.replace(mark, " ")
    if not text.split() or not all(part.isdigit() for part in text.split()):
        raise InputError(f"path {given[:40]!r} is not a list of ranks", hint="write ranks such as 0-1")
    return tuple(int(part) for part in text.split())


def _need(data: Mapping[str, Any], key: str, kind: str) -> Any:
    if key not in data:
        raise InputError(f"kind {kind} without {key}", hint=f"add {key}")
    return data[key]


def _read_independent(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    fit = data.get("fit")
    given = {**(fit if isinstance(fit, Mapping) else {}), **data}
    p = _need(given, "p", "independent")
    return Independent(tuple(p) if isinstance(p, list) else p, data.get("decay", 1.0), **shared)


def _read_positional(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    rows = _rates(shared["counts"])
    row = data["child_prob"] if "child_prob" in data or not rows else rows[0]
    return Positional(row, data.get("scheme", "ordered"), **shared)


def _read_depth_rank(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    rows = _rates(shared["counts"])
    table = rows if rows and "child_prob" not in data else _need(data, "child_prob", "depth_rank")
    return DepthTable(tuple(table), data.get("scheme", "ordered"), **shared)


def _rates(counts: Counts | None) -> list[tuple[float, ...]]:
    rows = counts.by_depth_rank if counts else ()
    return [tuple(accepted / trials for accepted, trials in row) for row in rows]


def _read_chain(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    if "alpha" in data:
        alpha = data["alpha"]
        extends = bool(data.get("extends", not isinstance(alpha, (list, tuple))))
        chain = Chain(
            tuple(alpha) if isinstance(alpha, (list, tuple)) else (alpha,),
            extends,
            data.get("measured_depth"),
            **shared,
        )
        return _agree(chain, data.get("survival"))
    if "survival" in data:
        return Chain.from_survival(data["survival"], **shared)
    if "accept_length_by_k" in data:
        return _read_by_k(data, shared)
    k = _need(data, "k", "chain (with neither alpha nor survival)")
    if "tau" in data:
        return Chain.from_accept_length(data["tau"], k, **shared)
    return Chain.from_accept_rate(_need(data, "acceptance_rate", "chain"), k, **shared)


def _agree(chain: Chain, survival: Any) -> Chain:
    """Refuses a survival that contradicts alpha."""
    if survival is not None:
        stated = _probabilities(survival, "survival")
        if any(abs(a - b) > 1e-3 for a, b in zip(stated, chain.survival)):
            raise InputError(
                "alpha and survival contradict each other", hint="survival is the running product of alpha; give one"
            )
    return chain


def _read_by_k(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    lengths = _need(data, "accept_length_by_k", "by_k")
    if not isinstance(lengths, Mapping):
        raise InputError("accept_length_by_k is not a mapping", hint='write {"1": 1.8, "3": 2.6}')
    shared["about"]["accept_length_by_k"] = lengths
    return Chain.from_accept_lengths(lengths, **shared)


def _read_paths(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    scheme = data.get("scheme", "ordered")
    if "paths" in data:
        entries = [(parse_path(entry["path"]), _need(entry, "prob", "paths")) for entry in _path_entries(data["paths"])]
        return Paths(tuple(entries), scheme, **shared)
    counts = shared["counts"]
    if not counts or not counts.by_path:
        raise InputError("kind paths without paths", hint="add paths or counts.by_path")
    return Paths(_joint(counts.by_path), scheme, **shared)


def _joint(counted: Sequence[tuple[Path, float, float]]) -> tuple[tuple[Path, float], ...]:
    """Frequencies of whole paths. With unequal trials a child may come out above its parent: it is cut."""
    found: dict[Path, float] = {}
    equal = len({trials for _, _, trials in counted}) == 1
    for path, accepted, trials in sorted(counted, key=lambda entry: (len(entry[0]), entry[0])):
        above = 1.0 if equal else found.get(path[:-1], 1.0)
        found[path] = min(accepted / trials, above)
    return tuple(found.items())


def _read_mixture(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    parts = _values(_need(data, "components", "mixture"), "components")
    read = [acceptance_from_document(part, where=f"components[{i}]") for i, part in enumerate(parts)]
    return Mixture(tuple(read), tuple(data.get("weights", [1.0] * len(read))), **shared)


_READERS: dict[str, Callable[[Mapping[str, Any], dict[str, Any]], Acceptance]] = {
    "independent": _read_independent,
    "positional": _read_positional,
    "depth_rank": _read_depth_rank,
    "chain": _read_chain,
    "paths": _read_paths,
    "by_k": _read_by_k,
    "mixture": _read_mixture,
}

_IMPLIED = {
    "mixture": ("components",),
    "paths": ("paths",),
    "positional": ("child_prob",),
    "chain": ("alpha", "survival"),
    "independent": ("p",),
    "by_k": ("accept_length_by_k",),
}


def acceptance_document(acceptance: Acceptance) -> dict[str, Any]:
    """The document of an acceptance: every listed key is there, null when unknown.

    >>> acceptance_document(Positional([0.6, 0.2]))["child_prob"]
    [0.6, 0.2]
    """
    document: dict[str, Any] = {"schema": SCHEMA, **dict.fromkeys(_SHAPE), **dict.fromkeys(_CARRIED)}
    document |= {"kind": acceptance.kind, "rule": acceptance.rule, "temperature": acceptance.temperature}
    document |= acceptance.about
    document |= _WRITERS[acceptance.kind](acceptance)
    document["notes"] = list(acceptance.notes)
    document["counts"] = None if acceptance.counts is None else _counts_document(acceptance.counts)
    return document


def _counts_document(counts: Counts) -> dict[str, Any]:
    return {
        **{key: getattr(counts, key) for key in _COUNT_KEYS[:4]},
        "by_depth_rank": [[list(pair) for pair in row] for row in counts.by_depth_rank] or None,
        "by_path": [{"path": list(p), "accepted": a, "trials": t} for p, a, t in counts.by_path] or None,
    }


def _chain_keys(chain: Any) -> dict[str, Any]:
    keys = {"alpha": list(chain.alpha), "survival": list(chain.survival)}
    return {**keys, "extends": chain.extends, "measured_depth": chain.measured_depth}


_WRITERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "independent": lambda a: {"p": list(a.p) if isinstance(a.p, tuple) else a.p, "decay": a.decay},
    "positional": lambda a: {"child_prob": list(a.child_prob), "scheme": a.scheme},
    "depth_rank": lambda a: {"child_prob": [list(row) for row in a.rows], "scheme": a.scheme},
    "chain": _chain_keys,
    "paths": lambda a: {"paths": [{"path": list(p), "prob": v} for p, v in a.probs], "scheme": a.scheme},
    "mixture": lambda a: {
        "components": [acceptance_document(part) for part in a.components],
        "weights": list(a.weights),
    },
}


# ---- tables of counts

_TABLES = (("depth", "rank", "accepted", "trials"), ("path", "accepted", "trials"))


def acceptance_from_csv(text: str, *, where: str = "acceptance", scheme: str = "ordered") -> Acceptance:
    """The acceptance in a table `depth,rank,accepted,trials` or `path,accepted,trials`.

    Depth starts at 1, rank at 0. `accepted` counts the rounds in which that child was the accepted one, `trials`
    those in which its parent was accepted (in a path table: all rounds). Lines that start with # are skipped.
    A table with depth 1 only is used at every depth.
    Raises  InputError that names the line.

    >>> acceptance_from_csv("depth,rank,accepted,trials\\n1,0,60,100\\n1,1,20,100").row(1, 2)
    (0.6, 0.2)
    """
    lines = _csv_lines(text)
    if not lines:
        raise InputError(
            f"{where}: no header", hint="the first line is depth,rank,accepted,trials or path,accepted,trials"
        )
    number, header = lines[0]
    columns = tuple(name.strip().casefold() for name in header)
    table = next((names for names in _TABLES if set(names) == set(columns)), None)
    if table is None or len(set(columns)) < len(columns):
        raise InputError(
            f"{where}:{number}: columns are {','.join(columns)[:60]!r}",
            hint="use depth,rank,accepted,trials or path,accepted,trials",
        )
    rows = [(n, _csv_row(cells, columns, f"{where}:{n}")) for n, cells in lines[1:]]
    if not rows:
        raise InputError(
            f"{where}: a header and no rows", hint="add one line for each depth and rank, or for each path"
        )
    try:
        return _from_paths_table(rows, where, scheme) if table[0] == "path" else _from_depth_table(rows, where, scheme)
    except InputError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, hint=error.hint) from None


def _csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """(line number, cells) of the lines that say something."""
    import csv

    reader = csv.reader(text.lstrip("\ufeff").splitlines())
    try:
        return [
            (reader.line_num, cells) for cells in reader if any(map(str.strip, cells)) and not cells[0].startswith("#")
        ]
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: {error}", hint="the table must be plain CSV") from None


def _csv_row(cells: Sequence[str], columns: Sequence[str], where: str) -> dict[str, str]:
    if len(cells) != len(columns):
        raise InputError(
            f"{where}: {len(cells)} cells for {len(columns)} columns", hint='quote a path with commas: "0,1"'
        )
    return {name: cell.strip() for name, cell in zip(columns, cells)}


def _cell_count(row: Mapping[str, str], where: str) -> tuple[float, float]:
    try:
        return _pair([_text_number(row["accepted"]), _text_number(row["trials"])], where)
    except InputError as error:
        raise InputError(error.message, hint=error.hint) from None


def _text_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _cell_whole(text: str, name: str, least: int, where: str) -> int:
    if not text.isdigit() or int(text) < least:
        raise InputError(f"{where}: {name} is {text[:20]!r}", hint=f"{name} is a whole number from {least} up")
    return int(text)


def _from_depth_table(rows: Sequence[tuple[int, dict[str, str]]], where: str, scheme: str) -> Acceptance:
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for number, row in rows:
        at = f"{where}:{number}"
        key = (_cell_whole(row["depth"], "depth", 1, at), _cell_whole(row["rank"], "rank", 0, at))
        if key in found:
            raise InputError(f"{at}: depth {key[0]}, rank {key[1]} is there twice", hint="add the counts up")
        found[key] = _cell_count(row, at)
    table = _filled(found, where)
    counts = Counts(by_depth_rank=table)
    rates = _rates(counts)
    if len(rates) == 1:
        note = "measured at depth 1 only, used at every depth"
        return Positional(rates[0], scheme, counts=counts, notes=(note,))
    return DepthTable(tuple(rates), scheme, counts=counts)


def _filled(
    found: Mapping[tuple[int, int], tuple[float, float]], where: str
) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Rows without gaps."""
    table = []
    for depth in range(1, max(d for d, _ in found) + 1):
        ranks = sorted(k for d, k in found if d == depth)
        if ranks != list(range(len(ranks))) or not ranks:
            missing = next(k for k in range(len(ranks) + 1) if k not in ranks)
            raise InputError(
                f"{where}: depth {depth}, rank {missing} is missing", hint="a rank never accepted has accepted 0"
            )
        table.append(tuple(found[depth, k] for k in ranks))
    return tuple(table)


def _from_paths_table(rows: Sequence[tuple[int, dict[str, str]]], where: str, scheme: str) -> Acceptance:
    counted: dict[Path, tuple[float, float]] = {}
    for number, row in rows:
        at = f"{where}:{number}"
        try:
            path = parse_path(row["path"])
        except InputError as error:
            raise InputError(f"{at}: {error.message}", hint=error.hint) from None
        if path in counted:
            raise InputError(f"{at}: path {list(path)} is there twice", hint="add the counts up")
        counted[path] = _cell_count(row, at)
    entries = tuple((path, *pair) for path, pair in counted.items())
    rounds = max(trials for _, _, trials in entries)
    return Paths(_joint(entries), scheme, counts=Counts(rounds=rounds, by_path=entries))


def is_monotone(values: Iterable[float]) -> bool:
    """Whether no value is above the one before it.

    >>> is_monotone([0.6, 0.2, 0.2]), is_monotone([0.3, 0.4])
    (True, False)
    """
    return _falls(list(values))
