"""The rooms of the package: a module imports from its own room and from earlier ones, never from later ones.

Lazy imports inside functions count too, since they are dependencies all the same.
"""

from __future__ import annotations

import ast
from pathlib import Path

import specplan

PACKAGE = Path(specplan.__file__).parent
ROOMS = (
    "base",
    "acceptance",
    "hardware",
    "models",
    "timing",
    "search",
    "methods",
    "stacks",
    "planning",
    "measure",
    "render",
    "cli",
)
RANK = {room: rank for rank, room in enumerate(ROOMS)}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Rooms that this file imports from, under TYPE_CHECKING left out."""
    depth = len(path.relative_to(PACKAGE).parts)
    found: set[str] = set()
    stack: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        stack.extend(ast.iter_child_nodes(node))
    return found & set(RANK)


def test_every_module_has_a_room():
    assert {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "__main__"} == set(ROOMS)


def test_every_room_says_in_a_sentence_what_it_is():
    for room in ROOMS:
        said = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")))
        assert said, room


def test_imports_run_downwards_only():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in PACKAGE.rglob("*.py")
        if room_of(path) in RANK
        for name in imported(path)
        if RANK[name] > RANK[room_of(path)]
    ]
    assert wrong == []


def test_stacks_measure_and_render_never_import_each_other():
    apart = {"stacks", "measure", "render"}
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in PACKAGE.rglob("*.py")
        if room_of(path) in apart
        for name in imported(path) & apart - {room_of(path)}
    ]
    assert wrong == []


def test_only_the_command_line_and_the_output_print_or_read_the_environment():
    for path in PACKAGE.rglob("*.py"):
        if room_of(path) not in ("cli", "render"):
            names = [
                node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.expr)
            ]
            assert not any(isinstance(node, ast.Name) and node.id == "print" for node in names), path
            assert not any(isinstance(node, ast.Attribute) and node.attr == "environ" for node in names), path
