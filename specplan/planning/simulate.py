"""Rounds played out with random numbers: a check on the sums, and how far rounds spread.

A round walks down the tree. At each node the children are tested in turn, and the first that passes is followed. All
rounds that stand at a node are tested together: how many of n pass is one binomial draw, so the work depends on the
nodes of the tree and not on the rounds.

    >>> from ..acceptance.kinds import Independent
    >>> abs(simulate(TokenTree.full(2, 3), Independent(0.6), rounds=1_000_000, seed=1).tau - 3.138304) < 0.01
    True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..acceptance.kinds import Acceptance, Mixture, as_acceptance
from ..base.errors import InputError
from ..base.tree import TokenTree

if TYPE_CHECKING:
    import numpy as np

MAX_ROUNDS = 10**15


@dataclass(frozen=True)
class Simulated:
    """What the rounds gave.

    tau               mean tokens of a round, bonus token included
    se                standard error of that mean
    accepted_counts   [d] rounds in which d drafted tokens were accepted, d = 0..depth
    """

    tau: float
    se: float
    accepted_counts: tuple[int, ...]
    rounds: int
    seed: int


def simulate(tree: TokenTree, acceptance: Any, *, rounds: int = 100_000, seed: int = 0) -> Simulated:
    """Plays `rounds` independent rounds with this tree.

    acceptance   an Acceptance, or child probabilities in the order in which children are tested; a mixture draws the
                 context of each round first
    seed         the same seed gives the same rounds
    Raises       InputError for a number of rounds or a seed that is none

    >>> simulate(TokenTree.chain(1), [1.0], rounds=5).accepted_counts
    (0, 5)
    """
    count = _whole(rounds, "rounds", 1, MAX_ROUNDS)
    start = _whole(seed, "seed", 0, 2**63)
    import numpy as np

    ended = _play(tree, as_acceptance(acceptance), count, np.random.default_rng(start))
    mean = sum(d * n for d, n in enumerate(ended)) / count
    variance = sum(n * (d - mean) ** 2 for d, n in enumerate(ended)) / max(count - 1, 1)
    return Simulated(1.0 + mean, math.sqrt(variance / count), tuple(ended), count, start)


def _whole(value: Any, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= int(value) <= most:
        raise InputError(f"{what} is {str(value)[:20]}", hint=f"give a whole number from {least} to {most}")
    return int(value)


def _play(tree: TokenTree, acceptance: Acceptance, rounds: int, random: np.random.Generator) -> list[int]:
    """Rounds by accepted tokens."""
    if not isinstance(acceptance, Mixture):
        return _walk(tree, acceptance.reach(tree), rounds, random)
    total = [0] * (tree.depth + 1)
    for part, share in zip(acceptance.components, random.multinomial(rounds, acceptance.weights)):
        if share:
            total = [a + b for a, b in zip(total, _play(tree, part, int(share), random))]
    return total


def _walk(tree: TokenTree, reach: list[float], rounds: int, random: np.random.Generator) -> list[int]:
    """All rounds down the tree. `waiting` counts the rounds at a node whose next child is not tested yet."""
    waiting = [0] * tree.nodes + [rounds]
    untested = [*reach, 1.0]
    ended = [rounds] + [0] * tree.depth
    for node, (parent, depth) in enumerate(zip(tree.parents, tree.position_offsets)):
        left = untested[parent]
        pass_rate = min(1.0, reach[node] / left) if left > 0 else 0.0
        passed = int(random.binomial(waiting[parent], pass_rate))
        waiting[node] = passed
        waiting[parent] -= passed
        untested[parent] -= reach[node]
        ended[depth] += passed
        ended[depth - 1] -= passed
    return ended
