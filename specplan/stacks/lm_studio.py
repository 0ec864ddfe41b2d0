"""LM Studio: prediction statistics."""

from __future__ import annotations

from typing import Any

from ..base.errors import InputError
from .reading import Asked, Reading, check_stated, objects_with, total


def statistics(data: Any, asked: Asked) -> Reading | None:
    """LM Studio's prediction statistics, which hold counts."""
    found = list(objects_with(data, "acceptedDraftTokensCount", "predictedTokensCount"))
    if not found:
        return None
    accepted, generated = total(found, "acceptedDraftTokensCount"), total(found, "predictedTokensCount")
    if accepted is None or generated is None or accepted >= generated:
        raise InputError("as many tokens accepted as generated", hint="every round emits one token of its own")
    parts = [total(found, f"{name}DraftTokensCount") for name in ("rejected", "ignored")]
    drafted = total(found, "totalDraftTokensCount")
    if drafted is not None and None not in parts:
        check_stated(drafted, accepted + sum(part for part in parts if part), "totalDraftTokensCount", 0.5)
    return Reading(
        "lm-studio-stats",
        "every round emits one token beside the accepted ones: rounds = generated - accepted",
        rounds=generated - accepted,
        accepted=accepted,
        drafted=drafted,
    )
