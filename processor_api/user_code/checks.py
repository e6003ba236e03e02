"""Checks of what a user gives to nodes and options, made where it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Signature, signature
from typing import Any

from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.user_code.function_code import is_async, is_generator, named_function, returns_nothing
from processor_api.user_code.given_values import attribute_of
from processor_api.user_code.offset_reset import AutoOffsetReset


def _is_reset(value: object) -> bool:
    return isinstance(value, AutoOffsetReset)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_topic_config(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(setting, str) for name, setting in value.items()
    )


_FLAG = (_is_flag, "True or False")
_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "logging": _FLAG,
    "caching": _FLAG,
    "topic_config": (_is_topic_config, "a dict of strings, such as {'segment.bytes': '1048576'}"),
    "offset_reset": (_is_reset, "an AutoOffsetReset, such as AutoOffsetReset.earliest()"),
}
PARTITIONED_BY = ("topic", "key", "value", "headers", "partitions")
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "timestamp_extractor": ("record", "partition_time"),
    "partitioner": PARTITIONED_BY,
    "other_partitioner": PARTITIONED_BY,
}


def check_fields(owner: Any, what: str, **place: Any) -> None:
    """Checks that the functions, resets and flags among the fields of a node or an option are such.

    :param what: the name of the node or option, for the error.
    :param place: fields of the error, such as ``node``.
    :raises TopologyError: if one of them is of another kind.
    """
    for name, (fits, wanted) in _WANTED.items():
        value = getattr(owner, name, None)
        if value is not None and not fits(value):
            raise TopologyError(f"{what} needs {wanted} as its {name}, got {repr_of(value)}", **place)
    for name, arguments in _FUNCTIONS.items():
        value = getattr(owner, name, None)
        if value is not None:
            check_function(value, name, what, arguments, returns=True, **place)


def check_function(
    value: object,
    name: str,
    what: str,
    arguments: tuple[str, ...] | None = None,
    *,
    generates: bool = False,
    returns: bool = False,
    hint: str = "",
    **place: Any,
) -> None:
    """Checks that a value is a plain function, or another callable.

    :param name: the name of the argument, for the error.
    :param what: the name of the node or option that takes it, for the error.
    :param arguments: the names of the arguments it is called with; ``None`` leaves them unchecked, as do builtins that
        do not say what they take.
    :param generates: whether it may be a generator function, since it returns any number of results.
    :param returns: whether its result is used, so that it has to have a ``return``.
    :param hint: the end of the error about other arguments.
    :raises TopologyError: if it cannot be called so, or is made by ``async def`` or has ``yield``: its result would be
        a coroutine or a generator; or if its result is used and it returns nothing.
    """
    if not callable(value):
        raise TopologyError(f"{what} takes a function as its {name}, got {repr_of(value)}", **place)
    _check_kind(value, f"{what} takes a plain function as its {name}", generates, **place)
    if returns and returns_nothing(value):
        raise TopologyError(
            f"{what} uses what its {name} returns, and {named_function(value)} has no return statement: return the"
            " result, or write return None where a null is meant",
            **place,
        )
    taken = None if arguments is None else _parameters(value)
    if arguments is None or taken is None or _takes(taken, arguments):
        return
    raise TopologyError(
        f"{what} calls its {name} with ({', '.join(arguments)}), and {_named(value)} takes {_shown(taken)}{hint}",
        **place,
    )


def check_method(owner: object, method: str, what: str, **place: Any) -> None:
    """Checks that a method that is called for each record returns when its work is done.

    :param what: the name of the node, for the error.
    :raises TopologyError: if it is made by ``async def`` or has ``yield``: it would do nothing.
    """
    _check_kind(getattr(owner, method, None), f"{what} calls {method} of its {type(owner).__name__}", False, **place)


def _check_kind(value: Any, what: str, generates: bool, **place: Any) -> None:
    if is_async(value):
        raise TopologyError(
            f"{what}, and {_named(value)} is made by async def: records are processed one after the other, so call what"
            " you wait for without await",
            **place,
        )
    if not generates and is_generator(value):
        raise TopologyError(
            f"{what}, and {_named(value)} has a yield: a call of it would run nothing and return a generator; return"
            " the result, or take one of the flat_map methods for several results",
            **place,
        )


def _named(value: Any) -> str:
    return repr_of(attribute_of(value, "__qualname__", value))


def _parameters(value: Any) -> Signature | None:
    """Returns what a function takes; ``None`` where it does not say, as some builtins."""
    try:
        return signature(value, follow_wrapped=False)
    except Exception:  # also whatever an object raises that says it can be called
        return None


def _takes(taken: Signature, arguments: tuple[str, ...]) -> bool:
    try:
        taken.bind(*arguments)
    except TypeError:
        return False
    return True


def _shown(taken: Signature) -> str:
    return str(taken.replace(return_annotation=Signature.empty))
