"""Published measurements as rows that a `PassTimer` can predict: device, model, engine, load, seconds.

A row is named in its source's own words ("3090 24GB * 2", "llama2-7b", "Q4_K_M"); this module maps them
to bundled profiles and models. A row that cannot be mapped says why; nothing is guessed.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from specplan.hardware.engines import Engine
from specplan.hardware.profile import Hardware, load_hardware, override
from specplan.models.spec import FORMATS, ModelSpec, WeightFormat, load_model
from specplan.timing.cost import Load
from specplan.timing.roofline import PassTimer

DATA = Path(__file__).parent / "data"


def read_table(name: str) -> list[dict[str, str]]:
    """Rows of a CSV file in `data`, gzipped or not, as dictionaries."""
    packed = (DATA / name).read_bytes()
    text = gzip.decompress(packed) if name.endswith(".gz") else packed
    return list(csv.DictReader(io.StringIO(text.decode())))


def is_fitted(group: str, *, share: float = 0.6) -> bool:
    """Whether a group is in the fitted part: by a hash of its name, so that no one chooses.

    >>> is_fitted("4096x4096"), is_fitted("5120x5120")
    (True, False)
    """
    digest = hashlib.sha256(group.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < share


# ---- devices

# name in the source, lower case -> bundled profile
DEVICES = {
    "3070 8gb": "rtx-3070",
    "3080 10gb": "rtx-3080-10gb",
    "rtx 3080": "rtx-3080-10gb",
    "3090 24gb": "rtx-3090",
    "rtx 3090": "rtx-3090",
    "rtx 3090 24gb": "rtx-3090",
    "rtx 3090 ti": "rtx-3090-ti",
    "rtx 3060 12gb": "rtx-3060-12gb",
    "4070 ti 12gb": "rtx-4070-ti",
    "4090 24gb": "rtx-4090",
    "rtx 4090": "rtx-4090",
    "rtx 4000 ada 20gb": "rtx-4000-ada",
    "rtx a6000 48gb": "rtx-a6000",
    "rtx 5090": "rtx-5090",
    "rtx 5090 32gb": "rtx-5090",
    "rtx 5090 mobile 24gb": "rtx-5090-laptop",
    "amd radeon ai pro r9700 32gb": "radeon-ai-pro-r9700",
    "amd radeon 9060 xt 16 gb": "rx-9060-xt-16gb",
    "amd mi60/mi50": "mi50-32gb",
    "radeon 8060s": "ryzen-ai-max-395",
    "ryzen ai max+ 395 / radeon 8060s": "ryzen-ai-max-395",
    "rtx pro 6000 blackwell max-q": "rtx-pro-6000-max-q",
    "a100": "a100-80gb-sxm",
    "a100 80gb": "a100-80gb-sxm",
    "a100-80gb": "a100-80gb-sxm",
    "a100 sxm 80gb": "a100-80gb-sxm",
    "a100-sxm4-80gb": "a100-80gb-sxm",
    "a100 pcie 80gb": "a100-80gb-pcie",
    "a100-pcie-80gb": "a100-80gb-pcie",
    "h100": "h100-sxm",
    "h100-sxm": "h100-sxm",
    "mi300x": "mi300x",
    "tesla v100 32gb": "v100-32gb-pcie",
    "v100-pcie-16gb": "v100-32gb-pcie",
    "jetson orin nano": "jetson-orin-nano-super-8gb",
    "m1 7-core gpu 8gb": "m1",
    "apple m4": "m4",
    "apple": "m2-ultra",
}

# GPU cores of the part that a bundled Apple profile describes; other bins scale its compute peak
APPLE_CORES = {
    "m1": 8,
    "m1-pro": 16,
    "m1-max": 32,
    "m1-ultra": 64,
    "m2": 10,
    "m2-pro": 19,
    "m2-max": 38,
    "m2-ultra": 76,
    "m3": 10,
}


@cache
def device(words: str) -> Hardware | None:
    """The profile that the source's words mean, None when there is none.

    Words in brackets and a count of cards are dropped; an Apple part with fewer GPU cores has its peak scaled.
    """
    text = words.casefold()
    apple = re.match(r"(?:apple )?(m\d(?: pro| max| ultra)?)\b\D*(\d+)[ -](?:gpu )?core", text)
    if apple:
        return _apple(apple[1].replace(" ", "-"), int(apple[2]))
    text = re.sub(r"\(.*?\)|\?|\bdesktop\b| \* \d+$", "", text).strip()
    name = DEVICES.get(text)
    return load_hardware(name) if name else None


def _apple(name: str, cores: int) -> Hardware | None:
    if name not in APPLE_CORES:
        return None
    whole = load_hardware(name)
    share = cores / APPLE_CORES[name]
    if share == 1:
        return whole
    return override(whole, {f"compute.{key}": peak * share for key, peak in whole.compute.peaks().items()})


# ---- models

MODELS = (
    {
        "llama-3-8b": "llama-3-8b",
        "llama-3.1-8b": "llama-3.1-8b",
        "llama-3.1-8b-instruct": "llama-3.1-8b",
        "llama 3.1 8b": "llama-3.1-8b",
        "llama 3.2 3b": "llama-3.2-3b",
        "llama-3.2-1b": "llama-3.2-1b",
        "llama-3-70b": "llama-3-70b",
        "llama-3.1-70b-fp8": "llama-3.1-70b",
        "llama-2-70b": "llama-2-70b",
        "llama2-70b": "llama-2-70b",
        "llama 70b": "llama-2-70b",
        "llama-70b": "llama-2-70b",
        "codellama-34b": "codellama-34b",
        "tinyllama-1.1b": "tinyllama-1.1b",
        "llama-68m": "llama-68m",
        "llama-160m": "llama-160m",
        "zephyr-7b": "mistral-7b",
        "gemma 2 2b": "gemma-2-2b",
        "gemma 2 9b": "gemma-2-9b",
        "qwen2.5 7b": "qwen2.5-7b",
        "qwen2-7b": "qwen2.5-7b",
        "qwen3-0.6b": "qwen3-0.6b",
        "qwen3.8-27b": "qwen3.5-27b",
        "deepseek-v2-lite 16b (moe)": "deepseek-v2-lite",
        "gemma4 26b-a4b (moe)": "gemma-4-26b-a4b",
    }
    | dict.fromkeys(
        ("llama-7b", "llama-7b v2", "llama2-7b", "llama-2-7b", "llama 7b", "openllama-7b", "vicuna-7b"), "llama-2-7b"
    )
    | dict.fromkeys(("llama-13b", "llama2-13b", "vicuna-13b"), "llama-2-13b")
    | dict.fromkeys(("llama-30b", "llama-33b", "vicuna-33b"), "vicuna-33b")
)

# not bundled, from their published config.json: hidden size, layers, heads, width of the MLP, vocabulary
SIZES = {
    "internlm-20b": (5120, 60, 40, 13824, 103168),
    "llama-65b": (8192, 80, 64, 22016, 32000),
    "openllama-3b": (3200, 26, 32, 8640, 32000),
}
_FIELDS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")


@cache
def model(words: str) -> ModelSpec | None:
    """The model that the source's words mean, None when it is neither bundled nor listed."""
    key = words.casefold()
    if key in MODELS:
        return load_model(MODELS[key])
    if key in SIZES:
        llama = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "float16"}
        return ModelSpec.from_hf_config(llama | dict(zip(_FIELDS, SIZES[key])), name=key)
    return None


def stored(spec: ModelSpec, dtype: str, weight_gb: str, params_b: str) -> ModelSpec | None:
    """The model with its weights as the row says: 16 bits, or so many bits that its size comes out."""
    text = dtype.casefold().strip("?")
    plain = {"fp16": "fp16", "f16": "fp16", "bf16": "bf16", "f32": "fp32", "fp8": "fp8"}.get(text)
    if plain:
        return spec.with_format(plain)
    kind = _quantized(text)
    if kind is None or not (weight_gb and params_b):
        return None
    bits = float(weight_gb) * 8 / float(params_b)
    return replace(spec, formats={"default": WeightFormat(kind.name, bits, kind.multiply_in)})


def _quantized(text: str) -> WeightFormat | None:
    match = re.match(r"(?:ud[-_])?(?:i?q)(\d)", text)
    if match:
        names = {"1": "q2_k", "2": "q2_k", "3": "q3_k", "4": "q4_k", "5": "q5_k", "6": "q6_k", "8": "q8_0"}
        return FORMATS.get(names.get(match[1], ""))
    if text.startswith("int8"):
        return FORMATS["int8"]
    if text.startswith(("int4", "gptq", "exl2")):
        return FORMATS["int4"]
    return None


# ---- engines

ENGINES = (
    ("llama.cpp", "llama.cpp"),
    ("lmdeploy", "lmdeploy"),
    ("tensorrt-llm", "tensorrt-llm"),
    ("vllm", "vllm"),
    ("sglang", "sglang"),
    ("gpt-fast", "gpt-fast"),
    ("exllamav2", "exllamav2"),
    ("mlc", "mlc"),
    ("hf", "transformers"),
)


# Sources that timed llama.cpp as it is since August 2025, with flash attention; the older ones ran without it.
FLASH_ATTENTION = ("sudoingX", "ggml-org/llama.cpp#15", "ggml-org/llama.cpp#16", "ggml-org/llama.cpp#17",
                   "ggml-org/llama.cpp#18", "ggml-org/llama.cpp#2")  # fmt: skip


def engine(words: str, source: str) -> str | None:
    """The engine of the table that the source's words mean."""
    name = next((name for start, name in ENGINES if words.casefold().startswith(start)), None)
    recent = source.startswith(FLASH_ATTENTION) and len(source.split()[0].partition("#")[2]) in (0, 5)
    return "llama.cpp-no-fa" if name == "llama.cpp" and not recent else name


# ---- rows


@dataclass(frozen=True)
class Row:
    """One measured pass.

    group    what is fitted or checked together: source, device and model
    split    devices in a pipeline that pass the token on (layer split), 1 for none
    seconds  measured, of one pass
    prompt   tokens whose processing is spread over the passes in `seconds`, 0 for none
    passes   over which it is spread
    headless the LM head runs for the last token of a prompt alone, so not in this pass
    """

    id: str
    group: str
    source: str
    words: str
    hardware: Hardware
    model: ModelSpec
    dtype: str
    engine: str
    load: Load
    split: int
    seconds: float
    note: str
    prompt: int = 0
    passes: int = 1
    headless: bool = False


def decode_rows() -> tuple[list[Row], dict[str, str]]:
    """Rows of plain decoding, and why each of the others cannot be predicted."""
    rows, left = [], {}
    for raw in read_table("decode_latency.csv"):
        row = _decode_row(raw)
        if isinstance(row, str):
            left[raw["id"]] = row
        else:
            rows.append(row)
    return rows, left


def _decode_row(raw: Mapping[str, str]) -> Row | str:
    hardware, spec, name = device(raw["hardware"]), model(raw["model"]), engine(raw["engine"], raw["source"])
    if hardware is not None and hardware.name.startswith("jetson"):
        hardware = override(hardware, {"memory.bandwidth": f"{raw['bw_gb_s']}GB/s"})  # the mode before "super"
    if hardware is None:
        return f"no profile for {raw['hardware']}"
    if spec is None:
        return f"no geometry for {raw['model']}"
    if name is None:
        return f"no engine for {raw['engine']}"
    formatted = stored(spec, raw["dtype"], raw["weight_gb"], raw["params_b"])
    if formatted is None:
        return f"no size for {raw['dtype']}"
    if name == "tensorrt-llm" and raw["dtype"] == "fp8":
        formatted = formatted.with_kv_format("fp8")  # that page's fp8 engines keep the cache in fp8 too
    batch, prefill = int(raw["batch"]), "includes prefill" in raw["notes"] and raw["context_in"].isdigit()
    seconds = float(raw["ms_per_step"]) / 1e3 if raw["ms_per_step"] else batch / float(raw["tok_s_total"])
    split = int(raw["n_gpu"]) if "layer split" in raw["notes"] else 1
    tp = int(raw["tp"]) if split == 1 else 1
    group = f"{raw['source'].split()[0]}|{hardware.name}|{spec.name}"
    load = Load(1, batch, _mean_context(raw), tp)
    return Row(
        raw["id"], group, raw["source"], raw["hardware"], hardware, formatted, raw["dtype"], name, load, split, seconds,
        raw["notes"], int(raw["context_in"]) if prefill else 0, int(raw["context_out"]) if prefill else 1,
    )  # fmt: skip


def _mean_context(raw: Mapping[str, str]) -> int:
    """Tokens in the cache, averaged over the generated ones; 128 for a short prompt of unstated length."""
    given = [int(raw[key]) for key in ("context_in", "context_out") if raw[key].isdigit()]
    if not raw["context_in"].isdigit():
        return 128
    return given[0] + (given[1] // 2 if len(given) > 1 else 0)


def verify_rows() -> tuple[dict[str, list[Row]], dict[str, str]]:
    """Curves of a pass by its number of tokens, by name; and why each other row cannot be predicted.

    A curve needs a row of width 1, or a relative row; the tokens share one cache where `kind` says a prompt
    is processed in chunks, and are sequences of a batch where it says batched decoding.
    """
    curves: dict[str, list[Row]] = {}
    left: dict[str, str] = {}
    for raw in read_table("verify_cost.csv"):
        row = _verify_row(raw)
        if isinstance(row, str):
            left[raw["id"]] = row
        else:
            name = "|".join(raw[key] for key in ("source", "hardware", "model", "dtype", "engine", "kv_depth"))
            curves.setdefault(name, []).append(row)
    return curves, left


def _verify_row(raw: Mapping[str, str]) -> Row | str:
    hardware, spec, name = device(raw["hardware"]), model(raw["model"]), engine(raw["engine"], raw["source"])
    if hardware is None or spec is None or name is None:
        return f"no profile or geometry for {raw['hardware']}, {raw['model']}, {raw['engine']}"
    if raw["kind"].startswith(("Medusa", "derived", "single")):
        return f"not one pass: {raw['kind']}"
    formatted = stored(spec, raw["dtype"], raw["weight_gb"], raw["params_b"])
    if formatted is None or not raw["ms"]:
        return "no size or no time"
    tokens, batched = int(raw["n_tokens"]), raw["kind"].startswith("batched")
    average = re.search(r"avg (\d+)", raw["kv_depth"])
    start = re.match(r"(\d+)", raw["kv_depth"])
    context = int(average[1]) if average else int(start[1]) if start else 0
    load = Load(1 if batched else tokens, tokens if batched else 1, context)
    group = f"{raw['source']}|{hardware.name}|{spec.name}"
    return Row(
        raw["id"], group, raw["source"], raw["hardware"], hardware, formatted, raw["dtype"], name, load, 1,
        float(raw["ms"]) / 1e3, raw["notes"], headless=raw["kind"].startswith("llama-bench pp"),
    )  # fmt: skip


def predicted(row: Row, engine: Engine, *, hardware: Hardware | None = None) -> float:
    """Seconds of the row's pass by the calibrated formula; a prompt adds its share of one pass over all its tokens."""
    timer = PassTimer(hardware or row.hardware, row.model, engine=engine)
    at = timer.at(row.load)
    seconds = at.pass_s - (at.terms["head"] if row.headless else 0.0)
    if row.prompt:
        seconds += timer.at(replace(row.load, width=row.prompt, context=0)).pass_s / row.passes
    return seconds


def groups(rows: Iterable[Row]) -> dict[str, bool]:
    """Each group, and whether it is in the fitted part."""
    return {row.group: is_fitted(row.group) for row in rows}
