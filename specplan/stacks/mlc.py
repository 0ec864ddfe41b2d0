"""MLC-LLM: chains; `draft_count` and `accept_count`.

Source: python/mlc_llm/serve/config.py, cpp/serve/config.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import InputError
from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .reading import Asked, Reading, added, histogram, objects_with
from .writing import draft_missing, named


def counts(data: Any, asked: Asked) -> Reading | None:
    """MLC-LLM's `draft_count` and `accept_count`; index 0 is the token that every round emits."""
    found = list(objects_with(data, "draft_count", "accept_count"))
    if not found:
        return None
    accepted, drafted = (added([_counts(entry[key]) for entry in found]) for key in ("accept_count", "draft_count"))
    if not accepted or not accepted[0]:
        raise InputError("accept_count[0] is 0: no rounds", hint="was speculation on?")
    return Reading(
        "mlc-metrics",
        "rounds by position that was accepted with all before it; the first entry is the token every round emits",
        rounds=accepted[0],
        reached=accepted[1:],
        accepted=sum(accepted[1:]),
        drafted=sum(drafted[1:]) or None,
    )


def _counts(given: Any) -> Sequence[float]:
    """A list, or a mapping of position to count."""
    return histogram(given if isinstance(given, list) else dict(given))


# ---- what it can run

METHODS = {"chain": "small_draft", "eagle": "eagle", "medusa": "medusa"}

_RECORD = Capability(
    "chain",
    tuple(METHODS),
    ("speculative_mode", "spec_draft_length", "spec_tree_width"),
    "python/mlc_llm/serve/config.py",
    note="a length of 0 means automatic, not off",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Settings of the engine, as --overrides takes them."""
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["speculative_mode"] = METHODS[wanted.method]
    settings |= {"spec_draft_length": wanted.longest, "spec_tree_width": 1}
    overrides = ";".join(f"{name}={value}" for name, value in settings.items() if name != "speculative_mode")
    mode = "" if wanted.method is None else f" --speculative-mode {settings['speculative_mode']}"
    draft = "" if wanted.draft is None else f" --additional-models {named(wanted.draft, 'DRAFT')}"
    command = f'mlc_llm serve {named(wanted.model, "MODEL")}{draft}{mode} --overrides "{overrides}"'
    return Export(settings, command=command, warnings=draft_missing(wanted))


STACK = Stack(
    name="mlc",
    title="MLC-LLM",
    read="0.20",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.mlc,
    shape=_chains_check.chain_of("spec_draft_length"),
    aliases=("mlc-llm", "mlc_llm"),
    start="mlc_llm serve {model}",
    jsons={"MLC-LLM counts": counts},
)
