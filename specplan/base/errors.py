"""The exception family.

    SpecplanError            anything specplan raises on purpose
    |- InputError            exit 2: an option, a file or a value is wrong
    |- DoesNotFit            exit 3: the model does not fit, or the shape has no form in the stack
    `- EnvironmentProblem    exit 4: something of this machine is missing

Each carries two lines: where and what, then a hint. The command line prints just these two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

from collections.abc import Iterable
from difflib import get_close_matches


class SpecplanError(Exception):
    """Base of every error that specplan raises on purpose.

    message   where it is and what is wrong, one line
    hint      what to do about it, one line
    """

    exit_code = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class InputError(SpecplanError):
    """An option, a file or a value is wrong."""

    exit_code = 2


class DoesNotFit(SpecplanError):
    """The model does not fit the device, or the shape has no form in the stack."""

    exit_code = 3


class EnvironmentProblem(SpecplanError):
    """Something of this machine is missing: a library, a device, a permission."""

    exit_code = 4


def nearest(name: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """The known names closest to `name`, best first; a name that contains it counts as close.

    >>> nearest("bandwith", ["capacity", "bandwidth"])
    ['bandwidth']
    """
    names = list(known)
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    wanted = name.casefold()
    close = get_close_matches(wanted, folded, n=count, cutoff=0.6)
    inside = sorted((key for key in folded if wanted and wanted in key and key not in close), key=len)
    return [folded[key] for key in (close + inside)[:count]]


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A hint that names the closest known names, or `otherwise` when nothing is close.

    >>> did_you_mean("bandwith", ["capacity", "bandwidth"])
    "did you mean 'bandwidth'?"
    """
    close = nearest(name, known)
    if not close:
        return otherwise
    return "did you mean " + " or ".join(repr(match) for match in close) + "?"


class Missing(InputError):
    """A method lacks an input; nothing that was given is wrong."""
