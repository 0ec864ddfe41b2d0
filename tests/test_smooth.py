"""Smoothing of noisy rows: laws, and the published vector."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.acceptance.kinds import DepthTable, Independent, Mixture, Positional
from specplan.acceptance.smooth import falling, smoothed

CASES = json.loads(gzip.decompress((Path(__file__).parent / "data" / "tree_cases.json.gz").read_bytes()))


@given(st.lists(st.floats(0, 1), max_size=20))
def test_a_smoothed_row_falls_and_keeps_its_sum(row):
    smooth = falling(row)
    assert all(a >= b - 1e-12 for a, b in zip(smooth, smooth[1:]))
    assert sum(smooth) == pytest.approx(sum(row))
    assert falling(smooth) == pytest.approx(smooth)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_a_row_that_falls_is_left_as_it_is(row):
    row.sort(reverse=True)
    assert falling(row) == pytest.approx(tuple(row))


def test_the_shipped_vector_smooths_to_its_published_form():
    # Both from the reference values beside Sequoia's program; tests/data/tree_cases_README.md.
    shipped, smooth = (CASES["vectors"][name]["p"] for name in ("shipped", "shipped_isotonic"))
    assert falling(shipped) == pytest.approx(smooth, abs=1e-9)


def test_tables_and_mixtures_are_smoothed_row_by_row():
    mixed = Mixture((DepthTable(((0.1, 0.3), (0.5, 0.2))), Independent(0.6)), (0.5, 0.5))
    table, independent = smoothed(mixed).components
    assert table.rows == ((0.2, 0.2), (0.5, 0.2))
    assert independent == Independent(0.6)


def test_smooth_makes_a_rising_vector_plannable_best_first(specplan):
    ran = specplan("tree --child-prob 0.5,0.1,0.2 --budget 6 --smooth --json").json
    assert any("smoothed" in item["text"] for item in ran["assumptions"])
    same = specplan("tree --child-prob 0.5,0.15,0.15 --budget 6 --json").json
    assert ran["tau"] == pytest.approx(same["tau"])
    assert Positional((0.5, 0.15, 0.15)).is_monotone
