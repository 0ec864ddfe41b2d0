"""Finding profiles: the data folder, names and aliases, one file read at a time.

With over a hundred profiles, a name is first taken as a file name; otherwise the heads of all files
(name, aliases, default_for) are searched as text, and only files that hit are read.

Files of the package are read without pydantic, which alone would double the start-up; the user's own
files are validated by it, with the place of each flaw.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..base.errors import InputError, did_you_mean, nearest
from ..base.records import RecordT, field_types, read, reader, record_in
from .profile import DefaultsFile, Hardware, KindDefaults

GIVEN = "given by the user"


def folder() -> Path:
    """The data folder: beside the package in a checkout, inside it once installed."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "hardware"
    return beside if (beside / "_defaults.yaml").is_file() else package / "_data" / "hardware"


def names() -> list[str]:
    """Names of the bundled devices, sorted."""
    return sorted(name[:-5] for name in os.listdir(folder()) if name.endswith(".yaml") and not name.startswith("_"))


def fold(name: str) -> str:
    """What two equal names have in common: case, blanks and underscores do not count.

    >>> fold("NVIDIA A100-SXM4_80GB ")
    'nvidia-a100-sxm4-80gb'
    """
    return re.sub(r"[\s_]+", "-", name.strip().casefold())


def load(name_or_path: str | Path) -> Hardware:
    """See `hardware.load_hardware`."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.lower().endswith((".yaml", ".yml")):
        return read_own(text)
    found = _by_name(text)
    if found is not None:
        return found
    if "/" in text or os.sep in text or os.path.isfile(text):
        return read_own(text)
    raise _unknown(text)


def read_own(path: str | Path) -> Hardware:
    """The profile in a user's file."""
    from ..base.yaml import load_as, read_file

    return load_as(Hardware, read_file(path), where=str(path))


def _by_name(text: str) -> Hardware | None:
    wanted = fold(text)
    path = folder() / f"{wanted}.yaml"
    if re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", wanted) and path.is_file():
        return _bundled(path)
    hits = [_bundled(path) for path in _mentioning(wanted)] if wanted else []
    owners = [one for one in hits if wanted in map(fold, one.aliases)]
    if not owners:
        owners = [one.noted(note) for one in hits for short, note in one.default_for.items() if fold(short) == wanted]
    if len(owners) > 1:
        listed = ", ".join(one.name for one in owners)
        raise InputError(f"{text[:60]!r} is the name of several devices", hint=f"say which: {listed}")
    return owners[0] if owners else None


HEAD_BYTES = 2048
"""Where a name is looked for: `aliases` and `default_for` stand at the top of a profile, within 1 kB."""


def _mentioning(wanted: str) -> list[Path]:
    """Files whose head may hold the folded name; a cheap test on the bytes, not the last word."""
    words = [re.escape(word).encode() for word in wanted.split("-")]
    like = re.compile(rb"[-_\s]*".join(words), re.IGNORECASE)
    base = folder()
    return [base / f"{name}.yaml" for name in names() if like.search(_head(f"{base}/{name}.yaml"))]


def _head(path: str) -> bytes:
    """The bytes before `memory:`."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return os.read(file, HEAD_BYTES).partition(b"\nmemory:")[0]
    finally:
        os.close(file)


def _bundled(path: Path) -> Hardware:
    return trusted(Hardware, path.read_text(encoding="utf-8"), where=f"hardware/{path.name}")


def trusted(record: type[RecordT], text: str, *, where: str) -> RecordT:
    """The record in a text that tests have validated; what the fast reader refuses is validated for its message.

    Raises  InputError "WHERE:LINE:COLUMN: what".

    >>> from specplan.hardware.profile import Memory
    >>> trusted(Memory, "{capacity: 80GB, bandwidth: 2039GB}", where="x.yaml")
    Traceback (most recent call last):
    specplan.base.errors.InputError: x.yaml:1:29: bandwidth: '2039GB': unknown unit 'GB' for a bandwidth
      hint: write 2039GB/s or 3.35TB/s
    """
    import yaml

    try:
        return read(record, yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)))
    except (InputError, yaml.YAMLError):
        from ..base.yaml import load_as

        return load_as(record, text, where=where)


def _unknown(text: str) -> InputError:
    known = {fold(alias): alias for alias in aliases()} | {name: name for name in names()}
    close = nearest(fold(text), known) or nearest(re.sub(r"^(nvidia|amd|intel|geforce)-", "", fold(text)), known)
    head = f"nearest: {', '.join(known[key] for key in close)}; " if close else ""
    return InputError(
        f"unknown device {text[:60]!r}",
        hint=head + "or pass a YAML file: --gpu my.yaml; `specplan hardware list` shows all",
    )


def aliases() -> list[str]:
    """The texts in the `aliases:` lists, as they stand in the heads.

    >>> "A100-SXM4-80GB" in aliases()
    True
    """
    return [line.strip()[2:].strip("\"'") for line in _head_lines("aliases", "  - ")]


def short_names() -> list[str]:
    """Names that stand for one device of several, from the `default_for:` tables.

    >>> "a100" in short_names()
    True
    """
    return [line.partition(":")[0].strip() for line in _head_lines("default_for", "  ")]


def _head_lines(key: str, start: str) -> Iterator[str]:
    """The lines below a key in the heads of all profiles."""
    for name in names():
        head = _head(f"{folder()}/{name}.yaml").decode("utf-8", "ignore")
        block = re.search(rf"^{key}:\n((?:{start}.*\n?)+)", head, re.MULTILINE)
        yield from block[1].splitlines() if block else ()


# -- defaults ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def defaults() -> DefaultsFile:
    """`_defaults.yaml`, read once."""
    from ..base.yaml import load_as

    return load_as(DefaultsFile, _defaults_text(), where=DEFAULTS)


DEFAULTS = "hardware/_defaults.yaml"


def _defaults_text() -> str:
    return (folder() / "_defaults.yaml").read_text(encoding="utf-8")


@cache
def kind_defaults(kind: str) -> KindDefaults:
    """The defaults of a kind of device; the block of that kind alone is parsed.

    >>> kind_defaults("tpu").efficiency["any"].tile
    8
    """
    text = _defaults_text()
    block = re.search(rf"^  {kind}:\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    if block is None:
        return defaults().kinds[kind]  # type: ignore[index]
    return trusted(KindDefaults, block[1], where=DEFAULTS)


# -- override ---------------------------------------------------------------------------------------------------------


def override(hardware: Hardware, values: Mapping[str, object]) -> Hardware:
    """See `hardware.override`. Texts that the fast reader takes need no pydantic; all else is validated anew."""
    for key in values:
        _check_key(key)
    try:
        changed = hardware
        for key, value in values.items():
            changed = _replaced(changed, key.split("."), value)
    except InputError:
        return _validated(hardware, values).noted(hardware.note)
    given = {key: GIVEN for key in values if "." in key}
    kept = {key: text for key, text in hardware.sources.items() if key not in given}
    return changed.model_copy(update={"sources": kept | given})


def _replaced(record: RecordT, path: list[str], value: object) -> RecordT:
    """The record with the field at `path` read from a text; what is absent on the way is made. Raises InputError."""
    name, *rest = path
    declared = field_types(type(record))[name]
    if not rest:
        return record.model_copy(update={name: reader(declared)(value)})
    inner = getattr(record, name)
    if not isinstance(inner, dict):
        return record.model_copy(update={name: _replaced(inner, rest, value)})
    entry = inner[rest[0]] if rest[0] in inner else record_in(declared)()  # type: ignore[misc]
    return record.model_copy(update={name: inner | {rest[0]: _replaced(entry, rest[1:], value)}})


def _validated(hardware: Hardware, values: Mapping[str, object]) -> Hardware:
    from pydantic import ValidationError

    data = hardware.model_dump(exclude_none=True)
    for key, value in values.items():
        _set(data, key, value)
    try:
        return Hardware.model_validate(data)
    except ValidationError as error:
        raise _override_error(error, values) from None


def _set(data: dict[str, Any], key: str, value: object) -> None:
    *path, last = key.split(".")
    section = data
    for part in path:
        section = section.setdefault(part, {})
    section[last] = value
    if path:
        data["sources"] = {k: v for k, v in data["sources"].items() if k != key} | {key: GIVEN}


def _check_key(key: str) -> None:
    """Refuse what is no field: every dotted key is spelled out to suggest the nearest."""
    known = settable_keys()
    if key in known:
        return
    below = [name for name in known if name.startswith(f"{key}.")]
    if below:
        raise InputError(f"{key[:60]!r} holds several keys", hint="set one: " + ", ".join(below[:6]))
    if _is_list_or_table(key):
        hint = "write a file: specplan hardware new --like NAME --out my.yaml, then --gpu my.yaml"
        raise InputError(f"{key[:60]!r} is a list or a table, which cannot be set here", hint=hint)
    hint = did_you_mean(key, known, otherwise="keys are dotted, such as memory.bandwidth=3350GB/s")
    raise InputError(f"unknown key {key[:60]!r}", hint=hint)


def _is_list_or_table(key: str) -> bool:
    """Whether a profile has that key, though no single value stands under it."""
    singles = {name.partition(".")[0] for name in settable_keys()}
    return key in _inner_keys() or key.partition(".")[0] in field_types(Hardware).keys() - singles


@lru_cache(maxsize=1)
def settable_keys() -> tuple[str, ...]:
    """Every dotted key that `override` takes.

    >>> settable_keys()[4:7]
    ('devices', 'memory.capacity', 'memory.bandwidth')
    """
    return tuple(key for key in _inner_keys() if not key.endswith((".steps", ".all_reduce_share")))


@lru_cache(maxsize=1)
def _inner_keys() -> tuple[str, ...]:
    """The dotted keys that lead to the innermost fields, small tables among them."""
    from .profile import PRECISIONS, WEIGHT_ONLY

    keys = ["name", "title", "kind", "confidence", "devices"]
    for section in ("memory", "compute", "cache", "link", "power"):
        keys += [f"{section}.{key}" for key in _keys_of(section)]
    for precision in (*PRECISIONS, *WEIGHT_ONLY):
        keys += [f"efficiency.{precision}.{key}" for key in _keys_of("efficiency")]
    for section in ("attention", "overhead"):
        keys += [f"{section}.{key}" for key in _keys_of(section)]
    return (*keys, "notes")


def _keys_of(section: str) -> list[str]:
    record = record_in(field_types(Hardware)[section])
    return list(field_types(record)) if record else []


def _override_error(error: Any, values: Mapping[str, object]) -> InputError:
    """The first flaw, under the key that was set."""
    from ..base.yaml import declared_at, wording

    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    given = values.get(key, "")
    what, hint = wording(first, repr(str(given)[:60]), declared_at(Hardware, key.split(".")))
    return InputError(f"{key}={str(given)[:40]}: {what}", hint=hint)
