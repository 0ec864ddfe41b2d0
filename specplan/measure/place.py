"""Which device is measured, and what torch and NVML say of it."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from typing import Any

import torch

from ..base.errors import EnvironmentProblem, InputError
from ..hardware.profile import Hardware, Kind, load_hardware
from .clocks import Timer
from .nvml import Library
from .readings import Place

CONSUMER = re.compile(r"geforce|\brtx\b|titan", re.IGNORECASE)


def choose(asked: str | None) -> torch.device:
    """The device that was asked for; without one the first GPU, or the CPU where there is none.

    Raises  InputError for a name that is no device, EnvironmentProblem for a GPU that is not there.

    >>> choose("cpu").type
    'cpu'
    """
    if asked is None:
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    match = re.fullmatch(r"(cpu|cuda)(?::(\d{1,3}))?", asked.strip().casefold())
    if match is None:
        raise InputError(f"--device {asked[:40]!r} is not a device", hint="write cpu, cuda or cuda:1")
    if match[1] == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        reason = "this torch is built without CUDA" if torch.version.cuda is None else "torch finds no CUDA device"
        raise EnvironmentProblem(f"--device {asked}: {reason}", hint="leave --device out to measure the CPU")
    index, count = int(match[2] or 0), torch.cuda.device_count()
    if index >= count:
        raise EnvironmentProblem(
            f"--device {asked}: torch sees {count} of them", hint="CUDA_VISIBLE_DEVICES decides which, from cuda:0 on"
        )
    return torch.device("cuda", index)


def place_of(device: torch.device, *, threads: int | None = None, visible: str | None = None) -> Place:
    """The device with its timer and all that is known of it. NVML is best effort.

    threads   that torch computes with on a CPU; None leaves torch's own choice
    visible   what CUDA_VISIBLE_DEVICES says, for a torch that does not tell a device's UUID
    """
    if device.type == "cuda":
        return _gpu(device, visible)
    if threads is not None:
        torch.set_num_threads(threads)
    used = torch.get_num_threads()
    return Place(device, Timer(device, used), Library(why_not="a CPU"), None, _cpu_name(), "cpu", _cpu_values(used))


def _gpu(device: torch.device, visible: str | None) -> Place:
    torch.cuda.set_device(device)
    props = torch.cuda.get_device_properties(device)
    uuid = str(getattr(props, "uuid", ""))
    library = Library.open()
    handle = library.find(uuid) if uuid else _nth(library.visible(visible), device.index or 0)
    gpu = library.describe(handle)
    values = _torch_values(device, props) | gpu.values
    missing = {name: reason for name, reason in gpu.missing.items() if values.get(name) is None}
    if gpu.bandwidth is not None:
        values["datasheet_bandwidth"] = gpu.bandwidth
    name = str(props.name)
    if re.search(r"\bMIG\b", name):
        values["mig"] = True
    scrub = torch.empty(max(2 * values["cache_bytes"], 1 << 20), dtype=torch.uint8, device=device)
    kind: Kind = "consumer_gpu" if CONSUMER.search(name) else "gpu"
    return Place(device, Timer(device, scrub=scrub), library, handle, name, kind, values, missing)


def _nth(handles: list[Any], index: int) -> Any:
    return handles[index] if index < len(handles) else None


def _torch_values(device: torch.device, props: Any) -> dict[str, Any]:
    """What torch knows; some attributes are absent in some versions and builds."""
    free, total = torch.cuda.mem_get_info(device)
    values: dict[str, Any] = {
        "memory_bytes": total,
        "memory_free_bytes": free,
        "cache_bytes": int(getattr(props, "L2_cache_size", 0) or 0),
        "multiprocessors": props.multi_processor_count,
        "compute_capability": f"{props.major}.{props.minor}",
        "torch": torch.__version__,
    }
    bits, clock_khz = getattr(props, "memory_bus_width", None), getattr(props, "memory_clock_rate", None)
    if bits and clock_khz:
        values |= {"bus_bits": bits, "memory_clock_hz": clock_khz * 1e3}
        values["datasheet_bandwidth"] = bits / 8 * 2 * clock_khz * 1e3
    core_khz = getattr(props, "clock_rate", None)
    if core_khz:
        values["sm_clock_hz"] = core_khz * 1e3
    return values


def _cpu_name() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip() or "CPU"
    return platform.processor() or platform.machine() or "CPU"


def _cpu_values(threads: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "memory_bytes": _physical_memory(),
        "memory_free_bytes": free_memory(),
        "cache_bytes": _last_cache(),
        "cores": os.cpu_count(),
        "threads": threads,
        "torch": torch.__version__,
    }
    with suppress(OSError, AttributeError):
        values["load_average"] = os.getloadavg()[0]
    return {name: value for name, value in values.items() if value is not None}


def _physical_memory() -> int | None:
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def free_memory() -> int | None:
    """Bytes of host memory that can be taken without swapping, None where the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _last_cache() -> int | None:
    """Bytes of the last cache of the first core, where Linux says."""
    found = None
    for index in range(6):
        with suppress(OSError, ValueError), open(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size") as file:
            found = int(file.read().strip().removesuffix("K")) * 1024
    return found


def datasheet(place: Place, asked: str | None) -> tuple[Hardware | None, str]:
    """(the bundled profile of this very device, why there is none): by its driver's name, exactly, or as asked.

    A slice of a device has no datasheet: the board's peaks do not apply to it.
    """
    if asked is not None:
        return load_hardware(asked), ""
    if place.values.get("mig"):
        return None, f"{place.name} is a slice of a board, whose peaks do not apply to it"
    try:
        return load_hardware(place.name), ""
    except InputError as error:
        if "several" in error.message:
            return None, f"{error.message}: {error.hint}, with --gpu"
        return None, f"no bundled profile has the name {place.name!r}; --gpu NAME takes one as the datasheet"
