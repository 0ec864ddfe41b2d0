"""LMDeploy: chains; metrics page and `spec_info` of responses.

Source: lmdeploy/cli/utils.py of 0.18.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import InputError
from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page, read_counters
from .reading import Asked, Reading, number, objects_with, total
from .writing import draft_missing, flags, named


def from_page(page: Page, asked: Asked) -> Reading | None:
    """LMDeploy's counters, named as vLLM's."""
    return read_counters(page, "lmdeploy", "lmdeploy-metrics", asked)


def spec_info(data: Any, asked: Asked) -> Reading | None:
    """`spec_info` of LMDeploy's responses; not every version counts the drafts."""
    found = [entry["spec_info"] for entry in objects_with(data, "spec_info") if isinstance(entry["spec_info"], Mapping)]
    if not found:
        return None
    drafted = total(found, "num_draft_tokens")
    accepted = total(found, "num_accepted_tokens")
    rounds = total(found, "num_drafts")
    means = [(number(entry, "num_accepted_tokens"), number(entry, "avg_accepted_per_step")) for entry in found]
    if rounds is None and all(count and mean for count, mean in means):
        rounds = float(round(sum(count / mean for count, mean in means if count and mean)))
    if rounds is None and drafted and asked.k:
        rounds = drafted / asked.k
    if rounds is None:
        raise InputError("spec_info does not say how many drafts there were", hint="add --measured-k K")
    return Reading(
        "lmdeploy-spec-info",
        "added up over responses; the mean length includes the bonus token",
        rounds=rounds,
        drafted=drafted,
        accepted=accepted,
        tau=number(found[0], "mean_acceptance_length", "mean_accept_length") if len(found) == 1 else None,
    )


# ---- what it can run

METHODS = {"eagle": "eagle", "eagle3": "eagle3", "mtp": "deepseek_mtp", "dflash": "dflash"}

_RECORD = Capability(
    "chain",
    tuple(METHODS),
    ("speculative_algorithm", "speculative_draft_model", "speculative_num_draft_tokens"),
    "lmdeploy/cli/utils.py @0.18.0",
    note="the default is 1 drafted token",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Flags of the api server."""
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["speculative_algorithm"] = METHODS[wanted.method]
    if wanted.draft is not None:
        settings["speculative_draft_model"] = wanted.draft
    settings["speculative_num_draft_tokens"] = wanted.longest
    notes = ("MTP of Qwen3.5 is qwen3_5_mtp, of HY3 hy3_mtp",) if wanted.method == "mtp" else ()
    command = f"lmdeploy serve api_server {named(wanted.model, 'MODEL')} --backend pytorch {flags(settings)}"
    warnings = draft_missing(wanted, wanted.method != "mtp")
    return Export(settings, command=command, notes=notes, warnings=warnings)


STACK = Stack(
    name="lmdeploy",
    title="LMDeploy",
    read="0.18.0",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.lmdeploy,
    shape=_chains_check.chain_of("speculative_num_draft_tokens"),
    start="lmdeploy serve api_server {model} --backend pytorch",
    pages=(from_page,),
    jsons={"LMDeploy spec_info": spec_info},
)
