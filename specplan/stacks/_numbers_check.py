"""Numbers in hand-written settings: what is no number, and what lies outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .capability import Problem


def names(text: str) -> tuple[str, ...]:
    """Names that stand in one text."""
    return tuple(text.split())


def whole(settings: Mapping[str, Any], name: str) -> int | None:
    """The setting as a whole number, None where it is none or not there."""
    value = settings.get(name)
    return value if type(value) is int else None


def outside(settings: Mapping[str, Any], name: str, low: float, high: float | None, does: str) -> list[Problem]:
    """Refused where the setting is there and no number in [low, high]; `does` is what the stack does."""
    if name not in settings:
        return []
    value = settings[name]
    span = f"at least {low:g}" if high is None else f"in [{low:g}, {high:g}]"
    kind = "a whole number" if isinstance(low, int) else "a number"
    fits = type(value) is int or (type(value) is float and not isinstance(low, int))
    if fits and low <= value and (high is None or value <= high):
        return []
    return [Problem("refused", name, f"{str(value)[:30]!r} is not {kind} {span}: {does}")]


def one_of(settings: Mapping[str, Any], name: str, known: tuple[str, ...], does: str) -> list[Problem]:
    """Refused where the setting is there and none of the known values."""
    from ..base.errors import did_you_mean

    if name not in settings or settings[name] in known:
        return []
    hint = did_you_mean(str(settings[name]), known, otherwise="one of " + ", ".join(known))
    return [Problem("refused", name, f"{str(settings[name])[:40]!r} is not known; {hint}: {does}")]


def rates_problem(setting: str, given: Any, length: int | None) -> list[Problem]:
    """Simulated acceptance by position: as many as drafted tokens, in [0, 1], never rising."""
    try:
        rates = [float(part) for part in given.split(",")] if isinstance(given, str) else given
    except ValueError:
        rates = None
    if not isinstance(rates, list) or not all(isinstance(rate, (int, float)) and 0 <= rate <= 1 for rate in rates):
        return [Problem("refused", setting, "rates are numbers in [0, 1]")]
    if length is not None and len(rates) != length:
        return [
            Problem("refused", setting, f"{len(rates)} rates for {length} drafted tokens; exactly as many are needed")
        ]
    if any(after > before for before, after in zip(rates, rates[1:])):
        return [Problem("refused", setting, "the rates rise; they are shares of rounds that accept at least that many")]
    return []
