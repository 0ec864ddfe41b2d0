"""Plans and trees inside what a serving stack runs, against brute force and against the free optimum."""

from __future__ import annotations

import itertools
import json
import re
from statistics import geometric_mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.acceptance.kinds import Chain, DepthTable, Independent, Mixture, Positional
from specplan.base.tree import TokenTree
from specplan.planning.batch import fewest_stretches, schedule
from specplan.planning.in_stack import plan_in_stack
from specplan.planning.plan import plan
from specplan.search.best import best_tree
from specplan.search.costs import RoundCosts
from specplan.search.space import Dynamic, Runnable, Space
from specplan.search.within import best_dynamic, dynamic_tree, search_in
from specplan.timing.draft import Draft

DEVICE = "--gpu h100 --model llama-3-8b"


def grown_by_hand(rows, steps, topk, nodes):
    """Paths and scores of the best nodes, by the rule of the engines: feed topk, propose topk each, keep the best."""
    fed, pool = [((), 1.0)], []
    for level in range(steps):
        row = rows[min(level, len(rows) - 1)]
        proposed = [((*path, rank), score * row[rank]) for path, score in fed for rank in range(topk)]
        fed = sorted(proposed, key=lambda node: -node[1])[:topk]
        pool += proposed
    return sorted(pool, key=lambda node: -node[1])[:nodes]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_a_dynamic_tree_is_the_one_that_the_engines_rule_grows(steps, topk, data):
    rows = ((0.5, 0.31, 0.12), (0.43, 0.29, 0.11))
    nodes = data.draw(st.integers(1, topk + (steps - 1) * topk**2))
    expected = grown_by_hand(rows, steps, topk, nodes)
    tree = dynamic_tree(DepthTable(rows * 2), Dynamic(steps, topk, nodes))
    by_hand = grown_by_hand(rows + rows, steps, topk, nodes)
    assert set(tree.paths) == {path for path, _ in by_hand}
    assert len(expected) == tree.nodes


@settings(deadline=None, max_examples=40)
@given(st.floats(0.2, 0.9), st.floats(0.0, 0.1), st.floats(0.0, 0.3), st.booleans())
def test_the_best_dynamic_settings_are_the_best_of_all_of_them(p, per_token, draft_s, linear):
    costs = RoundCosts(verify_s=[1.0 + per_token * i for i in range(13)], draft=Draft("d", draft_s), overhead_s=0.05)
    limits = Space(12, 4, 3)
    found = best_dynamic(Independent(p), limits, costs, linear_pool=linear)
    rates = [1.0]
    for steps, topk in itertools.product(range(1, 5), range(1, 4)):
        pool = topk * steps if linear else topk + (steps - 1) * topk**2
        row = [p * (1 - p) ** rank for rank in range(topk)]
        for nodes in range(steps, min(pool, 12) + 1):
            tau = 1 + sum(score for _, score in grown_by_hand([row], steps, topk, nodes))
            rates.append(tau / (steps * draft_s + costs.verify_s[nodes] + 0.05))
    assert found.shape.speedup == pytest.approx(max(rates))


FAMILIES = [
    Runnable("chain"),
    Runnable("chain", depth=3),
    Runnable("dynamic"),
    Runnable("dynamic", linear_pool=True, children=2),
    Runnable("static", nodes=9, depth=2, children=3),
    Runnable("static", min_depth=2),
    Runnable("uniform"),
]


@pytest.mark.parametrize("runnable", FAMILIES, ids=str)
@pytest.mark.parametrize("acceptance", [Independent(0.7), Positional((0.5, 0.2, 0.1))], ids=str)
def test_a_plan_recommends_what_the_stack_runs_and_never_beats_the_free_optimum(runnable, acceptance):
    costs = RoundCosts(verify_s=[1.0 + 0.02 * i for i in range(33)], draft=Draft("d", 0.05), overhead_s=0.05)
    limits = Space(32, 6)
    found = plan_in_stack(acceptance, costs, limits, runnable, tie=0.0)
    shape = found.recommended
    assert shape.nodes <= (runnable.nodes or 32)
    assert runnable.min_depth <= shape.depth <= (runnable.depth or 6)
    assert shape.speedup <= found.best.shape.speedup * (1 + 1e-9)
    assert found.legal.shape == shape
    assert (shape.dynamic is not None) == (runnable.family == "dynamic")
    if runnable.family == "chain":
        assert set(shape.widths) == {1}


def test_a_chain_stack_gets_the_best_chain_not_a_tree_cut_down():
    costs = RoundCosts(verify_s=[1.0] * 65, draft=Draft("d", 0.1))
    free = best_tree(Independent(0.6), Space(64), costs).shape
    found = plan_in_stack(Independent(0.6), costs, Space(64), Runnable("chain"), tie=0.0).recommended
    rates = {k: sum(0.6**i for i in range(k + 1)) / (1 + 0.1 * k) for k in range(20)}
    assert found.nodes == max(rates, key=rates.get)
    assert found.nodes != free.depth


def test_chain_data_plans_topk_1_in_a_dynamic_stack():
    found = search_in(Runnable("dynamic"))(Chain((0.8, 0.7, 0.6)), Space(64, 16, 1), None).shape
    assert found.dynamic == Dynamic(3, 1, 3)


def test_dynamic_settings_gain_over_fixed_trees_where_contexts_differ():
    mixed = Mixture((Independent(0.9), Independent(0.4)), (0.5, 0.5))
    found = best_dynamic(mixed, Space(15, 15), None).shape
    assert found.tau == pytest.approx(5.387, abs=5e-4)
    assert 1 + sum(found.level_survival) == pytest.approx(found.tau)


def test_a_level_that_is_asked_for_is_there():
    # One child at the first level takes all: without the rule, depth 1 is best.
    costs = RoundCosts(verify_s=[1.0, 1.01, 1.5, 1.6, 1.7])
    rows = DepthTable(((0.6, 0.2), (0.1,)))
    assert search_in(Runnable("static"))(rows, Space(4), costs).shape.depth == 1
    assert search_in(Runnable("static", min_depth=2))(rows, Space(4), costs).shape.depth in (0, 2)


def test_few_ranges_stay_within_the_tie_at_every_batch_tried():
    plans = {}

    def plan_at(batch):
        verify = [max(1.0, (width * batch) / 40) for width in range(1, 10)]
        costs = RoundCosts(verify_s=verify, batch=batch, draft=Draft("d", 0.05))
        plans[batch] = plan(Independent(0.8), costs, Space(8, 8, 1), tie=0.01)
        return plans[batch]

    batches = list(range(1, 65))
    single = schedule(batches, plan_at)
    few = fewest_stretches(batches, plans, 0.01)
    assert len(few) <= len(single)
    assert [few[0].batch_first, few[-1].batch_last] == [1, 64]
    assert all(a.batch_last + 1 == b.batch_first and a.nodes != b.nodes for a, b in itertools.pairwise(few))
    for batch, found in plans.items():
        k = next(s.nodes for s in few if s.batch_first <= batch <= s.batch_last)
        speedup = found.best.candidates[k].speedup
        assert speedup >= found.best.shape.speedup * 0.99 * (1 - 1e-12)


# ---- the command line


def test_plan_for_sglang_recommends_settings_that_are_printed(specplan):
    ran = specplan(f"plan {DEVICE} --method eagle3 --p 0.7 --budget 32 --stack sglang --json").json
    at, stack = ran["recommended"]["dynamic"], ran["stack"]
    assert stack["settings"]["speculative_num_steps"] == at["steps"]
    assert stack["settings"]["speculative_eagle_topk"] == at["topk"]
    assert stack["settings"]["speculative_num_draft_tokens"] == at["nodes"] + 1 == ran["recommended"]["width"]
    assert stack["settings"]["max_running_requests"] == 48
    assert at["nodes"] <= at["topk"] + (at["steps"] - 1) * at["topk"] ** 2
    expected = 1 - ran["recommended"]["speedup"] / ran["optimum"]["speedup"]
    assert stack["loss"] == pytest.approx(expected)


def test_plan_for_vllm_over_batches_is_a_schedule_of_chains_in_its_dialect(specplan):
    ran = specplan(f"plan {DEVICE} --method eagle3 --p 0.7 --batch 1..256 --stack vllm --json").json
    ranges = ran["stack"]["settings"]["num_speculative_tokens_per_batch_size"]
    assert ranges == [[s["batch_first"], s["batch_last"], s["nodes"]] for s in ran["schedule"]]
    assert [ranges[0][0], ranges[-1][1]] == [1, 256]
    assert ran["stack"]["settings"]["num_speculative_tokens"] == max(k for _, _, k in ranges)
    assert all(s["nodes"] == s["depth"] for s in ran["schedule"])


def test_lengths_by_batch_size_are_of_chains_in_a_dynamic_stack_too(specplan):
    ran = specplan(f"plan {DEVICE} --method eagle3 --p 0.7 --max-children 1 --batch 1..64 --stack trtllm --json").json
    settings = ran["stack"]["settings"]
    assert settings["max_draft_len"] == next(iter(settings["draft_len_schedule"].values()))
    assert "use_dynamic_tree" not in settings


def test_a_method_that_the_stack_does_not_have_is_refused_with_3(refused):
    assert "medusa" in refused(f"plan {DEVICE} --method medusa --p 0.7 --stack vllm", 3)
    assert "nothing is known" in refused(f"plan {DEVICE} --p 0.7 --stack vllm@0.1")
    assert "'vllm'" in refused(f"plan {DEVICE} --p 0.7 --stack vlmm")
    assert "ollama" in refused(f"plan {DEVICE} --p 0.7 --stack ollama", 3)


def test_a_tree_that_the_stack_cannot_run_is_refused_with_3(refused, tmp_path):
    file = tmp_path / "t5.json"
    file.write_text("[[0],[1],[0,0],[0,1],[1,0]]")
    assert "only a chain" in refused(f"tree --from {file} --p 0.6 --stack vllm", 3)
    assert "anew every round" in refused(f"tree --from {file} --p 0.6 --stack sglang", 3)


def test_tree_for_a_stack_is_the_best_that_it_runs(specplan):
    ran = specplan("tree --p 0.6 --budget 14 --stack eagle --json").json
    assert ran["stack"]["settings"] == {"total_token": 15, "depth": 4, "top_k": 3}
    assert ran["tau"] == pytest.approx(3.382, abs=5e-4)
    assert TokenTree.from_paths(ran["paths"]).widths == (3, 5, 4, 1, 1)


def test_a_bundled_model_is_served_under_the_name_that_stacks_load(specplan):
    ran = specplan(f"plan {DEVICE} --draft llama-3.2-1b --p 0.7 --budget 8 --stack vllm --json").json
    settings = ran["stack"]["settings"]
    assert settings["method"] == "draft_model"
    assert settings["model"].startswith("meta-llama/")
    assert "meta-llama/Meta-Llama-3-8B" in ran["stack"]["command"]


def test_plain_decoding_sets_nothing(specplan):
    ran = specplan(f"plan {DEVICE} --method eagle3 --p 0.01 --overhead 90ms --stack sglang --json").json
    assert ran["recommended"]["nodes"] == 0
    assert ran["stack"]["settings"] == {}
    assert ran["stack"]["command"].startswith("python -m sglang.launch_server --model-path")


def every_record():
    from specplan.stacks.registry import stacks

    for name, stack in stacks().items():
        for record in stack.capabilities:
            if record.family != "none":
                version = record.until or (stack.read if record is stack.capabilities[0] else record.since)
                yield name if record.since is record.until is None else f"{name}@{version}"


@pytest.mark.parametrize("to", list(every_record()))
def test_what_is_searched_for_a_stack_can_be_exported_to_it(to):
    from specplan.base.errors import InputError
    from specplan.stacks.export import export
    from specplan.stacks.lowering import runnable
    from specplan.stacks.registry import stack_of

    _, record, _ = stack_of(to)
    costs = RoundCosts(verify_s=[1.0 + 0.01 * i for i in range(64)], draft=Draft("d", 0.05))
    known = ((Independent(0.6), costs), (Positional((0.5, 0.2, 0.1)), None), (DepthTable(((0.6, 0.2), (0.4,))), costs))
    for (acceptance, priced), method in itertools.product(known, record.methods):
        for nodes in (2, 31):
            shape = search_in(runnable(record, method))(acceptance, Space(nodes), priced).shape
            try:
                found = export(shape, to=to, method=method, exit_layer=4)
            except InputError as error:
                assert "acceptance" in error.hint or "--p" in error.hint
                continue
            assert found.nodes == shape.nodes <= nodes


@pytest.mark.parametrize(
    ("stack", "engine"),
    [("vllm", "vllm"), ("trtllm@1.3", "tensorrt-llm"), ("llamacpp", "llama.cpp"), ("exllamav3", None)],
)
def test_times_are_those_of_the_engine_that_is_planned_for(specplan, stack, engine):
    for verb in ("plan --draft llama-68m", "tree --draft llama-68m", "compare --method ngram"):
        ran = specplan(f"{verb} {DEVICE} --p 0.7 --budget 4 --stack {stack} --json").json
        assert ran["inputs"]["engine"] == engine
        said = [entry["text"] for entry in ran["assumptions"] if entry["text"].startswith("engine ")]
        assert said[0].startswith(f"engine {engine}, the stack's own" if engine else "engine unknown")


def test_an_engine_that_is_named_wins_over_the_stacks(specplan):
    line = f"plan {DEVICE} --draft llama-68m --p 0.7 --budget 4"
    named = specplan(f"{line} --stack vllm --engine sglang --json").json
    assert named["inputs"]["engine"] == "sglang"
    assert named["plain"] == specplan(f"{line} --engine sglang --json").json["plain"]
    own = specplan(f"{line} --stack vllm --json").json
    assert own["plain"] == specplan(f"{line} --engine vllm --json").json["plain"]


@pytest.mark.parametrize("stack", ["sglang", "vllm", "trtllm", "llamacpp", "eagle"])
def test_a_draft_model_is_not_put_in_as_a_head(specplan, stack):
    ran = specplan(f"plan {DEVICE} --method eagle3 --draft llama-3.2-1b --p 0.7 --budget 4 --stack {stack} --json")
    assert "Llama-3.2-1B" not in json.dumps(ran.json["stack"])
    assert any("no draft of eagle3" in note for note in ran.json["notes"])
    head = specplan(f"plan {DEVICE} --method eagle3 --draft org/head --p 0.7 --budget 4 --stack {stack} --json").json
    assert "org/head" in json.dumps(head["stack"])


def test_one_tree_for_all_batches_is_that_with_the_best_mean_where_the_stack_has_one(specplan):
    line = f"plan {DEVICE} --draft llama-3.2-1b --p 0.7 --stack sglang --json"
    ran = specplan(f"{line} --batch 1..64").json
    chosen, batches = ran["recommended"]["dynamic"], [row["batch_first"] for row in ran["schedule"]]
    assert batches == [1, 2, 4, 8, 16, 32, 64]
    assert {row["nodes"] for row in ran["schedule"]} == {chosen["nodes"]}
    assert ran["schedule"][0]["speedup"] == pytest.approx(ran["recommended"]["speedup"])
    alone = {batch: specplan(f"{line} --batch {batch}").json for batch in (1, 64)}
    for batch, row in ((1, ran["schedule"][0]), (64, ran["schedule"][-1])):
        assert row["speedup"] <= alone[batch]["recommended"]["speedup"] * 1.011
    small = alone[1]["recommended"]["dynamic"]
    assert small["nodes"] > chosen["nodes"]  # the tree of batch 1 is too large for 64
    settings = ran["stack"]["settings"]
    assert settings["speculative_num_draft_tokens"] == chosen["nodes"] + 1
    assert settings["max_running_requests"] == 64


def test_a_tree_for_all_batches_or_chains_by_batch_size_is_said_and_the_better_is_taken(specplan):
    line = f"plan {DEVICE} --method eagle3 --p 0.7 --stack sglang --json"
    tree = specplan(f"{line} --batch 1..32")
    chains = specplan(f"{line} --batch 1..32 --max-children 1").json
    assert tree.json["stack"]["settings"]["speculative_eagle_topk"] > 1
    assert chains["stack"]["settings"]["speculative_eagle_topk"] == 1
    [said] = [note for note in tree.json["notes"] if "chains by batch size" in note]
    means = [float(number) for number in re.findall(r"\d+\.\d+", said.partition("chains by batch size: ")[2])][:2]
    rates = {row["batch_first"]: row["speedup"] for row in tree.json["schedule"]}
    assert means[0] == pytest.approx(geometric_mean(rates.values()), abs=0.005)
    by_chains = [
        next(row["speedup"] for row in chains["schedule"] if row["batch_first"] <= batch <= row["batch_last"])
        for batch in rates
    ]
    assert means[1] == pytest.approx(geometric_mean(by_chains), abs=0.005)
    assert means[0] > means[1]
    assert min(rates.values()) >= 1
    wide = specplan(f"{line} --batch 1..96").json  # every tree is slower than plain decoding at 96
    assert wide["stack"]["settings"]["speculative_adaptive"] is True
    assert "the tree is faster at 1, 2, 4" in next(note for note in wide["notes"] if "chains by batch" in note)


@pytest.mark.parametrize("batches", ["1,8,64", "8..64", "64,8"])
def test_batches_with_gaps_are_lengths_of_all_batches(specplan, tmp_path, batches):
    path = tmp_path / "plan.json"
    specplan(f"plan {DEVICE} --method eagle3 --p 0.7 --batch {batches} --stack vllm --out {path}")
    settings = json.loads(path.read_text())["stack"]["settings"]
    ranges = settings["num_speculative_tokens_per_batch_size"]
    assert [ranges[0][0], ranges[-1][1]] == [1, 64]
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(ranges))
    assert specplan(f"export {path} --to vllm --json").json["settings"] == settings


@pytest.mark.parametrize("served", ["sglang", "trtllm", "llamacpp", "vllm", "eagle"])
def test_a_plan_of_several_batches_exports_to_the_settings_that_it_prints(specplan, tmp_path, served):
    path = tmp_path / "plan.json"
    specplan(f"plan {DEVICE} --method eagle3 --p 0.7 --batch 1..32 --budget 24 --stack {served} --out {path}")
    said = json.loads(path.read_text())["stack"]["settings"]
    assert specplan(f"export {path} --to {served} --json").json["settings"] == said
