"""The grid that the options of `sweep` describe: cells, loads and acceptances, in order."""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..base import units
from ..base.errors import InputError, did_you_mean
from . import chances, methods, options, pricing, scenes, values
from .grid_options import Chances, Devices, Drafts, Limit, Targets, Ways
from .options import Group

# Methods that draft with a model; the others are the same whatever --draft names.
WITH_MODEL = ("tree", "chain", "specinfer", "sequoia")


class Wanted:
    """What the options ask for: cells, loads and acceptances, in order."""

    def __init__(
        self, device: Devices, target: Targets, draft: Drafts, how: Ways, acceptance: Chances, shape: Limit
    ) -> None:
        self.options = (device, target, draft, how, acceptance, shape)
        self.assumptions: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.inputs: dict[str, Any] = {}
        place = [setting for setting in device.settings if not setting.startswith("model.")]
        about = [setting for setting in device.settings if setting.startswith("model.")]
        self.devices = [self._scene(gpu=name, settings=place, time=device.time) for name in _listed(device.gpu)]
        self.models = self._models(target, about)
        if not self.devices or not self.models:
            scenes.Scene(hardware=self.devices or None, model=self.models or None).require()
        self.engines = self._engines(device)
        self.tps = _whole("--tp", target.tp)
        self.batches, self.contexts = _whole("--batch", target.batch), _contexts(target.context)
        self.loads = list(itertools.product(self.batches, self.contexts))
        self.chances = _chances(acceptance, shape, self.contexts)
        self.drafts = _drafts(draft)
        self.asked = self._methods(how, shape)
        self.methods = self.asked.names or ("tree",)
        self.nodes = None if shape.budget is None else values.positive("--budget", shape.budget)
        self.cells = list(self._cells())
        self._say()

    @property
    def points(self) -> int:
        return len(self.cells) * len(self.loads) * len(self.chances)

    def _scene(self, *, target: Any = None, **device: Any) -> Any:
        """A device or a model alone, and what is said of it."""
        place = scenes.scene(
            options.Device.with_defaults(**device), target or options.Target.with_defaults(context="0")
        )
        self.assumptions += place.assumptions
        self.notes += place.notes
        return place

    def _models(self, target: Targets, settings: list[str]) -> list[Any]:
        named: list[dict[str, Any]] = [{"model": name} for name in _listed(target.model)]
        if target.params is not None:
            named.append({"params": target.params, "layers": target.layers})
        elif target.layers is not None:
            raise InputError("--layers goes with --params", hint="add --params 13e9")
        shared = {name: getattr(target, name) for name in ("online", "weight_bits", "kv_dtype")}
        dtypes: list[Any] = _listed(target.dtype) or [None]
        return [
            self._scene(
                target=options.Target.with_defaults(**name, **shared, dtype=dtype, context="0"), settings=settings
            ).model
            for name in named
            for dtype in dtypes
        ]

    def _engines(self, device: Devices) -> list[Any]:
        from ..hardware.engines import load_engine

        with values.naming("--engine"):
            return [load_engine(name) for name in _listed(device.engine)] or [None]

    def _methods(self, how: Ways, shape: Limit) -> Any:
        if how.exit_layer is not None and ":" in how.exit_layer:
            raise InputError("--exit-layer takes one layer here", hint="specplan plan takes rates by layer")
        given = options.Methods.with_defaults(
            method=_listed(how.method),
            exit_layer=how.exit_layer,
            steps=how.steps,
            topk=how.topk,
            proposal_share=how.proposal_share,
        )
        return methods.asked(given, shape, how.heads, how.max_rank)

    def _cells(self) -> Iterator[Any]:
        device, target, draft, _, _, shape = self.options
        tie = 0.01 if shape.tie is None else values.tie(shape.tie)
        depth, children = self._depth_and_children(shape)
        from ..planning.sweep import Cell

        overheads = [pricing.overhead(place, draft, relative=False) for place in self.devices]
        for (place, overhead_s), model, tp, engine, method in itertools.product(
            zip(self.devices, overheads), self.models, self.tps, self.engines, self.methods
        ):
            drafts = self.drafts if method in WITH_MODEL else _without_models(self.drafts)
            for name, source, spec in drafts:
                yield Cell(
                    labels=(
                        place.hardware.name,
                        model.name,
                        model.formats["default"].name,
                        tp,
                        None if engine is None else engine.name,
                        method,
                        name,
                    ),
                    hardware=place.hardware,
                    model=model,
                    tp=tp,
                    time=device.time,
                    engine=engine,
                    offload=target.offload,
                    build=partial(build, method, self._asked_of(method), _options_of(draft), source),
                    overhead_s=overhead_s,
                    draft_passes=draft.draft_passes,
                    draft_shape=draft.draft_shape,
                    budget=self.nodes,
                    depth=depth,
                    children=children,
                    tie=tie,
                    problem=_problem(model, spec, target.offload),
                )

    def _depth_and_children(self, shape: Limit) -> tuple[int, int | None]:
        from ..search.space import DEFAULT_DEPTH

        depth = DEFAULT_DEPTH if shape.max_depth is None else values.positive("--max-depth", shape.max_depth)
        children = None if shape.max_children is None else values.positive("--max-children", shape.max_children)
        return depth, children

    def _asked_of(self, method: str) -> Any:
        return replace(self.asked, names=() if method == "tree" else (method,))

    def _say(self) -> None:
        """Inputs, and what is assumed, each once."""
        device, _, draft, how, _, shape = self.options
        axes = {
            name: list(dict.fromkeys(column)) for name, column in zip(_labels(), zip(*(c.labels for c in self.cells)))
        }
        self.inputs = {
            **axes,
            "batch": self.batches,
            "context": self.contexts,
            "acceptance": [chance.name for chance in self.chances],
            **{
                name: value
                for group in (device, draft, how, shape)
                for name, value in vars(group).items()
                if name not in (*axes, "gpu") and value not in (None, [], False)
            },
        }
        if device.time == "calibrated" and self.engines == [None]:
            self.assumptions.append(
                ("engine unknown: middle constants of engines that replay graphs", "--engine NAME narrows it")
            )
        if any(chance.acceptance is not None for chance in self.chances):
            self.assumptions.append((f"acceptance: {', '.join(_short([c.name for c in self.chances]))}", "options"))
        if not any(name for name, _, _ in self.drafts) and set(self.methods) <= {"tree"}:
            self.notes.append(
                "no draft given: drafting is counted as free; --draft, --draft-pass or --method counts it"
            )
        self.assumptions = list(dict.fromkeys(self.assumptions))
        self.notes = list(dict.fromkeys(self.notes))

    def longest_axes(self) -> tuple[str, str, str]:
        """The two axes with the most values, and the speed-up over them."""
        from ..render.sweep import AXES, longest_axes

        return (*longest_axes({name: len(self.inputs[name]) for name in AXES}), "speedup")

    def fingerprint(self) -> str:
        """What tells this grid from any other: its options, and what is in the files that they name."""
        from .. import __version__

        given = [vars(group) for group in self.options]
        files = [
            hashlib.sha256(Path(text).read_bytes()).hexdigest()
            for text in _texts(given)
            if len(text) < 4096 and os.path.isfile(text)
        ]
        return hashlib.sha256(json.dumps([__version__, given, files], sort_keys=True).encode()).hexdigest()


def _labels() -> tuple[str, ...]:
    from ..render.rows import LABELS

    return LABELS


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split(",")
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _short(names: Sequence[str]) -> Sequence[str]:
    return names if len(names) <= 4 else [*names[:2], "...", names[-1]]


def _listed(entries: Sequence[str]) -> list[str]:
    """Repeated options and commas between, each value once; a file's name may hold commas."""
    parts = [part.strip() for entry in entries for part in ([entry] if os.path.exists(entry) else entry.split(","))]
    if "" in parts:
        raise InputError(f"{','.join(entries)[:60]!r} has an empty entry", hint="write names with commas between")
    return list(dict.fromkeys(parts))


def _whole(option: str, text: str) -> list[int]:
    found = list(dict.fromkeys(values.read(option, text, units.parse_integers) or []))
    if min(found) < 1:
        raise InputError(f"{option} {min(found)} is below 1", hint=f"{option} is a whole number from 1 up")
    return found


def _contexts(text: str | None) -> list[int]:
    parse = partial(units.parse_list, parse=units.parse_tokens)
    found = values.read("--context", text, parse) or [0]
    return [int(value) for value in dict.fromkeys(found)]


def _chances(given: Chances, shape: Limit, contexts: list[int]) -> list[Any]:
    """One acceptance a value of --p or a file; any other way is one of its own; none is None."""
    from ..planning.sweep import Chance

    plain = {name: value for name, value in vars(given).items() if name in options.Acceptance.declared()}
    target = options.Target.with_defaults(context=str(contexts[0]) if len(contexts) == 1 and contexts[0] else None)

    def one(name: str, p: float | None, own: dict[str, Any]) -> Any:
        found = chances.acceptance(options.Acceptance(**(plain | own)), shape, target)
        chances.refuse_without_chains(found)
        return Chance(name, p, found)

    if given.p is not None:
        decay = "" if given.decay is None else f", decay {given.decay}"
        shares = values.read("--p", given.p, units.parse_shares) or []
        return [one(f"p {p:g}{decay}", p, {"p": repr(p)}) for p in dict.fromkeys(shares)]
    if given.acceptance:
        return [one(name, None, {"acceptance": [name]}) for name in _listed(given.acceptance)]
    ways = ("child_prob", "alpha", "survival", "accept_length", "accept_rate")
    named = next((name for name in ways if plain[name] is not None), None)
    return [one("" if named is None else f"{named.replace('_', ' ')} {plain[named]}", None, {})]


# ---- drafts and methods, priced where the points are


def _drafts(given: Drafts) -> list[tuple[str | None, Any, Any]]:
    """(name, what prices it, model) of every draft."""
    from ..timing.draft import PASSES, SHAPES

    for option, value, known in (
        ("--draft-passes", given.draft_passes, PASSES),
        ("--draft-shape", given.draft_shape, SHAPES),
    ):
        if value not in known:
            raise InputError(f"{option} {value!r} is not known", hint="one of " + ", ".join(known))
    names = _listed(given.draft)
    ways = {"--draft": names, "--draft-params": given.draft_params, "--draft-pass": given.draft_pass}
    named = [option for option, value in (ways | {"--draft-ratio": given.draft_ratio}).items() if value]
    if len(named) > 1:
        raise InputError(f"{named[0]} and {named[1]} both give the draft's cost", hint="leave one of them out")
    if given.draft_pass is not None:
        seconds = values.read("--draft-pass", given.draft_pass, units.parse_time)
        assert seconds is not None
        return [(f"pass of {given.draft_pass}", partial(_timed, seconds), None)]
    if given.draft_ratio is not None:
        ratio = values.read("--draft-ratio", given.draft_ratio, units.parse_share)
        assert ratio is not None
        return [(f"{given.draft_ratio} of a pass", partial(_by_ratio, ratio), None)]
    if not named:
        return [(None, _free, None)]
    tp = None if given.draft_tp is None else values.positive("--draft-tp", given.draft_tp)
    found = []
    for one in [[name] for name in names] or [[]]:
        spec = pricing.draft_spec(options.Draft(**(vars(_options_of(given)) | {"draft": one})))
        found.append((spec.name, partial(_by_model, spec, tp), spec))
    return found


def _options_of(given: Drafts) -> options.Draft:
    """As the options of one plan."""
    return options.Draft(**{**vars(given), "draft": [], "draft_curve": None})


def _without_models(drafts: Sequence[tuple[Any, Any, Any]]) -> list[tuple[Any, Any, Any]]:
    """Draft models say nothing of a head or of a lookup."""
    return [(None, _free, None)] if drafts[0][2] is not None else list(drafts)


def _free(setting: Any, plain_s: Any) -> Any:
    from ..timing.draft import free_draft

    return free_draft()


def _timed(seconds: float, setting: Any, plain_s: Any) -> Any:
    from ..timing.draft import timed_draft

    return timed_draft(seconds)


def _by_ratio(ratio: float, setting: Any, plain_s: Any) -> Any:
    from ..timing.draft import draft_by_ratio

    return draft_by_ratio(ratio, plain_s)


def _by_model(spec: Any, tp: int | None, setting: Any, plain_s: Any) -> Any:
    return setting.draft(spec, tp or setting.load.tp)


def build(
    method: str, asked: Any, given: options.Draft, source: Any, setting: Any, plain_s: Any, acceptance: Any
) -> Any:
    """The method with its draft, for one setting."""
    from ..methods.catalogue import Method

    if method == "tree":
        return Method(method, source(setting, plain_s))
    builder = methods.Builder(setting, given, asked, acceptance, lambda: [source(setting, plain_s)])
    return builder.build(method)


def _problem(model: Any, draft: Any, offload: str | None) -> str | None:
    """Why a pair cannot be planned; in a grid that is an answer and no mistake."""
    from ..models.pair import check_against_target

    if offload == "experts" and not model.is_moe:
        return f"--offload experts: {model.name} has no experts"
    try:
        if draft is not None:
            check_against_target(draft, model)
    except InputError as error:
        return error.message
    return None


# ---- a grid from a file


def fill(groups: Sequence[Group], path: str) -> None:
    """The values of a YAML file where the command line gives none."""
    from ..base.yaml import read_file, read_yaml

    with values.naming("--grid"):
        node = read_yaml(read_file(path), where=path)
    known = {name.strip("_"): (group, name) for group in groups for name in type(group).declared()} | {
        "set": (groups[0], "settings")
    }
    for key, child in node.fields.items():
        where = f"{path}:{child.key_line}:{child.key_column}"
        if key.replace("-", "_") not in known:
            names = [name.replace("_", "-") for name in known]
            raise InputError(
                f"{where}: no option {key[:40]!r}",
                hint=did_you_mean(key, names, otherwise="the options of specplan sweep, without the dashes"),
            )
        group, name = known[key.replace("-", "_")]
        option = type(group).declared()[name]
        if getattr(group, name) in (option.default, None):
            setattr(group, name, _typed(child.plain(), option, where))


def _typed(value: Any, option: options.Declared, where: str) -> Any:
    """A file's value as the command line would give it."""
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: neither a value nor a list of values", hint="batch: [1, 8, 64], or batch: 1..64")
    if option.kind is bool:
        return texts == ["true"]
    return texts if option.kind == list[str] else ",".join(texts)
