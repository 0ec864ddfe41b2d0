"""Bytes from weight files: the headers of safetensors and GGUF, never the weights.

Geometry comes from a config (or from GGUF metadata), bytes from the files. A packed 4-bit tensor counts as
the bytes it takes; its elements are never taken for parameters.

Formats: safetensors, README of the huggingface/safetensors repository; GGUF, docs/gguf.md of ggml-org/ggml.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeGuard

from ..base.errors import InputError
from .huggingface.config import read_config
from .spec import FORMATS, ModelSpec, WeightFormat

MAX_HEADER = 100_000_000
MAX_ENTRIES = 1_000_000
MAX_ARRAY = 100_000_000
MAX_STRING = 10_000_000
MAX_DIMS = 8

# Bits per element of the safetensors dtypes.
DTYPE_BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16}
DTYPE_BITS |= {"U16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4}

# ggml's tensor types: number -> (name, weights in a block, bytes of a block). Source: ggml.h and ggml-common.h.
GGML_TYPES = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    2: ("q4_0", 32, 18),
    3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24),
    8: ("q8_0", 32, 34),
    9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84),
    11: ("q3_k", 256, 110),
    12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210),
    15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136),
    24: ("i8", 1, 1),
    25: ("i16", 1, 2),
    26: ("i32", 1, 4),
    27: ("i64", 1, 8),
    28: ("f64", 1, 8),
    29: ("iq1_m", 256, 56),
    30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    39: ("mxfp4", 32, 17),
}

# Model classes by the `general.architecture` of llama.cpp, where the names differ.
ARCHITECTURES = {
    "command-r": "cohere",
    "deepseek2": "deepseek_v2",
    "gemma3": "gemma3_text",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox",
    "granitemoe": "granitemoe",
    "llama4": "llama4_text",
    "phi2": "phi",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "qwen35": "qwen3_5",
    "qwen35moe": "qwen3_5_moe",
}

# Fields of a config by GGUF key, which `general.architecture` precedes.
GGUF_FIELDS = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "sliding_window": "attention.sliding_window",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "n_shared_experts": "expert_shared_count",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "first_k_dense_replace": "leading_dense_block_count",
    "interleave_moe_layer_step": "interleave_moe_layer_step",
    "kv_lora_rank": "attention.kv_lora_rank",
    "q_lora_rank": "attention.q_lora_rank",
    "hidden_size_per_layer_input": "embedding_length_per_layer_input",
    "altup_num_inputs": "altup.num_inputs",
    "num_kv_shared_layers": "attention.shared_kv_layers",
    "num_nextn_predict_layers": "nextn_predict_layers",
    "full_attention_interval": "full_attention_interval",
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "linear_key_head_dim": "ssm.state_size",
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
}

# Parts of tensor names by group, first match wins; the last component of a norm or a bias goes to `other`.
_HF_GROUPS = (
    ("mtp.", "mtp"),
    ("shared_expert_gate", "router"),
    ("shared_expert", "shared_experts"),
    ("experts.", "experts"),
    ("mlp.gate.", "router"),
    ("block_sparse_moe.gate.", "router"),
    ("router", "router"),
    ("lm_head", "head"),
    ("output_layer", "head"),
    ("embed_out", "head"),
    ("embed", "embedding"),
    ("per_layer", "mlp"),
    ("altup", "mlp"),
    ("laurel", "mlp"),
    ("wte.", "embedding"),
    ("wpe.", "embedding"),
    ("attn", "attention"),
    ("attention", "attention"),
    ("mamba", "attention"),
    ("mixer", "attention"),
    ("conv", "attention"),
    ("mlp", "mlp"),
    ("feed_forward", "mlp"),
    ("ffn", "mlp"),
)
_GGUF_GROUPS = (
    ("token_embd", "embedding"),
    ("position_embd", "embedding"),
    ("ffn_gate_inp", "router"),
    ("_exps", "experts"),
    ("_shexp", "shared_experts"),
    ("attn", "attention"),
    ("ssm", "attention"),
    ("shortconv", "attention"),
    ("ffn", "mlp"),
    ("per_layer", "mlp"),
    ("inp_gate", "mlp"),
    (".proj.", "mlp"),
    ("altup", "mlp"),
    ("laurel", "mlp"),
    ("nextn", "mtp"),
    ("output.weight", "head"),
)
_NOT_LANGUAGE = ("vision", "visual", "multi_modal_projector", "mm_projector", "audio", "image_newline")


@dataclass(frozen=True, slots=True)
class Stored:
    """What weight files hold for the language model.

    bytes_by_group   stored bytes by tensor group, scales and zero points with their weights
    bytes_by_dtype   the same by the files' own dtype names
    plain_params     elements of the tensors in 16 or 32 bits
    missing          files that an index lists and that are not there
    layers           layers of the largest stack that the names of the tensors number, 0 when they number none
    """

    bytes_by_group: Mapping[str, float]
    bytes_by_dtype: Mapping[str, float]
    plain_params: int
    missing: tuple[str, ...] = ()
    layers: int = 0

    @property
    def total_bytes(self) -> float:
        return sum(self.bytes_by_group.values())


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of a header."""

    name: str
    dtype: str
    elements: int
    nbytes: float


# ---- safetensors


def read_safetensors(folder: Path, *, layers: int | None = None) -> Stored:
    """Stored bytes of the safetensors in a directory, from their headers.

    layers   decoder layers of the model; tensors of layers beyond are of multi-token prediction
    Files that an index lists are taken when there is one, else `model*.safetensors`, else all; a tensor
    that two files hold counts once. Vision and audio towers are left out.
    Raises  InputError that names the file and what is wrong with its header.
    """
    files, missing = safetensors_files(folder)
    tensors: dict[str, Tensor] = {}
    for file in files:
        for tensor in safetensors_header(file):
            tensors.setdefault(tensor.name, tensor)
    kept = [t for t in tensors.values() if not any(part in t.name for part in _NOT_LANGUAGE)]
    return _stored(kept, _HF_GROUPS, missing, layers=layers)


def safetensors_files(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The files that make up the model, and those that the index lists in vain."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        from .load import read_json

        listed = read_json(index).get("weight_map")
        if not isinstance(listed, dict):
            _bad(index, "holds no 'weight_map'")
        names = sorted({str(name) for name in listed.values()})
        inside = [name for name in names if Path(name).name == name]
        return [folder / n for n in inside if (folder / n).is_file()], tuple(
            n for n in names if n not in inside or not (folder / n).is_file()
        )
    named = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    return named, ()


def safetensors_header(path: Path) -> list[Tensor]:
    """The tensors of one safetensors file.

    Raises  InputError when the header is truncated, too long, no JSON, or points outside the file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if len(start) < 8:
                _bad(path, f"is {len(start)} bytes long, too short for a safetensors header")
            length = int.from_bytes(start, "little")
            if length > MAX_HEADER or length > size - 8:
                _bad(path, f"says its header has {length} bytes; the file has {size}, and at most 100 MB are read")
            text = file.read(length)
    except OSError as error:
        _bad(path, error.strerror or "cannot be read")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        _bad(path, f"has a header that is not JSON: {str(error)[:80]}")
    if not isinstance(header, dict):
        _bad(path, "has a header that is no mapping")
    return [_tensor(path, name, entry, size - 8 - length) for name, entry in header.items() if name != "__metadata__"]


def _tensor(path: Path, name: str, entry: Any, data_bytes: int) -> Tensor:
    """One header entry, checked against the size of the data."""
    shown = repr(name[:60])
    if not isinstance(entry, dict):
        _bad(path, f"tensor {shown} has no description")
    shape, offsets, dtype = entry.get("shape"), entry.get("data_offsets"), entry.get("dtype")
    if not _whole_numbers(shape) or not _whole_numbers(offsets) or len(offsets) != 2 or not isinstance(dtype, str):
        _bad(path, f"tensor {shown} has no usable dtype, shape and data_offsets")
    first, last = offsets
    if not first <= last <= data_bytes:
        _bad(path, f"tensor {shown} lies at bytes {first} to {last} of {data_bytes}: the file is truncated or damaged")
    elements = _product(shape)
    bits = DTYPE_BITS.get(dtype)
    if bits is not None and elements * bits != (last - first) * 8:
        _bad(path, f"tensor {shown} has {elements} elements of {dtype} in {last - first} bytes")
    return Tensor(name, dtype, elements, float(last - first))


def _whole_numbers(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value)


def _product(sizes: Iterable[int]) -> int:
    """The product of sizes; 0 wherever one is 0."""
    total = 1
    for size in sizes:
        total = min(total * size, 2**63)
    return total


def _stored(
    tensors: Iterable[Tensor],
    groups: tuple[tuple[str, str], ...],
    missing: tuple[str, ...] = (),
    *,
    layers: int | None = None,
) -> Stored:
    """The sums over a list of tensors."""
    by_group: dict[str, float] = {}
    by_dtype: dict[str, float] = {}
    stacks: dict[str, tuple[float, int]] = {}
    plain = 0
    for tensor in tensors:
        stack, layer = _layer_of(tensor.name)
        nbytes, count = stacks.get(stack, (0.0, 0))
        stacks[stack] = (nbytes + tensor.nbytes, max(count, layer + 1))
        group = "mtp" if _is_beyond(tensor.name, layers) else _group_of(tensor.name, groups)
        by_group[group] = by_group.get(group, 0.0) + tensor.nbytes
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0.0) + tensor.nbytes
        plain += tensor.elements if group != "mtp" and tensor.dtype in ("F16", "BF16", "F32") else 0
    numbered = [value for value in stacks.values() if value[1]]
    return Stored(by_group, by_dtype, plain, missing, max(numbered, default=(0.0, 0))[1])


def _layer_of(name: str) -> tuple[str, int]:
    """The stack of layers that a tensor belongs to, and its number there; -1 when its name has none.

    >>> _layer_of("model.layers.7.mlp.experts.3.up_proj.weight"), _layer_of("blk.2.attn_q.weight"), _layer_of("wte")
    (('model.layers', 7), ('blk', 2), ('', -1))
    """
    found = re.match(r"((?:[^.]+\.){0,8}?(?:layers|blk|h|blocks))\.(\d{1,6})\.", name)
    return (found[1], int(found[2])) if found else ("", -1)


def _is_beyond(name: str, layers: int | None) -> bool:
    """Whether a tensor belongs to a layer past the decoder's last."""
    return layers is not None and _layer_of(name)[1] >= layers


def _group_of(name: str, groups: tuple[tuple[str, str], ...]) -> str:
    """The tensor group that a name belongs to.

    >>> _group_of("model.layers.0.self_attn.q_proj.qweight", _HF_GROUPS)
    'attention'
    """
    if "norm" in name or name.endswith((".bias", "_bias", "sinks", "A_log", "ssm_a", "ssm_d")):
        return "mtp" if name.startswith("mtp.") else "other"
    return next((group for part, group in groups if part in name), "other")


def check_layers(model: ModelSpec, stored: Stored, *, where: str, holder: str) -> None:
    """Refuses weight files of another model than the config's, as the numbers of their layers tell.

    where    the file that describes the model
    holder   what holds the weights, with its verb, for the message
    Layers past the last are allowed where the config has multi-token prediction. Nothing is checked when
    files are missing, or when the tensors number no layers.
    Raises   InputError that names both.
    """
    held, said = stored.layers, model.layers
    if stored.missing or not held or held == said or (held > said and model.mtp_params):
        return
    raise InputError(
        f"{where}: describes {said} layers, {holder} {held}",
        hint="give the config and the files of one model; prediction layers need num_nextn_predict_layers",
    )


def with_file_bytes(model: ModelSpec, stored: Stored) -> ModelSpec:
    """The same model with the bits per weight that its files really take, by tensor group.

    Counts stay those of the geometry. Groups that the files do not hold keep the config's format. All do, and that
    is said, when files are missing, when they hold no tensors, or another number of weights than the geometry has.
    """
    doubt = _doubt(model, stored)
    if doubt:
        text = f"{doubt}: bytes come from the geometry, not from the files"
        return replace(model, assumptions=(*model.assumptions, (text, "weight files")))
    params, found = _params_by_group(model), dict(stored.bytes_by_group)
    if model.tied and "head" not in found and "embedding" in found:
        found["head"] = found.pop("embedding")
    formats = dict(model.formats)
    for group, count in params.items():
        bits = 8 * found.get(group, 0.0) / count
        if 0.5 <= bits <= 64:
            formats[group] = replace(model.format_of(group), bits=bits)
    text = f"bytes of the weights from the files: {stored.total_bytes / 1e9:.4g} GB"
    return replace(model, formats=formats, assumptions=(*model.assumptions, (text, "weight files")))


def _doubt(model: ModelSpec, stored: Stored) -> str:
    """Why the bytes of these files are not those of the model; empty when they are."""
    if stored.missing:
        is_or_are = "files are" if len(stored.missing) > 1 else "file is"
        return f"{len(stored.missing)} weight {is_or_are} missing ({stored.missing[0][:60]})"
    if not stored.bytes_by_dtype:
        return f"the weight files hold no tensors ({model.formats['default'].name} is assumed)"
    packed = set(stored.bytes_by_dtype) - {"F16", "BF16", "F32"}
    if packed or abs(stored.plain_params - model.params_total) <= 0.01 * model.params_total:
        return ""
    return f"the weight files hold {stored.plain_params:,} weights, the config describes {model.params_total:,}"


def _params_by_group(model: ModelSpec) -> dict[str, int]:
    """Weights by the groups that `ModelSpec.weight_bytes_by_group` uses."""
    counts = {"embedding": model.embedding_params, "other": model.other_params}
    for linear in model.linears:
        counts[linear.group] = counts.get(linear.group, 0) + linear.params_total
    return {group: count for group, count in counts.items() if count > 0}


# ---- GGUF


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata and tensors of one GGUF file; long arrays are kept as their length alone."""

    metadata: Mapping[str, Any]
    lengths: Mapping[str, int]
    tensors: tuple[tuple[Tensor, tuple[int, ...]], ...]


# Names in GGUF of the sizes that `_gguf_heads` derives from more than one of them.
_DERIVED_FIELDS = {
    "v_head_dim": "attention.value_length",
    "qk_rope_head_dim": "rope.dimension_count",
    "qk_nope_head_dim": "attention.key_length_mla",
    "linear_value_head_dim": "ssm.inner_size",
}


def _gguf_labels(architecture: str) -> dict[str, str]:
    """What a GGUF file of that architecture calls the fields of a config."""
    return {field: f"{architecture[:40]}.{key}" for field, key in {**GGUF_FIELDS, **_DERIVED_FIELDS}.items()}


def read_gguf(path: Path, *, dtype: str | None = None) -> ModelSpec:
    """The model in a GGUF file: geometry from its metadata, bytes from its tensor types.

    path     the file, or the first of a split model, whose other parts must lie beside it
    dtype    every weight in this dtype, whatever the file holds
    Raises   InputError that names the file and what is wrong with its header, or that its data ends early.
    """
    header, tensors, config = gguf_contents(path)
    labels = _gguf_labels(str(header.metadata["general.architecture"]))
    model = read_config(config, name=path.stem, dtype=dtype or "fp16", where=str(path), labels=labels)
    stored = _stored((t for t, _ in tensors), _GGUF_GROUPS, layers=model.layers)
    check_layers(model, stored, where=str(path), holder="its tensors are of")
    if dtype is not None:
        return model
    return with_file_bytes(replace(model, formats=_gguf_formats([t for t, _ in tensors])), stored)


def gguf_contents(path: Path) -> tuple[GgufHeader, list[tuple[Tensor, tuple[int, ...]]], dict[str, Any]]:
    """The header, the tensors of all parts with their shapes, and the metadata in the words of a `config.json`."""
    header = gguf_header(path)
    parts = (header, *map(gguf_header, gguf_parts(path, header)[1:]))
    tensors = [tensor for part in parts for tensor in part.tensors]
    return header, tensors, _gguf_config(path, header, tensors)


def gguf_header(path: Path) -> GgufHeader:
    """The header of one GGUF file, version 2 or 3.

    Raises  InputError when it is truncated, its data included, absurd, or of another version.
    """
    try:
        with path.open("rb") as file:
            return _Gguf(path, file, path.stat().st_size).header()
    except OSError as error:
        _bad(path, error.strerror or "cannot be read")


# Size and struct code of the scalar value types; 8 is a string, 9 an array. Source: docs/gguf.md.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_KEPT_ARRAY = 65_536


@dataclass(frozen=True, slots=True)
class _Gguf:
    """Reads a GGUF header in order; every length is checked against what is left of the file."""

    path: Path
    file: BinaryIO
    size: int

    def header(self) -> GgufHeader:
        if self.take(4) != b"GGUF":
            _bad(self.path, "is not a GGUF file (no magic 'GGUF')")
        version = self.scalar("<I")
        if version not in (2, 3):
            _bad(self.path, f"has GGUF version {version}; 2 and 3 are read, little-endian")
        tensors, pairs = self.bounded("tensors"), self.bounded("metadata entries")
        metadata: dict[str, Any] = {}
        lengths: dict[str, int] = {}
        for _ in range(pairs):
            key, kind = self.string(), self.scalar("<I")
            metadata[key], lengths[key] = self.value(key, kind)
        entries = [self.tensor() for _ in range(tensors)]
        self.check_data(entries, metadata.get("general.alignment", 32))
        return GgufHeader(metadata, lengths, tuple((tensor, shape) for tensor, shape, _ in entries))

    def check_data(self, entries: list[tuple[Tensor, tuple[int, ...], int]], alignment: Any) -> None:
        """Every tensor must end inside the file; offsets count from the end of the header, rounded up."""
        if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
            _bad(self.path, f"metadata 'general.alignment' is {str(alignment)[:40]}, not a number of bytes")
        start = -(-self.file.tell() // alignment) * alignment
        for tensor, _, offset in entries:
            if start + offset + tensor.nbytes > self.size:
                what = f"tensor {tensor.name[:60]!r} ends past the last of {self.size} bytes"
                _bad(self.path, f"{what}: the file is truncated or damaged")

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            _bad(self.path, f"ends inside its header, at byte {self.size}")
        return data

    def scalar(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def bounded(self, what: str) -> int:
        count = int(self.scalar("<Q"))
        if count > MAX_ENTRIES:
            _bad(self.path, f"says it has {count} {what}; at most {MAX_ENTRIES} are read")
        return count

    def string(self) -> str:
        length = int(self.scalar("<Q"))
        if length > MAX_STRING or length > self.size:
            _bad(self.path, f"has a string of {length} bytes; at most {MAX_STRING} are read")
        return self.take(length).decode("utf-8", errors="replace")

    def value(self, key: str, kind: int) -> tuple[Any, int]:
        """A metadata value, and its length when it is an array; the contents of long arrays are skipped."""
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind]), 0
        if kind == 8:
            return self.string(), 0
        if kind != 9:
            _bad(self.path, f"metadata {key[:60]!r} has the unknown type {kind}")
        inner, count = self.scalar("<I"), int(self.scalar("<Q"))
        if count > MAX_ARRAY or count > self.size or inner == 9 or (inner not in _SCALARS and inner != 8):
            _bad(self.path, f"metadata {key[:60]!r} is an array of {count} entries of type {inner}")
        return self.array(inner, count), count

    def array(self, inner: int, count: int) -> list[Any] | None:
        if inner == 8:
            for _ in range(count):
                self.string()
            return None
        code = _SCALARS[inner]
        if count > _KEPT_ARRAY:
            self.take_long(count * struct.calcsize(code))
            return None
        return list(struct.unpack(f"<{count}{code[1]}", self.take(count * struct.calcsize(code))))

    def take_long(self, count: int) -> None:
        if self.file.tell() + count > self.size:
            _bad(self.path, f"ends inside its header, at byte {self.size}")
        self.file.seek(count, 1)

    def tensor(self) -> tuple[Tensor, tuple[int, ...], int]:
        """One entry, its shape, and where its data begins."""
        name, dims = self.string(), int(self.scalar("<I"))
        if dims > MAX_DIMS:
            _bad(self.path, f"tensor {name[:60]!r} has {dims} dimensions")
        shape = tuple(int(self.scalar("<Q")) for _ in range(dims))
        kind, offset = int(self.scalar("<I")), int(self.scalar("<Q"))
        if kind not in GGML_TYPES:
            _bad(self.path, f"tensor {name[:60]!r} has the unknown type {kind}")
        dtype, block, nbytes = GGML_TYPES[kind]
        elements = _product(shape)
        if elements >= 2**62:
            _bad(self.path, f"tensor {name[:60]!r} has an absurd shape")
        return Tensor(name, dtype, elements, elements / block * nbytes), shape, offset


def gguf_parts(path: Path, header: GgufHeader) -> list[Path]:
    """The files of a model, this one first: one, or all of a split model."""
    count = header.metadata.get("split.count", 0)
    if not isinstance(count, int) or not 1 < count <= 10_000:
        return [path]
    stem, mark, _ = path.stem.rpartition("-00001-of-")
    if not mark:
        _bad(path, f"is one of {count} parts, not the first")
    return [path, *(path.with_name(f"{stem}-{n:05d}-of-{count:05d}.gguf") for n in range(2, count + 1))]


def _gguf_config(path: Path, header: GgufHeader, tensors: list[tuple[Tensor, tuple[int, ...]]]) -> dict[str, Any]:
    """The metadata in the words of a `config.json`."""
    architecture = header.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        _bad(path, "has no metadata 'general.architecture'")
    config = {
        field: header.metadata[f"{architecture}.{key}"]
        for field, key in GGUF_FIELDS.items()
        if header.metadata.get(f"{architecture}.{key}") is not None
    }
    experts = config.get("num_experts")
    known = "mixtral" if architecture == "llama" and experts else ARCHITECTURES.get(architecture, architecture)
    names = {tensor.name for tensor, _ in tensors}
    config |= {"model_type": known, "tie_word_embeddings": "output.weight" not in names}
    config |= _gguf_vocab(header, tensors) | _gguf_heads(header.metadata, architecture, config)
    if not experts:
        config.pop("num_experts", None)
    cached = config.get("num_key_value_heads")
    if isinstance(cached, list) and 0 in cached:
        other = "conv" if architecture.startswith("lfm2") else "linear_attention"
        config["layer_types"] = ["full_attention" if heads else other for heads in cached]
    if "n_shared_experts" in config and "shared_expert_intermediate_size" in config:
        config.pop("n_shared_experts")
    spare = config.get("num_nextn_predict_layers")
    layers = config.get("num_hidden_layers")
    if isinstance(spare, int) and isinstance(layers, int) and 0 < spare < layers:
        config["num_hidden_layers"] = layers - spare
    if any(name.endswith("exp_probs_b.bias") or name.endswith("exp_probs_b") for name in names):
        config["topk_method"] = "noaux_tc"
    return config


def _gguf_vocab(header: GgufHeader, tensors: list[tuple[Tensor, tuple[int, ...]]]) -> dict[str, Any]:
    """Vocabulary size: rows of the embedding, which may be padded, else the number of tokens."""
    rows = next((shape[1] for tensor, shape in tensors if tensor.name == "token_embd.weight" and len(shape) == 2), None)
    count = rows or header.lengths.get("tokenizer.ggml.tokens")
    return {"vocab_size": count} if count else {}


def _gguf_heads(metadata: Mapping[str, Any], architecture: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Head sizes: GGUF writes latent attention by its full keys, Qwen3-Next's state by its inner size."""
    found: dict[str, Any] = {}
    value = metadata.get(f"{architecture}.attention.value_length")
    rope = metadata.get(f"{architecture}.rope.dimension_count")
    if "kv_lora_rank" in config:
        key = metadata.get(f"{architecture}.attention.key_length_mla", config.get("head_dim"))
        value = metadata.get(f"{architecture}.attention.value_length_mla", value)
        if isinstance(key, int) and isinstance(rope, int):
            found |= {"qk_nope_head_dim": key - rope, "qk_rope_head_dim": rope}
        found |= {"v_head_dim": value, "num_key_value_heads": config.get("num_attention_heads")}
    elif isinstance(value, int) and value != config.get("head_dim"):
        found["v_head_dim"] = value
    inner, heads = metadata.get(f"{architecture}.ssm.inner_size"), config.get("linear_num_value_heads")
    if isinstance(inner, int) and isinstance(heads, int) and heads > 0:
        found["linear_value_head_dim"] = inner // heads
    return found


def _gguf_formats(tensors: list[Tensor]) -> dict[str, WeightFormat]:
    """The format of each tensor group: that of most of its bytes."""
    groups: dict[str, dict[str, float]] = {}
    for tensor in tensors:
        sizes = groups.setdefault(_group_of(tensor.name, _GGUF_GROUPS), {})
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0.0) + tensor.nbytes
    formats = {group: _gguf_format(max(sizes, key=lambda name: sizes[name])) for group, sizes in groups.items()}
    if "head" not in formats and "embedding" in formats:
        formats["head"] = formats["embedding"]
    return {"default": FORMATS["fp16"], **formats}


def _gguf_format(name: str) -> WeightFormat:
    """The format of a ggml type; block types without a row of their own are multiplied as q4_k is."""
    known = {"f32": "fp32", "f16": "fp16"}.get(name, name)
    if known in FORMATS:
        return FORMATS[known]
    bits = next(8 * size / block for label, block, size in GGML_TYPES.values() if label == name)
    return replace(FORMATS["q4_k"], name=name, bits=bits)


def _bad(path: Path, what: str) -> NoReturn:
    raise InputError(f"{path}: {what}", hint="give a complete weight file, or a config.json with --dtype")
