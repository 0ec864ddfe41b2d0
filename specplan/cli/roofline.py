"""specplan roofline"""

from typing import Any

from ..base import units
from ..base.errors import InputError
from .app import Command, new_app
from .options import Device, Output, Pass, Plot, Target, command

app = new_app()


@app.command(cls=Command)
@command
def roofline(
    device: Device,
    target: Target,
    of: Pass,
    output: Output,
    plot: Plot,
) -> None:
    """What bounds a pass: memory, compute, crossover, tokens per second.

    \b
    specplan roofline --gpu a100 --params 13e9
    specplan roofline --gpu h100 --model llama-3-70b --tp 4 --batch 8 --context 8k --dtype fp8
    """
    from ..render.roofline import roofline_answer
    from ..timing.roofline import roofline_share, rooflines
    from . import scenes, values
    from .finish import check_plot, finish

    check_plot(plot)
    place = scenes.scene(device, target)
    place.require()
    widths = values.read("--width", of.width, units.parse_integers) or []
    if min(widths) < 1:
        raise InputError(f"--width {min(widths)} is below 1", hint="the width counts the root: 1 is plain decoding")
    tpot_s = values.read("--measured-tpot", of.measured_tpot, units.parse_time)
    share = None if tpot_s is None else roofline_share(place.hardware, place.model, tpot_s, load=place.load)
    rows = {time: rooflines(place.timer(time=time), widths, load=place.load) for time in scenes.TIMES}
    scenes.say_of_attention(place, max(widths))
    place.inputs["width"] = widths if len(widths) > 1 else widths[0]
    answer = roofline_answer(place, rows, tpot_s=tpot_s, share=share)

    def sheet() -> Any:
        from ..render.figures.sheets import roofline_sheet

        return roofline_sheet(answer, place, widths)

    finish(answer, output, plot=plot, sheet=sheet)
