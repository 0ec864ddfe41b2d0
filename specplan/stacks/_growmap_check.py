"""What is wrong with a hand-written growmap: neither Sequoia nor UMbreLLa looks at it before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import InputError
from .capability import Problem
from .growmap import KEYS, tree_from_growmap


def growmap_problems(settings: Mapping[str, Any], setting: str) -> list[Problem]:
    """Flaws of the growmap that the settings hold, or that they are."""
    given = settings.get(setting, settings)
    if not isinstance(given, Mapping):
        return [Problem("refused", setting, f"{str(given)[:40]!r} is no growmap: give the file itself")]
    missing = [key for key in KEYS if key not in given]
    if missing:
        return [Problem("refused", setting, f"no {', '.join(missing)}: KeyError when the growmap is loaded")]
    try:
        tree_from_growmap(given)
    except InputError as error:
        text = f"{error.message}: nothing checks it, the text or a tensor's shape comes out wrong"
        return [Problem("silent", setting, text)]
    return []
