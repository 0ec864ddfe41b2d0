"""Hugging Face transformers: chains of assisted generation, one sequence at a time.

Source: generation/candidate_generator.py, generation/configuration_utils.py of 5.24.0.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import DoesNotFit, InputError
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
    note="one sequence at a time; the length is read from the generation config of the model that drafts",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """What the drafting model's generation config has to hold, or the argument of `generate` for n-grams.

    The length, the schedule and the threshold are read from the config of the model that drafts; as arguments of
    `generate` they are ignored without a word. A fixed length needs the schedule constant and the threshold 0.
    """
    batch = max(wanted.batch, wanted.max_batch or 1)
    if batch > 1:
        raise DoesNotFit(f"transformers: assisted generation takes one sequence, not {batch}", hint="--batch 1")
    if wanted.method == "ngram":
        settings: dict[str, Any] = {"prompt_lookup_num_tokens": wanted.longest}
        return Export(settings, command=f"model.generate(**inputs, prompt_lookup_num_tokens={wanted.longest})")
    if wanted.method == "mtp":
        note = f"the length is the checkpoint's num_mtp_layers, which has to be {wanted.longest}"
        return Export({"use_mtp": True}, command="model.generate(**inputs, use_mtp=True)", notes=(note,))
    fixed = {
        "num_assistant_tokens": wanted.longest,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    drafting, argument, settings = "assistant", "assistant_model=assistant", dict(fixed)
    if wanted.method == "layerskip":
        if wanted.exit_layer is None:
            raise InputError("transformers: the exit layer is not known", hint="--exit-layer 8")
        drafting, argument = "model", f"assistant_early_exit={wanted.exit_layer}"
        settings["assistant_early_exit"] = wanted.exit_layer
    values = ", ".join(f"{name}={value!r}" for name, value in fixed.items())
    command = f"{drafting}.generation_config.update({values}); model.generate(**inputs, {argument})"
    notes = (f"read from the generation config of the {drafting}; given to generate() they are ignored silently",)
    return Export(settings, command=command, notes=notes, warnings=draft_missing(wanted, drafting == "assistant"))


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
