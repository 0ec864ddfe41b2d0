"""Text and numbers: laws of parsing and showing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.base import units
from specplan.base.errors import InputError

PARSERS = (
    units.parse_bytes,
    units.parse_bandwidth,
    units.parse_rate,
    units.parse_time,
    units.parse_count,
    units.parse_tokens,
    units.parse_integer,
    units.parse_power,
    units.parse_share,
    units.parse_integers,
    units.parse_shares,
    units.parse_list,
)


@given(st.text(max_size=40), st.sampled_from(PARSERS))
def test_any_text_is_a_number_or_a_clean_error(text, parse):
    try:
        parse(text)
    except InputError as error:
        assert error.hint


@pytest.mark.parametrize(
    ("parse", "show", "low", "high"),
    [
        (units.parse_bytes, units.show_bytes, 1.0, 1e18),
        (units.parse_bandwidth, units.show_bandwidth, 1.0, 1e18),
        (units.parse_rate, units.show_rate, 1.0, 1e18),
        (units.parse_time, units.show_time, 1e-9, 1e5),
        (units.parse_share, units.show_share, 1e-4, 10.0),
    ],
)
def test_reading_what_is_shown_gives_the_number_back(parse, show, low, high):
    @given(st.floats(low, high))
    def law(value):
        assert parse(show(value)) == pytest.approx(value, rel=6e-4)

    law()


@pytest.mark.parametrize(
    ("text", "value"),
    [("80GB", 80e9), ("80 GiB", 80 * 2**30), ("80G", 80e9), ("1.5 TB", 1.5e12), ("5e9", 5e9), ("1_000 kB", 1e6)],
)
def test_gb_is_decimal_and_gib_is_binary(text, value):
    assert units.parse_bytes(text) == value


def test_k_is_1024_in_tokens_and_1000_elsewhere():
    assert units.parse_tokens("8k") == 8192
    assert units.parse_count("8k") == 8000
    assert units.parse_bytes("8kB") == 8000


@pytest.mark.parametrize(
    ("text", "value"), [("12.75ms", 0.01275), ("350us", 350e-6), ("2s", 2.0), ("1h", 3600.0), ("0", 0)]
)
def test_times_carry_their_unit(text, value):
    assert units.parse_time(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["25.3", "25 parsecs", "ms", "", "1e400s", "--1s", "1 2ms"])
def test_a_time_without_a_known_unit_is_refused(text):
    with pytest.raises(InputError):
        units.parse_time(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [("1..4", [1, 2, 3, 4]), ("1,2,8", [1, 2, 8]), ("1..9:4", [1, 5, 9]), ("1,4..6,9", [1, 4, 5, 6, 9])],
)
def test_ranges_include_both_ends(text, values):
    assert units.parse_integers(text) == values


@pytest.mark.parametrize("text", ["4..1", "1..", "..4", "1..4:0", "1..1e9", "1..4..8", "a..b"])
def test_a_range_that_does_not_rise_or_never_ends_is_refused(text):
    with pytest.raises(InputError):
        units.parse_integers(text)


def test_shares_go_in_tenths_unless_told():
    assert units.parse_shares("0.3..0.9") == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert units.parse_shares("10%..20%:5%") == [0.1, 0.15, 0.2]
