"""Explains calls with arguments that a method does not take, as those of lines that were translated from Java: options
by position, which here are given by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import wraps
from inspect import Parameter, Signature, isfunction, signature
from typing import Any, TypeVar

from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.texts import repr_of
from processor_api.user_code.given_serdes import is_serde_like

C = TypeVar("C", bound=type)

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "key_serde": ("key_type", "key_format", "key_deserializer", "key_serializer", "key_schema", "key_decoder"),
    "value_serde": (
        "value_type", "value_format", "value_deserializer", "value_serializer", "value_schema", "value_decoder",
        "serde", "schema", "deserializer", "serializer", "format",
    ),
    "materialized": ("store", "store_name", "state_store", "table_name", "queryable_store_name", "table"),
    "name": ("named", "node", "node_name", "as_", "step_id"),
    "windows": ("window", "within", "join_windows", "window_size"),
    "joined": ("join_options", "stream_joined"),
    "mapper": ("func", "function", "f", "fn", "map_func"),
    "predicate": ("func", "function", "f", "fn", "condition", "filter_func"),
    "aggregator": ("reducer", "func", "function", "folder", "fold"),
    "initializer": ("initial", "initial_value", "init", "default", "start"),
    "reducer": ("func", "function", "aggregator", "f"),
    "joiner": ("on_match", "func", "function", "value_joiner"),
    "size": ("duration", "duration_ms", "size_ms", "length", "step"),
    "grace": ("grace_ms", "allowed_lateness", "wait_for"),
    "topics": ("topic", "topic_name", "input_topic", "names"),
    "topic": ("topics", "topic_name", "output_topic", "input_topic"),
    "number_of_partitions": ("partitions", "num_partitions"),
    "offset_reset": ("auto_offset_reset", "reset"),
    "key_selector": ("on", "key", "key_mapper"),
    "config": ("settings", "properties", "props", "configuration"),
}  # fmt: skip
"""Names that other libraries, and other methods here, give to an argument."""

_EXAMPLES: Mapping[str, str] = {
    "buffer": "BufferConfig.unbounded()",
    "windows": "JoinWindows.of_time_difference_with_no_grace(...)",
    "initializer": "int",
    "within": "timedelta(minutes=10)",
    "size": "timedelta(minutes=1)",
    "grace": "timedelta(seconds=10)",
    "key_selector": "lambda key, value: value[\"id\"]",
}  # fmt: skip


def explain_calls(kind: C, *names: str) -> C:
    """Makes the public methods of a class name the arguments that a wrong call should have given.

    The call stays a ``TypeError``. Only calls that fail are looked at.

    :param names: only these methods, where the others are called often.

    ::

        try:
            clicks.group_by_key().count(Materialized(name="counts"))
        except TypeError as error:
            assert str(error).endswith("got 1: give materialized=Materialized(...) by name")
    """
    for name, method in list(vars(kind).items()):
        is_public = name in names if names else name == "__init__" or not name.startswith("_")
        if isfunction(method) and is_public:
            setattr(kind, name, _explained(kind, name, method, 1))
        elif isinstance(method, (classmethod, staticmethod)) and is_public:
            own = int(isinstance(method, classmethod))
            setattr(kind, name, type(method)(_explained(kind, name, method.__func__, own)))
    return kind


def _explained(kind: type, name: str, method: Callable[..., Any], own: int) -> Callable[..., Any]:
    """Returns a method whose wrong calls are explained.

    :param own: how many arguments the call itself does not give, such as the object.
    """

    @wraps(method)
    def call(*given: Any, **by_name: Any) -> Any:
        try:
            return method(*given, **by_name)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from within the method
            why = _why(kind, name, list(signature(method).parameters.values())[own:], given[own:], by_name)
            raise TypeError(why or f"{error}{_lacking(signature(method), given, by_name)}") from None

    # Lines of the user's script are noted together with the method that is called there.
    made: Any = call
    made.__code__ = made.__code__.replace(co_name=method.__name__, co_qualname=method.__qualname__)
    return call


def _lacking(taken: Signature, given: tuple[Any, ...], by_name: dict[str, Any]) -> str:
    """Returns the end of the sentence about a call that lacks arguments: how they are given."""
    try:
        bound = taken.bind_partial(*given, **by_name).arguments
    except TypeError:
        return ""
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    needed = [one for one in taken.parameters.values() if one.default is one.empty and one.kind in named]
    missing = [one.name for one in needed if one.name not in bound]
    return f": it needs {_examples_of(missing)}" if missing else ""


def _why(kind: type, name: str, taken: list[Parameter], given: tuple[Any, ...], by_name: dict[str, Any]) -> str | None:
    """Returns what is wrong with a call; ``None`` where Python's own words say it."""
    called = kind.__name__ if name == "__init__" else f"{name}()"
    known = [one for one in taken if one.kind is not Parameter.VAR_POSITIONAL]
    unknown = [one for one in by_name if all(one != other.name for other in known)]
    if unknown:
        names = [one.name for one in known]
        near = _meant_name(unknown[0], names)
        hint = f"did you mean {near}=?" if near else f"it takes {', '.join(f'{one}=' for one in names) or 'nothing'}"
        return f"{called} has no argument {unknown[0]}=; {hint}"
    positions = [one for one in known if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    if len(given) <= len(positions):
        return None
    free = [one for one in known if one.kind is Parameter.KEYWORD_ONLY and one.name not in by_name]
    count, got = len(positions), len(given)
    head = f"{called} takes {count or 'no'} argument{'' if count == 1 else 's'} by position, got {got}"
    factories = [one for one, found in vars(kind).items() if one.startswith("of") and isinstance(found, classmethod)]
    if name == "__init__" and factories and not isinstance(given[0], str):
        return f"{head}: give {' or '.join(f'{called}.{one}({_shown(given[0])})' for one in factories[:2])}"
    return f"{head}: {_hint(kind, name, free, given, len(positions))}"


def _hint(kind: type, name: str, free: list[Parameter], given: tuple[Any, ...], positions: int) -> str:
    extra = given[positions:]
    names = [one.name for one in free]
    serdes = [one for one in given if is_serde_like(one)]
    if any(map(is_serde_like, extra)):  # Kafka Streams has them in front of others
        extra = (*serdes, *(one for one in extra if not is_serde_like(one)))
    named = _by_name(extra, names)
    is_function = any(callable(one) and not isinstance(one, type) for one in extra)
    if is_function and not named and (other := _other(kind, name, given)):
        return f"{other}() takes these"
    if len(named) < len(extra):
        named |= _by_name(serdes, [one for one in names if one not in named])
    taken = ", ".join(f"{one}=" for one in names)
    if not named:
        return f"it takes by name {taken}" if names else "it takes nothing else"
    store = next((one for one in extra if isinstance(one, str) and named.get("name") is one), None)
    if store is not None and "materialized" in names and "materialized" not in named:
        return f"give materialized={store!r} to name its store, or name={store!r} to name the operator"
    other = " or value_serde=" if "key_serde" in named and "value_serde" in {*names} - {*named} else ""
    return f"give {_listed(named)}{other} by name" + (f" (it takes {taken})" if len(named) < len(extra) else "")


def refuse_options(call: str, given: tuple[Any, ...], names: tuple[str, ...], what: str, **place: Any) -> None:
    """Refuses options that stand among names, where Kafka Streams has them.

    :param given: what looks like options, in order.
    :param names: the names of the options.
    :param what: the names among which they stand, for the error.
    :raises TopologyError: if it shows for which options they are.
    """
    if named := _by_name(given, names):
        raise TopologyError(f"{call} takes {what} by position: give {_listed(named)} by name", **place)


def _listed(named: dict[str, Any]) -> str:
    return ", ".join(f"{argument}={_shown(one)}" for argument, one in named.items())


def _other(kind: type, name: str, given: tuple[Any, ...]) -> str | None:
    """Returns the method with a longer name that takes the arguments, such as ``foreign_key_join``."""
    for other in sorted((one for one in dir(kind) if name in one and one != name and not one.startswith("_")), key=len):
        try:
            signature(getattr(kind, other)).bind(None, *given)
        except TypeError:
            continue
        return other
    return None


def _by_name(given: Iterable[Any], free: Iterable[str]) -> dict[str, Any]:
    """Returns what was given by the names of the arguments that it is for, as far as it shows."""
    found: dict[str, Any] = {}
    for one in given:
        meant = next((name for name in free if name not in found and _is_for(one, name)), None)
        if meant is not None:
            found[meant] = one
    return found


def _is_for(given: Any, name: str) -> bool:
    if name.endswith("_serde"):
        return is_serde_like(given)
    if isinstance(given, str):
        return name == "name" and not is_serde_like(given)
    if callable(given):
        return name in ("key_selector", "partitioner", "timestamp_extractor") and not isinstance(given, type)
    if isinstance(given, timedelta):
        return name in ("within", "ttl", "retention", "max_wait", "grace", "auto_advance")
    if isinstance(given, datetime):
        return name in ("start_timestamp", "initial_wall_clock_time")
    if type(given) is int:
        return name in ("number_of_partitions", "max_records")
    kind = _WORD.sub("_", type(given).__name__).lower()
    return kind.startswith(name) or kind.endswith(name)


def _shown(given: Any) -> str:
    if isinstance(given, type):
        return given.__name__
    if isinstance(given, (str, int, timedelta, Serde)):
        return repr_of(given)
    return "..." if callable(given) else f"{type(given).__name__}(...)"


def _meant_name(name: str, names: Sequence[str]) -> str | None:
    """Returns the argument that is meant by a name that a call does not take; ``None`` if none is like it."""
    other = [one for one in names if name in _OTHER_NAMES.get(one, ())]
    near = other or difflib.get_close_matches(name, names, n=1)
    return near[0] if near else None


def _examples_of(names: Sequence[str]) -> str:
    """Returns arguments as a call gives them: ``buffer=BufferConfig.unbounded()``."""
    return ", ".join(f"{name}={_EXAMPLES.get(name, '...')}" for name in names)
