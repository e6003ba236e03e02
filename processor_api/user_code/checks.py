"""Checks of what a user gives to nodes and options, made where it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Signature, getattr_static, isfunction, signature
from typing import Any

from processor_api.errors import StreamsError, TopologyError
from processor_api.texts import kind_and_text, repr_of
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
NULL_OR_RESULT = "the result, or write return None where a null is meant"
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
    result: str = NULL_OR_RESULT,
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
    :param result: what it should return, for the error.
    :param hint: the end of the error about other arguments.
    :raises TopologyError: if it cannot be called so, or is made by ``async def`` or has ``yield``: its result would be
        a coroutine or a generator; or if its result is used and it returns nothing.
    """
    if not callable(value):
        form = _form_of_initializer(value) if name == "initializer" else ""
        raise TopologyError(f"{what} takes a function as its {name}, got {repr_of(value)}{form}", **place)
    several = ", or take one of the flat_map methods for several results" if name == "mapper" else ""
    _check_kind(value, f"{what} takes a plain function as its {name}", generates, several, **place)
    if returns and returns_nothing(value):
        raise TopologyError(
            f"{what} uses what its {name} returns, and {named_function(value)} has no return statement: return"
            f" {result}",
            **place,
        )
    if arguments is not None:
        _check_arguments(value, f"{what} calls its {name}", arguments, hint, **place)


def check_methods(owner: object, methods: Mapping[str, tuple[str, ...]], what: str, **place: Any) -> None:
    """Checks methods of an object: each can be called with its arguments, and returns when its work is done.

    :param owner: the object, or its class.
    :param methods: the names of the arguments of each method; a method that the object does not have is not checked.
    :param what: the name of the node or call that takes the object, for the error.
    :raises TopologyError: if one takes other arguments, or is made by ``async def`` or has ``yield``: it would do
        nothing.
    """
    owns = owner if isinstance(owner, type) else type(owner)
    for name, arguments in methods.items():
        method = attribute_of(owner, name)
        calls = f"{what} calls {name} of its {owns.__name__}"
        _check_kind(method, calls, False, "", **place)
        if method is not None and not callable(method):
            raise TopologyError(f"{calls}, which is not a method but {repr_of(method)}", **place)
        if method is not None:
            unbound = owns is owner and isfunction(getattr_static(owner, name, None))
            _check_arguments(method, calls, ("self", *arguments) if unbound else arguments, "", **place)


def check_callable_supplier(supplier: Any, what: str, kind: str, kinds: tuple[type, ...], **place: Any) -> None:
    """Checks that a supplier is a function or class without arguments, and not what it should make; see
    :func:`check_made`."""
    if isinstance(supplier, kinds) or not callable(supplier):
        raise TopologyError(
            f"{what} needs a supplier, a class or function that makes a new {kind} at each call, got"
            f" {repr_of(supplier)}",
            **place,
        )
    check_function(supplier, "supplier", what, (), returns=True, **place)


def check_made(
    supplier: Any, what: str, kind: str, kinds: tuple[type, ...], methods: Mapping[str, tuple[str, ...]], **place: Any
) -> Any:
    """Checks that a supplier makes a new object at each call, whose methods can be called; returns one of them.

    :param what: the name of the node that takes the supplier, for the error.
    :param kind: what the object should be, for the error, such as ``processor``.
    :param kinds: the classes of which it should be.
    :param methods: as :func:`check_methods` takes them.
    :raises TopologyError: if it does not.
    """
    check_callable_supplier(supplier, what, kind, kinds, **place)
    try:
        first, second = supplier(), supplier()
    except StreamsError as error:
        raise error.locate(**place)  # noqa: B904 - the same error, with its place
    except Exception as error:
        raise TopologyError(f"the supplier of {what} failed: {kind_and_text(error)}", **place) from error
    if not isinstance(first, kinds):
        wanted = " nor ".join(f"a {one.__name__}" for one in kinds)
        raise TopologyError(
            f"the supplier of {what} made {repr_of(first)}, which is {'neither' if len(kinds) > 1 else 'not'} {wanted}",
            **place,
        )
    if first is second:
        raise TopologyError(
            f"the supplier of {what} returned the same object twice; it must make a new one at each call because every"
            " task has its own",
            **place,
        )
    check_methods(first, methods, what, **place)
    return first


def takes(value: Any, arguments: tuple[str, ...]) -> bool:
    """Returns whether a function can be called with these arguments, as far as it says what it takes."""
    taken = _parameters(value)
    return taken is None or _takes(taken, arguments)


def _check_arguments(value: Any, calls: str, arguments: tuple[str, ...], hint: str, **place: Any) -> None:
    taken = _parameters(value)
    if taken is None or _takes(taken, arguments):
        return
    raise TopologyError(
        f"{calls} with ({', '.join(arguments)}), and {_named(value)} takes {_shown(taken)}{hint}", **place
    )


def _check_kind(value: Any, what: str, generates: bool, several: str, **place: Any) -> None:
    if is_async(value):
        raise TopologyError(
            f"{what}, and {_named(value)} is made by async def: records are processed one after the other, so call what"
            " you wait for without await",
            **place,
        )
    if not generates and is_generator(value):
        raise TopologyError(
            f"{what}, and {_named(value)} has a yield: a call of it would run nothing and return a generator; return"
            f" the result{several}",
            **place,
        )


def _form_of_initializer(value: object) -> str:
    """Returns the end of the sentence about an initial value that was given instead of a function that makes it."""
    if type(value) in (list, dict, set) and not value:
        return f": give {type(value).__name__}, which makes a new one for each key"
    shown = repr_of(value, 40) if type(value) in (list, dict, set, tuple, int, float, str, bool, bytes) else "0"
    return f": give a function that makes the initial value of a key, such as lambda: {shown}"


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
