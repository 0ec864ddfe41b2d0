"""What to do with the speculation that is running: keep it, change its shape, or turn it off.

advise(used, acceptance, limits, costs)     verdict, the shape to change to, what to measure next
costs_from_measured(...)                    costs from two measured times: plain decoding and the round in use
"""

from __future__ import annotations

from dataclasses import dataclass

from ..acceptance.kinds import Acceptance, Chain, Independent, Interval, tau_interval
from ..base.errors import InputError
from ..base.tree import TokenTree
from ..search.best import best_tree, recommended
from ..search.costs import RoundCosts
from ..search.shape import Shape, shape_of
from ..search.space import Space
from .plan import break_even

# Settings to try beside the one in use; each is a server start.
TRIALS = 4


@dataclass(frozen=True)
class Trial:
    """A setting to measure.

    sglang   steps, topk, draft tokens (the root counted), as its sweep scripts take them after the batch
    vllm     a row of its serve parameters; None for a tree, which it does not run
    speedup  predicted, None without an acceptance
    """

    nodes: int
    depth: int
    topk: int
    speedup: float | None
    sglang: str
    vllm: dict[str, int] | None
    why: str


@dataclass(frozen=True)
class Advice:
    """What to do.

    verdict         keep, change or off; None without an acceptance
    break_even_tau  tokens per round at which the round in use equals plain decoding
    interval        of the speed-up in use, from the counts
    change          the shape to change to, None to keep the one in use; plain decoding to turn it off
    interpolated    True when the times of `change` lie between the two measured ones
    """

    verdict: str | None
    reason: str
    used: Shape | None
    break_even_tau: float
    round_s: float
    interval: tuple[float, float] | None
    change: Shape | None
    loss: float | None
    measure_next: tuple[Trial, ...]


def costs_from_measured(used: TokenTree, *, plain_s: float, round_s: float, batch: int = 1) -> RoundCosts:
    """RoundCosts from the time of plain decoding and of a whole round (draft, verification, rest) of the tree in use.

    Between the two, seconds are taken to grow evenly with the drafted tokens; past the tree in use nothing is known.
    Raises  InputError when a time is not above 0, or a round takes less than a plain pass.

    >>> costs = costs_from_measured(TokenTree.chain(4), plain_s=0.01, round_s=0.018)
    >>> [round(s, 4) for s in costs.verify_s]
    [0.01, 0.012, 0.014, 0.016, 0.018]
    """
    for name, value in (("plain decoding", plain_s), ("the round", round_s)):
        if not 0 < value < float("inf"):
            raise InputError(f"the time of {name} is {value:g} s", hint="a time above 0, such as 12ms")
    if round_s < plain_s:
        raise InputError(
            f"a round of {round_s * 1e3:.4g} ms is shorter than a plain pass of {plain_s * 1e3:.4g} ms: "
            "no verification is cheaper than a pass",
            hint="the times, or the tokens a round, come from different runs: measure them together",
        )
    slope = (round_s - plain_s) / used.nodes
    times = [plain_s + slope * i for i in range(used.nodes)] + [round_s]
    return RoundCosts(verify_s=times, batch=batch, measured=frozenset({1, used.width}))


def advise(
    used: TokenTree, acceptance: Acceptance | None, limits: Space, costs: RoundCosts, *, tie: float = 0.01
) -> Advice:
    """Keep, change or turn off.

    keep     the tree in use is within `tie` of the best shape, and faster than plain decoding
    change   another shape within `limits` is faster by more than that
    off      nothing is faster than plain decoding by more than `tie`; or the round in use is not, and what might be
             lies on the line between two measured times

    >>> costs = costs_from_measured(TokenTree.chain(4), plain_s=0.01, round_s=0.014)
    >>> advise(TokenTree.chain(4), Chain.from_accept_length(2.8, 4), Space(4, 4, children=1), costs).verdict
    'keep'
    >>> advise(TokenTree.chain(4), Chain.from_accept_length(1.05, 4), Space(4, 4, children=1), costs).verdict
    'off'
    """
    even = break_even(used, costs)
    if acceptance is None:
        trials = _trials(used, None, limits, None, costs)
        reason = f"no acceptance given: the shape in use pays from {even.tau:.2f} tokens a round"
        return Advice(None, reason, None, even.tau, even.round_s, None, None, None, trials)
    found = still_best(used, acceptance, limits, costs, tie=tie)
    now, best = found.used, found.best
    verdict = _verdict(now, best, found.still, tie)
    change = None if verdict == "keep" else best
    reason = _reason(verdict, now, best, even.tau)
    if verdict == "change" and is_line(costs, used) and (now.speedup or 0.0) <= 1.0 + tie:
        verdict, change = "off", shape_of(TokenTree.empty(), acceptance, costs)
        reason = _reason_of_line(now, best, even.tau)
    interval = _interval(tau_interval(acceptance, used), now)
    trials = _trials(used, acceptance, limits, best, costs)
    return Advice(verdict, reason, now, even.tau, even.round_s, interval, change, found.loss, trials)


def is_line(costs: RoundCosts, used: TokenTree) -> bool:
    """Whether the times are two measured ones and a straight line between them."""
    return costs.measured == frozenset({1, used.width})


def _reason_of_line(now: Shape, best: Shape, even: float) -> str:
    return (
        f"{now.tau:.2f} tokens a round against {even:.2f} at break-even. A chain of {best.nodes} would reach "
        f"{best.speedup:.2f} times plain decoding if a round had no fixed cost, which two times do not say: measure it"
    )


def _verdict(now: Shape, best: Shape, still: bool, tie: float) -> str:
    if not best.nodes or (best.speedup or 0.0) <= 1.0 + tie:
        return "off"
    return "keep" if still and (now.speedup or 0.0) > 1.0 else "change"


def _interval(tau: Interval | None, now: Shape) -> tuple[float, float] | None:
    if tau is None or now.speedup is None:
        return None
    scale = now.speedup / now.tau
    return tau.low * scale, tau.high * scale


def _reason(verdict: str, now: Shape, best: Shape, even: float) -> str:
    here = f"{now.tau:.2f} tokens a round against {even:.2f} at break-even"
    if verdict == "off":
        return f"{here}, and no shape looked at beats plain decoding by more than the tie"
    if verdict == "keep":
        return f"{here}, and no shape looked at is faster by more than the tie"
    return f"{here}; {best.nodes} nodes in {best.depth} levels reach {best.speedup:.2f} times plain decoding"


# ---- what to measure next


def _trials(
    used: TokenTree, acceptance: Acceptance | None, limits: Space, best: Shape | None, costs: RoundCosts
) -> tuple[Trial, ...]:
    """Plain decoding, the shape to change to, and chains around the one in use, best prediction first."""
    trials = [Trial(0, 0, 0, 1.0, "0,0,0", None, "plain decoding at the same load: every speed-up is against it")]
    if best is not None and best.nodes and best.parents != used.parents:
        trials.append(_trial(best.nodes, best.depth, max(best.widths), best.speedup, "the best shape by this plan"))
    around = [_chain_trial(k, acceptance, costs) for k in _lengths(used.depth, limits)]
    known = {(trial.nodes, trial.depth) for trial in trials}
    fresh = [trial for trial in around if (trial.nodes, trial.depth) not in known]
    fresh.sort(key=lambda trial: -(trial.speedup or 0.0))
    return tuple((trials + fresh)[: TRIALS + 1])


def _lengths(k: int, limits: Space) -> list[int]:
    """Neighbours of the length in use; one past the measured times shows how the curve goes on."""
    return sorted({length for length in (k - 1, k + 1, 2 * k, (k + 1) // 2) if length >= 1 and length != k})


def _chain_trial(k: int, acceptance: Acceptance | None, costs: RoundCosts) -> Trial:
    chain = TokenTree.chain(k)
    known = acceptance is not None and k + 1 <= len(costs.verify_s) and (acceptance.max_depth or k) >= k
    if not known or acceptance is None or not acceptance.knows(chain):
        return _trial(k, k, 1, None, "its time or its acceptance is not known yet")
    if costs.draft.last is not None and costs.draft.last < 1:
        return _trial(k, k, 1, None, "its draft time is not known yet")
    return _trial(k, k, 1, shape_of(chain, acceptance, costs).speedup, "a neighbour of the shape in use")


def _trial(nodes: int, depth: int, topk: int, speedup: float | None, why: str) -> Trial:
    chain = nodes == depth
    vllm = {"speculative_config.num_speculative_tokens": nodes} if chain else None
    return Trial(nodes, depth, topk, speedup, f"{depth},{topk},{nodes + 1}", vllm, why)


def known_length(acceptance: Acceptance) -> int | None:
    """Drafted tokens a round of the run that the acceptance was measured in, None when it does not say."""
    k = acceptance.about.get("k")
    if k is None and isinstance(acceptance, Chain):
        k = acceptance.measured_depth
    return None if k is None or isinstance(acceptance, Independent) else int(k)


@dataclass(frozen=True)
class StillBest:
    """The shape in use and the one to recommend, both under the newer acceptance.

    loss   share of the tokens per second that the shape in use leaves; below the tie it is still the best
    """

    used: Shape
    best: Shape
    loss: float
    still: bool


def still_best(
    used: TokenTree, acceptance: Acceptance, limits: Space, costs: RoundCosts, *, tie: float = 0.01
) -> StillBest:
    """Whether a shape is within `tie` of the best one.

    >>> costs = RoundCosts(verify_s=[0.01] * 9)
    >>> still_best(TokenTree.chain(1), Chain.constant(0.9), Space(8, 8, children=1), costs).still
    False
    """
    now = shape_of(used, acceptance, costs)
    best = recommended(acceptance, best_tree(acceptance, limits, costs), costs, tie)
    if now.speedup is None or best.speedup is None:
        raise InputError("no times to compare shapes by", hint="a device and a model, or measured times, are needed")
    loss = max(0.0, 1.0 - now.speedup / best.speedup)
    best = now if now.speedup > best.speedup else best  # a tree that the engine built is none that the search knows
    return StillBest(now, best, loss, loss <= tie)
