"""Strict reading of YAML (and JSON) written by people.

PyYAML's own loading reads `3.35e12` as a string, `yes` as a boolean and `012` as 10, and keeps the
last of two equal keys. Here every scalar stays the text that stands in the file, with its line and
column, and the record it is read into decides what it means.

    text  --read_yaml-->  Node  --load_as-->  a record, validated by pydantic

Refused: equal keys, aliases, tags, several documents, more than 1 MiB, nesting deeper than 32.

    >>> read_yaml("memory: {bandwidth: 3.35e12}", where="a.yaml").at("memory", "bandwidth").scalar
    '3.35e12'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from .errors import InputError, did_you_mean
from .records import Record, RecordT, field_types, needed_fields, quantity_in, record_in
from .units import EXAMPLES

if TYPE_CHECKING:
    from pydantic import ValidationError

MAX_BYTES = 1 << 20
"""Largest file that is read: the largest profile here has 6 kB, a curve of 4096 widths 100 kB."""

MAX_DEPTH = 32
"""Deepest nesting that is read: a profile has 5 levels."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document and where it stands (line and column from 1).

    kind         "scalar", "list" or "map"
    scalar       the text of a scalar, None for an empty one, `~` or `null`
    key_line, key_column   where the key stands that leads here; the node itself in a list
    """

    kind: str
    line: int
    column: int
    scalar: str | None = None
    items: tuple[Node, ...] = ()
    fields: dict[str, Node] = field(default_factory=dict)
    key_line: int = 0
    key_column: int = 0

    def at(self, *path: str | int) -> Node:
        """The node at `path`; KeyError or IndexError where there is none."""
        node = self
        for part in path:
            node = node.items[part] if isinstance(part, int) else node.fields[part]
        return node

    def plain(self) -> Any:
        """Dictionaries, lists and texts; numbers stay text."""
        if self.kind == "map":
            return {key: child.plain() for key, child in self.fields.items()}
        return [child.plain() for child in self.items] if self.kind == "list" else self.scalar


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong, and the line and column of it; `missing` when a key is absent."""

    line: int
    column: int
    what: str
    hint: str = ""
    missing: bool = False

    def error(self, where: str) -> InputError:
        return InputError(f"{where}:{self.line}:{self.column}: {self.what}", hint=self.hint)


class _RefusedError(Exception):
    """Carries a flaw out of the recursion."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.what)
        self.flaw = flaw


def read_file(path: str | Path) -> str:
    """The text of a file of at most `MAX_BYTES`, UTF-8.

    Raises  InputError when it is missing, a directory, too large or not text.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}", hint="check the path") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: larger than 1 MiB", hint="a file of this kind has a few kB: check the path")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text in UTF-8 (byte {error.start})", hint="save it as UTF-8") from None


def read_yaml(text: str, *, where: str) -> Node:
    """The document as a tree of nodes; the top level is a map.

    where   name of the file, for messages
    Raises  InputError "WHERE:LINE:COLUMN: what".

    >>> read_yaml("a: 1\\na: 2", where="x.yaml")
    Traceback (most recent call last):
    specplan.base.errors.InputError: x.yaml:2:1: key 'a' stands twice
      hint: keep one of them; the first is in line 1
    """
    try:
        return _compose(text)
    except _RefusedError as refused:
        raise refused.flaw.error(where) from None


def load_as(model: type[RecordT], text: str, *, where: str) -> RecordT:
    """The document as `model`.

    Raises  InputError "WHERE:LINE:COLUMN: what" for the first flaw in the order of the file; a missing key
            comes last, since a misspelled one explains it better.
    """
    value, _, flaws = inspect_as(model, text)
    if value is None:
        raise min(flaws, key=lambda flaw: flaw.missing).error(where)
    return value


def inspect_as(model: type[RecordT], text: str) -> tuple[RecordT | None, Node | None, list[Flaw]]:
    """The model, the tree and every flaw, in the order of the file; model None when there are flaws."""
    from pydantic import ValidationError

    try:
        tree = _compose(text)
    except _RefusedError as refused:
        return None, None, [refused.flaw]
    try:
        return model.model_validate(tree.plain()), tree, []
    except ValidationError as error:
        return None, tree, flaws_of(error, tree, model)


def flaws_of(error: ValidationError, tree: Node, model: type[Record]) -> list[Flaw]:
    """Each pydantic error at the node that caused it, in the order of the file."""
    flaws = [_flaw(dict(one), tree, model) for one in error.errors(include_url=False)]
    return sorted(flaws, key=lambda flaw: (flaw.line, flaw.column))


# -- text to nodes ----------------------------------------------------------------------------------------------------

_NULLS = {"", "~", "null", "Null", "NULL"}
_TYPES = ("null", "bool", "int", "float", "str", "timestamp", "merge", "value", "seq", "map")
_TAGS = {f"tag:yaml.org,2002:{name}" for name in _TYPES}


def _compose(text: str) -> Node:
    import yaml

    _check_text(text)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise _RefusedError(_syntax_flaw(error)) from None
    except RecursionError:
        raise _RefusedError(Flaw(1, 1, f"nested deeper than {MAX_DEPTH} levels", "flatten it")) from None
    if root is None:
        raise _RefusedError(Flaw(1, 1, "the document is empty", "write `key: value` lines"))
    tree = _node(root, seen=set(), depth=0)
    if tree.kind != "map":
        raise _RefusedError(Flaw(tree.line, tree.column, f"a {tree.kind} at the top level", "write `key: value` lines"))
    return tree


def _check_text(text: str) -> None:
    """Refuse what the parser cannot take: too many bytes, halves of characters. It bounds the nesting itself."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise _RefusedError(Flaw(1, 1, "not text: a lone surrogate character", "save the file as UTF-8")) from None
    if size > MAX_BYTES:
        raise _RefusedError(Flaw(1, 1, "larger than 1 MiB", "a file of this kind has a few kB"))


def _syntax_flaw(error: Exception) -> Flaw:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
    if "another document" in str(error):
        problem = "a second document"
    return Flaw(line, column, f"not valid YAML: {problem}", "write `key: value` lines; quote texts with : or # in them")


def _node(node: Any, *, seen: set[int], depth: int, key: Any = None) -> Node:
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    key_mark = (key or node).start_mark
    place = {"line": line, "column": column, "key_line": key_mark.line + 1, "key_column": key_mark.column + 1}
    if id(node) in seen:
        raise _RefusedError(Flaw(line, column, "an alias (*name) is not read here", "write the value out"))
    if node.tag not in _TAGS:
        raise _RefusedError(Flaw(line, column, f"tag {node.tag[:60]!r} is not read here", "leave the tag out"))
    if depth > MAX_DEPTH:
        raise _RefusedError(Flaw(line, column, f"nested deeper than {MAX_DEPTH} levels", "flatten it"))
    seen.add(id(node))
    if node.id == "scalar":
        empty = not node.style and node.value in _NULLS
        return Node("scalar", scalar=None if empty else node.value, **place)
    if node.id == "sequence":
        items = tuple(_node(child, seen=seen, depth=depth + 1) for child in node.value)
        return Node("list", items=items, **place)
    return Node("map", fields=_fields(node, seen=seen, depth=depth), **place)


def _fields(node: Any, *, seen: set[int], depth: int) -> dict[str, Node]:
    fields: dict[str, Node] = {}
    for key, value in node.value:
        line, column = key.start_mark.line + 1, key.start_mark.column + 1
        if key.id != "scalar" or key.tag not in _TAGS:
            raise _RefusedError(Flaw(line, column, "a key that is not a plain text", "write `key: value` lines"))
        if key.value in fields:
            first = fields[key.value].key_line
            what = f"key {key.value[:60]!r} stands twice"
            raise _RefusedError(Flaw(line, column, what, f"keep one of them; the first is in line {first}"))
        fields[key.value] = _node(value, seen=seen, depth=depth + 1, key=key)
    return fields


# -- pydantic errors to places ----------------------------------------------------------------------------------------


def _flaw(error: dict[str, Any], tree: Node, model: type[Record]) -> Flaw:
    node, path, missing = _locate(tree, error["loc"])
    dotted = _dotted(path)
    kind = error["type"]
    if kind == "unexpected_keyword_argument":
        return Flaw(node.key_line, node.key_column, f"unknown key {dotted!r}", _unknown_hint(model, path))
    if kind == "missing":
        name = _dotted([*path, *missing])
        return Flaw(node.line, node.column, f"{name!r} is missing", f"add the key {str(missing[-1])!r}", True)
    what, hint = wording(error, _found(node), declared_at(model, path))
    return Flaw(node.line, node.column, f"{dotted}: {what}" if dotted else what, hint)


def _locate(tree: Node, loc: Sequence[str | int]) -> tuple[Node, list[str | int], list[str | int]]:
    """The deepest node along `loc`, the path to it, and the rest of `loc` that has no node."""
    node, path, rest = tree, list[str | int](), list[str | int]()
    for part in loc:
        if node.kind == "map" and part in node.fields:
            node = node.fields[str(part)]
            path.append(part)
        elif node.kind == "list" and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            path.append(part)
        else:
            rest.append(part)
    return node, path, rest


def _dotted(path: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return " ".join(text.removeprefix(".").split())[:120]


_WORDING = {
    "float_parsing": ("{found} is not a number", "write {example}"),
    "float_type": ("{found} is not a number", "write {example}"),
    "int_parsing": ("{found} is not a whole number", "write {example}"),
    "int_type": ("{found} is not a whole number", "write {example}"),
    "finite_number": ("{found} is not a finite number", "write {example}"),
    "string_type": ("{found} is not a text", "write a text"),
    "string_pattern_mismatch": ("{found} is not a name", "write at most 80 letters, digits and . _ + -, no blanks"),
    "string_too_short": ("{found} is too short", "write at least {min_length} characters"),
    "string_too_long": ("{found} is too long", "write at most {max_length} characters"),
    "dataclass_type": ("{found} where keys are expected", "write {shape}"),
    "dict_type": ("{found} where keys are expected", "write `key: value` pairs below it"),
    "tuple_type": ("{found} where a list is expected", "write [{shape}, ...]"),
    "list_type": ("{found} where a list is expected", "write [{shape}, ...]"),
    "greater_than": ("{found} must be above {gt:g}", "write a value above {gt:g}, such as {example}"),
    "greater_than_equal": ("{found} must be at least {ge:g}", "write a value of at least {ge:g}, such as {example}"),
    "less_than_equal": ("{found} must be at most {le:g}", "write a value of at most {le:g}, such as {example}"),
    "literal_error": ("{found} is not one of {expected}", "write one of them"),
}
"""By pydantic's type of error: what, and the hint. Every kind that the declared `Limits` can give stands here."""


def _found(node: Node) -> str:
    """What stands there, for a message."""
    if node.kind != "scalar":
        return f"a {node.kind}"
    return "nothing" if node.scalar is None else repr(node.scalar[:60])


def wording(error: Mapping[str, Any], found: str, declared: Any) -> tuple[str, str]:
    """(what, hint) of one pydantic error, the hint never empty.

    found      what stands in its place, for a message
    declared   the type that is expected there
    """
    context, example = error.get("ctx") or {}, _example(declared)
    if error["type"] in _WORDING:
        what, hint = _WORDING[error["type"]]
        parts = {**context, "found": found, "example": example, "shape": _shape(declared)}
        return what.format(**parts), hint.format(**parts)
    what = error["msg"].removeprefix("Value error, ").replace("\n", " ")[:300]
    return what, str(context.get("hint") or f"write {example}")


def declared_at(model: type[Record], path: Sequence[str | int]) -> Any:
    """The type declared for the value at `path`; an index, or a key that is no field, stays at the type around it."""
    declared: Any = model
    for part in path:
        record = record_in(declared)
        if record is not None and part in field_types(record):
            declared = field_types(record)[str(part)]
    return declared


_SAMPLES = {int: "1", float: "12.5", str: "text"}
ANY = "a value"


def _example(declared: Any) -> str:
    """One value of that type, as it is written."""
    quantity = quantity_in(declared)
    if quantity is not None:
        return EXAMPLES[quantity.what]
    if declared in _SAMPLES:
        return _SAMPLES[declared]
    return next((found for part in get_args(declared) if (found := _example(part)) != ANY), ANY)


def _shape(declared: Any) -> str:
    """The keys of the record in that type, with examples: `{width: 1, ms: 12.5}`."""
    record = record_in(declared)
    if record is None:
        return _example(declared)
    types = field_types(record)
    keys = needed_fields(record) or list(types)[:2]
    return "{" + ", ".join(f"{key}: {_inner(types[key])}" for key in keys) + "}"


def _inner(declared: Any) -> str:
    return f"[{_shape(declared)}, ...]" if record_in(declared) else _example(declared).split(" or ")[0].split(", ")[0]


def keys_at(model: type[Record], path: Sequence[str | int]) -> list[str]:
    """The keys that `model` takes at `path`; empty where any key goes.

    >>> from specplan.hardware.profile import Hardware
    >>> keys_at(Hardware, ["memory"])
    ['capacity', 'bandwidth']
    """
    found = record_in(declared_at(model, path))
    return list(field_types(found)) if found is not None else []


def _unknown_hint(model: type[Record], path: Sequence[str | int]) -> str:
    """Where a key that is not known belongs, or what it may have been."""
    *outer, key = path
    keys = keys_at(model, outer)
    below = [name for name in keys if key in keys_at(model, [*outer, name])]
    if below:
        return f"{str(key)!r} belongs below " + " or ".join(repr(name) for name in below)
    return did_you_mean(str(key), keys, otherwise="known here: " + ", ".join(keys) if keys else "leave it out")
