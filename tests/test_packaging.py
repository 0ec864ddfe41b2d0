"""The built wheel runs from outside the checkout and finds its data; the sdist holds what a build needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def test_the_wheel_runs_outside_the_checkout(dist, tmp_path):
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import specplan; print(specplan.__file__)"]
        if sys.version_info >= (3, 11)
        else [sys.executable, "-c", "import specplan; print(specplan.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(tmp_path))
    command = "plan --gpu a100 --model llama-2-13b --draft llama-68m --p 0.6 --batch 1"
    ran = subprocess.run(
        [sys.executable, "-m", "specplan", *command.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("Speculate: ")


def test_the_wheel_holds_every_profile_and_model(dist):
    [wheel] = dist.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("hardware", "models"):
        for file in (ROOT / folder).rglob("*.yaml"):
            assert f"specplan/_data/{file.relative_to(ROOT)}" in inside
    assert "specplan/py.typed" in inside


def test_the_sdist_builds_the_same_wheel(dist, tmp_path):
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")],
        cwd=source,
        check=True,
        capture_output=True,
    )
    [first], [second] = dist.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    assert zipfile.ZipFile(first).namelist() == zipfile.ZipFile(second).namelist()
