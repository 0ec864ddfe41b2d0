"""Checked access to the fields of a `config.json`, by any of their names.

A field is looked up under several names, the first that is present and not null counts. Every value
is checked before use: a wrong type, a negative or an absurd number is an `InputError` that names it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...base.errors import InputError

# Above any published model, low enough that a hostile file costs no memory.
MAX_LAYERS = 10_000
MAX_COUNT = 100_000_000

# Where multimodal configs keep the language model. Sources: transformers, and the remote code of the
# InternVL (llm_config), DeepSeek-VL (language_config), Qwen-Omni (thinker_config) and Kimi families.
SUB_CONFIGS = ("text_config", "llm_config", "language_config", "language_model", "decoder", "thinker_config")
# What such configs may keep at the top although it belongs to the language model.
INHERITED = ("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype", "vocab_size")


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields that describe the language model, and where they come from.

    values   the language model's own mapping, with what it inherits from the top
    where    the file or model, for messages
    nested   whether it was found below the top
    labels   what a field is called in a file that is no config.json (GGUF), for messages
    """

    values: Mapping[str, Any]
    where: str
    nested: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    def raw(self, *names: str) -> tuple[str, Any] | None:
        """The first of `names` that is present and not null; `a.b` looks into the mapping `a`."""
        for name in names:
            value: Any = self.values
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if value is not None:
                return name, value
        return None

    def says(self, name: str) -> bool:
        """Whether the field is there at all, null included."""
        return name in self.values

    def whole(self, *names: str, default: int | None = None, least: int = 0, most: int = MAX_COUNT) -> int | None:
        """A whole number, or `default` when none of the names is there."""
        found = self.raw(*names)
        return default if found is None else self._whole(found[0], found[1], least, most)

    def count(self, *names: str, default: int = 0, least: int = 0, most: int = MAX_COUNT) -> int:
        """A whole number that has a default."""
        value = self.whole(*names, least=least, most=most)
        return default if value is None else value

    def need(self, *names: str, most: int = MAX_COUNT) -> int:
        """A whole number of at least 1 that must be there.

        Raises  InputError that names the field and its other names.
        """
        value = self.whole(*names, least=1, most=most)
        if value is None:
            self.missing(*names)
        return value

    def label(self, name: str) -> str:
        """What the file calls a field; an index behind it is kept."""
        stem, bracket, index = name.partition("[")
        return self.labels.get(stem, stem) + bracket + index

    def missing(self, *names: str) -> NoReturn:
        if self.labels:
            self._metadata(names[0], "is missing")
        others = f"it may also be called {', '.join(names[1:])}; " if names[1:] else ""
        raise InputError(
            f"{self.where}: required field {names[0]!r} is missing",
            hint=f"{others}add it to the config, or describe the model with --params and --layers",
        )

    def entry(self, index: int, *names: str) -> Any:
        """The entry of layer `index` in a list that must have one for every layer; None when there is no list."""
        listed, found = self.items(*names), self.raw(*names)
        if listed is None or found is None:
            return None
        if index >= len(listed):
            self.wrong(found[0], f"has {len(listed)} entries, layer {index} needs one")
        return listed[index]

    def per_layer(self, index: int, *names: str, default: int = 0, least: int = 0) -> int:
        """A whole number that may be given once or as a list by layer."""
        found = self.raw(*names)
        if found is None:
            return default
        name, value = found
        if isinstance(value, (list, tuple)):
            if index >= len(value):
                self.wrong(name, f"has {len(value)} entries, layer {index} needs one")
            return self._whole(f"{name}[{index}]", value[index], least, MAX_COUNT)
        return self._whole(name, value, least, MAX_COUNT)

    def number(self, *names: str, default: float) -> float:
        """A finite number of at least 0."""
        found = self.raw(*names)
        if found is None:
            return default
        name, value = found
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1e9:
            self.wrong(name, f"is {_short(value)}, not a number from 0 to 1e9")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A boolean; 0 and 1 count."""
        found = self.raw(*names)
        if found is None:
            return default
        name, value = found
        if not isinstance(value, (bool, int)) or value not in (0, 1):
            self.wrong(name, f"is {_short(value)}, not true or false")
        return bool(value)

    def text(self, *names: str) -> str:
        """A string, or the empty string."""
        found = self.raw(*names)
        if found is None:
            return ""
        if not isinstance(found[1], str):
            self.wrong(found[0], f"is {_short(found[1])}, not text")
        return str(found[1])

    def items(self, *names: str) -> Sequence[Any] | None:
        """A list of at most `MAX_COUNT` entries, or None; a comma-separated string counts as one."""
        found = self.raw(*names)
        if found is None or isinstance(found[1], (bool, int, float)):
            return None
        name, value = found
        if isinstance(value, str) and "," in value:
            return [int(part) if part.strip().isdigit() else part for part in value.split(",")]
        if not isinstance(value, (list, tuple)):
            self.wrong(name, f"is {_short(value)}, not a list")
        return value

    def group(self, *names: str) -> Mapping[str, Any] | None:
        """A mapping, or None."""
        found = self.raw(*names)
        if found is None:
            return None
        if not isinstance(found[1], Mapping):
            self.wrong(found[0], f"is {_short(found[1])}, not a mapping")
        return found[1]

    def wrong(self, name: str, what: str) -> NoReturn:
        if self.labels:
            self._metadata(name, what)
        raise InputError(f"{self.where}: {name!r} {what}", hint="correct the field in the model's config")

    def _metadata(self, name: str, what: str) -> NoReturn:
        hint = "give a complete model file, or the model's config.json with --dtype"
        raise InputError(f"{self.where}: metadata {self.label(name)!r} {what}", hint=hint)

    def _whole(self, name: str, value: Any, least: int, most: int) -> int:
        exact = isinstance(value, int) and not isinstance(value, bool)
        if not exact and not (isinstance(value, float) and math.isfinite(value) and value == int(value)):
            self.wrong(name, f"is {_short(value)}, not a whole number")
        if not least <= value <= most:
            self.wrong(name, f"is {_short(value)}, outside {least} to {most}")
        return int(value)


def _short(value: Any) -> str:
    """`value` for a message, bounded in length."""
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number above 1e18"
    if isinstance(value, (list, tuple, Mapping)):
        return f"a {'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def language_fields(config: Mapping[str, Any], where: str) -> Fields:
    """The fields of the language model in `config`, however deep it is nested.

    The nested mapping wins over the top, whose `num_hidden_layers` may be the vision tower's.

    >>> language_fields({"text_config": {"hidden_size": 64}, "hidden_size": 1}, "x").values["hidden_size"]
    64
    """
    if not isinstance(config, Mapping):
        text = f"{where}: the config is {_short(config)}, not a mapping"
        raise InputError(text, hint="give the fields of a config.json")
    values, nested = dict(config), False
    for _ in range(8):
        inner = next((values[key] for key in SUB_CONFIGS if isinstance(values.get(key), Mapping) and values[key]), None)
        if inner is None:
            break
        inherited = {key: values[key] for key in INHERITED if values.get(key) is not None}
        values, nested = {**inherited, **inner}, True
    return Fields(values, where, nested)
