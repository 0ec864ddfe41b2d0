"""TensorRT-LLM up to 1.3: static trees as `eagle_choices` and `medusa_choices`."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import indent
from typing import Any

from ..base.errors import DoesNotFit
from ..base.tree import TokenTree
from . import buffers
from ._paths_check import Outcomes, path_problems
from .capability import Capability, Export, Problem, Wanted, number
from .path_list import parse_paths, paths_of
from .settings_text import around
from .writing import draft_missing, named

METHODS = {
    "chain": "DraftTarget",
    "eagle": "Eagle",
    "eagle3": "Eagle",
    "medusa": "Medusa",
    "mtp": "MTP",
    "ngram": "NGram",
}

STATIC = Capability(
    "static",
    tuple(METHODS),
    ("decoding_type", "max_draft_len", "speculative_model_dir", "eagle_choices", "medusa_choices"),
    "NVIDIA/TensorRT-LLM llmapi/llm_args.py, _torch/speculative/spec_tree_manager.py, speculativeChoicesUtils.cpp",
    until="1.3",
    max_rank=15,
    max_depth=16,
    min_tree_depth=2,
    tree_methods=("eagle", "eagle3", "medusa"),
    order="none; sorted inside by length, then by value",
    note="ranks and depth as the C++ engine packs them (4 bits a level, 16 levels); removed after 1.3 (PR #18210)",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The speculative config as YAML; a chain is its length alone, since a chain written as a tree crashes.

    Raises  DoesNotFit for a tree of one level, which crashes too, and for a tree that a method does not draft.
    """
    tree = TokenTree.chain(wanted.longest) if wanted.dynamic is not None else wanted.tree
    method = METHODS[wanted.method or "eagle3"]
    if method == "DraftTarget" and number(version) >= (1, 3):
        method = "Draft_Target"  # the config's own literal, once it is told apart by it
    settings: dict[str, Any] = {"decoding_type": method, "max_draft_len": tree.depth}
    if wanted.draft is not None and method != "NGram":
        settings["speculative_model_dir"] = wanted.draft
    warnings = draft_missing(wanted, method not in ("MTP", "NGram"))
    if method == "Medusa":
        settings |= {"num_medusa_heads": wanted.heads or tree.depth, "medusa_choices": paths_of(tree)}
        warnings = (*warnings, "Medusa runs on the TensorRT backend alone (backend: tensorrt)")
    elif tree.nodes > tree.depth:
        _refuse(method, tree, version)
        settings["eagle_choices"] = paths_of(tree)
        warnings = (*warnings, *STATIC_WARNINGS)
    return Export(
        settings,
        {"config.yaml": yaml_of(settings)},
        f"trtllm-serve {named(wanted.model, 'MODEL')} --extra_llm_api_options config.yaml",
        buffers={
            "packed_mask": buffers.packed_mask(tree),
            "position_offsets": [0, *tree.position_offsets],
            "eagle_paths": [[0], *([0, *(step + 1 for step in tree.way(node))] for node in range(tree.nodes))],
        },
        warnings=warnings,
    )


STATIC_WARNINGS = (
    "static trees are deprecated in 1.3 and gone after it",
    "wider static trees have given shorter acceptance (TensorRT-LLM#10343): measure both",
)


def _refuse(method: str, tree: TokenTree, version: str) -> None:
    if method != "Eagle":
        raise DoesNotFit(f"trtllm {version}: {method} drafts chains; a tree has no form in it", hint="--method eagle3")
    if tree.depth == 1:
        raise DoesNotFit(
            f"trtllm {version}: a tree of one level crashes (TensorRT-LLM#10323)",
            hint="a chain or a deeper tree; --lower gives the best one",
        )


def yaml_of(settings: Mapping[str, Any]) -> str:
    """The settings as a --config file: a setting a line, a path a line, the lengths of a schedule in one."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    def lines(name: str, value: Any) -> str:
        style = None if isinstance(value, (list, dict)) else False
        return str(yaml.dump({name: value}, Dumper=dumper, sort_keys=False, default_flow_style=style, width=10**6))

    return "speculative_config:\n" + indent("".join(lines(*entry) for entry in settings.items()), "  ")


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What the parsers make of hand-written choices; other keys are judged with those of the later versions."""
    problems = []
    if "eagle_choices" in settings:
        problems += _eagle(settings, capability)
    if "medusa_choices" in settings:
        heads = settings.get("num_medusa_heads", around(settings, "heads"))
        heads = heads if type(heads) is int else None
        problems += path_problems("medusa_choices", settings["medusa_choices"], capability, ENGINE, heads=heads)
    return problems


def _eagle(settings: Mapping[str, Any], capability: Capability) -> list[Problem]:
    given = settings["eagle_choices"]
    problems = path_problems("eagle_choices", given, capability, EAGLE)
    if any(problem.kind == "refused" for problem in problems):
        return problems
    tree = TokenTree.from_paths(set(map(tuple, parse_paths(given) if isinstance(given, str) else given)))
    if tree.nodes == tree.depth:
        text = "a chain written as a tree crashes (TensorRT-LLM#10325): max_draft_len alone is the chain"
        problems.append(Problem("refused", "eagle_choices", text))
    elif tree.depth == 1:
        problems.append(Problem("refused", "eagle_choices", "a tree of one level crashes (TensorRT-LLM#10323)"))
    for name, size in (("max_draft_len", tree.depth), ("max_total_draft_tokens", tree.nodes)):
        if name in settings and settings[name] != size:
            text = f"{settings[name]} is reset to {size}, the tree's, with a warning in the log"
            problems.append(Problem("silent", name, text))
    return problems


EAGLE: Outcomes = {
    "type": ("refused", "the choices are whole numbers in lists"),
    "empty": ("refused", "a tree of no nodes has no draft"),
    "empty_path": ("refused", "the root is no choice"),
    "duplicate": ("silent", "listed once inside"),
    "parent": ("refused", "assertion '... is not connected'; the C++ engine makes it a child of the root, silently"),
    "one_based": ("silent", "taken as it stands: children are counted, so other tokens are drafted"),
    "gap": ("silent", "the tree manager counts children and reads no rank: other tokens are drafted"),
    "rank": ("silent", "the C++ engine packs a rank in 4 bits: 16 passes the check and does not fit"),
    "size": ("refused", "the C++ engine packs 16 levels in 64 bits"),
}
ENGINE: Outcomes = {
    **EAGLE,
    "parent": ("silent", "the C++ engine looks the parent up with a default of 0: the node becomes the root's child"),
    "gap": ("silent", "the Python runtime fills a gap at the first level with nodes and the mask comes out wrong"),
    "heads": ("refused", "the engine was not built for that many levels (maxPathLen)"),
}
