"""AMD ATOM: chains; metrics page and `/debug/mtp_stats`.

Source: atom/model_engine/arg_utils.py (2026-09).
"""

from __future__ import annotations

from typing import Any

from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page
from .reading import Asked, Reading, number, objects_with
from .writing import draft_missing, flags, named, simulated_length


def from_page(page: Page, asked: Asked) -> Reading | None:
    """ATOM's mean tokens of a forward pass."""
    mean = page.mean("atom:mtp_average_tokens_per_forward")
    return None if mean is None else Reading("atom-metrics", _ATOM, tau=mean)


_ATOM = "mean tokens of a forward pass, bonus token included: no counts, so no interval"


def mtp_stats(data: Any) -> Reading | None:
    """ATOM's `/debug/mtp_stats`."""
    found = next(objects_with(data, "average_tokens_per_forward"), None)
    if found is None:
        return None
    return Reading("atom-mtp-stats", _ATOM, tau=number(found, "average_tokens_per_forward"))


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
    start="python -m atom.entrypoints.openai_server --model {model}",
    pages=(from_page,),
    jsons={"ATOM mtp_stats": mtp_stats},
)
