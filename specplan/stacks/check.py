"""Would a stack take settings as they are meant, refuse them, or take them and do something else?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.files import parse_json, read_text
from ..base.tree import TokenTree
from ..search.space import Dynamic
from .capability import Capability, Problem, Stack
from .registry import stacks
from .settings_text import own

# Of stacks whose names fit settings equally well, the one that is meant.
LIKELIER = ("vllm", "sglang", "medusa", "umbrella", "trtllm", "llamacpp")


@dataclass(frozen=True)
class Judged:
    """What a stack makes of settings.

    accepted   whether it takes them as they are meant
    silent     whether it takes them and does something else in any point
    shape      the shape that the settings stand for, None where it is not known
    """

    stack: str
    version: str
    accepted: bool
    silent: bool
    problems: tuple[Problem, ...]
    shape: Dynamic | None


def judge(
    settings: Mapping[str, Any],
    stack: Stack,
    capability: Capability,
    version: str,
    *,
    meant: TokenTree | Dynamic | None = None,
) -> Judged:
    """What the stack makes of the settings.

    meant   the shape that they should stand for; another one is a silent problem
    """
    named = _named_for(settings, capability)
    problems = list(stack.check(named, capability, version))
    shape = None
    if not any(problem.kind == "refused" for problem in problems):
        shape = stack.shape(named)
        problems += _not_meant(shape, meant, capability)
    refused = any(problem.kind == "refused" for problem in problems)
    silent = any(problem.kind == "silent" for problem in problems)
    order = ("refused", "silent", "note")
    problems.sort(key=lambda problem: order.index(problem.kind))
    return Judged(stack.name, version, not (refused or silent), silent, tuple(problems), shape)


def _named_for(settings: Mapping[str, Any], capability: Capability) -> dict[str, Any]:
    """A bare list of paths under the name that the stack has for it."""
    if "paths" not in settings:
        return dict(settings)
    name = next((name for name in capability.settings if name.endswith("_choices")), None)
    name = name or next((name for name in capability.settings if name == "speculative_token_tree"), None)
    if name is None:
        raise InputError("a list of paths has no form in this stack", hint="specplan stacks lists those that take one")
    paths = settings["paths"]
    if name == "speculative_token_tree":
        paths = str([tuple(path) if isinstance(path, list) else path for path in paths] if _is_list(paths) else paths)
    return {**{key: item for key, item in settings.items() if key != "paths"}, name: paths}


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _not_meant(shape: Dynamic | None, meant: TokenTree | Dynamic | None, capability: Capability) -> list[Problem]:
    """A shape that is not the one it should be."""
    if shape is None or meant is None:
        return []
    wanted = meant if isinstance(meant, Dynamic) else Dynamic(meant.depth, meant.root_children, meant.nodes)
    if (shape.steps, shape.nodes) == (wanted.steps, wanted.nodes):
        return []
    text = f"stands for {in_words(shape)}, not for {in_words(wanted)}"
    if abs(shape.nodes - wanted.nodes) == 1 or abs(shape.steps - wanted.steps) == 1:
        counts = "counts" if capability.root_counted else "does not count"
        text += f": off by one? This stack {counts} the root among its tokens"
    return [Problem("silent", capability.settings[0], text)]


def in_words(shape: Dynamic) -> str:
    """A shape in words.

    >>> in_words(Dynamic(3, 1, 3)), in_words(Dynamic(3, 2, 7))
    ('a chain of 3', 'a tree of 7 nodes in 3 levels')
    """
    if shape.nodes == shape.steps:
        return f"a chain of {shape.steps}"
    return f"a tree of {shape.nodes} nodes in {shape.steps} levels"


def stack_of_settings(settings: Mapping[str, Any]) -> Stack:
    """The stack whose settings these are: the one that knows most of their names.

    Raises  InputError where they say nothing, or fit two stacks equally well.
    """
    names = own(settings).keys()
    known = {
        stack.name: names & {*stack.signs, *(name for record in stack.capabilities for name in record.settings)}
        for stack in stacks().values()
    }
    most = max(map(len, known.values()))
    best = [name for name, found in known.items() if len(found) == most]
    likely = next((name for name in LIKELIER if name in best), None)
    if not most or (len(best) > 1 and likely is None):
        said = (
            f"they fit {' and '.join(best[:3])}" if most else f"no stack is known by {', '.join(list(names)[:4])[:80]}"
        )
        raise InputError(f"whose settings are these? {said}", hint="--to NAME says which stack they are for")
    return stacks()[likely or best[0]]


def load_adaptive(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings with SGLang's file of lengths by batch size in place of its name, where it is there."""
    name = settings.get("speculative_adaptive_config")
    path = folder / name if isinstance(name, str) else None
    if path is None or not path.is_file():
        return dict(settings)
    return {**settings, "speculative_adaptive_config": parse_json(read_text(str(path)), where=str(path))}
