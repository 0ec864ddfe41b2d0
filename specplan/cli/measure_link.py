"""specplan measure device --tp: the all-reduce between devices, under torchrun"""

import os
from typing import Any

from ..base.errors import EnvironmentProblem, InputError
from .finish import finish
from .measuring import origin, place_from
from .options import Measuring, Printed
from .progress import METER


def measure_link(measuring: Measuring, out: str | None, output: Printed, *, tp: int) -> None:
    """Time the all-reduce of `tp` processes; the first one prints, and writes `link` into the profile `out`."""
    rank, local = _rank(tp)
    hardware = _profile(out)
    from ..hardware.profile import profile_text
    from ..measure.allreduce import all_reduce_times, with_link
    from ..render.measured import link_answer
    from ..render.output import write_whole

    place = place_from(_own_device(measuring, local))
    reading = all_reduce_times(place.device, quick=measuring.quick, tell=METER.tell)
    if rank:
        return
    if hardware is not None and out is not None:
        write_whole(out, profile_text(with_link(hardware, reading, source=f"{origin(place)}, {reading.backend}")))
    finish(link_answer(place, reading, inputs={"tp": tp, "quick": measuring.quick}, written=out), output.as_output())


def _rank(tp: int) -> tuple[int, int]:
    """(rank, rank on this machine) as torchrun says them."""
    try:
        rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except (KeyError, ValueError):
        start = f"torchrun --standalone --nproc_per_node {tp} -m specplan measure device --tp {tp}"
        raise EnvironmentProblem(f"--tp {tp} needs {tp} processes", hint=f"start them: {start}") from None
    if world != tp:
        raise InputError(f"--tp {tp}, but torchrun started {world} processes", hint=f"--nproc_per_node {tp}")
    return rank, local


def _own_device(measuring: Measuring, local: int) -> Measuring:
    """Each process takes the GPU of its own number, unless the CPU was asked for or there are too few."""
    import torch

    if measuring.device is not None and measuring.device.startswith("cpu"):
        return measuring
    if measuring.device is None and not torch.cuda.is_available():
        return measuring
    return Measuring(device=f"cuda:{local}", threads=measuring.threads, quick=measuring.quick)


def _profile(out: str | None) -> Any:
    """The profile that takes the link; it has to be there already."""
    from ..hardware.profile import load_hardware

    if out is None:
        return None
    if not os.path.isfile(out):
        raise InputError(f"--out {out}: no such profile", hint=f"specplan measure device --out {out} makes it first")
    return load_hardware(out)
