"""Fit the `efficiency` and `attention` constants of the bundled profiles to measured kernels.

    python benchmarks/fit_kernels.py [DEVICE ...]

Prints one YAML line a device and precision, and one a device for attention. Only weight shapes in the fitted part are
used (60 %, by a hash of the shape); `accuracy.py` reports errors on the others. The form is that of
`roofline.PassTimer`:

    ((bytes / (em * BW))^q + (FLOP / (ec * peak))^q)^(1/q) * step(rows) + c + c_k * inputs

with steps that never fall. Least squares on the logarithm with a soft-L1 loss over rows up to 513, shapes from
1024 x 1024 up whose weights were not left in the last cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rows import is_fitted, read_table
from scipy.optimize import least_squares

from specplan.hardware.profile import Hardware, load_hardware
from specplan.models.spec import weight_format

STEPS = (2, 17, 33, 65, 97, 129, 193, 257)
"""Rows where kernels change: multiples of tile heights plus one, and 2, where matrix-vector kernels end."""

TILES = {("a100-80gb-sxm", "bf16"): 128, ("rtx-pro-6000-server", "bf16"): 128}
"""Kernels whose times stand still between multiples of that many rows. Taken where it lowers the mean error of the
fitted part: 7.8 to 7.3 % on A100, 3.97 to 3.92 % on RTX PRO 6000. No other 16-bit kernels gain 1 % by it."""

KEYS = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "fp4", "w8a8": "int8", "int8": "w8a16", "int4": "w4a16"}
"""Stored weights in the tables -> key of `efficiency`."""

IN_SAMPLE = ("rtx-4090",)
"""Devices with the layers of one model alone: all shapes are fitted, so their errors are in sample."""

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Kernels:
    """Measured products on one device: outputs, inputs, rows, seconds; `fitted` marks those to fit."""

    hardware: Hardware
    dtype: str
    outputs: Array
    inputs: Array
    rows: Array
    seconds: Array
    cold: Array
    fitted: Array


def kernel_tables() -> dict[tuple[str, str], Kernels]:
    """Measured kernels by device and stored weights."""
    tables: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    marks: dict[str, bool] = {}
    for row in read_table("matrix_kernels.csv.gz"):
        shape = f"{row['outputs']}x{row['inputs']}"
        fitted = marks.setdefault(shape, is_fitted(shape)) or row["device"] in IN_SAMPLE
        values = (*(float(row[key]) for key in ("outputs", "inputs", "rows", "us", "cold")), float(fitted))
        tables.setdefault((row["device"], row["dtype"]), []).append(values)
    return {key: _kernels(key, np.array(values)) for key, values in tables.items()}


def _kernels(key: tuple[str, str], a: Array) -> Kernels:
    return Kernels(load_hardware(key[0]), key[1], a[:, 0], a[:, 1], a[:, 2], a[:, 3] / 1e6, a[:, 4] > 0, a[:, 5] > 0)


def predict(p: Array, k: Kernels, tile: int) -> Array:
    """Seconds with p = (em, ec, c in us, q, c_k in us per 1000 inputs, log rises of the steps...)."""
    fmt = weight_format(k.dtype)
    peak, bandwidth = k.hardware.peak(fmt.multiply_in)[1], k.hardware.memory.bandwidth
    weights = k.outputs * k.inputs
    memory = (weights * fmt.bytes_per_weight + 2 * k.rows * (k.outputs + k.inputs)) / (p[0] * bandwidth)
    compute = 2 * np.ceil(k.rows / tile) * tile * weights / (p[1] * peak)
    step = np.exp(np.concatenate([[0.0], np.cumsum(p[5:])]))[np.searchsorted(STEPS, k.rows, side="right")]
    return (memory ** p[3] + compute ** p[3]) ** (1 / p[3]) * step + (p[2] + p[4] * k.inputs / 1000) / 1e6


def fit(k: Kernels, tile: int) -> Array:
    """The constants, on the fitted part."""
    used = k.fitted & k.cold & (k.rows <= 513)
    part = Kernels(k.hardware, k.dtype, *(a[used] for a in (k.outputs, k.inputs, k.rows, k.seconds, k.cold, k.fitted)))
    calm = 0.1 * np.sqrt(used.sum() / 100)  # keeps steps away that the data do not ask for

    def residuals(p: Array) -> Array:
        return np.concatenate([np.log(predict(p, part, tile) / part.seconds), calm * p[5:]])

    start = [0.85, 0.75, 4, 2.5, 0.1] + [0.01] * len(STEPS)
    low, high = [0.2, 0.1, 0, 1, 0] + [0] * len(STEPS), [1, 1, 60, 20, 3] + [1] * len(STEPS)
    found: Array = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.05).x
    return found


def lines(only: list[str]) -> Iterator[str]:
    for (device, dtype), k in kernel_tables().items():
        if only and device not in only:
            continue
        tile = TILES.get((device, dtype), 1)
        p = fit(k, tile)
        yield f"{device}: {KEYS[dtype]}: {entry(p, tile)}  # {checked_error(p, k, tile):.1%}"


def checked_error(p: Array, k: Kernels, tile: int) -> float:
    """Mean relative error a kernel up to 257 rows, on the checked part; on all where nothing is checked."""
    used = k.cold & (k.rows <= 257) & (~k.fitted | k.fitted.all())
    return float(np.abs(predict(p, k, tile) / k.seconds - 1)[used].mean())


def attention_lines(only: list[str]) -> Iterator[str]:
    """floor + bytes / (share * BW) of one-query decode attention, on the fitted combinations of heads."""
    tables: dict[str, list[tuple[float, float, bool]]] = {}
    for row in read_table("decode_attention.csv.gz"):
        read = float(row["batch"]) * float(row["kv_heads"]) * 512 * float(row["cached"])
        fitted = is_fitted(f"{row['heads']}/{row['kv_heads']}")
        tables.setdefault(row["device"], []).append((read, float(row["us"]), fitted))
    for device, values in tables.items():
        if not only or device in only:
            read, us, fitted = np.array(values).T
            yield f"{device}: attention: {_attention(read, us, fitted > 0, load_hardware(device).memory.bandwidth)}"


def _attention(read: Array, us: Array, fitted: Array, bandwidth: float) -> str:
    def seconds(p: Array, read: Array) -> Array:
        return p[0] + read / (p[1] * bandwidth) * 1e6

    def residuals(p: Array) -> Array:
        return np.log(seconds(p, read[fitted]) / us[fitted])

    p = least_squares(residuals, [10, 0.8], bounds=([1, 0.1], [200, 1]), loss="soft_l1", f_scale=0.1).x
    error = np.abs(seconds(p, read[~fitted]) / us[~fitted] - 1).mean()
    return f"{{floor: {p[0]:.1f}us, memory: {p[1]:.2f}}}  # {error:.1%}"


def entry(p: Array, tile: int) -> str:
    """The constants as a line of a profile; steps that rise by less than 0.4 % are left out."""
    memory, compute, latency, exponent, per_input = p[:5]
    steps, last = {}, 1.0
    for rows, factor in zip(STEPS, np.exp(np.cumsum(p[5:]))):
        if factor > last + 0.004:
            steps[rows] = last = round(float(factor), 3)
    fields = {
        "memory": f"{memory:.3f}".rstrip("0").rstrip("."),
        "compute": f"{compute:.3f}".rstrip("0").rstrip("."),
        "exponent": f"{exponent:.3g}",
        "tile": str(tile),
        "latency": f"{latency:.3g}us",
    }
    if per_input >= 0.001:
        fields["latency_per_input"] = f"{per_input:.3g}ns"
    if steps:
        fields["steps"] = "{" + ", ".join(f"{rows}: {factor:g}" for rows, factor in steps.items()) + "}"
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields.items()) + "}"


if __name__ == "__main__":
    print("\n".join([*lines(sys.argv[1:]), *attention_lines(sys.argv[1:])]))
