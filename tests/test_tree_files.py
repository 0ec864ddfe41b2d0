"""Trees in the forms of all stacks: published ones, ten thousand random ones a form, and what is no tree."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import zipfile
from pathlib import Path

import pytest

from specplan.acceptance.kinds import DepthTable
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.stacks import sequoia
from specplan.stacks.capability import Wanted
from specplan.stacks.growmap import growmap, successors_of
from specplan.stacks.path_list import parse_paths, paths_of
from specplan.stacks.registry import stack_of
from specplan.stacks.tree_files import read_tree, tree_of

PUBLISHED = json.loads(gzip.decompress((Path(__file__).parent / "data" / "trees" / "published.json.gz").read_bytes()))
LISTS, GROWMAPS, HEADS = PUBLISHED["path_lists"], PUBLISHED["growmaps"], PUBLISHED["medusa_heads"]
T5 = [[0], [1], [0, 0], [0, 1], [1, 0]]


def tree(content, where="tree"):
    return tree_of(content if isinstance(content, bytes) else content.encode(), where=where)


def named(name, repository="Medusa"):
    return next(entry for entry in LISTS if entry["name"] == name and repository in entry["source_repo"])


# ---- published trees


@pytest.mark.parametrize("entry", LISTS, ids=lambda entry: f"{entry['source_repo']}:{entry['name']}")
def test_a_published_list_of_paths_is_read_and_written_back_the_same(entry):
    found = tree(json.dumps(entry["paths"]))
    assert (found.nodes, found.depth, list(found.widths)) == (
        entry["num_nodes"],
        entry["max_depth"],
        entry["nodes_per_depth"],
    )
    assert paths_of(found) == sorted(entry["paths"], key=lambda path: (len(path), path))
    assert tree(str(entry["paths"])) == tree(f"x = {entry['paths']}  # as in a module\n") == found
    assert tree(str([tuple(path) for path in entry["paths"]])) == found
    if "native_string" in entry:
        assert (
            tree(entry["native_string"])
            == tree(json.dumps({"speculative_token_tree": entry["native_string"]}))
            == found
        )


@pytest.mark.parametrize("entry", GROWMAPS, ids=lambda entry: f"{entry['source_repo']}:{entry['name']}")
def test_a_published_growmap_is_read_and_written_back_the_same(entry):
    found = tree(json.dumps({"Successors": entry["successors"], "size": entry["size_with_root"]}))
    assert (found.width, found.depth) == (entry["size_with_root"], entry["max_depth"])
    assert list(found.widths) == entry["nodes_per_depth"]
    assert successors_of(found) == entry["successors"]
    assert tree(json.dumps(growmap(found))) == found


# Summed from the published cumulative accuracies (five ranks a head, the others count as 0), to five digits.
EXPECTED_TOKENS = {
    ("mc_sim_7b_63", "7b"): 2.34001,
    ("vicuna_7b_stage1", "7b"): 2.34379,
    ("vicuna_7b_stage2", "7b"): 2.35193,
    ("vicuna_13b_stage1", "13b"): 2.43791,
    ("vicuna_13b_stage2", "13b"): 2.44388,
    ("vicuna_33b_stage1", "33b"): 2.46628,
    ("vicuna_33b_stage2", "33b"): 2.48694,
}


@pytest.mark.parametrize(("name", "model"), EXPECTED_TOKENS)
def test_the_expected_tokens_of_a_medusa_tree_follow_from_the_accuracies_of_its_heads(name, model):
    rows = HEADS[model]
    paths = named(name)["paths"]
    by_hand = 1 + math.fsum(
        math.prod(rows[level][rank] if rank < 5 else 0.0 for level, rank in enumerate(path)) for path in paths
    )
    found = DepthTable(tuple(map(tuple, rows)), scheme="topk").tau(tree(json.dumps(paths)))
    assert found == pytest.approx(by_hand, rel=1e-12)
    assert found == pytest.approx(EXPECTED_TOKENS[name, model], abs=2e-5)


def test_sam_decoding_is_read_with_and_without_its_wrapper():
    adjacency = {"0": [1, 2], "1": [3, 4], "2": [5], "5": [], "3": [], "4": []}
    wanted = TokenTree.from_paths(T5)
    assert tree(json.dumps(adjacency)) == tree(json.dumps({"tree_adj": adjacency})) == wanted
    assert tree(json.dumps({"tree_choices": T5})) == wanted


def test_a_config_of_tensorrt_llm_is_read_as_yaml():
    text = "backend: pytorch\nspeculative_config:\n  decoding_type: Eagle\n  eagle_choices: "
    assert tree(text + str(T5)) == tree(text + f'"{T5}"') == TokenTree.from_paths(T5)


def test_a_document_of_specplan_is_read(specplan, tmp_path):
    for arguments in ("tree --p 0.6 --budget 9", "plan --p 0.6 --gpu a100 --params 13e9 --budget 9"):
        file = tmp_path / "document.json"
        ran = specplan(f"{arguments} --json --out {file}")
        shown = ran.json.get("recommended", ran.json)
        assert paths_of(read_tree(str(file))) == shown["paths"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("tree --from {} --p 0.6", "5 nodes"),
        ("simulate --from {} --p 0.6 --rounds 1000", "analytic 2.4"),
        ("plan --from {} --p 0.6 --gpu a100 --params 13e9", "5 nodes"),
        ("advise --from {} --p 0.6 --measured-tpot 25ms --measured-spec-tpot 18ms", "a tree of 5 in 2 levels"),
    ],
)
def test_every_verb_reads_a_tree_in_the_form_of_any_stack(specplan, tmp_path, arguments, shown):
    file = tmp_path / "growmap.pt"
    file.write_bytes(sequoia.torch_file_of(TokenTree.from_paths(T5)))
    ran = specplan(arguments.format(file))
    assert ran.code == 0, ran.err
    assert shown in ran.out


# ---- there and back


def random_tree(rng, *, contiguous, expanding_first=False, uniform=False):
    """Up to 14 nodes and 6 levels."""
    if uniform:
        return TokenTree.full(
            rng.choice([[1] * rng.randint(1, 6), [2], [3], [2, 1], [2, 2], [1, 3], [3, 1, 1], [1, 2, 2]])
        )
    paths, children = [()], {(): 0}
    for _ in range(rng.randint(1, 14)):
        above = paths[int(len(paths) * rng.random() ** (2 if expanding_first else 1))]
        rank = children[above] if contiguous else rng.randint(0, 9)
        path = (*above, rank)
        if len(path) > 6 or rank > 9 or path in children:
            continue
        if (
            expanding_first
            and above
            and above[-1]
            and not children[above]
            and not children[(*above[:-1], above[-1] - 1)]
        ):
            continue
        paths.append(path)
        children[path] = 0
        children[above] += 1
    return TokenTree.from_paths(paths[1:])


def adjacency_of(wanted):
    return json.dumps({"tree_adj": {str(node): below for node, below in enumerate(successors_of(wanted))}}).encode()


def file_of(name, file):
    """What writes a tree as that file of a stack's export."""
    stack, capability, version = stack_of(name)

    def write(wanted):
        content = stack.export(Wanted(wanted), capability, version).files[file]
        return content if isinstance(content, bytes) else content.encode()

    return write


FORMS = {
    "medusa": (file_of("medusa", "medusa_choices.json"), {"contiguous": False}),
    "hydra": (file_of("hydra", "hydra_choices.json"), {"contiguous": True, "expanding_first": True}),
    "eagle1": (file_of("eagle1", "choices.py"), {"contiguous": False}),
    "sequoia": (sequoia.torch_file_of, {"contiguous": True}),
    "umbrella": (file_of("umbrella", "growmap.json"), {"contiguous": True}),
    "trtllm": (file_of("trtllm@1.3", "config.yaml"), {"contiguous": True}),
    "vllm": (file_of("vllm@0.20.2", "speculative_config.json"), {"contiguous": True, "uniform": True}),
    "sam-decoding": (adjacency_of, {"contiguous": True}),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read_as_the_same_tree_ten_thousand_times(form):
    write, kind = FORMS[form]
    rng = random.Random(form)
    read = 0
    seen = {}
    while read < 10_000:
        wanted = random_tree(rng, **kind)
        if not wanted.nodes or (form in ("trtllm", "vllm") and wanted.nodes == wanted.depth):
            continue
        if form == "trtllm" and wanted.depth == 1:
            continue
        read += 1
        if wanted not in seen:
            seen[wanted] = tree(write(wanted))
        assert seen[wanted] == wanted


# ---- what is no tree

WRONG = {
    "missing parent": ("[[0],[0,0,1]]", r"path \[0, 0, 1\] has no parent"),
    "missing parent of a tuple": ("[(0,), (1, 0)]", r"path \[1, 0\] has no parent"),
    "twice": ("[[0],[1],[0]]", r"path \[0\] is there twice"),
    "the empty path": ("[[],[0]]", "path 0 is empty"),
    "a negative rank": ("[[0],[-1]]", "a rank is -1"),
    "a huge rank": ("[[0],[99999999]]", "a rank is 99999999"),
    "a number beyond any": ("[(0,), (" + "9" * 400 + ",)]", "400 digits"),
    "a fraction": ("[[0],[1.5]]", "1.5"),
    "a fraction in Python": ("[(0,), (1.5,)]", "not a whole number"),
    "a text as rank": ('[["0"]]', "'0'"),
    "a truth value": ("[[true]]", "True"),
    "numbers without commas": ("[(0), (1)]", r"write|\(0\) is a number in Python"),
    "code": ("[(__import__('os').system('x'),)]", "not part of a list"),
    "an expression": ("[(0+1,)]", "commas between|not part of a list"),
    "an unclosed list": ("[(0,), (1,)", "the text ends"),
    "a wrong bracket": ("[(0,], (1,)]", "closes nothing"),
    "something after": ("[(0,)] + [(1,)]", "follows the list"),
    "deep brackets": ("(" * 100_000, "commas between"),
    "deep JSON": ("[" * 100_000, "not JSON"),
    "deep objects": ('{"a":' * 100_000, "not JSON"),
    "widths by level": ("[1, 7, 6]", "old form"),
    "nothing": ("", "empty"),
    "no tree": ('{"a": 1}', "no tree: keys a"),
    "null": ("[null]", "path 0 is None"),
    "several": ("a = [[0]]\nb = [[0], [1]]\n", "2 trees: a, b"),
    "two roots": ('{"0": [1], "1": [], "2": []}', "node 2 is nobody's child"),
    "a cycle": ('{"0": [1], "1": [2], "2": [1]}', "node 1 is the child of nodes 0 and 2"),
    "a cycle apart": ('{"0": [1], "1": [], "2": [3], "3": [2]}', "node 2 is numbered before its parent 3"),
    "a cycle through the root": ('{"0": [1], "1": [0]}', "a cycle"),
    "a node that is not listed": ('{"0": [1, 3], "1": [], "3": []}', "node 2 is not listed"),
    "a child that is not there": ('{"0": [1, 7], "1": []}', "child '7'"),
    "a child twice": ('{"0": [1, 1], "1": []}', "node 1 is the child of nodes 0 and 0"),
    "a child that is a text": ('{"0": ["1"], "1": []}', "child '1'"),
    "a growmap by depth": ('{"Successors": [[1, 3], [2], [], []]}', "after node 1 comes node 3"),
    "a growmap of a wrong size": ('{"Successors": [[1], []], "size": 3}', "size disagrees with Successors: 3, not 2"),
    "a growmap of a wrong depth": ('{"Successors": [[1], []], "depth": [0, 2]}', "depth disagrees.* at 1: 2, not 1"),
    "a growmap of a wrong mask": ('{"Successors": [[1], []], "mask": [[1, 0], [0, 1]]}', "mask disagrees.* at 1"),
    "a growmap of wrong branches": ('{"Successors": [[1], []], "branches": [[1], [1]]}', "branches disagrees"),
    "a growmap of wrong roots": ('{"Successors": [[1], []], "roots": [[0, 1]]}', "roots disagrees"),
    "parents in a cycle": ('{"parents": [-1, 2, 1]}', "does not lead to the root"),
    "a parent that is not there": ('{"parents": [-1, 9]}', "parent of node 1 is 9"),
    "a key twice": ('{"paths": [[0]], "paths": [[1]]}', "appears twice"),
    "not a number": ("[[NaN]]", "NaN"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_tree_is_refused_by_name(name):
    content, message = WRONG[name]
    with pytest.raises(InputError, match=message) as error:
        tree(content, where="tree.txt")
    assert error.value.message.startswith("tree.txt: ")
    assert len(error.value.message) < 300
    assert error.value.hint


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x80\x02cos\nsystem\n", b"PK\x03\x04" + b"x" * 99])
def test_bytes_that_are_no_tree_are_refused(content):
    with pytest.raises(InputError):
        tree(content)


def test_a_file_of_more_than_ten_megabytes_is_refused(refused, tmp_path):
    file = tmp_path / "tree.json"
    file.write_text("[" + "[0]," * 2_600_000 + "[0]]")
    assert "larger than 10 MB" in refused(["tree", "--p", "0.6", "--from", str(file)])


def test_a_torch_file_that_unfolds_without_end_is_refused():
    """Lists in lists in lists, each twice: a few hundred bytes that stand for 2^60 entries."""
    import pickle

    value = [[0]]
    for _ in range(60):
        value = [value, value]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("growmap/data.pkl", pickle.dumps({"Successors": value}, protocol=2))
    with pytest.raises(InputError, match="too many numbers"):
        tree(buffer.getvalue())


def test_a_torch_file_with_a_memo_beyond_memory_is_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("growmap/data.pkl", b"\x80\x02}r\xff\xff\xff\x7f.")
    with pytest.raises(InputError, match="no tree"):
        tree(buffer.getvalue())


def test_comments_and_trailing_commas_are_part_of_pythons_lists():
    assert parse_paths("[  # best first\n  [0],\n  [0, 1,],  # second\n]\n") == [[0], [0, 1]]
