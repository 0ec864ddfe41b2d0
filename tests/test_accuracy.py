"""Predicted times against published ones: the checked part of benchmarks/data, within the figures to reach."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

accuracy = pytest.importorskip("accuracy", reason="the benchmarks are part of a checkout alone")
rows = pytest.importorskip("rows")

JUDGED = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200", "l40s", "rtx-pro-6000-server")


@pytest.fixture(scope="module")
def stacks():
    return [s for s in accuracy.stacks(cold=True) if s.device in JUDGED]


@pytest.fixture(scope="module")
def outcomes():
    return accuracy.outcomes()[0]


@pytest.fixture(scope="module")
def kernel_errors():
    return accuracy.kernel_errors()


def _checked(outcomes, *, seen: bool):
    some = [abs(o.error) for o in outcomes if o.row.load.batch == 1 and not o.fitted and o.seen == seen]
    return accuracy.quantile(some, 0.5), accuracy.quantile(some, 0.9)


@pytest.mark.parametrize("device", JUDGED)
def test_whole_linear_stacks_are_within_5_percent_of_the_tables_on_average(stacks, device):
    assert statistics.fmean(e for s in stacks if s.device == device for e in s.errors) <= 0.05


@pytest.mark.parametrize("device", [d for d in JUDGED if d != "a100-80gb-sxm"])
def test_the_ratio_to_one_token_is_within_3_percent_up_to_256_tokens(stacks, device):
    assert statistics.fmean(e for s in stacks if s.device == device for e, _ in s.ratio_errors) <= 0.03


def test_the_ratio_on_a100_is_within_5_percent_since_its_times_jump_by_10_between_sizes(stacks):
    assert statistics.fmean(e for s in stacks if s.device == "a100-80gb-sxm" for e, _ in s.ratio_errors) <= 0.05


@pytest.mark.parametrize(
    ("device", "most"),
    [
        ("h100-sxm", 0.05),
        ("l40s", 0.05),
        ("rtx-pro-6000-server", 0.05),
        ("a100-80gb-sxm", 0.08),
        ("h200-sxm", 0.08),
        ("b200-sxm", 0.08),
        ("gb200", 0.08),
    ],
)
def test_single_16_bit_kernels_of_shapes_left_out_of_the_fit_are_close_on_average(kernel_errors, device, most):
    assert statistics.fmean(map(abs, kernel_errors[device, "bf16"])) <= most


def test_plain_decoding_on_a_device_with_a_fitted_row_is_within_10_percent_at_the_median(outcomes):
    median, tail = _checked(outcomes, seen=True)
    assert median <= 0.10
    assert tail <= 0.25


def test_plain_decoding_on_an_unseen_device_is_within_15_percent_at_the_median(outcomes):
    median, tail = _checked(outcomes, seen=False)
    assert median <= 0.15
    assert tail <= 0.35


@pytest.mark.parametrize("key", [lambda r: r.engine == "lmdeploy", lambda r: r.hardware.name == "mi300x"])
def test_batch_grids_are_within_15_percent_at_the_median(outcomes, key):
    grid = [abs(o.error) for o in outcomes if key(o.row)]
    assert len(grid) >= 16
    assert statistics.median(grid) <= 0.15


def test_no_group_is_in_both_parts_and_both_hold_a_quarter_of_the_groups(outcomes):
    parts = {o.row.group: set() for o in outcomes}
    for o in outcomes:
        parts[o.row.group].add(o.fitted)
    assert all(len(part) == 1 for part in parts.values())
    fitted = sum(part == {True} for part in parts.values())
    assert len(parts) / 4 <= fitted <= 3 * len(parts) / 4


def test_most_checked_rows_lie_in_the_interval_stated_with_their_engine(outcomes):
    checked = [o for o in outcomes if o.row.load.batch == 1 and not o.fitted]
    assert accuracy.coverage(checked, lambda o: accuracy.load_engine(o.row.engine)) >= 0.8


def test_the_report_states_the_figures_that_the_benchmark_finds(outcomes):
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    seen = [o for o in outcomes if o.row.load.batch == 1 and not o.fitted and o.seen]
    assert "| " + " | ".join(["checked, device has a row in the fitted part", *accuracy.spread(seen)]) + " |" in text


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("3090 24GB * 6", "rtx-3090"),
        ("A100-80GB (330 W cap)", "a100-80gb-sxm"),
        ("Apple M1 Max (24 GPU cores)", "m1-max"),
        ("RTX 5090 mobile 24GB", "rtx-5090-laptop"),
    ],
)
def test_a_device_is_found_by_the_words_of_its_source(words, name):
    assert rows.device(words).name == name


def test_a_part_with_fewer_gpu_cores_has_its_peak_scaled_and_its_bandwidth_kept():
    small, whole = rows.device("Apple M1 Max (24 GPU cores)"), rows.device("Apple M1 Max (32 GPU cores)")
    assert small.compute.fp16 == pytest.approx(whole.compute.fp16 * 24 / 32)
    assert small.memory.bandwidth == whole.memory.bandwidth


@pytest.mark.parametrize("words", ["NVIDIA CMP 170HX 64GB", "RTX PRO 3000 Blackwell Laptop 12GB", "2× Tesla P40 24GB"])
def test_a_device_without_a_profile_is_left_out_and_not_guessed(words):
    assert rows.device(words) is None
