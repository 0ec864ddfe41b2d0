"""Measured width curves: reading, in between, knees."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.hardware.curve import Curve, read_curve

# A CUDA llama.cpp measurement with a cliff between 8 and 9 tokens: ggml-org/llama.cpp PR#5625.
CLIFF = "width,ms\n1,24.0\n4,31.5\n8,49.7\n9,112\n16,115\n"

curves = st.lists(st.integers(2, 400), unique=True, max_size=12).flatmap(
    lambda widths: st.lists(st.floats(1e-4, 10), min_size=len(widths) + 1, max_size=len(widths) + 1).map(
        lambda seconds: Curve((1, *sorted(widths)), tuple(seconds))
    )
)


@given(curves)
def test_a_measured_width_keeps_its_time_in_every_mode(curve):
    for between in ("linear", "step", "never"):
        again = Curve(curve.widths, curve.seconds, between=between)
        assert [again.at(width) for width in curve.widths] == list(curve.seconds)


@given(curves)
def test_in_between_is_never_outside_the_neighbours(curve):
    for width in range(1, curve.last + 1):
        low, high = sorted(curve.at(w) for w in curve.neighbours(width))
        assert low * (1 - 1e-12) <= curve.at(width) <= high * (1 + 1e-12)


def test_between_measured_widths_step_takes_the_next_one_and_never_has_none():
    assert read_curve(CLIFF, between="step").at(5) == pytest.approx(0.0497)
    assert math.isinf(read_curve(CLIFF, between="never").at(5))


def test_past_the_last_width_nothing_is_known():
    with pytest.raises(InputError, match="width 17"):
        read_curve(CLIFF).at(17)


def test_the_knee_is_the_last_width_before_any_slower_one_and_null_if_the_curve_ends_first():
    assert read_curve("width,ms\n1,10\n8,10.5\n16,12\n32,10.6\n").knee(0.1) == 8
    assert read_curve("width,ms\n1,10\n8,10.5\n").knee(0.1) is None


@pytest.mark.parametrize(
    "text",
    [
        "width,ms\n1,10\n4,13\n",
        "width,s\n1,0.010\n4,0.013\n",
        "# llama-bench\nwidth, tok_s\n1, 100\n4, 307.6923076923077\n",
        json.dumps([{"width": 1, "ms": 10}, {"width": 4, "ms": 13}]),
        json.dumps({"width": [1, 4], "ms": [10, 13]}),
        json.dumps({"curve": {"width": [1, 4], "s": [0.010, 0.013]}}),
    ],
)
def test_every_form_gives_the_same_curve(text):
    curve = read_curve(text)
    assert curve.widths == (1, 4)
    assert curve.seconds == pytest.approx((0.010, 0.013))


def test_rows_of_other_batches_are_left_aside_and_missing_ones_are_named():
    text = "width,ms,batch\n1,10,1\n4,13,1\n1,20,8\n4,40,8\n"
    assert read_curve(text, batch=8).seconds == (0.020, 0.040)
    with pytest.raises(InputError) as caught:
        read_curve(text, batch=2)
    assert "1, 8" in caught.value.hint


def test_the_nearest_context_is_taken_and_several_need_a_choice():
    text = "width,ms,context\n1,10,512\n1,14,8192\n"
    assert read_curve(text, context=9000).seconds == (0.014,)
    with pytest.raises(InputError, match="several contexts"):
        read_curve(text)


def test_a_ratio_curve_has_no_seconds_until_it_is_scaled():
    curve = read_curve("width,ratio\n1,1\n8,1.2\n")
    assert curve.relative
    assert curve.scaled(0.02).at(8) == pytest.approx(0.024)


@given(st.text(max_size=200))
def test_any_text_is_a_curve_or_a_clean_error(text):
    try:
        read_curve(text)
    except InputError as error:
        assert error.hint


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=3) | st.dictionaries(st.sampled_from(["width", "ms", "curve", "s"]), x, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_json_is_a_curve_or_a_clean_error(value):
    try:
        read_curve(json.dumps(value))
    except InputError as error:
        assert error.hint
