"""What a token costs in money and in energy.

    price_per_mtok   = price_per_hour * devices / 3600 / tokens_per_s * 1e6
    joules_per_token = watts * devices / tokens_per_s

Watts are the device's power limit (or its datasheet power): an upper bound, since a pass that waits for memory
seldom draws it. Both follow tokens per second of all sequences together.

>>> answer = price(Rates(246.0, 78.0), devices=1, price_per_hour=2.0, watts=400.0)
>>> round(answer.price_per_mtok, 2), round(answer.plain_price_per_mtok, 2), round(answer.joules_per_token, 2)
(2.26, 7.12, 1.63)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base.errors import InputError

if TYPE_CHECKING:
    from ..hardware.profile import Hardware

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of all sequences together: with speculation (None: not known) and without."""

    tokens_per_s: float | None
    plain_tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Price:
    """Money and energy of a token, with speculation and without.

    devices           that share the model; price and power are times this
    watts             of one device; None when its profile has no power
    joules_per_token  an upper bound: at the full power of every device
    """

    devices: int
    price_per_hour: float | None
    watts: float | None
    price_per_mtok: float | None
    joules_per_token: float | None
    plain_price_per_mtok: float | None
    plain_joules_per_token: float | None


def price(rates: Rates, *, devices: int, price_per_hour: float | None, watts: float | None) -> Price:
    """Price of a million tokens and joules of one.

    price_per_hour   of one device, in any currency
    watts            of one device
    Raises           InputError for a price or a power that is none
    """
    for value, what in ((price_per_hour, "price per hour"), (watts, "power")):
        if value is not None and not 0 <= value < math.inf:
            raise InputError(f"a {what} of {value:g}", hint=f"a {what} is a number from 0 up")
    fast, plain = rates.tokens_per_s, rates.plain_tokens_per_s
    an_hour = None if price_per_hour is None else price_per_hour * devices
    power = None if watts is None else watts * devices
    return Price(
        devices,
        price_per_hour,
        watts,
        _per_mtok(an_hour, fast),
        _per_token(power, fast),
        _per_mtok(an_hour, plain),
        _per_token(power, plain),
    )


def _per_token(per_second: float | None, tokens_per_s: float | None) -> float | None:
    return None if per_second is None or not tokens_per_s else per_second / tokens_per_s


def _per_mtok(per_hour: float | None, tokens_per_s: float | None) -> float | None:
    each = _per_token(None if per_hour is None else per_hour / SECONDS_PER_HOUR, tokens_per_s)
    return None if each is None else each * 1e6


def watts_of(hardware: Hardware) -> float | None:
    """The power limit in force, else that of the datasheet, in W; None when the profile has neither."""
    return hardware.power.limit if hardware.power.limit is not None else hardware.power.tdp
