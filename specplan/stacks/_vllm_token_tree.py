"""vLLM 0.10 to 0.20.2: `speculative_token_tree`, a Python list of tuples in a string."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from ..base.errors import DoesNotFit, InputError
from ..base.tree import TokenTree
from ._paths_check import Outcomes, path_problems
from .capability import Capability, Export, Problem, Wanted, number
from .limits import is_uniform
from .path_list import parse_paths
from .writing import draft_missing, named

AS_A_CHAIN = (
    "the rejection sampler verifies branches as one chain (vllm#18327): a tree gains nothing over its chain of first "
    "ranks"
)

WITH_TREES = ("eagle3", "eagle")

# The one backend with tree masks; from this version on a flag names it, the environment before.
BACKEND, BACKEND_FLAG = "TREE_ATTN", (0, 13)

TOKEN_TREE = Capability(
    "uniform",
    (*WITH_TREES, "chain", "mtp", "ngram"),
    ("method", "model", "num_speculative_tokens", "speculative_token_tree"),
    "vllm 0.11.0 and 0.20.2: config/speculative.py, v1/spec_decode/eagle.py, v1/attention/backends/tree_attn.py",
    since="0.10",
    until="0.20",
    planned="chain",
    order="none; sorted inside by length, then by value",
    cost="TREE_ATTN backend alone: fp16 or bf16, no fp8 cache, block size a multiple of 16",
    note=AS_A_CHAIN,
)


def export(wanted: Wanted, version: str) -> Export:
    """The speculative config of a tree with branches, which is text in it; a chain needs no tree.

    Raises  DoesNotFit for methods whose drafts are chains.
    """
    if wanted.method not in (None, *WITH_TREES):
        raise DoesNotFit(
            f"vllm {version}: {wanted.method} drafts chains; a tree has no form in it", hint="--method eagle3"
        )
    tree = wanted.tree
    settings: dict[str, Any] = {"method": wanted.method or "eagle3"}
    if wanted.draft is not None:
        settings["model"] = wanted.draft
    settings |= {"num_speculative_tokens": tree.nodes, "speculative_token_tree": tree_text(tree)}
    command = f"vllm serve {named(wanted.model, 'MODEL')} --speculative-config {shlex.quote(json.dumps(settings))}"
    flag = number(version) >= BACKEND_FLAG
    return Export(
        settings,
        {"speculative_config.json": json.dumps(settings) + "\n"},
        f"{command} --attention-backend {BACKEND}" if flag else command,
        {} if flag else {"VLLM_ATTENTION_BACKEND": BACKEND},
        buffers={
            "attention_mask": [list(row) for row in tree.mask_with_root()],
            "position_ids": [0, *tree.position_offsets],
        },
        warnings=(f"vllm {version}: {AS_A_CHAIN}", *draft_missing(wanted)),
    )


def tree_text(tree: TokenTree) -> str:
    """The paths as vLLM writes them.

    >>> tree_text(TokenTree.full([2, 1]))
    '[(0,), (1,), (0, 0), (1, 0)]'
    """
    return str(list(tree.paths))


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What vLLM makes of a hand-written token tree; the other keys are judged with those of the later versions."""
    name = "speculative_token_tree"
    given = settings.get(name)
    if given is None:
        return []
    if not isinstance(given, str):
        return [Problem("refused", name, 'it is a string that holds a list: "[(0,), (1,), (0, 0)]"')]
    problems = path_problems(name, given, capability, OUTCOMES)
    if "num_speculative_tokens" not in settings:
        problems.append(Problem("refused", "num_speculative_tokens", "must be provided with a tree too"))
    if any(problem.kind == "refused" for problem in problems):
        return problems
    try:
        tree = TokenTree.from_paths(set(map(tuple, parse_paths(given))))
    except InputError as error:
        return [*problems, Problem("refused", name, error.message)]
    return [*problems, *_of_the_tree(tree, settings)]


def _of_the_tree(tree: TokenTree, settings: Mapping[str, Any]) -> list[Problem]:
    problems, name = [], "speculative_token_tree"
    if not is_uniform(tree):
        counts = [width // above for width, above in zip(tree.widths, (1, *tree.widths))]
        if tree.depth <= 2:
            text = f"the levels are not uniform: {counts} children a node are drafted, whatever the paths say"
            problems.append(Problem("silent", name, text))
        else:
            text = "the levels are not uniform: the draft crashes on a tensor's size from the third level on"
            problems.append(Problem("refused", name, text))
    if settings.get("num_speculative_tokens") != tree.nodes:
        given = settings.get("num_speculative_tokens")
        text = f"{given}, but the tree has {tree.nodes} nodes: not noticed, buffers of another size are used"
        problems.append(Problem("silent", "num_speculative_tokens", text))
    if tree.nodes > tree.depth:
        problems.append(Problem("silent", name, AS_A_CHAIN))
    return problems


OUTCOMES: Outcomes = {
    "type": ("refused", "TypeError, or SyntaxError when it is no list"),
    "empty": ("refused", "a tree of no nodes has no draft"),
    "empty_path": ("refused", "the root is not listed"),
    "duplicate": ("silent", "counted twice: levels and bias come out wrong"),
    "parent": ("refused", "ValueError from the builder of the attention bias"),
    "one_based": ("silent", "children are counted, ranks are not read"),
}
