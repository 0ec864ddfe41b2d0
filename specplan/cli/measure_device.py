"""specplan measure device"""

from typing import Any

from ..base.errors import InputError
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
    from ..hardware.profile import profile_text
    from ..measure import place as places
    from ..measure.device import read_dtypes, readings
    from ..measure.profile_out import check_place, profile_name, profile_of
    from ..render.measured import device_answer
    from ..render.output import write_whole

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
    known: dict[str, Any] = {"inputs": inputs, "datasheet": base.name if base else None}
    check_place(place, base)
    taken: list[Any] = []
    try:
        for reading in readings(place, dtypes=dtypes, quick=measuring.quick, tell=METER.tell):
            taken.append(reading)
    except KeyboardInterrupt:
        if of.out is not None:
            answer = device_answer(place, taken, made=None, written=None, complete=False, notes=notes, **known)
            incomplete(of.out, answer if taken else None)
        raise
    made = profile_of(place, taken, base, name=profile_name(of.out or place.name), origin=origin(place))
    if of.out is not None:
        hardware, kept = _with_kept(made.hardware, of.out)
        notes += [f"{of.out} held {kept} measured on this device, which stay"] if kept else []
        write_whole(of.out, profile_text(hardware))
    finish(device_answer(place, taken, made=made, written=of.out, notes=notes, **known), output.as_output())


def _with_kept(hardware: Any, out: str) -> tuple[Any, str]:
    """The profile with curves and link of the one that it replaces, if that was of this same device; what was kept."""
    from ..hardware.profile import load_hardware

    try:
        before = load_hardware(out)
    except InputError:
        return hardware, ""
    sections = ("curves", "link") if before.title == hardware.title else ()
    kept = [name for name in sections if getattr(before, name) != getattr(hardware, name)]
    said = {key: text for key, text in before.sources.items() if key.split(".")[0] in kept}
    update = {name: getattr(before, name) for name in kept} | {"sources": {**hardware.sources, **said}}
    return hardware.model_copy(update=update), " and ".join(kept)
