"""Measuring on the device at hand. torch lives in this room only; the command line imports it when it measures."""

from __future__ import annotations

import importlib.util

from ..base.errors import EnvironmentProblem

INSTALL = "pip install 'specplan[measure]'"


def need(*modules: str) -> None:
    """Refuses to go on without these modules.

    Raises  EnvironmentProblem that names the first missing one and the line that installs it.
    """
    for module in modules or ("torch",):
        if importlib.util.find_spec(module) is None:
            raise EnvironmentProblem(f"{module} is not installed", hint=INSTALL)
