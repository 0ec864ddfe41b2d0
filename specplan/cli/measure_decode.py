"""specplan measure decode"""

import sys
from typing import Any

import typer

from ..base.errors import InputError
from . import values
from .finish import check_plot, finish
from .measure_models import Room, enough_memory, room
from .measuring import check_folder
from .options import Decoding, Output, Plot, Validation, command
from .progress import METER


@command
def decode(decoding: Decoding, validation: Validation, output: Output, plot: Plot) -> None:
    """Decode for real with a planned tree, plainly beside it, and show predicted against measured.

    \b
    specplan measure decode --from tree.json --model DIR --draft DIR --prompts others.txt --acceptance accepted.json
    specplan measure decode --from tree.json --model m.gguf --draft ngram --prompts p.jsonl --tolerance 15%

    The prompts should not be those that the acceptance was measured on. Exit 1 when --tolerance is missed or a text
    differs from plain decoding by more than rounding.
    """
    from ..measure import need

    check_plot(plot)
    need("torch")
    check_folder("--out", output.out)
    import torch

    from ..stacks.tree_files import read_tree

    if validation.from_ is None:
        raise InputError("--from is missing", hint="--from tree.json: a tree, a plan, or a list of paths")
    tree = read_tree(validation.from_)
    if not tree.nodes:
        raise InputError(
            f"{validation.from_}: a tree without nodes is plain decoding", hint="give the tree to validate"
        )
    tolerance = values.tolerance(validation.tolerance)
    acceptance = _acceptance(validation)
    profile = _profile(validation)
    with torch.inference_mode():
        given = room(decoding)
        if acceptance is not None:
            _refuse_other_rule(acceptance, given)
        with enough_memory(given.place.name):
            answer, terms, passed = _run(given, decoding, tree, acceptance, profile, tolerance)

    def sheet() -> Any:
        from ..render.figures.sheets import terms_sheet
        from ..render.measured_decode import NAMES

        return terms_sheet(answer, terms, NAMES, tolerance=tolerance)

    finish(answer, output, plot=plot, sheet=sheet)
    if not passed:
        raise typer.Exit(1)


def _acceptance(validation: Validation) -> Any:
    if validation.acceptance is None:
        return None
    from ..stacks.detect import read_acceptance

    return read_acceptance(validation.acceptance)


def _profile(validation: Validation) -> Any:
    if validation.profile is None:
        return None
    from ..hardware.profile import load_hardware

    return load_hardware(validation.profile)


def _predicted(given: Room, decoding: Decoding, profile: Any, alone: Any, context: int) -> Any:
    """Times of the passes as the profile has them, or as they were timed alone."""
    if profile is None:
        return alone
    from ..measure.validation import by_profile
    from ..measure.weights import find_model
    from ..methods.heads import first_layers
    from ..models.spec import load_model

    target = load_model(str(find_model(str(decoding.model))), dtype=given.dtype)
    draft = None
    if given.source.layers is not None:
        draft = first_layers(target, len(given.source.layers))
    elif given.source.model is not None:
        draft = load_model(str(find_model(str(decoding.draft))), dtype=given.dtype)
    return by_profile(profile, target, draft, alone, context=context)


def _refuse_other_rule(acceptance: Any, given: Room) -> None:
    """An acceptance measured under another rule predicts another decode."""
    for what, theirs, ours in (
        ("rule", acceptance.rule, given.rule),
        ("temperature", acceptance.temperature, given.temperature),
    ):
        if theirs is not None and theirs != ours:
            raise InputError(
                f"--acceptance was measured at {what} {theirs}, this decodes at {ours}",
                hint="measure it again at this one, or decode at that one",
            )


def _run(
    given: Room, decoding: Decoding, tree: Any, acceptance: Any, profile: Any, tolerance: float | None
) -> tuple[Any, Any, bool]:
    """The answer, its terms, and whether it passed."""
    import torch

    from ..measure.outcome import explanation, identity_of, terms_of
    from ..measure.pooled import read_prompts_counted
    from ..measure.validation import ALONE, Passes, validate
    from ..measure.walk import LOSSY, Sampling
    from ..render.measured_decode import measured_decode_answer

    context = sum(map(len, given.prompts)) // len(given.prompts) + given.tokens // 2
    sampling = Sampling(given.rule, given.temperature, torch.Generator().manual_seed(given.seed))
    passes = Passes(given.target, given.source, tree, context=context, timer=given.place.timer)
    METER.tell(0.01, "passes alone")
    passes.take(ALONE)
    validated: list[Any] = []
    found = validate(
        given.target,
        given.source,
        tree,
        given.prompts,
        tokens=given.tokens,
        sampling=sampling,
        end_ids=given.end_ids,
        tell=METER.tell,
    )
    stopped = False
    try:
        for one in found:
            validated.append(one)
            passes.take()
    except KeyboardInterrupt:
        if not any(one.tree.rounds for one in validated):
            raise
        stopped = True
        sys.stderr.write(f"interrupted: {len(validated)} of {len(given.prompts)} prompts are reported\n")
    if not any(one.tree.rounds and one.plain.rounds for one in validated):
        raise InputError("every answer ends at once", hint="ask for more --tokens, or check the prompts")
    passes.take(ALONE)
    counted = [] if acceptance is None else read_prompts_counted(acceptance)
    alone = passes.alone()
    predicted = _predicted(given, decoding, profile, alone, context)
    terms = terms_of(validated, tree, predicted, acceptance=acceptance, counted=counted, seed=given.seed)
    identity = identity_of(validated, exact=given.dtype in ("fp32", "fp64")) if given.temperature == 0 else None
    within = tolerance is None or all(terms[name].within(tolerance) for name in ("tau", "round_s", "tokens_per_s"))
    answer = measured_decode_answer(
        tree,
        terms,
        identity,
        explains=explanation(terms),
        drift=passes.drift(),
        alone=alone,
        profile=None if profile is None else profile.name,
        clock=given.place.timer.clock,
        validated=validated,
        within=None if tolerance is None else within,
        tolerance=tolerance,
        complete=not stopped,
        lossy=given.rule in LOSSY,
        inputs={"model": decoding.model, "draft": decoding.draft, "prompts_file": decoding.prompts, **given.inputs},
        device=given.place.name,
    )
    return answer, terms, within and (identity is None or identity.lossless)
