"""The answers of `specplan models`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.units import show_bytes, show_count
from ..models.spec import ModelSpec
from .output import Answer, Table, answer_of


def list_answer(models: Mapping[str, ModelSpec]) -> Answer:
    """Name, parameters, bytes and cache of every bundled model."""
    rows = [
        (
            name,
            show_count(m.params_total),
            show_count(m.params_active),
            show_bytes(m.weight_bytes),
            m.formats["default"].name,
            show_bytes(m.kv_bytes_per_token),
            str(m.layers),
        )
        for name, m in models.items()
    ]
    keys = {"models": [model_keys(m) | {"name": name} for name, m in models.items()]}
    return answer_of(
        "models.list",
        verdict=f"{len(models)} models; specplan models show NAME prints one, --model PATH takes your own.",
        inputs={},
        keys=keys,
        parts=[Table(("name", "parameters", "active", "weights", "dtype", "KV a token", "layers"), rows)],
    )


def model_keys(model: ModelSpec) -> dict[str, Any]:
    """A model as the JSON document has it."""
    from ..models.load import describe

    return describe(model)


def show_answer(model: ModelSpec) -> Answer:
    """Counts, bytes by tensor group, cache, geometry."""
    keys = model_keys(model)
    keys.pop("assumptions", None)
    counts = [
        ("parameters", f"{model.params_total:,}"),
        ("active a token (core and head)", f"{model.params_active:,}"),
        ("streamed when every expert is", f"{model.params_streamed:,}"),
        ("weights", show_bytes(model.weight_bytes)),
        ("KV cache a token", f"{model.kv_bytes_per_token:,.0f} B"),
        ("of it without a window", f"{model.kv_bytes_per_token_growing:,.0f} B"),
    ]
    if model.state_bytes:
        counts.append(("recurrent state a sequence", show_bytes(model.state_bytes)))
    if model.mtp_params:
        counts.append(("prediction layers, not counted above", f"{model.mtp_params:,}"))
    groups = [
        (group, show_bytes(size), f"{size / model.weight_bytes:.1%}", model.format_of(group).name)
        for group, size in model.weight_bytes_by_group().items()
    ]
    geometry = [
        (key.replace("_", " "), str(value))
        for key, value in keys["geometry"].items()
        if not isinstance(value, (list, dict))
    ]
    return answer_of(
        "models.show",
        verdict=f"{model.name}: {show_count(model.params_total)} parameters in {show_bytes(model.weight_bytes)}, "
        f"{show_bytes(model.kv_bytes_per_token)} of cache a token.",
        inputs={"name": model.name},
        keys=keys,
        parts=[
            Table(("", ""), counts),
            Table(("group", "bytes", "share", "dtype"), groups),
            Table(("geometry", ""), geometry),
        ],
        assumptions=model.assumptions,
    )
