"""Fit the constants of `hardware/_engines.yaml` to published passes of plain decoding.

    python benchmarks/fit_engines.py

Only groups (source, device and model) in the fitted part are used; `accuracy.py` reports errors on the others.
Prints what each constant came out as; the table holds them rounded. llama.cpp has rows enough for a fit by kind
of device; the rest have one constant each, the median of what their rows leave.

Its kernels for few rows are fitted to passes over several tokens and to rounds of speculation of the same part; the
host's time in a round of SGLang to either half of two tables, each checked on the other (`specdecode.py`).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import specdecode
from rows import Row, decode_rows, groups, predicted, read_table, verify_rows
from scipy.optimize import least_squares

from specplan.hardware.engines import Engine, load_engine
from specplan.hardware.profile import Hardware, load_hardware, override
from specplan.models.spec import ModelSpec, load_model
from specplan.timing.cost import Load
from specplan.timing.roofline import PassTimer

KINDS = ("gpu", "consumer_gpu", "apple")

BOUNDS = {
    **{f"{kind}.{key}": (0.9, 0.2, 1.4) for kind in KINDS for key in ("w16", "w8", "w4", "attention")},
    "per_layer_us": (20.0, 1.0, 150.0),
    "per_pass_us": (100.0, 20.0, 1500.0),
    "hop_us": (100.0, 10.0, 1000.0),
    "apple.memory": (0.9, 0.6, 0.98),
    "apple.compute": (0.5, 0.1, 1.0),
}
"""Constants of llama.cpp: start, least and largest. Apple's own shares stand in for w16 and w8 there."""


def llama_cpp() -> dict[str, float]:
    """The constants of llama.cpp without flash attention, and Apple's shares, which no other source gives."""
    rows, _ = decode_rows()
    fitted = groups(rows)
    used = [row for row in rows if row.engine == "llama.cpp-no-fa" and fitted[row.group]]
    names = [name for name in BOUNDS if name not in ("apple.w16", "apple.w8")]
    start, low, high = (np.log([BOUNDS[name][i] for name in names]) for i in range(3))
    measured = np.array([row.seconds for row in used])

    def residuals(p: np.ndarray) -> np.ndarray:
        x = dict(zip(names, np.exp(p)))
        return np.log(np.array(predict(used, x)) / measured)

    found = least_squares(
        residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.05, max_nfev=25, diff_step=1e-3
    )
    return dict(zip(names, map(float, np.exp(found.x))))


def predict(rows: list[Row], x: Mapping[str, float]) -> list[float]:
    """Seconds of the rows with llama.cpp's constants `x`."""
    memory = {kind: {key: float(x.get(f"{kind}.{key}", 1.0)) for key in ("w16", "w8", "w4")} for kind in KINDS}
    engine = Engine(
        name="llama.cpp",
        title="",
        per_pass=x["per_pass_us"] / 1e6,
        per_draft_pass=0.0,
        per_layer=x["per_layer_us"] / 1e6,
        memory=memory,
        attention={kind: float(x[f"{kind}.attention"]) for kind in KINDS},
        latency={"w8": 5e-6, "w4": 5e-6},
        exponent=1.0,
        cache_per_query_head=True,
        error=0.5,
    )
    device = _apple_with(float(x["apple.memory"]), float(x["apple.compute"]))
    hop = x["hop_us"] / 1e6
    return [predicted(row, engine, hardware=device(row.hardware)) + (row.split - 1) * hop for row in rows]


def _apple_with(memory: float, compute: float) -> Callable[[Hardware], Hardware]:
    @cache
    def changed(name: str, fp16: float) -> Hardware:
        shares = {"memory": memory, "compute": compute, "exponent": 1.0}
        return override(known[name, fp16], {f"efficiency.fp16.{key}": value for key, value in shares.items()})

    known: dict[tuple[str, float], Hardware] = {}

    def device(hardware: Hardware) -> Hardware:
        if hardware.kind != "apple":
            return hardware
        key = hardware.name, hardware.compute.fp16 or 0.0
        known[key] = hardware
        return changed(*key)

    return device


def rest(name: str, of: Callable[[Row, float], float]) -> float:
    """The median over an engine's fitted rows of a constant that `of` works out from the row and what it leaves."""
    rows, _ = decode_rows()
    fitted = groups(rows)
    bare = Engine(name=name, title="", per_pass=0.0, per_draft_pass=0.0, error=0.5)
    used = [row for row in rows if row.engine == name and fitted[row.group]]
    return statistics.median(of(row, row.seconds - predicted(row, bare)) for row in used)


# ---- kernels for few rows, and the host in a round of speculation


def with_share(engine: Engine, kind: str, stored: str, share: float) -> Engine:
    """The engine with another share of the fp32 peak for few rows of such weights."""
    of_kind = {**engine.vector.get(kind, {}), stored: share}
    return engine.model_copy(update={"vector": {**engine.vector, kind: of_kind}})


def under_a_cap() -> tuple[float, float]:
    """(share of 4-bit weights on consumers' cards, exponent of the clock under a cap), from speculation at two caps."""
    engine = load_engine("llama.cpp")

    def residuals(p: np.ndarray) -> np.ndarray:
        given, exponent = with_share(engine, "consumer_gpu", "w4", float(np.exp(p[0]))), float(p[1])
        sweeps = [specdecode.power(group, engine=given, exponent=exponent) for group in specdecode.POWER_FITTED]
        cells = [cell for sweep in sweeps for cell in sweep]
        return np.array([np.log(cell.predicted / cell.printed) for cell in cells])

    found = least_squares(residuals, [np.log(0.3), 1.0])
    return float(np.exp(found.x[0])), float(found.x[1])


def on_m4() -> dict[str, float]:
    """Shares on Apple's parts: Qwen3-0.6B on M4, a batch of 8 over one of 1, by stored weights."""
    hardware, engine = load_hardware("m4"), load_engine("llama.cpp")
    rows = [r for r in read_table("verify_cost.csv") if (r["hardware"], r["model"]) == ("Apple M4", "Qwen3-0.6B")]
    found: dict[str, list[float]] = {"w16": [], "w4": []}
    for row in rows:
        dtype = {"BF16": "bf16", "Q4_0": "q4_0", "Q4_K_M": "q4_k"}[row["dtype"]]
        model, stored = load_model("qwen3-0.6b").with_format(dtype), "w16" if dtype == "bf16" else "w4"

        def ratio(slowness: float, model: ModelSpec = model, stored: str = stored) -> float:
            timer = PassTimer(hardware, model, engine=with_share(engine, "apple", stored, 1 / slowness))
            return timer.seconds(Load(1, 8, 160)) / timer.seconds(Load(1, 1, 160))

        found[stored].append(1 / specdecode.bisected(ratio, float(row["ms_rel_n1"]), 0.25, 50.0))
    return {stored: statistics.geometric_mean(shares) for stored, shares in found.items()}


def on_a100() -> float:
    """Share of 8-bit weights on data-centre cards: CodeLlama-34B, 2 to 8 tokens over 1."""
    rows = [row for curve in verify_rows()[0].values() for row in curve if row.source.endswith("#5625")]
    first, *few = [row for row in rows if row.load.tokens <= 8]
    engine = load_engine("llama.cpp-no-fa")

    def residuals(p: np.ndarray) -> np.ndarray:
        given = with_share(engine, "gpu", "w8", float(np.exp(p[0])))
        base = predicted(first, given) / first.seconds
        return np.array([np.log(predicted(row, given) / row.seconds / base) for row in few])

    return float(np.exp(least_squares(residuals, [0.0]).x[0]))


if __name__ == "__main__":
    print("llama.cpp-no-fa:", {name: round(value, 3) for name, value in llama_cpp().items()})
    launch = rest("transformers", lambda row, left: row.seconds / row.model.layers)
    print(f"transformers: launch_per_layer {launch * 1e6:.0f} us")
    batched = rest("lmdeploy", lambda row, left: left / row.load.batch if row.load.batch > 1 else 0.0)
    print(f"lmdeploy: per_sequence {batched * 1e6:.0f} us")
    for name in ("exllamav2", "mlc", "gpt-fast", "tensorrt-llm"):
        print(f"{name}: a pass leaves {rest(name, lambda row, left: left) * 1e6:.0f} us")
    share, exponent = under_a_cap()
    print(f"llama.cpp: vector.consumer_gpu.w4 {share:.3f}; clock under a cap ~ cap^{exponent:.2f}")
    print("llama.cpp: vector.apple", {stored: round(value, 3) for stored, value in on_m4().items()})
    print(f"llama.cpp: vector.gpu.w8 {on_a100():.2f}")
    for group in ("sglang-eagle1", "sglang-eagle3"):
        halves = [specdecode.host_times(specdecode.runs(group)[i::2]) for i in (0, 1)]
        times = ", ".join(f"{a * 1e6:.0f} us a round and {b * 1e6:.0f} a sequence" for a, b in halves)
        print(f"{group}: {times}")
