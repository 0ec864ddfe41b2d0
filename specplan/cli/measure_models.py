"""What `measure acceptance` and `measure decode` need: target, draft, prompts, and where they run."""

from dataclasses import dataclass
from typing import Any

from .. import units
from ..errors import EnvironmentProblem, InputError
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
    import torch

    from ..measure import place as places
    from ..measure.adapter import load_any
    from ..measure.draft_names import draft_source
    from ..measure.text import load_tokenizer, read_prompts
    from ..measure.weights import torch_dtype

    model, draft, prompts = (_required(given, name) for name in ("model", "draft", "prompts"))
    dtype = torch_dtype(given.dtype)
    temperature = values.read("--temperature", given.temperature, units.parse_count) or 0.0
    if not 0 <= temperature <= 100:
        raise InputError(f"--temperature {given.temperature} is not from 0 to 100", hint="0 is greedy decoding")
    threads = 1 if given.threads is None else values.positive("--threads", given.threads)
    place = places.place_of(places.choose(given.device), threads=threads)

    def load(path: str) -> Any:
        try:
            return load_any(path, dtype=dtype, device=place.device)
        except (torch.OutOfMemoryError, MemoryError):
            raise EnvironmentProblem(
                f"{path}: does not fit the memory of {place.name}", hint="--dtype bf16 halves it; or a smaller model"
            ) from None

    with values.naming("--model"):
        target = load(model)
        tokenizer = load_tokenizer(model)
    source = draft_source(draft, target, target_path=model, load=load)
    read = read_prompts(prompts, tokenizer)
    tokens = values.positive("--tokens", given.tokens)
    for number, ids in enumerate(read, 1):
        if max(ids) >= target.vocab:
            raise InputError(
                f"{prompts}: prompt {number} has token {max(ids)}, the vocabulary {target.vocab}", hint="check the ids"
            )
    return Room(
        target=target,
        source=source,
        tokenizer=tokenizer,
        prompts=read,
        tokens=tokens,
        temperature=temperature,
        rule=rule_of(given.rule, temperature, source),
        seed=values.read("--seed", given.seed, units.parse_integer) or 0,
        dtype=given.dtype,
        threads=threads,
        place=place,
    )


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
