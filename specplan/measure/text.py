"""Texts to token ids and back, and the prompts that are measured.

A tokenizer comes from `tokenizer.json`, or from the fields of a GGUF file whose vocabulary is byte-level BPE.
A prompts file is text with one prompt a line, or JSON lines with `prompt`, `messages`, `turns` (the first is taken) or
`tokens` (ids). Chats need the model's own template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import InputError
from ..base.files import parse_json, read_text
from ..measure import need
from ..models.load import read_json
from .weights import find_model

# How byte-level vocabularies cut the text before merging, by the name of llama.cpp; a pattern, or None for GPT-2's own.
# Sources: the pre_tokenizer of the models' tokenizer.json.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3, _QWEN2 = _WORDS + r"\p{N}{1,3}" + _REST, _WORDS + r"\p{N}" + _REST
PATTERNS = {"gpt-2": None, "default": None, "smollm": None, "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "qwen2": _QWEN2}
SINGLE_DIGITS = ("smollm",)
CONTROL = 3


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary with the ids that end a text, and the template of a chat."""

    backend: Any
    end_ids: frozenset[int] = frozenset()
    start_id: int | None = None
    template: str = ""
    specials: tuple[tuple[str, str], ...] = ()

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with the start token where the model expects one."""
        ids: list[int] = self.backend.encode(text).ids
        return ids if self.start_id is None or ids[:1] == [self.start_id] else [self.start_id, *ids]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.backend.decode(list(ids)))

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Ids of a chat, up to where the answer starts.

        Raises  InputError when the model has no template, or the template refuses the messages.
        """
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if not self.template:
            raise InputError("the model has no chat template", hint="give the prompts as text, with 'prompt'")
        room = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            text = room.from_string(self.template).render(
                messages=list(messages), add_generation_prompt=True, **dict(self.specials)
            )
        except (TemplateError, TypeError) as error:
            raise InputError(
                f"the chat template refuses a prompt: {str(error)[:100]}", hint="check its roles"
            ) from None
        ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        return ids

    def vocabulary(self) -> Mapping[str, int]:
        found: dict[str, int] = self.backend.get_vocab(with_added_tokens=True)
        return found


def load_tokenizer(path: str) -> Tokenizer | None:
    """The tokenizer of a model, None when it has none.

    Raises  InputError for a vocabulary that is not byte-level BPE in a GGUF file.
    """
    need("torch", "tokenizers")
    file = find_model(path)
    folder = file if file.is_dir() else file.parent
    if (folder / "tokenizer.json").is_file():
        return _from_folder(folder)
    return _from_gguf(file) if file.suffix == ".gguf" else None


def _from_folder(folder: Path) -> Tokenizer:
    import tokenizers

    try:
        backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises bare Exception
        raise InputError(f"{folder / 'tokenizer.json'}: {str(error)[:100]}", hint="fetch the file again") from None
    said = {name: _json(folder / name) for name in ("tokenizer_config.json", "generation_config.json", "config.json")}
    about = said["tokenizer_config.json"]
    template = about.get("chat_template")
    if (folder / "chat_template.jinja").is_file():
        template = read_text(str(folder / "chat_template.jinja"))
    ends = said["generation_config.json"].get("eos_token_id", said["config.json"].get("eos_token_id"))
    return Tokenizer(
        backend,
        frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends]),
        template=template if isinstance(template, str) else "",
        specials=tuple((name, _special(about.get(name))) for name in ("bos_token", "eos_token")),
    )


def _json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _special(value: Any) -> str:
    return str(value.get("content", "")) if isinstance(value, Mapping) else str(value or "")


def _from_gguf(path: Path) -> Tokenizer | None:
    need("gguf")
    import gguf
    from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    fields = gguf.GGUFReader(path).fields

    def said(name: str, default: Any = None) -> Any:
        field = fields.get(f"tokenizer.{name}")
        return default if field is None else field.contents()

    if said("ggml.tokens") is None:
        return None
    kind, cut = said("ggml.model"), said("ggml.pre", "default")
    if kind != "gpt2" or cut not in PATTERNS:
        raise InputError(
            f"{path}: a vocabulary of kind {kind!r}, {cut!r} is not read from GGUF",
            hint="put the model's tokenizer.json beside the file",
        )
    tokens: list[str] = said("ggml.tokens")
    merges = [tuple(pair.split(" ", 1)) for pair in said("ggml.merges", [])]
    backend = Backend(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if cut in SINGLE_DIGITS else []
    pattern = PATTERNS[cut]
    if pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, said("ggml.token_type", [])) if kind == CONTROL]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    start, end = said("ggml.bos_token_id"), said("ggml.eos_token_id")
    names = (("bos_token", start), ("eos_token", end))
    return Tokenizer(
        backend,
        frozenset(i for i in (end, said("ggml.eot_token_id")) if i is not None),
        start_id=start if said("ggml.add_bos_token", False) else None,
        template=said("chat_template", ""),
        specials=tuple((name, "" if i is None else tokens[i]) for name, i in names),
    )


# ---- prompts


def read_prompts(path: str, tokenizer: Tokenizer | None) -> list[list[int]]:
    """Token ids of every prompt of a file.

    Raises  InputError that names the line.
    """
    lines = [(n, line) for n, line in enumerate(read_text(path).splitlines(), 1) if line.strip()]
    if not lines:
        raise InputError(f"{path}: no prompts", hint="one prompt a line, or JSON lines with 'prompt' or 'messages'")
    return [_ids(line, f"{path}:{n}", tokenizer) for n, line in lines]


def _ids(line: str, where: str, tokenizer: Tokenizer | None) -> list[int]:
    said: Any = parse_json(line, where=where) if line.lstrip().startswith("{") else {"prompt": line.strip()}
    try:
        ids = _read(said, tokenizer)
    except InputError as error:
        raise InputError(f"{where}: {error.message}", hint=error.hint) from None
    if not ids:
        raise InputError(f"{where}: an empty prompt", hint="a prompt has at least one token")
    return ids


def _read(said: Mapping[str, Any], tokenizer: Tokenizer | None) -> list[int]:
    hint = 'a line is text, or JSON with "prompt", "messages", "turns" or "tokens"'
    if "tokens" in said:
        ids = said["tokens"]
        if not isinstance(ids, list) or not all(type(i) is int and i >= 0 for i in ids):
            raise InputError("tokens is not a list of ids", hint=hint)
        return ids
    if tokenizer is None:
        raise InputError(
            "the model has no tokenizer", hint='put tokenizer.json beside it, or give ids: {"tokens": [..]}'
        )
    prompt, messages, turns = (said.get(name) for name in ("prompt", "messages", "turns"))
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        messages = [{"role": "user", "content": turns[0]}]
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise InputError(f"no prompt in {json.dumps(said)[:60]}", hint=hint)
    return tokenizer.chat(messages)
