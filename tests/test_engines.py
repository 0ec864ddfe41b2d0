"""Engines: their table, what each changes in a pass, intervals, offloading, power, and the arrays' path."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.hardware.engines import engine_names, load_engine, stored_class
from specplan.hardware.profile import Hardware, load_hardware, override
from specplan.models.spec import load_model
from specplan.timing.cost import Load
from specplan.timing.grid import pass_times
from specplan.timing.roofline import PassTimer, interval, pass_time, power_warning, roofline, several_query_note

A100 = load_hardware("a100-80gb-sxm")
H100 = load_hardware("h100-sxm")
RTX_3090 = load_hardware("rtx-3090")
RTX_4090 = load_hardware("rtx-4090")
LLAMA = load_model("llama-3-8b")
LLAMA_70B = load_model("llama-3-70b")
MIXTRAL = load_model("mixtral-8x7b")
ENGINES = [load_engine(name) for name in engine_names()]

engines = st.sampled_from([None, *ENGINES])
models = st.sampled_from(
    [load_model(n) for n in ("llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b")]
    + [load_model(n).with_format("q4_k") for n in ("llama-3-8b", "mixtral-8x7b")]
)


# ---- the table


def test_the_engines_that_people_serve_with_are_in_the_table():
    asked = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "gpt-fast", "transformers")
    assert set(asked) <= set(engine_names())


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)
def test_every_engine_says_where_its_constants_come_from(engine):
    assert engine.sources
    for key in ("memory", "latency", "attention", "vector", "matrix_tile", "per_verification"):
        assert not getattr(engine, key) or any(key in text for text in (*engine.sources, *engine.sources.values()))


@pytest.mark.parametrize(
    ("name", "found"),
    [("vLLM", "vllm"), ("TRT_LLM", "tensorrt-llm"), (" HF Transformers ", "transformers"), ("ollama", "llama.cpp")],
)
def test_an_engine_is_found_by_name_or_alias_whatever_its_case(name, found):
    assert load_engine(name).name == found


def test_an_unknown_engine_is_an_error_with_the_nearest_name():
    with pytest.raises(InputError, match="vlm") as error:
        load_engine("vlm")
    assert "vllm" in str(error.value.hint)


def test_weights_share_kernels_by_stored_bits():
    assert [stored_class(bits) for bits in (32, 16, 9, 8, 6.5, 6, 4.25, 2.6)] == [
        "w16", "w16", "w8", "w8", "w8", "w4", "w4", "w4",
    ]  # fmt: skip


# ---- what an engine changes


def _pass(
    engine: str | None, *, hardware: Hardware = A100, context: int = 0, batch: int = 1, width: int = 1, **options
):
    found = load_engine(engine) if engine else None
    return PassTimer(hardware, LLAMA, engine=found, **options).at(Load(width, batch, context))


def test_an_eager_engine_takes_its_launches_and_no_more_once_the_device_is_slower():
    engine = load_engine("transformers")
    eager = _pass("transformers")
    assert eager.pass_s == pytest.approx(32 * engine.launch_per_layer)
    wide = PassTimer(A100, LLAMA_70B, engine=engine).at(Load(1, 64, 4096))
    assert wide.terms["launch"] == 0.0


def test_wider_verification_is_free_under_an_eager_engine():
    assert _pass("transformers", width=16).pass_s == _pass("transformers").pass_s


def test_each_sequence_costs_host_time():
    engine = load_engine("vllm")
    many, one = _pass("vllm", batch=64), _pass("vllm")
    assert many.terms["host"] - one.terms["host"] == pytest.approx(63 * engine.per_sequence)


def test_a_draft_pass_takes_the_draft_constant():
    assert _pass("vllm", draft=True).terms["host"] == pytest.approx(
        load_engine("vllm").per_draft_pass + load_engine("vllm").per_sequence
    )


def test_a_constant_stated_in_the_profile_wins_over_the_engine():
    mine = override(A100, {"overhead.per_pass": "5ms"})
    assert _pass("vllm", hardware=mine).terms["host"] == pytest.approx(0.005)


def test_an_engine_without_flash_attention_reads_the_cache_once_for_each_query_head():
    old, new = (_pass(name, hardware=RTX_3090, context=8192) for name in ("llama.cpp-no-fa", "llama.cpp"))
    none = [_pass(name, hardware=RTX_3090) for name in ("llama.cpp-no-fa", "llama.cpp")]
    grown = [at.terms["attention"] - zero.terms["attention"] for at, zero in zip((old, new), none)]
    ratio = load_engine("llama.cpp-no-fa").attention_ratio("consumer_gpu")
    attention = RTX_3090.attention_or_default().memory
    assert grown[0] / grown[1] == pytest.approx(4 * attention / min(1.0, attention * ratio), rel=0.01)


def test_an_engine_that_splits_the_cache_pays_no_slower_verification_on_an_rtx_4090():
    model = load_model("llama-3.1-8b")
    slow = PassTimer(RTX_4090, model, engine=load_engine("vllm"))
    fast = PassTimer(RTX_4090, model, engine=load_engine("llama.cpp"))
    load = Load(14, 1, 16_384)
    assert slow.at(load).terms["attention"] > 5 * slow.at(Load(1, 1, 16_384)).terms["attention"]
    assert fast.at(load).terms["attention"] < 1.1 * fast.at(Load(1, 1, 16_384)).terms["attention"]


def test_the_note_on_a_slower_verification_says_by_how_much_and_why():
    timer = PassTimer(RTX_4090, load_model("llama-3.1-8b"))
    text, source = several_query_note(timer, Load(14, 1, 16_384))
    assert "does not split it" in text
    assert "16.7 ms where one query takes 2.71 ms" in text
    assert "LLMServingSim" in source
    assert several_query_note(timer, Load(1, 1, 16_384)) is None
    assert several_query_note(PassTimer(A100, LLAMA), Load(14, 1, 16_384)) is None


@settings(deadline=None)
@given(engines, models, st.integers(1, 200), st.integers(1, 32), st.integers(0, 20_000), st.integers(1, 32))
def test_a_wider_pass_is_never_cheaper_whatever_the_engine(engine, model, width, batch, context, more):
    timer = PassTimer(A100, model, engine=engine)
    narrow, wide = (timer.at(Load(w, batch, context)).pass_s for w in (width, width + more))
    assert wide >= narrow * (1 - 1e-12)


@settings(deadline=None)
@given(engines, models, st.integers(1, 200), st.integers(1, 32), st.integers(0, 20_000))
def test_no_engine_is_faster_than_the_ideal_roofline_and_terms_add_up(engine, model, width, batch, context):
    load = Load(width, batch, context)
    at = PassTimer(A100, model, engine=engine).at(load)
    assert at.pass_s >= PassTimer(A100, model, time="ideal").at(load).pass_s * (1 - 1e-12)
    assert sum(at.terms.values()) == pytest.approx(at.pass_s)


# ---- intervals


@settings(deadline=None)
@given(engines, st.integers(1, 64), st.integers(1, 16), st.integers(0, 8192))
def test_the_point_lies_in_the_interval(engine, width, batch, context):
    timer, load = PassTimer(H100, LLAMA, engine=engine), Load(width, batch, context)
    low, high = interval(timer, load)
    assert low <= timer.at(load).pass_s <= high


def test_an_unknown_engine_has_a_wider_interval_than_any_that_one_serves_with():
    load = Load(8, 4, 1024)
    low, high = interval(PassTimer(H100, LLAMA), load)
    for engine in ENGINES:
        if engine.serves:
            own = interval(PassTimer(H100, LLAMA, engine=engine), load)
            assert low <= own[0] < own[1] <= high


def test_the_ideal_time_has_no_interval():
    timer = PassTimer(H100, LLAMA, time="ideal")
    assert interval(timer, Load()) == (timer.at(Load()).pass_s,) * 2


# ---- offloaded weights


@pytest.mark.parametrize("kind", ["ideal", "calibrated"])
def test_weights_in_the_hosts_memory_stream_at_the_links_bandwidth(kind):
    streamed = 2 * sum(m.params_total for m in LLAMA.linears)
    at = PassTimer(A100, LLAMA, time=kind, offload="all").at(Load())
    assert at.memory_s == pytest.approx(streamed / 32e9, rel=0.02)
    assert at.pass_s > 8 * PassTimer(A100, LLAMA, time=kind).at(Load()).pass_s


def test_offloaded_experts_leave_the_rest_at_the_devices_bandwidth():
    experts = sum(m.params_total for m in MIXTRAL.linears if m.experts) * 2 / 8 * 2
    rest = 2 * MIXTRAL.params_streamed - experts * 4
    at = pass_time(A100, MIXTRAL, time="ideal", offload="experts")
    assert at.memory_s == pytest.approx(experts / 32e9 + rest / 2039e9, rel=1e-6)
    assert at.memory_s < pass_time(A100, MIXTRAL, time="ideal", offload="all").memory_s


def test_a_dense_model_has_no_experts_to_offload():
    assert pass_time(A100, LLAMA, offload="experts").pass_s == pass_time(A100, LLAMA).pass_s


def test_memory_shared_with_the_host_offloads_for_free():
    m2 = load_hardware("m2-ultra")
    assert pass_time(m2, LLAMA, offload="all", time="ideal").pass_s == pytest.approx(
        pass_time(m2, LLAMA, time="ideal").pass_s
    )


def test_an_unknown_way_to_offload_is_an_error_that_lists_the_ways():
    with pytest.raises(InputError, match="layers") as error:
        PassTimer(A100, LLAMA, offload="layers")
    assert "experts" in str(error.value.hint)


# ---- power


def test_a_power_cap_without_a_measured_clock_is_a_warning_and_changes_no_time():
    capped = override(RTX_3090, {"power.limit": "150W"})
    assert "150 W of 350 W" in str(power_warning(capped))
    assert pass_time(capped, LLAMA, width=64).pass_s == pass_time(RTX_3090, LLAMA, width=64).pass_s
    assert power_warning(RTX_3090) is None


def test_a_measured_clock_scales_the_compute_peak_and_ends_the_warning():
    capped = override(RTX_3090, {"power.limit": "150W", "power.clock_share": "0.5"})
    assert power_warning(capped) is None
    slow, fast = (pass_time(h, LLAMA, width=64) for h in (capped, RTX_3090))
    assert slow.compute_s == pytest.approx(2 * fast.compute_s)
    assert slow.memory_s == fast.memory_s
    assert slow.pass_s > fast.pass_s


# ---- kernels for few rows, and the host in a verification


def _q4(engine: str, hardware: Hardware, width: int, *, batch: int = 1, dtype: str = "q4_k") -> float:
    timer = PassTimer(hardware, LLAMA.with_format(dtype), engine=load_engine(engine))
    return timer.seconds(Load(width, batch))


def test_each_of_few_rows_adds_its_flop_at_the_share_of_the_fp32_peak():
    one, two, eight = (_q4("llama.cpp", RTX_3090, width) for width in (1, 2, 8))
    weights = sum(linear.count * linear.params for linear in LLAMA.linears)
    share = load_engine("llama.cpp").vector_share("consumer_gpu", 4.5)
    assert two - one == pytest.approx(2 * weights / (share * RTX_3090.compute.fp32), rel=0.03)
    assert eight - one == pytest.approx(7 * (two - one), rel=0.01)


def test_rows_are_counted_over_the_batch():
    assert _q4("llama.cpp", RTX_3090, 1, batch=4) == pytest.approx(_q4("llama.cpp", RTX_3090, 4), rel=0.01)


def test_a_pass_above_the_border_takes_no_less_than_at_it_where_no_tile_is_known():
    at, above = (_q4("llama.cpp", RTX_3090, width) for width in (8, 9))
    assert above == pytest.approx(at, rel=0.01)
    assert above >= at


def test_metal_rounds_rows_up_to_its_tile_above_the_border():
    m4 = load_hardware("m4-pro")
    nine, full, next_tile = (_q4("llama.cpp", m4, width) for width in (9, 32, 33))
    assert nine == pytest.approx(full, rel=0.01)
    assert next_tile > 1.5 * full


def test_one_row_is_timed_as_before_by_an_engine_with_kernels_for_few_rows():
    engine = load_engine("llama.cpp")
    for hardware in (RTX_3090, A100, load_hardware("m2-ultra")):
        model = LLAMA.with_format("q4_k")
        without = engine.model_copy(update={"vector": {}, "matrix_tile": {}})
        timers = [PassTimer(hardware, model, engine=e) for e in (engine, without)]
        assert timers[0].seconds(Load(1, 1, 500)) == timers[1].seconds(Load(1, 1, 500))


def test_weights_without_an_entry_are_multiplied_as_the_profile_says():
    engine = load_engine("llama.cpp")
    without = engine.model_copy(update={"vector": {}})
    few, plain = (PassTimer(RTX_3090, LLAMA.with_format("fp16"), engine=e).seconds(Load(8)) for e in (engine, without))
    assert few == plain


def test_a_slower_clock_slows_few_rows_but_not_one():
    capped = override(RTX_3090, {"power.clock_share": "0.5"})
    ones, eights = ([_q4("llama.cpp", hw, width) for hw in (RTX_3090, capped)] for width in (1, 8))
    assert ones[1] == pytest.approx(ones[0], rel=0.1)
    assert eights[1] - ones[1] == pytest.approx(2 * (eights[0] - ones[0]), rel=0.05)


def test_a_profile_without_an_fp32_peak_takes_half_of_its_16_bit_peak_on_consumers_cards_alone():
    model = LLAMA.with_format("q4_k")
    for name, known in (("ryzen-ai-max-395", True), ("b200-sxm", False)):
        timer = PassTimer(load_hardware(name), model, engine=load_engine("llama.cpp"))
        assert all((rate is not None) is known for rate in timer.vector_rates.values())


def test_a_verification_takes_the_hosts_time_a_round_and_a_sequence():
    engine = load_engine("sglang")
    none = engine.model_copy(update={"per_verification": 0.0, "per_verified_sequence": 0.0})
    for batch in (1, 16):
        for width, expected in ((1, 0.0), (4, engine.per_verification + batch * engine.per_verified_sequence)):
            with_host, without = (PassTimer(H100, LLAMA, engine=e).seconds(Load(width, batch)) for e in (engine, none))
            assert with_host - without == pytest.approx(expected, abs=1e-12)


def test_a_draft_pass_over_several_tokens_is_no_verification():
    engine = load_engine("sglang")
    at = PassTimer(H100, LLAMA, engine=engine, draft=True).at(Load(4))
    assert at.terms["host"] == pytest.approx(engine.per_draft_pass + engine.per_sequence)


def test_knees_are_those_of_passes_without_a_verifications_host():
    engine = load_engine("sglang")
    none = engine.model_copy(update={"per_verification": 0.0, "per_verified_sequence": 0.0})
    knees = [roofline(H100, LLAMA, time="calibrated", engine=e).knee_10_tokens for e in (engine, none)]
    assert knees[0] == knees[1] > 8


# ---- arrays


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([A100, H100, RTX_4090, load_hardware("m2-ultra"), load_hardware("l40s")]),
    models,
    engines,
    st.sampled_from(["ideal", "calibrated"]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([None, "all", "experts"]),
    st.randoms(use_true_random=False),
)
def test_arrays_give_what_numbers_give(hardware, model, engine, kind, tp, offload, random):
    loads = [(random.randint(1, 300), random.randint(1, 64), random.randint(0, 40_000)) for _ in range(5)]
    width, batch, context = np.array(loads).T
    options = {"time": kind, "engine": engine, "offload": offload}
    many = pass_times(hardware, model, width=width, batch=batch, context=context, tp=tp, **options)
    timer = PassTimer(hardware, model, **options)
    each = [timer.at(Load(w, b, c, tp)).pass_s for w, b, c in loads]
    assert many == pytest.approx(each, rel=1e-12)


def test_arrays_follow_a_measured_curve_where_it_holds():
    points = [{"width": 1, "ms": 10.0}, {"width": 8, "ms": 12.0}]
    data = A100.model_dump() | {"curves": [{"dtype": "bf16", "model": "llama-3-8b", "points": points}]}
    measured, model = Hardware.model_validate(data), LLAMA.with_format("bf16")
    found = pass_times(measured, model, width=[1, 4, 8, 9], batch=[1, 1, 1, 1])
    assert found[:3] == pytest.approx([0.010, 0.010 + 0.002 * 3 / 7, 0.012])
    assert np.isnan(found[3])  # past its end nothing is known


def test_arrays_broadcast_and_an_empty_one_gives_an_empty_one():
    assert pass_times(A100, LLAMA, width=np.arange(1, 5)[:, None], batch=[1, 2, 3]).shape == (4, 3)
    assert pass_times(A100, LLAMA, width=np.array([], dtype=int)).size == 0


@pytest.mark.parametrize("bad", [[0], [1.5], [-1], [2**41]])
def test_arrays_out_of_range_are_an_error(bad):
    with pytest.raises(InputError, match="width"):
        pass_times(A100, LLAMA, width=bad)


def test_a_million_pass_times_take_under_5_seconds():
    rng = np.random.default_rng(0)
    width, batch = rng.integers(1, 300, 1_000_000), rng.integers(1, 64, 1_000_000)
    start = time.perf_counter()
    found = pass_times(A100, LLAMA, width=width, batch=batch, context=4096)
    assert time.perf_counter() - start < 5
    assert found.shape == (1_000_000,)


def test_a_pass_time_needs_no_numpy():
    code = (
        "import sys; from specplan import ModelSpec, load_hardware, pass_time; "
        "from specplan.hardware.engines import load_engine; "
        "pass_time(load_hardware('h100-sxm'), ModelSpec.from_params(8e9), engine=load_engine('vllm')); "
        "print(sorted({'numpy', 'scipy', 'torch', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
