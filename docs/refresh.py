"""Write what the program says into README.md and docs: output of commands, pictures, the commands, formats, schemas.

    python docs/refresh.py [PAGE ...]

A block is

    ```console
    $ specplan tree --p 0.6 --budget 14
    ...
    ```

and everything after the command is its standard output; `| head -12` and `| grep TEXT` leave some lines of it. The
commands of a page run one after another in a folder of their own, in which the checkout's files are found and what they
write is lost. A line `specplan ... --plot docs/img/NAME.svg` on a page draws that picture. Tests check that pages and
pictures are up to date.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PICTURE = re.compile(r"^(?:\$ )?(specplan [^\n]*--plot (docs/img/\S+)[^\n]*)$", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(\$ specplan [^\n]*)\n.*?^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^<!-- keys of ([\w. ]+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
COMMANDS = ROOT / "docs" / "commands.md"


def files() -> list[Path]:
    """Every page."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page(path: Path) -> str:
    """The page as it should be."""
    if path == COMMANDS:
        return commands()
    text = path.read_text(encoding="utf-8")
    text = TABLE.sub(lambda found: f"<!-- keys of {found[1]} -->\n{keys(found[1])}\n<!-- end -->", text)
    with folder():
        return BLOCK.sub(lambda block: f"```console\n{block[1]}\n{output(block[1])}```", text)


@contextlib.contextmanager
def folder() -> Iterator[None]:
    """A folder that looks like the checkout; what is written there is lost."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        for entry in ROOT.iterdir():
            os.symlink(entry, Path(name) / entry.name)
        os.chdir(name)
        try:
            yield
        finally:
            os.chdir(before)


def output(command: str) -> str:
    """What `$ specplan ... [| specplan ...] [| head -N] [| grep TEXT] [> FILE]` prints to standard output."""
    command, _, file = command.removeprefix("$ ").partition(" > ")
    text = ""
    for stage in command.split(" | "):
        name, *arguments = shlex.split(stage)
        lines = text.splitlines(keepends=True)
        if name == "specplan":
            text = printed(arguments, text)
        elif name == "head":
            text = "".join(lines[: -int(arguments[0])])
        else:
            text = "".join(line for line in lines if arguments[0] in line)
    if file:
        Path(file).write_text(text, encoding="utf-8")
    return "" if file else text


def printed(arguments: list[str], given: str) -> str:
    """Standard output of the program with that standard input."""
    from specplan.cli.app import run

    out, before = io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as said:
            code = run(arguments)
    finally:
        sys.stdin = before
    if code not in (0, 1):
        raise SystemExit(f"specplan {shlex.join(arguments)}: exit code {code}: {said.getvalue()}")
    return out.getvalue()


def pictures() -> dict[str, str]:
    """The command of every picture that a page draws, by the picture's path."""
    pages = (path.read_text(encoding="utf-8") for path in files())
    return {path: command for text in pages for command, path in PICTURE.findall(text)}


# ---- docs/commands.md


def commands() -> str:
    """Every command with its options, from the program."""
    from specplan.cli.completion import commands as known

    parts = [
        "# Commands\n\n"
        "Made from the program by `python docs/refresh.py`. `specplan VERB --help` prints the same. "
        "The same option means the same everywhere. "
        "Exit codes: 0 done, 1 the asked-for check failed, 2 usage or input, 3 does not fit, 4 something is "
        "missing here, 130 interrupted.\n"
    ]
    for verb in known():
        parts.append(f"\n## specplan {' '.join(verb.path)}{' ' + _code(verb.argument) if verb.argument else ''}\n")
        parts.append(_about(verb.help))
        panels: dict[str, list[Any]] = {}
        for option in verb.options:
            panels.setdefault(option.panel, []).append(option)
        for panel, options in panels.items():
            parts.append(f"\n| {panel} | |\n|---|---|\n" + "".join(map(_row, options)))
    return "".join(parts)


def _about(text: str) -> str:
    """A help text as Markdown: its examples as code."""
    parts = []
    for part in re.split(r"\n\s*\n", text.replace("\b", "")):
        lines = [line.strip() for line in part.strip().splitlines()]
        example = bool(lines) and lines[0].split()[0] in ("specplan", "eval", "torchrun")
        parts.append("```text\n" + "\n".join(lines) + "\n```" if example else _escaped(" ".join(lines)))
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def _row(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar}"
    return f"| {_code(', '.join(option.names) + value)} | {_escaped(option.help)} |\n"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


# ---- tables of keys in docs/formats.md


def keys(name: str) -> str:
    """A table of the keys of a document, a part of one, or the profile; with what its own text says."""
    if name == "rows":
        return _columns()
    file, _, part = name.partition(" ")
    path = ROOT / "hardware" if file == "profile" else ROOT / "docs" / "schemas"
    schema = json.loads((path / f"{file}.schema.json").read_text(encoding="utf-8"))
    table = schema["$defs"][part] if part else schema
    rows = "".join(
        f"| `{key}` | {_kind(kind)} |\n"
        for key, kind in table["properties"].items()
        if part or file == "profile" or key not in _COMMON
    )
    about = table.get("description", "").strip()
    told = f"\n```text\n{about}\n```\n" if about and part else ""
    return f"\n| key | value |\n|---|---|\n{rows}{told}"


def _columns() -> str:
    """The columns of a sweep's rows."""
    from specplan.planning.sweep import Row
    from specplan.render.rows import TYPES

    words = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    rows = "".join(f"| `{name}` | {words[kind]} |\n" for name, kind in TYPES.items())
    return f"\n| column | value |\n|---|---|\n{rows}\n```text\n{inspect.getdoc(Row)}\n```\n"


_COMMON = ("schema", "version", "inputs", "assumptions", "notes", "warnings")


def _kind(schema: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        kinds = list(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
        return " or ".join(kinds)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"name to {_kind(inner)}" if isinstance(inner, dict) else "object"
    if schema.get("description") and schema.get("examples"):
        return f"{schema['description']}, such as `{schema['examples'][0]}`"
    return {"string": "text", "integer": "whole number", "null": "null", "boolean": "true or false"}.get(
        schema.get("type", ""), schema.get("type", "anything")
    )


# ---- docs/schemas


def write_schemas() -> None:
    """docs/schemas: one JSON Schema a document."""
    from specplan.hardware.profile import hardware_schema
    from specplan.render.schemas import DOCUMENTS, json_schema

    profile = json.dumps(hardware_schema(), indent=2) + "\n"
    (ROOT / "hardware" / "profile.schema.json").write_text(profile, encoding="utf-8")
    schemas = ROOT / "docs" / "schemas"
    schemas.mkdir(exist_ok=True)
    for verb in DOCUMENTS:
        text = json.dumps(json_schema(verb), indent=2) + "\n"
        (schemas / f"{verb}.schema.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_schemas()
    if not sys.argv[1:]:
        for command in pictures().values():
            output(f"$ {command}")
    for path in [Path(name).resolve() for name in sys.argv[1:]] or files():
        path.write_text(page(path), encoding="utf-8")
