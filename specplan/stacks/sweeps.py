"""The few settings around a plan that are worth measuring, as the stacks' own sweepers take them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..base.errors import DoesNotFit
from ..base.tree import TokenTree
from ..search.space import Dynamic
from .capability import Capability, Stack
from .export import Exported, export
from .sources import Source
from .writing import named

# Lengths tried beside the planned one; batches between two borders need no more than their ends.
BESIDE = (-1, 0, 1)


def sweep(source: Source, stack: Stack, capability: Capability, version: str, **wanted: Any) -> Exported:
    """Settings to measure: plain decoding, the planned shape, and one step shorter and longer, at each batch.

    vLLM    --serve-params and --bench-params of `vllm bench sweep serve`
    SGLang  batch,steps,topk,tokens for SpecForge's bench_eagle3.py --config-list

    Raises  DoesNotFit for stacks without a sweeper that is known here.
    """
    to = f"{stack.name}@{version}"
    planned = export(source, to=to, **wanted)
    batches = _batches(source)
    if stack.name == "vllm":
        files, command = _vllm(source, planned, to, batches, wanted)
    elif stack.name == "sglang":
        files, command = _sglang(source, planned, batches, wanted)
    else:
        raise DoesNotFit(f"{stack.name}: no sweeper is known that takes a list", hint="vllm and sglang have one")
    return replace(planned, files=files, command=command, settings={}, environment={}, schedule=())


def _batches(source: Source) -> list[int]:
    """The first batch and the last one of every range, or the one of the plan."""
    if not source.schedule:
        return [source.batch]
    return sorted({source.schedule[0].first, *(entry.last for entry in source.schedule)})


def lengths_around(k: int, most: int | None = None) -> list[int]:
    """The planned length with its neighbours; plain decoding is apart.

    >>> lengths_around(4), lengths_around(1)
    ([3, 4, 5], [1, 2])
    """
    return [k + step for step in BESIDE if k + step >= 1 and (most is None or k + step <= most)]


def _planned_lengths(source: Source, planned: Exported) -> list[int]:
    """Every length of the plan with its neighbours."""
    planned_lengths = {entry.k for entry in source.schedule} or {planned.depth}
    return sorted({length for k in planned_lengths if k for length in lengths_around(k)})


def _vllm(
    source: Source, planned: Exported, to: str, batches: Sequence[int], wanted: dict[str, Any]
) -> tuple[dict[str, str], str]:
    served: dict[str, Any] = {"plain": {}}
    for k in _planned_lengths(source, planned):
        chain = Source(TokenTree.chain(k), method=source.method, draft=source.draft, model=source.model)
        served[f"k{k}"] = {"speculative_config": dict(export(chain, to=to, **wanted).settings)}
    if planned.schedule:
        served["schedule"] = {"speculative_config": dict(planned.settings)}
    benched = {f"batch{batch}": {"max_concurrency": batch, "num_prompts": max(8 * batch, 32)} for batch in batches}
    files = {"serve_params.json": _json(served), "bench_params.json": _json(benched)}
    model = named(wanted.get("model") or source.model, "MODEL")
    command = (
        f"vllm bench sweep serve --serve-cmd {shlex.quote(f'vllm serve {model}')} "
        f"--bench-cmd {shlex.quote(f'vllm bench serve --model {model} --save-result')} "
        "--serve-params serve_params.json --bench-params bench_params.json --output-dir results"
    )
    return files, command


def _sglang(
    source: Source, planned: Exported, batches: Sequence[int], wanted: dict[str, Any]
) -> tuple[dict[str, str], str]:
    at = planned.dynamic or Dynamic(planned.depth, 1, planned.nodes)
    shapes = [Dynamic(k, 1, k) for k in _planned_lengths(source, planned)]
    if at.topk > 1:
        # Beside the chains of its depth: the planned tree, one level less, half its nodes.
        less = Dynamic(max(at.steps - 1, 1), at.topk, 0)
        pool = less.topk + (less.steps - 1) * less.topk**2
        shapes += [at, replace(less, nodes=min(at.nodes, pool)), replace(at, nodes=max(at.nodes // 2, at.steps))]
    rows = [(0, 0, 0), *dict.fromkeys((s.steps, s.topk, s.nodes + 1) for s in shapes)]
    lines = [f"{batch},{steps},{topk},{tokens}" for batch in batches for steps, topk, tokens in rows]
    model = named(wanted.get("model") or source.model, "MODEL")
    draft = named(wanted.get("draft") or source.draft, "DRAFT")
    command = (
        f"python bench_eagle3.py --model-path {model} --speculative-draft-model-path {draft} "
        f"--config-list {' '.join(lines)} --benchmark-list mtbench:80"
    )
    return {"config_list.txt": "\n".join(lines) + "\n"}, command


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"
