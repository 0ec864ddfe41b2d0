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


@pytest.mark.parametrize("page", refresh.files(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_what_the_program_says(page):
    assert refresh.page(page) == page.read_text(encoding="utf-8"), "run python docs/refresh.py"


def test_commands_stand_in_blocks_that_are_run():
    """A block of shell commands holds set-up alone; what specplan says is shown, and checked, in console blocks."""
    set_up = r"#|pip install |\.ci/run|ruff |pytest|mkdocs build|python (docs|benchmarks)/|torchrun |eval "
    for page in refresh.files():
        for block in re.findall(
            r"^```(?:sh|bash|shell)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            for line in block.splitlines():
                assert not line or refresh.PICTURE.match(line) or re.match(set_up, line), f"{page.name}: {line}"


def test_every_recipe_is_in_the_index():
    recipes = ROOT / "docs" / "recipes"
    index = (recipes / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in recipes.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index
    ] == []


@pytest.mark.filterwarnings("ignore")
def test_the_site_builds_without_a_warning(tmp_path, caplog):
    commands, config = pytest.importorskip("mkdocs.commands.build"), pytest.importorskip("mkdocs.config")
    site = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    commands.build(site)
    assert (tmp_path / "tutorial" / "index.html").is_file()


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
