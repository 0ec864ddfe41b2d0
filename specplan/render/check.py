"""The answer of `specplan export --check`: what a stack makes of hand-written settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..search.space import Dynamic
from .output import Answer, Lines, answer_of

WORDS = {"refused": "refused", "silent": "taken otherwise", "note": "note"}


def check_answer(
    title: str,
    version: str,
    *,
    accepted: bool,
    silent: bool,
    problems: list[tuple[str, str, str]],
    shape: Dynamic | None,
    inputs: Mapping[str, Any],
) -> Answer:
    """The verdict, then every problem with its setting.

    problems   (refused, silent or note; the setting; what the stack does)
    """
    name = f"{title} {version}"
    refused = sum(kind == "refused" for kind, _, _ in problems)
    taken = sum(kind == "silent" for kind, _, _ in problems)
    if accepted:
        meaning = "" if shape is None else f": {_in_words(shape)} (verify width {shape.nodes + 1})"
        verdict = f"{name} takes the settings as they stand{meaning}."
    elif refused:
        verdict = f"{name} refuses the settings: {_count(refused, 'problem')}."
    else:
        verdict = f"{name} takes the settings and does something else: {_count(taken, 'point')}, with no error."
    longest = max((len(WORDS[kind]) for kind, _, _ in problems), default=0)
    lines = [f"{WORDS[kind].ljust(longest)}  {setting}: {text}" for kind, setting, text in problems]
    return answer_of(
        "check",
        verdict=verdict,
        inputs=inputs,
        keys={
            "stack": title,
            "stack_version": version,
            "accepted": accepted,
            "silent": silent,
            "problems": [{"kind": kind, "setting": setting, "text": text} for kind, setting, text in problems],
            "shape": shape,
        },
        parts=[Lines(lines)] if lines else [],
    )


def _in_words(shape: Dynamic) -> str:
    if not shape.nodes:
        return "plain decoding"
    if shape.nodes == shape.steps:
        return f"a chain of {shape.steps}"
    return f"a tree of {shape.nodes} nodes, {shape.steps} levels"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number > 1 else "")
