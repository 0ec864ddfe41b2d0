"""`specplan hardware import`: llama-bench's four formats and tables become profiles whose curves are then used."""

from __future__ import annotations

import csv
import io
import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specplan.base.errors import SpecplanError
from specplan.hardware.profile import load_hardware
from specplan.render.schemas import json_schema
from specplan.stacks.llama_bench import read_llama_bench

# Fields, and the two tests at depth 0, of tools/llama-bench/README.md (ggml-org/llama.cpp, MIT); the other widths have
# the same form.
HEAD = {
    "build_commit": "8cf427ff",
    "build_number": 5163,
    "cpu_info": "AMD Ryzen 7 7800X3D 8-Core Processor",
    "gpu_info": "NVIDIA GeForce RTX 4080",
    "backends": "CUDA",
    "model_filename": "models/Qwen2.5-7B-Instruct-Q4_K_M.gguf",
    "model_type": "qwen2 7B Q4_K - Medium",
    "model_size": 4677120000,
    "model_n_params": 7615616512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "type_k": "f16",
}


def row(prompt, generated, avg_ns, depth=0, **more):
    test = {"n_prompt": prompt, "n_gen": generated, "n_depth": depth, "avg_ns": avg_ns, "samples_ns": [avg_ns]}
    return HEAD | test | more


ROWS = [
    row(512, 0, 72135640),
    row(0, 128, 1076767880),
    row(4, 0, 9_000_000),
    row(16, 0, 12_000_000),
    row(0, 128, 1_200_000_000, depth=4096),
    row(16, 0, 15_000_000, depth=4096),
    row(1024, 0, 150_000_000),
    row(64, 32, 400_000_000),
]


def as_csv(rows):
    text = io.StringIO()
    names = [name for name in rows[0] if name != "samples_ns"]
    writer = csv.DictWriter(text, names, quoting=csv.QUOTE_ALL, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_table(rows):
    lines = [
        "| model                  |     size |   params | backend | ngl |          test |              t/s |",
        "| ---------------------- | -------: | -------: | ------- | --: | ------------: | ---------------: |",
    ]
    for one in rows:
        parts = [f"pp{one['n_prompt']}"] * bool(one["n_prompt"]) + [f"tg{one['n_gen']}"] * bool(one["n_gen"])
        test = "+".join(parts) + (f" @ d{one['n_depth']}" if one["n_depth"] else "")
        speed = (one["n_prompt"] + one["n_gen"]) / one["avg_ns"] * 1e9
        cells = [one["model_type"], "4.36 GiB", "7.62 B", "CUDA", "-1", test, f"{speed:.2f} ± 1.23"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "build: 8cf427ff (5163)"])


FORMATS = {
    "json": json.dumps(ROWS),
    "jsonl": "\n".join(map(json.dumps, ROWS)),
    "csv": as_csv(ROWS),
    "md": as_table(ROWS),
}


@pytest.mark.parametrize("text", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_same_curves(text):
    bench = read_llama_bench(text, where="bench")
    short, long = bench.curves
    assert [(point.width, point.ms) for point in short.points] == [
        (1, pytest.approx(1076.76788 / 128, rel=1e-3)),
        (4, pytest.approx(9, rel=1e-3)),
        (16, pytest.approx(12, rel=1e-3)),
        (512, pytest.approx(72.13564, rel=1e-3)),
    ]
    assert (short.dtype, short.context, long.context) == ("q4_k", 0, 4096)
    assert short.params == pytest.approx(7.6156e9, rel=1e-3)
    assert "2 of 8 tests left out" in bench.notes[0]


def test_a_prompt_of_one_token_is_the_width_1_pass_where_it_was_measured():
    bench = read_llama_bench(json.dumps([row(1, 0, 8e6), row(0, 64, 64 * 9e6), row(2, 0, 8.1e6)]), where="x")
    assert bench.curves[0].points[0].ms == 8


def test_a_prompt_longer_than_its_micro_batch_is_several_passes_and_is_left_out():
    rows = [row(0, 8, 80e6), row(8, 0, 12e6), row(128, 0, 90e6, n_ubatch=64)]
    assert [p.width for p in read_llama_bench(json.dumps(rows), where="x").curves[0].points] == [1, 8]


@pytest.fixture
def bench(tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(FORMATS["json"])
    return str(file)


def test_the_profile_of_the_named_device_takes_the_curves_and_they_win_over_the_formula(specplan, bench, tmp_path):
    out = str(tmp_path / "mine.yaml")
    ran = specplan(["hardware", "import", "--llama-bench", bench, "--out", out])
    assert ran.code == 0
    assert "2 curves of 6 widths" in ran.out
    made = load_hardware(out)
    assert made.memory == load_hardware("rtx-4080").memory
    assert specplan(["hardware", "check", out]).code == 0
    rows = specplan(
        ["roofline", "--gpu", out, "--model", "qwen2.5-7b", "--dtype", "q4_k", "--width", "1..16", "--json"]
    ).json["rows"]
    assert rows[15]["calibrated"]["pass_s"] == 0.012
    assert rows[15]["calibrated"]["terms"] == {"measured": 0.012}


def test_importing_again_replaces_a_curve_and_keeps_the_others(specplan, bench, tmp_path):
    out = str(tmp_path / "mine.yaml")
    table = tmp_path / "table.csv"
    table.write_text("width,tok_s,batch,dtype\n1,100,1,q4_k\n8,640,1,q4_k\n1,700,8,q4_k\n4,1600,8,q4_k\n")
    assert specplan(["hardware", "import", "--llama-bench", bench, "--model", "qwen2.5-7b", "--out", out]).code == 0
    again = ["hardware", "import", "--csv", str(table), "--gpu", out, "--model", "qwen2.5-7b", "--out", out, "--json"]
    document = specplan(again).json
    jsonschema.validate(document, json_schema("hardware.import"))
    assert len(document["curves"]) == 2
    curves = {(curve.context, curve.batch): [p.ms for p in curve.points] for curve in load_hardware(out).curves}
    assert curves[0, 1] == [10, 12.5]
    assert curves[0, 8] == [pytest.approx(8e3 / 700, rel=1e-5), 20]
    assert len(curves[4096, 1]) == 2
    sources = load_hardware(out).sources["curves"]
    assert sources.count("bench.json") == sources.count("table.csv") == 1


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no tests"),
        ("nothing of the kind", "no tests"),
        ("[]", "no tests"),
        (json.dumps([row(0, 8, 80e6)]), "no curve"),
        (json.dumps([row(0, 8, 0)]), "avg_ns 0 is not above 0"),
        (json.dumps([row(0, 8, "x"), row(8, 0, 1)]), "avg_ns 'x' is not a number"),
        (json.dumps([row(0, 8, 80e6, model_type="llama 7B TQ9"), row(8, 0, 1e6, model_type="llama 7B TQ9")]), "dtype"),
        ("\0\1\2 binary", "no tests"),
        ("{", "not JSON"),
    ],
)
def test_a_file_that_gives_no_curve_is_refused_with_the_reason(refused, tmp_path, text, part):
    file = tmp_path / "bench.txt"
    file.write_text(text)
    assert part in refused(["hardware", "import", "--llama-bench", str(file), "--gpu", "a100"])


@given(
    st.text(max_size=200)
    | st.sampled_from(list(FORMATS.values())).flatmap(lambda text: st.integers(0, 900).map(lambda end: text[:end]))
)
def test_any_text_gives_curves_or_a_clean_error(text):
    try:
        assert read_llama_bench(text, where="x").curves
    except SpecplanError as error:
        assert error.hint


def test_what_is_missing_is_asked_for(refused, tmp_path, bench):
    table = tmp_path / "table.csv"
    table.write_text("width,ms\n1,10\n4,11\n")
    assert "--llama-bench FILE or --csv FILE" in refused("hardware import --gpu a100")
    assert "a model or of a number of weights" in refused(f"hardware import --csv {table} --gpu a100 --dtype bf16")
    assert "dtype is not known" in refused(f"hardware import --csv {table} --gpu a100 --params 7e9")
    assert "does not name a device" in refused(f"hardware import --csv {table} --params 7e9 --dtype bf16")
    assert "a profile is a .yaml file" in refused(f"hardware import --llama-bench {bench} --out x.json")
    table.write_text("width,ratio\n1,1\n4,1.1\n")
    assert "ratios are no times" in refused(f"hardware import --csv {table} --gpu a100 --params 7e9 --dtype bf16")
