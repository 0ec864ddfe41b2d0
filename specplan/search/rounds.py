"""What one round takes and yields: draft passes, one verification pass, overhead.

>>> evaluate(TokenTree.chain(3), [0.8], verify_s=[10, 10, 10, 10], draft_s=1.0).round_s
13.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..acceptance.kinds import Acceptance, as_acceptance
from ..base.errors import InputError, did_you_mean
from ..base.tree import TokenTree

# Times of a pass by its width: index i is a pass over i + 1 tokens; or a function of the width.
Times = Sequence[float] | Callable[[int], float]

PASSES = ("all_but_leaf", "all", "expanded")
SHAPES = ("sequential", "block")


def _seconds(value: Any, what: str, *, least: float) -> float:
    """A time; None where no time is known becomes infinity: such a width is never chosen."""
    if value is None:
        return math.inf
    if isinstance(value, (bool, str, bytes)):
        raise InputError(f"{what} is {str(value)[:30]!r}", hint="give seconds as a number")
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{what} is {str(value)[:30]!r}", hint="give seconds as a number") from None
    if math.isnan(seconds) or seconds < least or (seconds == 0 and least > 0):
        raise InputError(
            f"{what} is {seconds:g} s", hint="a pass takes a time above 0" if least else "a time is not negative"
        )
    return seconds


def _listed(times: Any, what: str) -> Callable[[int], Any] | list[Any]:
    """A function of the width, or a list by width - 1."""
    if callable(times):
        return times  # type: ignore[no-any-return]
    values = times.tolist() if hasattr(times, "tolist") else times
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise InputError(
            f"{what} is {str(times)[:30]!r}", hint="give a list of seconds by width, or a function of the width"
        )
    if not values:
        raise InputError(f"{what} is empty", hint="give the seconds of a pass over 1, 2, 3, ... tokens")
    return list(values)


@dataclass(frozen=True)
class Costs:
    """Times of the passes of a round.

    verify   seconds by width; draft: seconds by width, or one time for any width
    passes   all: the root's pass and one over every level; all_but_leaf: none over the last level, so that a chain
             of g tokens pays g passes; expanded: a pass feeds only the nodes that get children
    shape    sequential; block: one draft pass of width = depth of the tree
    """

    verify: Callable[[int], Any] | list[Any]
    draft: Callable[[int], Any] | list[Any] | float
    overhead_s: float
    passes: str
    shape: str

    @classmethod
    def of(cls, verify_s: Any, draft_s: Any, overhead_s: Any, draft_passes: str, draft_shape: str) -> Costs:
        for given, known, what in ((draft_passes, PASSES, "draft_passes"), (draft_shape, SHAPES, "draft_shape")):
            if given not in known:
                otherwise = f"use {', '.join(known)}"
                raise InputError(
                    f"{what} is {str(given)[:30]!r}", hint=did_you_mean(str(given), known, otherwise=otherwise)
                )
        plain = draft_s is None or (not callable(draft_s) and not hasattr(draft_s, "__len__"))
        draft = _seconds(draft_s or 0.0, "draft_s", least=0.0) if plain else _listed(draft_s, "draft_s")
        overhead = _seconds(overhead_s, "overhead_s", least=0.0)
        return cls(_listed(verify_s, "verify_s"), draft, overhead, draft_passes, draft_shape)

    def verify_time(self, width: int) -> float:
        return self._time(self.verify, width, "verify_s", math.ulp(0.0))

    def draft_time(self, width: int) -> float:
        return self.draft if isinstance(self.draft, float) else self._time(self.draft, width, "draft_s", 0.0)

    @staticmethod
    def _time(times: Callable[[int], Any] | list[Any], width: int, what: str, least: float) -> float:
        if callable(times):
            return _seconds(times(width), f"{what}({width})", least=least)
        if width > len(times):
            return math.inf
        return _seconds(times[width - 1], f"{what}[{width - 1}]", least=least)

    def verify_times(self, max_nodes: int) -> list[float]:
        """By nodes 0..max_nodes, or to the end of the curve."""
        end = max_nodes + 1 if callable(self.verify) else min(max_nodes + 1, len(self.verify))
        return [self.verify_time(width) for width in range(1, end + 1)]

    def draft_times(self, max_width: int) -> list[float]:
        """By width 0..max_width; no time for a width of 0."""
        return [0.0] + [self.draft_time(width) for width in range(1, max_width + 1)]

    def pass_widths(self, tree: TokenTree) -> tuple[int, ...]:
        """Widths of the draft passes of a tree, the root's first."""
        if not tree.nodes:
            return ()
        if self.shape == "sequential" and self.passes == "expanded":
            return (1, *tree.expanded_widths[:-1])
        return self.pass_widths_of(tree.widths)

    def pass_widths_of(self, widths: Sequence[int]) -> tuple[int, ...]:
        """The same for levels of these widths whose nodes all have children, the last level's apart."""
        if self.shape == "block":
            return (len(widths),)
        return (1, *(widths if self.passes == "all" else widths[:-1]))


@dataclass(frozen=True)
class Round:
    """One round with a given tree: what it yields and what it takes.

    pass_s   seconds of each draft pass
    tokens_per_s   of one sequence; speedup: against a verification pass of width 1 and nothing else
    """

    nodes: int
    width: int
    depth: int
    widths: tuple[int, ...]
    accepted: float
    tau: float
    pass_s: tuple[float, ...]
    draft_s: float
    verify_s: float
    overhead_s: float
    round_s: float
    tokens_per_s: float
    speedup: float

    @property
    def passes(self) -> int:
        """Draft passes."""
        return len(self.pass_s)


def evaluate(
    tree: TokenTree,
    acceptance: Any,
    *,
    verify_s: Times,
    draft_s: Times | float | None = None,
    overhead_s: float = 0.0,
    draft_passes: str = "all_but_leaf",
    draft_shape: str = "sequential",
) -> Round:
    """What one round with this tree yields and takes.

    verify_s, draft_s   verify_s[i] is the time of a pass over i + 1 tokens; or functions of the width; draft_s may
                        be one time for any width, None is no cost
    overhead_s          per round, in addition
    Raises              InputError where a curve ends before the width that the tree needs

    >>> evaluate(TokenTree.full(2, 3), [0.6, 0.24], verify_s=lambda width: 12.75e-3).round_s
    0.01275
    """
    costs = Costs.of(verify_s, draft_s, overhead_s, draft_passes, draft_shape)
    return round_of(tree, as_acceptance(acceptance), costs)


def round_of(tree: TokenTree, acceptance: Acceptance, costs: Costs) -> Round:
    """As `evaluate`, from costs that were read already."""
    pass_s = tuple(known_time(costs.draft_time(width), "draft", width) for width in costs.pass_widths(tree))
    verify_s = known_time(costs.verify_time(tree.width), "verify", tree.width)
    plain_s = known_time(costs.verify_time(1), "verify", 1)
    overhead_s = costs.overhead_s if tree.nodes else 0.0
    accepted = acceptance.accepted(tree)
    draft_s = math.fsum(pass_s)
    round_s = draft_s + verify_s + overhead_s
    rate = (1.0 + accepted) / round_s
    return Round(
        nodes=tree.nodes,
        width=tree.width,
        depth=tree.depth,
        widths=tree.widths,
        accepted=accepted,
        tau=1.0 + accepted,
        pass_s=pass_s,
        draft_s=draft_s,
        verify_s=verify_s,
        overhead_s=overhead_s,
        round_s=round_s,
        tokens_per_s=rate,
        speedup=rate * plain_s,
    )


def known_time(seconds: float, what: str, width: int) -> float:
    """Refuses a time that is not known."""
    if math.isinf(seconds):
        raise InputError(
            f"no {what} time for a pass over {width} tokens",
            hint=f"give a {what} curve up to that width, or a smaller tree",
        )
    return seconds
