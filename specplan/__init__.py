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

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .acceptance.by_k import ByK
    from .acceptance.kinds import Chain, DepthTable, Independent, Mixture, Paths, Positional
    from .base.errors import DoesNotFit, EnvironmentProblem, InputError, SpecplanError
    from .base.tree import TokenTree
    from .hardware.curve import Curve, read_curve
    from .hardware.engines import Engine, engine_names, load_engine
    from .hardware.profile import Hardware, hardware_names, load_hardware
    from .models.spec import ModelSpec, load_model, model_names
    from .planning.deadline import Burst, cheapest_device, smallest_tree, tail
    from .planning.plan import Plan, plan
    from .planning.price import price
    from .planning.simulate import simulate
    from .search.costs import RoundCosts
    from .search.costs import RoundCosts as Costs
    from .search.optimize import Frontier, best_trees, evaluate, fastest_tree
    from .search.space import Space
    from .search.space import Space as Limits
    from .stacks.detect import read_acceptance
    from .stacks.export import export
    from .stacks.tree_files import read_tree
    from .timing.cost import Cost, Load, pass_cost
    from .timing.grid import pass_times
    from .timing.roofline import PassTime, PassTimer, Roofline, interval, pass_time, roofline

# public name -> module, or module:name; imported when first used, so that `import specplan` costs nothing
_PUBLIC = {
    **dict.fromkeys(("Independent", "Positional", "DepthTable", "Chain", "Paths", "Mixture"), "acceptance.kinds"),
    "ByK": "acceptance.by_k",
    **dict.fromkeys(("Cost", "Load", "pass_cost"), "timing.cost"),
    **dict.fromkeys(("Curve", "read_curve"), "hardware.curve"),
    **dict.fromkeys(("SpecplanError", "InputError", "DoesNotFit", "EnvironmentProblem"), "base.errors"),
    **dict.fromkeys(("Engine", "engine_names", "load_engine"), "hardware.engines"),
    "read_tree": "stacks.tree_files",
    "read_acceptance": "stacks.detect",
    "export": "stacks.export",
    **dict.fromkeys(("Hardware", "hardware_names", "load_hardware"), "hardware.profile"),
    **dict.fromkeys(("ModelSpec", "load_model", "model_names"), "models.spec"),
    **dict.fromkeys(("Frontier", "best_trees", "evaluate", "fastest_tree"), "search.optimize"),
    **dict.fromkeys(("RoundCosts", "Costs"), "search.costs:RoundCosts"),
    **dict.fromkeys(("Space", "Limits"), "search.space:Space"),
    **dict.fromkeys(("Plan", "plan"), "planning.plan"),
    **dict.fromkeys(("PassTime", "PassTimer", "Roofline", "interval", "pass_time", "roofline"), "timing.roofline"),
    "pass_times": "timing.grid",
    "simulate": "planning.simulate",
    "price": "planning.price",
    **dict.fromkeys(("Burst", "cheapest_device", "smallest_tree", "tail"), "planning.deadline"),
    "TokenTree": "base.tree",
}
__all__ = sorted([*_PUBLIC, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'specplan' has no attribute {name!r}")
    from importlib import import_module

    where, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(import_module(f".{where}", __name__), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
