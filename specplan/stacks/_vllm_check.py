"""What vLLM makes of a hand-written speculative config.

Source: vllm/config/speculative.py and vllm/v1/spec_decode/dynamic/utils.py of 0.11.0, 0.20.2 and 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..search.space import Dynamic
from . import _vllm_token_tree
from ._numbers_check import names, outside, rates_problem, whole
from ._paths_check import shape_of, unknown_settings
from .capability import Capability, Problem, number
from .settings_text import SERVER, around, own

SCHEDULE = "num_speculative_tokens_per_batch_size"
FLAGS = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}
ALWAYS = names(
    "enforce_eager num_speculative_tokens model method draft_tensor_parallel_size quantization max_model_len revision "
    "code_revision disable_padded_drafter_batch prompt_lookup_max prompt_lookup_min"
)
SINCE_0_20 = names(
    "tensor_parallel_size moe_backend use_local_argmax_reduction parallel_drafting suffix_decoding_max_tree_depth "
    "suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor suffix_decoding_min_token_prob "
    "draft_load_config rejection_sample_method synthetic_acceptance_rates synthetic_acceptance_length"
)
SINCE_0_21 = names(
    "attention_backend kv_cache_dtype index_share_for_mtp_iteration disable_eagle_block_drop "
    "disable_lookahead_block_hashes draft_lm_head_quantization use_heterogeneous_vocab enable_adaptive_verification "
    "draft_sample_method dspark_draft_topk xpress_topc fly_window_size fly_entropy_threshold fly_entropy_top_k"
)
METHODS = names("ngram ngram_gpu draft_model suffix custom_class eagle eagle3 mtp dflash dspark extract_hidden_states")
OLD_METHODS = ("medusa", "mlp_speculator")
# Drafted from the text or by the target itself: no draft model has to be named.
WITHOUT_MODEL = ("ngram", "ngram_gpu", "suffix", "mtp", "extract_hidden_states", "dspark")
SIGNS = (*FLAGS, "speculative_token_tree", "disable_by_batch_size", "prompt_lookup_max", "prompt_lookup_min")


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """Problems of a config of that version; what is set around it is named server.NAME."""
    given, clashes = _with_flags(settings)
    at = number(version)
    return [
        *clashes,
        *_unknown(given, at),
        *_length(given, settings),
        *_method(given, at),
        *_synthetic(given),
        *(_schedule(given, settings) if at > (0, 21, 0) else []),
        *(_vllm_token_tree.check(given, capability, version) if at < (0, 21) else []),
    ]


def shape(settings: Mapping[str, Any]) -> Dynamic | None:
    """A chain, or the uniform tree of the older versions."""
    given, _ = _with_flags(settings)
    k = whole(given, "num_speculative_tokens")
    if "speculative_token_tree" in given:
        return shape_of("speculative_token_tree")(given)
    return None if k is None else Dynamic(k, 1, k)


def _with_flags(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The config with what --spec-method, --spec-model and --spec-tokens say, which clash with its keys."""
    given, problems = own(settings), []
    for flag, key in FLAGS.items():
        for name in (flag, SERVER + flag):
            if name not in settings:
                continue
            given.pop(flag, None)
            if key in given:
                text = f"--{flag.replace('_', '-')} and the key {key} both say it"
                problems.append(Problem("refused", key, text))
            given[key] = settings[name]
    return given, problems


def _unknown(given: Mapping[str, Any], at: tuple[int, ...]) -> list[Problem]:
    known = [*ALWAYS]
    known += SINCE_0_20 if at >= (0, 20) else ()
    known += SINCE_0_21 if at >= (0, 21) else ("speculative_token_tree",)
    known += (SCHEDULE,) if at > (0, 21, 0) else ()
    known += ("disable_by_batch_size",) if at < (0, 12) else ()
    gone = {
        "speculative_token_tree": "token trees were removed in 0.21 (PR #42121): chains alone are run",
        "disable_by_batch_size": f"gone after 0.11; {SCHEDULE} with a length of 0 for large batches takes its place",
        "tensor_parallel_size": "no key of the draft: draft_tensor_parallel_size",
        SCHEDULE: "lengths by batch size came after 0.21.0",
    }
    problems = [Problem("refused", name, gone[name]) for name in given if name in gone and name not in known]
    if "tensor_parallel_size" in given and "tensor_parallel_size" in known:
        problems.append(Problem("refused", "tensor_parallel_size", gone["tensor_parallel_size"]))
    rest = {name: value for name, value in given.items() if name not in gone}
    return problems + unknown_settings(rest, known, "the speculative config")


def _length(given: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Problem]:
    name = "num_speculative_tokens"
    if name not in given:
        return [Problem("refused", name, "has to be given, unless the draft's own config has n_predict")]
    problems = outside(given, name, 1, None, "refused when the config is read")
    if problems:
        return problems
    k, most = given[name], around(settings, "n_predict")
    if type(most) is int and k > most and k % most:
        text = f"{k} is above the draft's n_predict {most} and no multiple of it"
        problems.append(Problem("refused", name, text))
    draft_tp, tp = given.get("draft_tensor_parallel_size"), around(settings, "tensor_parallel_size", 1)
    if draft_tp is not None and draft_tp not in (1, tp):
        text = f"{draft_tp}: 1, or the target's {tp}"
        problems.append(Problem("refused", "draft_tensor_parallel_size", text))
    low, high = given.get("prompt_lookup_min", 1), given.get("prompt_lookup_max")
    if type(low) is int and type(high) is int and low > high:
        problems.append(Problem("refused", "prompt_lookup_min", f"{low} is above prompt_lookup_max {high}"))
    return problems


def _method(given: Mapping[str, Any], at: tuple[int, ...]) -> list[Problem]:
    method = given.get("method")
    if method is None:
        if given.get("model") is None:
            return [Problem("refused", "method", "neither a method nor a model is named")]
        return []
    known = (*METHODS, *(OLD_METHODS if at < (0, 21) else ()))
    if method in OLD_METHODS and method not in known:
        return [Problem("refused", "method", f"{method} was in 0.20.2 and is gone in 0.33.0")]
    if method not in known and not str(method).endswith("_mtp"):
        from ..base.errors import did_you_mean

        text = f"{str(method)[:40]!r} is not known; {did_you_mean(str(method), known, otherwise=', '.join(known))}"
        return [Problem("refused", "method", text)]
    if given.get("model") is None and method not in WITHOUT_MODEL and not str(method).endswith("_mtp"):
        return [Problem("refused", "model", f"{method} drafts with a model, and none is named")]
    return []


def _synthetic(given: Mapping[str, Any]) -> list[Problem]:
    rates, length = given.get("synthetic_acceptance_rates"), given.get("synthetic_acceptance_length")
    k, way = whole(given, "num_speculative_tokens"), given.get("rejection_sample_method")
    if way != "synthetic":
        found = [name for name in ("synthetic_acceptance_rates", "synthetic_acceptance_length") if name in given]
        text = "is valid with rejection_sample_method synthetic alone"
        return [Problem("refused", name, text) for name in found]
    if (rates is None) == (length is None):
        return [Problem("refused", "rejection_sample_method", "synthetic needs rates or a length, and not both")]
    if rates is not None:
        return rates_problem("synthetic_acceptance_rates", rates, k)
    most = None if k is None else float(k + 1)
    return outside(given, "synthetic_acceptance_length", 1.0, most, "tokens of a round, the bonus token included")


def _schedule(given: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Problem]:
    """Ranges of batch sizes: looked at when the scheduler starts, not when the config is read."""
    if given.get(SCHEDULE) is None:
        return []
    entries = given[SCHEDULE]
    if not isinstance(entries, (list, tuple)) or not entries:
        kind = "a map is an early form and refused now" if isinstance(entries, Mapping) else "no list of ranges"
        return [Problem("refused", SCHEDULE, f"{kind}: [[first, last, K], ...]")]
    for entry in entries:
        wrong = _wrong_range(entry)
        if wrong:
            return [Problem("refused", SCHEDULE, f"{str(entry)[:40]}: {wrong}")]
    ranges = sorted(tuple(entry) for entry in entries)
    if ranges[0][0] != 1:
        return [Problem("refused", SCHEDULE, f"the first range begins at {ranges[0][0]}, not at 1")]
    for before, after in zip(ranges, ranges[1:]):
        if after[0] <= before[1]:
            text = f"ranges {list(before)} and {list(after)} overlap"
            return [Problem("refused", SCHEDULE, text)]
    return [*_of_ranges(ranges, given), *_of_server(ranges, settings)]


def _wrong_range(entry: Any) -> str:
    if not isinstance(entry, (list, tuple)) or len(entry) != 3 or not all(type(value) is int for value in entry):
        return "a range is three whole numbers, first, last and K"
    first, last, k = entry
    if first < 1 or last < first:
        return "batches of a range are positive and rise"
    return "K is below 0" if k < 0 else ""


def _of_ranges(ranges: list[tuple[int, ...]], given: Mapping[str, Any]) -> list[Problem]:
    problems = []
    for before, after in zip(ranges, ranges[1:]):
        if after[0] > before[1] + 1:
            text = f"batches {before[1] + 1} to {after[0] - 1} are in no range: K {before[2]} goes on there"
            problems.append(Problem("silent" if before[2] else "note", SCHEDULE, text))
    k, most = whole(given, "num_speculative_tokens"), max(entry[2] for entry in ranges)
    if k is not None and most > k:
        text = f"K {most} is above num_speculative_tokens {k}, to which it is cut"
        problems.append(Problem("silent", SCHEDULE, text))
    if k is not None and most < k:
        text = f"num_speculative_tokens {k} is above every K of the ranges: the longest draft is {most}"
        problems.append(Problem("note", SCHEDULE, text))
    return problems


def _of_server(ranges: list[tuple[int, ...]], settings: Mapping[str, Any]) -> list[Problem]:
    problems = []
    largest = around(settings, "max_num_seqs", around(settings, "max_batch"))
    last, tail = ranges[-1][1], ranges[-1][2]
    if tail and type(largest) is int and largest > last:
        text = f"batches {last + 1} to {largest} are in no range: K {tail} goes on there, it is not switched off"
        problems.append(Problem("silent", SCHEDULE, text))
    elif tail and largest is None:
        text = f"above batch {last} K {tail} goes on; a last range with K 0 switches it off"
        problems.append(Problem("note", SCHEDULE, text))
    replicas = around(settings, "data_parallel_size", 1)
    if type(replicas) is int and replicas > 1:
        problems.append(Problem("silent", SCHEDULE, "switched off under data parallelism, with a warning in the log"))
    return problems
