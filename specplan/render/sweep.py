"""The answer of `specplan sweep`: what was found in the grid, and a pivot table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import InputError, did_you_mean
from ..base.units import plural
from ..planning.sweep import Chunk, rows
from .output import Answer, Pairs, Table, answer_of
from .rows import COLUMNS, LABELS, TYPES, Cells, csv_text, label_cells, result_cells, values_of

AXES = (*LABELS, "batch", "context", "acceptance")
SHOWN = ("speedup", "tokens_per_s", "nodes", "depth", "widths")
MOST_SHOWN = 40
MOST_REASONS = 5
_PLACE = {name: place for place, name in enumerate(COLUMNS)}
# Columns whose largest value says nothing: of several points the fastest one's is shown.
_OF_FASTEST = {"nodes", "width", "depth", "optimum_nodes", "tau", "draft_s", "verify_s", "overhead_s", "round_s"}


@dataclass
class Group:
    """Points of one method: how many there are, how many of them pay, and the fastest."""

    points: int = 0
    planned: int = 0
    paying: int = 0
    best: Cells | None = None

    def count(self, cells: Cells, answer: str) -> None:
        """One more point; `answer` is its `speculate`."""
        self.points += 1
        if answer:
            self.planned += 1
            self.paying += answer == "true"
            if _speedup(cells) > _speedup(self.best):
                self.best = cells

    def add(self, other: Group) -> None:
        self.points += other.points
        self.planned += other.planned
        self.paying += other.paying
        if other.best is not None and _speedup(other.best) > _speedup(self.best):
            self.best = other.best

    @property
    def best_row(self) -> dict[str, Any] | None:
        return None if self.best is None else values_of(self.best)


def _speedup(cells: Cells | None) -> float:
    return 0.0 if cells is None else float(cells[_PLACE["speedup"]] or 0)


@dataclass
class Summary:
    """What is said of rows without keeping them; summaries of parts add up.

    groups    by method and draft
    reasons   why points were not planned, or plain decoding is all that fits
    """

    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, lines: Iterable[Cells]) -> Summary:
        """From the texts of rows."""
        found = cls()
        for cells in lines:
            answer, reason = cells[_PLACE["speculate"]], cells[_PLACE["reason"]]
            key = (cells[_PLACE["method"]], cells[_PLACE["draft"]])
            group = found.groups.get(key) or found.groups.setdefault(key, Group())
            group.count(cells, answer)
            if reason:
                found.reasons[reason] += 1
        return found

    def add(self, other: Summary) -> None:
        for key, group in other.groups.items():
            self.groups.setdefault(key, Group()).add(group)
        self.reasons.update(other.reasons)

    @property
    def whole(self) -> Group:
        """All points together."""
        total = Group()
        for group in self.groups.values():
            total.add(group)
        return total


def evaluate(chunk: Chunk) -> tuple[str, Summary]:
    """The rows of a chunk as lines of CSV, and their summary: what a worker hands back."""
    labels = label_cells(chunk.cell.labels)
    lines = [labels + result_cells(row) for row in rows(chunk)]
    return csv_text(lines), Summary.of(lines)


# ---- pivot


@dataclass(frozen=True)
class Pivot:
    """A value over two columns.

    of            "largest", or "fastest": what stands for several points
    points        most points behind a cell
    """

    rows: str
    columns: str
    value: str
    row_values: Sequence[Any]
    column_values: Sequence[Any]
    cells: Sequence[Sequence[Any]]
    of: str
    points: int


def pivot_names(text: str) -> tuple[str, str, str]:
    """The columns that ROWS,COLS,VALUE names.

    Raises  InputError for a number of names that is not three, or a column that does not exist.
    """
    names = [name.strip() for name in text.split(",")]
    if len(names) != 3:
        raise InputError(f"--pivot {text[:60]!r} does not name three columns", hint="--pivot batch,context,speedup")
    for name in names:
        if name not in COLUMNS:
            otherwise = "one of " + ", ".join(COLUMNS)
            raise InputError(f"--pivot: no column {name[:40]!r}", hint=did_you_mean(name, COLUMNS, otherwise=otherwise))
    if len(set(names)) < 3:
        raise InputError(f"--pivot {text[:60]!r} names a column twice", hint="--pivot batch,context,speedup")
    return names[0], names[1], names[2]


def pivoted(rows: Iterable[Mapping[str, Any]], names: tuple[str, str, str]) -> Pivot:
    """The table; rows and columns in the order in which they come.

    Numbers of which more is better, or that are asked for as they are: the largest of several points. Shapes and words:
    those of the fastest point.
    """
    down, across, value = names
    fastest = TYPES[value] in (str, bool) or value in _OF_FASTEST
    row_values: dict[Any, int] = {}
    column_values: dict[Any, int] = {}
    found: dict[tuple[int, int], tuple[float, Any]] = {}
    counts: Counter[tuple[int, int]] = Counter()
    for row in rows:
        key = (
            row_values.setdefault(row.get(down), len(row_values)),
            column_values.setdefault(row.get(across), len(column_values)),
        )
        counts[key] += 1
        known = row.get(value)
        if known is None:
            continue
        rank = (row.get("speedup") or 0.0) if fastest else known
        if key not in found or rank > found[key][0]:
            found[key] = (rank, known)
    cells = [
        [found[i, j][1] if (i, j) in found else None for j in range(len(column_values))] for i in range(len(row_values))
    ]
    of = "fastest" if fastest else "largest"
    most = max(counts.values(), default=0)
    return Pivot(down, across, value, list(row_values), list(column_values), cells, of, most)


def longest_axes(inputs: Mapping[str, int]) -> tuple[str, str]:
    """The two columns with the most values, those of the load first."""
    order = sorted(inputs, key=lambda name: (-inputs[name], AXES[::-1].index(name)))
    return order[0], order[1]


def _pivot_table(pivot: Pivot) -> Table:
    several = "" if pivot.points == 1 else f", the {pivot.of} of up to {pivot.points} points"
    title = f"{pivot.value} by {pivot.rows} (down) and {pivot.columns} (across){several}"
    rows = [(_shown(name), *(_shown(cell) for cell in cells)) for name, cells in zip(pivot.row_values, pivot.cells)]
    return Table((pivot.rows, *map(_shown, pivot.column_values)), rows, title=title)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


# ---- the answer


def sweep_answer(
    inputs: Mapping[str, Any],
    found: Summary,
    *,
    assumptions: Pairs = (),
    notes: Sequence[str] = (),
    file: str | None = None,
    listed: Sequence[Mapping[str, Any]] | None = None,
    pivot: Pivot | None = None,
) -> Answer:
    """What the grid says; `listed`: the rows themselves where no file has them."""
    whole = found.whole
    keys = {
        "points": whole.points,
        "planned": whole.planned,
        "paying": whole.paying,
        "best": whole.best_row,
        "by_method": [
            {"method": method, "draft": draft or None, "points": g.points, "paying": g.paying, "best": g.best_row}
            for (method, draft), g in found.groups.items()
        ],
        "reasons": dict(found.reasons),
        "file": file,
        "columns": list(COLUMNS),
        "rows": listed,
        "pivot": pivot,
    }
    return answer_of(
        "sweep",
        verdict=_verdict(whole),
        inputs=inputs,
        keys=keys,
        parts=list(_parts(found, listed, pivot)),
        why=list(_why(found)),
        assumptions=assumptions,
        notes=notes,
    )


def _verdict(whole: Group) -> str:
    points = plural(whole.points, "point")
    if not whole.planned:
        return f"{points}: no verdict at any of them."
    share = f"Speculation pays at {whole.paying} of {points}"
    row = whole.best_row
    if not whole.paying or row is None:
        return f"{share}."
    where = ", ".join(str(row[name]) for name in ("gpu", "model", "draft") if row[name])
    shape = f"{row['method']}, {plural(row['nodes'], 'node')}, depth {row['depth']}"
    load = f"batch {row['batch']}, context {row['context']}, {row['acceptance']}"
    return f"{share}; most at {where}, {load}: {row['speedup']:.2f} x plain decoding ({shape})."


def _parts(found: Summary, listed: Sequence[Mapping[str, Any]] | None, pivot: Pivot | None) -> Iterator[Table]:
    yield _groups_table(found)
    if pivot is not None:
        yield _pivot_table(pivot)
    elif listed is not None and len(listed) <= MOST_SHOWN:
        yield _rows_table(listed)


def _groups_table(found: Summary) -> Table:
    rows = []
    for (method, draft), group in found.groups.items():
        row = group.best_row
        pays = f"{group.paying}" if group.planned else "-"
        best = ("-", "-") if row is None else (f"{row['speedup']:.3f}", _where(row))
        rows.append((method, draft or "-", str(group.points), pays, *best))
    return Table(("method", "draft", "points", "pays at", "largest x plain", "where"), rows)


def _where(row: Mapping[str, Any]) -> str:
    return f"{row['gpu']}, {row['model']}, batch {row['batch']}, context {row['context']}, {row['acceptance']}"


def _rows_table(listed: Sequence[Mapping[str, Any]]) -> Table:
    axes = [name for name in AXES if len({row[name] for row in listed}) > 1] or ["gpu"]
    columns = (*axes, *SHOWN)
    return Table(columns, [tuple(_shown(row[name]) for name in columns) for row in listed])


def _why(found: Summary) -> Iterator[str]:
    for reason, count in found.reasons.most_common(MOST_REASONS):
        yield f"{plural(count, 'point')}: {reason}."
    rest = len(found.reasons) - MOST_REASONS
    if rest > 0:
        yield f"{rest} further reasons: column `reason`."
