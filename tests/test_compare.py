"""`specplan compare` and `plan --method` as users run them."""

from __future__ import annotations

import json

import jsonschema
import pytest

from specplan.methods.catalogue import METHODS
from specplan.render.schemas import json_schema

SCENE = "--gpu a100 --model llama-3-8b"
COMPARE = f"compare {SCENE} --draft llama-3.2-1b --budget 32"
PLAN_KEYS = set(json_schema("plan")["properties"]) - {"schema", "version", "inputs", "assumptions", "notes", "warnings"}
CASES = [
    f"{COMPARE} --p 0.6 --exit-layer 8",
    f"{COMPARE}",
    f"{COMPARE} --p 0.02 --overhead 40ms",
    f"{COMPARE} --survival 0.8,0.6,0.4 --exit-layer 4:0.5,8:0.7",
    f"{COMPARE} --p 0.6 --method specinfer --draft llama-68m --draft-models parallel",
    "compare --gpu h200 --model deepseek-v3 --tp 8 --p 0.7 --batch 8 --context 4k --budget 16",
    f"plan {SCENE} --method medusa --p 0.6 --budget 32 --explain --families",
    f"plan {SCENE} --method ngram --p 0.6 --proposal-share 0.3 --batch 1..8 --budget 8",
    f"plan {SCENE} --method eagle3",
]


@pytest.mark.parametrize("arguments", CASES)
def test_a_document_validates_and_the_text_starts_with_a_verdict(specplan, arguments):
    ran = specplan(f"{arguments} --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema(arguments.split()[0]))
    assert specplan(arguments).out.splitlines()[0].startswith(("Best: ", "Speculate: ", "Do not ", "No verdict: "))


def test_every_method_is_in_the_table_with_the_keys_of_a_plan_and_what_it_asks_for(specplan):
    ran = specplan(f"compare {SCENE} --p 0.6 --budget 16 --json")
    rows = ran.json["methods"]
    assert set(rows) == set(METHODS)
    for row in rows.values():
        assert set(row) == PLAN_KEYS | {"available", "reason", "needs"}
        assert set(row["needs"]) == {"training", "second_weights", "drift", "exactness"}
        assert row["reason"]
        assert (row["verdict"] is not None) == row["available"]
    assert {name for name, row in rows.items() if row["available"]} == {"medusa", "eagle", "eagle3", "ngram"}


def test_methods_come_best_first_and_those_without_an_input_last(specplan):
    rows = specplan(f"{COMPARE} --p 0.6 --json").json["methods"].values()
    speedups = [row["verdict"]["speedup"] for row in rows if row["available"]]
    assert speedups == sorted(speedups, reverse=True)
    available = [row["available"] for row in rows]
    assert available == sorted(available, reverse=True)
    assert not available[-1]


def test_a_method_is_planned_alike_by_compare_and_by_plan(specplan):
    rows = specplan(f"{COMPARE} --p 0.6 --exit-layer 8 --json").json["methods"]
    for name, more in (
        ("medusa", ""),
        ("layerskip", "--exit-layer 8"),
        ("sequoia", "--draft llama-3.2-1b"),
        ("ngram", ""),
    ):
        alone = specplan(f"plan {SCENE} --p 0.6 --budget 32 --method {name} {more} --json").json
        for key in ("verdict", "recommended", "best_chain", "time", "memory"):
            assert alone[key] == rows[name][key]


def test_the_same_acceptance_for_all_is_said_loudly_and_once_given_apart_it_is_not(specplan):
    common = specplan(f"compare {SCENE} --p 0.6 --method eagle --method medusa --budget 16")
    assert "THE SAME ACCEPTANCE" in common.out
    own = "--acceptance-of eagle=0.8 --acceptance-of medusa=0.5"
    apart = specplan(f"compare {SCENE} --method eagle --method medusa --budget 16 {own}")
    assert "THE SAME ACCEPTANCE" not in apart.out
    assert apart.out.startswith("Best: eagle,")


def test_the_acceptance_of_a_method_may_be_a_file(specplan, tmp_path):
    heads = tmp_path / "heads.json"
    heads.write_text(json.dumps({"kind": "depth_rank", "child_prob": [[0.6, 0.1], [0.4, 0.1]]}))
    rows = specplan(f"compare {SCENE} --p 0.6 --method medusa --budget 16 --acceptance-of medusa={heads} --json").json
    assert rows["methods"]["medusa"]["optimum"]["depth"] <= 2


def test_medusa_spends_no_time_on_drafting(specplan):
    row = specplan(f"compare {SCENE} --p 0.6 --method medusa --budget 16 --json").json["methods"]["medusa"]
    assert (row["draft"]["passes"], row["time"]["draft_s"]) == (0, 0.0)
    assert row["memory"]["freed_bytes"] > 5e9


def test_layerskip_reaches_its_published_ideal(specplan):
    plan = specplan(
        "plan --gpu a100 --params 6.74e9 --layers 32 --method layerskip --exit-layer 8 --accept-rate 0.7945 --k 6 "
        "--budget 6 --tie 0 --time ideal --json"
    ).json
    shape, plain = plan["optimum"], plan["plain"]["round_s"]
    assert shape["nodes"] == 6
    assert shape["draft"]["pass_s"] / plain == pytest.approx(0.25, abs=1e-6)
    assert shape["verify_s"] / plain == pytest.approx(0.75, abs=1e-6)
    assert round(shape["speedup"], 2) == 2.56


def test_the_best_of_several_exit_layers_is_named(specplan):
    plan = specplan(f"plan {SCENE} --method layerskip --exit-layer 4:0.3,8:0.85,16:0.9 --budget 16 --json").json
    assert plan["inputs"]["exit_layer"] == 8


def test_an_accept_rate_with_early_stopping_is_over_the_drafted_tokens(specplan):
    plan = specplan(
        f"plan {SCENE} --draft llama-3.2-1b --accept-rate 0.8 --k 8 --drafted-per-round 3.2 --budget 8 --tie 0 --json"
    ).json
    chain = next(row for row in plan["optimum"]["candidates"] if row["nodes"] == 8)
    assert chain["tau"] == pytest.approx(1 + 0.8 * 3.2)
    assert plan["inputs"]["method"] == "chain"


def test_counts_say_how_many_rounds_had_a_proposal(specplan, tmp_path):
    found = tmp_path / "ngram.json"
    counts = {"rounds": 100, "rounds_without_proposal": 60}
    found.write_text(json.dumps({"kind": "chain", "alpha": [0.8, 0.7], "counts": counts}))
    plan = specplan(f"plan {SCENE} --method ngram --acceptance {found} --json").json
    assert plan["inputs"]["proposal_share"] == pytest.approx(0.4)
    assert plan["optimum"]["tau"] == pytest.approx(1 + 0.4 * (0.8 + 0.56))


def test_a_schedule_by_batch_is_made_with_the_method(specplan):
    plan = specplan(f"plan {SCENE} --method eagle3 --p 0.6 --batch 1..128 --budget 32 --json").json
    assert plan["schedule"][0]["batch_first"] == 1
    assert plan["schedule"][-1]["batch_last"] == 128
    assert len(plan["schedule"]) > 1


def test_numbers_under_another_rule_are_warned_of(specplan):
    assert "typical" in specplan(f"plan {SCENE} --method eagle --p 0.6 --rule typical --budget 8").err
    warnings = specplan(f"compare {SCENE} --p 0.6 --rule typical --budget 8 --json").json["warnings"]
    assert any("eagle is verified with" in text for text in warnings)
    assert not any("medusa is verified with" in text for text in warnings)


def test_a_gain_from_typical_acceptance_is_said_not_to_be_lossless(specplan):
    assert "Not lossless" in specplan(f"plan {SCENE} --method medusa --p 0.6 --rule typical --budget 8").out
    assert "Not lossless" in specplan(f"compare {SCENE} --p 0.6 --rule typical --budget 8 --method medusa").out
    assert "Not lossless" not in specplan(f"plan {SCENE} --method medusa --p 0.6 --budget 8").out


def test_a_draft_with_a_short_context_is_warned_of(specplan):
    ran = specplan(f"plan {SCENE} --method chain --draft llama-68m --context 8k --p 0.6 --budget 8")
    assert "made for 2048 positions, the request has 8192" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (f"plan {SCENE} --method layerskip --exit-layer 32 --p 0.6", "exit layer 32 of 32 layers"),
        (f"compare {SCENE} --exit-layer 40 --p 0.6", "exit layer 40 of 32 layers"),
        (f"plan {SCENE} --method medusa --heads 3 --max-depth 5 --p 0.6", "at most 3 levels"),
        (f"plan {SCENE} --method medusa --max-rank 2 --max-children 5 --p 0.6", "at most 2 children"),
        (f"plan {SCENE} --method chain --p 0.6", "--method chain: no draft given"),
        (f"plan {SCENE} --method mtp --p 0.6", "no multi-token-prediction module"),
        (f"plan {SCENE} --method medussa --p 0.6", "--method 'medussa' is not known"),
        (f"plan {SCENE} --method medusa --method eagle --p 0.6", "one method, not for 2"),
        (f"plan {SCENE} --method eagle --exit-layer 8 --p 0.6", "--exit-layer goes with --method layerskip"),
        (f"plan {SCENE} --method layerskip --exit-layer 4:0.5 --p 0.6", "both give the acceptance"),
        (f"plan {SCENE} --draft llama-68m --draft llama-160m --p 0.6", "several --draft"),
        (f"plan {SCENE} --draft llama-68m --p 0.6 --drafted-per-round 3", "needs the cap"),
        (f"plan {SCENE} --draft llama-68m --p 0.6 --drafted-per-round 9 --k 4", "with at most 4"),
        (f"compare {SCENE} --p 0.6 --drafted-per-round 3 --k 4", "of one method"),
        (f"compare {SCENE} --p 0.6 --acceptance-of egle=0.5", "not METHOD=P or METHOD=FILE"),
        (f"compare {SCENE} --draft llama-3-70b --p 0.6", "no smaller than the target"),
        ("compare --p 0.6", "no device given"),
    ],
)
def test_bad_input_is_refused_in_two_lines(refused, arguments, said):
    assert said in refused(arguments)


def test_a_target_that_does_not_fit_stops_the_comparison(refused):
    assert "too much" in refused("compare --gpu a100 --model llama-3-70b --p 0.6", code=3)


def test_a_shape_that_is_too_large_keeps_its_method_in_the_table(specplan):
    rows = specplan(f"compare {SCENE} --draft llama-3.2-1b --p 0.6 --topk 2,2,2 --budget 8 --json").json["methods"]
    assert not rows["specinfer"]["available"]
    assert "14 nodes" in rows["specinfer"]["reason"]
    assert rows["chain"]["available"]


@pytest.mark.parametrize("verb", ["plan", "compare"])
def test_a_slow_baseline_is_said_to_be_one(specplan, verb):
    ran = specplan(f"{verb} --gpu a100 --params 13e9 --p 0.6 --budget 8 --measured-tpot 40ms --json").json
    assert ran["inputs"]["roofline_share"] == pytest.approx(12.75 / 40, abs=1e-3)
    assert any("before speculating" in said["text"] for said in ran["assumptions"])
    healthy = specplan(f"{verb} --gpu a100 --params 13e9 --p 0.6 --budget 8 --measured-tpot 18ms").out
    assert "of the ideal roofline" in healthy
    assert "before speculating" not in healthy


def test_strict_fails_when_nothing_pays(specplan):
    assert specplan(f"{COMPARE} --p 0.01 --overhead 40ms --strict").code == 1
    assert specplan(f"{COMPARE} --p 0.6 --strict").code == 0


# ---- the chapter's comparisons


def _textbook(specplan, *more):
    words = "tree --gpu a100 --params 13e9 --time ideal --p 0.6 --budget 14 --max-depth 3 --json"
    return specplan(" ".join([words, *more])).json


def test_from_a100_to_h100_bandwidth_tree_and_chain_gain_alike_and_14_nodes_stay_free(specplan):
    faster = ("--set", "memory.bandwidth=3350GB/s")
    before, after = (_textbook(specplan, "--max-children", "2", *more) for more in ((), faster))
    chains = [_textbook(specplan, "--max-children", "1", *more) for more in ((), faster)]
    assert [round(tree["tokens_per_s"]) for tree in (before, after)] == [246, 404]
    assert [round(chain["tokens_per_s"]) for chain in chains] == [171, 280]
    for tree, chain in zip((before, after), chains):
        assert tree["widths"] == [2, 4, 8]
        assert round(tree["tokens_per_s"] / chain["tokens_per_s"], 2) == 1.44
    assert round(after["tokens_per_s"] / before["tokens_per_s"], 2) == 1.64
    roofline = specplan(["roofline", "--gpu", "a100", *faster, "--params", "13e9", "--width", "14", "--json"]).json[
        "ideal"
    ]
    assert round(roofline["crossover_tokens"]) == 93
    assert round(roofline["t_compute_s"] * 1e3, 2) == 1.17
    assert roofline["ratio_to_width_1"] == 1.0


def test_the_same_model_and_p_give_different_trees_on_a_data_centre_gpu_and_on_a_phone(specplan):
    words = "--model llama-3-8b --dtype int4 --draft llama-3.2-1b --draft-dtype int4 --p 0.6 --json"
    large, small = (
        specplan(f"plan --gpu {device} {words}").json["recommended"] for device in ("a100", "snapdragon-8-elite-npu")
    )
    assert large["nodes"] > 2 * small["nodes"] > 2
    assert large["depth"] > small["depth"] > 1


# ---- what is refused or named, and never cut down silently


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--method medusa --heads 3 --k 5 --p 0.6", "at most 3 levels (3 Medusa heads)"),
        ("--method medusa --heads 3 --accept-length 2.5 --k 4", "at most 3 levels"),
        ("--method medusa --max-rank 2 --p 0.6 --from {tree}", "3 children of a node: medusa drafts at most 2"),
        ("--method chain --draft llama-3.2-1b --p 0.6 --from {tree}", "at most 1 child"),
        ("--method eagle3 --steps 2 --p 0.6 --k 3", "at most 2 levels"),
    ],
)
def test_a_given_shape_that_the_method_cannot_draft_is_refused(refused, tmp_path, options, said):
    tree = tmp_path / "tree.json"
    tree.write_text("[[0], [1], [2], [0, 0]]")
    assert said in refused(f"plan {SCENE} {options.format(tree=tree)}")


@pytest.mark.parametrize("option", ["--k 4", "--from tree.json"])
def test_one_given_shape_is_not_for_a_comparison(refused, option):
    assert "specplan plan --method" in refused(f"compare {SCENE} --p 0.6 {option} --budget 8")


def test_the_k_of_a_measured_length_is_no_shape(specplan):
    assert specplan(f"compare {SCENE} --accept-length 2.5 --k 4 --method ngram --json").json["methods"]["ngram"]


def test_a_draft_made_for_fewer_positions_is_named_once(specplan):
    warnings = specplan(
        "plan --gpu a100-80gb-sxm --model llama-2-7b --draft llama-68m --p 0.6 --context 16k --budget 8 --json"
    ).json["warnings"]
    assert sum("llama-68m" in text for text in warnings) == 1


def test_numbers_of_another_rule_or_temperature_are_warned_of_in_a_plan(specplan, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"kind": "independent", "p": 0.5, "rule": "strict", "temperature": 1.0}))
    options = f"--acceptance {file} --rule greedy --temperature 0 --budget 4 --json"
    for verb in ("plan", "compare"):
        warnings = specplan(f"{verb} {SCENE} --method ngram {options}").json["warnings"]
        assert [text.split(",")[0] for text in warnings] == ["MEASURED AT rule strict", "MEASURED AT temperature 1.0"]


# ---- vocabularies and tokenizers

PADDED = "plan --gpu h100-sxm --model qwen2.5-7b --draft qwen2.5-0.5b --p 0.6 --budget 8"


def test_padding_within_a_family_is_named_and_not_refused(specplan):
    ran = specplan(PADDED + " --strict --json")
    assert ran.code == 0
    assert any(text.startswith("padded vocabularies: draft 151936, target 152064") for text in ran.json["warnings"])


@pytest.fixture
def pair(tmp_path):
    """Directories of a target and a draft that have the same config but for their layers, and a tokenizer each."""
    small = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    for name, layers in (("target", 8), ("draft", 1)):
        (tmp_path / name).mkdir()
        config = {**small, "num_hidden_layers": layers, "vocab_size": 4, "torch_dtype": "float16"}
        (tmp_path / name / "config.json").write_text(json.dumps(config))

    def written(name, vocab, added=()):
        text = json.dumps({"model": {"type": "BPE", "vocab": vocab}, "added_tokens": list(added)})
        (tmp_path / name / "tokenizer.json").write_text(text)

    written.command = (
        f"plan --gpu h100-sxm --model {tmp_path / 'target'} --draft {tmp_path / 'draft'} --p 0.6 --budget 4"
    )
    return written


def test_tokenizers_of_one_size_that_give_other_ids_are_warned_of_and_refused_when_told(specplan, refused, pair):
    pair("target", {"a": 0, "b": 1, "c": 2, "d": 3})
    pair("draft", {"a": 0, "b": 2, "c": 1, "d": 3})
    warnings = specplan(pair.command + " --json").json["warnings"]
    assert any(text.startswith("tokenizers differ: 2 of 4 tokens have another id") for text in warnings)
    assert "tokenizers differ" in refused(pair.command + " --strict")


def test_tokenizers_that_agree_are_not_mentioned(specplan, pair):
    pair("target", {"a": 0, "b": 1, "c": 2}, [{"id": 3, "content": "<end>"}])
    pair("draft", {"a": 0, "b": 1, "c": 2, "<end>": 3})
    assert not any("tokenizers" in text for text in specplan(pair.command + " --json").json["warnings"])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {"vocab": 3}}', '{"model": {"vocab": {"a": null}}}'])
def test_a_tokenizer_file_that_is_none_is_refused(refused, pair, tmp_path, text):
    pair("target", {"a": 0})
    (tmp_path / "draft" / "tokenizer.json").write_text(text)
    assert "no tokenizer" in refused(pair.command)


# ---- inside what a stack can run

SERVED = f"compare {SCENE} --draft llama-3.2-1b --p 0.6 --budget 24 --exit-layer 8 --json"


def test_methods_that_a_stack_does_not_run_stay_with_the_reason(specplan):
    methods = specplan(f"{SERVED} --stack vllm").json["methods"]
    assert set(methods) == set(METHODS)
    assert all("vllm" in methods[name]["reason"] for name in ("medusa", "specinfer", "sequoia", "layerskip"))
    assert all(not methods[name]["available"] for name in ("medusa", "specinfer", "sequoia", "layerskip"))


def test_each_method_is_planned_inside_the_family_of_the_stack(specplan):
    in_vllm = specplan(f"{SERVED} --stack vllm").json["methods"]["eagle3"]
    in_sglang = specplan(f"{SERVED} --stack sglang").json["methods"]["eagle3"]
    free = specplan(SERVED).json["methods"]["eagle3"]
    assert in_vllm["recommended"]["nodes"] == in_vllm["recommended"]["depth"]
    assert in_sglang["recommended"]["dynamic"]["topk"] > 1
    assert in_vllm["optimum"]["nodes"] == in_sglang["optimum"]["nodes"] == free["optimum"]["nodes"]
    assert 0 < in_sglang["stack"]["loss"] < in_vllm["stack"]["loss"] < 1
    assert in_sglang["stack"]["settings"]["speculative_num_steps"] == in_sglang["recommended"]["dynamic"]["steps"]


def test_a_draft_model_is_not_taken_for_a_head(specplan):
    methods = specplan(f"{SERVED} --stack sglang").json["methods"]
    assert "speculative_draft_model_path" not in methods["eagle3"]["stack"]["settings"]


@pytest.mark.parametrize("stack", ["vllm", "vllm@0.20.1", "sglang", "trtllm", "trtllm@1.2", "llamacpp", "medusa"])
def test_every_available_method_of_a_stack_has_its_settings_and_the_document_validates(specplan, stack):
    document = specplan(f"{SERVED} --stack {stack}").json
    jsonschema.validate(document, json_schema("compare"))
    planned = [keys for keys in document["methods"].values() if keys["available"]]
    assert planned
    assert all(keys["stack"]["settings"] for keys in planned if keys["recommended"]["nodes"])


def test_the_settings_of_the_best_method_are_printed(specplan):
    text = specplan(f"compare {SCENE} --p 0.6 --budget 24 --method eagle3 --stack sglang").out
    assert "lost to the stack" in text
    assert "--speculative-num-steps" in text


def test_an_acceptance_of_a_method_is_given_once_and_is_a_share(refused):
    device = "compare --gpu a100 --model llama-3-8b --p 0.6"
    assert "given twice" in refused(f"{device} --acceptance-of eagle3=0.5 --acceptance-of eagle3=0.6")
    assert "outside [0, 1]" in refused(f"{device} --acceptance-of eagle3=-0.5")
    assert "not a share" in refused(f"{device} --acceptance-of eagle3=nan")


def test_the_only_method_says_why_it_could_not_be_planned(specplan):
    ran = specplan("compare --gpu a100 --model llama-3-8b --p 0.6 --method mtp --quiet")
    assert ran.out.startswith(
        "No verdict: mtp could not be planned: llama-3-8b states no multi-token-prediction module"
    )
