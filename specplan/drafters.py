"""What proposes the tokens, and what one of its passes costs.

A `Draft` is a time by level width, the bytes it takes on the device, and how its passes run. Costs
come from a draft model through the same pass time as the target's, or are given directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .errors import InputError
from .units import show_count

if TYPE_CHECKING:
    from .curve import Curve
    from .engines import Engine
    from .hardware import Hardware
    from .model import ModelSpec

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
    """

    name: str
    pass_s: float | Callable[[int], float] = 0.0
    last: int | None = None
    model: ModelSpec | None = None
    tp: int = 1
    free: bool = False

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

    return Draft(model.name, seconds, model=model, tp=tp)


def check_against_target(draft: ModelSpec, target: ModelSpec) -> list[str]:
    """Warnings on the pair; a draft as large as the target is refused.

    Raises  InputError when the draft has at least the target's active parameters.
    """
    if draft.params_active >= target.params_active and draft != target:
        raise InputError(
            f"the draft {draft.name} is no smaller than the target {target.name}: "
            f"{show_count(draft.params_active)} active parameters against {show_count(target.params_active)}",
            hint="are --model and --draft swapped?",
        )
    warnings = []
    ratio = bytes_ratio(draft, target)
    if ratio > 0.25:
        warnings.append(f"a draft pass reads {ratio:.0%} of the target's active bytes; above 25 % drafting seldom pays")
    if draft.vocab != target.vocab:
        warnings.append(
            f"vocabularies differ: draft {draft.vocab}, target {target.vocab}; make sure that the tokenizer is the same"
        )
    return warnings


def bytes_ratio(draft: ModelSpec, target: ModelSpec) -> float:
    """Bytes of a draft pass over those of a target pass of one token, weights alone."""
    return _active_bytes(draft) / _active_bytes(target)


def _active_bytes(model: ModelSpec) -> float:
    return sum(m.params_active * model.format_of(m.group).bytes_per_weight for m in model.linears)
