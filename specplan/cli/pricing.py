"""What a round costs, the limits of the search and the memory, from the options."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..base import units
from ..base.errors import InputError
from . import options, scenes, values

if TYPE_CHECKING:
    from ..hardware.curve import Curve


def costs(
    place: scenes.Scene,
    draft: options.Draft,
    verify: options.Verify,
    *,
    most: int | None = None,
    drafted: bool = True,
) -> Any:
    """What a round costs, None when neither a device with a model nor a verify curve was given.

    most      the largest node count that will be asked for
    drafted   False where a method will put its own draft in
    """
    from ..search.costs import RoundCosts
    from ..search.space import DEFAULT_NODES, useful_limit
    from ..timing.draft import free_draft

    curve = _verify_curve(place, verify)
    timed = place.hardware is not None and place.model is not None
    if curve is None and not timed:
        _refuse_lone(place, draft)
        return None
    relative = curve is not None and curve.relative
    measured = curve
    if curve is not None:
        table = (curve.scaled(1.0) if relative else curve).table()
        plain_s = table[0]
        _say_of_curve(place, curve, most)
    else:
        limit = most or useful_limit(scenes.crossover_width(place) or math.inf, None)
        timer = place.timer()
        table = timer.table(place.load, range(1, max(limit, 1) + 2))
        measured = timer.curve(place.load)
        if measured is not None and len(table) < max(limit, 1) + 1:
            place.notes.append(
                f"the profile's curve ends at width {measured.last}: the search stops at {measured.last - 1} nodes"
            )
        plain_s = table[0]
    proposed = _draft(place, draft, plain_s, relative=relative) if drafted else free_draft()
    overhead_s = overhead(place, draft, relative=relative)
    if proposed.last is not None:
        table = table[: max(proposed.last, DEFAULT_NODES) + 1]
    table = _within_pass(place, table, verify.pass_tokens)
    if proposed.free and drafted:
        place.notes.append(
            "no draft given: drafting is counted as free; --draft, --draft-pass or --draft-ratio counts it"
        )
    place.inputs.update(
        draft=None if proposed.free else proposed.name,
        draft_passes=draft.draft_passes,
        draft_shape=draft.draft_shape,
        overhead_s=overhead_s,
    )
    return RoundCosts(
        verify_s=table,
        draft=proposed,
        overhead_s=overhead_s,
        draft_passes=draft.draft_passes,
        draft_shape=draft.draft_shape,
        batch=place.load.batch,
        relative=relative,
        measured=None if measured is None else frozenset(measured.widths),
    )


def _within_pass(place: scenes.Scene, table: list[float], most: str | None) -> list[float]:
    """The times of passes that an engine's limit on the tokens of the whole batch allows; plain decoding stays."""
    if most is None:
        return table
    tokens = values.positive("--pass-tokens", most)
    place.inputs["pass_tokens"] = tokens
    width = max(1, tokens // place.load.batch)
    if width < len(table):
        what = "nothing can be drafted" if width == 1 else f"{width - 1} nodes a sequence at most"
        place.notes.append(f"--pass-tokens {tokens} at batch {place.load.batch}: {what}")
    return table[:width]


def _say_of_curve(place: scenes.Scene, curve: Curve, most: int | None) -> None:
    """What a measured curve leaves open."""
    if curve.between == "linear" and len(curve.widths) < curve.last:
        place.notes.append("between measured widths the time is interpolated; --between step or never changes that")
    if curve.last == 1:
        place.warnings.append("the curve has width 1 alone: nothing wider was measured, so nothing can be drafted")
    elif most is not None and most + 1 > curve.last:
        place.notes.append(f"the curve ends at width {curve.last}: the search stops at {curve.last - 1} nodes")
    if place.load.batch > 1 and "batch" not in curve.stated:
        place.notes.append(f"the curve states no batch: it is taken as measured at batch {place.load.batch}")
    if place.load.context and "context" not in curve.stated:
        place.notes.append("the curve states no context: --context changes nothing")
    if place.load.tp > 1 and place.model is None:
        place.warnings.append("--tp changes nothing: the times come from the curve")


def _refuse_lone(place: scenes.Scene, draft: options.Draft) -> None:
    """A draft or half a scene without a way to time the target is a mistake, not a wish for no costs."""
    given = [
        option.names[0]
        for name, option in draft.declared().items()
        if getattr(draft, name) not in (None, option.default)
    ]
    if place.hardware is not None or place.model is not None or given:
        what = "--gpu" if place.hardware is not None else "--model or --params" if place.model is not None else given[0]
        raise InputError(
            f"{what} alone gives no time of a verification pass",
            hint="give --gpu with --model or --params, or --verify-curve FILE",
        )


def _verify_curve(place: scenes.Scene, verify: options.Verify) -> Curve | None:
    if verify.verify_curve is None:
        return None
    from ..hardware.curve import read_curve

    text = values.read_file("--verify-curve", verify.verify_curve)
    context = place.load.context or None
    curve = read_curve(text, where=verify.verify_curve, batch=place.load.batch, context=context, between=verify.between)
    place.inputs.update(verify_curve=verify.verify_curve, between=verify.between)
    place.assumptions.append(
        (f"verification time measured at {len(curve.widths)} widths, 1 to {curve.last}", verify.verify_curve)
    )
    if curve.relative and place.hardware is not None and place.model is not None:
        curve = curve.scaled(place.timer().seconds(place.load))
    return curve


def overhead(place: scenes.Scene, draft: options.Draft, *, relative: bool) -> float:
    """Fixed seconds of a round: as given, or the profile's."""
    given = values.read("--overhead", draft.overhead, units.parse_time)
    if given is not None:
        if given < 0:
            raise InputError(f"--overhead {draft.overhead} is negative", hint="write 2ms")
        if relative:
            raise InputError("--overhead needs a curve in ms or s", hint="a ratio curve has no seconds; give times")
        return given
    if place.hardware is None or place.time == "ideal" or relative:
        return 0.0
    known = place.hardware.overhead_or_default()
    text = f"overhead {units.show_time(known.per_round)} a round (acceptance, cache, host)"
    place.assumptions.append((text, known.source.partition(": ")[0]))
    return float(known.per_round)


def _draft(place: scenes.Scene, given: options.Draft, plain_s: float, *, relative: bool = False) -> Any:
    from ..timing.draft import PASSES, SHAPES, draft_by_curve, draft_by_ratio, draft_model, free_draft, timed_draft

    for option, value, known in (
        ("--draft-passes", given.draft_passes, PASSES),
        ("--draft-shape", given.draft_shape, SHAPES),
    ):
        if value not in known:
            raise InputError(f"{option} {value!r} is not known", hint="one of " + ", ".join(known))
    ways = {
        "--draft": given.draft or None,
        "--draft-params": given.draft_params,
        "--draft-curve": given.draft_curve,
        "--draft-pass": given.draft_pass,
        "--draft-ratio": given.draft_ratio,
    }
    named = [option for option, value in ways.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{named[0]} and {named[1]} both give the draft's cost", hint="leave one of them out")
    if not named:
        return free_draft()
    if given.draft_curve is not None:
        from ..hardware.curve import read_curve

        text = values.read_file("--draft-curve", given.draft_curve)
        curve = read_curve(text, where=given.draft_curve, batch=place.load.batch)
        if relative and not curve.relative:
            raise InputError(
                "--draft-curve has times, --verify-curve ratios",
                hint="give both in ms, or the draft's as ratios of a plain pass",
            )
        place.notes.append(f"draft passes were measured up to width {curve.last}: wider levels are not looked at")
        return draft_by_curve(curve if relative or not curve.relative else curve.times(plain_s))
    if given.draft_pass is not None:
        if relative:
            hint = "--draft-ratio 0.05 is 5 % of a plain pass"
            raise InputError("--draft-pass is a time, --verify-curve has ratios", hint=hint)
        seconds = values.read("--draft-pass", given.draft_pass, units.parse_time)
        assert seconds is not None
        return timed_draft(seconds)
    if given.draft_ratio is not None:
        ratio = values.read("--draft-ratio", given.draft_ratio, units.parse_share)
        assert ratio is not None
        return draft_by_ratio(ratio, plain_s)
    if place.hardware is None:
        raise InputError(f"{named[0]} needs a device", hint="add --gpu NAME, or give --draft-pass 0.5ms")
    if len(given.draft) > 1:
        raise InputError("several --draft without a method that merges them", hint="add --method specinfer")
    model = draft_spec(given, online=place.online)
    tp = place.load.tp if given.draft_tp is None else values.positive("--draft-tp", given.draft_tp)
    if place.model is not None:
        from ..models.pair import check_against_target
        from ..models.vocabulary import said_of_tokenizers

        place.warnings.extend(check_against_target(model, place.model))
        said = said_of_tokenizers(given.draft[0], place.named) if given.draft and place.named else None
        place.warnings.extend([said] if said else [])
    from ..models.pair import context_warning

    short = context_warning(model, place.load.context)
    place.warnings.extend([short] if short else [])
    return draft_model(
        place.hardware,
        model,
        batch=place.load.batch,
        context=place.load.context,
        tp=tp,
        time=place.time,
        engine=place.engine,
    )


def drafts(place: scenes.Scene, given: options.Draft, plain_s: float) -> list[Any]:
    """Every draft that the options name; one that is free where they name none."""
    each = [[name] for name in given.draft] or [[]]
    return [_draft(place, options.Draft(**{**vars(given), "draft": names}), plain_s) for names in each]


def draft_spec(given: options.Draft, *, online: bool = False) -> Any:
    """The draft model that the options name."""
    name = given.draft[0] if given.draft else None
    model = scenes.model_of(
        "--draft", name, "--draft-params", given.draft_params, dtype=given.draft_dtype, online=online
    )
    return scenes.with_formats(
        model,
        ("--draft-dtype", given.draft_dtype),
        ("--draft-weight-bits", given.draft_weight_bits),
        ("--draft-kv-dtype", given.draft_kv_dtype),
    )


def limits(shape: options.Shape, costs: Any, crossover: float | None) -> Any:
    """The limits of the search; defaults come from the device or the curve and are printed."""
    from ..search.space import DEFAULT_DEPTH, Space, useful_limit

    nodes = None if shape.budget is None else values.positive("--budget", shape.budget)
    if nodes is None:
        if costs is None:
            raise InputError("no budget given", hint="--budget 14 is a tree of up to 14 drafted tokens")
        last = None if costs.measured is None else len(costs.verify_s)
        nodes = useful_limit(crossover if crossover is not None else math.inf, last)
    return Space(
        nodes,
        DEFAULT_DEPTH if shape.max_depth is None else values.positive("--max-depth", shape.max_depth),
        None if shape.max_children is None else values.positive("--max-children", shape.max_children),
    )


def memory_of(place: scenes.Scene, costs: Any) -> Callable[[int], Any] | None:
    """Memory on one device by number of nodes; None without a device and a model."""
    if place.hardware is None or place.model is None:
        return None
    from ..timing.memory import memory

    load, capacity = place.load, place.hardware.memory.capacity
    place.assumptions.append(
        ("memory: weights and caches; activations and the runtime's reserve are left out", "memory.py")
    )

    def needed(nodes: int) -> Any:
        return memory(
            place.model,
            costs.draft,
            context=load.context,
            batch=load.batch,
            tp=load.tp,
            nodes=nodes,
            device_bytes=capacity,
            offload=place.offload,
        )

    return needed


@dataclass(frozen=True)
class Extra:
    """Further questions: families of shapes, limits and sensitivity.

    costs_at   costs at a bandwidth times a factor, None without a device and a model
    """

    families: bool
    explain: bool
    heads: int
    max_rank: int
    costs_at: Callable[[float], Any] | None


def extra(
    place: scenes.Scene,
    more: options.More,
    draft: options.Draft,
    verify: options.Verify,
    reprice: Callable[[scenes.Scene, Any], Any] | None = None,
) -> Extra:
    """What --families and --explain ask for.

    reprice   puts a method's draft and verification into the costs; None: as the options give them
    """
    from ..planning.families import DEFAULT_HEADS, DEFAULT_MAX_RANK

    if (more.heads or more.max_rank) and not more.families and reprice is None:
        raise InputError("--heads and --max-rank go with --method medusa or --families", hint="add --families")
    timed = more.explain and place.hardware is not None and place.model is not None and verify.verify_curve is None

    def costs_at(factor: float) -> Any:
        from ..hardware.profile import override

        bandwidth = f"{place.hardware.memory.bandwidth * factor}"
        other = replace(
            place.at_batch(place.load.batch), hardware=override(place.hardware, {"memory.bandwidth": f"{bandwidth}B/s"})
        )
        found = costs(other, draft, verify, most=place.inputs["budget"], drafted=reprice is None)
        return found if reprice is None else reprice(other, found)

    return Extra(
        more.families,
        more.explain,
        DEFAULT_HEADS if more.heads is None else values.positive("--heads", more.heads),
        DEFAULT_MAX_RANK if more.max_rank is None else values.positive("--max-rank", more.max_rank),
        costs_at if timed else None,
    )
