"""specplan: does speculative decoding pay on your hardware, and with which tree?

>>> import specplan as sp
>>> r = sp.roofline(sp.load_hardware("a100-80gb-sxm"), sp.ModelSpec.from_params(13e9))
>>> round(r.pass_s * 1e3, 2), round(r.crossover_tokens)
(12.75, 153)
>>> best = sp.fastest_tree(sp.Independent(0.6), verify_s=[0.01275] * 15, max_nodes=14, max_depth=8)
>>> best.tree.widths, round(best.tau, 3)
((3, 5, 4, 1, 1), 3.382)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .acceptance import Chain, DepthTable, Independent, Mixture, Paths, Positional
    from .by_k import ByK
    from .cost import Cost, Load, pass_cost
    from .curve import Curve, read_curve
    from .engines import Engine, engine_names, load_engine
    from .errors import DoesNotFit, EnvironmentProblem, InputError, SpecplanError
    from .hardware import Hardware, hardware_names, load_hardware
    from .model import ModelSpec, load_model, model_names
    from .optimize import Frontier, best_trees, evaluate, fastest_tree
    from .pass_grid import pass_times
    from .plan import Costs, Limits, Plan, plan
    from .price import price
    from .roofline import PassTime, PassTimer, Roofline, interval, pass_time, roofline
    from .simulate import simulate
    from .stacks.detect import read_acceptance
    from .stacks.export import export
    from .stacks.tree_files import read_tree
    from .tail import Burst, cheapest_device, smallest_tree, tail
    from .tree import TokenTree

# public name -> module; imported when first used, so that `import specplan` costs nothing
_PUBLIC = {
    **dict.fromkeys(("Independent", "Positional", "DepthTable", "Chain", "Paths", "Mixture"), "acceptance"),
    "ByK": "by_k",
    **dict.fromkeys(("Cost", "Load", "pass_cost"), "cost"),
    **dict.fromkeys(("Curve", "read_curve"), "curve"),
    **dict.fromkeys(("SpecplanError", "InputError", "DoesNotFit", "EnvironmentProblem"), "errors"),
    **dict.fromkeys(("Engine", "engine_names", "load_engine"), "engines"),
    "read_tree": "stacks.tree_files",
    "read_acceptance": "stacks.detect",
    "export": "stacks.export",
    **dict.fromkeys(("Hardware", "hardware_names", "load_hardware"), "hardware"),
    **dict.fromkeys(("ModelSpec", "load_model", "model_names"), "model"),
    **dict.fromkeys(("Frontier", "best_trees", "evaluate", "fastest_tree"), "optimize"),
    **dict.fromkeys(("Costs", "Limits", "Plan", "plan"), "plan"),
    **dict.fromkeys(("PassTime", "PassTimer", "Roofline", "interval", "pass_time", "roofline"), "roofline"),
    "pass_times": "pass_grid",
    "simulate": "simulate",
    "price": "price",
    **dict.fromkeys(("Burst", "cheapest_device", "smallest_tree", "tail"), "tail"),
    "TokenTree": "tree",
}
__all__ = sorted([*_PUBLIC, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'specplan' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Some functions are named like their module (`roofline`, `plan`, `simulate`): the function is the public name.

    Importing a submodule sets it as an attribute of its package; where that would hide the function, it is left out.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PUBLIC and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
