"""Counts of prompts put together: the acceptance they give, and what another draw of prompts would have given.

Rounds of one text resemble each other, so intervals come from drawing whole prompts anew, not rounds.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..acceptance.kinds import Acceptance, Counts, DepthTable, Interval, Positional
from ..base.errors import InputError
from ..base.tree import TokenTree
from .rank_counts import PromptCounts

Item = TypeVar("Item")
DRAWS = 1000
LEVEL = 0.95


def pooled(prompts: Sequence[PromptCounts], rule: str, temperature: float) -> Acceptance:
    """The acceptance that the counts of all prompts give together.

    rule   greedy at temperature 0, else one of those that were summed

    >>> counts = PromptCounts(6, (((2, 3), (1, 3)), ((1, 2),)))
    >>> pooled([counts, counts], "greedy", 0.0).row(1, 2)
    (0.6666666666666666, 0.3333333333333333)
    """
    if not prompts:
        raise InputError("no prompt has an answer of two tokens", hint="ask for more --tokens, or give longer prompts")
    if temperature == 0:
        table = _added([one.table for one in prompts])
        counts = Counts(rounds=table[0][0][1], by_depth_rank=table)
        rows = tuple(tuple(hit / tried for hit, tried in row) for row in table)
        if all(len(one.table) == 1 and one.table[0][0][1] == one.positions for one in prompts):
            return Positional(rows[0], "topk", counts=counts, rule="greedy", temperature=0.0)
        return DepthTable(rows, "topk", counts=counts, rule="greedy", temperature=0.0)
    positions = sum(one.positions for one in prompts)
    sums = _summed(prompts, rule)
    counts = Counts(by_depth_rank=(tuple((value, positions) for value in sums),))
    vector = tuple(value / positions for value in sums)
    return Positional(vector, SCHEME_OF[rule], counts=counts, rule=rule, temperature=temperature)


# How the children of a rule's tree may be chosen: in order of drawing, or any of the draft's best.
SCHEME_OF = {"without_replacement": "without_replacement", "strict": "ordered", "topk": "topk", "typical": "topk"}


def _summed(prompts: Sequence[PromptCounts], rule: str) -> list[float]:
    return [sum(column) for column in zip(*(one.sums[rule] for one in prompts))]


def _added(tables: Sequence[Any]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Tables of hits and trials added up; a deeper one goes on alone."""
    deepest = max(tables, key=len)
    return tuple(
        tuple(
            (sum(t[d][k][0] for t in tables if d < len(t)), sum(t[d][k][1] for t in tables if d < len(t)))
            for k in range(len(row))
        )
        for d, row in enumerate(deepest)
    )


def interval(
    items: Sequence[Item], statistic: Callable[[Sequence[Item]], float], *, draws: int = DRAWS, seed: int = 0
) -> Interval | None:
    """Where the middle 95 % of the statistic lie when as many items are drawn anew; None for one item.

    >>> interval([1.0, 2.0, 3.0], lambda drawn: sum(drawn) / 3, draws=200).level
    0.95
    """
    if len(items) < 2:
        return None
    draw = random.Random(seed)
    found = sorted(statistic(draw.choices(items, k=len(items))) for _ in range(draws))
    tail = (1 - LEVEL) / 2
    low, high = found[int(tail * draws)], found[min(draws - 1, int((1 - tail) * draws))]
    return Interval(low, high, statistics.stdev(found), LEVEL)


def tau_by_prompt(
    prompts: Sequence[PromptCounts], tree: TokenTree, rule: str, temperature: float, draws: int = DRAWS
) -> Interval | None:
    """The interval of a tree's tokens a round, by drawing prompts anew."""
    return interval(prompts, lambda drawn: pooled(drawn, rule, temperature).tau(tree), draws=draws)


# ---- as they stand in the acceptance document


def measured_keys(prompts: Sequence[PromptCounts]) -> dict[str, Any]:
    """The key `measured` of the document: counts by prompt, the vectors of the other rules, rates by exit layer."""
    positions = sum(one.positions for one in prompts)
    rules = prompts[0].sums
    exits = [sum(column) / positions for column in zip(*(one.exits for one in prompts))]
    return {
        "positions": positions,
        "prompts": [prompt_document(one) for one in prompts],
        "child_prob_by_rule": {rule: [value / positions for value in _summed(prompts, rule)] for rule in rules} or None,
        "exit_layers": {str(layer): rate for layer, rate in enumerate(exits, 1)} or None,
    }


def prompt_document(one: PromptCounts) -> dict[str, Any]:
    """One prompt's counts as plain values."""
    return {
        "positions": one.positions,
        "by_depth_rank": [[list(pair) for pair in row] for row in one.table] or None,
        "sums": {scheme: list(sums) for scheme, sums in one.sums.items()} or None,
    }


def read_prompts_counted(acceptance: Acceptance) -> list[PromptCounts]:
    """The counts by prompt that an acceptance document of `measure acceptance` carries; [] when it carries none."""
    measured = acceptance.about.get("measured")
    listed = measured.get("prompts") if isinstance(measured, Mapping) else None
    try:
        return [_read(entry) for entry in listed or ()]
    except (TypeError, ValueError, KeyError, AttributeError):
        raise InputError("measured.prompts is not as measure acceptance writes it", hint="measure it again") from None


def _read(entry: Mapping[str, Any]) -> PromptCounts:
    table = tuple(tuple((int(a), int(b)) for a, b in row) for row in entry.get("by_depth_rank") or ())
    sums = {str(k): tuple(map(float, v)) for k, v in (entry.get("sums") or {}).items()}
    return PromptCounts(int(entry["positions"]), table, sums)
