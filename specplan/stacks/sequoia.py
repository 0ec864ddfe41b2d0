"""Sequoia: the acceptance vector, from JSON or from the torch file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..acceptance import to_probabilities
from .reading import Reading

# Entries that add up to 1 within this hold the mass of "no child accepted" as their last: the writer that keeps it
# and the one that does not differ in nothing else.
WHOLE = 1e-3


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


def from_json(data: Any) -> Reading | None:
    """A bare list of numbers below 1, or `acceptance_rate_vector`."""
    if isinstance(data, dict):
        data = data.get("acceptance_rate_vector")
    if not isinstance(data, list) or not data or not all(type(value) in (int, float) for value in data):
        return None
    whole = all(float(value).is_integer() for value in data)
    return None if whole or not all(0 <= value <= 1 for value in data) else vector(data)
