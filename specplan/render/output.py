"""One answer, shown as text or as JSON: line 1 is the verdict, then tables, then why, then assumptions.

Commands build an `Answer` and call `emit`; nothing else prints.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..base.errors import EnvironmentProblem, InputError

# A console this wide never cuts a table; a narrower terminal wraps by itself.
NEVER_CUT = 1000

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text; the first column is aligned left, the others right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """Preformatted lines: a drawn tree, a mask."""

    lines: Sequence[str]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command says.

    verdict      the first line
    parts        tables and drawings, in order
    why          sentences
    assumptions  (text, source)
    document     the JSON document, units SI
    """

    verdict: str
    document: Mapping[str, Any]
    parts: Sequence[Table | Lines] = ()
    why: Sequence[str] = ()
    assumptions: Pairs = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def answer_of(
    verb: str,
    *,
    verdict: str,
    inputs: Mapping[str, Any],
    keys: Mapping[str, Any],
    parts: Sequence[Table | Lines] = (),
    why: Sequence[str] = (),
    assumptions: Pairs = (),
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> Answer:
    """An answer whose text and document carry the same assumptions, notes and warnings."""
    shown = document(verb, inputs=inputs, assumptions=assumptions, notes=notes, warnings=warnings, keys=keys)
    return Answer(verdict, shown, parts, why, assumptions, notes, warnings)


def document(
    verb: str,
    *,
    inputs: Mapping[str, Any],
    assumptions: Pairs,
    notes: Sequence[str],
    warnings: Sequence[str],
    keys: Mapping[str, Any],
) -> dict[str, Any]:
    """The document of a verb: the common keys, then the verb's own. `to_json` makes it plain."""
    from .. import __version__

    return {
        "schema": f"specplan.{verb}/1",
        "version": __version__,
        "inputs": inputs,
        "assumptions": [{"text": text, "source": source} for text, source in assumptions],
        "notes": list(notes),
        "warnings": list(warnings),
        **keys,
    }


def plain(value: Any) -> Any:
    """`value` as JSON has it: dataclasses and mappings as objects, NaN and infinity as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    return [plain(item) for item in value]


def emit(
    answer: Answer,
    *,
    as_json: bool = False,
    out: str | None = None,
    quiet: bool = False,
    color: str = "auto",
) -> None:
    """Print the answer to stdout and the notes to stderr; write the document to `out` first.

    Raises  InputError for a colour that does not exist, EnvironmentProblem when `out` cannot be written.
    """
    if color not in ("auto", "always", "never"):
        raise InputError(f"--color {color!r} is not known", hint="one of auto, always, never")
    if out is not None:
        write_whole(out, to_json(answer.document))
    if as_json:
        sys.stdout.write(_encodable(to_json(answer.document)))
    elif quiet:
        sys.stdout.write(answer.verdict + "\n")
    elif color == "always" or (color == "auto" and _is_terminal()):
        _print_rich(answer, forced=color == "always")
    else:
        sys.stdout.write(_encodable("\n".join(plain_lines(answer)) + "\n"))
    sys.stdout.flush()
    if not (quiet or as_json):
        for kind, texts in (("note", answer.notes), ("warning", answer.warnings)):
            for text in texts:
                sys.stderr.write(f"{kind}: {text}\n")


# What terminals and files that know ASCII alone get for the lines of a drawn tree.
_ASCII = str.maketrans({"├": "|", "└": "`", "─": "-", "│": "|", "█": "#", "▌": "|"})


def _encodable(text: str) -> str:
    """The text with what standard output's encoding cannot write replaced."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, errors="replace").decode(encoding)
    return text


def _is_terminal() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def to_json(value: Mapping[str, Any]) -> str:
    """The document as text; non-finite numbers become null."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_all(folder: str, files: Mapping[str, str | bytes]) -> None:
    """Write the files into the folder, all of them or none; the folder is made where it is not there.

    Raises  EnvironmentProblem with the system's reason.
    """
    target = Path(folder)
    made = not target.exists()
    try:
        target.mkdir(exist_ok=True)
        staged = Path(tempfile.mkdtemp(dir=target, prefix=".specplan."))
    except OSError as error:
        raise EnvironmentProblem(
            f"{folder}: cannot write: {error.strerror}", hint="choose a folder whose parent exists and is writable"
        ) from None
    try:
        for name, content in files.items():
            write_whole(str(staged / name), content)
        taken = next((name for name in files if (target / name).is_dir()), None)
        if taken is not None:
            raise EnvironmentProblem(f"{target / taken}: a folder has that name", hint="choose another folder")
        for name in files:
            os.replace(staged / name, target / name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if made and not any(target.iterdir()):
            target.rmdir()


def write_whole(path: str, content: str | bytes) -> None:
    """Write the file in one step: whole, or not at all; text as UTF-8.

    Raises  EnvironmentProblem with the system's reason.
    """
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file that appears whole when the block ends, or not at all.

    Raises  EnvironmentProblem with the system's reason.
    """
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise EnvironmentProblem(
            f"{path}: cannot write: {error.strerror}", hint="choose a folder that exists and is writable"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if not isinstance(error, OSError):
            raise
        raise EnvironmentProblem(
            f"{path}: cannot write: {error.strerror}", hint="choose a file name in a writable folder"
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- plain text


def plain_lines(answer: Answer) -> Iterable[str]:
    """The answer as lines of plain text, never cut."""
    yield answer.verdict
    for part in answer.parts:
        yield ""
        yield from _plain_part(part)
    if answer.why:
        yield ""
        yield from answer.why
    if answer.assumptions:
        yield ""
        yield "Assumptions"
        for text, source in answer.assumptions:
            yield f"  - {text} [{source}]" if source else f"  - {text}"


def _plain_part(part: Table | Lines) -> Iterable[str]:
    if part.title:
        yield part.title
    if isinstance(part, Lines):
        yield from part.lines
        return
    rows = [list(part.columns), *map(list, part.rows)] if any(part.columns) else [list(row) for row in part.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        yield "  ".join(cells).rstrip()


# ---- a terminal


def _print_rich(answer: Answer, *, forced: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True if forced else None, highlight=False, soft_wrap=True, width=NEVER_CUT)
    console.print(Text(answer.verdict, style="bold"))
    for part in answer.parts:
        console.print()
        _rich_part(console, part)
    if answer.why:
        console.print()
        for sentence in answer.why:
            console.print(Text(sentence))
    if answer.assumptions:
        console.print()
        console.print(Text("Assumptions", style="dim"))
        for text, source in answer.assumptions:
            console.print(Text(f"  - {text}" + (f" [{source}]" if source else ""), style="dim"))


def _rich_part(console: Any, part: Table | Lines) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    if isinstance(part, Lines):
        if part.title:
            console.print(Text(part.title, style="bold cyan"))
        for line in part.lines:
            console.print(Text(line))
        return
    table = RichTable(
        title=Text(part.title) if part.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=any(part.columns),
    )
    for i, name in enumerate(part.columns):
        table.add_column(Text(name), justify="left" if i == 0 else "right", no_wrap=True)
    for row in part.rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
