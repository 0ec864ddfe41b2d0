"""One run that a benchmark file reports."""

from __future__ import annotations

from dataclasses import dataclass

from ..search.space import Dynamic


@dataclass(frozen=True)
class Measured:
    """One measurement; None where the source does not say it.

    k          drafted tokens of a chain, 0 for plain decoding
    dynamic    steps, topk and nodes where the engine built trees
    batch      sequences at a time
    tau        tokens of a round, the bonus token included
    round_s    seconds of a round; of plain decoding, of a token
    tokens_per_s   all sequences together
    """

    source: str
    k: int | None = None
    dynamic: Dynamic | None = None
    batch: int | None = None
    tau: float | None = None
    round_s: float | None = None
    tokens_per_s: float | None = None
    notes: tuple[str, ...] = ()
