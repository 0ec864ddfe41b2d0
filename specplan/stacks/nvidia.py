"""Model-Optimizer's `speculation_profile.json` and `acceptance_rate.json`; aiconfigurator's `nextn_accepted`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..acceptance.kinds import to_number
from ..acceptance.rules import RULES
from ..base.errors import InputError
from .reading import Asked, Reading, check_stated, histogram, length_of, number, objects_with

# Drafters that plan the whole block at once: another K is another block.
_BLOCK = ("dflash", "dspark")


# What a profile says of the whole run; a category has its own of all the other keys.
_OF_THE_RUN = (
    "num_speculative_tokens",
    "method",
    "verification_method",
    "accept_length_model",
    "measurement_conditions",
)


def speculation_profile(data: Any, asked: Asked) -> Reading | None:
    """`speculation_profile.json`, schema 1.0: rates given the earlier positions, survival, length by K, histogram.

    `asked.served` names one of its categories; without it the whole run is taken and the categories' lengths are kept.
    """
    if not isinstance(data, Mapping) or not {"conditional_accept_rates", "marginal_accept_rates"} & data.keys():
        return None
    if data.get("measured") is False:
        raise InputError("the profile was not measured: a placeholder", hint="measured is false in the file")
    categories = {str(name): _of_category(data, entry) for name, entry in (data.get("per_category") or {}).items()}
    if asked.served is None:
        lengths = {name: _length(_read(category)) for name, category in categories.items()}
        whole = _read(data)
        return replace(whole, about=dict(whole.about) | ({"by_category": lengths} if lengths else {}))
    if asked.served not in categories:
        there = f"there: {', '.join(categories)[:200]}" if categories else "the profile has none: leave the name out"
        raise InputError(f"no category {asked.served[:60]!r} in the profile", hint=there)
    chosen = _read(categories[asked.served])
    return replace(chosen, about=dict(chosen.about) | {"workload": asked.served}, served=asked.served)


def _length(reading: Reading) -> float | None:
    """Tokens per round as stated, else from the rates."""
    return reading.tau or (1.0 + math.fsum(reading.survival) if reading.survival else None)


def _of_category(data: Mapping[str, Any], entry: Any) -> Mapping[str, Any]:
    """A category as a profile of its own; a bare number is its mean length."""
    own = dict(entry) if isinstance(entry, Mapping) else {"mean_accept_length": entry}
    return {key: data[key] for key in _OF_THE_RUN if key in data} | own


def _read(data: Mapping[str, Any]) -> Reading:
    tau = number(data, "mean_accept_length", "mean_acceptance_length")
    survival = tuple(float(rate) for rate in data.get("marginal_accept_rates") or _products(data))
    _agree(survival, _products(data))
    counts = data.get("acceptance_length_histogram")
    steps = number(data, "decode_steps", "num_decode_steps")
    k = length_of(data, "num_speculative_tokens")
    by_k = {int(length): float(value) for length, value in (data.get("accept_length_by_k") or {}).items()}
    if tau is not None and k in by_k:
        check_stated(by_k[k], tau, f"accept_length_by_k at {k}", _MEANS)
    model = data.get("accept_length_model")
    model = model or ("measured_per_k" if str(data.get("method")).casefold() in _BLOCK else None)
    whole = histogram(counts, tau=tau) if counts else ()
    counted = bool(whole) and all(value.is_integer() for value in whole)
    method = data.get("verification_method")
    return Reading(
        "nvidia-speculation-profile",
        "rates by position over all verification steps; the mean length includes the bonus token",
        tau=tau,
        k=k,
        rounds=None if counted else steps,
        survival=survival,
        histogram=_padded(whole, k) if counted else (),
        resolution=0.0005,
        printed=_MEANS,
        by_k=by_k,
        per_k=model == "measured_per_k",
        extends=model == "chain_analytic",
        rule=method if method in RULES else None,
        temperature=_temperature(data),
        about=_kept(data, model),
        notes=(f"verification method {method}",) if method and method not in RULES else (),
        warnings=("block verification does not accept a longest prefix: rates by position do not describe it",)
        if method == "block"
        else (),
    )


_MEANS = 0.01


def _padded(counts: tuple[float, ...], k: int | None) -> tuple[float, ...]:
    """Lengths that never occurred are left out of the file."""
    return counts + (0.0,) * ((k or 0) + 1 - len(counts))


def _kept(data: Mapping[str, Any], model: Any) -> dict[str, Any]:
    conditions = data.get("measurement_conditions")
    workload = {"workload": dict(conditions)} if isinstance(conditions, Mapping) and conditions else {}
    return ({"accept_length_model": str(model)} if model else {}) | workload


def _temperature(data: Mapping[str, Any]) -> float | None:
    conditions = data.get("measurement_conditions")
    given = conditions.get("temperature") if isinstance(conditions, Mapping) else None
    return float(given) if isinstance(given, (int, float)) and 0 <= given < 1e3 else None


def _products(data: Mapping[str, Any]) -> tuple[float, ...]:
    found: list[float] = []
    for rate in data.get("conditional_accept_rates") or []:
        found.append((found[-1] if found else 1.0) * float(rate))
    return tuple(found)


def _agree(survival: tuple[float, ...], products: tuple[float, ...]) -> None:
    for i, (a, b) in enumerate(zip(survival, products), 1):
        if abs(a - b) > 0.002 * (i + 1):
            raise InputError(
                f"position {i}: survival {a:g}, but the rates given the earlier ones multiply to {b:.4g}",
                hint="marginal and conditional rates contradict each other",
            )


def acceptance_rate(data: Any, asked: Asked) -> Reading | None:
    """`acceptance_rate.json`: the keys of its histogram count the tokens of a step, so 1 is none accepted."""
    found = next(objects_with(data, "Acceptance_Length_Histogram"), None)
    if found is None:
        return None
    average = number(found, "Average_AL")
    counts = histogram(found["Acceptance_Length_Histogram"], from_one=True)
    _check_joint(found.get("Joint_Acceptance_Rate"), counts)
    mean = f"; Average_AL {average:g} is a mean over requests and not used" if average else ""
    return Reading("nvidia-acceptance-rate", f"tokens of every verification step, bonus token included{mean}",
                   histogram=counts)  # fmt: skip


def _check_joint(joint: Any, counts: tuple[float, ...]) -> None:
    """Shares of steps with at least so many tokens, against the histogram."""
    rounds = sum(counts)
    for key, stated in joint.items() if isinstance(joint, Mapping) and rounds else ():
        if str(key).isdigit() and int(key) >= 1:
            counted = sum(counts[int(key) - 1 :]) / rounds
            check_stated(to_number(stated, "a rate"), counted, f"Joint_Acceptance_Rate of {key} tokens", 0.001)
