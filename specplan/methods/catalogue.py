"""Methods of drafting: what each costs, which shapes it can draft, and what it asks for.

    chain       one draft model, one guess a position
    sequoia     one draft model, a free tree, a pass over every level (the last included)
    specinfer   one or several draft models, the same number of children on a level, merged into one tree
    medusa      K heads on the target's last hidden state: they run in the target's pass, no draft passes
    eagle       a one-layer head on the target's features, a pass a level; eagle3 with a small LM head of its own
    mtp         the module that the model was trained with, run once a level
    layerskip   the target's first layers; verification reuses what they computed
    ngram       lookup in the text so far: no weights, the host's time

A `Method` changes the costs and the limits of a plan; `compare.py` applies it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ..acceptance.kinds import Acceptance
from ..base.errors import InputError, Missing
from ..models.pair import bytes_ratio, is_count_alone
from ..timing.cost import Load
from ..timing.draft import Draft, draft_model, several
from ..timing.roofline import PassTimer
from .heads import (
    EAGLE3_VOCAB,
    eagle3_fusion,
    eagle_head,
    first_layers,
    later_layers,
    medusa_heads,
    mtp_module,
    without_head,
)

if TYPE_CHECKING:
    from ..hardware.engines import Engine
    from ..hardware.profile import Hardware
    from ..models.spec import ModelSpec

METHODS = ("chain", "medusa", "eagle", "eagle3", "mtp", "specinfer", "sequoia", "layerskip", "ngram")


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method asks of the people who run it."""

    training: str
    second_weights: str
    drift: str
    exactness: str


_LOSSLESS = "exact under strict rejection, or greedy at temperature 0"
_FOLLOW = "train again when the target changes"
# Sources: Leviathan et al. 2023; Cai et al. 2024; Li et al. 2024, 2025; DeepSeek-V3 2024; Miao et al. 2024;
# Chen et al. 2024 (Sequoia); Elhoushi et al. 2024 (LayerSkip); Saxena 2023 (prompt lookup).
NEEDS: Mapping[str, Needs] = {
    "chain": Needs("none if a smaller sibling exists", "a whole model", "realign when the target changes", _LOSSLESS),
    "medusa": Needs(
        "heads, target frozen", "none; heads", _FOLLOW, "not under typical acceptance; greedy at temperature 0 is"
    ),
    "eagle": Needs("a one-layer head", "a head", _FOLLOW, _LOSSLESS),
    "eagle3": Needs("a one-layer head, more data", "a head", _FOLLOW, _LOSSLESS),
    "mtp": Needs("with the target", "none; a module", "none", _LOSSLESS),
    "specinfer": Needs("boost-tuned draft models", "whole models", "realign when the target changes", _LOSSLESS),
    "sequoia": Needs("none if a smaller sibling exists", "a whole model", "realign when the target changes", _LOSSLESS),
    "layerskip": Needs("the target with early-exit loss", "none", "none", _LOSSLESS),
    "tree": Needs("none if a smaller sibling exists", "a whole model", "realign when the target changes", _LOSSLESS),
    "ngram": Needs("none", "none", "none", _LOSSLESS),
}

# Rules that engines verify each method with; numbers measured under another are not the method's own.
RULES_OF: Mapping[str, tuple[str, ...]] = {
    "chain": ("strict", "greedy"),
    "medusa": ("typical", "greedy"),
    "eagle": ("strict", "without_replacement", "topk", "greedy"),
    "eagle3": ("strict", "without_replacement", "topk", "greedy"),
    "mtp": ("strict", "topk", "greedy"),
    "specinfer": ("strict", "without_replacement", "greedy"),
    "sequoia": ("without_replacement", "greedy"),
    "layerskip": ("strict", "greedy"),
    "ngram": ("strict", "membership", "greedy"),
    "tree": ("strict", "without_replacement", "topk", "greedy"),
}


@dataclass(frozen=True)
class Setting:
    """Where a method's passes run.

    hardware     None when the target's passes were measured: then only methods that need no device can be priced
    verify_s     the target's pass by width where it was measured; None: from device and model
    """

    hardware: Hardware | None
    target: ModelSpec | None
    load: Load
    time: str = "calibrated"
    engine: Engine | None = None
    offload: str | None = None
    verify_s: Callable[[int], float] | None = None

    keep: ClassVar[Callable[..., Any]] = staticmethod(cache)
    """Keeps the times by width; `sweep` has settings of many loads at once, whose times are arrays."""

    def timer(self, model: ModelSpec, *, draft: bool = False, tp: int | None = None) -> Callable[[int], float]:
        """Seconds of a pass of `model` by width, at this batch and context.

        draft   a draft's pass: it stays on the device and pays the host's constant of a draft pass
        """
        if self.hardware is None:
            raise Missing("needs a device", hint="add --gpu NAME, or give the draft's time: --draft-pass 0.5ms")
        offload = None if draft and model.layers <= 1 else self.offload
        return self._passes(model, draft=draft, tp=tp or self.load.tp, offload=offload)

    def draft(self, model: ModelSpec, tp: int) -> Draft:
        """A draft model on the same device, at this batch and context."""
        assert self.hardware is not None
        at = {"batch": self.load.batch, "context": self.load.context, "tp": tp}
        return draft_model(self.hardware, model, **at, time=self.time, engine=self.engine)

    def _passes(self, model: ModelSpec, *, draft: bool, tp: int, offload: str | None) -> Callable[[int], float]:
        assert self.hardware is not None
        passes = PassTimer(self.hardware, model, time=self.time, draft=draft, engine=self.engine, offload=offload)
        load = replace(self.load, tp=tp)
        return cache(lambda width: passes.seconds(replace(load, width=width)))

    def model(self) -> ModelSpec:
        """The target; a method that is derived from its geometry needs one."""
        if self.target is None:
            raise Missing("needs the target's geometry", hint="add --model NAME, or --params N")
        return self.target

    def with_added(self, extra: ModelSpec) -> Callable[[int], float]:
        """Seconds of the target's pass with the matrices of `extra` in it.

        Ideal: one max over all bytes and FLOP. Calibrated or measured: each kernel adds its own time.
        """
        target = self.model()
        if self.time == "ideal" and self.verify_s is None:
            both = replace(target, name=f"{target.name} with {extra.name}", linears=target.linears + extra.linears)
            return self.timer(both)
        if self.hardware is None:
            raise Missing("needs a device", hint="add --gpu NAME: the heads' time comes from its bandwidth")
        whole, added = self.verify_s or self.timer(target), self._matrices(extra)
        seconds: Callable[[int], float] = self.keep(lambda width: whole(width) + added(width))
        return seconds

    def _matrices(self, model: ModelSpec) -> Callable[[int], float]:
        """Seconds of a model's matrices alone by width."""
        assert self.hardware is not None
        alone = PassTimer(self.hardware, model, time=self.time, engine=self.engine)

        def seconds(width: int) -> float:
            at = alone.at(replace(self.load, width=width))
            return at.pass_s if self.time == "ideal" else at.terms["head"] + at.terms["linear"]

        return seconds


@dataclass(frozen=True)
class Method:
    """One method, priced for one target.

    verify_s         seconds of a verification pass by width (2 and up); None: the target's own pass
    draft_passes     convention, None: as asked for
    family           free: any tree; chain; uniform: the same number of children on a whole level
    max_depth, max_children   what the method can draft at most; None: no end
    widths           children by level where the shape is given (SpecInfer's expansion), else None
    proposal_share   rounds in which anything is proposed; in the others a plain pass runs
    drafts           draft models whose trees are merged
    keep             rate at which drafting goes on after each token; None: to the end
    """

    name: str
    draft: Draft
    verify_s: Callable[[int], float] | None = None
    draft_passes: str | None = None
    draft_shape: str | None = None
    family: str = "free"
    max_depth: int | None = None
    max_children: int | None = None
    widths: tuple[int, ...] | None = None
    proposal_share: float = 1.0
    drafts: int = 1
    keep: float | None = None
    exit_layer: int | None = None
    assumptions: tuple[tuple[str, str], ...] = ()

    @property
    def needs(self) -> Needs:
        return NEEDS[self.name]


def rule_warning(method: str, acceptance: Acceptance | None) -> str | None:
    """What to say of numbers measured under a rule that the method is not verified with.

    >>> from specplan.acceptance.kinds import Independent
    >>> rule_warning("chain", Independent(0.6, rule="typical"))[:60]
    'the acceptance was measured under the rule typical; chain is'
    """
    rule = None if acceptance is None else acceptance.rule
    if rule is None or rule in RULES_OF[method]:
        return None
    return (
        f"the acceptance was measured under the rule {rule}; {method} is verified with {', '.join(RULES_OF[method])}: "
        "the numbers may not hold"
    )


# ---- draft models


def _known(draft: Draft) -> Draft:
    if draft.free:
        raise Missing(
            "no draft given", hint="--draft NAME, --draft-params N, --draft-pass 0.5ms or --draft-ratio 0.057"
        )
    return draft


def chain(draft: Draft) -> Method:
    """One guess a position from a draft model; a chain of g pays g passes, LM head included."""
    return Method("chain", _known(draft), family="chain", max_children=1)


def tree(draft: Draft) -> Method:
    """A free tree from a draft model, draft passes as the options count them: what a plan without a method takes."""
    return Method("tree", _known(draft))


def sequoia(draft: Draft) -> Method:
    """A free tree from a draft model; the root and every level, the last included, are fed.

    Source  Chen et al. 2024 (2402.12374) and its program, which feeds all levels.
    """
    return Method("sequoia", _known(draft), draft_passes="all")


def specinfer(drafts: Sequence[Draft], *, parallel: bool = False, widths: Sequence[int] | None = None) -> Method:
    """One or several draft models whose trees are merged; every leaf of a step gets the step's number of children.

    parallel   the drafts run side by side, else in turn
    widths     children by step (1,1,3,1); None: the best uniform tree
    Source     Miao et al. 2024 (2305.09781), section 3.
    """
    if not drafts:
        raise Missing("no draft given", hint="--draft NAME, once for each draft model")
    draft = several([_known(draft) for draft in drafts], parallel=parallel)
    how = "side by side: the slowest counts" if parallel else "in turn: their times add"
    said = ((f"{len(drafts)} draft models run {how}", "--draft-models parallel|in_turn"),) if len(drafts) > 1 else ()
    return Method(
        "specinfer",
        draft,
        family="uniform",
        widths=None if widths is None else tuple(widths),
        drafts=len(drafts),
        assumptions=said,
    )


# ---- heads


def medusa(setting: Setting, *, heads: int, max_rank: int) -> Method:
    """K heads in the target's pass: their bytes and FLOP are added to verification, drafting pays no pass.

    Every token of the pass runs through the heads, as in the reference program.
    Source  Cai et al. 2024 (2401.10774).
    """
    target = setting.model()
    extra = medusa_heads(target, heads)
    draft = Draft(extra.name, 0.0, beside=(extra,), tp=setting.load.tp, passes=lambda depth: 0)
    said = ((f"{heads} heads of h^2 + h x vocabulary weights run in every verification pass", "Cai et al. 2024"),)
    return Method(
        "medusa",
        draft,
        setting.with_added(extra),
        max_depth=heads,
        max_children=max_rank,
        assumptions=said,
    )


def eagle(
    setting: Setting,
    *,
    version: int = 1,
    steps: int | None = None,
    topk: int | None = None,
    measured: Draft | None = None,
    tp: int | None = None,
) -> Method:
    """A one-layer head run once a level over that level's nodes, LM head included.

    version   1 (static trees; EAGLE-2 differs in its trees alone) or 3
    steps     levels at most; topk: nodes of every pass after the first at least, and children of a node at most
    measured  the head's time where it is known
    """
    name = "eagle3" if version == 3 else "eagle"
    if measured is not None and not measured.free:
        return _stepped(Method(name, measured), steps, topk)
    target = setting.model()
    head = eagle_head(target, version=version)
    draft = Draft(head.name, setting.timer(head, draft=True, tp=tp), model=head, tp=tp or setting.load.tp)
    if version != 3:
        said = f"one layer of the target's geometry, a 2h x h fusion and the target's LM head of {target.vocab} tokens"
        return _stepped(
            Method(name, replace(draft, beside=(without_head(head),)), assumptions=((said, "Li et al. 2024"),)),
            steps,
            topk,
        )
    fusion = eagle3_fusion(target)
    vocab = min(target.vocab, EAGLE3_VOCAB)
    said = f"one layer of the target's geometry over 2h inputs, its own LM head of {vocab} tokens"
    method = Method(
        name,
        replace(draft, beside=(head, fusion)),
        setting.with_added(fusion),
        assumptions=((said, "published EAGLE-3 heads"),),
    )
    return _stepped(method, steps, topk)


def mtp(
    setting: Setting,
    *,
    steps: int | None = None,
    topk: int | None = None,
    measured: Draft | None = None,
    tp: int | None = None,
) -> Method:
    """The multi-token-prediction modules that the model was trained with, one a level, the last one repeated.

    Raises  Missing for a model that is known to have none.
    """
    if measured is not None and not measured.free:
        return _stepped(Method("mtp", measured), steps, topk)
    target = setting.model()
    if not target.mtp_params:
        raise Missing(
            f"{target.name} states no multi-token-prediction module", hint="eagle heads are trained for such models"
        )
    module = mtp_module(target)
    modules = max(1, round(target.mtp_params / without_head(module).params_total))
    draft = Draft(
        module.name,
        setting.timer(module, draft=True, tp=tp),
        model=module,
        tp=tp or setting.load.tp,
        beside=(without_head(module),) * modules,
    )
    count = "one module, used again for every level" if modules == 1 else f"{modules} modules, then the last again"
    said = f"{count}; the target's LM head and embedding are shared"
    return _stepped(Method("mtp", draft, assumptions=((said, "DeepSeek-V3 report, section 2.2"),)), steps, topk)


def _stepped(method: Method, steps: int | None, topk: int | None) -> Method:
    """With the engine's settings: at most `steps` levels; passes over `topk` nodes, even where the tree has fewer."""
    if topk is not None:
        at = method.draft.at
        method = replace(
            method,
            draft=replace(method.draft, pass_s=lambda width: at(width if width == 1 else max(width, topk))),
            max_children=topk,
            assumptions=(
                *method.assumptions,
                (f"every draft pass after the first is over {topk} nodes, or its level where that is wider", "--topk"),
            ),
        )
    return method if steps is None else replace(method, max_depth=steps)


# ---- the target's own layers, and none


def layerskip(setting: Setting, *, exit_layer: int) -> Method:
    """Drafts with the first layers and the LM head; verification runs the other layers and the LM head.

    No weights and no cache beside the target's. The last level's tokens have not been through the first layers when
    drafting ends: the ideal time leaves that pass out, as the textbook does, the others pay for it. Where the target's
    pass was measured, both are shares of it by active bytes.

    Raises  InputError unless 1 <= exit_layer < layers.
    Source  Elhoushi et al. 2024 (2404.16710), section 4.3.
    """
    target = setting.model()
    early, late = first_layers(target, exit_layer), later_layers(target, exit_layer)
    name = f"exit after layer {exit_layer} of {target.layers}"
    if setting.verify_s is not None:
        whole, early_share, late_share = setting.verify_s, bytes_ratio(early, target), bytes_ratio(late, target)
        draft_s: Callable[[int], float] = lambda width: early_share * whole(width)  # noqa: E731
        verify_s: Callable[[int], float] = lambda width: late_share * whole(width)  # noqa: E731
    else:
        draft_s, verify_s = setting.timer(early, draft=True), setting.timer(late)
    ideal = setting.time == "ideal"
    said = [
        (f"verification reuses what the first {exit_layer} layers computed", "Elhoushi et al. 2024, section 4.3"),
        (
            "the last level has not been through them: --draft-passes all pays for that pass too"
            if ideal
            else "the last level goes through them before verification: one draft pass more",
            "layerskip",
        ),
    ]
    if is_count_alone(target):
        said.append(("weights spread evenly over the layers, the LM head not told apart", "--params"))
    return Method(
        "layerskip",
        Draft(name, draft_s, model=early, tp=setting.load.tp, beside=()),
        verify_s,
        draft_passes=None if ideal else "all",
        exit_layer=exit_layer,
        assumptions=tuple(said),
    )


def ngram(setting: Setting, *, measured: Draft | None = None, proposal_share: float | None = None) -> Method:
    """Lookup of the last tokens in the text so far: one look-up a round on the host, one chain.

    proposal_share   rounds in which something was found; None: every round
    """
    share = 1.0 if proposal_share is None else proposal_share
    draft = Draft("n-gram lookup", _host_s(setting)) if measured is None or measured.free else measured
    known = f"something is proposed in {share:.0%} of the rounds; in the others a plain pass runs"
    best = "every round is taken to have a proposal: the best case"
    said = [(best if proposal_share is None else known, "--proposal-share")]
    if measured is None or measured.free:
        said.append(
            (f"a lookup takes the host as long as launching a draft pass: {draft.at(1) * 1e6:.0f} us", "engine")
        )
    return Method(
        "ngram",
        replace(draft, model=None, beside=(), passes=lambda depth: 1),
        draft_shape="block",
        family="chain",
        max_children=1,
        proposal_share=share,
        assumptions=tuple(said),
    )


def _host_s(setting: Setting) -> float:
    """The host's constant of a draft pass: what calling a drafter costs at least."""
    if setting.hardware is None or setting.time == "ideal":
        return 0.0
    if setting.engine is not None and setting.hardware.overhead.per_draft_pass is None:
        return setting.engine.per_draft_pass
    return setting.hardware.overhead_or_default().per_draft_pass


# ---- drafting that stops early


def keep_rate(drafted: float, most: int) -> float:
    """The rate at which drafting goes on after each token, from the mean number of drafted tokens.

    drafted = 1 + r + .. + r^(most-1)

    Raises  InputError unless 1 <= drafted <= most.

    >>> round(keep_rate(1.75, 3), 6)
    0.5
    """
    if not 1 <= drafted <= most:
        raise InputError(
            f"{drafted:g} drafted tokens a round with at most {most}",
            hint=f"a mean of 1 to {most}; the cap is --k or --steps",
        )
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if drafted_tokens(middle, most) < drafted else (low, middle)
    return high


def drafted_tokens(rate: float, most: int) -> float:
    """Mean number of drafted tokens when drafting goes on at `rate` after each, up to `most`.

    >>> drafted_tokens(0.5, 3)
    1.75
    """
    return float(sum(rate**i for i in range(most)))


def stopping(method: Method, *, drafted: float, most: int) -> Method:
    """The method with drafting that stops early by confidence: `drafted` tokens a round on average, `most` at most.

    Chains alone: passes and verification width are those of the expected length at every cap.
    """
    rate, at = keep_rate(drafted, most), method.draft.at
    draft = method.draft
    if method.draft_shape != "block":
        expected: Callable[[int], float] = lambda depth: drafted_tokens(rate, depth) * at(1)  # noqa: E731
        draft = replace(draft, pass_s=expected, last=None, passes=draft.passes or _depth)
    said = (
        f"drafting stops early: {drafted:g} tokens a round of at most {most}; the acceptance is taken as measured so",
        "--drafted-per-round",
    )
    return replace(
        method,
        draft=draft,
        draft_shape="block",
        family="chain",
        max_children=1,
        max_depth=min(most, method.max_depth or most),
        widths=None,
        assumptions=(*method.assumptions, said),
        keep=rate,
    )


def _depth(depth: int) -> int:
    return depth


# ---- several drafts


def coverage_bounds(coverages: Sequence[float]) -> tuple[float, float]:
    """Probability that at least one of several drafts proposes the target's token: what marginal rates leave open.

    coverages   of each draft by itself
    returns     (max A_s, min(1, sum A_s))

    >>> coverage_bounds([0.6, 0.5])
    (0.6, 1.0)
    """
    _check_shares(coverages)
    return max(coverages), min(1.0, sum(coverages))


def joint_coverage(counts: Mapping[tuple[bool, ...], float]) -> float:
    """The same from counts: positions by which of the drafts held the target's token.

    >>> joint_coverage({(True, True): 4, (True, False): 2, (False, True): 1, (False, False): 3})
    0.7
    """
    total = sum(counts.values())
    if not counts or total <= 0 or min(counts.values()) < 0:
        raise InputError("no positions counted", hint="count positions by which draft held the target's token")
    return sum(count for held, count in counts.items() if any(held)) / total


def merged_paths(*trees: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The union of prefixes: a token sequence is in the merged tree if some draft's tree contains it.

    trees     each a list of token sequences from the root; sequences that lead to them are added
    returns   all sequences, short ones first
    Source    Miao et al. 2024, definition 3.2.

    >>> merged_paths([[5], [5, 6]], [[5], [7]])
    ((5,), (7,), (5, 6))
    """
    found = {tuple(path[:length]) for tree in trees for path in tree for length in range(1, len(path) + 1)}
    return tuple(sorted(found, key=lambda path: (len(path), path)))


def _check_shares(values: Sequence[float]) -> None:
    if not values or not all(0 <= value <= 1 for value in values):
        raise InputError(f"coverages {list(values)[:8]}", hint="one probability in [0, 1] for each draft model")
