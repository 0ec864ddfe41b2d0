"""What drafts a tree of tokens: a model, the target's own layers, the text itself.

    Draft
    |- ModelDraft   a smaller decoder with a cache of its own
    |               early exit: the target's first layers, in the target's own cache
    |               skip: the target without some layers
    `- NgramDraft   what followed the same few tokens before

A draft proposes the tree it was given, level by level: one pass for the root, then one for the inner nodes of each
level. Leaves are never run, so a chain of k takes k passes, and after a round in which everything was accepted
the cache lags by one token that the next round's first pass catches up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..base.errors import InputError
from ..base.tree import TokenTree
from .decoder import Decoder, KVCache, causal_mask
from .walk import Proposal, Sampling, children_of


class Model(Protocol):
    """What a target or a draft model must do: our Decoder, or the adapter to transformers."""

    @property
    def vocab(self) -> int: ...

    @property
    def max_context(self) -> int | None: ...

    @property
    def device(self) -> torch.device: ...

    def new_cache(self, max_length: int) -> KVCache: ...

    def hidden(self, tokens: Tensor, positions: Tensor, cache: KVCache, mask: Tensor, rows: Tensor) -> Tensor: ...

    def logits(self, hidden: Tensor) -> Tensor: ...


class Draft(Protocol):
    """Drafts a tree a round, `tree` or a part of it."""

    name: str
    tree: TokenTree

    def begin(self, text: Sequence[int], target_cache: KVCache, hidden: Tensor) -> None:
        """A text starts: the target has run `text`; its normed outputs are `hidden`, shape [len(text), hidden]."""

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        """Draft below the last token of `text`, which the target has not run yet."""

    def learn(self, path: Sequence[int], hidden: Tensor) -> None:
        """The nodes of `path` were accepted; `hidden` are the target's outputs at the root and there."""


# ---- the parts of a tree that a draft model runs


@dataclass(frozen=True)
class Level:
    """The inner nodes of one level, and which inner nodes each of them sees. Shape of `seen` [nodes, inner so far]."""

    depth: int
    nodes: tuple[int, ...]
    seen: Tensor


@lru_cache(maxsize=64)
def levels_of(tree: TokenTree) -> tuple[Level, ...]:
    """What a draft runs after the root, a level a pass."""
    inner = inner_rows(tree)
    levels = []
    for depth in range(1, tree.depth):
        nodes = tuple(node for node in inner if tree.position_offsets[node] == depth)
        seen = torch.zeros(len(nodes), inner[nodes[-1]] + 1, dtype=torch.bool)
        for row, node in enumerate(nodes):
            seen[row, [inner[above] for above in (node, *tree.ancestors(node))]] = True
        levels.append(Level(depth, nodes, seen))
    return tuple(levels)


@lru_cache(maxsize=64)
def inner_rows(tree: TokenTree) -> dict[int, int]:
    """Nodes that have children, each with its place among them."""
    return {node: place for place, node in enumerate(node for node, count in enumerate(tree.child_counts) if count)}


def children(logits: Tensor, tree: TokenTree, nodes: Sequence[int], sampling: Sampling) -> Iterator[tuple[int, int]]:
    """(child, its token) of the children of each of `nodes`.

    logits   of the draft at `nodes`. Shape [len(nodes), vocab]
    Raises   InputError for a rank that the vocabulary has no token for.
    """
    below = children_of(tree)
    widest, vocab = 1 + max(tree.ranks[child] for node in nodes for child in below[node]), logits.shape[-1]
    if widest > vocab:
        raise InputError(
            f"a tree with {widest} children of a node, and a vocabulary of {vocab}",
            hint="give a tree with fewer children a node",
        )
    if sampling.draws_children:
        most = max(len(below[node]) for node in nodes)
        picked = drawn_tokens(sampling.probs(logits), most, sampling)
    else:
        picked = logits.topk(widest, dim=-1).indices
    for node, row in zip(nodes, picked.tolist()):
        for place, child in enumerate(below[node]):
            yield child, row[place if sampling.draws_children else tree.ranks[child]]


def drawn_tokens(probs: Tensor, count: int, sampling: Sampling) -> Tensor:
    """`count` tokens of each row, in the order of drawing. Shapes [rows, vocab] -> [rows, count].

    Without replacement by the Gumbel-top-k trick: the order of perturbed log-probabilities is an order of drawing.
    """
    probs = probs.cpu()
    if sampling.rule == "strict":
        return torch.multinomial(probs, count, replacement=True, generator=sampling.generator)
    exponential = torch.empty_like(probs).exponential_(generator=sampling.generator)
    return (probs.log() - exponential.log()).topk(count, dim=-1).indices


def fit_vocab(logits: Tensor, vocab: int) -> Tensor:
    """Logits over the target's vocabulary: padding of either is cut or can never be drawn."""
    missing = vocab - logits.shape[-1]
    return F.pad(logits, (0, missing), value=float("-inf")) if missing > 0 else logits[..., :vocab]


# ---- drafts


@dataclass
class ModelDraft:
    """A decoder that drafts.

    vocab    the target's; a token beyond the draft's own is run as its last one
    shared   the decoder is the target's first layers and works in the target's cache
    """

    name: str
    model: Model
    tree: TokenTree
    vocab: int
    shared: bool = False

    def begin(self, text: Sequence[int], target_cache: KVCache, hidden: Tensor) -> None:
        self._target = target_cache
        if self.shared:
            assert isinstance(self.model, Decoder)
            self._cache = target_cache.first_layers(self.model.config.layers)
        else:
            self._cache = self.model.new_cache(target_cache.max_length)
            self._run(text)

    def _run(self, text: Sequence[int]) -> Tensor:
        """Run the tokens that are not in the cache yet; logits after the last. Shape [1, vocab]."""
        cache, device = self._cache, self.model.device
        rows = torch.arange(cache.length, len(text), device=device)
        tokens = self._known(text[cache.length :])
        mask = causal_mask(len(rows), cache.length, device=device)
        hidden = self.model.hidden(tokens, rows, cache, mask, rows)
        cache.length = len(text)
        return fit_vocab(self.model.logits(hidden[0, -1:]), self.vocab)

    def _known(self, tokens: Sequence[int]) -> Tensor:
        return torch.tensor([tokens], device=self.model.device).clamp(max=self.model.vocab - 1)

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        if self.shared:
            self._cache.length = self._target.length
        tokens = [0] * self.tree.nodes
        drawn: dict[int, Tensor] = {}
        if not tokens:
            return Proposal(self.tree)

        def fill(nodes: Sequence[int], logits: Tensor) -> None:
            for child, token in children(logits, self.tree, nodes, sampling):
                tokens[child] = token
            if sampling.draws_children:
                drawn.update(zip(nodes, sampling.probs(logits)))

        fill((-1,), self._run(text))
        for level in levels_of(self.tree):
            fill(level.nodes, self._level(level, [tokens[node] for node in level.nodes], len(text)))
        return Proposal(self.tree, tokens, drawn)

    def _level(self, level: Level, tokens: Sequence[int], length: int) -> Tensor:
        """Logits at the inner nodes of a level. Shape [nodes, vocab]."""
        device = self.model.device
        count, span = level.seen.shape
        seen = level.seen.to(device)
        mask = torch.cat((torch.ones(count, length, dtype=torch.bool, device=device), seen), dim=1)
        rows = torch.arange(length + span - count, length + span, device=device)
        positions = torch.full((count,), length - 1 + level.depth, device=device)
        hidden = self.model.hidden(self._known(tokens), positions, self._cache, mask, rows)
        return fit_vocab(self.model.logits(hidden[0]), self.vocab)

    def learn(self, path: Sequence[int], hidden: Tensor) -> None:
        if not self.shared:
            inner = inner_rows(self.tree)
            self._cache.keep([inner[node] for node in path if node in inner])


class NgramIndex:
    """What followed the last few tokens, wherever they stood before.

    longest   most tokens of a context; shorter ones are tried after it

    >>> index = NgramIndex(2)
    >>> index.extend([1, 2, 3, 1, 2, 4, 1, 2, 4, 9, 2])
    >>> index.candidates([1, 2], 3), index.candidates([7, 2], 3)
    ([4, 3], [4, 3])
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._text: list[int] = []
        self._after: dict[tuple[int, ...], dict[int, tuple[int, int]]] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            place = len(self._text)
            for order in range(1, min(self.longest, place) + 1):
                followers = self._after.setdefault(tuple(self._text[place - order :]), {})
                followers[token] = (followers.get(token, (0, 0))[0] + 1, place)
            self._text.append(token)

    def __len__(self) -> int:
        return len(self._text)

    def candidates(self, context: Sequence[int], count: int) -> list[int]:
        """Up to `count` next tokens: those of longer contexts first, then the more frequent, then the later."""
        found: dict[int, None] = {}
        for order in range(min(self.longest, len(context)), 0, -1):
            followers = self._after.get(tuple(context[-order:]), {})
            found.update(dict.fromkeys(sorted(followers, key=followers.__getitem__, reverse=True)))
            if len(found) >= count:
                break
        return list(found)[:count]


@dataclass
class NgramDraft:
    """What followed the same few tokens before, in this prompt and its answer; nodes without a match are left out."""

    tree: TokenTree
    longest: int = 3
    name: str = "ngram"

    def begin(self, text: Sequence[int], target_cache: KVCache, hidden: Tensor) -> None:
        self._index = NgramIndex(self.longest)

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        if sampling.draws_children:
            raise InputError(
                f"n-gram matches are not drawn, rule {sampling.rule} does not apply",
                hint="--rule topk is exact for them",
            )
        self._index.extend(text[len(self._index) :])
        contexts: dict[int, list[int]] = {-1: list(text[-self.longest :])}
        known: dict[int, list[int]] = {}
        place: dict[int, int] = {-1: -1}
        parents: list[int] = []
        ranks: list[int] = []
        tokens: list[int] = []
        most = 1 + max(self.tree.ranks, default=0)
        for node, (parent, rank) in enumerate(zip(self.tree.parents, self.tree.ranks)):
            if parent not in contexts:
                continue
            if parent not in known:
                known[parent] = self._index.candidates(contexts[parent], most)
            if rank < len(known[parent]):
                token = known[parent][rank]
                contexts[node] = [*contexts[parent], token][-self.longest :]
                place[node] = len(tokens)
                parents.append(place[parent])
                ranks.append(rank)
                tokens.append(token)
        return Proposal(TokenTree(tuple(parents), tuple(ranks)), tokens)

    def learn(self, path: Sequence[int], hidden: Tensor) -> None:
        """Nothing: the text says it all."""
