"""The charts of a report as Vega-Lite. Colours are the page's own, so that they follow its theme and its print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...timing.roofline import Roofline
from .data import Survey, short

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 260
FONT = "system-ui, sans-serif"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [4, 2, 1, 2], [1, 3], [12, 3, 3, 3])

CONFIG: dict[str, Any] = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--ink)",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
    },
    "legend": {
        "labelColor": "var(--ink)",
        "titleColor": "var(--ink)",
        "orient": "bottom",
        "columns": 4,
        "labelFontSize": 11,
        "title": None,
        "symbolStrokeWidth": 2,
        "symbolSize": 70,
    },
}


def charts(survey: Survey) -> dict[str, tuple[str, dict[str, Any]]]:
    """Caption and specification by the name of the chart; the data are put in by the page."""
    names = list(survey.cells)
    batches = list(survey.batches)
    ps = [stop.p for stop in survey.stops if stop.p is not None]
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    if len(batches) > 1:
        found["batch"] = ("Speed-up by batch, at this acceptance", _by_batch(names, batches))
    if len(ps) > 1:
        found["acceptance"] = ("Speed-up by acceptance, at this batch", _by_acceptance(names, ps))
    if names:
        found["nodes"] = ("Speed-up by number of drafted tokens, here", _by_nodes(names))
    if survey.lead is not None:
        found["tree"] = (f"The tree of {survey.lead} here: area is the chance to be reached", _tree())
        unit = "plain passes" if survey.stairs[0].relative else "ms"
        found["stair"] = (f"Time of a verification pass with {survey.lead}, at this batch", _stair(unit))
    if survey.roofline:
        title = f"Roofline of the target's pass at batch {survey.batch}"
        found["roofline"] = (title, _roofline(survey.roofline["ideal"], survey.roofline["calibrated"]))
    return found


def _chart(layers: list[dict[str, Any]], *, height: int = HEIGHT, **more: Any) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        "layer": layers,
        **more,
    }


def _x(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, **more}


def _speedup(**more: Any) -> dict[str, Any]:
    return {"field": "speedup", "type": "quantitative", "title": "x plain decoding", "scale": {"zero": True}, **more}


def _of_method(names: Sequence[str]) -> dict[str, Any]:
    """Colour, shape and dash of a method: any one of them tells it apart."""
    colors = [f"var(--m{i % 8})" for i in range(len(names))]
    scale = {"domain": list(names)}
    return {
        "color": {"field": "method", "type": "nominal", "scale": {**scale, "range": colors}},
        "shape": {
            "field": "method",
            "type": "nominal",
            "scale": {**scale, "range": [SHAPES[i % 8] for i in range(len(names))]},
        },
        "dash": {
            "field": "method",
            "type": "nominal",
            "scale": {**scale, "range": [DASHES[i % 8] for i in range(len(names))]},
        },
    }


TOOLTIP = [
    {"field": "method", "type": "nominal"},
    {"field": "batch", "type": "quantitative"},
    {"field": "acceptance", "type": "nominal"},
    {"field": "speedup", "type": "quantitative", "title": "x plain", "format": ".3f"},
    {"field": "rate", "type": "quantitative", "title": "tokens/s", "format": ".4~g"},
    {"field": "shape", "type": "nominal"},
    {"field": "tau", "type": "quantitative", "title": "tokens a round", "format": ".3f"},
]


def _lines(names: Sequence[str], x: dict[str, Any]) -> list[dict[str, Any]]:
    """A line and its points a method, over the data set `points`."""
    looks = _of_method(names)
    common = {"x": x, "y": _speedup(), "color": looks["color"]}
    return [
        {"data": {"name": "points"}, "mark": {"type": "line"}, "encoding": {**common, "strokeDash": looks["dash"]}},
        {
            "data": {"name": "points"},
            "mark": {"type": "point", "filled": True, "size": 45},
            "encoding": {**common, "shape": looks["shape"], "tooltip": TOOLTIP},
        },
    ]


PLAIN: dict[str, Any] = {
    "data": {"values": [{"speedup": 1}]},
    "mark": {"type": "rule", "strokeDash": [4, 4], "color": "var(--ink)"},
    "encoding": {"y": _speedup()},
}


def _here(x: dict[str, Any]) -> dict[str, Any]:
    """Where the slider stands."""
    mark = {"type": "rule", "color": "var(--accent)", "strokeWidth": 1.5}
    return {"data": {"name": "here"}, "mark": mark, "encoding": {"x": x}}


def _by_batch(names: Sequence[str], batches: Sequence[int]) -> dict[str, Any]:
    values = [batch for i, batch in enumerate(batches) if i % (-(-len(batches) // 9)) == 0]
    scale = {"type": "log", "base": 2, "domain": [batches[0], batches[-1]], "nice": False}
    x = _x("batch", "sequences in a pass", scale=scale, axis={"values": values, "format": "d"})
    return _chart([_here(x), PLAIN, *_lines(names, x)])


def _by_acceptance(names: Sequence[str], ps: Sequence[float]) -> dict[str, Any]:
    scale = {"domain": [min(ps), max(ps)], "nice": False}
    x = _x("p", "acceptance p of a candidate", scale=scale)
    return _chart([_here(x), PLAIN, *_lines(names, x)])


def _by_nodes(names: Sequence[str]) -> dict[str, Any]:
    x = _x(
        "nodes", "drafted tokens", scale={"type": "log", "base": 2, "nice": False}, axis={"format": "d", "tickCount": 8}
    )
    looks = _of_method(names)
    best = {
        "data": {"name": "optimum"},
        "mark": {"type": "point", "filled": True, "size": 130, "stroke": "var(--ink)", "strokeWidth": 1.5},
        "encoding": {"x": x, "y": _speedup(), "color": looks["color"], "shape": looks["shape"], "tooltip": TOOLTIP},
    }
    line = {
        "data": {"name": "points"},
        "mark": {"type": "line"},
        "encoding": {
            "x": x,
            "y": _speedup(),
            "color": looks["color"],
            "strokeDash": looks["dash"],
        },
    }
    return _chart([PLAIN, line, best])


def _tree() -> dict[str, Any]:
    encoding = {
        "x": _x("left", "share of rounds", scale={"domain": [0, 1]}),
        "x2": {"field": "right"},
        "y": {"field": "level", "type": "ordinal", "title": "level", "scale": {"paddingInner": 0.08}},
        "color": {
            "field": "path",
            "type": "nominal",
            "scale": {"domain": ["likeliest path", "other nodes"], "range": ["var(--accent)", "var(--m2)"]},
        },
        "tooltip": [
            {"field": "level", "type": "ordinal"},
            {"field": "reach", "type": "quantitative", "title": "chance to be reached", "format": ".4f"},
            {"field": "path", "type": "nominal"},
        ],
    }
    mark = {"type": "rect", "stroke": "var(--paper)", "strokeWidth": 0.7}
    return _chart([{"data": {"name": "tree"}, "mark": mark, "encoding": encoding}])


def _stair(unit: str) -> dict[str, Any]:
    x = _x("width", "width: drafted tokens + 1, per sequence", scale={"nice": False})
    y = {"field": "time", "type": "quantitative", "title": f"time, {unit}", "scale": {"zero": True}}
    tooltip = [
        {"field": "width", "type": "quantitative"},
        {"field": "time", "type": "quantitative", "title": unit, "format": ".4~g"},
    ]
    line = {
        "data": {"name": "stair"},
        "mark": {"type": "line", "interpolate": "step", "color": "var(--m0)"},
        "encoding": {"x": x, "y": y},
    }
    point = {
        "data": {"name": "at"},
        "mark": {"type": "point", "filled": True, "size": 140, "shape": "diamond", "color": "var(--accent)"},
        "encoding": {"x": x, "y": y, "tooltip": tooltip},
    }
    hover = {
        "data": {"name": "stair"},
        "mark": {"type": "bar", "opacity": 0, "width": 3},
        "encoding": {"x": x, "y": y, "tooltip": tooltip},
    }
    return _chart([line, hover, point])


def _decades(low: float, high: float) -> dict[str, Any]:
    """An axis with a tick at each power of ten."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return {"values": [10.0**e for e in range(first, last + 1)], "format": "~g"}


def _roofline(ideal: Sequence[Roofline], calibrated: Sequence[Roofline]) -> dict[str, Any]:
    first = ideal[0]
    ridge, peak = first.ridge_flop_per_byte, first.flops / first.t_compute_s
    low, high = min(0.5, first.intensity_flop_per_byte / 2), max(ridge * 6, 2 * calibrated[-1].intensity_flop_per_byte)
    roof = [{"x": short(x), "y": short(min(peak, peak * x / ridge) / 1e12), "of": "roof"} for x in (low, ridge, high)]
    path = [
        {
            "x": short(r.intensity_flop_per_byte),
            "y": short(r.flops / r.pass_s / 1e12),
            "of": name,
            "width": r.width,
            "ms": short(1e3 * r.pass_s),
        }
        for name, rows in (("ideal", ideal), ("calibrated", calibrated))
        for r in rows
    ]
    x = _x("x", "intensity, FLOP per byte moved", scale={"type": "log", "nice": False}, axis=_decades(low, high))
    lowest = min(r.flops / r.pass_s for r in (ideal[0], calibrated[0])) / 1e12
    y = {
        "field": "y",
        "type": "quantitative",
        "title": "TFLOP/s",
        "scale": {"type": "log", "nice": False, "domain": [lowest / 2, 1.6 * peak / 1e12]},
        "axis": _decades(lowest / 2, 1.6 * peak / 1e12),
    }
    series = {
        "field": "of",
        "type": "nominal",
        "scale": {"domain": ["roof", "ideal", "calibrated"], "range": ["var(--ink)", "var(--m2)", "var(--m0)"]},
    }
    dash = {
        "field": "of",
        "type": "nominal",
        "scale": {"domain": ["roof", "ideal", "calibrated"], "range": [[1, 0], [5, 3], [1, 0]]},
    }
    tooltip = [
        {"field": "of", "type": "nominal", "title": "pass"},
        {"field": "width", "type": "quantitative"},
        {"field": "ms", "type": "quantitative", "format": ".4~g"},
        {"field": "y", "type": "quantitative", "title": "TFLOP/s", "format": ".4~g"},
        {"field": "x", "type": "quantitative", "title": "FLOP/byte", "format": ".4~g"},
    ]
    knee = calibrated[0].knee_10_tokens
    marks = [{"x": short(ridge), "words": f"ridge {ridge:.4g}"}]
    if knee is not None:
        per_sequence = calibrated[0].crossover_tokens / calibrated[0].crossover_width
        at = [r for r in calibrated if r.width == round(knee / per_sequence)]
        marks += [{"x": short(r.intensity_flop_per_byte), "words": f"10 % slower past {knee} tokens"} for r in at]
    rules = {
        "data": {"values": marks},
        "mark": {"type": "rule", "strokeDash": [2, 3], "color": "var(--ink)"},
        "encoding": {"x": x, "tooltip": [{"field": "words", "type": "nominal", "title": "at"}]},
    }
    words = [
        {
            "data": {"values": [mark]},
            "mark": {"type": "text", "align": "right", "dx": -4, "color": "var(--ink)"},
            "encoding": {"x": x, "y": {"value": 10 + 16 * i}, "text": {"field": "words", "type": "nominal"}},
        }
        for i, mark in enumerate(marks)
    ]
    line = {
        "data": {"values": roof + path},
        "mark": {"type": "line", "strokeWidth": 2},
        "encoding": {"x": x, "y": y, "color": series, "strokeDash": dash},
    }
    point = {
        "data": {"values": path},
        "mark": {"type": "point", "filled": True, "size": 25},
        "encoding": {"x": x, "y": y, "color": series, "tooltip": tooltip},
    }
    return _chart([rules, *words, line, point])
