"""Predicted against published times: writes docs/accuracy.md and its pictures.

    python benchmarks/accuracy.py [--no-pictures]

Kernels, whole linear stacks, passes of plain decoding and curves of verification, as published by others
(benchmarks/data/README.md), are predicted by `PassTimer` with the constants of the bundled profiles and engines;
published rows of speculation, which specdecode.py predicts, stand behind them.
Rows are split into a fitted and a checked part by a hash of their group: the weight shape, the combination of
heads, or source, device and model. Constants were fitted on the first part; errors count on the second.

Pictures need matplotlib, which specplan itself does not.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import specdecode_page
from fit_kernels import IN_SAMPLE
from rows import Row, decode_rows, groups, is_fitted, predicted, read_table, verify_rows
from tables import percent, quantile, table

from specplan.hardware.engines import Engine, engine_names, load_engine
from specplan.hardware.profile import load_hardware
from specplan.models.spec import Attention, Linear, ModelSpec, load_model, weight_format
from specplan.timing.cost import Load
from specplan.timing.roofline import PassTimer, interval

DOCS = Path(__file__).parents[1] / "docs"

STACKS = (
    ("Llama-2-13B", "llama-2-13b", 1),
    ("Llama-3-8B", "llama-3-8b", 1),
    ("Llama-3-70B", "llama-3-70b", 1),
    ("Llama-3-70B, 4 devices", "llama-3-70b", 4),
    ("Llama-3-70B, 8 devices", "llama-3-70b", 8),
)
WIDEST = 256


# ---- errors


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


# ---- single kernels


@dataclass(frozen=True)
class Cell:
    """One measured matrix product. us: measured; cold: weights were not left in the last cache."""

    device: str
    dtype: str
    shape: tuple[int, int]
    rows: int
    cold: bool
    us: float


@cache
def cells() -> tuple[Cell, ...]:
    return tuple(map(_cell, read_table("matrix_kernels.csv.gz")))


def _cell(row: dict[str, str]) -> Cell:
    shape = int(row["outputs"]), int(row["inputs"])
    return Cell(row["device"], row["dtype"], shape, int(row["rows"]), row["cold"] == "1", float(row["us"]))


@cache
def kernel_timer(device: str, dtype: str, shape: tuple[int, int]) -> PassTimer:
    """A timer of a model that is one matrix."""
    linears = (Linear("one", shape[1], shape[0]),)
    one = ModelSpec("one matrix", 1, shape[1], 1, linears, (), formats={"default": weight_format(dtype)})
    return PassTimer(load_hardware(device), one)


def kernel_us(cell: Cell) -> float:
    return 1e6 * kernel_timer(cell.device, cell.dtype, cell.shape).at(Load(cell.rows)).terms["linear"]


def kernel_errors() -> dict[tuple[str, str], list[float]]:
    """Relative errors of the checked kernels up to 257 rows, by device and stored weights."""
    found: dict[tuple[str, str], list[float]] = {}
    for cell in cells():
        checked = not is_fitted(f"{cell.shape[0]}x{cell.shape[1]}") or cell.device in IN_SAMPLE
        if checked and cell.cold and cell.rows <= 257 and max(cell.shape) <= 65536:
            found.setdefault((cell.device, cell.dtype), []).append(kernel_us(cell) / cell.us - 1)
    return found


# ---- whole linear stacks


class Grid:
    """Measured kernels of one device in 16 bits, interpolated over outputs and inputs, linear in both."""

    def __init__(self, device: str, *, cold: bool) -> None:
        self.us: dict[tuple[int, int], dict[int, float]] = {}
        for cell in cells():
            if cell.device == device and cell.dtype == "bf16" and (cell.cold or not cold):
                self.us.setdefault(cell.shape, {})[cell.rows] = cell.us
        self.outputs = sorted({outputs for outputs, _ in self.us})
        self.inputs = sorted({inputs for _, inputs in self.us})

    def corners(self, outputs: int, inputs: int) -> list[tuple[float, dict[int, float]]]:
        """Weights and columns of the measured shapes around this one; empty where one is missing."""
        pairs = [
            (a * b, self.us.get((n, k)))
            for n, a in _around(self.outputs, outputs)
            for k, b in _around(self.inputs, inputs)
        ]
        return [(w, column) for w, column in pairs if column] if all(column for _, column in pairs) else []


def _around(known: Sequence[int], value: int) -> list[tuple[int, float]]:
    """The neighbours of `value` and their weights; none outside the grid."""
    low, high = [v for v in known if v <= value], [v for v in known if v >= value]
    if not low or not high:
        return []
    a, b = low[-1], high[0]
    if a == b:
        return [(a, 1.0)]
    share = (value - a) / (b - a)
    return [(a, 1 - share), (b, share)]


@cache
def grid_of(device: str, cold: bool) -> Grid:
    return Grid(device, cold=cold)


def stack_cells(device: str, model: ModelSpec, tp: int, *, cold: bool) -> list[tuple[int, float, float]]:
    """(rows, measured, predicted) seconds of all matrices but the head, for rows up to 257."""
    grid = grid_of(device, cold)
    measured: dict[int, list[float]] = {}
    matrices = [m for m in model.linears if m.group != "head"]
    for m in matrices:
        outputs = m.outputs // tp if m.split == "column" else m.outputs
        inputs = m.inputs // tp if m.split == "row" else m.inputs
        corners = grid.corners(outputs, inputs)
        for rows in set.intersection(*(set(column) for _, column in corners)) if corners else ():
            measured.setdefault(rows, []).append(m.count * sum(w * column[rows] for w, column in corners) / 1e6)
    timer = PassTimer(load_hardware(device), model)
    full = sorted(rows for rows, parts in measured.items() if len(parts) == len(matrices) and rows <= 257)
    return [(rows, sum(measured[rows]), timer.at(Load(rows, tp=tp)).terms["linear"]) for rows in full]


@dataclass(frozen=True)
class Stack:
    """Errors of one stack: of the time, and of the ratio to one row, cell by cell."""

    device: str
    name: str
    cells: list[tuple[int, float, float]]

    @property
    def errors(self) -> list[float]:
        return [abs(p / t - 1) for _, t, p in self.cells]

    @property
    def ratio_errors(self) -> list[tuple[float, int]]:
        _, t1, p1 = self.cells[0]
        return [(abs((p / p1) / (t / t1) - 1), rows) for rows, t, p in self.cells if rows <= WIDEST]


def stacks(*, cold: bool = False) -> list[Stack]:
    """Every stack on every device with tables; `cold`: those alone whose neighbouring shapes were all cold."""
    devices = list(dict.fromkeys(cell.device for cell in cells() if cell.device not in IN_SAMPLE))
    found = []
    for device in devices:
        for name, model, tp in STACKS:
            measured = stack_cells(device, load_model(model).with_format("bf16"), tp, cold=cold)
            if measured:
                found.append(Stack(device, name, measured))
    return found


def shape_free_errors(some: Sequence[Stack]) -> list[float]:
    """Relative errors of the stairs that fit these ratios best without knowing the shapes: their median at each row."""
    ratios: dict[int, list[float]] = {}
    for s in some:
        for rows, t, _ in s.cells:
            if rows <= WIDEST:
                ratios.setdefault(rows, []).append(t / s.cells[0][1])
    return [abs(statistics.median(column) / ratio - 1) for column in ratios.values() for ratio in column]


def kernels_section(all_stacks: Sequence[Stack]) -> str:
    errors = kernel_errors()
    devices = list(dict.fromkeys(device for device, _ in errors))
    dtypes = list(dict.fromkeys(dtype for _, dtype in errors))

    def of_stacks(some: Sequence[Stack], device: str) -> list[str]:
        own = [s for s in some if s.device == device]
        if not own:
            return ["-", "-"]
        return [
            percent(mean(e for s in own for e in s.errors)),
            percent(mean(e for s in own for e, _ in s.ratio_errors)),
        ]

    cold = stacks(cold=True)

    def by_device(device: str) -> list[str]:
        single = [percent(mean(map(abs, errors[device, d]))) if (device, d) in errors else "-" for d in dtypes]
        return [device, *of_stacks(all_stacks, device), *of_stacks(cold, device), *single]

    head = ("device", "stack, time", "ratio", "cold stacks, time", "ratio", *(f"kernel, {d}" for d in dtypes))
    judged = [s for s in all_stacks if not s.device.startswith("arc")]
    worst = sorted(((e, s.device, s.name, rows) for s in judged for e, rows in s.ratio_errors), reverse=True)[:5]
    stairs = percent(mean(shape_free_errors([s for s in all_stacks if s.device == "a100-80gb-sxm"])))
    detail = table(
        ("device", "stack", "time", "ratio to 1 row"),
        ([s.device, s.name, percent(mean(s.errors)), percent(mean(e for e, _ in s.ratio_errors))] for s in all_stacks),
    )
    return f"""## Kernels

Mean relative error. A stack is every matrix of a model but its head, measured times interpolated between the shapes
of the tables; the ratio is t(rows) / t(1), up to {WIDEST} rows. Cold stacks are those whose neighbouring shapes were
all timed with weights that had left the last cache; small shapes are not where that cache is large. Single kernels:
weight shapes in the checked part, cold weights, up to 257 rows. int8 and int4 are weight-only kernels and, with Arc,
listed and not judged; the shapes of {", ".join(IN_SAMPLE)} (one model's) were all fitted.

{table(head, map(by_device, devices))}
The five worst ratios: {"; ".join(f"{d}, {n}, {rows} rows {percent(e)}" for e, d, n, rows in worst)}. On A100 the same
product takes one of two times 10 % apart from one size to the next, also at one row, to which the ratio is taken.
How close a prediction can come: stairs that all shapes share, were they the median of these very ratios, are {stairs}
off on A100. The tables of the serving stacks, of which the median is taken, differ there by 2.5 % (TensorRT-LLM 1.0.0
and SGLang 0.5.10), 3.0 % (TensorRT-LLM and vLLM 0.14.0) and 3.8 % (SGLang and vLLM) in the ratio of the same cell
(mean over 70 cells, aiconfigurator 0.12). On RTX PRO 6000 those of SGLang 0.5.14 and vLLM 0.24.0 differ by 1.7 %,
those of TensorRT-LLM 1.3.0rc20 by 9 % from both, mostly since its kernel for one row is faster.

{detail}"""


# ---- attention and experts


@cache
def attention_timer(device: str, heads: int, kv_heads: int) -> PassTimer:
    """A timer of a model that is one attention layer with heads of 128."""
    groups = (Attention(1, heads, kv_heads, 128, 128),)
    return PassTimer(load_hardware(device), ModelSpec("attention", 1, 128, 1, (), groups))


def attention_section() -> str:
    one: dict[str, list[float]] = {}
    for r in read_table("decode_attention.csv.gz"):
        if not is_fitted(f"{r['heads']}/{r['kv_heads']}"):
            timer = attention_timer(r["device"], int(r["heads"]), int(r["kv_heads"]))
            load = Load(1, int(r["batch"]), int(r["cached"]))
            one.setdefault(r["device"], []).append(timer.at(load).terms["attention"] * 1e6 / float(r["us"]) - 1)
    heads = {"llama-3.1-8b": (32, 8), "qwen3-32b": (64, 8), "qwen3-30b-a3b": (32, 4)}
    several: dict[tuple[str, str], list[float]] = {}
    for r in read_table("rtx_attention.csv.gz"):
        if int(r["queries"]) in range(2, 129) and int(r["cached"]) >= 512:
            timer = attention_timer(r["device"], *heads[r["model"]])
            load = Load(int(r["queries"]), 1, int(r["cached"]))
            error = timer.at(load).terms["attention"] * 1e6 / float(r["us"]) - 1
            several.setdefault((r["device"], r["model"]), []).append(error)
    return f"""## Attention

One query a sequence, combinations of heads in the checked part, caches far smaller or larger than the last cache:

{table(("device", "mean error", "kernels"), ([d, percent(mean(map(abs, e))), str(len(e))] for d, e in one.items()))}
2 to 128 queries over one cache of 512 tokens and more, by the kernel that does not split it (all rows; fitted on
them): {"; ".join(f"{d}, {m} {percent(mean(map(abs, e)))}" for (d, m), e in several.items())}.

## Experts

{experts_text()}
"""


def experts_text() -> str:
    model = load_model("qwen3-30b-a3b")
    device = load_hardware("rtx-pro-6000-server")
    linears = tuple(
        Linear(m.name, m.inputs, m.outputs, 1, m.group, m.experts, m.active, m.split, m.params)
        for m in model.linears
        if m.experts
    )
    one = ModelSpec("experts", 1, model.hidden, 1, linears, (), formats={"default": weight_format("bf16")})
    timer = PassTimer(device, one)
    errors, covered = [], []
    for r in read_table("rtx_experts.csv"):
        tokens, touched, us = int(r["tokens"]), int(r["experts"]), float(r["us"])
        spread = timer.at(Load(1, tokens)).cost.weight_bytes / (sum(m.params for m in linears) * 2)
        overlap = max(0.0, min(1.0, 1 - (touched - 8) / (spread - 8))) if spread > 8 else 0.0
        terms = timer.at(Load(1, tokens, overlap=overlap)).terms
        seconds = terms["linear"] + terms["routing"]
        (errors if touched <= spread + 0.5 else covered).append(seconds * 1e6 / us - 1)
    return (
        f"A layer of Qwen3-30B-A3B on RTX PRO 6000 by tokens and experts touched, the overlap set so that as many are: "
        f"mean error {percent(mean(map(abs, errors)))} over {len(errors)} points. {len(covered)} points touch more "
        f"experts than independent routing of their tokens would and are left out."
    )


# ---- decoding


@dataclass(frozen=True)
class Outcome:
    """A row, its prediction, and whether its group, or any row of its device, is in the fitted part."""

    row: Row
    seconds: float
    fitted: bool
    seen: bool

    @property
    def error(self) -> float:
        return self.seconds / self.row.seconds - 1


def outcomes() -> tuple[list[Outcome], dict[str, str]]:
    rows, left = decode_rows()
    fitted = groups(rows)
    seen = {row.hardware.name for row in rows if fitted[row.group]}
    found = []
    for row in rows:
        if row.engine not in engine_names():
            left[row.id] = f"engine {row.engine} is not in the table"
            continue
        seconds = predicted(row, load_engine(row.engine))
        found.append(Outcome(row, seconds, fitted[row.group], row.hardware.name in seen))
    return found, left


def spread(some: Sequence[Outcome]) -> list[str]:
    """Count, median and 90th percentile of the absolute error."""
    errors = [abs(o.error) for o in some]
    if not errors:
        return ["0", "-", "-"]
    return [str(len(errors)), percent(quantile(errors, 0.5)), percent(quantile(errors, 0.9))]


def by(some: Sequence[Outcome], key: Callable[[Outcome], str]) -> str:
    """A table with a row a key: checked and fitted errors."""
    keys = sorted({key(o) for o in some}, key=lambda k: (len(k) if k.isdigit() else 0, k))
    rows = []
    for k in keys:
        own = [o for o in some if key(o) == k]
        rows.append([k, *(cell for part in (False, True) for cell in spread([o for o in own if o.fitted == part]))])
    return table(("", "checked rows", *_SPREAD[1:], "fitted rows", *_SPREAD[1:]), rows)


_M1_MAX = "rows of this machine lie far below those of the same chip in the other llama.cpp list"

REASONS: tuple[tuple[Callable[[Row], bool], str], ...] = (
    (
        lambda r: r.hardware.name in ("m1", "m3") and r.dtype.lower() == "f16",
        "the weights do not fit beside the system: memory pressure",
    ),
    (
        lambda r: r.engine == "tensorrt-llm",
        "a throughput that includes prefill and queueing, at a batch that may not have been full",
    ),
    (
        lambda r: r.source.startswith("sudoingX"),
        "contributors' rows of one model and device lie up to 1.6 times apart: builds, limits and clocks differ",
    ),
    (lambda r: r.hardware.name in ("m1", "m1-max"), _M1_MAX),
    (
        lambda r: r.split > 1,
        "a pipeline over several cards: what passing the token on costs depends on the machine",
    ),
    (
        lambda r: r.model.params_total < 2e8,
        "a pass of a millisecond or less is launches alone, whose cost is the host's",
    ),
    (lambda r: r.engine == "lmdeploy", "prefill and decoding overlap in this throughput"),
    (lambda r: r.engine == "llama.cpp-no-fa", "a build of 2023 or 2024; its kernels changed from month to month"),
)
"""Why a row is off, by what is known of it; the first that holds."""


def reason(row: Row) -> str:
    return next((text for holds, text in REASONS if holds(row)), "not explained")


def coverage(some: Sequence[Outcome], engine: Callable[[Outcome], Engine | None]) -> float:
    """Share of the rows whose measured time lies in the stated interval."""
    inside = 0
    for o in some:
        timer = PassTimer(o.row.hardware, o.row.model, engine=engine(o))
        base = timer.at(o.row.load).pass_s
        low, high = (end - base + o.seconds if engine(o) else end for end in interval(timer, o.row.load))
        inside += low <= o.row.seconds <= high
    return inside / len(some)


_DECODE = """## Plain decoding

Absolute relative error of a pass, engine known. A row that includes a prompt's processing is predicted with it. Rows
over several cards in layers are one pass through all of them.

{single}
{grids}
Intervals: {known} of the checked rows at batch 1 lie in the interval stated with the engine; with the engine left out,
{unknown} of those of engines that one would serve with.

By engine:

{engines}
By device:

{devices}
By dtype:

{dtypes}
By batch:

{batches}
The ten worst checked rows at batch 1:

{worst}
Not predicted, {count} rows: {left}.
"""


def batch_1(found: Sequence[Outcome]) -> str:
    """Errors at batch 1, checked rows apart by whether a row of their device was fitted; fitted rows beside them."""
    single = [o for o in found if o.row.load.batch == 1]
    checked = [o for o in single if not o.fitted]
    parts = {
        "checked, device has a row in the fitted part": [o for o in checked if o.seen],
        "checked, device unseen": [o for o in checked if not o.seen],
        "checked": checked,
        "fitted": [o for o in single if o.fitted],
    }
    return table(("batch 1", *_SPREAD), ([name, *spread(some)] for name, some in parts.items()))


def decode_section(found: Sequence[Outcome], left: dict[str, str]) -> str:
    checked = [o for o in found if o.row.load.batch == 1 and not o.fitted]
    current = [o for o in checked if load_engine(o.row.engine).serves]
    grids = {
        "LMDeploy on A100 (its groups are in the fitted part)": [o for o in found if o.row.engine == "lmdeploy"],
        "vLLM on MI300X, checked": [o for o in found if o.row.hardware.name == "mi300x"],
    }
    why = Counter(left.values())
    return _DECODE.format(
        single=batch_1(found),
        grids=table(("batch grids", *_SPREAD), ([name, *spread(some)] for name, some in grids.items())),
        known=percent(coverage(checked, lambda o: load_engine(o.row.engine))),
        unknown=percent(coverage(current, lambda _: None)),
        engines=by(found, lambda o: o.row.engine),
        devices=by(found, lambda o: o.row.hardware.name),
        dtypes=by(found, lambda o: o.row.dtype),
        batches=by(found, lambda o: str(o.row.load.batch)),
        worst=worst_rows(sorted(checked, key=lambda o: -abs(o.error))[:10]),
        count=len(left),
        left="; ".join(f"{text} ({count})" for text, count in sorted(why.items())),
    )


_SPREAD = ("rows", "median", "90th percentile")


def worst_rows(some: Iterable[Outcome]) -> str:
    head = ("row", "device", "model", "dtype", "engine", "measured", "predicted", "error", "why")
    return table(head, map(_worst_row, some))


def _worst_row(o: Outcome) -> list[str]:
    row = o.row
    times = [f"{seconds * 1e3:.2f} ms" for seconds in (row.seconds, o.seconds)]
    return [row.id, row.words, row.model.name, row.dtype, row.engine, *times, f"{100 * o.error:+.0f} %", reason(row)]


# ---- verification curves


_VERIFY = """## Verification

Time of a pass over n tokens relative to the curve's first n; the measured and predicted columns are for its last n.
Median error of the checked ratios {median}, 90th percentile {tail}. These are llama.cpp's curves, whose kernels switch
with the number of tokens and changed between builds; a user's own curve (`--verify-curve`) replaces the prediction.
{left} rows are no pass of one model (whole rounds, single layers) or name no device or size.

{curves}"""


def verify_section() -> str:
    curves, left = verify_rows()
    fitted = groups(row for rows in curves.values() for row in rows)
    lines, checked = [], []
    for name, rows in sorted(curves.items()):
        ordered = sorted(rows, key=lambda row: row.load.tokens)
        if len(ordered) < 2 or ordered[0].engine not in engine_names():
            continue
        ratios = _ratios(ordered)
        errors = [abs(p / m - 1) for m, p in ratios]
        if not fitted[ordered[0].group]:
            checked += errors
        part = "fitted" if fitted[ordered[0].group] else "checked"
        tokens = f"{ordered[0].load.tokens} to {ordered[-1].load.tokens}"
        last = [f"{value:.2f}" for value in ratios[-1]]
        lines.append([*name.split("|")[:4], part, tokens, *last, percent(mean(errors))])
    head = ("source", "device", "model", "dtype", "part", "tokens", "measured", "predicted", "mean error")
    return _VERIFY.format(
        median=percent(quantile(checked, 0.5)),
        tail=percent(quantile(checked, 0.9)),
        left=len(left),
        curves=table(head, lines),
    )


def _ratios(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """(measured, predicted) times relative to the first row's."""
    times = [predicted(row, load_engine(row.engine)) for row in rows]
    return [(row.seconds / rows[0].seconds, t / times[0]) for row, t in zip(rows[1:], times[1:])]


# ---- pictures


def pictures(found: Sequence[Outcome], all_stacks: Sequence[Stack]) -> list[Path]:
    """Predicted against measured passes, and stacks by rows; as SVG, the same for the same data."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "specplan", "font.size": 9})
    folder = DOCS / "img"
    folder.mkdir(parents=True, exist_ok=True)
    return [_passes(plt, found, folder / "accuracy.svg"), _stairs(plt, all_stacks, folder / "accuracy_stacks.svg")]


def _passes(plt: object, found: Sequence[Outcome], path: Path) -> Path:
    figure, axes = plt.subplots(figsize=(6, 5.5))  # type: ignore[attr-defined]
    engines = sorted({o.row.engine for o in found})
    labelled: set[str | None] = set()
    for colour, engine in enumerate(engines):
        for part, marker in ((True, "none"), (False, f"C{colour}")):
            some = [o for o in found if o.row.engine == engine and o.fitted == part]
            label = None if engine in labelled or not some else engine
            labelled.add(label)
            x, y = [o.row.seconds * 1e3 for o in some], [o.seconds * 1e3 for o in some]
            axes.scatter(x, y, s=14, facecolors=marker, edgecolors=f"C{colour}", linewidths=0.7, label=label)
    ends = [0.2, 600]
    for factor, style in ((1, "-"), (1.25, ":"), (0.8, ":")):
        axes.plot(ends, [factor * e for e in ends], style, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured pass, ms", ylabel="predicted pass, ms")
    axes.set_title("Plain decoding: filled checked, hollow fitted; dotted 25 %", fontsize=9)
    axes.legend(frameon=False, fontsize=8)
    return _save(plt, figure, path)


def _stairs(plt: object, all_stacks: Sequence[Stack], path: Path) -> Path:
    own = [s for s in all_stacks if s.name == "Llama-2-13B"]
    shape = 2, (len(own) + 1) // 2
    figure, grid = plt.subplots(*shape, figsize=(11, 5), sharex=True, sharey=True, layout="constrained")  # type: ignore[attr-defined]
    for axes, s in zip(grid.flat, own):
        _, t1, p1 = s.cells[0]
        timer = PassTimer(load_hardware(s.device), load_model("llama-2-13b").with_format("bf16"))
        widths = range(1, 258)
        axes.plot(widths, [timer.at(Load(w)).terms["linear"] / p1 for w in widths], linewidth=1)
        axes.plot([r for r, _, _ in s.cells], [t / t1 for _, t, _ in s.cells], ".", color="black", markersize=3)
        axes.set_title(s.device, fontsize=9)
        axes.set_ylim(0.9, 2.4)
    figure.supxlabel("tokens in the pass", fontsize=9)
    figure.supylabel("linear stack of Llama-2-13B, t(n) / t(1)", fontsize=9)
    return _save(plt, figure, path)


def _save(plt: object, figure: object, path: Path) -> Path:
    if figure.get_layout_engine() is None:  # type: ignore[attr-defined]
        figure.tight_layout()  # type: ignore[attr-defined]
    figure.savefig(path, metadata={"Date": None})  # type: ignore[attr-defined]
    plt.close(figure)  # type: ignore[attr-defined]
    return path


# ---- the report


def report(found: Sequence[Outcome], left: dict[str, str], all_stacks: Sequence[Stack]) -> str:
    return f"""# How far off the predicted times are

Written by `python benchmarks/accuracy.py` from measurements by others; benchmarks/data/README.md names them. Each row
belongs to a group (weight shape; combination of heads; source, device and model), and a hash of the group's name puts
it in the fitted part (60 %) or the checked part. Constants in hardware/*.yaml were fitted on the first
(benchmarks/fit_kernels.py, benchmarks/fit_engines.py); what counts is the second.

![Predicted against measured passes](img/accuracy.svg)

{decode_section(found, left)}
{kernels_section(all_stacks)}
![Stairs of the linear stack of Llama-2-13B](img/accuracy_stacks.svg)

{attention_section()}
{verify_section()}
{specdecode_page.beside_passes()}"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/accuracy.md and its pictures.")
    parser.add_argument("--no-pictures", action="store_true", help="the text alone, without matplotlib")
    options = parser.parse_args()
    (found, left), all_stacks = outcomes(), stacks()
    DOCS.mkdir(exist_ok=True)
    (DOCS / "accuracy.md").write_text(report(found, left, all_stacks), encoding="utf-8")
    print(f"passes of plain decoding at batch 1\n\n{batch_1(found)}")
    print(f"speculation\n\n{specdecode_page.errors_by_group()}")
    print(f"wrote {DOCS / 'accuracy.md'}")
    if not options.no_pictures:
        print("\n".join(f"wrote {path}" for path in pictures(found, all_stacks)))


if __name__ == "__main__":
    main()
