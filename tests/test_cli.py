"""The command line as users run it: refusals, files, pipes, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SPECPLAN = [sys.executable, "-m", "specplan"]
PLAN = "plan --gpu a100 --model llama-2-13b --draft llama-68m"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("roofline --gpu a1000 --params 13e9", "a100"),
        ("roofline --gpu a100 --model llama-2-13", "llama-2-13b"),
        ("roofline --gpu a100 --params 13e9 --dtype bf61", "bf16"),
        ("roofline --gpu a100 --params 13e9 --set memory.bandwith=3TB/s", "memory.bandwidth"),
        ("roofline --gpu a100 --params 13e9 --set memory.bandwidth=3350", "memory.bandwidth"),
        ("roofline --gpu a100 --params 13e9 --set memory.bandwidth=3350GB", "GB/s"),
        ("roofline --gpu a100 --params 13e9 --set memory.bandwidth", "KEY=VALUE"),
        ("roofline --gpu a100 --params 13e99", "13e99"),
        ("roofline --gpu a100 --params -13e9", "-13e9"),
        ("roofline --gpu a100 --params nan", "nan"),
        ("roofline --gpu a100", "--model"),
        ("roofline --params 13e9", "--gpu"),
        ("roofline --gpu a100 --params 13e9 --width 0", "--width 0"),
        ("roofline --gpu a100 --params 13e9 --width 8..4", "8..4"),
        ("roofline --gpu a100 --params 13e9 --batch 0", "--batch 0"),
        ("roofline --gpu a100 --params 13e9 --tp 1.5", "1.5"),
        ("roofline --gpu a100 --params 13e9 --context -1", "-1"),
        ("roofline --gpu a100 --params 13e9 --time exact", "calibrated"),
        ("roofline --gpu a100 --params 13e9 --measured-tpot 25", "25"),
        ("roofline --gpu a100 --params 13e9 --measured-tpot 0ms", "above 0"),
        ("roofline --gpuu a100 --params 13e9", "--gpu"),
        ("rooflin --gpu a100", "roofline"),
        ("tree --p 0.6", "--budget"),
        ("tree --p 1.2 --budget 14", "1.2"),
        ("tree --p -0.1 --budget 14", "-0.1"),
        ("tree --p nan --budget 14", "nan"),
        ("tree --p 0.6 --budget 0", "--budget 0"),
        ("tree --p 0.6 --budget -3", "-3"),
        ("tree --p 0.6 --budget many", "many"),
        ("tree --p 0.6 --budget 14 --max-depth 0", "--max-depth 0"),
        ("tree --p 0.6 --k 0", "--k 0"),
        ("tree --p 0.6 --child-prob 0.5 --budget 4", "--child-prob"),
        ("tree --child-prob 0.7,0.5 --budget 4", "1.2"),
        ("tree --child-prob 0.7,,0.1 --budget 4", "empty"),
        ("tree --survival 0.5,0.6 --k 2", "0.6"),
        ("tree --alpha 0.5,1.6 --k 2", "1.6"),
        ("tree --alpha 0.8,0.7 --budget 4", "--assume-ranks"),
        ("tree --accept-length 2.8", "--k"),
        ("tree --accept-length 9 --k 3", "4"),
        ("tree --accept-rate 1.4 --k 3", "1.4"),
        ("tree --decay 0.9 --child-prob 0.5 --budget 3", "--p"),
        ("tree --p 0.6 --budget 4 --draft-pass 1ms", "--verify-curve"),
        ("tree --p 0.6 --budget 4 --gpu a100", "--model"),
        ("tree --p 0.6 --from nowhere.json", "nowhere.json"),
        ("tree --p 0.6 --acceptance nowhere.json --budget 3", "--acceptance"),
        (f"{PLAN} --p 0.6 --draft-pass 1ms", "--draft-pass"),
        (f"{PLAN} --p 0.6 --tie 2", "--tie"),
        (f"{PLAN} --p 0.6 --draft-passes some", "all_but_leaf"),
        (f"{PLAN} --p 0.6 --overhead 2", "unit"),
        (f"{PLAN} --p 0.6 --overhead=-2ms", "negative"),
        (f"{PLAN} --p 0.6 --rule sometimes", "greedy"),
        ("plan --gpu a100 --model llama-68m --draft llama-2-13b --p 0.6", "swapped"),
        ("hardware show a1000", "a100"),
        ("hardware check nowhere.yaml", "nowhere.yaml"),
        ("models show nothing-like-it", "models list"),
        ("tree --p 0.6 --budget 14 --color sometimes", "auto"),
    ],
)
def test_bad_input_is_refused_in_two_lines_that_name_it(refused, arguments, said):
    assert said in refused(arguments)


def test_a_model_that_does_not_fit_is_refused_with_how_much_is_missing(refused):
    assert "too much" in refused("plan --gpu rtx-4090 --model llama-3-70b --draft llama-3.2-1b --p 0.6", code=3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("width,ms\n2,10\n4,12\n", "width 1 is missing"),
        ("width,ms\n1,10\n1,11\n", "twice"),
        ("width,ms\n1,nan\n", "nan"),
        ("width,ms\n1,-3\n", "-3"),
        ("width,ms\n1,ten\n", "ten"),
        ("width,ms\n1.5,10\n", "1.5"),
        ("wide,ms\n1,10\n", "width"),
        ("width,ms,s\n1,10,1\n", "one of"),
        ("", "no rows"),
        ('[{"width": 1, "ms": NaN}]', "NaN"),
        ('{"width": [1, 8], "width": [1, 4], "ms": [10, 11]}', "twice"),
        ("[1, 2", "JSON"),
    ],
)
def test_a_bad_curve_is_refused_with_its_row(refused, tmp_path, text, said):
    file = tmp_path / "curve.csv"
    file.write_text(text)
    assert said in refused(["tree", "--p", "0.6", "--verify-curve", str(file)])


@pytest.mark.parametrize("text", ["[[0],[0]]", "[[1,0]]", "[[]]", "[[-1]]", "[[0.5]]", '{"a": 1}', "[[0],[0,", '"x"'])
def test_a_bad_tree_file_is_refused(refused, tmp_path, text):
    file = tmp_path / "tree.json"
    file.write_text(text)
    refused(["tree", "--p", "0.6", "--from", str(file)])


def test_a_profile_with_an_unknown_key_is_refused_with_its_line(refused, tmp_path, specplan):
    file = tmp_path / "mine.yaml"
    text = specplan("hardware new --like h100-sxm").out.replace("bandwidth:", "bandwith:", 1)
    file.write_text(text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "bandwith" in row)
    message = refused(["roofline", "--gpu", str(file), "--params", "13e9"])
    assert f"mine.yaml:{line}:" in message
    assert "bandwidth" in message


def test_a_written_document_is_the_printed_one_and_a_failed_write_leaves_nothing(specplan, refused, tmp_path):
    file = tmp_path / "tree.json"
    ran = specplan(["tree", "--p", "0.6", "--budget", "14", "--json", "--out", str(file)])
    assert json.loads(file.read_text()) == ran.json
    again = specplan(["tree", "--p", "0.6", "--from", str(file), "--json"]).json
    assert again["tau"] == ran.json["tau"]
    refused(["tree", "--p", "0.6", "--budget", "14", "--out", str(tmp_path / "no" / "tree.json")], code=4)
    refused(["tree", "--p", "0.6", "--budget", "14", "--out", str(tmp_path)], code=4)
    assert [entry.name for entry in tmp_path.iterdir()] == ["tree.json"]


def test_piped_output_is_plain_and_never_cut(specplan):
    out = specplan(PLAN + " --p 0.6").out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) > 80


def test_colour_can_be_forced(specplan):
    assert "\x1b[" in specplan("tree --p 0.6 --budget 4 --color always").out


def test_the_ambiguous_short_name_resolves_with_a_note(specplan):
    ran = specplan("roofline --gpu a100 --params 13e9 --json")
    assert ran.json["inputs"]["gpu"] == "a100-80gb-sxm"
    assert "40 GB" in ran.json["notes"][0]
    assert "40 GB" in specplan("roofline --gpu a100 --params 13e9").err
    assert specplan(["roofline", "--gpu", "NVIDIA A100-SXM4-80GB", "--params", "13e9", "--json"]).json["notes"] == []


def test_fp8_weights_on_an_a100_move_one_byte_and_multiply_in_16_bits(specplan):
    ran = specplan("roofline --gpu a100 --params 13e9 --dtype fp8 --json").json
    assert ran["ideal"]["weight_bytes"] == 13e9
    assert ran["ideal"]["t_compute_s"] == pytest.approx(26e9 / 312e12)
    assert any("multiplied in bf16" in item["text"] for item in ran["assumptions"])


def test_set_changes_a_field_of_the_models_config(specplan, refused):
    base = "roofline --gpu a100 --model llama-2-13b --json"
    assert specplan(f"{base} --set model.num_hidden_layers=20").json["ideal"]["weight_bytes"] < 14e9
    assert "num_hidden_layers" in refused(f"{base} --set model.num_hiden_layers=20")
    refused(f"{base} --set model.num_hidden_layers=many")
    refused("roofline --gpu a100 --params 13e9 --set model.hidden_size=1")


def test_int4_weights_move_a_quarter_and_the_crossover_falls_to_a_quarter(specplan):
    half, four = (
        specplan(f"roofline --gpu a100 --params 13e9 --dtype {d} --json").json["ideal"] for d in ("fp16", "int4")
    )
    ratio = 4.25 / 16
    assert four["weight_bytes"] / half["weight_bytes"] == pytest.approx(ratio)
    assert four["crossover_tokens"] / half["crossover_tokens"] == pytest.approx(ratio)


def test_parts_measured_under_different_rules_are_named(specplan, tmp_path):
    for name, rule in (("a", "strict"), ("b", "typical")):
        (tmp_path / name).write_text(json.dumps({"kind": "independent", "p": 0.5, "rule": rule}))
    ran = specplan(
        ["tree", "--acceptance", f"{tmp_path}/a=0.3", "--acceptance", f"{tmp_path}/b=0.7", "--budget", "4", "--json"]
    )
    assert any("rules of the parts differ: strict, typical" in item["text"] for item in ran.json["assumptions"])


def test_numbers_used_under_another_rule_or_temperature_are_named(specplan, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"kind": "independent", "p": 0.5, "rule": "strict", "temperature": 1.0}))
    ran = specplan(f"tree --acceptance {file} --rule greedy --temperature 0 --budget 4 --json").json
    said = [item["text"] for item in ran["assumptions"] if item["text"].startswith("MEASURED AT")]
    assert [text.split(",")[0] for text in said] == ["MEASURED AT rule strict", "MEASURED AT temperature 1.0"]


def test_another_vocabulary_is_warned_of_and_refused_when_told(specplan, refused):
    pair = "plan --gpu h100 --model llama-3-8b --draft qwen3-0.6b --p 0.6"
    assert any("vocabularies" in text for text in specplan(pair + " --json").json["warnings"])
    assert "vocabularies" in refused(pair + " --strict")


def test_typical_acceptance_is_said_not_to_be_lossless(specplan):
    ran = specplan("tree --child-prob .6,.2 --rule typical --budget 4 --json").json
    assert any("not lossless" in item["text"] for item in ran["assumptions"])


def test_offloading_experts_that_are_not_there_is_refused(refused):
    assert "no experts" in refused("roofline --gpu rtx-4090 --model llama-2-70b --dtype int4 --offload experts")


def test_an_answer_per_second_says_proved(specplan):
    assert "proved optimal" in specplan("tree --p 0.6 --gpu a100 --model llama-2-13b --draft llama-68m").out
    assert "optimum is proved" in specplan(PLAN + " --p 0.6").out


# ---- curves


@pytest.fixture
def curves(tmp_path, monkeypatch):
    """verify.csv in ms, ratio.csv, draft.csv up to width 2, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "verify.csv").write_text("width,ms\n1,10\n8,10.5\n16,11\n32,14\n")
    (tmp_path / "ratio.csv").write_text("width,ratio\n1,1\n8,1.05\n32,1.4\n")
    (tmp_path / "draft.csv").write_text("width,ms\n1,0.5\n2,0.6\n")


def test_ratios_and_times_are_never_mixed(specplan, refused, curves):
    assert "--draft-ratio" in refused("tree --p 0.6 --verify-curve ratio.csv --draft-pass 0.5ms")
    assert "ratios" in refused("tree --p 0.6 --verify-curve ratio.csv --draft-curve draft.csv")
    assert "seconds" in refused("tree --p 0.6 --verify-curve ratio.csv --overhead 2ms")
    both = specplan("tree --p 0.6 --verify-curve ratio.csv --draft-ratio 0.05 --json").json
    assert both["tokens_per_s"] is None
    assert both["speedup"] == pytest.approx(both["tau"] / (both["verify_s"] + both["draft"]["total_s"]))
    scaled = specplan("tree --p 0.6 --verify-curve verify.csv --draft-curve ratio.csv --k 1 --json").json
    assert scaled["draft"]["total_s"] == pytest.approx(0.010)  # a ratio of 1 is a plain pass


def test_a_draft_curve_limits_the_level_widths(specplan, curves):
    ran = specplan("tree --p 0.6 --verify-curve verify.csv --draft-curve draft.csv --json").json
    assert max(ran["widths"][:-1]) <= 2
    assert any("width 2" in note for note in ran["notes"])


def test_never_between_measured_widths_chooses_measured_ones(specplan, curves):
    ran = specplan("tree --p 0.6 --verify-curve verify.csv --between never --draft-ratio 0.05 --json").json
    assert ran["width"] in (8, 16, 32)
    assert ran["interpolated"] is False


def test_a_budget_past_the_curve_is_cut_and_said(specplan, curves):
    ran = specplan("tree --p 0.9 --verify-curve verify.csv --budget 100 --json").json
    assert ran["width"] <= 32
    assert any("stops at 31 nodes" in note for note in ran["notes"])


def test_what_a_curve_does_not_state_is_said(specplan, refused, curves):
    ran = specplan("plan --p 0.6 --verify-curve verify.csv --batch 4 --context 8k --tp 2 --json").json
    assert [word for word in ("batch 4", "--context") if any(word in note for note in ran["notes"])] == [
        "batch 4",
        "--context",
    ]
    assert any("--tp" in warning for warning in ran["warnings"])
    assert "--dtype" in refused("plan --p 0.6 --verify-curve verify.csv --dtype fp8")


def test_a_given_chain_stands_beside_the_plan(specplan):
    ran = specplan(PLAN + " --p 0.6 --k 4 --json").json
    assert ran["given"]["widths"] == [1, 1, 1, 1]
    assert ran["recommended"]["nodes"] > 4
    assert specplan(PLAN + " --p 0.6 --json").json["given"] is None


def test_a_chain_longer_than_what_was_measured_is_warned_of(specplan):
    ran = specplan("tree --alpha 0.8,0.75 --k 5 --json").json
    assert any("positions 3 to 5 were not measured" in warning for warning in ran["warnings"])
    tree = specplan("tree --child-prob 0.6,0.2 --k 5 --json").json
    assert not tree["warnings"]  # one row holds at every depth


def test_odd_loads_are_warned_of(specplan):
    warnings = specplan("roofline --gpu a100 --model llama-2-13b --tp 3 --context 8k --json").json["warnings"]
    assert any("--tp 3" in text for text in warnings)
    assert any("4096 positions" in text for text in warnings)


# ---- where the output goes


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"{sys.executable} -m specplan {command}"],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_output_that_cannot_be_written_is_a_problem_of_the_environment():
    for where in (">&-", ">/dev/full"):
        ran = shell(f"tree --p 0.6 --budget 3 {where}")
        assert ran.returncode == 4
        assert len(ran.stderr.splitlines()) == 2


def test_a_terminal_that_knows_ascii_alone_gets_ascii():
    ran = shell("tree --p 0.6 --budget 3", PYTHONIOENCODING="ascii")
    assert ran.returncode == 0
    assert "|- 0  0.6000" in ran.stdout


@pytest.mark.parametrize(
    "arguments", ["--budget 20000", "--budget 100 --max-depth 10000", "--k 10000", "--budget 2000 --max-depth 2000"]
)
@pytest.mark.parametrize("p", ["0", "0.6", "1"])
def test_large_budgets_and_depths_and_certain_acceptance_work(specplan, p, arguments):
    ran = specplan(f"tree --p {p} {arguments}")
    assert ran.code == 0


def test_quiet_prints_the_verdict_alone(specplan):
    ran = specplan("roofline --gpu a100 --params 13e9 -q")
    assert len(ran.out.splitlines()) == 1
    assert ran.err == ""


def test_strict_turns_a_no_and_a_missing_acceptance_into_exit_1(specplan):
    assert specplan(PLAN + " --p 0.01 --overhead 50ms").code == 0
    assert specplan(PLAN + " --p 0.01 --overhead 50ms --strict").code == 1
    assert specplan(PLAN).code == 0
    assert specplan(PLAN + " --strict").code == 1
    assert specplan(PLAN + " --p 0.6 --strict").code == 0


def test_version_and_help_are_there(specplan):
    from specplan import __version__

    assert specplan("--version").out == f"specplan {__version__}\n"
    for verb in ("", "roofline", "tree", "plan", "hardware", "hardware show", "models", "models show"):
        ran = specplan(f"{verb} --help")
        assert ran.code == 0
        assert "Usage: specplan" in ran.out


def test_a_closed_pipe_ends_quietly():
    command = [*SPECPLAN, "roofline", "--gpu", "a100", "--params", "13e9", "--width", "1..2000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # before the first line is written
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert errors == ""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_interrupt_ends_without_a_traceback():
    command = [*SPECPLAN, "roofline", "--gpu", "a100", "--params", "13e9", "--width", "1..90000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors


HEAVY = ("numpy", "scipy", "rich", "torch", "pydantic", "yaml", "matplotlib")


@pytest.mark.parametrize("arguments", [["--help"], ["tree", "--p", "0.6", "--budget", "14"]])
def test_help_and_a_plain_tree_start_without_heavy_modules(arguments):
    code = (
        "import sys; from specplan.cli.app import run\n"
        f"assert run({arguments!r}) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "[]\n"


def test_a_schedule_draws_its_speedups_as_bars(specplan):
    ran = specplan("plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6 --budget 8 --batch 1..64")
    rows = [line for line in ran.out.splitlines() if "█" in line]
    speedups = [float(line.rstrip("█▌ ").split()[-1]) for line in rows]
    lengths = [line.count("█") + line.count("▌") / 2 for line in rows]
    assert len(rows) > 3
    for speedup, length in zip(speedups, lengths):
        assert length == pytest.approx(24 * speedup / max(speedups), abs=0.26)
