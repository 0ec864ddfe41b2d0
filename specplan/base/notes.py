"""What is said beside an answer: assumptions with their source, notes, warnings.

Code finds a note by its code, never by its words. The core names arguments between backticks (`budget`); the command
line shows the options that they came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEVELS = ("assumption", "note", "warning")


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know of an answer.

    code     what it is about, for programs: draft_vocabulary, curve_interpolated, ...
    level    assumption, note or warning
    source   where an assumption comes from: a file, a paper, an argument between backticks

    >>> Note("context", "assumption", "context 0: an empty cache", "default").level
    'assumption'
    """

    code: str
    level: str
    text: str
    source: str = ""


def assumption(code: str, text: str, source: str) -> Note:
    """Something that the answer rests on."""
    return Note(code, "assumption", text, source)


def note(code: str, text: str) -> Note:
    """Something to know."""
    return Note(code, "note", text)


def warning(code: str, text: str) -> Note:
    """Something that may make the answer wrong."""
    return Note(code, "warning", text)


def with_code(notes: Iterable[Note], *codes: str) -> list[Note]:
    """The notes with one of these codes, in order.

    >>> [n.text for n in with_code([note("a", "first"), warning("b", "second")], "b")]
    ['second']
    """
    return [said for said in notes if said.code in codes]
