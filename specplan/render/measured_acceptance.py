"""The answer of `specplan measure acceptance`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..acceptance.kinds import Acceptance
from ..base.units import plural, show_share
from .acceptance import document_of
from .output import Answer, Table

SHOWN = 4
RULE_WORDS = {
    "greedy": "the draft's k-th best token is the target's",
    "without_replacement": "drawn without replacement",
    "topk": "the draft's best tokens",
    "strict": "drawn independently",
    "typical": "typical, each by itself (not lossless)",
}


def measured_acceptance_answer(acceptance: Acceptance, given: Mapping[str, Any], *, asked: int) -> Answer:
    """What was counted, how sure it is, and how to go on.

    asked   prompts of the file
    """
    measured = acceptance.about["measured"]
    counted = len(measured["prompts"])
    notes = [] if counted == asked else [f"{counted} of {plural(asked, 'prompt')} have an answer to count"]
    if acceptance.rule == "typical":
        notes.append("typical acceptance changes what the model says; its children do not exclude each other")
    document = document_of(acceptance, given, ()) | {"notes": notes}
    parts = [_by_depth(acceptance)] if acceptance.rule == "greedy" else [_by_rule(measured["child_prob_by_rule"])]
    if measured["exit_layers"]:
        parts.append(_by_exit(measured["exit_layers"]))
    return Answer(_verdict(acceptance, measured, counted), document, parts, list(_why(acceptance, measured)), (), notes)


def _verdict(acceptance: Acceptance, measured: Mapping[str, Any], counted: int) -> str:
    from ..base.tree import TokenTree

    depth = acceptance.about["k"]
    interval = acceptance.about["interval"]
    between = f" ({interval.low:.2f} to {interval.high:.2f} by prompt)" if interval else ""
    tau = acceptance.tau(TokenTree.chain(depth))
    of = f"{measured['positions']:,} tokens of {plural(counted, 'answer')}"
    return f"A chain of {depth} yields {tau:.3f} tokens a round{between}; counted on {of}."


def _by_depth(acceptance: Any) -> Table:
    """Rates by depth and rank, and how many rounds got there."""
    rows = []
    at_any = acceptance.max_depth is None
    for depth, row in enumerate(acceptance.counts.by_depth_rank, 1):
        rates = [f"{hit / tried:.3f}" for hit, tried in row[:SHOWN]]
        others = sum(hit for hit, _ in row[SHOWN:]) / row[0][1]
        rows.append(("any" if at_any else str(depth), *rates, f"{others:.3f}", f"{row[0][1]:,}"))
    best = tuple(f"{k}. best" for k in range(1, SHOWN + 1))
    return Table(
        ("depth", *best, f"{SHOWN + 1}. to {len(row)}.", "tokens" if at_any else "rounds that came here"), rows
    )


def _by_rule(vectors: Mapping[str, list[float]]) -> Table:
    rows = [
        (
            RULE_WORDS[rule],
            *(f"{value:.3f}" for value in vector[:SHOWN]),
            f"{sum(vector):.3f}" if rule != "typical" else "-",
        )
        for rule, vector in vectors.items()
    ]
    names = tuple(f"child {k}" for k in range(1, SHOWN + 1))
    return Table(("children", *names, "any"), rows)


def _by_exit(layers: Mapping[str, float]) -> Table:
    return Table(
        ("exit after layer", "agrees with the target"), [(at, show_share(rate)) for at, rate in layers.items()]
    )


def _why(acceptance: Acceptance, measured: Mapping[str, Any]) -> Iterator[str]:
    layers = measured["exit_layers"]
    if layers:
        few = list(layers.items())[:: max(1, len(layers) // 6)]
        rates = ",".join(f"{at}:{rate:.3f}" for at, rate in few)
        yield f"For plan and compare: --method layerskip --exit-layer {rates}"
    if acceptance.rule != "greedy":
        yield "The rules have different vectors: a tree must be planned with the one that the engine decodes by."
    yield "Other prompts and longer answers give other numbers; the interval knows these prompts alone."
