"""Acceptance from a model's own answers: at which rank of the draft the target's token stood, prompt by prompt.

Greedy   The target answers each prompt. What a model drafts depends on the text alone, so its ranks along the answer
         are counted at every token, for all depths together: trees planned from that vector came out within 4 % of
         replayed rounds, nearer than those planned by depth. Heads, which guess on from their own guesses, and n-grams,
         which know the text up to the root, are counted by depth: rounds with a wide measuring tree are replayed, each
         starting where the one before ended and going down while the token is among the draft's best.
Sampled  The target samples its answers. At every position the chance that a child is the accepted one follows from the
         two distributions: exactly for the draft's best tokens and for independent draws; for draws without
         replacement exactly given the tokens rejected before, of which one sequence is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..base.tree import TokenTree
from .clocks import Tell, silent
from .decoder import Decoder, causal_mask
from .draft_names import DraftSource
from .drafts import Model, NgramIndex, fit_vocab
from .tree_decode import NoDraft, decode, prefill
from .walk import Sampling, typical_threshold

MOST_RANKS = 16
MOST_DEPTH = 8
# Positions of which distributions are held at once.
CHUNK = 64

Ranks = Callable[[int, int], Sequence[int]]
Table = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class PromptCounts:
    """What was counted on one prompt.

    positions   tokens of the answer that the draft was asked for
    table       greedy: [depth][rank] = (accepted, trials); one row whose trials are all positions holds at any depth
    sums        sampled, by scheme: chance that the k-th child is the accepted one, summed over positions
    exits       early exit: positions where layer 1, 2, ... alone would have given the target's token (sampled: the
                chance that it would)
    """

    positions: int
    table: Table = ()
    sums: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    exits: tuple[float, ...] = ()


@dataclass(frozen=True)
class Answered:
    """A prompt and the target's answer to it."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def text(self) -> list[int]:
        return [*self.prompt, *self.answer]

    @property
    def asked(self) -> range:
        """Places whose next token is asked of a draft: the root of the first round is the answer's first token."""
        return range(len(self.prompt), len(self.prompt) + len(self.answer) - 1)


def count_prompts(
    target: Model,
    source: DraftSource,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    end_ids: Collection[int] = (),
    tell: Tell = silent,
) -> Iterator[PromptCounts]:
    """The counts of one prompt after another.

    tokens   of each answer
    tell     told the share that is done
    """
    generator = torch.Generator().manual_seed(seed)
    sampling = Sampling("topk", temperature, generator) if temperature > 0 else Sampling()
    for number, prompt in enumerate(prompts):
        tell(number / len(prompts), f"prompt {number + 1} of {len(prompts)}")
        decoded = decode(target, NoDraft(), prompt, tokens=tokens, sampling=sampling, end_ids=end_ids)
        answered = Answered(tuple(prompt), decoded.tokens)
        if len(answered.asked):
            yield count_one(target, source, answered, sampling)


def count_one(target: Model, source: DraftSource, answered: Answered, sampling: Sampling) -> PromptCounts:
    """The counts of one answer."""
    positions = len(answered.asked)
    if sampling.temperature == 0:
        ranks = ranks_of(target, source, answered)
        table = replayed(ranks, positions) if source.model is None else at_every_token(ranks(0, positions))
        return PromptCounts(positions, table, exits=exit_hits(target, source, answered, sampling))
    if source.longest:
        return PromptCounts(positions, sums={"topk": ngram_sums(target, source, answered, sampling)})
    sums = sampled_sums(target, draft_logits(target, source, answered), answered, sampling)
    return PromptCounts(positions, sums=sums, exits=exit_hits(target, source, answered, sampling))


# ---- greedy


def ranks_of(target: Model, source: DraftSource, answered: Answered) -> Ranks:
    """Ranks, in the draft, of the tokens that follow a place of the answer: (place, depth) -> up to `depth` ranks."""
    if source.longest:
        return ngram_ranks(answered, source.longest)
    if source.heads:
        return head_ranks(target, source, answered)
    ranks = ranks_in(draft_logits(target, source, answered), answered.answer[1:])
    return lambda place, depth: ranks[place : place + depth]


def ranks_in(logits: Tensor, wanted: Sequence[int]) -> list[int]:
    """The rank of each wanted token; of equal logits the first comes first. Shape of `logits` [wanted, vocab].

    >>> ranks_in(torch.tensor([[1.0, 3.0, 1.0]]).expand(3, 3), [0, 1, 2])
    [1, 0, 2]
    """
    tokens = torch.tensor(wanted)[:, None]
    own = logits.gather(1, tokens)
    ties_before = (logits == own) & (torch.arange(logits.shape[1]) < tokens)
    found: list[int] = ((logits > own).sum(dim=1) + ties_before.sum(dim=1)).tolist()
    return found


def draft_logits(target: Model, source: DraftSource, answered: Answered) -> Tensor:
    """The draft's logits at the asked places. Shape [asked, vocab], on the CPU."""
    if source.model is not None:
        return asked_logits(source.model, answered, target.vocab)
    draft, hidden = _heads_along(target, source, answered)
    return torch.cat([draft.along(answered.text, root, hidden, 1) for root in answered.asked]).float().cpu()


def head_ranks(target: Model, source: DraftSource, answered: Answered) -> Ranks:
    """Heads guess on from their own guesses, so each round is followed from its root."""
    draft, hidden = _heads_along(target, source, answered)
    text, start = answered.text, len(answered.prompt)

    def ranks(place: int, depth: int) -> list[int]:
        root = start + place
        logits = draft.along(text, root, hidden, min(depth, len(text) - 1 - root)).float().cpu()
        return ranks_in(logits, text[root + 1 : root + 1 + len(logits)])

    return ranks


def _heads_along(target: Model, source: DraftSource, answered: Answered) -> tuple[Any, Tensor]:
    """Heads at the start of an answer, and the target's outputs along it."""
    text = answered.text[:-1]
    cache = target.new_cache(len(text) + MOST_DEPTH)
    hidden = prefill(target, cache, text)
    draft = source.make(TokenTree.chain(1))
    draft.begin(answered.prompt, cache, hidden[: len(answered.prompt)])
    return draft, hidden


def asked_logits(model: Model, answered: Answered, vocab: int) -> Tensor:
    """Logits at the asked places, in one pass over the text. Shape [asked, vocab], fp32 or wider, on the CPU."""
    text = [min(token, model.vocab - 1) for token in answered.text[:-1]]
    hidden = prefill(model, model.new_cache(len(text)), text)
    return fit_vocab(model.logits(hidden[len(answered.prompt) :]), vocab).float().cpu()


def ngram_ranks(answered: Answered, longest: int) -> Ranks:
    """The draft knows the text up to the root; below it, contexts go along the true answer."""
    text, start = answered.text, len(answered.prompt)
    index = NgramIndex(longest)

    def ranks(place: int, depth: int) -> list[int]:
        root = start + place
        index.extend(text[len(index) : root + 1])
        found = []
        for at in range(root, min(root + depth, len(text) - 1)):
            candidates = index.candidates(text[max(0, at + 1 - longest) : at + 1], MOST_RANKS)
            found.append(candidates.index(text[at + 1]) if text[at + 1] in candidates else MOST_RANKS)
        return found

    return ranks


def replayed(ranks: Ranks, positions: int, *, most_ranks: int = MOST_RANKS, most_depth: int = MOST_DEPTH) -> Table:
    """Hits and trials by depth and rank, of rounds that follow one another.

    A depth is tried when the depth before was hit; a round that reaches the end of the answer counts what it saw.

    >>> replayed(lambda place, depth: [0, 1, 0, 7][place : place + depth], 4, most_ranks=2, most_depth=2)
    (((1, 2), (0, 2)), ((0, 1), (1, 1)))
    """
    hits = [[0] * most_ranks for _ in range(most_depth)]
    trials = [0] * most_depth
    place = 0
    while place < positions:
        accepted = 0
        for depth, rank in enumerate(ranks(place, most_depth)):
            trials[depth] += 1
            if rank >= most_ranks:
                break
            hits[depth][rank] += 1
            accepted += 1
        place += accepted + 1
    return tuple(tuple((hit, tried) for hit in row) for row, tried in zip(hits, trials) if tried)


def at_every_token(ranks: Sequence[int], *, most_ranks: int = MOST_RANKS) -> Table:
    """Hits by rank, tried at every token.

    >>> at_every_token([0, 1, 0, 7], most_ranks=2)
    (((2, 4), (1, 4)),)
    """
    return (tuple((ranks.count(rank), len(ranks)) for rank in range(most_ranks)),)


# ---- sampled


def sampled_sums(
    target: Model, logits: Tensor, answered: Answered, sampling: Sampling, *, children: int = MOST_RANKS
) -> dict[str, tuple[float, ...]]:
    """Chances by child, summed over the asked places, for every scheme.

    logits   of the draft there. Shape [asked, vocab]
    """
    target_probs = sampling.probs(asked_logits(target, answered, target.vocab))
    draft_probs = sampling.probs(logits)
    children = min(children, target.vocab)
    found = {scheme: torch.zeros(children, dtype=torch.float64) for scheme in SCHEMES}
    for first in range(0, len(target_probs), CHUNK):
        part = slice(first, first + CHUNK)
        for scheme, shares in SCHEMES.items():
            found[scheme] += shares(target_probs[part], draft_probs[part], children, sampling).sum(dim=0).double()
    return {scheme: tuple(sums.tolist()) for scheme, sums in found.items()}


def _best(target: Tensor, draft: Tensor, children: int, sampling: Sampling) -> Tensor:
    return target.gather(1, draft.topk(children, dim=1).indices)


def _typical(target: Tensor, draft: Tensor, children: int, sampling: Sampling) -> Tensor:
    """Whether each child would pass by itself: siblings do not exclude each other, so the shares may sum to more."""
    return (_best(target, draft, children, sampling) > typical_threshold(target)[:, None]).float()


def _independent(target: Tensor, draft: Tensor, children: int, sampling: Sampling) -> Tensor:
    return _in_turn(target, draft, children, None)


def _distinct(target: Tensor, draft: Tensor, children: int, sampling: Sampling) -> Tensor:
    return _in_turn(target, draft, children, sampling.generator)


def _in_turn(target: Tensor, draft: Tensor, children: int, generator: torch.Generator | None) -> Tensor:
    """Children tested one after the other. Shapes [places, vocab] -> [places, children].

    A child is accepted with probability sum(min(target, draft)), whatever it is. A rejection leaves the target's
    excess; without replacement the rejected token, drawn in proportion to the draft's excess, leaves the draft.
    generator   for the rejected tokens; None: draws are independent, and nothing is left to chance
    """
    reached = torch.ones(len(target), 1, dtype=target.dtype)
    shares = []
    for _ in range(children):
        hit = torch.minimum(target, draft).sum(dim=1, keepdim=True)
        shares.append(reached * hit)
        reached = reached * (1 - hit).clamp(min=0)
        target, excess = _normal(target - draft), (draft - target).clamp(min=0)
        if generator is not None:
            # A draft that nowhere exceeds the target is never rejected: what is drawn then carries no weight.
            weights = torch.where(excess.sum(dim=1, keepdim=True) > 0, excess, draft + 1e-30)
            rejected = torch.multinomial(weights, 1, generator=generator)
            draft = _normal(draft.scatter(1, rejected, 0.0))
    return torch.cat(shares, dim=1)


def _normal(values: Tensor) -> Tensor:
    positive = values.clamp(min=0)
    return positive / positive.sum(dim=1, keepdim=True).clamp(min=1e-30)


SCHEMES: Mapping[str, Callable[[Tensor, Tensor, int, Sampling], Tensor]] = {
    "topk": _best,
    "without_replacement": _distinct,
    "strict": _independent,
    "typical": _typical,
}


def ngram_sums(target: Model, source: DraftSource, answered: Answered, sampling: Sampling) -> tuple[float, ...]:
    """Chance of each match at the asked places."""
    probs = sampling.probs(asked_logits(target, answered, target.vocab))
    text, index = answered.text, NgramIndex(source.longest)
    sums = [0.0] * MOST_RANKS
    for row, place in enumerate(answered.asked):
        index.extend(text[len(index) : place + 1])
        context = text[max(0, place + 1 - source.longest) : place + 1]
        for rank, token in enumerate(index.candidates(context, MOST_RANKS)):
            sums[rank] += float(probs[row, token])
    return tuple(sums)


# ---- every exit layer at once


def exit_hits(target: Model, source: DraftSource, answered: Answered, sampling: Sampling) -> tuple[float, ...]:
    """How often each layer but the last would have given the target's token; () unless the draft is an early exit.

    Sampled: the chance that one child drawn there is accepted, sum(min(target, draft)).
    """
    if not source.shared or not isinstance(target, Decoder):
        return ()
    first = len(answered.prompt)
    states: list[Tensor] = []
    text = answered.text[:-1]
    rows = torch.arange(len(text), device=target.device)
    target.hidden(
        torch.tensor([text], device=target.device),
        rows,
        target.new_cache(len(text)),
        causal_mask(len(text), device=target.device),
        rows,
        after_layer=lambda index, x: states.append(x[0, first:]),
    )
    last = target.exit_logits(states.pop()).float()
    wanted = torch.tensor(answered.answer[1:], device=target.device)
    found = []
    for state in states:
        logits = target.exit_logits(state).float()
        if sampling.temperature > 0:
            found.append(float(torch.minimum(sampling.probs(last), sampling.probs(logits)).sum()))
        else:
            found.append(float((logits.argmax(dim=1) == wanted).sum()))
    return tuple(found)
