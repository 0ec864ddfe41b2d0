"""What `--draft` means: another model, layers of the target, or the text itself.

DIR | FILE      a model in safetensors or GGUF; Medusa-style or EAGLE-style heads where the directory holds those
early-exit:N    the target's first N layers, in the target's own cache
skip:N          the target without the N middle layers; skip:12-16 or skip:3,7 names layers, 0 the first
ngram[:N]       what followed the last N (3) or fewer tokens before
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from ..base.errors import InputError
from ..base.tree import TokenTree
from ..models.vocabulary import DIFFER, said_of_sizes, said_of_tokenizers
from .decoder import Decoder
from .drafts import Draft, Model, ModelDraft, NgramDraft
from .heads import EagleDraft, MedusaDraft, eagle_head, is_eagle3, is_medusa, medusa_heads, read_heads

WORDS = ("early-exit", "skip", "ngram")


@dataclass(frozen=True)
class DraftSource:
    """A way of drafting, before it is given a tree.

    model    the decoder that drafts, None where none does
    shared   it is the target's first layers, in the target's cache
    layers   of the target that it runs, None where it is no part of the target
    longest  context of n-grams, in tokens
    heads    Medusa-style or EAGLE-style heads
    make     the draft of a tree
    """

    name: str
    make: Callable[[TokenTree], Draft]
    model: Model | None = None
    shared: bool = False
    layers: tuple[int, ...] | None = None
    longest: int = 0
    heads: bool = False


def draft_source(text: str, target: Model, *, target_path: str, load: Callable[[str], Model]) -> DraftSource:
    """The way of drafting that `text` names.

    load    reads a model from a path
    Raises  InputError that says what is wrong, and how it is written.
    """
    word, colon, rest = text.partition(":")
    if word not in WORDS:
        return _model(text, target, target_path, load)
    if word == "ngram":
        longest = _whole(text, rest, 1, 16) if colon else 3
        return DraftSource(text, lambda tree: NgramDraft(tree, longest), longest=longest)
    if not isinstance(target, Decoder):
        raise InputError(f"--draft {text}: its layers cannot be run apart here", hint="give a draft model")
    total = target.config.layers
    if word == "early-exit":
        layers: tuple[int, ...] = tuple(range(_whole(text, rest, 1, total - 1)))
    else:
        skipped = skipped_layers(rest, total, text)
        layers = tuple(layer for layer in range(total) if layer not in skipped)
    shared = word == "early-exit"
    part = target.with_layers(layers)
    return DraftSource(
        text, lambda tree: ModelDraft(text, part, tree, target.vocab, shared), part, shared=shared, layers=layers
    )


def _model(text: str, target: Model, target_path: str, load: Callable[[str], Model]) -> DraftSource:
    tensors = read_heads(text)
    if tensors is not None:
        return _heads(text, tensors, target)
    model = load(text)
    for said in (said_of_sizes(model.vocab, target.vocab), said_of_tokenizers(text, target_path)):
        if said is not None and said.startswith(DIFFER):
            raise InputError(f"--draft {text}: {said}", hint="a draft model must have the target's vocabulary")
    return DraftSource(text, lambda tree: ModelDraft(text, model, tree, target.vocab), model)


def _heads(text: str, tensors: Mapping[str, Tensor], target: Model) -> DraftSource:
    if is_eagle3(tensors):
        raise InputError(
            f"--draft {text}: EAGLE-3 heads read three layers of the target, which is not done here",
            hint="EAGLE-1, EAGLE-2 and Medusa heads are read",
        )
    if not isinstance(target, Decoder):
        raise InputError(f"--draft {text}: heads need a target that is computed here", hint="give a draft model")
    if is_medusa(tensors):
        heads = medusa_heads(tensors, target, text)
        return DraftSource(text, lambda tree: MedusaDraft(text, heads, tree), heads=True)
    eagle = eagle_head(tensors, target, text)
    return DraftSource(text, lambda tree: EagleDraft(text, eagle, tree), heads=True)


def _whole(text: str, number: str, least: int, most: int) -> int:
    if not number.isdigit() or not least <= int(number) <= most:
        word = text.partition(":")[0]
        raise InputError(f"--draft {text[:40]}: give a whole number from {least} to {most}", hint=f"{word}:{least}")
    return int(number)


def skipped_layers(rest: str, total: int, text: str) -> set[int]:
    """Layers that `skip:` leaves out: the N middle ones, or those named; the first and the last always run.

    >>> sorted(skipped_layers("2", 6, "skip:2")), sorted(skipped_layers("1,3-4", 6, "skip:1,3-4"))
    ([2, 3], [1, 3, 4])
    """
    if rest.isdigit():
        count = _whole(text, rest, 1, total - 2)
        first = (total - count) // 2
        return set(range(first, first + count))
    found: set[int] = set()
    for part in rest.split(","):
        low, dash, high = part.partition("-")
        last = high if dash else low
        if not low.isdigit() or not last.isdigit() or not 0 < int(low) <= int(last) < total - 1:
            raise InputError(
                f"--draft {text[:40]}: {part[:20]!r} is not a layer from 1 to {total - 2}",
                hint="skip:5 leaves out the 5 middle layers, skip:12-16 those",
            )
        found |= set(range(int(low), int(last) + 1))
    return found
