"""User files: text, JSON and YAML read strictly, and what tree files hold.

read_text       the text of a file, at most 10 MB; `-` is standard input
parse_json      JSON without NaN, repeated keys or endless nesting
parse_yaml      a YAML mapping without repeated keys, anchors or tags
read_tree       a bare list of paths, or a JSON document with `paths` or `parents`
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from .errors import InputError

if TYPE_CHECKING:
    from .tree import TokenTree

LARGEST_FILE = 10_000_000


def read_text(path: str) -> str:
    """The text of a file in UTF-8; `-` is standard input.

    Raises  InputError when it cannot be read, is no text, or is larger than 10 MB.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_FILE + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}", hint="check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file", hint="CSV, JSON or YAML in UTF-8 is read here") from None
    except ValueError:
        raise InputError(f"{path[:60]!r} is not a path", hint="check the path") from None
    if len(data) > LARGEST_FILE:
        raise InputError(f"{path}: larger than 10 MB", hint="is it the right file?")
    return text


def parse_json(text: str, *, where: str) -> Any:
    """JSON without NaN, repeated keys or endless nesting.

    >>> parse_json('{"a": [1, 2]}', where="x.json")
    {'a': [1, 2]}
    """
    import json

    def refuse(name: str) -> None:
        raise InputError(f"{where}: {name} is not a number", hint="JSON has no NaN and no infinity")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{where}: key {key[:40]!r} appears twice", hint="keep one of them")
        return found

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: {str(error)[:100]}", hint="check the file") from None


def parse_yaml(text: str, *, where: str) -> Any:
    """A YAML mapping with numbers as numbers; repeated keys, anchors and tags are refused.

    >>> parse_yaml("child_prob: [0.6, 0.2]", where="x.yaml")
    {'child_prob': [0.6, 0.2]}
    """
    from .yaml_text import read_yaml

    return _numbers(read_yaml(text, where=where).plain())


def _numbers(value: Any) -> Any:
    """YAML's texts as numbers and truth values where they read as such."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value) if str(value).lstrip("+-").isdigit() else float(value)
    except (TypeError, ValueError):
        return value


def read_tree(path: str) -> TokenTree:
    """The tree in a JSON file: a bare list of paths, a document with `paths` or `parents`, or a plan's recommended one.

    Raises  InputError that names the file and the path that is wrong.
    """
    from .tree import TokenTree

    data = parse_json(read_text(path), where=path)
    if isinstance(data, dict) and isinstance(data.get("recommended"), dict):
        data = data["recommended"]
    try:
        if isinstance(data, dict) and data.get("paths") is None and isinstance(data.get("parents"), list):
            return TokenTree.from_parents(data["parents"], data.get("ranks"))
        paths = data.get("paths") if isinstance(data, dict) else data
        if not isinstance(paths, list):
            raise InputError("no paths", hint='a list of paths such as [[0],[1],[0,0]], or {"paths": [...]}')
        return TokenTree.from_paths(paths)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from None
