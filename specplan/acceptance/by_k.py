"""Tokens per round by chain length, each length measured in a run of its own.

A drafter that plans all K tokens at once (DFlash, DSpark), and runs that are apart, give one number a length and say
nothing of the lengths between and beyond: those are refused, never interpolated.

    >>> ByK({1: 1.84, 3: 3.01}).tau(TokenTree.chain(3))
    3.01
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..base.errors import InputError
from ..base.tree import TokenTree
from .kinds import Acceptance, Chain, Mixture, chain_lengths, to_probabilities

# Said of a mean whose K is not in its source.
NO_K = (
    "how many tokens were drafted a round is not in the source: the rate of an endless chain is taken, a lower bound; "
    "--measured-k K states it"
)


@dataclass(frozen=True)
class ByK(Acceptance):
    """Chains of measured lengths, and nothing else.

    lengths     tokens per round by K, bonus included; a mapping or pairs. Empty where only a tree was measured
    survivals   P(at least i accepted) at a K, where it was measured; at the others one rate at every position is taken
    tree        (nodes, levels, tokens per round) of a tree that the engine built anew every round: any tree of that
                many nodes and levels stands for it, and no other is valued
    Raises      InputError for a length outside 1 to K + 1, and for the value of a shape that was not measured

    >>> ByK({2: 2.2}).level_survival(TokenTree.chain(2)) == Chain.from_accept_length(2.2, 2).level_survival(
    ...     TokenTree.chain(2))
    True
    """

    lengths: tuple[tuple[int, float], ...]
    survivals: tuple[tuple[int, tuple[float, ...]], ...] = ()
    tree: tuple[int, int, float] | None = None
    kind: ClassVar[str] = "by_k"
    by_node: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given: Any = self.lengths.items() if isinstance(self.lengths, Mapping) else self.lengths
        lengths = tuple(chain_lengths(dict(given))) if given else ()
        rates = dict(self.survivals)
        for k, tau in lengths:
            if not 1 - 1e-9 <= tau <= k + 1 + 1e-9:
                raise InputError(
                    f"the accept length at k {k} is {tau:g}", hint=f"bonus included it lies between 1 and {k + 1}"
                )
        kept = {k: to_probabilities(rates[k], f"survival at k {k}") for k, _ in lengths if k in rates}
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "survivals", tuple(kept.items()))

    @property
    def ks(self) -> tuple[int, ...]:
        """The lengths that were measured."""
        return tuple(k for k, _ in self.lengths)

    @property
    def survival(self) -> tuple[float, ...]:
        """P(at least i accepted) at the longest length whose rates were measured, () where none was."""
        return self.survivals[-1][1] if self.survivals else ()

    @property
    def max_depth(self) -> int | None:
        return max((*self.ks, *([self.tree[1]] if self.tree else ())), default=1)

    @property
    def siblings_known(self) -> bool:
        return False

    @property
    def is_monotone(self) -> bool:
        return True

    def knows(self, tree: TokenTree) -> bool:
        return not tree.nodes or self._is_measured_tree(tree) or (tree.nodes == tree.depth and tree.nodes in self.ks)

    def _is_measured_tree(self, tree: TokenTree) -> bool:
        return self.tree is not None and (tree.nodes, tree.depth) == self.tree[:2] and tree.nodes > tree.depth

    def rounds_of(self, tree: TokenTree) -> float | None:
        counted = self._is_measured_tree(tree) or tree.nodes == self.about.get("k")
        return self.counts.rounds if counted and self.counts is not None else None

    def reach(self, tree: TokenTree) -> list[float]:
        if not tree.nodes:
            return []
        if not self.knows(tree):
            raise self._unknown(tree)
        if self._is_measured_tree(tree):
            return self._reach_of_tree(tree)
        rates = dict(self.survivals).get(tree.nodes)
        if rates is not None and len(rates) == tree.nodes:
            return list(rates)
        return list(Chain.from_accept_length(dict(self.lengths)[tree.nodes], tree.nodes).reach(tree))

    def accepted(self, tree: TokenTree) -> float:
        if tree.nodes and not self.knows(tree):
            raise self._unknown(tree)
        if self.tree is not None and self._is_measured_tree(tree):
            return self.tree[2] - 1.0
        return dict(self.lengths)[tree.nodes] - 1.0 if tree.nodes else 0.0

    def _reach_of_tree(self, tree: TokenTree) -> list[float]:
        """What is accepted of each level, at its first node: which node it was is not known."""
        assert self.tree is not None
        levels = Chain.from_accept_length(self.tree[2], tree.depth).level_survival(TokenTree.chain(tree.depth))
        seen: set[int] = set()
        reach = []
        for depth in tree.position_offsets:
            reach.append(0.0 if depth in seen else levels[depth - 1])
            seen.add(depth)
        return reach

    def _unknown(self, tree: TokenTree) -> InputError:
        shape = f"a chain of {tree.nodes}" if tree.nodes == tree.depth else f"a tree of {tree.nodes} nodes"
        if not self.lengths:
            return InputError(
                f"{shape} was not measured: the tokens per round are those of a tree that was built on the way",
                hint="measure chains (topk 1), or give --accept-length and --k of one",
            )
        return InputError(
            f"{shape} was not measured, and another length says nothing of it",
            hint=f"measured: k {', '.join(map(str, self.ks))}",
        )

    def start(self) -> None:
        return None

    def child(self, state: Any, depth: int, rank: int) -> None:
        return None

    def weight(self, state: Any) -> float:
        return 0.0

    def breadth(self, state: Any, depth: int) -> int | None:
        return 1


def standing_for(nodes: int, depth: int) -> TokenTree:
    """A tree of that many nodes and levels, levels as even as can be: it costs what a tree of unknown shape costs.

    >>> standing_for(7, 3).widths
    (3, 2, 2)
    """
    parents: list[int] = []
    ranks: list[int] = []
    above, left = -1, nodes
    for level in range(depth):
        width = -(-left // (depth - level))
        first = len(parents)
        parents += [above] * width
        ranks += range(width)
        above, left = first, left - width
    return TokenTree.from_parents(parents, ranks)


def of_tree(measured: Mapping[str, int], tau: float, **shared: Any) -> ByK:
    """The acceptance of a tree that was measured: valued where its nodes and levels are known.

    measured   steps and nodes, as the readers find them
    """
    nodes, steps = measured.get("nodes"), measured.get("steps")
    known = nodes is not None and steps is not None and nodes > steps >= 1 and tau <= steps + 1
    return ByK((), tree=(nodes, steps, tau) if known else None, **shared)  # type: ignore[arg-type]


def mixed(parts: Sequence[Acceptance], weights: Sequence[float], **shared: Any) -> Acceptance:
    """Contexts with their shares of rounds: a Mixture, or lengths by K where a part knows those alone.

    Raises  InputError where no length was measured in every part.

    >>> mixed([ByK({3: 3.0}), Chain.from_accept_length(2.0, 3)], [1, 1]).tau(TokenTree.chain(3))
    2.5
    """
    if all(part.by_node for part in parts):
        return Mixture(tuple(parts), tuple(weights), **shared)
    total = sum(weights)
    known = [set(part.ks) for part in parts if isinstance(part, ByK)]
    common = sorted(set.intersection(*known))
    chains = {k: TokenTree.chain(k) for k in common if all(k <= (part.max_depth or k) for part in parts)}
    if not chains:
        raise InputError("the files have no measured chain length in common", hint="measure them at the same K")
    lengths = {
        k: sum(weight / total * part.tau(chain) for part, weight in zip(parts, weights)) for k, chain in chains.items()
    }
    return ByK(tuple(lengths.items()), **shared)


def at_length(acceptance: Acceptance, k: int) -> Acceptance:
    """The acceptance of a mean whose K was not known, now that it is: one rate that gives the mean at K.

    Other acceptances are left as they are. Raises InputError where the mean does not fit K.

    >>> unknown = Chain.constant(0.6, about={"tau": 2.5, "unknown": ["k"]})
    >>> round(at_length(unknown, 3).tau(TokenTree.chain(3)), 6)
    2.5
    """
    if isinstance(acceptance, Mixture):
        return replace(acceptance, components=tuple(at_length(part, k) for part in acceptance.components))
    about = acceptance.about
    if not isinstance(acceptance, Chain) or "k" not in (about.get("unknown") or ()):
        return acceptance
    unknown = [name for name in about["unknown"] if name != "k"]
    notes = tuple(note for note in acceptance.notes if note != NO_K)
    return Chain.from_accept_length(
        about["tau"],
        k,
        counts=acceptance.counts,
        rule=acceptance.rule,
        temperature=acceptance.temperature,
        about={**about, "k": k, "unknown": unknown},
        notes=(*notes, f"the source does not say its K: its tokens per round are taken as those of the {k} in use"),
    )
