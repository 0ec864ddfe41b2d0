"""What a serving stack reads, as part of plans and trees, and the answers of `specplan export` and `stacks`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..units import plural, show_share
from .output import Lines, Table


def stack_parts(keys: Mapping[str, Any] | None) -> Iterator[Table | Lines]:
    """The command that starts the server, the settings, and the files."""
    if keys is None:
        return
    title = f"{keys['name']} {keys['version']}"
    if keys["settings"]:
        longest = max(map(len, keys["settings"]))
        yield Lines([f"{name.ljust(longest)}  {_shown(value)}" for name, value in keys["settings"].items()], title)
    if keys["command"]:
        before = [f"{name}={value}" for name, value in keys["environment"].items()]
        yield Lines([" ".join([*before, keys["command"]])])
    for name, content in keys["files"].items():
        yield Lines(content.rstrip("\n").split("\n"), title=name)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def stack_words(keys: Mapping[str, Any] | None) -> list[str]:
    """What is lost inside the stack."""
    if keys is None or keys["loss"] is None:
        return []
    if keys["loss"] < 0:
        gain = f"{-keys['loss']:.1%}"
        return [f"What {keys['name']} runs gains {gain} over the best fixed tree: it adapts to the context."]
    size = plural(keys["nodes"], "node")
    name = f"{keys['name']} {keys['version']}"
    if keys["loss"] < 5e-5:
        return [f"{name} runs a shape ({size}) as good as any."]
    return [f"The shape for {name} ({size}) loses {show_share(keys['loss'], 2)} against the best of all shapes."]
