"""The best tree within limits, beside the chain and the full tree that one would take without a search."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from ..acceptance.kinds import Acceptance, ByDepth
from ..base.errors import InputError
from ..base.tree import TokenTree
from .costs import RoundCosts
from .optimize import Candidate, Frontier, best_trees, evaluate, fastest_tree, full_tree_fitting
from .shape import Shape, shape_of
from .space import Space

WIDEST_FAN = 512


@dataclass(frozen=True)
class Best:
    """The best tree, how sure that is, and the curve over node counts.

    optimality   "proved", or "gap" with `gap` the fraction that may be missing
    candidates   one row a node count from 0: exactly that many nodes
    tree_with    the tree of a row
    shape_with   the shape of a row, where a tree alone does not say what its round costs
    """

    shape: Shape
    tree: TokenTree
    optimality: str
    gap: float
    candidates: Sequence[Candidate]
    tree_with: Callable[[int], TokenTree]
    shape_with: Callable[[int], Shape] | None = None

    def shape_at(self, nodes: int, acceptance: Acceptance, costs: RoundCosts | None) -> Shape:
        """The shape of a row."""
        if self.shape_with is not None:
            return self.shape_with(nodes)
        return shape_of(self.tree_with(nodes), acceptance, costs)


def best_tree(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Best:
    """The best tree within `limits`: per second with costs, else with as many nodes as exist up to the budget."""
    if costs is None:
        return _best_for_budget(acceptance, limits)
    found = fastest_tree(acceptance, **costs.arguments(), **limits.arguments())
    same = costs.batch == 1 and not costs.relative
    rows = found.candidates if same else [_scaled(row, costs) for row in found.candidates]
    return Best(shape_of(found.tree, acceptance, costs), found.tree, found.optimality, found.gap, rows, found.tree_with)


def _scaled(row: Candidate, costs: RoundCosts) -> Candidate:
    """A candidate for one sequence as one for the whole batch."""
    if row.tokens_per_s is None:
        return row
    return replace(row, tokens_per_s=None if costs.relative else row.tokens_per_s * costs.batch)


def _best_for_budget(acceptance: Acceptance, limits: Space) -> Best:
    if not acceptance.by_node:
        return _best_known_chain(acceptance, limits)
    frontier = best_trees(acceptance, **limits.arguments())
    rows = UntimedRows(frontier)
    nodes = next(n for n in range(limits.nodes, -1, -1) if rows.most[n] is not None)
    tree = frontier.tree(nodes, frontier.max_depth)
    shape = shape_of(tree, acceptance, None)
    gap = frontier.bound(frontier.max_depth)[nodes] - shape.accepted
    proved = frontier.optimality == "proved" or gap <= 1e-9
    optimality, share = ("proved", 0.0) if proved else ("gap", gap / shape.tau)
    return Best(shape, tree, optimality, share, rows, lambda n: frontier.tree(n, frontier.max_depth))


def _best_known_chain(acceptance: Acceptance, limits: Space) -> Best:
    """The chain with the most tokens per round among those that were measured."""
    taus = {k: acceptance.tau(TokenTree.chain(k)) for k in known_chains(acceptance, limits)}
    taus[0] = 1.0
    rows = [
        Candidate(n, n if n in taus else None, taus.get(n), None, None, None)
        for n in range(max(limits.nodes, *taus) + 1)
    ]
    tree = TokenTree.chain(max(taus, key=lambda k: (taus[k], -k)))
    return Best(shape_of(tree, acceptance, None), tree, "proved", 0.0, rows, TokenTree.chain)


class UntimedRows(Sequence[Candidate]):
    """One row a node count without times: the best tree of exactly that many nodes, at the smallest depth."""

    def __init__(self, frontier: Frontier) -> None:
        self.exact = frontier.exact
        self.most = frontier.exact[-1]

    def __iter__(self) -> Iterator[Candidate]:
        depths: list[int | None] = [None] * len(self.most)
        for depth in range(len(self.exact)):
            for nodes, value in enumerate(self.exact[depth]):
                if depths[nodes] is None and value is not None and value >= self.most[nodes] * (1 - 1e-12):
                    depths[nodes] = depth
        for nodes, (most, found) in enumerate(zip(self.most, depths)):
            yield Candidate(nodes, found, None if most is None else 1 + most, None, None, None)

    def __len__(self) -> int:
        return len(self.most)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        nodes = range(len(self))[index]
        most = self.most[nodes]
        if most is None:
            return Candidate(nodes, None, None, None, None, None)
        depth = bisect_left(range(len(self.exact)), True, key=lambda d: self._reaches(d, nodes, most))
        return Candidate(nodes, depth, 1 + most, None, None, None)

    def _reaches(self, depth: int, nodes: int, most: float) -> bool:
        """Whether that many levels are enough; once they are, more are too."""
        value = self.exact[depth][nodes]
        return value is not None and value >= most * (1 - 1e-12)


def best_chain(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Shape:
    """The best chain of at least one node: per second with costs, else of the whole budget."""
    known = known_chains(acceptance, limits)
    if costs is None:
        return shape_of(TokenTree.chain(known[-1] if known else 0), acceptance, None)
    lengths = [k for k in known if k < len(costs.verify_s) and math.isfinite(costs.verify_s[k])]
    if not lengths:
        return shape_of(TokenTree.empty(), acceptance, costs)
    rate = {k: evaluate(TokenTree.chain(k), acceptance, **costs.arguments()).tokens_per_s for k in lengths}
    return shape_of(TokenTree.chain(max(lengths, key=lambda k: (rate[k], -k))), acceptance, costs)


def known_chains(acceptance: Acceptance, limits: Space) -> list[int]:
    """The lengths of chains that the limits and the acceptance allow, rising."""
    known = acceptance.max_depth
    longest = min(limits.nodes, limits.depth, known if known is not None else limits.depth)
    return [k for k in range(1, longest + 1) if acceptance.by_node or acceptance.knows(TokenTree.chain(k))]


def full_tree(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> Shape | None:
    """The best full k-ary tree with k >= 2 that fits the budget; None when not even two nodes fit."""
    if not acceptance.by_node:
        return None
    children = min(limits.children or limits.nodes, _widest_useful(acceptance))
    given = {} if costs is None else costs.arguments()
    tree = full_tree_fitting(acceptance, limits.nodes, max_depth=limits.depth, max_children=children, **given)
    return None if tree is None else shape_of(tree, acceptance, costs)


def _widest_useful(acceptance: Acceptance) -> int:
    """Children beyond this one add less than 1e-6 to the first level: wider fans need not be looked at."""
    if not isinstance(acceptance, ByDepth):
        return WIDEST_FAN
    row = acceptance.row(1, WIDEST_FAN)
    return max((rank + 1 for rank, value in enumerate(row) if value > 1e-6), default=1) + 1


def comparisons(acceptance: Acceptance, limits: Space, costs: RoundCosts | None) -> dict[str, Shape | None]:
    """Plain decoding, the best chain of the budget, the best full tree, and the chain of its depth."""
    full = full_tree(acceptance, limits, costs)
    timed = full is not None and (costs is None or math.isfinite(costs.verify_s[full.depth]))
    same = shape_of(TokenTree.chain(full.depth), acceptance, costs) if full is not None and timed else None
    return {
        "plain": shape_of(TokenTree.empty(), acceptance, costs),
        "chain_same_budget": best_chain(acceptance, limits, costs),
        "chain_same_depth": same,
        "full_tree": full,
    }


def recommended(acceptance: Acceptance, best: Best, costs: RoundCosts, tie: float) -> Shape:
    """The smallest shape within `tie` of the optimum; a measured width before an interpolated one.

    tie   share of tokens per second that counts as equal, in [0, 1)
    """
    if not 0 <= tie < 1:
        raise InputError(f"--tie {tie:g} is not a share in [0, 1)", hint="write 1% or 0.01")
    enough = (best.shape.speedup or 1.0) * (1 - tie)
    rows = [row.nodes for row in best.candidates if row.speedup is not None and row.speedup >= enough]
    if costs.measured is not None:
        rows = [nodes for nodes in rows if nodes + 1 in costs.measured] or rows
    if not rows or rows[0] >= best.shape.nodes:
        return best.shape
    return best.shape_at(rows[0], acceptance, costs)
