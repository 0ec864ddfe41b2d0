"""README and docs: every command runs, and its output is the one shown."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
refresh = importlib.util.module_from_spec(spec)
spec.loader.exec_module(refresh)


@pytest.mark.parametrize("page", refresh.files(), ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    assert refresh.refreshed(text) == text, "run python docs/refresh.py"


def test_the_readme_has_the_two_set_up_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^pip install \. && specplan plan ", text, re.MULTILINE)
    assert re.search(r"^pip install -e '\.\[dev\]' && pytest$", text, re.MULTILINE)


def test_the_python_of_the_readme_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue().strip().endswith("proved")


@pytest.mark.parametrize("page", refresh.files(), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
