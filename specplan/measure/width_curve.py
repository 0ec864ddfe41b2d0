"""`measure curve`: the time of a pass by its width, with random weights of the model's shape.

The cache is filled with random values, never zeros. Where the whole model does not fit, fewer layers are timed at two
depths and the rest follows by layer: t(L) = t(a) + (L - a) / (b - a) (t(b) - t(a)) at every width.

On CUDA a pass is one graph for each width, and beside it the kernels launched one by one; on a CPU it is called.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch

from ..base.errors import EnvironmentProblem, InputError
from ..models.spec import ModelSpec
from .bandwidth import DTYPES, PAST_CACHE
from .clocks import Budget, Run, Tell, Timing, captured, out_of_memory, part_of, time_all
from .curve_fit import CurveFit, Timed, error_on_other_depths, fit_curve
from .decoder import Decoder, DecoderConfig, KVCache, causal_mask, random_weights
from .nvml import watching
from .overhead import NARROW
from .place import free_memory
from .readings import Place

THOROUGH = Budget(warm_s=0.1, least=9, most=200, seconds=60.0)
QUICK = Budget(warm_calls=1, warm_s=0.05, least=3, most=30, seconds=8.0)

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 129, 192, 256)
"""Around the edges of tiles: n and n + 1."""

NARROW_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
NARROW_LAYERS = 16

USABLE = 0.7
"""Share of the free memory that a model may take; the rest is for activations and the allocator."""


def default_widths(place: Place, *, quick: bool) -> tuple[int, ...]:
    """Up to 256 on a GPU, to 128 on a CPU; half as many with --quick."""
    most = (64 if quick else 256) if place.is_cuda else (32 if quick else 128)
    skipped = {3, 5, 6, 12, 24, 48, 96, 192} if quick else set[int]()
    return tuple(width for width in WIDTHS if width <= most and width not in skipped)


@dataclass(frozen=True, slots=True)
class Load:
    """Sequences in the pass, and tokens in the cache of each."""

    batch: int
    context: int


@dataclass(frozen=True, slots=True)
class WidthTime:
    """Seconds of a pass of `width` tokens per sequence; between the 20th and the 80th percentile.

    joules   a pass, None where the device does not tell power
    """

    width: int
    seconds: float
    p20: float
    p80: float
    samples: int
    joules: float | None = None


@dataclass(frozen=True)
class Table:
    """The curve of one model under one load.

    layers, depths   of the model; that were timed, the deepest first
    passes           every timed pass, for the fit
    again            the whole model's passes timed once more at the end, by width
    """

    model: str
    dtype: str
    mode: str
    load: Load
    layers: int
    depths: tuple[int, ...]
    rows: tuple[WidthTime, ...]
    passes: tuple[Timed, ...]
    again: Mapping[int, float]

    @property
    def extrapolated(self) -> bool:
        return self.layers not in self.depths

    @property
    def drift(self) -> float | None:
        """Median of second over first time less one; None where nothing was timed again."""
        first = {row.width: row.seconds for row in self.rows}
        return median(second / first[width] - 1 for width, second in self.again.items()) if self.again else None


# -- what a pass of some layers is ------------------------------------------------------------------------------------


def layer_bytes(config: DecoderConfig, itemsize: int) -> int:
    """Bytes of one layer's matrices."""
    return itemsize * config.hidden * (config.qkv + config.heads * config.head_dim + 3 * config.intermediate)


def cache_bytes(config: DecoderConfig, load: Load, itemsize: int, *, more: int = 0) -> int:
    """Bytes of one layer's cache for the load and `more` tokens a sequence."""
    return 2 * itemsize * load.batch * config.kv_heads * config.head_dim * (load.context + more)


def timed(config: DecoderConfig, load: Load, width: int, depth: int, seconds: float, itemsize: int, own: bool) -> Timed:
    """A timed pass with what it moves: weights once, the cache once a sequence; two FLOP a weight and token."""
    tokens = load.batch * width
    weights = depth * layer_bytes(config, itemsize) + itemsize * config.vocab * config.hidden
    pairs = 4.0 * config.heads * config.head_dim * load.context * depth
    flops = tokens * (2.0 * weights / itemsize + pairs)
    return Timed(seconds, tokens, depth, weights, depth * cache_bytes(config, load, itemsize), flops, own)


def depth_that_fits(config: DecoderConfig, loads: Sequence[Load], widest: int, itemsize: int, free: float) -> int:
    """Layers that fit into `USABLE` of the free bytes beside embedding, head and logits; at most the model's own.

    >>> small = DecoderConfig(layers=8, hidden=64, intermediate=128, heads=2, kv_heads=1, head_dim=32, vocab=256)
    >>> depth_that_fits(small, [Load(1, 128)], 16, 2, 1e9), depth_that_fits(small, [Load(1, 128)], 16, 2, 5e5)
    (8, 2)
    """
    tables = config.vocab * config.hidden * itemsize * (1 if config.tied else 2)
    logits = max(load.batch for load in loads) * widest * (config.vocab * (itemsize + 4) + 8 * config.intermediate)
    cache = max(cache_bytes(config, load, itemsize, more=widest) for load in loads)
    room = USABLE * free - tables - logits
    return max(0, min(config.layers, int(room // (layer_bytes(config, itemsize) + cache))))


def depths_of(config: DecoderConfig, deepest: int, *, quick: bool, asked: Sequence[int] = ()) -> tuple[int, ...]:
    """The depths to time, deepest first: wide apart, since what is between them is multiplied.

    >>> config = replace(NARROW, layers=32)
    >>> depths_of(config, 32, quick=False), depths_of(config, 32, quick=True), depths_of(config, 12, quick=True)
    ((32, 8), (32,), (12, 4))
    """
    if asked:
        return tuple(sorted(set(asked), reverse=True))
    if deepest == config.layers:
        shallow = config.layers // 4
        return (config.layers,) if quick or shallow < 1 else (config.layers, shallow)
    return deepest, max(1, deepest // 3)


# -- timing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What is timed where."""

    place: Place
    model: ModelSpec
    dtype: str
    widths: Sequence[int]
    quick: bool = False

    @property
    def budget(self) -> Budget:
        return QUICK if self.quick else THOROUGH


def tables_of(task: Task, loads: Sequence[Load], *, depths: Sequence[int] = (), tell: Tell) -> Iterator[Table]:
    """One table for each load and mode.

    depths  layers to time instead of as many as fit
    Raises  InputError for a shape that the decoder does not compute; EnvironmentProblem when not even two layers fit.
    """
    config = DecoderConfig.from_model(task.model)
    tell(0.0, f"{task.model.name}: weights")
    decoder = _built(
        task, config, max(depths) if depths else _fitting(task, config, loads), least=max(depths, default=2)
    )
    for index, load in enumerate(loads):
        share = part_of(tell, f"{task.model.name} batch {load.batch} context {load.context}", index, len(loads))
        while True:
            chosen = depths_of(config, len(decoder.layers), quick=task.quick, asked=depths)
            try:
                yield from _load_tables(task, decoder, load, chosen, share)
                break
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
            # Here the failed run's tensors are gone.
            if depths or len(decoder.layers) < 4:
                raise _too_large(task)
            decoder = decoder.with_layers(range(len(decoder.layers) // 2))
            _release(task.place)


def _fitting(task: Task, config: DecoderConfig, loads: Sequence[Load]) -> int:
    """Layers that fit into the free memory; all where it is not known."""
    place = task.place
    free = torch.cuda.mem_get_info(place.device)[0] if place.is_cuda else free_memory()
    size = DTYPES[task.dtype].itemsize
    return config.layers if free is None else depth_that_fits(config, loads, max(task.widths), size, free)


def _built(task: Task, config: DecoderConfig, depth: int, *, least: int) -> Decoder:
    """Random weights of `depth` layers, or of as many as the memory takes, `least` or the whole model at least."""
    while depth >= min(least, config.layers):
        try:
            return random_weights(config, dtype=DTYPES[task.dtype], device=task.place.device, layers=depth)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        depth //= 2
        _release(task.place)
    raise _too_large(task)


def _too_large(task: Task) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{task.place.name}: not even two layers of {task.model.name} fit into its free memory",
        hint="a smaller --batch, --context, --widths or --depths, or end other programs on the device",
    )


def _release(place: Place) -> None:
    if place.is_cuda:
        torch.cuda.empty_cache()


def _load_tables(
    task: Task, decoder: Decoder, load: Load, depths: tuple[int, ...], tell: Callable[[float], None]
) -> Iterator[Table]:
    """The tables of one load, graph before eager."""
    place, budget, layers = task.place, task.budget, task.model.layers
    parts = {depth: decoder.with_layers(range(depth)) for depth in depths}
    passes = _passes(task, decoder, parts, load)
    # Fewer layers than the model has must not be found in the cache, which holds no such share of the model.
    size = decoder.dtype.itemsize
    cold = place.is_cuda and min(part.config.weights for part in parts.values()) * size < PAST_CACHE * place.cache_bytes
    for mode in ("graph", "eager") if place.is_cuda else ("eager",):
        runs = _graphs(passes, place) if mode == "graph" else passes
        how: dict[str, Any] = {"cold": cold, "queued": mode == "graph"}
        taken = time_all(runs, place.timer, budget, tell=tell, **how)
        joules = _energies(task, {key: run for key, run in runs.items() if key[0]})
        own = {key[1]: run for key, run in runs.items() if key[0] == layers}
        again = time_all(own, place.timer, replace(budget, least=3, seconds=budget.seconds / 4), **how)
        yield Table(
            model=task.model.name,
            dtype=task.dtype,
            mode=mode,
            load=load,
            layers=layers,
            depths=depths,
            rows=tuple(_row(width, taken, joules, depths, layers) for width in task.widths),
            passes=tuple(
                timed(decoder.config, load, width, depth, found.median, size, own=True)
                if depth
                else timed(NARROW, load, width, NARROW_LAYERS, found.median, size, own=False)
                for (depth, width), found in taken.items()
            ),
            again={width: found.median for width, found in again.items()},
        )


def _passes(task: Task, decoder: Decoder, parts: Mapping[int, Decoder], load: Load) -> dict[tuple[int, int], Run]:
    """A pass for each depth and width; depth 0 is the narrow model. All of one model share a cache."""
    cache = decoder.new_cache(load.context + max(task.widths), batch=load.batch)
    narrow = random_weights(NARROW, dtype=decoder.dtype, device=decoder.device, layers=NARROW_LAYERS)
    few = [width for width in NARROW_WIDTHS if width <= max(task.widths)]
    passes = {
        (depth, width): run
        for depth, part in parts.items()
        for width, run in pass_runs(part, cache.first_layers(depth), load, task.widths).items()
    }
    narrow_cache = narrow.new_cache(cache.max_length, batch=load.batch)
    return passes | {(0, width): run for width, run in pass_runs(narrow, narrow_cache, load, few).items()}


def _graphs(passes: Mapping[tuple[int, int], Run], place: Place) -> dict[tuple[int, int], Run]:
    """Each pass as a graph; all of them work in the same memory."""
    pool = torch.cuda.graph_pool_handle()
    return {key: captured(run, place.device, pool=pool) for key, run in passes.items()}


def pass_runs(decoder: Decoder, cache: KVCache, load: Load, widths: Sequence[int]) -> dict[int, Run]:
    """A verification pass of each width over one cache, which is filled with random values."""
    cache.buffer.normal_()

    def run_of(width: int) -> Run:
        tokens = torch.randint(decoder.config.vocab, (load.batch, width), device=decoder.device)
        rows = torch.arange(load.context, load.context + width, device=decoder.device)
        mask = causal_mask(width, load.context, device=decoder.device)
        return partial(decoder.forward, tokens, rows, cache, mask, rows)

    return {width: run_of(width) for width in widths}


def _row(
    width: int,
    taken: Mapping[tuple[int, int], Timing],
    joules: Mapping[tuple[int, int], float],
    depths: tuple[int, ...],
    layers: int,
) -> WidthTime:
    """The whole model's time at a width, extrapolated by layer where it was not timed itself."""
    found = [taken[depth, width] for depth in depths]
    shares = line_shares(depths, layers)
    energies = [joules[depth, width] for depth in depths if (depth, width) in joules]

    def whole(values: Sequence[float]) -> float:
        return sum(share * value for share, value in zip(shares, values))

    seconds = whole([one.median for one in found])
    below, above = (
        math.hypot(*(share * (one.at(end) - one.median) for share, one in zip(shares, found))) for end in (0.2, 0.8)
    )
    energy = whole(energies) if len(energies) == len(depths) else None
    return WidthTime(width, seconds, seconds - below, seconds + above, len(found[0].samples), energy)


def line_shares(depths: Sequence[int], layers: int) -> list[float]:
    """What each depth counts for at `layers`: all where it was timed, else by the line through the first and the last.

    >>> line_shares([32, 8], 32), line_shares([8, 2], 32)
    ([1.0, 0.0], [5.0, -4.0])
    """
    if layers in depths:
        return [float(depth == layers) for depth in depths]
    beyond = (layers - depths[0]) / (depths[0] - depths[-1])
    return [1 + beyond, *[0.0] * (len(depths) - 2), -beyond]


def _energies(task: Task, runs: Mapping[tuple[int, int], Run]) -> dict[tuple[int, int], float]:
    """Joules of each pass, repeated for a second or so; nothing where the device does not tell power."""
    place, found = task.place, dict[tuple[int, int], float]()
    for key, run in runs.items() if place.values.get("power_w") is not None else ():
        count, until = 0, time.perf_counter() + (0.3 if task.quick else 1.0)
        with watching(place.library, place.handle) as watch:
            while time.perf_counter() < until:
                for _ in range(4):
                    run()
                place.timer.wait()
                count += 4
        if watch.joules is not None:
            found[key] = watch.joules / count
    return found


# -- the summary ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What the curves of one model and mode say together.

    fit                 None where there are too few passes for one; `reason` says so
    other_depth_error   median error on each depth when it is left out of the fit; None with one depth alone
    again_error         median error of the fit on the whole model's passes that were timed again at the end
    drift               median change of those passes; None where the whole model was not timed
    """

    model: str
    dtype: str
    mode: str
    fit: CurveFit | None
    reason: str = ""
    other_depth_error: float | None = None
    again_error: float | None = None
    drift: float | None = None


def summaries(tables: Sequence[Table], *, anchors: Mapping[str, float]) -> list[Summary]:
    """One for each model and mode, over all loads.

    anchors   readings of the device by parameter of the fit; they pull weakly
    """
    groups: dict[tuple[str, str, str], list[Table]] = {}
    for table in tables:
        groups.setdefault((table.model, table.dtype, table.mode), []).append(table)
    return [_summary(*key, group, anchors) for key, group in groups.items()]


def _summary(model: str, dtype: str, mode: str, tables: Sequence[Table], anchors: Mapping[str, float]) -> Summary:
    passes = [one for table in tables for one in table.passes]
    drifts = [table.drift for table in tables if table.drift is not None]
    drift = median(drifts) if drifts else None
    try:
        fit = fit_curve(passes, anchors=anchors)
    except InputError as error:
        return Summary(model, dtype, mode, None, error.message, drift=drift)
    again = [
        abs(fit.seconds(one) / seconds - 1)
        for table in tables
        for width, seconds in table.again.items()
        for one in table.passes
        if one.own and one.layers == table.layers and one.tokens == width * table.load.batch
    ]
    elsewhere = error_on_other_depths(passes, anchors=anchors)
    return Summary(model, dtype, mode, fit, "", elsewhere, median(again) if again else None, drift)


def formula_times(table: Table, summaries: Sequence[Summary]) -> list[float]:
    """Seconds by the table's own fit, from width 1 to its last; empty where there is no fit, or not the whole model."""
    own = [one for one in summaries if (one.model, one.dtype, one.mode) == (table.model, table.dtype, table.mode)]
    first = next((one for one in table.passes if one.own and one.layers == table.layers), None)
    if not own or own[0].fit is None or first is None:
        return []
    per_token = first.flops / first.tokens
    tokens = [table.load.batch * width for width in range(1, table.rows[-1].width + 1)]
    return [own[0].fit.seconds(replace(first, tokens=count, flops=per_token * count)) for count in tokens]
