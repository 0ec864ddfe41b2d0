"""What a serving engine adds to a device's kernels: the host's time, its own kernels, how it reads the cache.

Engines differ more than devices do. `hardware/_engines.yaml` holds one block an engine; every figure in it
has a source. `roofline.PassTimer` takes an `Engine`, or None when it is not known; then a time is an
interval over the engines here (`roofline.interval`).

    >>> load_engine("vllm").title
    'vLLM'
    >>> load_engine("TensorRT-LLM").name
    'tensorrt-llm'
"""

import re
from collections.abc import Iterable
from dataclasses import field
from functools import cache
from typing import Annotated, Any

from ..base.errors import InputError, did_you_mean
from ..base.records import Limits, Quantity, Record
from ..base.units import parse_time

Time = Annotated[float, Limits(ge=0), Quantity(parse_time, "a time")]
Ratio = Annotated[float, Limits(gt=0, le=4)]
Rows = Annotated[int, Limits(ge=1, le=1024)]


class Engine(Record):
    """One serving engine. Times in seconds.

    per_pass, per_draft_pass   of the host, for a pass of the target and of a draft, whatever its size
    per_layer                  on the device, beside the profile's `overhead.per_layer`
    launch_per_layer           of the host where kernels are launched one by one: a pass lasts at least that for each
                               layer; 0 where graphs are replayed
    per_sequence               of the host, for each sequence of the batch
    memory                     by kind of device ("any" for the rest), then by stored weights (w16, w8, w4): what its
                               matrix kernels reach of the bandwidth, relative to the profile's own share
    attention                  by kind of device: the same for reading the cache
    latency                    by stored weights: what each matrix kernel costs beside, in place of the profile's
    exponent                   where its matrix kernels are its own: how bytes and FLOP combine, in place of the
                               profile's exponent, tile and steps
    vector_rows                rows up to which kernels for vectors multiply quantised weights: they read them once, and
                               each row after the first takes its FLOP outside the matrix units
    vector                     by kind of device, then by stored weights: what those kernels reach of the fp32 peak;
                               weights without an entry are multiplied as the profile says
    matrix_tile                by kind of device: rows that the matrix kernels above `vector_rows` round up to
    per_verification           of the host, for a pass over several tokens a sequence (acceptance, cache, next draft),
                               beside the profile's `overhead.per_round`; not in a knee
    per_verified_sequence      of the host, for each sequence of such a pass
    cache_per_query_head       True where attention reads a KV head once for each query head that shares it
    splits_cache               whether verification attention splits the cache over the chip: True, False, or None
                               for what the profile's own measurement says
    error                      relative error at the 90th percentile, on the benchmark's checked rows
    assumed                    True where no row of the benchmark was measured on it
    serves                     False for what one would not serve with today: an old version, a demonstration
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    per_pass: Time
    per_draft_pass: Time
    per_layer: Time = 0.0
    launch_per_layer: Time = 0.0
    per_sequence: Time = 0.0
    memory: dict[str, dict[str, Ratio]] = field(default_factory=dict)
    latency: dict[str, Time] = field(default_factory=dict)
    exponent: Annotated[float, Limits(ge=1, le=100)] | None = None
    vector_rows: Rows = 1
    vector: dict[str, dict[str, Ratio]] = field(default_factory=dict)
    matrix_tile: dict[str, Rows] = field(default_factory=dict)
    per_verification: Time = 0.0
    per_verified_sequence: Time = 0.0
    attention: dict[str, Ratio] = field(default_factory=dict)
    cache_per_query_head: bool = False
    splits_cache: bool | None = None
    error: Annotated[float, Limits(gt=0, le=1)]
    assumed: bool = False
    serves: bool = True
    sources: dict[str, str] = field(default_factory=dict)
    notes: str = ""

    def memory_ratio(self, kind: str, bits: float) -> float:
        """What this engine's kernels for weights of so many stored bits reach, relative to the profile's share.

        >>> load_engine("vllm").memory_ratio("gpu", 16)
        1.0
        """
        of_kind = self.memory.get(kind) or self.memory.get("any", {})
        return of_kind.get(stored_class(bits), 1.0)

    def vector_share(self, kind: str, bits: float) -> float | None:
        """What its kernels for few rows of such weights reach of the fp32 peak; None where it has none for them.

        >>> load_engine("vllm").vector_share("gpu", 4.5) is None
        True
        """
        of_kind = self.vector.get(kind) or self.vector.get("any", {})
        return of_kind.get(stored_class(bits))

    def attention_ratio(self, kind: str) -> float:
        """What its attention kernel reaches of the bandwidth, relative to the profile's share."""
        return self.attention.get(kind, self.attention.get("any", 1.0))


def stored_class(bits: float) -> str:
    """The kind of weights that share kernels: by stored bits, scales included.

    >>> [stored_class(bits) for bits in (16, 8.5, 4.25)]
    ['w16', 'w8', 'w4']
    """
    return "w16" if bits > 9 else "w8" if bits > 6 else "w4"


def load_engine(name: str) -> Engine:
    """The engine of that name or alias; case, blanks and underscores do not count.

    Raises  InputError with the known names.
    """
    key = _key(name)
    if key is not None:
        return _engine(key)
    blocks = _blocks()
    known = ", ".join(blocks)
    raise InputError(
        f"unknown engine {name[:60]!r}",
        hint=did_you_mean(_plain(name), blocks, otherwise=f"known: {known}; or leave it out"),
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().casefold())


def _key(name: str) -> str | None:
    """The engine's own name of a name or an alias, None where there is none."""
    wanted = _plain(name)
    blocks = _blocks().items()
    return next(
        (key for key, text in blocks if wanted == key or wanted in re.findall(r"[\w.+-]+", _aliases_line(text))), None
    )


def engine_of(names: Iterable[str]) -> Engine | None:
    """The engine known by one of a stack's names; None where no constants of it are known.

    >>> engine_of(("trtllm", "tensorrt-llm")).title
    'TensorRT-LLM'
    >>> engine_of(("medusa",)) is None
    True
    """
    key = next((key for name in names if (key := _key(name)) is not None), None)
    return None if key is None else _engine(key)


def engine_names() -> list[str]:
    """Names of the engines in the table, in its order.

    >>> "vllm" in engine_names()
    True
    """
    return list(_blocks())


@cache
def _engine(name: str) -> Engine:
    from .load import trusted

    return trusted(Engine, f"name: {name}\n{_blocks()[name]}", where="hardware/_engines.yaml")


@cache
def _blocks() -> dict[str, str]:
    """The text under each engine's name, two blanks taken off; parsed only when that engine is asked for."""
    from .load import folder

    text = (folder() / "_engines.yaml").read_text(encoding="utf-8")
    found = re.findall(r"^  ([\w.+-]+):\n((?:    .*\n|\n)+)", text + "\n", re.MULTILINE)
    return {name: re.sub(r"^    ", "", block, flags=re.MULTILINE) for name, block in found}


def _aliases_line(block: str) -> str:
    line: Any = re.search(r"^aliases: \[(.*)\]", block, re.MULTILINE)
    return line[1].casefold() if line else ""
