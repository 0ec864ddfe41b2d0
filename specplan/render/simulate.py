"""The answer of `specplan simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..acceptance.kinds import Acceptance
from ..base.tree import TokenTree
from ..planning.simulate import Simulated
from .output import Answer, Table, answer_of
from .tree import acceptance_assumptions


def simulate_answer(tree: TokenTree, acceptance: Acceptance, found: Simulated, given: Mapping[str, Any]) -> Answer:
    """Simulated and analytic tokens per round, and how often each number of tokens was accepted."""
    analytic = acceptance.tau(tree)
    off = abs(found.tau - analytic) / found.se if found.se else 0.0
    assumptions = acceptance_assumptions(acceptance)
    keys = {"analytic": {"tau": analytic}, "simulated": found}
    survival = [1.0, *acceptance.level_survival(tree), 0.0]
    rows = [
        (str(accepted), str(count), f"{count / found.rounds:.5f}", f"{survival[accepted] - survival[accepted + 1]:.5f}")
        for accepted, count in enumerate(found.accepted_counts)
    ]
    return answer_of(
        "simulate",
        verdict=f"Simulated {found.tau:.4f} tokens a round (standard error {found.se:.1g}), analytic {analytic:.4f}: "
        f"{off:.1f} standard errors apart.",
        inputs=given,
        keys=keys,
        parts=[Table(("accepted", "rounds", "share", "analytic"), rows)],
        assumptions=assumptions,
    )
