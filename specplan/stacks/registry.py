"""The stacks: every file of this package that holds a `STACK`. Adding a stack is adding a file."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from .. import stacks as package
from ..base.errors import InputError, did_you_mean
from .capability import Capability, Stack


@cache
def stacks() -> dict[str, Stack]:
    """Name -> stack, in alphabetical order."""
    found = [stack for name in _modules() if (stack := _stack_in(name)) is not None]
    return {stack.name: stack for stack in sorted(found, key=lambda stack: stack.name)}


def _modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(package.__path__)]


def _stack_in(module: str) -> Stack | None:
    stack = getattr(importlib.import_module(f".{module}", __package__), "STACK", None)
    return stack if isinstance(stack, Stack) else None


def _named(name: str) -> Stack | None:
    """The stack in the file of that name: most often the one that is asked for, and no other has to be loaded."""
    stack = _stack_in(name) if name in _modules() else None
    return stack if stack is not None and stack.name == name else None


def stack_of(text: str) -> tuple[Stack, Capability, str]:
    """The stack, its record and the version that `NAME` or `NAME@VERSION` means.

    Raises  InputError with the nearest names, or with what is known of its versions.
    """
    name, at, version = text.strip().casefold().partition("@")
    stack = _named(name)
    if stack is None:
        known = {alias: stack for stack in stacks().values() for alias in (stack.name, *stack.aliases)}
        if name not in known:
            hint = did_you_mean(name, known, otherwise="specplan stacks lists them")
            raise InputError(f"stack {name[:40]!r} is not known", hint=hint)
        stack = known[name]
    return stack, stack.at(version if at else None), version if at else stack.read
