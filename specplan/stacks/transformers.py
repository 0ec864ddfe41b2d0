"""Hugging Face transformers: chains of assisted generation, one sequence at a time.

Source: generation/candidate_generator.py, generation/configuration_utils.py of 5.24.0.
"""

from __future__ import annotations

from typing import Any

from ..errors import DoesNotFit
from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .writing import draft_missing

_RECORD = Capability(
    "chain",
    ("chain", "layerskip", "ngram", "mtp"),
    (
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
        "assistant_early_exit",
        "prompt_lookup_num_tokens",
    ),
    "generation/candidate_generator.py, generation/configuration_utils.py @5.24.0",
    note="one sequence at a time; older versions read the length from the assistant's own generation config",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """Arguments of `generate`. A fixed length: schedule constant, confidence threshold 0."""
    batch = max(wanted.batch, wanted.max_batch or 1)
    if batch > 1:
        raise DoesNotFit(f"transformers: assisted generation takes one sequence, not {batch}", hint="--batch 1")
    settings = _settings(wanted)
    named = {"assistant_model": "assistant"} if wanted.method in (None, "chain") else {}
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    extra = "".join(f", {name}={value}" for name, value in named.items())
    command = f"model.generate(**inputs{extra}, {arguments})"
    notes = ("the default schedule changes the length, and the default threshold 0.4 stops drafting early",)
    warnings = draft_missing(wanted, wanted.method in (None, "chain"))
    return Export(settings, command=command, notes=() if wanted.method == "ngram" else notes, warnings=warnings)


def _settings(wanted: Wanted) -> dict[str, Any]:
    if wanted.method == "ngram":
        return {"prompt_lookup_num_tokens": wanted.longest}
    settings: dict[str, Any] = {
        "num_assistant_tokens": wanted.longest,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    if wanted.method == "mtp":
        return {"use_mtp": True, **settings}
    if wanted.method == "layerskip":
        if wanted.exit_layer is None:
            raise DoesNotFit("transformers: the exit layer is not known", hint="--exit-layer 8")
        settings["assistant_early_exit"] = wanted.exit_layer
    return settings


STACK = Stack(
    name="transformers",
    title="Hugging Face transformers",
    read="5.24.0",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.transformers,
    shape=_chains_check.chain_of("num_assistant_tokens", "prompt_lookup_num_tokens"),
    aliases=("hf", "huggingface", "hf-transformers"),
)
