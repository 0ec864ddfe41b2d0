"""Acceptance at one length of the context, where a source has tokens per round by prompt length.

Long contexts are often accepted less: a mean over short prompts says little of them.

    at_context(acceptance, 8192)     the row of that length; rates by position keep their shape
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import InputError
from .kinds import Acceptance, Chain, Counts, Mixture, to_number

# What holds for the whole source and not for one of its rows.
_OF_THE_WHOLE = (
    "accept_length_by_k", "acceptance_rate", "by_category", "by_context", "by_engine", "drafted_per_round", "fit",
    "histogram", "interval", "series",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens per round of the prompts of more than `to` / 2 up to `to` tokens."""

    to: float
    rounds: float
    tau: float

    def holds(self, context: int) -> bool:
        return self.to / 2 < context <= self.to

    def away(self, context: int) -> float:
        """How far a length is from the middle of the row, in doublings."""
        return abs(math.log2(max(context, 1)) - math.log2(self.to) + 0.5)


def rows_of(acceptance: Acceptance) -> list[Row]:
    """The rows of the source, short prompts first; none where it has none.

    Raises  InputError for numbers that cannot be.
    """
    given = acceptance.about.get("by_context")
    keys = ("prompt_tokens_to", "rounds", "tau")
    known = [entry for entry in given if isinstance(entry, Mapping) and set(keys) <= entry.keys()] if given else []
    rows = sorted(
        (Row(*(to_number(entry[key], f"by_context.{key}") for key in keys)) for entry in known), key=lambda row: row.to
    )
    if any(row.to <= 0 or row.rounds <= 0 or not 1 <= row.tau < math.inf for row in rows):
        raise InputError("by_context has a row that cannot be", hint="prompt_tokens_to and rounds above 0, tau from 1")
    return rows


def at_context(acceptance: Acceptance, context: int | None) -> Acceptance:
    """The acceptance of prompts about as long as the context, with a note of what was taken.

    context   tokens in a sequence's cache; None: not stated, so the mean over all prompts stays
    returns   the same acceptance where the source has no rows, or is no chain

    >>> rows = [{"prompt_tokens_to": to, "rounds": 20, "tau": tau} for to, tau in ((128, 2.5), (8192, 1.5))]
    >>> both = Chain.from_survival([0.6, 0.3, 0.1], about={"by_context": rows})
    >>> [round(1 + sum(at_context(both, context).survival), 6) for context in (100, 8000, None)]
    [2.5, 1.5, 2.0]
    """
    if isinstance(acceptance, Mixture):
        return replace(acceptance, components=tuple(at_context(part, context) for part in acceptance.components))
    rows = rows_of(acceptance)
    if not isinstance(acceptance, Chain) or len(rows) < 2:
        return acceptance
    if context is None:
        lengths = ", ".join(f"{row.tau:.3f} up to {row.to:g}" for row in rows)
        said = (
            f"tokens a round are the mean over all prompts; by prompt tokens {lengths}: --context N takes one of them"
        )
        return replace(acceptance, notes=(*acceptance.notes, said))
    row = min(rows, key=lambda row: (not row.holds(context), row.away(context)))
    k = acceptance.about.get("k") or acceptance.measured_depth
    prompts = f"prompts up to {row.to:g} tokens"
    said = (
        f"at context {context} the {row.tau:.3f} tokens a round of {prompts} ({row.rounds:g} rounds); rates by "
        "position keep their shape"
    )
    far = f"MEASURED AT {prompts}, used at context {context}: no prompt of that length was measured"
    about = {key: value for key, value in acceptance.about.items() if key not in _OF_THE_WHOLE} | {"tau": row.tau}
    alpha = (1.0 - 1.0 / row.tau,) if k is None else _bent(acceptance, int(k), row.tau)
    return replace(
        acceptance,
        alpha=alpha,
        counts=_counts(alpha, row.rounds, int(k or 1)),
        about=about,
        notes=(*acceptance.notes, said, *(() if row.holds(context) else (far,))),
    )


def _bent(chain: Chain, k: int, tau: float) -> tuple[float, ...]:
    """The rates to one power, so that a chain of k has tau tokens a round: the shape stays, the level changes."""
    rates = [chain.probability(depth, 0) for depth in range(1, k + 1)]
    low, high = 0.0, 1.0
    while _tau(rates, high) > tau and high < 1e6:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _tau(rates, middle) > tau else (low, middle)
    return tuple(rate**high if rate else 0.0 for rate in chain.alpha)


def _tau(rates: Sequence[float], power: float) -> float:
    bent: list[float] = [rate**power if rate else 0.0 for rate in rates]
    return 1.0 + math.fsum(itertools.accumulate(bent, operator.mul))


def _counts(alpha: Sequence[float], rounds: float, k: int) -> Counts:
    """What the row's rounds would have counted at these rates."""
    rows: list[Any] = []
    left = rounds
    for depth in range(min(k, len(alpha)) if len(alpha) > 1 else 0):
        reached = left * alpha[depth]
        rows.append(((reached, left),))
        left = reached
        if left <= 0:
            break
    return Counts(rounds=rounds, by_depth_rank=tuple(rows))
