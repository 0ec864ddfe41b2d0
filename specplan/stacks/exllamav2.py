"""ExLlamaV2: chains.

Source: exllamav2/generator/dynamic.py of 0.3.2.
"""

from __future__ import annotations

from typing import Any

from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .writing import draft_missing

# The generator's default; a longer draft is an assertion unless it is raised.
MAX_Q_SIZE = 8

_RECORD = Capability(
    "chain",
    ("chain", "ngram"),
    ("num_draft_tokens", "use_ngram_draft", "max_q_size"),
    "exllamav2/generator/dynamic.py @0.3.2",
    note="the length may not exceed max_q_size",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Arguments of ExLlamaV2DynamicGenerator."""
    settings: dict[str, Any] = {"num_draft_tokens": wanted.longest}
    if wanted.longest > MAX_Q_SIZE:
        settings["max_q_size"] = wanted.longest + 1
    if wanted.method == "ngram":
        settings["use_ngram_draft"] = True
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    draft = "" if wanted.method == "ngram" else "draft_model=draft, draft_cache=draft_cache, "
    command = f"ExLlamaV2DynamicGenerator(model=model, cache=cache, tokenizer=tokenizer, {draft}{arguments})"
    return Export(settings, command=command, warnings=draft_missing(wanted, wanted.method != "ngram"))


STACK = Stack(
    name="exllamav2",
    title="ExLlamaV2",
    read="0.3.2",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.exllamav2,
    shape=_chains_check.chain_of("num_draft_tokens"),
)
