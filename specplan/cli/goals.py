"""The options of the deadline and of the price -> what the answer says about them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..base import units
from ..base.errors import InputError
from . import options, scenes, values


@dataclass(frozen=True)
class Asked:
    """What was asked beside the tree.

    deadline   of a burst, None when none was asked for
    price      of a token, None where neither a price nor a power is known
    priced     True when a price was given: the table is printed then
    """

    deadline: Any
    price: Any
    priced: bool


def asked(place: scenes.Scene, goal: options.Goal, answer: Any, costs: Any, limits: Any, acceptance: Any) -> Asked:
    """The deadline and the price of the recommended shape, beside those of plain decoding."""
    cost = _price(place, goal, answer, costs)
    return Asked(_deadline(place, goal, answer, costs, limits, acceptance), cost, goal.price_per_hour is not None)


def _deadline(place: scenes.Scene, goal: options.Goal, answer: Any, costs: Any, limits: Any, acceptance: Any) -> Any:
    burst = _burst(goal)
    if burst is None:
        return None
    from ..acceptance.kinds import Mixture
    from ..base.tree import TokenTree
    from ..planning.deadline import deadline

    chosen = answer.recommended or answer.plain
    tree = TokenTree.from_parents(chosen.parents, chosen.ranks)
    place.inputs.update(
        tokens=burst.tokens, deadline_s=burst.deadline_s, percentile=burst.percentile, ttft_s=burst.ttft_s
    )
    first = (
        "time to the first token 0: the clock starts with it" if goal.ttft is None else f"first token at {goal.ttft}"
    )
    place.assumptions.append((f"{first}; it comes from the prefill and is not one of the {burst.tokens}", "--ttft"))
    if acceptance is not None:
        context = ", the context drawn anew for each" if isinstance(acceptance, Mixture) else ""
        place.assumptions.append((f"rounds of a burst are independent{context}, and last equally long", "tail.py"))
    return deadline(burst, acceptance, limits, costs, chosen=tree, best=answer.legal or answer.best)


def _burst(goal: options.Goal) -> Any:
    if goal.tokens is None:
        for option, value in (("--deadline", goal.deadline), ("--percentile", goal.percentile), ("--ttft", goal.ttft)):
            if value is not None:
                raise InputError(f"{option} needs the length of the burst", hint="add --tokens 60")
        return None
    from ..planning.deadline import Burst

    tokens = values.positive("--tokens", goal.tokens)
    deadline_s = values.read("--deadline", goal.deadline, units.parse_time)
    percentile = 0.99 if goal.percentile is None else values.read("--percentile", goal.percentile, _percentile)
    ttft_s = values.read("--ttft", goal.ttft, units.parse_time) or 0.0
    return Burst(tokens, deadline_s, percentile or 0.0, ttft_s)


def _percentile(text: str) -> float:
    """A share from `99`, `99.9`, `99%` or `p99`.

    >>> _percentile("p99"), _percentile("95%")
    (0.99, 0.95)
    """
    try:
        return round(float(text.strip().removeprefix("p").removesuffix("%")) / 100, 12)
    except ValueError:
        raise InputError(f"{text[:40]!r} is not a percentile", hint="write 99, 99.9 or p95") from None


def _price(place: scenes.Scene, goal: options.Goal, answer: Any, costs: Any) -> Any:
    an_hour = values.read("--price-per-hour", goal.price_per_hour, units.parse_count)
    if an_hour is not None and not 0 <= an_hour < math.inf:
        raise InputError(f"--price-per-hour {goal.price_per_hour} is negative", hint="--price-per-hour 2.5")
    if an_hour is not None and costs.relative:
        raise InputError("--price-per-hour needs seconds", hint="give the verification curve in ms or s")
    from ..planning.price import Rates, price, watts_of

    watts = None if place.hardware is None else watts_of(place.hardware)
    if costs.relative or (an_hour is None and watts is None):
        return None
    if an_hour is not None:
        _say_of_price(place, an_hour, watts)
    speculative = None if answer.recommended is None else answer.recommended.tokens_per_s
    devices = place.load.tp
    return price(Rates(speculative, answer.plain.tokens_per_s), devices=devices, price_per_hour=an_hour, watts=watts)


def _say_of_price(place: scenes.Scene, an_hour: float, watts: float | None) -> None:
    place.inputs["price_per_hour"] = an_hour
    place.assumptions.append(
        (f"price of a device and hour {an_hour:g}, times --tp {place.load.tp}, busy all the time", "--price-per-hour")
    )
    if watts is not None:
        text = f"energy at the full {watts:g} W of a device: an upper bound, waiting for memory draws less"
        place.assumptions.append((text, f"profile {place.hardware.name}, power"))
