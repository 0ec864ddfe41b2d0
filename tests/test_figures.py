"""Figures: the marked answer is the answer, points lie inside the axes, words do not overlap, files are whole."""

from __future__ import annotations

import importlib.util
import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from specplan.acceptance.kinds import Chain, Counts, Independent, Positional, wilson
from specplan.base.tree import TokenTree
from specplan.planning.plan import evaluate
from specplan.planning.views import best_chain, positions, rank_rows, rate_grid, spans
from specplan.render.figures import sheet as sheets
from specplan.render.figures.heat import draw_heat
from specplan.render.figures.measured import Compared, draw_curves, draw_ratios
from specplan.render.figures.sheet import Panel, Sheet, drawn, write_sheet
from specplan.render.figures.style import THEMES
from specplan.search.best import best_tree
from specplan.search.costs import RoundCosts
from specplan.search.space import Space
from specplan.timing.draft import timed_draft

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
refresh = importlib.util.module_from_spec(spec)
spec.loader.exec_module(refresh)

DEVICE = "--gpu a100 --model llama-2-13b --draft llama-68m"
COUNTS = "depth,rank,accepted,trials\n1,0,423,667\n1,1,60,667\n2,0,220,423\n2,1,40,423\n"
CASES = {
    "plan by batch": f"plan {DEVICE} --p 0.6 --batch 1..256",
    "plan of a chain": f"plan {DEVICE} --p 0.9 --method chain",
    "plan without acceptance": f"plan {DEVICE}",
    "plan that says no": f"plan {DEVICE} --p 0.02 --overhead 40ms",
    "plan of a uniform tree": f"plan {DEVICE} --p 0.6 --method specinfer",
    "plan over a large context": f"plan {DEVICE} --p 0.7 --context 3k --batch 4",
    "roofline": "roofline --gpu a100 --params 13e9",
    "roofline of a huge pass": "roofline --gpu h100 --model llama-3-8b --width 1,3000 --batch 4",
    "roofline with offload": "roofline --gpu rtx-4090 --model llama-3-8b --offload all --width 8",
    "tree": "tree --p 0.6 --budget 14",
    "tree of one": "tree --p 0.6 --budget 1",
    "wide tree": "tree --p 0.3 --budget 400",
    "deep chain": "tree --p 0.95 --budget 40 --max-children 1 --max-depth 40",
    "tree that gains nothing": "tree --p 0 --budget 3",
    "tree per second": f"tree {DEVICE} --p 0.6",
    "trees over p": "tree --p 0.3..0.9 --budget 14",
    "tree without acceptance": f"tree {DEVICE}",
    "compare": f"compare {DEVICE} --p 0.6 --draft llama-160m --budget 32",
    "compare without acceptance": f"compare {DEVICE} --budget 32",
    "acceptance": "acceptance COUNTS",
    "acceptance of a chain": "acceptance --survival 0.8,0.6,0.42",
    "acceptance of p": "acceptance --p 0.6",
}


@pytest.fixture
def figures(monkeypatch):
    """The figures that a command draws, laid out and not written."""
    found = []

    def keep(sheet, path, *, theme):
        with mpl.rc_context(THEMES[theme].rc()):
            figure = drawn(sheet, THEMES[theme])
            FigureCanvasAgg(figure).draw()
        found.append(figure)

    monkeypatch.setattr(sheets, "write_sheet", keep)
    return found


@pytest.fixture(scope="module")
def drawn_before():
    return {}


@pytest.fixture
def figure(specplan, figures, tmp_path, drawn_before):
    """Run a command with --plot, each once: its document and its figure."""

    def call(arguments: str):
        if arguments not in drawn_before:
            counts = tmp_path / "counts.csv"
            counts.write_text(COUNTS)
            ran = specplan([*arguments.replace("COUNTS", str(counts)).split(), "--json", "--plot", "x.svg"])
            assert ran.code == 0, ran.err
            drawn_before[arguments] = ran.json, figures[-1]
        return drawn_before[arguments]

    return call


def axes_titled(figure, start: str):
    [found] = [axes for axes in figure.findobj(mpl.axes.Axes) if axes.get_title("left").startswith(start)]
    return found


def marked(axes, start: str) -> tuple[float, float]:
    """The point whose words in the legend begin so."""
    [line] = [line for line in axes.lines if line.get_label().startswith(start)]
    return line.get_xdata()[0], line.get_ydata()[0]


# ---- what is drawn is the answer


def test_the_heat_map_marks_the_optimum_where_the_answer_has_it(figure):
    document, drawing = figure(CASES["plan by batch"])
    axes = axes_titled(drawing, "Speed-up by size")
    x, depth = marked(axes, "optimum")
    labels = {round(tick): label.get_text() for tick, label in zip(axes.get_xticks(), axes.get_xticklabels())}
    assert depth == document["optimum"]["depth"]
    assert labels.get(round(x), str(document["optimum"]["nodes"])) == str(document["optimum"]["nodes"])
    [mesh] = axes.images
    assert mesh.get_array().max() == pytest.approx(document["optimum"]["speedup"], rel=1e-12)
    assert mesh.get_array()[int(depth) - 1, int(x)] == mesh.get_array().max()


def test_the_stair_marks_the_recommended_width_at_its_time(figure):
    document, drawing = figure(CASES["plan by batch"])
    shape = document["recommended"]
    width, ms = marked(axes_titled(drawing, "Time of a verification"), "recommended")
    assert width == shape["width"]
    assert ms / 1e3 == pytest.approx(shape["verify_s"])


def test_the_roofline_marks_the_pass_of_the_document(figure):
    document, drawing = figure("roofline --gpu a100 --params 13e9 --width 8")
    axes = axes_titled(drawing, "Roofline")
    at = document["calibrated"]
    x, y = marked(axes, "width 8 calibrated")
    assert x == pytest.approx(at["intensity_flop_per_byte"])
    assert y == pytest.approx(at["flops"] / at["pass_s"])
    assert marked(axes, "ridge")[0] == pytest.approx(at["ridge_flop_per_byte"])


def test_the_curve_over_batches_has_the_speedups_of_the_schedule(figure):
    document, drawing = figure(CASES["plan by batch"])
    axes = axes_titled(drawing, "Speed-up by batch")
    shown = dict(zip(axes.lines[0].get_xdata(), axes.lines[0].get_ydata()))
    for stretch in document["schedule"]:
        assert shown[stretch["batch_first"]] == pytest.approx(stretch["speedup"])


def test_bars_of_methods_are_as_long_as_their_speedup(figure):
    document, drawing = figure(CASES["compare"])
    axes = axes_titled(drawing, "Methods")
    names = [label.get_text() for label in axes.get_yticklabels()]
    lengths = dict(zip(names, (bar.get_width() for bar in axes.patches)))
    for name, length in lengths.items():
        assert length == pytest.approx(document["methods"][name]["recommended"]["speedup"])


def test_children_lie_inside_their_parent_and_beside_each_other():
    tree = best_tree(Independent(0.5), Space(60), None).tree
    reach = Independent(0.5).reach(tree)
    left = spans(tree, reach)
    for i, parent in enumerate(tree.parents):
        start, end = (0.0, 1.0) if parent < 0 else (left[parent], left[parent] + reach[parent])
        assert start - 1e-12 <= left[i]
        assert left[i] + reach[i] <= end + 1e-12
    for i, j in itertools.combinations(range(tree.nodes), 2):
        if tree.position_offsets[i] == tree.position_offsets[j]:
            assert left[i] + reach[i] <= left[j] + 1e-12 or left[j] + reach[j] <= left[i] + 1e-12


def test_the_best_chain_takes_the_likeliest_child():
    tree = TokenTree.from_paths([(0,), (1,), (1, 0), (1, 1)])
    assert best_chain(tree, [0.2, 0.7, 0.1, 0.3]) == {1, 3}


# ---- layout


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
def test_marks_lie_inside_the_axes_and_words_do_not_overlap(figure, arguments):
    _, drawing = figure(arguments)
    renderer = drawing.canvas.get_renderer()
    page, hidden = drawing.bbox.padded(1), set()
    for axes in drawing.findobj(mpl.axes.Axes):
        box = axes.get_window_extent(renderer).padded(1.5)
        for line in axes.lines:
            if line.get_marker() not in ("None", None, "") and line.get_transform() == axes.transData:
                for at in axes.transData.transform(line.get_xydata()):
                    assert box.contains(*at), (axes.get_title("left"), line.get_label())
        for axis in (axes.xaxis, axes.yaxis):
            labels = _shown_labels(axis)
            _apart(labels, renderer)
            hidden.update(set(axis.get_ticklabels(which="both")) - set(labels))
        legend = axes.get_legend()
        if legend is not None:
            _apart(legend.get_texts(), renderer)
            assert legend.get_window_extent(renderer).y1 <= axes.get_window_extent(renderer).y0
    for text in drawing.findobj(mpl.text.Text):
        if text.get_text() and text.get_visible() and text not in hidden:
            extent = text.get_window_extent(renderer)
            assert page.contains(extent.x0, extent.y0), text.get_text()
            assert page.contains(extent.x1, extent.y1), text.get_text()


def _shown_labels(axis):
    """Labels of the ticks within the limits; matplotlib keeps others that it does not draw."""
    low, high = sorted(axis.get_view_interval())
    return [label for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels()) if low <= place <= high]


def _apart(texts, renderer):
    """No two of these words cover each other."""
    boxes = [text.get_window_extent(renderer) for text in texts if text.get_text()]
    for a, b in itertools.combinations(boxes, 2):
        assert not a.padded(-0.5).overlaps(b.padded(-0.5))


def test_colours_differ_in_lightness_and_stand_out_from_the_paper():
    for theme in THEMES.values():
        paper = _luminance(theme.paper)
        assert _contrast(_luminance(theme.ink), paper) > 10
        marks = [_luminance(color) for color in (theme.strong, theme.middle, theme.weak)]
        assert all(_contrast(mark, paper) > 1.9 for mark in marks)
        assert all(_contrast(a, b) > 1.3 for a, b in itertools.combinations(marks, 2))


def _luminance(color: str) -> float:
    parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in mpl.colors.to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _contrast(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_predicted_against_measured_shows_the_error_and_the_tolerance():
    rows = [Compared("verify", 0.010, 0.011, 0.0105, 0.0115), Compared("draft <b>", 0.002, 0.0018)]
    sheet = Sheet("x", [Panel(lambda axes, theme: draw_ratios(axes, theme, rows, tolerance=0.15))])
    [axes] = drawn(sheet, THEMES["light"]).findobj(mpl.axes.Axes)
    assert [text.get_text() for text in axes.texts] == ["-9.1%", "+11.1%"]
    low, high = axes.get_xlim()
    assert low < 0.85
    assert high > 1.15


def test_validate_draws_the_errors_that_it_prints(specplan, figures, tmp_path):
    plan, bench = tmp_path / "plan.json", tmp_path / "bench.csv"
    specplan(f"plan {DEVICE} --p 0.7 --batch 4 --method chain --out {plan}")
    bench.write_text("batch,k,tokens_per_s,tau\n4,0,200,1\n4,3,400,2.4\n")
    ran = specplan(f"validate {plan} --bench {bench} --json --plot x.svg")
    [axes] = figures[-1].findobj(mpl.axes.Axes)
    errors = [term["error"] for term in ran.json["terms"].values() if term]
    assert [text.get_text() for text in axes.texts] == [f"{error:+.1%}" for error in errors]


def test_a_measured_curve_lies_on_the_axes_of_the_predicted_one():
    curve = {"widths": [1, 4, 8], "measured_s": [0.010, 0.011, 0.014], "predicted_s": [0.010] * 8}
    sheet = Sheet("x", [Panel(lambda axes, theme: draw_curves(axes, theme, **curve))])
    [axes] = drawn(sheet, THEMES["dark"]).findobj(mpl.axes.Axes)
    assert list(axes.lines[1].get_ydata()) == pytest.approx([10, 11, 14])
    assert axes.get_ylim()[1] > 14


# ---- what stands behind the figures


@given(st.floats(0.05, 0.95), st.integers(1, 40), st.integers(1, 6))
def test_no_cell_of_the_grid_beats_the_optimum(p, nodes, depth):
    acceptance, limits = Independent(p), Space(nodes, depth)
    costs = RoundCosts(verify_s=[1 + 0.02 * n for n in range(nodes + 1)], draft=timed_draft(0.05))
    best = best_tree(acceptance, limits, costs).shape
    grid = rate_grid(acceptance, limits, costs, holding=[best])
    values = [value for row in grid.speedup for value in row if value is not None]
    assert max(values) <= best.speedup * (1 + 1e-12)
    if best.nodes:
        assert max(values) == pytest.approx(best.speedup)


def test_a_cell_of_the_grid_is_the_best_tree_of_that_size():
    costs = RoundCosts(verify_s=[1.0] * 5, draft=timed_draft(0.1))
    grid = rate_grid(Independent(0.6), Space(4, 2), costs)
    every = [t for t in (TokenTree.full(2, 1), TokenTree.chain(2)) if t.depth <= 2]
    most = max(evaluate(tree, Independent(0.6), **costs.arguments()).accepted for tree in every)
    assert grid.speedup[1][1] == pytest.approx((1 + most) / (1 + 2 * 0.1 if most == 0.96 else 1.1))


def test_intervals_by_position_are_those_of_the_counts():
    rows = (((423, 667), (60, 667)), ((220, 423), (40, 423)))
    first, second = positions(Positional([0.63, 0.09], counts=Counts(by_depth_rank=rows)))[:2]
    assert first.conditional_interval == wilson(423, 667)
    assert second.conditional_interval == wilson(220, 423)
    assert first.survival_interval is None
    alone = positions(Chain((0.8, 0.5), counts=Counts(rounds=200)))
    assert alone[1].survival_interval == wilson(80, 200)
    assert alone[1].conditional_interval == wilson(80, 160)
    assert positions(Independent(0.6))[0].conditional_interval is None


def test_ranks_are_shown_where_siblings_are_known():
    assert rank_rows(Chain((0.8, 0.5))) == []
    [row] = rank_rows(Independent(0.6))
    assert row[:2] == pytest.approx((0.6, 0.24))


# ---- files


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_picture_is_written_whole_and_the_same_every_time(specplan, tmp_path, kind, start, theme):
    written = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.{kind}"
        ran = specplan(["tree", "--p", "0.6", "--budget", "14", "--plot", str(path), "--plot-theme", theme, "-q"])
        assert ran.code == 0, ran.err
        written.append(path.read_bytes())
    assert written[0].startswith(start)
    assert written[0] == written[1]
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{kind}", f"b.{kind}"]


def test_text_stays_text_in_svg(specplan, tmp_path):
    path = tmp_path / "tree.svg"
    assert specplan(f"tree --p 0.6 --budget 14 --plot {path} -q").code == 0
    root = ElementTree.parse(path).getroot()
    words = {"".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "last emitted token" in words
    assert any(word.startswith("Best tree: 14 nodes") for word in words)
    assert "0.60" in words


def test_fonts_are_embedded_in_pdf(specplan, tmp_path):
    path = tmp_path / "tree.pdf"
    assert specplan(f"tree --p 0.6 --budget 14 --plot {path} -q").code == 0
    assert b"/FontFile2" in path.read_bytes()


def test_a_heading_with_dollar_signs_is_not_read_as_mathematics(tmp_path):
    path = tmp_path / "x.svg"
    write_sheet(Sheet("costs $1 to $2 <script>", [Panel(lambda axes, theme: None)]), str(path))
    assert "costs $1 to $2 &lt;script&gt;" in path.read_text(encoding="utf-8")


def test_drawing_does_not_change_matplotlib_for_the_caller(specplan, tmp_path):
    before = dict(mpl.rcParams)
    assert specplan(f"tree --p 0.6 --budget 3 --plot {tmp_path / 'x.svg'} --plot-theme dark -q").code == 0
    assert dict(mpl.rcParams) == before


# ---- bad input


@pytest.mark.parametrize("name", ["tree.gif", "tree", "tree.svg.txt", "."])
def test_an_unknown_kind_of_picture_is_refused(refused, name):
    assert ".svg, .png or .pdf" in refused(f"tree --p 0.6 --budget 3 --plot {name}")


def test_an_unknown_theme_is_refused(refused):
    assert "did you mean 'dark'" in refused("tree --p 0.6 --budget 3 --plot x.svg --plot-theme drak")


def test_a_folder_that_does_not_exist_is_refused_and_nothing_printed(refused, tmp_path):
    assert "cannot write" in refused(f"tree --p 0.6 --budget 3 --plot {tmp_path / 'no' / 'x.svg'}", code=4)


def test_without_matplotlib_the_extra_is_named(refused, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'specplan[plot]'" in refused("tree --p 0.6 --budget 3 --plot x.svg", code=4)


def test_questions_without_a_picture_refuse_plot(refused):
    said = refused("acceptance --target-probs 0.5,0.5 --draft-probs 0.4,0.6 --plot x.svg")
    assert "--plot draws no picture of --target-probs" in said


def test_the_heat_map_of_one_node_can_be_drawn():
    costs = RoundCosts(verify_s=[1.0, 1.0])
    best = best_tree(Independent(0.6), Space(1), costs).shape
    grid = rate_grid(Independent(0.6), Space(1), costs, holding=[best])
    panel = Panel(lambda axes, theme: draw_heat(axes, theme, grid, optimum=best, recommended=best))
    assert len(drawn(Sheet("x", [panel]), THEMES["light"]).findobj(mpl.axes.Axes)) == 2


# ---- the pictures in docs


def _words(path: Path) -> set[str]:
    texts = ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text")
    return {"".join(node.itertext()) for node in texts}


@pytest.mark.parametrize("picture", refresh.pictures())
def test_a_picture_of_the_docs_says_what_its_command_draws(specplan, tmp_path, monkeypatch, picture):
    monkeypatch.chdir(ROOT)
    command = refresh.pictures()[picture].replace(picture, str(tmp_path / "x.svg"))
    assert specplan(command.split()[1:]).code == 0
    assert _words(tmp_path / "x.svg") == _words(ROOT / picture), "run python docs/refresh.py"
    assert (ROOT / picture).stat().st_size < 200_000
