"""What is written for stacks with static trees, against what the stacks' own code makes of it.

`data/trees/buffers.json.gz` holds what their buffer builders returned; where the stack is installed it is asked again.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
from pathlib import Path

import pytest

from specplan.base.errors import DoesNotFit, EnvironmentProblem
from specplan.base.tree import TokenTree
from specplan.stacks import buffers, sequoia, specinfer
from specplan.stacks._trtllm_static import STATIC
from specplan.stacks._trtllm_static import export as trtllm_export
from specplan.stacks._vllm_token_tree import TOKEN_TREE
from specplan.stacks.capability import Capability, Wanted
from specplan.stacks.growmap import growmap
from specplan.stacks.limits import broken_limits, require_within
from specplan.stacks.registry import stack_of

DATA = json.loads(gzip.decompress((Path(__file__).parent / "data" / "trees" / "buffers.json.gz").read_bytes()))
TREES = {name: TokenTree.from_paths(paths) for name, paths in DATA["trees"].items()}
T5 = TREES["T5"]
MADE = {"medusa": buffers.medusa, "hydra": buffers.hydra, "eagle1": buffers.eagle1}
CASES = [(stack, name) for stack in MADE for name in DATA[stack]]


def exported(name, tree, **wanted):
    stack, capability, version = stack_of(name)
    return stack.export(Wanted(tree, **wanted), capability, version)


def packed(mask):
    return [sum(bit << column for column, bit in enumerate(row)) for row in mask]


@pytest.mark.parametrize(("stack", "name"), CASES)
def test_the_buffers_are_those_of_the_stacks_own_code(stack, name):
    found = dict(MADE[stack](TREES[name]))
    found["packed_mask"] = packed(found.pop("attention_mask"))
    assert found == DATA[stack][name]
    export = exported(stack, TREES[name])
    (setting,) = (value for key, value in export.settings.items() if key.endswith("_choices"))
    assert setting == sorted(DATA["trees"][name], key=lambda path: (len(path), path))
    assert json.loads(export.files[next(iter(export.files))]) == setting


def test_at_least_ten_trees_are_compared_for_every_stack():
    assert all(len(DATA[stack]) >= 10 for stack in MADE)


@pytest.mark.parametrize("name", TREES)
def test_a_growmap_draws_its_nodes_in_the_order_of_their_numbers(name):
    """The engine appends the children of the nodes of a step, one parent after the other."""
    made = growmap(TREES[name])
    drawn = 1
    for roots, branches in zip(made["roots"], made["branches"], strict=True):
        for root, count in zip(roots, branches, strict=True):
            assert made["Successors"][root] == list(range(drawn, drawn + count))
            drawn += count
    assert drawn == made["size"] == TREES[name].nodes + 1
    assert packed(made["mask"]) == DATA["medusa"][name]["packed_mask"] == buffers.packed_mask(TREES[name])
    assert made["depth"] == DATA["medusa"][name]["position_ids"]


def test_the_worked_example_is_written_as_the_stacks_documents_it():
    assert growmap(T5) == {
        "roots": [[0], [1, 2], [3, 4, 5]],
        "branches": [[2], [2, 1], [0, 0, 0]],
        "Successors": [[1, 2], [3, 4], [5], [], [], []],
        "mask": [
            [1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 0, 1, 0, 0, 0],
            [1, 1, 0, 1, 0, 0],
            [1, 1, 0, 0, 1, 0],
            [1, 0, 1, 0, 0, 1],
        ],
        "depth": [0, 1, 1, 2, 2, 2],
        "size": 6,
    }
    made = trtllm_export(Wanted(T5, method="eagle3"), STATIC, "1.3")
    assert made.files["config.yaml"] == (
        "speculative_config:\n  decoding_type: Eagle\n  max_draft_len: 2\n  eagle_choices:\n"
        "  - [0]\n  - [1]\n  - [0, 0]\n  - [0, 1]\n  - [1, 0]\n"
    )
    assert made.buffers["packed_mask"] == [1, 3, 5, 11, 19, 37]
    assert buffers.medusa(T5)["retrieve_indices"] == [[0, 2, 5], [0, 1, 4], [0, 1, 3]]


def test_a_growmap_loads_with_weights_only():
    torch = pytest.importorskip("torch")
    for tree in TREES.values():
        content = sequoia.torch_file_of(tree)
        loaded = torch.load(io.BytesIO(content), weights_only=True)
        expected = growmap(tree)
        assert loaded["mask"].dtype == loaded["depth"].dtype == torch.int64
        assert {**loaded, "mask": loaded["mask"].tolist(), "depth": loaded["depth"].tolist()} == expected


def test_a_growmap_without_torch_is_an_environment_problem_that_names_the_other_way(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EnvironmentProblem, match="torch is not installed") as error:
        sequoia.torch_file_of(T5)
    assert "--to umbrella" in error.value.hint


def test_a_chain_for_tensorrt_llm_is_its_length_since_a_chain_as_a_tree_crashes():
    made = trtllm_export(Wanted(TokenTree.chain(4), method="eagle3", draft="org/draft"), STATIC, "1.3")
    assert made.settings == {"decoding_type": "Eagle", "max_draft_len": 4, "speculative_model_dir": "org/draft"}
    assert "org/draft" in made.files["config.yaml"]
    with pytest.raises(DoesNotFit, match="one level"):
        trtllm_export(Wanted(TREES["parallel_3"], method="eagle3"), STATIC, "1.3")


def test_medusa_in_tensorrt_llm_takes_the_heads():
    made = trtllm_export(Wanted(TREES["mc_sim_7b_63"], method="medusa", heads=5), STATIC, "1.2")
    assert made.settings["num_medusa_heads"] == 5
    assert len(made.settings["medusa_choices"]) == 63
    assert "eagle_choices" not in made.settings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uniform_2x2", "[(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]"),
        ("parallel_3", "[(0,), (1,), (2,)]"),
    ],
)
def test_a_token_tree_of_vllm_is_the_string_of_its_own_tests_and_warns(name, text):
    made = exported("vllm@0.20.2", TREES[name], draft="org/draft")
    assert made.settings["speculative_token_tree"] == text
    assert made.settings["num_speculative_tokens"] == TREES[name].nodes
    assert made.command.endswith(" --attention-backend TREE_ATTN")
    assert exported("vllm@0.11.0", TREES[name]).environment == {"VLLM_ATTENTION_BACKEND": "TREE_ATTN"}
    assert "as one chain" in made.warnings[0]


def test_a_chain_needs_no_token_tree():
    assert exported("vllm@0.20.2", TokenTree.chain(3), method="eagle3").settings == {
        "method": "eagle3",
        "num_speculative_tokens": 3,
    }


@pytest.mark.parametrize("stack", ["vllm@0.20.2", "trtllm@1.3"])
def test_methods_that_draft_chains_take_no_tree(stack):
    with pytest.raises(DoesNotFit, match="drafts chains"):
        exported(stack, TREES["uniform_2x2"], method="ngram")


def test_specinfer_takes_the_width_of_its_third_step():
    capability = specinfer.STACK.at()
    for degree in (1, 2, 3):
        tree = TokenTree.full([1, 1, degree, 1])
        assert broken_limits(tree, capability) == {}
        assert exported("specinfer", tree).settings["expansion_degree"] == (degree if degree > 1 else -1)
    assert "step 1" in broken_limits(T5, capability)["children"]
    assert "at most 3" in broken_limits(TokenTree.full([1, 1, 4]), capability)["children"]
    assert "9 levels" in broken_limits(TokenTree.chain(9), capability)["size"]


def test_a_shape_is_lowered_to_what_specinfer_drafts(specplan, tmp_path):
    file = tmp_path / "tree.json"
    file.write_text(json.dumps(DATA["trees"]["T5"]))
    ran = specplan(f"export {file} --to specinfer --lower --p 0.6 --json")
    assert ran.code == 0, ran.err
    assert broken_limits(TokenTree.from_parents(ran.json["parents"]), specinfer.STACK.at()) == {}
    assert ran.json["loss"] > 0
    best = specplan("tree --p 0.6 --budget 20 --stack specinfer --json").json
    assert (best["nodes"], best["widths"]) == (20, [1, 1, 3, 3, 3, 3, 3, 3])


# ---- limits


def test_every_broken_limit_is_named():
    sparse = TokenTree.from_paths([[0], [2], [0, 0], [2, 0], [2, 0, 11]])
    capability = stack_of("hydra")[1]
    assert broken_limits(sparse, capability, heads=2) == {
        "heads": "3 levels and 2 heads; every level needs a head of its own",
        "rank": "path [2, 0, 11] has rank 11; ranks go up to 9",
        "gap": "path [2] comes without [1]; ranks are 0, 1, 2, ...",
    }
    late = TokenTree.from_paths([[0], [1], [1, 0]])
    assert broken_limits(late, capability) == {
        "late": "path [1] has children and [0] before it has none; those with children come first"
    }
    assert broken_limits(T5, stack_of("medusa")[1]) == broken_limits(T5, capability) == {}
    assert "1 levels; at least 2" in broken_limits(TREES["parallel_3"], stack_of("eagle1")[1])["size"]
    assert "family" in broken_limits(T5, TOKEN_TREE)


def test_a_shape_outside_the_limits_is_refused_with_the_way_out():
    chains = Capability("chain", ("chain",), (), "", max_depth=3)
    require_within("demo", TokenTree.chain(3), chains)
    with pytest.raises(DoesNotFit, match="demo: 4 levels; at most 3") as error:
        require_within("demo", TokenTree.chain(4), chains)
    assert "--lower" in error.value.hint


def test_every_static_stack_takes_the_trees_that_it_published():
    for stack, names in {
        "medusa": ("mc_sim_7b_63", "vicuna_7b_stage2", "zephyr_stage2"),
        "hydra": ("mc_sim_7b_63",),
        "eagle1": ("eagle_25",),
        "sequoia": ("sequoia_L40_63",),
    }.items():
        for name in names:
            assert broken_limits(TREES[name], stack_of(stack)[1]) == {}, (stack, name)


# ---- the stacks' own code, where it is installed


def _module(package, *parts):
    """A module of an installed package by its file, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    path = Path(spec.submodule_search_locations[0]).joinpath(*parts)
    found = importlib.util.spec_from_file_location(f"{package}_{path.stem}", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_eagle_builds_our_buffers_from_our_list():
    """eagle-llm 1.2.1: both builders, on every tree that EAGLE-1 can run."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    verify, draft = _module("eagle", "model", "utils.py"), _module("eagle", "model", "utils_c.py")
    for name, tree in TREES.items():
        if tree.depth < 2:
            continue
        export = exported("eagle1", tree)
        given = json.loads(export.files["tree_choices.json"])
        made, drafted = verify.generate_tree_buffers(given, "cpu"), draft.generate_tree_buffers(given, "cpu")
        found = {
            "attention_mask": made["tree_attn_mask"][0, 0].int().tolist(),
            "position_ids": made["tree_position_ids"].tolist(),
            "tree_indices": made["tree_indices"].tolist(),
            "retrieve_indices": made["retrieve_indices"].tolist(),
            "draft_tree_indices": [level.tolist() for level in drafted["tree_indices"]],
            "draft_repeats": drafted["repeat_nums"],
        }
        assert found == export.buffers, name
