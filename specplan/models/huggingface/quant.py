"""How a config says its weights are stored: dtype, and quantization by tensor group.

A quantization block names a method, sometimes the modules it leaves alone, and seldom what its scales
cost. Here each matrix of each layer is looked up by its module name; the bits of a tensor group are the
mean over its weights, scales and zero points included. Routers, norms and embeddings are never quantized,
the LM head only by the methods that quantize every linear layer that is not listed (compressed-tensors, modelopt).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.errors import InputError
from ..spec import FORMATS, Linear, WeightFormat, weight_format
from .fields import Fields

Note = tuple[str, str]
# Module names by the name of a matrix, as checkpoints in the Hugging Face layout write them; the first is enough
# for a fused matrix, since engines cannot fuse parts of different formats.
MODULES = {
    "qkv": ("self_attn.q_proj", "self_attn.qkv_proj", "mixer.q_proj"),
    "o": ("self_attn.o_proj", "mixer.o_proj"),
    "q": ("self_attn.q_proj",),
    "q_a": ("self_attn.q_a_proj",),
    "q_b": ("self_attn.q_b_proj",),
    "kv_a": ("self_attn.kv_a_proj_with_mqa",),
    "kv_b": ("self_attn.kv_b_proj",),
    "index_q": ("self_attn.indexer.wq_b",),
    "index_k": ("self_attn.indexer.wk",),
    "index_weights": ("self_attn.indexer.weights_proj",),
    "delta_in": ("linear_attn.in_proj_qkvz", "linear_attn.in_proj_qkv"),
    "delta_out": ("linear_attn.out_proj",),
    "mamba_in": ("mamba.in_proj", "mixer.in_proj"),
    "mamba_out": ("mamba.out_proj", "mixer.out_proj"),
    "gate_up": ("mlp.gate_proj", "mlp.gate_up_proj"),
    "up": ("mlp.up_proj", "mixer.up_proj"),
    "down": ("mlp.down_proj", "mixer.down_proj"),
    "experts_gate_up": ("mlp.experts.0.gate_proj", "mlp.experts.gate_up_proj", "block_sparse_moe.experts.0.w1"),
    "experts_up": ("mixer.experts.0.up_proj",),
    "experts_down": ("mlp.experts.0.down_proj", "mlp.experts.down_proj", "mixer.experts.0.down_proj"),
    "experts_in": ("mixer.fc1_latent_proj",),
    "experts_out": ("mixer.fc2_latent_proj",),
    "shared_gate_up": ("mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj"),
    "shared_up": ("mixer.shared_experts.up_proj",),
    "shared_down": ("mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj", "mixer.shared_experts.down_proj"),
    "head": ("lm_head",),
}
# Classes that put a matrix elsewhere.
CLASS_MODULES = {
    "gemma4": {
        "experts_gate_up": ("experts.0.gate_proj", "experts.gate_up_proj"),
        "experts_down": ("experts.0.down_proj", "experts.down_proj"),
    },
}
PREFIXES = ("model.layers", "model.language_model.layers", "language_model.model.layers", "backbone.layers")
SAMPLED_LAYERS = 512
MAX_WILD_PATTERNS = 200


@dataclass(frozen=True, slots=True)
class Placed:
    """One matrix and the layers that have it; no layers for the head.

    modules  the names that a checkpoint may give it inside a layer
    """

    linear: Linear
    layers: Sequence[int]
    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a quantization block says.

    pick     the possible names of one module -> its format, None for one left in the model's dtype
    kv_bits  bits per cached element
    """

    pick: Callable[[Sequence[str]], WeightFormat | None]
    kv_bits: float = 16.0
    notes: tuple[Note, ...] = field(default_factory=tuple)


def read_formats(
    fields: Fields, members: Sequence[Placed]
) -> tuple[Mapping[str, WeightFormat], float, tuple[Note, ...]]:
    """Formats by tensor group, bits per cached element, and what was assumed.

    Raises  InputError for a dtype or a quantization method that is not known.
    """
    base, notes = _base_format(fields)
    block = fields.group("quantization_config", "quantization")
    if not block:
        return {"default": base}, 16.0, notes
    scheme = _scheme(Fields(_flattened(block), fields.where))
    formats: dict[str, WeightFormat] = {"default": base}
    for group in sorted({m.linear.group for m in members} - {"router"}):
        formats[group], partial = _group_format([m for m in members if m.linear.group == group], scheme, base)
        notes += ((f"{group}: {partial:.0%} of the weights stay in {base.name}", "config"),) if 0 < partial < 1 else ()
    return formats, scheme.kv_bits, notes + scheme.notes


def _base_format(fields: Fields) -> tuple[WeightFormat, tuple[Note, ...]]:
    """The dtype of everything that is not quantized."""
    named = fields.text("torch_dtype", "dtype")
    if not named or named == "auto":
        return FORMATS["bf16"], (("the config names no dtype: bf16", "config"),)
    fmt = weight_format(named)
    if fmt.name == "fp32":
        text = "the config says float32; serving engines load such weights in 16 bits (--dtype fp32 keeps 32)"
        return FORMATS["bf16"], ((text, "vLLM, --dtype auto"),)
    return fmt, ()


def _flattened(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A hf_quant_config.json keeps its facts one level down, under `quantization`."""
    inner = block.get("quantization")
    return {"quant_method": "modelopt", **block, **inner} if isinstance(inner, Mapping) else block


def placed(linear: Linear, layers: Sequence[int], key: str) -> Placed:
    """A matrix of the model class `key` with its module names."""
    own = CLASS_MODULES.get(key, {}).get(linear.name)
    return Placed(linear, layers, own or MODULES.get(linear.name, (linear.name,)))


def _group_format(members: Sequence[Placed], scheme: Scheme, base: WeightFormat) -> tuple[WeightFormat, float]:
    """The mean format of a tensor group, and the share of its weights that is not quantized."""
    total = left = bits = 0.0
    chosen: WeightFormat | None = None
    for member in members:
        names = module_names(member)
        weight = float(member.linear.params_total) / len(names)
        for spellings in names:
            fmt = scheme.pick(spellings)
            chosen = fmt or chosen
            total, left, bits = total + weight, left + (0 if fmt else weight), bits + weight * (fmt or base).bits
    if chosen is None or not total:
        return base, 1.0
    return replace(chosen, bits=bits / total), left / total


def module_names(member: Placed) -> list[list[str]]:
    """The spellings of a matrix in each layer that has it, in at most 512 of them; the head has no layer.

    >>> module_names(placed(Linear("o", 8, 8), [3], "llama"))[0][0]
    'model.layers.3.self_attn.o_proj'
    """
    if not member.layers:
        return [[*member.modules, "language_model.lm_head"]]
    count = min(len(member.layers), SAMPLED_LAYERS)
    layers = [member.layers[i * len(member.layers) // count] for i in range(count)]
    return [[f"{prefix}.{layer}.{tail}" for tail in member.modules for prefix in PREFIXES] for layer in layers]


# ---- methods


def _scheme(block: Fields) -> Scheme:
    method = block.text("quant_method").casefold().replace("-", "_") or _guessed_method(block)
    if method == "compressed_tensors":
        return _compressed_tensors(block)
    if method == "modelopt" or method.startswith("modelopt_"):
        return _modelopt(block)
    makers = {"gptq": _gptq, "awq": _awq, "bitsandbytes": _bitsandbytes, "mlx": _mlx}
    makers |= {"fp8": _fp8, "fbgemm_fp8": _fp8, "mxfp4": _mxfp4, "gptq_marlin": _gptq, "awq_marlin": _awq}
    if method not in makers:
        known = ", ".join(sorted((*makers, "compressed-tensors", "modelopt")))
        raise InputError(
            f"{block.where}: quantization method {method[:40]!r} is not known",
            hint=f"known: {known}; give --dtype to say how the weights are stored",
        )
    return _listed(block, makers[method](block), skip_head=method != "mlx")


def _guessed_method(block: Fields) -> str:
    """The method of a block that does not name one."""
    if block.raw("config_groups") is not None:
        return "compressed_tensors"
    if block.raw("quant_algo", "quantized_layers") is not None:
        return "modelopt"
    if block.raw("load_in_4bit", "load_in_8bit") is not None:
        return "bitsandbytes"
    return "mlx" if block.raw("bits") is not None else "unnamed"


def _listed(block: Fields, fmt: WeightFormat, *, skip_head: bool) -> Scheme:
    """One format everywhere except in the modules that the block lists."""
    names = ("modules_to_not_convert", "llm_int8_skip_modules", "modules_to_not_quantize", "ignored_layers")
    skipped = Matcher.of((*(block.items(*names) or ()), *(("lm_head",) if skip_head else ())))
    note = (f"{fmt.note}: {fmt.bits:.4g} bits per weight", "quantization_config")
    return Scheme(lambda names: None if skipped.any(names) else fmt, notes=(note, *skipped.notes))


def grouped(bits: float, group: int, *, scale_bits: float = 16.0, zero_bits: float = 0.0) -> float:
    """Bits per weight with a scale, and a zero point, per `group` weights; no group means one per column, left out.

    >>> grouped(4, 128, zero_bits=4)
    4.15625
    """
    return bits + (scale_bits + zero_bits) / group if group > 0 else bits


def _per(group: int) -> str:
    """How many weights share a scale, in words."""
    return f"per {group}" if group > 0 else "per column, left out"


def _group_size(block: Fields, *names: str, default: int) -> int:
    """Weights per scale; -1 and channel-wise strategies give 0."""
    found = block.raw(*names)
    if found is not None and found[1] == -1:
        return 0
    return block.count(*names, default=default, most=10**6)


def _integer(bits: float, stored: float, note: str) -> WeightFormat:
    """A weight-only integer format: multiplied in 16 bits."""
    base = FORMATS["int8" if bits >= 8 else "int4"]
    return replace(base, name=f"int{bits:g}" if bits == int(bits) else base.name, bits=stored, note=note)


def _bits(block: Fields, *names: str, default: int = 4) -> int:
    return block.count(*names, default=default, least=1, most=16)


def _gptq(block: Fields) -> WeightFormat:
    bits, group = _bits(block, "bits"), _group_size(block, "group_size", default=128)
    stored = grouped(bits, group, zero_bits=bits)
    return _integer(bits, stored, f"gptq: {bits}-bit weights, 16-bit scale and {bits}-bit zero point {_per(group)}")


def _awq(block: Fields) -> WeightFormat:
    bits, group = _bits(block, "bits", "w_bit"), _group_size(block, "group_size", "q_group_size", default=128)
    zero = bits if block.flag("zero_point", default=True) else 0
    stored = grouped(bits, group, zero_bits=zero)
    return _integer(bits, stored, f"awq: {bits}-bit weights, 16-bit scale and {zero}-bit zero point {_per(group)}")


def _mlx(block: Fields) -> WeightFormat:
    bits, group = _bits(block, "bits"), _group_size(block, "group_size", default=64)
    stored = grouped(bits, group, zero_bits=16)
    return _integer(bits, stored, f"mlx: {bits}-bit weights, 16-bit scale and bias {_per(group)}")


def _bitsandbytes(block: Fields) -> WeightFormat:
    """Source: QLoRA (Dettmers et al. 2023), section 3: blocks of 64, scales in 32 bits or twice quantized."""
    if not block.flag("load_in_4bit"):
        return _integer(8, 8.0, "bitsandbytes: 8-bit weights, one scale per row")
    twice = block.flag("bnb_4bit_use_double_quant")
    stored = 4 + 8 / 64 + 32 / (64 * 256) if twice else grouped(4, 64, scale_bits=32)
    return _integer(4, stored, f"bitsandbytes: 4-bit weights, {'8-bit' if twice else '32-bit'} scale per 64")


def _fp8(block: Fields) -> WeightFormat:
    sizes = block.items("weight_block_size")
    area = 1
    for size in (sizes or ())[:2]:
        area *= size if isinstance(size, int) and 0 < size <= 10**5 else 1
    stored = grouped(8, area if area > 1 else 0, scale_bits=32)
    return replace(FORMATS["fp8"], bits=stored, note=f"fp8 weights{f', 32-bit scale per {area}' if area > 1 else ''}")


def _mxfp4(block: Fields) -> WeightFormat:
    return replace(FORMATS["mxfp4"], note="mxfp4 weights, 8-bit scale per 32")


def _compressed_tensors(block: Fields) -> Scheme:
    """One format per group of targets; a target is a module class, a name or a pattern."""
    groups = block.group("config_groups") or {}
    if not groups:
        block.wrong("config_groups", "is empty")
    chosen = []
    for name, group in list(groups.items())[:64]:
        fields = Fields(group if isinstance(group, Mapping) else {}, f"{block.where}: {str(name)[:40]}")
        fmt, targets = _tensor_format(fields), [str(t) for t in fields.items("targets") or ("Linear",)]
        chosen.append((Matcher.of(targets), "Linear" in targets, fmt))
    skipped = Matcher.of(block.items("ignore") or ())
    notes = tuple((f"{fmt.note}: {fmt.bits:.4g} bits per weight", "quantization_config") for *_, fmt in chosen)

    def pick(names: Sequence[str]) -> WeightFormat | None:
        if skipped.any(names):
            return None
        named = (fmt for matcher, everything, fmt in chosen if matcher.any(names))
        return next(named, next((fmt for _, everything, fmt in chosen if everything), None))

    return Scheme(pick, _cache_bits(block), notes + skipped.notes)


def _cache_bits(block: Fields) -> float:
    """Bits per cached element, from a scheme (compressed-tensors) or the name of an algorithm (modelopt)."""
    found = block.raw("kv_cache_quant_algo", "kv_cache_scheme")
    if found is None:
        return 16.0
    if isinstance(found[1], Mapping):
        return float(block.count("kv_cache_scheme.num_bits", default=8, least=1, most=16))
    return {"FP8": 8.0, "INT8": 8.0, "NVFP4": 4.5}.get(str(found[1])[:40].upper(), 16.0)


def _tensor_format(group: Fields) -> WeightFormat:
    """The format of one `config_groups` entry."""
    bits, kind = group.count("weights.num_bits", default=8, least=1, most=16), group.text("weights.type") or "int"
    size = _group_size(group, "weights.group_size", default=0)
    acts = group.raw("input_activations.num_bits")
    if kind == "float" and bits == 4:
        fmt = FORMATS["nvfp4" if size == 16 else "mxfp4"]
        weight_only = acts is None
        return replace(fmt, multiply_in=FORMATS["int4"].multiply_in) if weight_only else fmt
    if kind == "float":
        return replace(FORMATS["fp8"], note="fp8 weights") if bits == 8 else FORMATS["fp16"]
    symmetric = group.flag("weights.symmetric", default=True)
    stored = grouped(bits, size, zero_bits=0 if symmetric else bits)
    if bits == 8 and acts is not None:
        return replace(FORMATS["w8a8"], bits=stored)
    scale = f"a 16-bit scale per {size}" if size else "a scale per column"
    return _integer(bits, stored, f"{bits}-bit weights, {scale}")


def _modelopt(block: Fields) -> Scheme:
    """One algorithm for all but the excluded modules, or one by module (mixed precision)."""
    skipped = Matcher.of(block.items("exclude_modules", "ignore") or ())
    kv_bits = _cache_bits(block)
    by_module = block.group("quantized_layers")
    if by_module is not None:
        return Scheme(_by_module(block, by_module), kv_bits, skipped.notes)
    if block.raw("config_groups") is not None and not block.text("quant_algo"):
        return _compressed_tensors(block)
    fmt = _algorithm(block)
    note = (f"modelopt: {fmt.note or fmt.name}: {fmt.bits:.4g} bits per weight", "quantization_config")
    return Scheme(lambda names: None if skipped.any(names) else fmt, kv_bits, (note, *skipped.notes))


def _by_module(block: Fields, named: Mapping[str, Any]) -> Callable[[Sequence[str]], WeightFormat | None]:
    """Formats of a mixed-precision block, found by module name."""
    entries = list(named.items())[:1_000_000]
    known = {name: _algorithm(Fields(e, block.where)) for name, e in entries if isinstance(e, Mapping)}

    def pick(names: Sequence[str]) -> WeightFormat | None:
        above = (path for name in names for path in (name, *_parents(name)))
        return next((known[path] for path in above if path in known), None)

    return pick


def _parents(name: str) -> list[str]:
    """The modules that contain this one, nearest first."""
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(len(parts) - 1, 0, -1)]


def _algorithm(block: Fields) -> WeightFormat:
    """The format of a modelopt `quant_algo`."""
    name = block.text("quant_algo").upper()
    if name == "W4A16_NVFP4":
        return replace(FORMATS["nvfp4"], multiply_in=FORMATS["int4"].multiply_in)
    if "NVFP4" in name:
        return FORMATS["nvfp4"]
    if name.startswith("FP8"):
        return FORMATS["fp8"]
    if name.startswith(("W4A16", "W4A8", "INT4")):
        size = _group_size(block, "group_size", default=128)
        return _integer(4, grouped(4, size), f"4-bit weights, 16-bit scale {_per(size)}")
    if name in ("INT8_SQ", "W8A8_SQ_PER_CHANNEL", "INT8"):
        return FORMATS["w8a8"]
    if name == "MXFP8":
        return replace(FORMATS["fp8"], bits=grouped(8, 32, scale_bits=8), note="fp8 weights, 8-bit scale per 32")
    if name in ("MXFP4", "W4A8_MXFP4_FP8"):
        return FORMATS["mxfp4"]
    raise InputError(
        f"{block.where}: quant_algo {name[:40]!r} is not known",
        hint="known: FP8, NVFP4, W4A16_AWQ, W4A8_AWQ, INT8_SQ, MXFP4, MXFP8; --dtype says how weights are stored",
    )


# ---- which modules a list means


@dataclass(frozen=True, slots=True)
class Matcher:
    """Module names, by path, by leading text, by wildcard or by `re:` pattern.

    A plain entry means every module whose dotted path contains it whole: `gate` is `mlp.gate`, never `mlp.gate_proj`.
    """

    paths: frozenset[str]
    leading: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Any]) -> Matcher:
        paths, leading, wild = set(), set(), []
        for entry in entries:
            text = str(entry)[:300]
            if text.startswith("re:"):
                wild.append(text[3:])
            elif "*" not in text.rstrip("*") and text.endswith("*") and text.strip("*"):
                leading.add(text.rstrip("*"))
            elif "*" in text or "?" in text:
                wild.append(_wildcard(text))
            else:
                paths.add(text)
        patterns = [_compiled(text) for text in wild[:MAX_WILD_PATTERNS]]
        lost = sum(p is None for p in patterns) + max(0, len(wild) - MAX_WILD_PATTERNS)
        notes = ((f"{lost} module patterns of the quantization block were not understood", "config"),) if lost else ()
        return cls(frozenset(paths), tuple(leading), tuple(p for p in patterns if p is not None), notes)

    def any(self, names: Iterable[str]) -> bool:
        """Whether any of `names` is meant."""
        return any(self._one(name) for name in names)

    def _one(self, name: str) -> bool:
        if self.leading and name.startswith(self.leading):
            return True
        if self.paths and any(path in self.paths for path in _subpaths(name)):
            return True
        return any(pattern.match(name) for pattern in self.patterns)


def _subpaths(name: str) -> list[str]:
    """Every run of components of a dotted name."""
    parts = name.split(".")
    return [".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)]


def _wildcard(text: str) -> str:
    """A shell pattern as a regular expression that also covers what lies below the module."""
    body = ".*".join(re.escape(piece) for piece in re.split(r"\*+", text))
    return body + r"(\.|$)" if not text.endswith("*") else body


def _compiled(text: str) -> re.Pattern[str] | None:
    """The pattern, or None when it is not valid, or could take very long on a hostile file.

    Costly are groups that repeat, and more than three repetitions.
    """
    if re.search(r"\)\s*[*+{]", text) or sum(text.count(sign) for sign in "*+{") > 3:
        return None
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return None
