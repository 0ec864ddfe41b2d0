"""The answers of `specplan tree`, and the shapes that plans show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..acceptance.kinds import Interval, tau_interval
from ..base.tree import TokenTree
from ..base.units import plural, show_time
from ..planning.plan import BreakEven, break_even_table
from ..search.best import Best, best_chain, best_tree, comparisons
from ..search.costs import RoundCosts
from ..search.shape import Shape, shape_of
from ..search.space import Space
from .export import stack_parts, stack_words
from .output import Answer, Lines, Table, answer_of

DRAWN_NODES = 64
NAMES = {
    "plain": "plain decoding",
    "chain_same_budget": "best chain of the budget",
    "chain_same_depth": "chain of the same depth",
    "full_tree": "full tree that fits",
}


def tree_answer(
    place: Any,
    acceptance: Any,
    limits: Space | None,
    costs: RoundCosts | None,
    given: TokenTree | None,
    *,
    mask: bool,
    extra: Any,
    best: Best | None = None,
    stack: Mapping[str, Any] | None = None,
) -> Answer:
    """The best tree within `limits`, or what a given one yields.

    best    the best shape where it was searched for already: inside what a stack runs
    stack   what the stack reads for it
    """
    if given is not None:
        limits = Space(max(given.nodes, 1), max(given.depth, 1))
        shape = shape_of(given, acceptance, costs)
        best, tree = None, given
    else:
        assert limits is not None
        best = best or best_tree(acceptance, limits, costs)
        shape, tree = best.shape, best.tree
    others = comparisons(acceptance, limits, costs)
    keys = EMPTY | shape_keys(shape)
    keys |= {
        "optimality": best.optimality if best else None,
        "gap": best.gap if best else None,
        "interval": tau_interval(acceptance, tree),
        "candidates": best.candidates if best else [],
        "comparisons": {name: None if other is None else comparison_keys(other) for name, other in others.items()},
    }
    keys["stack"] = stack
    if mask or tree.nodes <= DRAWN_NODES:
        keys["mask"] = tree.mask()
    parts: list[Table | Lines] = [Lines(list(drawing(tree, acceptance)), title=_heading(shape))]
    parts.append(
        comparison_table({("best tree" if best else "given tree"): shape, **{NAMES[k]: v for k, v in others.items()}})
    )
    if best is not None and costs is not None:
        parts.append(_candidates_table(best, costs))
    if extra.families or extra.explain:
        from .extra import extra_keys, extra_tables

        found = extra_keys(extra, acceptance, limits, costs, shape, tree)
        keys |= found
        parts += extra_tables(found)
    parts += stack_parts(stack)
    if mask:
        parts.append(Lines(list(mask_lines(tree)), title="attention mask (first column: the prefix), position offset"))
    assumptions = [*place.assumptions, *cost_assumptions(costs), *acceptance_assumptions(acceptance)]
    return answer_of(
        "tree",
        verdict=_verdict(shape, best, others, costs),
        inputs=place.inputs,
        keys=keys,
        parts=parts,
        why=[*_why(shape, best, costs, keys["interval"]), *stack_words(stack)],
        assumptions=assumptions,
        notes=place.notes,
        warnings=place.warnings,
    )


def shape_keys(shape: Shape) -> dict[str, Any]:
    """A shape as the JSON document has it."""
    return {item.name: getattr(shape, item.name) for item in fields(shape)}


def comparison_keys(shape: Shape) -> dict[str, Any]:
    names = (
        "nodes",
        "width",
        "depth",
        "widths",
        "accepted",
        "tau",
        "round_s",
        "tokens_per_s",
        "tokens_per_s_per_sequence",
        "speedup",
    )
    return {name: getattr(shape, name) for name in names}


# The keys of the document that are null or empty where a question has no single tree as its answer.
EMPTY: dict[str, Any] = {item.name: None for item in fields(Shape)} | {
    "optimality": None,
    "gap": None,
    "candidates": [],
    "comparisons": dict.fromkeys(NAMES),
    "rows": [],
    "break_even_table": [],
    "families": None,
    "limits": None,
    "sensitivity": None,
    "interval": None,
    "stack": None,
}
KINDS = {
    "independent": "each candidate is accepted with the same probability p, whatever its siblings and the path above",
    "positional": "one vector of child probabilities holds at every depth and on every path",
    "depth_rank": "child probabilities depend on depth and rank alone, not on the path above",
    "chain": "acceptance depends on the position in the chain alone",
    "paths": "measured path frequencies",
    "by_k": "every chain length has the tokens per round that were measured with it; other lengths are not valued",
    "mixture": "shares of rounds, each with its own acceptance",
}


def exactness_words(acceptance: Any | None) -> list[str]:
    """What goes with the gain where the rule does not keep the target's distribution."""
    if acceptance is None or acceptance.rule != "typical":
        return []
    return ["Not lossless: typical acceptance lets through tokens that the target alone would have drawn less often."]


def acceptance_assumptions(acceptance: Any) -> list[tuple[str, str]]:
    """What the acceptance numbers take for granted."""
    said = [KINDS[acceptance.kind], *acceptance.notes, *(acceptance.about.get("warnings") or ())]
    measured = getattr(acceptance, "measured_depth", None)
    if measured is not None and acceptance.max_depth is None:
        said.append(f"positions past {measured} were not measured: the same rate is taken to hold")
    if acceptance.rule is not None:
        said.append(f"measured under the rule {acceptance.rule}; they hold for no other")
    if acceptance.rule == "typical":
        said.append(
            "typical acceptance is not lossless, and siblings may be accepted together: sums over them overcount"
        )
    if acceptance.temperature is not None:
        said.append(f"measured at temperature {acceptance.temperature:g}")
    return [(text, "acceptance") for text in said]


def cost_assumptions(costs: RoundCosts | None) -> list[tuple[str, str]]:
    if costs is None:
        return []
    conventions = {
        "all_but_leaf": "one draft pass grows each level, the last level is not fed back: a chain of 4 pays 4 passes",
        "all": "a draft pass for the root and every level, the last included (Sequoia, OPT-Tree)",
        "expanded": "a draft pass a level, over the nodes that get children",
    }
    if costs.draft.passes is not None:
        return [_own_passes(costs)]
    text = "one draft pass for the whole block" if costs.draft_shape == "block" else conventions[costs.draft_passes]
    return [(text, "--draft-shape block" if costs.draft_shape == "block" else f"--draft-passes {costs.draft_passes}")]


def _own_passes(costs: RoundCosts) -> tuple[str, str]:
    """How a method that has its own count of draft passes is charged."""
    passes = costs.draft.passes
    assert passes is not None
    if not passes(2):
        return "no draft passes: the heads run in the verification pass", costs.draft.name
    once = "one look-up a round, whatever it proposes"
    return (once if passes(2) == 1 else "draft passes are counted as far as drafting goes on"), costs.draft.name


def _heading(shape: Shape) -> str:
    widths = ", ".join(map(str, shape.widths)) or "none"
    return f"{plural(shape.nodes, 'node')} (verify width {shape.width}), depth {shape.depth}, level widths {widths}"


def _verdict(shape: Shape, best: Best | None, others: Mapping[str, Shape | None], costs: RoundCosts | None) -> str:
    if best is None:
        what = "chain" if shape.depth == shape.nodes else "tree"
        size = f"{plural(shape.nodes, 'node')} (verify width {shape.width})"
        text = f"This {what} of {size} yields {shape.tau:.3f} tokens a round"
    elif shape.nodes == 0:
        return "Plain decoding is fastest: no tree within the limits pays."
    else:
        size = f"{plural(shape.nodes, 'node')} (verify width {shape.width}), depth {shape.depth}"
        text = f"Best tree: {size}, {shape.tau:.3f} tokens a round"
    if costs is not None and shape.speedup is not None:
        rate = "" if shape.tokens_per_s is None else f", {shape.tokens_per_s:.1f} tokens/s"
        return f"{text}{rate}, {shape.speedup:.3f} x plain decoding."
    if shape.nodes and shape.accepted < 1e-9:
        return "No tree gains anything: under this acceptance no drafted token is ever accepted."
    chain = others["chain_same_budget"]
    itself = chain is None or chain.parents == shape.parents
    beside = "" if chain is None or itself else f"; a chain of {chain.nodes} yields {chain.tau:.3f}"
    full = others["full_tree"]
    return text + beside + (f", the full tree of {full.nodes} {full.tau:.3f}." if full is not None else ".")


def _why(shape: Shape, best: Best | None, costs: RoundCosts | None, interval: Interval | None) -> Iterator[str]:
    levels = ", ".join(f"{s:.4g}" for s in shape.level_survival)
    if levels:
        yield (
            f"A round gets at least this deep with probability {levels}; "
            f"their sum is the {shape.accepted:.3f} accepted tokens, the bonus token makes {shape.tau:.3f}."
        )
    if interval is not None:
        yield (
            f"The counts leave {interval.low:.3f} to {interval.high:.3f} tokens a round "
            f"({interval.level:.0%}; rounds of one text resemble each other, so it is wider in truth)."
        )
    if costs is not None and shape.round_s is not None and not costs.relative:
        draft, verify, overhead = (show_time(t or 0) for t in (shape.draft.total_s, shape.verify_s, shape.overhead_s))
        yield (
            f"A round takes {show_time(shape.round_s)}: {shape.draft.passes} draft passes {draft}, "
            f"verification {verify}, overhead {overhead}; a plain pass {show_time(costs.plain_s)}."
        )
    if best is not None:
        yield _next_node(best, costs)
        if costs is not None and best.optimality == "proved":
            yield "The shape is proved optimal for these inputs."
        if best.optimality != "proved":
            yield f"Not proved: a better shape could gain at most {best.gap:.2%}."


def _next_node(best: Best, costs: RoundCosts | None) -> str:
    """Where the next node stops paying."""
    rows, nodes = best.candidates, best.shape.nodes
    here, after = rows[nodes], rows[nodes + 1] if nodes + 1 < len(rows) else None
    if costs is None:
        before = rows[nodes - 1] if nodes else None
        if here is None or before is None or here.tau is None or before.tau is None:
            return "Proved optimal for this budget."
        return f"Proved optimal for this budget; its last node adds {here.tau - before.tau:.4f} tokens a round."
    if after is None or after.speedup is None or here is None or here.speedup is None:
        return "The search ends at its node limit: a larger --budget may pay."
    more = plural(after.nodes, "node")
    return f"The next node does not pay: {more} reach {after.speedup:.3f} x against {here.speedup:.3f} x."


# ---- tables


def comparison_table(shapes: Mapping[str, Shape | None]) -> Table:
    """Shapes side by side; columns of time only where there are times."""
    rows = [(name, shape) for name, shape in shapes.items() if shape is not None]
    timed = any(shape.round_s is not None for _, shape in rows)
    columns = ["", "nodes", "width", "depth", "level widths", "accepted", "tokens/round"]
    if timed:
        columns += ["round", "tokens/s", "x plain"]
    return Table(columns, [_comparison_row(name, shape, timed) for name, shape in rows])


def _comparison_row(name: str, shape: Shape, timed: bool) -> list[str]:
    widths = (
        " ".join(map(str, shape.widths)) if len(shape.widths) <= 12 else " ".join(map(str, shape.widths[:10])) + " ..."
    )
    cells = [
        name,
        str(shape.nodes),
        str(shape.width),
        str(shape.depth),
        widths or "-",
        f"{shape.accepted:.3f}",
        f"{shape.tau:.3f}",
    ]
    if timed:
        rate = "-" if shape.tokens_per_s is None else f"{shape.tokens_per_s:.1f}"
        took = "-" if shape.round_s is None or shape.tokens_per_s is None else show_time(shape.round_s)
        cells += [took, rate, "-" if shape.speedup is None else f"{shape.speedup:.3f}"]
    return cells


def _candidates_table(best: Best, costs: RoundCosts) -> Table:
    """Some rows of the curve over node counts: powers of two and the neighbourhood of the optimum."""
    last = len(best.candidates) - 1
    around = range(best.shape.nodes - 1, best.shape.nodes + 2)
    shown = sorted({0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, last, *around})
    rows = [best.candidates[n] for n in shown if 0 <= n <= last and best.candidates[n].tau is not None]
    cells = [
        (
            f"{row.nodes}{' *' if row.nodes == best.shape.nodes else ''}",
            str(row.depth),
            f"{row.tau:.3f}",
            "-" if row.round_s is None or costs.relative else show_time(row.round_s),
            "-" if row.tokens_per_s is None else f"{row.tokens_per_s:.1f}",
            "-" if row.speedup is None else f"{row.speedup:.3f}",
        )
        for row in rows
    ]
    return Table(
        ("nodes", "depth", "tokens/round", "round", "tokens/s", "x plain"), cells, title="by number of nodes (* best)"
    )


# ---- drawings


def drawing(tree: TokenTree, acceptance: Any, *, most: int = DRAWN_NODES) -> Iterator[str]:
    """The tree, one node a line with the probability that it is accepted; large ones level by level."""
    if tree.nodes > most:
        yield from _levels(tree, acceptance)
        return
    reach = acceptance.reach(tree)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)
    yield "root (last emitted token)"
    stack = [(node, "", node == children[-1][-1]) for node in reversed(children.get(-1, []))]
    while stack:
        node, indent, is_last = stack.pop()
        yield f"{indent}{'└─' if is_last else '├─'} {tree.ranks[node]}  {reach[node]:.4f}"
        below = children.get(node, [])
        stack += [(child, indent + ("   " if is_last else "│  "), child == below[-1]) for child in reversed(below)]


def _levels(tree: TokenTree, acceptance: Any) -> Iterator[str]:
    scale = max(tree.widths) / 40
    for level, (width, survival) in enumerate(zip(tree.widths, acceptance.level_survival(tree)), start=1):
        bar = "█" * max(1, round(width / scale)) if scale > 1 else "█" * width
        yield f"level {level:>2}  {width:>5} nodes  reached {survival:.4f}  {bar}"


def mask_lines(tree: TokenTree) -> Iterator[str]:
    """Each node's row of the mask with the prefix column of ones, then its position offset."""
    for row, offset in zip(tree.mask_with_root()[1:], tree.position_offsets):
        yield f"{' '.join(str(int(cell)) for cell in row)}   {offset}"


# ---- a range of p


def sweep_answer(
    place: Any,
    ps: Sequence[float],
    limits: Space | None,
    costs: RoundCosts | None,
    given: TokenTree | None,
    *,
    decay: float = 1.0,
    known: bool = True,
) -> Answer:
    """Tree against chain over p; `known` is False when no acceptance was given at all."""
    from ..acceptance.kinds import Independent

    rows = [_sweep_row(Independent(p, decay), limits, costs, given) for p in ps]
    cells = [
        (
            f"{p:g}",
            f"{tree.nodes}",
            " ".join(map(str, tree.widths)) if len(tree.widths) <= 12 else f"{tree.depth} levels",
            f"{tree.tau:.3f}",
            f"{chain.nodes}",
            f"{chain.tau:.3f}",
            f"{_ratio(tree, chain):.3f}",
            *(() if costs is None else (f"{tree.speedup or 0:.3f}", f"{chain.speedup or 0:.3f}")),
        )
        for p, (tree, chain) in zip(ps, rows)
    ]
    timed = () if costs is None else ("tree x plain", "chain x plain")
    columns = ("p", "nodes", "level widths", "tree tokens/round", "chain", "chain tokens/round", "tree/chain", *timed)
    top = max(range(len(ps)), key=lambda i: _ratio(*rows[i]))
    keys = EMPTY | {
        "rows": [
            {"p": p, "tree": comparison_keys(tree), "chain": comparison_keys(chain), "ratio": _ratio(tree, chain)}
            for p, (tree, chain) in zip(ps, rows)
        ]
    }
    assumptions = [*place.assumptions, *cost_assumptions(costs), *acceptance_assumptions(Independent(ps[0], decay))]
    most = f"A tree beats the best chain most at p {ps[top]:g}: {_ratio(*rows[top]):.3f} x."
    return answer_of(
        "tree",
        verdict=most if known else f"No acceptance was given, and none is assumed; over p: {most[0].lower()}{most[1:]}",
        inputs=place.inputs,
        keys=keys,
        parts=[Table(columns, cells)],
        assumptions=assumptions,
        notes=place.notes,
        warnings=place.warnings,
    )


def _sweep_row(
    acceptance: Any, limits: Space | None, costs: RoundCosts | None, given: TokenTree | None
) -> tuple[Shape, Shape]:
    if given is not None:
        limits = Space(max(given.nodes, 1), max(given.depth, 1))
        return shape_of(given, acceptance, costs), best_chain(acceptance, limits, costs)
    assert limits is not None
    return best_tree(acceptance, limits, costs).shape, best_chain(acceptance, limits, costs)


def _ratio(tree: Shape, chain: Shape) -> float:
    """Tree over chain: per second where there are times, else per round."""
    if tree.speedup is not None and chain.speedup:
        return tree.speedup / chain.speedup
    return tree.tau / chain.tau


def break_even_answer(place: Any, limits: Space, costs: RoundCosts) -> Answer:
    """What acceptance chains need, for when none was given."""
    rows = break_even_table(limits, costs)
    assumptions = [*place.assumptions, *cost_assumptions(costs)]
    keys = EMPTY | {"break_even_table": rows}
    return answer_of(
        "tree",
        verdict="No acceptance was given, and none is assumed: this is what drafting needs to pay.",
        inputs=place.inputs,
        keys=keys,
        parts=[break_even_rows(rows, costs)],
        assumptions=assumptions,
        notes=place.notes,
        warnings=place.warnings,
    )


def break_even_rows(rows: Sequence[BreakEven], costs: RoundCosts) -> Table:
    """The break-even of chains of several lengths."""
    cells = [
        (
            f"chain of {row.nodes}",
            "-" if costs.relative else show_time(row.round_s),
            f"{row.tau:.3f}",
            "never" if row.p is None else f"{row.p:.3f}",
        )
        for row in rows
    ]
    return Table(("break-even", "round", "tokens/round needed", "p needed"), cells)
