"""What `measure acceptance` and `measure decode` need: target, draft, prompts, and where they run."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..base import units
from ..base.errors import EnvironmentProblem, InputError
from . import values
from .options import Decoding


@dataclass(frozen=True)
class Room:
    """Everything that a measurement takes, read and checked.

    prompts   token ids of each
    end_ids   tokens that end an answer
    """

    target: Any
    source: Any
    tokenizer: Any
    prompts: list[list[int]]
    tokens: int
    temperature: float
    rule: str
    seed: int
    dtype: str
    threads: int
    place: Any

    @property
    def end_ids(self) -> Any:
        return self.tokenizer.end_ids if self.tokenizer else ()

    @property
    def inputs(self) -> dict[str, Any]:
        """The effective values, for the document."""
        return {
            "prompts": len(self.prompts),
            "tokens": self.tokens,
            "temperature": self.temperature,
            "rule": self.rule,
            "seed": self.seed,
            "dtype": self.dtype,
            "device": str(self.place.device),
            "threads": self.threads,
        }


def room(given: Decoding) -> Room:
    """Load the models and read the prompts.

    Raises  EnvironmentProblem without torch, or when the models do not fit the memory; InputError otherwise.
    """
    from ..measure import need

    need("torch")
    from ..measure import place as places
    from ..measure.adapter import load_any
    from ..measure.draft_names import draft_source
    from ..measure.text import load_tokenizer, read_prompts
    from ..measure.weights import torch_dtype

    model, draft, prompts = (_required(given, name) for name in ("model", "draft", "prompts"))
    dtype = torch_dtype(given.dtype)
    temperature = values.read("--temperature", given.temperature, units.parse_count) or 0.0
    if temperature != 0 and not 0.001 <= temperature <= 100:
        raise InputError(
            f"--temperature {given.temperature} is neither 0 nor from 0.001 to 100", hint="0 is greedy decoding"
        )
    seed = values.read("--seed", given.seed, units.parse_integer) or 0
    if not 0 <= seed < 2**63:
        raise InputError(f"--seed {str(given.seed)[:40]} is not from 0 to 2^63 - 1", hint="--seed 0")
    threads = 1 if given.threads is None else values.positive("--threads", given.threads)
    place = places.place_of(places.choose(given.device), threads=threads)

    def load(path: str) -> Any:
        with enough_memory(f"{path} on {place.name}"):
            return load_any(path, dtype=dtype, device=place.device)

    with values.naming("--model"):
        target = load(model)
        tokenizer = load_tokenizer(model)
    source = draft_source(draft, target, target_path=model, load=load)
    read = read_prompts(prompts, tokenizer)
    tokens = values.positive("--tokens", given.tokens)
    _refuse_unusable(read, prompts, tokens, [target] if source.model is None else [target, source.model])
    return Room(
        target=target,
        source=source,
        tokenizer=tokenizer,
        prompts=read,
        tokens=tokens,
        temperature=temperature,
        rule=rule_of(given.rule, temperature, source),
        seed=seed,
        dtype=given.dtype,
        threads=threads,
        place=place,
    )


def _refuse_unusable(read: list[list[int]], prompts: str, tokens: int, models: list[Any]) -> None:
    """Refuses prompts with unknown tokens, and those that do not fit the context, before anything is measured."""
    vocab = models[0].vocab
    most = min((model.max_context for model in models if model.max_context is not None), default=None)
    for number, ids in enumerate(read, 1):
        where = f"{prompts}: prompt {number}"
        if max(ids) >= vocab:
            raise InputError(f"{where} has token {max(ids)}, the vocabulary {vocab}", hint="check the ids")
        if most is not None and len(ids) + tokens > most:
            raise InputError(
                f"{where} has {len(ids)} tokens, with an answer of {tokens} longer than the context of {most}",
                hint="shorten the prompt, or ask for fewer --tokens",
            )


@contextlib.contextmanager
def enough_memory(place: str) -> Iterator[None]:
    """A device that runs out of memory is a matter of the environment."""
    from ..measure.clocks import out_of_memory

    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise EnvironmentProblem(
            f"{place}: out of memory", hint="--dtype bf16 halves the weights; shorter prompts, fewer --tokens"
        ) from None


def _required(given: Decoding, name: str) -> str:
    value = getattr(given, name)
    if not value:
        hints = {
            "model": "--model DIR with config.json and safetensors, or a .gguf file",
            "draft": "--draft DIR|FILE, early-exit:8, skip:4, ngram",
            "prompts": "--prompts FILE: one prompt a line, or JSON lines",
        }
        raise InputError(f"--{name} is missing", hint=hints[name])
    return str(value)


def rule_of(asked: str | None, temperature: float, source: Any) -> str:
    """The acceptance rule: greedy at temperature 0; else without replacement, or topk where nothing can be drawn."""
    if temperature == 0:
        if asked not in (None, "greedy"):
            raise InputError(f"--rule {asked[:40]} at temperature 0", hint="add --temperature 1, or leave --rule out")
        return "greedy"
    rules = ("topk",) if source.longest else ("without_replacement", "topk", "strict", "typical")
    if asked is None:
        return rules[0]
    if asked not in rules:
        raise InputError(f"--rule {asked[:40]} with --draft {source.name}", hint=f"one of {', '.join(rules)}")
    return asked
