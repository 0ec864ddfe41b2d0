"""The stacks: every file of this package that holds a `STACK`. Adding a stack is adding a file."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from .. import stacks as package
from ..errors import InputError, did_you_mean
from .capability import Capability, Stack


@cache
def stacks() -> dict[str, Stack]:
    """Name -> stack, in alphabetical order."""
    found = []
    for module in pkgutil.iter_modules(package.__path__):
        stack = getattr(importlib.import_module(f".{module.name}", __package__), "STACK", None)
        found += [stack] if isinstance(stack, Stack) else []
    return {stack.name: stack for stack in sorted(found, key=lambda stack: stack.name)}


def stack_of(text: str) -> tuple[Stack, Capability, str]:
    """The stack, its record and the version that `NAME` or `NAME@VERSION` means.

    Raises  InputError with the nearest names, or with what is known of its versions.
    """
    name, at, version = text.strip().casefold().partition("@")
    known = {alias: stack for stack in stacks().values() for alias in (stack.name, *stack.aliases)}
    if name not in known:
        hint = did_you_mean(name, known, otherwise="specplan stacks lists them")
        raise InputError(f"stack {name[:40]!r} is not known", hint=hint)
    stack = known[name]
    return stack, stack.at(version if at else None), version if at else stack.read
