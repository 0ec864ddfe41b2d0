"""Verdict, candidates, comparisons: from an acceptance and the costs of a round to an answer.

    round_s = draft passes + one verification pass + overhead
    tokens_per_s = batch * tau / round_s

Plain decoding is always one of the candidates: nodes 0, tau 1, one pass of width 1, no overhead.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from .acceptance import Acceptance, ByDepth, Independent, tau_interval
from .drafters import Draft, free_draft
from .errors import DoesNotFit, InputError
from .memory import Memory
from .optimize import Candidate, Frontier, best_trees, evaluate, fastest_tree, full_tree_fitting
from .tree import TokenTree
from .units import plural, show_bytes

DEFAULT_NODES = 256
DEFAULT_DEPTH = 16
WIDEST_FAN = 512
# Ranks in all paths of a tree together; above it `paths` is left out, parents and ranks say the same.
LONGEST_PATHS = 2_000_000


@dataclass(frozen=True)
class Costs:
    """What a round costs.

    verify_s     seconds of a verification pass by width: index i is width i + 1
    draft        what proposes the tokens
    overhead_s   fixed seconds a round, plain decoding excepted
    batch        sequences in a pass
    proposed     share of the rounds in which anything is drafted; the times are means over all rounds
    relative     True when times are multiples of a plain pass: no tokens per second then
    measured     widths that were measured, None when the times come from a formula
    """

    verify_s: Sequence[float]
    draft: Draft = field(default_factory=free_draft)
    overhead_s: float = 0.0
    draft_passes: str = "all_but_leaf"
    draft_shape: str = "sequential"
    batch: int = 1
    proposed: float = 1.0
    relative: bool = False
    measured: frozenset[int] | None = None

    @property
    def plain_s(self) -> float:
        return self.verify_s[0]

    def arguments(self) -> dict[str, Any]:
        """As the optimizer takes them."""
        return {
            "verify_s": self.verify_s,
            "draft_s": self.draft.times(),
            "overhead_s": self.overhead_s,
            "draft_passes": self.draft_passes,
            "draft_shape": self.draft_shape,
        }


@dataclass(frozen=True)
class Limits:
    """Which shapes are looked at; the root is not counted in `nodes`.

    chain   True when only chains may be planned (nothing is known of siblings)
    """

    nodes: int
    depth: int = DEFAULT_DEPTH
    children: int | None = None

    def __post_init__(self) -> None:
        for name in ("nodes", "depth", "children"):
            value = getattr(self, name)
            if value is not None and value < 1:
                option = {"nodes": "--budget", "depth": "--max-depth", "children": "--max-children"}[name]
                raise InputError(f"{option} {value} is below 1", hint=f"{option} is a whole number from 1 up")

    def arguments(self) -> dict[str, Any]:
        return {"max_nodes": self.nodes, "max_depth": min(self.depth, self.nodes), "max_children": self.children}


@dataclass(frozen=True, slots=True)
class DraftTime:
    """The draft's part of a round: passes, mean seconds of one, all of them."""

    passes: int
    pass_s: float | None
    total_s: float | None


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Settings of an engine that builds the tree anew every round from draft scores.

    steps   draft passes, and so levels at most
    topk    nodes that a pass feeds, and children that each proposes
    nodes   best proposed nodes that are verified, the root not counted
    """

    steps: int
    topk: int
    nodes: int


@dataclass(frozen=True)
class Shape:
    """A tree with what it yields and costs; keys as in contract.md. Times are null without costs.

    interpolated   True when the verification time lies between measured widths
    dynamic        the settings that yield it where the engine builds the tree; then the tree is the one of one context
    """

    nodes: int
    width: int
    depth: int
    widths: tuple[int, ...]
    parents: tuple[int, ...]
    ranks: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...] | None
    position_offsets: tuple[int, ...]
    level_survival: tuple[float, ...]
    accepted: float
    tau: float
    draft: DraftTime
    verify_s: float | None
    overhead_s: float | None
    round_s: float | None
    tokens_per_s: float | None
    tokens_per_s_per_sequence: float | None
    speedup: float | None
    interpolated: bool = False
    dynamic: Dynamic | None = None

    @property
    def tree(self) -> TokenTree:
        return TokenTree.from_parents(self.parents, self.ranks)


def draft_pass_count(tree: TokenTree, costs: Costs | None) -> int:
    """Draft passes of a round in the convention of `costs`."""
    if tree.nodes == 0:
        return 0
    if costs is not None and costs.draft.passes is not None:
        return costs.draft.passes(tree.depth)
    if costs is not None and costs.draft_shape == "block":
        return 1
    return tree.depth + (1 if costs is not None and costs.draft_passes == "all" else 0)


def shape_of(tree: TokenTree, acceptance: Acceptance, costs: Costs | None) -> Shape:
    """What `tree` yields under `acceptance` and costs under `costs`.

    Raises  InputError when the verification curve ends before the tree's width.
    """
    survival = tuple(acceptance.level_survival(tree))
    passes = draft_pass_count(tree, costs)
    common: dict[str, Any] = {
        "nodes": tree.nodes,
        "width": tree.width,
        "depth": tree.depth,
        "widths": tree.widths,
        "parents": tree.parents,
        "ranks": tree.ranks,
        "paths": tree.paths if sum(tree.position_offsets) <= LONGEST_PATHS else None,
        "position_offsets": tree.position_offsets,
        "level_survival": survival,
    }
    if costs is None:
        accepted = acceptance.accepted(tree)
        nothing: dict[str, Any] = dict.fromkeys(
            ("verify_s", "overhead_s", "round_s", "tokens_per_s", "tokens_per_s_per_sequence", "speedup")
        )
        return Shape(**common, accepted=accepted, tau=accepted + 1, draft=DraftTime(passes, None, None), **nothing)
    if tree.width > len(costs.verify_s):
        raise InputError(
            f"no verification time for width {tree.width} ({tree.nodes} nodes and the root)",
            hint=f"the curve ends at width {len(costs.verify_s)}",
        )
    at = evaluate(tree, acceptance, **costs.arguments())
    rate = None if costs.relative else costs.batch * at.tokens_per_s
    return Shape(
        **common,
        accepted=at.accepted,
        tau=at.tau,
        draft=DraftTime(passes, at.draft_s / passes if passes else 0.0, at.draft_s),
        verify_s=at.verify_s,
        overhead_s=at.overhead_s,
        round_s=at.round_s,
        tokens_per_s=rate,
        tokens_per_s_per_sequence=None if rate is None else rate / costs.batch,
        speedup=at.tau * costs.plain_s / at.round_s,
        interpolated=costs.measured is not None and tree.width not in costs.measured,
    )


# ---- the best tree


@dataclass(frozen=True)
class Best:
    """The best tree, how sure that is, and the curve over node counts.

    optimality   "proved", or "gap" with `gap` the fraction that may be missing
    candidates   one row a node count from 0: exactly that many nodes
    tree_with    the tree of a row
    shape_with   the shape of a row, where a tree alone does not say what its round costs
    """

    shape: Shape
    tree: TokenTree
    optimality: str
    gap: float
    candidates: Sequence[Candidate]
    tree_with: Callable[[int], TokenTree]
    shape_with: Callable[[int], Shape] | None = None

    def shape_at(self, nodes: int, acceptance: Acceptance, costs: Costs | None) -> Shape:
        """The shape of a row."""
        if self.shape_with is not None:
            return self.shape_with(nodes)
        return shape_of(self.tree_with(nodes), acceptance, costs)


def best_tree(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Best:
    """The best tree within `limits`: per second with costs, else with as many nodes as exist up to the budget."""
    if costs is None:
        return _best_for_budget(acceptance, limits)
    found = fastest_tree(acceptance, **costs.arguments(), **limits.arguments())
    same = costs.batch == 1 and not costs.relative
    rows = found.candidates if same else [_scaled(row, costs) for row in found.candidates]
    return Best(shape_of(found.tree, acceptance, costs), found.tree, found.optimality, found.gap, rows, found.tree_with)


def _scaled(row: Candidate, costs: Costs) -> Candidate:
    """A candidate for one sequence as one for the whole batch."""
    if row.tokens_per_s is None:
        return row
    return replace(row, tokens_per_s=None if costs.relative else row.tokens_per_s * costs.batch)


def _best_for_budget(acceptance: Acceptance, limits: Limits) -> Best:
    if not acceptance.by_node:
        return _best_known_chain(acceptance, limits)
    frontier = best_trees(acceptance, **limits.arguments())
    rows = UntimedRows(frontier)
    nodes = next(n for n in range(limits.nodes, -1, -1) if rows.most[n] is not None)
    tree = frontier.tree(nodes, frontier.max_depth)
    shape = shape_of(tree, acceptance, None)
    gap = frontier.bound(frontier.max_depth)[nodes] - shape.accepted
    proved = frontier.optimality == "proved" or gap <= 1e-9
    optimality, share = ("proved", 0.0) if proved else ("gap", gap / shape.tau)
    return Best(shape, tree, optimality, share, rows, lambda n: frontier.tree(n, frontier.max_depth))


def _best_known_chain(acceptance: Acceptance, limits: Limits) -> Best:
    """The chain with the most tokens per round among those that were measured."""
    taus = {k: acceptance.tau(TokenTree.chain(k)) for k in known_chains(acceptance, limits)}
    taus[0] = 1.0
    rows = [
        Candidate(n, n if n in taus else None, taus.get(n), None, None, None)
        for n in range(max(limits.nodes, *taus) + 1)
    ]
    tree = TokenTree.chain(max(taus, key=lambda k: (taus[k], -k)))
    return Best(shape_of(tree, acceptance, None), tree, "proved", 0.0, rows, TokenTree.chain)


class UntimedRows(Sequence[Candidate]):
    """One row a node count without times: the best tree of exactly that many nodes, at the smallest depth."""

    def __init__(self, frontier: Frontier) -> None:
        self.exact = frontier.exact
        self.most = frontier.exact[-1]

    def __iter__(self) -> Iterator[Candidate]:
        depths: list[int | None] = [None] * len(self.most)
        for depth in range(len(self.exact)):
            for nodes, value in enumerate(self.exact[depth]):
                if depths[nodes] is None and value is not None and value >= self.most[nodes] * (1 - 1e-12):
                    depths[nodes] = depth
        for nodes, (most, found) in enumerate(zip(self.most, depths)):
            yield Candidate(nodes, found, None if most is None else 1 + most, None, None, None)

    def __len__(self) -> int:
        return len(self.most)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...
    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        nodes = range(len(self))[index]
        most = self.most[nodes]
        if most is None:
            return Candidate(nodes, None, None, None, None, None)
        depth = bisect_left(range(len(self.exact)), True, key=lambda d: self._reaches(d, nodes, most))
        return Candidate(nodes, depth, 1 + most, None, None, None)

    def _reaches(self, depth: int, nodes: int, most: float) -> bool:
        """Whether that many levels are enough; once they are, more are too."""
        value = self.exact[depth][nodes]
        return value is not None and value >= most * (1 - 1e-12)


def best_chain(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Shape:
    """The best chain of at least one node: per second with costs, else of the whole budget."""
    known = known_chains(acceptance, limits)
    if costs is None:
        return shape_of(TokenTree.chain(known[-1] if known else 0), acceptance, None)
    lengths = [k for k in known if k < len(costs.verify_s) and math.isfinite(costs.verify_s[k])]
    if not lengths:
        return shape_of(TokenTree.empty(), acceptance, costs)
    rate = {k: evaluate(TokenTree.chain(k), acceptance, **costs.arguments()).tokens_per_s for k in lengths}
    return shape_of(TokenTree.chain(max(lengths, key=lambda k: (rate[k], -k))), acceptance, costs)


def known_chains(acceptance: Acceptance, limits: Limits) -> list[int]:
    """The lengths of chains that the limits and the acceptance allow, rising."""
    known = acceptance.max_depth
    longest = min(limits.nodes, limits.depth, known if known is not None else limits.depth)
    return [k for k in range(1, longest + 1) if acceptance.by_node or acceptance.knows(TokenTree.chain(k))]


def full_tree(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> Shape | None:
    """The best full k-ary tree with k >= 2 that fits the budget; None when not even two nodes fit."""
    if not acceptance.by_node:
        return None
    children = min(limits.children or limits.nodes, _widest_useful(acceptance))
    given = {} if costs is None else costs.arguments()
    tree = full_tree_fitting(acceptance, limits.nodes, max_depth=limits.depth, max_children=children, **given)
    return None if tree is None else shape_of(tree, acceptance, costs)


def _widest_useful(acceptance: Acceptance) -> int:
    """Children beyond this one add less than 1e-6 to the first level: wider fans need not be looked at."""
    if not isinstance(acceptance, ByDepth):
        return WIDEST_FAN
    row = acceptance.row(1, WIDEST_FAN)
    return max((rank + 1 for rank, value in enumerate(row) if value > 1e-6), default=1) + 1


def comparisons(acceptance: Acceptance, limits: Limits, costs: Costs | None) -> dict[str, Shape | None]:
    """Plain decoding, the best chain of the budget, the best full tree, and the chain of its depth."""
    full = full_tree(acceptance, limits, costs)
    timed = full is not None and (costs is None or math.isfinite(costs.verify_s[full.depth]))
    same = shape_of(TokenTree.chain(full.depth), acceptance, costs) if full is not None and timed else None
    return {
        "plain": shape_of(TokenTree.empty(), acceptance, costs),
        "chain_same_budget": best_chain(acceptance, limits, costs),
        "chain_same_depth": same,
        "full_tree": full,
    }


def recommended(acceptance: Acceptance, best: Best, costs: Costs, tie: float) -> Shape:
    """The smallest shape within `tie` of the optimum; a measured width before an interpolated one.

    tie   share of tokens per second that counts as equal, in [0, 1)
    """
    if not 0 <= tie < 1:
        raise InputError(f"--tie {tie:g} is not a share in [0, 1)", hint="write 1% or 0.01")
    enough = (best.shape.speedup or 1.0) * (1 - tie)
    rows = [row.nodes for row in best.candidates if row.speedup is not None and row.speedup >= enough]
    if costs.measured is not None:
        rows = [nodes for nodes in rows if nodes + 1 in costs.measured] or rows
    if not rows or rows[0] >= best.shape.nodes:
        return best.shape
    return best.shape_at(rows[0], acceptance, costs)


# ---- break-even


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where speculation begins to pay.

    tau      tokens per round at which this shape's round equals plain decoding: round_s / plain pass
    p        probability of independent candidates at which the shape yields that tau; None if none does
    round_s  of the shape
    nodes, depth   of the shape
    """

    tau: float
    p: float | None
    round_s: float
    nodes: int
    depth: int


def break_even(tree: TokenTree, costs: Costs, *, round_s: float | None = None) -> BreakEven:
    """The break-even of one shape.

    round_s   of its round, where the tree alone does not say it

    >>> from specplan.tree import TokenTree
    >>> round(break_even(TokenTree.chain(1), Costs(verify_s=[1.0, 1.2])).p, 6)
    0.2
    """
    at = evaluate(tree, Independent(0.5), **costs.arguments())
    took = at.round_s if round_s is None else round_s
    needed = took / costs.plain_s
    accepted = _accepted_over_p(tree)
    p = _smallest(lambda q: costs.proposed * accepted(q) + 1 >= needed)
    return BreakEven(needed, p, took, tree.nodes, tree.depth)


def _accepted_over_p(tree: TokenTree) -> Callable[[float], float]:
    """`Independent(p).accepted(tree)` as a function of p: nodes with as many levels and earlier siblings count alike.

    >>> from specplan.tree import TokenTree
    >>> round(_accepted_over_p(TokenTree.full(2, 3))(0.6), 3)
    2.138
    """
    missed: list[int] = []
    for parent, rank in zip(tree.parents, tree.ranks):
        missed.append(rank + (missed[parent] if parent >= 0 else 0))
    alike = Counter(zip(tree.position_offsets, missed))
    return lambda p: math.fsum(count * p**depth * (1 - p) ** siblings for (depth, siblings), count in alike.items())


def _smallest(holds: Callable[[float], bool], *, steps: int = 100) -> float | None:
    """The smallest p in [0, 1] at which `holds`, found on a grid and then by bisection."""
    grid = [i / steps for i in range(steps + 1)]
    first = next((i for i, p in enumerate(grid) if holds(p)), None)
    if first is None or first == 0:
        return None if first is None else 0.0
    low, high = grid[first - 1], grid[first]
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def break_even_table(
    limits: Limits, costs: Costs, *, lengths: Sequence[int] = (1, 2, 3, 4, 5, 6, 8, 12, 16)
) -> list[BreakEven]:
    """The break-even of chains of several lengths."""
    longest = min(limits.nodes, limits.depth, len(costs.verify_s) - 1)
    known = (k for k in lengths if k <= longest and math.isfinite(costs.verify_s[k]))
    return [break_even(TokenTree.chain(k), costs) for k in known]


# ---- the plan


@dataclass(frozen=True, slots=True)
class Verdict:
    """speculate is None when no acceptance was given; interval is that of the speed-up, from counts."""

    speculate: bool | None
    reason: str
    speedup: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Plan:
    """The whole answer; keys as in contract.md.

    legal   the best shape that a stack can run, where the plan is for one; `best` is the free optimum then
    """

    verdict: Verdict
    break_even: BreakEven | None
    break_even_table: tuple[BreakEven, ...]
    best: Best | None
    recommended: Shape | None
    best_chain: Shape | None
    plain: Shape
    memory: Memory | None
    noise: float = 0.0
    legal: Best | None = None


def plan(
    acceptance: Acceptance | None,
    costs: Costs,
    limits: Limits,
    *,
    tie: float = 0.01,
    memory_of: Callable[[int], Memory] | None = None,
    search: Callable[[Acceptance, Limits, Costs | None], Best] = best_tree,
) -> Plan:
    """Does speculation pay, how much, and with which tree?

    acceptance   None: the break-even is all that can be said
    memory_of    memory needed with that many nodes, where a device and a model are known
    search       finds the optimum; by default among all trees within the limits
    Raises       DoesNotFit when the target alone is larger than the device.

    >>> p = plan(Independent(0.6), Costs(verify_s=[1.0] * 15), Limits(14))
    >>> p.verdict.speculate, p.best.shape.nodes, round(p.best.shape.tau, 3)
    (True, 14, 3.382)
    """
    check_memory(memory_of)
    nothing = Independent(0.0)
    plain = shape_of(TokenTree.empty(), acceptance or nothing, costs)
    table = tuple(break_even_table(limits, costs))
    if acceptance is None:
        return _without_acceptance(plain, table, costs, limits, memory_of)
    choice = choose(acceptance, costs, limits, tie=tie, memory_of=memory_of, search=search)
    best, chosen, spent = choice.best, choice.shape, choice.memory
    chain = best_chain(acceptance, limits, costs)
    shown = chosen if chosen.nodes else _best_speculative(acceptance, best, costs) or chain
    even = break_even(shown.tree, costs, round_s=shown.round_s) if shown.nodes else None
    verdict = _verdict(chosen, shown, even, acceptance, spent)
    return Plan(verdict, even, table, best, chosen, chain, plain, spent, noise(acceptance, best))


@dataclass(frozen=True)
class Choice:
    """The optimum, the shape to run, and the memory that was asked of it: plain decoding runs where it does not fit."""

    best: Best
    shape: Shape
    memory: Memory | None


def choose(
    acceptance: Acceptance,
    costs: Costs,
    limits: Limits,
    *,
    tie: float,
    memory_of: Callable[[int], Memory] | None = None,
    search: Callable[[Acceptance, Limits, Costs | None], Best] = best_tree,
) -> Choice:
    """The optimum and the shape to run.

    Raises  DoesNotFit when the target alone is larger than the device.
    """
    check_memory(memory_of)
    best = search(acceptance, limits, costs)
    chosen = recommended(acceptance, best, costs, max(tie, noise(acceptance, best)))
    spent = memory_of(chosen.nodes) if memory_of else None
    fits = spent is None or spent.fits
    return Choice(best, chosen if fits else shape_of(TokenTree.empty(), acceptance, costs), spent)


def noise(acceptance: Acceptance, best: Best) -> float:
    """The share of tokens per second that the counts behind the acceptance leave open below the optimum, 95 %."""
    bounds = tau_interval(acceptance, best.tree) if best.tree.nodes else None
    return 0.0 if bounds is None else 1 - bounds.low / best.shape.tau


def check_memory(memory_of: Callable[[int], Memory] | None) -> None:
    """Raises  DoesNotFit when the target alone is larger than the device."""
    if memory_of is None:
        return
    least = memory_of(0)
    target_alone = least.needed_bytes - least.freed_bytes
    if target_alone > least.device_bytes:
        needed, missing = show_bytes(target_alone), show_bytes(target_alone - least.device_bytes)
        raise DoesNotFit(
            f"the model needs {needed} on a device of {show_bytes(least.device_bytes)}, {missing} too much",
            hint="a larger --tp, a smaller --dtype, less --batch or --context, or --offload all",
        )


def _best_speculative(acceptance: Acceptance, best: Best, costs: Costs) -> Shape | None:
    """The best shape that drafts at all, for when plain decoding wins."""
    rows = [row for row in best.candidates if row.nodes and row.speedup is not None]
    if not rows:
        return None
    top = max(rows, key=lambda row: (row.speedup or 0.0, -row.nodes))
    return best.shape_at(top.nodes, acceptance, costs)


def _without_acceptance(
    plain: Shape, table: tuple[BreakEven, ...], costs: Costs, limits: Limits, memory_of: Callable[[int], Memory] | None
) -> Plan:
    known = [row for row in table if row.p is not None]
    easiest = min(known, key=lambda row: (row.p, row.nodes)) if known else None
    reason = (
        "no acceptance was given, and none is assumed"
        if easiest is None
        else f"no acceptance was given; a chain of {easiest.nodes} pays from p {easiest.p:.3f} up"
    )
    spent = memory_of(min(limits.nodes, len(costs.verify_s) - 1)) if memory_of else None
    return Plan(Verdict(None, reason, None), easiest, table, None, None, None, plain, spent)


def _verdict(
    chosen: Shape, shown: Shape, even: BreakEven | None, acceptance: Acceptance, spent: Memory | None
) -> Verdict:
    if spent is not None and not spent.fits:
        over = show_bytes(spent.needed_bytes - spent.device_bytes)
        return Verdict(False, f"target, draft and caches need {over} more than the device has", 1.0)
    if not chosen.nodes:
        needed = (
            f"its round needs {even.tau:.3f} tokens to break even and yields {shown.tau:.3f}"
            if even
            else "nothing can be drafted"
        )
        size = plural(shown.nodes, "node")
        return Verdict(False, f"no shape beats plain decoding; the best has {size}: {needed}", 1.0)
    assert even is not None
    reason = f"a round yields {chosen.tau:.3f} tokens and costs as much as {even.tau:.3f} plain passes"
    return Verdict(True, reason, chosen.speedup, _speedup_interval(chosen, acceptance))


def _speedup_interval(chosen: Shape, acceptance: Acceptance) -> tuple[float, float] | None:
    """The interval of the speed-up that the counts behind the acceptance leave, 95 %."""
    bounds = tau_interval(acceptance, chosen.tree)
    if bounds is None or chosen.speedup is None:
        return None
    return bounds.low / chosen.tau * chosen.speedup, bounds.high / chosen.tau * chosen.speedup


def useful_limit(crossover_width: float, last_width: int | None) -> int:
    """The default node limit: min(256, 1.5 x crossover, end of the curve).

    >>> useful_limit(153.0, None), useful_limit(93.0, None), useful_limit(153.0, 9)
    (229, 139, 8)
    """
    limit = DEFAULT_NODES
    if math.isfinite(crossover_width):
        limit = min(limit, int(1.5 * crossover_width))
    if last_width is not None:
        limit = min(limit, last_width - 1)
    return max(limit, 1)
