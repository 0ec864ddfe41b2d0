"""`specplan measure curve`: what it times, what goes into the profile, and what the fit may claim to know."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("torch")

import numpy as np
import torch

from specplan.base.errors import InputError
from specplan.hardware.profile import check_hardware, load_hardware, profile_text
from specplan.measure import width_curve
from specplan.measure.clocks import Budget, Timer
from specplan.measure.curve_fit import Timed, error_on_other_depths, fit_curve
from specplan.measure.decoder import DecoderConfig
from specplan.measure.nvml import Library, Watch
from specplan.measure.readings import Place
from specplan.measure.width_curve import Load, depth_that_fits, line_shares
from specplan.models.spec import load_model
from specplan.render.schemas import json_schema

# -- the fit ----------------------------------------------------------------------------------------------------------

TRUE = {"overhead": 30e-6, "bandwidth": 1.8e12, "peak": 250e12, "width_factor": 1.3, "exponent": 2.5}
WIDTHS = (1, 2, 3, 4, 8, 9, 16, 17, 32, 33, 64, 65, 128, 256, 512)


def one_pass(width, layers, hidden, own=True, noise=1.0):
    """A pass of a Llama shape on a device of the true parameters."""
    size = 2.0 * (14.4 * hidden**2 * layers + 32_000 * hidden * own)
    flops = size * width
    fixed = TRUE["overhead"] * layers * (TRUE["width_factor"] if width > 1 else 1)
    memory, compute, p = size / TRUE["bandwidth"], flops / TRUE["peak"], TRUE["exponent"]
    return Timed((fixed + (memory**p + compute**p) ** (1 / p)) * noise, width, layers, size, 0.0, flops, own)


def passes(seed, noise=0.03, depths=(8, 32), narrow=True):
    rng = np.random.default_rng(seed)
    shapes = [(depth, 4096, True) for depth in depths] + [(32, 64, False)] * narrow
    return [one_pass(w, *shape, noise=np.exp(rng.normal(0, noise))) for shape in shapes for w in WIDTHS]


def test_the_true_parameters_lie_inside_the_intervals_in_at_least_90_of_100_draws():
    inside, known = 0, 0
    for seed in range(100):
        anchors = {"bandwidth": 1.05 * TRUE["bandwidth"], "peak": 0.95 * TRUE["peak"]}
        found = fit_curve(passes(seed), anchors=anchors).parameters
        inside += all(found[name].low <= value <= found[name].high for name, value in TRUE.items())
        known += all(found[name].known for name in TRUE)
    assert inside >= 90
    assert known >= 90


def test_without_noise_the_true_parameters_come_out():
    found = fit_curve(passes(0, noise=0.0)).parameters
    assert {name: found[name].value for name in TRUE} == pytest.approx(TRUE, rel=0.01)


def test_one_flat_curve_cannot_tell_overhead_from_bandwidth_and_says_so():
    for seed in range(10):
        flat = [one for one in passes(seed, depths=(32,), narrow=False) if one.tokens <= 32]
        found = fit_curve(flat)
        assert not found.parameters["overhead"].known
        assert not found.parameters["peak"].known
        claimed = {name: one for name, one in found.parameters.items() if one.known}
        assert all(one.low <= TRUE[name] <= one.high for name, one in claimed.items())
        assert found.median_error < 0.05  # a small error does not make a parameter known


def test_fewer_passes_than_parameters_are_refused():
    with pytest.raises(InputError, match="cannot fit"):
        fit_curve(passes(0)[:5])


MEASURED = json.loads((Path(__file__).parent / "data" / "measured" / "cpu_curves.json").read_text())["curves"]


def measured(name, own=True):
    curve = next(one for one in MEASURED if one["name"] == name)
    loads = (curve["shape"]["layers"], curve["weight_bytes"], curve["kv_bytes"])
    return [Timed(t, n, *loads, 2.0 * curve["params"] * n, own) for n, t in zip(curve["n"], curve["t_min_s"])]


THREE_DEPTHS = [one for name in ("mid1_bf16", "mid2_bf16", "mid_bf16_quiet") for one in measured(name)]
NARROW = measured("tiny_bfloat16_128", own=False)
READINGS = {"bandwidth": 10.5e9, "peak": 814e9}


def test_three_depths_a_narrow_model_and_readings_of_the_device_identify_a_cpu():
    found = fit_curve(THREE_DEPTHS + NARROW, anchors=READINGS)
    values = {name: one.value for name, one in found.parameters.items()}
    assert values["overhead"] == pytest.approx(0.278e-3, rel=0.05)
    assert values["bandwidth"] == pytest.approx(10.1e9, rel=0.05)
    assert values["peak"] == pytest.approx(682e9, rel=0.1)
    assert values["width_factor"] == pytest.approx(1.43, rel=0.05)
    assert values["exponent"] < 1.2
    assert all(one.known for one in found.parameters.values())
    assert found.mean_error < 0.04
    assert error_on_other_depths(THREE_DEPTHS + NARROW, anchors=READINGS) < 0.1


def test_one_measured_depth_alone_says_nothing_of_bandwidth_however_small_its_error():
    found = fit_curve(measured("mid_bf16_quiet"))
    assert found.mean_error < 0.03
    assert not found.parameters["bandwidth"].known


def test_matrices_of_576_reach_half_the_bandwidth_of_matrices_of_2048():
    found = fit_curve(measured("smol_bfloat16_128") + NARROW, anchors=READINGS)
    assert found.median_error < 0.05
    assert found.parameters["bandwidth"].value == pytest.approx(5.9e9, rel=0.1)


def test_several_contexts_tell_the_bandwidth_of_the_cache():
    contexts = [one for name in ("ctx16", "ctx512", "ctx1500") for one in measured(f"smol_bf16_{name}")]
    cache = fit_curve(contexts + NARROW, anchors=READINGS).parameters["cache_bandwidth"]
    assert cache.known
    assert 0.4e9 < cache.value < 1.2e9


# -- depths -----------------------------------------------------------------------------------------------------------


def test_the_line_through_two_depths_is_exact_for_times_that_grow_by_layer():
    for depths in ((8, 2), (4, 1), (20, 10)):
        shares = line_shares(depths, 32)
        assert sum(share * (7 + 3 * depth) for share, depth in zip(shares, depths)) == pytest.approx(7 + 3 * 32)


def test_more_memory_never_fits_fewer_layers():
    config = DecoderConfig.from_model(load_model("llama-3-70b"))
    fitting = [depth_that_fits(config, [Load(8, 8192)], 64, 2, gib * 2**30) for gib in range(0, 400, 10)]
    assert fitting == sorted(fitting)
    assert (fitting[0], fitting[-1]) == (0, config.layers)


# -- the command ------------------------------------------------------------------------------------------------------

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
PROFILE = """\
name: cpu
title: a test's CPU, measured
kind: cpu
memory: {capacity: 8GB, bandwidth: 15GB/s}
compute: {fp32: 150GFLOP/s, bf16: 800GFLOP/s}
efficiency:
  fp32: {memory: 0.9, compute: 0.9}
sources: {title: measured in a test, memory: test, compute: test, efficiency: test}
"""


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A small model and profile, and few samples."""
    budget = Budget(warm_calls=1, warm_s=0.0, least=3, most=3, seconds=0.05)
    monkeypatch.setattr(width_curve, "QUICK", budget)
    model, draft, profile = tmp_path / "config.json", tmp_path / "draft.json", tmp_path / "my-cpu.yaml"
    model.write_text(json.dumps(CONFIG))
    draft.write_text(json.dumps(CONFIG | {"hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 2}))
    profile.write_text(PROFILE)
    return {"model": str(model), "draft": str(draft), "profile": str(profile)}


def run(small, *more):
    head = ["measure", "curve", "--quick", "--device", "cpu", "--threads", "1", "--dtype", "fp32"]
    return [*head, "--model", small["model"], "--profile", small["profile"], *more]


def test_the_curves_go_into_the_profile_and_win_over_the_formula(specplan, small, tmp_path):
    table, profile = tmp_path / "curve.csv", small["profile"]
    loads = ["--context", "16,64", "--batch", "1,2", "--widths", "1,2,3,4,8,9", "--draft", small["draft"]]
    ran = specplan(run(small, *loads, "--csv", str(table), "--json"))
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("measure.curve"))
    assert len(ran.json["tables"]) == 8
    for timed in ran.json["tables"]:
        assert [row["width"] for row in timed["rows"]] == [1, 2, 3, 4, 8, 9]
        assert all(row["p20_s"] <= row["s"] <= row["p80_s"] for row in timed["rows"])
        assert not timed["extrapolated"]
    assert {fit["model"] for fit in ran.json["fits"]} == {small["model"], small["draft"]}
    made = load_hardware(profile)
    assert check_hardware(profile_text(made), where="x") == []
    assert len(made.curves) == 8
    shape = ["--gpu", profile, "--model", small["model"], "--dtype", "fp32", "--context", "64", "--batch", "2"]
    rows = specplan(["roofline", *shape, "--width", "1..9", "--json"]).json["rows"]
    [first] = [t for t in ran.json["tables"] if (t["model"], t["batch"], t["context"]) == (small["model"], 2, 64)]
    assert rows[8]["calibrated"]["pass_s"] == pytest.approx(first["rows"][-1]["s"], rel=1e-5)
    assert rows[8]["calibrated"]["terms"].keys() == {"measured"}
    planned = specplan(["plan", *shape, "--draft", small["draft"], "--p", "0.7", "--json"]).json
    assert planned["plain"]["round_s"] == pytest.approx(first["rows"][0]["s"], rel=1e-5)
    again = ["hardware", "import", "--csv", str(table), "--gpu", "a100", "--json"]
    assert len(specplan(again).json["curves"]) == 8


def test_the_curve_is_drawn_on_its_formula(specplan, small, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "curve.svg"
    ran = specplan(run(small, "--widths", "1,2,4,8", "--plot", str(picture)))
    assert ran.code == 0, ran.err
    assert "predicted" in picture.read_text()


def test_layers_that_were_not_timed_follow_by_the_line(specplan, small):
    ran = specplan(run(small, "--depths", "1,3", "--widths", "1,4", "--json")).json
    [table] = ran["tables"]
    assert (table["layers"], table["depths"], table["extrapolated"], table["drift"]) == (6, [3, 1], True, None)


def test_a_model_that_does_not_fit_is_timed_at_fewer_layers_and_refused_below_two(
    specplan, refused, small, monkeypatch
):
    config = DecoderConfig.from_model(load_model(small["model"], dtype="fp32"))
    enough = depth_that_fits(config, [Load(1, 128)], 4, 4, 4.4e6)
    assert 2 <= enough < 6
    monkeypatch.setattr(width_curve, "free_memory", lambda: 4.4e6)
    table = specplan(run(small, "--widths", "1,4", "--json")).json["tables"][0]
    assert table["extrapolated"]
    assert table["depths"][0] == enough
    monkeypatch.setattr(width_curve, "free_memory", lambda: 1e6)
    assert "not even two layers" in refused(run(small, "--widths", "1,4"), 4)


def test_out_of_memory_on_the_way_tries_fewer_layers(specplan, small, monkeypatch):
    real, tried = width_curve.random_weights, []

    def scarce(config, **options):
        tried.append(options.get("layers"))
        if (options.get("layers") or 0) > 4 and config.hidden == 64 and config.vocab == 4096:
            raise MemoryError
        return real(config, **options)

    monkeypatch.setattr(width_curve, "random_weights", scarce)
    table = specplan(run(small, "--widths", "1,4", "--json")).json["tables"][0]
    assert tried[:2] == [6, 3]
    assert (table["depths"], table["extrapolated"]) == ([3, 1], True)


def test_interrupted_it_keeps_the_finished_curves_beside_and_leaves_the_profile(specplan, small, monkeypatch, tmp_path):
    real, calls = width_curve.pass_runs, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(width_curve, "pass_runs", interrupted)
    before = Path(small["profile"]).read_bytes()
    ran = specplan(run(small, "--context", "16,32,64", "--widths", "1,4"))
    assert (ran.code, ran.out) == (130, "")
    assert Path(small["profile"]).read_bytes() == before
    kept = json.loads((tmp_path / "my-cpu.incomplete.json").read_text())
    assert not kept["complete"]
    assert [table["context"] for table in kept["tables"]] == [16]


@pytest.mark.parametrize(
    ("more", "part"),
    [
        (["--widths", "2,4"], "a curve has width 1"),
        (["--widths", "1"], "one more"),
        (["--widths", "0,1"], "below 1"),
        (["--depths", "9,2"], "has 6 layers"),
        (["--depths", "2"], "no line"),
        (["--dtype", "int4"], "not timed here"),
        (["--batch", "0"], "below 1"),
        (["--context", "many"], "not a count of tokens"),
        (["--profile", "my.json"], "a profile is a .yaml file"),
        (["--profile", "no-such.yaml"], "no-such.yaml"),
        (["--model", "mixtral-8x7b"], "experts"),
        (["--model", "no-such-model"], "unknown model"),
    ],
)
def test_what_cannot_be_timed_is_refused_before_timing(refused, small, more, part):
    assert part in refused(run(small, *more))


class GpuLike(Place):
    """This CPU, treated as a GPU: what is done there, without the speed."""

    @property
    def is_cuda(self):
        return True


def test_on_a_gpu_each_pass_is_a_graph_and_eager_with_its_energy(monkeypatch, tmp_path):
    captured, watched = [], []

    def capture(run, device, *, pool=None):
        captured.append(run)
        return run

    @contextlib.contextmanager
    def watching(library, handle):
        watched.append(handle)
        yield Watch(joules=8.0, seconds=1.0)

    monkeypatch.setattr(width_curve, "captured", capture)
    monkeypatch.setattr(width_curve, "watching", watching)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 30, 1 << 30))
    monkeypatch.setattr(width_curve, "QUICK", Budget(warm_calls=1, warm_s=0.0, least=3, most=3, seconds=0.01))
    cpu = torch.device("cpu")
    place = GpuLike(cpu, Timer(cpu), Library(why_not="test"), "handle", "NVIDIA Test", "gpu", {"power_w": 100.0})
    model_file = tmp_path / "config.json"
    model_file.write_text(json.dumps(CONFIG))
    model = load_model(str(model_file), dtype="fp32")
    task = width_curve.Task(place, model, "fp32", (1, 4), quick=True)
    tables = list(width_curve.tables_of(task, [Load(2, 16)], tell=lambda share, what: None))
    assert [table.mode for table in tables] == ["graph", "eager"]
    assert len(captured) == 2 + 3  # two widths of the model, three of the narrow one
    assert set(watched) == {"handle"}
    for table in tables:
        assert all(0 < row.joules <= 2.0 for row in table.rows)


def test_a_profile_of_another_device_is_noted(specplan, small):
    assert "is the profile of a test's CPU" in specplan(run(small, "--widths", "1,4")).err
