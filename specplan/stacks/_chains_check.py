"""What stacks that take one length make of it: transformers, LMDeploy, MLC-LLM, TGI, LayerSkip, ExLlama, ATOM, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..search.space import Dynamic
from ._numbers_check import one_of, outside, whole
from ._paths_check import unknown_settings
from .capability import Capability, Problem
from .settings_text import around

Settings = Mapping[str, Any]


def chain_of(*names: str) -> Callable[[Settings], Dynamic | None]:
    """A shape function: the first of the names that is there is the length of the chain."""

    def shape(settings: Settings) -> Dynamic | None:
        k = next((whole(settings, name) for name in names if name in settings), None)
        return None if k is None or k < 0 else Dynamic(k, 1, k)

    return shape


def transformers(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """`generate`: its configuration takes any name and any value without a word."""
    problems = []
    known = (
        *capability.settings,
        *("max_matching_ngram_size", "use_mtp", "num_mtp_layers", "assistant_lookbehind", "target_lookbehind"),
        *("assistant_model", "is_assistant"),
    )
    for problem in unknown_settings(settings, known, "assisted generation"):
        if problem.setting.startswith(("num_assist", "assist", "prompt_lookup", "num_mtp")):
            problems.append(Problem("silent", problem.setting, f"{problem.text}: GenerationConfig keeps any name"))
    problems += outside(settings, "prompt_lookup_num_tokens", 1, None, "ValueError at the first draft")
    name, schedule = "num_assistant_tokens", settings.get("num_assistant_tokens_schedule")
    k = settings.get(name)
    if k is not None and (type(k) is not int or k < 1):
        problems.append(Problem("silent", name, f"{k!r} is taken without a word: nothing useful is drafted"))
    if schedule not in (None, "constant", "heuristic", "heuristic_transient"):
        text = f"{str(schedule)[:30]!r} is taken without a word and counts as constant"
        problems.append(Problem("silent", "num_assistant_tokens_schedule", text))
    if k is not None and schedule in ("heuristic", "heuristic_transient"):
        text = "+2 after a draft that is accepted whole, -1 otherwise: the length moves away from what is set"
        problems.append(Problem("silent", "num_assistant_tokens_schedule", text))
    if "assistant_model" in settings and k is not None:
        text = "read from the assistant's generation config; beside assistant_model, in generate(), it is ignored"
        problems.append(Problem("silent", name, text))
    threshold = settings.get("assistant_confidence_threshold", 0.4)
    if k is not None and isinstance(threshold, (int, float)) and threshold > 0:
        text = f"{threshold:g} stops drafting where the assistant is unsure (0 keeps the length)"
        problems.append(Problem("note", "assistant_confidence_threshold", text))
    return problems


def lmdeploy(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """Flags of LMDeploy's server."""
    algorithms = ("eagle", "eagle3", "deepseek_mtp", "hy3_mtp", "qwen3_5_mtp", "dflash")
    known = (*capability.settings, "speculative_dflash_block_size")
    ours = {name: value for name, value in settings.items() if name.startswith("spec")}
    problems = unknown_settings(ours, known, "LMDeploy")
    problems += one_of(settings, "speculative_algorithm", algorithms, "argparse refuses it")
    problems += outside(settings, "speculative_num_draft_tokens", 1, None, "drafted tokens, the root not counted")
    problems += outside(settings, "speculative_dflash_block_size", 2, None, "a block of the root and a token at least")
    if "speculative_algorithm" not in settings:
        problems.append(Problem("silent", "speculative_algorithm", "is not set: speculation is off"))
    elif "speculative_num_draft_tokens" not in settings:
        problems.append(Problem("note", "speculative_num_draft_tokens", "is not set: 1"))
    if "speculative_dflash_block_size" in settings and settings.get("speculative_algorithm") != "dflash":
        problems.append(Problem("refused", "speculative_dflash_block_size", "needs the algorithm dflash"))
    return problems


def mlc(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """Settings of MLC-LLM's engine."""
    modes = ("disable", "small_draft", "eagle", "medusa")
    problems = one_of(settings, "speculative_mode", modes, "refused")
    problems += outside(settings, "spec_draft_length", 0, None, "refused")
    problems += outside(settings, "spec_tree_width", 1, None, "refused")
    if settings.get("spec_draft_length") == 0:
        text = "0 is automatic, not off: speculative_mode disable turns it off"
        problems.append(Problem("silent", "spec_draft_length", text))
    if settings.get("speculative_mode", "disable") == "disable" and "spec_draft_length" in settings:
        problems.append(Problem("silent", "speculative_mode", "disable: the length is not used"))
    return problems


def tgi(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """The launcher's flag."""
    problems = outside(settings, "speculate", 0, None, "refused by the launcher")
    k, heads = whole(settings, "speculate"), around(settings, "medusa_num_heads", around(settings, "heads"))
    if k is not None and type(heads) is int and k > heads:
        problems.append(Problem("refused", "speculate", f"{k} is above the {heads} Medusa heads of the model"))
    return problems


def layerskip(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """Arguments of LayerSkip's generator."""
    problems = outside(settings, "num_speculations", -1, None, "refused")
    k = whole(settings, "num_speculations")
    if k == -1:
        problems.append(Problem("silent", "num_speculations", "-1 is plain decoding"))
    strategy = settings.get("generation_strategy", "self_speculative")
    if strategy != "self_speculative":
        problems.append(Problem("silent", "generation_strategy", f"{str(strategy)[:30]}: nothing is drafted"))
    exit_layer, layers = whole(settings, "exit_layer"), around(settings, "num_hidden_layers")
    if exit_layer is None:
        problems.append(Problem("refused", "exit_layer", "the layer after which it drafts is missing"))
    elif type(layers) is int and not 0 < exit_layer < layers:
        problems.append(Problem("refused", "exit_layer", f"{exit_layer} is not below the model's {layers} layers"))
    return problems


def exllamav2(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """Arguments of ExLlamaV2's dynamic generator."""
    problems = outside(settings, "num_draft_tokens", 1, None, "refused")
    k, most = whole(settings, "num_draft_tokens"), around(settings, "max_q_size", 8)
    if k is not None and type(most) is int and k > most:
        problems.append(Problem("refused", "num_draft_tokens", f"{k} is above max_q_size {most}: an assertion"))
    return problems


def exllamav3(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """Arguments of ExLlamaV3's generator."""
    problems = outside(settings, "num_draft_tokens", 0, None, "refused")
    if settings.get("num_draft_tokens") == 0:
        text = "0 is not off: the draft's own default or 4 is used; leave the draft model out"
        problems.append(Problem("silent", "num_draft_tokens", text))
    confidence = settings.get("draft_confidence")
    if confidence is not None and not (isinstance(confidence, float) and 0 < confidence < 1):
        problems.append(Problem("refused", "draft_confidence", f"{confidence} is not between 0 and 1: an assertion"))
    if settings.get("dynamic_draft_tokens"):
        text = "stops drafting where the draft is unsure: the length is an upper bound"
        problems.append(Problem("note", "dynamic_draft_tokens", text))
    return problems


def atom(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """Flags of ATOM's server."""
    problems = outside(settings, "num_speculative_tokens", 1, None, "refused")
    k = whole(settings, "num_speculative_tokens")
    if k is not None:
        most, name = float(k + 1), "spec_decode_acceptance_length"
        problems += outside(settings, name, 1.0, most, "tokens of a round, the bonus token included")
    return problems + outside(settings, "spec_decode_acceptance_rate", 0.0, 1.0, "accepted over drafted tokens")


def aiconfigurator(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """nextn and the accepted tokens of a round."""
    problems = []
    if "nextn_accept_rates" in settings:
        text = "gone in 0.12: nextn_accepted is the accepted tokens of a round"
        problems.append(Problem("refused", "nextn_accept_rates", text))
    k, accepted = settings.get("nextn"), settings.get("nextn_accepted")
    if k != "auto":
        problems += outside(settings, "nextn", 0, None, "refused")
    if k not in (None, 0) and accepted is None:
        problems.append(Problem("refused", "nextn_accepted", "is required beside nextn"))
    most = float(k) if type(k) is int else None
    problems += outside(settings, "nextn_accepted", 0.0, most, "accepted tokens, the bonus token not counted")
    if "aic_nextn" in settings:
        problems += outside(settings, "aic_nextn", 1, 5, "Dynamo's mocker has five positions")
    return problems


def nothing_to_set(settings: Settings, capability: Capability, version: str) -> list[Problem]:
    """A stack without a setting of the shape."""
    return [Problem("silent", name, f"no such setting: {capability.note}") for name in settings]
