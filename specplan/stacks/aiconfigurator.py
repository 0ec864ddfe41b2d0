"""NVIDIA aiconfigurator: `nextn` and the mean of accepted tokens.

Source: aiconfigurator/cli/main.py, sdk/speculative.py of 0.12.0.
"""

from __future__ import annotations

from typing import Any

from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .reading import Asked, Reading, number, objects_with
from .writing import flags, named, simulated


def accepted_tokens(data: Any, asked: Asked) -> Reading | None:
    """`nextn_accepted`: accepted drafted tokens a round, without the bonus token."""
    found = next(objects_with(data, "nextn_accepted"), None)
    if found is None:
        return None
    accepted = number(found, "nextn_accepted")
    if accepted is None:
        return None
    return Reading(
        "aiconfigurator",
        "nextn_accepted leaves the bonus token out: tokens per round are one more",
        tau=1.0 + accepted,
        k=int(number(found, "nextn") or 0) or None,
    )


# ---- what it can run

# Dynamo's mocker takes conditional rates of this many positions, padded with 0.
MOCKER_POSITIONS = 5

_RECORD = Capability(
    "chain",
    ("mtp", "eagle3"),
    ("nextn", "nextn_accepted"),
    "aiconfigurator/cli/main.py, aiconfigurator/sdk/speculative.py @0.12.0",
    since="0.12",
    note="accepted tokens leave the bonus token out; nextn_accept_rates is gone",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """nextn with the accepted tokens of a round, which it requires; conditional rates for Dynamo's mocker."""
    k, survival = wanted.longest, simulated(wanted, "nextn_accepted")
    settings = {"nextn": k, "nextn_accepted": round(sum(survival), 4)}
    notes = []
    if k <= MOCKER_POSITIONS:
        before = (1.0, *survival)
        rates = [round(after / first, 4) if first else 0.0 for first, after in zip(before, survival)]
        padded = ",".join(f"{rate:g}" for rate in [*rates, *[0.0] * (MOCKER_POSITIONS - k)])
        notes.append(f"Dynamo's mocker takes rates given the tokens before: --aic-nextn {k} "
                     f"--aic-nextn-accept-rates {padded}")  # fmt: skip
    command = f"aiconfigurator cli default --model-path {named(wanted.model, 'MODEL')} {flags(settings)}"
    return Export(settings, command=command, notes=tuple(notes))


STACK = Stack(
    name="aiconfigurator",
    title="NVIDIA aiconfigurator",
    read="0.12.0",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.aiconfigurator,
    shape=_chains_check.chain_of("nextn"),
    aliases=("aic",),
    start="aiconfigurator cli default --model-path {model}",
    jsons={"aiconfigurator": accepted_tokens},
)
