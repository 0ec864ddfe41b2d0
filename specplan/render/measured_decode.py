"""The answer of `specplan measure decode`: predicted beside measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..base.tree import TokenTree
from ..base.units import plural, show_share, show_time
from .output import Answer, Table, answer_of

NAMES = {
    "tau": "tokens a round",
    "draft_s": "drafting",
    "verify_s": "verification pass",
    "rest_s": "acceptance and the rest",
    "round_s": "round",
    "plain_s": "plain step",
    "tokens_per_s": "tokens/s",
    "speedup": "speed-up over plain",
}
WORDS = {
    "none": "Every term is within 2 %.",
    "acceptance": "The gap comes from acceptance: these prompts, or this length, accept otherwise than those it was "
    "measured on.",
    "time": "The gap comes from time: passes in the decode take longer or shorter than alone.",
    "both": "Acceptance and time both contribute to the gap.",
}


def measured_decode_answer(
    tree: TokenTree,
    terms: Mapping[str, Any],
    identity: Any | None,
    *,
    explains: str,
    drift: float,
    alone: Any,
    clock: str,
    validated: Sequence[Any],
    within: bool | None,
    tolerance: float | None,
    complete: bool,
    lossy: bool,
    inputs: Mapping[str, Any],
    device: str,
    profile: str | None,
) -> Answer:
    """What was predicted, what was measured, whether the text is that of plain decoding.

    terms     of `measure.outcome`, by name
    identity  None when sampling
    profile   that predicts the passes, None where passes timed alone do
    """
    keys = {
        "nodes": tree.nodes,
        "width": tree.width,
        "depth": tree.depth,
        "device": device,
        "clock": clock,
        "profile": profile,
        "complete": complete,
        "terms": {name: _plain(term) for name, term in terms.items()},
        "explains": explains,
        "identity": None if identity is None else _plain(identity),
        "drift": drift,
        "passes_alone": {
            "target": {str(width): value for width, value in alone.target.items()},
            "draft": {str(width): value for width, value in alone.draft.items()},
        },
        "tolerance": tolerance,
        "within_tolerance": within,
        "prompts": [_prompt(one) for one in validated],
    }
    rows = [_row(name, term) for name, term in terms.items()]
    table = Table(("", "predicted", "measured", "by prompt", "error", "error by prompt"), rows)
    from_profile = [] if profile is None else [("predicted times: calibrated passes", f"profile {profile}")]
    assumptions = [
        *from_profile,
        (
            f"passes alone: mean of before, between and after the prompts, {drift:+.1%} from first to last; {clock}",
            "measured here",
        ),
        ("intervals: 95 %, prompts drawn anew", "bootstrap"),
    ]
    warnings = ["typical acceptance is not lossless: the text is another than the model's own"] if lossy else []
    return answer_of(
        "measure.decode",
        verdict=_verdict(terms, identity, within, tolerance),
        inputs=inputs,
        keys=keys,
        parts=[table],
        why=list(_why(explains, identity, terms)),
        assumptions=assumptions,
        warnings=warnings,
    )


def _plain(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _prompt(one: Any) -> dict[str, Any]:
    return {
        "tokens": len(one.tree.tokens),
        "rounds": len(one.tree.rounds),
        "emitted": one.tree.emitted,
        "tree_s": one.tree.seconds,
        "plain_rounds": len(one.plain.rounds),
        "plain_s": one.plain.seconds,
        "same": one.same,
        "padded": one.padded,
        "gap": one.gap,
    }


def _verdict(terms: Mapping[str, Any], identity: Any | None, within: bool | None, tolerance: float | None) -> str:
    speedup = terms["speedup"]
    faster = f"{speedup.measured:.2f} times plain decoding ({speedup.low:.2f} to {speedup.high:.2f})"
    predicted = "" if speedup.predicted is None else f", {speedup.predicted:.2f} predicted"
    if identity is not None and not identity.lossless:
        return (
            f"The text is NOT that of plain decoding in {plural(identity.prompts - identity.same, 'prompt')}; {faster}."
        )
    if within is None:
        return f"{faster[0].upper()}{faster[1:]}{predicted}."
    said = "within" if within else "outside"
    return f"{faster[0].upper()}{faster[1:]}{predicted}: {said} {show_share(tolerance or 0.0)}."


def _row(name: str, term: Any) -> tuple[str, ...]:
    def show(value: float | None) -> str:
        if value is None:
            return "-"
        if name == "tokens_per_s":
            return f"{value:.1f}"
        return show_time(value) if name.endswith("_s") else f"{value:.3f}"

    error, between = "-", "-"
    if term.error is not None:
        error, between = f"{term.error:+.1%}", f"{term.error_low:+.1%} to {term.error_high:+.1%}"
    return (
        NAMES[name],
        show(term.predicted),
        show(term.measured),
        f"{show(term.low)} to {show(term.high)}",
        error,
        between,
    )


def _why(explains: str, identity: Any | None, terms: Mapping[str, Any]) -> Iterator[str]:
    if terms["tau"].error is None:
        yield "No acceptance was given, so only times are compared."
    yield WORDS[explains]
    if identity is None:
        yield "Sampled texts differ by chance; that they follow the model is a matter of the acceptance rule."
        return
    yield f"{identity.same} of {plural(identity.prompts, 'text')} equal plain decoding token for token."
    if identity.same < identity.prompts:
        rest = identity.prompts - identity.same
        yield (
            f"{identity.padded} of the other {rest} equal plain decoding in passes of the tree's width; the largest "
            f"distance of a token from the best logit is {identity.largest_gap:.1f} steps of the dtype."
        )
