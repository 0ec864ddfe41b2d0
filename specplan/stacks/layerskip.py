"""LayerSkip, the research code: chains drafted by the target's first layers.

Source: facebookresearch/LayerSkip, self_speculation/generator_base.py.
"""

from __future__ import annotations

from ..base.errors import InputError
from . import _chains_check
from .capability import Capability, Export, Stack, Wanted
from .writing import named

_RECORD = Capability(
    "chain",
    ("layerskip",),
    ("exit_layer", "num_speculations"),
    "self_speculation/generator_base.py",
    note="num_speculations -1 is plain decoding; needs a checkpoint trained with early exits",
)


def export(wanted: Wanted, capability: Capability, version: str) -> Export:
    """The strategy, its exit layer and its length."""
    if wanted.exit_layer is None:
        raise InputError("layerskip: the exit layer is not known", hint="--exit-layer 8")
    settings = {"exit_layer": wanted.exit_layer, "num_speculations": wanted.longest}
    strategy = {"generation_strategy": "self_speculative", **settings}
    words = " ".join(f"--{name} {value}" for name, value in strategy.items())
    return Export(settings, command=f"torchrun generate.py --model {named(wanted.model, 'MODEL')} {words}")


STACK = Stack(
    name="layerskip",
    title="LayerSkip (research code)",
    read="2025-06",
    capabilities=(_RECORD,),
    export=export,
    check=_chains_check.layerskip,
    shape=_chains_check.chain_of("num_speculations"),
    start="torchrun generate.py --model {model} --generation_strategy autoregressive",
)
