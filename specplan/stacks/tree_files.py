"""Static trees in any of the forms in which stacks keep them, told apart by their content.

    a list of paths              Medusa, Hydra, EAGLE-1, TensorRT-LLM, Token Recycling: JSON, or the line of Python
    "[(0,), (1,), (0, 0)]"       vLLM's token tree (0.10 to 0.20.2), alone or in a speculative config
    {"paths": [...]}             a tree or a plan of specplan, with `parents` in place of paths too
    {"tree_choices": [...]}      SAM-Decoding, and the other names under which stacks keep a list of paths
    {"0": [1, 2], "1": [], ...}  SAM-Decoding, alone or under `tree_adj`
    {"Successors": [...]}        growmaps: UMbreLLa's JSON and Sequoia's torch file
    speculative_config: ...      TensorRT-LLM's YAML

Nothing in a file is evaluated or executed; files are at most 10 MB.
"""

from __future__ import annotations

import re
from typing import Any

from ..base.errors import InputError
from ..base.files import parse_json, parse_yaml, read_bytes, to_text
from ..base.tree import TokenTree
from .growmap import tree_from_adjacency, tree_from_growmap
from .path_list import parse_paths

PATH_KEYS = (
    "paths",
    "medusa_choices",
    "hydra_choices",
    "eagle_choices",
    "tree_choices",
    "speculative_token_tree",
    "choices",
)
# What holds a tree one level further down, in the order in which it is looked for.
_AROUND = ("recommended", "tree", "speculative_config", "speculative-config", "settings", "tree_adj")
_ASSIGNED = re.compile(r"^[ \t]*([A-Za-z_]\w*)[ \t]*=[ \t]*(?=[\[(])", re.MULTILINE)
_SHAPES = "a list of paths such as [[0],[1],[0,0]], a tree's JSON, a growmap, SAM-Decoding's tree_adj"


def read_tree(path: str) -> TokenTree:
    """The tree in a file (`-`: standard input), whichever of the known forms it has.

    Raises  InputError that names the file and what is wrong in it: the path without a parent, the node of a cycle.
    """
    return tree_of(read_bytes(path), where=path)


def tree_of(content: bytes, *, where: str) -> TokenTree:
    """The tree in the content of a file.

    >>> tree_of(b"[(0,), (1,), (1, 0)]", where="tree.txt").widths
    (2, 1)
    """
    try:
        return _tree_of_data(data_of(content, where))
    except InputError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, hint=error.hint) from None


def data_of(content: bytes, where: str) -> Any:
    """The lists and mappings that the file holds."""
    if content.startswith(b"PK\x03\x04"):
        from .torch_file import read_tensors

        return read_tensors(content, where=where)
    if content.startswith(b"\x80"):
        raise InputError(f"{where}: a bare pickle", hint="save it with torch.save of torch 1.6 or later, or as JSON")
    text = to_text(content, where=where).strip()
    if not text:
        raise InputError(f"{where}: empty", hint=_SHAPES)
    if text[0] in "{[":
        return _json_or_paths(text, where)
    if text[0] == "(":
        return parse_paths(text, where=where)
    if text[0] in "\"'":
        return parse_paths(text.strip(text[0]), where=where)
    return _assigned(text, where) if _ASSIGNED.search(text) else parse_yaml(text, where=where)


def _json_or_paths(text: str, where: str) -> Any:
    """JSON, or a literal of Python where that is what it looks like."""
    if text[0] == "[" and ("(" in text or "#" in text or re.search(r",\s*\]", text)):
        return parse_paths(text, where=where)
    return parse_json(text, where=where)


def _assigned(text: str, where: str) -> Any:
    """The list of paths in `name = [[0], ...]`, as in the stacks' choices files."""
    found = list(_ASSIGNED.finditer(text))
    if len(found) > 1:
        names = ", ".join(match[1] for match in found[:6])
        raise InputError(f"{where}: {len(found)} trees: {names}", hint="copy one of the lists into a file of its own")
    return parse_paths(_balanced(text[found[0].end() :]), where=where)


def _balanced(text: str) -> str:
    """The text up to where its first bracket closes."""
    level = 0
    for match in re.finditer(r"[\[\]()]", text):
        level += 1 if match[0] in "[(" else -1
        if level <= 0:
            return text[: match.end()]
    return text


def _tree_of_data(data: Any) -> TokenTree:
    if isinstance(data, list):
        return _tree_of_paths(data)
    if not isinstance(data, dict):
        raise InputError("no tree", hint=_SHAPES)
    if "Successors" in data:
        return tree_from_growmap(data)
    for key in PATH_KEYS:
        if data.get(key) is not None:
            return _tree_of_paths(data[key])
    if isinstance(data.get("parents"), list):
        return TokenTree.from_parents(data["parents"], data.get("ranks"))
    for key in _AROUND:
        if isinstance(data.get(key), dict):
            return _tree_of_data(data[key])
    if data and all(str(key).isdecimal() for key in data):
        return tree_from_adjacency(data)
    raise InputError(f"no tree: keys {', '.join(map(str, list(data)[:6]))[:80] or 'none'}", hint=_SHAPES)


def _tree_of_paths(paths: Any) -> TokenTree:
    if isinstance(paths, str):
        paths = parse_paths(paths)
    if not isinstance(paths, list):
        raise InputError("no paths", hint=_SHAPES)
    if len(paths) > 1 and all(type(path) is int for path in paths):
        raise InputError(
            "a list of numbers, not of paths",
            hint="widths by level, such as [3, 1], are Medusa's old form: list the paths, [[0],[1],[2],[0,0],...]",
        )
    return TokenTree.from_paths(paths)
