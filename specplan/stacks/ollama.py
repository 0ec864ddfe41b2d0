"""Ollama: a draft can be named in the Modelfile, its length cannot be set.

Source: ollama/ollama pull request 15980 (Modelfile DRAFT), issue 5800.
"""

from __future__ import annotations

from ..base.errors import DoesNotFit
from . import _chains_check
from .capability import Capability, Export, Stack, Wanted

_RECORD = Capability(
    "none",
    ("mtp",),
    (),
    "ollama/ollama, pull request 15980",
    note="no length and no tree can be set; DRAFT in the Modelfile names a draft, that is all",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """There is nothing to write."""
    raise DoesNotFit(f"ollama: {capability.note}")


STACK = Stack(
    name="ollama",
    title="Ollama",
    read="2026-09",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.nothing_to_set,
    start="ollama run {model}",
)
