"""Weights from safetensors and GGUF into our decoder. Pickled checkpoints are not opened.

Names and shapes are checked before anything is read, so that the wrong file is named with the tensor that is wrong.
GGUF blocks are dequantised; where the file pairs neighbouring dimensions for rotary positions (llama.cpp does so for
architecture `llama`), the rows of q and k are put back into the half-split order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..base.errors import InputError
from ..measure import need
from ..models.load import read_json
from ..models.weights import gguf_contents, gguf_parts, safetensors_files
from .decoder import Decoder, DecoderConfig, Layer, frequencies_for

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# Names in GGUF of a layer's tensors, and of the three beside the layers.
_GGUF_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GGUF_TOP = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
_GGUF_TOP["lm_head.weight"] = "output.weight"


@dataclass(frozen=True)
class Source:
    """Tensors by name, and the config that says what they should be.

    shapes   of every tensor, by its name in the file
    read     name in the file -> tensor in the file's own dtype
    rename   name as in a Hugging Face model without its prefix -> name in the file
    """

    where: str
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]
    rename: Callable[[str], str]
    interleaved: bool = False

    def has(self, name: str) -> bool:
        return self.rename(name) in self.shapes

    def get(self, name: str, *shape: int) -> Tensor:
        """The tensor, its shape checked.

        Raises  InputError that names the tensor and both shapes.
        """
        stored = self.rename(name)
        if stored not in self.shapes:
            raise InputError(
                f"{self.where}: tensor {stored!r} is missing",
                hint="are all files of the model there, and of this config?",
            )
        found = self.shapes[stored]
        if found != shape:
            raise InputError(
                f"{self.where}: tensor {stored!r} is {_by(found)}, the config describes {_by(shape)}",
                hint="the config and the weights must be of one model",
            )
        return self.read(stored)


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single number"


def torch_dtype(name: str) -> torch.dtype:
    """The dtype of that name.

    Raises  InputError with the known ones.

    >>> torch_dtype("bf16")
    torch.bfloat16
    """
    if name not in DTYPES:
        raise InputError(f"dtype {name[:20]!r} is not one to decode in", hint=f"one of {', '.join(DTYPES)}")
    return DTYPES[name]


def load_decoder(path: str, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Decoder:
    """The decoder in a directory with `config.json` and safetensors, in one such file beside it, or in a GGUF file.

    Raises  InputError that names what is missing or does not fit; EnvironmentProblem when a reader is not installed.
    """
    file = find_model(path)
    source = _gguf_source(file) if file.suffix == ".gguf" else _safetensors_source(file)
    return _assembled(source, dtype, device)


def find_model(path: str) -> Path:
    """The GGUF file, or the directory or file of safetensors, that a path means. Pickles are refused by name."""
    place = Path(path)
    try:
        is_folder, is_file = place.is_dir(), place.is_file()
    except (OSError, ValueError):
        is_folder = is_file = False
    if not is_folder and not is_file:
        raise InputError(
            f"{path[:200]}: no such file or directory", hint="a directory with safetensors, or a .gguf file"
        )
    if is_file:
        if place.suffix in (".gguf", ".safetensors"):
            return place
        _refuse(path, [place])
    if any(place.glob("*.safetensors")) or (place / "model.safetensors.index.json").is_file():
        return place
    models = sorted(place.glob("*.gguf"))
    if len(models) == 1 or (models and "-00001-of-" in models[0].name):
        return models[0]
    if models:
        raise InputError(f"{path}: holds {len(models)} GGUF files", hint=f"name one of them, such as {models[0].name}")
    _refuse(path, sorted(place.iterdir()))


def _refuse(path: str, files: list[Path]) -> NoReturn:
    pickled = next((file.name for file in files if file.suffix in PICKLED), None)
    if pickled is not None:
        raise InputError(
            f"{path}: {pickled} is a pickled checkpoint, which can run code when it is opened",
            hint="convert it to safetensors; safetensors and GGUF are read",
        )
    raise InputError(f"{path}: holds no weights", hint="safetensors (with config.json) and GGUF are read")


# ---- the two formats


def _safetensors_source(place: Path) -> Source:
    need("torch", "safetensors")
    from safetensors import SafetensorError, safe_open

    folder = place if place.is_dir() else place.parent
    files, missing = safetensors_files(folder) if place.is_dir() else ([place], ())
    if missing:
        raise InputError(
            f"{folder}: {missing[0][:80]} is listed in the index and not there", hint="fetch the whole model"
        )
    opened: dict[str, Any] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            handle: Any = safe_open(str(file), framework="pt")
        except (SafetensorError, OSError) as error:
            raise InputError(f"{file}: not readable: {str(error)[:80]}", hint="fetch the file again") from None
        for name in handle.keys():  # noqa: SIM118 - a handle is no mapping
            opened[name] = handle
            shapes[name] = tuple(handle.get_slice(name).get_shape())
    embedding = next((name for name in shapes if name.endswith("embed_tokens.weight")), "model.embed_tokens.weight")
    prefix = embedding.removesuffix("embed_tokens.weight")

    def rename(name: str) -> str:
        return name if name == "lm_head.weight" else prefix + name

    config = read_json(folder / "config.json")
    return Source(str(place), config, shapes, lambda name: opened[name].get_tensor(name), rename)


def _gguf_source(path: Path) -> Source:
    need("torch", "gguf")
    import gguf

    header, described, config = gguf_contents(path)
    metadata = header.metadata
    architecture = str(metadata["general.architecture"])
    config = {**config, "rope_scaling": _gguf_scaling(metadata, architecture)}
    turned = metadata.get(f"{architecture}.rope.dimension_count")
    if turned is not None and turned != config.get("head_dim", turned):
        config["partial_rotary_factor"] = turned / config["head_dim"]
    tensors = {tensor.name: tensor for part in gguf_parts(path, header) for tensor in gguf.GGUFReader(part).tensors}

    def read(name: str) -> Tensor:
        tensor = tensors[name]
        try:
            return torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        except NotImplementedError:
            kind = tensor.tensor_type.name
            raise InputError(f"{path}: {name} is stored as {kind}", hint="this type is not dequantised here") from None

    def rename(name: str) -> str:
        if not name.startswith("layers."):
            return _GGUF_TOP.get(name, name)
        _, layer, rest = name.split(".", 2)
        stem, _, leaf = rest.rpartition(".")
        return f"blk.{layer}.{_GGUF_LAYER[stem]}.{leaf}"

    # GGUF lists the fastest dimension first.
    shapes = {tensor.name: tuple(reversed(shape)) for tensor, shape in described}
    return Source(str(path), config, shapes, read, rename, interleaved=architecture == "llama")


def _gguf_scaling(metadata: Mapping[str, Any], architecture: str) -> Mapping[str, Any] | None:
    kind = metadata.get(f"{architecture}.rope.scaling.type", "none")
    if kind == "none":
        return None
    return {"rope_type": kind, "factor": metadata.get(f"{architecture}.rope.scaling.factor")}


# ---- into the decoder


def _assembled(source: Source, dtype: torch.dtype, device: torch.device | str) -> Decoder:
    config = DecoderConfig.from_hf(source.config, where=source.where)

    def get(name: str, *shape: int) -> Tensor:
        return source.get(name, *shape).to(device=device, dtype=dtype)

    def rows(name: str, heads: int, *inputs: int) -> Tensor:
        """The rows of q or k in half-split order."""
        found = get(name, heads * config.head_dim, *inputs)
        return half_split(found, heads) if source.interleaved else found

    def projections(stem: str, kind: str, *inputs: int) -> Tensor:
        return torch.cat(
            (
                rows(f"{stem}.q_proj.{kind}", config.heads, *inputs),
                rows(f"{stem}.k_proj.{kind}", config.kv_heads, *inputs),
                get(f"{stem}.v_proj.{kind}", config.kv_heads * config.head_dim, *inputs),
            )
        )

    def layer(index: int) -> Layer:
        stem, attention = f"layers.{index}", f"layers.{index}.self_attn"
        mlp = (config.intermediate, config.hidden)
        return Layer(
            attention_norm=get(f"{stem}.input_layernorm.weight", config.hidden),
            qkv=projections(attention, "weight", config.hidden),
            o=get(f"{attention}.o_proj.weight", config.hidden, config.heads * config.head_dim),
            mlp_norm=get(f"{stem}.post_attention_layernorm.weight", config.hidden),
            gate_up=torch.cat((get(f"{stem}.mlp.gate_proj.weight", *mlp), get(f"{stem}.mlp.up_proj.weight", *mlp))),
            down=get(f"{stem}.mlp.down_proj.weight", config.hidden, config.intermediate),
            qkv_bias=projections(attention, "bias") if config.qkv_bias else None,
            o_bias=get(f"{attention}.o_proj.bias", config.hidden) if config.o_bias else None,
            q_norm=get(f"{attention}.q_norm.weight", config.head_dim) if config.qk_norm else None,
            k_norm=get(f"{attention}.k_norm.weight", config.head_dim) if config.qk_norm else None,
        )

    embedding = get("embed_tokens.weight", config.vocab, config.hidden)
    tied = config.tied or (source.interleaved and not source.has("lm_head.weight"))
    head = embedding if tied else get("lm_head.weight", config.vocab, config.hidden)
    stack = tuple(layer(index) for index in range(config.layers))
    norm = get("norm.weight", config.hidden)
    frequencies = frequencies_for(config, dtype, device)
    if "rope_freqs.weight" in source.shapes:
        frequencies = frequencies / source.read("rope_freqs.weight").to(frequencies)
    return Decoder(replace(config, tied=tied), embedding, stack, norm, head, frequencies)


def half_split(matrix: Tensor, heads: int) -> Tensor:
    """Rows of each head from pairs of neighbours to the half-split order.

    >>> half_split(torch.tensor([0, 1, 2, 3]), 1).tolist()
    [0, 2, 1, 3]
    """
    rest = matrix.shape[1:]
    return matrix.reshape(heads, -1, 2, *rest).transpose(1, 2).reshape(matrix.shape)
