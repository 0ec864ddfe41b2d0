"""How likely a drafted token is the accepted one.

    Acceptance                     counts, rule and temperature travel with every kind
    |- ByDepth                     the probability depends on depth and rank only
    |  |- Independent              p (1-p)^k: each candidate accepted with probability p
    |  |- Positional               one vector of child probabilities for every depth
    |  |- DepthTable               one vector per depth
    |  `- Chain                    conditional rates by position; says nothing about siblings
    |- Paths                       measured probability of each whole path
    |- ByK (by_k.py)               tokens per round of chains of measured lengths, nothing between them
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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from ..base.errors import InputError, did_you_mean
from ..base.tree import MAX_DEPTH, Path, TokenTree

# Sums of measured shares may exceed 1 by rounding; float32 vectors of 32 entries stay below 1e-6.
SUM_SLACK = 1e-6
SLACK = 1e-9

# Children are tested in order (child k needs children 0..k-1), or any subset of ranks may be drafted.
SCHEMES = {"ordered": False, "without_replacement": False, "ranked": True, "topk": True}

# ---- checking numbers


def to_number(value: Any, what: str, *, hint: str = "give a number") -> float:
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


def to_probability(value: Any, what: str) -> float:
    """A float in [0, 1]."""
    hint = "a probability lies between 0 and 1; write 0.6, not 60"
    number = to_number(value, what, hint=hint)
    if not -SLACK <= number <= 1 + SLACK:
        raise InputError(f"{what} is {number:g}", hint=hint)
    return min(max(number, 0.0), 1.0)


def to_whole(value: Any, what: str, *, least: int = 1) -> int:
    """A whole number from `least` up."""
    number = to_number(value, what, hint=f"give a whole number from {least} up")
    if number != int(number) or number < least:
        raise InputError(f"{what} is {number:g}", hint=f"give a whole number from {least} up")
    return int(number)


def to_values(given: Any, what: str) -> list[Any]:
    """The entries of a list, a tuple or an array."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise InputError(f"{what} is {str(given)[:40]!r}", hint="give a list of numbers, such as [0.63, 0.11]")
    values = list(given)
    if not values:
        raise InputError(f"{what} is empty", hint="give at least one value")
    return values


def to_probabilities(given: Any, what: str) -> tuple[float, ...]:
    """A list or array of probabilities."""
    return tuple(to_probability(value, f"{what}[{i}]") for i, value in enumerate(to_values(given, what)))


def _row(given: Any, what: str, *, exclusive: bool = True) -> tuple[float, ...]:
    """Child probabilities of one node; at most one child is the accepted one, so they sum to at most 1."""
    row = to_probabilities(given, what)
    if exclusive and math.fsum(row) > 1 + SUM_SLACK:
        raise InputError(
            f"{what} sums to {math.fsum(row):.6g}",
            hint="entries are not conditioned on siblings and sum to at most 1; cumulative rates must be differenced",
        )
    return row


def _falls(values: Sequence[float]) -> bool:
    return all(b <= a for a, b in itertools.pairwise(values))


def is_monotone(values: Iterable[float]) -> bool:
    """Whether no value is above the one before it.

    >>> is_monotone([0.6, 0.2, 0.2]), is_monotone([0.3, 0.4])
    (True, False)
    """
    return _falls(list(values))


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

    def short_drafts(self, k: int) -> list[str]:
        """A warning where fewer tokens than k were drafted a round.

        >>> Counts(rounds=100, drafted=250).short_drafts(3)[0][:42]
        'drafts were shorter than 3: 2.50 tokens a '
        """
        rounds = (self.rounds or 0.0) - (self.rounds_without_proposal or 0.0)
        if not self.drafted or rounds <= 0 or self.drafted >= rounds * k - 0.5:
            return []
        return [
            f"drafts were shorter than {k}: {self.drafted / rounds:.2f} tokens a round. Rounds that never drafted a "
            "deep position count against it, so deep positions look worse than they are: measure with a fixed K to "
            "plan another"
        ]


@dataclass(frozen=True)
class Acceptance(ABC):
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
    # Whether a node has a value of its own, whatever else is in the tree.
    by_node: ClassVar[bool] = True

    @property
    def max_depth(self) -> int | None:
        """Levels for which something is known; None: all."""
        return None

    def knows(self, tree: TokenTree) -> bool:
        """Whether the tree can be valued at all."""
        return True

    @property
    def siblings_known(self) -> bool:
        """Whether the second and later children of a node are known."""
        return True

    @property
    def any_subset(self) -> bool:
        """Whether child k may be drafted without children 0..k-1."""
        return False

    @property
    @abstractmethod
    def is_monotone(self) -> bool:
        """Whether an earlier sibling is never less likely, so that best-first is exact."""

    @abstractmethod
    def start(self) -> Any:
        """State of the root."""

    @abstractmethod
    def child(self, state: Any, depth: int, rank: int) -> Any:
        """State of the child of that rank at `depth`, None where nothing is known."""

    @abstractmethod
    def weight(self, state: Any) -> float:
        """Probability that the node is reached and accepted."""

    @abstractmethod
    def breadth(self, state: Any, depth: int) -> int | None:
        """Ranks below a node that can be known; None: no end."""

    def rounds_of(self, tree: TokenTree) -> float | None:
        """Rounds that were counted with such a tree, None where none were."""
        return None if self.counts is None else self.counts.rounds

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

    @abstractmethod
    def ranks_known(self, depth: int) -> int | None:
        """Length of the row at `depth`; None: no end."""

    @abstractmethod
    def probability(self, depth: int, rank: int) -> float:
        """P(the child of that rank at that depth is the accepted one | its parent was); rank must be known."""

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
        p = to_probabilities(self.p, "p") if many else to_probability(self.p, "p")
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "decay", to_probability(self.decay, "decay"))

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
    if not isinstance(scheme, str) or scheme not in SCHEMES:
        raise InputError(
            f"unknown scheme {str(scheme)[:40]!r}",
            hint=did_you_mean(str(scheme), SCHEMES, otherwise="use ordered or ranked"),
        )


@dataclass(frozen=True)
class _Table(ByDepth):
    """Rows of numbers."""

    @property
    @abstractmethod
    def _rows(self) -> tuple[tuple[float, ...], ...]:
        """Child probabilities, a row a depth."""

    @property
    def is_monotone(self) -> bool:
        return self.any_subset or all(map(_falls, self._rows))

    def ranks_known(self, depth: int) -> int | None:
        return len(self._row_at(depth))

    def probability(self, depth: int, rank: int) -> float:
        return self._row_at(depth)[rank]

    def row(self, depth: int, limit: int) -> tuple[float, ...]:
        return self._row_at(depth)[:limit]

    def _row_at(self, depth: int) -> tuple[float, ...]:
        return self._rows[depth - 1] if depth <= len(self._rows) else ()


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

    def _row_at(self, depth: int) -> tuple[float, ...]:
        return self.child_prob


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
            _row(row, f"row of depth {d}", exclusive=exclusive) for d, row in enumerate(to_values(self.rows, "rows"), 1)
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
        object.__setattr__(self, "alpha", to_probabilities(self.alpha, "alpha"))

    @classmethod
    def constant(cls, alpha: float, **shared: Any) -> Chain:
        """The same rate at every position."""
        return cls((alpha,), extends=True, **shared)

    @classmethod
    def from_survival(cls, survival: Sequence[float], **shared: Any) -> Chain:
        """From P(at least i accepted), i = 1..K. vLLM's rate per position is this one.

        Raises  InputError when it rises.
        """
        values = to_probabilities(survival, "survival")
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
        count = to_whole(k, "k")
        length = to_number(tau, "the accept length")
        if not 1 - SLACK <= length <= count + 1 + SLACK:
            raise InputError(
                f"an accept length of {length:g} with k {count}",
                hint=f"bonus included it lies between 1 and {count + 1}; without the bonus, add 1",
            )
        return cls((_constant_rate(length - 1.0, count),), extends=True, measured_depth=count, **shared)

    @classmethod
    def from_accept_rate(cls, rate: float, k: int, **shared: Any) -> Chain:
        """From accepted over drafted tokens of a chain of k: tau = 1 + k rate."""
        share = to_probability(rate, "the accept rate")
        return cls.from_accept_length(1.0 + to_whole(k, "k") * share, k, **shared)

    @classmethod
    def from_accept_lengths(cls, tau_by_k: Mapping[int, float], **shared: Any) -> Chain:
        """From mean tokens of a round by chain length; between two lengths the rate is constant.

        Raises  InputError where the lengths cannot come from one draft.

        >>> [round(a, 6) for a in Chain.from_accept_lengths({1: 1.8, 2: 2.4}).alpha]
        [0.8, 0.75]
        """
        alpha: list[float] = []
        tau, survival = 1.0, 1.0
        for k, length in chain_lengths(tau_by_k):
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


def chain_lengths(tau_by_k: Mapping[Any, float]) -> list[tuple[int, float]]:
    """(K, tokens per round) by rising K; keys may be text, K 0 is left out.

    >>> chain_lengths({"3": 2.6, "1": 1.8})
    [(1, 1.8), (3, 2.6)]
    """
    if not tau_by_k:
        raise InputError("no accept length by k", hint='give lengths such as {"1": 1.8, "3": 2.6}')
    pairs = [(_key(k), to_number(tau, f"the accept length at k {k}")) for k, tau in tau_by_k.items()]
    return sorted(pair for pair in pairs if pair[0] > 0)


def _key(k: Any) -> int:
    """JSON has text for keys."""
    text = str(k).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MAX_DEPTH):
        raise InputError(f"k is {text[:20]!r}", hint=f"the keys are chain lengths, such as 3, at most {MAX_DEPTH}")
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
        pairs = {tuple(path): to_probability(prob, f"path {list(path)}") for path, prob in to_values(given, "paths")}
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
        components = tuple(as_acceptance(part) for part in to_values(self.components, "components"))
        weights = [to_number(weight, f"weights[{i}]") for i, weight in enumerate(to_values(self.weights, "weights"))]
        if len(weights) != len(components):
            raise InputError(
                f"{len(components)} components and {len(weights)} weights", hint="give one weight for each"
            )
        if min(weights) < 0 or sum(weights) <= 0:
            raise InputError(
                f"weights are {weights}"[:100], hint="weights are shares of rounds: none negative, not all 0"
            )
        if not all(part.by_node for part in components):
            raise InputError("lengths by K are not mixed node by node", hint="by_k.mixed mixes them length by length")
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
            f"acceptance is {str(given)[:40]}",
            hint="give child probabilities as a list, or Independent(p) for candidates accepted alike",
        )
    values = to_values(given, "child_prob")
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
    count = to_number(trials, "trials")
    hits = to_number(accepted, "accepted")
    if count <= 0 or not 0 <= hits <= count:
        raise InputError(f"{hits:g} accepted of {count:g}", hint="accepted lies between 0 and trials, trials above 0")
    z = _quantile(level)
    p, scale = hits / count, 1 + z * z / count
    middle = (p + z * z / (2 * count)) / scale
    half = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count)) / scale
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == count else min(1.0, middle + half)
    return Interval(low, high, math.sqrt(p * (1 - p) / count), level)


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
    rounds = acceptance.rounds_of(tree)
    if not rounds:
        return None
    return _around(acceptance.tau(tree), math.sqrt(_round_variance(acceptance, tree) / rounds), tree, level)


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
