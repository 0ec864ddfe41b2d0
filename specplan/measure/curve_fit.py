"""What a measured width curve says of the device: bandwidth, peak, overhead a layer, and how far that is known.

    t = o L (k if several tokens else 1) + ((W / B)^p + (F / C)^p)^(1/p) + K / V

o  seconds a layer         L  layers           k  factor on it for more than one token
B  bytes/s of weights      W  weight bytes     p  exponent: 1 adds memory and compute, large values take the larger
C  FLOP/s                  F  FLOP             V  bytes/s of the cache, K its bytes: only where contexts differ

One flat curve cannot tell overhead from bandwidth. What tells them apart: a model so narrow that only overhead is
left, other depths, and readings of the device (`anchors`) that pull weakly. A parameter whose interval still spans more
than a factor of three is not known.

The fit is a summary, and a way to extrapolate; where the table has a time, the table holds. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.errors import InputError

NOISE = 0.03
"""Relative error of a timed pass, by which residuals are scaled; the intervals come from the residuals themselves."""

ANCHOR_SPREAD = 0.25
"""How far, in the logarithm, the rate of a shape may lie from that of large square matrices before it is pulled."""

BEND = 2.0
"""Residuals beyond this, in units of the noise, count linearly."""

KNOWN_WITHIN = 3.0
"""A parameter is known whose interval spans at most this factor."""

CONFIDENCE = 0.95
"""That all intervals hold together (Bonferroni: each holds with more)."""

BOUNDS = {
    "overhead": (1e-9, 1.0),
    "bandwidth": (1e6, 1e15),
    "peak": (1e6, 1e18),
    "width_factor": (0.5, 5.0),
    "exponent": (1.0, 8.0),
    "cache_bandwidth": (1e5, 1e15),
}
UNITS = {
    "overhead": "s",
    "bandwidth": "bytes/s",
    "peak": "FLOP/s",
    "width_factor": "",
    "exponent": "",
    "cache_bandwidth": "bytes/s",
}


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed pass, and what it moved and multiplied.

    tokens   new tokens in the pass, all sequences together
    own      whether it is of the shape that the fit is for, not of a narrow model
    """

    seconds: float
    tokens: int
    layers: int
    weight_bytes: float
    cache_bytes: float
    flops: float
    own: bool = True


@dataclass(frozen=True, slots=True)
class Parameter:
    """A fitted value between `low` and `high`."""

    value: float
    low: float
    high: float
    unit: str

    @property
    def known(self) -> bool:
        """Whether the interval spans at most a factor of three."""
        return self.high <= KNOWN_WITHIN * self.low


@dataclass(frozen=True, slots=True)
class CurveFit:
    """The parameters by name, and how far the formula is off on the passes of the shape itself."""

    parameters: Mapping[str, Parameter]
    passes: int
    median_error: float
    mean_error: float
    largest_error: float

    def seconds(self, one: Timed) -> float:
        """The formula's time of such a pass."""
        return float(_Moved.of([one]).seconds({name: value.value for name, value in self.parameters.items()})[0])


def fit_curve(passes: Sequence[Timed], *, anchors: Mapping[str, float] | None = None) -> CurveFit:
    """The parameters that fit the logarithm of the times best, outliers counting less.

    anchors   readings of the device by parameter: bandwidth, peak, overhead
    Raises    InputError for fewer passes than parameters.

    >>> def timed(width, layers):
    ...     flops, size = 2e9 * layers * width, 2e9 * layers
    ...     return Timed(1e-5 * layers + size / 1e12 + flops / 1e14, width, layers, size, 0.0, flops)
    >>> found = fit_curve([timed(width, layers) for width in (1, 2, 8, 64, 256, 512) for layers in (1, 4, 16)])
    >>> found.largest_error < 0.01
    True
    """
    import numpy as np

    problem = _Problem.of(passes, anchors or {})
    if len(passes) <= len(problem.names):
        raise InputError(
            f"{len(passes)} passes cannot fit {len(problem.names)} parameters", hint="measure more widths or depths"
        )
    best = min((problem.solved(start) for start in problem.starts()), key=lambda one: float(one.cost))
    values = problem.values(best.x)
    parameters = {
        name: Parameter(values[name], low, high, UNITS[name])
        for name, low, high in zip(problem.names, *_intervals(problem, best))
    }
    own = [one for one in passes if one.own] or list(passes)
    errors = np.abs(_Moved.of(own).seconds(values) / np.array([one.seconds for one in own]) - 1)
    return CurveFit(parameters, len(passes), *(float(f(errors)) for f in (np.median, np.mean, np.max)))


def error_on_other_depths(passes: Sequence[Timed], *, anchors: Mapping[str, float] | None = None) -> float | None:
    """Median relative error on each depth of the shape, fitted without it; None with one depth alone."""
    import numpy as np

    depths = {one.layers for one in passes if one.own}
    errors: list[float] = []
    for depth in depths if len(depths) > 1 else ():
        rest = [one for one in passes if not (one.own and one.layers == depth)]
        out = [one for one in passes if one.own and one.layers == depth]
        if len(rest) > len(_names(rest)):
            found = fit_curve(rest, anchors=anchors)
            errors += [abs(found.seconds(one) / one.seconds - 1) for one in out]
    return float(np.median(errors)) if errors else None


def _names(passes: Sequence[Timed]) -> list[str]:
    """The parameters that these passes can say anything about."""
    names = ["overhead", "bandwidth", "peak", "width_factor", "exponent"]
    per_layer = {one.cache_bytes / one.layers for one in passes if one.own}
    return [*names, "cache_bandwidth"] if len(per_layer) > 1 else names


@dataclass(frozen=True)
class _Moved:
    """What passes move and multiply, as arrays."""

    several: Any
    layers: Any
    weights: Any
    cache: Any
    flops: Any

    @classmethod
    def of(cls, passes: Sequence[Timed]) -> _Moved:
        import numpy as np

        columns = [(one.tokens > 1, one.layers, one.weight_bytes, one.cache_bytes, one.flops) for one in passes]
        return cls(*np.array(columns, dtype=float).T)

    def seconds(self, values: Mapping[str, float]) -> Any:
        """The formula, for each pass."""
        import numpy as np

        fixed = values["overhead"] * self.layers * np.where(self.several, values["width_factor"], 1.0)
        weights = self.weights
        if "cache_bandwidth" in values:
            fixed = fixed + self.cache / values["cache_bandwidth"]
        else:
            weights = weights + self.cache
        memory, compute, p = weights / values["bandwidth"], self.flops / values["peak"], values["exponent"]
        larger = np.maximum(memory, compute)
        return fixed + larger * ((memory / larger) ** p + (compute / larger) ** p) ** (1 / p)


@dataclass(frozen=True)
class _Problem:
    """Least squares in the logarithms of the parameters, residuals in units of the noise.

    bounds   logarithms, low and high
    pulls    (index, logarithm) of the anchored parameters
    """

    passes: Sequence[Timed]
    names: Sequence[str]
    moved: _Moved
    measured: Any
    bounds: Any
    pulls: Sequence[tuple[int, float]]

    @classmethod
    def of(cls, passes: Sequence[Timed], anchors: Mapping[str, float]) -> _Problem:
        import numpy as np

        names = _names(passes)
        pulls = [(names.index(name), math.log(value)) for name, value in anchors.items() if name in names]
        bounds = np.log([BOUNDS[name] for name in names]).T
        return cls(passes, names, _Moved.of(passes), np.log([one.seconds for one in passes]), bounds, pulls)

    def values(self, x: Any) -> dict[str, float]:
        return {name: math.exp(value) for name, value in zip(self.names, x)}

    def residuals(self, x: Any) -> Any:
        import numpy as np

        off = (np.log(self.moved.seconds(self.values(x))) - self.measured) / NOISE
        return np.concatenate([off, [(x[index] - value) / ANCHOR_SPREAD for index, value in self.pulls]])

    def cost(self, x: Any) -> float:
        """Half the sum of soft-L1 losses, as scipy has it."""
        import numpy as np

        squares = (self.residuals(x) / BEND) ** 2
        return float(BEND**2 * np.sum(np.sqrt(1 + squares) - 1))

    def solved(self, start: Any, *, held: int | None = None) -> Any:
        """scipy's result from that start; the parameter `held` stays where the start has it."""
        import numpy as np
        from scipy.optimize import least_squares

        free = [index for index in range(len(self.names)) if index != held]

        def residuals(x: Any) -> Any:
            whole = np.array(start)
            whole[free] = x
            return self.residuals(whole)

        options = {"loss": "soft_l1", "f_scale": BEND, "max_nfev": 200 if held is None else 40}
        return least_squares(residuals, np.array(start)[free], bounds=self.bounds[:, free], **options)

    def starts(self) -> list[Any]:
        """From nothing but the passes and the anchors, for a few exponents and shares of overhead."""
        import numpy as np

        slowest = max(self.passes, key=lambda one: one.seconds)
        narrow = min(self.passes, key=lambda one: one.weight_bytes / one.layers)
        one = min((one for one in self.passes if one.own), key=lambda one: one.tokens, default=narrow)
        found = []
        for exponent, share in ((1.05, 0.05), (2.0, 0.5), (4.0, 0.05)):
            start = {
                "overhead": share * min(narrow.seconds / narrow.layers, one.seconds / one.layers),
                "bandwidth": (one.weight_bytes + one.cache_bytes) / one.seconds * 1.2,
                "peak": slowest.flops / slowest.seconds * 1.5,
                "width_factor": 1.1,
                "exponent": exponent,
                "cache_bandwidth": (one.weight_bytes + one.cache_bytes) / one.seconds,
            }
            x = np.log([start[name] for name in self.names])
            for index, value in self.pulls:
                x[index] = value
            found.append(np.clip(x, *self.bounds))
        return found


def _intervals(problem: _Problem, best: Any) -> tuple[list[float], list[float]]:
    """Ends of the intervals, in the parameters' own units.

    From the curvature at the best point; and since a long valley is flat far from there, each parameter is also held at
    a third and at three times its value: an end moves out to there unless the others cannot make up for it.
    """
    import numpy as np
    from scipy.special import stdtrit

    residuals = problem.residuals(best.x)
    free = max(1, len(residuals) - len(problem.names))
    # Of outliers, no more than the loss lets through.
    spread = max(float(np.sum(np.minimum(residuals**2, (2 * BEND) ** 2))) / free, 0.05)
    covariance = np.linalg.pinv(best.jac.T @ best.jac, rcond=1e-14) * spread
    quantile = float(stdtrit(free, 1 - (1 - CONFIDENCE) / 2 / len(problem.names)))
    width = np.minimum(quantile * np.sqrt(np.maximum(np.diag(covariance), 0.0)) + 50.0 * _blind(best.jac), 50.0)
    low, high = np.maximum(best.x - width, problem.bounds[0]), np.minimum(best.x + width, problem.bounds[1])
    worst = float(best.cost) + spread * quantile**2 / 2
    for index in range(len(problem.names)):
        for ends, side, outer in ((low, -1, np.minimum), (high, 1, np.maximum)):
            held = float(np.clip(best.x[index] + side * math.log(KNOWN_WITHIN), *problem.bounds[:, index]))
            if side * (held - ends[index]) > 0 and _least_cost(problem, best.x, index, held) <= worst:
                ends[index] = outer(ends[index], held)
    return [math.exp(end) for end in low], [math.exp(end) for end in high]


def _least_cost(problem: _Problem, best: Any, index: int, held: float) -> float:
    """The cost that the other parameters can bring about with this one held."""
    candidates = [start.copy() for start in (best, *problem.starts())]
    for start in candidates:
        start[index] = held
    return float(problem.solved(min(candidates, key=problem.cost), held=index).cost)


def _blind(jacobian: Any) -> Any:
    """Whether each parameter lies in a direction that no residual sees."""
    import numpy as np

    _, sizes, directions = np.linalg.svd(jacobian, full_matrices=False)
    unseen = directions[sizes < 1e-7 * sizes[0]]
    return (unseen**2).sum(axis=0) > 0.01 if len(unseen) else np.zeros(jacobian.shape[1], dtype=bool)
