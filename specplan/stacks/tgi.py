"""Text Generation Inference: chains of Medusa heads or n-grams; metrics page.

Source: launcher/src/main.rs, router/src/server.rs.
"""

from __future__ import annotations

from ..base.errors import InputError
from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page
from .reading import Asked, Reading
from .writing import named


def from_page(page: Page, asked: Asked) -> Reading | None:
    """`tgi_request_skipped_tokens`: tokens of a step beyond the first."""
    steps = page.total("tgi_request_skipped_tokens_count")
    skipped = page.total("tgi_request_skipped_tokens_sum")
    if steps is None or skipped is None:
        return None
    return Reading(
        "tgi-metrics",
        "tokens of a step beyond the first, over all steps, those without a draft included",
        rounds=steps,
        accepted=skipped,
        histogram=_histogram(page, steps),
    )


def _histogram(page: Page, steps: float) -> tuple[float, ...]:
    """Steps by skipped tokens from the buckets `le` 0, 1, .., speculate, () where the router has other buckets.

    Raises  InputError where the buckets fall, or hold more steps than there were.
    """
    given = {edge[0]: count for edge, count in page.grouped("tgi_request_skipped_tokens_bucket", "le").items()}
    edges = sorted((float(edge), count) for edge, count in given.items() if edge.replace(".", "", 1).isdigit())
    counts = [count for _, count in edges]
    if not edges or [edge for edge, _ in edges] != list(range(len(edges))) or counts[-1] < steps:
        return ()
    if counts != sorted(counts) or counts[-1] > steps:
        raise InputError("the buckets of tgi_request_skipped_tokens do not add up", hint="is the page complete?")
    return tuple(here - below for here, below in zip(counts, [0.0, *counts]))


# ---- what it can run

_RECORD = Capability(
    "chain",
    ("medusa", "ngram"),
    ("speculate",),
    "launcher/src/main.rs",
    note="top-1 of each Medusa head; batches above 128 tokens skip it; no more tokens than heads",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The launcher's one number."""
    command = f"text-generation-launcher --model-id {named(wanted.model, 'MODEL')} --speculate {wanted.longest}"
    notes = ("a model without Medusa heads is served with n-grams",)
    return Export({"speculate": wanted.longest}, command=command, notes=notes)


STACK = Stack(
    name="tgi",
    title="Text Generation Inference",
    read="3.3",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.tgi,
    shape=_chains_check.chain_of("speculate"),
    aliases=("text-generation-inference",),
    start="text-generation-launcher --model-id {model}",
    pages=(from_page,),
)
