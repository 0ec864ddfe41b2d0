"""The chapter's worked example, to the digit, through the command line's JSON.

Source: the project's source text, a 13e9-parameter model in fp16 on an A100 80GB SXM (2039 GB/s,
312 TFLOP/s dense), batch 1, ideal. Tolerances are those of the printed digits.
"""

from __future__ import annotations

import itertools

import pytest

ROOFLINE = "roofline --gpu a100 --params 13e9 --json"
TREE = "tree --time ideal --gpu a100 --params 13e9 --json"


@pytest.fixture
def full_binary(tmp_path):
    """The full binary tree of depth 3, as a file of paths."""
    paths = [list(path) for depth in (1, 2, 3) for path in itertools.product((0, 1), repeat=depth)]
    file = tmp_path / "binary.json"
    file.write_text(str(paths))
    return str(file)


def test_a_pass_of_the_chapter_model_is_memory_bound_as_printed(specplan):
    ideal = specplan(ROOFLINE).json["ideal"]
    assert ideal["weight_bytes"] == 26e9
    assert ideal["t_memory_s"] == pytest.approx(12.75e-3, abs=0.005e-3)
    assert ideal["t_compute_per_token_s"] == pytest.approx(0.0833e-3, abs=0.00005e-3)
    assert ideal["intensity_flop_per_byte"] == 1.0
    assert round(ideal["ridge_flop_per_byte"]) == round(ideal["crossover_tokens"]) == 153
    assert round(ideal["tokens_per_s"]) == 78
    assert 1 - ideal["compute_utilisation"] == pytest.approx(0.9935, abs=0.00005)
    assert ideal["bound"] == "memory"


@pytest.mark.parametrize(("p", "tree", "chain", "ratio"), [(0.6, 2.138, 1.176, 1.44), (0.8, 2.766, 1.952, 1.276)])
def test_full_binary_tree_and_chain_accept_what_the_chapter_prints(specplan, full_binary, p, tree, chain, ratio):
    a = specplan(["tree", "--p", str(p), "--from", full_binary, "--json"]).json
    b = specplan(f"tree --p {p} --k 3 --json").json
    assert a["nodes"] == 14
    assert a["accepted"] == pytest.approx(tree, abs=0.0005)
    assert b["accepted"] == pytest.approx(chain, abs=0.0005)
    assert a["tau"] / b["tau"] == pytest.approx(ratio, abs=0.005 if p == 0.6 else 0.0005)


@pytest.mark.parametrize(
    ("bandwidth", "pass_ms", "crossover", "tree", "chain"), [(2039, 12.75, 153, 246, 171), (3350, 7.76, 93, 404, 280)]
)
def test_the_ripple_of_a_faster_memory_is_as_printed(specplan, full_binary, bandwidth, pass_ms, crossover, tree, chain):
    faster = ["--set", f"memory.bandwidth={bandwidth}GB/s"]
    ideal = specplan([*ROOFLINE.split(), *faster]).json["ideal"]
    assert ideal["pass_s"] * 1e3 == pytest.approx(pass_ms, abs=0.005)
    assert round(ideal["crossover_tokens"]) == crossover
    a = specplan([*TREE.split(), "--p", "0.6", "--from", full_binary, *faster]).json
    b = specplan([*TREE.split(), "--p", "0.6", "--k", "3", *faster]).json
    assert a["tokens_per_s"] == pytest.approx(tree, abs=0.5)
    assert b["tokens_per_s"] == pytest.approx(chain, abs=0.5)
    assert a["tokens_per_s"] / b["tokens_per_s"] == pytest.approx(1.44, abs=0.005)


def test_the_best_tree_of_14_nodes_beats_the_full_binary_tree(specplan):
    best = specplan("tree --p 0.6 --budget 14 --json").json
    assert best["widths"] == [3, 5, 4, 1, 1]
    assert best["accepted"] == pytest.approx(2.382, abs=0.0005)
    assert best["optimality"] == "proved"
    full = best["comparisons"]["full_tree"]
    assert (full["nodes"], full["depth"]) == (14, 3)
    assert full["accepted"] == pytest.approx(2.138, abs=0.0005)
    assert best["comparisons"]["chain_same_depth"]["accepted"] == pytest.approx(1.176, abs=0.0005)


def test_at_p_08_a_chain_of_14_beats_the_full_binary_tree(specplan):
    chain = specplan("tree --p 0.8 --budget 14 --json").json["comparisons"]["chain_same_budget"]
    assert chain["nodes"] == 14
    assert chain["accepted"] == pytest.approx(3.824, abs=0.0005)


def test_levels_survive_as_printed(specplan, full_binary):
    levels = specplan(["tree", "--p", "0.6", "--from", full_binary, "--json"]).json["level_survival"]
    assert levels == pytest.approx([0.84, 0.7056, 0.592704], abs=1e-12)


@pytest.mark.parametrize(("width", "ms"), [(3, 0.25), (4, 0.33), (14, 1.17), (20, 1.67)])
def test_compute_of_several_tokens_is_as_printed(specplan, width, ms):
    ideal = specplan(f"{ROOFLINE} --width {width}").json["ideal"]
    assert ideal["t_compute_s"] * 1e3 == pytest.approx(ms, abs=0.005)
    assert ideal["pass_s"] * 1e3 == pytest.approx(12.75, abs=0.005)


def test_the_mask_and_the_position_ids_of_the_six_node_tree(specplan, tmp_path):
    file = tmp_path / "six.json"
    file.write_text("[[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]]")
    tree = specplan(["tree", "--p", "0.6", "--from", str(file), "--json"]).json
    assert tree["mask"] == [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [0, 1, 0, 0, 1, 0],
        [0, 1, 0, 0, 0, 1],
    ]
    assert tree["position_offsets"] == [1, 1, 2, 2, 2, 2]
    printed = specplan(["tree", "--p", "0.6", "--from", str(file), "--mask"]).out
    assert "1 0 1 0 0 1 0   2" in printed


@pytest.mark.parametrize("params", ["1e8", "7e9", "13e9", "1e12"])
def test_intensity_is_one_for_any_number_of_two_byte_weights(specplan, params):
    assert specplan(f"roofline --gpu a100 --params {params} --json").json["ideal"]["intensity_flop_per_byte"] == 1.0


def test_a_tree_with_one_child_a_node_has_the_causal_mask(specplan):
    mask = specplan("tree --p 0.6 --k 3 --json").json["mask"]
    assert mask == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_wider_stops_paying_past_the_crossover(specplan):
    best = specplan("tree --time ideal --gpu a100 --params 13e9 --p 0.6 --budget 400 --json").json
    crossover = specplan(ROOFLINE).json["ideal"]["crossover_width"]
    assert crossover - 1 <= best["width"] <= crossover
    rates = [row["tokens_per_s"] for row in best["candidates"][best["nodes"] :]]
    assert rates == sorted(rates, reverse=True)
