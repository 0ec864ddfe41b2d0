"""Laws of bytes and FLOP: costs add and scale, caches are read once per sequence, experts by coverage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.models.spec import Attention, Linear, ModelSpec, State, load_model, weight_format
from specplan.timing.cost import Cost, Load, attention_cost, experts_touched, kernels, pass_cost

LLAMA = load_model("llama-2-13b")
MIXTRAL = load_model("mixtral-8x7b")
DEEPSEEK = load_model("deepseek-v3")
GEMMA = load_model("gemma-3-27b")

parts = st.floats(0, 1e15, allow_nan=False)
costs = st.builds(Cost, parts, parts, parts, parts, parts, parts)
widths = st.integers(1, 512)
contexts = st.integers(0, 1 << 17)


def _values(cost: Cost) -> list[float]:
    return [
        cost.flops,
        cost.attention_flops,
        cost.weight_bytes,
        cost.kv_bytes,
        cost.kv_write_bytes,
        cost.activation_bytes,
    ]


# ---- costs are values


@given(costs, costs, costs)
def test_costs_add_in_any_order(a, b, c):
    assert a + b == b + a
    assert _values((a + b) + c) == pytest.approx(_values(a + (b + c)))
    assert a + Cost() == a


@given(costs, st.integers(0, 100))
def test_a_cost_times_a_count_is_that_many_of_it(cost, count):
    assert _values(cost * count) == pytest.approx(_values(sum((cost for _ in range(count)), Cost())), rel=1e-9)
    assert count * cost == cost * count


def test_a_pass_costs_the_sum_of_its_kernels_its_attention_and_its_norms():
    load = Load(width=5, batch=3, context=700)
    total = Cost(weight_bytes=LLAMA.other_params * 2.0)
    for kernel in kernels(LLAMA, load):
        total += kernel.cost * kernel.count
    total += attention_cost(LLAMA.attention[0], LLAMA, load) * 40
    assert _values(pass_cost(LLAMA, width=5, batch=3, context=700)) == pytest.approx(_values(total))


# ---- weights


@given(widths, st.integers(1, 64), contexts)
def test_dense_weights_are_read_once_whatever_the_pass(width, batch, context):
    cost = pass_cost(LLAMA, width=width, batch=batch, context=context)
    assert cost.weight_bytes == pass_cost(LLAMA).weight_bytes


def test_the_input_embedding_is_stored_but_not_streamed():
    assert pass_cost(LLAMA).weight_bytes == 2.0 * LLAMA.params_streamed
    assert LLAMA.params_total - LLAMA.params_streamed == 32000 * 5120


@given(widths, st.integers(1, 64))
def test_flop_are_two_a_weight_and_token(width, batch):
    matrices = sum(m.params_total for m in LLAMA.linears)
    assert pass_cost(LLAMA, width=width, batch=batch).flops == pytest.approx(2.0 * matrices * width * batch)


def test_quantized_weights_shrink_bytes_and_not_flop():
    small = LLAMA.with_format("int4")
    assert pass_cost(small).flops == pass_cost(LLAMA).flops
    assert pass_cost(small).weight_bytes == pytest.approx(pass_cost(LLAMA).weight_bytes * 4.25 / 16)


def test_bytes_are_counted_by_tensor_group():
    formats = {"default": weight_format("bf16"), "experts": weight_format("mxfp4")}
    model = ModelSpec(
        "two formats",
        layers=1,
        hidden=64,
        vocab=64,
        linears=(Linear("qkv", 64, 64), Linear("e", 64, 64, group="experts", experts=4, active=4)),
        attention=(),
        formats=formats,
    )
    assert pass_cost(model).weight_bytes == 64 * 64 * 2 + 4 * 64 * 64 * 4.25 / 8


# ---- cache


@given(widths, contexts)
def test_the_cache_is_read_once_a_sequence_however_wide_the_tree(width, context):
    assert pass_cost(LLAMA, width=width, context=context).kv_bytes == LLAMA.kv_bytes_per_token * context


@given(widths, st.integers(1, 64), contexts)
def test_cache_reads_grow_with_the_batch_and_writes_with_every_new_token(width, batch, context):
    one = pass_cost(LLAMA, width=1, context=context)
    many = pass_cost(LLAMA, width=width, batch=batch, context=context)
    assert many.kv_bytes == pytest.approx(one.kv_bytes * batch)
    assert many.kv_write_bytes == pytest.approx(one.kv_write_bytes * batch * width)


def test_a_window_caps_what_is_read_and_full_layers_keep_growing():
    per_token = 2 * 16 * 128 * 2  # keys and values, 16 KV heads of 128, two bytes
    short, long = pass_cost(GEMMA, context=1000), pass_cost(GEMMA, context=100_000)
    assert short.kv_bytes == 62 * 1000 * per_token
    assert long.kv_bytes == (52 * 1024 + 10 * 100_000) * per_token


def test_the_cache_dtype_is_independent_of_the_weights():
    fp8_cache = LLAMA.with_kv_format("fp8")
    assert pass_cost(fp8_cache, context=2048).kv_bytes == pass_cost(LLAMA, context=2048).kv_bytes / 2
    assert pass_cost(fp8_cache).weight_bytes == pass_cost(LLAMA).weight_bytes


def test_the_latent_of_deepseek_v3_is_70272_bytes_a_token():
    assert pass_cost(DEEPSEEK, context=163_840).kv_bytes == 70_272 * 163_840


def test_the_cache_is_divided_by_kv_heads_and_replicated_beyond_them():
    llama = load_model("llama-3-70b")
    whole = pass_cost(llama, context=4096).kv_bytes
    shares = {tp: pass_cost(llama, context=4096, tp=tp).kv_bytes / whole for tp in (2, 8, 16)}
    assert shares == {2: 1 / 2, 8: 1 / 8, 16: 1 / 8}


def test_a_latent_cache_is_replicated_under_tensor_parallelism():
    assert pass_cost(DEEPSEEK, context=4096, tp=8).kv_bytes == pass_cost(DEEPSEEK, context=4096).kv_bytes


def test_recurrent_state_is_read_and_written_once_a_sequence():
    model = ModelSpec("s", 1, 64, 64, (Linear("m", 64, 64),), (), states=(State(layers=2, elements=100, bits=32),))
    for width in (1, 9):
        cost = pass_cost(model, width=width, batch=3, context=500)
        assert (cost.kv_bytes, cost.kv_write_bytes) == (2400.0, 2400.0)


@given(widths, st.integers(1, 32), contexts)
def test_attention_flop_count_heads_and_weights_count_none(width, batch, context):
    cost = pass_cost(LLAMA, width=width, batch=batch, context=context)
    assert cost.attention_flops == pytest.approx(4.0 * 5120 * 40 * width * batch * context)


# ---- tensor parallelism


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_matrices_are_cut_by_the_devices_and_replicated_ones_are_not(tp):
    for model in (LLAMA, DEEPSEEK):
        for kernel in kernels(model, Load(tp=tp)):
            share = 1 if kernel.linear.split == "none" else 1 / tp
            one = next(k for k in kernels(model, Load()) if k.linear == kernel.linear)
            assert kernel.cost.flops == pytest.approx(one.cost.flops * share)
            assert kernel.cost.weight_bytes == pytest.approx(one.cost.weight_bytes * share)


# ---- experts


@pytest.mark.parametrize(
    ("experts", "active", "tokens", "times"), [(8, 2, 4, 2.73), (128, 8, 5, 4.41), (256, 8, 2, 1.97)]
)
def test_experts_touched_follow_the_coverage_formula(experts, active, tokens, times):
    assert experts_touched(experts, active, tokens) / active == pytest.approx(times, abs=0.005)


@given(st.integers(1, 256), st.data(), st.integers(1, 4096), st.floats(0, 1))
def test_experts_touched_stay_between_those_of_one_token_and_all(experts, data, tokens, overlap):
    active = data.draw(st.integers(1, experts))
    touched = experts_touched(experts, active, tokens, overlap=overlap)
    assert active - 1e-9 <= touched <= min(experts, active * tokens) + 1e-9
    assert touched <= experts_touched(experts, active, tokens + 1, overlap=overlap) + 1e-9


def test_full_overlap_touches_the_experts_of_one_token():
    assert experts_touched(128, 8, 100, overlap=1.0) == 8


def test_one_token_reads_active_experts_and_a_large_batch_reads_all():
    experts = sum(m.params_total for m in MIXTRAL.linears if m.experts)
    dense = MIXTRAL.params_streamed - experts
    assert pass_cost(MIXTRAL).weight_bytes == pytest.approx(2 * (dense + experts * 2 / 8))
    assert pass_cost(MIXTRAL, batch=1000).weight_bytes == pytest.approx(2 * (dense + experts))


def test_a_token_multiplies_active_experts_alone():
    matrices = sum(m.params_active for m in MIXTRAL.linears)
    assert pass_cost(MIXTRAL, width=7).flops == pytest.approx(2.0 * matrices * 7)


# ---- loads


@pytest.mark.parametrize(
    "load", [{"width": 0}, {"batch": 0}, {"context": -1}, {"tp": 0}, {"width": True}, {"overlap": 1.5}]
)
def test_a_load_out_of_range_is_an_error_that_names_it(load):
    with pytest.raises(InputError, match=next(iter(load))):
        Load(**load)


def test_tokens_in_reach_of_a_layer_without_window_are_all():
    assert Attention(1, 8, 8, 64, 64).tokens_in_reach(10**6) == 10**6


def test_whole_numbers_of_numpy_are_whole_numbers():
    import numpy as np

    load = Load(np.int64(3), np.int32(2))
    assert (load, type(load.width)) == (Load(3, 2), int)
