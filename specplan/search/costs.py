"""What a round costs: a pass of verification by width, the draft, a fixed overhead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..timing.draft import Draft, free_draft


@dataclass(frozen=True)
class RoundCosts:
    """What a round costs.

    verify_s     seconds of a verification pass by width: index i is width i + 1
    draft        what proposes the tokens
    overhead_s   fixed seconds a round, plain decoding excepted
    batch        sequences in a pass
    proposed     share of the rounds in which anything is drafted; the times are means over all rounds
    relative     True when times are multiples of a plain pass: no tokens per second then
    measured     widths that were measured, None when the times come from a formula
    """

    verify_s: Sequence[float]
    draft: Draft = field(default_factory=free_draft)
    overhead_s: float = 0.0
    draft_passes: str = "all_but_leaf"
    draft_shape: str = "sequential"
    batch: int = 1
    proposed: float = 1.0
    relative: bool = False
    measured: frozenset[int] | None = None

    @property
    def plain_s(self) -> float:
        return self.verify_s[0]

    def arguments(self) -> dict[str, Any]:
        """As the optimizer takes them."""
        return {
            "verify_s": self.verify_s,
            "draft_s": self.draft.times(),
            "overhead_s": self.overhead_s,
            "draft_passes": self.draft_passes,
            "draft_shape": self.draft_shape,
        }
