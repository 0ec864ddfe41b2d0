"""What an export starts from: a plan's document, a tree in any form, lengths by batch size, or a chain.

A document of `specplan plan` says by itself what another shape would yield and cost: it carries its acceptance and its
pass times. A bare tree does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..acceptance.documents import acceptance_from_document
from ..acceptance.kinds import Acceptance, to_number, to_whole
from ..base.errors import InputError
from ..base.files import parse_json, read_bytes, to_text
from ..base.tree import MAX_DEPTH, TokenTree
from ..search.costs import RoundCosts
from ..search.rounds import PASSES, SHAPES
from ..search.space import DEFAULT_DEPTH, Dynamic, Space
from ..timing.draft import Draft
from .capability import Scheduled
from .exporting import covering
from .tree_files import tree_of

# Longest row of pass times that is read: far above every limit of a search.
MOST_WIDTHS = 100_000
MOST_RANGES = 10_000
MOST_BATCH = 10_000_000


@dataclass(frozen=True)
class Source:
    """A shape and what is known of it; as `Wanted` has it where the names are the same.

    costs, limits   of the plan, None for a bare tree
    survival        at least i accepted, as the document states it
    """

    tree: TokenTree
    dynamic: Dynamic | None = None
    schedule: tuple[Scheduled, ...] = ()
    method: str | None = None
    draft: str | None = None
    model: str | None = None
    batch: int = 1
    exit_layer: int | None = None
    acceptance: Acceptance | None = None
    costs: RoundCosts | None = None
    limits: Space | None = None
    survival: tuple[float, ...] = ()


def read_source(path: str) -> Source:
    """The plan or the tree in a file (`-`: standard input).

    Raises  InputError that names the file and what is wrong in it.
    """
    return source_of(read_bytes(path), where="standard input" if path == "-" else path)


def source_of(content: bytes, *, where: str) -> Source:
    """The plan or the tree in the content of a file.

    >>> source_of(b"[[0],[1],[0,0]]", where="tree.json").tree.widths
    (2, 1)
    """
    data = _document(content, where)
    if data is None:
        return Source(tree_of(content, where=where))
    try:
        return _of_document(data)
    except InputError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, hint=error.hint) from None


def _document(content: bytes, where: str) -> dict[str, Any] | None:
    """A document of specplan; None for any other file."""
    if content.lstrip()[:1] != b"{":
        return None
    data = parse_json(to_text(content, where=where), where=where)
    schema = data.get("schema") if isinstance(data, dict) else None
    return data if isinstance(schema, str) and schema.startswith("specplan.") else None


def _of_document(data: Mapping[str, Any]) -> Source:
    verb = str(data["schema"]).removeprefix("specplan.").partition("/")[0]
    if verb == "plan":
        return _of_plan(data, _mapping(data, "inputs"))
    if verb == "compare":
        best = data.get("best")
        if best is None:
            raise InputError("no method of the comparison pays", hint="specplan plan --method NAME plans one of them")
        return replace(_of_plan(_mapping(data, "methods", best), _mapping(data, "inputs")), method=best)
    if verb in ("tree", "export"):
        return _of_tree(data, _mapping(data, "inputs"))
    raise InputError(f"a document of specplan {verb[:20]}", hint="one of plan, tree or compare holds a shape")


def _mapping(data: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    found: Any = data
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise InputError(f"{'.'.join(keys)} is missing", hint="is the document complete?")
    return found


def _of_plan(data: Mapping[str, Any], inputs: Mapping[str, Any]) -> Source:
    shape = data.get("recommended")
    if shape is None:
        raise InputError(
            "the plan has no shape: it was made without an acceptance", hint="plan again with --p 0.6, ..."
        )
    acceptance, costs = data.get("acceptance"), data.get("costs")
    source = _of_tree(_mapping(data, "recommended"), inputs)
    return replace(
        source,
        schedule=_schedule(data.get("schedule"), data.get("stack")),
        acceptance=None if acceptance is None else _acceptance(acceptance),
        costs=None if costs is None else _costs(_mapping(data, "costs")),
        limits=_limits(inputs),
    )


def _of_tree(shape: Mapping[str, Any], inputs: Mapping[str, Any]) -> Source:
    if not isinstance(shape.get("parents"), list):
        raise InputError("no shape in the document", hint="a range of p has no single tree; give --p one value")
    ranks = shape.get("ranks")
    if ranks is not None and not isinstance(ranks, list):
        raise InputError("ranks is no list", hint="a rank for each node, or leave it out")
    tree = TokenTree.from_parents(shape["parents"], ranks)
    method, draft = inputs.get("method"), _name(inputs, "draft")
    return Source(
        tree,
        None if shape.get("dynamic") is None else _dynamic(_mapping(shape, "dynamic")),
        method=_name(inputs, "method") or ("chain" if draft is not None and method is None else None),
        draft=draft,
        model=_name(inputs, "model"),
        batch=_largest_batch(inputs.get("batch")),
        exit_layer=None if inputs.get("exit_layer") is None else to_whole(inputs["exit_layer"], "exit_layer"),
        survival=_survival(shape.get("level_survival")),
    )


def _name(inputs: Mapping[str, Any], key: str) -> str | None:
    """A name that stands in the inputs; a description of a draft (it has blanks) is none."""
    found = inputs.get(key)
    return found if isinstance(found, str) and found and not re.search(r"\s", found) else None


def _largest_batch(given: Any) -> int:
    batches = given if isinstance(given, list) and given else [given]
    return max(1 if batch is None else to_whole(batch, "batch") for batch in batches)


def _dynamic(given: Mapping[str, Any]) -> Dynamic:
    return Dynamic(*(to_whole(given.get(key), f"dynamic.{key}") for key in ("steps", "topk", "nodes")))


def _survival(given: Any) -> tuple[float, ...]:
    if not isinstance(given, list) or len(given) > MAX_DEPTH:
        return ()
    return tuple(to_number(value, f"level_survival[{i}]") for i, value in enumerate(given))


def _schedule(given: Any, stack: Any) -> tuple[Scheduled, ...]:
    """Lengths by batch size; shapes by batch size that are no chains are none."""
    if not isinstance(given, list) or not given:
        return ()
    if len(given) > MOST_RANGES:
        raise InputError(f"a schedule of {len(given)} ranges", hint="is it the right file?")
    rows = []
    for i, row in enumerate(given):
        if not isinstance(row, Mapping):
            raise InputError(f"schedule[{i}] is no range", hint="batch_first, batch_last, nodes and depth are needed")
        first, last = (to_whole(row.get(key), f"schedule[{i}].{key}") for key in ("batch_first", "batch_last"))
        nodes, depth = (to_whole(row.get(key), f"schedule[{i}].{key}", least=0) for key in ("nodes", "depth"))
        if nodes != depth:
            return ()
        rows.append(Scheduled(first, last, nodes))
    return covering(rows)


def _acceptance(given: Any) -> Acceptance:
    if not isinstance(given, Mapping):
        raise InputError("acceptance is no document", hint="is the plan complete?")
    return acceptance_from_document({key: value for key, value in given.items() if key != "schema"}, where="acceptance")


def _times(given: Any, what: str) -> list[float]:
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_WIDTHS:
        raise InputError(f"{what} is no list of times", hint="is the plan complete?")
    times = [math.inf if value is None else to_number(value, f"{what}[{i}]") for i, value in enumerate(given)]
    if min(times) < 0 or times[0] <= 0:
        raise InputError(f"{what} holds a time below 0", hint="is the plan complete?")
    return times


def _costs(given: Mapping[str, Any]) -> RoundCosts:
    draft = given.get("draft_s")
    if isinstance(draft, list):
        rows = _times([value or 0.0 for value in draft] if draft and not draft[0] else draft, "costs.draft_s")
        proposed = Draft("as in the plan", lambda width: rows[width - 1], last=len(rows))
    else:
        proposed = Draft("as in the plan", to_number(draft or 0.0, "costs.draft_s"))
    for key, known in (("draft_passes", PASSES), ("draft_shape", SHAPES)):
        if given.get(key) not in known:
            raise InputError(f"costs.{key} is {str(given.get(key))[:30]!r}", hint="one of " + ", ".join(known))
    return RoundCosts(
        _times(given.get("verify_s"), "costs.verify_s"),
        proposed,
        to_number(given.get("overhead_s", 0.0), "costs.overhead_s"),
        given["draft_passes"],
        given["draft_shape"],
        to_whole(given.get("batch", 1), "costs.batch"),
        to_number(given.get("proposed", 1.0), "costs.proposed"),
        given.get("relative") is True,
    )


def _limits(inputs: Mapping[str, Any]) -> Space | None:
    if inputs.get("budget") is None:
        return None
    children = inputs.get("max_children")
    return Space(
        to_whole(inputs["budget"], "budget"),
        to_whole(inputs.get("max_depth") or DEFAULT_DEPTH, "max_depth"),
        None if children is None else to_whole(children, "max_children"),
    )


def of_lengths(schedule: Sequence[Scheduled]) -> Source:
    """Lengths by batch size that are given as such."""
    longest = max(entry.k for entry in schedule)
    return Source(TokenTree.chain(longest), schedule=tuple(schedule))


def parse_schedule(text: str) -> tuple[Scheduled, ...]:
    """FIRST-LAST:K with commas between.

    >>> parse_schedule("1-4:4,5-16:2,17-512:0")[1]
    Scheduled(first=5, last=16, k=2)
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*:\s*(\d{1,6})\s*", part)
        if match is None:
            raise InputError(f"{part.strip()[:40]!r} is no range with a length", hint="1-4:4,5-16:2,17-512:0")
        first, last, k = int(match[1]), int(match[2] or match[1]), int(match[3])
        if not 1 <= first <= last <= MOST_BATCH or k > MAX_DEPTH:
            raise InputError(
                f"{part.strip()[:40]!r}: from 1 up, and the last not before the first", hint="1-4:4,5-16:2"
            )
        found.append(Scheduled(first, last, k))
    return tuple(found)
