"""Seconds of one pass, from its cost and a device.

Two ways, always side by side:

ideal        max(bytes / bandwidth, FLOP / peak), one max over the whole pass: the datasheet, no losses
calibrated   per matrix ((bytes / (em * BW))^q + (FLOP / (ec * peak))^q)^(1/q) * step + c, with rows rounded
             up to the tile, then attention, norms, all-reduce and the host's constant; or, where the
             profile carries a measured width curve for this model, that curve

An `Engine` changes the calibrated time: its host constants, what its kernels reach, how it reads the cache.
Weights that are offloaded stream over the link to the host, at that link's bandwidth.

Every result keeps its terms, so text, JSON and pictures show the same decomposition.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.errors import InputError
from ..hardware.curve import Curve
from ..hardware.profile import Curve as MeasuredCurve
from ..hardware.profile import Efficiency, Hardware, LinkTimes
from .cost import Cost, Kernel, Load, attention_cost, experts_touched, kernels, pass_cost

if TYPE_CHECKING:
    from ..hardware.engines import Engine
    from ..models.spec import Attention, Linear, ModelSpec, WeightFormat

TIMES = ("ideal", "calibrated")
OFFLOADS = ("all", "experts")
WIDEST = 2**20
_HALF = ("fp16", "bf16", "tf32", "fp32", "int8")


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
    engine: Engine | str | None = None,
    offload: str | None = None,
) -> PassTime:
    """Seconds of one forward pass over `width` new tokens per sequence.

    draft    a draft's pass: the host's constant per draft pass is added instead of that per pass
    engine   what serves the model; None takes the device's defaults
    offload  weights in the host's memory: "all", "experts" or None
    Raises   InputError for a load, a `time` or an `offload` that does not exist.

    >>> from specplan import ModelSpec, load_hardware
    >>> t = pass_time(load_hardware("a100-80gb-sxm"), ModelSpec.from_params(13e9), time="ideal")
    >>> round(t.pass_s * 1e3, 2)
    12.75
    """
    timer = PassTimer(hardware, model, time=time, draft=draft, engine=engine, offload=offload)
    return timer.at(Load(width, batch, context, tp))


class PassTimer:
    """Times passes of one model on one device; what does not depend on the load is looked up once.

    >>> from specplan import ModelSpec, load_hardware
    >>> timer = PassTimer(load_hardware("a100-80gb-sxm"), ModelSpec.from_params(13e9), time="ideal")
    >>> timer.at(Load(width=14)).pass_s == timer.at(Load(width=1)).pass_s
    True
    """

    # What differs between numbers and arrays; `pass_grid` has the arrays' ones.
    larger: ClassVar[Callable[..., Any]] = staticmethod(max)
    smaller: ClassVar[Callable[..., Any]] = staticmethod(min)

    def __init__(
        self,
        hardware: Hardware,
        model: ModelSpec,
        *,
        time: str = "calibrated",
        draft: bool = False,
        engine: Engine | str | None = None,
        offload: str | None = None,
    ) -> None:
        if time not in TIMES:
            raise InputError(f"--time {time!r} is not known", hint="one of " + ", ".join(TIMES))
        if offload is not None and offload not in OFFLOADS:
            raise InputError(f"--offload {offload!r} is not known", hint="one of " + ", ".join(OFFLOADS))
        self.hardware, self.model, self.time, self.draft = hardware, model, time, draft
        if isinstance(engine, str):
            from ..hardware.engines import load_engine

            engine = load_engine(engine)
        self.engine, self.offload = engine, offload
        self._curves: dict[tuple[int, int, int], Curve | None] = {}
        self.bandwidth = hardware.memory.bandwidth
        groups = {linear.group for linear in model.linears}
        self.precisions = {group: hardware.peak(model.format_of(group).multiply_in) for group in groups}
        self.half_peak = hardware.peak(_HALF)[1]
        if offload or time == "calibrated":
            self.link = hardware.link_or_default()
        if time == "calibrated":
            self._calibrate(groups)

    def _calibrate(self, groups: Iterable[str]) -> None:
        hardware, model = self.hardware, self.model
        self.efficiencies = {group: _efficiency(hardware, model.format_of(group), self.engine) for group in groups}
        self.clock = 1.0 if hardware.power.clock_share is None else hardware.power.clock_share
        self.vector_rates = {group: self._vector_rate(model.format_of(group)) for group in groups}
        self.attention = hardware.attention_or_default()
        self.cache_rate = self.attention.memory * self.bandwidth
        if self.engine:
            self.cache_rate *= min(self.engine.attention_ratio(hardware.kind), 1 / self.attention.memory)
        half, peak = hardware.peak(_HALF)
        self.attention_peak = peak * hardware.efficiency_for(half).compute * self.clock
        self.overhead = hardware.overhead_or_default()

    def _vector_rate(self, fmt: WeightFormat) -> float | None:
        """FLOP/s of the engine's kernels for few rows of such weights; None where it has none for them."""
        share = self.engine.vector_share(self.hardware.kind, fmt.bits) if self.engine else None
        peak = _vector_peak(self.hardware)
        return None if share is None or peak is None else share * peak * self.clock

    def at(self, load: Load) -> PassTime:
        """The pass that `load` describes."""
        if self.time == "ideal":
            return self._ideal(load)
        return self._measured(load) or self._calibrated(load)

    def seconds(self, load: Load) -> float:
        """`at(load).pass_s`, without the rest."""
        if self.time == "ideal" or self.hardware.curves:
            return self.at(load).pass_s
        terms, _, _ = self._parts(load)
        return float(sum(terms.values()))

    def table(self, load: Load, widths: Iterable[int]) -> list[float]:
        """Seconds of passes that differ in width alone; it ends where a measured curve does."""
        curve = self.curve(load)
        known = widths if curve is None else [width for width in widths if width <= curve.last]
        return [self.seconds(replace(load, width=width)) for width in known]

    def with_engine(self, engine: Engine | None) -> PassTimer:
        """The same timer for another engine."""
        return type(self)(
            self.hardware, self.model, time=self.time, draft=self.draft, engine=engine, offload=self.offload
        )

    def without_checking(self) -> PassTimer:
        """The same timer without what the engine's host adds to a verification: for knees."""
        if self.engine is None:
            return self
        return self.with_engine(self.engine.model_copy(update={"per_verification": 0.0, "per_verified_sequence": 0.0}))

    # ---- ideal

    def _ideal(self, load: Load) -> PassTime:
        cost = _pass_cost(self.model, load)
        memory_s, compute_s = self._ideal_parts(load, cost)
        pass_s = max(memory_s, compute_s)
        bound = "memory" if memory_s >= compute_s else "compute"
        return PassTime(load, cost, memory_s, compute_s, pass_s, {bound: pass_s})

    def _ideal_parts(self, load: Load, cost: Cost) -> tuple[Any, Any]:
        """(memory, compute) seconds at the datasheet's rates, each byte at the bandwidth of its memory."""
        memory_s = cost.streamed_bytes / self.bandwidth
        compute_s = cost.attention_flops / self.half_peak
        for kernel in kernels(self.model, load):
            compute_s = compute_s + kernel.count * kernel.cost.flops / self.precisions[kernel.linear.group][1]
            if self._offloaded(kernel.linear):
                slower = 1 / self.link.host_bandwidth - 1 / self.bandwidth
                memory_s = memory_s + kernel.count * kernel.cost.weight_bytes * slower
        return memory_s, compute_s

    def _offloaded(self, linear: Linear) -> bool:
        return self.offload == "all" or (self.offload == "experts" and linear.experts > 0)

    # ---- calibrated

    def _calibrated(self, load: Load) -> PassTime:
        terms, memory_s, compute_s = self._parts(load)
        return PassTime(load, _pass_cost(self.model, load), memory_s, compute_s, sum(terms.values()), terms)

    def _parts(self, load: Load) -> tuple[dict[str, Any], Any, Any]:
        """(terms, memory, compute) in seconds."""
        terms: dict[str, Any] = {"linear": 0.0, "head": 0.0}
        memory_s = compute_s = 0.0
        for kernel in kernels(self.model, load):
            whole, memory, compute = self._kernel(kernel)
            name = "head" if kernel.linear.group == "head" else "linear"
            terms[name] = terms[name] + kernel.count * whole
            memory_s, compute_s = memory_s + kernel.count * memory, compute_s + kernel.count * compute
        terms["attention"], read, pairs = self._attention(load)
        terms["norms"] = self.model.layers * (self.overhead.per_layer + (self.engine.per_layer if self.engine else 0.0))
        expert_layers = max((m.count for m in self.model.linears if m.experts), default=0)
        if expert_layers:
            terms["routing"] = expert_layers * self.overhead.per_expert_layer
        if load.tp > 1:
            message = load.tokens * self.model.hidden * 2.0
            terms["all_reduce"] = 2 * self.model.layers * all_reduce_s(self.link, message, load.tp)
        terms |= self._host(load, sum(terms.values()))
        return terms, memory_s + read, compute_s + pairs

    def _kernel(self, kernel: Kernel) -> tuple[Any, Any, Any]:
        """(whole, memory part, compute part) of one run of a matrix product; the whole rounds rows up to the tile."""
        group, cost = kernel.linear.group, kernel.cost
        eff, peak = self.efficiencies[group], self.precisions[group][1]
        memory = (cost.weight_bytes + cost.activation_bytes) / (eff.memory * self.bandwidth)
        if self._offloaded(kernel.linear):
            memory = cost.weight_bytes / self.link.host_bandwidth + cost.activation_bytes / (
                eff.memory * self.bandwidth
            )
        compute = cost.flops / (eff.compute * peak * self.clock)
        fixed = eff.latency + eff.latency_per_input * kernel.inputs
        whole = self._product(kernel.rows, memory, compute, eff)
        if (rate := self.vector_rates[group]) is not None:
            whole = self._by_vectors(kernel, rate, whole, self.norm(memory, compute / kernel.rows, eff.exponent))
        return whole + fixed, memory, compute

    def _product(self, rows: float, memory: float, compute: float, eff: Efficiency) -> Any:
        """Seconds with rows rounded up to the tile.

        The filling of a first tile counts at the full clock: the fit gives it a share in the time of few rows, which
        read their bytes meanwhile and run in smaller tiles, so that a lower clock hardly slows them.
        """
        tiles = self.tiles(rows, eff.tile)
        filling = (tiles * eff.tile / rows - 1) * (1 - (tiles == 1) * (1 - self.clock))
        return self.norm(memory, compute * (1 + filling), eff.exponent) * self.step(rows, eff)

    def _by_vectors(self, kernel: Kernel, rate: float, matrix: Any, one_row: Any) -> Any:
        """Seconds where few rows are multiplied vector by vector; `matrix` is what the kernels for many rows take.

        The first row's arithmetic hides behind its bytes, each further row's adds. Above the border the engine has
        changed kernels; where their tile is not known, they take no less than the last of the others.
        """
        assert self.engine is not None
        last = self.engine.vector_rows
        vectors = one_row + (self.smaller(kernel.rows, last) - 1) * (kernel.cost.flops / kernel.rows / rate)
        if self.hardware.kind not in self.engine.matrix_tile:
            matrix = self.larger(matrix, vectors)
        return (kernel.rows <= last) * vectors + (kernel.rows > last) * matrix

    def _attention(self, load: Load) -> tuple[Any, Any, Any]:
        """(whole, reading, multiplying) seconds of attention and recurrent state over all layers."""
        whole = reading = pairs = 0.0
        for group in self.model.attention:
            cost = attention_cost(group, self.model, load)
            shared = group.heads / group.kv_heads if self.engine and self.engine.cache_per_query_head else 1.0
            read = (cost.kv_bytes * (1.0 if group.latent else shared) + cost.kv_write_bytes) / self.cache_rate
            multiply = cost.attention_flops / self.attention_peak
            one = self.attention.floor + self.larger(read, multiply)
            whole = whole + group.layers * self.larger(one, self._unsplit(group, cost, load))
            reading, pairs = reading + group.layers * read, pairs + group.layers * multiply
        state = 2 * self.model.state_bytes * load.batch / load.tp / self.cache_rate
        return whole + state, reading + state, pairs

    def _unsplit(self, group: Attention, cost: Cost, load: Load) -> Any:
        """Seconds of a layer's attention by a several-query kernel that does not split the cache; 0 where none runs.

        One block of threads reads each KV head of each sequence, however many queries there are.
        """
        per_head = self.attention.multi_query_bandwidth
        if per_head is None or group.latent or (self.engine and self.engine.splits_cache):
            return 0.0
        blocks = load.batch * (group.kv_heads / min(load.tp, group.kv_heads))
        rate = self.smaller(per_head * blocks, self.cache_rate)
        floor = self.attention.multi_query_floor or self.attention.floor
        return (load.width > 1) * (floor + cost.kv_bytes / rate + cost.kv_write_bytes / self.cache_rate)

    def _host(self, load: Load, device_s: Any) -> dict[str, Any]:
        """The host's terms; where kernels are launched one by one, the device waits for it once it is faster."""
        stated = self.hardware.overhead.per_draft_pass if self.draft else self.hardware.overhead.per_pass
        if self.engine is None or stated is not None:
            return {"host": self.overhead.per_draft_pass if self.draft else self.overhead.per_pass}
        host = self.engine.per_draft_pass if self.draft else self.engine.per_pass
        terms = {"host": host + self.engine.per_sequence * load.batch}
        if not self.draft:
            checking = self.engine.per_verification + self.engine.per_verified_sequence * load.batch
            terms["host"] = terms["host"] + (load.width > 1) * checking
        if self.engine.launch_per_layer:
            terms["launch"] = self.larger(self.engine.launch_per_layer * self.model.layers - device_s, 0.0)
        return terms

    def tiles(self, rows: float, tile: int) -> Any:
        """Tiles of `tile` rows that cover `rows`."""
        return math.ceil(rows / tile)

    def norm(self, memory: float, compute: float, exponent: float) -> Any:
        return p_norm(memory, compute, exponent)

    def step(self, rows: float, eff: Efficiency) -> Any:
        """The factor of the stair that `rows` stand on."""
        i = bisect_right(eff.step_rows, rows)
        return eff.step_factors[i - 1] if i else 1.0

    # ---- measured

    def _measured(self, load: Load) -> PassTime | None:
        """The pass by the profile's own curve, where it has one of this model, dtype, batch and tp.

        Raises  InputError past the last measured width: nothing is known there.
        """
        curve = self.curve(load)
        if curve is None:
            return None
        seconds, ideal = curve.at(load.width), self._ideal(load)
        memory_s, compute_s = min(seconds, ideal.memory_s), min(seconds, ideal.compute_s)
        return PassTime(load, ideal.cost, memory_s, compute_s, seconds, {"measured": seconds}, measured=True)

    def curve(self, load: Load) -> Curve | None:
        """The profile's curve for this batch, tp and the nearest context, None where it has none.

        Of curves taken in both modes, that of the engine's: replayed graphs unless it launches kernels one by one.
        Where the contexts differ, attention's difference by the formula is added at every width.
        """
        if not self.hardware.curves or self.time == "ideal":
            return None
        key = load.batch, load.context, load.tp
        if key not in self._curves:
            self._curves[key] = self._find_curve(load)
        return self._curves[key]

    def _find_curve(self, load: Load) -> Curve | None:
        dtype = self.model.formats["default"].name
        fitting = [
            c
            for c in self.hardware.curves
            if (c.dtype, c.batch, c.tp) == (dtype, load.batch, load.tp) and _is_of(c, self.model)
        ]
        if not fitting or self.offload:
            return None
        unlike = "graph" if self.engine is not None and self.engine.launch_per_layer else "eager"
        nearest = min(fitting, key=lambda c: (c.mode == unlike, abs(c.context - load.context), -c.points[-1].width))
        seconds = [point.ms / 1e3 + self._context_s(load, nearest.context, point.width) for point in nearest.points]
        return Curve(
            tuple(point.width for point in nearest.points),
            tuple(seconds),
            batch=load.batch,
            context=nearest.context,
            where=f"{self.hardware.name}, curve of {self.model.name}",
        )

    def _context_s(self, load: Load, measured_at: int, width: int) -> float:
        """What this context costs more than the measured one, by the formula for attention."""
        if measured_at == load.context:
            return 0.0
        here, there = (self._attention(replace(load, width=width, context=c))[0] for c in (load.context, measured_at))
        return float(here - there)


def _pass_cost(model: ModelSpec, load: Load) -> Cost:
    return pass_cost(model, width=load.width, context=load.context, batch=load.batch, tp=load.tp, overlap=load.overlap)


def _efficiency(hardware: Hardware, fmt: WeightFormat, engine: Engine | None) -> Efficiency:
    """What matrix kernels reach for weights of that format: the profile's, as the engine's kernels scale it."""
    eff = hardware.efficiency_for(_kernel_kind(hardware.peak(fmt.multiply_in)[0], fmt))
    if engine is None:
        return eff
    from ..hardware.engines import stored_class

    own: dict[str, Any] = {"memory": min(1.0, eff.memory * engine.memory_ratio(hardware.kind, fmt.bits))}
    latency = engine.latency.get(stored_class(fmt.bits))
    if latency is not None:
        own |= {"latency": latency, "latency_per_input": 0.0}
    if engine.exponent is not None:
        tile = engine.matrix_tile.get(hardware.kind, 1)
        own |= {"exponent": engine.exponent, "tile": tile, "step_rows": (), "step_factors": ()}
    return eff.model_copy(update=own)


def _vector_peak(hardware: Hardware) -> float | None:
    """fp32 FLOP/s of the cores outside the matrix units.

    Where a profile states none: half the 16-bit peak on Apple's and consumers' parts, as it is on those that state
    both; None on others, whose matrix units are 8 to 16 times as fast.
    """
    if hardware.compute.fp32 is None and hardware.kind in ("apple", "consumer_gpu"):
        return hardware.peak(_HALF)[1] / 2
    return hardware.compute.fp32


def _kernel_kind(precision: str, fmt: WeightFormat) -> str:
    """The kernels that an efficiency is of: weight-only ones read fewer bits than they multiply in."""
    if precision in ("fp16", "bf16") and fmt.bits <= 9:
        return "w4a16" if fmt.bits <= 6 else "w8a16"
    return precision


def interval(timer: PassTimer, load: Load) -> tuple[float, float]:
    """Seconds between which the pass should lie: (low, high).

    With an engine, its error at the 90th percentile on either side. Without one, the fastest and the slowest of
    the engines that replay graphs, each with its error; never less than the datasheet allows. The ideal time and a
    measured curve have no interval.

    >>> from specplan import ModelSpec, load_hardware
    >>> timer = PassTimer(load_hardware("h100-sxm"), ModelSpec.from_params(8e9))
    >>> low, high = interval(timer, Load())
    >>> low < timer.at(Load()).pass_s < high
    True
    """
    at = timer.at(load)
    if timer.time == "ideal" or at.measured:
        return at.pass_s, at.pass_s
    least = min(at.pass_s, ideal_pass(timer.hardware, timer.model, load).pass_s) if not timer.offload else 0.0
    if timer.engine:
        return max(least, at.pass_s * (1 - timer.engine.error)), at.pass_s * (1 + timer.engine.error)
    ends = [interval(timer.with_engine(engine), load) for engine in _graph_engines()]
    return max(least, min(at.pass_s, *(low for low, _ in ends))), max(at.pass_s, *(high for _, high in ends))


def _graph_engines() -> list[Engine]:
    from ..hardware.engines import engine_names, load_engine

    engines = [load_engine(name) for name in engine_names()]
    return [engine for engine in engines if not engine.launch_per_layer and engine.serves]


def power_warning(hardware: Hardware) -> str | None:
    """What to say of a power limit below the board's own; None where the peaks hold or a clock was measured.

    >>> from specplan.hardware.profile import load_hardware, override
    >>> capped = override(load_hardware("rtx-3090"), {"power.limit": "250W"})
    >>> power_warning(capped)[:62]
    'rtx-3090 is capped at 250 W of 350 W and no clock was measured'
    """
    tdp, limit = hardware.power.tdp, hardware.power.limit
    if tdp is None or limit is None or limit >= tdp or hardware.power.clock_share is not None:
        return None
    return (
        f"{hardware.name} is capped at {limit:g} W of {tdp:g} W and no clock was measured: compute may be slower than "
        "stated, so a wide verification may cost more (specplan measure device, or --set power.clock_share=0.8)"
    )


def several_query_note(timer: PassTimer, load: Load) -> tuple[str, str] | None:
    """What a slower several-query attention adds to this pass, as (text, source); None where it adds nothing.

    >>> from specplan import load_hardware, load_model
    >>> timer = PassTimer(load_hardware("rtx-4090"), load_model("llama-3.1-8b"))
    >>> several_query_note(timer, Load(14, 1, 16384))[0][-53:]
    'attention takes 16.7 ms where one query takes 2.71 ms'
    """
    if timer.time == "ideal" or load.width == 1:
        return None
    several, one = (timer.at(replace(load, width=width)).terms.get("attention", 0.0) for width in (load.width, 1))
    if timer.attention.multi_query_bandwidth is None or several <= one * 1.05:
        return None
    text = (
        f"verifying {load.width} tokens reads the cache with a kernel that does not split it over the chip: "
        f"attention takes {several * 1e3:.3g} ms where one query takes {one * 1e3:.3g} ms"
    )
    return text, timer.attention.source


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
    """Seconds of one all-reduce: a latency that grows with the devices, then a ring over the links.

    message_bytes  of the summed activations, tokens * hidden * 2

    >>> from specplan import load_hardware
    >>> link = load_hardware("h100-sxm").link_or_default()
    >>> round(all_reduce_s(link, 16384.0, 8) * 1e6, 2)
    4.97
    """
    reached = [share for devices, share in link.all_reduce_share.items() if int(devices) <= tp]
    rate = link.device_bandwidth * (reached[-1] if reached else 1.0)
    latency = link.all_reduce_latency + link.all_reduce_per_device * (tp - 2)
    return latency + 2 * (tp - 1) / tp * message_bytes / rate


# ---- the roofline of a pass


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds a pass, ideal or calibrated. Of one device and the whole batch; see contract.md.

    low_s, high_s        seconds between which the pass should lie; equal where there is no interval
    crossover_tokens     tokens in the pass at which compute catches up with the memory time of a width-1 pass
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
    low_s: float
    high_s: float
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
    engine: Engine | str | None = None,
    offload: str | None = None,
) -> Roofline:
    """The roofline of a pass of `width` tokens per sequence.

    >>> from specplan import ModelSpec, load_hardware
    >>> r = roofline(load_hardware("a100-80gb-sxm"), ModelSpec.from_params(13e9))
    >>> round(r.crossover_tokens), round(r.ridge_flop_per_byte), round(r.tokens_per_s)
    (153, 153, 78)
    """
    load = Load(width, batch, context, tp)
    return rooflines(PassTimer(hardware, model, time=time, engine=engine, offload=offload), [width], load=load)[0]


def rooflines(timer: PassTimer, widths: Sequence[int], *, load: Load) -> list[Roofline]:
    """One roofline a width; knees and the width-1 pass are found once."""

    def timed(width: int) -> PassTime:
        return timer.at(replace(load, width=width))

    first = timed(1)
    curve, alone = timer.curve(load), timer.without_checking()
    knees = {
        slower: knee_width(lambda w: alone.seconds(replace(load, width=w)), slower)
        if curve is None
        else curve.knee(slower)
        for slower in (0.1, 0.5)
    }
    ideal_first = first if timer.time == "ideal" else ideal_pass(timer.hardware, timer.model, replace(load, width=1))
    return [_summary(timer, timed(width), first, ideal_first, knees) for width in widths]


def roofline_path(
    timer_of: Callable[..., PassTimer], load: Load, *, chosen: int = 1, points: int = 48
) -> dict[str, list[Roofline]]:
    """Rooflines, ideal and calibrated, along widths even on a log axis, up to twice the crossover and the knee.

    timer_of   timer_of(time="ideal") and timer_of(time="calibrated")
    chosen     a width that is on the path, as are 1 and the knee
    """
    calibrated = timer_of(time="calibrated")
    first = rooflines(calibrated, [1], load=load)[0]
    knee = 1 if first.knee_10_tokens is None else max(1, round(first.knee_10_tokens / load.batch))
    last = max(chosen, 2 * knee, round(2 * first.crossover_width))
    curve = calibrated.curve(load)
    last = last if curve is None else min(last, curve.last)
    widths = sorted({1, chosen, min(knee, last), *(round(last ** (i / points)) for i in range(points + 1))})
    timers = {"ideal": timer_of(time="ideal"), "calibrated": calibrated}
    return {name: rooflines(timer, widths, load=load) for name, timer in timers.items()}


def _summary(
    timer: PassTimer,
    at: PassTime,
    first: PassTime,
    ideal_first: PassTime,
    knees: Mapping[float, int | None],
) -> Roofline:
    load, batch = at.load, at.load.batch
    per_token = first.compute_s / batch
    crossover = first.memory_s / per_token
    moe = next((m for m in timer.model.linears if m.experts), None)
    low_s, high_s = interval(timer, load)
    # FLOP over compute seconds is the peak of the mix of precisions that this model multiplies in.
    mixed_peak = ideal_first.cost.total_flops / ideal_first.compute_s
    ceiling = load.tokens / at.pass_s
    return Roofline(
        width=load.width,
        weight_bytes=at.cost.weight_bytes,
        kv_bytes=at.cost.kv_bytes,
        kv_write_bytes=at.cost.kv_write_bytes,
        flops=at.cost.total_flops,
        experts_touched=None
        if moe is None
        else experts_touched(moe.experts, moe.active, load.tokens, overlap=load.overlap),
        t_memory_s=at.memory_s,
        t_compute_s=at.compute_s,
        t_compute_per_token_s=per_token,
        pass_s=at.pass_s,
        low_s=low_s,
        high_s=high_s,
        ratio_to_width_1=at.pass_s / first.pass_s,
        intensity_flop_per_byte=at.cost.intensity,
        ridge_flop_per_byte=mixed_peak / timer.bandwidth,
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
                (
                    f"{fmt.name} weights{of} are multiplied in {precision}: {hardware.name} has no {wanted}",
                    "profile, compute",
                )
            )
    return notes


def roofline_share(hardware: Hardware, model: ModelSpec, tpot_s: float, *, load: Load) -> float:
    """Share of the ideal roofline that a measured time per output token reaches."""
    if not (math.isfinite(tpot_s) and tpot_s > 0):
        raise InputError(f"--measured-tpot {tpot_s!r} is not a time above 0", hint="write 25.3ms")
    return ideal_pass(hardware, model, replace(load, width=1)).pass_s / tpot_s
