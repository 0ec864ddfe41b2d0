"""Numbers that do not say what they are: a list, or a mapping from whole numbers.

They are read where they can be one thing only; else `--as` has to say which:

    histogram    rounds by accepted drafted tokens (counts or shares); index or key 0 is none accepted
    tokens       the same, keys counting the tokens of the round with the bonus token
    reached      rounds that accepted at least 0, 1, 2, ... drafted tokens: the first number is all rounds
    child-prob   P(the k-th child is the accepted one), tested in order (Sequoia's vector, without reject bin)
    survival     P(at least i accepted)
    alpha        P(position i accepted, given the ones before)
    by-k         tokens per round by chain length
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from ..acceptance.kinds import to_number, to_probabilities
from ..base.errors import InputError
from .reading import Asked, Reading, added, histogram, objects_with
from .sequoia import vector

# Names under which a histogram of accepted tokens is kept: vLLM and AIPerf (a request, the run), TensorRT-LLM.
NAMES = (
    "pooled_spec_decode_acceptance_histogram",
    "acceptance_histogram",
    "accepted_histogram",
    "accept_histogram",
    "accepted_draft_hist",
    "accepted_counts",
)
_HISTOGRAM = "rounds by the number of drafted tokens accepted in them; added up over requests, so weighted by rounds"
_REACHED = "rounds that accepted at least that many drafted tokens, from 0 (all rounds) on"
_REACHED_HINT = "; reached: rounds that accepted at least 0, 1, 2, ... tokens, so that all rounds come first"
# Shares that add up to 1 within this are of one whole.
_WHOLE = 1e-3


def named(data: Any, asked: Asked) -> Reading | None:
    """A histogram under a name that says so; that of the whole run before those of requests."""
    for name in NAMES:
        given = [entry[name] for entry in objects_with(data, name) if entry.get(name)]
        if given:
            counts = added([histogram(entry) for entry in given])
            return Reading("accepted-count-histogram", _HISTOGRAM, histogram=counts, drafted=_total_drafted(data, name))
    return None


def _total_drafted(data: Any, name: str) -> float | None:
    """AIPerf's total of drafted tokens beside the histogram of the run."""
    if name != NAMES[0] or not isinstance(data, Mapping):
        return None
    given = data.get("total_draft_tokens")
    given = given.get("avg") if isinstance(given, Mapping) else given
    return None if given is None else to_number(given, "total_draft_tokens")


def bare(data: Any, asked: Asked) -> Reading | None:
    """A bare list or mapping that can be one thing only.

    Raises  InputError where it can be several.

    >>> bare([20, 28, 19, 33], Asked()).histogram
    (20.0, 28.0, 19.0, 33.0)
    """
    values = _values(data)
    if values is None:
        return None
    kinds = possible(data, values)
    if len(kinds) == 1:
        return as_stated(data, kinds[0])
    shown = ", ".join(f"{value:g}" for value in values[:4])
    raise InputError(
        f"bare numbers ({shown}{', ...' if len(values) > 4 else ''}) that can be several things",
        hint=f"say which: --as {'|'.join(kinds)}" + (_REACHED_HINT if "reached" in kinds else ""),
    )


def _values(data: Any) -> list[float] | None:
    """The numbers of a bare list or mapping, None for anything else."""
    if isinstance(data, Mapping):
        if not data or not all(str(key).isascii() and str(key).isdigit() and len(str(key)) < 10 for key in data):
            return None
        items = [data[key] for key in sorted(data, key=lambda key: int(str(key)))]
    else:
        items = data if isinstance(data, list) else []
    if not items or not all(type(value) in (int, float) and math.isfinite(value) for value in items):
        return None
    return [float(value) for value in items]


def possible(data: Any, values: list[float]) -> list[str]:
    """What the numbers can be.

    >>> possible([0.8, 0.9], [0.8, 0.9]), possible([0.6, 0.2], [0.6, 0.2])
    (['alpha'], ['child-prob', 'survival', 'alpha'])
    >>> possible([20, 28, 33], [20, 28, 33]), possible([100, 80, 52], [100, 80, 52])
    (['histogram'], ['histogram', 'reached'])
    """
    if isinstance(data, Mapping):
        return _possible_mapping(min(int(str(key)) for key in data), values)
    if all(float(value).is_integer() for value in values) and (max(values) > 1 or len(values) == 1):
        return _possible_counts(values)
    if min(values) < 0 or max(values) > 1:
        return ["histogram"] if max(values) > 1 else ["child-prob"]  # each refuses what it cannot be
    return _possible_shares(values)


def _falls(values: list[float]) -> bool:
    return all(b <= a for a, b in itertools.pairwise(values))


def _possible_counts(values: list[float]) -> list[str]:
    """What whole numbers can be, the first of them for no token accepted."""
    return ["histogram", "reached"] if len(values) > 1 and _falls(values) else ["histogram"]


def _possible_shares(values: list[float]) -> list[str]:
    """What numbers between 0 and 1 can be."""
    falls = _falls(values)
    total = math.fsum(values)
    if len(values) > 1 and values[0] == 0 and total <= 1 + _WHOLE:
        return ["child-prob"]  # Sequoia's dummy: no chain has a first token that is never accepted
    kinds = ["child-prob"] if total <= 1 + _WHOLE else []
    kinds += ["survival"] if falls else []
    return [*kinds, "alpha", *(["histogram"] if abs(total - 1) <= _WHOLE and len(values) > 1 else [])]


def _possible_mapping(first: int, values: list[float]) -> list[str]:
    whole = all(value.is_integer() for value in values)
    if first == 0 and whole:
        return _possible_counts(values)
    if first == 0:
        one_whole = abs(math.fsum(values) - 1) <= _WHOLE
        return ["histogram"] if one_whole or max(values) > 1 or min(values) < 0 else _possible_shares(values)
    if whole:
        return ["histogram", "tokens"]
    if min(values) >= 1:
        return ["by-k"]
    if max(values) > 1:
        return ["histogram", "tokens"]
    kinds = _possible_shares(values)
    return [*kinds, "tokens"] if "histogram" in kinds else kinds


def as_stated(data: Any, shape: str) -> Reading:
    """The numbers as what they are said to be.

    Raises  InputError where they cannot be that.
    """
    values = _values(data)
    if values is None:
        raise InputError("--as says what bare numbers are", hint='a list such as [0.6, 0.2], or {"0": 20, "1": 28}')
    if shape in ("histogram", "tokens"):
        return _histogram(data, shape)
    if shape == "by-k":
        given = data if isinstance(data, Mapping) else dict(enumerate(values, 1))
        lengths = {int(k): to_number(value, f"length at k {k}") for k, value in given.items()}
        meaning = "tokens per round by chain length, bonus token included, each measured by itself"
        return Reading("lengths-by-k", meaning, by_k=lengths, per_k=True)
    if isinstance(data, Mapping) and sorted(int(k) for k in data) not in (
        list(range(len(data))),
        list(range(1, len(data) + 1)),
    ):
        raise InputError("positions are missing", hint="give every position from the first on")
    if shape == "reached":
        return _counts_reached(data, values)
    if shape == "child-prob":
        return vector(values)
    rates = to_probabilities(values, shape)
    if shape == "alpha":
        rates = tuple(itertools.accumulate(rates, lambda a, b: a * b))
    words = {"alpha": "given the ones before", "survival": "together with all before it"}
    return Reading(f"bare-{shape}", f"rates of each position {words[shape]}", survival=rates)


def _counts_reached(data: Any, values: list[float]) -> Reading:
    if isinstance(data, Mapping) and "0" not in {str(key) for key in data}:
        raise InputError("the count of all rounds is missing", hint='key 0 counts all rounds: {"0": 100, "1": 80}')
    if len(values) < 2:
        raise InputError("all rounds alone say nothing of what was accepted", hint="[all rounds, at least 1, ...]")
    return Reading(
        "reached-counts", _REACHED, rounds=values[0], reached=tuple(values[1:]), accepted=math.fsum(values[1:])
    )


def _histogram(data: Any, shape: str) -> Reading:
    counts = histogram(data, from_one=shape == "tokens") if isinstance(data, Mapping) else histogram(data)
    if shape == "tokens" and isinstance(data, list):
        counts = counts[1:] if counts and counts[0] == 0 else counts
    if min(counts) < 0:
        raise InputError(f"a count of {min(counts):g} rounds", hint="counts of rounds are not negative")
    total = math.fsum(counts)
    if total > 0 and abs(total - 1) <= _WHOLE and not all(value.is_integer() for value in counts):
        survival = tuple(math.fsum(counts[i:]) / total for i in range(1, len(counts)))
        return Reading("accepted-count-shares", _HISTOGRAM + "; shares, no counts", survival=survival)
    return Reading("accepted-count-histogram", _HISTOGRAM, histogram=counts)
