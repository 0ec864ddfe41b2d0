"""docs/speculation-accuracy.md: the tables of `specdecode.py`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from accuracy import percent, table
from specdecode import (
    POWER,
    Cell,
    Choice,
    by_batch,
    chosen,
    eagle_in_vllm,
    layerskip,
    power_fitted,
    power_unfitted,
    published_vector,
    sequoia_table,
    slowdowns,
    stated,
    sweep,
    user_choices,
)

HEAD = """# Published speculation, predicted

Written by `python benchmarks/specdecode.py`; the rows and their sources are in `benchmarks/data/speculation.csv` and
`speculation.json`. A row is *fitted* when a constant was set on it and *checked* otherwise; errors are those of checked
rows. The time of single passes has a page of its own: [accuracy](accuracy.md).

"""
WITHIN = 0.10


def checked(cells: Iterable[Cell]) -> list[float]:
    return [abs(cell.error) for cell in cells if not cell.fitted]


def page() -> str:
    """The whole page."""
    return HEAD + "\n".join([summary(), *sections()])


def summary() -> str:
    """One row a group: what was set, what is checked, the figure to reach and the one measured."""
    return "## Summary\n\n" + table(
        ("group", "constants set on its own rows", "checked", "to reach", "measured"), list(_summary_rows())
    )


def _summary_rows() -> Iterator[tuple[str, ...]]:
    vector, found = published_vector(), sequoia_table()
    one = "one acceptance parameter a group of two cells"
    yield "Sequoia, vector published", "none", "2 tau", "3 %", f"{percent(max(checked(vector)))} at most"
    yield "Sequoia's A100 table, tree", one, *_within(found.sequoia)
    yield "the same, 5 chains of 8", one + "; the 1.3B draft's pass on one cell", *_within(found.specinfer)
    yield "the same, best cell", "as above", *_agreeing(found.choices, "all")
    yield "width x depth sweep", "one acceptance parameter", *_within(sweep(best_place()))
    yield "the same, best cell", "as above", *_agreeing([chosen(sweep(best_place()))], "all")
    eagle = eagle_in_vllm()
    yield "EAGLE in vLLM on H100", "the engine's, in view of this thread", *_within(eagle)
    yield "the same, best K", "as above", *_agreeing([chosen(eagle)], "all")
    yield "power sweep on RTX 5090", "none", *_agreeing([chosen(power_unfitted(g)) for g in POWER], "best K")
    yield "the same", "one time a drafted token a cap", *_agreeing([chosen(power_fitted(g)) for g in POWER], "best K")
    skip = layerskip()
    yield "LayerSkip, 6 drafts", "one overhead", *_within([c for c in skip if c.what.startswith("6")])
    for name, group in (("EAGLE-1", "sglang-eagle1"), ("EAGLE-3", "sglang-eagle3")):
        yield f"{name} in SGLang by batch", "tau, on batch 2", *_within(by_batch(group, host=False))
        yield "the same", "tau; the host's time a sequence, on batch 8", *_within(by_batch(group))
    yield "slowdowns", "as above", *_agreeing(slowdowns(), "all")
    yield "users' cases", "one overhead a case, where named", *_agreeing(user_choices(), "90 %")


def _within(cells: Sequence[Cell]) -> tuple[str, str, str]:
    errors = checked(cells)
    inside = sum(error <= WITHIN for error in errors)
    spread = f"median {percent(statistics.median(errors))}, worst {percent(max(errors))}"
    return f"{len(errors)} speed-ups", "10 %", f"{inside} of {len(errors)} within 10 %, {spread}"


def _agreeing(choices: Sequence[Choice], to_reach: str) -> tuple[str, str, str]:
    agree = sum(choice.agrees for choice in choices)
    return f"{len(choices)} choices", to_reach, f"{agree} of {len(choices)} ({percent(agree / len(choices))})"


def best_place() -> int:
    """The place of the cell of the sweep that is printed as the best: the parameter is set there."""
    cells = sweep(0)
    return max(range(len(cells)), key=lambda i: cells[i].printed)


# ---- sections


def sections() -> Iterator[str]:
    yield from (_sequoia(), _sweep(), _eagle(), _power(), _layerskip(), _batches(), _slowdowns(), _users())


def _cells(cells: Iterable[Cell], digits: int = 2) -> str:
    rows = [
        (
            c.id,
            c.what,
            f"{c.predicted:.{digits}f}",
            f"{c.printed:g}",
            f"{100 * c.error:+.1f} %",
            "fitted" if c.fitted else "",
        )
        for c in cells
    ]
    return table(("row", "what", "predicted", "printed", "error", ""), rows)


def _choices(choices: Iterable[Choice], *, why: bool = True) -> str:
    def miss(choice: Choice) -> str:
        return f"**miss**: {choice.why}" if why else "**miss**"

    rows = [(c.id, c.what, c.predicted, c.reported, "" if c.agrees else miss(c)) for c in choices]
    return table(("row", "what", "predicted", "reported", ""), rows)


def _sequoia() -> str:
    found = sequoia_table()
    return f"""## Sequoia on A100 (arXiv:2402.12374, tables 1 and 3)

Where vector and tree are published, tokens a round need nothing else:

{_cells(published_vector())}
No other vector is printed. The rest takes the published one bent by one parameter: no child of the first k is right
with probability (1 - A_k)^b. b is set on the tokens a round of the group's SpecInfer cell (5 chains of 8); the tree of
the printed size and depth is then the best one for that vector. Plain pass: printed for 7B, printed time a token times
speed-up for 13B and 33B; wider passes take what the profile's kernels add. The 68M draft's pass is printed (0.5 ms),
the 1.3B one's is set on SD0030. One draft pass for every level and the root.

Tokens a round of the tree:

{_cells(found.tau)}
Speed-up of the tree:

{_cells(found.sequoia)}
Speed-up of 5 chains of 8, with the printed tokens a round:

{_cells(found.specinfer)}
The tree wins every group in print and here. Sampled trees come out 4 to 6 % low in tokens a round: their children are
drawn without replacement, those of the chains with it, and one vector stands for both. MT-Bench at T 0 (SD0014) is a
miss: its printed speed-up leaves 1.1 ms of a round for nine draft passes that are printed as 0.5 ms each.
"""


def _sweep() -> str:
    cells = sweep(best_place())
    inside = [sum(error <= WITHIN for error in checked(sweep(i))) for i in range(len(cells))]
    choice = chosen(cells)
    ours = next(c for c in cells if c.what == choice.predicted)
    ahead = ours.predicted / next(c for c in cells if c.what == choice.reported).predicted - 1
    behind = 1 - ours.printed / max(c.printed for c in cells)
    return f"""## Width and depth of chains (the same paper, table 5)

The parameter is set on the cell that is printed as the best.

{_cells(cells)}
Best cell: {choice.predicted} predicted, {choice.reported} printed: {"agreed" if choice.agrees else "**a miss**"}. The
profile's kernels take a tenth more from 65 rows on (a step in three stacks' tables on A100); these runs did not, though
from 129 on both do. The prediction puts its cell first by {percent(ahead)}; in print it is {percent(behind)} behind.

Set on each of the {len(cells)} cells in turn, all others are within 10 % for {sum(n == 29 for n in inside)} choices,
and {statistics.median(inside):g} of 29 at the median. Chains of 32 and more accept more than one vector for every depth
allows: a chain that has come far is in an easy passage. Set on one of those, the parameter fits nothing else.
"""


def _eagle() -> str:
    choice = chosen(eagle_in_vllm())
    return f"""## EAGLE in vLLM (vllm-project/vllm#20780)

Llama-3.1-8B on H100, tokens a round as printed; passes of target and head from the profile and the engine. The engine's
time a pass and a draft pass were chosen with this thread's plain pass (7.07 ms) and draft pass (0.72 ms) in view.

{_cells(eagle_in_vllm(), 3)}
Best: {choice.predicted} predicted, {choice.reported} printed. K 2 and K 3 are 0.2 % apart in the prediction, 1.9 % in
print: the agreement is a narrow one.
"""


def _power() -> str:
    parts = []
    for group in POWER:
        free, set_on = chosen(power_unfitted(group)), chosen(power_fitted(group))
        parts.append(
            f"{group.partition('-')[2]} W: printed best {free.reported}; nothing fitted {free.predicted}; "
            f"one constant {set_on.predicted}.\n\n{_cells(power_fitted(group), 1)}"
        )
    return f"""## A power cap on RTX 5090 (sudoingX/qwen38-mtp)

A 27B hybrid model in 4 bits with its MTP head in llama.cpp, tokens a round as printed, tokens/s by K. From profile and
engine alone the best K comes out too long, **a miss** for each cap: a drafted token costs 1.4 ms there, and 2.4, 2.7
and 3.3 ms measured at 600, 500 and 400 W. That a cap moves it says that computing sets it, in kernels for 2 to 8 rows
of 4-bit weights; the engine's constants come from plain passes and from batches of 8 and more.

One constant a cap, set on the longest chain (a round takes a plain pass and so much for every drafted token), gives the
printed best. That is a weaker check: the rule was chosen with all three tables in view.

{chr(10).join(parts)}"""


def _layerskip() -> str:
    return f"""## LayerSkip (facebookresearch/LayerSkip)

Drafts over the first 8 layers, reused in verification: six drafts and a verification take 6 x 0.25 + 0.75 plain passes,
at rate 0.7945 2.56 times plain decoding, ideal. The eager runs lose a constant on the host, set on the first row (0.56
of a plain pass, 14 ms):

{_cells(layerskip(), 3)}
The rows of 12 drafts count as verdicts: both agree.
"""


def _batches() -> str:
    return f"""## EAGLE chains in SGLang by batch (arXiv:2503.01840, table 3)

Chains of 3 on H100. Acceptance is not printed, so tokens a round are set on batch 2; the host's time a sequence in a
round of speculation, for which the engine has no figure, on batch 8.

{_cells(by_batch("sglang-eagle1"))}
{_cells(by_batch("sglang-eagle3"))}
**Misses**: with tokens a round alone the speed-up comes out up to 40 % high, and no slowdown is seen. Bytes and FLOP
grow evenly with the batch, so it is not they. A host that handles sequences one by one explains 16 to 32 sequences.
Above, the printed speed-up rises again, perhaps with plain decoding that no longer replays graphs; the prediction does
not, and calls EAGLE-3 a slowdown at 56 and 64 where it was a gain. Measure the batches that are served.
"""


def _slowdowns() -> str:
    return f"""## Printed as slowdowns

Rows of the sections above and of the users' cases below; reasons stand there.

{_choices(slowdowns(), why=False)}
Three more have too few numbers: a 27B model that pages on 10 GB (its size is not printed), and two at a "high" request
rate.
"""


def _users() -> str:
    heads = ("left out because", "cases")
    left = table(heads, [(why, ", ".join(names)) for why, names in stated()["left_out"].items()])
    return f"""## Users' cases

What people reported, where an acceptance and either measured passes or a bundled device, model and engine are known.
Where a case prints several settings of one system, the round's overhead is set on the first (UC065, UC094), or overhead
and the host's time a sequence on the first two batches (UC095); those are not counted. UC018 takes a round as linear in
K between the first and the last. From one sweep the best K and the verdict on it are counted.

{_choices(user_choices())}
{left}"""
