"""The command line: arguments -> one core call -> render. No formula lives here."""

from .app import main

__all__ = ["main"]
