"""The report: what its sliders hold is what plan says, it is one file that asks for nothing, and a browser shows it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest

from specplan.acceptance.kinds import Chain, Independent
from specplan.base.tree import TokenTree
from specplan.cli.app import run
from specplan.methods.catalogue import chain, sequoia, tree
from specplan.planning.cells import cell, price_at
from specplan.planning.plan import plan
from specplan.render.report import page
from specplan.render.schemas import json_schema
from specplan.search.best import best_tree
from specplan.search.costs import RoundCosts
from specplan.search.shape import shape_of
from specplan.search.space import Space
from specplan.timing.draft import Draft, timed_draft

UNKNOWN = "--gpu a100 --model llama-3-8b --draft llama-3.2-1b"
ASKED = f"{UNKNOWN} --p 0.6"
HOSTILE = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"


@dataclass(frozen=True)
class Report:
    """A written report and the document that says what is in it."""

    path: Path
    document: dict[str, Any]

    @property
    def html(self) -> str:
        return self.path.read_text(encoding="utf-8")


def write(arguments: str | list[str], path: Path) -> Report:
    words = arguments.split() if isinstance(arguments, str) else arguments
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        assert run(["report", *words, "--out", str(path), "--json"]) == 0
    return Report(path, json.loads(printed.getvalue()))


class Kept(page.Library):
    """The library, bundled once for all tests here."""

    bundle: ClassVar[str] = ""

    def __init__(self) -> None:
        if not Kept.bundle:
            super().__init__()

    def text(self) -> str:
        Kept.bundle = Kept.bundle or super().text()
        return Kept.bundle

    def __exit__(self, *error: object) -> None:
        if not Kept.bundle:
            super().__exit__(*error)


@pytest.fixture(scope="module", autouse=True)
def _kept_library():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "Library", Kept)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def report(folder):
    return write([*ASKED.split(), "--workload", HOSTILE], folder / "report.html")


# ---- what it holds


def test_the_document_validates_against_its_schema(report):
    jsonschema.validate(report.document, json_schema("report"))
    assert report.document["bytes"] == report.path.stat().st_size


def test_six_methods_and_eight_batches_stay_under_two_megabytes(report):
    assert len(report.document["methods"]) == 6
    assert len(report.document["batches"]) == 8
    assert report.path.stat().st_size < 2_000_000


def test_what_was_asked_is_shown_as_compare_has_it(report, specplan):
    methods = " ".join(f"--method {name}" for name in report.document["methods"] if name != "tree")
    compared = specplan(f"compare {ASKED} {methods} --json").json["methods"]
    start = report.document["start"]
    assert report.document["acceptances"][start["acceptance"]] == {"label": "p 0.6, as given", "p": 0.6}
    for name, found in compared.items():
        shown = report.document["cells"][name][start["batch"]][start["acceptance"]]
        assert shown == {key: found["recommended"][key] for key in shown}
    planned = specplan(f"plan {ASKED} --json").json["recommended"]
    shown = report.document["cells"]["tree"][start["batch"]][start["acceptance"]]
    assert shown == {key: planned[key] for key in shown}


@pytest.mark.parametrize(("method", "batch", "p"), [("eagle3", 8, 0.3), ("medusa", 32, 0.8), ("chain", 128, 0.9)])
def test_the_sliders_hold_what_plan_finds_and_never_more(report, specplan, method, batch, p):
    document = report.document
    stop = [at["p"] for at in document["acceptances"]].index(p)
    shown = document["cells"][method][document["batches"].index(batch)][stop]
    asked = ASKED.replace("--p 0.6", f"--p {p} --batch {batch} --method {method}")
    found = specplan(f"plan {asked} --json").json
    assert shown["speedup"] <= found["optimum"]["speedup"] * (1 + 1e-9)
    assert shown["speedup"] >= found["recommended"]["speedup"] * 0.97
    assert shown["tokens_per_s"] / shown["speedup"] == pytest.approx(found["plain"]["tokens_per_s"]), (
        "both against the same plain decoding"
    )


@pytest.mark.parametrize("draft", [timed_draft(0.05), Draft("wide", lambda width: 0.02 + 0.004 * width)])
@pytest.mark.parametrize("make", [tree, chain, sequoia])
def test_a_cell_is_a_real_tree_within_the_limits_at_its_true_cost(make, draft):
    costs, limits = RoundCosts(verify_s=[1 + 0.01 * n for n in range(65)], overhead_s=0.1), Space(64, 8)
    for p in (0.0, 0.2, 0.6, 0.9, 1.0):
        priced = price_at(costs, limits, make(draft), lambda priced: None)
        shape = cell(priced, Independent(p), tie=0.0).shape
        again = shape_of(TokenTree.from_parents(shape.parents, shape.ranks), Independent(p), priced.costs)
        assert shape.speedup == again.speedup >= 1
        assert shape.nodes <= 64
        assert shape.depth <= 8
        assert shape.speedup <= best_tree(Independent(p), priced.limits, priced.costs).shape.speedup * (1 + 1e-12)


def test_a_cell_equals_the_plan_where_chains_are_short():
    costs, limits = RoundCosts(verify_s=[1 + 0.05 * n for n in range(9)]), Space(8, 8)
    priced = price_at(costs, limits, chain(timed_draft(0.1)), lambda priced: None)
    for p in (0.1, 0.5, 0.7, 0.9):
        found = plan(Independent(p), priced.costs, priced.limits, tie=0.01)
        assert cell(priced, Independent(p), tie=0.01).shape == found.recommended


def test_a_cell_of_chain_data_is_a_chain():
    costs = RoundCosts(verify_s=[1.0] * 9)
    priced = price_at(costs, Space(8, children=1), tree(timed_draft(0.01)), lambda priced: None)
    assert cell(priced, Chain((0.9, 0.8, 0.7)), tie=0.0).shape.widths == (1, 1, 1)


def test_an_acceptance_that_is_no_single_p_has_its_own_stop(folder):
    found = write(f"{UNKNOWN} --survival 0.8,0.6,0.4 --method chain --batch 1,4", folder / "s.html")
    assert found.document["acceptances"][0] == {"label": "as given", "p": None}
    assert found.document["start"] == {"batch": 0, "acceptance": 0}
    assert found.document["batches"] == [1, 4]
    assert {at["nodes"] == at["depth"] for line in found.document["cells"]["chain"] for at in line} == {True}


def test_without_an_acceptance_none_is_called_given(folder):
    found = write(f"{UNKNOWN} --method chain --batch 1", folder / "none.html")
    assert found.document["acceptances"][0]["p"] == 0.1
    assert not any("given" in at["label"] for at in found.document["acceptances"])
    assert "No verdict" in found.html


def test_without_an_acceptance_no_batch_has_a_best_method(specplan, folder):
    ran = specplan(f"report {UNKNOWN} --method chain --out {folder / 'none.html'}")
    assert ran.out.startswith("No verdict")
    assert "best method" not in ran.out


def test_a_method_without_an_acceptance_says_so_where_others_have_one(folder):
    words = f"{UNKNOWN} --method eagle3 --method medusa --acceptance-of eagle3=0.75 --batch 1"
    found = write(words, folder / "own.html")
    assert found.document["acceptances"][0] == {"label": "as given", "p": None}
    assert found.document["cells"]["eagle3"][0][0]["nodes"] > 0
    assert found.document["cells"]["medusa"][0][0] is None
    assert found.document["cells"]["medusa"][0][-1]["nodes"] > 0
    assert "no acceptance" in found.html.partition("<tbody>")[2].partition("</tbody>")[0]


def test_a_batch_that_does_not_fit_has_no_cell(folder):
    words = "--gpu a100 --model llama-3-8b --method ngram --p 0.6 --context 8k --batch 1,1024"
    found = write(words, folder / "large.html")
    assert found.document["cells"]["ngram"][0][0] is not None
    assert found.document["cells"]["ngram"][1] == [None] * len(found.document["acceptances"])


def test_measured_curves_alone_make_a_report(folder):
    curve = folder / "curve.csv"
    curve.write_text("width,ratio\n1,1\n4,1.02\n8,1.05\n16,1.4\n")
    words = f"--verify-curve {curve} --draft-ratio 0.05 --p 0.7 --method chain"
    found = write(words, folder / "curve.html")
    assert found.document["batches"] == [1]
    assert "chart-roofline" not in found.html


# ---- from a document


def test_a_plan_s_document_becomes_a_report_of_that_plan(specplan, folder):
    path = folder / "plan.json"
    ran = specplan(f"plan {ASKED} --families --tokens 60 --out {path}")
    found = write([str(path)], folder / "plan.html")
    assert found.document["lead"] == "tree"
    assert ran.out.splitlines()[0].partition("; ")[0] in found.html
    words = ["specplan", "report", *ASKED.split(), "--lead", "tree"]
    assert sorted(shlex.split(found.document["inputs"]["command"])) == sorted(words)


def test_what_a_report_does_not_hold_is_left_out_of_a_plan_s_command(specplan, folder):
    path = folder / "given.json"
    specplan(f"plan {ASKED} --k 4 --price-per-hour 2 --explain --method chain --batch 1,2 --out {path}")
    found = write([str(path)], folder / "given.html")
    words = f"specplan report {ASKED} --method chain --lead chain --batch 1,2".split()
    assert sorted(shlex.split(found.document["inputs"]["command"])) == sorted(words)


def test_a_report_of_a_plan_for_a_stack_keeps_the_times_of_its_engine(specplan, folder):
    path = folder / "served.json"
    specplan(f"plan {ASKED} --stack vllm --budget 8 --out {path}")
    found = write([str(path)], folder / "served.html")
    assert found.document["inputs"]["engine"] == "vllm"
    specplan(f"plan {ASKED} --stack vllm --engine sglang --budget 8 --out {path}")
    assert write([str(path)], folder / "served.html").document["inputs"]["engine"] == "sglang"


def test_a_plan_for_a_stack_becomes_a_report_of_shapes_that_it_runs(specplan, folder):
    path = folder / "stack.json"
    ran = specplan(f"plan {ASKED} --method eagle3 --stack vllm --batch 1..2 --out {path}")
    found = write([str(path)], folder / "stack.html")
    assert ran.out.splitlines()[0].partition("; ")[0] in found.html
    cells = [at for line in found.document["cells"]["eagle3"] for at in line]
    assert {at["nodes"] == at["depth"] for at in cells} == {True}
    assert any(at["nodes"] > 1 for at in cells)
    assert found.document["inputs"]["stack"].startswith("vllm")
    assert "every shape is one that vllm" in found.html


def test_a_draft_alone_is_reported_in_a_stack_that_calls_it_otherwise(specplan, folder):
    path = folder / "alone.json"
    specplan(f"plan {ASKED} --stack vllm --batch 1..2 --out {path}")
    found = write([str(path)], folder / "alone.html")
    assert found.document["lead"] == "tree"
    assert {at["nodes"] == at["depth"] for line in found.document["cells"]["tree"] for at in line} == {True}


def test_settings_of_a_stack_that_grows_trees_are_those_of_plan(specplan, folder):
    words = f"{UNKNOWN} --p 0.7 --method eagle3 --budget 24 --stack sglang"
    found = write(f"{words} --batch 4,8", folder / "grown.html")
    at = [round(stop["p"], 1) for stop in found.document["acceptances"]].index(0.7)
    for i, batch in enumerate((4, 8)):
        planned = specplan(f"plan {words} --batch {batch} --json").json["recommended"]
        cell = found.document["cells"]["eagle3"][i][at]
        assert cell["nodes"] == planned["nodes"]
        assert cell["speedup"] == pytest.approx(planned["speedup"])


def test_a_compare_s_document_becomes_a_report_of_the_same_methods(specplan, folder):
    path = folder / "compare.json"
    specplan(f"compare {ASKED} --method medusa --method eagle3 --budget 16 --out {path}")
    found = write([str(path)], folder / "compare.html")
    assert set(found.document["methods"]) == {"medusa", "eagle3"}
    assert found.document["lead"] == "eagle3"


def test_the_command_of_a_document_says_the_same_again(specplan):
    first = specplan(f"plan {ASKED} --set memory.bandwidth=3TB/s --json -q").json
    again = specplan([*shlex.split(first["inputs"]["command"])[1:], "--json"]).json
    assert again == first


# ---- one file that asks for nothing


class References(HTMLParser):
    """Attributes that would fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, name, value) for name, value in attrs if name in ("src", "href", "data", "action")]


def test_nothing_in_the_page_refers_to_anything_outside(report):
    references = References()
    references.feed(report.html)
    assert references.found == []
    assert "default-src 'none'" in report.html
    assert "@import" not in report.html.partition("</style>")[0]
    assert "url(" not in report.html.partition("</style>")[0]


def test_words_of_the_user_are_shown_as_words(report):
    assert HOSTILE not in report.html
    assert "&lt;script&gt;window.hurt" in report.html


# ---- in a browser


def browser_path() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser():
    path = browser_path()
    if path is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass(frozen=True)
class Opened:
    """A page, what it said, and what it asked for."""

    tab: Any
    said: list[str]
    asked: list[str]


@pytest.fixture
def opened(browser):
    contexts = []

    def call(path: Path, *, width: int = 1280, theme: str = "light") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        contexts.append(context)
        tab, said, asked = context.new_page(), [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-ready=yes]", timeout=60_000)
        return Opened(tab, said, asked)

    yield call
    for context in contexts:
        context.close()


def slide(tab: Any, slider: str, place: int) -> None:
    tab.evaluate(
        """([id, place]) => {
            const slider = document.getElementById(id);
            slider.value = place;
            slider.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        [slider, place],
    )
    tab.wait_for_timeout(150)


def expected(document: dict[str, Any], batch: int, acceptance: int, methods: list[str]) -> str:
    """What the page has to say there, from the document."""
    cells = {name: document["cells"][name][batch][acceptance] for name in methods}
    name = max(cells, key=lambda name: cells[name]["speedup"])
    best = cells[name]
    if best["nodes"] == 0:
        return "Here plain decoding is fastest: do not speculate."
    shape = (
        f"chain of {best['nodes']}"
        if best["nodes"] == best["depth"]
        else f"{best['nodes']} nodes, depth {best['depth']}"
    )
    return f"Here: {name}, {shape}: {best['speedup']:.2f} x plain decoding"


def test_a_browser_renders_it_without_a_word_or_a_request(opened, report):
    seen = opened(report.path)
    assert seen.said == []
    assert seen.asked == [report.path.as_uri()]
    assert seen.tab.locator(".charts svg").count() == 6
    assert seen.tab.locator("tr[data-method]").count() == 6
    assert seen.tab.evaluate("window.hurt") is None


def test_the_sliders_move_the_optimum_as_the_data_say(opened, report):
    seen, document = opened(report.path), report.document
    shapes = set()
    for batch, acceptance in ((0, 0), (3, 5), (7, 8), (0, 8), (6, 1)):
        slide(seen.tab, "batch", batch)
        slide(seen.tab, "acceptance", acceptance)
        assert seen.tab.inner_text("#now").startswith(expected(document, batch, acceptance, document["methods"]))
        assert seen.tab.inner_text("#batch-now") == str(document["batches"][batch])
        for name in document["methods"]:
            at = document["cells"][name][batch][acceptance]
            row = seen.tab.locator(f"tr[data-method={name}]")
            assert float(row.locator("[data-field=speedup]").inner_text()) == pytest.approx(at["speedup"], rel=1e-3)
            assert float(row.locator("[data-field=rate]").inner_text()) == pytest.approx(at["tokens_per_s"], rel=1e-3)
        lead = document["cells"][document["lead"]][batch][acceptance]
        drawn = seen.tab.locator("#chart-tree .mark-rect path").count()
        assert 0 < drawn <= lead["nodes"] or lead["nodes"] == 0 == drawn
        shapes.add(seen.tab.inner_html("#chart-stair .mark-symbol.layer_2_marks"))
    assert len(shapes) > 1
    assert seen.said == []


def test_toggles_take_a_method_out(opened, report):
    seen, document = opened(report.path), report.document
    start = document["start"]
    lines = seen.tab.locator("#chart-batch .mark-line path")
    before = lines.count()
    best = max(
        document["cells"], key=lambda name: document["cells"][name][start["batch"]][start["acceptance"]]["speedup"]
    )
    seen.tab.uncheck(f"input[data-toggle={best}]")
    seen.tab.wait_for_timeout(200)
    assert lines.count() == before - 1
    others = [name for name in document["methods"] if name != best]
    assert seen.tab.inner_text("#now").startswith(expected(document, start["batch"], start["acceptance"], others))
    for name in others:
        seen.tab.uncheck(f"input[data-toggle={name}]")
    seen.tab.wait_for_timeout(200)
    assert seen.tab.inner_text("#now") == "Nothing can be planned here."
    assert seen.said == []


def test_hovering_shows_the_values_of_a_point(opened, report):
    tab = opened(report.path).tab
    tab.locator("#chart-batch .mark-symbol path").first.hover()
    shown = tab.inner_text("#vg-tooltip-element")
    assert "x plain" in shown
    assert "tokens/s" in shown


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_is_never_wider_than_the_window(opened, report, width):
    tab = opened(report.path, width=width).tab
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert all(
        box["width"] <= width
        for box in tab.locator(".charts svg").evaluate_all(
            "nodes => nodes.map(node => ({ width: node.getBoundingClientRect().width }))"
        )
    )


def test_dark_and_light_have_their_own_paper_and_print_is_light(opened, report):
    paper = "getComputedStyle(document.body).backgroundColor"
    dark, light = opened(report.path, theme="dark").tab, opened(report.path).tab
    assert light.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.evaluate(paper) == "rgb(20, 24, 31)"
    dark.emulate_media(media="print")
    assert dark.evaluate(paper) == "rgb(255, 255, 255)"
    assert not dark.locator("#batch").is_visible()


def test_a_report_without_a_given_acceptance_and_one_method_works_too(opened, folder):
    path = folder / "none.html"
    found = write(f"{UNKNOWN} --method chain --batch 1", path)
    seen = opened(path)
    assert seen.said == []
    slide(seen.tab, "acceptance", 8)
    assert seen.tab.inner_text("#now").startswith(expected(found.document, 0, 8, ["chain"]))


def test_trees_that_an_engine_grows_are_shown_by_their_settings(opened, folder):
    path = folder / "settings.html"
    write(f"{UNKNOWN} --p 0.7 --method eagle3 --budget 24 --stack sglang --batch 4", path)
    seen = opened(path)
    assert seen.said == []
    assert re.match(r"Here: eagle3, steps \d, topk \d+, \d+ nodes: ", seen.tab.inner_text("#now"))
    assert "shapes of sglang" in seen.tab.inner_text(".about")


# ---- bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (ASKED, "add --out report.html"),
        (f"{ASKED} --out report.txt", "a report is HTML"),
        ("--out x.html", "no device given"),
        (f"{ASKED} --out x.html --lead mtp", "--lead 'mtp' was not planned"),
        (f"{ASKED} --out x.html --lead egle", "did you mean"),
        (f"missing.json {ASKED} --out x.html", "both say what to report"),
        ("missing.json --out x.html", "missing.json"),
    ],
)
def test_what_cannot_be_reported_is_refused(refused, arguments, said):
    assert said in refused(f"report {arguments}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a document of plan or compare"),
        ('{"schema": "specplan.tree/1"}', "not a document of plan or compare"),
        ('{"schema": "specplan.plan/1", "inputs": {}}', "does not say its command"),
        ('{"schema": "specplan.plan/1", "inputs": {"command": "rm -rf /"}}', "does not say its command"),
        ('{"schema": "specplan.plan/1", "inputs": {"command": "specplan plan \'"}}', "cannot be read"),
        ('{"schema": "specplan.plan/1", "inputs": []}', "does not say its command"),
    ],
)
def test_a_document_that_is_none_is_refused(refused, tmp_path, text, said):
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert said in refused(["report", str(path), "--out", str(tmp_path / "x.html")])
    assert not (tmp_path / "x.html").exists()


def test_a_folder_that_does_not_exist_is_refused(refused, tmp_path):
    words = f"report {ASKED} --method ngram --batch 1 --out {tmp_path / 'no' / 'x.html'}"
    assert "cannot write" in refused(words, code=4)


def test_without_vl_convert_the_extra_is_named(refused, monkeypatch, tmp_path):
    monkeypatch.setattr(Kept, "bundle", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    words = f"report {ASKED} --out {tmp_path / 'x.html'}"
    assert "pip install 'specplan[report]'" in refused(words, code=4)
