"""The words and the answer of two snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..acceptance.drift import Drift
from ..acceptance.kinds import Acceptance
from .acceptance import document_of, warnings_of
from .output import Answer, Table
from .tree import acceptance_assumptions


def drift_words(moved: Drift | None) -> Iterator[str]:
    """One sentence on the change and how sure it is."""
    if moved is None:
        return
    later = "between the two snapshots" if moved.window else "in the second"
    yield (
        f"A chain of {moved.k} yields {moved.before:.3f} tokens a round in the first and {moved.after:.3f} {later}: "
        f"{moved.change:+.1%}, {_sure(moved)}{_of_engines(moved)}."
    )


def _of_engines(moved: Drift) -> str:
    """Engines that changed by themselves: a sum hides what goes up here and down there."""
    changed = [one for one in moved.engines if one.significant]
    return f"; {len(changed)} of {len(moved.engines)} engines changed by more than noise" if changed else ""


def _sure(moved: Drift) -> str:
    if moved.p_value is None:
        return "and without counts nothing says whether that is noise"
    chance = f"p = {moved.p_value:.2g}, rounds taken as independent"
    return f"more than noise ({chance})" if moved.significant else f"within the noise ({chance})"


def _engines(moved: Drift) -> Iterator[Table]:
    """Each engine against itself."""
    if not moved.engines:
        return
    rows = [
        (
            " ".join(filter(None, (one.model, one.engine))) or "-",
            f"{one.before:.4f}",
            f"{one.after:.4f}",
            f"{one.change:+.1%}",
            "-" if one.p_value is None else f"{one.p_value:.2g}",
            "-" if one.significant is None else "changed" if one.significant else "noise",
        )
        for one in moved.engines
    ]
    yield Table(("engine", "first", "between", "change", "p", f"at {moved.level:.0%} over all"), rows)


def drift_answer(moved: Drift, second: Acceptance, given: Mapping[str, Any]) -> Answer:
    """What `specplan acceptance A B --drift` says; the document is the second file's, with `drift` beside it."""
    sentence = next(iter(drift_words(moved)))
    assumptions = [
        *(entry for entry in acceptance_assumptions(second) if entry[0] not in warnings_of(second)),
        ("rounds are independent of each other; in one text they are not, so noise is larger", "drift.py"),
    ]
    return Answer(
        verdict=sentence,
        document=document_of(second, given, assumptions) | {"drift": moved},
        parts=[
            Table(
                ("", "tokens/round"),
                [("first", f"{moved.before:.4f}"), ("later", f"{moved.after:.4f}")],
            ),
            *_engines(moved),
        ],
        why=["Whether the shape in use is still the best: specplan advise --before FIRST --acceptance SECOND ..."],
        assumptions=assumptions,
        warnings=warnings_of(second),
    )
