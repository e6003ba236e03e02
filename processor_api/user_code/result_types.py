"""The classes of what the user's functions return, read from their annotations.

Only what is certain counts: without an annotation, or with one that leaves several classes open, there is none.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
import uuid
from types import FunctionType, UnionType
from typing import Any, NamedTuple

from processor_api.user_code.function_code import called_function, named_function
from processor_api.user_code.given_values import attribute_of

PLAIN = (str, bytes, int, float, bool, uuid.UUID)
"""The classes with a serde of Kafka."""
_MODEL_MARKS = (
    "__dataclass_fields__",
    "__pydantic_validator__",
    "__attrs_attrs__",
    "__struct_fields__",  # of msgspec
    "DESCRIPTOR",  # of Protobuf
)
_SEVERAL = (collections.abc.Iterable, collections.abc.Generator)


class ResultType(NamedTuple):
    """The class that a function returns, or of which it returns several objects, or a part of a pair."""

    kind: type
    why: str
    """The function, its line, and what it returns: ``to_order at app.py:7 returns Order``."""


def is_model(kind: type) -> bool:
    """Returns whether a class has named fields that a format such as JSON, Avro or Protobuf can write: a dataclass, a
    pydantic model, or a class of attrs, msgspec or Protobuf."""
    return any(attribute_of(kind, mark) is not None for mark in _MODEL_MARKS)


def result_type(function: Any, *, several: bool = False) -> ResultType | None:
    """Returns the class of what a function returns; ``None`` if it is not certain.

    ``X | None`` and ``Annotated[X, ...]`` are X. Exceptions in a union do not count: they stand for failures.

    :param several: whether it returns any number of objects of the class: a list, or another iterable.
    """
    return _found(function, _item_of(_annotation(function)) if several else _annotation(function))


def pair_types(function: Any, *, several: bool = False) -> tuple[ResultType | None, ResultType | None]:
    """Returns the classes of key and value, of a function that returns pairs of them."""
    annotation = _annotation(function)
    pair = _plain(_item_of(annotation) if several else annotation)
    parts = typing.get_args(pair)
    if typing.get_origin(pair) is not tuple or len(parts) != 2 or parts[1] is Ellipsis:
        return None, None
    return _found(function, parts[0]), _found(function, parts[1])


def type_arguments(supplier: Any, base: type) -> tuple[ResultType | None, ...]:
    """Returns the classes that a class of processors, or what a function returns, gives for the type parameters of a
    generic class: ``Enrich(FixedKeyProcessor[str, Order, Enriched])``. It is empty if it gives none."""
    annotation = supplier if isinstance(supplier, type) else _plain(_annotation(supplier))
    made = typing.get_origin(annotation) or annotation
    for one in attribute_of(made, "__mro__", ()):
        for given in vars(one).get("__orig_bases__", ()):
            if typing.get_origin(given) is base:
                return tuple(_found(made, part, "forwards") for part in typing.get_args(given))
    return ()


def _found(function: Any, annotation: Any, verb: str = "returns") -> ResultType | None:
    kind = _plain(annotation)
    if not isinstance(kind, type) or typing.get_origin(kind) is not None or not (kind in PLAIN or is_model(kind)):
        return None
    name = kind.__name__
    is_itself = kind is function
    return ResultType(kind, f"the class {name} is called" if is_itself else f"{named_function(function)} {verb} {name}")


def _plain(annotation: Any) -> Any:
    """Returns an annotation without what does not decide on the bytes: names of types, null, failures, notes."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = annotation.__origin__
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif origin is typing.Literal:
            kinds = {type(value) for value in typing.get_args(annotation)} - {type(None)}
            return kinds.pop() if len(kinds) == 1 else None
        elif origin in (typing.Union, UnionType):
            values: list[Any] = []
            for part in map(_plain, typing.get_args(annotation)):
                is_value = not (isinstance(part, type) and issubclass(part, _NO_VALUES))
                values += [part] if is_value and part not in values else []
            if len(values) != 1:
                return None
            annotation = values[0]
        else:
            return annotation


_NO_VALUES = (type(None), BaseException)


def _item_of(annotation: Any) -> Any:
    """Returns the type of the items of an iterable: of ``list[X]``, ``Iterator[X]``, ``tuple[X, ...]``."""
    annotation = _plain(annotation)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if not isinstance(origin, type) or not issubclass(origin, _SEVERAL) or issubclass(origin, collections.abc.Mapping):
        return None
    if origin is tuple:
        items = {part for part in parts if part is not Ellipsis}
        return items.pop() if len(items) == 1 else None
    return parts[0] if parts else None


def _annotation(function: Any) -> Any:
    """Returns what a function is annotated to return, as a type; the class itself if that is what is called."""
    called = called_function(function)
    if isinstance(called, type):
        return called
    plain = called if isinstance(called, FunctionType) else attribute_of(called, "__func__")
    if plain is None:
        plain = attribute_of(type(called), "__call__")
    if not isinstance(plain, FunctionType):
        return None
    annotation = attribute_of(plain, "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        annotation = _evaluated(inspect.unwrap(plain), annotation)
    if annotation is typing.Self:
        owner = attribute_of(called, "__self__")
        return owner if isinstance(owner, type) or owner is None else type(owner)
    return annotation


def _evaluated(function: FunctionType, annotation: str) -> Any:
    """Returns the type that an annotation names, by the names that the function itself knows; ``None`` if one of them
    is not defined, such as one that is imported for type checkers alone."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)

    def holder() -> None: ...

    try:
        known = {name: cell.cell_contents for name, cell in cells}
        holder.__annotations__ = {"return": annotation}
        return typing.get_type_hints(holder, function.__globals__, known, include_extras=True)["return"]
    except Exception:  # an empty cell, an unknown name, or what an annotation raises
        return None
