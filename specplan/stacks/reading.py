"""What a reader found in a file, and the acceptance that it makes.

    Reading          numbers as the source states them, in one vocabulary
    to_acceptance    checks them against each other and builds a `Chain` (or a table) with counts and notes
    Series           tokens per round over time, in constant memory

A reader of logs is a class with `marks` (texts that its lines hold), `add(line, at)` and `reading()`; a reader of
JSON is a function from the parsed data to a Reading, or None where the data is not its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from ..acceptance.by_k import NO_K, ByK, of_tree
from ..acceptance.kinds import Acceptance, Chain, Counts, DepthTable, Interval, Positional, tau_interval, to_number
from ..base.errors import InputError
from ..base.tree import MAX_DEPTH, TokenTree

# Chain that stands for an endless one where K is unknown: at a rate of 0.9 the rest is below 0.2 % of the tokens.
ENDLESS = 64

# Counts may disagree with a printed mean by its rounding: two decimals, as vLLM, SGLang and llama.cpp print it.
PRINTED = 0.005


@dataclass(frozen=True)
class Asked:
    """What the user says about a file that does not say it.

    denominator   drafted or generated: what a bare percentage is a share of
    k             drafted tokens a round
    served        the model of a metrics page, the curve or the category of a file that holds several
    shape         what bare numbers are, one of SHAPES
    topk          children a node of the tree that was drafted (SGLang's topk); above 1 there was no chain
    every         True to add up all models of a metrics page, for a comparison model by model
    """

    denominator: str | None = None
    k: int | None = None
    served: str | None = None
    shape: str | None = None
    topk: int | None = None
    every: bool = False


# What bare numbers may be (--as).
SHAPES = ("histogram", "tokens", "reached", "child-prob", "survival", "alpha", "by-k")


@dataclass(frozen=True)
class Reading:
    """Numbers of one source.

    meaning      what its number means and does not mean, in words
    tau          tokens per round, bonus included, as stated
    rounds       rounds in which something was drafted; `without` are the others
    survival     P(at least i accepted), i = 1..; over the rounds with a proposal
    reached      the same as counts of rounds
    histogram    rounds that accepted exactly j = 0, 1, ... drafted tokens
    by_k         tokens per round by chain length
    rows         child probabilities by depth; `trials` rounds each
    resolution   half a unit of the last printed digit of `survival`
    rate         accepted over drafted as stated; `rate_printed` is half a unit of its last digit
    tree         steps, topk and nodes of the tree that was drafted, where it was one (topk above 1)
    per_k        True where another K was not measured and may not be extrapolated
    extends      True where it may: the last rate holds on
    engines      counts by model and engine, as `read_counters` has them
    contexts     tokens per round by prompt length, as `by_context` has them
    served       the name in `Asked.served`, where one of several was taken by it
    warnings     what makes the numbers less than they look
    """

    dialect: str
    meaning: str
    tau: float | None = None
    k: int | None = None
    rounds: float | None = None
    without: float = 0.0
    drafted: float | None = None
    accepted: float | None = None
    survival: tuple[float, ...] = ()
    reached: tuple[float, ...] = ()
    histogram: tuple[float, ...] = ()
    by_k: Mapping[int, float] = field(default_factory=dict)
    rows: tuple[tuple[float, ...], ...] = ()
    scheme: str = "ordered"
    pairs: tuple[tuple[tuple[float, float], ...], ...] = ()
    resolution: float = 0.0
    printed: float = PRINTED
    rate: float | None = None
    rate_printed: float = PRINTED
    tree: Mapping[str, int] = field(default_factory=dict)
    per_k: bool = False
    extends: bool = False
    engines: Sequence[Mapping[str, Any]] = ()
    contexts: Sequence[Mapping[str, float]] = ()
    served: str | None = None
    warnings: tuple[str, ...] = ()
    series: Sequence[Mapping[str, float]] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    rule: str | None = None
    temperature: float | None = None
    notes: tuple[str, ...] = ()


class LineReader(Protocol):
    """Collects what the lines of one dialect say."""

    marks: tuple[str, ...]

    def add(self, line: str, at: str) -> None:
        """Take one line; `at` is file:line for errors."""

    def reading(self, asked: Asked) -> Reading | None:
        """What was found, None for nothing."""


# ---- checks


def _counted(reading: Reading) -> Reading:
    """The reading with the counts that its histogram implies."""
    if not reading.histogram:
        return reading
    rounds = math.fsum(reading.histogram)
    if rounds <= 0:
        raise InputError("the histogram is empty", hint="was speculation on, and was anything generated?")
    reached = tuple(math.fsum(reading.histogram[i:]) for i in range(1, len(reading.histogram)))
    _same(reading.rounds, rounds, "rounds", "the histogram")
    _same(reading.accepted, math.fsum(reached), "accepted tokens", "the histogram")
    accepted = math.fsum(reached)
    return replace(reading, rounds=rounds, accepted=accepted, reached=reading.reached or reached)


def _same(stated: float | None, found: float, what: str, source: str) -> None:
    if stated is not None and abs(stated - found) > 0.5:
        raise InputError(
            f"{stated:g} {what} stated, {source} has {found:g}", hint="the file contradicts itself: is it complete?"
        )


def _check_counts(reading: Reading) -> None:
    for name in ("rounds", "drafted", "accepted", "without"):
        value = getattr(reading, name)
        if value is not None and not 0 <= to_number(value, name) < math.inf:
            raise InputError(f"{name} is {value:g}", hint="counts are not negative: did a counter restart?")
    rounds, drafted, accepted = reading.rounds, reading.drafted, reading.accepted
    if drafted is not None and accepted is not None and accepted > drafted:
        raise InputError(
            f"{accepted:g} tokens accepted of {drafted:g} drafted",
            hint="more accepted than drafted: are the two numbers swapped, or of different runs?",
        )
    if rounds == 0 or (drafted == 0 and not reading.tau):
        raise InputError("nothing was drafted", hint="was speculation on, and was anything generated?")
    if drafted and accepted is not None and reading.rate is not None:
        check_stated(reading.rate, accepted / drafted, "accepted over drafted", reading.rate_printed)
    if rounds and reading.reached and reading.survival:
        for i, (count, stated) in enumerate(zip(reading.reached, reading.survival), 1):
            check_stated(stated, count / rounds, f"rate of position {i}", reading.resolution + 1e-3)
    if rounds and reading.reached and reading.reached[0] > rounds:
        raise InputError(
            f"{reading.reached[0]:g} rounds accepted the first token, of {rounds:g} rounds",
            hint="counters of different runs, or one of them restarted",
        )


def check_stated(stated: float, counted: float, what: str, slack: float) -> None:
    """Refuses a stated number that its own counts contradict by more than `slack`, the print resolution."""
    if not abs(stated - counted) <= slack + 1e-9:
        raise InputError(
            f"{what} {stated:.6g} stated, the counts give {counted:.6g}",
            hint="the file contradicts itself: is it complete, and from one run?",
        )


def falling_survival(values: Sequence[float], resolution: float) -> tuple[float, ...]:
    """Survival with rises inside the print resolution flattened.

    Raises  InputError when it rises by more, or leaves [0, 1].

    >>> falling_survival([0.8, 0.5005, 0.501], 0.0005)
    (0.8, 0.5005, 0.5005)
    """
    found: list[float] = []
    for i, value in enumerate(values):
        if not -1e-9 <= value <= 1 + max(resolution, 1e-9):
            raise InputError(f"position {i + 1} is accepted in {value:g} of the rounds", hint="a share is at most 1")
        before = found[-1] if found else 1.0
        if value > before + 2 * resolution + 1e-9:
            raise InputError(
                f"position {i + 1} is accepted in {value:g} of the rounds, the one before in {before:g}",
                hint="survival cannot rise: counters of different runs, or rates given the earlier ones (--alpha)?",
            )
        found.append(min(max(value, 0.0), before))
    return tuple(found)


# ---- the acceptance


def refuse_part(asked: Asked) -> None:
    """Of a file that holds one run no part can be taken.

    Raises  InputError where one is named.
    """
    if asked.served is not None:
        raise InputError(
            f"{asked.served[:60]!r} is no part of it", hint="leave --served or #NAME out: it holds one run"
        )


def to_acceptance(reading: Reading, asked: Asked = Asked(), *, source: str | None = None) -> Acceptance:
    """The acceptance that a reading makes, with counts, notes and the document's further keys.

    Rounds without a proposal count as rounds in which nothing was accepted.
    Raises  InputError where the numbers contradict each other or say nothing.

    >>> found = to_acceptance(Reading("a histogram", "", histogram=(20, 28, 19, 33)))
    >>> [round(s, 2) for s in found.survival], round(found.about["tau"], 2)
    ([0.8, 0.52, 0.33], 2.65)
    """
    if reading.served is None:
        refuse_part(asked)
    reading = _counted(reading)
    _check_counts(reading)
    if reading.rows:
        return _table(reading, source)
    survival = _survival(reading)
    tau = _tau(reading, survival)
    if reading.tree:
        return _of_tree(reading, survival, tau, source)
    stated = reading.k or len(survival)
    if asked.k and stated and asked.k != stated:
        raise InputError(
            f"--measured-k {asked.k}, but the source has {stated} drafted positions", hint="leave --measured-k out"
        )
    k = asked.k or reading.k or len(survival) or max((int(k) for k in reading.by_k), default=0)
    warnings = [*reading.warnings]
    if not k:
        k, guessed = _whole_k(reading)
        warnings += [guessed] if guessed else []
    else:
        counted = _counts(reading)
        warnings += [] if counted is None else counted.short_drafts(k)
    notes = [reading.meaning, *reading.notes]
    about = _about(replace(reading, warnings=tuple(warnings)), tau, k or None, source)
    shared = {"counts": _counts(reading), "rule": reading.rule, "temperature": reading.temperature, "about": about}
    chain = _chain(reading, survival, tau, k, about, notes)
    if reading.without:
        notes.append(
            f"{reading.without:g} of {_all_rounds(reading):g} rounds had no proposal; they count as rounds in which "
            "nothing was accepted, so --proposal-share is not to be given as well"
        )
    found: Acceptance = replace(chain, notes=tuple(note for note in notes if note), **shared)  # type: ignore[arg-type]
    about["interval"] = _interval(found, k or ENDLESS)
    if reading.per_k and reading.tau is None:
        about |= {"tau": None, "k": None}  # several runs, none of which is the one
    return found


def _of_tree(reading: Reading, survival: Sequence[float], tau: float, source: str | None) -> Acceptance:
    """Tokens per round of a tree whose shape is not known: kept, and no rates of a chain made of it."""
    tree = ", ".join(f"{name} {value}" for name, value in reading.tree.items())
    warning = (
        f"measured with trees ({tree}), not with a chain: the tokens per round hold for that tree, and nothing follows "
        "for chains or other trees"
    )
    about = _about(replace(reading, warnings=(*reading.warnings, warning)), tau, None, source)
    about["measured_tree"] = dict(reading.tree)
    about["unknown"] = [*(name for name in about["unknown"] if name != "survival"), "survival of a chain"]
    counts = _counts(reading)
    if survival and counts is not None and counts.rounds:
        about["interval"] = asdict(_spread(survival, tau, counts.rounds))
    counts = None if counts is None else replace(counts, by_depth_rank=())
    notes = tuple(note for note in (reading.meaning, *reading.notes) if note)
    shared = {"counts": counts, "rule": reading.rule, "temperature": reading.temperature}
    return of_tree(reading.tree, tau, about=about, notes=notes, **shared)


def _spread(survival: Sequence[float], tau: float, rounds: float) -> Interval:
    """The interval of a mean from the shares of rounds that accepted at least i tokens."""
    variance = math.fsum((2 * i - 1) * share for i, share in enumerate(survival, 1)) - math.fsum(survival) ** 2
    se = math.sqrt(max(variance, 0.0) / rounds)
    return Interval(max(1.0, tau - 1.96 * se), tau + 1.96 * se, se, 0.95)


def _all_rounds(reading: Reading) -> float:
    return (reading.rounds or 0.0) + reading.without


def _survival(reading: Reading) -> tuple[float, ...]:
    """Over all rounds, those without a proposal included."""
    if reading.reached and reading.rounds:
        return falling_survival([count / _all_rounds(reading) for count in reading.reached], 0.0)
    share = reading.rounds / _all_rounds(reading) if reading.rounds else 1.0
    return tuple(value * share for value in falling_survival(reading.survival, reading.resolution))


def _tau(reading: Reading, survival: Sequence[float]) -> float:
    """Tokens per round: from counts, else as stated, else from survival; all that is there must agree."""
    stated = reading.tau
    if reading.rounds and reading.accepted is not None:
        counted = 1.0 + reading.accepted / reading.rounds
        if stated is not None and abs(counted - stated) > reading.printed + 1e-6:
            raise InputError(
                f"a mean length of {stated:g} stated, the counts give {counted:.4g}",
                hint="the file contradicts itself: is it complete, and from one run?",
            )
        tau = 1.0 + reading.accepted / _all_rounds(reading)
    elif stated is not None:
        tau = stated
    elif survival:
        tau = 1.0 + math.fsum(survival)
    elif reading.by_k:
        tau = reading.by_k[max(reading.by_k)]
    else:
        raise InputError("no number of accepted tokens", hint="a mean length, or accepted tokens and rounds are needed")
    if not math.isfinite(tau) or tau < 1 - 1e-9:
        raise InputError(f"{tau:g} tokens per round", hint="the bonus token is included: at least 1")
    if survival and not reading.reached:
        slack = (len(survival) * reading.resolution + reading.printed) + 1e-6
        if abs(1.0 + math.fsum(survival) - tau) > slack:
            raise InputError(
                f"a mean length of {tau:.4g}, but the rates by position add up to {1 + math.fsum(survival):.4g}",
                hint="with the bonus token 1 + the sum of the rates is the mean length: is the file from one run?",
            )
    return tau


def _whole_k(reading: Reading) -> tuple[int, str]:
    """Drafted tokens a round, 0 when unknown; and a warning where drafting stopped early, so that it is a guess."""
    if not reading.rounds or not reading.drafted:
        return 0, ""
    mean = reading.drafted / reading.rounds
    if abs(mean - round(mean)) < 1e-6:
        return max(1, round(mean)), ""
    k = max(1, math.ceil(mean))
    return (
        k,
        f"K is not in the source: {mean:.2f} tokens were drafted a round, so {k} is a guess; --measured-k states it",
    )


def _chain(
    reading: Reading, survival: Sequence[float], tau: float, k: int, about: dict[str, Any], notes: list[str]
) -> Acceptance:
    by_k = reading.by_k
    if by_k:
        about["accept_length_by_k"] = {str(length): value for length, value in sorted(by_k.items())}
    if reading.per_k:
        notes.append("another K was not measured: chains of other lengths are not valued")
        rates = ((k, tuple(survival)),) if len(survival) == k else ()
        return ByK(tuple({k: tau, **by_k}.items()), rates)
    if survival:
        chain = Chain.from_survival(survival)
        return replace(chain, extends=True) if reading.extends else chain
    if len(by_k) > 1:
        return _from_lengths(by_k, notes)
    if k:
        notes.append("rates by position are not in the source: the same rate is taken at every position")
        return Chain.from_accept_length(tau, k)
    about["unknown"] = [*about["unknown"], "k"]
    notes.append(NO_K)
    return Chain.constant(1.0 - 1.0 / tau)


def _from_lengths(by_k: Mapping[int, float], notes: list[str]) -> Acceptance:
    """One chain that has all the lengths, where one can have them."""
    try:
        return Chain.from_accept_lengths(by_k)
    except InputError:
        notes.append("no one draft has these lengths: each holds for its own K, and other lengths are not valued")
        return ByK(tuple(by_k.items()))


def _about(reading: Reading, tau: float | None, k: int | None, source: str | None) -> dict[str, Any]:
    drafted, accepted = reading.drafted, reading.accepted
    rate = accepted / drafted if drafted and accepted is not None else None
    known = {
        "survival": bool(reading.reached or reading.survival),
        "counts": reading.rounds is not None,
        "siblings": bool(reading.rows),
        "rule": reading.rule is not None,
        "temperature": reading.temperature is not None,
        "workload": reading.about.get("workload") is not None,
    }
    return {
        "k": k,
        "tau": tau,
        "acceptance_rate": rate,
        "histogram": list(reading.histogram) or None,
        "drafted_per_round": drafted / _all_rounds(reading) if drafted and reading.rounds else None,
        "series": list(reading.series) or None,
        "by_context": list(reading.contexts) or None,
        "by_engine": list(reading.engines) or None,
        "warnings": list(reading.warnings) or None,
        "source": source,
        "dialect": reading.dialect,
        "unknown": [name for name, there in known.items() if not there],
        **reading.about,
    }


def _counts(reading: Reading) -> Counts | None:
    if reading.rounds is None:
        return None
    reached = reading.reached or tuple(value * reading.rounds for value in reading.survival)
    rows = []
    before = _all_rounds(reading)
    for count in reached:
        if before <= 0:
            break
        rows.append(((min(count, before), before),))
        before = count
    return Counts(
        rounds=_all_rounds(reading),
        rounds_without_proposal=reading.without or None,
        drafted=reading.drafted,
        accepted=reading.accepted,
        by_depth_rank=tuple(rows),
    )


def _table(reading: Reading, source: str | None) -> Acceptance:
    """Rows of child probabilities."""
    about = _about(reading, None, None, source)
    counts = Counts(rounds=reading.rounds, by_depth_rank=reading.pairs) if reading.pairs else None
    notes = tuple(note for note in (reading.meaning, *reading.notes) if note)
    shared: dict[str, Any] = {"counts": counts, "rule": reading.rule, "about": about, "notes": notes}
    if len(reading.rows) == 1:
        return Positional(reading.rows[0], reading.scheme, **shared)
    return DepthTable(reading.rows, reading.scheme, **shared)


def _interval(acceptance: Acceptance, k: int) -> Mapping[str, float] | None:
    chain = TokenTree.chain(k)
    found = tau_interval(acceptance, chain) if k and acceptance.knows(chain) else None
    return None if found is None else asdict(found)


# ---- what readers share


class Series:
    """Tokens per round over time: at most `most` points, neighbours merged by weight when there are more."""

    def __init__(self, most: int = 256) -> None:
        self.most = most
        self.points: list[tuple[float, float]] = []
        self._span, self._pending, self._count = 1, (0.0, 0.0), 0
        self.weight = 0.0
        self.total = 0.0

    def add(self, tau: float, weight: float) -> None:
        """One window of `weight` rounds."""
        self.weight += weight
        self.total += weight * tau
        self._pending = (self._pending[0] + weight, self._pending[1] + weight * tau)
        self._count += 1
        if self._count == self._span:
            self.points.append(self._pending)
            self._pending, self._count = (0.0, 0.0), 0
        if len(self.points) >= self.most:
            pairs = zip(self.points[::2], self.points[1::2])
            self.points = [(a[0] + b[0], a[1] + b[1]) for a, b in pairs]
            self._span *= 2

    @property
    def mean(self) -> float:
        return self.total / self.weight

    def rows(self) -> tuple[dict[str, float], ...]:
        """Windows as {weight, tau}; one window is no series."""
        points = [*self.points, self._pending] if self._count else self.points
        rows = tuple({"weight": weight, "tau": total / weight} for weight, total in points if weight > 0)
        return rows if len(rows) > 1 else ()


def objects_with(data: Any, *keys: str) -> Iterator[Mapping[str, Any]]:
    """Every object in `data`, however deep, that has all the keys.

    >>> [o["b"] for o in objects_with([{"a": {"b": 1}}, {"b": 2}], "b")]
    [1, 2]
    """
    stack = [data]
    while stack:
        here = stack.pop()
        if isinstance(here, Mapping):
            if all(key in here for key in keys):
                yield here
            stack.extend(reversed([value for value in here.values() if isinstance(value, (Mapping, list))]))
        elif isinstance(here, list):
            stack.extend(reversed([value for value in here if isinstance(value, (Mapping, list))]))


def number(entry: Mapping[str, Any], *keys: str) -> float | None:
    """The first of the keys that is there and not null.

    Raises  InputError when it is no number.
    """
    for key in keys:
        if entry.get(key) is not None:
            return to_number(entry[key], key)
    return None


def length_of(entry: Mapping[str, Any], key: str) -> int | None:
    """A number of drafted tokens a round, None where it is missing or 0.

    Raises  InputError for what is none.
    """
    value = number(entry, key)
    if value is not None and not (0 <= value <= MAX_DEPTH and value == int(value)):
        raise InputError(f"{key} is {value:g}", hint=f"a whole number up to {MAX_DEPTH}")
    return int(value) if value else None


def total(entries: Sequence[Mapping[str, Any]], *keys: str) -> float | None:
    """The sum over the entries, None when one of them lacks it."""
    found = [number(entry, *keys) for entry in entries]
    return math.fsum(value for value in found if value is not None) if found and None not in found else None


def histogram(given: Any, *, tau: float | None = None, from_one: bool = False) -> tuple[float, ...]:
    """Rounds by accepted tokens from a list (index = accepted) or a mapping.

    from_one   keys count the tokens of the round, the bonus included
    tau        where the source states it, it decides which of the two the keys are

    >>> histogram({"1": 20, "2": 28, "4": 33}, from_one=True)
    (20.0, 28.0, 0.0, 33.0)
    """
    if isinstance(given, list):
        return tuple(to_number(value, f"histogram[{i}]") for i, value in enumerate(given))
    if not isinstance(given, Mapping):
        raise InputError("the histogram is neither a list nor a mapping", hint='write {"0": 20, "1": 28}')
    counts = {int(key): to_number(value, f"histogram[{key}]") for key, value in given.items() if _is_index(key)}
    if len(counts) < len(given) or not counts or max(counts) > 100_000:
        raise InputError("a key of the histogram is not a number of tokens", hint='write {"0": 20, "1": 28}')
    rounds = math.fsum(counts.values())
    if tau is not None and rounds:
        mean = math.fsum(key * count for key, count in counts.items()) / rounds
        from_one = abs(mean - tau) < abs(mean + 1 - tau)
    shift = 1 if from_one else 0
    if min(counts) < shift:
        raise InputError("the histogram has rounds of 0 tokens", hint="a round emits at least the bonus token")
    return tuple(counts.get(j + shift, 0.0) for j in range(max(counts) + 1 - shift))


def _is_index(key: Any) -> bool:
    return str(key).isascii() and str(key).isdigit() and len(str(key)) < 10


def by_context(requests: Iterable[tuple[float, float, float]]) -> tuple[dict[str, float], ...]:
    """Tokens per round by prompt length, from (prompt tokens, rounds, accepted) of requests.

    Prompts are put together up to powers of two; one size is no table.

    >>> by_context([(100, 10, 20), (120, 10, 10), (5000, 4, 2)])
    ({'prompt_tokens_to': 128, 'rounds': 20.0, 'tau': 2.5}, {'prompt_tokens_to': 8192, 'rounds': 4.0, 'tau': 1.5})
    """
    sums: dict[int, tuple[float, float]] = {}
    for prompt, rounds, accepted in requests:
        if rounds > 0 and 0 < prompt < 1e9:
            size = 1 << max(0, math.ceil(prompt) - 1).bit_length()
            before = sums.get(size, (0.0, 0.0))
            sums[size] = before[0] + rounds, before[1] + accepted
    rows = [
        {"prompt_tokens_to": size, "rounds": rounds, "tau": 1.0 + accepted / rounds}
        for size, (rounds, accepted) in sorted(sums.items())
    ]
    return tuple(rows) if len(rows) > 1 else ()


def requests_with(data: Any, *keys: str) -> list[tuple[Mapping[str, Any], float | None]]:
    """Every object that has the keys, with the prompt tokens of its request: what stands in it, or beside it in the
    same element of a list where that holds no other such object.

    >>> requests_with([{"usage": {"prompt_tokens": 9}, "m": {"a": 1}}], "a")
    [({'a': 1}, 9.0)]
    """
    found: list[tuple[Mapping[str, Any], float | None]] = []
    for request in data if isinstance(data, list) else [data]:
        entries = list(objects_with(request, *keys))
        beside = _prompt(next(_prompts(request), {})) if len(entries) == 1 else None
        found += [(entry, _prompt(entry) or beside) for entry in entries]
    return found


def _prompts(request: Any) -> Iterator[Mapping[str, Any]]:
    yield from objects_with(request, "prompt_tokens")
    yield from objects_with(request, "input_sequence_length")


def _prompt(entry: Mapping[str, Any]) -> float | None:
    """Tokens of the prompt: `prompt_tokens`, AIPerf's `input_sequence_length`, llama.cpp's `prompt_n` and `cache_n`."""
    given = entry.get("prompt_tokens", entry.get("input_sequence_length", entry.get("prompt_n")))
    given = given.get("value") if isinstance(given, Mapping) else given
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        return None
    cached = entry.get("cache_n") if "prompt_n" in entry else None
    return float(given) + (float(cached) if isinstance(cached, (int, float)) else 0.0)


def added(histograms: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Histograms added up."""
    longest = max((len(counts) for counts in histograms), default=0)
    return tuple(math.fsum(counts[j] for counts in histograms if j < len(counts)) for j in range(longest))


def flat(given: Any) -> list[float]:
    """Accepted lengths of a file, one level of nesting undone."""
    values = list(itertools.chain.from_iterable(v if isinstance(v, list) else [v] for v in given))
    if not all(type(value) in (int, float) for value in values):
        raise InputError("accept_lengths holds something that is no number", hint="a list of numbers a question")
    return [float(value) for value in values]
