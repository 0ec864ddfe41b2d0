"""What the verbs of measuring share: the device, the profile's path, and what is kept of an interrupted run."""

import os
import sys
from typing import Any

from ..base.errors import EnvironmentProblem, InputError
from . import values
from .options import Measuring


def place_from(measuring: Measuring) -> Any:
    """The device that the options mean."""
    from ..measure import place as places

    threads = None if measuring.threads is None else values.positive("--threads", measuring.threads)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return places.place_of(places.choose(measuring.device), threads=threads, visible=visible)


def check_profile_path(option: str, path: str) -> None:
    """Refuses a profile's path that cannot be written, before anything is measured."""
    if not path.lower().endswith((".yaml", ".yml")):
        hint = f"{option} {os.path.splitext(path)[0]}.yaml"
        raise InputError(f"{option} {path}: a profile is a .yaml file", hint=hint)
    check_folder(option, path)


def check_folder(option: str, path: str | None) -> None:
    """Refuses a file whose folder cannot be written, before anything is measured; None: no file was asked for."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        hint = "choose a folder that exists and is writable"
        raise EnvironmentProblem(f"{option} {path}: cannot be written", hint=hint)


def incomplete(path: str, answer: Any) -> None:
    """Keep what was measured beside the profile, which is left as it was; None: nothing was yet."""
    from ..render.output import to_json, write_whole

    kept = f"{os.path.splitext(path)[0]}.incomplete.json"
    if answer is not None:
        write_whole(kept, to_json(answer.document))
    what = "nothing was measured yet" if answer is None else f"what was measured is in {kept}"
    sys.stderr.write(f"interrupted: {what}; {path} was left as it was\n")


def origin(place: Any) -> str:
    """By what, when and how it was measured, for the sources of a profile."""
    import datetime

    from .. import __version__
    from ..base.units import plural

    how = place.timer.clock if place.is_cuda else f"{place.timer.clock}, {plural(place.timer.threads, 'thread')}"
    day = datetime.date.today().isoformat()
    return f"measured {day} with specplan {__version__} on {place.name}, torch {place.values['torch']}, {how}"
