"""What NVIDIA's management library says of a GPU. Every field may be absent, with the reason; clocks are never set.

NVML counts devices by itself, whatever CUDA_VISIBLE_DEVICES says, so that an index there is another device here:
devices are found by UUID.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SLOWED = {
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Reasons for lower clocks that spoil a measurement."""

CAPPED = 0x4
"""The power cap is reached: normal in long matrix products, but the clock held is then below the highest."""

IDLE = 0x1

SAMPLE_S = 0.03


@dataclass(frozen=True, slots=True)
class Gpu:
    """What NVML says of one device.

    values    by field: name, uuid, memory_bytes, bus_bits, memory_clock_hz, sm_clock_hz, power_limit_w, ...
    missing   by field: why there is none
    """

    values: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        return self.values.get(name)

    @property
    def bandwidth(self) -> float | None:
        """Bytes/s of the memory, two transfers a clock; None where width or clock is not known.

        >>> Gpu({"bus_bits": 5120, "memory_clock_hz": 1593e6}).bandwidth / 1e9
        2039.04
        """
        bits, clock = self.get("bus_bits"), self.get("memory_clock_hz")
        return bits / 8 * 2 * clock if bits and clock else None


class Library:
    """NVML, opened. `why_not` is the reason when it cannot be.

    >>> with_nvml = Library.open()
    >>> (with_nvml.pynvml is None) == bool(with_nvml.why_not)
    True
    """

    def __init__(self, pynvml: Any = None, why_not: str = "") -> None:
        self.pynvml, self.why_not = pynvml, why_not

    @classmethod
    def open(cls) -> Library:
        """Never raises: a missing library or driver is a reason."""
        try:
            import pynvml
        except ImportError:
            return cls(why_not="pynvml is not installed (pip install nvidia-ml-py)")
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return cls(why_not=str(error))
        return cls(pynvml)

    def close(self) -> None:
        if self.pynvml is not None:
            self.pynvml.nvmlShutdown()
            self.pynvml = None

    def attempt(self, call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
        """(value, reason): one of the two."""
        try:
            return call(*arguments), ""
        except self.pynvml.NVMLError as error:
            return None, str(error)

    def handles(self) -> list[Any]:
        """Every device that answers, boards before their slices."""
        if self.pynvml is None:
            return []
        ml = self.pynvml
        count, _ = self.attempt(ml.nvmlDeviceGetCount)
        boards = [self.attempt(ml.nvmlDeviceGetHandleByIndex, i)[0] for i in range(count or 0)]
        found = [board for board in boards if board is not None]
        return found + [part for board in found for part in self._slices(board)]

    def _slices(self, board: Any) -> Iterator[Any]:
        ml = self.pynvml
        most, _ = self.attempt(ml.nvmlDeviceGetMaxMigDeviceCount, board)
        for index in range(most or 0):
            part, _ = self.attempt(ml.nvmlDeviceGetMigDeviceHandleByIndex, board, index)
            if part is not None:
                yield part

    def find(self, uuid: str) -> Any:
        """The handle of a UUID as CUDA or NVML writes it, None when there is none.

        Jetsons refuse the search by UUID, so each device is asked for its own.
        """
        wanted = _bare(uuid)
        for handle in self.handles():
            found, _ = self.attempt(self.pynvml.nvmlDeviceGetUUID, handle)
            if found is not None and _bare(found) == wanted:
                return handle
        return None

    def visible(self, listed: str | None) -> list[Any]:
        """The handles that CUDA_VISIBLE_DEVICES leaves, in its order; all boards where it is not set.

        listed   its value: UUIDs, which may be cut short as long as they stay unique, or indices. CUDA numbers devices
                 in an order of its own, so indices are taken only where one device or equal ones make no difference.
        """
        boards = [handle for handle in self.handles() if not self._is_slice(handle)]
        if listed is None:
            return boards
        found = []
        for word in (part.strip() for part in listed.split(",")):
            handle = self._by_word(word, boards)
            if handle is None:
                break  # CUDA ignores everything from the first entry on that it does not know
            found.append(handle)
        return found

    def _by_word(self, word: str, boards: Sequence[Any]) -> Any:
        if word.isdigit():
            return boards[int(word)] if int(word) < len(boards) and self._alike(boards) else None
        uuids = [(handle, self.attempt(self.pynvml.nvmlDeviceGetUUID, handle)[0]) for handle in self.handles()]
        hits = [handle for handle, uuid in uuids if uuid and word and uuid.casefold().startswith(word.casefold())]
        return hits[0] if len(hits) == 1 else None

    def _alike(self, boards: Sequence[Any]) -> bool:
        return len({self.attempt(self.pynvml.nvmlDeviceGetName, board)[0] for board in boards}) <= 1

    def _is_slice(self, handle: Any) -> bool:
        found, _ = self.attempt(self.pynvml.nvmlDeviceIsMigDeviceHandle, handle)
        return bool(getattr(found, "value", found))

    def describe(self, handle: Any) -> Gpu:
        """All fields of a device, each with its value or the reason why there is none."""
        gpu = Gpu()
        if self.pynvml is None:
            return Gpu(missing={"nvml": self.why_not})
        if handle is None:
            return Gpu(missing={"nvml": "no device of that UUID"})
        for name, call in self._fields(handle).items():
            value, reason = self.attempt(call)
            if reason:
                gpu.missing[name] = reason
            else:
                gpu.values[name] = value
        if self._is_slice(handle):
            gpu.values["mig"] = True
        return gpu

    def _fields(self, handle: Any) -> dict[str, Callable[[], Any]]:
        ml = self.pynvml
        memory_clock, sm_clock = ml.NVML_CLOCK_MEM, ml.NVML_CLOCK_SM
        return {
            "name": lambda: _text(ml.nvmlDeviceGetName(handle)),
            "uuid": lambda: _text(ml.nvmlDeviceGetUUID(handle)),
            "driver": lambda: _text(ml.nvmlSystemGetDriverVersion()),
            "cuda": lambda: _cuda_version(ml.nvmlSystemGetCudaDriverVersion()),
            "memory_bytes": lambda: int(ml.nvmlDeviceGetMemoryInfo(handle).total),
            "bus_bits": lambda: int(ml.nvmlDeviceGetMemoryBusWidth(handle)),
            "memory_clock_hz": lambda: ml.nvmlDeviceGetMaxClockInfo(handle, memory_clock) * 1e6,
            "sm_clock_hz": lambda: ml.nvmlDeviceGetMaxClockInfo(handle, sm_clock) * 1e6,
            "sm_clock_now_hz": lambda: ml.nvmlDeviceGetClockInfo(handle, sm_clock) * 1e6,
            "compute_capability": lambda: ".".join(map(str, ml.nvmlDeviceGetCudaComputeCapability(handle))),
            "power_limit_w": lambda: ml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
            "power_w": lambda: ml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "temperature_c": lambda: int(ml.nvmlDeviceGetTemperature(handle, ml.NVML_TEMPERATURE_GPU)),
            "clock_reasons": lambda: self.clock_reasons(handle),
            "mig": lambda: bool(ml.nvmlDeviceGetMigMode(handle)[0]),
        }

    def clock_reasons(self, handle: Any) -> int:
        """Why the clocks are where they are, as NVML's bits; older drivers know the call by another name."""
        ml = self.pynvml
        try:
            return int(ml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except ml.NVMLError_FunctionNotFound:
            return int(ml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _bare(uuid: str) -> str:
    return _text(uuid).casefold().removeprefix("gpu-").removeprefix("mig-")


def _text(value: Any) -> str:
    """Older bindings give bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _cuda_version(number: int) -> str:
    """
    >>> _cuda_version(12080)
    '12.8'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def slowdowns(reasons: int) -> list[str]:
    """What slowed the device down, by NVML's bits; the power cap and idling are none.

    >>> slowdowns(0x8 | 0x4)
    ['hardware slowdown']
    """
    return [text for bit, text in SLOWED.items() if reasons & bit]


@dataclass
class Watch:
    """What NVML saw while something ran.

    joules        energy, None where the device does not tell power
    seconds       watched
    sm_clock_hz   median clock, None where it does not tell
    reasons       every clock reason seen, as bits
    """

    joules: float | None = None
    seconds: float = 0.0
    sm_clock_hz: float | None = None
    reasons: int = 0

    @property
    def slowdowns(self) -> list[str]:
        return slowdowns(self.reasons)

    @property
    def capped(self) -> bool:
        """Whether the power cap was reached."""
        return bool(self.reasons & CAPPED)


@contextmanager
def watching(library: Library, handle: Any, *, every_s: float = SAMPLE_S) -> Iterator[Watch]:
    """Sample power, clock and clock reasons in the background; what was seen stands in the Watch afterwards.

    Energy is the device's own counter where it has one, else the sampled power over the time.
    """
    watch = Watch()
    if library.pynvml is None or handle is None:
        yield watch
        return
    ml, done = library.pynvml, threading.Event()
    clocks_mhz: list[float] = []
    powers_mw: list[float] = []

    def look() -> None:
        power, _ = library.attempt(ml.nvmlDeviceGetPowerUsage, handle)
        clock, _ = library.attempt(ml.nvmlDeviceGetClockInfo, handle, ml.NVML_CLOCK_SM)
        reasons, _ = library.attempt(library.clock_reasons, handle)
        powers_mw.extend([power] if power is not None else [])
        clocks_mhz.extend([clock] if clock is not None else [])
        watch.reasons |= reasons or 0

    def energy_mj() -> float | None:
        value, _ = library.attempt(ml.nvmlDeviceGetTotalEnergyConsumption, handle)
        return None if value is None else float(value)

    def sample() -> None:
        while not done.wait(every_s):
            look()

    thread = threading.Thread(target=sample, daemon=True)
    before, started = energy_mj(), time.perf_counter()
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()
        look()
        watch.seconds, after = time.perf_counter() - started, energy_mj()
        if before is not None and after is not None and after > before:
            watch.joules = (after - before) / 1e3
        elif powers_mw:
            watch.joules = sum(powers_mw) / len(powers_mw) / 1e3 * watch.seconds
        watch.sm_clock_hz = sorted(clocks_mhz)[len(clocks_mhz) // 2] * 1e6 if clocks_mhz else None
