"""What TensorRT-LLM makes of a hand-written speculative_config. Source: tensorrt_llm/llmapi/llm_args.py up to 1.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..search.space import Dynamic
from . import _trtllm_static
from ._numbers_check import names, outside, whole
from ._paths_check import shape_of, unknown_settings
from .capability import Capability, Problem, number
from .settings_text import around, own

DEPTH, TOPK, NODES = "max_draft_len", "dynamic_tree_max_topK", "max_total_draft_tokens"
SCHEDULE, FORCED = "draft_len_schedule", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS"
TYPES = names(
    "MTP Eagle Eagle3 NGram DraftTarget Draft_Target PARD DFlash DSpark SA AUTO User_Provided "
    "SaveState Lookahead Medusa"
)
BASE = names(
    "decoding_type max_draft_len max_total_draft_tokens speculative_model speculative_model_dir max_concurrency "
    "draft_len_schedule load_format acceptance_rate_window_size acceptance_rate_threshold use_rejection_sampling "
    "allow_advanced_sampling advanced_sampling_mode enable_penalty"
)
EAGLE = names(
    "greedy_sampling posterior_threshold use_dynamic_tree dynamic_tree_max_topK num_eagle_layers "
    "max_non_leaves_per_layer eagle3_one_model eagle3_layers_to_capture eagle3_model_arch sa_config"
)
OTHERS = {
    "MTP": names(
        "num_nextn_predict_layers use_relaxed_acceptance_for_thinking relaxed_topk relaxed_delta use_mtp_vanilla "
        "mtp_eagle_one_model use_dynamic_tree dynamic_tree_max_topK sa_config "
        "num_nextn_predict_layers_from_model_config begin_thinking_phase_token end_thinking_phase_token"
    ),
    "NGram": names("max_matching_ngram_size is_keep_all is_use_oldest is_public_pool"),
    "Medusa": names("medusa_choices num_medusa_heads"),
    "SA": names("max_matching_ngram_size enable_global_pool global_pool_size"),
}
WITH_DRAFT = ("Eagle", "Eagle3", "DraftTarget", "Draft_Target", "PARD", "DFlash", "DSpark")
SIGNS = (FORCED, "medusa_choices", "speculative_model_dir", "use_dynamic_tree", "num_nextn_predict_layers")


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """Problems of the config of that version; what is set around it is named server.NAME."""
    given = {name: value for name, value in own(settings).items() if name != FORCED}
    at = number(version)
    kind = given.get("decoding_type")
    problems = _unknown(given, kind, at)
    problems += outside(given, DEPTH, 0 if kind in ("MTP", "AUTO") else 1, None, "ValueError when it is read")
    problems += _of_the_type(given, kind)
    problems += _dynamic(given)
    problems += _schedule(given)
    problems += _forced(settings, given)
    if at <= (1, 3):
        problems += _trtllm_static.check(given, capability, version)
    return problems


def shape(settings: Mapping[str, Any]) -> Dynamic | None:
    """A chain, or steps, topk and nodes of a dynamic tree."""
    for name in ("eagle_choices", "medusa_choices"):
        if name in settings:
            return shape_of(name)(settings)
    steps, topk = whole(settings, DEPTH), whole(settings, TOPK)
    if steps is None:
        return None
    if not settings.get("use_dynamic_tree") or topk is None:
        return Dynamic(steps, 1, steps)
    nodes = whole(settings, NODES)
    return Dynamic(steps, topk, topk * steps if nodes is None else nodes)


def _unknown(given: Mapping[str, Any], kind: Any, at: tuple[int, ...]) -> list[Problem]:
    gone = {"eagle_choices": "removed for 1.4 (PR #18210)", "medusa_choices": "the TensorRT backend is gone"}
    problems = [
        Problem("refused", name, f"{text}: static trees have no form; use_dynamic_tree or a chain")
        for name, text in gone.items()
        if name in given and at > (1, 3)
    ]
    if kind is None:
        problems.append(Problem("refused", "decoding_type", "it says which method the other keys are for"))
    elif kind not in TYPES or (kind in ("Medusa", "Lookahead") and at > (1, 3)):
        problems.append(Problem("refused", "decoding_type", f"{str(kind)[:30]!r} is none of {', '.join(TYPES[:12])}"))
    extra = EAGLE if kind in ("Eagle", "Eagle3") else OTHERS.get(str(kind), ())
    known = [*BASE, *extra, *(("eagle_choices",) if kind in ("Eagle", "Eagle3") else ()), *gone]
    if (
        kind is not None
        and kind in TYPES
        and kind not in ("AUTO", "PARD", "DFlash", "DSpark", "User_Provided", "SaveState")
    ):
        problems += unknown_settings(given, known, f"the config of {kind}")
    return problems


def _of_the_type(given: Mapping[str, Any], kind: Any) -> list[Problem]:
    problems = []
    if kind in WITH_DRAFT and not {"speculative_model", "speculative_model_dir"} & given.keys():
        problems.append(Problem("refused", "speculative_model", f"{kind} needs a draft model"))
    if kind not in ("MTP", "AUTO", None) and DEPTH not in given and "eagle_choices" not in given:
        problems.append(Problem("refused", DEPTH, f"{kind} needs the number of drafted tokens"))
    if kind == "MTP" and "num_nextn_predict_layers" in given:
        problems.append(Problem("note", "num_nextn_predict_layers", f"the older name: {DEPTH}"))
    return problems


def _dynamic(given: Mapping[str, Any]) -> list[Problem]:
    topk, steps, nodes = whole(given, TOPK), whole(given, DEPTH), whole(given, NODES)
    if not given.get("use_dynamic_tree"):
        if given.get(TOPK) is None:
            return []
        return [Problem("silent", TOPK, "is ignored with a warning: use_dynamic_tree: true turns trees on")]
    if "eagle_choices" in given:
        return [Problem("refused", "eagle_choices", "not together with use_dynamic_tree")]
    if topk is None or topk < 1:
        return [Problem("refused", TOPK, "has to be above 0 with use_dynamic_tree")]
    if steps is not None and nodes is not None and not steps <= nodes <= topk * steps:
        text = f"{nodes} is not in [{steps}, {topk * steps}], from {DEPTH} to topK x {DEPTH}"
        return [Problem("refused", NODES, text)]
    problems = []
    if topk == 1:
        problems.append(Problem("note", TOPK, "1 takes the path of chains (PR #15842)"))
    if given.get("sa_config") is not None or given.get("use_relaxed_acceptance_for_thinking"):
        problems.append(Problem("refused", "use_dynamic_tree", "not with a suffix automaton or relaxed acceptance"))
    return problems


def _schedule(given: Mapping[str, Any]) -> list[Problem]:
    entries, most = given.get(SCHEDULE), whole(given, DEPTH)
    if entries is None:
        return []
    if not isinstance(entries, Mapping) or not entries:
        return [Problem("refused", SCHEDULE, "a map of largest batch sizes to lengths, {4: 4, 16: 2}")]
    try:
        by_batch = {int(str(key)): value for key, value in entries.items()}
    except ValueError:
        return [Problem("refused", SCHEDULE, "a key is the largest batch size of a range, a whole number")]
    if min(by_batch) < 1 or not all(type(k) is int and k >= 0 for k in by_batch.values()):
        return [Problem("refused", SCHEDULE, "batch sizes are above 0, lengths whole numbers from 0")]
    problems, first = [], min(by_batch)
    if most is not None and by_batch[first] != most:
        text = f"the length of its smallest key {first} is {by_batch[first]} and has to be {DEPTH}, {most}"
        problems.append(Problem("refused", SCHEDULE, text))
    if most is not None and max(by_batch.values()) > most:
        text = f"length {max(by_batch.values())} is above {DEPTH} {most}"
        problems.append(Problem("refused", SCHEDULE, text))
    if given.get("max_concurrency") is not None:
        problems.append(Problem("refused", SCHEDULE, "not together with max_concurrency"))
    last = max(by_batch)
    text = f"a key is the largest batch of its range; above {last} speculation is off"
    return [*problems, Problem("note", SCHEDULE, text)]


def _forced(settings: Mapping[str, Any], given: Mapping[str, Any]) -> list[Problem]:
    value, most = around(settings, FORCED), whole(given, DEPTH)
    if value is None or most is None:
        return []
    accepted = float(value)
    problems = outside({FORCED: accepted}, FORCED, 0.0, float(most), "accepted tokens, the bonus token not counted")
    if not accepted.is_integer():
        problems.append(Problem("note", FORCED, "older versions take whole numbers alone"))
    return problems
