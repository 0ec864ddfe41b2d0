"""Acceptance and given trees from the options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base import units
from ..base.errors import InputError
from . import options, scenes, values
from .progress import METER

# How notes begin that tell of numbers used under other conditions than they were measured under.
MISMATCH = ("MEASURED AT", "MEASURED APART")


def acceptance(
    given: options.Acceptance, shape: options.Shape | options.Length, target: options.Target | None = None
) -> Any:
    """The acceptance that the options describe, None when none was given.

    target   its --context takes the numbers of prompts of that length, where a file has them
    Raises  InputError when two ways are mixed.
    """
    ways = {
        "--p": given.p,
        "--child-prob": given.child_prob,
        "--alpha": given.alpha,
        "--survival": given.survival,
        "--accept-length": given.accept_length,
        "--accept-rate": given.accept_rate,
        "--acceptance": given.acceptance or None,
    }
    named = [option for option, value in ways.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"{' and '.join(named[:2])} both give the acceptance", hint="leave one of them out")
    if given.decay is not None and named != ["--p"]:
        raise InputError("--decay goes with --p", hint="--p 0.6 --decay 0.95")
    if given.ranked and named != ["--child-prob"]:
        raise InputError("--ranked goes with --child-prob", hint="--child-prob 0.63,0.11 --ranked")
    if not named:
        return None
    _refuse_lone_hints(given)
    with values.naming(named[0]):
        found = _acceptance(named[0], given, shape)
    if target is not None:
        found = at_context(found, target)
    with values.naming(named[0]):
        found = _measured_under(found, given)
    if given.smooth:
        from ..acceptance.smooth import smoothed

        found = smoothed(found)
    return _with_ranks(found) if given.assume_ranks and not found.siblings_known else found


def at_context(found: Any, target: options.Target) -> Any:
    """The acceptance of prompts as long as --context, where a file tells them apart."""
    from ..acceptance import by_context

    context = values.read("--context", target.context, units.parse_tokens)
    return by_context.at_context(found, None if context is None else int(context))


def _with_ranks(found: Any) -> Any:
    """Chain data with siblings taken as independent, in every part of a mixture."""
    from ..acceptance.kinds import Chain, Mixture

    if isinstance(found, Mixture):
        return replace(found, components=tuple(_with_ranks(part) for part in found.components))
    if isinstance(found, Chain):
        return found.assume_ranks()
    if found.siblings_known:
        return found
    raise InputError(
        "lengths of whole runs say nothing of siblings, nor of a node's own rate",
        hint="--assume-ranks needs rates by position, or one mean length",
    )


def _measured_under(found: Any, given: options.Acceptance) -> Any:
    """The acceptance with the rule and the temperature that the options state."""
    if given.rule is not None:
        from ..acceptance.rules import RULES

        if given.rule not in RULES:
            raise InputError(f"--rule {given.rule[:40]!r} is not known", hint="one of " + ", ".join(RULES))
        found = replace(found, rule=given.rule, notes=(*found.notes, *_mismatch("rule", found.rule, given.rule)))
    if given.temperature is not None:
        temperature = values.read("--temperature", given.temperature, units.parse_count)
        if temperature is None or temperature < 0:
            raise InputError(f"--temperature {given.temperature} is below 0", hint="0 is greedy decoding")
        notes = _mismatch("temperature", found.temperature, temperature)
        found = replace(found, temperature=temperature, notes=(*found.notes, *notes))
    return _labelled(found, given)


def _labelled(found: Any, given: options.Acceptance) -> Any:
    """With the workload that is stated, and without what the options state among what is unknown."""
    stated = {"rule": given.rule, "temperature": given.temperature, "workload": given.workload}
    about = dict(found.about)
    if given.workload is not None:
        about["workload"] = given.workload
    if about.get("unknown"):
        about["unknown"] = [name for name in about["unknown"] if stated.get(name) is None]
    return replace(found, about=about)


def _mismatch(what: str, measured: Any, used: Any) -> tuple[str, ...]:
    """A warning where numbers are used under something else than they were measured under."""
    if measured is None or measured == used:
        return ()
    return (f"MEASURED AT {what} {measured}, used at {used}: the numbers hold for their own {what} only",)


def _acceptance(way: str, given: options.Acceptance, shape: options.Shape | options.Length) -> Any:
    from ..acceptance.kinds import Chain, Independent, Positional

    if way == "--p":
        assert given.p is not None
        decay = 1.0 if given.decay is None else values.share("--decay", given.decay)
        return Independent(values.share("--p", given.p), decay)
    if way == "--child-prob":
        assert given.child_prob is not None
        row = units.parse_list(given.child_prob)
        return Positional(tuple(row), scheme="ranked" if given.ranked else "ordered")
    if way == "--alpha":
        assert given.alpha is not None
        return Chain(tuple(units.parse_list(given.alpha)))
    if way == "--survival":
        assert given.survival is not None
        return Chain.from_survival(units.parse_list(given.survival))
    if way == "--acceptance":
        return from_files(given.acceptance, given)
    if shape.k is None:
        raise InputError(f"{way} needs the K it was measured with", hint=f"add --k, such as {way} 2.8 --k 5")
    k = values.positive("--k", shape.k)
    if way == "--accept-length":
        assert given.accept_length is not None
        return Chain.from_accept_length(units.parse_count(given.accept_length), k=k)
    assert given.accept_rate is not None
    return Chain.from_accept_rate(values.share(way, given.accept_rate), k=k)


def _refuse_lone_hints(given: options.Acceptance) -> None:
    """What is said about files needs one."""
    hints = {
        "--denominator": given.denominator,
        "--measured-k": given.measured_k,
        "--measured-topk": given.measured_topk,
        "--as": given.as_,
        "--served": given.served,
    }
    for option, value in hints.items():
        if value is not None and not given.acceptance:
            raise InputError(f"{option} says something about a file", hint="add --acceptance FILE")


def hints(given: options.Acceptance) -> dict[str, Any]:
    """What the options say about files, as the readers take it."""
    k = None if given.measured_k is None else values.positive("--measured-k", given.measured_k)
    topk = None if given.measured_topk is None else values.positive("--measured-topk", given.measured_topk)
    return {"denominator": given.denominator, "k": k, "topk": topk, "served": given.served, "shape": given.as_}


def from_file(path: str, given: options.Acceptance, **more: Any) -> Any:
    """The acceptance in one file, in any dialect; a terminal shows how far it is.

    path   FILE, or FILE#NAME for one of the models, curves or categories in it
    """
    from ..stacks.detect import read_acceptance

    file, mark, name = path.rpartition("#")
    asked = {**hints(given), **more}
    if mark and not Path(path).exists():
        path, asked = file, {**asked, "served": name}
    METER.start(path)
    return read_acceptance(path, **asked, told=METER.at)


def from_files(entries: list[str], given: options.Acceptance) -> Any:
    """The acceptance in a file, or the mixture of several: by the weights given, else by the rounds counted."""
    from ..acceptance.by_k import mixed

    parts = [_split_weight(entry) for entry in entries]
    found = [from_file(path, given) for path, _ in parts]
    if len(found) == 1:
        return found[0]
    weights, notes, warnings = _weights(parts, found)
    rules, temperatures = {part.rule for part in found}, {part.temperature for part in found}
    notes += [
        f"MEASURED APART: the {what} of the parts differ: {', '.join(str(value) for value in sorted(map(str, values)))}"
        for what, values in (("rules", rules), ("temperatures", temperatures))
        if len(values) > 1
    ]
    for (path, _), part in zip(parts, found):
        warnings += [f"{path}: {text}" for text in part.about.get("warnings") or ()]
    return mixed(
        tuple(found),
        tuple(weights),
        rule=rules.pop() if len(rules) == 1 else None,
        temperature=temperatures.pop() if len(temperatures) == 1 else None,
        about={"warnings": warnings} if warnings else {},
        notes=tuple(notes),
    )


def _weights(parts: list[tuple[str, float | None]], found: list[Any]) -> tuple[list[float], list[str], list[str]]:
    """Shares of rounds of the files, how they came about, and a warning where nothing says them."""
    given = [weight for _, weight in parts if weight is not None]
    if len(given) == len(parts):
        return [weight / sum(given) for weight in given], [], []
    names = [path for path, weight in parts if weight is None]
    if given:
        raise InputError(
            f"{names[0][:80]} has no weight, others have", hint=f"give all of them one: {names[0][:60]}=0.3"
        )
    rounds = [_rounds(part) for part in found]
    if all(rounds):
        shown = ", ".join(f"{count:g}" for count in rounds)
        note = f"files are weighted by their counted rounds: {shown}; FILE=WEIGHT gives other shares"
        return [count / sum(rounds) for count in rounds], [note], []
    lacking = [path for (path, _), count in zip(parts, rounds) if not count]
    warning = (
        f"{', '.join(lacking)[:200]} has no count of rounds: all files weigh the same; FILE=WEIGHT gives their shares"
    )
    return [1.0 / len(parts)] * len(parts), [], [warning]


def _rounds(found: Any) -> float:
    """Rounds that were counted, 0 where none were; in a table, the trials of the first child."""
    counts = found.counts
    if counts is None:
        return 0.0
    return float(counts.rounds or (counts.by_depth_rank[0][0][1] if counts.by_depth_rank else 0.0))


def _split_weight(entry: str) -> tuple[str, float | None]:
    path, equals, weight = entry.rpartition("=")
    if not equals or Path(entry).exists():
        return entry, None
    value = values.read("--acceptance", weight, units.parse_share)
    assert value is not None
    if value <= 0:
        raise InputError(
            f"weight {weight} is not above 0", hint="--acceptance code.json=0.3 --acceptance chat.json=0.7"
        )
    return path, value


def given_tree(shape: options.Shape, acceptance: options.Acceptance) -> Any:
    """The tree of --from or the chain of --k, None when neither is asked for.

    With --accept-length and --accept-rate, --k is the K that was measured; the chain of that K is
    evaluated unless a budget asks for a search.
    """
    from ..base.tree import TokenTree

    if shape.from_ is not None:
        if shape.k is not None:
            raise InputError("--from and --k both give the tree", hint="leave one of them out")
        from ..stacks.tree_files import read_tree

        with values.naming("--from"):
            return read_tree(shape.from_)
    if shape.k is None or (shape.budget is not None and (acceptance.accept_length or acceptance.accept_rate)):
        return None
    return TokenTree.chain(values.positive("--k", shape.k))


def refuse_given_tree(shape: options.Shape, acceptance: options.Acceptance) -> None:
    """Several methods are each planned with their own shape: one that is given is none of them."""
    measured_at = shape.from_ is None and bool(acceptance.accept_length or acceptance.accept_rate)
    if not measured_at and (shape.from_ is not None or shape.k is not None):
        option = "--k" if shape.from_ is None else "--from"
        raise InputError(
            f"{option} gives one shape, compare looks for the best of each method",
            hint=f"specplan plan --method NAME {option} ... evaluates one; --max-depth and --budget are for all",
        )


def warn_of_conditions(place: scenes.Scene, acceptance: Any) -> None:
    """Numbers measured under another rule or temperature than they are used at, or than one another."""
    notes = () if acceptance is None else acceptance.notes
    place.warnings.extend(note for note in notes if note.startswith(MISMATCH) and note not in place.warnings)


def as_deep_as(place: scenes.Scene, tree: Any, acceptance: Any) -> Any:
    """The acceptance for a tree deeper than what was measured: a chain's rates go on by the model that fits them.

    Where levels are not known and cannot be told, they count as never accepted, with a warning.
    """
    known = None if acceptance is None else acceptance.max_depth
    if tree is None or known is None or tree.depth <= known or not acceptance.by_node:
        return acceptance
    from ..acceptance.fit import extended

    longer = extended(acceptance, tree.depth)
    never = (
        f"the acceptance knows {known} levels, the tree has {tree.depth}: deeper tokens are counted as never accepted"
    )
    said = never if longer.max_depth == known else longer.notes[-1]
    if said not in place.warnings:
        place.warnings.append(said)
    return longer


def refuse_without_chains(acceptance: Any) -> None:
    """Of a tree that the engine built nothing follows for any other shape: there is nothing to plan."""
    if acceptance is not None and not acceptance.by_node and not acceptance.ks:
        raise InputError(
            "the acceptance is that of a tree which the engine built: nothing follows for other shapes",
            hint="specplan advise judges it as it runs; for a plan measure chains (topk 1)",
        )


def refuse_unknown_siblings(acceptance: Any, limits: Any) -> None:
    """Chain data says nothing about siblings: a tree from it is refused."""
    refuse_without_chains(acceptance)
    if not acceptance.siblings_known and limits.children != 1:
        raise InputError(
            "chain data says nothing about second-best children, so no tree can be planned from it",
            hint="--max-children 1 plans a chain, --k K evaluates one, --assume-ranks takes siblings as independent",
        )


def described(given: options.Acceptance, shape: options.Shape | options.Length) -> dict[str, Any]:
    """The acceptance options as given."""
    said = {key.rstrip("_"): _typed(value) for key, value in vars(given).items() if value not in (None, False, [])}
    if given.accept_length or given.accept_rate:
        said["k"] = _typed(shape.k)
    return said


def _typed(value: Any) -> Any:
    """An option's text as the number that it is, where it is one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def chains_only_if_needed(place: scenes.Scene, acceptance: Any, limits: Any) -> Any:
    """Limits that allow chains alone where nothing is known of siblings, with a note."""
    if acceptance.siblings_known or limits.children == 1:
        return limits
    place.notes.append(
        "chain data says nothing about siblings: only chains are planned; --assume-ranks takes them as independent"
    )
    return replace(limits, children=1)
