"""What SGLang makes of hand-written flags.

Source: srt/arg_groups/fields/spec.py, srt/arg_groups/speculative_hook.py and
srt/speculative/adaptive_spec_params.py of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..search.space import Dynamic
from ._numbers_check import names, outside, whole
from ._paths_check import unknown_settings
from .capability import Capability, Problem
from .exporting import pool_size
from .settings_text import around

STEPS, TOPK, TOKENS = "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"
ADAPTIVE = "speculative_adaptive_config"
DRAFT = "speculative_draft_model_path"
ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")
TREES = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
# Backends that draft a tree whose pages hold more than one token.
PAGED = ("flashinfer", "fa3", "triton")
DEFAULT_REQUESTS = 48
FLAGS = names(
    "accept_threshold_acc accept_threshold_single adaptive adaptive_config algorithm attention_mode dflash_block_size "
    "domino_candidate_pool_size draft_attention_backend draft_kv_cache_dtype draft_load_format draft_model "
    "draft_model_path draft_model_quantization draft_model_revision draft_sink_size draft_window_size "
    "dsa_topk_backend dspark_align_verify_tokens_to_graph_tier dspark_block_size dspark_confidence_sts_path "
    "dspark_sps_table_path eagle_topk enable_w4a4_mxfp4_megamoe moe_a2a_backend moe_runner_backend ngram_capacity "
    "ngram_external_corpus_max_tokens ngram_external_corpus_path ngram_external_sam_budget ngram_match_type "
    "ngram_max_bfs_breadth ngram_max_trie_depth ngram_min_bfs_breadth num_draft_tokens num_steps token_map "
    "use_block_verification use_rejection_sampling"
)
SIGNS = (
    "speculative_algo",
    "speculative_adaptive",
    "speculative_dspark_sps_table_path",
    "SGLANG_SIMULATE_ACC_LEN",
    "candidate_steps",
    "1",
)


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """Problems of flags; a file of lengths by batch size may stand in place of its name, or alone."""
    given = _renamed(settings)
    if given and all(str(name).isdecimal() or isinstance(value, Mapping) for name, value in given.items()):
        return _tiers(given)
    algorithm = str(given.get("speculative_algorithm", "EAGLE")).upper()
    problems = [
        *_unknown(given),
        *[
            problem
            for name in (STEPS, TOPK, TOKENS)
            for problem in outside(given, name, 0, None, "argparse refuses it")
        ],
        *_simulated(given),
    ]
    if algorithm in TREES:
        problems += _tree(given, algorithm)
    elif algorithm in ("DFLASH", "DSPARK"):
        problems += _block(given, algorithm)
    elif algorithm == "NGRAM":
        problems += _ngram(given)
    elif algorithm == "UNO":
        problems += _uno(given)
    problems += _adaptive(given, algorithm)
    return problems + _requests(given)


def shape(settings: Mapping[str, Any]) -> Dynamic | None:
    """Steps, topk and nodes; the root is one of the draft tokens."""
    given = _renamed(settings)
    steps, topk, tokens = (whole(given, name) for name in (STEPS, TOPK, TOKENS))
    if steps is None or topk is None:
        return None
    return Dynamic(steps, 1, steps) if topk == 1 else None if tokens is None else Dynamic(steps, topk, tokens - 1)


def _renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """argparse takes a flag that is cut short, if only one begins like that."""
    found = {}
    for name, value in settings.items():
        full = [flag for flag in FLAGS if f"speculative_{flag}".startswith(name)]
        exact = name.removeprefix("speculative_") in FLAGS
        found[f"speculative_{full[0]}" if len(full) == 1 and not exact and len(name) > 12 else name] = value
    return found


def _unknown(given: Mapping[str, Any]) -> list[Problem]:
    ours = {name: value for name, value in given.items() if name.startswith(("spec", "mtp", "nextn", "draft"))}
    problems = unknown_settings(ours, [f"speculative_{flag}" for flag in FLAGS] + ["spec_trace_dir"], "SGLang")
    if "enable_prefix_caching" in given:
        text = "SGLang has no such flag, it is vLLM's; the radix cache is on unless --disable-radix-cache"
        problems.append(Problem("refused", "enable_prefix_caching", text))
    algorithm = given.get("speculative_algorithm")
    if algorithm is not None and str(algorithm).upper() not in ALGORITHMS:
        text = f"{str(algorithm)[:30]!r} is none of {', '.join(ALGORITHMS)}, and no plugin is known by that name"
        problems.append(Problem("refused", "speculative_algorithm", text))
    if algorithm is None and any(name in given for name in (STEPS, TOPK, TOKENS)):
        problems.append(Problem("silent", "speculative_algorithm", "is not set: speculation is off, whatever else is"))
    return problems


def _tree(given: Mapping[str, Any], algorithm: str) -> list[Problem]:
    """The three numbers of EAGLE and its kin."""
    there = [name for name in (STEPS, TOPK, TOKENS) if given.get(name) is not None]
    adaptive = bool(given.get("speculative_adaptive"))
    if not there and not adaptive:
        text = "none of the three numbers is set: Llama and Grok get 5 steps, topk 4, 8 tokens, all others 3, 1, 4"
        return [Problem("note", STEPS, text)]
    if STEPS not in there and not adaptive:
        return [Problem("refused", STEPS, f"{', '.join(there)} without the number of steps: a bare AssertionError")]
    if TOPK not in there and not adaptive:
        return [Problem("refused", TOPK, "steps without topk: TypeError, None is compared with a number")]
    steps, topk, tokens = (whole(given, name) for name in (STEPS, TOPK, TOKENS))
    problems = _branches(given, topk)
    if algorithm in ("EAGLE3", "STANDALONE") and not {DRAFT, "speculative_draft_model"} & given.keys():
        problems.append(Problem("note", DRAFT, f"is not set: {algorithm} drafts with a checkpoint of its own"))
    if topk == 1 and steps is not None and tokens is not None and tokens != steps + 1:
        text = f"{tokens} becomes {steps + 1}: with topk 1 it is forced to the steps and the root"
        problems.append(Problem("silent", TOKENS, text))
    if steps is not None and topk is not None and topk > 1:
        problems += _pool(steps, topk, tokens)
    if given.get("speculative_use_rejection_sampling") and topk not in (None, 1):
        problems.append(Problem("refused", "speculative_use_rejection_sampling", f"needs topk 1, not {topk}"))
    if given.get("speculative_use_rejection_sampling") and algorithm == "STANDALONE":
        problems.append(Problem("refused", "speculative_use_rejection_sampling", "EAGLE, EAGLE3 and NEXTN alone"))
    return problems


def _pool(steps: int, topk: int, tokens: int | None) -> list[Problem]:
    if tokens is None:
        return [Problem("refused", TOKENS, "is not set: with topk above 1 nothing chooses it")]
    pool = pool_size("square", Dynamic(steps, topk, tokens - 1))
    if tokens - 1 > pool:
        text = (
            f"{tokens - 1} nodes and the root out of a pool of topk + (steps - 1) topk^2 = {pool}: "
            "it starts, then 'selected index k out of range' while drafting"
        )
        return [Problem("refused", TOKENS, text)]
    if tokens - 1 < steps:
        text = f"{tokens - 1} nodes for {steps} steps: the deepest levels can never be kept, their passes are lost"
        return [Problem("silent", TOKENS, text)]
    return []


def _branches(given: Mapping[str, Any], topk: int | None) -> list[Problem]:
    if topk is None or topk < 2:
        return []
    backend, page = given.get("attention_backend"), whole(given, "page_size")
    if backend == "trtllm_mha":
        return [Problem("refused", TOPK, f"the backend trtllm_mha takes topk 1, not {topk}")]
    if page is not None and page > 1 and backend not in PAGED:
        text = (
            f"pages of {page} tokens with topk {topk}: flashinfer, fa3 and triton alone, not {backend or 'the default'}"
        )
        return [Problem("refused", "page_size", text)]
    return []


def _block(given: Mapping[str, Any], algorithm: str) -> list[Problem]:
    """DFLASH and DSPARK draft a block in one pass."""
    problems = []
    for name in (STEPS, TOPK):
        value = whole(given, name)
        if value not in (None, 1):
            problems.append(Problem("silent", name, f"{value} becomes 1: {algorithm} drafts a block in one pass"))
    block = whole(given, f"speculative_{algorithm.lower()}_block_size")
    tokens = whole(given, TOKENS)
    expected = block if algorithm == "DFLASH" or block is None else block + 1
    if expected is not None and tokens is not None and tokens != expected:
        text = f"{tokens}, but the block size {block} asks for {expected}"
        problems.append(Problem("refused", TOKENS, text))
    if algorithm == "DSPARK" and tokens is not None and tokens < 2:
        problems.append(Problem("refused", TOKENS, f"{tokens} is below 2, one drafted token and the root"))
    if not {"speculative_draft_model_path", "speculative_draft_model"} & given.keys():
        problems.append(Problem("refused", "speculative_draft_model_path", f"{algorithm} needs a draft model"))
    return problems + _cost_table(given)


def _cost_table(given: Mapping[str, Any]) -> list[Problem]:
    table = given.get("speculative_dspark_sps_table_path")
    if not isinstance(table, Mapping):
        return []
    tokens = table.get("sample_batch_tokens")
    if not isinstance(tokens, list) or any(after <= before for before, after in zip(tokens, tokens[1:])):
        return [Problem("refused", "sample_batch_tokens", "the numbers of tokens have to rise")]
    return []


def _ngram(given: Mapping[str, Any]) -> list[Problem]:
    topk, breadth = whole(given, TOPK), given.get("speculative_ngram_max_bfs_breadth", 10)
    problems = outside(given, "speculative_ngram_max_bfs_breadth", 1, 10, "refused")
    if topk is not None and topk != breadth:
        text = f"{topk} becomes {breadth}, the value of --speculative-ngram-max-bfs-breadth"
        problems.append(Problem("silent", TOPK, text))
    return problems


def _uno(given: Mapping[str, Any]) -> list[Problem]:
    steps, topk, width = whole(given, STEPS) or 0, whole(given, TOPK) or 1, whole(given, TOKENS)
    if width is None or width < 1:
        return [Problem("refused", TOKENS, "UNO needs the width of its verification pass")]
    if topk > 1 and not steps + 1 <= width <= 128:
        return [Problem("refused", TOKENS, f"{width} is not in [{steps + 1}, 128] (steps + 1 to 128)")]
    if topk > 1 and width * topk > 2048:
        return [Problem("refused", TOKENS, f"{width} x {topk} = {width * topk} is above 2048")]
    return []


def _adaptive(given: Mapping[str, Any], algorithm: str) -> list[Problem]:
    """Lengths by batch size."""
    if not given.get("speculative_adaptive"):
        if given.get(ADAPTIVE) is None:
            return []
        return [Problem("silent", ADAPTIVE, "is not read without --speculative-adaptive")]
    name, topk = "speculative_adaptive", whole(given, TOPK)
    if algorithm not in ("EAGLE", "EAGLE3", "NEXTN"):
        return [Problem("silent", name, f"switched off: it is for EAGLE, EAGLE3 and NEXTN, not {algorithm}")]
    if topk not in (None, 1):
        return [Problem("silent", name, f"switched off: it is for topk 1, not {topk}")]
    for flag in ("enable_two_batch_overlap", "enable_pdmux", "enable_multi_layer_eagle", "enable_dp_attention"):
        if given.get(flag):
            return [Problem("silent", name, f"switched off under --{flag.replace('_', '-')}")]
    if not isinstance(given.get(ADAPTIVE), Mapping):
        return []
    problems = _tiers(given[ADAPTIVE])
    steps = whole(given, STEPS)
    candidates = _candidates(given[ADAPTIVE])
    if steps is not None and candidates and steps not in candidates:
        problems.append(Problem("refused", STEPS, f"{steps} is none of the candidate steps {sorted(candidates)}"))
    return problems


def _candidates(tiers: Mapping[str, Any]) -> set[int]:
    found: set[int] = set()
    for key, tier in tiers.items():
        steps = tier.get("candidate_steps") if isinstance(tier, Mapping) and str(key).isdecimal() else None
        found |= set(steps) if isinstance(steps, list) else set()
    return found


def _tiers(tiers: Mapping[str, Any]) -> list[Problem]:
    problems = []
    keys = [key for key in tiers if str(key).isdecimal()]
    if not keys:
        text = f"no key is a batch size: {', '.join(map(str, list(tiers)[:4]))[:60]}"
        return [Problem("refused", ADAPTIVE, f'{text}; keys are smallest batch sizes, such as "1" and "5"')]
    for key in tiers:
        if not str(key).isdecimal() and any(character.isdecimal() for character in str(key)):
            text = (
                f"key {str(key)[:20]!r} is no whole number: it is taken as a default for all, and its lengths are lost"
            )
            problems.append(Problem("silent", ADAPTIVE, text))
    for key in keys:
        steps = tiers[key].get("candidate_steps") if isinstance(tiers[key], Mapping) else None
        if not isinstance(steps, list) or not steps or not all(type(k) is int and k >= 0 for k in steps):
            text = f"batch {key}: candidate_steps is a list of whole numbers from 0"
            return [*problems, Problem("refused", ADAPTIVE, text)]
        if len(set(steps)) > 1:
            text = f"batch {key}: several candidates {steps} adapt by themselves; one is a fixed length"
            problems.append(Problem("note", ADAPTIVE, text))
    first = min(map(int, keys))
    if first > 1:
        text = f"batches below {first} use its lengths too: a key is the smallest batch, the first should be 1"
        problems.append(Problem("silent", ADAPTIVE, text))
    return problems


def _simulated(given: Mapping[str, Any]) -> list[Problem]:
    length, steps = given.get("SGLANG_SIMULATE_ACC_LEN"), whole(given, STEPS)
    if length is None or steps is None:
        return []
    name = "SGLANG_SIMULATE_ACC_LEN"
    return outside({name: float(length)}, name, 1.0, float(steps + 1), "tokens of a round, the bonus token included")


def _requests(given: Mapping[str, Any]) -> list[Problem]:
    if "max_running_requests" in given or not given.get("speculative_algorithm"):
        return []
    text = f"is not set: with speculation it becomes {DEFAULT_REQUESTS}, and larger batches wait"
    largest = around(given, "max_batch")
    kind = "silent" if type(largest) is int and largest > DEFAULT_REQUESTS else "note"
    return [Problem(kind, "max_running_requests", text)]
