"""From the target's logits over a tree to the accepted path and the next token.

    greedy               the child that is the target's best token; the text is that of greedy decoding
    topk                 a token is drawn from the target, the child that equals it is followed; any children will do
    without_replacement  children drawn from the draft without replacement, tested in the order of drawing
    strict               children drawn independently from the draft, tested in order
    typical              children that the target finds likely enough, longest path first; changes the distribution

All but typical leave the target's distribution as it is.
Sources: Leviathan et al. 2023 (one child), SpecInfer (independent children), Sequoia (without replacement), Medusa
(typical).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from ..base.errors import InputError, did_you_mean
from ..base.tree import TokenTree

EPSILON, DELTA = 0.09, 0.3


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: the acceptance rule, the temperature, and where the chance comes from.

    temperature   of target and draft alike; 0 goes with the greedy rule
    generator     on the CPU
    """

    rule: str = "greedy"
    temperature: float = 0.0
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if self.rule not in WALKS:
            raise InputError(
                f"rule {self.rule[:40]!r} is not one to decode with",
                hint=did_you_mean(self.rule, WALKS, otherwise=f"one of {', '.join(WALKS)}"),
            )
        if (self.temperature > 0) == (self.rule == "greedy"):
            raise InputError(
                f"rule {self.rule} at temperature {self.temperature:g}",
                hint="the greedy rule goes with temperature 0, the others with one above",
            )

    @property
    def draws_children(self) -> bool:
        """Whether children are drawn from the draft; else they are its best tokens."""
        return self.rule in ("without_replacement", "strict")

    def probs(self, logits: Tensor) -> Tensor:
        """The distribution that tokens are drawn from, in at least fp32, over the last dimension."""
        wide = torch.promote_types(logits.dtype, torch.float32)
        return torch.softmax(logits.to(wide) / self.temperature, dim=-1)

    def draw(self, probs: Tensor) -> int:
        """One token of a distribution. Shape [vocab]."""
        return int(torch.multinomial(probs.cpu(), 1, generator=self.generator))

    def uniform(self) -> float:
        return float(torch.rand((), generator=self.generator, dtype=torch.float64))

    def choose(self, logits: Tensor) -> int:
        """The next token of plain decoding. Shape [vocab]."""
        return int(logits.argmax()) if self.rule == "greedy" else self.draw(self.probs(logits))


@dataclass(frozen=True)
class Proposal:
    """A drafted tree.

    tokens   of each node
    drawn    by parent (-1: the root), the distribution that its children were drawn from; shape [vocab]
    """

    tree: TokenTree
    tokens: Sequence[int] = ()
    drawn: Mapping[int, Tensor] = field(default_factory=dict)


@lru_cache(maxsize=256)
def children_of(tree: TokenTree) -> Mapping[int, tuple[int, ...]]:
    """The children of each node that has some, in rank order; -1 is the root."""
    found: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        found.setdefault(parent, []).append(node)
    return {parent: tuple(nodes) for parent, nodes in found.items()}


Walked = tuple[list[int], int]


def accept(proposal: Proposal, logits: Tensor, sampling: Sampling) -> Walked:
    """The accepted nodes from the root down, and the token after the last of them.

    logits   of the root and of every node, in the target. Shape [width, vocab]
    """
    return WALKS[sampling.rule](proposal, logits, sampling)


def _greedy(proposal: Proposal, logits: Tensor, sampling: Sampling) -> Walked:
    best = logits.argmax(dim=-1).tolist()
    return _followed(proposal, lambda row: int(best[row]))


def _topk(proposal: Proposal, logits: Tensor, sampling: Sampling) -> Walked:
    return _followed(proposal, lambda row: sampling.draw(sampling.probs(logits[row])))


def _followed(proposal: Proposal, token_after: Callable[[int], int]) -> Walked:
    """Walk along the child that equals the target's own next token."""
    children = children_of(proposal.tree)
    path: list[int] = []
    node = -1
    while True:
        token = token_after(node + 1)
        below = (child for child in children.get(node, ()) if proposal.tokens[child] == token)
        node = next(below, -1)
        if node < 0:
            return path, token
        path.append(node)


def _tested(proposal: Proposal, logits: Tensor, sampling: Sampling) -> Walked:
    """Children drawn from the draft, one after the other; a rejection leaves what the target has in excess."""
    children = children_of(proposal.tree)
    path: list[int] = []
    node = -1
    while True:
        target = sampling.probs(logits[node + 1])
        accepted = -1
        draft = proposal.drawn.get(node)
        for child in children.get(node, ()):
            assert draft is not None
            token = proposal.tokens[child]
            if not draft[token]:
                break  # nothing was left to draw: this token and its later siblings only fill the tree
            if sampling.uniform() * float(draft[token]) < float(target[token]):
                accepted = child
                break
            excess = _normal(target - draft)
            target = excess if excess.any() else target  # equal but for rounding
            if sampling.rule == "without_replacement":
                draft = draft.clone()
                draft[token] = 0.0
                draft = _normal(draft)
        if accepted < 0:
            return path, sampling.draw(target)
        node = accepted
        path.append(node)


def _normal(values: Tensor) -> Tensor:
    """The positive part, summing to 1."""
    positive = values.clamp(min=0)
    total = positive.sum()
    return positive / total if total > 0 else positive


def typical_threshold(probs: Tensor) -> Tensor:
    """A token passes when the target gives it more than this. Shape of `probs` without the last dimension."""
    entropy = -(probs * torch.log(probs + 1e-5)).sum(dim=-1)
    return torch.minimum(torch.full_like(entropy, EPSILON), DELTA * torch.exp(-entropy))


def _typical(proposal: Proposal, logits: Tensor, sampling: Sampling) -> Walked:
    """The longest path whose every token passes; of equally long ones the likeliest."""
    tree, tokens = proposal.tree, proposal.tokens
    probs = sampling.probs(logits)
    threshold = typical_threshold(probs)
    likely: dict[int, tuple[int, float]] = {-1: (0, 1.0)}
    for node, parent in enumerate(tree.parents):
        if parent in likely:
            share = float(probs[parent + 1, tokens[node]])
            if share > float(threshold[parent + 1]):
                likely[node] = (likely[parent][0] + 1, likely[parent][1] * share)
    last = max(likely, key=lambda node: likely[node])
    path = [] if last < 0 else [*reversed(tree.ancestors(last)), last]
    return path, sampling.draw(probs[last + 1])


WALKS: Mapping[str, Callable[[Proposal, Tensor, Sampling], Walked]] = {
    "greedy": _greedy,
    "topk": _topk,
    "without_replacement": _tested,
    "strict": _tested,
    "typical": _typical,
}
LOSSY = ("typical",)
