"""What stacks make of a static tree before they run it: masks, position ids, candidate and retrieve indices.

Worked out from the tree, for comparison with what a stack shows when it is debugged. Index 0 is the root everywhere.

>>> tree = TokenTree.from_paths([[0], [1], [0, 0], [0, 1], [1, 0]])
>>> medusa(tree)["tree_indices"], eagle1(tree)["tree_indices"]
([0, 1, 2, 11, 12, 11], [0, 1, 2, 11, 12, 21])
"""

from __future__ import annotations

from typing import Any

from ..base.tree import TokenTree

# Medusa, Hydra and EAGLE-1 keep this many candidates a head, or a parent; a constant in their sources.
TOPK = 10


def medusa(tree: TokenTree) -> dict[str, Any]:
    """`generate_medusa_buffers`: every level has one block of ten candidates, shared by all parents.

    Retrieve rows stand in descending order of their leaf.
    """
    indices = [rank + TOPK * (depth - 1) + 1 for rank, depth in zip(tree.ranks, tree.position_offsets)]
    rows = retrieve_rows(tree)[::-1]
    return {**_common(tree), "tree_indices": [0, *indices], "retrieve_indices": rows}


def hydra(tree: TokenTree) -> dict[str, Any]:
    """`generate_hydra_buffers`: Medusa's, and how many children each head drafts and expands, parent by parent."""
    by_level: list[list[int]] = [[tree.root_children]] if tree.nodes else []
    expanded: list[list[int]] = []
    children = [[node for node, above in enumerate(tree.parents) if above == parent] for parent in range(tree.nodes)]
    expands = [sum(1 for child in below if children[child]) for below in children]
    top = [node for node, above in enumerate(tree.parents) if above < 0]
    if tree.nodes:
        expanded.append([sum(1 for child in top if children[child])])
    for level in range(1, tree.depth):
        parents = [node for node, depth in enumerate(tree.position_offsets) if depth == level and children[node]]
        by_level.append([len(children[node]) for node in parents])
        expanded.append([expands[node] for node in parents])
    return {**medusa(tree), "children_per_head": by_level, "children_to_expand_per_head": expanded}


def eagle1(tree: TokenTree) -> dict[str, Any]:
    """`generate_tree_buffers` of EAGLE-1, both sides: every parent has a block of ten candidates of its own.

    draft_tree_indices, draft_repeats   the nodes fed to the head at each level after the first, and how many of them
                                        each parent of the level before has
    """
    order: dict[int, int] = {}
    for parent in tree.parents:
        order.setdefault(parent, len(order))
    indices = [rank + TOPK * order[parent] + 1 for rank, parent in zip(tree.ranks, tree.parents)]
    draft_indices, repeats = [], []
    for level in range(1, tree.depth):
        fed = [node for node, depth in enumerate(tree.position_offsets) if depth == level and tree.child_counts[node]]
        blocks: dict[int, list[int]] = {}
        for node in fed:
            blocks.setdefault(tree.parents[node], []).append(tree.ranks[node])
        draft_indices.append([rank + TOPK * at for at, ranks in enumerate(blocks.values()) for rank in ranks])
        repeats.append([len(ranks) for ranks in blocks.values()])
    return {
        **_common(tree),
        "tree_indices": [0, *indices],
        "retrieve_indices": sorted(retrieve_rows(tree), key=lambda row: [i if i >= 0 else tree.width for i in row]),
        "draft_tree_indices": draft_indices,
        "draft_repeats": repeats,
    }


def packed_mask(tree: TokenTree) -> list[int]:
    """TensorRT-LLM's mask: a number a token, bit j set where it sees token j.

    >>> packed_mask(TokenTree.from_paths([[0], [1], [0, 0], [0, 1], [1, 0]]))
    [1, 3, 5, 11, 19, 37]
    """
    rows = [1]
    for node, parent in enumerate(tree.parents, 1):
        rows.append(rows[parent + 1] | 1 << node)
    return rows


def retrieve_rows(tree: TokenTree) -> list[list[int]]:
    """The way from the root to each leaf, leaves in canonical order, filled up with -1."""
    rows = []
    for node in range(tree.nodes):
        if not tree.child_counts[node]:
            way = tree.way(node)
            rows.append([0, *(step + 1 for step in way), *[-1] * (tree.depth - len(way))])
    return rows


def _common(tree: TokenTree) -> dict[str, Any]:
    return {
        "attention_mask": [list(row) for row in tree.mask_with_root()],
        "position_ids": [0, *tree.position_offsets],
    }
