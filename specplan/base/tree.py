"""The tree of drafted tokens: its paths, its attention mask, its position ids.

The root is the last emitted token. It is not a node: a tree of `nodes` drafted tokens is verified in
a pass over `width` = nodes + 1 tokens per sequence. A node is named by its path, the ranks on the
way down from the root: (0,) is the best guess for the next token, (0, 1) the second guess after it.

    >>> TokenTree.from_paths([(0,), (0, 0), (1,)]).widths
    (2, 1)
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from .errors import InputError

Path = tuple[int, ...]

# Limits against typing errors, not of the method: no published tree has more than 4096 nodes or 32 levels.
MAX_NODES = 4_000_000
MAX_DEPTH = 20_000
MAX_RANK = 1_000_000
MAX_MASK_NODES = 4096


@dataclass(frozen=True)
class TokenTree:
    """A static tree of drafted tokens in canonical order: breadth first, siblings by rank.

    parents   index of each node's parent, -1 for a child of the root
    ranks     which of its parent's children a node is, 0-based: the k-th best or the k-th drawn
    Raises    InputError when the order is not canonical; `from_parents` and `from_paths` take any order.

    >>> tree = TokenTree.full(2, 2)
    >>> tree.nodes, tree.width, tree.parents
    (6, 7, (-1, -1, 0, 0, 1, 1))
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.parents) != len(self.ranks):
            raise InputError(
                f"a tree with {len(self.parents)} parents and {len(self.ranks)} ranks",
                hint="give one rank for each node",
            )
        _check_size(len(self.parents))
        last = (-2, -1)
        for node, key in enumerate(zip(self.parents, self.ranks)):
            if not -1 <= key[0] < node or not 0 <= key[1] <= MAX_RANK or key <= last:
                raise InputError(
                    f"node {node} (parent {key[0]}, rank {key[1]}) is not in breadth-first order",
                    hint="build the tree with TokenTree.from_parents or TokenTree.from_paths, which sort",
                )
            last = key

    # ---- other ways in

    @classmethod
    def empty(cls) -> TokenTree:
        """No drafted token: plain decoding."""
        return cls((), ())

    @classmethod
    def chain(cls, k: int) -> TokenTree:
        """A chain of k tokens.

        >>> TokenTree.chain(3).paths
        ((0,), (0, 0), (0, 0, 0))
        """
        k = _integer(k, "k", least=0, most=MAX_DEPTH)
        return cls(tuple(range(-1, k - 1)), (0,) * k)

    @classmethod
    def full(cls, branching: int | Sequence[int], depth: int | None = None) -> TokenTree:
        """Every node of a level has the same number of children.

        branching   children of each node, or one such number for each level (then no `depth`)

        >>> TokenTree.full([3, 1]).widths
        (3, 3)
        """
        counts = _level_counts(branching, depth)
        widths = list(accumulate(counts, operator.mul))
        _check_size(sum(widths))
        parents: list[int] = []
        first = -1
        for count, width in zip(counts, widths):
            parents += [first + i // count for i in range(width)]
            first = len(parents) - width
        return cls(tuple(parents), tuple(rank for c, w in zip(counts, widths) for rank in list(range(c)) * (w // c)))

    @classmethod
    def from_paths(cls, paths: Iterable[Sequence[int]]) -> TokenTree:
        """The tree with exactly these paths, in any order.

        Raises  InputError for an empty path, a path given twice, a missing parent, a rank that is
                negative or no integer, or an absurd size; the path is named.

        >>> TokenTree.from_paths([[0, 0], [0], [2]]).ranks
        (0, 2, 0)
        """
        found: set[Path] = set()
        for position, given in enumerate(paths):
            _check_size(position + 1)
            path = read_path(given, f"path {position}")
            if path in found:
                raise InputError(f"path {show_path(path)} is there twice", hint="list each path once")
            found.add(path)
        ordered = sorted(found, key=lambda path: (len(path), path))
        index = {path: node for node, path in enumerate(ordered)}
        index[()] = -1
        return cls(tuple(_parent(path, index) for path in ordered), tuple(path[-1] for path in ordered))

    @classmethod
    def from_parents(cls, parents: Sequence[int], ranks: Sequence[int] | None = None) -> TokenTree:
        """The tree with these parent pointers (-1: the root), nodes in any order.

        ranks   without them, siblings are ranked in the order in which they are listed

        >>> TokenTree.from_parents([1, -1, -1]).parents
        (-1, -1, 0)
        """
        count = len(parents)
        _check_size(count)
        above = [_integer(p, f"parent of node {i}", least=-1, most=count - 1) for i, p in enumerate(parents)]
        if ranks is not None and len(ranks) != count:
            raise InputError(f"{count} parents and {len(ranks)} ranks", hint="give one rank for each node")
        below = _children(above)
        if ranks is None:
            order = _order_of_listing(below, count)
        else:
            order = [_integer(r, f"rank of node {i}", least=0, most=MAX_RANK) for i, r in enumerate(ranks)]
            _refuse_twins(below, order)
        return cls(*_breadth_first(below, order, count))

    # ---- sizes

    @property
    def nodes(self) -> int:
        """Drafted tokens, the root not counted."""
        return len(self.parents)

    @property
    def width(self) -> int:
        """Tokens of one verification pass: the nodes and the root."""
        return self.nodes + 1

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.widths)

    @cached_property
    def position_offsets(self) -> tuple[int, ...]:
        """Depth of each node: its position id is the root's position plus this."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return tuple(depths)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Nodes of each level, level 1 first."""
        return self._count_by_level(range(self.nodes))

    @cached_property
    def child_counts(self) -> tuple[int, ...]:
        """Children of each node."""
        counts = [0] * self.nodes
        for parent in self.parents:
            if parent >= 0:
                counts[parent] += 1
        return tuple(counts)

    @property
    def root_children(self) -> int:
        """Children of the root: the width of level 1."""
        return self.widths[0] if self.widths else 0

    @cached_property
    def expanded_widths(self) -> tuple[int, ...]:
        """Nodes of each level that have children; 0 for the last level."""
        return self._count_by_level(i for i, count in enumerate(self.child_counts) if count)

    def _count_by_level(self, nodes: Iterable[int]) -> tuple[int, ...]:
        depths = self.position_offsets
        counts = [0] * (depths[-1] if depths else 0)
        for node in nodes:
            counts[depths[node] - 1] += 1
        return tuple(counts)

    # ---- what a server loads

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Each node's ranks on the way from the root."""
        if sum(self.position_offsets) > 100_000_000:
            raise InputError(
                f"the paths of a tree of {self.nodes} nodes and {self.depth} levels are too long to list",
                hint="parents and ranks say the same shortly",
            )
        paths: list[Path] = []
        for parent, rank in zip(self.parents, self.ranks):
            paths.append((rank,) if parent < 0 else paths[parent] + (rank,))
        return tuple(paths)

    def ancestors(self, node: int) -> tuple[int, ...]:
        """The nodes above `node`, nearest first.

        >>> TokenTree.chain(3).ancestors(2)
        (1, 0)
        """
        return tuple(self._upwards(self.parents[node]))

    def way(self, node: int) -> tuple[int, ...]:
        """The nodes from below the root down to `node` itself.

        >>> TokenTree.chain(3).way(2)
        (0, 1, 2)
        """
        return (node, *self.ancestors(node))[::-1]

    def _upwards(self, node: int) -> Iterator[int]:
        while node >= 0:
            yield node
            node = self.parents[node]

    def mask(self) -> tuple[tuple[int, ...], ...]:
        """The attention mask among the nodes: row i has 1 for i and its ancestors. Shape [nodes, nodes].

        The root column is left out: every node sees the root and the prefix before it.

        >>> TokenTree.from_paths([(0,), (1,), (1, 0)]).mask()
        ((1, 0, 0), (0, 1, 0), (0, 1, 1))
        """
        self._refuse_large_mask()
        rows: list[list[int]] = []
        for node, parent in enumerate(self.parents):
            row = [0] * self.nodes if parent < 0 else rows[parent].copy()
            row[node] = 1
            rows.append(row)
        return tuple(map(tuple, rows))

    def mask_with_root(self) -> tuple[tuple[int, ...], ...]:
        """The mask with the root as token 0. Shape [width, width].

        >>> TokenTree.chain(1).mask_with_root()
        ((1, 0), (1, 1))
        """
        return ((1,) + (0,) * self.nodes, *tuple((1, *row) for row in self.mask()))

    def _refuse_large_mask(self) -> None:
        if self.nodes > MAX_MASK_NODES:
            raise InputError(
                f"the mask of {self.nodes} nodes has {self.nodes**2} entries",
                hint=f"masks are made up to {MAX_MASK_NODES} nodes; the parents say the same in less space",
            )


# ---- checking what comes in


def show_path(path: object) -> str:
    """A path, or what was given in place of one, in a message; cut where it is long.

    >>> show_path((0, 1))
    '[0, 1]'
    """
    text = str(list(path[:30])) if isinstance(path, tuple) else repr(path)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_size(nodes: int) -> None:
    if nodes > MAX_NODES:
        raise InputError(
            f"a tree of more than {MAX_NODES} nodes", hint="trees of this size are not made; ask for a smaller one"
        )


def _integer(value: Any, what: str, *, least: int, most: int) -> int:
    """An int in [least, most]; numpy integers are taken, booleans, floats and text are not."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise InputError(f"{what} is {show_path(value)}", hint=f"give a whole number from {least} to {most}")
    return number


def read_path(given: Any, what: str) -> Path:
    """One path as a tuple of ranks.

    what   what to call it in a message

    >>> read_path([0, 1], "path 3")
    (0, 1)
    """
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise InputError(f"{what} is {show_path(given)}", hint="a path is a list of ranks, such as [0, 1]")
    ranks = tuple(given)
    if not ranks:
        raise InputError(f"{what} is empty", hint="the root is not listed; leave the empty path out")
    if len(ranks) > MAX_DEPTH:
        raise InputError(f"{what} has {len(ranks)} ranks", hint=f"trees have at most {MAX_DEPTH} levels")
    if all(type(rank) is int and 0 <= rank <= MAX_RANK for rank in ranks):
        return ranks
    name = f"path {show_path(ranks)}: a rank"
    return tuple(_integer(rank, name, least=0, most=MAX_RANK) for rank in ranks)


def _parent(path: Path, index: dict[Path, int]) -> int:
    parent = index.get(path[:-1])
    if parent is None:
        raise InputError(f"path {show_path(path)} has no parent", hint=f"add the path {show_path(path[:-1])}")
    return parent


def _level_counts(branching: int | Sequence[int], depth: int | None) -> list[int]:
    """Children a node has, by level."""
    if isinstance(branching, Sequence):
        if depth is not None and depth != len(branching):
            raise InputError(f"depth {depth} and {len(branching)} child counts", hint="leave the depth out")
        counts = list(branching)
    else:
        counts = [branching] * _integer(1 if depth is None else depth, "depth", least=0, most=MAX_DEPTH)
    return [_integer(count, "the number of children", least=1, most=MAX_RANK) for count in counts]


def limit(value: Any, what: str, most: int) -> int:
    """A limit on nodes, levels or children: a whole number from 1 to `most`.

    >>> limit(14, "max_nodes", MAX_NODES)
    14
    """
    return _integer(value, what, least=1, most=most)


# ---- parent pointers in any order


def _children(parents: Sequence[int]) -> dict[int, list[int]]:
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        below.setdefault(parent, []).append(node)
    return below


def _order_of_listing(below: dict[int, list[int]], count: int) -> list[int]:
    ranks = [0] * count
    for siblings in below.values():
        for rank, node in enumerate(siblings):
            ranks[node] = rank
    return ranks


def _refuse_twins(below: dict[int, list[int]], ranks: Sequence[int]) -> None:
    for parent, siblings in below.items():
        if len({ranks[node] for node in siblings}) < len(siblings):
            raise InputError(f"two children of node {parent} have the same rank", hint="siblings differ in rank")


def _breadth_first(
    below: dict[int, list[int]], ranks: Sequence[int], count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parents and ranks in canonical order."""
    parents: list[int] = []
    order: list[int] = []
    level = [(-1, -1)]
    while level:
        following = []
        for old, new in level:
            for node in sorted(below.get(old, ()), key=ranks.__getitem__):
                following.append((node, len(order)))
                parents.append(new)
                order.append(node)
        level = following
    if len(order) < count:
        stray = min(set(range(count)) - set(order))
        raise InputError(f"node {stray} does not lead to the root", hint="the parents of a node must end at -1")
    return tuple(parents), tuple(ranks[node] for node in order)
