"""specplan measure acceptance"""

import sys
from dataclasses import replace
from typing import Any

from ..base.errors import InputError
from ..base.tree import TokenTree
from .finish import finish
from .measure_models import Room, enough_memory, room
from .measuring import check_folder
from .options import Decoding, Output, command
from .progress import METER


@command
def acceptance(decoding: Decoding, output: Output) -> None:
    """Acceptance of a draft on your prompts: counts by rank, depth and prompt, as the document that --acceptance takes.

    \b
    specplan measure acceptance --model DIR --draft DIR --prompts prompts.txt --out acceptance.json
    specplan measure acceptance --model DIR --draft early-exit:8 --prompts chats.jsonl --dtype bf16
    specplan measure acceptance --model model.gguf --draft ngram --prompts prompts.txt --temperature 0.7

    The target answers each prompt by itself; the draft is asked along those answers.
    """
    from ..measure import need

    need("torch")
    check_folder("--out", output.out)
    import torch

    from ..measure.rank_counts import count_prompts
    from ..render.output import to_json, write_whole

    with torch.inference_mode():
        given = room(decoding)
        counted: list[Any] = []
        found = count_prompts(
            given.target,
            given.source,
            given.prompts,
            tokens=given.tokens,
            temperature=given.temperature,
            seed=given.seed,
            end_ids=given.end_ids,
            tell=METER.tell,
        )
        try:
            with enough_memory(given.place.name):
                counted.extend(found)
        except KeyboardInterrupt:
            if output.out is not None and counted:
                kept = f"{output.out.rsplit('.', 1)[0]}.incomplete.json"
                write_whole(kept, to_json(_answer(decoding, given, counted).document))
                sys.stderr.write(f"interrupted: {len(counted)} of {len(given.prompts)} prompts are in {kept}\n")
            raise
    finish(_answer(decoding, given, counted), output)


def _answer(decoding: Decoding, given: Room, counted: list[Any]) -> Any:
    from ..measure.pooled import measured_keys, pooled, tau_by_prompt
    from ..render.measured_acceptance import measured_acceptance_answer

    if not counted:
        raise InputError(
            f"{decoding.prompts}: every answer ends at once", hint="ask for more --tokens, or check the prompts"
        )
    under = (given.rule, given.temperature)
    acceptance = pooled(counted, *under)
    chain = TokenTree.chain(acceptance.max_depth or 8)
    interval = tau_by_prompt(counted, chain, *under)
    about = {
        "k": chain.depth,
        "interval": interval,
        "measured": measured_keys(counted),
        "workload": f"{len(counted)} prompts of {decoding.prompts}, answers of up to {given.tokens} tokens",
        "source": f"measured: {decoding.model} with {decoding.draft}, {given.dtype}",
    }
    named = {"model": decoding.model, "draft": decoding.draft, "prompts_file": decoding.prompts, **given.inputs}
    return measured_acceptance_answer(replace(acceptance, about=about), named, asked=len(given.prompts))
