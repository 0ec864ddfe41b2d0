"""`specplan measure device` on this CPU with tiny working sets: what it writes, and what it leaves alone."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("torch")

import torch

from specplan.hardware.profile import Hardware, check_hardware, load_hardware, profile_text
from specplan.measure import bandwidth, device, matmul
from specplan.measure.clocks import Budget, Timer, Timing, undisturbed
from specplan.measure.nvml import Library
from specplan.measure.place import choose, datasheet
from specplan.measure.profile_out import profile_name, profile_of
from specplan.measure.readings import Place, Reading
from specplan.render.schemas import json_schema

TINY = Budget(warm_calls=1, warm_s=0.0, least=3, most=3, seconds=0.1)


@pytest.fixture
def tiny(monkeypatch):
    """Working sets of a few MB and three samples each."""
    monkeypatch.setattr(device, "QUICK", TINY)
    monkeypatch.setattr(bandwidth, "working_set", lambda place, *, quick: 4 << 20)
    monkeypatch.setattr(bandwidth, "sides", lambda place: (256, 64))
    monkeypatch.setattr(bandwidth, "ROWS", (1, 8, 64))
    monkeypatch.setattr(matmul, "product", lambda place, name, size: _small_product(name))


def _small_product(name):
    a = torch.randn(64, 64).to(bandwidth.DTYPES[name])
    return lambda: a @ a


def test_a_device_run_writes_a_profile_that_checks_clean_and_is_used(specplan, tiny, tmp_path):
    out = str(tmp_path / "my cpu.yaml")
    ran = specplan(["measure", "device", "--out", out, "--quick", "--device", "cpu", "--threads", "1", "--json"])
    assert ran.code == 0, ran.err
    document = ran.json
    jsonschema.validate(document, json_schema("measure.device"))
    assert document["complete"]
    assert document["profile"] == out
    quantities = {reading["quantity"] for reading in document["readings"]}
    assert quantities >= {"copy", "read", "stream", "latency", "exponent", "matmul", "attention", "layer", "pass"}
    assert all(reading["low"] <= reading["value"] <= reading["high"] for reading in document["readings"])
    profile = load_hardware(out)
    assert (profile.name, profile.kind) == ("my-cpu", "cpu")
    assert check_hardware(profile_text(profile), where=out) == []
    assert set(profile.efficiency) == {"fp32", "bf16"}
    for verb in ("roofline", "plan --draft llama-68m --p 0.6"):
        name, *rest = verb.split()
        assert specplan([name, "--gpu", out, "--model", "smollm2-135m", *rest]).code == 0
    effective = profile.efficiency_for("bf16")
    assert (effective.step_rows, effective.latency_per_input, effective.tile) == ((), 0.0, 1)


def test_interrupted_it_keeps_what_was_measured_beside_and_leaves_the_profile(specplan, tiny, tmp_path, monkeypatch):
    out = tmp_path / "gpu.yaml"
    out.write_text(profile_text(load_hardware("a100-80gb-sxm")))
    before = out.read_bytes()

    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(device, "cache_reading", interrupted)
    ran = specplan(["measure", "device", "--out", str(out), "--quick", "--device", "cpu"])
    assert (ran.code, ran.out) == (130, "")
    assert out.read_bytes() == before
    kept = json.loads((tmp_path / "gpu.incomplete.json").read_text())
    assert not kept["complete"]
    assert kept["profile"] is None
    assert {"copy", "stream", "matmul"} <= {reading["quantity"] for reading in kept["readings"]}
    assert "gpu.incomplete.json" in ran.err


def test_measuring_again_keeps_the_curves_and_the_link_of_the_same_device(specplan, tiny, tmp_path):
    out = str(tmp_path / "cpu.yaml")
    table = tmp_path / "table.csv"
    table.write_text("width,ms\n1,10\n4,11\n")
    run = ["measure", "device", "--out", out, "--quick", "--device", "cpu", "--dtype", "fp32"]
    assert specplan(run).code == 0
    add = f"hardware import --csv {table} --gpu {out} --params 7e9 --dtype bf16 --out {out}"
    assert specplan(add).code == 0
    before = load_hardware(out)
    linked = before.model_copy(update={"link": before.link.model_copy(update={"all_reduce_latency": 3e-4})})
    Path(out).write_text(profile_text(linked.model_copy(update={"sources": {**before.sources, "link": "by hand"}})))
    assert "held curves and link measured on this device, which stay" in specplan(run).err
    after = load_hardware(out)
    assert [point.ms for point in after.curves[0].points] == [10, 11]
    assert (after.link.all_reduce_latency, after.sources["link"]) == (3e-4, "by hand")


def test_what_cannot_be_measured_is_said_before_measuring(refused, monkeypatch, tmp_path):
    assert "not a device" in refused("measure device --device gpu")
    assert "not measured here" in refused("measure device --dtype bf15")
    assert "it has fp32, fp16, bf16" in refused("measure device --device cpu --dtype fp8")
    assert "a profile is a .yaml file" in refused("measure device --out x.json")
    assert "cannot be written" in refused("measure device --out /no/such/folder/x.yaml", 4)
    if not torch.cuda.is_available():
        assert "CUDA" in refused("measure device --device cuda", 4)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'specplan[measure]'" in refused("measure device", 4)


# -- the profile ------------------------------------------------------------------------------------------------------


def place(name="NVIDIA A100-SXM4-80GB", **values):
    known = {"memory_bytes": 85e9, "cache_bytes": 40 << 20, "power_limit_w": 400.0, "torch": "x"}
    cpu = torch.device("cpu")
    return Place(cpu, Timer(cpu), Library(why_not="test"), None, name, "gpu", known | values)


def readings(stream=1.7e12, product=250e12, fp32=18e12, mode="eager"):
    return [
        Reading("copy", 1.6e12, 1.5e12, 1.65e12, "bytes/s", "1 GB", samples=30),
        Reading("stream", stream, stream * 0.99, stream * 1.01, "bytes/s", "x", "bf16", mode, 30),
        Reading("latency", 5e-6, 5e-6, 5e-6, "s", "x", "bf16", mode, 30),
        Reading("exponent", 2.5, 2.5, 2.5, "", "x", "bf16", mode, 30),
        Reading("matmul", fp32, fp32, fp32, "FLOP/s", "x", "fp32", samples=30),
        Reading("matmul", product, product, product, "FLOP/s", "x", "bf16", samples=30),
        Reading("attention", 9e-6, 9e-6, 9e-6, "s", "x", "bf16", mode, 30),
        Reading("cache", 1.5e12, 1.5e12, 1.5e12, "bytes/s", "x", "bf16", mode, 30),
        Reading("layer", 60e-6, 60e-6, 60e-6, "s", "x", "bf16", mode, 30),
        Reading("pass", 40e-6, 40e-6, 40e-6, "s", "x", "bf16", mode, 30),
    ]


def made(taken, base="a100-80gb-sxm", **values):
    known = None if base is None else load_hardware(base)
    return profile_of(place(**values), taken, known, name="mine", origin="measured in a test")


def clean(profile: Hardware) -> bool:
    text = profile_text(profile)
    return not [one for one in check_hardware(text, where="x") if one.severity == "error"]


def test_the_datasheet_stays_and_shares_stand_beside_it():
    draft = made(readings())
    profile, a100 = draft.hardware, load_hardware("a100-80gb-sxm")
    assert (profile.memory, profile.compute, profile.link) == (a100.memory, a100.compute, a100.link)
    entry = profile.efficiency["bf16"]
    assert entry.memory == pytest.approx(1.7 / 2.039, rel=1e-3)
    assert entry.compute == pytest.approx(250 / 312, rel=1e-3)
    assert (entry.latency, entry.exponent) == (5e-6, 2.5)
    assert profile.efficiency["w4a16"] == a100.efficiency["w4a16"]
    assert profile.efficiency["fp16"].memory == entry.memory
    assert profile.overhead.per_layer == pytest.approx(60e-6 - 4 * 5e-6 - 9e-6)
    assert profile.overhead.per_expert_layer == a100.overhead.per_expert_layer
    assert profile.source_of("overhead.per_layer").startswith("measured in a test")
    assert profile.source_of("overhead.per_expert_layer").startswith("a layer of experts")
    assert draft.warnings == ()
    assert {one.what: round(one.share, 2) for one in draft.compared} == {
        "memory bandwidth": 0.83,
        "fp32 peak": 0.92,
        "bf16 peak": 0.8,
    }
    assert clean(profile)


@pytest.mark.parametrize("stream", [3e12, 0.5e12])
def test_a_share_that_no_device_reaches_means_a_wrong_figure(stream):
    taken = [replace(one, value=min(one.value, stream)) if one.quantity == "copy" else one for one in readings(stream)]
    draft = made(taken)
    assert draft.hardware.memory.bandwidth == stream
    assert "datasheet's bandwidth cannot be right" in draft.warnings[0]
    assert clean(draft.hardware)


def test_without_a_datasheet_clocks_give_the_peaks_and_the_bus_the_bandwidth():
    known = {
        "compute_capability": "8.0",
        "multiprocessors": 108,
        "sm_clock_hz": 1410e6,
        "datasheet_bandwidth": 2.039e12,
    }
    profile = made(readings(), base=None, **known).hardware
    assert profile.compute.bf16 == pytest.approx(312e12, rel=1e-3)
    assert profile.compute.fp32 == 18e12
    assert profile.memory.bandwidth == 2.039e12
    assert clean(profile)


def test_wrong_clocks_of_the_driver_are_not_believed():
    idle = {"compute_capability": "8.0", "multiprocessors": 108, "sm_clock_hz": 210e6, "datasheet_bandwidth": 51.8e9}
    draft = made(readings(), base=None, **idle)
    assert draft.hardware.memory.bandwidth == 1.7e12
    assert draft.hardware.compute.bf16 == 250e12
    assert len(draft.warnings) == 2
    assert clean(draft.hardware)


def test_a_slice_of_a_board_has_measured_figures_alone():
    part = place("NVIDIA A100-SXM4-80GB MIG 1g.10gb", mig=True, multiprocessors=14, sm_clock_hz=1410e6)
    base, reason = datasheet(part, None)
    assert base is None
    assert "slice" in reason
    profile = profile_of(part, readings(2e11, 3e13, 2e12), base, name="slice", origin="test").hardware
    assert profile.compute.bf16 == 3e13
    assert clean(profile)


def test_a_power_limit_below_the_boards_own_is_stated_and_counts_once():
    profile = made(readings(), power_limit_w=250.0).hardware
    assert (profile.power.limit, profile.power.clock_share) == (250, 1)
    assert clean(profile)


def test_a_slowdown_while_measuring_is_a_warning():
    slow = [replace(one, slowdowns=("power brake",)) if one.quantity == "matmul" else one for one in readings()]
    assert "slowed down (power brake) while measuring matmul fp32, matmul bf16" in made(slow).warnings[0]


def test_the_datasheet_is_taken_by_exact_name_only():
    assert datasheet(place("NVIDIA A100-SXM4-80GB"), None)[0].name == "a100-80gb-sxm"
    base, reason = datasheet(place("NVIDIA A100-SXM4-80GB Custom"), None)
    assert base is None
    assert "--gpu NAME" in reason
    assert datasheet(place("anything"), "h100-sxm")[0].name == "h100-sxm"


@pytest.mark.parametrize(("path", "name"), [("my-gpu.yaml", "my-gpu"), ("/a b/Ünï.yaml", "n"), (".yaml", "measured")])
def test_a_profile_is_named_after_its_file(path, name):
    assert profile_name(path) == name
    assert clean(made(readings()).hardware.model_copy(update={"name": profile_name(path)}))


# -- clocks -----------------------------------------------------------------------------------------------------------


def test_percentiles_are_of_the_samples_and_the_band_is_relative():
    timing = Timing((5.0, 1.0, 2.0, 3.0, 4.0, 6.0))
    assert (timing.median, timing.p20, timing.p80) == (3.5, 2.0, 5.0)
    assert timing.band == pytest.approx(3 / 3.5)
    assert Timing((2.0,)).p80 == 2.0


def test_wall_clock_samples_without_the_processor_are_dropped():
    assert undisturbed([1.0, 3.0, 1.1], [1.0, 0.4, 0.97]) == (1.0, 1.1)


def test_the_device_that_is_asked_for_is_taken():
    assert choose("cpu") == torch.device("cpu")
    if not torch.cuda.is_available():
        assert choose(None) == torch.device("cpu")


@pytest.mark.skipif(sys.platform == "win32", reason="reads /proc")
def test_the_cpu_tells_its_memory_and_name():
    from specplan.measure.place import place_of

    found = place_of(torch.device("cpu"), threads=1)
    assert found.name
    assert found.values["memory_bytes"] > 1 << 28
    assert found.timer.clock == "process CPU time"
