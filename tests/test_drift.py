"""Two snapshots: the rounds in between, a test of the change, and whether the shape in use is still the best."""

from __future__ import annotations

import random

import pytest

from specplan.acceptance.drift import drift, window
from specplan.acceptance.kinds import Chain, Counts, Independent
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.planning.advise import still_best
from specplan.search.costs import RoundCosts
from specplan.search.space import Space
from specplan.stacks.reading import Reading, to_acceptance


def counted(histogram, dialect="a histogram"):
    return to_acceptance(Reading(dialect, "words", histogram=tuple(map(float, histogram))))


def played(p, rounds, draw):
    counts = [0, 0, 0, 0]
    for _ in range(rounds):
        accepted = 0
        while accepted < 3 and draw.random() < p:
            accepted += 1
        counts[accepted] += 1
    return counts


def test_the_window_of_two_counters_is_what_happened_in_between():
    before, more = [20, 28, 19, 33], [50, 10, 30, 10]
    after = [a + b for a, b in zip(before, more)]
    found, alone = window(counted(before), counted(after)), counted(more)
    assert found.survival == pytest.approx(alone.survival)
    assert found.about["tau"] == pytest.approx(alone.about["tau"])
    assert found.counts == alone.counts


def test_counters_that_went_backwards_name_the_counter():
    with pytest.raises(InputError, match="rounds went back from 100 to 10"):
        window(counted([20, 28, 19, 33]), counted([4, 3, 2, 1]))


def test_a_restart_that_is_seen_in_one_position_alone_is_refused():
    with pytest.raises(InputError, match="position 1 went back from 80 to 70"):
        window(counted([20, 28, 19, 33]), counted([130, 10, 20, 40]))


def test_metrics_pages_are_snapshots_and_logs_are_not():
    before, after = [20, 28, 19, 33], [70, 38, 49, 43]
    pages = drift(counted(before, "vllm-v1-metrics"), counted(after, "vllm-v1-metrics"))
    logs = drift(counted(before), counted(after))
    assert (pages.window, logs.window) == (True, False)
    assert pages.after == pytest.approx(counted([50, 10, 30, 10]).about["tau"])
    assert logs.after == pytest.approx(counted(after).about["tau"])


def test_the_test_rejects_as_often_as_its_level_where_nothing_changed():
    draw = random.Random(7)
    runs = [drift(counted(played(0.7, 400, draw)), counted(played(0.7, 400, draw))) for _ in range(300)]
    assert 0.02 < sum(run.significant for run in runs) / len(runs) < 0.09


def test_a_real_change_is_found_and_a_small_sample_does_not_tell():
    draw = random.Random(3)
    sure = drift(counted(played(0.75, 5000, draw)), counted(played(0.65, 5000, draw)))
    unsure = drift(counted([2, 2, 2, 3]), counted([3, 2, 2, 2]))
    assert sure.significant
    assert sure.change < -0.05
    assert not unsure.significant


def test_without_counts_nothing_is_said_of_noise():
    found = drift(Chain.constant(0.8), Chain.constant(0.7), k=3)
    assert (found.z, found.p_value, found.significant) == (None, None, None)
    assert found.change == pytest.approx(found.after / found.before - 1)


def test_the_shape_in_use_stops_being_the_best_when_acceptance_falls():
    costs = RoundCosts(verify_s=[0.010 + 0.001 * i for i in range(9)])
    limits = Space(8, 8, children=1)
    used = TokenTree.chain(8)
    assert still_best(used, Chain.constant(0.95), limits, costs).still
    found = still_best(used, Chain.constant(0.5), limits, costs)
    assert not found.still
    assert found.best.nodes < 8
    assert found.loss == pytest.approx(1 - found.used.speedup / found.best.speedup)


def test_counters_of_one_number_alone_can_be_subtracted():
    def page(rounds, accepted):
        counts = Counts(rounds=rounds, accepted=accepted, drafted=3 * rounds)
        return Chain.from_accept_length(1 + accepted / rounds, 3, counts=counts)

    found = window(page(100, 200), page(300, 300))
    assert found.about["tau"] == pytest.approx(1.5)
    assert found.counts.drafted == 600


def test_a_tree_model_has_no_counters_to_subtract():
    with pytest.raises(InputError, match="no counters"):
        window(Independent(0.5), Independent(0.5))


def test_the_command_compares_two_files(specplan, refused):
    files = "tests/data/dialects/counts.csv tests/data/dialects/llamacpp-new.log"
    ran = specplan(f"acceptance {files} --drift --json").json
    assert ran["drift"]["before"] == pytest.approx(2.65)
    assert ran["drift"]["after"] == pytest.approx(1 + 167 / 87)
    assert ran["drift"]["significant"] is False
    assert ran["dialect"] == "llamacpp-server-log"
    assert [said["text"] for said in ran["assumptions"] if "independent of each other" in said["text"]]
    assert "within the noise" in specplan(f"acceptance {files} --drift").out
    assert "two files" in refused("acceptance tests/data/dialects/counts.csv --drift")


def test_the_interval_of_a_difference_is_that_of_its_rounds():
    def page(rounds, first, second):
        counts = Counts(rounds=rounds, accepted=first + second, by_depth_rank=(((first, rounds),), ((second, first),)))
        stale = {"interval": {"low": 9.0, "high": 9.1, "se": 0.1, "level": 0.95}}
        note = "counters since the server started"
        return Chain.from_survival([first / rounds, second / rounds], counts=counts, about=stale, notes=(note,))

    found = window(page(100, 80, 52), page(1000, 620, 322))
    bounds = found.about["interval"]
    assert bounds["low"] < found.about["tau"] < bounds["high"]
    assert bounds["high"] - bounds["low"] < 0.2
    assert not any("since the server" in note for note in found.notes)


def page_of(rows):
    """A page of (model, engine, rounds, accepted at the first position, at the second)."""
    base = "vllm:spec_decode_num"
    lines = []
    for model, engine, rounds, first, second in rows:
        labels = f'model_name="{model}",engine="{engine}"'
        lines += [
            f"{base}_drafts_total{{{labels}}} {rounds}",
            f"{base}_draft_tokens_total{{{labels}}} {2 * rounds}",
            f"{base}_accepted_tokens_total{{{labels}}} {first + second}",
            f'{base}_accepted_tokens_per_pos_total{{{labels},position="0"}} {first}',
            f'{base}_accepted_tokens_per_pos_total{{{labels},position="1"}} {second}',
        ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def pages(tmp_path):
    def write(*given):
        files = []
        for i, rows in enumerate(given):
            files.append(tmp_path / f"{i}.prom")
            files[-1].write_text(page_of(rows))
        return [str(file) for file in files]

    return write


BEFORE = [("a", "0", 1000, 800, 600), ("a", "1", 1000, 800, 600)]


def test_engines_that_move_apart_are_seen_though_their_sum_stands_still(specplan, pages):
    files = pages(BEFORE, [("a", "0", 2000, 1750, 1450), ("a", "1", 2000, 1450, 950)])
    ran = specplan(["acceptance", *files, "--drift", "--json"]).json["drift"]
    assert ran["change"] == pytest.approx(0.0)
    assert ran["significant"] is False
    assert [(one["engine"], round(one["after"], 2), one["significant"]) for one in ran["engines"]] == [
        ("0", 2.8, True),
        ("1", 2.0, True),
    ]
    assert "2 of 2 engines changed" in specplan(["acceptance", *files, "--drift"]).out.splitlines()[0]


def test_a_restart_of_one_engine_that_the_sum_hides_is_refused(refused, pages):
    files = pages(BEFORE, [("a", "0", 5000, 4000, 3000), ("a", "1", 400, 320, 240)])
    assert "engine 1 of a: rounds went back from 1000 to 400" in refused(["acceptance", *files, "--drift"])
    gone = pages(BEFORE, [("a", "0", 5000, 4000, 3000)])
    assert "engine 1 of a is not in the second page" in refused(["acceptance", *gone, "--drift"])


def test_models_of_one_page_are_each_compared_with_themselves(specplan, pages):
    files = pages(
        [("a", "0", 1000, 800, 600), ("b", "0", 1000, 400, 100)],
        [("a", "0", 2000, 1600, 1200), ("b", "0", 9000, 3600, 900)],
    )
    ran = specplan(["acceptance", *files, "--drift", "--json"]).json["drift"]
    assert [(one["model"], one["significant"]) for one in ran["engines"]] == [("a", False), ("b", False)]
    assert ran["change"] < 0  # the sum moves with the traffic
    alone = specplan(["acceptance", *files, "--drift", "--served", "b", "--json"]).json["drift"]
    assert alone["change"] == pytest.approx(0.0)


def test_engines_without_a_change_are_seldom_called_changed():
    draw = random.Random(11)
    from specplan.stacks.detect import read_any

    found = 0
    for _ in range(60):
        runs = [played(0.7, 300, draw) for _ in range(8)]
        rows = [[], []]
        for engine in range(4):
            at = (0, 0, 0)
            for side in (0, 1):
                counts = runs[2 * engine + side]
                at = tuple(a + b for a, b in zip(at, (300, sum(counts[1:]), sum(counts[2:]))))
                rows[side].append(("a", str(engine), *at))
        moved = drift(*(read_any(page_of(side), where="page") for side in rows))
        found += any(one.significant for one in moved.engines)
    assert found <= 9
