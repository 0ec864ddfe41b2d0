"""The answers of `specplan acceptance`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..acceptance.by_k import ByK
from ..acceptance.documents import acceptance_document
from ..acceptance.fit import MODELS, Fit, fit
from ..acceptance.kinds import Acceptance, Positional, tau_interval
from ..acceptance.rules import RULES, child_prob_for
from ..base.errors import InputError
from ..base.tree import TokenTree
from .output import Answer, Table, document
from .tree import acceptance_assumptions

LOSSLESS = {rule: rule != "typical" for rule in RULES}


def acceptance_answer(acceptance: Acceptance, given: Mapping[str, Any]) -> Answer:
    """What the numbers mean, by chain position and by child."""
    warnings = warnings_of(acceptance)
    assumptions = [entry for entry in acceptance_assumptions(acceptance) if entry[0] not in warnings]
    return Answer(
        verdict=_verdict(acceptance),
        document=document_of(acceptance, given, assumptions),
        parts=list(_tables(acceptance)),
        why=[*_source_words(acceptance), *_fit_words(acceptance)],
        assumptions=assumptions,
        warnings=warnings,
    )


def warnings_of(acceptance: Acceptance) -> list[str]:
    """What makes the numbers less than they look."""
    return [str(text) for text in acceptance.about.get("warnings") or ()]


def document_of(
    acceptance: Acceptance, given: Mapping[str, Any], assumptions: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The JSON document of `specplan acceptance`; what was assumed in reading stands in its notes."""
    keys = acceptance_document(acceptance)
    notes = keys.pop("notes")
    keys.pop("schema")
    keys.pop("warnings", None)
    found = _fit(acceptance)
    keys["fit"] = keys["fit"] or (None if found is None else _fit_keys(found))
    keys["interval"] = keys["interval"] or _interval(acceptance)
    keys["drift"] = None
    return document("acceptance", inputs=given, assumptions=assumptions, notes=notes, warnings=warnings_of(acceptance),
                    keys=keys)  # fmt: skip


def _fit(acceptance: Acceptance) -> Fit | None:
    """None where no chain was measured."""
    return None if isinstance(acceptance, ByK) and not acceptance.lengths else fit(acceptance)


def _fit_keys(found: Fit) -> dict[str, Any]:
    names = ("kind", "p", "error", "parameters", "single_p_error", "flagged")
    return {name: getattr(found, name) for name in names}


def _interval(acceptance: Acceptance) -> Any:
    depths = _depths(acceptance)
    return tau_interval(acceptance, TokenTree.chain(depths[-1])) if depths else None


def _fit_words(acceptance: Acceptance) -> list[str]:
    """The simplest model that reproduces the numbers, and whether one p would do."""
    found = _fit(acceptance)
    if found is None:
        return []
    if found.error is None or found.single_p_error is None:
        return [f"Fit: one p of {found.p:.3f}; from a mean alone its error cannot be told."]
    if found.kind == "independent":
        return [f"Fit: one p of {found.p:.3f} reproduces the accepted tokens within {found.error:.1%}."]
    return [f"Fit: a single p is off by {found.single_p_error:.1%}; {MODELS[found.kind]} is off by {found.error:.1%}."]


def _source_words(acceptance: Acceptance) -> list[str]:
    """Where the numbers come from and what they do not say."""
    about = acceptance.about
    if not about.get("dialect"):
        return []
    lacking = ", ".join(map(str, about.get("unknown") or ()))
    said = [f"Read as {about['dialect']}: {acceptance.notes[0]}."]
    return said + ([f"Not in the source: {lacking}."] if lacking else [])


def _depths(acceptance: Acceptance) -> Sequence[int]:
    """Chain lengths to show."""
    if isinstance(acceptance, ByK):
        return acceptance.ks
    return range(1, min(acceptance.max_depth or 8, 16) + 1)


def _verdict(acceptance: Acceptance) -> str:
    tau = acceptance.about.get("tau")
    if tau is not None and acceptance.about.get("dialect"):
        k = acceptance.about.get("k")
        return _measured_verdict(acceptance, float(tau), None if k is None else int(k))
    if not _depths(acceptance):
        return "No chain of any length was measured."
    length = _depths(acceptance)[-1]
    chain = TokenTree.chain(length)
    interval = tau_interval(acceptance, chain)
    between = "" if interval is None else f" ({interval.low:.3f} to {interval.high:.3f})"
    siblings = "" if acceptance.siblings_known else "; nothing is known of second-best children"
    return f"A chain of {length} yields {acceptance.tau(chain):.3f} tokens a round{between}{siblings}."


def _measured_verdict(acceptance: Acceptance, tau: float, k: int | None) -> str:
    """What was measured, with its K."""
    interval = acceptance.about.get("interval")
    between = f" ({interval['low']:.3f} to {interval['high']:.3f})" if interval else ""
    drafted = f" with {k} drafted" if k else ""
    tree = acceptance.about.get("measured_tree")
    drafted = f" of a tree ({', '.join(f'{name} {value}' for name, value in tree.items())})" if tree else drafted
    return f"{tau:.3f} tokens a round{drafted}, the bonus token included{between}; nothing is known of siblings."


def _tables(acceptance: Acceptance) -> Iterator[Table]:
    yield from _by_category(acceptance.about.get("by_category"))
    if isinstance(acceptance, ByK):
        measured = [(str(k), f"{tau:.4f}") for k, tau in acceptance.lengths]
        if measured:
            yield Table(("drafted tokens", "tokens/round, measured"), measured)
        return
    rows = []
    before = 1.0
    for depth in _depths(acceptance):
        chain = TokenTree.chain(depth)
        survival = acceptance.level_survival(chain)[-1]
        conditional = survival / before if before else 0.0
        rows.append((str(depth), f"{conditional:.4f}", f"{survival:.4f}", f"{acceptance.tau(chain):.4f}"))
        before = survival
    yield from _by_context(acceptance.about.get("by_context"))
    yield Table(
        ("chain position", "given the ones before", "at least this many", "tokens/round of a chain this long"), rows
    )
    if acceptance.siblings_known:
        fans = [TokenTree.full(count, 1) for count in (1, 2, 3, 4, 8)]
        yield Table(
            ("children of the root", "one of them is accepted"),
            [(str(fan.nodes), f"{acceptance.accepted(fan):.4f}") for fan in fans],
        )


def _by_category(lengths: Any) -> Iterator[Table]:
    """Tokens per round of the categories of a profile."""
    if isinstance(lengths, Mapping) and lengths:
        cells = [(str(name), "-" if tau is None else f"{tau:.4f}") for name, tau in lengths.items()]
        yield Table(("category: FILE#NAME takes it alone", "tokens/round"), cells)


def _by_context(rows: Any) -> Iterator[Table]:
    """Tokens per round by prompt length, as the readers make it."""
    known = (
        [row for row in rows if {"prompt_tokens_to", "rounds", "tau"} <= row.keys()] if isinstance(rows, list) else []
    )
    if known:
        cells = [(f"{row['prompt_tokens_to']:g}", f"{row['rounds']:g}", f"{row['tau']:.4f}") for row in known]
        yield Table(("prompt tokens up to", "rounds", "tokens/round"), cells)


def rule_answer(
    target: Sequence[float], draft: Sequence[float], *, rule: str, count: int, epsilon: float, delta: float
) -> Answer:
    """Child probabilities under a rule for given distributions, and under all rules beside it."""
    inputs = {
        "target_probs": target,
        "draft_probs": draft,
        "rule": rule,
        "children": count,
        "epsilon": epsilon,
        "delta": delta,
    }
    row = child_prob_for(target, draft, rule=rule, count=count, epsilon=epsilon, delta=delta)
    found = Positional(row, rule=rule, scheme="ordered")
    every = {name: _row(target, draft, name, count, epsilon, delta) for name in RULES}
    columns = ["rule", *(f"child {i}" for i in range(1, count + 1)), "any", "lossless"]
    rows = [
        [name, *(f"{p:.4f}" for p in values), f"{sum(values):.4f}", "yes" if LOSSLESS[name] else "no"]
        for name, values in every.items()
        if values is not None
    ]
    assumptions = [
        ("exact for these distributions; real ones change from token to token", "acceptance.py, child_prob_for")
    ]
    keys = document_of(found, inputs, assumptions) | {"child_prob_by_rule": every}
    why = ["Greedy is lossless for greedy decoding only. Typical acceptance does not keep the target's distribution."]
    return Answer(
        verdict=f"Under {rule} one of {count} children is accepted with probability {sum(row):.4f}.",
        document=keys,
        parts=[Table(columns, rows)],
        why=why,
        assumptions=assumptions,
    )


def _row(
    target: Sequence[float], draft: Sequence[float], rule: str, count: int, epsilon: float, delta: float
) -> tuple[float, ...] | None:
    """The row of one rule, None where it cannot have that many children."""
    try:
        row = child_prob_for(target, draft, rule=rule, count=count, epsilon=epsilon, delta=delta)
    except InputError:
        return None
    return (*row, *(0.0 for _ in range(count - len(row))))
