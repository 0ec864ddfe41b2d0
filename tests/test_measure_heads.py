"""Medusa-style and EAGLE-style heads: the text stays that of plain decoding, and heads that are right are accepted."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch
from measure_files import CONFIG, save, write_prompts
from safetensors.torch import save_file

from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.measure.decoder import random_weights
from specplan.measure.draft_names import draft_source
from specplan.measure.rank_counts import Answered, ranks_of
from specplan.measure.tree_decode import NoDraft, decode, prefill
from specplan.measure.walk import Sampling

TREE = TokenTree.full([3, 2, 1])
PROMPT = [3, 1, 4, 1, 5]
HIDDEN = CONFIG.hidden


@pytest.fixture(autouse=True)
def _quiet_torch():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def target():
    return random_weights(CONFIG, seed=2)


def medusa(heads=3):
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for head in range(heads):
        tensors[f"medusa_head.{head}.0.linear.weight"] = torch.randn(HIDDEN, HIDDEN, generator=generator) * 0.1
        tensors[f"medusa_head.{head}.0.linear.bias"] = torch.zeros(HIDDEN)
        tensors[f"medusa_head.{head}.1.weight"] = torch.randn(CONFIG.vocab, HIDDEN, generator=generator)
    return tensors


def eagle(inner=48):
    generator = torch.Generator().manual_seed(0)

    def normal(rows, columns):
        return torch.randn(rows, columns, generator=generator) * columns**-0.5

    kv = CONFIG.kv_heads * CONFIG.head_dim
    sizes = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (kv, HIDDEN), "self_attn.v_proj": (kv, HIDDEN)}
    sizes |= {"self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (inner, HIDDEN), "mlp.up_proj": (inner, HIDDEN)}
    sizes |= {"mlp.down_proj": (HIDDEN, inner)}
    tensors = {f"layers.0.{name}.weight": normal(*size) for name, size in sizes.items()}
    tensors["layers.0.post_attention_layernorm.weight"] = torch.ones(HIDDEN)
    tensors["fc.weight"] = normal(HIDDEN, 2 * HIDDEN)
    tensors["fc.bias"] = torch.randn(HIDDEN, generator=generator)
    return tensors


def source_of(tensors, target, folder):
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "heads.safetensors")
    return draft_source(str(folder), target, target_path="", load=lambda path: pytest.fail("not a model"))


@pytest.mark.parametrize("make", [medusa, eagle])
def test_the_text_is_that_of_plain_decoding(target, tmp_path, make):
    source = source_of(make(), target, tmp_path / "heads")
    plain = decode(target, NoDraft(), PROMPT, tokens=100, sampling=Sampling())
    found = decode(target, source.make(TREE), PROMPT, tokens=100, sampling=Sampling())
    assert found.tokens == plain.tokens
    sampled = Sampling("without_replacement", 1.0, torch.Generator().manual_seed(0))
    assert len(decode(target, source.make(TREE), PROMPT, tokens=100, sampling=sampled).tokens) == 100


def test_a_medusa_head_guesses_the_token_after_the_next(target, tmp_path):
    """A head fitted to this one answer: its targets are the tokens two places on."""
    plain = decode(target, NoDraft(), PROMPT, tokens=40, sampling=Sampling())
    text = [*PROMPT, *plain.tokens]
    states = prefill(target, target.new_cache(len(text)), text)[len(PROMPT) - 1 : -2]
    wanted = torch.nn.functional.one_hot(torch.tensor(text[len(PROMPT) + 1 :]), CONFIG.vocab).float()
    # With fewer states than dimensions the least squares are exact.
    few = states[: HIDDEN - 2]
    fitted = torch.linalg.lstsq(few, wanted[: len(few)]).solution.T
    tensors = {"0.0.linear.weight": torch.zeros(HIDDEN, HIDDEN), "0.0.linear.bias": torch.zeros(HIDDEN)}
    source = source_of(tensors | {"0.1.weight": fitted.contiguous()}, target, tmp_path / "heads")
    found = decode(target, source.make(TokenTree.chain(1)), PROMPT, tokens=len(few), sampling=Sampling())
    assert found.tokens == plain.tokens[: len(few)]
    assert {one.emitted for one in found.rounds} == {2}


def test_an_eagle_head_sees_each_path_as_if_it_were_alone(target, tmp_path):
    source = source_of(eagle(), target, tmp_path / "heads")
    cache = target.new_cache(64)
    hidden = prefill(target, cache, PROMPT)
    text = [*PROMPT, 7]
    draft = source.make(TREE)
    draft.begin(PROMPT, cache, hidden)
    proposal = draft.propose(text, Sampling())
    for node in range(TREE.nodes):
        path = [*reversed(TREE.ancestors(node)), node]
        followed = [*text, *(proposal.tokens[at] for at in path)]
        alone = source.make(TokenTree.chain(1))
        alone.begin(PROMPT, cache, hidden)
        logits = alone.along(followed, len(PROMPT), hidden, len(path))
        assert int(logits[-1].argsort(descending=True)[TREE.ranks[node]]) == proposal.tokens[node]


@pytest.mark.parametrize("make", [medusa, eagle])
def test_counted_ranks_are_those_of_the_drafted_children(target, tmp_path, make):
    source = source_of(make(), target, tmp_path / "heads")
    wide = TokenTree.full([4, 4])
    found = decode(target, source.make(wide), PROMPT, tokens=80, sampling=Sampling())
    ranks = ranks_of(target, source, Answered(tuple(PROMPT), found.tokens))
    place = 0
    for one in found.rounds[:-2]:
        along = ranks(place, 2)
        assert one.emitted - 1 == next((depth for depth, rank in enumerate(along) if rank >= 4), 2)
        place += one.emitted


def test_heads_are_measured_from_the_command_line(specplan, target, tmp_path):
    model, prompts = save(target, tmp_path / "target"), write_prompts(tmp_path / "p.jsonl", 3)
    for name, make in (("medusa", medusa), ("eagle", eagle)):
        (tmp_path / name).mkdir()
        save_file(make(), tmp_path / name / "heads.safetensors")
        given = f"--model {model} --draft {tmp_path / name} --prompts {prompts} --tokens 30"
        counted = specplan(f"measure acceptance {given} --json --out {tmp_path / name}.json")
        assert counted.code == 0, counted.err
        assert specplan(f"measure acceptance {given} --temperature 1").code == 0
        tree = tmp_path / "tree.json"
        tree.write_text("[[0], [1], [0, 0]]")
        ran = specplan(f"measure decode {given} --from {tree} --acceptance {tmp_path / name}.json --json")
        assert ran.code == 0, ran.err
        assert ran.json["identity"]["same"] == 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"0.1.weight": torch.zeros(3, HIDDEN)}, "'0.1.weight' is 3 x 32, the target needs 64 x 32"),
        ({"0.1.weight": None}, "'0.1.weight' is missing"),
        ({"0.0.linear.weight": None, "fc.weight": torch.zeros(HIDDEN, HIDDEN)}, "'layers.0.self_attn.q_proj.weight'"),
        ({"0.0.linear.weight": None, "d2t": torch.zeros(3)}, "EAGLE-3"),
    ],
)
def test_heads_of_another_model_are_refused(target, tmp_path, change, named):
    tensors = {name.removeprefix("medusa_head."): tensor for name, tensor in medusa(1).items()} | change
    with pytest.raises(InputError, match=named):
        source_of({name: tensor for name, tensor in tensors.items() if tensor is not None}, target, tmp_path / "heads")


def test_a_tree_deeper_than_the_heads_is_refused(target, tmp_path):
    source = source_of(medusa(2), target, tmp_path / "heads")
    with pytest.raises(InputError, match="a tree of 3 levels, and 2 heads"):
        source.make(TREE)
