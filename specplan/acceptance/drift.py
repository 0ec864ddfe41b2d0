"""Two snapshots of acceptance: what happened between them, and whether the change is more than noise.

window(earlier, later)    the difference of two sets of counters of one server
drift(before, after)      change of the tokens per round, with a test
still_best(...)           what the shape in use loses under the newer acceptance
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import InputError
from ..base.tree import TokenTree
from .kinds import Acceptance, Chain, Counts, tau_interval

# Two sided; the usual level of a test.
LEVEL = 0.05


@dataclass(frozen=True)
class Drift:
    """Change of the tokens per round.

    before, after   tokens per round of the chain of k
    window          True when `after` is the difference of two snapshots of one server's counters
    z, p_value      of the difference, two-sided normal; None without counts
    significant     p_value below the level, None when it is not known
    """

    k: int
    before: float
    after: float
    change: float
    window: bool
    z: float | None
    p_value: float | None
    significant: bool | None
    level: float
    engines: tuple[EngineDrift, ...] = ()


@dataclass(frozen=True)
class EngineDrift:
    """Change of the tokens per round of one engine, up to the first snapshot and between the two.

    significant   at the level over all engines together (Bonferroni)
    """

    model: str | None
    engine: str | None
    before: float
    after: float
    change: float
    z: float | None
    p_value: float | None
    significant: bool | None


def window(earlier: Acceptance, later: Acceptance) -> Chain:
    """The acceptance of the rounds between two snapshots of one server's counters.

    Raises  InputError where there are no counters, they went backwards, or nothing happened in between.

    >>> def snapshot(n):
    ...     return Chain((0.5,), counts=Counts(rounds=n, accepted=n / 2, by_depth_rank=(((n / 2, n),),)))
    >>> window(snapshot(100), snapshot(300)).counts.rounds
    200
    """
    old, new = earlier.counts, later.counts
    if not (old and new and old.rounds and new.rounds and isinstance(earlier, Chain) and isinstance(later, Chain)):
        raise InputError("no counters to subtract", hint="two metrics pages with counters, as vLLM has them")
    rounds, accepted = _less(old.rounds, new.rounds, "rounds"), _less(old.accepted, new.accepted, "accepted tokens")
    if not rounds:
        raise InputError("nothing was drafted between the two snapshots", hint="wait longer, or send requests")
    reached = [
        _less(a, b, f"position {i}") or 0.0 for i, (a, b) in enumerate(zip(_reached(old), _reached(new)), 1)
    ] + list(_reached(new)[len(_reached(old)) :])
    counts = Counts(
        rounds=rounds,
        rounds_without_proposal=_less(old.rounds_without_proposal, new.rounds_without_proposal, "idle rounds"),
        drafted=_less(old.drafted, new.drafted, "drafted tokens"),
        accepted=accepted,
        by_depth_rank=_rows(rounds, reached),
    )
    about = {**later.about, "by_engine": list(_engines_between(earlier, later)) or None}
    return _chain_of(replace(later, about=about), counts, rounds, accepted, reached)


Row = Mapping[str, Any]


def _engines(acceptance: Acceptance) -> dict[tuple[Any, Any], Row]:
    rows = acceptance.about.get("by_engine")
    return {(row.get("model"), row.get("engine")): row for row in rows or () if isinstance(row, Mapping)}


def _engines_between(earlier: Acceptance, later: Acceptance) -> Iterator[Row]:
    """What each engine did between the two snapshots; one that is new did all of its counts.

    Raises  InputError where the counters of an engine went backwards, or it is gone.
    """
    old, new = _engines(earlier), _engines(later)
    if not old or not new:
        return
    for key in old:
        if key not in new:
            raise InputError(f"{_named(key)} is not in the second page", hint="two pages of the same server, please")
    for key, row in new.items():
        before = old.get(key, {})
        found = {name: _less(before.get(name), row.get(name), f"{_named(key)}: {name}") for name in _COUNTED}
        pairs = itertools.zip_longest(before.get("reached") or (), row.get("reached") or (), fillvalue=0.0)
        reached = [_less(a, b, f"{_named(key)}: position {i}") for i, (a, b) in enumerate(pairs, 1)]
        yield {"model": key[0], "engine": key[1], **found, "reached": reached}


_COUNTED = ("rounds", "drafted", "accepted")


def _named(key: tuple[Any, Any]) -> str:
    model, engine = key
    return f"engine {engine or '?'}" + (f" of {model}" if model else "")


def _of_engine(row: Row) -> Chain | None:
    """The acceptance that the counts of one engine make; None where it drafted nothing."""
    rounds, reached = row.get("rounds") or 0.0, [float(count) for count in row.get("reached") or ()]
    if not rounds:
        return None
    if reached:
        counts = Counts(rounds=rounds, by_depth_rank=_rows(rounds, reached))
        return Chain.from_survival([min(1.0, count / rounds) for count in reached], counts=counts)
    drafted, accepted = row.get("drafted") or 0.0, row.get("accepted") or 0.0
    k = max(1, math.ceil(drafted / rounds - 1e-9))
    return Chain.from_accept_length(min(1.0 + accepted / rounds, k + 1.0), k, counts=Counts(rounds=rounds))


def _chain_of(later: Chain, counts: Counts, rounds: float, accepted: float | None, reached: list[float]) -> Chain:
    tau = 1.0 + (sum(reached) if accepted is None else accepted) / rounds
    drafted = counts.drafted
    about = {
        **later.about,
        "tau": tau,
        "acceptance_rate": accepted / drafted if drafted and accepted is not None else None,
        "drafted_per_round": drafted / rounds if drafted else None,
    }
    about["interval"] = None  # the later page's own, of all rounds since the start
    about["warnings"] = counts.short_drafts(len(reached)) or None
    shared = {"counts": counts, "rule": later.rule, "temperature": later.temperature, "about": about}
    kept = (note for note in later.notes if not note.startswith("counters since"))
    notes = (*kept, "the difference of two snapshots: only the rounds between them")
    if reached:
        found = Chain.from_survival([min(1.0, count / rounds) for count in reached], notes=notes, **shared)
        bounds = tau_interval(found, TokenTree.chain(len(reached)))
        if bounds is not None:
            about["interval"] = {"low": bounds.low, "high": bounds.high, "se": bounds.se, "level": bounds.level}
        return found
    k = later.measured_depth
    if k is None:
        return Chain.constant(1.0 - 1.0 / tau, notes=notes, **shared)
    return Chain.from_accept_length(tau, k, notes=notes, **shared)


def _less(old: float | None, new: float | None, what: str) -> float | None:
    """new - old."""
    if old is None or new is None:
        return new
    if new < old:
        raise InputError(
            f"{what} went back from {old:g} to {new:g}",
            hint="the server was restarted in between, or the order is wrong: earlier first, later second",
        )
    return new - old


def _reached(counts: Counts) -> list[float]:
    """Rounds that accepted at least i tokens."""
    return [row[0][0] for row in counts.by_depth_rank]


def _rows(rounds: float, reached: list[float]) -> tuple[tuple[tuple[float, float], ...], ...]:
    rows, before = [], rounds
    for count in reached:
        if before <= 0:
            break
        rows.append(((min(count, before), before),))
        before = count
    return tuple(rows)


def is_snapshot_pair(before: Acceptance, after: Acceptance) -> bool:
    """Whether both are counters since the start of a server, as their dialect says."""
    dialects = {str(found.about.get("dialect", "")) for found in (before, after)}
    return len(dialects) == 1 and dialects.pop().endswith("-metrics") and None not in (before.counts, after.counts)


def drift(before: Acceptance, after: Acceptance, *, k: int | None = None, level: float = LEVEL) -> Drift:
    """Change of the tokens per round of the chain of k (default: the measured length that both know).

    Two metrics pages are snapshots of one server: what is compared is the first and the rounds between the two.
    The test takes rounds as independent of each other; rounds of one text resemble each other, so that small changes
    look surer than they are.
    Raises  InputError where counters went backwards.

    >>> a, b = (Chain.constant(p, counts=Counts(rounds=5000)) for p in (0.8, 0.7))
    >>> drift(a, b, k=3).significant
    True
    """
    paired = is_snapshot_pair(before, after)
    later: Acceptance = window(before, after) if paired else after
    length = k or min(_length(before), _length(later))
    old, new, z, p_value = _compared(before, later, TokenTree.chain(length))
    significant = None if p_value is None else p_value < level
    engines = tuple(_by_engine(before, later, level)) if paired else ()
    return Drift(length, old, new, new / old - 1.0, paired, z, p_value, significant, level, engines)


def _compared(
    before: Acceptance, after: Acceptance, chain: TokenTree
) -> tuple[float, float, float | None, float | None]:
    """Both tokens per round, z and p of their difference."""
    old, new = before.tau(chain), after.tau(chain)
    z = _z(before, after, chain, new - old)
    return old, new, z, None if z is None else math.erfc(abs(z) / math.sqrt(2.0))


def _by_engine(before: Acceptance, between: Acceptance, level: float) -> Iterator[EngineDrift]:
    """Each engine against itself, where there are several; those without rounds on either side are left out."""
    old, new = _engines(before), _engines(between)
    if len(new) < 2:
        return
    for (model, engine), row in new.items():
        first, second = _of_engine(old.get((model, engine), {})), _of_engine(row)
        if first is None or second is None:
            continue
        chain = TokenTree.chain(min(_length(first), _length(second)))
        was, now, z, p_value = _compared(first, second, chain)
        significant = None if p_value is None else p_value < level / len(new)
        yield EngineDrift(model, engine, was, now, now / was - 1.0, z, p_value, significant)


def _length(acceptance: Acceptance) -> int:
    """Chain length that was measured."""
    k = acceptance.about.get("k")
    known = acceptance.max_depth or getattr(acceptance, "measured_depth", None)
    return int(known or k or 8)


def _z(before: Acceptance, after: Acceptance, chain: TokenTree, change: float) -> float | None:
    intervals = [tau_interval(found, chain) for found in (before, after)]
    if None in intervals:
        return None
    se = math.sqrt(sum(found.se**2 for found in intervals if found is not None))
    if se == 0:
        return 0.0 if change == 0 else math.copysign(math.inf, change)
    return change / se
