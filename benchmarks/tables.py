"""What the pages of the benchmarks are written with: Markdown tables, percentages, quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed, between neighbours linear."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
