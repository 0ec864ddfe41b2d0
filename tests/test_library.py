"""The public names: what the package exports, and that functions win over modules of the same name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import specplan


def test_every_public_name_is_there():
    for name in specplan.__all__:
        assert getattr(specplan, name) is not None
    assert set(specplan.__all__) <= set(dir(specplan))


@pytest.mark.parametrize("first", ["pass_time", "Costs", "TokenTree", "simulate"])
@pytest.mark.parametrize("name", ["roofline", "plan", "simulate"])
def test_a_function_is_not_hidden_by_its_module(first, name):
    code = f"import specplan as sp; sp.{first}; import specplan.{name}; assert callable(sp.{name}), sp.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_nothing_of_it():
    code = "import specplan, sys; print([m for m in sys.modules if m.startswith('specplan.')])"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = specplan.nonsense
