"""AMD ATOM: chains; metrics page and `/debug/mtp_stats`.

Source: atom/model_engine/arg_utils.py (2026-09).
"""

from __future__ import annotations

from typing import Any

from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page
from .reading import Asked, Reading, histogram, number, objects_with
from .writing import draft_missing, flags, named, simulated_length


def from_page(page: Page, asked: Asked) -> Reading | None:
    """ATOM's steps by accepted tokens, or its mean tokens of a forward pass."""
    steps = page.grouped("atom:mtp_decode_steps", "accepted_tokens")
    counts = {key[0]: count for key, count in steps.items() if key[0].isdigit()}
    mean = page.mean("atom:mtp_average_tokens_per_forward")
    if counts:
        return _counted("atom-metrics", mean, counts, page.total("atom:mtp_draft_tokens"), None)
    return None if mean is None else _counted("atom-metrics", mean, None, None, None)


def mtp_stats(data: Any, asked: Asked) -> Reading | None:
    """ATOM's `/debug/mtp_stats`; the keys of its distribution are accepted tokens of a step."""
    found = next(objects_with(data, "average_tokens_per_forward"), None)
    if found is None:
        return None
    mean, rate = number(found, "average_tokens_per_forward"), number(found, "acceptance_rate")
    return _counted("atom-mtp-stats", mean, found.get("distribution"), number(found, "total_draft_tokens"), rate)


def _counted(dialect: str, mean: float | None, counts: Any, drafted: float | None, rate: float | None) -> Reading:
    meaning = "mean tokens of a forward pass, bonus token included"
    if not counts:
        return Reading(dialect, f"{meaning}: no counts, so no interval", tau=mean)
    return Reading(
        dialect,
        f"{meaning}; steps by accepted tokens",
        tau=mean,
        histogram=histogram(counts),
        drafted=drafted,
        rate=rate,
    )


# ---- what it can run

_RECORD = Capability(
    "chain",
    ("mtp", "eagle3", "dspark"),
    ("method", "num_speculative_tokens", "draft_model"),
    "atom/model_engine/arg_utils.py (2026-09)",
    synthetic=True,
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Flags of the server; simulated acceptance counts the bonus token."""
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["method"] = wanted.method
    settings["num_speculative_tokens"] = wanted.longest
    if wanted.draft is not None:
        settings["draft_model"] = wanted.draft
    if wanted.synthetic:
        settings["spec_decode_acceptance_length"] = simulated_length(wanted)
    command = f"python -m atom.entrypoints.openai_server --model {named(wanted.model, 'MODEL')} {flags(settings)}"
    return Export(settings, command=command, warnings=draft_missing(wanted, wanted.method == "eagle3"))


STACK = Stack(
    name="atom",
    title="AMD ATOM",
    read="2026-09",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.atom,
    shape=_chains_check.chain_of("num_speculative_tokens"),
    start="python -m atom.entrypoints.openai_server --model {model}",
    pages=(from_page,),
    jsons={"ATOM mtp_stats": mtp_stats},
)
