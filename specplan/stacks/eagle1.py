"""EAGLE-1: a list of paths for the static tree of the first version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import buffers, medusa
from ._paths_check import Outcomes, path_problems, shape_of
from .capability import Capability, Export, Problem, Stack, Wanted
from .path_list import paths_export
from .writing import named


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """`tree_choices` as `eagenerate` takes it, and the module that the draft head reads it from."""
    given = paths_export(
        wanted.tree,
        "tree_choices",
        command=f"python -m eagle.evaluation.gen_ea_answer_vicuna --ea-model-path {named(wanted.draft, 'DRAFT')} "
        f"--base-model-path {named(wanted.model, 'MODEL')}",
        buffers=buffers.eagle1(wanted.tree),
        notes=(
            "put choices.py in the place of eagle/model/choices.py: the draft head reads its tree from nowhere else",
        ),
    )
    module = f"mc_sim_7b_63 = {given.settings['tree_choices']}\n"
    return replace(given, files={**given.files, "choices.py": module})


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What the two `generate_tree_buffers` make of a hand-written list."""
    return [
        *path_problems("tree_choices", settings.get("tree_choices"), capability, OUTCOMES),
        Problem(
            "note",
            "tree_choices",
            "as an argument it changes the verified tree alone: the draft head takes mc_sim_7b_63 of choices.py",
        ),
    ]


OUTCOMES: Outcomes = {
    **{flaw: medusa.OUTCOMES[flaw] for flaw in ("type", "mixed", "empty", "empty_path", "duplicate", "one_based")},
    "parent": ("refused", "ValueError when it is verified, KeyError when it is drafted; a skipped depth IndexError"),
    "rank": ("silent", "every parent has ten candidates: the rank reads the block of the next parent"),
    "size": ("refused", "IndexError in the draft: a tree of one level cannot be used"),
}

STACK = Stack(
    name="eagle1",
    title="EAGLE-1",
    read="1.2.1",
    capabilities=(
        Capability(
            "static",
            ("eagle",),
            ("tree_choices",),
            "SafeAILab/EAGLE branch v1 4a9cf3a1 (eagle-llm 1.2.1), eagle/model/utils.py, utils_c.py",
            min_depth=2,
            max_rank=buffers.TOPK - 1,
            contiguous=False,
            order="none; sorted inside by length, then by value",
            note="at least two levels; the published tree named mc_sim_7b_63 has 25 nodes; batch 1 only",
        ),
    ),
    export=export,
    check=check,
    shape=shape_of("tree_choices"),
    aliases=("eagle-1",),
)
