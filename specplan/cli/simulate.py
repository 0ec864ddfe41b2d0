"""specplan simulate"""

from ..base import units
from ..base.errors import InputError
from . import chances, pricing, values
from .app import Command, new_app
from .finish import finish
from .options import Acceptance, Output, Rounds, Shape, command

app = new_app()


@app.command(cls=Command)
@command
def simulate(acceptance: Acceptance, shape: Shape, played: Rounds, output: Output) -> None:
    """Monte Carlo of rounds with a tree, beside the analytic tokens per round.

    \b
    specplan simulate --k 4 --p 0.7
    specplan simulate --from tree.json --child-prob 0.6,0.2 --rounds 10000000

    With --budget the best tree of that many nodes is played.
    """
    from ..planning.simulate import simulate as play
    from ..render.simulate import simulate_answer
    from ..search.best import best_tree

    likely = chances.acceptance(acceptance, shape)
    if likely is None:
        raise InputError("no acceptance given", hint="--p 0.6, --child-prob 0.6,0.2, --acceptance FILE, ...")
    tree = chances.given_tree(shape, acceptance)
    if tree is None:
        limits = pricing.limits(shape, None, None)
        chances.refuse_unknown_siblings(likely, limits)
        tree = best_tree(likely, limits, None).tree
    rounds = values.positive("--rounds", played.rounds)
    seed = values.read("--seed", played.seed, units.parse_integer)
    found = play(tree, likely, rounds=rounds, seed=seed or 0)
    given = {"acceptance": chances.described(acceptance, shape), "nodes": tree.nodes, "rounds": rounds, "seed": seed}
    finish(simulate_answer(tree, likely, found, given), output)
