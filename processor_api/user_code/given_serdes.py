"""Serdes as users give them: by name, by the class of the values, or as they are."""

from __future__ import annotations

import difflib
import inspect
import uuid
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from processor_api.errors import StreamsError, TopologyError
from processor_api.serde import Serde, Serdes, never_null, provided_serde
from processor_api.texts import plain_str, repr_of
from processor_api.user_code.checks import takes
from processor_api.user_code.function_code import named_function, why_not_plain
from processor_api.user_code.given_values import attribute_of, exact_text

T = TypeVar("T")

SerdeLike = Serde[T] | type[T] | str
"""A serde as it may be given: a :class:`~processor_api.serde.Serde`, the name of one of :class:`Serdes` in small
letters such as ``"string"``, or a class of values: a pydantic model or a dataclass, written as JSON."""

PROVIDED_NAMES = ("avro",)
"""Names of serdes that need more than the standard library, and are provided by the package ``streams``."""
_NAMED: dict[str, Serde[Any]] = {found.name: found for found in vars(Serdes).values() if isinstance(found, Serde)}
SERDES_TAKEN = (
    f"a serde, one of the names {', '.join(sorted([*_NAMED, *PROVIDED_NAMES]))}, a pydantic model or a dataclass"
)
_NAMES_OF_TYPES: dict[type, str] = {
    str: '"string"',
    bytes: '"bytes"',
    int: '"long" or "integer"',
    float: '"double"',
    bool: '"boolean"',
    uuid.UUID: '"uuid"',
    dict: '"json"',
    list: '"json" or list_serde',
}
_BY_CLASS: dict[type | str, Serde[Any]] = {}


def as_serde(given: Any, name: str = "") -> Serde[Any]:
    """Returns the serde that a user gave in any of the forms of :data:`SerdeLike`; the same one for the same class.

    :param name: the name of the argument, for the error.
    :raises TypeError: if it is none of them; the text continues after the words "it takes ...".
    :raises ValueError: if it is a class from which no serde can be made; the text is a sentence.
    """
    if isinstance(given, Serde):
        _check_functions(given)
        return given
    if isinstance(given, str) and exact_text(given) in _NAMED:
        return _NAMED[exact_text(given)]
    is_known = isinstance(given, type) or (isinstance(given, str) and exact_text(given) in PROVIDED_NAMES)
    found = _provided(given) if is_known else None
    if found is None:
        raise TypeError(f"{SERDES_TAKEN}; got {repr_of(given)}{_hint(given, name and f'{name}=')}")
    return found


def _check_functions(given: Serde[Any]) -> None:
    for name, argument in (("serialize", "value"), ("deserialize", "data")):
        function = never_null(attribute_of(given, name))
        if why := why_not_plain(function):
            raise ValueError(
                f"{name} of {repr_of(attribute_of(given, 'name'))} has to return its result, and"
                f" {named_function(function)} {why}"
            )
        if not takes(function, (argument,)):
            raise ValueError(
                f"{name} of {repr_of(attribute_of(given, 'name'))} is called with ({argument}), and"
                f" {named_function(function)} takes other arguments"
            )


def is_serde_like(given: object) -> bool:
    """Returns whether something looks as if it was given as a serde: one, the name of one, or a class."""
    if isinstance(given, str):
        return exact_text(given) in _NAMED or exact_text(given) in PROVIDED_NAMES
    return isinstance(given, (Serde, type))


def class_of(serde: Serde[Any]) -> type | None:
    """Returns the class that a serde was made for by :func:`as_serde`; ``None`` for any other serde."""
    return next((known for known, made in _BY_CLASS.items() if made is serde and isinstance(known, type)), None)


_CLASSES: dict[str, type] = {
    "string": str,
    "bytes": bytes,
    "integer": int,
    "long": int,
    "short": int,
    "float": float,
    "double": float,
    "boolean": bool,
    "uuid": uuid.UUID,
}


def value_class(serde: Serde[Any]) -> type | None:
    """Returns the only class whose values a serde writes; ``None`` if it writes several, or that is not known."""
    if _NAMED.get(serde.name) is serde:
        return _CLASSES.get(serde.name)
    model = attribute_of(serde, "model")
    return model if isinstance(model, type) else class_of(serde)


def check_serde(given: Any, name: str, what: str, **place: Any) -> Serde[Any]:
    """Returns the serde that a user gave for an option or node.

    :param name: the name of the argument, for the error.
    :param what: the name of the node or option that takes it, for the error.
    :param place: fields of the error, such as ``node``.
    :raises TopologyError: if it is none, or none can be made.
    """
    try:
        return as_serde(given, name)
    except TypeError as error:
        raise TopologyError(f"{what} takes as its {name} {error}", **place) from None
    except ValueError as error:
        raise TopologyError(f"{what} takes a serde as its {name}: {error}", **place) from error


def optional_serde(given: Any, name: str, what: str, **place: Any) -> Serde[Any] | None:
    """Returns :func:`check_serde` of what was given; ``None`` if nothing was."""
    return None if given is None else check_serde(given, name, what, **place)


class SerdeOption(Generic[T]):
    """A field of a frozen dataclass that takes :data:`SerdeLike` and holds a serde, or ``None``.

    :param owner: returns what the object is called in errors, and fields of the error; its class if left out.
    """

    def __init__(self, owner: Callable[[Any], tuple[str, dict[str, Any]]] | None = None) -> None:
        self._owner = owner
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Serde[T] | None: ...
    def __get__(self, instance: object | None, owner: type) -> Serde[T] | None:
        if instance is None:  # the default of the field
            return None
        found: Serde[T] | None = vars(instance)[self._name]
        return found

    def __set__(self, instance: object, value: SerdeLike[T] | None) -> None:
        what, place = self._owner(instance) if self._owner is not None else (type(instance).__name__, {})
        vars(instance)[self._name] = optional_serde(value, self._name, what, **place)


_TAKE_SERDES = frozenset(("stream", "table", "global_table", "to", "repartition", "add_source", "add_sink"))
"""The calls that take serdes of topics."""


def serde_arguments(call: str | None, *parts: str) -> str:
    """Returns how serdes of topics are given in a call of the user's script: ``to(out, value_serde=...)``.

    :param call: as a node has it, if it is known.
    :param parts: ``key`` and ``value``, or one of them.
    """
    arguments = ", ".join(f"{part}_serde=..." for part in parts)
    name, _, rest = (call or "").partition("(")
    if name in _TAKE_SERDES:
        if rest.startswith("):"):  # What the call of a repartition does here, such as "repartition(): write".
            return f"{name}({arguments})"
        return f"{name}({rest.removesuffix(')')}, {arguments})" if rest != ")" else f"{name}({arguments})"
    if name in ("count", "reduce", "aggregate"):
        return f"{arguments} in the group_by() or group_by_key() before it"
    return f"{arguments} in the options of {name}()" if "join" in name else arguments


def serde_option(owner: Callable[[Any], tuple[str, dict[str, Any]]] | None = None) -> Any:
    """Returns a :class:`SerdeOption` for a field of a dataclass. Its type is left open: it stands where a type checker
    expects the default of the field, which is ``None``."""
    return SerdeOption(owner)


def _provided(given: type | str) -> Serde[Any] | None:
    found = _BY_CLASS.get(given)
    if found is None:
        try:
            found = provided_serde(given)
        except StreamsError:
            raise
        except Exception as error:
            why = " ".join(plain_str(error).split())
            raise ValueError(f"none can be made from {repr_of(given)}: {type(error).__name__}: {why}") from error
        if found is not None:
            _BY_CLASS[given] = found
    return found


def _hint(given: Any, argument: str) -> str:
    """Returns the end of the sentence about something that is not a serde: what was perhaps meant.

    :param argument: the argument with an equals sign, if it is known.
    """
    if isinstance(given, type):
        name = _NAMES_OF_TYPES.get(given)
        if name is not None:
            return f"; give {argument}{name}"
        if given is Serdes or issubclass(given, Serde):
            return f"; give an object, such as {argument}Serdes.STRING"
        return "; for a class of another kind, write a serde with serde_of, or give pydantic_serde(...)"
    if isinstance(given, str):
        near = difflib.get_close_matches(given.lower(), [*_NAMED, *PROVIDED_NAMES], n=1)
        return f'; did you mean {argument}"{near[0]}"?' if near else ""
    if inspect.isfunction(given) or inspect.isbuiltin(given):
        return "; call the function that makes serdes"
    if provided_serde(type(given)) is not None:
        return f"; give the class {type(given).__name__}, not an object of it"
    return ""
