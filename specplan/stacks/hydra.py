"""Hydra: Medusa's list of paths, with two rules that nothing checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import buffers, medusa
from ._paths_check import Outcomes, path_problems, shape_of
from .capability import Capability, Export, Problem, Stack, Wanted
from .path_list import paths_export
from .settings_text import around
from .writing import named


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """`hydra_choices`, as `hydra_generate` takes it."""
    return paths_export(
        wanted.tree,
        "hydra_choices",
        command=f"python llm_judge/gen_model_answer_hydra.py --model-path {named(wanted.draft, 'HEADS')} "
        f'--base-model-id {named(wanted.model, "MODEL")} --model-id hydra --hydra-choices "$(cat hydra_choices.json)"',
        buffers=buffers.hydra(wanted.tree),
        notes=medusa.need_of_heads(wanted),
    )


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What `generate_hydra_buffers` and the heads make of a hand-written list."""
    heads = settings.get("hydra_num_heads", around(settings, "heads"))
    given = settings.get("hydra_choices")
    return path_problems("hydra_choices", given, capability, OUTCOMES, heads=heads if type(heads) is int else None)


OUTCOMES: Outcomes = {
    **medusa.OUTCOMES,
    "gap": ("silent", "children are counted, their ranks are not read: other tokens are drafted, with no error"),
    "late": ("silent", "the first children of a parent are expanded, whichever the list expands, with no error"),
}

STACK = Stack(
    name="hydra",
    title="Hydra",
    read="3f39fbd2",
    capabilities=(
        Capability(
            "static",
            ("medusa",),
            ("hydra_choices",),
            "zankner/Hydra 3f39fbd2, hydra/model/utils.py generate_hydra_buffers",
            max_rank=buffers.TOPK - 1,
            expanding_first=True,
            order="none; sorted inside by length, then by value",
            note="levels up to the number of heads; batch 1 only; children with children come before those without",
        ),
    ),
    export=export,
    check=check,
    shape=shape_of("hydra_choices"),
)
