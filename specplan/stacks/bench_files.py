"""What benchmark programs of the serving stacks measured: shape, batch, tokens per round, times.

    vllm bench serve           JSON       sglang.bench_serving        JSON, one object a line
    bench_speculative.py       JSON lines bench_eagle3.py (SpecForge) JSON
    speed-bench (llama.cpp)    JSON       Spec-Bench                  JSON lines
    a table of a sweep         CSV: batch, k, tokens_per_s, tau; also round_s, tpot_s (or with _ms)

A round's time that is not stated is the time per output token times the tokens of a round.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..base.errors import InputError
from ..base.files import parse_json, read_text
from ..search.space import Dynamic
from .measured import Measured
from .reading import number, objects_with

COLUMNS = ("batch", "k", "tokens_per_s", "tau", "round_s", "tpot_s", "round_ms", "tpot_ms")


def read_bench(path: str) -> list[Measured]:
    """Every measurement in a file.

    Raises  InputError for a file that none of the programs writes.
    """
    return bench_of(read_text(path), where=path)


def bench_of(text: str, *, where: str) -> list[Measured]:
    """Every measurement in a text.

    >>> bench_of("batch,k,tokens_per_s,tau\\n4,3,500,2.4\\n", where="sweep.csv")[0].round_s
    0.0192
    """
    if text.lstrip()[:1] not in ("{", "["):
        return _table(text, where)
    data = _lines_or_one(text, where)
    for read in READERS:
        found = list(read(data, where))
        if found:
            return [_completed(one) for one in found]
    programs = "vllm bench serve, sglang.bench_serving, bench_speculative.py, SpecForge, speed-bench, Spec-Bench"
    raise InputError(f"{where}: no measurement in it", hint=f"a result of {programs}, or a CSV of a sweep")


def _lines_or_one(text: str, where: str) -> Any:
    """One JSON document, or one a line."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.lstrip()[:1] == "{" and line.rstrip()[-1:] == "}" for line in lines):
        return [parse_json(line, where=f"{where}:{i}") for i, line in enumerate(lines, 1)]
    return parse_json(text, where=where)


def _completed(one: Measured) -> Measured:
    """With the round's time where tokens per second and tokens per round give it, or the other way round."""
    from dataclasses import replace

    tau = 1.0 if one.k == 0 else one.tau
    batch = one.batch or 1
    if one.round_s is None and tau is not None and one.tokens_per_s and one.batch is not None:
        one = replace(one, round_s=batch * tau / one.tokens_per_s)
    if one.tokens_per_s is None and tau is not None and one.round_s and one.batch is not None:
        one = replace(one, tokens_per_s=batch * tau / one.round_s)
    return one


def _whole(entry: Mapping[str, Any], *keys: str) -> int | None:
    value = number(entry, *keys)
    return int(value) if value is not None and float(value).is_integer() else None


# ---- vLLM and SGLang


def _vllm(data: Any, where: str) -> Iterator[Measured]:
    """`vllm bench serve --save-result`: per-position rates say K; without speculation there are none."""
    for entry in objects_with(data, "output_throughput", "mean_tpot_ms"):
        if "accept_length" in entry:
            continue
        tau = number(entry, "spec_decode_acceptance_length")
        rates = entry.get("spec_decode_per_position_acceptance_rates")
        yield _served(entry, where, tau, len(rates) if rates else (0 if tau is None else None))


def _sglang(data: Any, where: str) -> Iterator[Measured]:
    """`sglang.bench_serving`: accept_length is null without speculation."""
    for entry in objects_with(data, "output_throughput", "accept_length"):
        if "metrics" in entry or "latency" in entry:
            continue
        tau = number(entry, "accept_length")
        info = next(objects_with(entry, "speculative_num_steps"), {})
        note = () if tau is None else ("the accept length is the server's mean since it started, not of this run",)
        yield _served(entry, where, tau, 0 if tau is None else _whole(info, "speculative_num_steps"), note)


def _served(
    entry: Mapping[str, Any], where: str, tau: float | None, k: int | None, notes: tuple[str, ...] = ()
) -> Measured:
    """A run against a server: mean time per output token, throughput of the whole run."""
    tpot = number(entry, "mean_tpot_ms", "median_tpot_ms")
    batch = _whole(entry, "max_concurrency", "concurrency")
    if batch is None:
        notes = (*notes, f"{where}: the number of requests at a time is not stated: taken as the plan's batch")
    return Measured(
        where,
        k=k,
        batch=batch,
        tau=tau,
        round_s=None if tpot is None else tpot / 1000 * (1.0 if tau is None else tau),
        tokens_per_s=number(entry, "output_throughput"),
        notes=(*notes, "the throughput is of the whole run, prefills included; the round's time is of the decoding"),
    )


def _grid(data: Any, where: str) -> Iterator[Measured]:
    """`bench_speculative.py`: step_time and acc_length by batch and shape; steps 0 or null is plain decoding."""
    for entry in objects_with(data, "batch_size", "step_time"):
        yield Measured(
            where,
            **_shape(entry),
            batch=_whole(entry, "batch_size"),
            tau=number(entry, "acc_length"),
            round_s=number(entry, "step_time"),
        )


def _specforge(data: Any, where: str) -> Iterator[Measured]:
    """`bench_eagle3.py`: rows by batch and shape, each with runs."""
    for entry in objects_with(data, "batch_size", "metrics"):
        runs = (
            [run for run in entry["metrics"] if isinstance(run, Mapping)] if isinstance(entry["metrics"], list) else []
        )
        lengths = [value for run in runs if (value := number(run, "accept_length"))]
        speeds = [value for run in runs if (value := number(run, "output_throughput"))]
        if runs:
            yield Measured(
                where,
                **_shape(entry),
                batch=_whole(entry, "batch_size"),
                tau=_mean(lengths),
                tokens_per_s=_mean(speeds),
            )


def _shape(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Steps, topk and draft tokens; the root is one of the tokens."""
    steps, topk, tokens = (_whole(entry, key) or 0 for key in ("steps", "topk", "num_draft_tokens"))
    if not steps or not topk:
        return {"k": 0}
    return {"k": steps} if topk == 1 else {"dynamic": Dynamic(steps, topk, tokens - 1)}


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


# ---- llama.cpp and Spec-Bench


def _speed_bench(data: Any, where: str) -> Iterator[Measured]:
    """llama.cpp's speed-bench: the timings of all samples, or the row of all categories."""
    if not isinstance(data, Mapping) or "summary" not in data:
        return
    config = data.get("config")
    batch = (_whole(config, "concurrency") if isinstance(config, Mapping) else None) or 1
    timings = list(objects_with(data.get("results"), "predicted_n", "predicted_ms"))
    generated = math.fsum(number(entry, "predicted_n") or 0 for entry in timings)
    seconds = math.fsum(number(entry, "predicted_ms") or 0 for entry in timings) / 1000
    accepted = math.fsum(number(entry, "draft_n_accepted") or 0 for entry in timings)
    drafted = any(number(entry, "draft_n") for entry in timings)
    if seconds and generated > accepted:
        tau = generated / (generated - accepted)
        yield Measured(
            where,
            k=None if drafted else 0,
            batch=batch,
            tau=tau if drafted else None,
            round_s=seconds / (generated - accepted),
            notes=("rounds are generated - accepted tokens: every round emits one token of its own",),
        )
        return
    for row in objects_with(data["summary"], "accept_rate"):
        speed = next((row[key] for key in row if key.startswith("avg_pred") and number(row, key)), None)
        if "overall" in row.values() and speed:
            plain = number(row, "accept_rate") is None
            yield Measured(where, k=0 if plain else None, batch=batch, tokens_per_s=batch * float(speed))


def _spec_bench(data: Any, where: str) -> Iterator[Measured]:
    """Spec-Bench: tokens, seconds and accepted lengths of every answer; one sequence at a time."""
    choices = list(objects_with(data, "new_tokens", "wall_time", "accept_lengths"))
    tokens, seconds, lengths = (
        [value for choice in choices for value in _numbers(choice[key])]
        for key in ("new_tokens", "wall_time", "accept_lengths")
    )
    if not seconds or math.fsum(seconds) <= 0:
        return
    tau = _mean(lengths)
    plain = tau is None or max(lengths) <= 1
    yield Measured(
        where,
        k=0 if plain else None,
        batch=1,
        tau=None if plain else tau,
        tokens_per_s=math.fsum(tokens) / math.fsum(seconds),
        notes=("the times of Spec-Bench's answers hold the prefill too",),
    )


def _numbers(given: Any) -> list[float]:
    flat = given if isinstance(given, list) else []
    return [float(value) for part in flat for value in (part if isinstance(part, list) else [part]) if _real(value)]


def _real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


READERS: tuple[Callable[[Any, str], Iterator[Measured]], ...] = (
    _speed_bench,
    _specforge,
    _grid,
    _vllm,
    _sglang,
    _spec_bench,
)


# ---- a sweep's table


def _table(text: str, where: str) -> list[Measured]:
    rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline=""), skipinitialspace=True))
    names = [name.strip() for name in rows[0] if name] if rows else []
    unknown = [name for name in names if name not in COLUMNS]
    if not rows or "k" not in names or unknown or len(names) < 2:
        said = f"column {unknown[0][:30]!r} is not known" if unknown and "k" in names else "no table of measurements"
        raise InputError(f"{where}: {said}", hint="columns batch,k,tokens_per_s,tau (also round_s, tpot_s, or in _ms)")
    return [_completed(_row(row, f"{where}:{i}")) for i, row in enumerate(rows, 2)]


def _row(row: Mapping[str, Any], where: str) -> Measured:
    values = {str(name).strip(): _cell(value, str(name), where) for name, value in row.items() if name}
    k = values.get("k")
    if k is None or not k.is_integer() or k < 0:
        raise InputError(f"{where}: k {row.get('k')!r} is no whole number from 0", hint="0 is plain decoding")
    batch = values.get("batch")
    if batch is not None and (not batch.is_integer() or batch < 1):
        raise InputError(f"{where}: batch {row.get('batch')!r} is no whole number from 1", hint="sequences at a time")
    tau = values.get("tau")
    tpot = _seconds(values, "tpot")
    round_s = _seconds(values, "round")
    if round_s is None and tpot is not None:
        round_s = tpot if k == 0 else None if tau is None else tpot * tau
    return Measured(
        where,
        k=int(k),
        batch=1 if batch is None else int(batch),
        tau=tau if k else None,
        round_s=round_s,
        tokens_per_s=values.get("tokens_per_s"),
    )


def _seconds(values: Mapping[str, float | None], name: str) -> float | None:
    in_ms = values.get(f"{name}_ms")
    return values.get(f"{name}_s") if in_ms is None else in_ms / 1000


def _cell(value: Any, name: str, where: str) -> float | None:
    if value is None or not str(value).strip():
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found) or found < 0:
        raise InputError(f"{where}: {name} {str(value)[:30]!r} is no number from 0", hint="leave a cell empty")
    return found
