"""TensorRT-LLM: iteration statistics (JSON) and metrics."""

from __future__ import annotations

from typing import Any

from .prometheus import Page, positions
from .reading import Asked, Reading, number, objects_with, total


def iteration_stats(data: Any) -> Reading | None:
    """`specDecodingStats` of one or many iterations; every request of an iteration is a round."""
    found = [
        entry
        for entry in objects_with(data, "numRequestsWithDraftTokens")
        if number(entry, "numRequestsWithDraftTokens")
    ]
    if not found:
        return None
    return Reading(
        "trtllm-iteration-stats",
        "accepted tokens + requests over requests with drafts is the tokens per round, bonus token included",
        tau=number(found[0], "acceptanceLength") if len(found) == 1 else None,
        rounds=total(found, "numRequestsWithDraftTokens"),
        drafted=total(found, "numDraftTokens"),
        accepted=total(found, "numAcceptedTokens"),
    )


def from_page(page: Page, asked: Asked) -> Reading | None:
    """Counters by token position, or the gauge of the mean length."""
    prefix = "trtllm_spec_decode"
    drafted = positions(page, f"{prefix}_drafted_tokens", "token_position")
    accepted = positions(page, f"{prefix}_accepted_tokens", "token_position")
    length = page.mean(f"{prefix}_acceptance_length") or page.mean("trtllm_avg_decoded_tokens_per_iter")
    if drafted and drafted[0]:
        return Reading(
            "trtllm-metrics",
            "a position's counters are accepted over drafted there: where every draft has its full length this is the "
            "share of rounds in which it and all before it were accepted",
            rounds=drafted[0],
            drafted=sum(drafted),
            accepted=sum(accepted),
            reached=accepted,
            k=len(drafted),
        )
    if length is None:
        return None
    return Reading("trtllm-metrics", "a gauge of the mean length, bonus token included: no interval", tau=length)
