"""What llama.cpp's server makes of hand-written flags. Source: common/arg.cpp and common/speculative.cpp @0c1e57098."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..search.space import Dynamic
from ._numbers_check import names, outside, rates_problem, whole
from ._paths_check import unknown_settings
from .capability import Capability, Problem

MAX, MIN = "spec_draft_n_max", "spec_draft_n_min"
REMOVED = {"draft": MAX, "draft_n": MAX, "draft_max": MAX, "draft_min": MIN}
VARIABLES = {"LLAMA_ARG_DRAFT_MAX": MAX, "LLAMA_ARG_DRAFT_MIN": MIN}
TYPES = names(
    "none draft-simple draft-eagle3 draft-mtp draft-dflash draft-dspark ngram-simple ngram-map-k ngram-map-k4v "
    "ngram-mod ngram-cache"
)
FLAGS = names(
    "spec_type spec_draft_n_max spec_draft_n_min spec_draft_p_min spec_draft_p_split spec_default spec_draft_model "
    "spec_draft_hf spec_draft_ngl spec_draft_ctx_size spec_draft_threads spec_draft_device spec_draft_type_k "
    "spec_draft_type_v spec_synth_rates spec_synth_len spec_ngram_size_n spec_ngram_size_m spec_ngram_min_hits"
)
DEFAULT_MAX = 3
SIGNS = (*REMOVED, *VARIABLES, "draft_p_min", "spec_synth_rates", "spec_synth_len", "spec_draft_p_split")


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """Problems of flags and environment variables."""
    problems = [
        Problem("refused", old, f"--{old.replace('_', '-')} is removed: use --{new.replace('_', '-')}")
        for old, new in REMOVED.items()
        if old in settings
    ]
    problems += [
        Problem("silent", old, f"went with the removed flag and is not read: LLAMA_ARG_{new.upper()} or the flag")
        for old, new in VARIABLES.items()
        if old in settings
    ]
    ours = {name: value for name, value in settings.items() if name.startswith("spec_")}
    problems += unknown_settings(ours, FLAGS, "llama-server")
    problems += _types(settings)
    for name in (MAX, MIN):
        problems += outside(settings, name, 0, None, "the server does not start")
    for name in ("spec_draft_p_min", "draft_p_min"):
        problems += outside(settings, name, 0.0, 1.0, "a probability")
    return problems + _lengths(settings) + _simulated(settings)


def shape(settings: Mapping[str, Any]) -> Dynamic | None:
    """A chain; a p-min above 0 makes its length an upper bound."""
    k = whole(settings, MAX) if MAX in settings else DEFAULT_MAX
    return None if k is None else Dynamic(k, 1, k)


def _types(settings: Mapping[str, Any]) -> list[Problem]:
    given = settings.get("spec_type")
    if given is None:
        return []
    unknown = [name for name in str(given).split(",") if name not in TYPES]
    if not unknown:
        return []
    from ..base.errors import did_you_mean

    hint = did_you_mean(unknown[0], TYPES, otherwise=", ".join(TYPES))
    return [Problem("refused", "spec_type", f"{unknown[0][:30]!r} is not known; {hint}")]


def _lengths(settings: Mapping[str, Any]) -> list[Problem]:
    problems = []
    most, least = whole(settings, MAX), whole(settings, MIN)
    if MAX not in settings:
        problems.append(Problem("note", MAX, f"is not set: {DEFAULT_MAX} (it was 16 before the flags were renamed)"))
    if least is not None and least > (DEFAULT_MAX if most is None else most):
        text = f"{least} is above n-max: shorter drafts are dropped, so nothing is ever drafted"
        problems.append(Problem("silent", MIN, text))
    if "spec_draft_p_split" in settings:
        text = "the server drafts one chain: only the example program llama-speculative splits"
        problems.append(Problem("silent", "spec_draft_p_split", text))
    p_min = settings.get("spec_draft_p_min", settings.get("draft_p_min", 0.0))
    if isinstance(p_min, (int, float)) and p_min > 0:
        text = f"{p_min:g} stops drafting where the draft is unsure: n-max is an upper bound"
        problems.append(Problem("note", "spec_draft_p_min", text))
    return problems


def _simulated(settings: Mapping[str, Any]) -> list[Problem]:
    most = whole(settings, MAX) if MAX in settings else DEFAULT_MAX
    problems = []
    if "spec_synth_rates" in settings:
        problems += rates_problem("spec_synth_rates", settings["spec_synth_rates"], most)
    if "spec_synth_len" in settings and most is not None:
        problems += outside(settings, "spec_synth_len", 1.0, float(most + 1), "tokens of a round, the bonus included")
        text = "the same length gives another distribution than vLLM's, which has the least variance"
        problems.append(Problem("note", "spec_synth_len", text))
    return problems
