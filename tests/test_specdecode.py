"""Published end-to-end rows of speculation: the figures reached are kept, and the page states them."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

specdecode = pytest.importorskip("specdecode", reason="the benchmarks are part of a checkout alone")
specdecode_page = pytest.importorskip("specdecode_page")


def _errors(cells):
    return [abs(cell.error) for cell in cells if not cell.fitted]


@pytest.fixture(scope="module")
def table():
    return specdecode.sequoia_table()


@pytest.fixture(scope="module")
def sweep():
    return specdecode.sweep(specdecode_page.best_place())


@pytest.fixture(scope="module")
def users():
    return specdecode.user_choices()


def test_tokens_a_round_are_within_3_percent_where_vector_and_tree_are_published():
    tree, chains = specdecode.published_vector()
    assert (tree.printed, chains.printed) == (4.05, 3.27)
    assert max(_errors((tree, chains))) <= 0.03


def test_the_released_tree_has_the_nodes_and_levels_of_the_table():
    tree = specdecode.released_tree()
    assert (tree.nodes, tree.widths) == (127, (16, 24, 31, 27, 16, 13))


def test_an_unbent_vector_is_the_published_one():
    assert specdecode.vector(1.0).child_prob[:2] == pytest.approx((423 / 667, 72 / 667))
    assert sum(specdecode.vector(2.0).child_prob) == pytest.approx(1 - (49 / 667) ** 2)


def test_every_speed_up_of_sequoias_trees_is_within_10_percent(table):
    assert len(table.sequoia) == 20
    assert max(_errors(table.sequoia)) <= 0.10


def test_speed_ups_of_the_chains_beside_them_are_within_10_percent_but_for_one(table):
    assert sum(cell.fitted for cell in table.specinfer) == 1
    assert [cell.id for cell in table.specinfer if abs(cell.error) > 0.10] == ["SD0014"]


def test_the_printed_winner_of_every_group_is_chosen(table):
    assert all(choice.agrees for choice in table.choices)


def test_the_sweep_is_within_10_percent_when_set_on_its_best_cell(sweep):
    assert len(_errors(sweep)) == 29
    assert max(_errors(sweep)) <= 0.10


def test_the_cell_chosen_in_the_sweep_is_printed_within_7_percent_of_the_best(sweep):
    choice = specdecode.chosen(sweep)
    printed = {cell.what: cell.printed for cell in sweep}
    assert printed[choice.predicted] >= 0.93 * printed[choice.reported]


def test_eagle_in_vllm_is_within_10_percent_and_its_best_k_is_the_printed_one():
    cells = specdecode.eagle_in_vllm()
    assert max(_errors(cells)) <= 0.10
    assert specdecode.chosen(cells).predicted == "K 3"


@pytest.mark.parametrize(("group", "best"), [("power-400", "K 3"), ("power-500", "K 4"), ("power-600", "K 4")])
def test_one_time_a_drafted_token_gives_the_best_k_under_each_power_cap(group, best):
    cells = specdecode.power_fitted(group)
    choice = specdecode.chosen(cells)
    assert choice.predicted == choice.reported == best
    assert max(_errors(cells)) <= 0.05


def test_layerskip_with_6_drafts_is_within_10_percent_with_one_constant():
    cells = [cell for cell in specdecode.layerskip() if cell.what.startswith("6 drafts")]
    assert len(_errors(cells)) == 7
    assert max(_errors(cells)) <= 0.10


def test_layerskips_ideal_round_of_6_drafts_is_2_56_times_plain_decoding():
    tau, length = specdecode.layerskip_round(specdecode.of("layerskip")[0])
    assert tau / length == pytest.approx(2.56, abs=0.005)


def test_a_constant_is_set_on_few_rows_and_never_on_a_checked_one(sweep):
    groups = [sweep, specdecode.layerskip(), *map(specdecode.power_fitted, specdecode.POWER)]
    for cells in [*groups, specdecode.by_batch("sglang-eagle1")]:
        fitted = [cell for cell in cells if cell.fitted]
        assert 1 <= len(fitted) <= 2
        assert all(abs(cell.error) < 1e-6 for cell in fitted)


def test_chains_in_sglang_are_within_10_percent_up_to_32_sequences_with_the_hosts_time():
    for group in ("sglang-eagle1", "sglang-eagle3"):
        cells = specdecode.by_batch(group)
        assert max(_errors(cells[:6])) <= 0.10


def test_printed_slowdowns_are_predicted_as_such_in_seven_of_ten_cases_or_more():
    choices = specdecode.slowdowns()
    assert all(choice.reported == "does not pay" for choice in choices)
    assert statistics.fmean(choice.agrees for choice in choices) >= 0.7


def test_users_cases_agree_as_often_as_the_page_says_and_each_miss_has_a_reason(users):
    assert statistics.fmean(choice.agrees for choice in users) >= 0.75
    assert all(choice.why for choice in users if not choice.agrees)


def test_every_best_k_of_the_users_but_one_is_the_reported_one(users):
    sweeps = [choice for choice in users if "best of" in choice.what]
    assert len(sweeps) == 8
    assert [choice.id for choice in sweeps if not choice.agrees] == ["UC021"]


def test_the_page_is_the_one_that_the_benchmark_writes():
    page = (ROOT / "docs" / specdecode.PAGE).read_text(encoding="utf-8")
    assert page == specdecode_page.page(), "run python benchmarks/specdecode.py"
