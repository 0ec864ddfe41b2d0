"""What EAGLE-2/3's research code makes of hand-written numbers. Source: eagle/model/cnets.py topK_genrate @cb7e0841."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..search.space import Dynamic
from ._numbers_check import outside, whole
from .capability import Capability, Problem
from .exporting import pool_size

TOKENS, DEPTH, TOPK = "total_token", "depth", "top_k"
DEFAULTS = {TOKENS: 60, DEPTH: 7, TOPK: 10}
SIGNS = ("total_token", "top_k", "tree_choices")


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """Problems of total_token, depth and top_k."""
    given = {**DEFAULTS, **settings}
    problems = outside(given, DEPTH, 0, None, "draft passes after the first") + outside(
        given, TOPK, 1, None, "children"
    )
    for name in ("tree_choices", "choices"):
        if name in settings:
            text = "choices.py has no effect in EAGLE-2 and EAGLE-3: the tree is built anew every round"
            problems.append(Problem("silent", name, text))
    if given[TOKENS] == -1:
        return [*problems, Problem("note", TOKENS, "-1 times 40, 48, 50, 56 and 60 when it starts and takes one")]
    problems += outside(given, TOKENS, 2, None, "the root and one node at least")
    tokens, depth, topk = (whole(given, name) for name in (TOKENS, DEPTH, TOPK))
    if any(problem.kind == "refused" for problem in problems) or tokens is None or depth is None or topk is None:
        return problems
    return problems + _of_the_tree(tokens - 1, depth + 1, topk)


def _of_the_tree(nodes: int, levels: int, topk: int) -> list[Problem]:
    pool = pool_size("square", Dynamic(levels, topk, nodes))
    if nodes > pool:
        text = f"{nodes} nodes and the root out of a pool of top_k + depth top_k^2 = {pool}: 'index k out of range'"
        return [Problem("refused", TOKENS, text)]
    if nodes < levels:
        text = f"{levels - 1} drafts {levels} levels for {nodes} nodes: depth is one less than the levels"
        return [Problem("silent", DEPTH, text)]
    return [Problem("note", DEPTH, f"{levels - 1} drafts {levels} levels: the first pass is not counted")]


def shape(settings: Mapping[str, Any]) -> Dynamic | None:
    """Levels are depth + 1, nodes total_token - 1."""
    given = {**DEFAULTS, **settings}
    tokens, depth, topk = (whole(given, name) for name in (TOKENS, DEPTH, TOPK))
    if tokens is None or depth is None or topk is None or tokens < 1:
        return None
    return Dynamic(depth + 1, topk, tokens - 1)
