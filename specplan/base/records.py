"""Records: frozen dataclasses that are read from text, by one declaration and in two ways.

A field's type says what its text means: `Annotated[float, Limits(gt=0), Quantity(parse_bytes, "a size in bytes")]`.

    read       texts -> record in well under a millisecond, the first flaw as an InputError: for files of the package
    validated  texts or numbers -> record through pydantic, all flaws with their places: for what people write

pydantic is imported by the second only, since importing it and building its schemas takes longer than a whole
answer does. For the same reason a record has one general constructor, where a dataclass would compile its own.

    >>> class Box(Record):
    ...     '''A box.'''
    ...     width: Annotated[int, Limits(ge=1)]
    ...     label: str = ""
    >>> read(Box, {"width": "3"})
    Box(width=3, label='')
    >>> read(Box, {"width": "0"})
    Traceback (most recent call last):
    specplan.base.errors.InputError: width: '0' is not allowed here
"""

from __future__ import annotations

import copy
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from .errors import InputError
from .units import EXAMPLES

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import PydanticCustomError
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        return lambda cls: cls


RecordT = TypeVar("RecordT", bound="Record")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Record:
    """Base of the records: a subclass becomes a frozen dataclass with keyword arguments. Iterates over (name, value).

    The constructor takes values as they are; `model_validate` reads texts and checks.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}
    _types: ClassVar[dict[str, Any]]
    _fill: ClassVar[dict[str, Callable[[], Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
        own = fields(cls)  # type: ignore[arg-type]
        hints = get_type_hints(cls, include_extras=True) if any(isinstance(one.type, str) for one in own) else {}
        cls._types = {one.name: hints.get(one.name, one.type) for one in own}
        cls._fill = {one.name: _default(cls, one) for one in own}

    def __init__(self, **values: Any) -> None:
        vars(self).update(_complete(type(self), values))

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self._types)

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *(value for _, value in self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"

    @classmethod
    def model_validate(cls, data: Mapping[str, Any]) -> Self:
        """The record from texts with units, or numbers in SI.

        Raises  pydantic.ValidationError with every flaw.
        """
        record: Self = adapter(cls).validate_python(data)  # type: ignore[arg-type]  # classes are hashable
        return record

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same with fields replaced, taken as they are."""
        other = copy.copy(self)
        vars(other).update(update)
        return other

    def model_dump(self, *, mode: Literal["python", "json"] = "python", exclude_none: bool = False) -> dict[str, Any]:
        """Nested dictionaries; numbers in SI. mode "json": lists in place of tuples."""
        return {
            name: _dumped(value, mode=mode, exclude_none=exclude_none)
            for name, value in self
            if not (exclude_none and value is None)
        }


def _complete(cls: type[Record], values: dict[str, Any]) -> dict[str, Any]:
    """`values` in the order of the fields, with the defaults of those left out."""
    complete = {name: values[name] if name in values else default() for name, default in cls._fill.items()}
    unknown = values.keys() - complete.keys()
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {min(unknown)!r}")
    return complete


def _default(cls: type[Any], one: Any) -> Callable[[], Any]:
    """What gives a field's default; a TypeError where it has none."""
    if one.default_factory is not MISSING:
        factory: Callable[[], Any] = one.default_factory
        return factory
    if one.default is not MISSING:
        return lambda: one.default

    def missing() -> Any:
        raise TypeError(f"{cls.__name__} needs {one.name!r}")

    return missing


def _dumped(value: Any, **how: Any) -> Any:
    if isinstance(value, Record):
        return value.model_dump(**how)
    if isinstance(value, dict):
        return {key: _dumped(item, **how) for key, item in value.items()}
    if isinstance(value, tuple):
        items = (_dumped(item, **how) for item in value)
        return list(items) if how["mode"] == "json" else tuple(items)
    return value


def field_types(cls: type[Record]) -> dict[str, Any]:
    """The declared type of each field, in order."""
    return cls._types


def record_in(declared: Any) -> type[Record] | None:
    """The record named in a type such as `dict[str, Efficiency] | None`."""
    if isinstance(declared, type) and issubclass(declared, Record):
        return declared
    return next((found for part in get_args(declared) if (found := record_in(part)) is not None), None)


def quantity_in(declared: Any) -> Quantity | None:
    """The quantity named in a type such as `Annotated[float, Quantity(...)] | None`."""
    if isinstance(declared, Quantity):
        return declared
    return next((found for part in get_args(declared) if (found := quantity_in(part)) is not None), None)


def needed_fields(cls: type[Record]) -> list[str]:
    """The fields without a default."""
    return [one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING]  # type: ignore[arg-type]


# -- what a field's text means ----------------------------------------------------------------------------------------

_BARE = re.compile(r"[-+\d._]+(?:[eE][-+]?\d+)?")


class Quantity:
    """Marks a number that is written with a unit: `parse` reads it into SI; `bare` ones need no unit.

    what   its name in `units.EXAMPLES`, for messages
    """

    def __init__(self, parse: Callable[[str], float], what: str, *, bare: bool = False) -> None:
        self.parse, self.what, self.bare = parse, what, bare

    def read(self, text: str) -> float:
        """The number in SI. Raises InputError."""
        if not self.bare and _BARE.fullmatch(text.strip()) and text.strip() != "0":
            raise InputError(f"{text[:60]!r} has no unit", hint=f"write {EXAMPLES[self.what]}")
        return self.parse(text)

    def _validate(self, value: object) -> object:
        """Numbers pass as SI; a truth value is none."""
        if not isinstance(value, str):
            return None if isinstance(value, bool) else value
        try:
            return self.read(value)
        except InputError as error:
            raise _custom(error) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        example = EXAMPLES[self.what].split(" or ")[0].split(", ")[0]
        kind = ["string", handler(schema)["type"]] if self.bare else "string"
        return {"type": kind, "description": self.what, "examples": [example]}


class Limits:
    """Marks what a number (gt, ge, le) or a text (min_length, max_length, pattern) must keep to."""

    def __init__(self, **limits: Any) -> None:
        self.limits = limits

    def check(self, value: Any) -> None:
        """Raises InputError when `value` is out of them."""
        if not all(_LIMITS[name](value, limit) for name, limit in self.limits.items()):
            raise InputError(f"{str(value)[:60]!r} is not allowed here")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), **self.limits}


_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda value, limit: value > limit,
    "ge": lambda value, limit: value >= limit,
    "le": lambda value, limit: value <= limit,
    "min_length": lambda value, limit: len(value) >= limit,
    "max_length": lambda value, limit: len(value) <= limit,
    "pattern": lambda value, limit: re.search(limit, value) is not None,
}


class Check:
    """Marks a value that `check` must accept once it is read; it raises InputError with a hint."""

    def __init__(self, check: Callable[[Any], None]) -> None:
        self.check = check

    def _validate(self, value: Any) -> Any:
        try:
            self.check(value)
        except InputError as error:
            raise _custom(error) from None
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._validate, handler(source))


def _custom(error: InputError) -> PydanticCustomError:
    from pydantic_core import PydanticCustomError

    return PydanticCustomError("quantity", "{what}", {"what": error.message, "hint": error.hint})


@cache
def adapter(cls: type[Any]) -> TypeAdapter[Any]:
    """The validator of a record, built once."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


# -- the fast reader --------------------------------------------------------------------------------------------------


def read(cls: type[RecordT], data: object) -> RecordT:
    """The record from nested dictionaries and lists of texts.

    What it accepts, `model_validate` accepts with the same result; for what it refuses, that has the better message.

    Raises  InputError "KEY: what" for the first flaw.
    """
    if not isinstance(data, dict):
        raise InputError(f"{str(data)[:60]!r} where keys are expected")
    values = {key: _value(field_types(cls), key, value) for key, value in data.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise InputError(str(error)) from None


def _value(types: Mapping[str, Any], key: str, value: object) -> Any:
    if key not in types:
        raise InputError(f"unknown key {key[:60]!r}", hint="known here: " + ", ".join(types))
    try:
        return reader(types[key])(value)
    except InputError as error:
        raise InputError(f"{key}: {error.message}", hint=error.hint) from None


@cache
def reader(declared: Any) -> Callable[[Any], Any]:
    """What reads texts as the declared type; its values raise InputError."""
    origin, parts = get_origin(declared), get_args(declared)
    if origin is Annotated:
        return _marked_reader(parts[0], parts[1:])
    if origin is Literal:
        return lambda value: _one_of(value, parts)
    if origin is tuple:
        return lambda value: tuple(map(reader(parts[0]), _of(list, value)))
    if origin is dict:
        return lambda value: {key: reader(parts[1])(item) for key, item in _of(dict, value).items()}
    if origin in (Union, types.UnionType):
        return reader(next(part for part in parts if part is not type(None)))
    return _PLAIN[declared] if declared in _PLAIN else lambda value: read(declared, value)


def _marked_reader(declared: Any, marks: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Text to value by the quantity among `marks`, if there is one, then the checks."""
    quantity = next((mark for mark in marks if isinstance(mark, Quantity)), None)
    first = reader(declared) if quantity is None else lambda value: quantity.read(_of(str, value))
    checks = [mark.check for mark in marks if not isinstance(mark, Quantity)]

    def marked(value: Any) -> Any:
        found = first(value)
        for check in checks:
            check(found)
        return found

    return marked


def _of(kind: type, value: object) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{str(value)[:60]!r} is not a {kind.__name__}")
    return value


def _one_of(value: object, choices: tuple[Any, ...]) -> Any:
    if value not in choices:
        raise InputError(f"{str(value)[:60]!r} is not one of {', '.join(choices)}")
    return value


def _float(value: object) -> float:
    try:
        number = float(_of(str, value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{str(value)[:60]!r} is not a number")
    return number


def _int(value: object) -> int:
    if not re.fullmatch(r"[-+]?\d{1,18}", _of(str, value)):
        raise InputError(f"{str(value)[:60]!r} is not a whole number")
    return int(str(value))


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    str: lambda value: _of(str, value),
    float: _float,
    int: _int,
    bool: lambda value: _one_of(value, ("true", "false")) == "true",
}
