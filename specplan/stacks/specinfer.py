"""SpecInfer (FlexFlow Serve): one number, the width of the third draft step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.tree import TokenTree
from .capability import Capability, Export, Problem, Stack, Wanted
from .writing import named

# Levels of a draft, the third of which branches: BeamSearchBatchConfig's beam depth and width.
DEPTH, WIDEST = 8, 3


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """`--expansion-degree`: children of the nodes of the second level; all others have one child."""
    degree = expansion_degree(wanted.tree)
    return Export(
        {"expansion_degree": degree},
        command=f"spec_infer -llm-model {named(wanted.model, 'MODEL')} -ssm-model {named(wanted.draft, 'DRAFT')} "
        f"--expansion-degree {degree} -prompt PROMPTS.json",
        warnings=()
        if wanted.tree.depth == DEPTH
        else (f"the number of levels is no setting: {DEPTH} are drafted, not {wanted.tree.depth}",),
    )


def expansion_degree(tree: TokenTree) -> int:
    """The degree of a tree that branches in its third step only; -1 for a chain.

    >>> expansion_degree(TokenTree.full([1, 1, 3, 1])), expansion_degree(TokenTree.chain(4))
    (3, -1)
    """
    return -1 if tree.nodes == tree.depth else max(tree.child_counts)


def check(settings: Mapping[str, Any], capability: Capability, version: str) -> list[Problem]:
    """What `spec_infer` makes of a degree."""
    degree, name = settings.get("expansion_degree"), "expansion_degree"
    if type(degree) is not int:
        return [Problem("refused", name, f"{str(degree)[:30]!r} is no whole number")]
    if degree > WIDEST:
        return [
            Problem("refused", name, f"{degree} is above the beam width of {WIDEST}: an assertion ends the process")
        ]
    if degree == 0 or degree < -1:
        return [Problem("silent", name, f"{degree} is no width: -1 is a chain, 1 to {WIDEST} the third step's width")]
    if "max_spec_tree_token_num" in settings:
        return [Problem("silent", "max_spec_tree_token_num", "not a flag of the C++ program: it stays 23")]
    return []


STACK = Stack(
    name="specinfer",
    title="SpecInfer",
    read="9105e453",
    capabilities=(
        Capability(
            "uniform",
            ("specinfer", "chain"),
            ("expansion_degree",),
            "flexflow-serve 9105e453, inference/spec_infer/spec_infer.cc, include/flexflow/batch_config.h",
            max_depth=DEPTH,
            max_rank=WIDEST - 1,
            max_nodes=63,
            max_children=(1, 1, WIDEST, 1, 1, 1, 1, 1),
            note="branches in the third step only; other widths need a change of the source",
        ),
    ),
    export=export,
    check=check,
    aliases=("flexflow",),
)
