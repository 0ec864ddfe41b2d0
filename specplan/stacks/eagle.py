"""EAGLE-2 and EAGLE-3, the research code: trees built anew every round; answers of its benchmark.

Source: eagle/model/ea_model.py and cnets.py (topK_genrate) @cb7e0841.
"""

from __future__ import annotations

from typing import Any

from ..search.space import Dynamic
from . import _eagle_check
from .capability import Capability, Export, Stack, Wanted
from .reading import Asked, Reading, flat, objects_with
from .writing import draft_missing


def answers(data: Any, asked: Asked) -> Reading | None:
    """EAGLE's answers: new tokens over steps of each turn; `idxs` is the index of the last step, from 0."""
    choices = list(objects_with(data, "idxs", "new_tokens"))
    if not choices:
        return None
    steps = sum(sum(flat(choice["idxs"])) + len(choice["idxs"]) for choice in choices)
    tokens = sum(sum(flat(choice["new_tokens"])) for choice in choices)
    return Reading(
        "eagle-answers",
        f"{len(choices)} answers added up: new tokens over steps, bonus token included; plain decoding has 1",
        rounds=steps,
        accepted=tokens - steps,
    )


# ---- what it can run

_RECORD = Capability(
    "dynamic",
    ("eagle", "eagle3"),
    ("total_token", "depth", "top_k"),
    "eagle/model/ea_model.py, eagle/model/cnets.py @cb7e0841",
    root_counted=True,
    note="depth d grows d + 1 levels; total_token counts the root; choices.py has no effect; one sequence at a time",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Arguments of EaModel.from_pretrained: depth is one less than the levels, total_token counts the root."""
    at = wanted.dynamic or Dynamic(wanted.longest, 1, wanted.longest)
    settings: dict[str, Any] = {"total_token": at.nodes + 1, "depth": at.steps - 1, "top_k": at.topk}
    arguments = ", ".join(f"{name}={value}" for name, value in settings.items())
    paths = f"base_model_path={wanted.model or 'MODEL'!r}, ea_model_path={wanted.draft or 'DRAFT'!r}"
    command = f"EaModel.from_pretrained({paths}, {arguments}, use_eagle3={wanted.method != 'eagle'})"
    return Export(settings, command=command, warnings=draft_missing(wanted))


STACK = Stack(
    name="eagle",
    title="EAGLE-2/3 (research code)",
    read="cb7e0841",
    capabilities=(_RECORD,),
    export=export,
    check=_eagle_check.check,
    shape=_eagle_check.shape,
    signs=_eagle_check.SIGNS,
    aliases=("eagle2", "eagle-2", "eagle3", "eagle-3"),
    jsons={"EAGLE answers": answers},
)
