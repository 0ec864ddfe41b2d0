"""specplan advise"""

import math
from dataclasses import replace
from typing import Any

from ..base import units
from ..base.errors import InputError
from . import chances, methods, options, pricing, scenes, values
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Device, Draft, Methods, Output, Running, Shape, Target, Verify, command

app = new_app()


@app.command(cls=Command)
@command
def advise(
    device: Device,
    target: Target,
    running: Running,
    draft: Draft,
    how: Methods,
    acceptance: Acceptance,
    shape: Shape,
    verify: Verify,
    output: Output,
) -> None:
    """Keep the speculation that is running, change its shape, or turn it off; and what to measure next.

    \b
    specplan advise --k 5 --accept-length 2.8 --measured-tpot 25ms --measured-spec-tpot 14ms
    specplan advise --gpu h100 --model llama-3-70b --tp 4 --draft llama-3.2-1b --k 5 --acceptance metrics.txt
    specplan advise --gpu h100 --model llama-3-8b --method eagle3 --acceptance vllm.log

    What runs now is --k K or --from FILE, else the length that the acceptance was measured with. Times come from a
    device, a model and a draft, or are measured: plain decoding, and the round or the time per token in use.
    """
    from ..acceptance.by_k import at_length
    from ..planning.advise import advise as judge
    from ..planning.advise import still_best
    from ..render.advise import advise_answer

    place = scenes.scene(device, target)
    likely = chances.acceptance(acceptance, shape, target)
    if likely is not None and shape.k is not None:
        likely = at_length(likely, values.positive("--k", shape.k))
    earlier, moved, likely = _since(place, running, acceptance, likely, shape, target)
    used = _in_use(shape, likely)
    place.inputs["acceptance"] = chances.described(acceptance, shape)
    tie = 0.01 if shape.tie is None else values.tie(shape.tie)
    likely = chances.as_deep_as(place, used, likely)
    wanted = methods.asked(how, shape, None, None)
    costs = _measured(place, running, used, likely) or _planned(
        place, running, draft, verify, shape, used, drafted=not wanted.names
    )
    limits = pricing.limits(shape, costs, None if place.hardware is None else scenes.crossover_width(place))
    limits = _within(limits, costs)
    if wanted.names:
        costs, limits = methods.at_work(place, costs, limits, draft, wanted, likely)
    if likely is not None:
        limits = chances.chains_only_if_needed(place, likely, limits)
        chances.warn_of_conditions(place, likely)
    place.inputs.update(nodes=used.nodes, depth=used.depth, budget=limits.nodes, max_depth=limits.depth, tie=tie)
    found = judge(used, likely, limits, costs, tie=tie)
    was = None
    if earlier is not None:
        before = chances.as_deep_as(place, used, earlier)
        was = still_best(used, before, _chains_if_needed(before, limits), costs, tie=tie)
    finish(
        advise_answer(place, found, used, costs, likely, moved, was),
        output,
        failed=found.verdict not in ("keep", "change"),
    )


def _since(
    place: Any, running: options.Running, acceptance: Acceptance, likely: Any, shape: options.Shape, target: Target
) -> tuple[Any, Any, Any]:
    """The earlier acceptance, what changed, and the one to judge by: of two pages of counters, the rounds between."""
    if running.before is None:
        return None, None, likely
    from ..acceptance.drift import drift, is_snapshot_pair, window

    if likely is None:
        raise InputError("--before without an acceptance to compare with", hint="--acceptance FILE is the newer one")
    earlier = chances.at_context(chances.from_file(running.before, acceptance), target)
    moved = drift(earlier, likely, k=None if shape.k is None else values.positive("--k", shape.k))
    if is_snapshot_pair(earlier, likely):
        likely = window(earlier, likely)
        place.notes.append("judged by the rounds between the two snapshots, not by the mean since the server started")
    return earlier, moved, likely


def _in_use(shape: options.Shape, likely: Any) -> Any:
    """The tree that runs now."""
    from ..acceptance.by_k import standing_for
    from ..base.tree import TokenTree
    from ..planning.advise import known_length

    if shape.from_ is not None and shape.k is None:
        from ..stacks.tree_files import read_tree

        with values.naming("--from"):
            return read_tree(shape.from_)
    if shape.from_ is not None:
        raise InputError("--from and --k both give the tree", hint="leave one of them out")
    measured = {} if likely is None else likely.about.get("measured_tree") or {}
    if shape.k is None and {"steps", "nodes"} <= measured.keys():
        return standing_for(measured["nodes"], measured["steps"])
    k = values.positive("--k", shape.k) if shape.k is not None else likely and known_length(likely)
    if not k:
        raise InputError("what runs now is not known", hint="--k 5 is a chain of 5, --from FILE a tree")
    return TokenTree.chain(k)


def _measured(place: Any, running: options.Running, used: Any, likely: Any) -> Any:
    """Costs from measured times, None when they are not given."""
    from ..planning.advise import costs_from_measured

    round_s = values.read("--round", running.round, units.parse_time)
    spec_s = values.read("--measured-spec-tpot", running.measured_spec_tpot, units.parse_time)
    if round_s is None and spec_s is None:
        return None
    plain_s = values.read("--measured-tpot", running.measured_tpot, units.parse_time)
    if plain_s is None:
        raise InputError("the time of plain decoding is missing", hint="add --measured-tpot 25ms")
    if round_s is not None and spec_s is not None:
        raise InputError("--round and --measured-spec-tpot both give the round", hint="leave one of them out")
    if place.hardware is not None:
        raise InputError("--gpu and a measured round both give the times", hint="leave one of them out")
    if round_s is None:
        if likely is None:
            raise InputError(
                "--measured-spec-tpot without an acceptance says nothing of the round", hint="--round 40ms does"
            )
        assert spec_s is not None
        round_s = spec_s * likely.tau(used)
    source = "--measured-tpot, --round" if spec_s is None else "--measured-tpot, --measured-spec-tpot"
    text = "between plain decoding and the round in use, time grows evenly with the drafted tokens"
    place.assumptions.append((text, source))
    place.inputs.update(measured_tpot_s=plain_s, round_s=round_s, measured_spec_tpot_s=spec_s)
    return costs_from_measured(used, plain_s=plain_s, round_s=round_s, batch=place.load.batch)


def _planned(
    place: Any, running: options.Running, draft: Draft, verify: Verify, shape: Shape, used: Any, *, drafted: bool
) -> Any:
    """Costs of a device, a model and a draft, or of a measured curve; up to the tree in use at least."""
    from ..search.space import useful_limit

    if verify.verify_curve is None and place.hardware is None and place.model is None:
        raise InputError(
            "no times: neither a device nor measured ones",
            hint="--measured-tpot 25ms --measured-spec-tpot 14ms, or --gpu, --model and --draft",
        )
    if verify.verify_curve is None:
        place.require()
    scenes.say_of_baseline(place, running.measured_tpot)
    most = None if shape.budget is None else values.positive("--budget", shape.budget)
    if verify.verify_curve is None:
        most = max(most or useful_limit(scenes.crossover_width(place) or math.inf, None), used.nodes)
    return pricing.costs(place, draft, verify, most=most, drafted=drafted)


def _chains_if_needed(likely: Any, limits: Any) -> Any:
    return limits if likely.siblings_known else replace(limits, children=1)


def _within(limits: Any, costs: Any) -> Any:
    """Limits that end where the times do."""
    return replace(limits, nodes=min(limits.nodes, max(len(costs.verify_s) - 1, 1)))
