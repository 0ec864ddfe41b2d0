"""Lists of paths as text: JSON, or a Python literal of lists and tuples. Nothing is evaluated.

>>> parse_paths("[(0,), (1,), (0, 0)]")
[(0,), (1,), (0, 0)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..base.errors import InputError
from ..base.tree import TokenTree
from .capability import Export

_TOKEN = re.compile(r"\s*(?:([\[(])|([\])])|(,)|([+-]?\d+(?:\.\d+)?)|(#[^\n]*))")
_PAIRS = {"[": "]", "(": ")"}
# A list of paths is two levels deep; digits of a number that any reader takes.
_DEEPEST = 2
_DIGITS = 12


def paths_of(tree: TokenTree) -> list[list[int]]:
    """The paths as plain lists, sorted by length, then by value."""
    return [list(path) for path in tree.paths]


def paths_export(
    tree: TokenTree, setting: str, *, command: str, buffers: Mapping[str, Any], notes: tuple[str, ...] = ()
) -> Export:
    """A list of paths under the name of the stack's setting, and as a JSON file of that name."""
    paths = paths_of(tree)
    return Export(
        {setting: paths}, {f"{setting}.json": json.dumps(paths) + "\n"}, command=command, buffers=buffers, notes=notes
    )


def parse_paths(text: str, *, where: str = "the list of paths") -> list[Any]:
    """The paths as they are written, each a list or a tuple. What is in them is not checked.

    Raises  InputError, with the line, for anything that is no such literal.
    """
    stack: list[tuple[str, list[Any]]] = []
    last, at = "open", 0  # what came last: open, item or comma
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong(text, at, where, "this is not part of a list of paths")
        start, at = match.start(), match.end()
        opens, closes, comma, number, comment = match.groups()
        if comment:
            continue
        if opens or number:
            if last == "item" or (number and not stack) or (opens and len(stack) == _DEEPEST):
                raise _wrong(text, start, where, "paths are lists of whole numbers, with commas between")
            last = "open" if opens else "item"
            if opens:
                stack.append((_PAIRS[opens], []))
            else:
                stack[-1][1].append(_number(number, text, start, where))
        elif comma:
            if last != "item" or not stack:
                raise _wrong(text, start, where, "a comma without anything before it")
            last = "comma"
        else:
            if not stack or stack[-1][0] != closes:
                raise _wrong(text, start, where, "this bracket closes nothing")
            _, found = stack.pop()
            if closes == ")" and len(found) == 1 and last == "item":
                one = f"({found[0]})"
                raise _wrong(text, start, where, f"{one} is a number in Python; a path of one rank is ({found[0]},)")
            if not stack:
                _nothing_after(text, at, where)
                return found
            stack[-1][1].append(tuple(found) if closes == ")" else found)
            last = "item"


def _number(digits: str, text: str, at: int, where: str) -> int:
    if "." in digits:
        raise _wrong(text, at, where, f"{digits[:20]} is not a whole number")
    if len(digits) > _DIGITS:
        raise _wrong(text, at, where, f"a rank of {len(digits)} digits")
    return int(digits)


def _nothing_after(text: str, at: int, where: str) -> None:
    rest = re.sub(r"#[^\n]*", "", text[at:]).strip()
    if rest not in ("", ",", ";"):
        raise InputError(f"{where}: {rest[:30]!r} follows the list", hint="one list of paths and nothing else")


def _wrong(text: str, at: int, where: str, why: str) -> InputError:
    at += len(text[at:]) - len(text[at:].lstrip())
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    seen = text[at : at + 15].split("\n")[0]
    return InputError(
        f"{where}: line {line}, column {column}: {why}" + (f" ({seen!r})" if seen else " (the text ends)"),
        hint="a list of paths such as [[0],[1],[0,0]] or [(0,), (1,), (0, 0)]",
    )
