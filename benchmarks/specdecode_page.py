"""docs/speculation-accuracy.md: the tables of `specdecode.py`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from specdecode import (
    OPEN,
    POWER,
    POWER_FITTED,
    Cell,
    Choice,
    agreement_by_case,
    by_batch,
    chosen,
    chosen_to_rounding,
    eagle_in_vllm,
    layerskip,
    power,
    power_fitted,
    published_vector,
    sequoia_table,
    slowdowns,
    stated,
    sweep,
    user_choices,
)
from tables import percent, table

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
    fitted, checked_ones = POWER_FITTED, [group for group in POWER if group not in POWER_FITTED]
    yield "power sweep on RTX 5090", "two, on 400 and 500 W", *_within([c for g in checked_ones for c in power(g)])
    yield (
        "the same, 600 W, to the printed digits",
        "as above",
        *_agreeing([chosen_to_rounding(g) for g in checked_ones], "best K"),
    )
    yield "the same, 400 and 500 W (fitted)", "as above", *_agreeing([chosen(power(g)) for g in fitted], "best K")
    yield "the same", "one time a drafted token a cap", *_agreeing([chosen(power_fitted(g)) for g in POWER], "best K")
    skip = layerskip()
    yield "LayerSkip, 6 drafts", "one overhead", *_within([c for c in skip if c.what.startswith("6")])
    for name, group in (("EAGLE-1", "sglang-eagle1"), ("EAGLE-3", "sglang-eagle3")):
        other = "sglang-eagle1" if group == "sglang-eagle3" else "sglang-eagle3"
        yield (
            f"{name} in SGLang by batch",
            "two times of the host, on the other half of the rows",
            *_within(by_batch(group)),
        )
        yield "the same", "the two, on the other head's table", *_within(by_batch(group, by=other))
    yield "slowdowns", "as above", *_agreeing(slowdowns(), "all")
    yield "users' cases", "one overhead a case, where named", *_agreeing(user_choices(), "90 %")


def _within(cells: Sequence[Cell]) -> tuple[str, str, str]:
    errors = checked(cells)
    inside = sum(error <= WITHIN for error in errors)
    spread = f"median {percent(statistics.median(errors))}, worst {percent(max(errors))}"
    return f"{len(errors)} speed-ups", "10 %", f"{inside} of {len(errors)} within 10 %, {spread}"


def _agreeing(choices: Sequence[Choice], to_reach: str) -> tuple[str, str, str]:
    agree, undecided = sum(choice.agrees for choice in choices), sum(choice.predicted == OPEN for choice in choices)
    measured = f"{agree} of {len(choices)} ({percent(agree / len(choices))})"
    if undecided:
        decided = len(choices) - undecided
        measured += f"; {undecided} open, {agree} of the {decided} decided ({percent(agree / decided)})"
    return f"{len(choices)} choices", to_reach, measured


def beside_passes() -> str:
    """The section of docs/accuracy.md: errors by group, fitted and checked rows apart, and every miss."""
    users = user_choices()
    every = [*_group_choices(), *users]
    return f"""## Speculation

Published rows of speculation, predicted: speed-ups, or tokens/s where a sweep prints those. What was set on which rows,
each row and its source: [speculation accuracy](speculation-accuracy.md).

{errors_by_group()}
Of the choices and verdicts of these groups and of users' cases, {_counts(every)} agree; of the cases alone
{_counts(users)}, against 90 % to reach. Those that do not:

{_choices([choice for choice in every if not choice.agrees])}"""


def _group_choices() -> list[Choice]:
    fitted = sweep(best_place())
    return [
        *sequoia_table().choices,
        replace(chosen(fitted), why=SWEEP_MISS),
        chosen(eagle_in_vllm()),
        *(chosen_to_rounding(group) for group in POWER if group not in POWER_FITTED),
    ]


SWEEP_MISS = "A100's kernels step by a tenth at 65 rows, these runs did not; what was tried stands on the page"


def _counts(choices: Sequence[Choice]) -> str:
    agree = sum(choice.agrees for choice in choices)
    return f"{agree} of {len(choices)} ({percent(agree / len(choices))})"


def errors_by_group() -> str:
    """Median and largest error of each group's fitted and checked rows."""
    found = sequoia_table()
    groups: list[tuple[str, Sequence[Cell]]] = [
        ("Sequoia on A100, tokens a round, vector published", published_vector()),
        ("Sequoia on A100, tree", found.sequoia),
        ("Sequoia on A100, 5 chains of 8", found.specinfer),
        ("Sequoia on A100, width x depth", sweep(best_place())),
        ("EAGLE in vLLM on H100", eagle_in_vllm()),
        *((f"MTP in llama.cpp on RTX 5090, {group.partition('-')[2]} W", power(group)) for group in POWER),
        ("LayerSkip, 6 drafts", [c for c in layerskip() if c.what.startswith("6 ")]),
        ("EAGLE-1 in SGLang by batch", by_batch("sglang-eagle1")),
        ("EAGLE-3 in SGLang by batch", by_batch("sglang-eagle3")),
    ]
    heads = ("group", "fitted rows", "median", "largest", "checked rows", "median", "largest")
    return table(heads, [(name, *_of_part(cells, True), *_of_part(cells, False)) for name, cells in groups])


def _of_part(cells: Sequence[Cell], fitted: bool) -> tuple[str, str, str]:
    errors = [abs(cell.error) for cell in cells if cell.fitted == fitted]
    if not errors:
        return "0", "-", "-"
    return str(len(errors)), percent(statistics.median(errors)), percent(max(errors))


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
        word = "**open**" if choice.predicted == OPEN else "**miss**"
        return f"{word}: {choice.why}" if why else word

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
The choice turns at a step of 0.6 ms between 33 and 65 rows; the profile has 1.2, and the tables' own rows of the shapes
nearest to the 7B's add up to 1.0. These runs multiplied through PyTorch, whose kernels no table here holds. Set on any
other cell, the parameter does not move the choice to 8 x 8 either.

The plain pass (24.2 ms) is more than twice what the kernels take (10.6 ms), so the host may hide what they take more.
Hidden altogether, 16 x 8 is chosen and 21 of 29 cells are within 10 %; host and kernels combined as squares, 8 x 8 is
chosen and 27 of 29 are, the worst 12.4 % off; added, as here, all 29 are. No power between does both. The printed table
scatters by more than the choice turns on: 16 x 1 is printed as 2.00, where one level yields at most 2 tokens in a
verification and a draft pass longer than a plain pass; and for 5 x 8 the other table has 3.45, so that the fifth chain
added nothing to 4 x 8 and the next three 7 %, which no child probabilities that fall with the rank do.

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
        free, set_on = chosen(power(group)), chosen(power_fitted(group))
        parts.append(
            f"{group.partition('-')[2]} W: printed best {free.reported}; predicted {free.predicted}; "
            f"one constant {set_on.predicted}.\n\n{_cells(power(group), 1)}"
        )
    return f"""## A power cap on RTX 5090 (sudoingX/qwen38-mtp)

A 27B hybrid model in 4 bits with its MTP head in llama.cpp, tokens a round as printed, tokens/s by K. Up to 8 rows of
quantised weights llama.cpp multiplies vector by vector, without the matrix units: each row after the first takes its
FLOP at a share of the fp32 peak. The share (0.35) and how the clock follows the cap (cap to the power of 1.15) were set
on the sweeps at 400 and 500 W; that at 600 W, of the same contributor, is checked. There K 5 comes out 0.1 % ahead of
the printed K 4, less than the last digit of the printed acceptance decides, and counts as a tie; in print K 4 leads by
1.5 %. `plan` recommends the shorter of two within 1 %.

The same share, set on no row of it, makes 8 sequences of a 27B model in 4 bits on RTX 3090 2.37 times as slow as one,
where 2.39 was measured (1.35 with the profile's matrix units); on M4, whose share comes from a 0.6B model, 7.0 where
6.5 was measured (2.3 before). Batches of a 0.6B model on RTX 3090 come out a quarter low: there the host counts.

"One constant" is a rule of thumb beside it: a plain pass and so much for every drafted token, set on the longest chain
of each cap.

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

Chains of 3 on H100, SGLang 0.4.4. Acceptance is not printed: tokens a round are those of chains of 3 with published
heads of the same two kinds for the same model and benchmark in vLLM (#20780: 2.29 and 2.79), so none is fitted. Two
things are missing in bytes and FLOP:

- The host's time a round and a sequence in it. Both are set on every second row and checked on the others, and the
  other way round, so that each row below is checked by constants it did not set. The four halves give 0.7 to 1.8 ms a
  round and 0.2 to 0.4 ms a sequence.
- A batch here is what runs at once at most, over the 80 questions of MT-Bench. Answers differ in length and at the end
  few run: with exponentially distributed lengths (assumed; not printed) 16 on average of at most 64. That is why the
  printed speed-ups stop falling from 24 or 32 on. Read as steady batches, {_steady()} of the 18 rows are within 10 %;
  with lognormal lengths (sigma 0.7) all 18, with uniform ones 13. The form was chosen with both tables in view.

{_cells(by_batch("sglang-eagle1"))}
{_cells(by_batch("sglang-eagle3"))}
Set on one head's table and checked on the other's, {_count("sglang-eagle3", "sglang-eagle1")} (EAGLE-3) and
{_count("sglang-eagle1", "sglang-eagle3")} (EAGLE-1) are within 10 %: EAGLE-1 takes 0.4 ms a sequence and EAGLE-3 0.25,
for no known reason, and EAGLE-1's slowdowns from 24 on come out at 1.04 to 1.08 that way. The engine holds 1.2 ms a
round and 0.1 ms a sequence, since later runs show no time a sequence (UC095): measure the batches that are served.
"""


def _steady() -> int:
    cells = [cell for group in ("sglang-eagle1", "sglang-eagle3") for cell in by_batch(group, closed=False)]
    return sum(error <= WITHIN for error in checked(cells))


def _count(group: str, by: str) -> str:
    errors = checked(by_batch(group, by=by))
    return f"{sum(error <= WITHIN for error in errors)} of {len(errors)}"


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
    choices = user_choices()
    by_case = agreement_by_case(choices)
    undecided = sum(choice.predicted == OPEN for choice in choices)
    wrong = len(choices) - undecided - sum(choice.agrees for choice in choices)
    return f"""## Users' cases

What people reported, where an acceptance and either measured passes or a bundled device and model are known. Counted
are, of a sweep over K, the best and the verdict on it; of several drafters the best; of every other setting, batch and
context its verdict. Where a case prints several settings of one system, the round's overhead is set on the first, which
is not counted. In UC065 the others' overhead is the first drafter's, the same a round at least and the same a drafted
token at most; where nothing is known of it (UC098, UC118, UC122, UC125) it is 0 to 20 ms. A verdict that differs over
that interval is open, as is the best K of UC021 over the range of acceptance that its text gives; at one stream that
case calls its two K a wash. UC018 takes a round as linear in K between the first and the last. UC118 drafts up to 4
tokens, and 4 where all are accepted. UC095 prints what ran at once at most: how many ran on average follows from its
plain tokens/s (1, 2.6, 3.7, 7.1 and 8.1); the other run of that author, UC094, names a benchmark of 20 questions.

{len(choices) - undecided - wrong} of {len(choices)} agree, {wrong} does not, {undecided} are open. Of {sum(by_case)}
cases {by_case[0]} agree in everything, {by_case[1]} are open in part, {by_case[2]} is missed in part. Narrow among
those that agree is UC059: 0.5 % below plain decoding predicted, 2 % measured. Its pass over 17 tokens took 431 ms,
predicted are 449: Metal's matrix kernels round up to 32 rows.

{_choices(choices)}
{left}"""
