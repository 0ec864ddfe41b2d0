"""Smoothing of child probabilities that rise with the rank through sampling noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .kinds import Acceptance, DepthTable, Mixture, Positional


def falling(values: Sequence[float]) -> tuple[float, ...]:
    """The closest falling row with the same sum: neighbours that rise are pooled into their mean.

    Source  pool-adjacent-violators (isotonic regression with equal weights).

    >>> falling([0.5, 0.1, 0.2, 0.05])
    (0.5, 0.15000000000000002, 0.15000000000000002, 0.05)
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] < total / count:
            before, members = pools.pop()
            total, count = total + before, count + members
        pools.append((total, count))
    return tuple(total / count for total, count in pools for _ in range(count))


def smoothed(acceptance: Acceptance) -> Acceptance:
    """The same acceptance with falling rows; kinds without rows of child probabilities are left as they are.

    >>> smoothed(Positional((0.1, 0.3))).child_prob
    (0.2, 0.2)
    """
    note = "rows smoothed: neighbours that rise with the rank pooled into their mean"
    if isinstance(acceptance, Positional):
        return replace(acceptance, child_prob=falling(acceptance.child_prob), notes=(*acceptance.notes, note))
    if isinstance(acceptance, DepthTable):
        rows = tuple(falling(row) for row in acceptance.rows)
        return replace(acceptance, rows=rows, notes=(*acceptance.notes, note))
    if isinstance(acceptance, Mixture):
        return replace(acceptance, components=tuple(smoothed(part) for part in acceptance.components))
    return acceptance
