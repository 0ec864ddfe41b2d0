"""User files: text, JSON and YAML read strictly.

read_bytes      the content of a file, at most 10 MB; `-` is standard input
read_text       the same as text
parse_json      JSON without NaN, repeated keys or endless nesting
parse_yaml      a YAML mapping without repeated keys, anchors or tags
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from .errors import InputError

LARGEST_FILE = 10_000_000


def read_text(path: str) -> str:
    """The text of a file in UTF-8; `-` is standard input.

    Raises  InputError when it cannot be read, is no text, or is larger than 10 MB.
    """
    return to_text(read_bytes(path), where=path)


def read_bytes(path: str) -> bytes:
    """The content of a file; `-` is standard input.

    Raises  InputError when it cannot be read or is larger than 10 MB.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}", hint="check the path") from None
    except ValueError:
        raise InputError(f"{path[:60]!r} is not a path", hint="check the path") from None
    if len(data) > LARGEST_FILE:
        raise InputError(f"{path}: larger than 10 MB", hint="is it the right file?")
    return data


def to_text(data: bytes, *, where: str) -> str:
    """The content of a file as text in UTF-8.

    Raises  InputError when it is no text.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{where}: not a text file", hint="CSV, JSON or YAML in UTF-8 is read here") from None


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
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {str(error)[:100]}", hint="check the file") from None
    except RecursionError:
        raise InputError(f"{where}: not JSON: nested too deeply", hint="is it the right file?") from None
    except ValueError:
        raise InputError(f"{where}: not JSON: a number has thousands of digits", hint="is it the right file?") from None


def parse_yaml(text: str, *, where: str) -> Any:
    """A YAML mapping with numbers as numbers; repeated keys, anchors and tags are refused.

    >>> parse_yaml("child_prob: [0.6, 0.2]", where="x.yaml")
    {'child_prob': [0.6, 0.2]}
    """
    from .yaml import read_yaml

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
