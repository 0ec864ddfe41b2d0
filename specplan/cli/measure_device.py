"""specplan measure device"""

from typing import Any

from ..errors import InputError
from . import values
from .finish import finish
from .measure_link import measure_link
from .measuring import check_profile_path, incomplete, origin, place_from
from .options import Measured, Measuring, Printed, command
from .progress import METER


@command
def device(measuring: Measuring, of: Measured, output: Printed) -> None:
    """Bandwidth, peaks and overheads of this device, as a profile.

    \b
    specplan measure device --out my-gpu.yaml
    specplan measure device --out my-cpu.yaml --device cpu --threads 8 --quick
    torchrun --standalone --nproc_per_node 2 -m specplan measure device --tp 2 --out my-gpu.yaml

    Every command takes the profile with --gpu my-gpu.yaml. An interrupted run leaves it as it was.
    """
    from ..measure import need

    need("torch")
    from ..measure import place as places
    from ..measure.device import read_dtypes

    dtypes = read_dtypes(of.dtype)
    tp = values.positive("--tp", of.tp)
    if of.out is not None:
        check_profile_path("--out", of.out)
    if tp > 1:
        measure_link(measuring, of.out, output, tp=tp)
        return
    place = place_from(measuring)
    base, why_not = places.datasheet(place, of.gpu)
    notes = [why_not] if why_not else []
    if not place.is_cuda and measuring.device is None:
        notes.append("torch finds no GPU here, so the CPU is measured; --device cpu says so without this note")
    if place.library.why_not and place.is_cuda:
        notes.append(f"NVML does not answer, so power and clock reasons are not known: {place.library.why_not}")
    inputs = {
        "device": str(place.device),
        "threads": place.timer.threads,
        "quick": measuring.quick,
        "dtypes": list(dtypes),
    }
    _measure(place, base, dtypes, of.out, measuring.quick, inputs=inputs, notes=notes, output=output)


def _measure(
    place: Any,
    base: Any,
    dtypes: Any,
    out: str | None,
    quick: bool,
    *,
    inputs: dict[str, Any],
    notes: list[str],
    output: Printed,
) -> None:
    from ..hardware import profile_text
    from ..measure.device import readings
    from ..measure.profile_out import profile_name, profile_of
    from ..render.measured import device_answer
    from ..render.output import write_whole

    taken: list[Any] = []
    datasheet = base.name if base else None
    try:
        for reading in readings(place, dtypes=dtypes, quick=quick, tell=METER.tell):
            taken.append(reading)
    except KeyboardInterrupt:
        answer = device_answer(
            place, taken, inputs=inputs, made=None, datasheet=datasheet, written=None, complete=False, notes=notes
        )
        if out is not None:
            incomplete(out, answer if taken else None)
        raise
    made = profile_of(place, taken, base, name=profile_name(out or place.name), origin=origin(place))
    hardware = made.hardware
    if out is not None:
        kept_curves = _curves_of(out, hardware)
        if kept_curves is not None:
            hardware = hardware.model_copy(update=kept_curves)
            notes.append(f"{out} held measured curves of this device, which were kept")
        write_whole(out, profile_text(hardware))
    finish(
        device_answer(place, taken, inputs=inputs, made=made, datasheet=datasheet, written=out, notes=notes),
        output.as_output(),
    )


def _curves_of(out: str, hardware: Any) -> dict[str, Any] | None:
    """The curves of the profile that is replaced, if it was one of this same device."""
    from ..hardware import load_hardware

    try:
        before = load_hardware(out)
    except InputError:
        return None
    if not before.curves or before.title != hardware.title:
        return None
    said = {"curves": before.sources.get("curves", "")}
    return {"curves": before.curves, "sources": {**hardware.sources, **said}}
