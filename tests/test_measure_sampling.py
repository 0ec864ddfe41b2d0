"""Sampling with a tree: the tokens come from the target's distribution, and a wrong rule is caught."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from scipy.stats import chi2

from specplan.acceptance.rules import child_prob_for
from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.measure import walk
from specplan.measure.decoder import DecoderConfig, random_weights
from specplan.measure.drafts import ModelDraft, drawn_tokens
from specplan.measure.tree_decode import decode
from specplan.measure.walk import Proposal, Sampling, accept


@pytest.fixture(autouse=True, scope="module")
def _quiet_torch():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(threads)


def p_value(counts, probs, runs):
    """Of the chi-square test; cells of fewer than 5 expected are pooled."""
    kept = [(count, runs * prob) for count, prob in zip(counts, probs) if runs * prob >= 5]
    rest = (runs - sum(count for count, _ in kept), runs - sum(expected for _, expected in kept))
    cells = kept + ([rest] if rest[1] > 1e-6 else [])
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    return chi2.sf(statistic, len(cells) - 1)


# ---- the walk alone, on given distributions

TARGET = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04], dtype=torch.float64)
DRAFT = torch.tensor([0.05, 0.1, 0.4, 0.25, 0.15, 0.05], dtype=torch.float64)
FAN = TokenTree.full(3, 1)


def walked(rule, runs, seed, target=TARGET, draft=DRAFT, tree=FAN):
    """(tokens after the root, ranks of accepted children or -1) of many rounds of one level."""
    sampling = Sampling(rule, 1.0, torch.Generator().manual_seed(seed))
    logits = target.log().expand(tree.width, -1)
    tokens, ranks = [], []
    for _ in range(runs):
        if sampling.draws_children:
            picked = drawn_tokens(draft[None], tree.nodes, sampling)[0].tolist()
        else:
            picked = draft.topk(tree.nodes).indices.tolist()
        path, bonus = accept(Proposal(tree, picked, {-1: draft}), logits, sampling)
        tokens.append(picked[path[0]] if path else bonus)
        ranks.append(path[0] if path else -1)
    return tokens, ranks


@pytest.mark.parametrize("rule", ["without_replacement", "strict", "topk"])
def test_a_level_gives_the_targets_distribution_and_the_predicted_acceptance(rule):
    runs = 15_000
    tokens, ranks = walked(rule, runs, seed=1)
    assert p_value([tokens.count(i) for i in range(6)], TARGET.tolist(), runs) > 1e-3
    wanted = child_prob_for(TARGET.tolist(), DRAFT.tolist(), rule=rule, count=3)
    for rank, share in enumerate(wanted):
        assert abs(ranks.count(rank) / runs - share) < 4.5 * (share * (1 - share) / runs) ** 0.5 + 1e-9


def test_children_beyond_what_the_draft_can_draw_do_not_bend_the_distribution():
    sure = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    tokens, ranks = walked("without_replacement", 15_000, seed=1, draft=sure)
    assert p_value([tokens.count(i) for i in range(6)], TARGET.tolist(), 15_000) > 1e-3
    assert set(ranks) == {0, -1}


def test_a_rejection_by_rounding_alone_leaves_the_target(monkeypatch):
    logits, draft = torch.tensor([[0.0, -1e9]]).double().expand(2, -1), torch.tensor([1.0 + 1e-15, 0.0]).double()
    monkeypatch.setattr(Sampling, "uniform", lambda self: 1.0)
    sampling = Sampling("without_replacement", 1.0, torch.Generator().manual_seed(0))
    assert accept(Proposal(TokenTree.chain(1), [0], {-1: draft}), logits, sampling) == ([], 0)


def test_a_draft_distribution_that_is_not_renormalised_is_caught(monkeypatch):
    monkeypatch.setattr(walk, "_normal", lambda values: values.clamp(min=0))
    tokens, _ = walked("without_replacement", 15_000, seed=1)
    assert p_value([tokens.count(i) for i in range(6)], TARGET.tolist(), 15_000) < 1e-6


def test_typical_acceptance_changes_the_distribution():
    tokens, _ = walked("typical", 4000, seed=1)
    assert p_value([tokens.count(i) for i in range(6)], TARGET.tolist(), 4000) < 1e-6
    assert walk.LOSSY == ("typical",)


def test_typical_acceptance_takes_the_longest_likely_path():
    tree = TokenTree.from_paths([(0,), (1,), (1, 0)])
    likely = torch.tensor([[0.5, 0.45, 0.05], [0.0, 0.1, 0.9], [0.1, 0.8, 0.1], [0.9, 0.05, 0.05]])
    path, _ = accept(Proposal(tree, [0, 1, 1]), likely.log(), Sampling("typical", 1.0, torch.Generator()))
    assert path == [1, 2]
    unlikely = accept(Proposal(tree, [2, 2, 1]), likely.log(), Sampling("typical", 1.0, torch.Generator()))
    assert unlikely[0] == []


def test_children_are_distinct_and_drawn_in_proportion():
    sampling = Sampling("without_replacement", 1.0, torch.Generator().manual_seed(0))
    drawn = drawn_tokens(DRAFT.expand(20_000, -1), 2, sampling)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    pairs = (drawn[:, 0] * 6 + drawn[:, 1]).bincount(minlength=36).tolist()
    wanted = [
        0.0 if a == b else float(DRAFT[a] * DRAFT[b] / (1 - DRAFT[a])) for a in range(6) for b in range(6)
    ]  # fmt: skip
    assert p_value(pairs, wanted, 20_000) > 1e-3


@pytest.mark.parametrize(
    ("rule", "temperature", "named"),
    [
        ("greedy", 1.0, "rule greedy at temperature 1"),
        ("topk", 0.0, "at temperature 0"),
        ("best", 1.0, "best"),
    ],
)
def test_a_rule_and_a_temperature_that_do_not_go_together_are_refused(rule, temperature, named):
    with pytest.raises(InputError, match=named):
        Sampling(rule, temperature)


# ---- end to end: cache, masks, drafting and all

SHAPE = DecoderConfig(layers=1, hidden=16, intermediate=32, heads=2, kv_heads=1, head_dim=8, vocab=8)
PROMPT = [1, 2]
RUNS = 15_000
LENGTH = 3


@pytest.fixture(scope="module")
def model():
    return random_weights(SHAPE, dtype=torch.float64, seed=2)


def joint(model):
    """P of every text of three tokens after the prompt, by plain passes."""
    from specplan.measure.decoder import causal_mask

    texts = torch.cartesian_prod(*[torch.arange(SHAPE.vocab)] * LENGTH)
    whole = torch.cat((torch.tensor(PROMPT).expand(len(texts), -1), texts), dim=1)
    rows = torch.arange(whole.shape[1])
    cache = model.new_cache(len(rows), batch=len(texts))
    probs = torch.softmax(model.forward(whole, rows, cache, causal_mask(len(rows)), rows), dim=-1)
    picked = probs[:, len(PROMPT) - 1 : -1].gather(2, texts[:, :, None])[..., 0]
    return picked.prod(dim=1)


class Remembering:
    """A model that runs the prompt, the same in all runs, once."""

    def __init__(self, model):
        self.model, self.prompt = model, None

    def __getattr__(self, name):
        return getattr(self.model, name)

    def hidden(self, tokens, positions, cache, mask, rows):
        if cache.length or tokens.tolist() != [PROMPT]:
            return self.model.hidden(tokens, positions, cache, mask, rows)
        if self.prompt is None:
            self.prompt = (self.model.hidden(tokens, positions, cache, mask, rows), cache.buffer[..., rows, :].clone())
        cache.buffer[..., rows, :] = self.prompt[1]
        return self.prompt[0]


def run_many(model, rule, runs):
    """How often each text of three tokens was decoded."""
    draft_model = Remembering(random_weights(SHAPE, dtype=torch.float64, seed=9))
    tree = TokenTree.full([3, 2])
    draft = ModelDraft("", draft_model, tree, SHAPE.vocab)
    sampling = Sampling(rule, 1.0, torch.Generator().manual_seed(3))
    target = Remembering(model)
    counts = torch.zeros(SHAPE.vocab**LENGTH)
    for _ in range(runs):
        found = decode(target, draft, PROMPT, tokens=LENGTH, sampling=sampling, clock=lambda: 0.0).tokens
        counts[found[0] * 64 + found[1] * 8 + found[2]] += 1
    return counts


def test_decoded_texts_follow_the_targets_joint_distribution(model):
    counts = run_many(model, "without_replacement", RUNS)
    assert p_value(counts.tolist(), joint(model).tolist(), RUNS) > 1e-3
