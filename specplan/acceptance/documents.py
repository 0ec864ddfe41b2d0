"""The acceptance document, and tables of counts.

>>> acceptance_from_document({"kind": "positional", "child_prob": [0.63, 0.11]}).kind
'positional'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..base.errors import InputError, did_you_mean
from ..base.tree import Path, read_path
from .by_k import ByK, mixed, of_tree
from .kinds import (
    Acceptance,
    Chain,
    Counts,
    DepthTable,
    Independent,
    Mixture,
    Paths,
    Positional,
    chain_lengths,
    to_number,
    to_probabilities,
    to_values,
    to_whole,
)
from .rules import RULES

__all__ = [
    "DOCUMENT_KEYS",
    "SCHEMA",
    "acceptance_document",
    "acceptance_from_csv",
    "acceptance_from_document",
    "acceptance_from_rows",
    "is_rows",
    "parse_path",
]

SCHEMA = "specplan.acceptance/1"

_ENVELOPE = ("schema", "version", "inputs", "assumptions", "notes", "warnings", "drift")
_SHAPE = (
    "kind", "k", "p", "decay", "child_prob", "scheme", "alpha", "survival", "extends", "measured_depth", "paths",
    "accept_length_by_k", "tau", "acceptance_rate", "components", "weights", "counts", "rule", "temperature",
)  # fmt: skip
_CARRIED = (
    "accept_length_model", "histogram", "drafted_per_round", "interval", "workload", "by_context", "by_engine",
    "by_category", "series", "fit", "measured_tree", "source", "dialect", "unknown", "measured",
)  # fmt: skip
# Carried along too, beside being read.
_KEPT = ("k", "tau", "acceptance_rate", "warnings")
DOCUMENT_KEYS = _ENVELOPE + _SHAPE + _CARRIED
_COUNT_KEYS = ("rounds", "rounds_without_proposal", "drafted", "accepted", "by_depth_rank", "by_path")


def acceptance_from_document(mapping: Mapping[str, Any], *, where: str = "acceptance") -> Acceptance:
    """The acceptance that a document states (its keys are in the contract, null means unknown).

    where   file name or option, for messages
    Raises  InputError for unknown keys, a missing or contradictory shape, and values out of range.

    >>> acceptance_from_document({"kind": "positional", "child_prob": [0.63, 0.11]}).row(1, 2)
    (0.63, 0.11)
    """
    if not isinstance(mapping, Mapping):
        raise InputError(f"{where}: not a mapping", hint="an acceptance document has keys such as kind and child_prob")
    _refuse_unknown(mapping, DOCUMENT_KEYS, where)
    data = {key: value for key, value in mapping.items() if value is not None}
    schema = str(data.get("schema", SCHEMA))
    if schema != SCHEMA:
        raise InputError(f"{where}: schema is {schema[:40]!r}", hint=f"this reads {SCHEMA}")
    try:
        found = _READERS[_kind_of(data)](data, _shared(data))
        _refuse_contradictions(data, found)
        return found
    except InputError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, hint=error.hint) from None


# Means and rates are printed with two digits.
_PRINTED = 0.0051


def _refuse_contradictions(data: Mapping[str, Any], found: Acceptance) -> None:
    """A stated mean or rate that the counts or the rates by position beside it contradict."""
    counts, tau, rate = found.counts or Counts(), data.get("tau"), data.get("acceptance_rate")
    pairs: list[tuple[str, Any, float, float]] = []
    if counts.accepted is not None and counts.drafted is not None:
        if counts.accepted > counts.drafted:
            raise InputError(
                f"{counts.accepted:g} tokens accepted of {counts.drafted:g} drafted", hint="are the two swapped?"
            )
        if counts.drafted:
            pairs.append(("acceptance_rate", rate, counts.accepted / counts.drafted, _PRINTED))
    if counts.accepted is not None and counts.rounds:
        pairs.append(("tau", tau, 1.0 + counts.accepted / counts.rounds, _PRINTED))
    k = data.get("k")
    if isinstance(found, Chain) and len(found.alpha) > 1 and k == len(found.alpha):
        pairs.append(("tau", tau, 1.0 + sum(found.survival), _PRINTED + 0.0005 * len(found.alpha)))
    for name, stated, given, slack in pairs:
        if stated is not None and abs(to_number(stated, name) - given) > slack:
            raise InputError(
                f"{name} {to_number(stated, name):.6g} stated, the numbers beside it give {given:.6g}",
                hint="the document contradicts itself: are they of one run?",
            )


def _refuse_unknown(mapping: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in mapping:
        if key not in known:
            raise InputError(
                f"{where}: unknown key {str(key)[:40]!r}",
                hint=did_you_mean(str(key), known, otherwise=f"known: {', '.join(known)}"),
            )


def _kind_of(data: Mapping[str, Any]) -> str:
    """The kind stated, or the one that the keys imply."""
    kind = data.get("kind")
    if kind is None:
        implied = [name for name, keys in _IMPLIED.items() if any(key in data for key in keys)]
        if not implied:
            raise InputError("no kind", hint=f"give kind ({', '.join(_READERS)}) and its numbers")
        kind = implied[0]
    if not isinstance(kind, str) or kind not in _READERS:
        raise InputError(
            f"unknown kind {str(kind)[:40]!r}",
            hint=did_you_mean(str(kind), _READERS, otherwise=f"known: {', '.join(_READERS)}"),
        )
    return "depth_rank" if kind == "positional" and _is_table(data.get("child_prob")) else str(kind)


def _is_table(given: Any) -> bool:
    return (
        isinstance(given, Sequence) and bool(given) and isinstance(given[0], Sequence) and not isinstance(given[0], str)
    )


def _shared(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that every kind has."""
    temperature = data.get("temperature")
    notes = data.get("notes", ())
    return {
        "counts": _counts(data["counts"]) if "counts" in data else None,
        "rule": _rule(data["rule"]) if "rule" in data else None,
        "temperature": None if temperature is None else to_number(temperature, "temperature"),
        "about": {key: data[key] for key in (*_CARRIED, *_KEPT) if key in data},
        "notes": tuple(map(str, notes)) if isinstance(notes, (list, tuple)) else (str(notes),),
    }


def _rule(given: Any) -> str:
    if given not in RULES:
        known = ", ".join(RULES)
        raise InputError(
            f"unknown rule {str(given)[:40]!r}", hint=did_you_mean(str(given), RULES, otherwise=f"known: {known}")
        )
    return str(given)


def _counts(given: Any) -> Counts:
    if not isinstance(given, Mapping):
        raise InputError("counts is not a mapping", hint=f"it has the keys {', '.join(_COUNT_KEYS)}")
    _refuse_unknown(given, _COUNT_KEYS, "counts")
    data = {key: value for key, value in given.items() if value is not None}
    plain = {key: to_number(data[key], f"counts.{key}") for key in _COUNT_KEYS[:4] if key in data}
    rows = data.get("by_depth_rank")
    table = (
        () if rows is None else tuple(_counted_row(row, d) for d, row in enumerate(to_values(rows, "by_depth_rank")))
    )
    paths = tuple(_counted_path(entry) for entry in _path_entries(data.get("by_path", ())))
    return Counts(**plain, by_depth_rank=table, by_path=paths)


def _counted_row(given: Any, depth: int) -> tuple[tuple[float, float], ...]:
    what = f"counts.by_depth_rank[{depth}]"
    return tuple(_pair(pair, f"{what}[{rank}]") for rank, pair in enumerate(to_values(given, what)))


def _pair(given: Any, what: str) -> tuple[float, float]:
    """(accepted, trials)."""
    values = to_values(given, what)
    if len(values) != 2:
        raise InputError(f"{what} has {len(values)} entries", hint="give accepted and trials")
    accepted, trials = (to_number(value, what) for value in values)
    if trials <= 0 or not 0 <= accepted <= trials:
        raise InputError(
            f"{what}: {accepted:g} accepted of {trials:g}", hint="accepted lies between 0 and trials, trials above 0"
        )
    return accepted, trials


def _path_entries(given: Any) -> list[Mapping[str, Any]]:
    """Entries {path, ...}; a mapping of path text to [accepted, trials] or a probability is read too."""
    if isinstance(given, Mapping):
        entries: list[Mapping[str, Any]] = []
        for text, value in given.items():
            many = isinstance(value, (list, tuple)) and len(value) == 2
            entries.append(
                {"path": text, "accepted": value[0], "trials": value[1]} if many else {"path": text, "prob": value}
            )
        return entries
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(entry, Mapping) and "path" in entry for entry in found):
        raise InputError("an entry of the path table has no path", hint='write {"path": [0, 1], ...}')
    return found


def _counted_path(entry: Mapping[str, Any]) -> tuple[Path, float, float]:
    path = parse_path(entry["path"])
    return (path, *_pair([entry.get("accepted"), entry.get("trials")], f"path {list(path)}"))


def parse_path(given: Any) -> Path:
    """A path from a list of ranks or from text such as `0 1`, `0-1`, `0,1`, `[0, 1]`.

    >>> parse_path("0-1")
    (0, 1)
    """
    if not isinstance(given, str):
        return read_path(given, "path")
    text = given.strip().strip("[]()")
    for mark in ",;/->.":
        text = text.replace(mark, " ")
    if not text.split() or not all(part.isdigit() for part in text.split()):
        raise InputError(f"path {given[:40]!r} is not a list of ranks", hint="write ranks such as 0-1")
    return tuple(int(part) for part in text.split())


def _need(data: Mapping[str, Any], key: str, kind: str) -> Any:
    if key not in data:
        raise InputError(f"kind {kind} without {key}", hint=f"add {key}")
    return data[key]


def _read_independent(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    fit = data.get("fit")
    given = {**(fit if isinstance(fit, Mapping) else {}), **data}
    p = _need(given, "p", "independent")
    return Independent(tuple(p) if isinstance(p, list) else p, data.get("decay", 1.0), **shared)


def _read_positional(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    rows = _rates(shared["counts"])
    row = data["child_prob"] if "child_prob" in data or not rows else rows[0]
    return Positional(row, data.get("scheme", "ordered"), **shared)


def _read_depth_rank(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    rows = _rates(shared["counts"])
    table = rows if rows and "child_prob" not in data else _need(data, "child_prob", "depth_rank")
    return DepthTable(tuple(table), data.get("scheme", "ordered"), **shared)


def _rates(counts: Counts | None) -> list[tuple[float, ...]]:
    return [_rate_row(row) for row in (counts.by_depth_rank if counts else ())]


def _rate_row(row: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Child probabilities of one depth. A child whose trials are what its elder sibling left (trials less accepted) was
    tested only after that one's rejection: its share is of the first child's trials."""
    rates: list[float] = []
    for rank, (accepted, trials) in enumerate(row):
        left = row[rank - 1][1] - row[rank - 1][0] if rank else None
        rates.append(accepted / (row[0][1] if trials == left != row[0][1] else trials))
    return tuple(rates)


def _read_chain(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    if "alpha" in data:
        alpha = data["alpha"]
        extends = bool(data.get("extends", not isinstance(alpha, (list, tuple))))
        depth = data.get("measured_depth")
        measured = None if depth is None else to_whole(depth, "measured_depth")
        chain = Chain(tuple(alpha) if isinstance(alpha, (list, tuple)) else (alpha,), extends, measured, **shared)
        return _agree(chain, data.get("survival"))
    if "survival" in data:
        return Chain.from_survival(data["survival"], **shared)
    if "accept_length_by_k" in data:
        shared["about"]["accept_length_by_k"] = data["accept_length_by_k"]
        return Chain.from_accept_lengths(data["accept_length_by_k"], **shared)
    k = _need(data, "k", "chain (with neither alpha nor survival)")
    if "tau" in data:
        return Chain.from_accept_length(data["tau"], k, **shared)
    return Chain.from_accept_rate(_need(data, "acceptance_rate", "chain"), k, **shared)


def _agree(chain: Chain, survival: Any) -> Chain:
    """Refuses a survival that contradicts alpha."""
    if survival is not None:
        stated = to_probabilities(survival, "survival")
        if any(abs(a - b) > 1e-3 for a, b in zip(stated, chain.survival)):
            raise InputError(
                "alpha and survival contradict each other", hint="survival is the running product of alpha; give one"
            )
    return chain


def _read_by_k(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    if isinstance(data.get("measured_tree"), Mapping) and "tau" in data:
        sizes = {key: to_whole(value, f"measured_tree.{key}") for key, value in data["measured_tree"].items()}
        return of_tree(sizes, to_number(data["tau"], "tau"), **shared)
    lengths = _need(data, "accept_length_by_k", "by_k")
    if not isinstance(lengths, Mapping):
        raise InputError("accept_length_by_k is not a mapping", hint='write {"1": 1.8, "3": 2.6}')
    shared["about"]["accept_length_by_k"] = lengths
    if data.get("accept_length_model") == "chain_analytic":
        return replace(Chain.from_accept_lengths(lengths, **shared), extends=True)
    survival, k = data.get("survival"), data.get("k")
    rates = ((to_whole(k, "k"), to_probabilities(survival, "survival")),) if survival and k is not None else ()
    return ByK(tuple(chain_lengths(lengths)) if lengths else (), rates, **shared)


def _read_paths(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    scheme = data.get("scheme", "ordered")
    if "paths" in data:
        entries = [(parse_path(entry["path"]), _need(entry, "prob", "paths")) for entry in _path_entries(data["paths"])]
        return Paths(tuple(entries), scheme, **shared)
    counts = shared["counts"]
    if not counts or not counts.by_path:
        raise InputError("kind paths without paths", hint="add paths or counts.by_path")
    return Paths(_joint(counts.by_path), scheme, **shared)


def _joint(counted: Sequence[tuple[Path, float, float]]) -> tuple[tuple[Path, float], ...]:
    """Frequencies of whole paths. Trials that equal the parent's accepted count are of rounds in which it was accepted;
    all others are rounds. With unequal trials a child may come out above its parent: it is cut."""
    found: dict[Path, float] = {}
    times = {path: (accepted, trials) for path, accepted, trials in counted}
    most = max(trials for _, _, trials in counted)
    equal = len({trials for _, _, trials in counted}) == 1
    for path, accepted, trials in sorted(counted, key=lambda entry: (len(entry[0]), entry[0])):
        above = 1.0 if equal else found.get(path[:-1], 1.0)
        given = trials != most and trials == times.get(path[:-1], (None, None))[0]
        found[path] = above * accepted / trials if given else min(accepted / trials, above)
    return tuple(found.items())


MOST_NESTED = 8


def _nesting(acceptance: Acceptance) -> int:
    """Levels of mixtures inside mixtures."""
    return 1 + max(map(_nesting, acceptance.components)) if isinstance(acceptance, Mixture) else 0


def _read_mixture(data: Mapping[str, Any], shared: dict[str, Any]) -> Acceptance:
    parts = to_values(_need(data, "components", "mixture"), "components")
    read = [acceptance_from_document(part, where=f"components[{i}]") for i, part in enumerate(parts)]
    if any(_nesting(part) >= MOST_NESTED for part in read):
        raise InputError(f"mixtures nested deeper than {MOST_NESTED}", hint="multiply the weights out")
    weights = to_values(data.get("weights", [1.0] * len(read)), "weights")
    return mixed(tuple(read), tuple(weights), **shared)


_READERS: dict[str, Callable[[Mapping[str, Any], dict[str, Any]], Acceptance]] = {
    "independent": _read_independent,
    "positional": _read_positional,
    "depth_rank": _read_depth_rank,
    "chain": _read_chain,
    "paths": _read_paths,
    "by_k": _read_by_k,
    "mixture": _read_mixture,
}

_IMPLIED = {
    "mixture": ("components",),
    "paths": ("paths",),
    "positional": ("child_prob",),
    "chain": ("alpha", "survival"),
    "independent": ("p",),
    "by_k": ("accept_length_by_k",),
}


def acceptance_document(acceptance: Acceptance) -> dict[str, Any]:
    """The document of an acceptance: every listed key is there, null when unknown.

    >>> acceptance_document(Positional([0.6, 0.2]))["child_prob"]
    [0.6, 0.2]
    """
    document: dict[str, Any] = {"schema": SCHEMA, **dict.fromkeys(_SHAPE), **dict.fromkeys(_CARRIED)}
    document |= {"kind": acceptance.kind, "rule": acceptance.rule, "temperature": acceptance.temperature}
    document |= acceptance.about
    document |= _WRITERS[acceptance.kind](acceptance)
    document["notes"] = list(acceptance.notes)
    document["counts"] = None if acceptance.counts is None else _counts_document(acceptance.counts)
    return document


def _counts_document(counts: Counts) -> dict[str, Any]:
    return {
        **{key: getattr(counts, key) for key in _COUNT_KEYS[:4]},
        "by_depth_rank": [[list(pair) for pair in row] for row in counts.by_depth_rank] or None,
        "by_path": [{"path": list(p), "accepted": a, "trials": t} for p, a, t in counts.by_path] or None,
    }


def _chain_keys(chain: Any) -> dict[str, Any]:
    keys = {"alpha": list(chain.alpha), "survival": list(chain.survival)}
    return {**keys, "extends": chain.extends, "measured_depth": chain.measured_depth}


_WRITERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "independent": lambda a: {"p": list(a.p) if isinstance(a.p, tuple) else a.p, "decay": a.decay},
    "positional": lambda a: {"child_prob": list(a.child_prob), "scheme": a.scheme},
    "depth_rank": lambda a: {"child_prob": [list(row) for row in a.rows], "scheme": a.scheme},
    "chain": _chain_keys,
    "by_k": lambda a: {"accept_length_by_k": {str(k): v for k, v in a.lengths}, "survival": list(a.survival) or None},
    "paths": lambda a: {"paths": [{"path": list(p), "prob": v} for p, v in a.probs], "scheme": a.scheme},
    "mixture": lambda a: {
        "components": [acceptance_document(part) for part in a.components],
        "weights": list(a.weights),
    },
}


# ---- tables of counts

_TABLES = (("depth", "rank", "accepted", "trials"), ("path", "accepted", "trials"))


def acceptance_from_csv(text: str, *, where: str = "acceptance", scheme: str = "ordered") -> Acceptance:
    """The acceptance in a table `depth,rank,accepted,trials` or `path,accepted,trials`.

    Depth starts at 1, rank at 0. `accepted` counts the rounds in which that child was the accepted one, `trials`
    those in which its parent was accepted (in a path table: all rounds). Lines that start with # are skipped.
    A table with depth 1 only is used at every depth.
    Raises  InputError that names the line.

    >>> acceptance_from_csv("depth,rank,accepted,trials\\n1,0,60,100\\n1,1,20,100").row(1, 2)
    (0.6, 0.2)
    """
    lines = _csv_lines(text)
    if not lines:
        raise InputError(
            f"{where}: no header", hint="the first line is depth,rank,accepted,trials or path,accepted,trials"
        )
    number, header = lines[0]
    columns = tuple(name.strip().casefold() for name in header)
    table = next((names for names in _TABLES if set(names) == set(columns)), None)
    if table is None or len(set(columns)) < len(columns):
        raise InputError(
            f"{where}:{number}: columns are {','.join(columns)[:60]!r}",
            hint="use depth,rank,accepted,trials or path,accepted,trials",
        )
    rows = [(n, _csv_row(cells, columns, f"{where}:{n}")) for n, cells in lines[1:]]
    if not rows:
        raise InputError(
            f"{where}: a header and no rows", hint="add one line for each depth and rank, or for each path"
        )
    try:
        return _from_paths_table(rows, where, scheme) if table[0] == "path" else _from_depth_table(rows, where, scheme)
    except InputError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, hint=error.hint) from None


def is_rows(data: Any) -> bool:
    """Whether it is a list of counts by depth and rank or by path: objects, or [accepted, trials] pairs by depth."""
    if not isinstance(data, list) or not data:
        return False
    if all(isinstance(row, Mapping) for row in data):
        return any(set(columns) <= set(row) for row in data[:1] for columns in _TABLES)
    pairs = [pair for row in data for pair in (row if isinstance(row, list) and row else [None])]
    return all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)


def acceptance_from_rows(data: Sequence[Any], *, where: str = "acceptance", scheme: str = "ordered") -> Acceptance:
    """The acceptance in a list of {depth, rank, accepted, trials} or {path, accepted, trials}, or of rows by depth of
    [accepted, trials] by rank.

    Raises  InputError that names the entry.

    >>> acceptance_from_rows([{"depth": 1, "rank": 0, "accepted": 60, "trials": 100}]).row(1, 1)
    (0.6,)
    """
    if not isinstance(data[0], Mapping):
        return acceptance_from_document({"kind": "depth_rank", "scheme": scheme, "counts": {"by_depth_rank": data}})
    table = next(names for names in _TABLES if set(names) <= set(data[0]))
    rows: list[tuple[int, dict[str, str]]] = []
    for at, entry in enumerate(data, 1):
        if not isinstance(entry, Mapping) or not set(table) <= set(entry):
            raise InputError(f"{where}: entry {at} lacks one of {', '.join(table)}", hint="give all of them everywhere")
        path = entry.get("path")
        text = "-".join(map(str, path)) if isinstance(path, (list, tuple)) else str(path)
        rows.append((at, {name: text if name == "path" else str(entry[name]) for name in table}))
    return _from_paths_table(rows, where, scheme) if table[0] == "path" else _from_depth_table(rows, where, scheme)


def _csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """(line number, cells) of the lines that say something."""
    import csv

    reader = csv.reader(text.lstrip("\ufeff").splitlines())
    try:
        return [
            (reader.line_num, cells) for cells in reader if any(map(str.strip, cells)) and not cells[0].startswith("#")
        ]
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: {error}", hint="the table must be plain CSV") from None


def _csv_row(cells: Sequence[str], columns: Sequence[str], where: str) -> dict[str, str]:
    if len(cells) != len(columns):
        raise InputError(
            f"{where}: {len(cells)} cells for {len(columns)} columns", hint='quote a path with commas: "0,1"'
        )
    return {name: cell.strip() for name, cell in zip(columns, cells)}


def _cell_count(row: Mapping[str, str], where: str) -> tuple[float, float]:
    try:
        return _pair([_text_number(row["accepted"]), _text_number(row["trials"])], where)
    except InputError as error:
        raise InputError(error.message, hint=error.hint) from None


def _text_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _cell_whole(text: str, name: str, least: int, where: str) -> int:
    if not text.isdigit() or int(text) < least:
        raise InputError(f"{where}: {name} is {text[:20]!r}", hint=f"{name} is a whole number from {least} up")
    return int(text)


def _from_depth_table(rows: Sequence[tuple[int, dict[str, str]]], where: str, scheme: str) -> Acceptance:
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for number, row in rows:
        at = f"{where}:{number}"
        key = (_cell_whole(row["depth"], "depth", 1, at), _cell_whole(row["rank"], "rank", 0, at))
        if key in found:
            raise InputError(f"{at}: depth {key[0]}, rank {key[1]} is there twice", hint="add the counts up")
        found[key] = _cell_count(row, at)
    table = _filled(found, where)
    counts = Counts(by_depth_rank=table)
    rates = _rates(counts)
    if len(rates) == 1:
        note = "measured at depth 1 only, used at every depth"
        return Positional(rates[0], scheme, counts=counts, notes=(note,))
    return DepthTable(tuple(rates), scheme, counts=counts)


def _filled(
    found: Mapping[tuple[int, int], tuple[float, float]], where: str
) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Rows without gaps."""
    table = []
    for depth in range(1, max(d for d, _ in found) + 1):
        ranks = sorted(k for d, k in found if d == depth)
        if ranks != list(range(len(ranks))) or not ranks:
            missing = next(k for k in range(len(ranks) + 1) if k not in ranks)
            raise InputError(
                f"{where}: depth {depth}, rank {missing} is missing", hint="a rank never accepted has accepted 0"
            )
        table.append(tuple(found[depth, k] for k in ranks))
    return tuple(table)


def _from_paths_table(rows: Sequence[tuple[int, dict[str, str]]], where: str, scheme: str) -> Acceptance:
    counted: dict[Path, tuple[float, float]] = {}
    for number, row in rows:
        at = f"{where}:{number}"
        try:
            path = parse_path(row["path"])
        except InputError as error:
            raise InputError(f"{at}: {error.message}", hint=error.hint) from None
        if path in counted:
            raise InputError(f"{at}: path {list(path)} is there twice", hint="add the counts up")
        counted[path] = _cell_count(row, at)
    entries = tuple((path, *pair) for path, pair in counted.items())
    rounds = max(trials for _, _, trials in entries)
    return Paths(_joint(entries), scheme, counts=Counts(rounds=rounds, by_path=entries))
