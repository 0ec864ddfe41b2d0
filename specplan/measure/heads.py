"""Heads that draft from the target's own output: Medusa-style and EAGLE-style.

File formats, each a directory with one safetensors file:

    Medusa   `0.0.linear.weight`, `0.0.linear.bias`, ..., `0.1.weight` for head 0, and so on, with or without
             `medusa_head.` before: residual blocks x + silu(W x + b), then a matrix to the vocabulary. Head i guesses
             the token i + 2 places after the one whose output it reads
    EAGLE    `fc.weight` (hidden x 2 hidden: embedding first, then feature), `fc.bias` where there is one, and one
             layer as wide as the target's, `layers.0.self_attn.q_proj.weight`, ..., without its first norm;
             `embed_tokens.weight` where it is not the target's. EAGLE-1 and EAGLE-2; EAGLE-3, which reads three
             layers of the target, is refused

Both read the target's normed output. A feature of EAGLE stands with the token after it, so the row of a token lies one
position before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ..base.errors import InputError
from ..base.tree import TokenTree
from ..measure import need
from .decoder import Decoder, KVCache, Layer, causal_mask
from .drafts import children, levels_of
from .walk import Proposal, Sampling


def read_heads(path: str) -> dict[str, Tensor] | None:
    """The tensors of a directory of heads, None when it holds something else."""
    folder = Path(path)
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if len(files) != 1:
        return None
    need("torch", "safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(str(files[0]))
    except (SafetensorError, OSError):
        return None
    named = {name.removeprefix("medusa_head."): tensor for name, tensor in tensors.items()}
    return named if is_medusa(named) or is_eagle(named) or is_eagle3(named) else None


def is_medusa(tensors: Mapping[str, Tensor]) -> bool:
    return "0.0.linear.weight" in tensors


def is_eagle(tensors: Mapping[str, Tensor]) -> bool:
    return "fc.weight" in tensors and not is_eagle3(tensors)


def is_eagle3(tensors: Mapping[str, Tensor]) -> bool:
    return "midlayer.self_attn.q_proj.weight" in tensors or "d2t" in tensors


def _get(tensors: Mapping[str, Tensor], name: str, target: Decoder, path: str, *shape: int) -> Tensor:
    if name not in tensors:
        raise InputError(f"{path}: tensor {name!r} is missing", hint="are these heads of this kind, and whole?")
    found = tensors[name]
    if tuple(found.shape) != shape:
        sizes = " x ".join(map(str, found.shape)), " x ".join(map(str, shape))
        raise InputError(
            f"{path}: tensor {name!r} is {sizes[0]}, the target needs {sizes[1]}", hint="heads belong to one target"
        )
    return found.to(device=target.device, dtype=target.dtype)


# ---- Medusa


@dataclass(frozen=True)
class MedusaHead:
    """Residual blocks (weight, bias), then the matrix to the vocabulary."""

    blocks: tuple[tuple[Tensor, Tensor], ...]
    out: Tensor

    def logits(self, x: Tensor) -> Tensor:
        for weight, bias in self.blocks:
            x = x + F.silu(F.linear(x, weight, bias))
        return F.linear(x, self.out)


def medusa_heads(tensors: Mapping[str, Tensor], target: Decoder, path: str) -> tuple[MedusaHead, ...]:
    """All heads of a file, shapes checked against the target."""
    hidden = target.config.hidden
    heads: list[MedusaHead] = []
    while f"{len(heads)}.0.linear.weight" in tensors:
        head = len(heads)
        blocks: list[tuple[Tensor, Tensor]] = []
        while f"{head}.{len(blocks)}.linear.weight" in tensors:
            stem = f"{head}.{len(blocks)}.linear"
            weight = _get(tensors, f"{stem}.weight", target, path, hidden, hidden)
            blocks.append((weight, _get(tensors, f"{stem}.bias", target, path, hidden)))
        out = _get(tensors, f"{head}.{len(blocks)}.weight", target, path, target.vocab, hidden)
        heads.append(MedusaHead(tuple(blocks), out))
    return tuple(heads)


@dataclass
class MedusaDraft:
    """Head d guesses all nodes of level d from the output at the last accepted token; no pass of its own."""

    name: str
    heads: tuple[MedusaHead, ...]
    tree: TokenTree

    def __post_init__(self) -> None:
        if self.tree.depth > len(self.heads):
            raise InputError(
                f"a tree of {self.tree.depth} levels, and {len(self.heads)} heads", hint="--max-depth limits the tree"
            )

    def begin(self, text: Sequence[int], target_cache: KVCache, hidden: Tensor) -> None:
        self._state = hidden[-1:]

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        tokens = [0] * self.tree.nodes
        drawn: dict[int, Tensor] = {}
        parents: tuple[int, ...] = (-1,)
        for head, level in zip(self.heads, (*levels_of(self.tree), None)):
            logits = head.logits(self._state).expand(len(parents), -1)
            for child, token in children(logits, self.tree, parents, sampling):
                tokens[child] = token
            if sampling.draws_children:
                drawn.update(zip(parents, sampling.probs(logits)))
            parents = level.nodes if level is not None else ()
        return Proposal(self.tree, tokens, drawn)

    def learn(self, path: Sequence[int], hidden: Tensor) -> None:
        self._state = hidden[-1:]

    def along(self, text: Sequence[int], root: int, hidden: Tensor, depth: int) -> Tensor:
        """Logits of the first `depth` levels below place `root`, if the text goes on as it does. Shape [depth, vocab].

        hidden   the target's outputs along the text
        """
        return torch.cat([head.logits(hidden[root - 1 : root]) for head in self.heads[:depth]])


# ---- EAGLE


@dataclass(frozen=True)
class EagleHead:
    """One layer over pairs of a token's embedding and the feature before it; logits by the target's head."""

    decoder: Decoder
    fuse: Tensor
    bias: Tensor | None

    def features(self, tokens: Tensor, before: Tensor, positions: Tensor, cache: KVCache, mask: Tensor) -> Tensor:
        """Guessed features at `tokens`; rows and positions coincide for committed pairs. Shape [n, hidden].

        before   features of the tokens before. Shape [n, hidden]
        """
        pairs = torch.cat((F.embedding(tokens, self.decoder.embedding), before[None]), dim=-1)
        n = tokens.shape[1]
        rows = torch.arange(mask.shape[1] - n, mask.shape[1], device=tokens.device)
        return self.decoder.stack(F.linear(pairs, self.fuse, self.bias), positions, cache, mask, rows)[0]


def eagle_head(tensors: Mapping[str, Tensor], target: Decoder, path: str) -> EagleHead:
    """The head of a file, shapes checked against the target."""
    config = target.config
    hidden, kv, q = config.hidden, config.kv_heads * config.head_dim, config.heads * config.head_dim
    inner = tensors["layers.0.mlp.down_proj.weight"].shape[1] if "layers.0.mlp.down_proj.weight" in tensors else 0

    def get(name: str, *shape: int) -> Tensor:
        return _get(tensors, name, target, path, *shape)

    attention, mlp = "layers.0.self_attn", "layers.0.mlp"
    parts = [get(f"{attention}.{name}_proj.weight", size, hidden) for name, size in (("q", q), ("k", kv), ("v", kv))]
    layer = Layer(
        attention_norm=None,
        qkv=torch.cat(parts),
        o=get(f"{attention}.o_proj.weight", hidden, q),
        mlp_norm=get("layers.0.post_attention_layernorm.weight", hidden),
        gate_up=torch.cat([get(f"{mlp}.{name}_proj.weight", inner, hidden) for name in ("gate", "up")]),
        down=get(f"{mlp}.down_proj.weight", hidden, inner),
    )
    own = "embed_tokens.weight" in tensors
    embedding = get("embed_tokens.weight", target.vocab, hidden) if own else target.embedding
    shape = replace(config, layers=1, intermediate=inner)
    decoder = replace(target, config=shape, embedding=embedding, layers=(layer,))
    bias = get("fc.bias", hidden) if "fc.bias" in tensors else None
    return EagleHead(decoder, get("fc.weight", hidden, 2 * hidden), bias)


@dataclass
class EagleDraft:
    """Guesses features level by level; after a round the guessed ones give way to the target's own."""

    name: str
    head: EagleHead
    tree: TokenTree
    _features: Tensor = field(init=False)

    def begin(self, text: Sequence[int], target_cache: KVCache, hidden: Tensor) -> None:
        self._cache = self.head.decoder.new_cache(target_cache.max_length)
        self._features = hidden
        if len(text) > 1:
            self._run(text, hidden[:-1])
        self._features = hidden[-1:]

    def _run(self, text: Sequence[int], before: Tensor) -> Tensor:
        """The pairs of the last tokens of `text` with the features before them; commits them."""
        count, device = len(before), before.device
        mask = causal_mask(count, self._cache.length, device=device)
        rows = torch.arange(self._cache.length, self._cache.length + count, device=device)
        found = self.head.features(torch.tensor([text[-count:]], device=device), before, rows, self._cache, mask)
        self._cache.keep(range(count))
        return found

    def propose(self, text: Sequence[int], sampling: Sampling) -> Proposal:
        tokens = [0] * self.tree.nodes
        drawn: dict[int, Tensor] = {}
        guessed = {-1: self._run(text, self._features)[-1]}
        length, device = self._cache.length, self._features.device

        def fill(nodes: Sequence[int]) -> None:
            logits = self.head.decoder.logits(torch.stack([guessed[node] for node in nodes]))
            for child, token in children(logits, self.tree, nodes, sampling):
                tokens[child] = token
            if sampling.draws_children:
                drawn.update(zip(nodes, sampling.probs(logits)))

        fill((-1,))
        for level in levels_of(self.tree):
            before = torch.stack([guessed[self.tree.parents[node]] for node in level.nodes])
            committed = torch.ones(len(level.nodes), length, dtype=torch.bool, device=device)
            mask = torch.cat((committed, level.seen.to(device)), dim=1)
            positions = torch.full((len(level.nodes),), length - 1 + level.depth, device=device)
            given = torch.tensor([[tokens[node] for node in level.nodes]], device=device)
            found = self.head.features(given, before, positions, self._cache, mask)
            guessed.update(zip(level.nodes, found))
            fill(level.nodes)
        return Proposal(self.tree, tokens, drawn)

    def learn(self, path: Sequence[int], hidden: Tensor) -> None:
        self._features = hidden

    def along(self, text: Sequence[int], root: int, hidden: Tensor, depth: int) -> Tensor:
        """Logits of the first `depth` levels below place `root`, if the text goes on as it does. Shape [depth, vocab].

        hidden   the target's outputs along the text; places are asked for in rising order
        """
        guessed = [self._run(text[: root + 1], hidden[self._cache.length : root])[-1:]]
        length, device = self._cache.length, hidden.device
        for level in range(1, depth):
            mask = torch.ones(1, length + level, dtype=torch.bool, device=device)
            place = torch.tensor([length - 1 + level], device=device)
            given = torch.tensor([[text[root + level]]], device=device)
            guessed.append(self.head.features(given, guessed[-1], place, self._cache, mask))
        return self.head.decoder.logits(torch.cat(guessed))
