"""Seconds of one pass, from its cost and a device.

Two ways, always side by side:

ideal        max(bytes / bandwidth, FLOP / peak), one max over the whole pass: the datasheet, no losses
calibrated   per matrix ((bytes / (em * BW))^q + (FLOP / (ec * peak))^q)^(1/q) + c, with rows rounded up
             to the tile, then attention, norms, all-reduce and the host's constant; or, where the
             profile carries a measured width curve for this model, that curve

Every result keeps its terms, so text, JSON and pictures show the same decomposition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from collections.abc import Callable, Iterable, Mapping, Sequence

from .cost import Cost, Kernel, Load, attention_cost, experts_touched, kernels, pass_cost
from .curve import Curve
from .errors import InputError
from .hardware import Curve as MeasuredCurve
from .hardware import Hardware, LinkTimes
from .model import ModelSpec, WeightFormat

TIMES = ("ideal", "calibrated")
_HALF = ("fp16", "bf16", "tf32", "fp32", "int8")
WIDEST = 2**20


@dataclass(frozen=True, slots=True)
class PassTime:
    """One pass on one device, in seconds, with its parts.

    memory_s   the bytes at the (achievable) bandwidth
    compute_s  the FLOP at the (achievable) peak
    pass_s     the whole pass
    terms      seconds by part; they add up to pass_s
    bound      memory, compute or overhead: the largest of the three
    """

    load: Load
    cost: Cost
    memory_s: float
    compute_s: float
    pass_s: float
    terms: Mapping[str, float]
    measured: bool = False

    @property
    def bound(self) -> str:
        overhead = self.pass_s - max(self.memory_s, self.compute_s)
        if overhead > max(self.memory_s, self.compute_s):
            return "overhead"
        return "memory" if self.memory_s >= self.compute_s else "compute"


def pass_time(
    hardware: Hardware,
    model: ModelSpec,
    *,
    width: int = 1,
    context: int = 0,
    batch: int = 1,
    tp: int = 1,
    time: str = "calibrated",
    draft: bool = False,
) -> PassTime:
    """Seconds of one forward pass over `width` new tokens per sequence.

    draft    a draft's pass: the host's constant per draft pass is added instead of that per pass
    Raises   InputError for a load or a `time` that does not exist.

    >>> from specplan import load_hardware
    >>> t = pass_time(load_hardware("a100-80gb-sxm"), ModelSpec.from_params(13e9), time="ideal")
    >>> round(t.pass_s * 1e3, 2)
    12.75
    """
    return PassTimer(hardware, model, time=time, draft=draft).at(Load(width, batch, context, tp))


class PassTimer:
    """Times passes of one model on one device; what does not depend on the load is looked up once.

    >>> from specplan import load_hardware
    >>> timer = PassTimer(load_hardware("a100-80gb-sxm"), ModelSpec.from_params(13e9), time="ideal")
    >>> timer.at(Load(width=14)).pass_s == timer.at(Load(width=1)).pass_s
    True
    """

    def __init__(self, hardware: Hardware, model: ModelSpec, *, time: str = "calibrated", draft: bool = False) -> None:
        if time not in TIMES:
            raise InputError(f"--time {time!r} is not known", hint="one of " + ", ".join(TIMES))
        self.hardware, self.model, self.time, self.draft = hardware, model, time, draft
        self.bandwidth = hardware.memory.bandwidth
        groups = {linear.group for linear in model.linears}
        self.precisions = {group: hardware.peak(model.format_of(group).multiply_in) for group in groups}
        self.half_peak = hardware.peak(_HALF)[1]
        if time == "calibrated":
            self.efficiencies = {
                group: hardware.efficiency_for(_kernel_kind(self.precisions[group][0], model.format_of(group)))
                for group in groups
            }
            self.attention = hardware.attention_or_default()
            self.overhead = hardware.overhead_or_default()
            self.link = hardware.link_or_default()

    def at(self, load: Load) -> PassTime:
        """The pass that `load` describes."""
        if self.time == "ideal":
            return self._ideal(load)
        return self._measured(load) or self._calibrated(load)

    def table(self, load: Load, widths: Iterable[int]) -> list[float]:
        """Seconds of passes that differ in width alone."""
        return [self.at(replace(load, width=width)).pass_s for width in widths]

    def _cost(self, load: Load) -> Cost:
        return pass_cost(
            self.model, width=load.width, context=load.context, batch=load.batch, tp=load.tp, overlap=load.overlap
        )

    def _ideal(self, load: Load) -> PassTime:
        cost = self._cost(load)
        memory_s = cost.streamed_bytes / self.bandwidth
        compute_s = sum(k.count * k.cost.flops / self.precisions[k.linear.group][1] for k in kernels(self.model, load))
        compute_s += cost.attention_flops / self.half_peak
        pass_s = max(memory_s, compute_s)
        bound = "memory" if memory_s >= compute_s else "compute"
        return PassTime(load, cost, memory_s, compute_s, pass_s, {bound: pass_s})

    def _calibrated(self, load: Load) -> PassTime:
        terms: dict[str, float] = {"linear": 0.0, "head": 0.0}
        memory_s = compute_s = 0.0
        for kernel in kernels(self.model, load):
            whole, memory, compute = self._kernel(kernel)
            terms["head" if kernel.linear.group == "head" else "linear"] += kernel.count * whole
            memory_s += kernel.count * memory
            compute_s += kernel.count * compute
        fixed, read = self._attention(load)
        terms["attention"] = fixed + read
        terms["norms"] = self.model.layers * self.overhead.per_layer
        if load.tp > 1:
            message = load.tokens * self.model.hidden * 2.0
            terms["all_reduce"] = 2 * self.model.layers * all_reduce_s(self.link, message, load.tp)
        terms["host"] = self.overhead.per_draft_pass if self.draft else self.overhead.per_pass
        return PassTime(load, self._cost(load), memory_s + read, compute_s, sum(terms.values()), terms)

    def _kernel(self, kernel: Kernel) -> tuple[float, float, float]:
        """(whole, memory part, compute part) of one run of a matrix product; the whole rounds rows up to the tile."""
        group = kernel.linear.group
        eff, peak = self.efficiencies[group], self.precisions[group][1]
        memory = (kernel.cost.weight_bytes + kernel.cost.activation_bytes) / (eff.memory * self.bandwidth)
        compute = kernel.cost.flops / (eff.compute * peak)
        tiled = compute * math.ceil(kernel.rows / eff.tile) * eff.tile / kernel.rows
        return p_norm(memory, tiled, eff.exponent) + eff.latency, memory, compute

    def _attention(self, load: Load) -> tuple[float, float]:
        """(fixed, reading) seconds of attention and recurrent state over all layers."""
        fixed = reading = 0.0
        several = self.attention.multi_query_bandwidth if load.width > 1 else None
        for group in self.model.attention:
            cost = attention_cost(group, self.model, load)
            floor, rate = self.attention.floor, self.attention.memory * self.bandwidth
            if several:
                # A several-query kernel that does not split the cache reads each sequence's cache by itself.
                rate = min(rate, several * load.batch)
                floor = self.attention.multi_query_floor or floor
            fixed += group.layers * floor
            reading += group.layers * (cost.kv_bytes + cost.kv_write_bytes) / rate
        state = 2 * self.model.state_bytes * load.batch / load.tp
        return fixed, reading + state / (self.attention.memory * self.bandwidth)

    def _measured(self, load: Load) -> PassTime | None:
        """The profile's own curve for this model, dtype, batch and tp, where it has one that is long enough."""
        dtype = self.model.formats["default"].name
        fitting = [
            c
            for c in self.hardware.curves
            if (c.dtype, c.batch, c.tp) == (dtype, load.batch, load.tp) and _is_of(c, self.model) and c.points[-1].width >= load.width
        ]
        if not fitting:
            return None
        nearest = min(fitting, key=lambda c: abs(c.context - load.context))
        curve = Curve(tuple(p.width for p in nearest.points), tuple(p.ms / 1e3 for p in nearest.points))
        seconds, ideal = curve.at(load.width), self._ideal(load)
        memory_s, compute_s = min(seconds, ideal.memory_s), min(seconds, ideal.compute_s)
        return PassTime(load, ideal.cost, memory_s, compute_s, seconds, {"measured": seconds}, measured=True)


def _kernel_kind(precision: str, fmt: WeightFormat) -> str:
    """The kernels that an efficiency is of: weight-only ones read fewer bits than they multiply in."""
    if precision in ("fp16", "bf16") and fmt.bits <= 9:
        return "w4a16" if fmt.bits < 6 else "w8a16"
    return precision


def _is_of(curve: MeasuredCurve, model: ModelSpec) -> bool:
    """Whether a profile's curve was measured on this model: by name, or by number of weights within 2 %."""
    if curve.model is not None:
        return curve.model.casefold() == model.name.casefold()
    return curve.params is not None and abs(curve.params / model.params_total - 1) <= 0.02


def p_norm(a: float, b: float, q: float) -> float:
    """(a^q + b^q)^(1/q) without overflow: 1 adds the two, infinity takes the larger.

    >>> p_norm(3.0, 4.0, 2.0)
    5.0
    """
    large, small = max(a, b), min(a, b)
    if small == 0:
        return large
    return float(large * (1 + (small / large) ** q) ** (1 / q))


def all_reduce_s(link: LinkTimes, message_bytes: float, tp: int) -> float:
    """Seconds of one all-reduce: latency, then a ring over the links.

    message_bytes  of the summed activations, tokens * hidden * 2
    """
    return link.all_reduce_latency + 2 * (tp - 1) / tp * message_bytes / link.device_bandwidth


# ---- the roofline of a pass


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds a pass, ideal or calibrated. Of one device and the whole batch; see contract.md.

    crossover_tokens     tokens in the pass at which compute catches up with the memory time
    crossover_width      the same over the batch
    knee_10_tokens       tokens up to which the pass is at most 10 % slower than at width 1
    headroom_tokens      crossover_tokens less the tokens in the pass
    tokens_per_s         ceiling: every token of the pass is emitted, all sequences together
    compute_utilisation  compute time over pass time, at the datasheet peak
    """

    width: int
    weight_bytes: float
    kv_bytes: float
    kv_write_bytes: float
    flops: float
    experts_touched: float | None
    t_memory_s: float
    t_compute_s: float
    t_compute_per_token_s: float
    pass_s: float
    ratio_to_width_1: float
    intensity_flop_per_byte: float
    ridge_flop_per_byte: float
    crossover_tokens: float
    crossover_width: float
    knee_10_tokens: int | None
    knee_50_tokens: int | None
    headroom_tokens: float
    tokens_per_s: float
    tokens_per_s_per_sequence: float
    compute_utilisation: float
    bound: str
    terms: Mapping[str, float] = field(default_factory=dict)


def roofline(
    hardware: Hardware,
    model: ModelSpec,
    *,
    width: int = 1,
    context: int = 0,
    batch: int = 1,
    tp: int = 1,
    time: str = "ideal",
) -> Roofline:
    """The roofline of a pass of `width` tokens per sequence.

    >>> from specplan import load_hardware
    >>> r = roofline(load_hardware("a100-80gb-sxm"), ModelSpec.from_params(13e9))
    >>> round(r.crossover_tokens), round(r.ridge_flop_per_byte), round(r.tokens_per_s)
    (153, 153, 78)
    """
    load = Load(width, batch, context, tp)
    return rooflines(hardware, model, [width], load=load, time=time)[0]


def rooflines(
    hardware: Hardware, model: ModelSpec, widths: Sequence[int], *, load: Load, time: str = "ideal"
) -> list[Roofline]:
    """One roofline a width; knees and the width-1 pass are found once."""

    timer = PassTimer(hardware, model, time=time)

    def timed(width: int) -> PassTime:
        return timer.at(replace(load, width=width))

    first = timed(1)
    knees = {slower: knee_width(lambda w: timed(w).pass_s, slower) for slower in (0.1, 0.5)}
    ideal_first = first if time == "ideal" else ideal_pass(hardware, model, replace(load, width=1))
    return [_summary(hardware, model, timed(width), first, ideal_first, knees) for width in widths]


def _summary(
    hardware: Hardware,
    model: ModelSpec,
    at: PassTime,
    first: PassTime,
    ideal_first: PassTime,
    knees: Mapping[float, int | None],
) -> Roofline:
    load, batch = at.load, at.load.batch
    per_token = first.compute_s / batch
    crossover = first.memory_s / per_token
    moe = next((m for m in model.linears if m.experts), None)
    # FLOP over compute seconds is the peak of the mix of precisions that this model multiplies in.
    mixed_peak = ideal_first.cost.total_flops / ideal_first.compute_s
    ceiling = load.tokens / at.pass_s
    return Roofline(
        width=load.width,
        weight_bytes=at.cost.weight_bytes,
        kv_bytes=at.cost.kv_bytes,
        kv_write_bytes=at.cost.kv_write_bytes,
        flops=at.cost.total_flops,
        experts_touched=None if moe is None else experts_touched(moe.experts, moe.active, load.tokens, overlap=load.overlap),
        t_memory_s=at.memory_s,
        t_compute_s=at.compute_s,
        t_compute_per_token_s=per_token,
        pass_s=at.pass_s,
        ratio_to_width_1=at.pass_s / first.pass_s,
        intensity_flop_per_byte=at.cost.intensity,
        ridge_flop_per_byte=mixed_peak / hardware.memory.bandwidth,
        crossover_tokens=crossover,
        crossover_width=crossover / batch,
        knee_10_tokens=_times(knees[0.1], batch),
        knee_50_tokens=_times(knees[0.5], batch),
        headroom_tokens=crossover - load.tokens,
        tokens_per_s=ceiling,
        tokens_per_s_per_sequence=ceiling / batch,
        compute_utilisation=at.cost.total_flops / mixed_peak / at.pass_s,
        bound=at.bound,
        terms=dict(at.terms),
    )


def _times(width: int | None, batch: int) -> int | None:
    return None if width is None else width * batch


def ideal_pass(hardware: Hardware, model: ModelSpec, load: Load) -> PassTime:
    """The datasheet's pass: max(bytes / bandwidth, FLOP / peak)."""
    return PassTimer(hardware, model, time="ideal").at(load)


def crossover_tokens(hardware: Hardware, model: ModelSpec, load: Load) -> float:
    """Tokens in the pass at which ideal compute catches up with the memory time of a width-1 pass."""
    first = ideal_pass(hardware, model, replace(load, width=1))
    return first.memory_s / (first.compute_s / load.batch)


def knee_width(seconds: Callable[[int], float], slower: float, *, widest: int = WIDEST) -> int | None:
    """Largest width up to which a pass is at most `slower` slower than width 1; None past `widest`.

    seconds   a non-decreasing function of the width

    >>> knee_width(lambda w: max(100, w), 0.1)
    110
    """
    limit = seconds(1) * (1 + slower)
    low, high = 1, 2
    while seconds(high) <= limit:
        low, high = high, high * 2
        if high > widest:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seconds(middle) <= limit else (low, middle)
    return low


def precision_notes(hardware: Hardware, model: ModelSpec) -> list[tuple[str, str]]:
    """Assumptions on what this device multiplies the model's weights in, as (text, source)."""
    notes = []
    for group, fmt in model.formats.items():
        precision, _ = hardware.peak(fmt.multiply_in)
        wanted = fmt.multiply_in[0]
        native = {"fp16", "bf16"}
        if precision != wanted and not {precision, wanted} <= native:
            of = "" if group == "default" else f" of {group}"
            notes.append(
                (f"{fmt.name} weights{of} are multiplied in {precision}: {hardware.name} has no {wanted}", "profile, compute")
            )
    return notes


def roofline_share(hardware: Hardware, model: ModelSpec, tpot_s: float, *, load: Load) -> float:
    """Share of the ideal roofline that a measured time per output token reaches."""
    if not (math.isfinite(tpot_s) and tpot_s > 0):
        raise InputError(f"--measured-tpot {tpot_s!r} is not a time above 0", hint="write 25.3ms")
    return ideal_pass(hardware, model, replace(load, width=1)).pass_s / tpot_s

