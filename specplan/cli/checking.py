"""`specplan export --check`: hand-written settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ..base.errors import InputError
from ..stacks.settings_text import SERVER
from . import values
from .finish import finish
from .options import Exported, Output, Served


def check(source: Any, what: Exported, served: Served, output: Output) -> None:
    """Judge the settings of --check; `source` is the shape that they should stand for, None where it is not given."""
    from ..render.check import check_answer
    from ..stacks.check import judge, load_adaptive, stack_of_settings
    from ..stacks.registry import stack_of
    from ..stacks.settings_text import is_text, read_settings, with_named_files

    assert what.check is not None
    if what.schedule is not None or what.sweep or what.lower or what.synthetic:
        raise InputError("--check judges settings and writes none", hint="leave --schedule, --sweep and --lower out")
    with values.naming("--check"):
        settings = read_settings(what.check)
        folder = Path() if is_text(what.check) else Path(what.check).parent
        settings = load_adaptive(with_named_files(settings, folder), folder)
        stack, capability, version = stack_of(what.to or stack_of_settings(settings).name)
        settings |= _around(served)
        meant = None if source is None else source.dynamic or source.tree
        found = judge(settings, stack, capability, version, meant=meant)
    answer = check_answer(
        stack.title,
        version,
        accepted=found.accepted,
        silent=found.silent,
        problems=[(problem.kind, problem.setting, problem.text) for problem in found.problems],
        shape=found.shape,
        inputs={"check": what.check, "to": what.to, "settings": settings},
    )
    finish(answer, output)
    if not found.accepted:
        raise typer.Exit(1)


def _around(served: Served) -> dict[str, int]:
    """What the options say of the server: heads of the checkpoint, its n_predict, the largest batch."""
    given = {"heads": served.heads, "n_predict": served.n_predict, "max_batch": served.max_batch}
    return {
        SERVER + name: values.positive("--" + name.replace("_", "-"), text)
        for name, text in given.items()
        if text is not None
    }
