"""What is wrong with a hand-written list of paths, for stacks that take one; each says what it makes of a flaw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..base.errors import InputError
from ..base.tree import MAX_NODES, TokenTree, show_path
from ..search.space import Dynamic
from .capability import Capability, Problem
from .limits import broken_limits
from .path_list import parse_paths

# flaw -> (refused or silent, what the stack does)
Outcomes = Mapping[str, tuple[str, str]]


def path_problems(
    setting: str, given: Any, capability: Capability, outcomes: Outcomes, *, heads: int | None = None
) -> list[Problem]:
    """Every flaw of the list that the stack refuses or takes in another sense.

    outcomes   flaws that the stack reacts to: type, mixed, empty, empty_path, duplicate, parent, one_based, and the
               limits family, size, heads, rank, gap, late; a flaw that is not there is none
    """
    try:
        paths = parse_paths(given) if isinstance(given, str) else given
    except InputError as error:
        return [Problem("refused", setting, error.message)]
    found = [
        Problem(outcomes[flaw][0], setting, f"{text}: {outcomes[flaw][1]}")
        for flaw, text in _flaws(paths, capability, heads)
        if flaw in outcomes
    ]
    return found


def _flaws(paths: Any, capability: Capability, heads: int | None) -> Iterator[tuple[str, str]]:
    wrong = _wrong_type(paths)
    if wrong:
        yield "type", wrong
        return
    if not paths:
        yield "empty", "the list is empty"
        return
    if len({type(path) for path in paths}) > 1:
        yield "mixed", "lists and tuples are mixed"
    known = Counter(map(tuple, paths))
    if () in known:
        yield "empty_path", "the empty path is listed; the root is not"
        del known[()]
    twice = next((path for path, count in known.items() if count > 1), None)
    if twice is not None:
        yield "duplicate", f"path {show_path(twice)} is listed {known[twice]} times"
    orphan = next((path for path in sorted(known, key=len) if len(path) > 1 and path[:-1] not in known), None)
    if orphan is not None:
        yield "parent", f"path {show_path(orphan)} has no parent {show_path(orphan[:-1])}"
    if known and min(min(path) for path in known) > 0:
        yield "one_based", "no rank is 0; ranks count from 0"
    high = next((path for path in known if capability.max_rank is not None and max(path) > capability.max_rank), None)
    if high is not None:
        yield "rank", f"path {show_path(high)} has rank {max(high)}, above {capability.max_rank}"
    if orphan is None and known:
        broken = broken_limits(TokenTree.from_paths(known), capability, heads=heads)
        yield from ((limit, text) for limit, text in broken.items() if limit != "rank")


def _wrong_type(paths: Any) -> str:
    if not isinstance(paths, (list, tuple)):
        return f"{show_path(paths)} is no list of paths"
    if len(paths) > MAX_NODES:
        return f"{len(paths)} paths"
    for path in paths:
        if not isinstance(path, (list, tuple)):
            return f"{show_path(path)} is no path; a path is a list of ranks, such as [0, 1]"
        for rank in path:
            if type(rank) is not int or rank < 0:
                return f"path {show_path(tuple(path))} has rank {show_path(rank)}; ranks are whole numbers from 0"
    return ""


def shape_of(setting: str) -> Callable[[Mapping[str, Any]], Dynamic | None]:
    """A shape function of a stack that takes a list of paths."""

    def shape(settings: Mapping[str, Any]) -> Dynamic | None:
        given = settings.get(setting)
        try:
            tree = TokenTree.from_paths(set(map(tuple, parse_paths(given) if isinstance(given, str) else given or ())))
        except (InputError, TypeError):
            return None
        return Dynamic(tree.depth, tree.root_children, tree.nodes)

    return shape


def unknown_settings(settings: Mapping[str, Any], known: Sequence[str], what: str) -> list[Problem]:
    """A problem for each setting that the stack does not know."""
    from ..base.errors import did_you_mean

    return [
        Problem(
            "refused", name, f"{what} does not know {name[:60]!r}; {did_you_mean(name, known) or 'no such setting'}"
        )
        for name in settings
        if name not in known
    ]
