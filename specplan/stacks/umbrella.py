"""UMbreLLa: Sequoia's growmap as JSON, for the static engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._growmap_check import growmap_problems
from .capability import Capability, Export, Problem, Stack, Wanted
from .growmap import growmap


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The growmap and the configuration that names it."""
    made = growmap(wanted.tree)
    settings = {
        "model": wanted.model or "MODEL",
        "draft_model": wanted.draft or "DRAFT",
        "engine": "static",
        "growmap_path": "growmap.json",
    }
    return Export(
        settings,
        {"growmap.json": json.dumps(made) + "\n", "config.json": json.dumps(settings, indent=2) + "\n"},
        command="python app/chatbot.py --configuration config.json",
        buffers=made,
        notes=("growmap_path is relative to the folder in which the engine starts",),
    )


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What the static engine makes of a configuration, or of a growmap."""
    if "growmap_path" in settings or "engine" in settings:
        return _of_config(settings)
    return growmap_problems(settings, "growmap_path")


def _of_config(settings: Mapping[str, Any]) -> list[Problem]:
    static = settings.get("engine") == "static"
    if static and not settings.get("growmap_path"):
        return [Problem("refused", "growmap_path", "the static engine asserts that there is one")]
    if not static:
        text = f"the {settings.get('engine', 'default')} engine builds its own tree and reads no growmap"
        return [Problem("silent", "growmap_path", text)] if "growmap_path" in settings else []
    if isinstance(settings["growmap_path"], Mapping):
        return growmap_problems(settings["growmap_path"], "growmap_path")
    ignored = [name for name in ("width", "num_beams", "depth") if name in settings]
    return [Problem("silent", name, "the static engine does not read it: the growmap is the shape") for name in ignored]


STACK = Stack(
    name="umbrella",
    title="UMbreLLa",
    read="0.1.0",
    capabilities=(
        Capability(
            "static",
            ("sequoia", "chain"),
            ("growmap_path", "engine", "model", "draft_model"),
            "Infini-AI-Lab/UMbreLLa ff1ac175, umbrella/speculation/static_speculation_engine.py",
            root_counted=True,
            order="node numbers breadth first, children of a parent side by side",
            note="nothing is checked when a growmap is loaded; batch 1 only",
        ),
    ),
    export=export,
    check=check,
    signs=("Successors", "growmap", "roots", "branches"),
)
