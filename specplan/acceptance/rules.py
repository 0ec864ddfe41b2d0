"""What an acceptance rule makes of a target and a draft distribution: the child probabilities, exactly.

>>> child_prob_for([0.7, 0.2, 0.1], [0.5, 0.3, 0.2], rule="topk", count=2)
(0.7, 0.2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import InputError, did_you_mean
from .kinds import to_number, to_probabilities, to_whole

__all__ = ["RULES", "child_prob_for"]

RULES = ("strict", "without_replacement", "topk", "membership", "membership_without_replacement", "greedy", "typical")


def child_prob_for(
    target_probs: Sequence[float],
    draft_probs: Sequence[float],
    *,
    rule: str,
    count: int,
    epsilon: float = 0.09,
    delta: float = 0.3,
) -> tuple[float, ...]:
    """Child probabilities of `count` children at one node, exactly, for given next-token distributions.

    target_probs, draft_probs   over the same tokens, after temperature and top-p; shape [vocabulary]
    rule   strict                          children drawn from the draft, tested one after the other, each
                                           rejection leaves max(0, target - draft)
           without_replacement             the same, a rejected token leaves the draft
           topk                            the draft's best tokens, accepted with the target's probability
           membership                      drawn children; one token is drawn from the target and followed if among them
           membership_without_replacement  the same with distinct children
           greedy                          the draft's best tokens; the one that is the target's best is accepted
           typical                         the draft's best tokens; the first above min(epsilon, delta exp(-entropy))
    epsilon, delta   of the typical rule; the defaults are Medusa's posterior threshold and alpha
    Raises  InputError for distributions that do not fit each other or have too many tokens to enumerate
    Source  Leviathan et al. 2023 (strict), Miao et al. 2024 (several drawn children), Chen et al. 2024 (without
            replacement), Cai et al. 2024 (typical).

    >>> child_prob_for([0.5, 0.5], [0.5, 0.5], rule="strict", count=2)
    (1.0, 0.0)
    """
    target, draft = _distribution(target_probs, "target_probs"), _distribution(draft_probs, "draft_probs")
    if len(target) != len(draft):
        raise InputError(
            f"{len(target)} target and {len(draft)} draft probabilities", hint="give one pair for each token"
        )
    if rule not in RULES:
        raise InputError(
            f"unknown rule {str(rule)[:40]!r}",
            hint=did_you_mean(str(rule), RULES, otherwise=f"known: {', '.join(RULES)}"),
        )
    children = to_whole(count, "count")
    if rule == "typical":
        return _typical(target, draft, children, epsilon, delta)
    return _RULES[rule](target, draft, children)


def _distribution(given: Any, what: str) -> tuple[float, ...]:
    values = to_probabilities(given, what)
    total = math.fsum(values)
    if abs(total - 1) > 1e-3:
        raise InputError(f"{what} sums to {total:.6g}", hint="a distribution sums to 1")
    return tuple(value / total for value in values)


def _residual(target: Sequence[float], draft: Sequence[float]) -> tuple[float, ...] | None:
    """What is left of the target after a rejection; None when a rejection cannot happen."""
    left = [max(0.0, t - q) for t, q in zip(target, draft)]
    total = math.fsum(left)
    return tuple(value / total for value in left) if total > 1e-15 else None


def _strict(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    row: list[float] = []
    reached = 1.0
    left: Sequence[float] | None = target
    for _ in range(count):
        hit = 0.0 if left is None else math.fsum(map(min, left, draft))
        row.append(reached * hit)
        reached *= 1 - hit
        left = None if left is None else _residual(left, draft)
    return tuple(row)


# Ordered draws of distinct tokens that are enumerated at most; about a second.
MAX_DRAWS = 200_000


def _without_replacement(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    tokens = sum(q > 0 for q in draft)
    _check_draws(tokens, count)
    row = [0.0] * count
    _draw(target, draft, 1.0, 0, row)
    return tuple(row)


def _check_draws(tokens: int, count: int) -> None:
    if math.perm(tokens, min(tokens, count)) > MAX_DRAWS:
        raise InputError(
            f"{count} distinct draws from {tokens} tokens are too many to enumerate",
            hint="keep the most likely tokens, or fewer children",
        )


def _draw(target: Sequence[float], draft: Sequence[float], weight: float, child: int, row: list[float]) -> None:
    """Adds to row[child:] what drawing child after child without replacement accepts."""
    total = math.fsum(draft)
    if child == len(row) or total <= 0 or weight <= 0:
        return
    now = [q / total for q in draft]
    left = _residual(target, now)
    for token, q in enumerate(now):
        if q > 0:
            hit = min(1.0, target[token] / q)
            row[child] += weight * q * hit
            if hit < 1 and left is not None:
                _draw(left, [*now[:token], 0.0, *now[token + 1 :]], weight * q * (1 - hit), child + 1, row)


def _best_tokens(draft: Sequence[float], count: int) -> list[int]:
    return sorted(range(len(draft)), key=lambda token: (-draft[token], token))[:count]


def _topk(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    return tuple(target[token] for token in _best_tokens(draft, count))


def _membership(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    return tuple(math.fsum(t * q * (1 - q) ** k for t, q in zip(target, draft)) for k in range(count))


def _membership_distinct(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    _check_draws(sum(q > 0 for q in draft), count)
    row = [0.0] * count
    _draw_members(target, draft, 1.0, 0, row)
    return tuple(row)


def _draw_members(target: Sequence[float], draft: Sequence[float], weight: float, child: int, row: list[float]) -> None:
    total = math.fsum(draft)
    if child == len(row) or total <= 0:
        return
    for token, q in enumerate(draft):
        if q > 0:
            drawn = weight * q / total
            row[child] += drawn * target[token]
            _draw_members(target, [*draft[:token], 0.0, *draft[token + 1 :]], drawn, child + 1, row)


def _greedy(target: Sequence[float], draft: Sequence[float], count: int) -> tuple[float, ...]:
    best = _best_tokens(target, 1)[0]
    return tuple(float(token == best) for token in _best_tokens(draft, count))


def _typical(
    target: Sequence[float], draft: Sequence[float], count: int, epsilon: float, delta: float
) -> tuple[float, ...]:
    # 1e-5 keeps the logarithm finite, as in Medusa's evaluate_posterior.
    entropy = -math.fsum(t * math.log(t + 1e-5) for t in target)
    threshold = min(to_number(epsilon, "epsilon"), to_number(delta, "delta") * math.exp(-entropy))
    passes = [target[token] > threshold for token in _best_tokens(draft, count)]
    return tuple(float(ok and not any(passes[:k])) for k, ok in enumerate(passes))


_RULES: dict[str, Callable[[Sequence[float], Sequence[float], int], tuple[float, ...]]] = {
    "strict": _strict,
    "without_replacement": _without_replacement,
    "topk": _topk,
    "membership": _membership,
    "membership_without_replacement": _membership_distinct,
    "greedy": _greedy,
}
