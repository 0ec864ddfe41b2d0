"""A draft model beside its target: sizes, vocabularies, positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.errors import InputError
from ..base.units import show_count
from .spec import ModelSpec
from .vocabulary import said_of_sizes

if TYPE_CHECKING:
    pass


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
    guessed = is_count_alone(draft) or is_count_alone(target)
    said = None if guessed else said_of_sizes(draft.vocab, target.vocab)
    return [*warnings, said] if said else warnings


def bytes_ratio(draft: ModelSpec, target: ModelSpec) -> float:
    """Bytes of a draft pass over those of a target pass of one token, weights alone."""
    return _active_bytes(draft) / _active_bytes(target)


def _active_bytes(model: ModelSpec) -> float:
    return sum(m.params_active * model.format_of(m.group).bytes_per_weight for m in model.linears)


def context_warning(draft: ModelSpec, context: int) -> str | None:
    """What to say of a draft that was made for fewer positions than the request has; None where it reaches."""
    if draft.max_context is None or context <= draft.max_context:
        return None
    return (
        f"the draft {draft.name} was made for {draft.max_context} positions, the request has {context}: "
        "past its end it seldom proposes what the target says, and some engines stop drafting there"
    )


def is_count_alone(model: ModelSpec) -> bool:
    """Whether the model is known by its number of weights alone, so that its LM head is a guess."""
    return any(text.startswith("geometry of a Llama") for text, _ in model.assumptions)
