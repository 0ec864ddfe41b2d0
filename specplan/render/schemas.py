"""The JSON documents as types, and the JSON Schemas made from them. Needs pydantic; nothing imports it at start-up."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from ..acceptance.drift import Drift
from ..acceptance.kinds import Interval
from ..planning.advise import Trial
from ..planning.batch import Joint, Stretch
from ..planning.explain import Ceiling, Moved
from ..planning.families import Family
from ..planning.plan import BreakEven, Verdict
from ..planning.price import Price
from ..planning.simulate import Simulated
from ..planning.validate import Term
from ..search.optimize import Candidate
from ..search.shape import DraftTime
from ..search.space import Dynamic
from ..timing.roofline import Roofline
from .sweep import Pivot

Mask = list[list[int]]


class Assumption(TypedDict):
    text: str
    source: str


class Common(TypedDict):
    """The keys that every document has."""

    schema: str
    version: str
    inputs: dict[str, Any]
    assumptions: list[Assumption]
    notes: list[str]
    warnings: list[str]


class MeasuredShare(TypedDict):
    tpot_s: float | None
    roofline_share: float | None


class RooflineRow(TypedDict):
    width: int
    ideal: Roofline
    calibrated: Roofline


class RooflineDocument(Common):
    """specplan.roofline/1: `ideal` and `calibrated` are of the first width, `rows` has all."""

    ideal: Roofline
    calibrated: Roofline
    rows: list[RooflineRow]
    measured: MeasuredShare


class ShapeKeys(TypedDict):
    nodes: int | None
    width: int | None
    depth: int | None
    widths: list[int] | None
    parents: list[int] | None
    ranks: list[int] | None
    paths: list[list[int]] | None
    position_offsets: list[int] | None
    level_survival: list[float] | None
    accepted: float | None
    tau: float | None
    draft: DraftTime | None
    verify_s: float | None
    overhead_s: float | None
    round_s: float | None
    tokens_per_s: float | None
    tokens_per_s_per_sequence: float | None
    speedup: float | None
    interpolated: bool | None
    dynamic: Dynamic | None


class ComparisonKeys(TypedDict):
    nodes: int
    width: int
    depth: int
    widths: list[int]
    accepted: float
    tau: float
    round_s: float | None
    tokens_per_s: float | None
    tokens_per_s_per_sequence: float | None
    speedup: float | None


class Comparisons(TypedDict):
    plain: ComparisonKeys | None
    chain_same_budget: ComparisonKeys | None
    chain_same_depth: ComparisonKeys | None
    full_tree: ComparisonKeys | None


class ExtraKeys(TypedDict):
    families: dict[str, Family | None] | None
    limits: Ceiling | None
    sensitivity: dict[str, Moved] | None


class OverP(TypedDict):
    p: float
    tree: ComparisonKeys
    chain: ComparisonKeys
    ratio: float


class _TreeKeys(ShapeKeys, ExtraKeys):
    optimality: str | None
    gap: float | None
    candidates: list[Candidate]
    comparisons: Comparisons
    interval: Interval | None
    rows: list[OverP]
    break_even_table: list[BreakEven]


class _Serving(TypedDict):
    stack: StackKeys | None


class TreeDocument(Common, _TreeKeys, _Serving, total=False):
    """specplan.tree/1: `rows` is filled for a range of p, `mask` (nodes x nodes) with --mask or up to 64 nodes."""

    mask: Mask


class OptimumKeys(ShapeKeys):
    optimality: str | None
    gap: float | None
    candidates: list[Candidate] | None
    comparisons: Comparisons | None


class MemoryKeys(TypedDict):
    needed_bytes: float | None
    device_bytes: float | None
    fits: bool | None
    draft_kv_sequences: float | None
    freed_bytes: float | None


class BreakEvenKeys(TypedDict):
    tau: float | None
    p: float | None
    round_s: float | None
    nodes: int | None
    table: list[BreakEven]


class TimeKeys(TypedDict):
    draft_s: float | None
    verify_s: float | None
    overhead_s: float | None


class DraftKeys(TypedDict):
    bytes_ratio: float | None
    passes: int | None
    pass_s: float | None


class BurstTimes(TypedDict):
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    percentile_s: float | None
    mean_s: float | None
    probability: float | None


class SmallestKeys(BurstTimes):
    nodes: int
    width: int
    depth: int
    widths: list[int]
    paths: list[list[int]]


class DeadlineKeys(BurstTimes):
    """Seconds from the request; `percentile` as a share; the times are of the recommended shape."""

    tokens: int
    deadline_s: float | None
    percentile: float
    ttft_s: float
    meets: bool | None
    plain: BurstTimes
    smallest: SmallestKeys | None


class StackKeys(TypedDict):
    """What a serving stack reads: its own names with underscores; `depth` in drafted levels, `nodes` without the root.

    `loss` is the share of tokens per second lost against the free optimum.
    """

    name: str
    version: str
    family: str
    settings: dict[str, Any]
    nodes: int
    width: int
    depth: int
    loss: float | None
    command: str
    environment: dict[str, str]
    files: dict[str, str]
    binary: list[str]


class StackName(TypedDict):
    name: str
    version: str
    family: str


class LengthKeys(TypedDict):
    batch_first: int
    batch_last: int
    k: int


class YieldKeys(TypedDict):
    nodes: int
    depth: int
    accepted: float
    tau: float
    round_s: float | None
    tokens_per_s: float | None
    speedup: float | None


class ExportDocument(Common):
    """specplan.export/1: `settings` has the stack's own names with underscores, `files` name -> content (binary ones in
    base64). `loss` is the share of tokens per second lost where another shape was put in its place, 0 for the shape
    itself, null where no acceptance is known; `shape` is what is exported, `instead_of` what was given."""

    stack: StackName
    settings: dict[str, Any]
    nodes: int
    width: int
    depth: int
    loss: float | None
    files: dict[str, str]
    binary: list[str]
    adaptive_config: dict[str, Any] | None
    command: str
    environment: dict[str, str]
    schedule: list[LengthKeys] | None
    dynamic: Dynamic | None
    parents: list[int]
    ranks: list[int]
    paths: list[list[int]] | None
    position_offsets: list[int]
    mask: Mask | None
    buffers: dict[str, Any] | None
    shape: YieldKeys | None
    instead_of: YieldKeys | None


class RecordKeys(TypedDict):
    """What a range of versions can run; null where no limit is known."""

    family: str
    methods: list[str]
    settings: list[str]
    source: str
    since: str | None
    until: str | None
    root_counted: bool
    min_depth: int
    min_tree_depth: int
    max_depth: int | None
    max_nodes: int | None
    max_rank: int | None
    pool: str
    max_children: list[int]
    max_topk: int | None
    tree_methods: list[str] | None
    schedule_methods: list[str] | None
    contiguous: bool
    expanding_first: bool
    planned: str | None
    order: str
    schedule: str | None
    synthetic: bool
    cost: str
    note: str


class StackRecord(TypedDict):
    name: str
    title: str
    read: str
    aliases: list[str]
    start: str
    capabilities: list[RecordKeys]
    reads: list[str]


class ProblemKeys(TypedDict):
    kind: str
    setting: str
    text: str


class CheckDocument(Common):
    """specplan.check/1, of export --check: `silent` where settings are taken and do something else; `shape` is what
    they stand for, null where they do not say; kinds are refused, silent and note."""

    stack: str
    stack_version: str
    accepted: bool
    silent: bool
    problems: list[ProblemKeys]
    shape: Dynamic | None


class PointKeys(TypedDict):
    source: str
    batch: int | None
    k: int | None
    nodes: int
    depth: int
    terms: dict[str, Term]


class ValidateDocument(Common):
    """specplan.validate/1: `terms` has the largest error of each term (null: not measured), `points` every measurement;
    `fitted` is null where the measurements do not say it, `intervals` are of 95 %."""

    terms: dict[str, Term | None]
    points: list[PointKeys]
    fitted: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    within_tolerance: bool | None


class StacksDocument(Common):
    """specplan.stacks/1."""

    stacks: list[StackRecord]


class CostKeys(TypedDict):
    """Seconds (times a plain pass, if `relative`) of passes over 1, 2, ... tokens per sequence."""

    verify_s: list[float | None]
    draft_s: float | list[float | None] | None
    overhead_s: float
    draft_passes: str
    draft_shape: str
    batch: int
    proposed: float
    relative: bool


class PlanDocument(Common, ExtraKeys):
    """specplan.plan/1."""

    verdict: Verdict
    break_even: BreakEvenKeys
    optimum: OptimumKeys | None
    recommended: OptimumKeys | None
    best_chain: OptimumKeys | None
    plain: OptimumKeys
    given: OptimumKeys | None
    time: TimeKeys
    draft: DraftKeys
    memory: MemoryKeys
    schedule: list[Stretch] | None
    joint: Joint | None
    deadline: DeadlineKeys | None
    cost: Price | None
    stack: StackKeys | None
    acceptance: dict[str, Any] | None
    costs: CostKeys


class NeedsKeys(TypedDict):
    training: str
    second_weights: str
    drift: str
    exactness: str


class MethodKeys(ExtraKeys):
    """One method: plan's keys, null where it could not be planned, with the reason."""

    available: bool
    reason: str
    needs: NeedsKeys
    verdict: Verdict | None
    break_even: BreakEvenKeys | None
    optimum: OptimumKeys | None
    recommended: OptimumKeys | None
    best_chain: OptimumKeys | None
    plain: OptimumKeys | None
    given: None
    time: TimeKeys | None
    draft: DraftKeys | None
    memory: MemoryKeys | None
    schedule: None
    joint: None
    deadline: None
    cost: None
    stack: StackKeys | None
    acceptance: dict[str, Any] | None
    costs: CostKeys | None


class CompareDocument(Common):
    """specplan.compare/1: `methods` is ordered by speed-up, those that were not planned come last."""

    best: str | None
    methods: dict[str, MethodKeys]


class StopKeys(TypedDict):
    """A stop of the acceptance slider; p is null for an acceptance that is not one number."""

    label: str
    p: float | None


class StartKeys(TypedDict):
    batch: int
    acceptance: int


class CellKeys(TypedDict):
    nodes: int
    width: int
    depth: int
    tau: float
    tokens_per_s: float | None
    speedup: float


class ReportDocument(Common):
    """specplan.report/1: `cells` by method, then by `batches`, then by `acceptances`; null where it does not fit.

    `lead` is the method whose tree and pass times are shown, `start` the places where the sliders stand at first.
    """

    file: str
    bytes: int
    lead: str | None
    methods: list[str]
    not_planned: dict[str, str]
    batches: list[int]
    acceptances: list[StopKeys]
    start: StartKeys
    cells: dict[str, list[list[CellKeys | None]]]


class AnalyticKeys(TypedDict):
    tau: float


class SimulateDocument(Common):
    """specplan.simulate/1."""

    analytic: AnalyticKeys
    simulated: Simulated


class AdviseBreakEven(TypedDict):
    tau: float


class AdviseDocument(Common):
    """specplan.advise/1: `used` runs now, `change` is what to change to (null: keep, or no acceptance given)."""

    verdict: str | None
    reason: str
    tau: float | None
    round_s: float | None
    break_even: AdviseBreakEven
    speedup: float | None
    interval: list[float] | None
    loss: float | None
    used: ComparisonKeys | None
    change: ComparisonKeys | None
    measure_next: list[Trial]
    drift: Drift | None
    was_best: bool | None


class CountsKeys(TypedDict):
    rounds: float | None
    rounds_without_proposal: float | None
    drafted: float | None
    accepted: float | None
    by_depth_rank: list[list[list[float]]] | None
    by_path: list[dict[str, Any]] | None


class MeasuredPrompt(TypedDict):
    """One prompt: `by_depth_rank` of greedy answers, `sums` of chances by rule of sampled ones."""

    positions: int
    by_depth_rank: list[list[list[int]]] | None
    sums: dict[str, list[float]] | None


class MeasuredAcceptance(TypedDict):
    """What `measure acceptance` adds: counts by prompt, the vectors of other rules, rates by exit layer."""

    positions: int
    prompts: list[MeasuredPrompt]
    child_prob_by_rule: dict[str, list[float]] | None
    exit_layers: dict[str, float] | None


class AcceptanceDocument(Common):
    """specplan.acceptance/1: what `tree`, `plan`, `compare` and `advise` take as --acceptance."""

    kind: str
    k: int | None
    p: float | list[float] | None
    decay: float | None
    child_prob: list[float] | list[list[float]] | None
    scheme: str | None
    alpha: list[float] | None
    survival: list[float] | None
    extends: bool | None
    measured_depth: int | None
    paths: list[dict[str, Any]] | None
    accept_length_by_k: dict[str, float] | None
    tau: float | None
    acceptance_rate: float | None
    components: list[dict[str, Any]] | None
    weights: list[float] | None
    counts: CountsKeys | None
    rule: str | None
    temperature: float | None
    accept_length_model: str | None
    histogram: list[float] | None
    drafted_per_round: float | None
    interval: Interval | None
    workload: str | dict[str, Any] | None
    by_context: list[dict[str, Any]] | dict[str, Any] | None
    by_engine: list[dict[str, Any]] | None
    by_category: dict[str, float | None] | None
    series: list[dict[str, float]] | None
    fit: dict[str, Any] | None
    measured_tree: dict[str, int] | None
    source: str | None
    dialect: str | None
    unknown: list[str] | None
    measured: MeasuredAcceptance | None
    drift: Drift | None


class ReadingKeys(TypedDict):
    quantity: str
    value: float
    low: float
    high: float
    unit: str
    at: str
    dtype: str
    mode: str
    samples: int
    slowdowns: list[str]


class DeviceKeys(TypedDict):
    name: str
    kind: str
    values: dict[str, Any]
    missing: dict[str, str]


class ComparedKeys(TypedDict):
    what: str
    datasheet: float
    achieved: float
    unit: str
    share: float
    wrong: bool


class DatasheetKeys(TypedDict):
    profile: str | None
    compared: list[ComparedKeys]


class MeasureDeviceDocument(Common):
    """specplan.measure.device/1: `complete` is False where it was interrupted; `profile` is the file written."""

    device: DeviceKeys
    clock: str
    mode: str
    complete: bool
    readings: list[ReadingKeys]
    datasheet: DatasheetKeys
    profile: str | None


class WidthKeys(TypedDict):
    width: int
    s: float
    p20_s: float
    p80_s: float
    samples: int
    tokens_per_s: float
    joules: float | None
    joules_per_token: float | None


class WidthTableKeys(TypedDict):
    model: str
    dtype: str
    mode: str
    batch: int
    context: int
    layers: int
    depths: list[int]
    extrapolated: bool
    drift: float | None
    rows: list[WidthKeys]


class FittedKeys(TypedDict):
    value: float
    low: float
    high: float
    unit: str
    known: bool


class CurveFitKeys(TypedDict):
    model: str
    dtype: str
    mode: str
    parameters: dict[str, FittedKeys]
    passes: int
    median_error: float | None
    mean_error: float | None
    largest_error: float | None
    other_depth_error: float | None
    again_error: float | None
    drift: float | None
    reason: str


class MeasureCurveDocument(Common):
    """specplan.measure.curve/1: a table for each model, load and mode; a fit for each model and mode."""

    device: DeviceKeys
    clock: str
    complete: bool
    tables: list[WidthTableKeys]
    fits: list[CurveFitKeys]
    profile: str | None


class MessageKeys(TypedDict):
    bytes: int
    s: float
    p20_s: float
    p80_s: float
    samples: int


class MeasureLinkDocument(Common):
    """specplan.measure.link/1: `measure device --tp`; latency + 2 (tp - 1) / tp bytes / bandwidth."""

    device: DeviceKeys
    tp: int
    backend: str
    mode: str
    messages: list[MessageKeys]
    latency_s: float
    bandwidth: float | None
    bandwidth_low: float | None
    bandwidth_high: float | None
    layer_error: float
    profile: str | None


class HardwareImportDocument(Common):
    """specplan.hardware.import/1: curves as in a profile."""

    curves: list[dict[str, Any]]
    profile: str | None


class SweptMethod(TypedDict):
    method: str
    draft: str | None
    points: int
    paying: int
    best: dict[str, Any] | None


class SweepDocument(Common):
    """specplan.sweep/1: `rows` is filled where no file has them, `best` and `rows` by the names in `columns`."""

    points: int
    planned: int
    paying: int
    best: dict[str, Any] | None
    by_method: list[SweptMethod]
    reasons: dict[str, int]
    file: str | None
    columns: list[str]
    rows: list[dict[str, Any]] | None
    pivot: Pivot | None


class DecodeTerm(TypedDict):
    """Predicted and measured; `error` is predicted over measured, less 1. Intervals by drawing prompts anew."""

    predicted: float | None
    measured: float
    low: float
    high: float
    error: float | None
    error_low: float | None
    error_high: float | None


class DecodeTerms(TypedDict):
    tau: DecodeTerm
    draft_s: DecodeTerm
    verify_s: DecodeTerm
    rest_s: DecodeTerm
    round_s: DecodeTerm
    plain_s: DecodeTerm
    tokens_per_s: DecodeTerm
    speedup: DecodeTerm


class DecodeIdentity(TypedDict):
    """Texts compared with plain decoding; `largest_gap` in steps of the dtype."""

    prompts: int
    same: int
    padded: int
    largest_gap: float
    lossless: bool


class PassesAlone(TypedDict):
    """Seconds of passes alone by width, mean of before, between and after the prompts."""

    target: dict[str, float]
    draft: dict[str, float]


class DecodedPrompt(TypedDict):
    tokens: int
    rounds: int
    emitted: int
    tree_s: float
    plain_rounds: int
    plain_s: float
    same: bool
    padded: bool | None
    gap: float


class MeasureDecodeDocument(Common):
    """specplan.measure.decode/1: `explains` is none, acceptance, time or both; `identity` is null when sampling."""

    nodes: int
    width: int
    depth: int
    device: str
    clock: str
    profile: str | None
    complete: bool
    terms: DecodeTerms
    explains: str
    identity: DecodeIdentity | None
    drift: float
    passes_alone: PassesAlone
    tolerance: float | None
    within_tolerance: bool | None
    prompts: list[DecodedPrompt]


DOCUMENTS: dict[str, Any] = {
    "advise": AdviseDocument,
    "acceptance": AcceptanceDocument,
    "roofline": RooflineDocument,
    "tree": TreeDocument,
    "plan": PlanDocument,
    "compare": CompareDocument,
    "report": ReportDocument,
    "simulate": SimulateDocument,
    "export": ExportDocument,
    "check": CheckDocument,
    "validate": ValidateDocument,
    "stacks": StacksDocument,
    "measure.device": MeasureDeviceDocument,
    "measure.decode": MeasureDecodeDocument,
    "measure.curve": MeasureCurveDocument,
    "measure.link": MeasureLinkDocument,
    "hardware.import": HardwareImportDocument,
    "sweep": SweepDocument,
}


def json_schema(verb: str) -> dict[str, Any]:
    """The JSON Schema of a verb's document; no key beside the listed ones is allowed.

    >>> json_schema("plan")["properties"]["schema"]["const"]
    'specplan.plan/1'
    """
    from pydantic import TypeAdapter

    schema: dict[str, Any] = TypeAdapter(DOCUMENTS[verb]).json_schema()
    schema["properties"]["schema"] = {"const": f"specplan.{verb}/1"}
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part["additionalProperties"] = False
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"specplan.{verb}/1", **schema}
