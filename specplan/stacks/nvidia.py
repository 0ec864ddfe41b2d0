"""Model-Optimizer's `speculation_profile.json` and `acceptance_rate.json`; aiconfigurator's `nextn_accepted`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from .reading import Reading, histogram, number, objects_with

_KEPT = ("accept_length_model",)


def speculation_profile(data: Any) -> Reading | None:
    """`speculation_profile.json`, schema 1.0: rates given the earlier positions, survival, length by K, histogram."""
    if not isinstance(data, Mapping) or not {"conditional_accept_rates", "marginal_accept_rates"} & data.keys():
        return None
    tau = number(data, "mean_accept_length", "mean_acceptance_length")
    survival = tuple(float(rate) for rate in data.get("marginal_accept_rates") or _products(data))
    _agree(survival, _products(data))
    counts = data.get("acceptance_length_histogram")
    steps = number(data, "decode_steps", "num_decode_steps")
    by_k = {int(k): float(value) for k, value in (data.get("accept_length_by_k") or {}).items()}
    about = {key: data[key] for key in _KEPT if data.get(key)}
    if by_k:
        about["accept_length_by_k"] = {str(k): value for k, value in sorted(by_k.items())}
    whole = histogram(counts, tau=tau) if counts else ()
    counted = bool(whole) and all(value.is_integer() for value in whole)
    return Reading(
        "nvidia-speculation-profile",
        "rates by position over all verification steps; the mean length includes the bonus token",
        tau=tau,
        k=int(number(data, "num_speculative_tokens") or 0) or None,
        rounds=None if counted else steps,
        survival=survival,
        histogram=whole if counted else (),
        resolution=0.0005,
        printed=0.01,
        rule=_text(data.get("verification_method")),
        about=about,
        notes=("another K was not measured: lengths at other K may not be extrapolated",)
        if data.get("accept_length_model") == "measured_per_k"
        else (),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


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


def acceptance_rate(data: Any) -> Reading | None:
    """`acceptance_rate.json`: the keys of its histogram count the tokens of a step, so 1 is none accepted."""
    found = next(objects_with(data, "Acceptance_Length_Histogram"), None)
    if found is None:
        return None
    average = number(found, "Average_AL")
    counts = histogram(found["Acceptance_Length_Histogram"], from_one=True)
    mean = f"; Average_AL {average:g} is a mean over requests and not used" if average else ""
    return Reading("nvidia-acceptance-rate", f"tokens of every verification step, bonus token included{mean}",
                   histogram=counts)  # fmt: skip
