"""Which dialect a file is in, and what it says: the reader for whatever the user has.

    read_any(text)        from text that is in memory
    read_acceptance(path)       from a file or `-`; logs are streamed, so their size does not matter
    read_url(url)         from the metrics page of a running server, once or twice

A file is an acceptance document, a table of counts, JSON of a known kind, a torch file of a vector, or lines: a log or
a metrics page. Lines may stand among others that say nothing; lines of two dialects are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

from ..acceptance.documents import (
    DOCUMENT_KEYS,
    acceptance_from_csv,
    acceptance_from_document,
    acceptance_from_rows,
    is_rows,
)
from ..acceptance.kinds import Acceptance
from ..base.errors import EnvironmentProblem, InputError
from ..base.files import parse_json, parse_yaml
from . import bare, golden, lm_studio, medusa, nvidia, others, sequoia
from .prometheus import PageReader
from .reading import SHAPES, Asked, LineReader, Reading, refuse_part, to_acceptance
from .registry import stacks

# What belongs to no single stack; the stacks' own readers come from the registry.
PROFILES: dict[str, Callable[[Any, Asked], Reading | None]] = {
    "speculation_profile.json": nvidia.speculation_profile,
    "acceptance_rate.json": nvidia.acceptance_rate,
}
OTHERS: dict[str, Callable[[Any, Asked], Reading | None]] = {
    "Spec-Bench": others.spec_bench,
    "LM Studio statistics": lm_studio.statistics,
    "Medusa heads": medusa.head_accuracies,
    "Sequoia vector": sequoia.from_json,
    "histogram": bare.named,
    "InferenceX golden lengths": golden.golden,
    "bare numbers": bare.bare,
}


def line_readers() -> dict[str, Callable[[], LineReader]]:
    """What reads logs and metrics pages, by name."""
    pages = [page for stack in stacks().values() for page in stack.pages]
    found: dict[str, Callable[[], LineReader]] = {"metrics page": lambda: PageReader(pages)}
    for stack in stacks().values():
        found |= stack.lines
    return found | {"percentages": others.Percentages}


def json_readers() -> dict[str, Callable[[Any, Asked], Reading | None]]:
    """What reads JSON, by name; the first that finds something is right, so the least particular come last."""
    found = dict(PROFILES)
    for stack in stacks().values():
        found |= stack.jsons
    return found | OTHERS


# A line longer than this is no log line.
LONGEST_LINE = 1_000_000
# JSON, tables and torch files are held in memory; answers of a benchmark with their texts are the largest of them.
LARGEST_FILE = 100_000_000
# Bytes of a log that are looked through at a time.
BLOCK = 1 << 20
_HEAD = 65_536
# Colours of a terminal.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BRACKETED = re.compile(r"\[(?:\d{4}-\d|\d+[:/]|(?!true|false|null|NaN|Infinity)[A-Za-z])")
_KEY = re.compile(r"[\"']?([A-Za-z_]\w*)[\"']?\s*:(\s|\Z)")
_HEADER = re.compile(r"\s*[A-Za-z_]+(\s*,\s*[A-Za-z_]+){2,3}\s*\Z")
_YAML_KEYS = frozenset({*DOCUMENT_KEYS, "nextn", "nextn_accepted"})


def read_any(text: str, *, where: str, **hints: Any) -> Acceptance:
    """The acceptance that a text states, whatever its dialect.

    where    file name or option, for messages
    hints    what the text does not say, as `Asked` has it: denominator, k, served, shape, topk, every
    Raises        InputError with the line, what is wrong and which dialects were tried.

    >>> read_any('{"nextn": 3, "nextn_accepted": 1.9}', where="x.json").about["tau"]
    2.9
    """
    asked = _asked(hints)
    try:
        return _with_unused(_read_text(text.lstrip("\ufeff"), asked, where), asked)
    except InputError as error:
        raise _located(error, where) from None


def _asked(hints: dict[str, Any]) -> Asked:
    asked = Asked(**hints)
    for name, given, known in (
        ("denominator", asked.denominator, ("drafted", "generated")),
        ("--as", asked.shape, SHAPES),
    ):
        if given is not None and given not in known:
            raise InputError(f"{name} {str(given)[:20]!r} is not known", hint=" or ".join(known))
    return asked


def _with_unused(found: Acceptance, asked: Asked) -> Acceptance:
    """With a warning of what was said about the file and has no part in it, since the file says it itself.

    >>> read_any("[20, 28, 19, 33]", where="x.json", topk=4).about["warnings"]
    ['--measured-topk 4 has no part in it: that is read of SGLang alone']
    """
    dialect = str(found.about.get("dialect", ""))
    said = []
    if asked.denominator is not None and dialect != "percentage":
        said.append(f"--denominator {asked.denominator} has no part in it: the file holds no bare percentage")
    if asked.topk is not None and not dialect.startswith("sglang"):
        said.append(f"--measured-topk {asked.topk} has no part in it: that is read of SGLang alone")
    if asked.k is not None and asked.k != found.about.get("k"):
        said.append(f"--measured-k {asked.k} has no part in it: the file says what was drafted")
    if not said:
        return found
    return replace(found, about={**found.about, "warnings": [*(found.about.get("warnings") or ()), *said]})


def _located(error: InputError, where: str) -> InputError:
    message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
    return InputError(message, hint=error.hint)


def _read_text(text: str, asked: Asked, where: str) -> Acceptance:
    if not text.strip():
        raise InputError(f"{where}: empty", hint="is it the right file?")
    if _is_json(text):
        unwrap = wrapping(_first_line(text))
        if unwrap is not None:
            lines = ((at, unwrap(line)) for at, line in enumerate(text.splitlines(), 1))
            return _read_lines(lines, asked, where, head="")
        return _read_json(text, asked, where)
    found = _document(text, asked, where)
    return found if found is not None else _read_lines(enumerate(text.splitlines(), 1), asked, where, head=text[:_HEAD])


def _is_json(text: str) -> bool:
    """Whether it starts like JSON; log lines may start with a date, a level or a name in brackets."""
    return text.lstrip()[:1] in ("{", "[") and not _BRACKETED.match(text.lstrip())


# ---- documents and tables


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")


def _document(text: str, asked: Asked, where: str) -> Acceptance | None:
    """A table of counts or a YAML document, None for neither."""
    first = _first_line(text)
    if golden.MARK.search(text[:_HEAD]) and not first.lstrip().startswith(("{", "[")):
        return _golden(text, asked, where)
    if "," in first and ":" not in first and {"accepted", "trials"} & {c.strip().casefold() for c in first.split(",")}:
        refuse_part(asked)
        return acceptance_from_csv(text, where=where)
    key = _KEY.match(first)
    if not key or key[1] not in _YAML_KEYS:
        return None
    return _from_mapping(parse_yaml(text, where=where), asked, where)


def _golden(text: str, asked: Asked, where: str) -> Acceptance | None:
    """InferenceX's table of lengths by K, with what its comments say of the run."""
    reading = golden.golden(parse_yaml(text, where=where), asked)
    if reading is None:
        return None
    said = golden.conditions(text[:_HEAD])
    about = {"workload": said["workload"]} if "workload" in said else {}
    return to_acceptance(replace(reading, temperature=said.get("temperature"), about=about), asked, source=where)


def _from_mapping(data: Any, asked: Asked, where: str) -> Acceptance:
    if asked.shape is not None:
        return to_acceptance(bare.as_stated(data, asked.shape), asked, source=where)
    if isinstance(data, dict) and _is_document(data):
        refuse_part(asked)
        return acceptance_from_document(data, where=where)
    if is_rows(data):
        refuse_part(asked)
        return acceptance_from_rows(data, where=where)
    for name, read in json_readers().items():
        try:
            reading = read(data, asked)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise InputError(
                f"{where}: looks like {name}, but holds a value of another kind: {str(error)[:80]}",
                hint="is it complete, and as the tool wrote it?",
            ) from None
        if reading is not None:
            return to_acceptance(reading, asked, source=where)
    if isinstance(data, dict) and set(DOCUMENT_KEYS) & data.keys():
        return acceptance_from_document(data, where=where)
    keys = f" with the keys {', '.join(map(str, data))[:80]}" if isinstance(data, dict) and data else ""
    raise InputError(f"{where}: data{keys} that says nothing of acceptance", hint=f"tried: {', '.join(json_readers())}")


def _is_document(data: dict[str, Any]) -> bool:
    schema = str(data.get("schema", ""))
    return "kind" in data or schema.startswith("specplan.") or set(data) <= set(DOCUMENT_KEYS)


# ---- JSON


def _read_json(text: str, asked: Asked, where: str) -> Acceptance:
    return _from_mapping(_json_lines(text, where) or parse_json(text, where=where), asked, where)


def _json_lines(text: str, where: str) -> list[Any] | None:
    """JSON with one object a line, None where it is one value."""
    lines = [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) < 2 or not lines[0][1].rstrip().endswith(("}", "]")) or not lines[1][1].startswith(("{", "[")):
        return None
    return [parse_json(line, where=f"{where}:{at}") for at, line in lines]


# ---- lines

# Under which key a collector of logs keeps the line: Docker's json-file, journald, and what programs write themselves.
_WRAPPED = ("log", "MESSAGE", "message", "msg", "textPayload")


def wrapping(first: str) -> Callable[[str], str] | None:
    """What takes a line out of the JSON object that a log collector put around it; None where there is no such thing.

    >>> wrapping('{"log": "INFO x", "stream": "stderr"}')('{"log": "INFO y", "stream": "stderr"}')
    'INFO y'
    """
    if not first.startswith("{") or not first.rstrip().endswith("}"):
        return None
    key = next((key for key in _WRAPPED if _wrapped(first, key)), None)
    return None if key is None else lambda line: _wrapped(line, key) or line


def _wrapped(line: str, key: str) -> str | None:
    """The text under the key; None where the line is no object that has it."""
    import json

    if f'"{key}"' not in line:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    text = found.get(key) if isinstance(found, dict) else None
    return text.rstrip("\r\n") if isinstance(text, str) else None


def _read_lines(lines: Iterable[tuple[int, str]], asked: Asked, where: str, *, head: str) -> Acceptance:
    """One pass over numbered lines; each goes to the readers whose mark it holds."""
    if asked.shape is not None:
        raise InputError(f"{where}: --as says what bare numbers are", hint="a log or a page says itself: leave it out")
    readers = {name: make() for name, make in line_readers().items()}
    marks = [(mark, name, reader) for name, reader in readers.items() for mark in reader.marks]
    seen: dict[str, str] = {}
    for at, line in lines:
        if "\x1b" in line:
            line = _COLOUR.sub("", line)
        taken = None
        for mark, name, reader in marks:
            if mark in line and name != taken:
                taken = name
                seen.setdefault(name, f"{where}:{at}")
                reader.add(line, f"{where}:{at}")
    found = {name: reading for name, reader in readers.items() if (reading := reader.reading(asked)) is not None}
    if len(found) > 1:
        raise _mixed(found, seen, where)
    if found:
        return to_acceptance(next(iter(found.values())), asked, source=where)
    return _nothing(head, asked, where)


def _mixed(found: dict[str, Reading], seen: dict[str, str], where: str) -> InputError:
    (first, _), (second, _) = list(found.items())[:2]
    return InputError(
        f"{where}: a {first} ({seen[first]}) and a {second} ({seen[second]}) in one file",
        hint="give one of them a file of its own",
    )


def _nothing(head: str, asked: Asked, where: str) -> Acceptance:
    """No line said anything: perhaps it was meant as a document or a table."""
    first = _first_line(head)
    if _HEADER.match(first):
        return acceptance_from_csv(head, where=where)
    if _KEY.match(first) and len(head) < _HEAD:
        return _from_mapping(parse_yaml(head, where=where), asked, where)
    raise InputError(
        f"{where}: nothing that says how much was accepted",
        hint=f"tried: documents, tables, {', '.join(line_readers())}; was speculation on, and its metrics?",
    )


# ---- files and servers


def read_acceptance(path: str, *, told: Callable[[int], None] | None = None, **hints: Any) -> Acceptance:
    """The acceptance in a file; `-` is standard input. Logs are read line by line, in constant memory.

    told    is called with the bytes read so far, now and then
    hints   as in `read_any`
    Raises  InputError as `read_any`, also for a file that cannot be read or is binary.
    """
    asked = _asked(hints)
    try:
        if path == "-":
            import sys

            return _with_unused(_read_stream(sys.stdin.buffer, asked, "standard input", told), asked)
        with open(path, "rb") as file:
            return _with_unused(_read_stream(file, asked, path, told), asked)
    except InputError as error:
        raise _located(error, "standard input" if path == "-" else path) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}", hint="check the path") from None
    except ValueError:
        raise InputError(f"{path[:60]!r} is not a path", hint="check the path") from None


def _read_stream(file: IO[bytes], asked: Asked, where: str, told: Callable[[int], None] | None) -> Acceptance:
    head = file.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _torch(head + file.read(LARGEST_FILE), asked, where)
    if b"\0" in head or head.startswith(b"\x80"):
        legacy = head.startswith(b"\x80")
        hint = "a torch file of an old version? save the vector as JSON" if legacy else "a log, JSON, CSV or YAML"
        raise InputError(f"{where}: binary, not text", hint=hint)
    start = head.decode("utf-8-sig", errors="replace")
    unwrap = wrapping(_first_line(start))
    if unwrap is not None:
        lines = ((at, unwrap(line)) for at, line in _marked_lines(head, file, where, told))
        return _read_lines(lines, asked, where, head="")
    if _is_json(start) or len(head) < _HEAD or _document_at(start):
        rest = file.read(LARGEST_FILE + 1)
        if len(head) + len(rest) > LARGEST_FILE:
            raise InputError(f"{where}: larger than 100 MB", hint="JSON and tables of that size are not read")
        return _read_text(_text(head + rest, where), asked, where)
    return _read_lines(_marked_lines(head, file, where, told), asked, where, head=start)


def _document_at(start: str) -> bool:
    first = _first_line(start)
    key = _KEY.match(first)
    return bool(key and key[1] in _YAML_KEYS) or first.casefold().startswith(("depth,", "path,"))


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="replace")
        if text.count("\ufffd") > len(text) // 100 + 8:
            raise InputError(f"{where}: binary, not text", hint="a log, JSON, CSV or YAML in UTF-8") from None
        return text


def _marked_lines(
    head: bytes, file: IO[bytes], where: str, told: Callable[[int], None] | None
) -> Iterator[tuple[int, str]]:
    """The lines that hold a mark of any reader, with their numbers; of what was read already and of the rest.

    Blocks without a mark are never taken apart, so that a long log costs little more than reading it.
    """
    marks = sorted({mark.encode() for make in line_readers().values() for mark in make().marks})
    before = 0
    for block, done, endless in _blocks(head, file):
        if b"\0" in block or endless:
            at = before + 1 + block.count(b"\n", 0, block.find(b"\0") if b"\0" in block else None)
            raise InputError(f"{where}:{at}: binary, or a line of a megabyte", hint="a log has lines of text")
        start, number = 0, before + 1
        for first in _line_starts(block, marks):
            number += block.count(b"\n", start, first)
            start = first
            end = block.find(b"\n", first)
            line = block[first:] if end < 0 else block[first:end]
            yield number, line.decode("utf-8", errors="replace").rstrip("\r")
        before += block.count(b"\n")
        if told is not None:
            told(done)


def _blocks(head: bytes, file: IO[bytes]) -> Iterator[tuple[bytes, int, bool]]:
    """Whole lines, about a megabyte at a time; the bytes read so far; whether the last line is too long to be one."""
    block, done = head, len(head)
    while block:
        rest = b"" if block.endswith(b"\n") else file.readline(LONGEST_LINE)
        done += len(rest)
        yield block + rest, done, len(rest) >= LONGEST_LINE
        block = file.read(BLOCK)
        done += len(block)


def _line_starts(block: bytes, marks: Sequence[bytes]) -> list[int]:
    """Where the lines begin that hold a mark, in order."""
    found: set[int] = set()
    for mark in marks:
        at = block.find(mark)
        while at >= 0:
            found.add(block.rfind(b"\n", 0, at) + 1)
            end = block.find(b"\n", at)
            at = block.find(mark, end) if end >= 0 else -1
    return sorted(found)


def _torch(data: bytes, asked: Asked, where: str) -> Acceptance:
    from .torch_file import read_tensors

    found = read_tensors(data, where=where)
    if isinstance(found, list) and found and all(type(value) in (int, float) for value in found):
        if asked.shape is not None:
            return to_acceptance(bare.as_stated(found, asked.shape), asked, source=where)
        return to_acceptance(sequoia.vector(found), asked, source=where)
    if isinstance(found, list) and found and all(_is_table(table) for table in found):
        return to_acceptance(medusa.hits(found), asked, source=where)
    raise InputError(
        f"{where}: tensors of a shape that is not known here",
        hint="a vector of rates (Sequoia), or one table of hits a head, [positions, ranks] (Medusa)",
    )


def _is_table(given: Any) -> bool:
    return isinstance(given, Sequence) and bool(given) and isinstance(given[0], list) and not isinstance(given, str)


def fetch_page(url: str, *, timeout_s: float = 10.0) -> str:
    """The text behind a URL, at most 100 MB. The only place that uses the network, and only when asked to.

    Raises  InputError for something that is no http(s) address, EnvironmentProblem when nothing answers.
    """
    from http.client import HTTPException
    from urllib.error import URLError
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url[:80]!r} is not an http address", hint="http://localhost:8000/metrics")
    try:
        with urlopen(url, timeout=timeout_s) as answer:
            data: bytes = answer.read(LARGEST_FILE + 1)
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))[:120]
        raise EnvironmentProblem(f"{url}: {reason}", hint="is the server up, and is the path right?") from None
    if len(data) > LARGEST_FILE:
        raise InputError(f"{url}: larger than 100 MB", hint="is it the metrics page?")
    return _text(data, url)


def read_url(url: str, *, for_s: float | None = None, **hints: Any) -> Acceptance:
    """The acceptance of a running server: since its start, or of the next `for_s` seconds as a difference.

    Raises  InputError when the page says nothing, has no counters to subtract, or counters went backwards.
    """
    first = read_any(fetch_page(url), where=url, **hints)
    if for_s is None:
        return first
    import time

    from ..acceptance.drift import window

    time.sleep(for_s)
    return window(first, read_any(fetch_page(url), where=url, **hints))
