"""Option text -> values, with the name of the option in every error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..base import units
from ..base.errors import InputError

T = TypeVar("T")


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Errors inside name the option that the value came from."""
    try:
        yield
    except InputError as error:
        if option in error.message:
            raise
        raise InputError(f"{option}: {error.message}", hint=error.hint) from None


def read(option: str, text: str | None, parse: Callable[[str], T]) -> T | None:
    """The parsed value of an option, None when it was not given."""
    if text is None:
        return None
    with naming(option):
        return parse(text)


def read_file(option: str, path: str) -> str:
    """The text of a file, with the option in errors."""
    from ..base.files import read_text

    with naming(option):
        return read_text(path)


def positive(option: str, text: str) -> int:
    """A whole number from 1 up."""
    value = read(option, text, units.parse_integer)
    assert value is not None
    if value < 1:
        raise InputError(f"{option} {value} is below 1", hint=f"{option} is a whole number from 1 up")
    return value


def tie(text: str) -> float:
    """The share within which shapes count as equal."""
    value = read("--tie", text, units.parse_share)
    if value is None or not 0 <= value < 1:
        raise InputError(f"--tie {text} is not in [0, 1)", hint="write 1% or 0.01")
    return value


def tolerance(text: str | None) -> float | None:
    """How far off a term may be: a share in [0, 1), None when it was not given."""
    value = read("--tolerance", text, units.parse_share)
    if value is not None and not 0 <= value < 1:
        raise InputError(f"--tolerance {text} is not in [0, 1)", hint="a share, such as 15% or 0.15")
    return value


def share(option: str, text: str) -> float:
    """A number in [0, 1]."""
    value = read(option, text, units.parse_share)
    assert value is not None
    if not 0 <= value <= 1:
        hint = "a decimal point, not a comma: 0.6" if "," in text else "a probability is between 0 and 1"
        raise InputError(f"{option} {text} is outside [0, 1]", hint=hint)
    return value
