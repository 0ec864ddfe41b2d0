"""Shared: the command line in process, as users run it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from specplan.cli.app import run

# A slow machine is no failure; in CI the same examples are drawn every time.
settings.register_profile(
    "specplan",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("specplan")


@dataclass(frozen=True)
class Ran:
    """One run of the command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture
def specplan(capsys: pytest.CaptureFixture[str]):
    """Run `specplan ARGUMENTS`; the arguments as one string split at blanks, or as a list."""

    def call(arguments: str | list[str]) -> Ran:
        argv = arguments.split() if isinstance(arguments, str) else arguments
        capsys.readouterr()
        code = run(argv)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def refused(specplan):
    """Run a command that must be refused: two lines on stderr, nothing on stdout."""

    def call(arguments: str | list[str], code: int = 2) -> str:
        ran = specplan(arguments)
        assert (ran.code, ran.out) == (code, "")
        lines = ran.err.splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("  hint: ")
        return ran.err

    return call
