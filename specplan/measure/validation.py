"""A plan against a real decode: tokens a round, the time of a round and throughput, each predicted and measured.

Predicted   tokens a round from the acceptance; the time of a round from passes of this very model, timed alone before
            the decode, between its prompts and after it (the mean is taken, the change is the drift): one per level for
            the draft, one of the tree's width for the verification. Choosing, gathering and Python are not predicted;
            they are the rest.
Measured    prompts decoded twice in turn, plainly and with the tree.
Identity    exact in fp32 and fp64. In lower precision a pass of another width may round a near tie the other way, so a
            text that differs is compared with plain decoding in passes of the tree's width, and its tokens' distance
            from the best logit is told.
"""

from __future__ import annotations

import random
import statistics
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from ..base.tree import TokenTree
from ..hardware.profile import Hardware
from ..models.spec import ModelSpec
from ..timing.roofline import pass_time
from .clocks import Run, Tell, Timer, silent
from .decoder import causal_mask
from .draft_names import DraftSource
from .drafts import Model, levels_of
from .tree_decode import Decoded, NoDraft, Padding, decode, largest_gap, only_root, prefill
from .walk import Sampling

ALONE = 9
"""Samples of each pass before the decode, and after; one more is taken after every prompt."""

Taken = dict[tuple[str, int], list[float]]

STEPS = 4
"""Steps of the dtype, at the size of the logits, that a token may lie behind the best one and count as a tie."""


@dataclass(frozen=True)
class Validated:
    """One prompt, decoded plainly and with the tree.

    padded      whether a text that differs is that of plain decoding in passes of the tree's width; None: not needed
    gap         largest distance of a token from the best logit, in steps of the dtype; 0 where the texts are the same
    """

    plain: Decoded
    tree: Decoded
    same: bool
    padded: bool | None = None
    gap: float = 0.0


def validate(
    target: Model,
    source: DraftSource,
    tree: TokenTree,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    sampling: Sampling,
    end_ids: Collection[int] = (),
    tell: Tell = silent,
) -> Iterator[Validated]:
    """Decode each prompt plainly and with the tree, the two in turn first."""
    decoding = partial(decode, target, tokens=tokens, sampling=sampling, end_ids=end_ids)
    for number, prompt in enumerate(prompts):
        tell(number / len(prompts), f"prompt {number + 1} of {len(prompts)}")
        drafts = (NoDraft(), source.make(tree))
        runs = [decoding(drafts[which], prompt) for which in ((0, 1) if number % 2 else (1, 0))]
        plain, with_tree = runs if number % 2 else reversed(runs)
        same = sampling.temperature > 0 or plain.tokens == with_tree.tokens
        if same:
            yield Validated(plain, with_tree, same)
            continue
        padded = decoding(Padding(tree=tree), prompt, walk=only_root)
        gap = largest_gap(target, prompt, with_tree.tokens)
        yield Validated(plain, with_tree, same, padded.tokens == with_tree.tokens, gap)


# ---- passes alone


@dataclass(frozen=True)
class Alone:
    """Seconds of passes timed alone, by width: of the target, and of the draft (0 where no model drafts)."""

    target: Mapping[int, float]
    draft: Mapping[int, float]

    def verify_s(self, width: int) -> float:
        return between(self.target, width)

    def draft_s(self, tree: TokenTree) -> float:
        """The passes of one round: one for the root, one for the inner nodes of each level."""
        if not self.draft or not tree.nodes:
            return 0.0
        return between(self.draft, 1) + sum(between(self.draft, len(level.nodes)) for level in levels_of(tree))

    def round_s(self, tree: TokenTree) -> float:
        return self.draft_s(tree) + self.verify_s(tree.width)


def between(times: Mapping[int, float], width: int) -> float:
    """Linear between measured widths.

    >>> between({1: 1.0, 3: 2.0}, 2)
    1.5
    """
    if width in times:
        return times[width]
    widths = sorted(times)
    right = widths[min(max(1, bisect_left(widths, width)), len(widths) - 1)]
    left = widths[widths.index(right) - 1]
    return times[left] + (times[right] - times[left]) * (width - left) / (right - left)


def by_profile(hardware: Hardware, target: ModelSpec, draft: ModelSpec | None, like: Alone, *, context: int) -> Alone:
    """The same passes as `like` has, as a profile predicts them: by its curve of that model, else by the formula."""

    def times(model: ModelSpec, widths: Iterable[int], *, draft: bool) -> dict[int, float]:
        return {width: pass_time(hardware, model, width=width, context=context, draft=draft).pass_s for width in widths}

    drafting = {} if draft is None else times(draft, like.draft, draft=True)
    return Alone(times(target, like.target, draft=False), drafting)


class Passes:
    """The passes that a round and a plain step are made of, timed alone over `context` cached tokens.

    Where the tree comes out smaller than planned (n-grams), widths below it are timed too. Times are means: what a
    decode takes is a sum, and other jobs on the machine are in both.
    """

    def __init__(self, target: Model, source: DraftSource, tree: TokenTree, *, context: int, timer: Timer) -> None:
        widths = {1, tree.width} | ({2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64} if source.longest else set())
        used = passes_of(target, {width for width in widths if width <= tree.width}, context)
        self._runs = {("target", width): run for width, run in used.items()}
        if source.model is not None:
            used = passes_of(source.model, {1, *(len(level.nodes) for level in levels_of(tree))}, context)
            self._runs |= {("draft", width): run for width, run in used.items()}
        self._timer = timer
        self._taken: list[Taken] = []
        for run in self._runs.values():
            run()

    def take(self, times: int = 1) -> None:
        """Time every pass so many times, in turn in random order."""
        taken: Taken = {key: [] for key in self._runs}
        keys = list(taken)
        for _ in range(times):
            random.Random(len(self._taken)).shuffle(keys)
            for key in keys:
                taken[key].append(self._timer.sample(self._runs[key]))
        self._taken.append(taken)

    def alone(self) -> Alone:
        """The mean of all that was taken."""
        found: dict[str, dict[int, float]] = {"target": {}, "draft": {}}
        for whose, width in sorted(self._runs):
            found[whose][width] = statistics.fmean(x for taken in self._taken for x in taken[whose, width])
        return Alone(found["target"], found["draft"])

    def drift(self) -> float:
        """Change of the passes' times from the first that were taken to the last; 0.05 is 5 % slower."""
        first, last = self._taken[0], self._taken[-1]
        return statistics.median(statistics.median(last[key]) / statistics.median(first[key]) for key in first) - 1


def passes_of(model: Model, widths: Iterable[int], context: int) -> dict[int, Run]:
    """A pass of each width over one cache that holds random tokens, logits of every row included."""
    widest = max(widths := sorted(widths))
    cache = model.new_cache(context + widest)
    prefill(model, cache, torch.randint(model.vocab, (context,)).tolist())

    def run_of(width: int) -> Run:
        rows = torch.arange(context, context + width, device=model.device)
        tokens = torch.randint(model.vocab, (1, width), device=model.device)
        mask = causal_mask(width, context, device=model.device)
        return lambda: model.logits(model.hidden(tokens, rows, cache, mask, rows))

    return {width: run_of(width) for width in widths}
