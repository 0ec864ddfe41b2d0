"""Tables of `--families` and `--explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..acceptance.kinds import Acceptance, ByDepth
from ..base.tree import TokenTree
from ..base.units import show_share
from ..planning.explain import Ceiling, Moved, ceiling, sensitivity, variants
from ..planning.families import Family, families
from ..search.costs import RoundCosts
from ..search.shape import Shape
from ..search.space import Space
from .output import Table

FAMILIES = {
    "free": "any static tree",
    "nodes_63": "at most 63 nodes",
    "chain": "chain",
    "uniform": "same children on a level",
    "medusa": "Medusa-style",
    "dynamic": "dynamic (steps, topk, nodes)",
}
NOTHING: dict[str, Any] = {"families": None, "limits": None, "sensitivity": None}


def extra_keys(
    asked: Any, acceptance: Acceptance, limits: Space, costs: RoundCosts | None, best: Shape, tree: TokenTree
) -> dict[str, Any]:
    """`families`, `limits` and `sensitivity` for the document; null where they were not asked for."""
    keys = dict(NOTHING)
    if asked.families:
        keys["families"] = families(acceptance, limits, costs, best, heads=asked.heads, max_rank=asked.max_rank)
    if asked.explain and isinstance(acceptance, ByDepth):
        keys["limits"] = ceiling(acceptance, depth=limits.depth, children=limits.children)
    if asked.explain and costs is not None and tree.nodes:
        at = asked.costs_at
        faster, slower = (None, None) if at is None else (at(1.1), at(0.9))
        keys["sensitivity"] = sensitivity(tree, limits, variants(acceptance, costs, faster, slower))
    return keys


def extra_tables(keys: Mapping[str, Any]) -> list[Table]:
    """The same as tables."""
    tables = []
    if keys["families"] is not None:
        tables.append(_families_table(keys["families"]))
    if keys["limits"] is not None:
        tables.append(_limits_table(keys["limits"]))
    if keys["sensitivity"] is not None:
        tables.append(_sensitivity_table(keys["sensitivity"]))
    return tables


def _families_table(found: Mapping[str, Family | None]) -> Table:
    rows = [
        (
            FAMILIES[name],
            str(family.nodes),
            str(family.depth),
            ", ".join(f"{key} {value}" for key, value in family.settings.items()) or _widths(family),
            f"{family.tau:.3f}",
            "-" if family.speedup is None else f"{family.speedup:.3f}",
            show_share(family.loss if abs(family.loss) > 1e-9 else 0.0, 3),
        )
        for name, family in found.items()
        if family is not None
    ]
    return Table(("what stacks can run", "nodes", "depth", "shape", "tokens/round", "x plain", "loss"), rows)


def _widths(family: Family) -> str:
    widths = family.widths or ()
    return " ".join(map(str, widths)) if 0 < len(widths) <= 12 else "-"


def _limits_table(found: Ceiling) -> Table:
    rows = [(f"of {found.depth} levels", f"{found.at_depth:.3f}")]
    rows.append(("of any depth", "no limit" if found.any is None else f"{found.any:.3f}"))
    return Table(("no tree yields more", "tokens/round"), rows)


def _sensitivity_table(found: Mapping[str, Moved]) -> Table:
    rows = [
        (name, str(m.nodes), str(m.depth), f"{m.speedup:.3f}", f"{m.kept:.3f}", show_share(max(m.loss, 0.0), 3))
        for name, m in found.items()
    ]
    return Table(("if", "nodes", "depth", "x plain", "this shape", "lost by keeping it"), rows)
