"""Trees: order, mask, positions, and what is refused."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.base.tree import TokenTree

# Mask of the nodes A, B, A1, A2, B1, B2: each sees itself and its parent.
SIX_NODE_MASK = (
    (1, 0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0),
    (1, 0, 1, 0, 0, 0),
    (1, 0, 0, 1, 0, 0),
    (0, 1, 0, 0, 1, 0),
    (0, 1, 0, 0, 0, 1),
)


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 12) -> TokenTree:
    """A tree in which each node hangs below the root or an earlier node."""
    count = draw(st.integers(0, max_nodes))
    return TokenTree.from_parents([draw(st.integers(-1, node - 1)) for node in range(count)])


def test_the_six_node_tree_has_the_mask_and_positions_of_the_worked_example():
    tree = TokenTree.from_parents([-1, -1, 0, 0, 1, 1])
    assert tree.mask() == SIX_NODE_MASK
    assert tree.position_offsets == (1, 1, 2, 2, 2, 2)
    assert tree.paths == ((0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1))


def test_the_mask_with_the_root_has_a_first_column_of_ones():
    mask = TokenTree.from_parents([-1, -1, 0, 0, 1, 1]).mask_with_root()
    assert [row[0] for row in mask] == [1] * 7
    assert tuple(row[1:] for row in mask[1:]) == SIX_NODE_MASK
    assert mask[0] == (1, 0, 0, 0, 0, 0, 0)


def test_a_chain_has_the_causal_mask():
    assert TokenTree.chain(4).mask() == tuple(tuple(int(j <= i) for j in range(4)) for i in range(4))


def test_the_empty_tree_is_plain_decoding():
    tree = TokenTree.empty()
    assert (tree.nodes, tree.width, tree.depth, tree.widths, tree.mask()) == (0, 1, 0, (), ())
    assert tree.mask_with_root() == ((1,),)


def test_a_full_binary_tree_of_depth_three_has_fourteen_nodes():
    tree = TokenTree.full(2, 3)
    assert (tree.nodes, tree.width, tree.widths) == (14, 15, (2, 4, 8))
    assert tree.expanded_widths == (2, 4, 0)


def test_a_full_tree_takes_child_counts_by_level():
    assert TokenTree.full([1, 3, 2]).widths == (1, 3, 6)
    assert TokenTree.full([2, 1]) == TokenTree.from_paths([(0,), (1,), (0, 0), (1, 0)])


@given(trees(), st.randoms(use_true_random=False))
def test_paths_in_any_order_give_the_same_tree(tree: TokenTree, order: random.Random):
    paths = list(tree.paths)
    order.shuffle(paths)
    assert TokenTree.from_paths(paths) == tree


@given(trees(), st.randoms(use_true_random=False))
def test_parents_in_any_order_give_the_same_tree(tree: TokenTree, order: random.Random):
    place = list(range(tree.nodes))
    order.shuffle(place)
    parents, ranks = [0] * tree.nodes, [0] * tree.nodes
    for node, (parent, rank) in enumerate(zip(tree.parents, tree.ranks)):
        parents[place[node]] = -1 if parent < 0 else place[parent]
        ranks[place[node]] = rank
    assert TokenTree.from_parents(parents, ranks) == tree


@given(trees())
def test_a_node_sees_itself_and_its_ancestors_and_nothing_else(tree: TokenTree):
    for node, row in enumerate(tree.mask()):
        assert {i for i, sees in enumerate(row) if sees} == {node, *tree.ancestors(node)}
        assert sum(row) == tree.position_offsets[node] == len(tree.paths[node])


@given(trees())
def test_widths_count_the_nodes_and_expanded_widths_those_with_children(tree: TokenTree):
    assert sum(tree.widths) == tree.nodes
    assert sum(tree.expanded_widths) == len({parent for parent in tree.parents if parent >= 0})
    assert sum(tree.child_counts) + tree.root_children == tree.nodes


def test_ranks_may_have_gaps():
    assert TokenTree.from_paths([(3,), (3, 0)]).ranks == (3, 0)


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        ([[0], []], "path 1 is empty"),
        ([[0], [1], [0]], "path [0] is there twice"),
        ([[0], [1, 2]], "path [1, 2] has no parent"),
        ([[0], [-1]], "path [-1]"),
        ([[0], [0, 1.5]], "path [0, 1.5]"),
        ([["0"]], "path ['0']"),
        ([[True]], "path [True]"),
        ([[0], 7], "path 1 is 7"),
        (["01"], "path 0 is '01'"),
        ([[10**9]], "path [1000000000]"),
        ([[0] * 25000], "25000 ranks"),
    ],
)
def test_a_bad_path_is_refused_by_name(paths: list[Any], named: str):
    with pytest.raises(InputError, match=re.escape(named)) as caught:
        TokenTree.from_paths(paths)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("parents", "ranks", "named"),
    [
        ([1, 0], None, "node 0 does not lead to the root"),
        ([-2], None, "parent of node 0 is -2"),
        ([5], None, "parent of node 0 is 5"),
        ([-1, -1], [0, 0], "the same rank"),
        ([-1], [0, 1], "1 parents and 2 ranks"),
    ],
)
def test_bad_parent_pointers_are_refused(parents: list[int], ranks: list[int] | None, named: str):
    with pytest.raises(InputError, match=named):
        TokenTree.from_parents(parents, ranks)


def test_the_constructor_takes_canonical_order_only():
    with pytest.raises(InputError, match=r"node 1 .* is not in breadth-first order"):
        TokenTree((-1, -1), (1, 0))
    with pytest.raises(InputError, match="1 parents and 0 ranks"):
        TokenTree((-1,), ())


def test_absurd_sizes_are_refused_before_they_take_memory():
    with pytest.raises(InputError, match="nodes"):
        TokenTree.full(10, 40)
    with pytest.raises(InputError, match="k is"):
        TokenTree.chain(10**12)
    with pytest.raises(InputError, match="more than 4000000 nodes"):
        TokenTree.full(2, 4000)


def test_a_mask_with_a_hundred_million_entries_is_refused():
    with pytest.raises(InputError, match="entries"):
        TokenTree.full(10_000, 1).mask()


def test_paths_that_are_too_long_to_list_say_what_to_use():
    with pytest.raises(InputError, match="too long to list") as refused:
        TokenTree.chain(20_000).paths  # noqa: B018
    assert "parents" in refused.value.hint
