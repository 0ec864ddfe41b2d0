"""specplan sweep: a grid of plans, its files, its interruptions."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from operator import itemgetter

import pytest

import specplan.planning.sweep
from specplan.render.rows import COLUMNS, TYPES, read_rows

GRID = "sweep --gpu a100,l4 --model llama-3-8b --method chain,medusa --draft llama-3.2-1b --batch 1..12 --p 0.4..0.8"


@pytest.fixture
def small_chunks(monkeypatch):
    """Many chunks of a small grid."""
    monkeypatch.setattr(specplan.planning.sweep, "POINTS", 40)


# ---- the points


def close(a, b):
    return a == b or (isinstance(a, float) and isinstance(b, (int, float)) and abs(a - b) <= 2e-9 * max(abs(a), abs(b)))


POINTS = [
    "--gpu a100 --model llama-2-13b --draft-pass 0.5ms --p 0.6 --batch 1",
    "--gpu a100 --model llama-2-13b --draft-pass 0.5ms --p 0.9 --batch 100 --context 512",
    "--gpu h100 --model llama-3-8b --p 0.7 --batch 3 --context 8k --budget 40",
    "--gpu l4 --model llama-3-8b --draft-ratio 0.06 --p 0.62 --draft-passes all --engine vllm --dtype fp8",
    "--gpu l4 --model llama-3-8b --draft-ratio 0.9 --p 0.2 --batch 16",
    "--gpu rtx-4090 --model qwen3-8b --draft-pass 2ms --draft-shape block --p 0.8 --decay 0.9",
    "--gpu h200 --model llama-3-70b --method chain --draft llama-3.2-1b --p 0.8 --tp 4 --batch 8 --context 2k",
    "--gpu h200 --model llama-3-70b --draft llama-3.2-1b --survival 0.8,0.5 --tp 2 --dtype int4",
    "--gpu a100 --model mixtral-8x7b --method medusa --child-prob 0.5,0.2,0.1 --tp 2 --batch 5",
    "--gpu a100 --model llama-3-8b --method medusa --heads 3 --max-rank 4 --p 0.6 --time ideal --batch 2",
    "--gpu b200 --model llama-3-8b --method ngram --proposal-share 0.4 --alpha 0.8,0.7,0.6 --batch 4",
    "--gpu a100 --model llama-3-8b --method ngram --p 0.5 --max-depth 4 --engine llama.cpp",
    "--gpu a100 --model llama-3-8b --method eagle3 --p 0.7 --batch 8 --budget 12",
    "--gpu h100 --model llama-3-8b --method layerskip --exit-layer 6 --p 0.7 --budget 8",
    "--gpu a100 --model llama-2-13b --draft llama-68m --p 0.6 --budget 10 --max-children 2",
    "--gpu h200 --model deepseek-v3 --method mtp --steps 3 --dtype fp8 --tp 8 --p 0.8 --budget 6",
    "--gpu l4 --model llama-3-8b --method chain --draft llama-3.2-1b --p 0.8 --batch 40 --context 1k",
    "--gpu a100 --model llama-2-13b --draft-pass 0.5ms --child-prob 0.1,0.5 --budget 8",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_point_is_what_plan_says(specplan, point):
    plan, swept = specplan(f"plan {point} --json").json, specplan(f"sweep {point} --json").json
    [row] = swept["rows"]
    shape = plan["recommended"]
    assert (row["speculate"], row["nodes"], row["depth"]) == (
        plan["verdict"]["speculate"],
        shape["nodes"],
        shape["depth"],
    )
    assert (row["widths"] or "") == " ".join(map(str, shape["widths"]))
    expected = {
        **{name: shape[name] for name in ("tau", "speedup", "round_s", "verify_s", "overhead_s", "tokens_per_s")},
        "tokens_per_s_per_sequence": shape["tokens_per_s_per_sequence"],
        "draft_s": shape["draft"]["total_s"],
        "plain_s": plan["plain"]["verify_s"],
        "plain_tokens_per_s": plan["plain"]["tokens_per_s"],
        "break_even_tau": plan["break_even"]["tau"],
        "optimum_nodes": plan["optimum"]["nodes"],
        "optimum_speedup": plan["optimum"]["speedup"],
        "needed_bytes": plan["memory"]["needed_bytes"],
        "fits": plan["memory"]["fits"],
    }
    assert {name: value for name, value in expected.items() if not close(row[name], value)} == {}


def test_counts_behind_an_acceptance_widen_the_tie_as_in_plan(specplan, tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text("depth,rank,accepted,trials\n1,0,60,100\n1,1,20,100\n2,0,55,100\n2,1,15,100\n")
    options = f"--gpu a100 --model llama-2-13b --draft-pass 0.5ms --acceptance {file} --json"
    [row] = specplan(f"sweep {options}").json["rows"]
    plan = specplan(f"plan {options}").json
    assert row["nodes"] == plan["recommended"]["nodes"] < plan["optimum"]["nodes"] == row["optimum_nodes"]


def test_without_an_acceptance_the_break_even_is_all_that_is_said(specplan):
    options = "--gpu a100 --model llama-2-13b --draft-pass 1ms --json"
    [row] = specplan(f"sweep {options}").json["rows"]
    plan = specplan(f"plan {options}").json
    assert row["speculate"] is None
    assert row["break_even_tau"] == pytest.approx(plan["break_even"]["tau"])


def test_rows_come_in_the_order_of_the_grid(specplan, small_chunks):
    rows = specplan(f"{GRID} --json").json["rows"]
    expected = [
        (gpu, method, batch, p)
        for gpu in ("a100-80gb-sxm", "l4")
        for method in ("chain", "medusa")
        for batch in range(1, 13)
        for p in (0.4, 0.5, 0.6, 0.7, 0.8)
    ]
    assert [(row["gpu"], row["method"], row["batch"], row["p"]) for row in rows] == expected


def test_what_does_not_fit_or_cannot_be_drafted_is_a_row_with_a_reason(specplan):
    found = specplan(
        "sweep --gpu rtx-4090,h200 --model llama-3-70b,llama-3.2-1b --method chain,mtp --draft llama-3-8b "
        "--p 0.7 --json"
    ).json
    reasons = {(row["gpu"], row["model"], row["method"]): row["reason"] for row in found["rows"]}
    assert "does not fit" in reasons["rtx-4090", "llama-3-70b", "chain"]
    assert "no smaller than the target" in reasons["h200-sxm", "llama-3.2-1b", "chain"]
    assert "no multi-token-prediction module" in reasons["h200-sxm", "llama-3.2-1b", "mtp"]
    assert found["points"] == 8 > found["planned"]


# ---- one process, many, a cluster


@pytest.mark.filterwarnings("ignore")
def test_serial_pool_and_dask_write_the_same_bytes(specplan, tmp_path, small_chunks, monkeypatch):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, protocol="tcp://", dashboard_address=None
    ) as cluster:
        ways = {"serial": "--jobs 1", "pool": "--jobs 2", "dask": f"--scheduler {cluster.scheduler_address}"}
        for name, way in ways.items():
            ran = specplan(f"{GRID} {way} --out {tmp_path / name}.csv")
            assert ran.code == 0, ran.err
    serial, pool, dask = ((tmp_path / f"{name}.csv").read_bytes() for name in ways)
    assert serial == pool == dask
    assert serial.count(b"\n") == 241


def test_a_scheduler_that_is_not_there_is_an_error_of_the_environment(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "specplan[dask]" in refused(f"{GRID} --scheduler tcp://127.0.0.1:1", code=4)


# ---- interruptions


def interrupted_after(monkeypatch, chunks):
    """Ctrl-C comes while the next chunk is evaluated."""
    import specplan.render.sweep as rendered

    evaluate, left = rendered.evaluate, [chunks]

    def once(chunk):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return evaluate(chunk)

    monkeypatch.setattr(rendered, "evaluate", once)


def test_an_interrupted_sweep_goes_on_where_it_stopped(specplan, tmp_path, small_chunks, monkeypatch):
    whole, file = tmp_path / "whole.csv", tmp_path / "rows.csv"
    specplan(f"{GRID} --out {whole}")
    with monkeypatch.context() as patch:
        interrupted_after(patch, 3)
        ran = specplan(f"{GRID} --jobs 1 --out {file}")
    assert (ran.code, ran.out) == (130, "")
    assert not file.exists()
    partial = tmp_path / "rows.csv.partial"
    kept = partial.read_bytes().count(b"\n") - 1
    assert f"{kept} points are kept" in ran.err
    partial.write_bytes(partial.read_bytes() + b"a100-80gb-sxm,torn")
    again = specplan(f"{GRID} --jobs 1 --out {file}")
    assert f"{kept} of 240 points were there already" in again.err
    assert file.read_bytes() == whole.read_bytes()
    assert again.out == specplan(f"{GRID} --jobs 1 --out {whole}").out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "whole.csv"]


def test_the_rest_of_another_grid_is_refused_until_it_is_forgotten(
    specplan, refused, tmp_path, small_chunks, monkeypatch
):
    file = tmp_path / "rows.csv"
    with monkeypatch.context() as patch:
        interrupted_after(patch, 2)
        specplan(f"{GRID} --jobs 1 --out {file}")
    assert "another grid" in refused(f"{GRID} --budget 8 --jobs 1 --out {file}")
    assert specplan(f"{GRID} --budget 8 --jobs 1 --restart --out {file}").code == 0
    assert file.exists()


def test_an_interrupt_ends_the_processes_quietly_and_keeps_the_rows(tmp_path):
    file = tmp_path / "rows.csv"
    command = "sweep --gpu a100 --model llama-3-8b --method eagle --batch 1..64 --p 0.3..0.9 --budget 6 --jobs 2"
    process = subprocess.Popen(
        [sys.executable, "-m", "specplan", *command.split(), "--out", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    partial = tmp_path / "rows.csv.partial"
    for _ in range(600):
        if partial.exists() and partial.read_bytes().count(b"\n") > 1:
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert partial.read_bytes().count(b"\n") > 1
    assert not file.exists()


# ---- files


def test_csv_json_lines_and_parquet_hold_the_same_rows(specplan, tmp_path):
    found = {}
    for ending in ("csv", "jsonl", "parquet"):
        file = tmp_path / f"rows.{ending}"
        assert specplan(f"{GRID} --out {file}").code == 0
        found[ending] = list(read_rows(str(file)))
    assert found["csv"] == found["jsonl"] == found["parquet"]
    assert len(found["csv"]) == 240
    assert all(value is None or isinstance(value, TYPES[name]) for row in found["csv"] for name, value in row.items())
    with open(tmp_path / "rows.csv", newline="") as file:
        assert next(csv.reader(file)) == list(COLUMNS)
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == found["csv"]


def test_parquet_without_pyarrow_is_an_error_with_the_install_line(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "specplan[sweep]" in refused(f"{GRID} --out {tmp_path / 'rows.parquet'}", code=4)


def test_a_file_s_name_with_a_comma_is_one_name(specplan, tmp_path):
    file = tmp_path / "a,b.json"
    file.write_text('{"kind": "positional", "child_prob": [0.6, 0.2]}')
    found = specplan(
        ["sweep", "--gpu", "a100", "--params", "13e9", "--draft-pass", "1ms", "--acceptance", str(file), "--json"]
    )
    assert [row["acceptance"] for row in found.json["rows"]] == [str(file)]


# ---- pivot, picture, grid file


def test_a_pivot_shows_the_largest_value_and_the_shape_of_the_fastest_point(specplan, tmp_path):
    file = tmp_path / "rows.csv"
    specplan(f"{GRID} --out {file}")
    rows = list(read_rows(str(file)))
    for value in ("speedup", "method", "nodes"):
        pivot = specplan(f"sweep --table {file} --pivot batch,gpu,{value} --json").json["pivot"]
        assert pivot["row_values"] == list(range(1, 13))
        for batch, cells in zip(pivot["row_values"], pivot["cells"]):
            for gpu, cell in zip(pivot["column_values"], cells):
                some = [row for row in rows if (row["batch"], row["gpu"]) == (batch, gpu) and row["speedup"]]
                fastest = max(some, key=itemgetter("speedup"), default={value: None})
                assert cell == fastest[value]


def test_a_table_says_what_its_sweep_said(specplan, tmp_path):
    file = tmp_path / "rows.parquet"
    first = specplan(f"{GRID} --out {file} --pivot batch,p,speedup").out
    again = specplan(f"sweep --table {file} --pivot batch,p,speedup").out
    assert first.partition("\n\nAssumptions")[0] == again.rstrip("\n")


def test_the_picture_is_a_heat_map_of_the_pivot(specplan, tmp_path):
    file = tmp_path / "heat.svg"
    assert specplan(f"{GRID} --plot {file}").code == 0
    text = file.read_text()
    assert "batch" in text
    assert "acceptance" in text


def test_a_grid_file_means_what_the_options_mean(specplan, tmp_path):
    file = tmp_path / "grid.yaml"
    file.write_text(
        "gpu: [a100, l4]\nmodel: llama-3-8b\nmethod: [chain, medusa]\ndraft: llama-3.2-1b\nbatch: 1..12\n"
        "p: 0.4..0.8\nmax-depth: 9\n"
    )
    from_file, typed = specplan(f"sweep --grid {file} --max-depth 4 --json"), specplan(f"{GRID} --max-depth 4 --json")
    assert from_file.json["rows"] == typed.json["rows"]


def test_a_picture_of_nothing_or_of_words(specplan, refused, tmp_path):
    empty, picture = tmp_path / "empty.csv", tmp_path / "x.svg"
    empty.write_text(",".join(COLUMNS) + "\n")
    assert "no rows" in refused(f"sweep --table {empty} --plot {picture}")
    assert "words" in refused(f"{GRID} --pivot batch,p,method --plot {picture}")
    assert specplan(f"sweep --gpu l4 --model llama-3-70b --draft-pass 1ms --p 0.5,0.6 --plot {picture}").code == 0
    assert "speedup" in picture.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [("gpu: a100\nbatsh: 3\n", ":2:1: no option 'batsh'"), ("gpu: {a: 1}\n", ":1:1: neither"), ("- a\n", "grid.yaml")],
)
def test_a_wrong_grid_file_is_refused_with_its_line(refused, tmp_path, text, said):
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    assert said in refused(f"sweep --grid {file}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("sweep", "--gpu"),
        ("sweep --gpu a100", "--model"),
        ("sweep --gpu a100,h1000 --params 13e9", "h100"),
        ("sweep --gpu a100,,h100 --params 13e9", "empty"),
        ("sweep --gpu a100 --params 13e9 --batch 0..4", "--batch 0"),
        ("sweep --gpu a100 --params 13e9 --context 2k,x", "--context"),
        ("sweep --gpu a100 --params 13e9 --p 0.5..1.5:0.5", "1.5"),
        ("sweep --gpu a100 --params 13e9 --method tree", "--method"),
        ("sweep --gpu a100 --params 13e9 --p 0.5 --acceptance x.json", "both"),
        ("sweep --gpu a100 --params 13e9 --draft llama-68m --draft-pass 1ms", "both"),
        ("sweep --gpu a100 --params 13e9 --out rows.xlsx", ".csv"),
        ("sweep --gpu a100 --params 13e9 --out nowhere/rows.csv", "nowhere"),
        ("sweep --gpu a100 --params 13e9 --jobs 0", "--jobs 0"),
        ("sweep --gpu a100 --params 13e9 --pivot batch,context", "three"),
        ("sweep --gpu a100 --params 13e9 --pivot batch,context,speedupp", "speedup"),
        ("sweep --gpu a100 --params 13e9 --batch 1..90000 --p 0.1..0.9:0.001", "coarser"),
        ("sweep --gpu a100 --params 13e9 --batch 1..90000 --p 0.1..0.9", "--out"),
        ("sweep --gpu a100 --params 13e9 --exit-layer 3", "layerskip"),
        ("sweep --table nowhere.csv", "nowhere.csv"),
        ("sweep --table README.md", "FILE.csv"),
        ("sweep --table pyproject.csv --gpu a100", "--gpu"),
    ],
)
def test_a_wrong_grid_is_refused(refused, arguments, said):
    assert said in refused(arguments, code=4 if "nowhere/" in arguments else 2)


def test_a_file_that_is_no_sweep_is_refused(refused, tmp_path):
    for name, data in (("a.csv", b"a,b\n1,2\n"), ("b.jsonl", b"[1]\n"), ("c.csv", b"\xff\xfe\x00"), ("d.csv", b"")):
        file = tmp_path / name
        file.write_bytes(data)
        assert "not the rows of a sweep" in refused(f"sweep --table {file}")
