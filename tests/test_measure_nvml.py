"""NVML through the real pynvml, against a stand-in for the library that a C compiler makes here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
SOURCE = Path(__file__).parent / "data" / "nvml" / "stand_in.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"), reason="needs a C compiler on Linux"
)

A100 = (
    "name=NVIDIA A100-SXM4-80GB;uuid=GPU-aaaa1111-0000-0000-0000-000000000000;driver=550.54.15;cuda=12040;"
    "memory=85899345920;bus=5120;max_mem=1593;max_sm=1410;mem=1593;sm=1275;cc=80;limit=400000;power=310000;"
    "temperature=61;reasons=0x4;mig=0"
)
H100 = (
    "name=NVIDIA H100 80GB HBM3;uuid=GPU-bbbb2222-0000-0000-0000-000000000000;driver=570.86.10;cuda=12080;"
    "memory=85520809984;bus=5120;max_mem=2619;max_sm=1980;mem=2619;sm=1755;cc=90;limit=700000;power=640000;"
    "temperature=55;reasons=0;mig=0;energy=1500"
)
GB10 = (
    "name=NVIDIA GB10;uuid=GPU-cccc3333-0000-0000-0000-000000000000;driver=580.95.05;cuda=13000;memory=!3;bus=!3;"
    "max_mem=!3;max_sm=3003;mem=!3;sm=2411;cc=121;limit=!3;power=38000;temperature=52;reasons=1"
)
BOARD = A100.replace("mig=0", "mig=1;slices=7").replace("memory=85899345920", "memory=!4")
SLICE = (
    "name=NVIDIA A100-SXM4-80GB MIG 1g.10gb;uuid=MIG-dddd4444-0000-0000-0000-000000000000;parent=0;"
    "memory=10200547328;driver=550.54.15;cuda=12040;cc=80"
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Folders with the stand-in: that of a new driver, and that of one without the newer calls."""
    folders = {}
    for kind, flags in (("new", []), ("old", ["-DOLD_DRIVER"])):
        folder = tmp_path_factory.mktemp(kind)
        target = folder / "libnvidia-ml.so.1"
        command = [COMPILER, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", *flags, "-o", target, SOURCE]
        subprocess.run(command, check=True)
        folders[kind] = str(folder)
    return folders


@pytest.fixture
def asked(libraries, tmp_path):
    """What Python prints as JSON with these devices; pynvml keeps its library for the whole process."""

    def ask(devices: str | None, code: str, *, driver: str = "new"):
        folder = str(tmp_path) if devices is None else libraries[driver]
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "NVML_STAND_IN": devices or ""}
        head = "import json; from specplan.measure.nvml import *; library = Library.open()\n"
        ran = subprocess.run([sys.executable, "-c", head + code], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return ask


DESCRIBE = """
gpu = library.describe(library.handles()[0])
print(json.dumps({"values": gpu.values, "missing": gpu.missing, "bandwidth": gpu.bandwidth}))
"""


@pytest.mark.parametrize(("device", "bandwidth"), [(A100, 2039.04e9), (H100, 3352.32e9)])
def test_every_field_of_a_data_centre_gpu_is_read_in_si_units(asked, device, bandwidth):
    found = asked(device, DESCRIBE)
    values = found["values"]
    assert found["missing"] == {}
    assert found["bandwidth"] == pytest.approx(bandwidth, rel=1e-12)
    assert (values["bus_bits"], values["cuda"]) == (5120, "12.4" if device is A100 else "12.8")
    assert values["power_limit_w"] == (400 if device is A100 else 700)
    assert values["sm_clock_hz"] == (1410e6 if device is A100 else 1980e6)
    assert values["compute_capability"] == ("8.0" if device is A100 else "9.0")


def test_a_field_that_is_not_supported_is_absent_with_the_reason(asked):
    found = asked(GB10, DESCRIBE)
    assert found["bandwidth"] is None
    assert {"memory_bytes", "bus_bits", "memory_clock_hz", "power_limit_w"} <= set(found["missing"])
    assert found["missing"]["memory_bytes"] == "Not Supported"
    assert found["values"]["power_w"] == 38


def test_a_slice_is_known_as_one_and_its_board_keeps_what_it_may_not_tell(asked):
    board = asked(f"{BOARD}/{SLICE}", DESCRIBE)
    assert board["values"]["mig"] is True
    assert board["missing"]["memory_bytes"] == "Insufficient Permissions"
    code = """
gpu = library.describe(library.find("MIG-dddd4444-0000-0000-0000-000000000000"))
found = {"name": gpu.get("name"), "slice": gpu.get("mig"), "bandwidth": gpu.bandwidth, "missing": gpu.missing}
print(json.dumps(found))
"""
    part = asked(f"{BOARD}/{SLICE}", code)
    assert part["name"].endswith("MIG 1g.10gb")
    assert part["slice"]
    assert part["bandwidth"] is None
    assert "power_w" in part["missing"]


@pytest.mark.parametrize(
    ("devices", "reason"),
    [(None, "Shared Library Not Found"), ("init=18", "version mismatch"), ("init=9", "Driver Not Loaded")],
)
def test_without_a_library_or_driver_there_is_a_reason_and_no_device(asked, devices, reason):
    code = """
gpu = library.describe(None)
print(json.dumps([library.why_not, library.handles(), gpu.values, gpu.missing["nvml"]]))
"""
    why_not, handles, values, missing = asked(devices, code)
    assert reason in why_not
    assert (handles, values, missing) == ([], {}, why_not)


def test_an_old_driver_tells_its_clock_reasons_under_the_old_name(asked):
    assert asked(A100, DESCRIBE, driver="old")["values"]["clock_reasons"] == 4


VISIBLE = """
found = [library.describe(handle).get("name") for handle in library.visible(LISTED)]
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (None, ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"]),
        ("GPU-bbbb2222-0000-0000-0000-000000000000", ["NVIDIA H100 80GB HBM3"]),
        ("GPU-bbbb,GPU-aaaa", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"]),
        ("GPU-", []),
        ("GPU-eeee,GPU-aaaa", []),
        ("", []),
        ("0", []),
    ],
)
def test_visible_devices_are_told_apart_by_uuid_never_by_index(asked, listed, names):
    assert asked(f"{A100}/{H100}", VISIBLE.replace("LISTED", repr(listed))) == names


def test_equal_boards_may_be_listed_by_index(asked):
    twin = A100.replace("GPU-aaaa1111", "GPU-ffff5555")
    assert asked(f"{A100}/{twin}", VISIBLE.replace("LISTED", "'1'")) == ["NVIDIA A100-SXM4-80GB"]


def test_a_device_is_found_by_the_uuid_that_torch_writes(asked):
    code = "print(json.dumps(library.describe(library.find('bbbb2222-0000-0000-0000-000000000000')).get('name')))"
    assert asked(f"{A100}/{H100}", code) == "NVIDIA H100 80GB HBM3"
    assert asked(f"{A100}/{H100}", code.replace("bbbb", "0000")) is None


AS_TORCH_SEES_IT = """
import types, torch
from specplan.measure import place
props = types.SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", uuid=UUID, L2_cache_size=50 << 20, multi_processor_count=132, major=9, minor=0
)
torch.cuda.set_device = lambda device: None
torch.cuda.get_device_properties = lambda device: props
torch.cuda.mem_get_info = lambda device: (80 << 30, 85 << 30)
empty = torch.empty
torch.empty = lambda *shape, device=None, **more: empty(1, **more)
found = place.place_of(torch.device("cuda", 0), visible=LISTED)
base, reason = place.datasheet(found, None)
print(json.dumps([found.values, found.missing, found.kind, base.name]))
"""


@pytest.mark.parametrize(
    ("uuid", "listed"),
    [("'bbbb2222-0000-0000-0000-000000000000'", "None"), ("''", "'GPU-bbbb2222-0000-0000-0000-000000000000'")],
)
def test_the_first_device_of_torch_is_described_by_its_own_entry_not_by_nvmls_first(asked, uuid, listed):
    code = AS_TORCH_SEES_IT.replace("UUID", uuid).replace("LISTED", listed)
    values, missing, kind, base = asked(f"{A100}/{H100}", code)
    assert (values["power_limit_w"], kind, base, missing) == (700, "gpu", "h100-sxm", {})
    assert values["datasheet_bandwidth"] == pytest.approx(3352.32e9)


def test_a_device_whose_memory_nvml_does_not_tell_has_it_from_torch(asked):
    code = AS_TORCH_SEES_IT.replace("UUID", "'cccc3333-0000-0000-0000-000000000000'").replace("LISTED", "None")
    values, missing, _, _ = asked(GB10, code)
    assert values["memory_bytes"] == 85 << 30
    assert "datasheet_bandwidth" not in values
    assert "bus_bits" in missing
    assert "memory_bytes" not in missing


WATCH = """
import time
with watching(library, library.handles()[0], every_s=0.01) as watch:
    time.sleep(0.1)
print(json.dumps([watch.joules, watch.seconds, watch.sm_clock_hz, watch.slowdowns, watch.capped]))
"""


def test_energy_is_the_devices_counter_where_it_has_one_and_power_over_time_elsewhere(asked):
    joules, seconds, clock, slowdowns, capped = asked(H100, WATCH)
    assert (joules, clock, slowdowns, capped) == (1.5, 1755e6, [], False)
    joules, seconds, clock, slowdowns, capped = asked(A100, WATCH)
    assert joules == pytest.approx(310 * seconds)
    assert (slowdowns, capped) == ([], True)


def test_a_thermal_slowdown_while_measuring_is_flagged(asked):
    hot = A100.replace("reasons=0x4", "reasons=0x60")
    assert asked(hot, WATCH)[3] == ["software thermal slowdown", "hardware thermal slowdown"]


def test_a_gpu_that_is_lost_on_the_way_leaves_reasons_not_an_error(asked):
    lost = ";".join(f"{part.split('=')[0]}=!15" for part in A100.split(";"))
    found = asked(lost, DESCRIBE)
    assert found["values"] == {}
    assert set(found["missing"].values()) == {"GPU is lost"}
