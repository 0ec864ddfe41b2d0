"""Whether a draft's token ids mean the target's tokens: by size, and by the tokens where both models' files hold them.

>>> said_of_sizes(151936, 152064)
'padded vocabularies: draft 151936, target 152064 rows; rows up to 256 apart are padding as a rule'
>>> said_of_sizes(128256, 128256) is None
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import InputError

# Rows that vocabularies of one family are padded by (vllm-project/vllm#5203: Qwen2 0.5B and 7B are 128 apart).
PADDING = 256
MAX_TOKENIZER_BYTES = 100_000_000
DIFFER = ("vocabularies differ", "tokenizers differ")


def said_of_sizes(draft: int, target: int) -> str | None:
    """What to say of two sizes; None where they are equal. What starts with a phrase of `DIFFER` is a mismatch."""
    if draft == target:
        return None
    if abs(draft - target) <= PADDING:
        sizes = f"draft {draft}, target {target} rows"
        return f"padded vocabularies: {sizes}; rows up to {PADDING} apart are padding as a rule"
    return f"vocabularies differ: draft {draft}, target {target}; make sure that the tokenizer is the same"


def said_of_tokenizers(draft: str, target: str) -> str | None:
    """What to say of the tokenizers beside two models' files; None where they agree or one is not there.

    draft, target   as the user named the models; bundled names have no tokenizer with them
    Raises          InputError for a tokenizer file that cannot be read.
    """
    ours, theirs = _tokenizer(Path(draft)), _tokenizer(Path(target))
    if ours is None or theirs is None or ours == theirs:
        return None
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        wrong = [token for token, at in ours.items() if theirs.get(token, at) != at]
        apart = len(ours.keys() ^ theirs.keys())
        if not wrong and apart <= PADDING:
            return None
        of = f"{len(wrong)} of {len(ours)} tokens have another id, {apart} are in one of the two alone"
        return f"tokenizers differ: {of}; drafted ids would be read as other tokens"
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return f"tokenizers differ: draft {' '.join(ours)}, target {' '.join(theirs)}"
    return None


def _tokenizer(path: Path) -> Mapping[str, int] | tuple[str, ...] | None:
    """Tokens with their ids from a directory's tokenizer.json; kind and rule of splitting from a GGUF file."""
    if path.suffix.casefold() == ".gguf" and path.is_file():
        from .weights import gguf_header

        known = gguf_header(path).metadata
        named = (known.get("tokenizer.ggml.model"), known.get("tokenizer.ggml.pre"))
        return tuple(str(name) for name in named if name) or None
    folder = path.parent if path.name == "config.json" else path
    file = folder / "tokenizer.json"
    return _tokens(file) if folder.is_dir() and file.is_file() else None


def _tokens(file: Path) -> Mapping[str, int]:
    try:
        if file.stat().st_size > MAX_TOKENIZER_BYTES:
            raise ValueError("it is too large")
        document: Any = json.loads(file.read_text(encoding="utf-8"))
        listed = document["model"]["vocab"]
        pairs = listed.items() if isinstance(listed, dict) else ((entry[0], at) for at, entry in enumerate(listed))
        added = ((entry["content"], entry["id"]) for entry in document.get("added_tokens") or ())
        return {str(token): int(at) for token, at in (*pairs, *added)}
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or 'cannot be read'}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file}: no tokenizer: {str(error)[:80] or type(error).__name__}",
            hint="give the file that the model came with, or move it away: sizes are compared then",
        ) from None
