"""specplan measure curve"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..base import units
from ..base.errors import InputError
from . import values
from .finish import check_plot, finish
from .measuring import check_folder, check_profile_path, incomplete, origin, place_from
from .options import Curves, Measuring, Output, Plot, command
from .progress import METER

DTYPES = ("bf16", "fp16", "fp32")


@command
def curve(of: Curves, measuring: Measuring, output: Output, plot: Plot) -> None:
    """Time of a pass by width, with random weights, into the profile.

    \b
    specplan measure curve --model llama-3.2-1b --context 128,2k --batch 1,8 --profile my-gpu.yaml
    specplan measure curve --model llama-3-70b --draft llama-3.2-1b --profile my-gpu.yaml --csv curve.csv

    Curves win over the formula, for their model, dtype and batch. The fit is a summary of what they say of the device.
    """
    from ..measure import need

    need("torch")
    from ..measure.width_curve import default_widths, formula_times, summaries
    from ..render.measured import curve_answer
    from ..render.output import write_whole

    check_plot(plot)
    check_folder("--csv", of.csv)
    check_folder("--out", output.out)
    models = _models(of)
    hardware = _profile(of)
    place = place_from(measuring)
    widths = _widths(of) or default_widths(place, quick=measuring.quick)
    anchors, notes = _anchors(hardware, of, place)
    inputs = {
        "device": str(place.device),
        "threads": place.timer.threads,
        "models": [model.name for model in models],
        "dtype": of.dtype,
        "widths": list(widths),
        "quick": measuring.quick,
        "profile": of.profile,
    }
    tables: list[Any] = []
    try:
        for table in _tables(place, models, of, widths, measuring.quick):
            tables.append(table)
    except KeyboardInterrupt:
        if of.profile is not None:
            kept: dict[str, Any] = {"inputs": inputs, "written": None, "complete": False, "notes": notes}
            incomplete(of.profile, curve_answer(place, tables, [], **kept) if tables else None)
        raise
    if hardware is not None and of.profile is not None:
        _write(of.profile, hardware, tables, models, origin(place))
    if of.csv is not None:
        write_whole(of.csv, _csv(tables))
    found = summaries(tables, anchors=anchors)
    answer = curve_answer(place, tables, found, inputs=inputs, written=of.profile, notes=notes)

    def sheet() -> Any:
        from ..render.figures.sheets import curve_sheet

        return curve_sheet(answer, tables, [formula_times(table, found) for table in tables])

    finish(answer, output, plot=plot, sheet=sheet)


def _models(of: Curves) -> list[Any]:
    """The target and the drafts; a shape that cannot be computed is refused before anything is timed."""
    from ..measure.decoder import DecoderConfig
    from ..models.spec import load_model

    if of.model is None:
        raise InputError("no model given", hint="--model llama-3.2-1b, or --model path/to/config.json")
    if of.dtype not in DTYPES:
        raise InputError(f"--dtype {of.dtype[:40]!r} is not timed here", hint="one of " + ", ".join(DTYPES))
    models = [load_model(name, dtype=of.dtype) for name in (of.model, *of.draft)]
    for model in models:
        DecoderConfig.from_model(model)
    return models


def _profile(of: Curves) -> Any:
    from ..hardware.profile import load_hardware

    if of.profile is None:
        return None
    check_profile_path("--profile", of.profile)
    with values.naming("--profile"):
        return load_hardware(of.profile)


def _counts(option: str, text: str | None) -> tuple[int, ...]:
    """Whole numbers from 1 up, rising, each once."""
    found = values.read(option, text, units.parse_integers) or []
    if found and min(found) < 1:
        raise InputError(f"{option} {min(found)} is below 1", hint=f"{option} takes whole numbers from 1 up")
    return tuple(sorted(set(found)))


def _widths(of: Curves) -> tuple[int, ...]:
    widths = _counts("--widths", of.widths)
    if widths and (widths[0] != 1 or len(widths) < 2):
        raise InputError(f"--widths {of.widths}: a curve has width 1 and one more", hint="--widths 1,2,4,8,16")
    return widths


def _contexts(text: str) -> list[int]:
    with values.naming("--context"):
        return [units.parse_tokens(part) for part in text.split(",")]


def _tables(place: Any, models: Sequence[Any], of: Curves, widths: Sequence[int], quick: bool) -> Iterator[Any]:
    from ..measure.width_curve import Load, Task, tables_of

    loads = [Load(batch, context) for batch in _counts("--batch", of.batch) for context in _contexts(of.context)]
    depths = _counts("--depths", of.depths)
    for index, model in enumerate(models):

        def tell(share: float, what: str, index: int = index) -> None:
            METER.tell((index + share) / len(models), what)

        chosen = () if index else depths
        if any(depth > model.layers for depth in chosen):
            raise InputError(f"--depths {of.depths}: {model.name} has {model.layers} layers", hint="give fewer layers")
        if len(chosen) == 1 and chosen[0] != model.layers:
            raise InputError(f"--depths {of.depths}: one depth alone is no line", hint="--depths 2,8")
        yield from tables_of(Task(place, model, of.dtype, widths, quick), loads, depths=chosen, tell=tell)


def _anchors(hardware: Any, of: Curves, place: Any) -> tuple[dict[str, float], list[str]]:
    """Readings of this device that pull the fit weakly, and what to say of the profile."""
    if hardware is None:
        return {}, ["no --profile: the curve goes into no profile, and no readings of the device anchor the fit"]
    notes = []
    if place.name not in (hardware.title.removesuffix(", measured"), *hardware.aliases):
        notes.append(f"{of.profile} is the profile of {hardware.title or hardware.name}, measured here is {place.name}")
    entry = hardware.efficiency.get(of.dtype)
    if entry is None or not hardware.source_of("title").startswith("measured"):
        return {}, [
            *notes,
            f"{of.profile} has no measured {of.dtype} readings (measure device), so nothing anchors the fit",
        ]
    anchors = {}
    if entry.memory is not None:
        anchors["bandwidth"] = entry.memory * hardware.memory.bandwidth
    if entry.compute is not None:
        anchors["peak"] = entry.compute * hardware.compute.peaks()[of.dtype]
    return anchors, notes


def _write(path: str, hardware: Any, tables: Sequence[Any], models: Sequence[Any], source: str) -> None:
    """The profile with the curves, written whole."""
    from ..hardware.profile import profile_text
    from ..render.output import write_whole
    from ..timing.measured import curve_of, with_curves

    by_name = {model.name: model for model in models}
    curves = [
        curve_of(
            [row.width for row in table.rows],
            [row.seconds for row in table.rows],
            dtype=table.dtype,
            batch=table.load.batch,
            context=table.load.context,
            mode=table.mode,
            **_identity(by_name[table.model]),
        )
        for table in tables
    ]
    write_whole(path, profile_text(with_curves(hardware, curves, source=source)))


def _identity(model: Any) -> dict[str, Any]:
    """A bundled model by its name; one from a path by its number of weights, which any path to it shares."""
    from ..models.spec import model_names

    return {"model": model.name} if model.name in model_names() else {"params": float(model.params_total)}


def _csv(tables: Sequence[Any]) -> str:
    lines = ["width,ms,p20_ms,p80_ms,samples,joules,batch,context,dtype,mode,model"]
    for table in tables:
        name = re.sub(r'[,"\s]+', "-", table.model)
        for row in table.rows:
            times = ",".join(f"{1e3 * seconds:.6g}" for seconds in (row.seconds, row.p20, row.p80))
            energy = "" if row.joules is None else f"{row.joules:.6g}"
            load = f"{table.load.batch},{table.load.context},{table.dtype},{table.mode},{name}"
            lines.append(f"{row.width},{times},{row.samples},{energy},{load}")
    return "\n".join(lines) + "\n"
