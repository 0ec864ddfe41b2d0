"""Decoding with a tree, for real: draft, one verification pass, acceptance, commit. Plain decoding is the empty tree.

The cache holds the committed tokens, positions 0 .. L-1. The pending token (chosen, not yet run) is the root at
position L, node i stands at L + its depth. One pass runs the root and all nodes: each sees the committed tokens, its
ancestors and itself. The cache rows of the accepted path are then gathered behind the committed ones; keys are rotated
for the right positions already. The token after the path is the next pending one: a round yields accepted + 1 tokens.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.tree import TokenTree
from .decoder import KVCache, causal_mask
from .drafts import Draft, Model
from .walk import Proposal, Sampling, Walked, accept

Clock = Callable[[], float]
Walk = Callable[[Proposal, Tensor, Sampling], Walked]


def clock_of(device: torch.device) -> Clock:
    """Seconds so far: of the process on one CPU thread, which other jobs hardly disturb, else of the wall."""
    if device.type == "cuda":

        def after_all_work() -> float:
            torch.cuda.synchronize(device)
            return time.perf_counter()

        return after_all_work
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


@dataclass(frozen=True, slots=True)
class Round:
    """One round: tokens that it emitted, width of its verification pass, and where the time went."""

    emitted: int
    width: int
    draft_s: float
    verify_s: float
    rest_s: float

    @property
    def seconds(self) -> float:
        return self.draft_s + self.verify_s + self.rest_s


@dataclass(frozen=True)
class Decoded:
    """The answer to one prompt.

    tokens     the first one comes from the prompt's own pass, before any round; cut at the end token
    rounds     the tokens of the last one may go beyond the end
    """

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]

    @property
    def emitted(self) -> int:
        """Tokens of all rounds."""
        return sum(one.emitted for one in self.rounds)

    @property
    def seconds(self) -> float:
        """Of all rounds."""
        return sum(one.seconds for one in self.rounds)


@dataclass
class NoDraft:
    """Drafts nothing: plain decoding."""

    name: str = "plain"
    tree: TokenTree = field(default_factory=TokenTree.empty)

    def begin(self, text: Sequence[int], target_cache: KVCache, hidden: Tensor) -> None: ...

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        return Proposal(self.tree)

    def learn(self, path: Sequence[int], hidden: Tensor) -> None: ...


@dataclass
class Padding(NoDraft):
    """A tree whose tokens mean nothing; with `only_root` it is plain decoding in passes as wide as the tree's."""

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        return Proposal(self.tree, [0] * self.tree.nodes)


def only_root(proposal: Proposal, logits: Tensor, sampling: Sampling) -> Walked:
    """Accepts no node, whatever it holds."""
    return [], sampling.choose(logits[0])


@lru_cache(maxsize=256)
def tree_mask(tree: TokenTree, device: torch.device) -> tuple[Tensor, Tensor]:
    """The mask and the position offsets that the tree exports, root included. Shapes [width, width] and [width]."""
    mask = torch.tensor(tree.mask_with_root(), dtype=torch.bool, device=device)
    return mask, torch.tensor([0, *tree.position_offsets], device=device)


def verify(model: Model, cache: KVCache, pending: int, proposal: Proposal) -> Tensor:
    """The target's normed outputs at the root and every node, nothing committed. Shape [width, hidden]."""
    device, length = model.device, cache.length
    among, offsets = tree_mask(proposal.tree, device)
    width = proposal.tree.width
    mask = torch.cat((torch.ones(width, length, dtype=torch.bool, device=device), among), dim=1)
    rows = torch.arange(length, length + width, device=device)
    tokens = torch.tensor([[pending, *proposal.tokens]], device=device)
    return model.hidden(tokens, offsets + length, cache, mask, rows)[0]


def decode(
    model: Model,
    draft: Draft,
    prompt: Sequence[int],
    *,
    tokens: int,
    sampling: Sampling,
    end_ids: Collection[int] = (),
    walk: Walk = accept,
    clock: Clock | None = None,
) -> Decoded:
    """Decode `tokens` tokens after the prompt, or up to an end token.

    Raises  InputError when prompt and answer are longer than the model's context.
    """
    now = clock or clock_of(model.device)
    room = len(prompt) + tokens + draft.tree.width
    refuse_longer(model, len(prompt), tokens)
    cache = model.new_cache(room)
    hidden = prefill(model, cache, prompt)
    text = [*prompt, sampling.choose(model.logits(hidden[-1:])[0])]
    draft.begin(prompt, cache, hidden)
    rounds: list[Round] = []
    while len(text) - len(prompt) < tokens and text[-1] not in end_ids:
        started = now()
        proposal = draft.propose(text, sampling)
        drafted = now()
        hidden = verify(model, cache, text[-1], proposal)
        logits = model.logits(hidden)
        verified = now()
        path, bonus = walk(proposal, logits, sampling)
        kept = [0, *(node + 1 for node in path)]
        cache.keep(kept)
        draft.learn(path, hidden[kept])
        emitted = [*(proposal.tokens[node] for node in path), bonus]
        times = (drafted - started, verified - drafted, now() - verified)
        rounds.append(Round(len(emitted), proposal.tree.width, *times))
        end = next((place for place, token in enumerate(emitted) if token in end_ids), None)
        text += emitted if end is None else emitted[: end + 1]
    return Decoded(tuple(text[len(prompt) :][:tokens]), tuple(rounds))


def refuse_longer(model: Model, prompt: int, tokens: int) -> None:
    """Refuses a text beyond the context that the model was made for."""
    most = model.max_context
    if most is not None and prompt + tokens > most:
        raise InputError(
            f"a prompt of {prompt} tokens and an answer of {tokens} are longer than the context of {most}",
            hint="shorten the prompt, or ask for fewer --tokens",
        )


def prefill(model: Model, cache: KVCache, prompt: Sequence[int]) -> Tensor:
    """Run the prompt and commit it; its normed outputs. Shape [len(prompt), hidden]."""
    rows = torch.arange(len(prompt), device=model.device)
    tokens = torch.tensor([list(prompt)], device=model.device)
    hidden = model.hidden(tokens, rows, cache, causal_mask(len(prompt), device=model.device), rows)
    cache.keep(range(len(prompt)))
    return hidden[0]


def largest_gap(model: Model, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """How far the answer is from greedy decoding, one token a pass along it: the largest lead of the best logit over
    the token's own, in steps of the dtype at the size of that logit. Rounding leaves a few; a bug, hundreds."""
    cache = model.new_cache(len(prompt) + len(answer))
    hidden = prefill(model, cache, prompt)
    largest = 0.0
    for token in answer:
        logits = model.logits(hidden[-1:])[0]
        best = float(logits.max())
        largest = max(largest, (best - float(logits[token])) / step(best, logits.dtype))
        hidden = verify(model, cache, token, Proposal(TokenTree.empty()))
        cache.keep([0])
    return largest


def step(value: float, dtype: torch.dtype) -> float:
    """The distance of neighbouring numbers of the dtype around `value`.

    >>> step(17.0, torch.bfloat16)
    0.125
    """
    return float(torch.finfo(dtype).eps) * 2.0 ** math.floor(math.log2(max(abs(value), 1e-30)))
