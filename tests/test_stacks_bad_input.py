"""Files that are cut, mixed, contradictory or something else are refused with where and what; nothing is written."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.base.errors import InputError, SpecplanError
from specplan.base.files import parse_json
from specplan.base.tree import TokenTree
from specplan.stacks.detect import line_readers, read_any
from specplan.stacks.reading import Series

DIALECTS = Path(__file__).parent / "data" / "dialects"
V1 = "INFO SpecDecoding metrics: Mean acceptance length: "
BASE = "vllm:spec_decode_num"
POSITION = f"{BASE}_accepted_tokens_per_pos_total"
SPECULATIVE = (
    "Speculative metrics: Draft acceptance rate: 0.6, System efficiency: 0.6, Number of speculative tokens: 4, "
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"x\n{V1[:-3]}", "case:2: the metrics line is cut short"),
        (f"{V1}2.92, Per-position acceptance rate: 0.805, 0.632", "case:1: a mean length of 2.92"),
        (
            f"{V1}2.00, Accepted: 50 tokens, Drafted: 40 tokens, Per-position acceptance rate: 1.000",
            "50 accepted of 40",
        ),
        (f"{V1}2.50, Per-position acceptance rate: 0.500, 0.700, 0.300", "survival cannot rise|one before in 0.5"),
        (f"{BASE}_drafts_total 100", "accepted_tokens is missing"),
        (f"{BASE}_drafts_total 100\n{BASE}_accepted_tokens_total{{engine=", "case:2: .*cut short"),
        (f"{BASE}_drafts_total 100\n{BASE}_drafts_total 110", "case:2: .*there twice"),
        (f"{BASE}_drafts_total ten", "case:1: 'ten' is not a number"),
        (f"{BASE}_drafts_total 0\n{BASE}_accepted_tokens_total 0", "nothing was drafted"),
        (f"{BASE}_drafts_total 9\n{BASE}_draft_tokens_total 9\n{BASE}_accepted_tokens_total 10", "10 tokens accepted"),
        (
            f'{BASE}_drafts_total 9\n{BASE}_accepted_tokens_total 7\n{POSITION}{{position="0"}} 3\n'
            f'{POSITION}{{position="1"}} 4',
            "position 2 is accepted in",
        ),
        (f'{BASE}_drafts_total 9\n{BASE}_accepted_tokens_total 7\n{POSITION}{{position="1"}} 7', "have a gap"),
        (f'{BASE}_drafts_total 9\n{BASE}_accepted_tokens_total 7\n{POSITION}{{position="0"}} 3', "by position 3"),
        (f"{SPECULATIVE}", None),
        (
            f"{SPECULATIVE}Number of draft tokens: 80, Number of emitted tokens: 60.\n"
            f"{SPECULATIVE}Number of draft tokens: 40, Number of emitted tokens: 30.",
            "case:2: drafted tokens went back from 80 to 40",
        ),
        ("Decode batch. accept len: 0.50, accept rate: 0.10,", "case:1: accept len 0.5 is below 1"),
        ("Decode batch. accept len: 2.50, accept rate: 54.0,", "case:1: accept rate 54 is above 1"),
        (f"accept len: 2.00, accept rate: 0.50,\n{V1}2.00, Per-position acceptance rate: 1.000", "in one file"),
        ("draft acceptance = 0.9 (  9 accepted /   8 generated), mean acceptance length = 2.0", "9 accepted of 8"),
        ("draft acceptance = 0.9", "case:1: the line is cut short"),
        ("n_predict = 100\nn_drafted = 10\nn_accept = 100", "100 accepted of 100 generated"),
        ("n_predict = 100\nn_accept = 10", "case:2: n_drafted is missing"),
        ('{"predicted_n": 10, "draft_n": 5, "draft_n_accepted": 6}', "6 tokens accepted of 5"),
        ('{"draft_n": 5, "draft_n_accepted": 4}', "predicted_n is missing"),
        ('{"meta_info": {"spec_verify_ct": 5}}', "completion_tokens is missing"),
        (
            '{"spec_decode_acceptance_length": 2.65, "spec_decode_num_drafts": 99, "spec_decode_accepted_tokens": 9}',
            "2.65",
        ),
        ('{"num_spec_steps": 10, "num_accepted_draft_tokens": 9, "acceptance_histogram": [5, 5]}', "9 accepted tokens"),
        ('{"acceptance_histogram": {"a": 1}}', "number of tokens"),
        ('{"acceptance_histogram": [0, 0]}', "empty"),
        ("[20, -1]", "rounds|negative|share"),
        ('{"heads": [[0.7, 0.6], [0.2, 0.1]]}', "add up to 1.3"),
        ('{"conditional_accept_rates": [0.8, 0.5], "marginal_accept_rates": [0.8, 0.7]}', "contradict|position 2"),
        ('{"nextn": 1, "nextn_accepted": 1.9}', "accept length"),
        ('{"choices": [{"accept_lengths": [1, 0]}]}', "less than one token"),
        ('{"price": 3}', "says nothing of acceptance"),
        ('{"a": 1}\n{"a": ', "case:2: not JSON"),
        ('{"a": [1, 2', "not JSON"),
        ("", "empty"),
        ("the quick brown fox\njumps over", "nothing that says how much was accepted"),
        ("Accepted 160% of draft tokens", "share of"),
    ],
)  # fmt: skip
def test_a_bad_text_is_refused_with_what_is_wrong(text, said):
    if said is None:  # efficiency alone is enough
        assert read_any(text, where="case").about["tau"] == pytest.approx(3.0)
        return
    with pytest.raises(InputError, match=said) as error:
        read_any(text, where="case")
    assert error.value.message.startswith("case")
    assert error.value.hint


def test_the_wrong_file_names_the_dialects_that_were_tried():
    with pytest.raises(InputError) as error:
        read_any("nothing here\n" * 5, where="case")
    assert all(name in error.value.hint for name in line_readers())
    with pytest.raises(InputError) as error:
        read_any('{"a": 1}', where="case")
    assert "Spec-Bench" in error.value.hint


@pytest.mark.parametrize(
    "data", [b"\x00\x01\x02" * 50, b"\x80\x02}q\x00.", b"\x89PNG\r\n\x1a\n" + bytes(range(128, 256)) * 9]
)
def test_binary_files_are_refused_in_two_lines_and_nothing_is_written(refused, tmp_path, data):
    file, out = tmp_path / "x.bin", tmp_path / "out.json"
    file.write_bytes(data)
    message = refused(["acceptance", str(file), "--out", str(out)])
    assert "binary" in message
    assert not out.exists()


def test_a_missing_file_is_refused(refused, tmp_path):
    assert "No such file" in refused(["acceptance", str(tmp_path / "none.log")])


def test_what_is_said_about_files_needs_one(refused):
    assert "--denominator" in refused("acceptance --p 0.6 --denominator drafted")
    assert "drafted or generated" in refused("acceptance tests/data/dialects/percentage.txt --denominator all")


def test_rises_within_the_print_resolution_are_flattened():
    found = read_any(f"{V1}2.50, Per-position acceptance rate: 0.500, 0.501, 0.499", where="case")
    assert found.survival == pytest.approx((0.5, 0.5, 0.499))


LINES_OF_ALL = [
    f"{V1}2.65, Accepted: 165 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.800, 0.520, 0.330",
    SPECULATIVE,
    "Decode batch. #running-req: 1, accept len: 2.17, accept rate: 0.54, x",
    "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92",
    "n_predict = 129\nn_drafted = 132\nn_accept = 47",
    f"{BASE}_drafts_total 100\n{BASE}_accepted_tokens_total 165",
    '{"meta_info": {"completion_tokens": 265, "spec_verify_ct": 100}}',
    '{"acceptance_histogram": {"0": 20, "1": 28}}',
    "Accepted 60% of draft tokens",
    "depth,rank,accepted,trials\n1,0,60,100",
    "nextn: 3\nnextn_accepted: 1.65",
]


def sane(found):
    """Whether all that it values is a share of the rounds."""
    chains = [TokenTree.chain(k) for k in range(1, 4)]
    return all(0 <= share <= 1 for chain in chains if found.knows(chain) for share in found.level_survival(chain))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES_OF_ALL), st.integers(0, 10_000))
def test_a_text_with_a_damaged_place_gives_an_acceptance_or_a_clean_error(text, seed):
    draw = random.Random(seed)
    at = draw.randrange(len(text))
    damage = draw.choice([text[:at], text[:at] + draw.choice('0-{}",:.eN\n') + text[at + 1 :], text[at:]])
    try:
        found = read_any(damage, where="case")
    except SpecplanError as error:
        assert error.message.startswith("case")
    else:
        assert sane(found)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_an_acceptance_or_a_clean_error(text):
    try:
        read_any(text, where="case")
    except SpecplanError as error:
        assert error.message.startswith("case")


JSON_FILES = sorted(path for path in DIALECTS.iterdir() if path.suffix in (".json", ".jsonl"))
WRONG = [None, -1, 1e400, "x", [], {}, [1], True, 10**30, {"1": 2}, 0.5]


def damaged(data, draw):
    """The same data with one value of another kind."""
    places = []

    def walk(here):
        keys = here.keys() if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            places.append((here, key))
            walk(here[key])

    walk(data)
    holder, key = draw.choice(places)
    holder[key] = draw.choice(WRONG)
    return data


@pytest.mark.parametrize("path", JSON_FILES, ids=lambda path: path.name)
def test_a_value_of_another_kind_gives_an_acceptance_or_a_clean_error(path):
    for seed in range(150):
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else None
        data = damaged(lines if lines is not None else json.loads(path.read_text()), random.Random(seed))
        text = "\n".join(map(json.dumps, data)) if lines is not None else json.dumps(data)
        try:
            found = read_any(text, where="case")
        except SpecplanError as error:
            assert error.message.startswith("case")
        else:
            assert sane(found)


def test_ten_thousand_lines_of_a_page_take_less_than_a_second():
    import time

    rows = [f'vllm:spec_decode_num_drafts_total{{engine="{i}"}} 100' for i in range(5000)]
    rows += [f'vllm:spec_decode_num_accepted_tokens_total{{engine="{i}"}} 165' for i in range(5000)]
    started = time.process_time()
    found = read_any("\n".join(rows), where="case")
    assert time.process_time() - started < 1.0
    assert found.counts.rounds == 500_000


def test_a_long_log_is_read_in_constant_memory(tmp_path):
    import tracemalloc

    from specplan.stacks.detect import read_acceptance

    window = f"{LINES_OF_ALL[0]}\n" + "INFO 200 OK\n" * 8
    file = tmp_path / "long.log"
    with file.open("w") as handle:
        for _ in range(60):
            handle.write(window * 1000)
    assert file.stat().st_size > 14_000_000
    tracemalloc.start()
    found = read_acceptance(str(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.counts.rounds == 6_000_000
    assert peak < 4_000_000


def test_a_series_keeps_its_mean_and_its_length_small():
    series = Series(most=8)
    for i in range(1000):
        series.add(float(i), 2.0)
    assert series.mean == pytest.approx(499.5)
    assert len(series.rows()) <= 8
    assert sum(row["weight"] * row["tau"] for row in series.rows()) == pytest.approx(2 * 499.5 * 1000)


@pytest.mark.parametrize("name", ["README.md", "pyproject.toml", "models/llama-2-13b.yaml", "hardware/h100-sxm.yaml"])
def test_the_wrong_file_altogether_is_refused_in_two_lines(refused, name):
    assert name in refused(["acceptance", str(Path(__file__).parent.parent / name)])


def test_a_table_with_a_misspelt_column_is_told_its_columns():
    with pytest.raises(InputError, match="columns are"):
        read_any("depth,rank,acepted,trial\n1,0,60,100", where="case")


def test_blocks_of_a_long_log_cut_no_line_and_keep_the_numbers(tmp_path):
    from specplan.stacks import detect

    draw = random.Random(5)
    lines = [
        LINES_OF_ALL[0] if draw.random() < 0.01 else "INFO 200 OK " + "x" * draw.randrange(200) for _ in range(30_000)
    ]
    file = tmp_path / "long.log"
    file.write_text("\n".join(lines))
    assert file.stat().st_size > 2 * detect.BLOCK
    found = detect.read_acceptance(str(file))
    assert found.counts.rounds == 100 * lines.count(LINES_OF_ALL[0])
    lines[29_000] = f"{V1}"
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"long\.log:29001: the metrics line is cut short"):
        detect.read_acceptance(str(file))
    file.write_bytes("\n".join(lines[:28_000]).encode() + b"\nab\0c\n")
    with pytest.raises(InputError, match=r"long\.log:28001: binary"):
        detect.read_acceptance(str(file))
    file.write_bytes(b"INFO\n" * 20_000 + b"x" * 3_000_000)
    with pytest.raises(InputError, match=r"long\.log:20001: .*line of a megabyte"):
        detect.read_acceptance(str(file))


@pytest.mark.parametrize(
    ("text", "said"), [("[" * 100_000, "nested too deeply"), ("[[" + "9" * 5000 + "]]", "thousands of digits")]
)
def test_json_that_python_cannot_hold_is_refused_in_plain_words(text, said):
    with pytest.raises(InputError, match=said):
        parse_json(text, where="tree.json")
