"""A tree with what it yields and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..acceptance.kinds import Acceptance
from ..base.errors import InputError
from ..base.tree import TokenTree
from .costs import RoundCosts
from .optimize import evaluate
from .space import Dynamic

# Ranks in all paths of a tree together; above it `paths` is left out, parents and ranks say the same.
LONGEST_PATHS = 2_000_000


@dataclass(frozen=True, slots=True)
class DraftTime:
    """The draft's part of a round: passes, mean seconds of one, all of them."""

    passes: int
    pass_s: float | None
    total_s: float | None


@dataclass(frozen=True)
class Shape:
    """A tree with what it yields and costs; keys as in contract.md. Times are null without costs.

    interpolated   True when the verification time lies between measured widths
    dynamic        the settings that yield it where the engine builds the tree; then the tree is the one of one context
    """

    nodes: int
    width: int
    depth: int
    widths: tuple[int, ...]
    parents: tuple[int, ...]
    ranks: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...] | None
    position_offsets: tuple[int, ...]
    level_survival: tuple[float, ...]
    accepted: float
    tau: float
    draft: DraftTime
    verify_s: float | None
    overhead_s: float | None
    round_s: float | None
    tokens_per_s: float | None
    tokens_per_s_per_sequence: float | None
    speedup: float | None
    interpolated: bool = False
    dynamic: Dynamic | None = None

    @property
    def tree(self) -> TokenTree:
        return TokenTree.from_parents(self.parents, self.ranks)


def draft_pass_count(tree: TokenTree, costs: RoundCosts | None) -> int:
    """Draft passes of a round in the convention of `costs`."""
    if tree.nodes == 0:
        return 0
    if costs is not None and costs.draft.passes is not None:
        return costs.draft.passes(tree.depth)
    if costs is not None and costs.draft_shape == "block":
        return 1
    return tree.depth + (1 if costs is not None and costs.draft_passes == "all" else 0)


def shape_of(tree: TokenTree, acceptance: Acceptance, costs: RoundCosts | None) -> Shape:
    """What `tree` yields under `acceptance` and costs under `costs`.

    Raises  InputError when the verification curve ends before the tree's width.
    """
    survival = tuple(acceptance.level_survival(tree))
    passes = draft_pass_count(tree, costs)
    common: dict[str, Any] = {
        "nodes": tree.nodes,
        "width": tree.width,
        "depth": tree.depth,
        "widths": tree.widths,
        "parents": tree.parents,
        "ranks": tree.ranks,
        "paths": tree.paths if sum(tree.position_offsets) <= LONGEST_PATHS else None,
        "position_offsets": tree.position_offsets,
        "level_survival": survival,
    }
    if costs is None:
        accepted = acceptance.accepted(tree)
        nothing: dict[str, Any] = dict.fromkeys(
            ("verify_s", "overhead_s", "round_s", "tokens_per_s", "tokens_per_s_per_sequence", "speedup")
        )
        return Shape(**common, accepted=accepted, tau=accepted + 1, draft=DraftTime(passes, None, None), **nothing)
    if tree.width > len(costs.verify_s):
        raise InputError(
            f"no verification time for width {tree.width} ({tree.nodes} nodes and the root)",
            hint=f"the curve ends at width {len(costs.verify_s)}",
        )
    at = evaluate(tree, acceptance, **costs.arguments())
    rate = None if costs.relative else costs.batch * at.tokens_per_s
    return Shape(
        **common,
        accepted=at.accepted,
        tau=at.tau,
        draft=DraftTime(passes, at.draft_s / passes if passes else 0.0, at.draft_s),
        verify_s=at.verify_s,
        overhead_s=at.overhead_s,
        round_s=at.round_s,
        tokens_per_s=rate,
        tokens_per_s_per_sequence=None if rate is None else rate / costs.batch,
        speedup=at.tau * costs.plain_s / at.round_s,
        interpolated=costs.measured is not None and tree.width not in costs.measured,
    )
