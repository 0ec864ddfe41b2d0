"""Sequoia: the growmap; the acceptance vector, from JSON or from the torch file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..acceptance.kinds import to_probabilities
from ..base.errors import EnvironmentProblem
from ..base.tree import TokenTree
from ._growmap_check import growmap_problems
from .capability import Capability, Export, Problem, Stack, Wanted
from .growmap import growmap
from .reading import Asked, Reading
from .writing import named

# Entries that add up to 1 within this hold the mass of "no child accepted" as their last: the writer that keeps it
# and the one that does not differ in nothing else.
WHOLE = 1e-3
# The longest sequence of Sequoia's own experiments.
LONGEST = 256


def vector(values: Sequence[Any]) -> Reading:
    """Child probabilities by rank; a leading zero is a dummy, a last entry that fills up to 1 is the reject bin.

    >>> vector([0.0, 0.6, 0.2, 0.2]).rows, vector([0.6, 0.2]).rows
    (((0.6, 0.2),), ((0.6, 0.2),))
    """
    row = to_probabilities(values, "vector")
    notes = []
    if len(row) > 1 and row[0] == 0.0:
        row = row[1:]
        notes.append("the leading zero is a dummy and left out")
    if len(row) > 1 and abs(math.fsum(row) - 1.0) <= WHOLE:
        row = row[:-1]
        notes.append("the entries add up to 1: the last one is the share of rounds without an accepted child")
    return Reading(
        "sequoia-vector",
        "rates of the children of the root, tested in order; measured at depth 1, used at every depth",
        rows=(row,),
        notes=tuple(notes),
    )


def from_json(data: Any, asked: Asked) -> Reading | None:
    """`acceptance_rate_vector`; a bare list is told apart in `bare`."""
    given = data.get("acceptance_rate_vector") if isinstance(data, Mapping) else None
    return vector(given) if isinstance(given, list) and given else None


# ---- the tree


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The growmap as a torch file. Needs torch."""
    return Export(
        {"growmap": "growmap.pt", "M": wanted.tree.width + LONGEST},
        {"growmap.pt": torch_file_of(wanted.tree)},
        command=f"python tests/testbed.py --model {named(wanted.draft, 'DRAFT')} "
        f"--target {named(wanted.model, 'MODEL')} --T 0.6 --P 1.0 --start 0 --end 200 "
        f"--M {wanted.tree.width + LONGEST} --growmap growmap.pt --dataset cnn",
        buffers=growmap(wanted.tree),
        notes=(f"--M is at least {wanted.tree.width} (the tree with its root) + the longest sequence, {LONGEST} here",),
    )


def torch_file_of(tree: TokenTree) -> bytes:
    """The six keys as `tree_search.py` saves them: mask and depth as int64 tensors, the rest as lists.

    Raises  EnvironmentProblem without torch.
    """
    import io

    try:
        import torch
    except ImportError:
        raise EnvironmentProblem(
            "a growmap is a torch file, and torch is not installed",
            hint="pip install 'specplan[measure]'; --to umbrella writes the same growmap as JSON",
        ) from None
    made = growmap(tree)
    saved = {
        **made,
        "mask": torch.tensor(made["mask"], dtype=torch.int64),
        "depth": torch.tensor(made["depth"], dtype=torch.int64),
    }
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    return buffer.getvalue()


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What the engine makes of a growmap: nothing in it is checked when it is loaded."""
    return growmap_problems(settings, "growmap")


STACK = Stack(
    name="sequoia",
    title="Sequoia",
    read="0ff3ff71",
    capabilities=(
        Capability(
            "static",
            ("sequoia", "chain"),
            ("growmap", "M"),
            "Infini-AI-Lab/Sequoia 0ff3ff71, tree_search.py, Tree/SpecTree.py",
            root_counted=True,
            order="node numbers breadth first, children of a parent side by side",
            note="nothing is checked when a growmap is loaded; batch 1 only",
        ),
    ),
    export=export,
    check=check,
    signs=("Successors", "growmap", "roots", "branches"),
)
