"""One HTML file: tables and words in it; charts and sliders by the library and the script that are put in beside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ...base.errors import EnvironmentProblem
from ...base.units import show_bytes
from ...planning.compare import Row
from ..compare import short_shape
from ..output import Answer, Table, plain
from .charts import charts
from .data import Survey, page_data

HERE = Path(__file__).parent
SLIDERS = (
    "Shape, tokens and speed-up follow the sliders; the other columns hold for what was asked. Away from that, shapes "
    "are the best of the trees that accept most at 1 to 8 nodes and four node counts an octave above: specplan plan "
    "may find more."
)


class Library:
    """The JavaScript of Vega-Lite, bundled by another process while the plans are made.

    Bundling takes as long as planning; vl-convert holds the interpreter's lock meanwhile.
    """

    CODE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"

    def __init__(self) -> None:
        """Raises EnvironmentProblem without vl-convert."""
        from importlib.util import find_spec

        if find_spec("vl_convert") is None:
            raise EnvironmentProblem("a report needs vl-convert", hint="pip install 'specplan[report]'")
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def text(self) -> str:
        """Raises EnvironmentProblem where the bundle could not be made."""
        bundle, trouble = self.process.communicate()
        if self.process.returncode:
            said = trouble.decode(errors="replace").strip().splitlines()[-1:] or [""]
            raise EnvironmentProblem(f"vl-convert failed: {said[0][:120]}", hint="pip install -U vl-convert-python")
        return bundle.decode()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *error: object) -> None:
        """End it where no report was written."""
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            self.process.kill()
            self.process.communicate()


def page(survey: Survey, answer: Answer, tables: Sequence[Table], *, about: str, library: str) -> str:
    """The whole file.

    tables   that follow the charts: what the methods ask for, what could not be planned
    about    device, model and load, one line
    """
    batch, acceptance = survey.start
    drawn = charts(survey)
    fields = {
        "title": escape(answer.verdict),
        "verdict": escape(answer.verdict),
        "about": escape(about),
        "warnings": "".join(f'<p class="warning">{escape(text)}</p>' for text in answer.warnings),
        "last_batch": len(survey.batches) - 1,
        "batch": batch,
        "last_acceptance": len(survey.stops) - 1,
        "acceptance": acceptance,
        "methods": _methods(survey),
        "slider_note": escape(SLIDERS),
        "charts": "".join(_figure(name, caption) for name, (caption, _) in drawn.items()),
        "details": _details(answer, tables),
        "command": escape(str(answer.document["inputs"].get("command", ""))),
        "version": escape(str(answer.document["version"])),
        "inputs": _inputs(answer.document["inputs"]),
        "data": _json(page_data(survey)),
        "specs": _json({name: spec for name, (_, spec) in drawn.items()}),
        "library": _script(library),
        "script": _script(_file("page.js")),
        "style": _file("page.css"),
    }
    return Template(_file("page.html")).substitute(fields)


def _file(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(code: str) -> str:
    """Code that cannot end its element: `</script` occurs in strings alone, where the escape means the same."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _figure(name: str, caption: str) -> str:
    label = escape(caption, quote=True)
    place = f'<div id="chart-{name}" role="img" aria-label="{label}"></div>'
    return f"<figure><figcaption>{escape(caption)}</figcaption>{place}</figure>"


def _methods(survey: Survey) -> str:
    """The table that follows the sliders; the script fills in what they move."""
    fixed = {name: _fixed(row) for name, row in survey.rows.items()}
    known = [i for i in range(3) if any(cells[i] != "-" for cells in fixed.values())]
    more = ("interval", "break-even p", "memory")
    head = ("method", "shape", "tokens a round", "tokens/s", "x plain", *(more[i] for i in known))
    rows = []
    for i, name in enumerate(survey.cells):
        swatch = f'<i style="background:var(--m{i % 8})"></i>'
        toggle = f'<td><label><input type="checkbox" checked data-toggle="{name}">{swatch}{name}</label></td>'
        moving = "".join(f'<td data-field="{field}">{text}</td>' for field, text in _moving(survey, name))
        cells = "".join(f"<td>{escape(fixed[name][i])}</td>" for i in known)
        rows.append(f'<tr data-method="{name}">{toggle}{moving}{cells}</tr>')
    return _html_table(head, rows)


def _moving(survey: Survey, name: str) -> list[tuple[str, str]]:
    """What the sliders move, where they stand at first: a page without JavaScript shows it too."""
    batch, acceptance = survey.start
    at = survey.cells[name][batch][acceptance]
    if at is None:
        lacking = "no acceptance" if name in survey.unknown else "does not fit"
        return [("shape", lacking), ("tau", "-"), ("rate", "-"), ("speedup", "-")]
    shape = at.shape
    rate = "-" if shape.tokens_per_s is None else f"{shape.tokens_per_s:.4g}"
    return [
        ("shape", short_shape(shape)),
        ("tau", f"{shape.tau:.3f}"),
        ("rate", rate),
        ("speedup", f"{shape.speedup or 1:.3f}"),
    ]


def _fixed(row: Row) -> tuple[str, str, str]:
    """What the sliders do not move: the interval, the break-even, the memory beside the target."""
    plan = row.plan
    assert plan is not None
    between, even = plan.verdict.interval, plan.break_even
    return (
        "-" if between is None else f"{between[0]:.2f} to {between[1]:.2f}",
        "-" if even is None or even.p is None else f"{even.p:.3f}",
        "-" if plan.memory is None else show_bytes(plan.memory.freed_bytes),
    )


def _html_table(head: Iterable[str], rows: Iterable[str], caption: str = "", *, words: bool = False) -> str:
    """`words`: cells hold sentences, not numbers."""
    start = '<th class="words">' if words else "<th>"
    top = "".join(f"{start}{escape(name)}</th>" for name in head)
    titled = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{titled}<thead><tr>{top}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _table(table: Table) -> str:
    rows = ("<tr>" + "".join(f'<td class="words">{escape(cell)}</td>' for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="wide">{_html_table(table.columns, rows, table.title, words=True)}</div>'


def _details(answer: Answer, tables: Sequence[Table]) -> str:
    """Why, what the methods ask for, assumptions with their sources, notes."""
    sections = [("Why", "".join(f"<p>{escape(text)}</p>" for text in answer.why))]
    sections.append(("What the methods ask for", "".join(map(_table, tables))))
    assumed = (
        f'<li>{escape(text)} <span class="note">[{escape(source)}]</span></li>' for text, source in answer.assumptions
    )
    sections.append(("Assumptions", f"<ul>{''.join(assumed)}</ul>" if answer.assumptions else ""))
    sections.append(("Notes", "".join(f"<p>{escape(text)}</p>" for text in answer.notes)))
    return "".join(f"<section><h2>{name}</h2>{body}</section>" for name, body in sections if body)


def _inputs(inputs: Mapping[str, Any]) -> str:
    """Effective values, as the document has them."""
    rows = (
        f'<tr><td>{escape(key)}</td><td class="words">{escape(_shown(value))}</td></tr>'
        for key, value in inputs.items()
        if key != "command" and value not in (None, {}, [])
    )
    return _html_table(("input", "value"), rows, words=True)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
