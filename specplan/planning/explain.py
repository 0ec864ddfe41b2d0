"""Why this shape: what no tree can exceed, and how the optimum moves when the inputs are off by 10 %."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..acceptance.kinds import Acceptance, ByDepth, Chain, DepthTable, Independent, Mixture, Paths, Positional
from ..base.errors import InputError
from ..base.tree import TokenTree
from ..search.best import best_tree
from ..search.costs import RoundCosts
from ..search.shape import shape_of
from ..search.space import Space


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Tokens per round that no tree exceeds, bonus included.

    at_depth   trees of at most `depth` levels, however many nodes
    any        any tree at all; None where it has no end
    """

    depth: int
    at_depth: float
    any: float | None


def ceiling(acceptance: ByDepth, *, depth: int, children: int | None = None) -> Ceiling:
    """The closed-form limits: with A the probability that one of the children is accepted, a tree of D levels
    yields at most (1 - A^(D+1)) / (1 - A) tokens, any tree at most 1 / (1 - A); A may differ by level.

    children   most children of a node; None: all that are known, without end for independent candidates

    >>> ceiling(Positional((0.6, 0.2)), depth=2).any
    5.000000000000001
    """
    levels = min(depth, acceptance.max_depth or depth)
    covers = [_cover(acceptance, level, children) for level in range(1, levels + 1)]
    total, reached = 1.0, 1.0
    for cover in covers:
        reached *= cover
        total += reached
    if acceptance.max_depth is not None:
        return Ceiling(depth, total, total if acceptance.max_depth <= depth else None)
    constant = acceptance.depth_free and covers[-1] < 1
    return Ceiling(depth, total, 1 / (1 - covers[-1]) if constant else None)


def _cover(acceptance: ByDepth, level: int, children: int | None) -> float:
    """Probability that one of a node's children at `level` is accepted."""
    known = acceptance.ranks_known(level)
    if known is None and children is None:
        return 1.0 if acceptance.probability(level, 0) > 0 else 0.0
    count = min(value for value in (known, children) if value is not None)
    return min(1.0, sum(acceptance.row(level, count)))


def scaled(acceptance: Acceptance, factor: float) -> Acceptance:
    """The same acceptance with every probability times `factor`, as far as rows still sum to at most 1.

    >>> scaled(Independent(0.6), 1.1).p
    0.66
    """
    if isinstance(acceptance, Independent):
        p = acceptance.p
        shrunk = (
            tuple(min(1.0, round(v * factor, 12)) for v in p)
            if isinstance(p, tuple)
            else min(1.0, round(p * factor, 12))
        )
        return replace(acceptance, p=shrunk, counts=None)
    if isinstance(acceptance, Positional):
        return replace(acceptance, child_prob=_scaled_row(acceptance.child_prob, factor), counts=None)
    if isinstance(acceptance, DepthTable):
        return replace(acceptance, rows=tuple(_scaled_row(row, factor) for row in acceptance.rows), counts=None)
    if isinstance(acceptance, Chain):
        return replace(acceptance, alpha=tuple(min(1.0, a * factor) for a in acceptance.alpha), counts=None)
    if isinstance(acceptance, Mixture):
        parts = tuple(scaled(part, factor) for part in acceptance.components)
        return replace(acceptance, components=parts, counts=None)
    raise InputError(f"{acceptance.kind} cannot be scaled", hint="sensitivity needs probabilities by depth and rank")


def _scaled_row(row: tuple[float, ...], factor: float) -> tuple[float, ...]:
    total = sum(row)
    most = factor if total * factor <= 1 or total == 0 else 1 / total
    return tuple(value * most for value in row)


@dataclass(frozen=True, slots=True)
class Moved:
    """The optimum when an input is other than assumed, and the loss of keeping the planned shape.

    speedup   of the new optimum, kept of the planned tree under the same inputs
    loss      fraction of tokens per second lost by keeping it
    """

    nodes: int
    depth: int
    speedup: float
    kept: float
    loss: float


def sensitivity(
    tree: TokenTree, limits: Space, variants: Mapping[str, tuple[Acceptance, RoundCosts]]
) -> dict[str, Moved]:
    """How the optimum moves under each variant of (acceptance, costs)."""
    moved = {}
    for name, (acceptance, costs) in variants.items():
        best = best_tree(acceptance, limits, costs).shape
        kept = shape_of(tree, acceptance, costs).speedup or 1.0
        new = best.speedup or 1.0
        moved[name] = Moved(best.nodes, best.depth, new, kept, 1 - kept / new)
    return moved


def variants(
    acceptance: Acceptance, costs: RoundCosts, faster: RoundCosts | None, slower: RoundCosts | None
) -> dict[str, tuple[Acceptance, RoundCosts]]:
    """Acceptance, draft cost and, where costs at another bandwidth are given, bandwidth, each 10 % up and down."""
    found: dict[str, tuple[Acceptance, RoundCosts]] = {}
    if not isinstance(acceptance, Paths):
        found |= {f"acceptance {sign}10 %": (scaled(acceptance, f), costs) for sign, f in (("-", 0.9), ("+", 1.1))}
    found |= {f"draft cost {sign}10 %": (acceptance, _dearer(costs, f)) for sign, f in (("-", 0.9), ("+", 1.1))}
    if slower is not None and faster is not None:
        found |= {"bandwidth -10 %": (acceptance, slower), "bandwidth +10 %": (acceptance, faster)}
    return found


def _dearer(costs: RoundCosts, factor: float) -> RoundCosts:
    at = costs.draft.at
    return replace(costs, draft=replace(costs.draft, pass_s=lambda width: factor * at(width)))
