"""The options of a method of drafting -> a priced method, and its acceptance where it has its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..base import units
from ..base.errors import InputError, did_you_mean
from . import options, pricing, scenes, values

# Settings that one method alone takes.
OF_METHOD = {
    "exit_layer": ("--exit-layer", ("layerskip",)),
    "heads": ("--heads", ("medusa",)),
    "max_rank": ("--max-rank", ("medusa",)),
    "topk": ("--topk", ("eagle", "eagle3", "mtp", "specinfer")),
    "proposal_share": ("--proposal-share", ("ngram",)),
}


# Methods that draft with models of their own.
TAKES_DRAFT = ("chain", "sequoia", "specinfer")


@dataclass(frozen=True)
class Asked:
    """How the options say that tokens are drafted.

    names     methods in the order given; () for none
    exits     acceptance by exit layer, {} where one layer or none was given
    stop      (mean drafted tokens, cap) where drafting stops early
    """

    names: tuple[str, ...]
    heads: int
    max_rank: int
    exit_layer: int | None
    exits: dict[int, Any]
    steps: int | None
    topk: tuple[int, ...] | None
    parallel: bool
    stop: tuple[float, int] | None
    proposal_share: float | None


def asked(
    given: options.Methods,
    shape: options.Shape,
    heads: str | None,
    max_rank: str | None,
    *,
    every: bool = False,
    families: bool = False,
) -> Asked:
    """Read the options; settings of a method that was not asked for are refused.

    every      True where no --method means all of them
    families   True where --heads and --max-rank also shape --families
    """
    from ..methods.catalogue import METHODS
    from ..planning.families import DEFAULT_HEADS, DEFAULT_MAX_RANK

    names = tuple(dict.fromkeys(_known(name, METHODS) for name in given.method))
    _refuse_strays(given, heads, max_rank, METHODS if every and not names else names, families, every)
    if given.draft_models not in ("in_turn", "parallel"):
        raise InputError(f"--draft-models {given.draft_models[:30]!r} is not known", hint="one of in_turn, parallel")
    layer, exits = _exits(given.exit_layer)
    steps = None if given.steps is None else values.positive("--steps", given.steps)
    share = None if given.proposal_share is None else values.share("--proposal-share", given.proposal_share)
    return Asked(
        names=names,
        heads=DEFAULT_HEADS if heads is None else values.positive("--heads", heads),
        max_rank=DEFAULT_MAX_RANK if max_rank is None else values.positive("--max-rank", max_rank),
        exit_layer=layer,
        exits=exits,
        steps=steps,
        topk=None if given.topk is None else tuple(values.positive("--topk", part) for part in given.topk.split(",")),
        parallel=given.draft_models == "parallel",
        stop=_stop(given, shape, steps),
        proposal_share=share,
    )


def _known(name: str, methods: Sequence[str]) -> str:
    if name not in methods:
        otherwise = "one of " + ", ".join(methods)
        raise InputError(f"--method {name[:40]!r} is not known", hint=did_you_mean(name, methods, otherwise=otherwise))
    return name


def _refuse_strays(
    given: options.Methods,
    heads: str | None,
    max_rank: str | None,
    names: Sequence[str],
    families: bool,
    every: bool,
) -> None:
    values = {**vars(given), "heads": None if families else heads, "max_rank": None if families else max_rank}
    for key, (option, methods) in OF_METHOD.items():
        if values[key] is not None and not set(methods) & set(names):
            also = " or --families" if key in ("heads", "max_rank") and not every else ""
            raise InputError(
                f"{option} goes with --method {' or '.join(methods)}{also}", hint=f"add --method {methods[0]}"
            )


def _exits(text: str | None) -> tuple[int | None, dict[int, Any]]:
    """One exit layer, or acceptance rates of a chain by exit layer."""
    if text is None:
        return None, {}
    if ":" not in text:
        return values.positive("--exit-layer", text), {}
    from ..acceptance.kinds import Chain

    exits = {}
    for part in text.split(","):
        layer, _, rate = part.partition(":")
        if values.positive("--exit-layer", layer) in exits:
            raise InputError(f"--exit-layer {layer} has two rates", hint="one rate for each layer")
        exits[values.positive("--exit-layer", layer)] = Chain.constant(values.share("--exit-layer", rate))
    return None, exits


def _stop(given: options.Methods, shape: options.Shape, steps: int | None) -> tuple[float, int] | None:
    if given.drafted_per_round is None:
        return None
    drafted = values.read("--drafted-per-round", given.drafted_per_round, units.parse_count)
    most = steps if shape.k is None else values.positive("--k", shape.k)
    if most is None:
        raise InputError("--drafted-per-round needs the cap it was measured with", hint="add --k 8, or --steps 8")
    assert drafted is not None
    with values.naming("--drafted-per-round"):
        from ..methods.catalogue import keep_rate

        keep_rate(drafted, most)
    return drafted, most


def rate_of_drafted(place: scenes.Scene, given: options.Acceptance, stop: tuple[float, int] | None) -> None:
    """With drafting that stops early the accept rate is over the tokens that were drafted, not over K."""
    if stop is None or given.accept_rate is None:
        return
    tau = 1 + stop[0] * values.share("--accept-rate", given.accept_rate)
    place.notes.append(
        f"accept rate {given.accept_rate} of {stop[0]:g} drafted tokens is {tau:.3f} tokens a round, bonus included"
    )
    given.accept_rate, given.accept_length = None, repr(tau)


class Builder:
    """Builds methods for one setting; drafts are priced once.

    drafts   prices the drafts that the options name
    alone    True where a draft time that was given is that of the one method asked for
    """

    def __init__(
        self,
        setting: Any,
        draft: options.Draft,
        asked: Asked,
        acceptance: Any | None,
        drafts: Callable[[], list[Any]],
        *,
        alone: bool = True,
    ) -> None:
        self.setting, self.options, self.asked, self.acceptance = setting, draft, asked, acceptance
        self.alone = alone
        self._price = drafts

    @classmethod
    def at(
        cls,
        place: scenes.Scene,
        costs: Any,
        draft: options.Draft,
        asked: Asked,
        acceptance: Any | None,
        *,
        alone: bool = True,
    ) -> Builder:
        """For one place and its costs."""
        from ..methods.catalogue import Setting

        measured = None if costs.measured is None else lambda width: costs.verify_s[width - 1]
        setting = Setting(
            place.hardware, place.model, place.load, place.time, place.engine, place.offload, verify_s=measured
        )
        priced = lambda: pricing.drafts(place, draft, costs.plain_s)  # noqa: E731
        return cls(setting, draft, asked, acceptance, priced, alone=alone)

    @cached_property
    def drafts(self) -> list[Any]:
        return self._price()

    def one_draft(self) -> Any:
        if len(self.drafts) > 1:
            from ..base.errors import Missing

            raise Missing("several --draft were given", hint="specinfer alone merges them")
        return self.drafts[0]

    def timed_draft(self) -> Any:
        """The draft's time where it was given as such; a draft model says nothing of a head."""
        given = self.options
        if not self.alone:
            return None
        return self.one_draft() if given.draft_pass or given.draft_ratio or given.draft_curve else None

    def build(self, name: str, *, exit_layer: int | None = None) -> Any:
        """The method of that name.

        exit_layer   for layerskip, in place of the option's
        Raises       Missing where an input is not there
        """
        method = getattr(self, f"_{name}")() if name != "layerskip" else self._layerskip(exit_layer)
        if self.options.draft_passes != "all_but_leaf" and method.draft_passes is None:
            method = replace(method, draft_passes=self.options.draft_passes)
        if self.asked.stop is None:
            return method
        from ..methods.catalogue import stopping

        return stopping(method, drafted=self.asked.stop[0], most=self.asked.stop[1])

    def _chain(self) -> Any:
        from ..methods.catalogue import chain

        return self._within_steps(chain(self.one_draft()))

    def _tree(self) -> Any:
        from ..methods.catalogue import tree

        return self._within_steps(tree(self.one_draft()))

    def _sequoia(self) -> Any:
        from ..methods.catalogue import sequoia

        return self._within_steps(sequoia(self.one_draft()))

    def _specinfer(self) -> Any:
        from ..methods.catalogue import specinfer

        topk = self.asked.topk
        of_heads = self.asked.names != ("specinfer",)  # one number is the nodes of their passes
        widths = None if topk is None or (of_heads and len(topk) == 1) else topk
        return self._within_steps(specinfer(self.drafts, parallel=self.asked.parallel, widths=widths))

    def _within_steps(self, method: Any) -> Any:
        return method if self.asked.steps is None else replace(method, max_depth=self.asked.steps)

    def _medusa(self) -> Any:
        from ..methods.catalogue import medusa

        return medusa(self.setting, heads=self.asked.heads, max_rank=self.asked.max_rank)

    def _eagle(self, version: int = 1) -> Any:
        from ..methods.catalogue import eagle

        return eagle(self.setting, version=version, **self._headed())

    def _eagle3(self) -> Any:
        return self._eagle(3)

    def _mtp(self) -> Any:
        from ..methods.catalogue import mtp

        return mtp(self.setting, **self._headed())

    def _headed(self) -> dict[str, Any]:
        topk = self.asked.topk
        if topk is not None and len(topk) > 1 and self.asked.names and "specinfer" not in self.asked.names:
            raise InputError("--topk with several numbers is SpecInfer's", hint="--topk 8, or --method specinfer")
        tp = self.options.draft_tp
        return {
            "steps": self.asked.steps,
            "topk": topk[0] if topk is not None and len(topk) == 1 else None,
            "measured": self.timed_draft(),
            "tp": None if tp is None else values.positive("--draft-tp", tp),
        }

    def _layerskip(self, exit_layer: int | None) -> Any:
        from ..base.errors import Missing
        from ..methods.catalogue import layerskip

        layer = exit_layer if exit_layer is not None else self.asked.exit_layer
        if layer is None:
            raise Missing("no exit layer given", hint="--exit-layer 8, or rates by layer: --exit-layer 4:0.45,8:0.62")
        with values.naming("--exit-layer"):
            return self._within_steps(layerskip(self.setting, exit_layer=layer))

    def _ngram(self) -> Any:
        from ..methods.catalogue import ngram

        return ngram(self.setting, measured=self.timed_draft(), proposal_share=self._proposal_share())

    def _proposal_share(self) -> float | None:
        counts = None if self.acceptance is None else self.acceptance.counts
        if self.asked.proposal_share is not None or counts is None:
            return self.asked.proposal_share
        if not counts.rounds or counts.rounds_without_proposal is None:
            return None
        return float(1 - counts.rounds_without_proposal / counts.rounds)


def refuse_deeper(method: Any, shape: options.Shape, tree: Any | None) -> None:
    """A shape that was asked for and that the method cannot draft: nothing is cut down silently.

    tree   of --from or --k
    """
    for option, given, most, what in (
        ("--max-depth", shape.max_depth, method.max_depth, "levels"),
        ("--max-children", shape.max_children, method.max_children, "children"),
    ):
        if given is not None and most is not None and values.positive(option, given) > most:
            _refuse_shape(method, f"{option} {given}", most, what, f"{option} {most} or less")
    if tree is None:
        return
    option = f"--k {shape.k}" if shape.from_ is None else "--from"
    if method.max_depth is not None and tree.depth > method.max_depth:
        _refuse_shape(method, f"{option}: {tree.depth} levels", method.max_depth, "levels", "a shallower shape")
    children = max((tree.root_children, *tree.child_counts))
    if method.max_children is not None and children > method.max_children:
        _refuse_shape(
            method, f"{option}: {children} children of a node", method.max_children, "children", "fewer children"
        )


def _refuse_shape(method: Any, asked: str, most: int, what: str, hint: str) -> None:
    more = {"medusa": {"levels": ", or more --heads", "children": ", or a larger --max-rank"}}.get(method.name, {})
    one = {"levels": "level", "children": "child"}[what]
    raise InputError(
        f"{asked}: {method.name} drafts at most {most} {one if most == 1 else what} ({method.draft.name})",
        hint=hint + more.get(what, ""),
    )


def warnings_of(method: Any, acceptance: Any) -> list[str]:
    """What is doubtful about this method with these numbers."""
    from ..methods.catalogue import rule_warning

    said = rule_warning(method.name, acceptance)
    return [] if said is None else [said]


def planner(
    place: scenes.Scene,
    costs: Any,
    limits: Any,
    builder: Builder,
    tie: float,
    *,
    merged: bool = False,
    runnable: Any = None,
) -> Callable[[str, Any], tuple[Any, Any]]:
    """name, acceptance -> (method, plan); for layerskip with rates by exit layer, the best layer's.

    runnable   what a stack runs, where shapes are for one
    """
    from ..planning.compare import best_exit, plan_method

    timed = place.hardware is not None and place.model is not None
    scene = place.at_batch(place.load.batch)

    def planned(method: Any, acceptance: Any) -> Any:
        return plan_method(
            acceptance,
            costs,
            siblings(limits, acceptance),
            method,
            tie=tie,
            memory_of=(lambda priced: pricing.memory_of(scene, priced)) if timed else None,  # type: ignore[arg-type, return-value]
            merged=merged,
            runnable=runnable,
        )

    def plan_of(name: str, acceptance: Any) -> tuple[Any, Any]:
        if name == "layerskip" and builder.asked.exits:
            layer, plan = best_exit(
                builder.asked.exits, lambda at: builder.build(name, exit_layer=at), lambda m, a: planned(m, a)
            )
            return builder.build(name, exit_layer=layer), plan
        method = builder.build(name)
        return method, planned(method, acceptance)

    return plan_of


def siblings(limits: Any, acceptance: Any) -> Any:
    """Chains alone where nothing is known of siblings."""
    return limits if acceptance is None or acceptance.siblings_known else replace(limits, children=1)


# ---- the one method of `plan`


def only_one(asked: Asked) -> str | None:
    """The method of a plan; None where none was asked for."""
    if len(asked.names) > 1:
        raise InputError(
            f"a plan is for one method, not for {len(asked.names)}", hint="specplan compare puts methods side by side"
        )
    return asked.names[0] if asked.names else "chain" if asked.stop is not None else None


def at_work(
    place: scenes.Scene, costs: Any, limits: Any, draft: options.Draft, asked: Asked, acceptance: Any
) -> tuple[Any, Any]:
    """Costs and limits of the method that runs now; what it assumes is noted in `place`."""
    from ..base.errors import Missing
    from ..planning.compare import method_costs, method_limits

    name = only_one(asked)
    assert name is not None
    if place.hardware is None:
        raise InputError("--method needs a device: measured times have the draft's in them", hint="leave --method out")
    try:
        method = Builder.at(place, costs, draft, asked, acceptance).build(name)
    except Missing as lack:
        raise InputError(f"--method {name}: {lack.message}", hint=lack.hint) from None
    place.assumptions.extend(method.assumptions)
    place.warnings.extend(warnings_of(method, acceptance))
    place.inputs.update(method=name, draft=method.draft.name, exit_layer=method.exit_layer)
    return method_costs(costs, method), method_limits(limits, method)


def exits_or(asked: Asked, acceptance: Any) -> Any:
    """The acceptance; with rates by exit layer, the first of those until the best layer is known."""
    if not asked.exits:
        return acceptance
    if acceptance is not None:
        raise InputError(
            "--exit-layer with rates and another option both give the acceptance", hint="leave one of them out"
        )
    return next(iter(asked.exits.values()))


def plan_at(
    place: scenes.Scene,
    costs: Any,
    limits: Any,
    draft: options.Draft,
    asked: Asked,
    acceptance: Any,
    tie: float,
    shape: options.Shape,
    tree: Any | None,
    runnable: Any = None,
) -> tuple[Any, Any, Any]:
    """(plan, costs, limits) with the method that was asked for; what it assumes is noted in `place`."""
    from ..base.errors import Missing
    from ..planning.compare import method_costs, method_limits

    name = only_one(asked)
    assert name is not None
    builder = Builder.at(place, costs, draft, asked, acceptance)
    try:
        method, plan = planner(place, costs, limits, builder, tie, runnable=runnable)(name, acceptance)
    except Missing as lack:
        raise InputError(f"--method {name}: {lack.message}", hint=lack.hint) from None
    refuse_deeper(method, shape, tree)
    place.assumptions.extend(method.assumptions)
    place.warnings.extend(warnings_of(method, acceptance))
    place.inputs.update(method=name, draft=method.draft.name, exit_layer=method.exit_layer)
    if draft.draft and name not in TAKES_DRAFT and runnable is None:
        place.notes.append(
            f"--draft {', '.join(draft.draft)} has no part in it: {name} drafts with {method.draft.name}"
        )
    if method.proposal_share < 1:
        place.inputs["proposal_share"] = method.proposal_share
    within = method_limits(limits, method)
    place.inputs.update(max_depth=within.depth, max_children=within.children)
    return plan, method_costs(costs, method), within


def acceptance_of(place: scenes.Scene, asked: Asked, acceptance: Any) -> Any:
    """The acceptance over all rounds that the planned method has."""
    layer, share = place.inputs.get("exit_layer"), place.inputs.get("proposal_share")
    if asked.exits and layer is not None:
        return asked.exits[layer]
    if share is None or acceptance is None:
        return acceptance
    from ..acceptance.by_k import mixed
    from ..acceptance.kinds import Independent

    return mixed((acceptance, Independent(0.0)), (share, 1 - share))


def repricer(place: scenes.Scene, draft: options.Draft, asked: Asked, acceptance: Any) -> Any:
    """Puts the method into the costs of another place (a what-if); None without a method."""
    name = only_one(asked)
    if name is None:
        return None
    from ..planning.compare import method_costs

    def priced(other: scenes.Scene, costs: Any) -> Any:
        builder = Builder.at(other, costs, draft, asked, acceptance)
        return method_costs(costs, builder.build(name, exit_layer=place.inputs.get("exit_layer")))

    return priced
