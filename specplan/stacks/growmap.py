"""Growmaps of Sequoia and UMbreLLa: the tree by the children of each node, root as node 0, and what follows from it.

>>> growmap(TokenTree.chain(1))["branches"]
[[1], [0]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from ..base.errors import InputError
from ..base.tree import MAX_NODES, TokenTree

KEYS = ("roots", "branches", "Successors", "mask", "depth", "size")


def growmap(tree: TokenTree) -> dict[str, Any]:
    """The six keys, numbered breadth first, the root counted."""
    return {**_by_level(tree), "mask": [list(row) for row in tree.mask_with_root()]}


def _by_level(tree: TokenTree) -> dict[str, Any]:
    """All keys but the mask, whose size is the square of the tree's."""
    successors = successors_of(tree)
    starts = [0, *accumulate((1, *tree.widths))]
    levels = [range(first, after) for first, after in pairwise(starts)]
    return {
        "roots": [list(level) for level in levels],
        "branches": [[len(successors[node]) for node in level] for level in levels],
        "Successors": successors,
        "depth": [0, *tree.position_offsets],
        "size": tree.width,
    }


def successors_of(tree: TokenTree) -> list[list[int]]:
    """The children of each node in rank order, the root as node 0."""
    successors: list[list[int]] = [[] for _ in range(tree.width)]
    for node, parent in enumerate(tree.parents):
        successors[parent + 1].append(node + 1)
    return successors


def tree_from_growmap(data: Mapping[str, Any]) -> TokenTree:
    """The tree of a growmap, each of whose keys has to say the same.

    `Successors` alone is enough. Raises  InputError with the key and the node that is wrong.
    """
    tree = tree_from_successors(data["Successors"], "Successors", breadth_first=True)
    for key, expected in (growmap(tree) if "mask" in data else _by_level(tree)).items():
        if key in data and data[key] != expected:
            raise InputError(
                f"{key} disagrees with Successors{_first_difference(data[key], expected)}",
                hint="nothing checks a growmap when it is loaded: write it anew from Successors alone",
            )
    return tree


def tree_from_adjacency(data: Mapping[Any, Any]) -> TokenTree:
    """The tree of a mapping of every node to its children, root 0 (SAM-Decoding).

    A node is drafted after its parent only if its number is larger: any other numbering is refused.
    """
    if not all(str(key).isdecimal() and len(str(key)) < 9 for key in data):
        raise InputError("a key is no node number", hint="nodes are numbered 0, 1, 2, ...; 0 is the root")
    listed = {int(key): children for key, children in data.items()}
    missing = next((node for node in range(len(listed)) if node not in listed), None)
    if missing is not None:
        raise InputError(f"node {missing} is not listed", hint="every node has an entry, leaves an empty one")
    return tree_from_successors([listed[node] for node in range(len(listed))], "tree_adj", breadth_first=False)


def tree_from_successors(successors: Any, key: str, *, breadth_first: bool) -> TokenTree:
    """The tree whose node i has the children successors[i], in rank order; node 0 is the root."""
    count = len(successors) if isinstance(successors, list) else 0
    if not count or count > MAX_NODES + 1:
        raise InputError(f"{key} lists no nodes", hint=f"{key} holds the children of every node, the root first")
    parents, ranks = [-2] * (count - 1), [0] * (count - 1)
    last = 0
    for node, children in enumerate(successors):
        if not isinstance(children, list):
            raise InputError(f"{key}: node {node} has no list of children", hint="a leaf has an empty list")
        for rank, child in enumerate(children):
            _check_child(child, node, last, count, parents, key, breadth_first)
            parents[child - 1], ranks[child - 1] = node - 1, rank
            last = child
    orphan = next((node for node, parent in enumerate(parents, 1) if parent == -2), None)
    if orphan is not None:
        raise InputError(f"{key}: node {orphan} is nobody's child: a second root", hint="node 0 is the only root")
    return TokenTree.from_parents(parents, ranks)


def _check_child(
    child: Any, node: int, last: int, count: int, parents: Sequence[int], key: str, breadth_first: bool
) -> None:
    if type(child) is not int or not 0 <= child < count:
        raise InputError(f"{key}: node {node} has child {str(child)[:30]!r}", hint=f"nodes are 0 to {count - 1}")
    if child == 0:
        raise InputError(f"{key}: node {node} has the root as its child: a cycle", hint="node 0 is nobody's child")
    if parents[child - 1] != -2:
        raise InputError(
            f"{key}: node {child} is the child of nodes {parents[child - 1] + 1} and {node}",
            hint="every node has one parent",
        )
    if child <= node:
        raise InputError(
            f"{key}: node {child} is numbered before its parent {node}, or leads back to it",
            hint="children have larger numbers than their parent",
        )
    if breadth_first and child != last + 1:
        raise InputError(
            f"{key}: after node {last} comes node {child}: not numbered breadth first",
            hint="drafted tokens are stored in the order of the numbers: node 0, its children, their children, ...",
        )


def _first_difference(given: Any, expected: Any) -> str:
    """Where they differ first, in words."""
    if not isinstance(given, list) or not isinstance(expected, list):
        return f": {str(given)[:30]}, not {str(expected)[:30]}"
    if len(given) != len(expected):
        return f": {len(given)} entries, not {len(expected)}"
    place = next(i for i, (a, b) in enumerate(zip(given, expected)) if a != b)
    return f" at {place}: {str(given[place])[:40]}, not {str(expected[place])[:40]}"
