"""Option text -> core objects, with the name of the option in every error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .. import units
from ..cost import Load
from ..errors import InputError
from . import options

if TYPE_CHECKING:
    from ..curve import Curve

T = TypeVar("T")
TIMES = ("ideal", "calibrated")


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Errors inside name the option that the value came from."""
    try:
        yield
    except InputError as error:
        if option in error.message:
            raise
        raise InputError(f"{option}: {error.message}", hint=error.hint) from None


def read(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    """The parsed value of an option, None when it was not given."""
    if text is None:
        return None
    with naming(option):
        return parse(text)


def read_file(option: str, path: str) -> str:
    """The text of a file, with the option in errors."""
    from ..files import read_text

    with naming(option):
        return read_text(path)


def positive(option: str, text: str) -> int:
    """A whole number from 1 up."""
    value = read(option, text, units.parse_integer)
    assert value is not None
    if value < 1:
        raise InputError(f"{option} {value} is below 1", hint=f"{option} is a whole number from 1 up")
    return value


def tie(text: str) -> float:
    """The share within which shapes count as equal."""
    value = read("--tie", text, units.parse_share)
    if value is None or not 0 <= value < 1:
        raise InputError(f"--tie {text} is not in [0, 1)", hint="write 1% or 0.01")
    return value


def share(option: str, text: str) -> float:
    """A number in [0, 1]."""
    value = read(option, text, units.parse_share)
    assert value is not None
    if not 0 <= value <= 1:
        hint = "a decimal point, not a comma: 0.6" if "," in text else "a probability is between 0 and 1"
        raise InputError(f"{option} {text} is outside [0, 1]", hint=hint)
    return value


@dataclass
class Scene:
    """What the options describe, and what has to be said about it.

    time       ideal or calibrated
    engine     constants of a serving engine, None: unknown
    offload    weights that lie in host memory: all, experts, or None
    inputs     effective values, for the document
    """

    hardware: Any = None
    model: Any = None
    load: Load = field(default_factory=Load)
    time: str = "calibrated"
    engine: Any = None
    offload: str | None = None
    online: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    assumptions: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def timer(self, *, time: str | None = None) -> Any:
        """Times the target's passes; needs a device and a model."""
        from ..roofline import PassTimer

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


def scene(device: options.Device, target: options.Target) -> Scene:
    """The device, the target and the load, where they are given."""
    if device.time not in TIMES:
        raise InputError(f"--time {device.time!r} is not known", hint="one of " + ", ".join(TIMES))
    overrides, model_overrides = _settings(device.settings)
    result = Scene(time=device.time, offload=target.offload, online=target.online)
    if device.engine is not None:
        from ..engines import load_engine

        with naming("--engine"):
            result.engine = load_engine(device.engine)
    _load_device(result, device, overrides)
    _load_target(result, target, model_overrides)
    context = read("--context", target.context, units.parse_tokens) or 0
    result.load = Load(1, positive("--batch", target.batch), context, positive("--tp", target.tp))
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
    from ..roofline import power_warning, precision_notes

    place.assumptions.extend(precision_notes(place.hardware, place.model))
    warning = power_warning(place.hardware)
    if warning is not None:
        place.warnings.append(warning)
    if place.offload is not None:
        place.assumptions.append((f"offloaded weights ({place.offload}) stream over the host link", "--offload"))
    if place.time == "ideal":
        return
    if place.engine is None:
        place.assumptions.append(
            ("engine unknown: middle constants of engines that replay graphs", "--engine NAME narrows it")
        )
    else:
        place.assumptions.append((f"engine {place.engine.name}", "hardware/_engines.yaml"))


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
    tpot_s = read("--measured-tpot", measured_tpot, units.parse_time)
    if tpot_s is None:
        return
    place.require()
    from ..render.roofline import share_sentence
    from ..roofline import roofline_share

    share = roofline_share(place.hardware, place.model, tpot_s, load=place.load)
    taken = units.show_time(place.timer().seconds(place.load))
    text = f"{share_sentence(share, tpot_s)[:-1]}. The pass taken here lasts {taken}"
    place.assumptions.append((text, "--measured-tpot"))
    place.inputs.update(measured_tpot_s=tpot_s, roofline_share=share)


def say_of_attention(place: Scene, width: int) -> None:
    """What a slower several-query attention costs at this width."""
    from ..roofline import several_query_note

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
    from ..hardware import load_hardware, override

    with naming("--gpu"):
        hardware = load_hardware(device.gpu)
    if hardware.note:
        result.notes.append(f"{device.gpu} is {hardware.note} [{hardware.name}]")
    if overrides:
        with naming("--set"):
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
    from ..model import ModelSpec, load_model

    if name is not None:
        with naming(name_option):
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
    count = read(params_option, params, units.parse_count)
    assert count is not None
    with naming(f"{params_option} {params}"):
        return ModelSpec.from_params(
            count, layers=None if layers is None else positive("--layers", layers), dtype=dtype or "fp16"
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
        with naming(dtype[0]):
            model = model.with_format(dtype[1])
    if bits[1] is not None:
        value = read(bits[0], bits[1], units.parse_count)
        with naming(bits[0]):
            model = model.with_weight_bits(value)
    if kv[1] is not None:
        with naming(kv[0]):
            model = model.with_kv_format(kv[1])
    return model


# ---- acceptance


def acceptance(given: options.Acceptance, shape: options.Shape) -> Any:
    """The acceptance that the options describe, None when none was given.

    Raises  InputError when two ways are mixed.
    """
    ways = {
        "--p": given.p,
        "--child-prob": given.child_prob,
        "--alpha": given.alpha,
        "--survival": given.survival,
        "--accept-length": given.accept_length,
        "--accept-rate": given.accept_rate,
        "--acceptance": given.acceptance or None,
    }
    named = [option for option, value in ways.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{' and '.join(named[:2])} both give the acceptance", hint="leave one of them out")
    if given.decay is not None and named != ["--p"]:
        raise InputError("--decay goes with --p", hint="--p 0.6 --decay 0.95")
    if given.ranked and named != ["--child-prob"]:
        raise InputError("--ranked goes with --child-prob", hint="--child-prob 0.63,0.11 --ranked")
    if not named:
        return None
    with naming(named[0]):
        found = _measured_under(_acceptance(named[0], given, shape), given)
    if given.smooth:
        from ..smooth import smoothed

        found = smoothed(found)
    return found.assume_ranks() if given.assume_ranks and not found.siblings_known else found


def _measured_under(found: Any, given: options.Acceptance) -> Any:
    """The acceptance with the rule and the temperature that the options state."""
    if given.rule is not None:
        from ..acceptance_rules import RULES

        if given.rule not in RULES:
            raise InputError(f"--rule {given.rule[:40]!r} is not known", hint="one of " + ", ".join(RULES))
        found = replace(found, rule=given.rule)
    if given.temperature is not None:
        temperature = read("--temperature", given.temperature, units.parse_count)
        if temperature is None or temperature < 0:
            raise InputError(f"--temperature {given.temperature} is below 0", hint="0 is greedy decoding")
        found = replace(found, temperature=temperature)
    return found


def _acceptance(way: str, given: options.Acceptance, shape: options.Shape) -> Any:
    from ..acceptance import Chain, Independent, Positional

    if way == "--p":
        assert given.p is not None
        decay = 1.0 if given.decay is None else share("--decay", given.decay)
        return Independent(share("--p", given.p), decay)
    if way == "--child-prob":
        assert given.child_prob is not None
        values = units.parse_list(given.child_prob)
        return Positional(tuple(values), scheme="ranked" if given.ranked else "ordered")
    if way == "--alpha":
        assert given.alpha is not None
        return Chain(tuple(units.parse_list(given.alpha)))
    if way == "--survival":
        assert given.survival is not None
        return Chain.from_survival(units.parse_list(given.survival))
    if way == "--acceptance":
        return _acceptance_files(given.acceptance)
    if shape.k is None:
        raise InputError(f"{way} needs the K it was measured with", hint=f"add --k, such as {way} 2.8 --k 5")
    k = positive("--k", shape.k)
    if way == "--accept-length":
        assert given.accept_length is not None
        return Chain.from_accept_length(units.parse_count(given.accept_length), k=k)
    assert given.accept_rate is not None
    return Chain.from_accept_rate(share(way, given.accept_rate), k=k)


def _acceptance_files(entries: list[str]) -> Any:
    from ..acceptance import Mixture
    from ..files import read_acceptance

    parts = [_split_weight(entry) for entry in entries]
    found = [read_acceptance(path) for path, _ in parts]
    if len(found) == 1:
        return found[0]
    weights = [1.0 if weight is None else weight for _, weight in parts]
    return Mixture(tuple(found), tuple(w / sum(weights) for w in weights))


def _split_weight(entry: str) -> tuple[str, float | None]:
    path, equals, weight = entry.rpartition("=")
    if not equals or Path(entry).exists():
        return entry, None
    value = read("--acceptance", weight, units.parse_share)
    assert value is not None
    if value <= 0:
        raise InputError(
            f"weight {weight} is not above 0", hint="--acceptance code.json=0.3 --acceptance chat.json=0.7"
        )
    return path, value


# ---- costs of a round


def costs(
    place: Scene,
    draft: options.Draft,
    verify: options.Verify,
    *,
    most: int | None = None,
    drafted: bool = True,
) -> Any:
    """What a round costs, None when neither a device with a model nor a verify curve was given.

    most      the largest node count that will be asked for
    drafted   False where a method will put its own draft in
    """
    from ..drafters import free_draft
    from ..plan import DEFAULT_NODES, Costs, useful_limit

    curve = _verify_curve(place, verify)
    timed = place.hardware is not None and place.model is not None
    if curve is None and not timed:
        _refuse_lone(place, draft)
        return None
    relative = curve is not None and curve.relative
    if curve is not None:
        table = (curve.scaled(1.0) if relative else curve).table()
        plain_s = table[0]
        _say_of_curve(place, curve, most)
    else:
        limit = most or useful_limit(crossover_width(place) or math.inf, None)
        table = place.timer().table(place.load, range(1, max(limit, 1) + 2))
        plain_s = table[0]
    proposed = _draft(place, draft, plain_s, relative=relative) if drafted else free_draft()
    overhead_s = _overhead(place, draft, relative)
    if proposed.last is not None:
        table = table[: max(proposed.last, DEFAULT_NODES) + 1]
    if proposed.free and drafted:
        place.notes.append(
            "no draft given: drafting is counted as free; --draft, --draft-pass or --draft-ratio counts it"
        )
    place.inputs.update(
        draft=None if proposed.free else proposed.name,
        draft_passes=draft.draft_passes,
        draft_shape=draft.draft_shape,
        overhead_s=overhead_s,
    )
    return Costs(
        verify_s=table,
        draft=proposed,
        overhead_s=overhead_s,
        draft_passes=draft.draft_passes,
        draft_shape=draft.draft_shape,
        batch=place.load.batch,
        relative=relative,
        measured=None if curve is None else frozenset(curve.widths),
    )


def _say_of_curve(place: Scene, curve: Curve, most: int | None) -> None:
    """What a measured curve leaves open."""
    if curve.between == "linear" and len(curve.widths) < curve.last:
        place.notes.append("between measured widths the time is interpolated; --between step or never changes that")
    if curve.last == 1:
        place.warnings.append("the curve has width 1 alone: nothing wider was measured, so nothing can be drafted")
    elif most is not None and most + 1 > curve.last:
        place.notes.append(f"the curve ends at width {curve.last}: the search stops at {curve.last - 1} nodes")
    if place.load.batch > 1 and "batch" not in curve.stated:
        place.notes.append(f"the curve states no batch: it is taken as measured at batch {place.load.batch}")
    if place.load.context and "context" not in curve.stated:
        place.notes.append("the curve states no context: --context changes nothing")
    if place.load.tp > 1 and place.model is None:
        place.warnings.append("--tp changes nothing: the times come from the curve")


def _refuse_lone(place: Scene, draft: options.Draft) -> None:
    """A draft or half a scene without a way to time the target is a mistake, not a wish for no costs."""
    given = [
        option.names[0]
        for name, option in draft.declared().items()
        if getattr(draft, name) not in (None, option.default)
    ]
    if place.hardware is not None or place.model is not None or given:
        what = "--gpu" if place.hardware is not None else "--model or --params" if place.model is not None else given[0]
        raise InputError(
            f"{what} alone gives no time of a verification pass",
            hint="give --gpu with --model or --params, or --verify-curve FILE",
        )


def _verify_curve(place: Scene, verify: options.Verify) -> Curve | None:
    if verify.verify_curve is None:
        return None
    from ..curve import read_curve

    text = read_file("--verify-curve", verify.verify_curve)
    context = place.load.context or None
    curve = read_curve(text, where=verify.verify_curve, batch=place.load.batch, context=context, between=verify.between)
    place.inputs.update(verify_curve=verify.verify_curve, between=verify.between)
    place.assumptions.append(
        (f"verification time measured at {len(curve.widths)} widths, 1 to {curve.last}", verify.verify_curve)
    )
    if curve.relative and place.hardware is not None and place.model is not None:
        curve = curve.scaled(place.timer().seconds(place.load))
    return curve


def _overhead(place: Scene, draft: options.Draft, relative: bool) -> float:
    given = read("--overhead", draft.overhead, units.parse_time)
    if given is not None:
        if given < 0:
            raise InputError(f"--overhead {draft.overhead} is negative", hint="write 2ms")
        if relative:
            raise InputError("--overhead needs a curve in ms or s", hint="a ratio curve has no seconds; give times")
        return given
    if place.hardware is None or place.time == "ideal" or relative:
        return 0.0
    overhead = place.hardware.overhead_or_default()
    text = f"overhead {units.show_time(overhead.per_round)} a round (acceptance, cache, host)"
    place.assumptions.append((text, overhead.source.partition(": ")[0]))
    return float(overhead.per_round)


def _draft(place: Scene, given: options.Draft, plain_s: float, *, relative: bool = False) -> Any:
    from ..drafters import PASSES, SHAPES, draft_by_curve, draft_by_ratio, draft_model, free_draft, timed_draft

    for option, value, known in (
        ("--draft-passes", given.draft_passes, PASSES),
        ("--draft-shape", given.draft_shape, SHAPES),
    ):
        if value not in known:
            raise InputError(f"{option} {value!r} is not known", hint="one of " + ", ".join(known))
    ways = {
        "--draft": given.draft or None,
        "--draft-params": given.draft_params,
        "--draft-curve": given.draft_curve,
        "--draft-pass": given.draft_pass,
        "--draft-ratio": given.draft_ratio,
    }
    named = [option for option, value in ways.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{named[0]} and {named[1]} both give the draft's cost", hint="leave one of them out")
    if not named:
        return free_draft()
    if given.draft_curve is not None:
        from ..curve import read_curve

        text = read_file("--draft-curve", given.draft_curve)
        curve = read_curve(text, where=given.draft_curve, batch=place.load.batch)
        if relative and not curve.relative:
            raise InputError(
                "--draft-curve has times, --verify-curve ratios",
                hint="give both in ms, or the draft's as ratios of a plain pass",
            )
        place.notes.append(f"draft passes were measured up to width {curve.last}: wider levels are not looked at")
        return draft_by_curve(curve if relative or not curve.relative else curve.times(plain_s))
    if given.draft_pass is not None:
        if relative:
            hint = "--draft-ratio 0.05 is 5 % of a plain pass"
            raise InputError("--draft-pass is a time, --verify-curve has ratios", hint=hint)
        seconds = read("--draft-pass", given.draft_pass, units.parse_time)
        assert seconds is not None
        return timed_draft(seconds)
    if given.draft_ratio is not None:
        ratio = read("--draft-ratio", given.draft_ratio, units.parse_share)
        assert ratio is not None
        return draft_by_ratio(ratio, plain_s)
    if place.hardware is None:
        raise InputError(f"{named[0]} needs a device", hint="add --gpu NAME, or give --draft-pass 0.5ms")
    if len(given.draft) > 1:
        raise InputError("several --draft without a method that merges them", hint="add --method specinfer")
    model = draft_spec(given, online=place.online)
    tp = place.load.tp if given.draft_tp is None else positive("--draft-tp", given.draft_tp)
    if place.model is not None:
        from ..drafters import check_against_target, context_warning

        place.warnings.extend(check_against_target(model, place.model))
    if model.max_context is not None and place.load.context > model.max_context:
        place.warnings.append(
            f"--context {place.load.context} is past the {model.max_context} positions of the draft {model.name}: "
            "acceptance measured on shorter prompts does not hold"
        )
        short = context_warning(model, place.load.context)
        if short is not None:
            place.warnings.append(short)
    return draft_model(
        place.hardware,
        model,
        batch=place.load.batch,
        context=place.load.context,
        tp=tp,
        time=place.time,
        engine=place.engine,
    )


def drafts(place: Scene, given: options.Draft, plain_s: float) -> list[Any]:
    """Every draft that the options name; one that is free where they name none."""
    each = [[name] for name in given.draft] or [[]]
    return [_draft(place, options.Draft(**{**vars(given), "draft": names}), plain_s) for names in each]


def draft_spec(given: options.Draft, *, online: bool = False) -> Any:
    """The draft model that the options name."""
    name = given.draft[0] if given.draft else None
    model = model_of("--draft", name, "--draft-params", given.draft_params, dtype=given.draft_dtype, online=online)
    return with_formats(
        model,
        ("--draft-dtype", given.draft_dtype),
        ("--draft-weight-bits", given.draft_weight_bits),
        ("--draft-kv-dtype", given.draft_kv_dtype),
    )


def limits(shape: options.Shape, costs: Any, crossover: float | None) -> Any:
    """The limits of the search; defaults come from the device or the curve and are printed."""
    from ..plan import DEFAULT_DEPTH, Limits, useful_limit

    nodes = None if shape.budget is None else positive("--budget", shape.budget)
    if nodes is None:
        if costs is None:
            raise InputError("no budget given", hint="--budget 14 is a tree of up to 14 drafted tokens")
        last = None if costs.measured is None else len(costs.verify_s)
        nodes = useful_limit(crossover if crossover is not None else math.inf, last)
    return Limits(
        nodes,
        DEFAULT_DEPTH if shape.max_depth is None else positive("--max-depth", shape.max_depth),
        None if shape.max_children is None else positive("--max-children", shape.max_children),
    )


def given_tree(shape: options.Shape, acceptance: options.Acceptance) -> Any:
    """The tree of --from or the chain of --k, None when neither is asked for.

    With --accept-length and --accept-rate, --k is the K that was measured; the chain of that K is
    evaluated unless a budget asks for a search.
    """
    from ..tree import TokenTree

    if shape.from_ is not None:
        if shape.k is not None:
            raise InputError("--from and --k both give the tree", hint="leave one of them out")
        from ..files import read_tree

        with naming("--from"):
            return read_tree(shape.from_)
    if shape.k is None or (shape.budget is not None and (acceptance.accept_length or acceptance.accept_rate)):
        return None
    return TokenTree.chain(positive("--k", shape.k))


def crossover_width(place: Scene) -> float | None:
    """Tokens per sequence at which compute catches up, None without a device and a model."""
    if place.hardware is None or place.model is None:
        return None
    from ..roofline import crossover_tokens

    return crossover_tokens(place.hardware, place.model, place.load) / place.load.batch


def warn_of_depth(place: Scene, tree: Any, acceptance: Any) -> None:
    """A tree deeper than what was measured: the levels below count as never accepted."""
    known = None if acceptance is None else acceptance.max_depth
    if tree is not None and known is not None and tree.depth > known:
        place.warnings.append(
            f"the acceptance knows {known} levels, the tree has {tree.depth}: "
            "deeper tokens are counted as never accepted"
        )


def refuse_unknown_siblings(acceptance: Any, limits: Any) -> None:
    """Chain data says nothing about siblings: a tree from it is refused."""
    if not acceptance.siblings_known and limits.children != 1:
        raise InputError(
            "chain data says nothing about second-best children, so no tree can be planned from it",
            hint="--max-children 1 plans a chain, --k K evaluates one, --assume-ranks takes siblings as independent",
        )


def described(given: options.Acceptance, shape: options.Shape) -> dict[str, Any]:
    """The acceptance options as given."""
    said = {key: _typed(value) for key, value in vars(given).items() if value not in (None, False, [])}
    if given.accept_length or given.accept_rate:
        said["k"] = _typed(shape.k)
    return said


def _typed(value: Any) -> Any:
    """An option's text as the number that it is, where it is one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def chains_only_if_needed(place: Scene, acceptance: Any, limits: Any) -> Any:
    """Limits that allow chains alone where nothing is known of siblings, with a note."""
    if acceptance.siblings_known or limits.children == 1:
        return limits
    place.notes.append(
        "chain data says nothing about siblings: only chains are planned; --assume-ranks takes them as independent"
    )
    return replace(limits, children=1)


def memory_of(place: Scene, costs: Any) -> Callable[[int], Any] | None:
    """Memory on one device by number of nodes; None without a device and a model."""
    if place.hardware is None or place.model is None:
        return None
    from ..memory import memory

    load, capacity = place.load, place.hardware.memory.capacity
    place.assumptions.append(
        ("memory: weights and caches; activations and the runtime's reserve are left out", "memory.py")
    )

    def needed(nodes: int) -> Any:
        return memory(
            place.model,
            costs.draft,
            context=load.context,
            batch=load.batch,
            tp=load.tp,
            nodes=nodes,
            device_bytes=capacity,
            offload=place.offload,
        )

    return needed


@dataclass(frozen=True)
class Extra:
    """Further questions: families of shapes, limits and sensitivity.

    costs_at   costs at a bandwidth times a factor, None without a device and a model
    """

    families: bool
    explain: bool
    heads: int
    max_rank: int
    costs_at: Callable[[float], Any] | None


def extra(
    place: Scene,
    more: options.More,
    draft: options.Draft,
    verify: options.Verify,
    reprice: Callable[[Scene, Any], Any] | None = None,
) -> Extra:
    """What --families and --explain ask for.

    reprice   puts a method's draft and verification into the costs; None: as the options give them
    """
    from ..in_stack import DEFAULT_HEADS, DEFAULT_MAX_RANK

    if (more.heads or more.max_rank) and not more.families and reprice is None:
        raise InputError("--heads and --max-rank go with --method medusa or --families", hint="add --families")
    timed = more.explain and place.hardware is not None and place.model is not None and verify.verify_curve is None

    def costs_at(factor: float) -> Any:
        from ..hardware import override

        bandwidth = f"{place.hardware.memory.bandwidth * factor}"
        other = replace(
            place.at_batch(place.load.batch), hardware=override(place.hardware, {"memory.bandwidth": f"{bandwidth}B/s"})
        )
        found = costs(other, draft, verify, most=place.inputs["budget"], drafted=reprice is None)
        return found if reprice is None else reprice(other, found)

    return Extra(
        more.families,
        more.explain,
        DEFAULT_HEADS if more.heads is None else positive("--heads", more.heads),
        DEFAULT_MAX_RANK if more.max_rank is None else positive("--max-rank", more.max_rank),
        costs_at if timed else None,
    )
