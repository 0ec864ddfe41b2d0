"""Whether a tree lies within what a stack can run, and which limit it breaks.

>>> from .capability import Capability
>>> chains = Capability("chain", ("eagle3",), (), "", max_depth=4)
>>> broken_limits(TokenTree.full(2, 2), chains)
{'family': 'a node has 2 children; only a chain can be run'}
"""

from __future__ import annotations

from ..base.errors import DoesNotFit
from ..base.tree import TokenTree, show_path
from .capability import Capability

HINT = "--lower gives the best shape that it can run, with the loss stated"
HINTS = {"late": "child probabilities that fall with the rank never ask for such a tree; --smooth pools rising ones"}


def require_within(
    name: str, tree: TokenTree, capability: Capability, *, heads: int | None = None, max_rank: int | None = None
) -> None:
    """Raise DoesNotFit, with the first limit that the tree breaks, unless the stack can run it."""
    broken = broken_limits(tree, capability, heads=heads, max_rank=max_rank)
    for limit, text in broken.items():
        raise DoesNotFit(f"{name}: {text}", hint=HINTS.get(limit, HINT))


def broken_limits(
    tree: TokenTree, capability: Capability, *, heads: int | None = None, max_rank: int | None = None
) -> dict[str, str]:
    """The limits that the tree breaks: family, size, children, heads, rank, gap, late -> a sentence.

    heads      levels that the draft has heads for, None: not known
    max_rank   children of a node that the user allows, from 1; None: no wish
    """
    found = {
        "family": _family(tree, capability),
        "size": _sizes(tree, capability),
        "children": _children(tree, capability),
        "heads": _heads(tree, heads),
        "rank": _ranks(tree, capability, max_rank),
        "gap": _gap(tree) if capability.contiguous else "",
        "late": _late_expansion(tree) if capability.expanding_first else "",
    }
    return {limit: text for limit, text in found.items() if text}


def _family(tree: TokenTree, capability: Capability) -> str:
    if capability.family == "chain" and tree.nodes > tree.depth:
        return f"a node has {max(tree.root_children, *tree.child_counts)} children; only a chain can be run"
    if capability.family == "uniform" and not is_uniform(tree):
        return "the nodes of a level differ in their number of children; only uniform levels can be run"
    return ""


def is_uniform(tree: TokenTree) -> bool:
    """Whether all nodes of a level have the same number of children.

    >>> is_uniform(TokenTree.full([3, 1])), is_uniform(TokenTree.from_paths([[0], [1], [0, 0]]))
    (True, False)
    """
    if not tree.nodes:
        return True
    above = (1, *tree.widths)
    counts = [width // parents for width, parents in zip(tree.widths, above)]
    return min(counts) > 0 and tree == TokenTree.full(counts)


def _sizes(tree: TokenTree, capability: Capability) -> str:
    if tree.depth < capability.min_depth:
        return f"{tree.depth} levels; at least {capability.min_depth} are needed"
    if capability.max_depth is not None and tree.depth > capability.max_depth:
        return f"{tree.depth} levels; at most {capability.max_depth} can be run"
    if capability.max_nodes is not None and tree.nodes > capability.max_nodes:
        return f"{tree.nodes} nodes; at most {capability.max_nodes} can be run (the root not counted)"
    return ""


def _children(tree: TokenTree, capability: Capability) -> str:
    """The first level on which a node has more children than the stack drafts there."""
    counts = [tree.root_children, *tree.child_counts]
    levels = [0, *tree.position_offsets]
    for count, level in zip(counts, levels):
        if level < len(capability.max_children) and count > capability.max_children[level]:
            return f"{count} children of a node in step {level + 1}; at most {capability.max_children[level]} there"
    return ""


def _heads(tree: TokenTree, heads: int | None) -> str:
    if heads is not None and tree.depth > heads:
        return f"{tree.depth} levels and {heads} heads; every level needs a head of its own"
    return ""


def _ranks(tree: TokenTree, capability: Capability, max_rank: int | None) -> str:
    limits = [limit for limit in (capability.max_rank, None if max_rank is None else max_rank - 1) if limit is not None]
    if not limits or max(tree.ranks, default=0) <= min(limits):
        return ""
    path = next(path for path, rank in zip(tree.paths, tree.ranks) if rank > min(limits))
    return f"path {show_path(path)} has rank {path[-1]}; ranks go up to {min(limits)}"


def _gap(tree: TokenTree) -> str:
    """The first node whose rank leaves a rank out."""
    last: tuple[int, int] = (-2, -1)
    for node, key in enumerate(zip(tree.parents, tree.ranks)):
        wanted = last[1] + 1 if key[0] == last[0] else 0
        if key[1] != wanted:
            path = tree.paths[node]
            return f"path {show_path(path)} comes without {show_path((*path[:-1], wanted))}; ranks are 0, 1, 2, ..."
        last = key
    return ""


def _late_expansion(tree: TokenTree) -> str:
    """The first node with children that comes after a sibling without."""
    last, childless = -2, -1
    for node, parent in enumerate(tree.parents):
        if parent != last:
            last, childless = parent, -1
        if tree.child_counts[node] and childless >= 0:
            here, before = show_path(tree.paths[node]), show_path(tree.paths[childless])
            return f"path {here} has children and {before} before it has none; those with children come first"
        if not tree.child_counts[node]:
            childless = node
    return ""
