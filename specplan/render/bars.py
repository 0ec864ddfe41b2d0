"""Bars of text, for a column that shows how a table rises and falls."""

from __future__ import annotations

from collections.abc import Sequence

LENGTH = 24


def bars(values: Sequence[float], *, length: int = LENGTH) -> list[str]:
    """A bar from 0 a value, the largest `length` blocks long, to half a block; filled up, so that they begin alike.

    >>> bars([4.0, 1.0, 0.5, 0.0], length=4)
    ['████', '█   ', '▌   ', '    ']
    """
    top = max(values, default=0.0) or 1.0
    halves = [round(2 * length * max(value, 0.0) / top) for value in values]
    return [("█" * (half // 2) + "▌" * (half % 2)).ljust(length) for half in halves]
