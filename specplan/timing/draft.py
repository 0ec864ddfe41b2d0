"""What proposes the tokens, and what one of its passes costs.

A `Draft` is a time by level width, the bytes it takes on the device, and how its passes run. Costs
come from a draft model through the same pass time as the target's, or are given directly.

Heads and early exits are models too: `medusa_heads`, `eagle_head`, `first_layers` and `later_layers` derive
them from the target's geometry, so that one pass time serves all. `methods.py` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ..base.errors import InputError
from ..models.spec import ModelSpec

if TYPE_CHECKING:
    from ..hardware.curve import Curve
    from ..hardware.engines import Engine
    from ..hardware.profile import Hardware

SHAPES = ("sequential", "block")
PASSES = ("all_but_leaf", "all", "expanded")


@dataclass(frozen=True)
class Draft:
    """A way of drafting.

    name        what it is, in words
    pass_s      seconds of one draft pass over `width` tokens per sequence, or a constant
    last        widest level that the time is known for, None when it has no end
    model       the draft model, None when only its time is known
    tp          devices that share it
    free        True when nothing was said of the draft: its cost is taken as 0
    beside      models that lie on the device beside the target for it; None: `model` alone
    passes      passes of a round by depth of the tree where it is not the convention's count: Medusa pays none
    """

    name: str
    pass_s: float | Callable[[int], float] = 0.0
    last: int | None = None
    model: ModelSpec | None = None
    tp: int = 1
    free: bool = False
    beside: tuple[ModelSpec, ...] | None = None
    passes: Callable[[int], int] | None = None

    @property
    def resident(self) -> tuple[ModelSpec, ...]:
        """Models whose weights and caches lie on the device beside the target's."""
        if self.beside is not None:
            return self.beside
        return () if self.model is None else (self.model,)

    def times(self) -> float | Callable[[int], float] | list[float]:
        """As the optimizer takes it: a list where the time is known up to a width only."""
        return self.pass_s if self.last is None else [self.at(width) for width in range(1, self.last + 1)]

    def at(self, width: int) -> float:
        """Seconds of a pass over `width` tokens per sequence."""
        return self.pass_s(width) if callable(self.pass_s) else self.pass_s


def free_draft() -> Draft:
    """A draft whose cost is not counted."""
    return Draft("no draft given", 0.0, free=True)


def timed_draft(seconds: float) -> Draft:
    """A draft whose pass takes `seconds` at any width.

    Raises  InputError for a negative time.
    """
    if not 0 <= seconds < 1e6:
        raise InputError(f"a draft pass of {seconds!r} s is not a time", hint="write --draft-pass 0.5ms")
    return Draft("pass time given", seconds)


def draft_by_ratio(ratio: float, plain_s: float) -> Draft:
    """A draft whose pass takes `ratio` of a plain pass of the target."""
    if not 0 <= ratio <= 1000:
        raise InputError(
            f"--draft-ratio {ratio!r} is not a ratio", hint="0.057 is a draft pass of 5.7 % of a plain pass"
        )
    return Draft(f"{ratio:g} of a plain pass", ratio * plain_s)


def draft_by_curve(curve: Curve) -> Draft:
    """A draft whose pass was measured by level width."""
    return Draft("measured by level width", curve.at, last=curve.last)


def draft_model(
    hardware: Hardware,
    model: ModelSpec,
    *,
    batch: int,
    context: int,
    tp: int,
    time: str,
    engine: Engine | None = None,
) -> Draft:
    """A draft model that runs on the target's device, priced as a pass of its own.

    Its LM head is part of every pass; its cache is as long as the target's.
    """

    from .cost import Load
    from .roofline import PassTimer

    timer = PassTimer(hardware, model, time=time, draft=True, engine=engine)

    @cache
    def seconds(width: int) -> float:
        return timer.seconds(Load(width, batch, context, tp))

    curve = timer.curve(Load(1, batch, context, tp))
    return Draft(model.name, seconds, last=None if curve is None else curve.last, model=model, tp=tp)


def several(drafts: Sequence[Draft], *, parallel: bool) -> Draft:
    """Several drafts that each propose a tree a round: in turn (times add) or side by side (the slowest counts).

    >>> several([timed_draft(1e-3), timed_draft(2e-3)], parallel=True).at(4)
    0.002
    """
    combine: Callable[[Sequence[float]], float] = max if parallel else sum
    ends = [draft.last for draft in drafts if draft.last is not None]
    return Draft(
        " + ".join(draft.name for draft in drafts),
        lambda width: combine([draft.at(width) for draft in drafts]),
        last=min(ends, default=None),
        model=drafts[0].model if len(drafts) == 1 else None,
        tp=max(draft.tp for draft in drafts),
        beside=tuple(model for draft in drafts for model in draft.resident),
    )


# ---- heads, as models

# ---- the target cut at an exit layer
