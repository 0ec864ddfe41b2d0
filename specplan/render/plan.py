"""The answer of `specplan plan`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..acceptance.documents import acceptance_document
from ..base.units import plural, show_bytes, show_share, show_time
from ..models.pair import bytes_ratio
from ..planning.batch import Joint, Stretch
from ..planning.plan import Plan
from ..search.costs import RoundCosts
from ..search.shape import Shape
from ..search.space import Space
from ..timing.memory import Memory
from .bars import bars
from .export import stack_parts, stack_words
from .extra import NOTHING, extra_keys, extra_tables
from .goals import goal_ending, goal_keys, goal_tables, goal_words
from .output import Answer, Lines, Table, answer_of
from .tree import (
    acceptance_assumptions,
    break_even_rows,
    comparison_keys,
    comparison_table,
    cost_assumptions,
    drawing,
    exactness_words,
    shape_keys,
)


def plan_answer(
    place: Any,
    answer: Plan,
    costs: RoundCosts,
    limits: Space,
    acceptance: Any | None,
    stretches: Sequence[Stretch] | None,
    extra: Any,
    goals: Any,
    given: Shape | None = None,
    stack: Mapping[str, Any] | None = None,
    joint: Joint | None = None,
) -> Answer:
    """Verdict first, then the shapes (`given`: one that was asked for), the round's time, the memory, and why.

    joint   batch and shape together, where there are several batches
    stack   what the serving stack reads for the recommended shape, where the plan is for one
    """
    assumptions = [*place.assumptions, *cost_assumptions(costs)]
    if acceptance is not None:
        assumptions += acceptance_assumptions(acceptance)
    keys = plan_keys(place, answer, costs, acceptance) | NOTHING | goal_keys(goals)
    keys |= {"schedule": stretches, "joint": joint, "given": _tree_keys(given), "stack": stack}
    if acceptance is not None and answer.best is not None:
        keys |= extra_keys(extra, acceptance, limits, costs, answer.best.shape, answer.best.tree)
    return answer_of(
        "plan",
        verdict=verdict_words(answer).removesuffix(".") + goal_ending(goals),
        inputs=place.inputs,
        keys=keys,
        parts=[
            *_parts(answer, costs, acceptance, given),
            *_schedule_table(stretches),
            *stack_parts(stack),
            *goal_tables(goals),
            *extra_tables(keys),
        ],
        why=[
            *_why(answer, costs),
            *_joint_words(joint),
            *stack_words(stack),
            *exactness_words(acceptance),
            *goal_words(goals),
        ],
        assumptions=assumptions,
        notes=place.notes,
        warnings=place.warnings,
    )


def cost_keys(costs: RoundCosts) -> dict[str, Any]:
    """Times of the passes by width, so that a document says by itself what another shape would cost."""
    draft, last = costs.draft, costs.draft.last or len(costs.verify_s)
    each = [draft.at(width) for width in range(1, last + 1)] if callable(draft.pass_s) else draft.pass_s
    return {
        "verify_s": list(costs.verify_s),
        "draft_s": each,
        "overhead_s": costs.overhead_s,
        "draft_passes": costs.draft_passes,
        "draft_shape": costs.draft_shape,
        "batch": costs.batch,
        "proposed": costs.proposed,
        "relative": costs.relative,
    }


NO_MEMORY = dict.fromkeys(item.name for item in fields(Memory))


def plan_keys(place: Any, answer: Plan, costs: RoundCosts, acceptance: Any | None) -> dict[str, Any]:
    """The plan's own keys of the JSON document; contract.md has their meaning."""
    shown = answer.recommended
    draft, target = costs.draft, place.model
    ratio = bytes_ratio(draft.model, target) if draft.model is not None and target is not None else None
    even = answer.break_even
    return {
        "verdict": answer.verdict,
        "break_even": {
            "tau": None if even is None else even.tau,
            "p": None if even is None else even.p,
            "round_s": None if even is None or costs.relative else even.round_s,
            "nodes": None if even is None else even.nodes,
            "table": answer.break_even_table,
        },
        "optimum": None if answer.best is None else _optimum_keys(answer),
        "recommended": _tree_keys(answer.recommended),
        "best_chain": _tree_keys(answer.best_chain),
        "plain": _tree_keys(answer.plain),
        "given": None,
        "time": {
            "draft_s": None if shown is None else shown.draft.total_s,
            "verify_s": None if shown is None else shown.verify_s,
            "overhead_s": None if shown is None else shown.overhead_s,
        },
        "draft": {
            "bytes_ratio": ratio,
            "passes": None if shown is None else shown.draft.passes,
            "pass_s": None if shown is None else shown.draft.pass_s,
        },
        "memory": NO_MEMORY if answer.memory is None else answer.memory,
        "schedule": None,
        "joint": None,
        "deadline": None,
        "cost": None,
        "stack": None,
        "acceptance": None if acceptance is None else acceptance_document(acceptance),
        "costs": cost_keys(costs),
    }


def _optimum_keys(answer: Plan) -> dict[str, Any]:
    assert answer.best is not None
    best = answer.best
    found = {"optimality": best.optimality, "gap": best.gap, "candidates": best.candidates}
    beside = {
        "plain": comparison_keys(answer.plain),
        "chain_same_budget": None if answer.best_chain is None else comparison_keys(answer.best_chain),
        "chain_same_depth": None,
        "full_tree": None,
    }
    return shape_keys(best.shape) | found | {"comparisons": beside}


def _tree_keys(shape: Shape | None) -> dict[str, Any] | None:
    """A shape with the keys of a tree's document; what was not asked of it is null."""
    if shape is None:
        return None
    return shape_keys(shape) | dict.fromkeys(("optimality", "gap", "candidates", "comparisons"))


def verdict_words(answer: Plan) -> str:
    verdict = answer.verdict
    if verdict.speculate is None:
        return f"No verdict: {verdict.reason}."
    if not verdict.speculate:
        return f"Do not speculate: {verdict.reason}."
    shape = answer.recommended
    assert shape is not None
    what = (
        f"a chain of {shape.nodes}"
        if shape.depth == shape.nodes
        else f"a tree of {plural(shape.nodes, 'node')} (verify width {shape.width}), depth {shape.depth}"
    )
    between = "" if verdict.interval is None else f" ({verdict.interval[0]:.2f} to {verdict.interval[1]:.2f})"
    return f"Speculate: {verdict.speedup:.2f} x plain decoding{between} with {what}{_break_even_words(answer)}."


def _break_even_words(answer: Plan) -> str:
    even = answer.break_even
    if even is None:
        return ""
    p = "" if even.p is None else f" (p {even.p:.3f})"
    return f"; break-even at {even.tau:.3f} tokens a round{p}"


def _parts(answer: Plan, costs: RoundCosts, acceptance: Any | None, given: Shape | None) -> Iterator[Table | Lines]:
    if answer.best is None:
        yield break_even_rows(answer.break_even_table, costs)
    else:
        shapes = {
            "recommended": answer.recommended,
            "optimum": answer.best.shape,
            "best chain": answer.best_chain,
            "plain decoding": answer.plain,
        }
        if given is not None:
            shapes = {"given": given, **shapes}
        yield comparison_table(shapes)
        shape = answer.recommended
        assert shape is not None
        if shape.nodes:
            yield _round_table(shape, costs)
            yield Lines(
                list(drawing(shape.tree, acceptance, most=20)),
                title=f"recommended: level widths {', '.join(map(str, shape.widths))}",
            )
    if answer.memory is not None:
        yield _memory_table(answer.memory)


def _schedule_table(stretches: Sequence[Stretch] | None) -> Iterator[Table]:
    if stretches is None:
        return
    rows = [
        (
            str(s.batch_first) if s.batch_first == s.batch_last else f"{s.batch_first} to {s.batch_last}",
            "off"
            if not s.nodes
            else f"chain of {s.nodes}"
            if s.nodes == s.depth
            else f"{s.nodes} nodes, depth {s.depth}",
            f"{s.speedup:.3f}",
            bar,
        )
        for s, bar in zip(stretches, bars([s.speedup for s in stretches]))
    ]
    yield Table(("batch", "shape", "x plain at its first", ""), rows)


def _joint_words(joint: Joint | None) -> Iterator[str]:
    if joint is not None:
        how = f"{plural(joint.nodes, 'drafted node')} a sequence" if joint.nodes else "plain decoding"
        yield (
            f"Most tokens/s of these batches: {joint.tokens_per_s:.0f} at batch {joint.batch} with {how}, "
            f"{joint.tokens_per_s_per_sequence:.1f} a sequence."
        )


def _round_table(shape: Shape, costs: RoundCosts) -> Table:
    assert shape.round_s is not None
    parts = (
        (f"draft, {shape.draft.passes} passes", shape.draft.total_s or 0.0),
        (f"verification, width {shape.width}", shape.verify_s or 0.0),
        ("overhead", shape.overhead_s or 0.0),
        ("round", shape.round_s),
    )
    show = (lambda s: f"{s / costs.plain_s:.3f} plain passes") if costs.relative else show_time
    return Table(("round", "time", "share"), [(name, show(s), f"{s / shape.round_s:.1%}") for name, s in parts])


def _memory_table(memory: Memory) -> Table:
    rows = [
        ("needed on a device", show_bytes(memory.needed_bytes)),
        ("device has", show_bytes(memory.device_bytes)),
        ("left", show_bytes(memory.device_bytes - memory.needed_bytes)),
        ("of it for speculation", show_bytes(memory.freed_bytes)),
    ]
    if memory.draft_kv_sequences is not None:
        rows.append(("sequences that the draft displaces", f"{memory.draft_kv_sequences:.1f}"))
    return Table(("memory", ""), rows)


def _why(answer: Plan, costs: RoundCosts) -> Iterator[str]:
    verdict = answer.verdict
    if verdict.speculate is None:
        yield "Give an acceptance to get a verdict: --p 0.6, --accept-length 2.8 --k 5, --acceptance FILE, ..."
        return
    if verdict.speculate:
        yield verdict.reason[0].upper() + verdict.reason[1:] + "."
    best, chosen = answer.best, answer.recommended
    assert best is not None
    assert chosen is not None
    if chosen.nodes and chosen.nodes < best.shape.nodes and answer.legal is None:
        loss = 1 - (chosen.speedup or 0) / (best.shape.speedup or 1)
        fewer = best.shape.nodes - chosen.nodes
        lost = show_share(loss, 2)
        yield f"The optimum has {best.shape.nodes} nodes; the recommended shape has {fewer} less and loses {lost}."
    if answer.noise > 0.01:
        yield f"The counts leave {answer.noise:.1%} open: shapes that close to the optimum cannot be told apart."
    if best.optimality == "proved":
        yield "The optimum is proved for these inputs."
    else:
        yield f"The optimum is not proved: a better shape could gain at most {best.gap:.2%}."
    chain = answer.best_chain
    if chosen.nodes and chain is not None and chain.speedup and chosen.speedup and chosen.depth != chosen.nodes:
        gain = chosen.speedup / chain.speedup - 1
        yield f"Against the best chain ({chain.nodes} tokens, {chain.speedup:.2f} x) the tree gains {gain:.1%}."
    spec_share = (chosen.draft.total_s or 0) / (chosen.round_s or 1)
    if spec_share > 0.5:
        yield f"Drafting takes {spec_share:.0%} of the round: a smaller draft would gain more than a better tree."
