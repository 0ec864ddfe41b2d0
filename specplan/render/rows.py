"""Rows of a sweep as text, and files of them: CSV, JSON lines, Parquet.

While a sweep runs its rows are kept beside the file as CSV, under a line that says which grid they are of; an
interrupted sweep goes on from there. The file itself appears whole, at the end.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, get_type_hints

from ..base.errors import EnvironmentProblem, InputError
from ..planning.sweep import RESULTS, Row
from .output import whole_file

LABELS = ("gpu", "model", "dtype", "tp", "engine", "method", "draft")
COLUMNS = (*LABELS, *RESULTS)
FORMATS = (".csv", ".jsonl", ".parquet")

_OF_LABEL = {"tp": int}
TYPES: dict[str, type] = {
    **{name: _OF_LABEL.get(name, str) for name in LABELS},
    **{
        name: next(kind for kind in (bool, int, float, str) if kind in (hint, *getattr(hint, "__args__", ())))
        for name, hint in get_type_hints(Row).items()
    },
}

Cells = Sequence[str]


def label_cells(labels: Sequence[Any]) -> list[str]:
    """The texts of a cell's columns."""
    return [_words(value) for value in labels]


def result_cells(row: Row) -> list[str]:
    """The texts of a row's own columns: 10 digits, empty where nothing is known."""
    return ["" if value is None else show(value) for show, value in zip(_SHOWN, _RESULTS(row))]


def cells_from(row: Mapping[str, Any]) -> list[str]:
    """The texts of a row that was read from a file."""
    values = ((TYPES[name], row.get(name)) for name in COLUMNS)
    return ["" if value is None else _SHOW[kind](value) for kind, value in values]


def _words(value: Any) -> str:
    """Text on one line."""
    return "" if value is None else " ".join(str(value).split())


_SHOW: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: lambda value: "%.10g" % value,  # noqa: UP031  # half the time of a format string
    str: _words,
}
_SHOWN = [_SHOW[TYPES[name]] for name in RESULTS]
_RESULTS = attrgetter(*RESULTS)


def values_of(cells: Cells) -> dict[str, Any]:
    """A row's texts as values by column.

    >>> values_of(["h100", *[""] * (len(COLUMNS) - 1)])["gpu"]
    'h100'
    """
    return {name: _value(TYPES[name], text) for name, text in zip(COLUMNS, cells)}


def _value(kind: type, text: str) -> Any:
    if not text:
        return None
    return text == "true" if kind is bool else kind(text)


def csv_text(lines: Iterable[Cells]) -> str:
    """Lines of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def read_csv_text(text: str) -> Iterator[list[str]]:
    """The lines of `csv_text`."""
    return csv.reader(io.StringIO(text))


# ---- the rows that are there so far


class Partial:
    """`FILE.partial`: a line that names the grid, then the rows so far.

    grid   what tells this grid from any other
    """

    def __init__(self, path: str, grid: str) -> None:
        self.target, self.path = path, Path(f"{path}.partial")
        self._head = json.dumps({"schema": "specplan.sweep.partial/1", "grid": grid}).encode() + b"\n"

    def rows(self, *, restart: bool) -> int:
        """Whole rows that an interrupted sweep of the same grid left.

        Raises  InputError where they are of another grid.
        """
        if restart or not self.path.exists():
            return 0
        with open(self.path, "rb") as file:
            if file.readline() != self._head:
                raise InputError(
                    f"{self.path} is of another grid, or of another version",
                    hint="--restart forgets it; or write to another --out",
                )
            return sum(line.endswith(b"\n") for line in file)

    @contextmanager
    def adding(self, kept: int) -> Iterator[Callable[[str], None]]:
        """Takes rows behind the first `kept` ones; each text is out of this process at once."""
        try:
            if not kept:
                self.path.write_bytes(self._head)
            file = open(self.path, "r+b")  # noqa: SIM115
        except OSError as error:
            raise EnvironmentProblem(
                f"{self.path}: cannot write: {error.strerror}", hint="choose a folder that exists and is writable"
            ) from None
        with file:
            for _ in islice(file, kept + 1):
                pass
            file.truncate(file.tell())

            def add(text: str) -> None:
                file.write(text.encode())
                file.flush()

            yield add

    def lines(self) -> Iterator[list[str]]:
        """The rows so far."""
        with open(self.path, encoding="utf-8", newline="") as file:
            next(file, None)
            yield from csv.reader(file)

    def finish(self) -> None:
        """Write the file, whole, and forget what was kept beside it."""
        with whole_file(self.target) as out:
            _WRITERS[_format(self.target)](self.path, out)
        os.unlink(self.path)


def check_format(path: str) -> None:
    """Refuse a file that could not be written at the end.

    Raises  InputError for an unknown ending, EnvironmentProblem without pyarrow for Parquet.
    """
    if _format(path) == ".parquet":
        _pyarrow()


def _format(path: str) -> str:
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"{path}: rows are not written as {ending or 'a file without ending'}", hint=_ENDINGS)
    return ending


_ENDINGS = "name it FILE.csv, FILE.jsonl or FILE.parquet"


def _write_csv(rows: Path, out: BinaryIO) -> None:
    import shutil

    out.write((",".join(COLUMNS) + "\n").encode())
    with open(rows, "rb") as file:
        file.readline()
        shutil.copyfileobj(file, out, 1 << 20)


def _write_jsonl(rows: Path, out: BinaryIO) -> None:
    with open(rows, encoding="utf-8", newline="") as file:
        next(file)
        for cells in csv.reader(file):
            out.write(json.dumps(values_of(cells), ensure_ascii=False).encode() + b"\n")


def _write_parquet(rows: Path, out: BinaryIO) -> None:
    arrow = _pyarrow()
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    kinds = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
    schema = arrow.schema([(name, kinds[TYPES[name]]) for name in COLUMNS])
    read = arrow_csv.ReadOptions(column_names=list(COLUMNS), skip_rows=1, block_size=16 << 20, use_threads=False)
    convert = arrow_csv.ConvertOptions(
        column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    with (
        parquet.ParquetWriter(out, schema) as writer,
        arrow_csv.open_csv(rows, read_options=read, convert_options=convert) as batches,
    ):
        for batch in batches:
            writer.write_batch(batch)


_WRITERS = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise EnvironmentProblem(
            "Parquet files need pyarrow", hint="pip install 'specplan[sweep]', or write FILE.csv"
        ) from None
    return pyarrow


# ---- reading them again


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a sweep's file, as values by column.

    Raises  InputError where it is no such file.
    """
    ending = _format(path)
    if ending == ".parquet":
        _pyarrow()
    try:
        yield from _READERS[ending](path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}", hint="check the path") from None
    except (ValueError, KeyError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not the rows of a sweep", hint="specplan sweep --out writes them") from None


def _read_csv(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        names = next(lines, [])
        if not names or not set(names) <= set(COLUMNS):
            raise ValueError(path)
        kinds = [TYPES[name] for name in names]
        for cells in lines:
            yield {name: _value(kind, text) for name, kind, text in zip(names, kinds, cells, strict=True)}


def _read_jsonl(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if not isinstance(row, dict) or not set(row) <= set(COLUMNS):
                raise ValueError(path)
            yield row


def _read_parquet(path: str) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        if not set(file.schema_arrow.names) <= set(COLUMNS):
            raise ValueError(path)
        for batch in file.iter_batches():
            yield from batch.to_pylist()


_READERS = {".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}
