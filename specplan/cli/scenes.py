"""Device, target and load from the options, and what has to be said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..base import units
from ..base.errors import InputError
from ..timing.cost import Load
from . import options, values

TIMES = ("ideal", "calibrated")


@dataclass
class Scene:
    """What the options describe, and what has to be said about it.

    named      the target as the user named it, None: by its number of weights
    time       ideal or calibrated
    engine     constants of a serving engine, None: unknown
    by_stack   whether the engine is that of --stack
    offload    weights that lie in host memory: all, experts, or None
    inputs     effective values, for the document
    """

    hardware: Any = None
    model: Any = None
    named: str | None = None
    load: Load = field(default_factory=Load)
    time: str = "calibrated"
    engine: Any = None
    by_stack: bool = False
    offload: str | None = None
    online: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    assumptions: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def timer(self, *, time: str | None = None) -> Any:
        """Times the target's passes; needs a device and a model."""
        from ..timing.roofline import PassTimer

        return PassTimer(self.hardware, self.model, time=time or self.time, engine=self.engine, offload=self.offload)

    def at_batch(self, batch: int) -> Scene:
        """The same scene with another batch; what is noted there is not repeated here."""
        return replace(self, load=replace(self.load, batch=batch), inputs={}, assumptions=[], notes=[], warnings=[])

    def require(self) -> None:
        """Both a device and a model, or an error that says which is missing."""
        if self.hardware is None:
            raise InputError(
                "no device given", hint="--gpu a100, or --gpu my-gpu.yaml; specplan hardware list shows all"
            )
        if self.model is None:
            raise InputError(
                "no model given", hint="--model llama-2-13b, --model path/to/config.json, or --params 13e9"
            )


def scene(device: options.Device, target: options.Target, *, serves: Sequence[str] = ()) -> Scene:
    """The device, the target and the load, where they are given.

    serves   names of the stack that is planned for: its engine holds where --engine names none
    """
    if device.time not in TIMES:
        raise InputError(f"--time {device.time!r} is not known", hint="one of " + ", ".join(TIMES))
    overrides, model_overrides = _settings(device.settings)
    result = Scene(time=device.time, offload=target.offload, online=target.online)
    if device.engine is not None:
        from ..hardware.engines import load_engine

        with values.naming("--engine"):
            result.engine = load_engine(device.engine)
    elif serves:
        from ..hardware.engines import engine_of

        result.engine = engine_of(serves)
        result.by_stack = result.engine is not None
    _load_device(result, device, overrides)
    _load_target(result, target, model_overrides)
    context = values.read("--context", target.context, units.parse_tokens) or 0
    result.load = Load(1, values.positive("--batch", target.batch), context, values.positive("--tp", target.tp))
    if target.context is None and result.model is not None:
        result.assumptions.append(
            ("context 0: an empty cache; --context 8k counts the cache of 8192 tokens", "default")
        )
    if result.hardware is not None and result.model is not None:
        _say_of_times(result)
    if result.model is not None:
        _say_of_model(result)
    result.inputs.update(
        batch=result.load.batch,
        context=context,
        tp=result.load.tp,
        time=device.time,
        engine=None if result.engine is None else result.engine.name,
        offload=target.offload,
    )
    return result


def _say_of_times(place: Scene) -> None:
    """Precisions, engine, power: what stands behind the times of this device and model."""
    from ..timing.roofline import power_warning, precision_notes

    place.assumptions.extend(precision_notes(place.hardware, place.model))
    warning = power_warning(place.hardware)
    if warning is not None:
        place.warnings.append(warning)
    if place.offload == "experts" and not place.model.is_moe:
        raise InputError(
            f"--offload experts: {place.model.name} has no experts", hint="--offload all streams every weight"
        )
    if place.offload is not None:
        place.assumptions.append((f"offloaded weights ({place.offload}) stream over the host link", "--offload"))
    if place.time == "calibrated":
        _say_of_calibration(place)


def _say_of_calibration(place: Scene) -> None:
    """Where calibrated times come from: a curve of the profile, an engine's constants, or a middle of engines."""
    curve = place.timer().curve(place.load)
    if curve is not None:
        load = f"batch {curve.batch}, context {curve.context}"
        text = f"times measured at {len(curve.widths)} widths, 1 to {curve.last}, {load}"
        place.assumptions.append((text, f"profile {place.hardware.name}, curves"))
        if curve.context != place.load.context:
            place.assumptions.append(
                ("attention's difference between the contexts is added by the formula", "roofline.py")
            )
        if place.engine is not None and not place.by_stack:
            place.warnings.append("--engine changes nothing: the profile has measured times of this model")
        changed = [key for key in place.inputs.get("set", {}) if not key.startswith("curves")]
        if changed:
            place.warnings.append(f"--set {changed[0]} changes the ideal times only: the calibrated ones were measured")
        return
    if place.hardware.curves:
        place.notes.append("the profile's curves are of another model, dtype, batch or tp: the formula is used")
    if place.engine is None:
        place.assumptions.append(
            ("engine unknown: middle constants of engines that replay graphs", "--engine NAME narrows it")
        )
    else:
        whose = ", the stack's own; --engine NAME takes another" if place.by_stack else ""
        place.assumptions.append((f"engine {place.engine.name}{whose}", "hardware/_engines.yaml"))


def _say_of_model(place: Scene) -> None:
    """Loads that the model or most stacks do not take."""
    model, load = place.model, place.load
    if model.max_context is not None and load.context > model.max_context:
        place.warnings.append(
            f"--context {load.context} is past the {model.max_context} positions that {model.name} was made for"
        )
    heads = max((group.heads for group in model.attention), default=load.tp)
    if load.tp > 1 and heads % load.tp:
        place.warnings.append(f"--tp {load.tp} does not divide the {heads} attention heads: most stacks refuse it")


def say_of_baseline(place: Scene, measured_tpot: str | None) -> None:
    """How much of the roofline a measured plain decoding reaches, and how far it is from the pass taken here."""
    tpot_s = values.read("--measured-tpot", measured_tpot, units.parse_time)
    if tpot_s is None:
        return
    place.require()
    from ..render.roofline import share_sentence
    from ..timing.roofline import roofline_share

    share = roofline_share(place.hardware, place.model, tpot_s, load=place.load)
    taken = units.show_time(place.timer().seconds(place.load))
    text = f"{share_sentence(share, tpot_s)[:-1]}. The pass taken here lasts {taken}"
    place.assumptions.append((text, "--measured-tpot"))
    place.inputs.update(measured_tpot_s=tpot_s, roofline_share=share)


def batches_that_fit(place: Scene, batches: list[int]) -> list[int]:
    """The batches whose target fits on the device with its caches; the first stays, and what is left out is said."""
    if place.hardware is None or place.model is None:
        return batches
    from ..timing.memory import target_bytes

    load, capacity = place.load, place.hardware.memory.capacity

    def needed(batch: int) -> float:
        return target_bytes(place.model, context=load.context, batch=batch, tp=load.tp, offload=place.offload)

    kept = [batch for batch in batches if needed(batch) <= capacity] or batches[:1]
    if len(kept) < len(batches):
        place.notes.append(f"batches above {kept[-1]} do not fit: their caches need more than the device has")
    return kept


def say_of_attention(place: Scene, width: int) -> None:
    """What a slower several-query attention costs at this width."""
    from ..timing.roofline import several_query_note

    slower = several_query_note(place.timer(), replace(place.load, width=width))
    if slower is not None:
        place.assumptions.append(slower)


def _settings(settings: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """--set values for the profile and for the model."""
    profile: dict[str, str] = {}
    model: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InputError(f"--set {setting[:60]!r} is not KEY=VALUE", hint="--set memory.bandwidth=3350GB/s")
        if key.strip() in profile or key.strip() in model:
            raise InputError(f"--set gives {key.strip()!r} twice", hint="leave one of them out")
        if key.startswith("model."):
            model[key.strip()[len("model.") :]] = value.strip()
        else:
            profile[key.strip()] = value.strip()
    return profile, model


def _load_device(result: Scene, device: options.Device, overrides: dict[str, str]) -> None:
    if device.gpu is None:
        if overrides:
            raise InputError("--set needs a device to change", hint="add --gpu NAME")
        return
    from ..hardware.profile import load_hardware, override

    with values.naming("--gpu"):
        hardware = load_hardware(device.gpu)
    if hardware.note:
        result.notes.append(f"{device.gpu} is {hardware.note} [{hardware.name}]")
    if overrides:
        with values.naming("--set"):
            hardware = override(hardware, overrides)
    result.hardware = hardware
    result.inputs.update(gpu=hardware.name, set=dict(overrides))
    result.assumptions.append(
        (
            f"device {hardware.title or hardware.name}: {units.show_bandwidth(hardware.memory.bandwidth)}",
            "profile " + hardware.name,
        )
    )
    for key, value in overrides.items():
        result.assumptions.append((f"{key} = {value}", "--set"))


def _load_target(result: Scene, target: options.Target, overrides: dict[str, str]) -> None:
    if target.model is not None and target.params is not None:
        raise InputError("--model and --params both name the target", hint="leave one of them out")
    if target.layers is not None and target.params is None:
        raise InputError(
            "--layers goes with --params",
            hint="a model's layers come from its config; --set model.num_hidden_layers=40 overrides",
        )
    model = model_of(
        "--model",
        target.model,
        "--params",
        target.params,
        layers=target.layers,
        dtype=target.dtype,
        overrides=overrides,
        online=target.online,
    )
    if model is None:
        if overrides:
            raise InputError("--set model.* needs a model to change", hint="add --model NAME")
        for name in ("dtype", "weight_bits", "kv_dtype"):
            if getattr(target, name) is not None:
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} needs a model", hint="add --model NAME or --params N")
        return
    result.named = target.model
    result.model = with_formats(
        model, ("--dtype", target.dtype), ("--weight-bits", target.weight_bits), ("--kv-dtype", target.kv_dtype)
    )
    if target.weight_bits is not None:
        result.assumptions.append((f"weights stored in {target.weight_bits} bits, multiplied in 16", "--weight-bits"))
    result.assumptions.extend(result.model.assumptions)
    result.inputs.update(
        model=result.model.name, params=result.model.params_total, dtype=result.model.formats["default"].name
    )
    for key, value in overrides.items():
        result.inputs[f"model.{key}"] = value
        result.assumptions.append((f"model.{key} = {value}", "--set"))


def model_of(
    name_option: str,
    name: str | None,
    params_option: str,
    params: str | None,
    *,
    layers: str | None = None,
    dtype: str | None = None,
    overrides: dict[str, str] | None = None,
    online: bool = False,
) -> Any:
    """A model by name, path or number of weights; None when neither was given."""
    from ..models.spec import ModelSpec, load_model

    if name is not None:
        with values.naming(name_option):
            return load_model(
                name,
                dtype=dtype,
                overrides={key: _value(text) for key, text in (overrides or {}).items()},
                online=online,
            )
    if params is None:
        return None
    if overrides:
        raise InputError(
            "--set model.* changes a config, --params has none", hint="give --model, or --layers with --params"
        )
    count = values.read(params_option, params, units.parse_count)
    assert count is not None
    with values.naming(f"{params_option} {params}"):
        return ModelSpec.from_params(
            count, layers=None if layers is None else values.positive("--layers", layers), dtype=dtype or "fp16"
        )


def _value(text: str) -> Any:
    """A config value: JSON where it reads as such, else text."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def with_formats(
    model: Any, dtype: tuple[str, str | None], bits: tuple[str, str | None], kv: tuple[str, str | None]
) -> Any:
    """The model with the dtypes that the options name."""
    if dtype[1] is not None:
        with values.naming(dtype[0]):
            model = model.with_format(dtype[1])
    if bits[1] is not None:
        value = values.read(bits[0], bits[1], units.parse_count)
        with values.naming(bits[0]):
            model = model.with_weight_bits(value)
    if kv[1] is not None:
        with values.naming(kv[0]):
            model = model.with_kv_format(kv[1])
    return model


def crossover_width(place: Scene) -> float | None:
    """Tokens per sequence at which compute catches up, None without a device and a model."""
    if place.hardware is None or place.model is None:
        return None
    from ..timing.roofline import crossover_tokens

    return crossover_tokens(place.hardware, place.model, place.load) / place.load.batch


def refuse_if_strict(place: Scene, output: options.Output) -> None:
    """With --strict a draft of another vocabulary or tokenizer is refused, not warned about."""
    from ..models.vocabulary import DIFFER

    differing = next((text for text in place.warnings if text.startswith(DIFFER)), None)
    if output.strict and differing is not None:
        raise InputError(differing, hint="take a draft with the target's tokenizer, or leave --strict out")
