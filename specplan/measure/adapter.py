"""Other architectures through transformers: the same interface as our Decoder, over its modules and its cache.

What has to be right there: attention by SDPA, which takes a boolean mask as it is (the eager code adds it, and is
silently wrong); a mask as wide as the cache with the new tokens; positions always given, since the default ones come
from the length of the cache; and the cache's rows cut and gathered by hand.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..base.errors import InputError
from ..measure import need
from ..models.huggingface.fields import language_fields
from ..models.load import read_json
from .clocks import out_of_memory
from .decoder import FAMILIES, Decoder
from .weights import find_model, load_decoder


def load_any(path: str, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> Decoder | TransformersModel:
    """Our decoder where it computes the architecture, else the model in transformers.

    Raises  InputError for files that are wrong, EnvironmentProblem when transformers is needed and not there.
    """
    place = find_model(path)
    config = place / "config.json"
    if place.is_dir() and config.is_file():
        kind = language_fields(read_json(config), str(config)).text("model_type")
        if kind not in FAMILIES:
            return load_through_transformers(place, dtype=dtype, device=device)
    return load_decoder(path, dtype=dtype, device=device)


def load_through_transformers(
    folder: Path, *, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> TransformersModel:
    """The model in a directory, by AutoModelForCausalLM; nothing is fetched and no code of the model's own is run.

    Raises  InputError for a model that cannot decode with a tree here, and for one that transformers does not load.
    """
    need("torch", "transformers")
    import transformers

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", local_files_only=True, use_safetensors=True
        )
    except (ValueError, OSError, RuntimeError, KeyError, ImportError) as error:
        said = " ".join(str(error).split())[:160]
        raise InputError(
            f"{folder}: transformers does not load it: {said}", hint="check the files of the model"
        ) from None
    found = TransformersModel(model.to(device).eval())
    found.check(str(folder))
    return found


@dataclass
class RowsCache:
    """A DynamicCache of transformers with our idea of committed rows."""

    inner: Any
    max_length: int
    length: int = 0

    def cut(self, rows: int) -> None:
        """Forget the rows from `rows` on."""
        self._select(slice(rows))

    def keep(self, path: Sequence[int]) -> None:
        self._select([*range(self.length), *(self.length + i for i in path)])
        self.length += len(path)

    def _select(self, rows: Any) -> None:
        for layer in self.inner.layers:
            if layer.keys is not None:
                layer.keys, layer.values = layer.keys[..., rows, :], layer.values[..., rows, :]


@dataclass(frozen=True)
class TransformersModel:
    """A causal language model of transformers."""

    model: Any

    @property
    def vocab(self) -> int:
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def max_context(self) -> int | None:
        found = getattr(self.model.config, "max_position_embeddings", None)
        return None if found is None else int(found)

    @property
    def device(self) -> torch.device:
        found: torch.device = self.model.device
        return found

    def new_cache(self, max_length: int) -> Any:
        from transformers import DynamicCache

        return RowsCache(DynamicCache(), max_length)

    def hidden(self, tokens: Tensor, positions: Tensor, cache: Any, mask: Tensor, rows: Tensor) -> Tensor:
        """The normed output of the last layer; `rows` follow each other and end the mask. Shapes as in Decoder."""
        cache.cut(int(rows[0]))
        base = self.model.base_model
        name = "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"
        # Nodes beyond the context are never part of a text, and a table of positions has no row for them.
        known = positions if self.max_context is None else positions.clamp(max=self.max_context - 1)
        given = {name: cache.inner, "position_ids": known[None]}
        out = base(input_ids=tokens, attention_mask=mask[None, None], use_cache=True, **given)
        found: Tensor = out.last_hidden_state
        return found

    def logits(self, hidden: Tensor) -> Tensor:
        """By the head, with the scales and caps that some families put behind it."""
        config = self.model.config
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        logits = logits * (getattr(config, "logit_scale", None) or 1.0)
        logits = logits / (getattr(config, "logits_scaling", None) or 1.0)
        cap = getattr(config, "final_logit_softcapping", None)
        return logits if cap is None else cap * torch.tanh(logits / cap)

    def _window(self) -> str | None:
        """A window shorter than the context, of configs that have one for all layers and do not list them."""
        config = self.model.config
        window = getattr(config, "sliding_window", None)
        if window is None or getattr(config, "use_sliding_window", True) is False:
            return None
        return f"windows of {window} tokens" if window < (self.max_context or math.inf) else None

    def check(self, where: str) -> None:
        """Refuses a model whose own logits are not these, or whose cache does not hold every token.

        Raises  InputError.
        """
        from .tree_decode import prefill

        kinds = set(getattr(self.model.config, "layer_types", None) or [self._window() or "full_attention"])
        if kinds != {"full_attention"}:
            raise InputError(
                f"{where}: its layers are {', '.join(sorted(kinds))}", hint="trees need layers that keep every token"
            )
        text = [1, 0, 1, 1, 0]
        cache = self.new_cache(len(text))
        try:
            with torch.inference_mode():
                ours = self.logits(prefill(self, cache, text))
                theirs = self.model(torch.tensor([text], device=self.device)).logits[0]
        except (ValueError, TypeError, RuntimeError, AttributeError) as error:
            if out_of_memory(error):
                raise
            said = " ".join(str(error).split())[:120]
            raise InputError(
                f"{where}: a pass with a tree's mask fails: {said}", hint="another --dtype, or a dense decoder"
            ) from None
        held = all(layer.keys is not None and layer.keys.shape[-2] == len(text) for layer in cache.inner.layers)
        if not held or not torch.allclose(ours.float(), theirs.float(), atol=1e-2, rtol=1e-2):
            raise InputError(f"{where}: this architecture does not decode with a tree here", hint="use a dense decoder")
