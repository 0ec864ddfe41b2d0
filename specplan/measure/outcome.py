"""What a validation says: every term predicted and measured, intervals by prompt, and which error explains the gap."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..acceptance.kinds import Acceptance
from ..base.tree import TokenTree
from .pooled import DRAWS, LEVEL, pooled
from .rank_counts import PromptCounts
from .validation import STEPS, Alone, Validated

Statistic = Callable[[Sequence[Validated]], float]


@dataclass(frozen=True)
class Term:
    """One quantity.

    error       predicted over measured, less 1; None where nothing was predicted
    low, high   of the measured value, by drawing prompts anew
    error_low, error_high   of the error, the prompts of the prediction drawn anew as well where they are known
    """

    predicted: float | None
    measured: float
    low: float
    high: float
    error: float | None = None
    error_low: float | None = None
    error_high: float | None = None

    def within(self, tolerance: float) -> bool:
        """Whether the error is within the tolerance, or cannot be told from none."""
        if self.error is None or self.error_low is None or self.error_high is None:
            return True
        return abs(self.error) <= tolerance or self.error_low <= 0 <= self.error_high


def tau(validated: Sequence[Validated]) -> float:
    """Tokens a round."""
    return sum(one.tree.emitted for one in validated) / sum(len(one.tree.rounds) for one in validated)


def per_round(part: str) -> Statistic:
    """Seconds a round of `draft_s`, `verify_s`, `rest_s` or `seconds`."""

    def of(validated: Sequence[Validated]) -> float:
        rounds = [one for item in validated for one in item.tree.rounds]
        return sum(float(getattr(one, part)) for one in rounds) / len(rounds)

    return of


def plain_step(validated: Sequence[Validated]) -> float:
    """Seconds of a plain step."""
    return sum(one.plain.seconds for one in validated) / sum(len(one.plain.rounds) for one in validated)


def tokens_per_s(validated: Sequence[Validated]) -> float:
    return sum(one.tree.emitted for one in validated) / sum(one.tree.seconds for one in validated)


def speedup(validated: Sequence[Validated]) -> float:
    return tokens_per_s(validated) * plain_step(validated)


def terms_of(
    validated: Sequence[Validated],
    tree: TokenTree,
    alone: Alone,
    *,
    acceptance: Acceptance | None = None,
    counted: Sequence[PromptCounts] = (),
    seed: int = 0,
) -> dict[str, Term]:
    """Every term. Without an acceptance, tokens a round, throughput and speed-up are measured only; so is
    drafting where no model drafts (n-grams, heads), and its time is no part of the predicted round.

    counted   the prompts behind the acceptance, where its document carries them
    """
    used = [one for one in validated if one.tree.rounds and one.plain.rounds]
    widths = [one.width for item in used for one in item.tree.rounds]
    verify_s = sum(map(alone.verify_s, widths)) / len(widths)
    draft_s = alone.draft_s(tree)
    round_s, plain_s = draft_s + verify_s, alone.verify_s(1)

    def predicted_tau(drawn: Sequence[PromptCounts]) -> float | None:
        if acceptance is None:
            return None
        if not drawn:
            return acceptance.tau(tree)
        return pooled(drawn, str(acceptance.rule), acceptance.temperature or 0.0).tau(tree)

    draw = random.Random(seed)
    samples = [draw.choices(used, k=len(used)) for _ in range(DRAWS)]
    likely = predicted_tau(())
    many = [predicted_tau(draw.choices(counted, k=len(counted)) if counted else ()) for _ in range(DRAWS)]

    def term(of: Statistic, predict: Callable[[float | None], float | None]) -> Term:
        predicted, measured = predict(likely), of(used)
        found = [of(sample) for sample in samples]
        low, high = _middle(found)
        if predicted is None:
            return Term(None, measured, low, high)
        errors = [(predict(value) or 0.0) / other - 1 for value, other in zip(many, found)]
        return Term(predicted, measured, low, high, predicted / measured - 1, *_middle(errors))

    def times(value: float | None, factor: float) -> float | None:
        return None if value is None else value * factor

    return {
        "tau": term(tau, lambda value: value),
        "draft_s": term(per_round("draft_s"), lambda value: draft_s if alone.draft else None),
        "verify_s": term(per_round("verify_s"), lambda value: verify_s),
        "rest_s": term(per_round("rest_s"), lambda value: None),
        "round_s": term(per_round("seconds"), lambda value: round_s),
        "plain_s": term(plain_step, lambda value: plain_s),
        "tokens_per_s": term(tokens_per_s, lambda value: times(value, 1 / round_s)),
        "speedup": term(speedup, lambda value: times(value, plain_s / round_s)),
    }


def _middle(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    tail = int((1 - LEVEL) / 2 * len(ordered))
    return ordered[tail], ordered[-1 - tail]


def explanation(terms: dict[str, Term]) -> str:
    """Which error explains that of the throughput: "acceptance", "time", "both", or "none" below 2 %.

    >>> half, same = Term(1.0, 2.0, 2.0, 2.0, -0.5, -0.5, -0.5), Term(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    >>> explanation({"tau": half, "round_s": same, "tokens_per_s": half})
    'acceptance'
    """
    if terms["tau"].error is None or terms["round_s"].error is None or terms["tokens_per_s"].error is None:
        return "time" if abs(terms["round_s"].error or 0.0) >= 0.02 else "none"
    of_tau, of_time = math.log1p(terms["tau"].error), -math.log1p(terms["round_s"].error)
    if max(abs(of_tau), abs(of_time)) < 0.02:
        return "none"
    if abs(of_tau) > 2 * abs(of_time):
        return "acceptance"
    return "time" if abs(of_time) > 2 * abs(of_tau) else "both"


@dataclass(frozen=True)
class Identity:
    """Texts compared: prompts, those with the same text, those that equal plain decoding in passes of the tree's width.

    largest_gap   in steps of the dtype; 0 where all texts are the same
    lossless      every text is the same, or its tokens are ties
    """

    prompts: int
    same: int
    padded: int
    largest_gap: float
    lossless: bool


def identity_of(validated: Sequence[Validated], *, exact: bool) -> Identity:
    """Whether the texts are those of plain decoding.

    exact   fp32 and fp64, where no text may differ
    """
    gap = max((one.gap for one in validated), default=0.0)
    same = sum(one.same for one in validated)
    lossless = same == len(validated) or (not exact and gap <= STEPS)
    return Identity(len(validated), same, sum(one.padded is True for one in validated), gap, lossless)
