"""What a serving stack reads, as part of plans and trees, and the answers of `specplan export` and `stacks`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..base.units import plural, show_share
from ..search.shape import LONGEST_PATHS, Shape
from .output import Answer, Lines, Table, answer_of


def stack_parts(keys: Mapping[str, Any] | None, *, named: bool = False) -> Iterator[Table | Lines]:
    """The settings, the command that starts the server, and the files.

    named   True where the stack is named above them already
    """
    if keys is None:
        return
    title = "" if named else f"{keys['name']} {keys['version']}"
    if keys["settings"]:
        longest = max(map(len, keys["settings"]))
        yield Lines([f"{name.ljust(longest)}  {_shown(value)}" for name, value in keys["settings"].items()], title)
    if keys["command"]:
        before = [f"{name}={value}" for name, value in keys["environment"].items()]
        yield Lines([" ".join([*before, keys["command"]])])
    for name, content in keys["files"].items():
        if name in keys["binary"]:
            yield Lines(["binary: --out writes it, the JSON document has it in base64"], title=name)
        else:
            yield Lines(content.rstrip("\n").split("\n"), title=name)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def stack_words(keys: Mapping[str, Any] | None) -> list[str]:
    """What is lost inside the stack."""
    if keys is None or keys["loss"] is None:
        return []
    if keys["loss"] < 0:
        gain = f"{-keys['loss']:.1%}"
        return [f"What {keys['name']} runs gains {gain} over the best fixed tree: it adapts to the context."]
    size = plural(keys["nodes"], "node")
    name = f"{keys['name']} {keys['version']}"
    if keys["loss"] < 5e-5:
        return [f"{name} runs a shape ({size}) as good as any."]
    return [f"The shape for {name} ({size}) loses {show_share(keys['loss'], 2)} against the best of all shapes."]


# ---- specplan export

# Masks above this many nodes are left out; the parents say the same.
DRAWN = 64


def export_answer(found: Any, inputs: Mapping[str, Any], *, at: str | None = None) -> Answer:
    """The command, the settings and the files; what another shape in its place loses.

    at   where the files are written, None where they are only shown
    """
    keys = export_keys(found)
    return answer_of(
        "export",
        verdict=_verdict(found),
        inputs=inputs,
        keys=keys,
        parts=list(stack_parts({**keys, **keys["stack"]}, named=True)),
        why=[*_instead_words(found), *([] if at is None else [f"Written to {at}."])],
        notes=found.notes,
        warnings=found.warnings,
    )


def export_keys(found: Any) -> dict[str, Any]:
    """What a stack reads, as the document of an export has it."""
    tree = found.tree
    return {
        "stack": {"name": found.stack, "version": found.version, "family": found.family},
        "settings": found.settings,
        "nodes": found.nodes,
        "width": found.width,
        "depth": found.depth,
        "loss": found.loss,
        "files": {name: as_text(content) for name, content in found.files.items()},
        "binary": binary_names(found.files),
        "adaptive_config": found.adaptive_config,
        "command": found.command,
        "environment": found.environment,
        "schedule": [{"batch_first": s.first, "batch_last": s.last, "k": s.k} for s in found.schedule] or None,
        "dynamic": found.dynamic,
        "parents": tree.parents,
        "ranks": tree.ranks,
        "paths": tree.paths if sum(tree.position_offsets) <= LONGEST_PATHS else None,
        "position_offsets": tree.position_offsets,
        "mask": tree.mask() if tree.nodes <= DRAWN else None,
        "buffers": found.buffers or None,
        "shape": _yield_keys(found.shape),
        "instead_of": _yield_keys(found.instead),
    }


def binary_names(files: Mapping[str, str | bytes]) -> list[str]:
    """The files that a document holds in base64."""
    return [name for name, content in files.items() if isinstance(content, bytes)]


def as_text(content: str | bytes) -> str:
    """A file's content as a document holds it: binary ones in base64."""
    if isinstance(content, str):
        return content
    import base64

    return base64.b64encode(content).decode("ascii")


def _yield_keys(shape: Shape | None) -> dict[str, Any] | None:
    if shape is None:
        return None
    names = ("nodes", "depth", "accepted", "tau", "round_s", "tokens_per_s", "speedup")
    return {name: getattr(shape, name) for name in names}


def _verdict(found: Any) -> str:
    name = f"{found.stack} {found.version}"
    if not found.nodes:
        return f"{name}: plain decoding, nothing to set."
    if found.schedule:
        lengths = ", ".join(f"{s.k} to batch {s.last}" for s in found.schedule)
        return f"{name}: lengths by batch size: {lengths}."
    size = f"{plural(found.nodes, 'node')} (verify width {found.width}), depth {found.depth}"
    if found.dynamic is not None and found.dynamic.topk > 1:
        return f"{name}: {size}, topk {found.dynamic.topk}, grown anew every round."
    if found.nodes == found.depth:
        return f"{name}: a chain of {found.nodes} (verify width {found.width})."
    return f"{name}: a tree of {size}."


def _instead_words(found: Any) -> list[str]:
    shape, instead = found.shape, found.instead
    if instead is None or shape is None:
        return []
    said = f"In place of {plural(instead.nodes, 'node')}, depth {instead.depth}: {shape.tau:.3f} tokens a round"
    said += f" against {instead.tau:.3f}"
    if shape.tokens_per_s is not None and instead.tokens_per_s is not None:
        said += f", {shape.tokens_per_s:.1f} tokens/s against {instead.tokens_per_s:.1f}"
    lost = found.loss or 0.0
    return [f"{said}; {show_share(lost, 2)} lost." if lost >= 0 else f"{said}; {show_share(-lost, 2)} gained."]


# ---- specplan stacks


def stacks_answer(stacks: Mapping[str, Any]) -> Answer:
    """The table of all stacks."""
    rows = [
        (
            stack.name if i == 0 else "",
            _span(record),
            record.family,
            "yes" if record.root_counted else "no",
            _limits(record),
            (record.schedule or "-").replace("_", " "),
            "yes" if record.synthetic else "-",
            ", ".join(record.methods),
        )
        for stack in stacks.values()
        for i, record in enumerate(stack.capabilities)
    ]
    columns = ("stack", "versions", "family", "root", "limits", "by batch", "simulated", "methods")
    return answer_of(
        "stacks",
        verdict=f"{len(stacks)} stacks; specplan stacks NAME prints one, specplan export PLAN --to NAME writes for it.",
        inputs={},
        keys={"stacks": [stack_record(stack) for stack in stacks.values()]},
        parts=[Lines(list(_columns([columns, *rows])))],
    )


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of words, every column aligned left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def stack_answer(stack: Any) -> Answer:
    """One stack: every record of it."""
    parts: list[Table | Lines] = []
    for record in stack.capabilities:
        facts = [(name, value) for name, value in _facts(record) if value]
        longest = max(len(name) for name, _ in facts)
        parts.append(Lines([f"{name.ljust(longest)}  {value}" for name, value in facts], title=_span(record)))
    names = f", also called {', '.join(stack.aliases)}" if stack.aliases else ""
    return answer_of(
        "stacks",
        verdict=f"{stack.title} ({stack.name}{names}); newest read: {stack.read}.",
        inputs={"name": stack.name},
        keys={"stacks": [stack_record(stack)]},
        parts=parts,
    )


def stack_record(stack: Any) -> dict[str, Any]:
    """A stack as the document has it."""
    return {
        "name": stack.name,
        "title": stack.title,
        "read": stack.read,
        "aliases": stack.aliases,
        "start": stack.start,
        "capabilities": [record_keys(record) for record in stack.capabilities],
        "reads": sorted([*stack.lines, *stack.jsons, *(["metrics page"] if stack.pages else [])]),
    }


def record_keys(record: Any) -> dict[str, Any]:
    """A capability record as the document has it."""
    return {item.name: getattr(record, item.name) for item in fields(record)}


def _span(record: Any) -> str:
    if record.since is None and record.until is None:
        return "all"
    if record.until is None:
        return f"{record.since} and later"
    return f"up to {record.until}" if record.since is None else f"{record.since} to {record.until}"


def _limits(record: Any) -> str:
    said = [f"depth from {record.min_depth}"] if record.min_depth > 1 else []
    for what, value in (("depth", record.max_depth), ("rank", record.max_rank), ("nodes", record.max_nodes)):
        if value is not None:
            said.append(f"{what} to {value}")
    if record.family == "dynamic":
        said.append("nodes to k d" if record.pool == "linear" else "nodes to k + (d-1) k^2")
    return ", ".join(said) or "-"


def _facts(record: Any) -> Iterator[tuple[str, str]]:
    yield "family", record.family + (f" (plans are made as {record.planned})" if record.planned else "")
    yield "methods", ", ".join(record.methods)
    yield "settings", ", ".join(record.settings)
    yield "root counted", "yes" if record.root_counted else "no"
    yield "limits", _limits(record)
    yield "ranks", "0, 1, 2, ... below every node" if record.contiguous else ""
    yield "order", record.order
    yield "lengths by batch size", (record.schedule or "").replace("_", " ")
    yield "simulated acceptance", "yes" if record.synthetic else ""
    yield "cost", record.cost
    yield "note", record.note
    yield "source", record.source
