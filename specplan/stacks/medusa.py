"""Medusa: the list of paths; accuracies of the heads, and the raw table of hits that `heads_accuracy.py` writes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..acceptance.kinds import to_probabilities
from ..base.errors import InputError
from . import buffers
from ._paths_check import Outcomes, path_problems, shape_of
from .capability import Capability, Export, Problem, Stack, Wanted
from .path_list import paths_export
from .reading import Asked, Reading
from .settings_text import around
from .writing import named

_MEANING = (
    "accuracy of each head by rank, over all positions; heads are taken as independent of each other: the rate of a "
    "path is the product along it"
)
_HEAD = re.compile(r"(?:medusa_?)?head[ _]?(\d+)\Z", re.IGNORECASE)


def head_accuracies(data: Any, asked: Asked) -> Reading | None:
    """`{"heads": [[...], ...]}` or `{"head1": [...], "head2": [...]}`: top-1, top-2, ... accuracies of each head.

    Rising rows are cumulative (top-k), as Medusa prints them; falling ones are shares of each rank.
    Raises  InputError for a row that is neither.

    >>> head_accuracies({"heads": [[0.5, 0.75], [0.25, 0.375]]}, Asked()).rows
    ((0.5, 0.25), (0.25, 0.125))
    """
    if not isinstance(data, Mapping):
        return None
    heads = data.get("heads", data.get("medusa_heads"))
    if heads is None:
        named = {int(match[1]): row for key, row in data.items() if (match := _HEAD.match(str(key)))}
        heads = [named[i] for i in sorted(named)] if named and len(named) == len(data) else None
    if not isinstance(heads, list) or not heads or not all(isinstance(row, list) for row in heads):
        return None
    if all(isinstance(row, list) and row and isinstance(row[0], list) for row in heads):
        return hits(heads)
    rows = tuple(_row(row, f"head {i}") for i, row in enumerate(heads, 1))
    return Reading("medusa-head-accuracies", _MEANING, rows=rows, scheme="topk", notes=(_two_readings(rows),))


def _row(given: Sequence[Any], what: str) -> tuple[float, ...]:
    row = to_probabilities(given, what)
    rises = all(a <= b for a, b in itertools.pairwise(row))
    if len(row) > 1 and rises:
        return tuple(b - a for a, b in itertools.pairwise((0.0, *row)))
    if math.fsum(row) > 1 + 1e-6:
        raise InputError(
            f"{what}: the ranks add up to {math.fsum(row):.4g}",
            hint="give top-k accuracies, which rise with k, or the share of each rank, at most 1 in all",
        )
    return row


def _two_readings(rows: Sequence[Sequence[float]]) -> str:
    """What a chain of first ranks yields if the accuracies are rates given the earlier heads, and if they are not."""
    first = [row[0] for row in rows]
    given = 1.0 + math.fsum(math.prod(first[: i + 1]) for i in range(len(first)))
    return (
        f"as rates given that the earlier heads hit, the chain of first ranks yields {given:.2f} tokens a round; as "
        f"rates of the head and all before it {1 + math.fsum(first):.2f}: the former is taken"
    )


def hits(tables: Sequence[Any]) -> Reading:
    """One table a head: for every position, whether the candidate of each rank was the token."""
    pairs = []
    for number, table in enumerate(tables, 1):
        if not table or any(not isinstance(row, (list, tuple)) or len(row) != len(table[0]) for row in table):
            raise InputError(f"head {number}: rows of different lengths", hint="one row a position, one cell a rank")
        counts = [float(sum(bool(row[rank]) for row in table)) for rank in range(len(table[0]))]
        pairs.append(tuple((count, float(len(table))) for count in counts))
    rows = tuple(tuple(count / trials for count, trials in row) for row in pairs)
    return Reading("medusa-head-hits", _MEANING, rows=rows, pairs=tuple(pairs), scheme="topk", rounds=pairs[0][0][1])


# ---- the tree


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """`medusa_choices`, as `medusa_generate` takes it."""
    return paths_export(
        wanted.tree,
        "medusa_choices",
        command=f"python llm_judge/gen_model_answer_medusa.py --model-path {named(wanted.draft, 'HEADS')} "
        '--model-id medusa --medusa-choices "$(cat medusa_choices.json)"',
        buffers=buffers.medusa(wanted.tree),
        notes=need_of_heads(wanted),
    )


def need_of_heads(wanted: Wanted) -> tuple[str, ...]:
    """How many heads the tree needs, where the user does not say how many there are."""
    if wanted.heads is not None:
        return ()
    return (f"the checkpoint needs {wanted.tree.depth} heads; --heads N checks it",)


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What `generate_medusa_buffers` and the first draft make of a hand-written list."""
    heads = settings.get("medusa_num_heads", around(settings, "heads"))
    given = settings.get("medusa_choices")
    return path_problems("medusa_choices", given, capability, OUTCOMES, heads=heads if type(heads) is int else None)


OUTCOMES: Outcomes = {
    "type": ("refused", "the buffers are not built"),
    "mixed": ("refused", "TypeError when the list is sorted"),
    "empty": ("refused", "ValueError from max()"),
    "empty_path": ("refused", "IndexError when the buffers are built"),
    "duplicate": ("silent", "the mask and the position ids come out wrong, with no error"),
    "parent": ("refused", "ValueError '... is not in list'; where a whole depth is skipped, IndexError"),
    "one_based": ("silent", "taken as it stands: the best child is never drafted"),
    "heads": ("refused", "IndexError on the first draft"),
    "rank": ("silent", "every head has ten candidates: the rank reads the block of the next head"),
}

STACK = Stack(
    name="medusa",
    title="Medusa",
    read="1.0",
    capabilities=(
        Capability(
            "static",
            ("medusa",),
            ("medusa_choices",),
            "FasterDecoding/Medusa e2a5d20c, medusa/model/utils.py generate_medusa_buffers",
            max_rank=buffers.TOPK - 1,
            contiguous=False,
            order="none; sorted inside by length, then by value",
            cost="its cost jumps past 64 tokens on an A100: 63 nodes is the published size",
            note="levels up to the number of heads; batch 1 only",
        ),
    ),
    export=export,
    check=check,
    shape=shape_of("medusa_choices"),
)
