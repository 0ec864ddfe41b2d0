"""`specplan measure device --tp 2` under torchrun, two processes over gloo; and the fit of latency and bandwidth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

pytest.importorskip("torch")

import torch.distributed

from specplan.hardware.profile import check_hardware, load_hardware, profile_text
from specplan.measure.allreduce import SIZES, LinkReading, Message, fitted, with_link
from specplan.render.schemas import json_schema
from specplan.timing.roofline import all_reduce_s


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_two_processes_time_the_all_reduce_split_a_layer_exactly_and_write_the_link(tmp_path):
    out = tmp_path / "gpu.yaml"
    out.write_text(profile_text(load_hardware("l4")))
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "specplan"]
    command = ["measure", "device", "--tp", "2", "--quick", "--device", "cpu", "--out", str(out), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([*start, *command], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)  # one process alone prints
    jsonschema.validate(document, json_schema("measure.link"))
    assert (document["tp"], document["backend"]) == (2, "gloo")
    assert document["layer_error"] < 1e-5
    assert all(one["s"] > 0 for one in document["messages"])
    profile = load_hardware(str(out))
    assert profile.link.all_reduce_latency == pytest.approx(document["latency_s"], rel=1e-3)
    assert profile.compute == load_hardware("l4").compute
    assert [one for one in check_hardware(profile_text(profile), where="x") if one.severity == "error"] == []


def test_without_torchrun_the_line_that_starts_it_is_shown(refused, monkeypatch, tmp_path):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert "torchrun --standalone --nproc_per_node 4" in refused("measure device --tp 4", 4)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    assert "started 2 processes" in refused("measure device --tp 4")
    assert "no such profile" in refused(f"measure device --tp 2 --out {tmp_path}/x.yaml")


def reading(latency=8e-6, rate=200e9, tp=2, noise=0.0, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    times = [(latency + 2 * (tp - 1) / tp * size / rate) * np.exp(rng.normal(0, noise)) for size in sizes]
    messages = tuple(Message(size, seconds, seconds, seconds, 1) for size, seconds in zip(sizes, times))
    return LinkReading(tp, "nccl", "graph", messages, *fitted(messages, tp), 0.0)


def test_latency_and_bandwidth_come_out_of_noisy_times():
    inside = 0
    for seed in range(100):
        found = reading(noise=0.03, seed=seed)
        inside += found.low <= 200e9 <= (found.high or float("inf"))
        assert found.latency == pytest.approx(8e-6, rel=0.15)
    assert inside >= 90


def test_messages_that_take_no_longer_when_longer_tell_no_bandwidth():
    flat = tuple(Message(size, 1e-5, 1e-5, 1e-5, 1) for size in SIZES[:3])
    falling = (*flat, Message(SIZES[3], 0.9e-5, 1e-5, 1e-5, 1))
    assert fitted(falling, 2)[1:] == (None, None, None)
    found = replace(reading(), bandwidth=None)
    assert (
        with_link(load_hardware("l4"), found, source="test").link.all_reduce_share
        == load_hardware("l4").link.all_reduce_share
    )


@pytest.mark.parametrize("tp", [2, 4, 8])
@pytest.mark.parametrize("name", ["h100-sxm", "l4"])
def test_a_profile_with_the_measured_link_gives_the_measured_times_again(name, tp):
    found = reading(tp=tp)
    profile = with_link(load_hardware(name), found, source="measured in a test")
    for message in found.messages:
        again = all_reduce_s(profile.link_or_default(), message.bytes, tp)
        assert again == pytest.approx(message.seconds, rel=2e-3)
    assert [one for one in check_hardware(profile_text(profile), where="x") if one.severity == "error"] == []
