"""The command line: arguments -> one core call -> render. No formula lives here."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit; an interrupt ends quietly, however early it comes."""
    try:
        if sys.argv[1:3] == ["completion", "words"]:
            from .words import write

            sys.exit(write(sys.argv[3:]))
        from .app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
