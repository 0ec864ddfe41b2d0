"""Hand-written settings as names and values: flags, a JSON or YAML file, a list of paths, an environment variable.

>>> parse_settings("--speculative-num-steps 3 --speculative-eagle-topk=1")
{'speculative_num_steps': 3, 'speculative_eagle_topk': 1}
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.files import parse_json, read_bytes
from .tree_files import data_of

# What surrounds the speculative settings, in flags and in files.
CONFIG_KEYS = ("speculative_config", "sc")
# What is set around them is named server.NAME.
SERVER = "server."
# Files that a command line names in place of the settings, and lists that the shell reads from one.
NAMED_FILES = ("config", "extra_llm_api_options", "configuration", "growmap")
_CAT = re.compile(r"\$\(cat ([^()\s]+)\)\Z")
_NAME = re.compile(r"--?[A-Za-z][\w-]*(\.[A-Za-z][\w-]*)*\Z")
# Arguments of a Python call, or NAME=VALUE with commas between.
_ARGUMENT = re.compile(r"(?<![\w-])([A-Za-z_]\w*)=('[^']*'|\"[^\"]*\"|\[[^=]*\]|[^\s,;()\[\]='\"]+)")
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


def with_named_files(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings with what the files hold that they name; `folder` is where those are looked for.

    Raises  InputError where a file that is not there would hold all of the settings.
    """
    found: dict[str, Any] = {}
    beside = any("spec" in name for name in settings)
    for name, value in settings.items():
        cat = _CAT.match(value) if isinstance(value, str) else None
        if cat is not None:
            path = _there(folder / cat[1], name)
            found[name] = data_of(read_bytes(path), where=path)
        elif name in NAMED_FILES and isinstance(value, str) and not (beside and not (folder / value).is_file()):
            found |= read_settings(_there(folder / value, name))
        else:
            found[name] = value
    return found


def _there(path: Path, name: str) -> str:
    if not path.is_file():
        hint = "run where it is, or judge the file itself: --check FILE"
        raise InputError(f"--{name.replace('_', '-')} names {str(path)[:80]!r}, which is not there", hint=hint)
    return str(path)


def is_text(given: str) -> bool:
    """Whether it is the settings themselves, not the name of their file."""
    text = given.strip()
    if _ARGUMENT.search(text) and not os.path.exists(text):
        return True
    return text[:1] in ("-", "{", "[", "(") or _VARIABLE.match(text) is not None or (" " in text and "--" in text)


def parse_settings(text: str, *, where: str = "the settings") -> dict[str, Any]:
    """The settings in a text: a command line, flags, JSON, a list of paths."""
    text = text.strip()
    if text[:1] in ("{", "[", "("):
        return _flat(data_of(text.encode(), where=where), where)
    if "--" not in text and not _VARIABLE.match(text) and _ARGUMENT.search(text):
        call = text.partition(";")[0] if "(" in text else text
        return {name: _literal(value) for name, value in _ARGUMENT.findall(call)}
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
            _nested(found, name, _value(value, where) if equals else True)
            name = None if equals else name
        elif name is not None:
            _nested(found, name, _value(word, where))
            name = None
    if not found:
        raise InputError(f"{where}: no flags", hint="such as --speculative-num-steps 3, or a JSON or YAML file")
    return found


def _literal(text: str) -> Any:
    """A value as Python writes it."""
    if text[:1] in ("'", '"'):
        return text[1:-1]
    return None if text == "None" else _value(text, "the settings")


def _nested(found: dict[str, Any], name: str, value: Any) -> None:
    """--outer.inner VALUE, as vLLM takes a key of a JSON argument."""
    outer, _, inner = name.partition(".")
    if inner and isinstance(found.setdefault(outer, {}), dict):
        found[outer][inner] = value
    else:
        found[name] = value


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
