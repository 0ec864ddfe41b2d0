"""A measured width curve in a profile: it wins, it ends where it ends, and the output says that it was used."""

from __future__ import annotations

import math

import pytest

from specplan.base.errors import InputError
from specplan.hardware.profile import Curve, Point, load_hardware
from specplan.models.spec import ModelSpec
from specplan.timing.cost import Load
from specplan.timing.grid import pass_times
from specplan.timing.roofline import PassTimer, rooflines

PROFILE = """\
name: x
kind: gpu
memory: {capacity: 80GB, bandwidth: 3350GB/s}
compute: {bf16: 989TFLOP/s, fp16: 989TFLOP/s}
sources: {memory: test, compute: test, curves: test}
curves:
  - dtype: bf16
    params: 13e9
    points:
      - {width: 1, ms: 10}
      - {width: 2, ms: 10}
      - {width: 4, ms: 11}
      - {width: 8, ms: 20}
      - {width: 16, ms: 21}
"""
MODEL = "--params 13e9 --dtype bf16"


@pytest.fixture
def profile(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(PROFILE)
    return str(file)


@pytest.fixture
def timer(profile):
    return PassTimer(load_hardware(profile), ModelSpec.from_params(13e9, dtype="bf16"))


def test_past_the_last_measured_width_nothing_is_known(timer, refused, profile):
    assert timer.at(Load(16)).pass_s == 0.021
    with pytest.raises(InputError, match="width 17"):
        timer.at(Load(17))
    assert "ends at 16" in refused(f"roofline --gpu {profile} {MODEL} --width 17")
    assert len(timer.table(Load(), range(1, 100))) == 16
    times = pass_times(timer.hardware, timer.model, width=[16, 17])
    assert times[0] == 0.021
    assert math.isnan(times[1])


def test_the_search_stops_at_the_last_width_and_says_so(specplan, profile):
    ran = specplan(f"tree --gpu {profile} {MODEL} --p 0.8 --draft-pass 0.2ms --json").json
    assert ran["width"] == 4  # the last width before the cliff
    assert any("stops at 15 nodes" in note for note in ran["notes"])
    assert any("times measured at 5 widths" in item["text"] for item in ran["assumptions"])
    assert not any("engine unknown" in item["text"] for item in ran["assumptions"])


def test_the_knee_is_the_curves_own(timer):
    [row] = rooflines(timer, [1], load=Load())
    assert (row.knee_10_tokens, row.knee_50_tokens) == (4, 4)


def test_another_context_adds_what_the_cache_costs(timer):
    longer, formula = timer.at(Load(1, 1, 32768)).pass_s, timer.model.kv_bytes(32768) / 3350e9
    assert longer - 0.010 == pytest.approx(formula, rel=0.5)
    assert longer > timer.at(Load(1, 1, 4096)).pass_s > 0.010


def test_another_batch_falls_back_on_the_formula_and_says_so(specplan, profile):
    ran = specplan(f"roofline --gpu {profile} {MODEL} --batch 2 --json").json
    assert any("curves are of another" in note for note in ran["notes"])
    assert "measured" not in ran["calibrated"]["terms"]


def test_what_cannot_change_measured_times_is_a_warning(specplan, profile):
    ran = specplan(f"roofline --gpu {profile} {MODEL} --engine vllm --set memory.bandwidth=100GB/s --json").json
    assert len([text for text in ran["warnings"] if text.startswith(("--engine", "--set"))]) == 2
    assert ran["calibrated"]["pass_s"] == 0.010
    assert ran["ideal"]["pass_s"] == pytest.approx(0.26)


def test_of_two_modes_the_engines_own_is_taken():
    graph, eager = (
        Curve(dtype="bf16", params=13e9, mode=mode, points=(Point(width=1, ms=ms), Point(width=8, ms=2 * ms)))
        for mode, ms in (("graph", 10.0), ("eager", 30.0))
    )
    device = load_hardware("a100-80gb-sxm").model_copy(update={"curves": (eager, graph)})
    model = ModelSpec.from_params(13e9, dtype="bf16")
    seconds = {
        name: PassTimer(device, model, engine=name).at(Load(1)).pass_s for name in (None, "vllm", "transformers")
    }
    assert seconds == {None: 0.010, "vllm": 0.010, "transformers": 0.030}
