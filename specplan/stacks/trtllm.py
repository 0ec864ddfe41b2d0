"""TensorRT-LLM: chains with lengths by batch size, or trees built anew every round; its statistics and metrics.

Source: tensorrt_llm/llmapi/llm_args.py of 1.4.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import DoesNotFit
from ..search.space import Dynamic
from . import _trtllm_check, _trtllm_static
from .capability import Capability, Export, Stack, Wanted
from .prometheus import Page, positions
from .reading import PRINTED, Asked, Reading, check_stated, number, objects_with, total
from .writing import draft_missing, longest_alone, merged, method_missing, named, simulated_length


def iteration_stats(data: Any, asked: Asked) -> Reading | None:
    """`specDecodingStats` of one or many iterations; every request of an iteration is a round."""
    found = [
        entry
        for entry in objects_with(data, "numRequestsWithDraftTokens")
        if number(entry, "numRequestsWithDraftTokens")
    ]
    if not found:
        return None
    for i, entry in enumerate(found, 1):
        length, accepted = number(entry, "acceptanceLength"), number(entry, "numAcceptedTokens")
        rounds = number(entry, "numRequestsWithDraftTokens")
        if length and rounds and accepted is not None:
            check_stated(length, 1 + accepted / rounds, f"iteration {i}: acceptanceLength", PRINTED)
    return Reading(
        "trtllm-iteration-stats",
        "accepted tokens + requests over requests with drafts is the tokens per round, bonus token included",
        rounds=total(found, "numRequestsWithDraftTokens"),
        drafted=total(found, "numDraftTokens"),
        accepted=total(found, "numAcceptedTokens"),
    )


def from_page(page: Page, asked: Asked) -> Reading | None:
    """Counters by token position, or the gauge of the mean length."""
    prefix = "trtllm_spec_decode"
    drafted = positions(page, f"{prefix}_drafted_tokens", "token_position")
    accepted = positions(page, f"{prefix}_accepted_tokens", "token_position")
    length = page.mean(f"{prefix}_acceptance_length") or page.mean("trtllm_avg_decoded_tokens_per_iter")
    counted = page.total(f"{prefix}_num_accepted_tokens")
    if accepted and counted is not None:
        check_stated(counted, sum(accepted), "accepted tokens", 0.5)
    if drafted and drafted[0]:
        return Reading(
            "trtllm-metrics",
            "a position's counters are accepted over drafted there: where every draft has its full length this is the "
            "share of rounds in which it and all before it were accepted",
            rounds=drafted[0],
            drafted=sum(drafted),
            accepted=sum(accepted),
            reached=accepted,
            k=len(drafted),
        )
    if length is None:
        return None
    return Reading("trtllm-metrics", "a gauge of the mean length, bonus token included: no interval", tau=length)


# ---- what it can run

METHODS = {
    "chain": "Draft_Target",  # DraftTarget before 1.3
    "eagle": "Eagle3",
    "eagle3": "Eagle3",
    "mtp": "MTP",
    "ngram": "NGram",
    "dflash": "DFlash",
    "dspark": "DSpark",
}
_DYNAMIC = Capability(
    "dynamic",
    tuple(METHODS),
    (
        "decoding_type",
        "speculative_model",
        "max_draft_len",
        "use_dynamic_tree",
        "dynamic_tree_max_topK",
        "max_total_draft_tokens",
        "draft_len_schedule",
    ),
    "tensorrt_llm/llmapi/llm_args.py @1.4",
    since="1.4",
    pool="linear",
    tree_methods=("eagle", "eagle3", "mtp"),
    schedule="upper_keys",
    synthetic=True,
    note="trees with Eagle3 and MTP; not with sliding windows, MLA or grammars (TensorRT-LLM#18892)",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The `speculative_config` of the --config file."""
    if capability is _trtllm_static.STATIC:
        return _trtllm_static.export(wanted, capability, version)
    at = wanted.dynamic or Dynamic(wanted.longest, 1, wanted.longest)
    settings: dict[str, Any] = {}
    if wanted.method is not None:
        settings["decoding_type"] = METHODS[wanted.method]
    settings["max_draft_len"] = at.steps
    if wanted.draft is not None and wanted.method != "ngram":
        settings["speculative_model"] = wanted.draft
    notes = [*longest_alone(wanted)]
    if at.topk > 1:
        settings |= {
            "use_dynamic_tree": True,
            "dynamic_tree_max_topK": at.topk,
            "max_total_draft_tokens": at.nodes,
        }
        notes.append("trees are refused with sliding windows and MLA, and break grammar-guided decoding")
    if wanted.schedule:
        settings["draft_len_schedule"] = draft_len_schedule(wanted)
        notes.append(
            f"above batch {max(settings['draft_len_schedule'])} speculation is off; max_concurrency must be unset"
        )
    if wanted.method == "mtp":
        notes.append("a length above num_nextn_predict_layers is cut to it, unless one MTP layer is run repeatedly")
    warnings = () if wanted.method in ("mtp", "ngram") else draft_missing(wanted)
    warnings += method_missing(wanted, "decoding_type")
    environment = {}
    if wanted.synthetic:
        accepted = round(simulated_length(wanted) - 1, 4)
        environment["TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"] = str(accepted)
        notes.append("forced acceptance counts without the bonus token; older versions take whole numbers alone")
    command = f"trtllm-serve {named(wanted.model, 'MODEL')} --config config.yaml"
    return Export(
        settings,
        {"config.yaml": _trtllm_static.yaml_of(settings)},
        command,
        environment,
        notes=tuple(notes),
        warnings=warnings,
    )


def draft_len_schedule(wanted: Wanted) -> dict[int, int]:
    """Largest batch -> length; above the last key it is off, so that a tail of 0 is left out."""
    ranges = list(merged(wanted.schedule, wanted.max_batch))
    while ranges and not ranges[-1].k:
        ranges.pop()
    if ranges[0].k != wanted.longest:
        raise DoesNotFit(
            f"trtllm: the smallest batches draft {ranges[0].k} tokens, later ones {wanted.longest}; "
            "the first length has to be max_draft_len, the largest",
            hint="--lower cuts the later lengths to the first" if ranges[0].k else "begin the schedule with a length",
        )
    return {entry.last: entry.k for entry in ranges}


STACK = Stack(
    name="trtllm",
    title="TensorRT-LLM",
    read="1.4",
    capabilities=(_DYNAMIC, _trtllm_static.STATIC),
    export=export,
    check=_trtllm_check.check,
    shape=_trtllm_check.shape,
    signs=_trtllm_check.SIGNS,
    aliases=("tensorrt-llm", "tensorrt_llm"),
    start="trtllm-serve {model}",
    pages=(from_page,),
    jsons={"TensorRT-LLM statistics": iteration_stats},
)
