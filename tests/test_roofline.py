"""Laws of the time of a pass: wider is never cheaper, ideal is a bound, terms add up, caches are read once."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.hardware.profile import Hardware, load_hardware, override
from specplan.models.spec import ModelSpec, load_model
from specplan.timing.cost import Load
from specplan.timing.roofline import (
    PassTimer,
    all_reduce_s,
    knee_width,
    p_norm,
    pass_time,
    roofline,
    roofline_share,
    rooflines,
)

A100 = load_hardware("a100-80gb-sxm")
H100 = load_hardware("h100-sxm")
RTX_4090 = load_hardware("rtx-4090")
PRO_6000 = load_hardware("rtx-pro-6000-server")
LLAMA_13B = load_model("llama-2-13b")
LLAMA_8B = load_model("llama-3.1-8b")

DEVICES = [load_hardware(n) for n in ("a100-80gb-sxm", "h100-sxm", "rtx-4090", "mi300x", "m2-ultra", "epyc-9654")]
MODELS = [load_model(n) for n in ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b", "qwen3.5-27b")]

devices = st.sampled_from(DEVICES)
models = st.sampled_from(MODELS)
loads = st.builds(
    Load,
    width=st.integers(1, 300),
    batch=st.integers(1, 64),
    context=st.integers(0, 65_536),
    tp=st.sampled_from([1, 2, 4, 8]),
    overlap=st.sampled_from([0.0, 0.5]),
)


def _wider(load: Load, by: int) -> Load:
    return Load(load.width + by, load.batch, load.context, load.tp, load.overlap)


# ---- laws


@settings(deadline=None)
@given(devices, models, loads, st.integers(1, 64), st.sampled_from(["ideal", "calibrated"]))
def test_a_wider_verify_is_never_cheaper_under_the_roofline(hardware, model, load, by, time):
    timer = PassTimer(hardware, model, time=time)
    assert timer.at(_wider(load, by)).pass_s >= timer.at(load).pass_s * (1 - 1e-12)


@settings(deadline=None)
@given(devices, models, loads)
def test_a_calibrated_pass_takes_at_least_the_ideal_one(hardware, model, load):
    ideal = PassTimer(hardware, model, time="ideal").at(load).pass_s
    assert PassTimer(hardware, model).at(load).pass_s >= ideal


@settings(deadline=None)
@given(devices, models, loads, st.sampled_from(["ideal", "calibrated"]))
def test_the_terms_add_up_to_the_pass(hardware, model, load, time):
    at = PassTimer(hardware, model, time=time).at(load)
    assert sum(at.terms.values()) == pytest.approx(at.pass_s, rel=1e-12)
    assert all(seconds >= 0 for seconds in at.terms.values())


@settings(deadline=None)
@given(devices, loads)
def test_memory_time_scales_with_the_bandwidth_under_the_ideal_roofline(hardware, load):
    faster = override(hardware, {"memory.bandwidth": 2 * hardware.memory.bandwidth})
    one, two = (PassTimer(h, LLAMA_8B, time="ideal").at(load).memory_s for h in (hardware, faster))
    assert one == pytest.approx(2 * two)


@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3), st.floats(1, 100))
def test_the_p_norm_lies_between_the_larger_and_the_sum(a, b, q):
    assert max(a, b) * (1 - 1e-12) <= p_norm(a, b, q) <= (a + b) * (1 + 1e-12)


def test_an_unknown_kind_of_time_is_an_error_that_lists_the_kinds():
    with pytest.raises(InputError, match="guess") as error:
        PassTimer(A100, LLAMA_8B, time="guess")
    assert "calibrated" in str(error.value.hint)


# ---- the verify of 14 tokens over 2048 cached ones that is often charged 14 times


def _verify_ratio(hardware: Hardware, model: ModelSpec, *, width: int, context: int, **options: str) -> float:
    timer = PassTimer(hardware, model, **options)
    return timer.at(Load(width, 1, context)).pass_s / timer.at(Load(1, 1, context)).pass_s


def test_verifying_14_tokens_of_llama_2_13b_on_an_a100_costs_one_pass_under_the_ideal_roofline():
    assert _verify_ratio(A100, LLAMA_13B, width=14, context=2048, time="ideal") <= 1.05


def test_verifying_14_tokens_of_llama_2_13b_on_an_a100_costs_within_5_percent_where_the_kernel_splits():
    assert A100.attention.multi_query_bandwidth is None
    assert 1.0 <= _verify_ratio(A100, LLAMA_13B, width=14, context=2048) <= 1.05


def test_the_gain_of_a_wide_verify_grows_with_the_context_where_the_cache_is_read_once():
    per_token = [
        PassTimer(A100, LLAMA_13B).at(Load(5, 1, context)).pass_s
        / PassTimer(A100, LLAMA_13B).at(Load(1, 5, context)).pass_s
        for context in (512, 8192, 32_768)
    ]
    assert per_token == sorted(per_token, reverse=True)


# ---- the several-query kernel that does not split the cache (vLLM 0.19, LLMServingSim, MIT)


@pytest.mark.parametrize(
    ("hardware", "cached", "measured_us"),
    [
        (RTX_4090, 512, 25.5),
        (RTX_4090, 2048, 73.5),
        (RTX_4090, 8192, 265.0),
        (RTX_4090, 16_384, 520.0),
        (PRO_6000, 2048, 51.5),
        (PRO_6000, 16_384, 369.5),
    ],
)
def test_several_queries_take_as_long_as_measured_on_cards_that_do_not_split_the_cache(hardware, cached, measured_us):
    for width in (16, 64, 128):
        terms = PassTimer(hardware, LLAMA_8B).at(Load(width, 1, cached)).terms
        assert terms["attention"] / 32 * 1e6 == pytest.approx(measured_us, rel=0.06)


def test_several_queries_add_15_ms_to_a_pass_over_16k_tokens_on_an_rtx_4090():
    timer = PassTimer(RTX_4090, LLAMA_8B)
    added = [timer.at(Load(w, 1, 16_384)).terms["attention"] for w in (1, 16)]
    assert added[1] - added[0] == pytest.approx(0.015, abs=0.002)


# ---- tensor parallelism


def test_an_all_reduce_is_a_latency_and_twice_the_message_over_the_ring():
    link = H100.link_or_default()
    small, large = all_reduce_s(link, 0.0, 8), all_reduce_s(link, 8e6, 8)
    assert small > 0
    reached = link.device_bandwidth * link.all_reduce_share["4"]
    assert large - small == pytest.approx(2 * 7 / 8 * 8e6 / reached)
    assert all_reduce_s(link, 0.0, 8) - all_reduce_s(link, 0.0, 2) == pytest.approx(6 * link.all_reduce_per_device)


@pytest.mark.parametrize(
    ("device", "tp", "size", "measured_us"),
    [
        ("h100-sxm", 8, 16_384, 4.2),
        ("a100-80gb-sxm", 4, 1 << 20, 18.4),
        ("l40s", 4, 1 << 20, 350),
        ("l40s", 2, 256, 5.4),
    ],
)
def test_an_all_reduce_takes_about_as_long_as_measured(device, tp, size, measured_us):
    """Custom all-reduce under CUDA graphs, aiconfigurator 0.12 tables (Apache-2.0)."""
    link = load_hardware(device).link_or_default()
    assert all_reduce_s(link, size, tp) * 1e6 == pytest.approx(measured_us, rel=0.25)


def test_a_layer_with_experts_pays_for_routing_and_a_dense_one_does_not():
    assert "routing" not in pass_time(H100, LLAMA_8B).terms
    routing = pass_time(H100, load_model("deepseek-v3")).terms["routing"]
    assert routing == pytest.approx(58 * H100.overhead_or_default().per_expert_layer)


def test_one_device_pays_no_all_reduce_and_several_pay_two_a_layer():
    model = load_model("llama-3-70b")
    assert "all_reduce" not in pass_time(H100, model).terms
    eight = pass_time(H100, model, tp=8).terms["all_reduce"]
    assert eight == pytest.approx(160 * all_reduce_s(H100.link_or_default(), 8192 * 2.0, 8))


# ---- precision


def test_fp8_weights_on_an_a100_stream_one_byte_and_multiply_at_the_16_bit_peak():
    fp8, fp16 = (roofline(A100, LLAMA_13B.with_format(name)) for name in ("fp8", "fp16"))
    assert fp8.t_memory_s == pytest.approx(fp16.t_memory_s / 2)
    assert fp8.t_compute_s == pytest.approx(fp16.t_compute_s)
    assert fp8.crossover_tokens == pytest.approx(fp16.crossover_tokens / 2)


def test_4_bit_weights_move_the_crossover_to_about_a_quarter():
    int4, fp16 = (roofline(A100, LLAMA_13B.with_format(name)) for name in ("int4", "fp16"))
    assert int4.crossover_tokens / fp16.crossover_tokens == pytest.approx(4.25 / 16, rel=0.01)


# ---- knees


@given(st.integers(1, 5000), st.sampled_from([0.1, 0.5]))
def test_the_knee_is_the_last_width_within_the_limit(corner, slower):
    knee = knee_width(lambda w: max(float(corner), w), slower)
    assert knee is not None
    assert max(corner, knee) <= max(corner, 1) * (1 + slower) < max(corner, knee + 1)


def test_a_time_that_never_grows_has_no_knee():
    assert knee_width(lambda w: 1.0, 0.1) is None


def test_calibrated_knees_lie_before_the_ridge():
    r = roofline(A100, LLAMA_13B, time="calibrated")
    assert r.knee_10_tokens is not None
    assert r.knee_10_tokens < r.crossover_tokens


def test_rooflines_of_several_widths_equal_those_of_each():
    load = Load(1, 2, 1024)
    many = rooflines(PassTimer(A100, LLAMA_13B), [1, 7, 200], load=load)
    each = [roofline(A100, LLAMA_13B, width=w, batch=2, context=1024, time="calibrated") for w in (1, 7, 200)]
    assert many == each


# ---- a profile's own measurement


def _with_curve(**fields: object) -> Hardware:
    points = [{"width": 1, "ms": 10.0}, {"width": 8, "ms": 12.0}, {"width": 9, "ms": 30.0}, {"width": 16, "ms": 28.0}]
    data = A100.model_dump() | {"curves": [{"dtype": "fp16", "points": points} | fields]}
    return Hardware.model_validate(data)


def test_a_measured_curve_for_the_model_wins_over_the_formula():
    timer = PassTimer(_with_curve(model="llama-2-13b"), LLAMA_13B)
    assert timer.at(Load(8)).pass_s == pytest.approx(0.012)
    assert timer.at(Load(8)).measured


def test_a_measured_curve_keeps_its_cliff_and_its_dip():
    timer = PassTimer(_with_curve(params=13.02e9), LLAMA_13B)
    assert timer.table(Load(1), (8, 9, 16)) == pytest.approx([0.012, 0.030, 0.028])


@pytest.mark.parametrize(
    ("fields", "load"),
    [
        ({"model": "llama-2-7b"}, Load(8)),
        ({"model": "llama-2-13b", "batch": 4}, Load(8)),
        ({"model": "llama-2-13b", "tp": 2}, Load(8)),
    ],
)
def test_a_curve_of_another_model_batch_or_tp_is_not_used(fields, load):
    at = PassTimer(_with_curve(**fields), LLAMA_13B).at(load)
    assert not at.measured
    assert at.pass_s == PassTimer(A100, LLAMA_13B).at(load).pass_s


# ---- share of the roofline


def test_a_measured_time_states_its_share_of_the_ideal_roofline():
    assert roofline_share(A100, ModelSpec.from_params(13e9), 0.0255, load=Load()) == pytest.approx(0.5, abs=0.001)


@pytest.mark.parametrize("tpot", [0.0, -1.0, math.inf, math.nan])
def test_a_measured_time_that_is_not_above_zero_is_an_error(tpot):
    with pytest.raises(InputError, match="measured-tpot"):
        roofline_share(A100, LLAMA_8B, tpot, load=Load())
