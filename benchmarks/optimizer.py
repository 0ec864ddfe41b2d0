"""How fast the optimizer is: against a plain dynamic program, for the fastest tree, and up to a million nodes.

The dynamic program is the textbook one (Sequoia's recurrence): for every number of nodes, levels and children of the
root it tries every split into a last child and the rest, O(nodes^2 levels children). Both fill the same table of the
best expected tokens by nodes and levels, and the values are compared. Medians of several runs; one core.

    python benchmarks/optimizer.py            everything, about a minute
    python benchmarks/optimizer.py --quick    smaller sizes, a few seconds
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from specplan.acceptance.kinds import Independent, Positional
from specplan.planning.simulate import simulate
from specplan.search.optimize import best_trees, fastest_tree

P = 0.6
CHILDREN = 32
DEPTH = 12


def seconds(work: Callable[[], Any], runs: int) -> float:
    """Median wall seconds of `runs` runs, after one that warms up."""
    work()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return median(taken)


def dynamic_program(child_prob: Sequence[float], nodes: int, levels: int) -> list[list[float]]:
    """best[levels][nodes], root counted in both: expected tokens with exactly that many nodes, -inf where impossible.

    value[m][l][b]: m nodes, at most l levels, b children at the root. The b-th child takes m - y nodes, the others y.
    """
    none = -math.inf
    value = [[[none] * (len(child_prob) + 1) for _ in range(levels + 1)] for _ in range(nodes + 1)]
    best = [[none] * (nodes + 1) for _ in range(levels + 1)]
    for level in range(1, levels + 1):
        value[1][level][0] = best[level][1] = 1.0
    for m in range(2, nodes + 1):
        for level in range(2, levels + 1):
            below = best[level - 1]
            for b, p in enumerate(child_prob, 1):
                most = none
                for y in range(1, m):
                    found = value[y][level][b - 1] + p * below[m - y]
                    if found > most:
                        most = found
                value[m][level][b] = most
            best[level][m] = max(value[m][level])
    return best


def level_lists(acceptance: Positional, nodes: int, levels: int) -> list[list[float]]:
    """The same table by specplan, its sizes without the root."""
    frontier = best_trees(acceptance, max_nodes=nodes - 1, max_depth=levels - 1)
    return [list(frontier.exact[depth]) for depth in range(levels)]


def largest_difference(ours: list[list[float]], theirs: list[list[float]], nodes: int, levels: int) -> float:
    """Largest relative difference over all cells; infinite when they disagree on what exists."""
    worst = 0.0
    for level in range(1, levels + 1):
        for m in range(1, nodes + 1):
            mine, other = ours[level - 1][m - 1], theirs[level][m]
            if (mine is None) != (other == -math.inf):
                return math.inf
            if mine is not None:
                worst = max(worst, abs((1 + mine) / other - 1))
    return worst


def against_the_dynamic_program(nodes: int, *, runs: int) -> dict[str, Any]:
    child_prob = Independent(P).row(1, CHILDREN)
    acceptance = Positional(child_prob)
    plain_s = seconds(lambda: dynamic_program(child_prob, nodes, DEPTH), runs)
    ours_s = seconds(lambda: level_lists(acceptance, nodes, DEPTH), 51)
    theirs = dynamic_program(child_prob, nodes, DEPTH)
    difference = largest_difference(level_lists(acceptance, nodes, DEPTH), theirs, nodes, DEPTH)
    return {
        "nodes": nodes,
        "plain_s": plain_s,
        "specplan_s": ours_s,
        "ratio": plain_s / ours_s,
        "difference": difference,
    }


def growth(nodes: int, *, runs: int) -> dict[str, Any]:
    """All values for one depth, and one tree of that many nodes."""
    depth = 32

    def work() -> float:
        frontier = best_trees(Independent(P), max_nodes=nodes, max_depth=depth, max_children=64)
        return frontier.engine.values(depth)[-1]

    frontier = best_trees(Independent(P), max_nodes=nodes, max_depth=depth, max_children=64)
    frontier.engine.values(depth)
    tree_s = seconds(lambda: frontier.tree(nodes, depth), runs)
    return {"nodes": nodes, "depth": depth, "values_s": seconds(work, runs), "tree_s": tree_s, "accepted": work()}


# Seconds by width, in units of one pass: a draft whose pass grows with the width, a target with a knee, stairs.
COSTS: dict[str, tuple[Callable[[int], float], Callable[[int], float] | float]] = {
    "constant draft": (lambda n: max(24.0, n / 2), 0.6),
    "roofline": (lambda n: max(24.0, n / 2), lambda w: max(0.6, 0.0375 * w)),
    "tiles": (lambda n: 20 + 2 * math.ceil(n / 16), lambda w: 0.5 * math.ceil(w / 8)),
    "slow draft": (lambda n: 30 + 0.1 * n, lambda w: 3 + 0.25 * w),
}


def throughput(nodes: int, *, runs: int) -> list[dict[str, Any]]:
    rows = []
    for name, (verify_s, draft_s) in COSTS.items():
        for passes in ("all", "all_but_leaf", "expanded"):

            def work(verify_s: Any = verify_s, draft_s: Any = draft_s, passes: str = passes) -> Any:
                return fastest_tree(
                    Independent(P),
                    verify_s=verify_s,
                    draft_s=draft_s,
                    max_nodes=nodes,
                    max_depth=DEPTH,
                    max_children=CHILDREN,
                    draft_passes=passes,
                )

            found = work()
            took = seconds(work, runs)
            rows.append(
                {"nodes": nodes, "costs": name, "passes": passes, "s": took, "best": found.tree.nodes, "gap": found.gap}
            )
    return rows


def monte_carlo() -> dict[str, Any]:
    tree = best_trees(Independent(P), max_nodes=64, max_depth=DEPTH).tree(64, DEPTH)
    return {"rounds": 10_000_000, "s": seconds(lambda: simulate(tree, Independent(P), rounds=10_000_000, seed=1), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args()
    sizes, most, runs = ((32, 64), 10_000, 3) if chosen.quick else ((32, 64, 128), 1_000_000, 3)
    widths = (64,) if chosen.quick else (128, 1024)
    report = {
        "dynamic_program": [against_the_dynamic_program(nodes, runs=runs) for nodes in sizes],
        "growth": [growth(10**power, runs=runs) for power in range(2, int(math.log10(most)) + 1)],
        "throughput": [row for nodes in widths for row in throughput(nodes, runs=runs)],
        "monte_carlo": monte_carlo(),
    }
    print(json.dumps(report, indent=2) if chosen.json else shown(report))


def shown(report: dict[str, Any]) -> str:
    lines = [f"Table of {DEPTH} levels, {CHILDREN} children, p {P}: specplan against a plain dynamic program"]
    for row in report["dynamic_program"]:
        lines.append(
            f"  {row['nodes']:5d} nodes  {row['plain_s'] * 1e3:9.2f} ms  {row['specplan_s'] * 1e3:8.3f} ms  "
            f"{row['ratio']:7.0f} times faster  largest difference {row['difference']:.1e}"
        )
    lines.append("Growth, 32 levels, 64 children")
    for row in report["growth"]:
        lines.append(
            f"  {row['nodes']:8d} nodes  values {row['values_s'] * 1e3:9.2f} ms  tree {row['tree_s'] * 1e3:8.2f} ms"
        )
    lines.append(f"Fastest tree, {DEPTH} levels, {CHILDREN} children, p {P}")
    for row in report["throughput"]:
        optimum = "proved" if not row["gap"] else f"gap {row['gap']:.1%}"
        lines.append(
            f"  {row['nodes']:5d} nodes  {row['costs']:15s} {row['passes']:13s} {row['s'] * 1e3:8.1f} ms  "
            f"{row['best']:4d} nodes, {optimum}"
        )
    played = report["monte_carlo"]
    lines.append(f"Monte Carlo: {played['rounds']:,} rounds of a 64-node tree in {played['s'] * 1e3:.2f} ms")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
