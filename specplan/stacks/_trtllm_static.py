"""TensorRT-LLM up to 1.3: static trees as `eagle_choices` and `medusa_choices`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import DoesNotFit
from . import buffers
from ._paths_check import Outcomes, path_problems
from .capability import Capability, Export, Problem, Wanted
from .path_list import paths_of

STATIC = Capability(
    "static",
    ("eagle3", "eagle", "medusa", "chain"),
    ("eagle_choices", "medusa_choices", "max_draft_len", "decoding_type", "speculative_model_dir"),
    "NVIDIA/TensorRT-LLM llmapi/llm_args.py, _torch/speculative/spec_tree_manager.py, speculativeChoicesUtils.cpp",
    until="1.3",
    max_rank=15,
    max_depth=16,
    order="none; sorted inside by length, then by value",
    note="ranks and depth as the C++ engine packs them (4 bits a level, 16 levels); removed after 1.3 (PR #18210)",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The speculative config as YAML; a chain is its length alone, since a chain written as a tree crashes.

    Raises  DoesNotFit for a tree of one level, which crashes too.
    """
    tree, medusa = wanted.tree, wanted.method == "medusa"
    settings: dict[str, Any] = {
        "decoding_type": "Medusa" if medusa else "Eagle",
        "max_draft_len": tree.depth,
        "speculative_model_dir": wanted.draft or "DRAFT",
    }
    warnings = ["static trees are deprecated in 1.3 and gone after it"]
    if medusa:
        settings["num_medusa_heads"] = wanted.heads or tree.depth
        settings["medusa_choices"] = paths_of(tree)
        warnings.append("Medusa runs on the TensorRT backend alone: backend: tensorrt")
    elif tree.nodes > tree.depth:
        if tree.depth == 1:
            raise DoesNotFit(
                f"tensorrt-llm {version}: a tree of one level crashes (TensorRT-LLM#10323)",
                hint="--lower gives a chain or a deeper tree",
            )
        settings["eagle_choices"] = paths_of(tree)
        warnings.append("wider static trees have given shorter acceptance (TensorRT-LLM#10343): measure both")
    else:
        warnings = []
    shown = "".join(f"  {name}: {_scalar(value)}\n" for name, value in settings.items())
    return Export(
        settings,
        {"speculative.yaml": f"speculative_config:\n{shown}"},
        command=f"trtllm-serve {wanted.model or 'MODEL'} --extra_llm_api_options speculative.yaml",
        buffers={
            "packed_mask": buffers.packed_mask(tree),
            "position_offsets": [0, *tree.position_offsets],
            "eagle_paths": [[0, *_way(tree.ancestors(node), node)] for node in range(tree.nodes)],
        },
        warnings=tuple(warnings),
    )


def _way(above: tuple[int, ...], node: int) -> list[int]:
    return [step + 1 for step in (*above[::-1], node)]


def _scalar(value: Any) -> str:
    """As YAML writes it: a list in one line, a text in quotes where it needs them."""
    return json.dumps(value) if not isinstance(value, str) or not value.replace("-", "").isalnum() else value


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What the parsers make of hand-written choices; other keys are judged with those of the later versions."""
    problems = []
    if "eagle_choices" in settings:
        problems += _eagle(settings, capability)
    if "medusa_choices" in settings:
        heads = settings.get("num_medusa_heads")
        heads = heads if type(heads) is int else None
        problems += path_problems("medusa_choices", settings["medusa_choices"], capability, ENGINE, heads=heads)
    return problems


def _eagle(settings: Mapping[str, Any], capability: Capability) -> list[Problem]:
    given = settings["eagle_choices"]
    problems = path_problems("eagle_choices", given, capability, EAGLE)
    if any(problem.kind == "refused" for problem in problems):
        return problems
    from ..tree import TokenTree
    from .path_list import parse_paths

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
