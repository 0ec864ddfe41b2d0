"""The answer of `specplan advise`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..acceptance.drift import Drift
from ..base.tree import TokenTree
from ..base.units import show_time
from ..planning.advise import Advice, StillBest
from ..search.costs import RoundCosts
from ..search.shape import Shape
from .drift import drift_words
from .output import Answer, Table, answer_of
from .tree import acceptance_assumptions, comparison_keys, cost_assumptions

ACTIONS = {"keep": "Keep", "change": "Change", "off": "Turn it off"}


def advise_answer(
    place: Any,
    advice: Advice,
    used: TokenTree,
    costs: RoundCosts,
    acceptance: Any,
    moved: Drift | None,
    was: StillBest | None,
) -> Answer:
    """Verdict, the shapes side by side, what to measure next, and what moved since the snapshot before."""
    measured = costs.measured == frozenset({1, used.width})
    assumptions = [*place.assumptions, *([] if measured else cost_assumptions(costs))]
    if acceptance is not None:
        assumptions += acceptance_assumptions(acceptance)
    return answer_of(
        "advise",
        verdict=_verdict(advice, used),
        inputs=place.inputs,
        keys=_keys(advice, costs, moved, was),
        parts=[*_shapes(advice), _next(advice)],
        why=[*_why(advice, costs), *drift_words(moved), *_was(was)],
        assumptions=assumptions,
        notes=place.notes,
        warnings=place.warnings,
    )


def _keys(advice: Advice, costs: RoundCosts, moved: Drift | None, was: StillBest | None) -> dict[str, Any]:
    used = advice.used
    return {
        "verdict": advice.verdict,
        "reason": advice.reason,
        "tau": None if used is None else used.tau,
        "round_s": None if costs.relative else advice.round_s,
        "break_even": {"tau": advice.break_even_tau},
        "speedup": None if used is None else used.speedup,
        "interval": advice.interval,
        "loss": advice.loss,
        "used": None if used is None else comparison_keys(used),
        "change": None if advice.change is None else comparison_keys(advice.change),
        "measure_next": advice.measure_next,
        "drift": moved,
        "was_best": None if was is None else was.still,
    }


def _name(nodes: int, depth: int) -> str:
    if not nodes:
        return "plain decoding"
    return f"a chain of {nodes}" if nodes == depth else f"a tree of {nodes} in {depth} levels"


def _verdict(advice: Advice, used: TokenTree) -> str:
    here = _name(used.nodes, used.depth)
    if advice.verdict is None:
        return f"No acceptance given: {here} pays from {advice.break_even_tau:.3f} tokens a round."
    assert advice.used is not None
    reached = f"{here} yields {advice.used.tau:.3f} tokens a round, {advice.used.speedup:.2f} times plain decoding"
    action = ACTIONS[advice.verdict]
    if advice.verdict == "change" and advice.change is not None:
        action = f"Change to {_name(advice.change.nodes, advice.change.depth)} ({advice.change.speedup:.2f} times)"
    return f"{action}: {reached} (break-even {advice.break_even_tau:.3f})."


def _shapes(advice: Advice) -> Iterator[Table]:
    rows = [("in use", advice.used), ("change to", advice.change)]
    known: list[tuple[str, Shape]] = [(name, shape) for name, shape in rows if shape is not None]
    if not known:
        return
    yield Table(
        ("shape", "nodes", "depth", "tokens/round", "round", "times plain"),
        [
            (
                name,
                str(shape.nodes),
                str(shape.depth),
                f"{shape.tau:.3f}",
                "-" if shape.round_s is None else show_time(shape.round_s),
                f"{shape.speedup:.3f}",
            )
            for name, shape in known
        ],
    )


def _next(advice: Advice) -> Table:
    rows = [
        (
            trial.why,
            str(trial.nodes),
            "-" if trial.speedup is None else f"{trial.speedup:.3f}",
            trial.sglang,
            "-" if trial.vllm is None else str(trial.nodes),
        )
        for trial in advice.measure_next
    ]
    columns = (
        "measure next",
        "nodes",
        "times plain, predicted",
        "SGLang steps,topk,tokens",
        "vLLM num_speculative_tokens",
    )
    return Table(columns, rows)


def _why(advice: Advice, costs: RoundCosts) -> Iterator[str]:
    yield f"Why: {advice.reason}."
    if advice.interval is not None:
        low, high = advice.interval
        yield f"By the counts the speed-up in use lies between {low:.3f} and {high:.3f} (95 %)."
        if low <= 1.0 <= high:
            yield "That holds plain decoding too: more rounds are needed to tell them apart."
    if costs.measured is not None and len(costs.measured) == 2 and advice.change is not None and advice.change.nodes:
        yield "Measure the change first: a fixed cost a round makes shorter chains dearer than the line says."
    if costs.measured is not None and len(costs.measured) == 2:
        yield "Shapes between the two measured ones are interpolated; none longer than the one in use was looked at."


def _was(was: StillBest | None) -> Iterator[str]:
    if was is not None:
        said = "was within the tie of the best" if was.still else f"left {was.loss:.1%} already"
        yield f"Under the earlier acceptance the shape in use {said}."
