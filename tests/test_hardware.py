"""Hardware profiles: the bundled ones, names, reading, overriding, checking, writing."""

from __future__ import annotations

import csv
import dataclasses
import json
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.base import yaml as yaml_text
from specplan.base.errors import InputError
from specplan.hardware import load as hardware_files
from specplan.hardware.profile import (
    PRECISIONS,
    Efficiency,
    Hardware,
    Memory,
    check_hardware,
    dotted_numbers,
    hardware_names,
    hardware_schema,
    load_hardware,
    new_profile_text,
    override,
    profile_text,
)
from specplan.models.spec import load_model
from specplan.timing.grid import pass_times
from specplan.timing.roofline import pass_time

ROOT = Path(__file__).resolve().parent.parent
NAMES = hardware_names()
PEAKS = list(csv.DictReader((ROOT / "tests/data/hardware_peaks.csv").read_text().splitlines()))

MINE = """\
name: mine
kind: gpu
memory: {capacity: 80GB, bandwidth: 2039GB/s}
compute: {fp16: 312TFLOP/s, bf16: 312TFLOP/s}
sources: {memory: datasheet, compute: datasheet}
"""


def loads(text: str) -> Hardware:
    return yaml_text.load_as(Hardware, text, where="mine.yaml")


def failure(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        loads(text)
    return caught.value


def outcome(text: str) -> Hardware | InputError:
    try:
        return loads(text)
    except InputError as error:
        return error


def check(text: str) -> list[tuple[str, str]]:
    return [(problem.severity, problem.what) for problem in check_hardware(text, where="mine.yaml")]


def mine(**lines: str) -> str:
    """MINE with lines replaced or added by their first key."""
    kept = [line for line in MINE.splitlines() if line.split(":")[0] not in lines]
    return "\n".join(kept + [f"{key}: {value}" for key, value in lines.items()])


# -- the bundled profiles ---------------------------------------------------------------------------------------------


def test_more_than_120_devices_are_bundled() -> None:
    assert len(NAMES) >= 120


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_profile_is_clean_named_after_its_file_and_sourced(name: str) -> None:
    path = ROOT / "hardware" / f"{name}.yaml"
    assert check_hardware(path.read_text(), where=path.name) == []
    device = load_hardware(name)
    assert device.name == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert device.title
    assert device.note is None
    assert all(device.source_of(key) for key, _ in dotted_numbers(device))


def only_the_fast_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fast reader does not take fails from here on."""
    monkeypatch.setattr(yaml_text, "load_as", lambda *_, **__: pytest.fail("the fast reader gave up"))


@pytest.mark.parametrize("name", NAMES)
def test_the_fast_reader_gives_what_validation_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validated = loads((ROOT / "hardware" / f"{name}.yaml").read_text(encoding="utf-8"))
    only_the_fast_reader(monkeypatch)
    assert load_hardware(name) == validated


def test_the_defaults_of_a_kind_are_the_same_read_alone_or_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = hardware_files.defaults().kinds
    only_the_fast_reader(monkeypatch)
    hardware_files.kind_defaults.cache_clear()
    assert {kind: hardware_files.kind_defaults(kind) for kind in kinds} == kinds
    assert kinds.keys() >= {load_hardware(name).kind for name in NAMES}


def test_a_bundled_profile_with_a_flaw_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "flawed.yaml"
    for text, what in (
        (MINE.replace("bandwidth", "bandwith"), r"flawed\.yaml:3:26: unknown key 'memory\.bandwith'"),
        (MINE.replace("2039GB/s", "2039"), r"flawed\.yaml:3:37: memory\.bandwidth: '2039' has no unit"),
        (MINE.replace("kind: gpu\n", ""), r"flawed\.yaml:1:1: 'kind' is missing"),
        (MINE.replace("}", ""), r"flawed\.yaml:\d+:\d+: not valid YAML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=what):
            hardware_files._bundled(path)


@pytest.mark.parametrize("name", NAMES)
def test_writing_a_profile_and_reading_it_back_gives_the_same_device(name: str) -> None:
    device = load_hardware(name)
    assert loads(profile_text(device)) == device


@pytest.mark.parametrize("name", NAMES)
def test_every_device_has_complete_efficiency_overhead_attention_and_link_values(name: str) -> None:
    device = load_hardware(name)
    for precision in (*device.compute.peaks(), "w4a16"):
        found = device.efficiency_for(precision)
        assert 0 < found.memory <= 1
        assert 0 < found.compute <= 1
        assert found.exponent >= 1
        assert found.tile >= 1
        assert found.latency >= 0
        assert found.source
    overhead, attention, link = device.overhead_or_default(), device.attention_or_default(), device.link_or_default()
    assert 0 < overhead.per_layer < overhead.per_pass < 0.01
    assert overhead.per_draft_pass > 0 < overhead.per_round
    assert attention.floor > 0 < attention.memory
    assert link.host_bandwidth > 0 < link.device_bandwidth
    assert link.all_reduce_latency > 0
    assert link.source
    assert overhead.source
    assert attention.source


@pytest.mark.parametrize("row", PEAKS, ids=lambda row: row["name"])
def test_bundled_peaks_agree_with_public_tables(row: dict[str, str]) -> None:
    device = load_hardware(row["name"])
    assert device.peak(("bf16", "fp16"))[1] == pytest.approx(float(row["half_tflops"]) * 1e12, rel=1e-9)
    assert device.memory.bandwidth == float(row["bandwidth_gbs"]) * 1e9
    assert device.memory.capacity == float(row["capacity_gb"]) * 1e9


def test_all_nvidia_and_amd_rows_follow_one_convention_dense_not_sparse() -> None:
    """T03, T04: NVL 835, PCIe 756, SXM and H200 989; the A100 312 and never 156 or 624."""
    dense = {"h100-nvl": 835.5e12, "h100-pcie": 756.5e12, "h100-sxm": 989.4e12, "h200-sxm": 989.4e12}
    dense |= {"a100-80gb-sxm": 312e12}
    assert {name: load_hardware(name).compute.bf16 for name in dense} == dense


def test_no_path_of_a_developers_machine_stands_in_a_profile() -> None:
    for path in (ROOT / "hardware").glob("*.yaml"):
        assert not re.search(r"/(work|tmp|root|home)/", path.read_text()), path.name


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"),
        ("nvidia a100_sxm4_80gb", "a100-80gb-sxm"),
        ("A100 80GB SXM", "a100-80gb-sxm"),
        ("RTX_4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA H200", "h200-sxm"),
        ("  Apple M4 Pro ", "m4-pro"),
    ],
)
def test_names_and_driver_names_match_but_for_case_blanks_and_underscores(asked: str, name: str) -> None:
    assert load_hardware(asked).name == name
    assert load_hardware(asked).note is None


def test_h200_is_not_taken_for_an_h100() -> None:
    """T08: 4800 GB/s and a ridge of 206."""
    device = load_hardware("NVIDIA H200")
    assert device.memory.bandwidth == 4800e9
    assert device.peak(("bf16",))[1] / device.memory.bandwidth == pytest.approx(206, abs=0.5)


def test_a_laptop_part_never_matches_its_desktop_name() -> None:
    """T09."""
    assert load_hardware("NVIDIA GeForce RTX 5090 Laptop GPU").memory.bandwidth == 896e9
    assert load_hardware("NVIDIA GeForce RTX 5090").memory.bandwidth == 1792e9
    with pytest.raises(InputError):
        load_hardware("NVIDIA GeForce RTX 3080 Ti Laptop GPU")


@pytest.mark.parametrize("asked", ["NVIDIA RTX A2000 6GB", "RTX A3000 Laptop GPU", "NVIDIA RTX A2000"])
def test_an_unknown_device_names_its_neighbours_and_the_way_out(asked: str) -> None:
    """T10: never a bandwidth of 0."""
    with pytest.raises(InputError) as caught:
        load_hardware(asked)
    assert "unknown device" in caught.value.message
    assert asked in caught.value.message
    assert "nearest: " in caught.value.hint
    assert "A" in caught.value.hint
    assert "--gpu my.yaml" in caught.value.hint
    assert "hardware list" in caught.value.hint


@pytest.mark.parametrize(
    "asked", ["80GB", "80 GB", "640GB", "sxm", "gpu", "_defaults", "", " ", "..", "-", "a", "name", "note"]
)
def test_memory_size_or_a_fragment_alone_is_no_device(asked: str) -> None:
    """T11: an 8x H100 machine must not become an A100 because its memory matches."""
    with pytest.raises(InputError):
        load_hardware(asked)


def test_a_short_name_resolves_with_a_note_that_says_what_else_there_is() -> None:
    """T12."""
    device = load_hardware("A100")
    assert device.name == "a100-80gb-sxm"
    assert device.memory.bandwidth == 2039e9
    assert device.note == "taken as the 80 GB SXM part; the A100 also comes with 40 GB and as a PCIe card"
    assert load_hardware("a100-40gb").memory.bandwidth == 1555e9
    assert load_hardware("A100 80GB PCIe").memory.bandwidth == 1935e9
    for short in ("h100", "h200", "b200", "mi300", "v100"):
        assert load_hardware(short).note


@pytest.mark.parametrize("asked", ["Orin", "Orin (nvgpu)", "AMD Instinct MI250X / MI250", "Apple M3 Max"])
def test_a_name_that_several_devices_print_is_refused_with_the_list(asked: str) -> None:
    with pytest.raises(InputError, match="several devices") as caught:
        load_hardware(asked)
    listed = caught.value.hint.removeprefix("say which: ").split(", ")
    assert len(listed) >= 2
    assert set(listed) <= set(NAMES)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("NVIDIA GeForce RTX 3060", "rtx-3060-12gb, rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 3060 Ti", "rtx-3060-ti, rtx-3060-ti-gddr6x"),
        ("NVIDIA GeForce RTX 3080", "rtx-3080-10gb, rtx-3080-12gb"),
        ("NVIDIA GeForce RTX 4060 Ti", "rtx-4060-ti-16gb, rtx-4060-ti-8gb"),
        ("NVIDIA GeForce RTX 4070", "rtx-4070, rtx-4070-gddr6"),
        ("NVIDIA GeForce RTX 5060 Ti", "rtx-5060-ti-16gb, rtx-5060-ti-8gb"),
        ("AMD Radeon RX 9060 XT", "rx-9060-xt-16gb, rx-9060-xt-8gb"),
        ("Intel(R) Arc(TM) A770 Graphics", "arc-a770-16gb, arc-a770-8gb"),
        ("NVIDIA Thor", "jetson-agx-thor, jetson-t4000"),
        ("Apple M3 Ultra", "m3-ultra, m3-ultra-60core"),
    ],
)
def test_a_driver_name_that_fits_several_memory_sizes_or_bins_is_refused_with_the_list(asked: str, names: str) -> None:
    with pytest.raises(InputError, match="several devices") as caught:
        load_hardware(asked)
    assert caught.value.hint == f"say which: {names}"


def test_a_name_that_a_driver_prints_is_never_a_short_name_for_one_part() -> None:
    shorts = [short for name in NAMES for short in load_hardware(name).default_for]
    assert [short for short in shorts if re.match(r"(nvidia|amd|intel|apple|tesla|radeon)\b", short, re.I)] == []
    assert load_hardware("rtx 3080").name == "rtx-3080-10gb"
    assert "912 GB/s" in str(load_hardware("rtx 3080").note)


def test_the_parts_behind_one_driver_name_keep_their_own_memory() -> None:
    parts = {"rtx-3080-10gb": 760.3e9, "rtx-3080-12gb": 912.4e9, "rtx-3060-12gb": 360e9, "rtx-3060-8gb": 240e9}
    parts |= {"rtx-4070": 504.2e9, "rtx-4070-gddr6": 480e9, "rtx-3060-ti-gddr6x": 608.3e9, "arc-a770-8gb": 512e9}
    assert {name: load_hardware(name).memory.bandwidth for name in parts} == parts
    assert load_hardware("rtx-3080-12gb").compute.bf16 == pytest.approx(70 * 512 * 1.710e9, rel=0.001)


def test_aliases_and_short_names_never_shadow_a_file_name() -> None:
    for name in NAMES:
        device = load_hardware(name)
        others = {hardware_files.fold(text) for text in (*device.aliases, *device.default_for)} & set(NAMES)
        assert others <= {name}


def test_every_alias_leads_to_its_device_or_to_a_list_with_it() -> None:
    owners: dict[str, list[str]] = {}
    for name in NAMES:
        for alias in load_hardware(name).aliases:
            owners.setdefault(hardware_files.fold(alias), []).append(name)
    for alias, names in owners.items():
        if len(names) == 1:
            assert load_hardware(alias).name == names[0]
        else:
            with pytest.raises(InputError, match="several devices"):
                load_hardware(alias)


def test_a_name_or_alias_does_not_read_the_other_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = hardware_files._bundled
    monkeypatch.setattr(hardware_files, "_bundled", lambda path: read.append(path.stem) or plain(path))
    load_hardware("a100-80gb-sxm")
    assert read == ["a100-80gb-sxm"]
    load_hardware("NVIDIA L40S")
    assert read[1:] == ["l40s"]


def test_the_mi250x_is_one_of_two_devices_on_its_card() -> None:
    """T13."""
    device = load_hardware("AMD Instinct MI250X")
    assert device.compute.bf16 == 191.5e12
    assert device.devices == 2
    assert "per GCD" in device.notes


def test_the_users_own_file_is_always_accepted(tmp_path: Path) -> None:
    """T14: a card that no list has."""
    path = tmp_path / "w7800.yaml"
    path.write_text(MINE.replace("mine", "radeon-pro-w7800"))
    assert load_hardware(path).name == load_hardware(str(path)).name == "radeon-pro-w7800"
    (tmp_path / "bare").write_text(MINE)
    assert load_hardware(str(tmp_path / "bare")).name == "mine"


@pytest.mark.parametrize("name", ["missing.yaml", "no/such/file", "."])
def test_a_file_that_cannot_be_read_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_hardware(str(tmp_path / name) if name != "missing.yaml" else name)
    assert caught.value.hint


def test_binary_oversized_and_wrongly_encoded_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for data in (
        b"\x00\x01\x02",
        b"\xff\xfe",
        b"\x89PNG\r\n\x1a\n" * 9,
        b"a: 1\n" * 300_000,
        b"",
        b"\n\n",
        b"# only\n",
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"x\.yaml"):
            load_hardware(path)


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINE.replace("\n", "\r\n").encode())
    assert load_hardware(path).name == "mine"


def test_profiles_are_found_inside_an_installed_package(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specplan", tmp_path / "specplan", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "hardware", tmp_path / "specplan/_data/hardware")
    code = "from specplan import load_hardware; print(load_hardware('NVIDIA L4').efficiency_for('bf16').tile)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


# -- peaks and constants ----------------------------------------------------------------------------------------------


def test_a_missing_precision_fails_and_never_falls_back() -> None:
    """T05."""
    with pytest.raises(InputError) as caught:
        load_hardware("v100-32gb-sxm").peak(("tf32", "bf16"))
    assert caught.value.message == "v100-32gb-sxm has no tf32 or bf16 peak"
    assert "fp16" in caught.value.hint
    with pytest.raises(InputError):
        load_hardware("v100-32gb-sxm").peak(())


def test_orins_sparse_int8_headline_is_not_its_fp16_peak() -> None:
    """T06: 275 TOPS counts sparsity and the DLA."""
    device = load_hardware("jetson-agx-orin-64gb")
    assert device.compute.int8 == 85e12
    assert device.compute.fp16 == 42.5e12
    with pytest.raises(InputError):
        device.peak(("fp8",))


def test_a_tensor_figure_and_a_shader_figure_stand_under_their_own_keys() -> None:
    """T07: RTX 4070 SUPER, 56 SM at 2475 MHz: shaders 256 FLOP, tensor cores 512 per SM and clock."""
    device = load_hardware("rtx-4070-super")
    assert device.compute.fp32 == pytest.approx(56 * 256 * 2.475e9, rel=0.002)
    assert device.compute.fp16 == pytest.approx(56 * 512 * 2.475e9, rel=0.002)


def test_fp8_weights_multiply_in_16_bits_on_an_a100() -> None:
    """T16."""
    assert load_hardware("a100-80gb-sxm").peak(("fp8", "bf16", "fp16")) == ("bf16", 312e12)
    assert load_hardware("h100-sxm").peak(("fp8", "bf16", "fp16")) == ("fp8", 1978.9e12)


def test_a_power_limit_is_kept_beside_the_datasheets_power() -> None:
    """T17."""
    capped = override(load_hardware("rtx-3090"), {"power.limit": "150W"})
    assert (capped.power.tdp, capped.power.limit) == (350, 150)


@pytest.mark.parametrize("name", ["a100-80gb-sxm", "v100-32gb-sxm", "h100-sxm", "rtx-4090"])
@pytest.mark.parametrize("share", ["0.8", "0.5"])
def test_a_slower_clock_hardly_slows_a_memory_bound_pass(name: str, share: str) -> None:
    model, device = load_model("llama-2-13b"), load_hardware(name)
    slow = override(device, {"power.clock_share": share})
    one, eight = (pass_time(slow, model, width=w).pass_s / pass_time(device, model, width=w).pass_s for w in (1, 8))
    assert 1 <= one < 1.01
    assert 1 <= eight < 1.04


def test_a_slower_clock_divides_the_compute_rate_of_a_wide_pass() -> None:
    model, device = load_model("llama-2-13b"), load_hardware("a100-80gb-sxm")
    slow = override(device, {"power.clock_share": "0.5"})
    wide = [pass_time(one, model, width=4096).terms["linear"] for one in (device, slow)]
    assert wide[1] / wide[0] == pytest.approx(2, rel=0.02)


def test_a_wider_pass_is_never_cheaper_at_a_slower_clock_and_arrays_agree() -> None:
    model, slow = load_model("llama-2-13b"), override(load_hardware("a100-80gb-sxm"), {"power.clock_share": "0.6"})
    each = [pass_time(slow, model, width=width).pass_s for width in range(1, 400)]
    assert each == sorted(each)
    assert pass_times(slow, model, width=range(1, 400)) == pytest.approx(each, rel=1e-12)


def test_what_is_reached_is_stated_apart_from_the_peaks() -> None:
    """T18: separate shares for bandwidth and compute; the peak stays the datasheet's."""
    device = load_hardware("a100-80gb-sxm")
    fit = device.efficiency_for("bf16")
    assert (fit.memory, fit.compute, fit.exponent, fit.tile) == (0.816, 1.0, 4.29, 128)
    assert fit.latency == pytest.approx(7.13e-6)
    assert fit.step_rows == (17, 65, 97, 193)
    assert fit.step_factors == (1.022, 1.153, 1.185, 1.291)
    assert "aiconfigurator" in fit.source
    assert device.memory.bandwidth == 2039e9


def test_16_bit_formats_share_a_fit_and_others_take_the_kinds_default() -> None:
    device = load_hardware("h100-sxm")
    assert device.efficiency_for("fp16") == device.efficiency_for("bf16") == device.efficiency_for("w4a16")
    assert device.efficiency_for("tf32").source.startswith("default for kind gpu")
    assert device.efficiency_for("fp8").exponent == 20
    assert load_hardware("a100-80gb-sxm").efficiency_for("w4a16").exponent == 1.88


@pytest.mark.parametrize("steps", ["{1: 1.1}", "{17: 0.9}", "{65: 1.1, 17: 1.2}", "{17: 1.2, 65: 1.1}", "{x: 1.1}"])
def test_steps_that_do_not_rise_are_refused_with_what_to_write(steps: str) -> None:
    with pytest.raises(InputError, match="step"):
        loads(mine(efficiency=f"{{bf16: {{steps: {steps}}}}}"))


def test_steps_survive_being_written_and_read_again() -> None:
    device = load_hardware("l40s")
    assert Hardware.model_validate(device.model_dump(exclude_none=True)).efficiency == device.efficiency
    assert loads(profile_text(device)).efficiency == device.efficiency


def test_an_unknown_gpu_takes_the_default_with_64_row_tiles_only_before_fp8() -> None:
    assert loads(MINE).efficiency_for("bf16").tile == 64
    newer = mine(compute="{bf16: 990TFLOP/s, fp8: 1980TFLOP/s}")
    fit = loads(newer).efficiency_for("bf16")
    assert (fit.memory, fit.compute, fit.exponent, fit.tile) == (0.84, 0.90, 4, 1)
    assert load_hardware("ryzen-9-7950x").efficiency_for("bf16").exponent == 1


def test_a_partial_section_is_completed_and_says_which_part_is_a_default() -> None:
    device = loads(mine(overhead="{per_layer: 5us}", sources="{memory: a, compute: a, overhead: timed}"))
    found = device.overhead_or_default()
    assert found.per_layer == pytest.approx(5e-6)
    assert found.per_pass == pytest.approx(300e-6)
    assert found.source.startswith(
        "mine: timed; per_expert_layer, per_pass, per_round, per_draft_pass: default for kind gpu"
    )
    assert loads(MINE).overhead_or_default().source.startswith("default for kind gpu")


def test_verification_attention_has_its_own_line_only_where_it_was_measured() -> None:
    """31.2 ns per cached token and layer on RTX 4090, 512 bytes of each KV head."""
    found = load_hardware("rtx-4090").attention_or_default()
    assert found.multi_query_bandwidth == pytest.approx(512 / 31.2e-9, rel=0.01)
    assert found.multi_query_floor == pytest.approx(9.4e-6)
    assert load_hardware("h100-sxm").attention_or_default().multi_query_bandwidth is None


def test_memory_shared_with_the_host_is_its_own_link() -> None:
    device = load_hardware("m4-max")
    assert device.link_or_default().host_bandwidth == device.memory.bandwidth


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "what", "hint"),
    [
        (
            {"memory": "{capacity: 80GB, bandwith: 2039GB/s}"},
            "unknown key 'memory.bandwith'",
            "did you mean 'bandwidth'?",
        ),
        ({"memory": "{capacity: 80GB, bandwidth: 2039}"}, "memory.bandwidth: '2039' has no unit", "2039GB/s"),
        ({"memory": "{capacity: 80GB, bandwidth: 3.35e12}"}, "memory.bandwidth: '3.35e12' has no unit", "2039GB/s"),
        ({"memory": "{capacity: 80, bandwidth: 2039GB/s}"}, "memory.capacity: '80' has no unit", "80GB"),
        ({"memory": "{capacity: 80GB, bandwidth: 2039GB}"}, "unknown unit 'GB' for a bandwidth", "2039GB/s"),
        ({"memory": "{capacity: 80GB, bandwidth: 0GB/s}"}, "memory.bandwidth: '0GB/s' must be above 0", ""),
        ({"memory": "{capacity: 80GB, bandwidth: -1GB/s}"}, "memory.bandwidth: '-1GB/s' must be above 0", ""),
        ({"memory": "{capacity: 80GB, bandwidth: }"}, "memory.bandwidth: nothing is not a number", ""),
        ({"memory": "{capacity: 80GB}"}, "'memory.bandwidth' is missing", "add the key"),
        ({"memory": "80GB"}, "memory: '80GB' where keys are expected", ""),
        ({"compute": "{}"}, "compute: no peak is given", "bf16: 312TFLOP/s"),
        ({"compute": "{bf16: [312TFLOP/s]}"}, "compute.bf16: a list is not a number", ""),
        ({"compute": "{TFlopsEff: 312TFLOP/s}"}, "unknown key 'compute.TFlopsEff'", "known here: fp32"),
        ({"kind": "GPU"}, "kind: 'GPU' is not one of", ""),
        ({"kind": "yes"}, "kind: 'yes' is not one of", ""),
        ({"devices": "two"}, "devices: 'two' is not a whole number", ""),
        ({"aliases": "NVIDIA"}, "aliases: 'NVIDIA' where a list is expected", ""),
        ({"name": "a/b"}, "name: ", ""),
        ({"efficiency": "{bf17: {memory: 0.8}}"}, "efficiency: unknown precision 'bf17'", "known: fp32"),
        ({"efficiency": "{bf16: {memory: 1.2}}"}, "efficiency.bf16.memory: '1.2' must be at most 1", ""),
        ({"efficiency": "{bf16: {latency: 7}}"}, "efficiency.bf16.latency: '7' has no unit", ""),
        ({"efficiency": "{bf16: {exponent: nan}}"}, "efficiency.bf16.exponent", ""),
        ({"curves": "[{dtype: bf16, points: [{width: 2, ms: 1}, {width: 4, ms: 1}]}]"}, "no point of width 1", ""),
        ({"curves": "[{dtype: bf16, points: [{width: 1, ms: 1}, {width: 1, ms: 1}]}]"}, "the widths do not rise", ""),
        (
            {"curves": "[{dtype: bf16, points: [{width: 1, ms: 0}, {width: 2, ms: 1}]}]"},
            "curves[0].points[0].ms: '0' must be above 0",
            "",
        ),
        (
            {"curves": "[{dtype: bf16, points: [{width: 1, ms: inf}, {width: 2, ms: 1}]}]"},
            "points[0].ms: 'inf' is not a finite number",
            "",
        ),
        ({"note": "x"}, "unknown key 'note'", "did you mean 'notes'?"),
    ],
)
def test_a_flaw_is_reported_with_what_and_hint(section: dict[str, str], what: str, hint: str) -> None:
    """T15 among them: a misspelled key is an error that names the nearest valid one."""
    error = failure(mine(**section))
    assert what in error.message
    assert hint in error.hint


def test_a_flaw_is_reported_with_file_line_and_column() -> None:
    error = failure("name: x\nkind: gpu\nmemory: {capacity: 80GB, bandwith: 2039GB/s}\ncompute: {bf16: 1TFLOP/s}")
    assert error.message == "mine.yaml:3:26: unknown key 'memory.bandwith'"
    assert error.hint == "did you mean 'bandwidth'?"
    assert failure(mine(devices="two")).message.startswith("mine.yaml:6:10: ")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "1:1: the document is empty"),
        ("# only a comment", "1:1: the document is empty"),
        ("- a\n- b", "1:1: a list at the top level"),
        ("just words", "1:1: a scalar at the top level"),
        ("a: 1\nb: 2\na: 3", "3:1: key 'a' stands twice"),
        ("memory: {capacity: 1GB,\n  capacity: 2GB}", "2:3: key 'capacity' stands twice"),
        ("a: &x [1]\nb: *x", "an alias (*name) is not read here"),
        ("a: &x [*x]", "an alias (*name) is not read here"),
        ("a: !!python/object:os.system x", "tag 'tag:yaml.org,2002:python/object:os.system' is not read here"),
        ("a: 1\n---\nb: 2", "a second document"),
        ("a: [1, 2", "not valid YAML"),
        ("? [a]\n: 1", "a key that is not a plain text"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper than 32 levels"),
        ("a: " + "[" * 5000, "not valid YAML"),
        ("- " * 50_000, "not valid YAML"),
        ("a\ud800: 1", "lone surrogate"),
        ("a: \x00", "not valid YAML"),
        ("a: '" + "x" * (1 << 20) + "'", "larger than 1 MiB"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_cleanly(text: str, what: str) -> None:
    assert what in failure(text).message


def test_aliases_that_would_unfold_to_gigabytes_are_refused_at_once() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    assert "alias" in failure(bomb).message


def test_numbers_are_read_from_the_text_and_not_from_yamls_idea_of_it() -> None:
    device = loads(mine(memory="{capacity: 80GB, bandwidth: 3.35e12B/s}", devices="012", title="yes"))
    assert device.memory.bandwidth == 3.35e12
    assert device.devices == 12
    assert device.title == "yes"


def test_json_is_read_too() -> None:
    assert (
        loads(
            json.dumps(
                {
                    "name": "mine",
                    "kind": "cpu",
                    "memory": {"capacity": "8GB", "bandwidth": "50GB/s"},
                    "compute": {"fp32": "1TFLOP/s"},
                },
                indent=1,
            )
        ).compute.fp32
        == 1e12
    )


def test_the_c_and_the_python_reader_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    text = (ROOT / "hardware/rtx-4090.yaml").read_text()
    fast = yaml_text.read_yaml(text, where="x")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert yaml_text.read_yaml(text, where="x") == fast


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_profile_or_a_clean_error(text: str) -> None:
    found = outcome(text)
    assert isinstance(found, Hardware) or re.match(r"mine\.yaml:\d+:\d+: [^\n]+\Z", found.message)


_WORDS = st.sampled_from(
    [
        "name",
        "kind",
        "gpu",
        "memory",
        "compute",
        "bf16",
        "efficiency",
        "curves",
        "points",
        "width",
        "ms",
        "80GB",
        "1e999GB",
        "2039GB/s",
        "nan",
        "-1",
        "0",
        "1",
        "null",
        "~",
        "yes",
        "[",
        "]",
        "{",
        "}",
        ": ",
        "- ",
        "\n",
        "\n  ",
        ",",
        '"',
        "'",
        "&a",
        "*a",
        "!!",
        "|",
        ">",
        "#",
        "\t",
        "x" * 200,
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_WORDS, max_size=40).map("".join), st.integers(0, len(MINE)), st.integers(0, 12))
def test_a_profile_with_a_piece_replaced_gives_a_profile_or_a_clean_error(piece: str, start: int, length: int) -> None:
    text = MINE[:start] + piece + MINE[start + length :]
    for problem in check_hardware(text, where="mine.yaml"):
        assert re.match(r"mine\.yaml:\d+:\d+$", problem.where)
        assert problem.what
        assert problem.hint
    found = outcome(text)
    if isinstance(found, Hardware):
        assert found.memory.bandwidth > 0
        assert loads(profile_text(found)) == found
    else:
        assert re.match(r"mine\.yaml:\d+:\d+: [^\n]+\Z", found.message)


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@settings(max_examples=200, deadline=None)
@given(_TEXTS, _TEXTS, st.floats(1, 1e15), st.floats(1e-9, 1))
def test_any_text_and_number_survive_writing_and_reading(title: str, notes: str, number: float, share: float) -> None:
    device = Hardware.model_validate(
        {
            "name": "x",
            "kind": "gpu",
            "title": title[:200],
            "notes": notes,
            "sources": {"memory": notes, "compute": title},
            "memory": {"capacity": number, "bandwidth": number},
            "compute": {"bf16": number},
            "efficiency": {"bf16": {"memory": share, "latency": share}},
            "power": {"tdp": number},
            "curves": [{"dtype": "bf16", "points": [{"width": 1, "ms": share}, {"width": 2, "ms": number}]}],
        }
    )
    again = loads(profile_text(device))
    assert again.title == device.title
    assert again.notes == device.notes
    assert again.sources == device.sources
    assert again.memory.bandwidth == pytest.approx(number, rel=1e-12)
    assert again.curves == device.curves
    assert again.efficiency["bf16"].latency == pytest.approx(share, rel=1e-6, abs=1e-12)


# -- overriding -------------------------------------------------------------------------------------------------------


def test_any_field_can_be_overridden_and_its_source_says_so() -> None:
    device = override(
        load_hardware("a100"),
        {
            "memory.bandwidth": "3350GB/s",
            "efficiency.bf16.memory": "0.9",
            "devices": "2",
            "overhead.per_round": "2ms",
            "compute.fp8": "1PFLOP/s",
        },
    )
    assert device.memory.bandwidth == 3350e9
    assert device.efficiency_for("bf16").memory == 0.9
    assert device.devices == 2
    assert device.overhead_or_default().per_round == 0.002
    assert device.compute.fp8 == 1e15
    assert device.source_of("memory.bandwidth") == "given by the user"
    assert "A100" in device.source_of("memory.capacity")
    assert device.note == load_hardware("a100").note
    assert load_hardware("a100").memory.bandwidth == 2039e9


@pytest.mark.parametrize(
    ("key", "value", "what", "hint"),
    [
        ("memory.bandwith", "1GB/s", "unknown key 'memory.bandwith'", "did you mean 'memory.bandwidth'"),
        ("bandwidth", "1GB/s", "unknown key 'bandwidth'", "memory.bandwidth"),
        ("", "1", "unknown key ''", ""),
        ("memory", "1GB", "'memory' holds several keys", "set one: memory.capacity, memory.bandwidth"),
        ("efficiency.bf17.tile", "1", "unknown key 'efficiency.bf17.tile'", "'efficiency.bf16.tile'"),
        ("memory.bandwidth", "2039", "memory.bandwidth=2039: '2039' has no unit", "2039GB/s"),
        ("memory.bandwidth", "fast", "memory.bandwidth=fast: 'fast' is not a bandwidth", "2039GB/s"),
        ("memory.bandwidth", "-5GB/s", "memory.bandwidth=-5GB/s: '-5GB/s' must be above 0", "2039GB/s"),
        ("efficiency.bf16.tile", "1.5", "efficiency.bf16.tile=1.5: '1.5' is not a whole number", "write 1"),
        ("kind", "toaster", "kind=toaster: 'toaster' is not one of 'gpu'", "write one of them"),
        ("name", "a b", "name=a b: 'a b' is not a name", "no blanks"),
    ],
)
def test_a_wrong_override_names_the_key(key: str, value: str, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        override(load_hardware("a100-80gb-sxm"), {key: value})
    assert caught.value.message.startswith(what)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "key", ["aliases", "curves", "sources", "default_for", "sources.memory", "efficiency.bf16.steps"]
)
def test_setting_a_list_or_a_table_says_to_write_a_file(key: str) -> None:
    with pytest.raises(InputError) as caught:
        override(load_hardware("a100-80gb-sxm"), {key: "x"})
    assert caught.value.message == f"{key!r} is a list or a table, which cannot be set here"
    assert "hardware new --like" in caught.value.hint


def test_every_key_that_can_be_set_is_a_field_of_a_profile() -> None:
    device = load_hardware("h100-sxm")
    samples = {
        "capacity": "1GB",
        "bandwidth": "1GB/s",
        "l2": "1MB",
        "tile": "8",
        "exponent": "2",
        "tdp": "9W",
        "limit": "9W",
        "devices": "3",
    }
    for key in hardware_files.settable_keys():
        last = key.split(".")[-1]
        value = samples.get(last) or ("1TFLOP/s" if last in PRECISIONS else "1GB/s" if "bandwidth" in last else None)
        value = value or (
            "0.5" if last in ("memory", "compute", "clock_share") else "3us" if "." in key else getattr(device, key)
        )
        changed = override(device, {key: value})
        assert changed.source_of(key) == "given by the user" or "." not in key


@pytest.mark.parametrize("name", ["h100-sxm", "rtx-4090", "m4-max"])
def test_a_text_set_by_the_fast_reader_gives_what_validation_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = load_hardware(name)
    asked = [
        (key, value) for key in hardware_files.settable_keys() for value in ("2GB/s", "3us", "0.5", "7", "cpu", "-1")
    ]
    validated = [_set_or_refused(device, key, value, hardware_files._validated) for key, value in asked]
    monkeypatch.setattr(hardware_files, "_validated", lambda *_: (_ for _ in ()).throw(InputError("refused")))
    fast = [_set_or_refused(device, key, value, override) for key, value in asked]
    assert fast == validated
    assert any(one is None for one in fast)
    assert len([one for one in fast if one is not None]) > 40


def _set_or_refused(device: Hardware, key: str, value: str, setter: Callable[..., Hardware]) -> Hardware | None:
    try:
        return setter(device, {key: value})
    except InputError:
        return None


def test_numbers_in_si_can_be_set_too() -> None:
    device = override(load_hardware("a100"), {"memory.bandwidth": 3350e9, "devices": 2})
    assert (device.memory.bandwidth, device.devices) == (3350e9, 2)
    assert device.note == load_hardware("a100").note


# -- checking ---------------------------------------------------------------------------------------------------------


def test_a_clean_profile_has_no_problems() -> None:
    assert check(MINE) == []


def test_a_sparse_peak_in_place_of_the_dense_one_is_found() -> None:
    """T01: 1979 is the H100's bf16 figure with sparsity."""
    severity, what = check(mine(compute="{bf16: 1979TFLOP/s}"))[0]
    assert severity == "error"
    assert "1979T is the H100's bf16 figure with sparsity" in what
    named = check(mine(compute="{bf16: 1979TFLOP/s}", name="h100-of-mine"))
    assert named[0][0] == "error"
    settled = mine(compute="{bf16: 1979TFLOP/s}", sources="{memory: a, compute: a, compute.bf16: dense, next chip}")
    assert check(settled.replace("dense, next chip", "a dense figure")) == []


@pytest.mark.parametrize(
    ("name", "compute", "flawed"),
    [
        ("my-rtx-6000-ada", {"bf16": 728, "fp8": 1457}, ["bf16", "fp8"]),
        ("mine", {"bf16": 728, "fp8": 1457}, ["bf16", "fp8"]),
        ("h20", {"bf16": 296, "fp8": 592}, ["bf16", "fp8"]),
        ("mine", {"bf16": 296, "fp8": 592}, ["bf16", "fp8"]),
        ("V100", {"bf16": 250, "fp8": 500}, ["bf16"]),
        ("my-rtx-5090", {"bf16": 419, "fp8": 838}, ["bf16", "fp8"]),
        ("rx-9070-xt", {"bf16": 389.2}, ["bf16"]),
        ("mine", {"fp16": 1979, "bf16": 1979, "fp8": 3958}, ["fp16", "bf16", "fp8"]),
        ("my-h200", {"fp16": 1979, "bf16": 1979, "fp8": 3958}, ["fp16", "bf16", "fp8"]),
        ("mine", {"bf16": 740, "fp8": 1480}, []),
    ],
)
def test_peaks_that_are_twice_a_devices_dense_ones_are_errors(
    name: str, compute: dict[str, int], flawed: list[str]
) -> None:
    peaks = ", ".join(f"{key}: {value}TFLOP/s" for key, value in compute.items())
    found = check_hardware(mine(name=name, compute=f"{{{peaks}}}"), where="mine.yaml")
    assert [one.severity for one in found] == ["error"] * len(flawed)
    assert all("sparsity" in one.what and "dense is" in one.hint for one in found)


def test_twice_a_dense_peak_is_settled_by_a_source_unless_the_chip_has_that_sparse_figure() -> None:
    settled = {"compute": "{bf16: 362.1TFLOP/s}", "sources": "{memory: a, compute: a, compute.bf16: both GCDs}"}
    assert check(mine(name="mi250-card", **settled)) == []
    assert check(mine(name="mi250-card", compute="{bf16: 362.1TFLOP/s}"))[0][0] == "error"
    ada = {"compute": "{bf16: 728.4TFLOP/s}", "sources": "{memory: a, compute: a, compute.bf16: a headline}"}
    assert check(mine(name="rtx-6000-ada-of-mine", **ada))[0][0] == "error"
    assert check(mine(**ada)) == []
    assert check(mine(compute="{bf16: 728.4TFLOP/s}"))[0][0] == "error"


@pytest.mark.parametrize("name", ["rtx-4070-ti-super", "m1-pro", "l40s", "rtx-3060-ti", "gb200"])
def test_a_chip_whose_name_holds_a_smaller_chips_name_keeps_its_own_peaks(name: str) -> None:
    device = load_hardware(name)
    own = device.model_copy(update={"name": f"my-{name}"})
    assert check_hardware(profile_text(own), where="x") == []


@pytest.mark.parametrize(
    ("compute", "key", "than"),
    [
        ("bf16: 100TFLOP/s, int8: 1TOP/s", "int8", "the 16-bit peak"),
        ("bf16: 100TFLOP/s, int8: 907TOP/s", "int8", "the 16-bit peak"),
        ("bf16: 100TFLOP/s, fp8: 200TFLOP/s, fp4: 100TFLOP/s", "fp4", "fp8"),
        ("bf16: 100TFLOP/s, fp32: 900TFLOP/s", "fp32", "the 16-bit peak"),
        ("fp16: 100TFLOP/s, tf32: 110TFLOP/s", "tf32", "the 16-bit peak"),
        ("bf16: 100TFLOP/s, int8: 200TOP/s, int4: 100TOP/s", "int4", "int8"),
    ],
)
def test_a_ratio_between_precisions_that_no_device_has_is_an_error_until_a_source_is_named(
    compute: str, key: str, than: str
) -> None:
    found = check(mine(compute=f"{{{compute}}}"))
    assert [severity for severity, _ in found] == ["error"]
    assert found[0][1].startswith(f"{key} is ")
    assert f" times {than};" in found[0][1]
    named = f"{{memory: a, compute: a, compute.{key}: timed}}"
    assert check(mine(compute=f"{{{compute}}}", sources=named)) == []


def test_every_known_sparse_figure_is_an_error_on_its_own_chip() -> None:
    for figure in hardware_files.defaults().sparse:
        compute = f"{{{figure.precision}: {figure.value / 1e12}TFLOP/s}}"
        found = check(mine(name=f"my-{figure.chip}", compute=compute))
        assert ("error", True) in [(severity, "with sparsity" in what) for severity, what in found], figure


@pytest.mark.parametrize("fp8", ["1466TFLOP/s", "362TFLOP/s", "500TFLOP/s"])
def test_an_fp8_peak_that_is_not_twice_the_16_bit_peak_is_an_error(fp8: str) -> None:
    """T02: L40S with 362 dense and 1466 sparse; 733 is right."""
    found = check(mine(compute=f"{{bf16: 362TFLOP/s, fp8: {fp8}}}"))
    assert any(severity == "error" and "times the 16-bit peak" in what for severity, what in found)
    assert check(mine(compute="{bf16: 362TFLOP/s, fp8: 733TFLOP/s}")) == []


def test_fp16_twice_bf16_is_doubted() -> None:
    """The fp16-accumulate or sparse rate beside an honest one."""
    assert [severity for severity, what in check(mine(compute="{fp16: 142TFLOP/s, bf16: 71TFLOP/s}"))] == ["warning"]


@pytest.mark.parametrize(
    ("capacity", "doubt"), [("80GB", 0), ("85.9GB", 1), ("80GiB", 1), ("81559MiB", 0), ("141GB", 0), ("103.08GB", 1)]
)
def test_gigabytes_and_gibibytes_are_not_mixed_unnoticed(capacity: str, doubt: int) -> None:
    assert len(check(mine(memory=f"{{capacity: {capacity}, bandwidth: 2039GB/s}}"))) == doubt


@pytest.mark.parametrize("bandwidth", ["2.039GB/s", "2039TB/s"])
def test_a_ridge_out_of_this_world_is_doubted(bandwidth: str) -> None:
    found = check(mine(memory=f"{{capacity: 80GB, bandwidth: {bandwidth}}}"))
    assert [severity for severity, _ in found] == ["warning"]
    assert "FLOP/byte" in found[0][1]


def test_a_number_without_a_source_is_an_error_at_its_place() -> None:
    found = check_hardware(mine(cache="{l2: 40MB}"), where="mine.yaml")
    assert [(one.severity, one.where, one.what) for one in found] == [
        ("error", "mine.yaml:6:13", "cache.l2 has no source")
    ]
    assert "sources: cache" in found[0].hint
    curve = "[{dtype: bf16, points: [{width: 1, ms: 1}, {width: 2, ms: 1}]}]"
    assert check(mine(curves=curve)) == [("error", "curves has no source")]
    assert any(
        "is no section" in what
        for _, what in check(MINE.replace("compute: datasheet", "compute: datasheet, memroy: x"))
    )


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ({"memory": "{capacity: -80GB, bandwidth: 1TB/s}"}, "write a value above 0, such as 80GB, 80GiB or 5e9"),
        ({"memory": "{capacity: 0GB, bandwidth: 1TB/s}"}, "write a value above 0, such as 80GB, 80GiB or 5e9"),
        ({"memory": "{capacity: 80GB, bandwidth: }"}, "write 2039GB/s or 3.35TB/s"),
        ({"memory": "80GB"}, "write {capacity: 80GB, bandwidth: 2039GB/s}"),
        ({"efficiency": "{bf16: {memory: 1.2}}"}, "write a value of at most 1, such as 0.01 or 1%"),
        ({"efficiency": "{bf16: {tile: 0}}"}, "write a value of at least 1, such as 1"),
        ({"name": "a b"}, "write at most 80 letters, digits and . _ + -, no blanks"),
        ({"name": '""'}, "write at most 80 letters, digits and . _ + -, no blanks"),
        ({"title": "x" * 201}, "write at most 200 characters"),
        ({"curves": "[{dtype: bf16, points: [[1, 10ms]]}]"}, "write {width: 1, ms: 12.5}"),
        ({"curves": "[{dtype: bf16, points: {width: 1}}]"}, "write [{width: 1, ms: 12.5}, ...]"),
        ({"curves": "[[1, 10ms]]"}, "write {dtype: text, points: [{width: 1, ms: 12.5}, ...]}"),
        ({"curves": '[{dtype: "", points: [{width: 1, ms: 1}, {width: 2, ms: 1}]}]'}, "write at least 1 characters"),
        ({"aliases": "NVIDIA"}, "write [text, ...]"),
        ({"bandwidth": "1TB/s"}, "'bandwidth' belongs below 'memory'"),
        ({"curves": "[{dtype: bf16, width: 1}]"}, "'width' belongs below 'points'"),
    ],
)
def test_a_hint_says_what_to_write_in_the_flaws_place(lines: dict[str, str], hint: str) -> None:
    found = check_hardware(mine(**lines), where="mine.yaml")
    assert hint in [one.hint for one in found]
    assert all("String should" not in one.what and "Input should" not in one.what for one in found)


def test_several_flaws_are_all_listed_in_the_order_of_the_file() -> None:
    found = check_hardware("name: x\nkind: toaster\nmemory: {capacity: 80, bandwidth: 1}\nbogus: 1", where="f")
    assert [one.where for one in found] == ["f:1:1", "f:2:7", "f:3:20", "f:3:35", "f:4:1"]
    assert found[0].what == "'compute' is missing"


# -- writing, schema --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a100-80gb-sxm", "m4-max", "ryzen-9-7950x", "rtx-4090", "tpu-v5e", "mi250x"])
def test_a_new_profile_starts_from_a_similar_device_and_is_clean(name: str) -> None:
    text = new_profile_text(load_hardware(name))
    assert check(text) == []
    assert text.startswith("# ")
    device = loads(text)
    assert device.compute == load_hardware(name).compute
    assert device.name == f"my-{name}"
    assert device.aliases == ()


def test_a_new_profile_shows_a_curve_that_is_read_once_its_marks_are_removed() -> None:
    text = new_profile_text(load_hardware("h100-sxm"))
    head, _, curve = text.partition("# curves:\n")
    lines = [line.removeprefix("# ") for line in curve.splitlines()]
    device = loads(head + "curves:\n" + "\n".join(lines))
    assert [(one.dtype, one.points[0].width) for one in device.curves] == [("bf16", 1)]
    assert pass_time(device, load_model("llama-3.1-8b"), context=1024).measured


def test_the_schema_describes_what_the_loader_takes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    import yaml

    schema = hardware_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name in ("a100-80gb-sxm", "rtx-4090", "mi250x"):
        document = yaml.safe_load((ROOT / "hardware" / f"{name}.yaml").read_text())
        assert list(validator.iter_errors(document)) == []
    assert list(validator.iter_errors({**document, "memory": {"capacity": "80GB", "bandwith": "1GB/s"}}))


def test_a_bundled_device_its_defaults_and_a_set_value_need_no_pydantic() -> None:
    code = "import sys; from specplan.hardware.profile import load_hardware, override; d = load_hardware('a100');"
    code += "d.efficiency_for('bf16'); d.overhead_or_default(); d.attention_or_default(); d.link_or_default();"
    code += "override(d, {'memory.bandwidth': '3350GB/s', 'efficiency.fp8.tile': '8'});"
    code += "print(sorted({'pydantic', 'pydantic_core'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- records ----------------------------------------------------------------------------------------------------------


def test_a_record_is_frozen_compares_by_value_and_survives_pickling() -> None:
    device = load_hardware("a100")
    with pytest.raises(AttributeError):
        device.devices = 2
    with pytest.raises(AttributeError):
        del device.name
    again = pickle.loads(pickle.dumps(device))
    assert again == device
    assert again.note == device.note
    assert device != device.model_copy(update={"devices": 2})
    assert device != device.name
    assert hash(device.memory) == hash(Memory(capacity=80e9, bandwidth=2039e9))
    assert repr(device.memory) == "Memory(capacity=80000000000.0, bandwidth=2039000000000.0)"


def test_a_record_with_a_field_missing_or_unknown_is_refused() -> None:
    with pytest.raises(TypeError, match="Memory needs 'bandwidth'"):
        Memory(capacity=80e9)
    with pytest.raises(TypeError, match="Memory has no field 'bandwith'"):
        Memory(capacity=80e9, bandwidth=1e12, bandwith=1e12)


def test_a_record_is_a_dataclass_to_others() -> None:
    fit = load_hardware("a100").efficiency_for("bf16")
    assert [one.name for one in dataclasses.fields(Efficiency)] == list(dataclasses.asdict(fit))
    assert dataclasses.replace(fit, tile=1).tile == 1


def test_defaults_are_not_shared_between_records() -> None:
    first, second = loads(MINE), loads(MINE)
    assert first.efficiency == second.efficiency == {}
    assert first.efficiency is not second.efficiency


def test_the_profile_module_does_not_import_the_heavy_libraries() -> None:
    code = "import sys, specplan as h; h.load_hardware('NVIDIA L4').efficiency_for('bf16');"
    code += "print(sorted({'numpy', 'scipy', 'rich', 'torch', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
