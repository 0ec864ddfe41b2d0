"""Tables and keys of a deadline and of a price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..base.units import show_time
from ..planning.deadline import Deadline, Met, Times
from ..planning.price import Price
from .output import Table

NO_TIMES: dict[str, Any] = dict.fromkeys(("p50_s", "p95_s", "p99_s", "percentile_s", "mean_s", "probability"))


def goal_keys(goals: Any) -> dict[str, Any]:
    """`deadline` and `cost` of the document; null where nothing is known."""
    found: Deadline | None = goals.deadline
    return {"deadline": None if found is None else _deadline_keys(found), "cost": goals.price}


def _deadline_keys(found: Deadline) -> dict[str, Any]:
    times = NO_TIMES if found.times is None else asdict(found.times)
    smallest = None if found.smallest is None else _smallest_keys(found.smallest)
    return {**asdict(found.burst), **times, "meets": found.meets, "plain": found.plain, "smallest": smallest}


def _smallest_keys(met: Met) -> dict[str, Any]:
    shape = {key: getattr(met.shape, key) for key in ("nodes", "width", "depth", "widths", "paths")}
    return shape | asdict(met.times)


def goal_ending(goals: Any) -> str:
    """What the first line says of the burst, after the verdict."""
    found: Deadline | None = goals.deadline
    if found is None or found.times is None:
        return "."
    late = "" if found.meets is None else ", in time" if found.meets else ", too late"
    asked = f"{found.burst.tokens} tokens at P{100 * found.burst.percentile:g}"
    return f"; {asked} take {show_time(found.times.percentile_s)}{late}."


def goal_tables(goals: Any) -> Iterator[Table]:
    """The burst's times and the price of a token, speculation beside plain decoding."""
    if goals.deadline is not None:
        yield _burst_table(goals.deadline)
    if goals.price is not None and goals.priced:
        yield _price_table(goals.price)


def _burst_table(found: Deadline) -> Table:
    rows = [] if found.times is None else [("recommended", found.times)]
    rows.append(("plain decoding", found.plain))
    if found.smallest is not None:
        shape = found.smallest.shape
        several = "" if shape.nodes == 1 else "s"
        name = f"{shape.nodes} node{several}, depth {shape.depth}" if shape.nodes else "plain decoding"
        rows.append((f"smallest in time: {name}", found.smallest.times))
    asked = f"P{100 * found.burst.percentile:g}"
    known = asked in ("P50", "P95", "P99")
    columns = (
        f"burst of {found.burst.tokens} tokens",
        "mean",
        "P50",
        "P95",
        "P99",
        *([] if known else [asked]),
        "in time",
    )
    return Table(columns, [(name, *_cells(times, known)) for name, times in rows])


def _cells(times: Times, known: bool) -> Iterator[str]:
    shown = (times.mean_s, times.p50_s, times.p95_s, times.p99_s, *([] if known else [times.percentile_s]))
    yield from map(show_time, shown)
    yield "-" if times.probability is None else _share(times.probability)


def _share(value: float) -> str:
    """A probability in percent; never rounded up to certainty.

    >>> _share(0.98531), _share(0.9999999), _share(1.0)
    ('98.53 %', '> 99.99 %', '100 %')
    """
    if value > 1 - 1e-12 or value < 1e-12:
        return f"{100 * round(value):.0f} %"
    return "> 99.99 %" if value > 0.9999 else "< 0.01 %" if value < 0.0001 else f"{100 * value:.2f} %"


def _price_table(price: Price) -> Table:
    def cell(value: float | None, unit: str = "") -> str:
        return "-" if value is None else f"{value:.4g}{unit}"

    rows = [("price of a million tokens", cell(price.price_per_mtok), cell(price.plain_price_per_mtok))]
    if price.watts is not None:
        rows.append(
            ("energy of a token, at most", cell(price.joules_per_token, " J"), cell(price.plain_joules_per_token, " J"))
        )
    return Table(("cost", "recommended", "plain decoding"), rows)


def goal_words(goals: Any) -> Iterator[str]:
    """Whether the burst is in time, and what would do."""
    found: Deadline | None = goals.deadline
    if found is None or found.burst.deadline_s is None:
        return
    limit, asked = show_time(found.burst.deadline_s), f"{100 * found.burst.percentile:g} %"
    if found.times is None:
        yield "Give an acceptance to learn how often a burst is in time with speculation."
        return
    share, tokens = _share(found.times.probability or 0.0), found.burst.tokens
    verdict = "enough" if found.meets else "not enough"
    yield f"{share} of the bursts of {tokens} tokens are there within {limit}: {verdict} for the {asked} asked for."
    if found.smallest is None:
        yield "No tree within the limits meets the deadline: a faster device, a better draft or a shorter burst would."
