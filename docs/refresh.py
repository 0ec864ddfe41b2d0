"""Write the real output under every `$ specplan ...` of the README and of docs/*.md, the pictures, and docs/schemas.

    python docs/refresh.py

A block is

    ```console
    $ specplan tree --p 0.6 --budget 14
    ...
    ```

and everything after the command is its standard output. A line `specplan ... --plot docs/img/NAME.svg` on a page draws
that picture. Tests check that the files are up to date.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = re.compile(r"^(?:\$ )?(specplan [^\n]*--plot (docs/img/\S+)[^\n]*)$", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(\$ specplan [^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)


def files() -> list[Path]:
    """Every page that may hold commands."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def output(command: str) -> str:
    """What `$ specplan ...` prints to standard output."""
    from specplan.cli.app import run

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = run(shlex.split(command)[2:])
    if code:
        raise SystemExit(f"{command}: exit code {code}")
    return printed.getvalue()


def refreshed(text: str, shown: Callable[[str], str] = output) -> str:
    """The page with the output of its commands."""
    return BLOCK.sub(lambda block: f"```console\n{block[1]}\n{shown(block[1])}```", text)


def pictures() -> dict[str, str]:
    """The command of every picture that a page draws, by the picture's path."""
    pages = (page.read_text(encoding="utf-8") for page in files())
    return {path: command for text in pages for command, path in PICTURE.findall(text)}


def write_schemas() -> None:
    """docs/schemas: one JSON Schema a document."""
    import json

    from specplan.hardware import hardware_schema
    from specplan.render.schemas import DOCUMENTS, json_schema

    profile = json.dumps(hardware_schema(), indent=2) + "\n"
    (ROOT / "hardware" / "profile.schema.json").write_text(profile, encoding="utf-8")
    folder = ROOT / "docs" / "schemas"
    folder.mkdir(exist_ok=True)
    for verb in DOCUMENTS:
        text = json.dumps(json_schema(verb), indent=2) + "\n"
        (folder / f"{verb}.schema.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
    for command in pictures().values():
        output(f"$ {command}")
    for page in files():
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
