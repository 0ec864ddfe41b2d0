"""Hand-written settings as names and values: flags, a JSON or YAML file, a list of paths, an environment variable.

>>> parse_settings("--speculative-num-steps 3 --speculative-eagle-topk=1")
{'speculative_num_steps': 3, 'speculative_eagle_topk': 1}
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..files import parse_json, read_bytes
from .tree_files import data_of

# What surrounds the speculative settings, in flags and in files.
CONFIG_KEYS = ("speculative_config", "sc")
# What is set around them is named server.NAME.
SERVER = "server."
_NAME = re.compile(r"--?[A-Za-z][\w-]*\Z")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{3,}=")
_NUMBER = re.compile(r"[+-]?\d+\Z|[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?\Z")


def read_settings(given: str) -> dict[str, Any]:
    """The settings in a file, or in the text itself.

    Raises  InputError when it is neither.
    """
    if not given.strip():
        raise InputError("no settings", hint="flags, JSON, or the name of a file")
    if is_text(given):
        return parse_settings(given)
    data = data_of(read_bytes(given), where=given)
    return _flat(data, given)


def is_text(given: str) -> bool:
    """Whether it is the settings themselves, not the name of their file."""
    text = given.strip()
    return text[:1] in ("-", "{", "[", "(") or _VARIABLE.match(text) is not None or (" " in text and "--" in text)


def parse_settings(text: str, *, where: str = "the settings") -> dict[str, Any]:
    """The settings in a text: a command line, flags, JSON, a list of paths."""
    text = text.strip()
    if text[:1] in ("{", "[", "("):
        return _flat(data_of(text.encode(), where=where), where)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"{where}: {error}", hint="quotes open and close") from None
    return _flat(_flags(words, where), where)


def _flags(words: list[str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    name = None
    for word in words:
        variable = _VARIABLE.match(word)
        if variable and name is None:
            found[word[: variable.end() - 1]] = _value(word[variable.end() :], where)
        elif _NAME.match(word.partition("=")[0]) and not _NUMBER.match(word):
            flag, equals, value = word.partition("=")
            name = flag.lstrip("-").replace("-", "_")
            if name in found:
                raise InputError(f"{where}: {flag} is given twice", hint="keep one of them")
            found[name] = _value(value, where) if equals else True
            name = None if equals else name
        elif name is not None:
            found[name] = _value(word, where)
            name = None
    if not found:
        raise InputError(f"{where}: no flags", hint="such as --speculative-num-steps 3, or a JSON or YAML file")
    return found


def _value(text: str, where: str) -> Any:
    """A flag's value as JSON would have it."""
    if text[:1] in ("{", "["):
        return parse_json(text, where=where)
    if _NUMBER.match(text) and len(text) < 20:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return {"true": True, "false": False}.get(text.casefold(), text)


def _flat(data: Any, where: str) -> dict[str, Any]:
    """The speculative settings at the top, what is around them as server.NAME."""
    if isinstance(data, list):
        return {"paths": data}
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: no settings", hint="flags, a JSON or YAML mapping, or a list of paths")
    named = {_plain(key): value for key, value in data.items()}
    for key in CONFIG_KEYS:
        inner = named.get(key)
        if isinstance(inner, str) and inner[:1] == "{":
            inner = parse_json(inner, where=where)
        if isinstance(inner, Mapping):
            outside = {SERVER + name: value for name, value in named.items() if name != key}
            return {**{_plain(name): value for name, value in inner.items()}, **outside}
    return named


def _plain(key: Any) -> str:
    """A name as a flag or a key has it, with underscores."""
    name = str(key)
    return name if name[:1].isdecimal() else name.lstrip("-").replace("-", "_")


def own(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The speculative settings alone, without what is set around them."""
    return {name: value for name, value in settings.items() if not name.startswith(SERVER)}


def around(settings: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """What is set around the speculative settings, or beside them where all are flags."""
    return settings.get(SERVER + name, settings.get(name, default))
