"""Every file in tests/data/dialects is recognised and gives the tokens per round that it describes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from specplan.acceptance.documents import acceptance_document, acceptance_from_document
from specplan.base.tree import TokenTree
from specplan.render.schemas import json_schema
from specplan.stacks.detect import read_acceptance

DIALECTS = Path(__file__).parent / "data" / "dialects"

# file -> (dialect, tokens per round, survival where the file has it)
RUN = (0.80, 0.52, 0.33)
CASES = {
    "vllm-v1.prom": ("vllm-v1-metrics", 2.65, RUN),
    "vllm-v1.log": ("vllm-v1-log", 2.65, RUN),
    "vllm-v0.log": ("vllm-v0-log", 2149 / 662, None),
    "vllm-bench.json": ("vllm-bench-serve", 2.65, RUN),
    "vllm-per-request.jsonl": ("vllm-per-request", 2.65, RUN),
    "sglang-older.log": ("sglang-log", 1.908, None),
    "sglang-newer.log": ("sglang-log", 2.716, None),
    "sglang-meta-info.json": ("sglang-meta-info", 2.65, RUN),
    "sglang-server-info.json": ("sglang-server-info", 2.65, None),
    "sglang-bench-serving.jsonl": ("sglang-bench-serving", 2.65, None),
    "sglang-bench-speculative.jsonl": ("sglang-bench-speculative", 5.39, None),
    "sglang.prom": ("sglang-metrics", 2.65, None),
    "trtllm-stats.jsonl": ("trtllm-iteration-stats", 2.65, None),
    "trtllm.prom": ("trtllm-metrics", 2.65, RUN),
    "llamacpp-timings.json": ("llamacpp-timings", 2.65, None),
    "llamacpp-new.log": ("llamacpp-server-log", 1 + 167 / 87, (70 / 87, 55 / 87, 42 / 87)),
    "llamacpp-old.log": ("llamacpp-server-log", 673 / 147, None),
    "llamacpp-example.log": ("llamacpp-speculative-example", 129 / 82, None),
    "llamacpp-ngram.log": ("llamacpp-server-log", 1 + 3562 / 1814, None),
    "llamacpp.prom": ("llamacpp-metrics", 2.65, RUN),
    "ngram.prom": ("vllm-v1-metrics", 1 + 3562 / 1814, None),
    "lmdeploy.prom": ("lmdeploy-metrics", 2.65, RUN),
    "lmdeploy.json": ("lmdeploy-spec-info", 2.65, None),
    "tgi.prom": ("tgi-metrics", 2.65, None),
    "atom.prom": ("atom-metrics", 2.65, None),
    "atom-mtp-stats.json": ("atom-mtp-stats", 2.65, None),
    "mlc.json": ("mlc-metrics", 2.65, RUN),
    "lm-studio.json": ("lm-studio-stats", 2.65, None),
    "aiconfigurator.yaml": ("aiconfigurator", 2.65, None),
    "speculation_profile.json": ("nvidia-speculation-profile", 2.65, RUN),
    "acceptance_rate.json": ("nvidia-acceptance-rate", 2.65, RUN),
    "histogram.json": ("accepted-count-histogram", 2.65, RUN),
    "histogram-keys.json": ("accepted-count-histogram", 2.65, RUN),
    "aiperf.json": ("accepted-count-histogram", 2.65, RUN),
    "spec-bench.jsonl": ("spec-bench", 16 / 6, (5 / 6, 3 / 6, 2 / 6)),
    "eagle.jsonl": ("eagle-answers", 2.65, None),
}
TABLES = {
    "medusa-heads.json": "medusa-head-accuracies",
    "medusa-hits.json": "medusa-head-hits",
    "sequoia.json": "sequoia-vector",
}


def test_no_file_is_left_out():
    others = {"README.md", "percentage.txt", "counts.csv", "sequoia-bare.json"}
    assert {path.name for path in DIALECTS.iterdir()} == {*CASES, *TABLES, *others}


@pytest.mark.parametrize("name", CASES)
def test_a_file_gives_its_dialect_and_its_tokens_per_round(name):
    dialect, tau, survival = CASES[name]
    found = read_acceptance(str(DIALECTS / name))
    assert found.about["dialect"] == dialect
    assert found.about["tau"] == pytest.approx(tau, abs=1e-9)
    if survival is not None:
        assert found.survival == pytest.approx(survival, abs=1e-9)
    assert ("survival" in found.about["unknown"]) == (survival is None)
    assert len(found.notes[0]) > 30  # says what the number means


@pytest.mark.parametrize("name", [*CASES, *TABLES, "counts.csv"])
def test_the_printed_document_validates_and_reads_back_as_the_same_acceptance(specplan, name, tmp_path):
    out = tmp_path / "acceptance.json"
    ran = specplan(["acceptance", str(DIALECTS / name), "--json", "--out", str(out)])
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema("acceptance"))
    first, again = read_acceptance(str(DIALECTS / name)), read_acceptance(str(out))
    assert again.kind == first.kind
    for tree in (TokenTree.chain(1), TokenTree.chain(3)):
        assert again.level_survival(tree) == pytest.approx(first.level_survival(tree))
    assert again.about.get("tau") == first.about.get("tau")
    assert again.counts == first.counts


@pytest.mark.parametrize("name", TABLES)
def test_tables_know_siblings(name):
    found = read_acceptance(str(DIALECTS / name))
    assert found.about["dialect"] == TABLES[name]
    assert found.siblings_known


def test_counts_give_an_interval_and_means_do_not():
    assert read_acceptance(str(DIALECTS / "vllm-v1.prom")).about["interval"]["low"] == pytest.approx(2.427, abs=1e-3)
    assert read_acceptance(str(DIALECTS / "sglang.prom")).about["interval"] is None


def test_engines_are_added_up_before_dividing():
    found = read_acceptance(str(DIALECTS / "vllm-v1.prom"))
    assert (found.counts.rounds, found.counts.drafted, found.counts.accepted) == (100, 300, 165)
    assert "2 engines added up" in found.notes


def test_per_request_numbers_are_weighted_by_their_rounds():
    found = read_acceptance(str(DIALECTS / "vllm-per-request.jsonl"))
    assert found.about["tau"] == pytest.approx((60 * 2.75 + 40 * 2.5) / 100)  # the mean of the two means is 2.625


def test_a_file_with_two_models_is_refused_until_one_is_named(tmp_path):
    page = (DIALECTS / "llamacpp.prom").read_text().replace("llamacpp:", "vllm:")
    rows = []
    for model, factor in (("a", 1), ("b", 2)):
        for line in page.splitlines():
            name, value = line.rsplit(" ", 1)
            name = name.replace("{", f'{{model_name="{model}",') if "{" in name else f'{name}{{model_name="{model}"}}'
            rows.append(f"{name} {float(value) * factor}")
    file = tmp_path / "page.prom"
    file.write_text("\n".join(rows) + "\n")
    with pytest.raises(Exception, match="2 models in the page: a, b"):
        read_acceptance(str(file))
    assert read_acceptance(str(file), served="b").counts.rounds == 200


def test_the_plan_takes_a_log_as_it_is(specplan):
    log = str(DIALECTS / "vllm-v1.log")
    ran = specplan(["tree", "--acceptance", log, "--k", "3", "--json"])
    assert ran.json["tau"] == pytest.approx(2.65)


def test_standard_input_is_read(specplan, monkeypatch):
    import io
    import sys

    data = (DIALECTS / "sglang-meta-info.json").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert specplan(["acceptance", "-", "--json"]).json["tau"] == 2.65


def test_a_document_keeps_what_the_source_knows(specplan):
    ran = specplan(["acceptance", str(DIALECTS / "speculation_profile.json"), "--json"]).json
    assert ran["accept_length_model"] == "measured_per_k"
    assert ran["accept_length_by_k"] == {"1": 1.8, "2": 2.32, "3": 2.65}
    assert ran["histogram"] == [20, 28, 19, 33]
    assert ran["drafted_per_round"] is None
    assert ran["rule"] == "greedy"


def test_a_label_and_a_temperature_given_are_no_longer_unknown(specplan):
    log = str(DIALECTS / "vllm-v1.log")
    ran = specplan(["acceptance", log, "--workload", "chat, template on", "--temperature", "0.7", "--json"]).json
    assert (ran["workload"], ran["temperature"], ran["unknown"]) == ("chat, template on", 0.7, ["siblings", "rule"])


def test_how_far_a_long_log_is_gets_told(tmp_path):
    file = tmp_path / "long.log"
    file.write_text((DIALECTS / "vllm-v1.log").read_text() + "INFO 200 OK\n" * 300_000)
    told = []
    read_acceptance(str(file), told=told.append)
    assert len(told) == 5
    assert told == sorted(told)
    assert 0.9 < told[-1] / file.stat().st_size < 1.1


def test_files_of_different_dialects_are_mixed_by_their_shares_of_rounds(specplan):
    files = [f"{DIALECTS / 'vllm-v1.log'}=0.3", f"{DIALECTS / 'llamacpp-new.log'}=0.7"]
    ran = specplan(["tree", "--acceptance", files[0], "--acceptance", files[1], "--k", "3", "--json"]).json
    assert ran["tau"] == pytest.approx(0.3 * 2.65 + 0.7 * (1 + 167 / 87))
    mixed = specplan(["acceptance", *files, "--json"]).json
    jsonschema.validate(mixed, json_schema("acceptance"))
    assert mixed["weights"] == pytest.approx([0.3, 0.7])


def test_length_by_context_is_carried_along():
    by_context = {"2048": 2.295, "12288": 1.289}
    given = {"kind": "chain", "tau": 2.295, "k": 4, "by_context": by_context}
    assert acceptance_document(acceptance_from_document(json.loads(json.dumps(given))))["by_context"] == by_context


def test_a_series_shows_how_the_length_falls(specplan):
    ran = specplan(["acceptance", str(DIALECTS / "sglang-newer.log"), "--json"]).json
    assert [round(point["tau"], 2) for point in ran["series"]] == [3.33, 3.07, 2.84, 2.44, 1.90]
