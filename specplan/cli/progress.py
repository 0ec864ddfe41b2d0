"""How far a long job is, for the line that a terminal shows."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass
class Meter:
    """Bytes read of a file, or the share of a measurement; nothing is shown while the whole is not known.

    what   that is being measured
    """

    done: float = 0
    whole: float = 0
    what: str = ""

    def start(self, path: str) -> None:
        """A file is going to be read; standard input has no known size."""
        self.done = 0
        self.whole = os.path.getsize(path) if os.path.isfile(path) else 0

    def at(self, done: int) -> None:
        """So many bytes were read."""
        self.done = done

    def tell(self, share: float, what: str) -> None:
        """A share of the work is done, and what is measured now."""
        self.done, self.whole, self.what = share, 1, what

    def text(self) -> str:
        """A bar and the share, empty when it is not known.

        >>> Meter(done=25, whole=100).text()
        '[#####...............] 25 %'
        """
        if not self.whole or not (self.done or self.what):
            return ""
        share = min(1.0, self.done / self.whole)
        filled = int(20 * share)
        bar = f"[{'#' * filled}{'.' * (20 - filled)}] {100 * share:.0f} %"
        return f"{bar} {self.what[:24]}".rstrip()


# The file that is being read, or what is being measured, by this command.
METER = Meter()
