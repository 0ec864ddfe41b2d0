"""The answer of `specplan roofline`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.units import show_bandwidth, show_bytes, show_count, show_rate, show_share, show_time
from ..timing.roofline import Roofline
from .bars import bars
from .output import Answer, Table, answer_of

TERMS = {
    "memory": "memory",
    "compute": "compute",
    "linear": "matrices",
    "head": "LM head",
    "attention": "attention",
    "norms": "norms and activations",
    "all_reduce": "all-reduce",
    "routing": "expert routing",
    "launch": "launches",
    "host": "host",
    "measured": "measured",
}


def roofline_answer(
    place: Any, rows: Mapping[str, Sequence[Roofline]], *, tpot_s: float | None, share: float | None
) -> Answer:
    """Ideal and calibrated side by side; one row a width where several were asked for."""
    ideal, calibrated = rows["ideal"], rows["calibrated"]
    first = {"ideal": ideal[0], "calibrated": calibrated[0]}
    several = len(ideal) > 1
    parts = (
        [_widths_table(ideal, calibrated)]
        if several
        else [_table(ideal[0], calibrated[0]), _terms_table(calibrated[0])]
    )
    why = [_bound_sentence(place, ideal[0], calibrated[0])]
    if share is not None and tpot_s is not None:
        why.append(share_sentence(share, tpot_s))
    warnings = [*place.warnings, *_fit_warning(place)]
    keys = {
        **first,
        "rows": [{"width": i.width, "ideal": i, "calibrated": c} for i, c in zip(ideal, calibrated)],
        "measured": {"tpot_s": tpot_s, "roofline_share": share},
    }
    return answer_of(
        "roofline",
        verdict=_verdict(place, ideal[0], calibrated[0]),
        inputs=place.inputs,
        keys=keys,
        parts=parts,
        why=why,
        assumptions=place.assumptions,
        notes=place.notes,
        warnings=warnings,
    )


def _verdict(place: Any, ideal: Roofline, calibrated: Roofline) -> str:
    what = "1 token" if ideal.width == 1 else f"{ideal.width} tokens"
    per = "" if place.load.batch == 1 else f" for each of {place.load.batch} sequences"
    bounds = {"memory": "Memory-bound", "compute": "Compute-bound", "overhead": "Overhead-bound"}
    return (
        f"{bounds[calibrated.bound]}: a pass over {what}{per} takes {show_time(ideal.pass_s)} ideal, "
        f"{show_time(calibrated.pass_s)} calibrated; compute catches up at {ideal.crossover_tokens:.0f} tokens ideal"
        f"{_knee(', 10 % slower past ', calibrated.knee_10_tokens, ' calibrated')}."
    )


def _knee(prefix: str, tokens: int | None, suffix: str) -> str:
    return "" if tokens is None else f"{prefix}{tokens}{suffix}"


def _table(ideal: Roofline, calibrated: Roofline) -> Table:
    def row(name: str, show: Any) -> tuple[str, str, str]:
        return name, show(ideal), show(calibrated)

    rows = [
        row("weights read", lambda r: show_bytes(r.weight_bytes)),
        row("KV cache read", lambda r: show_bytes(r.kv_bytes)),
        row("FLOP", lambda r: show_rate(r.flops, "FLOP")),
        row("t_memory", lambda r: show_time(r.t_memory_s)),
        row("t_compute", lambda r: show_time(r.t_compute_s)),
        row("t_compute per token", lambda r: show_time(r.t_compute_per_token_s)),
        row("pass", lambda r: show_time(r.pass_s)),
        row("between", lambda r: "-" if r.low_s == r.high_s else f"{show_time(r.low_s, 3)} - {show_time(r.high_s, 3)}"),
        row("over a pass of width 1", lambda r: f"{r.ratio_to_width_1:.3f}"),
        row("intensity, FLOP/byte", lambda r: f"{r.intensity_flop_per_byte:.4g}"),
        row("ridge, FLOP/byte", lambda r: f"{r.ridge_flop_per_byte:.4g}"),
        row("crossover K, tokens", lambda r: f"{r.crossover_tokens:.4g}"),
        row("crossover width", lambda r: f"{r.crossover_width:.4g}"),
        row("10 % slower past, tokens", lambda r: _count(r.knee_10_tokens)),
        row("50 % slower past, tokens", lambda r: _count(r.knee_50_tokens)),
        row("headroom, tokens", lambda r: f"{r.headroom_tokens:.4g}"),
        row("tokens/s ceiling", lambda r: f"{r.tokens_per_s:.4g}"),
        row("tokens/s per sequence", lambda r: f"{r.tokens_per_s_per_sequence:.4g}"),
        row("compute utilisation", lambda r: show_share(r.compute_utilisation)),
        row("bound by", lambda r: r.bound),
    ]
    if ideal.experts_touched is not None:
        rows.insert(2, row("experts touched a layer", lambda r: f"{r.experts_touched:.1f}"))
    return Table(("", "ideal", "calibrated"), rows)


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _terms_table(calibrated: Roofline) -> Table:
    total = calibrated.pass_s
    rows = [
        (TERMS.get(name, name), show_time(seconds), f"{seconds / total:.1%}")
        for name, seconds in calibrated.terms.items()
    ]
    return Table(("calibrated pass", "time", "share"), rows)


def _widths_table(ideal: Sequence[Roofline], calibrated: Sequence[Roofline]) -> Table:
    rows = [
        (
            str(i.width),
            show_time(i.pass_s),
            show_time(c.pass_s),
            f"{i.ratio_to_width_1:.3f}",
            f"{c.ratio_to_width_1:.3f}",
            f"{i.headroom_tokens:.0f}",
            show_share(i.compute_utilisation, 3),
            c.bound,
            bar,
        )
        for i, c, bar in zip(ideal, calibrated, bars([c.pass_s for c in calibrated], length=16))
    ]
    columns = ("width", "ideal", "calibrated", "x width 1", "x width 1 cal.", "headroom", "compute used", "bound by")
    return Table((*columns, ""), rows)


def _bound_sentence(place: Any, ideal: Roofline, calibrated: Roofline) -> str:
    memory, compute = show_time(ideal.t_memory_s), show_time(ideal.t_compute_s)
    rate = show_bandwidth(place.hardware.memory.bandwidth)
    path = f"at {rate}" if place.offload is None else f"at {rate} and over the host link"
    moved = f"{show_bytes(ideal.weight_bytes + ideal.kv_bytes)} {path}"
    more = "" if ideal.experts_touched is None else ", as long as they touch no further experts"
    if ideal.bound == "memory":
        idle = show_share(1 - ideal.compute_utilisation)
        return (
            f"Moving {moved} takes {memory}, the arithmetic {compute}: "
            f"the compute units are idle {idle} of an ideal pass, "
            f"and {max(ideal.headroom_tokens, 0):.0f} more tokens fit in it{more}."
        )
    return (
        f"The arithmetic takes {compute}, moving {moved} {memory}: past the crossover each token makes the pass longer."
    )


def share_sentence(share: float, tpot_s: float) -> str:
    """How healthy plain decoding is."""
    text = f"A measured {show_time(tpot_s)} per token is {show_share(share, 3)} of the ideal roofline"
    if share > 1:
        return (
            text + ": faster than the datasheet allows, so a device, model or dtype given here is not the one measured."
        )
    if share < 0.4:
        text += ": look for overhead (eager mode, host, sampling) before speculating"
    return text + "; a healthy engine reaches 50 to 85 %."


def _fit_warning(place: Any) -> list[str]:
    from ..timing.memory import target_bytes

    load, has = place.load, place.hardware.memory.capacity
    needs = target_bytes(place.model, context=load.context, batch=load.batch, tp=load.tp, offload=place.offload)
    if needs <= has:
        return []
    over, needed = show_bytes(needs - has), show_bytes(needs)
    weights = show_count(place.model.params_total)
    return [f"{weights} weights and the cache need {needed} a device, {over} more than it has"]
