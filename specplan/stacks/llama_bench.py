"""What llama-bench prints (JSON, JSON lines, CSV or its table), as measured width curves.

A prompt of n tokens (pp) that fits one micro-batch is one pass of width n; generation (tg) is passes of width 1.
Prompts longer than the micro-batch run in several passes and are left out, as are tests that mix both (pg).

Source  ggml-org/llama.cpp, tools/llama-bench (fields n_prompt, n_gen, n_depth, n_ubatch, avg_ns, avg_ts).
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import InputError
from ..base.files import parse_json
from ..hardware.profile import Curve
from ..models.spec import FORMATS
from ..timing.measured import curve_of

MICRO_BATCH = 512
"""llama-bench's default for --ubatch-size; its table leaves a column out where the default holds."""

STORED = {"all f32": "fp32", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "mxfp4": "mxfp4"}


@dataclass(frozen=True, slots=True)
class Bench:
    """A file of llama-bench.

    curves   one for each model, dtype and depth that has a width-1 test
    device   the GPU's name, or the CPU's, as the file has it; None where it does not say or names several
    models   the names of the models, by number of weights
    notes    what was left out, and why
    """

    curves: tuple[Curve, ...]
    device: str | None
    models: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Test:
    model: str
    params: float
    prompt: int
    generated: int
    depth: int
    micro_batch: int
    seconds: float
    device: str | None


def read_llama_bench(text: str, *, where: str, model: str | None = None, dtype: str | None = None) -> Bench:
    """The curves of a llama-bench file, in any of its output formats.

    model   name to record in place of the number of weights, where the file has one model
    dtype   in place of the one that the file names
    Raises  InputError naming the row, or saying that no curve can be made.

    >>> import json
    >>> rows = [dict(model_type="llama 7B Q4_0", model_n_params=6738415616, n_prompt=n, n_gen=g, avg_ns=ns, n_depth=0)
    ...     for n, g, ns in ((0, 128, 1024e6), (8, 0, 12e6))]
    >>> [(p.width, p.ms) for p in read_llama_bench(json.dumps(rows), where="x.json").curves[0].points]
    [(1, 8.0), (8, 12.0)]
    """
    tests = [_test(row, f"{where}:{line}") for line, row in _rows(text, where)]
    if not tests:
        raise InputError(
            f"{where}: no tests of llama-bench", hint="llama-bench -o json -p 1,2,4,8,16,32 -n 32 > bench.json"
        )
    notes, groups = [], defaultdict[tuple[str, float, int], dict[int, float]](dict)
    skipped = [test for test in tests if not _is_pass(test)]
    if skipped:
        notes.append(
            f"{len(skipped)} of {len(tests)} tests left out: prompts over a micro-batch, or mixed with generation"
        )
    for test in sorted(filter(_is_pass, tests), key=lambda test: test.prompt > 0):
        # A prompt of one token comes last and replaces generation, which is the same pass.
        groups[test.model, test.params, test.depth][max(1, test.prompt)] = test.seconds / max(1, test.generated)
    models = tuple(dict.fromkeys(test.model for test in tests))
    if model is not None and len(models) > 1:
        raise InputError(f"{where}: has {len(models)} models: {', '.join(models)[:80]}", hint="leave --model out")
    curves = []
    for (name, params, depth), times in groups.items():
        kind = dtype or stored_as(name, where)
        if 1 not in times or len(times) < 2:
            notes.append(f"{name} at depth {depth}: no curve without a width of 1 and one more (-n 32 -p 2,4,8)")
            continue
        load = {"model": model, "params": None if model else params, "dtype": kind, "context": depth}
        curves.append(curve_of(sorted(times), [times[width] for width in sorted(times)], **load))
    if not curves:
        raise InputError(f"{where}: no curve: {notes[-1]}", hint="llama-bench -o json -p 1,2,4,8,16,32 -n 32")
    devices = {test.device for test in tests if test.device}
    notes.append("llama-bench computes logits for the last token of a prompt alone: verification computes all of them")
    return Bench(tuple(curves), devices.pop() if len(devices) == 1 else None, models, tuple(notes))


def _is_pass(test: _Test) -> bool:
    if test.prompt and test.generated:
        return False
    return test.generated > 0 if not test.prompt else test.prompt <= test.micro_batch


def stored_as(model: str, where: str) -> str:
    """The dtype in a model's description.

    >>> [stored_as(model, "x") for model in ("qwen2 7B Q4_K - Medium", "llama 7B mostly Q4_0", "llama 1B BF16")]
    ['q4_k', 'q4_0', 'bf16']
    """
    text = model.casefold()
    word: str
    for word in (*re.findall(r"i?q\d\w*", text)[::-1], *text.split()[::-1]):
        found = STORED.get(word, word)
        if found in FORMATS:
            return found
    raise InputError(f"{where}: the dtype of {model[:60]!r} is not known here", hint="say it: --dtype q4_k")


# -- rows -------------------------------------------------------------------------------------------------------------


def _rows(text: str, where: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    start = text.lstrip()[:1]
    if start == "[":
        data = parse_json(text, where=where)
        yield from ((index, row) for index, row in enumerate(data, start=1) if isinstance(row, dict))
    elif start == "{":
        for line, part in enumerate(text.splitlines(), start=1):
            if part.strip():
                row = parse_json(part, where=f"{where}:{line}")
                yield line, row if isinstance(row, dict) else {}
    elif re.search(r"^\s*\|\s*model\s*\|", text, re.MULTILINE):
        yield from _table(text)
    else:
        yield from ((line, row) for line, row in _csv(text) if "n_prompt" in row)


def _csv(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if "\0" in text:
        return
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if "n_prompt" in line and "avg_ns" in line), len(lines))
    reader = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    yield from ((start + reader.line_num, row) for row in reader)


def _table(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows of the table that llama-bench prints by default, in the words of its other formats."""
    names: list[str] = []
    for line, part in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in part.strip().strip("|").split("|")]
        if not part.strip().startswith("|") or set(part) <= set("|-: \t"):
            continue
        if cells[0] == "model":
            names = cells
        elif names and len(cells) == len(names):
            yield line, _from_table(dict(zip(names, cells)))


def _from_table(cells: Mapping[str, str]) -> dict[str, Any]:
    test = re.fullmatch(r"(?:pp\s*(\d+))?\s*\+?\s*(?:tg\s*(\d+))?(?:\s*@\s*d\s*(\d+))?", cells.get("test", ""))
    speed = re.match(r"\s*([\d.]+)", cells.get("t/s", ""))
    params = re.fullmatch(r"([\d.]+)\s*([MBT])", cells.get("params", ""))
    prompt, generated, depth = (int(part or 0) for part in test.groups()) if test else (0, 0, 0)
    scale = {"M": 1e6, "B": 1e9, "T": 1e12}
    rate = float(speed[1]) if speed else 0.0
    return {
        "model_type": cells["model"],
        "model_n_params": float(params[1]) * scale[params[2]] if params else None,
        "n_prompt": prompt,
        "n_gen": generated,
        "n_depth": depth,
        "n_ubatch": cells.get("n_ubatch") or MICRO_BATCH,
        "avg_ns": (prompt + generated) / rate * 1e9 if rate else None,
    }


def _test(row: Mapping[str, Any], where: str) -> _Test:
    seconds = _number(row, "avg_ns", where) / 1e9
    if not seconds > 0:
        raise InputError(f"{where}: avg_ns {row.get('avg_ns')!r} is not above 0", hint="leave the row out")
    prompt, generated = (int(_number(row, key, where)) for key in ("n_prompt", "n_gen"))
    return _Test(
        model=str(row.get("model_type") or "?"),
        params=_number(row, "model_n_params", where),
        prompt=prompt,
        generated=generated,
        depth=int(_number(row, "n_depth", where, otherwise=0)),
        micro_batch=int(min(_number(row, key, where, otherwise=MICRO_BATCH) for key in ("n_ubatch", "n_batch"))),
        seconds=seconds,
        device=str(row.get("gpu_info") or row.get("cpu_info") or "") or None,
    )


def _number(row: Mapping[str, Any], key: str, where: str, *, otherwise: float | None = None) -> float:
    value = row.get(key)
    if value in (None, "") and otherwise is not None:
        return otherwise
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < 1e30:
        hint = "give llama-bench's own output: -o json, jsonl, csv or md"
        raise InputError(f"{where}: {key} {str(value)[:40]!r} is not a number", hint=hint)
    return number
