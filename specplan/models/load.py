"""Models by name or path: bundled files, a `config.json`, a directory of weights, a GGUF file.

A bundled model is one YAML file in `models/`:

    name: llama-2-7b                  # the file's name
    title: Llama 2 7B
    aliases: [meta-llama/Llama-2-7b-hf]
    config: {model_type: llama, ...}  # fields of the model's config.json
    sources: {config: https://...}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import EnvironmentProblem, InputError, did_you_mean
from .huggingface.config import read_config
from .huggingface.fields import SUB_CONFIGS
from .spec import ModelSpec

Overrides = Mapping[str, Any] | None

KEYS = {"name", "title", "aliases", "config", "sources", "notes"}
MAX_CONFIG_BYTES = 20_000_000
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")


def data_folder() -> Path:
    """Where the bundled models lie: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "models"
    return beside if (beside / "llama-2-7b.yaml").is_file() else package / "_data" / "models"


def names() -> list[str]:
    """Names of the bundled models, sorted.

    >>> "llama-2-13b" in names()
    True
    """
    return sorted(path.stem for path in data_folder().glob("*.yaml"))


def aliases() -> dict[str, str]:
    """Every name that a bundled model answers to, as written, with the model's own name.

    Files are scanned, not parsed: a few milliseconds for all of them.

    >>> aliases()["meta-llama/Llama-2-13b-hf"]
    'llama-2-13b'
    """
    paths = sorted(data_folder().glob("*.yaml"))
    found = {path.stem: path.stem for path in paths}
    for path in paths:
        for name in _listed_aliases(path):
            found.setdefault(name, path.stem)
    return found


def load(name: str, *, dtype: str | None = None, overrides: Overrides = None, online: bool = False) -> ModelSpec:
    """A bundled model by name or alias, or the model at a path.

    name     a bundled name or alias (letter case does not matter; hub ids are aliases), a `config.json`,
             a directory that holds one, or a `.gguf` file
    dtype    every weight in this dtype, whatever the config says
    overrides  fields of the config to change
    online   a name that is neither bundled nor a path is a model on the Hugging Face hub
    Raises   InputError with the nearest names, or with what is wrong in the file.

    >>> load("meta-llama/Llama-2-13b-hf").params_total
    13015864320
    """
    bundled = _bundled_file(name)
    if bundled is not None:
        return load_bundled(bundled, dtype=dtype, overrides=overrides)
    path = Path(name)
    if online and not _exists(path) and "/" in name:
        path = from_hub(name)
    if not _exists(path):
        paths = "`specplan models list` shows all names; a path to a config.json, its directory or a .gguf works too"
        raise InputError(f"unknown model {name[:80]!r}", hint=f"{did_you_mean(name, aliases())} {paths}".strip())
    if path.is_dir():
        return load_directory(path, dtype=dtype, overrides=overrides)
    if path.suffix.casefold() == ".gguf":
        from .weights import read_gguf

        if overrides:
            raise InputError(
                f"{path}: a GGUF file has no config to change", hint="leave --set model.* out, or give a config.json"
            )
        return read_gguf(path, dtype=dtype)
    if path.suffix.casefold() in WEIGHT_SUFFIXES:
        hint = f"give its directory, {path.parent}, or the config.json there"
        raise InputError(f"{path}: weights, without the config that says their geometry", hint=hint)
    return read_config(changed(read_json(path), overrides), name=str(path), dtype=dtype)


def from_hub(name: str) -> Path:
    """The config.json of a model on the Hugging Face hub, through the extra `hub` and its cache.

    Raises  EnvironmentProblem when the extra is missing or the hub does not answer.
    """
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise EnvironmentProblem(
            f"{name} needs huggingface_hub", hint="pip install 'specplan[hub]', or give a path to its config.json"
        ) from None
    try:
        return Path(hf_hub_download(repo_id=name, filename="config.json"))
    except Exception as error:  # the library raises many kinds: no such model, no access, no network
        reason = str(error).strip().splitlines()
        raise EnvironmentProblem(
            f"{name}: {reason[0][:120] if reason else type(error).__name__}",
            hint="check the name and the network, or download its config.json",
        ) from None


def changed(config: Mapping[str, Any], overrides: Overrides) -> dict[str, Any]:
    """The config with some of its fields changed, those of a nested language model where they stand there.

    Raises  InputError for a field that the config does not have.

    >>> changed({"text_config": {"num_hidden_layers": 4}}, {"num_hidden_layers": 8})
    {'text_config': {'num_hidden_layers': 8}}
    """
    result = dict(config)
    inner = next((key for key in SUB_CONFIGS if isinstance(result.get(key), Mapping)), None)
    for key, value in (overrides or {}).items():
        if inner is not None and key in result[inner]:
            result[inner] = {**result[inner], key: value}
        elif key in result:
            result[key] = value
        else:
            known = [*result, *(result[inner] if inner is not None else ())]
            raise InputError(
                f"the model's config has no field {key[:60]!r}",
                hint=did_you_mean(key, known, otherwise="it has " + ", ".join(known)),
            )
    return result


def load_bundled(path: Path, *, dtype: str | None = None, overrides: Overrides = None) -> ModelSpec:
    """The model in one bundled YAML file.

    Raises  InputError for unknown keys, or when `config` is missing.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = f"{path.name}: not readable as YAML: {str(error).splitlines()[0]}"
        raise InputError(text, hint=f"a bundled model has the keys {', '.join(sorted(KEYS))}") from None
    if not isinstance(document, dict) or not isinstance(document.get("config"), dict):
        raise InputError(f"{path.name}: no mapping 'config'", hint="give the fields of the model's config.json there")
    for key in document:
        if key not in KEYS:
            raise InputError(f"{path.name}: unknown key {str(key)[:40]!r}", hint=did_you_mean(str(key), KEYS))
    return read_config(changed(document["config"], overrides), name=str(document.get("name", path.stem)), dtype=dtype)


def load_directory(path: Path, *, dtype: str | None = None, overrides: Overrides = None) -> ModelSpec:
    """The model in a directory: `config.json`, and where there `hf_quant_config.json` and safetensors headers.

    Geometry comes from the config; stored bytes by tensor group from the files, when they are there and
    no dtype is asked for.
    Raises   InputError when the files hold other layers than the config describes.
    """
    config = changed(read_json(path / "config.json"), overrides)
    extra = path / "hf_quant_config.json"
    if extra.is_file() and not config.get("quantization_config"):
        config = {**config, "quantization_config": {"quant_method": "modelopt", **read_json(extra)}}
    model = read_config(config, name=str(path), dtype=dtype)
    if dtype is not None or overrides or not any(path.glob("*.safetensors")):
        return model
    from .weights import check_layers, read_safetensors, with_file_bytes

    stored = read_safetensors(path, layers=model.layers)
    check_layers(model, stored, where=str(path / "config.json"), holder="the weight files beside it hold")
    return with_file_bytes(model, stored)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file of at most 20 MB; `Infinity` is read, since published configs hold it.

    Raises  InputError when it cannot be read, is no JSON, holds no mapping, or says a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{path}: key {key[:40]!r} appears twice", hint="keep one of them")
        return found

    hint = "give a model's config.json, the directory that holds it, or a bundled name"
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise InputError(f"{path}: larger than {MAX_CONFIG_BYTES / 1e6:g} MB, not a config", hint=hint)
        document = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=unique)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {str(error)[:80]}", hint=hint) from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: holds no mapping", hint=hint)
    return document


def describe(model: ModelSpec) -> dict[str, Any]:
    """The facts of a model as plain values: counts, bytes, geometry, and what was assumed.

    >>> describe(load("llama-2-7b"))["kv_bytes_per_token"]
    524288.0
    """
    return {
        "name": model.name,
        "params_total": model.params_total,
        "params_active": model.params_active,
        "params_streamed": model.params_streamed,
        "weight_bytes": model.weight_bytes,
        "weight_bytes_by_group": model.weight_bytes_by_group(),
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "kv_bytes_per_token_growing": model.kv_bytes_per_token_growing,
        "geometry": _geometry(model),
        "assumptions": [{"text": text, "source": source} for text, source in model.assumptions],
    }


def _geometry(model: ModelSpec) -> dict[str, Any]:
    experts = next((m for m in model.linears if m.experts), None)
    return {
        "layers": model.layers,
        "hidden": model.hidden,
        "vocab": model.vocab,
        "tied": model.tied,
        "max_context": model.max_context,
        "attention": [_attention_facts(model, index) for index in range(len(model.attention))],
        "state_bytes": model.state_bytes,
        "experts": experts.experts if experts else 0,
        "experts_active": experts.active if experts else 0,
        "mtp_params": model.mtp_params,
        "formats": {group: {"name": f.name, "bits": f.bits} for group, f in model.formats.items()},
        "kv_bits": model.kv_bits,
        "linears": [_linear_facts(model, index) for index in range(len(model.linears))],
    }


def _attention_facts(model: ModelSpec, index: int) -> Mapping[str, Any]:
    a = model.attention[index]
    return {
        "layers": a.layers,
        "heads": a.heads,
        "kv_heads": a.kv_heads,
        "key_dim": a.key_dim,
        "value_dim": a.value_dim,
        "window": a.window,
        "latent": a.latent,
    }


def _linear_facts(model: ModelSpec, index: int) -> Mapping[str, Any]:
    m = model.linears[index]
    sizes = {"name": m.name, "group": m.group, "inputs": m.inputs, "outputs": m.outputs, "count": m.count}
    return {**sizes, "experts": m.experts, "active": m.active}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _bundled_file(name: str) -> Path | None:
    """The bundled file of that name, or the one that lists it as an alias."""
    folder, wanted = data_folder(), name.strip().casefold()
    if not wanted or len(wanted) > 200 or "\0" in wanted:
        return None
    direct = folder / f"{wanted}.yaml"
    if direct.parent == folder and direct.is_file():
        return direct
    stem = next((stem for alias, stem in aliases().items() if alias.casefold() == wanted), None)
    return folder / f"{stem}.yaml" if stem else None


def _listed_aliases(path: Path) -> list[str]:
    """The entries of the `aliases` block, by a scan of the text."""
    found, inside = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if inside and line.startswith("  - "):
            found.append(line[4:].strip().strip("'\""))
        else:
            inside = line.rstrip() == "aliases:"
    return found
