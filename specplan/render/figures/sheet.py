"""Panels laid out on one sheet, written whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import EnvironmentProblem, InputError, did_you_mean
from ..output import write_whole
from .style import THEMES, Theme

# What keeps a file the same from run to run, by format.
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "specplan"},
    "pdf": {"CreationDate": None, "Creator": "specplan", "Producer": "specplan"},
    "png": {"Software": "specplan"},
}
COLUMN_INCHES = 6.2
DPI = 150


@dataclass(frozen=True)
class Panel:
    """One picture of a sheet.

    draw     puts it on given axes
    wide     over both columns of a sheet that has two
    inches   its height
    """

    draw: Callable[[Any, Theme], None]
    wide: bool = False
    inches: float = 4.0


@dataclass(frozen=True)
class Sheet:
    """What one file shows: a heading and panels, two in a row where they are not wide."""

    heading: str
    panels: Sequence[Panel]

    def rows(self) -> list[list[Panel]]:
        """Panels by row; one that is left alone has it all."""
        rows: list[list[Panel]] = []
        for panel in self.panels:
            if rows and not panel.wide and len(rows[-1]) == 1 and not rows[-1][0].wide:
                rows[-1].append(panel)
            else:
                rows.append([panel])
        return rows


def check_plot(path: str, theme: str) -> None:
    """Refuse what could not be written, before anything is computed.

    Raises  InputError for an extension or a theme that does not exist; EnvironmentProblem without matplotlib.
    """
    if Path(path).suffix.lower()[1:] not in METADATA:
        raise InputError(f"--plot {path[:80]}: no such kind of picture", hint="a name that ends in .svg, .png or .pdf")
    if theme not in THEMES:
        raise InputError(
            f"--plot-theme {theme[:30]!r} is not known",
            hint=did_you_mean(theme, THEMES, otherwise="one of " + ", ".join(THEMES)),
        )
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise EnvironmentProblem("--plot needs matplotlib", hint="pip install 'specplan[plot]'")


def write_sheet(sheet: Sheet, path: str, *, theme: str = "light") -> None:
    """Draw the sheet into a file; its extension says the format.

    Raises  EnvironmentProblem when it cannot be written.
    """
    import matplotlib as mpl

    kind = Path(path).suffix.lower()[1:]
    with mpl.rc_context(THEMES[theme].rc()):
        figure = drawn(sheet, THEMES[theme])
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=METADATA[kind])
    write_whole(path, buffer.getvalue())


def drawn(sheet: Sheet, theme: Theme) -> Any:
    """The sheet as a matplotlib figure, laid out; call inside `rc_context(theme.rc())`."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows = sheet.rows()
    columns = max(len(row) for row in rows)
    heights = [max(panel.inches for panel in row) for row in rows]
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(COLUMN_INCHES * columns, sum(heights) + 0.45), layout=layout)
    figure.suptitle(_wrapped(sheet.heading, columns), x=0.12 / figure.get_figwidth(), ha="left")
    # A sub-figure a row: the rows need not agree on where their axes begin.
    for place, row in zip(figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0], rows):
        grid = place.add_gridspec(1, len(row))
        for column, panel in enumerate(row):
            panel.draw(place.add_subplot(grid[0, column]), theme)
    return figure


def _wrapped(text: str, columns: int) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text.replace("$", r"\$"), 72 if columns == 1 else 140))
