"""`specplan completion words KIND`: names for a shell to complete, without what the program itself needs."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def devices() -> Iterable[str]:
    """Profiles, the short names that stand for one, and the names by drivers that are one word."""
    from ..hardware.load import aliases, names, short_names

    return [*names(), *short_names(), *aliases()]


def models() -> Iterable[str]:
    """Bundled models and their other names."""
    from ..models.load import aliases, names

    return [*names(), *aliases()]


KINDS = {"devices": devices, "models": models}


def write(kinds: Iterable[str]) -> int:
    """One name a line; nothing for a kind that does not exist."""
    found = {word for kind in kinds if kind in KINDS for word in KINDS[kind]() if not set(word) & set(" \t\"'$`\\")}
    sys.stdout.write("".join(f"{word}\n" for word in sorted(found)))
    sys.stdout.flush()
    return 0
