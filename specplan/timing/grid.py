"""Pass times over whole arrays of loads: the same formulas as `roofline.PassTimer`, a million times in seconds.

`PassTimer` works on numbers and needs no numpy; here its few operations that are not arithmetic are replaced
by numpy's, and the loads are arrays. Equal to the scalar path to 1e-12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.errors import InputError
from ..hardware.profile import Efficiency, Hardware
from .cost import Load, attention_cost, kernels
from .roofline import PassTimer

if TYPE_CHECKING:
    from ..hardware.engines import Engine
    from ..models.spec import ModelSpec

Floats = NDArray[np.float64]

CHUNK = 1 << 15
"""Loads worked on at once: their arrays stay in the processor's cache."""


def pass_times(
    hardware: Hardware,
    model: ModelSpec,
    *,
    width: ArrayLike = 1,
    batch: ArrayLike = 1,
    context: ArrayLike = 0,
    tp: int = 1,
    overlap: float = 0.0,
    time: str = "calibrated",
    draft: bool = False,
    engine: Engine | str | None = None,
    offload: str | None = None,
) -> Floats:
    """Seconds of passes; `width`, `batch` and `context` are arrays (or numbers) that broadcast to one shape.

    returns   an array of that shape
    Raises    InputError for a value out of range, as `Load` does.

    >>> from specplan import ModelSpec, load_hardware
    >>> a100 = load_hardware("a100-80gb-sxm")
    >>> seconds = pass_times(a100, ModelSpec.from_params(13e9), width=[1, 14, 153], time="ideal")
    >>> [round(float(s) * 1e3, 2) for s in seconds]
    [12.75, 12.75, 12.75]
    """
    Load(tp=tp, overlap=overlap)
    names = ("width", "batch", "context")
    arrays = np.broadcast_arrays(*(_whole(name, value) for name, value in zip(names, (width, batch, context))))
    timer = _ArrayTimer(hardware, model, time=time, draft=draft, engine=engine, offload=offload)
    flat = [array.ravel() for array in arrays]
    pieces = [
        timer.many(*(array[start : start + CHUNK] for array in flat), tp=tp, overlap=overlap)
        for start in range(0, flat[0].size, CHUNK)
    ]
    return np.concatenate(pieces or [np.empty(0)]).reshape(arrays[0].shape)


def matrix_times(
    hardware: Hardware,
    model: ModelSpec,
    *,
    width: ArrayLike,
    batch: ArrayLike,
    tp: int = 1,
    time: str = "calibrated",
    engine: Engine | None = None,
) -> Floats:
    """Seconds of a model's matrices alone, as `PassTimer` counts them, over arrays of loads."""
    timer = _ArrayTimer(hardware, model, time=time, engine=engine)
    widths, batches = np.broadcast_arrays(_whole("width", width), _whole("batch", batch))
    loads: Any = _Loads(widths.astype(float), batches.astype(float), np.zeros(widths.shape), tp, 0.0)
    found = np.maximum(*timer.datasheet(loads)) if time == "ideal" else timer.matrices(loads)
    return np.broadcast_to(np.asarray(found, dtype=float), widths.shape)


def crossover_widths(
    hardware: Hardware, model: ModelSpec, *, batch: ArrayLike, context: ArrayLike, tp: int = 1
) -> Floats:
    """Tokens per sequence at which ideal compute catches up with the memory time of a width-1 pass, over arrays.

    >>> from specplan import ModelSpec, load_hardware
    >>> a100 = load_hardware("a100-80gb-sxm")
    >>> [round(float(w), 1) for w in crossover_widths(a100, ModelSpec.from_params(13e9), batch=[1, 8], context=0)]
    [153.0, 19.1]
    """
    timer = _ArrayTimer(hardware, model, time="ideal")
    batches, contexts = np.broadcast_arrays(_whole("batch", batch), _whole("context", context))
    loads: Any = _Loads(np.ones(batches.shape), batches.astype(float), contexts.astype(float), tp, 0.0)
    memory, compute = timer.datasheet(loads)
    return np.asarray(memory / (compute / loads.batch) / loads.batch, dtype=float)


def _whole(name: str, value: ArrayLike) -> NDArray[np.int64]:
    """Whole numbers in the range that `Load` allows."""
    array = np.asarray(value)
    least = 0 if name == "context" else 1
    if array.dtype.kind not in "iu" or (array.size and (array.min() < least or array.max() > 2**40)):
        raise InputError(
            f"{name} holds values that are not whole numbers from {least} up", hint="give an integer array"
        )
    return array.astype(np.int64)


@dataclass(frozen=True)
class _Loads:
    """`Load` with arrays."""

    width: Floats
    batch: Floats
    context: Floats
    tp: int
    overlap: float

    @property
    def tokens(self) -> Floats:
        return self.width * self.batch

    def in_reach(self, window: int | None) -> Floats:
        return self.context if window is None else np.minimum(self.context, window)


class _ArrayTimer(PassTimer):
    """A `PassTimer` whose loads are arrays."""

    larger = staticmethod(np.maximum)
    smaller = staticmethod(np.minimum)

    def tiles(self, rows: Any, tile: int) -> Any:
        return rows if tile == 1 and _are_whole(rows) else np.ceil(np.asarray(rows) / tile)

    def norm(self, memory: Any, compute: Any, exponent: float) -> Any:
        large, small = np.maximum(memory, compute), np.minimum(memory, compute)
        if exponent == 1:
            return large + small
        return large * (1 + (small / large) ** exponent) ** (1 / exponent)

    def step(self, rows: Any, eff: Efficiency) -> Any:
        if not eff.step_rows:
            return 1.0
        return np.array([1.0, *eff.step_factors])[np.searchsorted(eff.step_rows, rows, side="right")]

    def many(self, width: Any, batch: Any, context: Any, *, tp: int, overlap: float) -> Floats:
        """Seconds of the loads, one for each element."""
        loads: Any = _Loads(width.astype(float), batch.astype(float), context.astype(float), tp, overlap)
        if self.time == "ideal":
            ideal: Floats = np.maximum(*self.datasheet(loads))
            return ideal
        terms, _, _ = self._parts(loads)
        formula: Floats = np.broadcast_to(np.asarray(sum(terms.values()), dtype=float), width.shape)
        return self._with_curves(formula, width, batch, context, tp)

    def matrices(self, loads: Any) -> Any:
        """Seconds of the matrices of a calibrated pass."""
        terms, _, _ = self._parts(loads)
        return terms["head"] + terms["linear"]

    def datasheet(self, loads: Any) -> tuple[Any, Any]:
        """(memory, compute) seconds of the ideal pass, from the bytes and FLOP that it counts.

        `pass_cost` itself takes numbers alone.
        """
        model = self.model
        memory = model.other_params * model.format_of("other").bytes_per_weight / self.bandwidth
        memory, compute = memory + model.state_bytes * loads.batch / loads.tp / self.bandwidth, 0.0
        for kernel in kernels(model, loads):
            bandwidth = self.link.host_bandwidth if self._offloaded(kernel.linear) else self.bandwidth
            memory = memory + kernel.count * kernel.cost.weight_bytes / bandwidth
            compute = compute + kernel.count * kernel.cost.flops / self.precisions[kernel.linear.group][1]
        for group in model.attention:
            cost = attention_cost(group, model, loads)
            memory = memory + group.layers * cost.kv_bytes / self.bandwidth
            compute = compute + group.layers * cost.attention_flops / self.half_peak
        return memory, compute

    def _with_curves(self, formula: Floats, width: Any, batch: Any, context: Any, tp: int) -> Floats:
        """Measured curves in place of the formula where the profile has one; NaN past their end."""
        if not self.hardware.curves:
            return formula
        found: Floats = formula.copy()
        places = np.stack([batch, context, width])
        for column in np.unique(places, axis=1).T:
            b, c, w = (int(value) for value in column)
            curve = self.curve(Load(w, b, c, tp))
            if curve is not None:
                known = curve.at(w) if w <= curve.last else math.nan
                found[(batch == b) & (context == c) & (width == w)] = known
        return found


def _are_whole(rows: Any) -> bool:
    return bool(np.all(rows == np.floor(rows)))
