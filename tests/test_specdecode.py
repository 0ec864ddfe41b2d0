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


@pytest.mark.parametrize(("group", "best"), [("power-400", "K 3"), ("power-500", "K 4"), ("power-600", "K 4")])
def test_profile_and_engine_give_the_printed_k_under_each_power_cap_to_the_printed_digits(group, best):
    assert specdecode.chosen_to_rounding(group).predicted == best
    assert max(abs(cell.error) for cell in specdecode.power(group)) <= 0.04


def test_the_sweep_at_600_watts_sets_no_constant():
    assert not any(cell.fitted for cell in specdecode.power("power-600"))
    assert all(cell.fitted for group in specdecode.POWER_FITTED for cell in specdecode.power(group))


def test_the_longer_chain_at_600_watts_leads_by_less_than_the_printed_acceptance_decides():
    cells = {cell.what: cell.predicted for cell in specdecode.power("power-600")}
    assert 1 < cells["K 5"] / cells["K 4"] < 1.001


def test_a_clear_lead_is_not_taken_for_a_tie(monkeypatch):
    cells = [specdecode.Cell("SD0670", "K 4", 157.2, 162.1), specdecode.Cell("SD0671", "K 5", 158.0, 159.7)]
    monkeypatch.setattr(specdecode, "power", lambda group: cells)
    assert specdecode.chosen_to_rounding("power-600").predicted == "K 5"


@pytest.mark.parametrize(
    ("device", "dtype", "slower", "within"), [("rtx-3090", "q4_0", 2.39, 0.03), ("m4", "q3_k", 6.54, 0.20)]
)
def test_eight_sequences_of_a_27b_model_are_as_slow_as_measured_on_rows_that_set_nothing(device, dtype, slower, within):
    timer = specdecode.PassTimer(
        specdecode.load_hardware(device),
        specdecode.load_model("qwen3.5-27b").with_format(dtype),
        engine=specdecode.load_engine("llama.cpp"),
    )
    one, eight = (timer.seconds(specdecode.Load(1, batch, 128)) for batch in (1, 8))
    assert eight / one == pytest.approx(slower, rel=within)


@pytest.mark.parametrize(("context", "ms"), [(528, (12.652, 14.666, 17.816)), (4112, (13.374, 16.067, 20.461))])
def test_few_rows_of_8_bit_weights_on_apple_are_within_6_percent_of_rows_that_set_nothing(context, ms):
    # Qwen2-7B in Q8_0 on M2 Ultra with 1, 2 and 4 sequences (ggml-org/llama.cpp#16894)
    timer = specdecode.PassTimer(
        specdecode.load_hardware("m2-ultra"),
        specdecode.load_model("qwen2.5-7b").with_format("q8_0"),
        engine=specdecode.load_engine("llama.cpp"),
    )
    found = [1e3 * timer.seconds(specdecode.Load(1, batch, context)) for batch in (1, 2, 4)]
    assert found == pytest.approx(ms, rel=0.06)
    assert [one / found[0] for one in found] == pytest.approx([one / ms[0] for one in ms], rel=0.06)


def test_a_pass_over_17_tokens_on_m4_pro_takes_what_the_user_measured_within_5_percent():
    case = next(case for case in specdecode.stated()["cases"] if case["id"] == "UC059")
    chain = specdecode._chain_of(case)
    assert chain.target.seconds(specdecode.Load(17, 1, specdecode.CHAT_CONTEXT)) == pytest.approx(0.431, rel=0.05)


def test_layerskip_with_6_drafts_is_within_10_percent_with_one_constant():
    cells = [cell for cell in specdecode.layerskip() if cell.what.startswith("6 drafts")]
    assert len(_errors(cells)) == 7
    assert max(_errors(cells)) <= 0.10


def test_layerskips_ideal_round_of_6_drafts_is_2_56_times_plain_decoding():
    tau, length = specdecode.layerskip_round(specdecode.of("layerskip")[0])
    assert tau / length == pytest.approx(2.56, abs=0.005)


def test_a_constant_is_set_on_few_rows_and_never_on_a_checked_one(sweep):
    for cells in [sweep, specdecode.layerskip(), *map(specdecode.power_fitted, specdecode.POWER)]:
        fitted = [cell for cell in cells if cell.fitted]
        assert 1 <= len(fitted) <= 2
        assert all(abs(cell.error) < 1e-6 for cell in fitted)


@pytest.mark.parametrize("group", ["sglang-eagle1", "sglang-eagle3"])
def test_chains_in_sglang_are_within_10_percent_at_every_batch_by_the_other_half_of_the_rows(group):
    cells = specdecode.by_batch(group)
    assert len(_errors(cells)) == 9
    assert max(_errors(cells)) <= 0.10
    assert all((cell.predicted > 1) == (cell.printed > 1) for cell in cells)


def test_a_row_in_sglang_is_predicted_by_rows_other_than_itself(monkeypatch):
    before = specdecode.by_batch("sglang-eagle1")
    first, *rest = specdecode.runs("sglang-eagle1")
    changed = specdecode.replace(first, row={**first.row, "speedup": "1.1"})
    monkeypatch.setattr(specdecode, "runs", lambda group, closed=True: (changed, *rest))
    after = specdecode.by_batch("sglang-eagle1")
    assert after[0].predicted == before[0].predicted
    assert after[1].predicted != before[1].predicted


def test_steady_batches_explain_fewer_rows_than_closed_runs():
    def within(closed):
        groups = ("sglang-eagle1", "sglang-eagle3")
        return sum(e <= 0.10 for g in groups for e in _errors(specdecode.by_batch(g, closed=closed)))

    assert within(False) < within(True) == 18


@pytest.mark.parametrize("batch", [1, 7, 64, 80, 200])
def test_a_closed_run_answers_every_question_and_never_holds_more_than_may_run(batch):
    parts = specdecode.occupancy(batch, 80)
    assert max(running for running, _ in parts) == min(batch, 80)
    assert sum(running * steps for running, steps in parts) == pytest.approx(80, rel=0.01)


def test_a_run_of_80_questions_holds_16_on_average_of_at_most_64():
    parts = specdecode.occupancy(64, 80)
    assert sum(n * s for n, s in parts) / sum(s for _, s in parts) == pytest.approx(15.6, abs=0.1)


def test_the_hosts_times_come_back_from_runs_that_were_made_with_them():
    made = [
        specdecode.replace(run, row={"speedup": str(run.speedup(1.5e-3, 2e-4))})
        for run in specdecode.runs("sglang-eagle3")
    ]
    assert specdecode.host_times(made) == pytest.approx((1.5e-3, 2e-4))


def test_printed_slowdowns_are_predicted_as_such_or_open():
    choices = specdecode.slowdowns()
    assert all(choice.reported == "does not pay" for choice in choices)
    assert {choice.id for choice in choices if not choice.agrees} == {"UC065"}
    assert all(choice.predicted == specdecode.OPEN for choice in choices if not choice.agrees)


def test_users_cases_agree_in_nine_of_ten_that_are_decided_and_each_other_has_a_reason(users):
    decided = [choice for choice in users if choice.predicted != specdecode.OPEN]
    assert len(users) - len(decided) == 3
    assert statistics.fmean(choice.agrees for choice in decided) >= 0.95
    assert all(choice.why for choice in users if not choice.agrees)


def test_users_cases_agree_in_nine_of_ten_even_where_an_open_one_counts_as_a_miss(users):
    assert len(users) == 42
    assert statistics.fmean(choice.agrees for choice in users) >= 0.9
    assert specdecode.agreement_by_case(users) == (13, 2, 1)


def test_every_case_is_either_predicted_or_left_out_for_one_reason(users):
    left = [case for cases in specdecode.stated()["left_out"].values() for case in cases]
    assert len(left) == len(set(left))
    assert not {choice.id for choice in users} & set(left)
    assert len(left) + len({choice.id for choice in users}) == 54


def test_the_best_of_several_drafters_is_the_reported_one_whatever_the_unknown_rest_of_a_round(users):
    drafters = [choice for choice in users if "drafters" in choice.what and "best of" in choice.what]
    assert [choice.id for choice in drafters] == ["UC065", "UC018", "UC019", "UC113"]
    assert all(choice.agrees for choice in drafters)


def test_one_of_the_users_cases_is_missed(users):
    missed = [choice for choice in users if not choice.agrees and choice.predicted != specdecode.OPEN]
    assert [choice.id for choice in missed] == ["UC095"]


def test_a_best_k_is_open_only_while_what_was_accepted_leaves_it_open(monkeypatch):
    case = next(case for case in specdecode.stated()["cases"] if case["id"] == "UC021")
    assert specdecode._device(case)[0].predicted == specdecode.OPEN
    monkeypatch.setattr(specdecode, "ACCEPTED", {"UC021": ((2.30, 3.08), (2.32, 3.12))})
    assert specdecode._device(case)[0].predicted == "K 4"


def test_a_verdict_that_turns_between_the_bounds_of_an_unknown_overhead_is_open():
    case = {"id": "X", "what": "x", "plain_ms": 10.0, "names": ["a", "b", "c"], "speedup": [1.1, 2.0, 0.5]}
    found = specdecode._measured(case | {"tau": [2.0, 5.0, 1.0], "draft_ms": [5.0] * 3, "verify_ms": [10.0] * 3})
    assert [choice.predicted for choice in found] == ["open", "pays", "does not pay"]


def test_every_best_k_of_the_users_but_one_is_the_reported_one(users):
    sweeps = [choice for choice in users if "best of K" in choice.what]
    assert len(sweeps) == 8
    assert [choice.id for choice in sweeps if not choice.agrees] == ["UC021"]


def test_the_page_of_pass_times_shows_the_errors_of_speculation_beside_them():
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert page.endswith(specdecode_page.beside_passes()), "run python benchmarks/accuracy.py"


def test_the_page_is_the_one_that_the_benchmark_writes():
    page = (ROOT / "docs" / specdecode.PAGE).read_text(encoding="utf-8")
    assert page == specdecode_page.page(), "run python benchmarks/specdecode.py"
