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


@pytest.mark.parametrize("name", ["roofline", "plan", "simulate", "price", "export"])
def test_no_room_has_the_name_of_a_public_function(name):
    code = f"import specplan as sp; import specplan.planning.plan; assert callable(sp.{name}), sp.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_nothing_of_it():
    code = "import specplan, sys; print([m for m in sys.modules if m.startswith('specplan.')])"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = specplan.nonsense
