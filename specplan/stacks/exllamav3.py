"""ExLlamaV3: chains.

Source: exllamav3/generator/generator.py, draft_confidence.py of 1.6.5.
"""

from __future__ import annotations

from typing import Any

from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .writing import draft_missing

_RECORD = Capability(
    "chain",
    ("chain", "mtp"),
    ("num_draft_tokens", "dynamic_draft_tokens"),
    "exllamav3/generator/generator.py @1.6.5",
    note="dynamic_draft_tokens stops drafting where the draft is unsure",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Arguments of Generator: a fixed length."""
    settings: dict[str, Any] = {"num_draft_tokens": wanted.longest, "dynamic_draft_tokens": False}
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    command = (
        "Generator(model=model, cache=cache, tokenizer=tokenizer, draft_model=draft, draft_cache=draft_cache, "
        f"{arguments})"
    )
    return Export(settings, command=command, warnings=draft_missing(wanted, wanted.method != "mtp"))


STACK = Stack(
    name="exllamav3",
    title="ExLlamaV3",
    read="1.6.5",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.exllamav3,
    shape=_chains_check.chain_of("num_draft_tokens"),
)
