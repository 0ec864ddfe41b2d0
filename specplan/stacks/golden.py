"""InferenceX's golden acceptance lengths: a YAML file of one model, its modes, and tokens per round by K."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..acceptance.kinds import to_number
from ..base.errors import InputError
from .reading import Asked, Reading

# How such a file is told from other YAML.
MARK = re.compile(r"^[ \t]+[\"']?thinking_\w+[\"']?\s*:", re.MULTILINE)
_TEMPERATURE = re.compile(r"^#.*\btemperature: *(\d+(?:\.\d+)?)", re.MULTILINE)
_DATASET = re.compile(r"^# *dataset: *([^|\n]{1,80})", re.MULTILINE)


def golden(data: Any, asked: Asked) -> Reading | None:
    """`{MODEL: {thinking_on: {1: 1.84, 2: 2.51}, thinking_off: {...}}}`; every K is a run of its own.

    Raises  InputError where there are several modes and --served names none.

    >>> golden({"m": {"thinking_on": {1: 1.84, 3: 3.01}}}, Asked()).by_k
    {1: 1.84, 3: 3.01}
    """
    if not isinstance(data, Mapping) or not data:
        return None
    if not all(isinstance(modes, Mapping) and any("thinking" in str(m) for m in modes) for modes in data.values()):
        return None
    curves = {f"{model}/{mode}": curve for model, modes in data.items() for mode, curve in modes.items()}
    name = _chosen(curves, asked.served)
    curve = curves[name]
    if not isinstance(curve, Mapping) or not curve or not all(str(k).isdigit() for k in curve):
        raise InputError(f"{name} is no table of lengths by K", hint="write K: length, such as 3: 2.51")
    lengths = {int(str(k)): to_number(_number(value), f"{name}[{k}]") for k, value in curve.items()}
    return Reading(
        "inferencex-golden",
        f"published lengths of {name}, bonus token included; every K is a run of its own",
        by_k=lengths,
        per_k=True,
        served=asked.served,
    )


def _chosen(curves: Mapping[str, Any], served: str | None) -> str:
    found = [name for name in curves if served is None or served in (name, *name.rsplit("/", 1))]
    if len(found) == 1:
        return found[0]
    modes = ", ".join(curves)[:200]
    if not found:
        raise InputError(f"no curve {str(served)[:60]!r} in the file", hint=f"there: {modes}")
    raise InputError(
        f"{len(found)} curves in the file: {modes}", hint=f"--served {found[0].rsplit('/', 1)[1]} takes one"
    )


def _number(value: Any) -> Any:
    """The file may quote its numbers."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def conditions(text: str) -> dict[str, Any]:
    """What the comments at the top say of the run: temperature and data set.

    >>> conditions("# dataset: coding | temperature: 1.0 | output_len: 4096")
    {'temperature': 1.0, 'workload': 'coding'}
    """
    temperature, dataset = _TEMPERATURE.search(text), _DATASET.search(text)
    found: dict[str, Any] = {"temperature": float(temperature[1])} if temperature else {}
    return found | ({"workload": dataset[1].strip()} if dataset else {})
