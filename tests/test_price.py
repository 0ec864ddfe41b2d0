"""What a token costs."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.hardware.profile import load_hardware, override
from specplan.planning.price import Rates, price, watts_of
from specplan.render.schemas import json_schema

PLAN = "plan --gpu a100 --params 13e9 --p 0.6 --budget 14"


def test_a_million_tokens_at_1000_tokens_per_second_take_1000_seconds_of_the_hour():
    answer = price(Rates(2000.0, 1000.0), devices=1, price_per_hour=3.6, watts=500.0)
    assert answer.plain_price_per_mtok == pytest.approx(1.0)
    assert answer.price_per_mtok == pytest.approx(0.5)
    assert answer.plain_joules_per_token == pytest.approx(0.5)
    assert answer.joules_per_token == pytest.approx(0.25)


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.integers(1, 64), st.floats(0, 1000))
def test_price_and_energy_fall_with_the_speed_up_and_rise_with_devices(fast, plain, devices, an_hour):
    one = price(Rates(fast, plain), devices=1, price_per_hour=an_hour, watts=300.0)
    many = price(Rates(fast, plain), devices=devices, price_per_hour=an_hour, watts=300.0)
    assert many.price_per_mtok == pytest.approx(devices * one.price_per_mtok)
    assert one.plain_joules_per_token == pytest.approx(one.joules_per_token * fast / plain)


def test_what_is_not_known_stays_unknown():
    answer = price(Rates(None, 100.0), devices=1, price_per_hour=None, watts=300.0)
    assert answer.price_per_mtok is answer.plain_price_per_mtok is answer.joules_per_token is None
    assert answer.plain_joules_per_token == 3.0


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(wrong):
    with pytest.raises(InputError):
        price(Rates(1.0, 1.0), devices=1, price_per_hour=wrong, watts=None)


def test_a_power_limit_in_force_goes_before_the_datasheet():
    device = load_hardware("a100-80gb-sxm")
    assert watts_of(device) == 400.0
    assert watts_of(override(device, {"power.limit": "330W"})) == 330.0


def test_the_command_prices_a_token_with_and_without_speculation(specplan):
    ran = specplan(f"{PLAN} --price-per-hour 2 --tp 2 --json")
    jsonschema.validate(ran.json, json_schema("plan"))
    cost, rate = ran.json["cost"], ran.json["recommended"]["tokens_per_s"]
    assert cost["price_per_mtok"] == pytest.approx(2 * 2 / 3600 / rate * 1e6)
    assert cost["joules_per_token"] == pytest.approx(2 * 400 / rate)
    assert cost["plain_price_per_mtok"] / cost["price_per_mtok"] == pytest.approx(ran.json["recommended"]["speedup"])
    assert any("upper bound" in a["text"] for a in ran.json["assumptions"])


def test_without_a_price_the_energy_is_known_from_the_profile(specplan):
    cost = specplan(f"{PLAN} --json").json["cost"]
    assert cost["price_per_mtok"] is None
    assert cost["joules_per_token"] > 0
    assert "price of a million tokens" not in specplan(PLAN).out
    assert "price of a million tokens" in specplan(f"{PLAN} --price-per-hour 2").out


def test_a_curve_without_a_device_has_a_price_and_no_energy(specplan, tmp_path):
    file = tmp_path / "curve.csv"
    file.write_text("width,ms\n1,10\n2,11\n3,12\n")
    assert specplan(f"plan --verify-curve {file} --p 0.6 --json").json["cost"] is None
    cost = specplan(f"plan --verify-curve {file} --p 0.6 --price-per-hour 3.6 --json").json["cost"]
    assert cost["plain_price_per_mtok"] == pytest.approx(10.0)
    assert cost["plain_joules_per_token"] is None


@pytest.mark.parametrize("options", ["--price-per-hour -1", "--price-per-hour x", "--price-per-hour"])
def test_a_price_without_sense_is_refused(specplan, options):
    ran = specplan(f"{PLAN} {options}")
    assert (ran.code, ran.out) == (2, "")
