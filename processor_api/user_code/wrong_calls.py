"""Errors of calls with arguments that a function does not take: they name the argument that is meant.

Python's own error only counts the arguments: ``takes 1 positional argument but 2 were given``.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, TypeVar

from processor_api.serde import Serde
from processor_api.texts import repr_of
from processor_api.user_code.given_serdes import is_serde_name

C = TypeVar("C", bound=type)

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
_BY_CLASS: Mapping[str, tuple[str, ...]] = {
    "Materialized": ("materialized",), "Consumed": ("consumed",), "Produced": ("produced",), "Grouped": ("grouped",),
    "Named": ("name",), "JoinWindows": ("windows",), "StreamJoined": ("joined",), "Joined": ("joined",),
    "TableJoined": ("table_joined",), "timedelta": ("within", "grace", "max_wait", "size", "duration"),
    "int": ("size_ms", "within", "max_records", "grace"),
}  # fmt: skip


def explains_wrong_calls(kind: C) -> C:
    """Lets the public methods of a class name the right argument where a call has one that they do not take.

    It decorates classes whose methods shape a topology or start something, not those that run for each record.
    """
    for name, value in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(value, (classmethod, staticmethod)):
            setattr(kind, name, type(value)(_explained(value.__func__, kind)))
        elif isinstance(value, FunctionType):
            setattr(kind, name, _explained(value, kind))
    return kind


def _explained(function: Callable[..., Any], kind: type) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # Raised inside the function, and not by the call of it.
                raise
            raise TypeError(f"{error}{_hint(function, kind, arguments, named)}") from None

    # The line of the user's script that made a node has the name of the call there.
    call.__code__ = call.__code__.replace(co_name=function.__name__)  # type: ignore[attr-defined]
    return call


def _hint(function: Callable[..., Any], kind: type, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    parameters = list(inspect.signature(function).parameters.values())
    if inspect.isfunction(vars(kind).get(function.__name__)) or isinstance(vars(kind)[function.__name__], classmethod):
        parameters, arguments = parameters[1:], arguments[1:]
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    free = [one.name for one in parameters if one.name not in named and one not in by_place[: len(arguments)]]
    call = kind.__name__ if function.__name__ == "__init__" else function.__name__
    hints = [_surplus(value, free, call, kind) for value in arguments[len(by_place) :]]
    names = [one.name for one in parameters]
    hints += [_renamed(name, value, names, call) for name, value in named.items() if name not in names]
    missing = [
        one.name
        for one in parameters
        if one.name in free and one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if missing:
        given = ", ".join(f"{name}={_EXAMPLES.get(name, '...')}" for name in missing)
        hints.append(f"it needs {given}")
    taken = ", ".join(f"{one}=" for one in names)
    return f": {'; '.join(hints)}{'; ' if hints else ''}{call}() takes {taken or 'no arguments'}"


def _surplus(value: Any, free: list[str], call: str, kind: type) -> str:
    factories = [
        name
        for name, one in vars(kind).items()
        if call == kind.__name__ and isinstance(one, classmethod) and name.startswith("of")
    ]
    if factories and not isinstance(value, str):
        return f"give {' or '.join(f'{call}.{name}({repr_of(value, 60)})' for name in factories[:2])}"
    if not free:
        return f"{repr_of(value, 60)} is too many"
    return f"give {call}({fitting(value, free)}={repr_of(value, 60)})"


def fitting(value: Any, names: Iterable[str]) -> str:
    """Returns the argument that a value is most likely meant for, among the names of arguments."""
    free = list(names)
    wanted = list(_BY_CLASS.get(type(value).__name__, ()))
    if is_like_serde(value):
        wanted.append("value_serde")
    if isinstance(value, str):
        wanted += ["materialized", "name", "joined", "store_name"]
    elif callable(value):
        wanted += ["merger", "joiner", "key_selector", "id_selector", "mapper"]
    return next((name for name in wanted if name in free), free[0])


def is_like_serde(value: Any) -> bool:
    """Whether a value may be meant as a serde: a serde, its name, or a class of values."""
    return isinstance(value, (Serde, type)) or (isinstance(value, str) and is_serde_name(value))


def _renamed(name: str, value: Any, names: list[str], call: str) -> str:
    other = [one for one in names if name in _OTHER_NAMES.get(one, ())]
    near = other or difflib.get_close_matches(name, names, n=1)
    shown = repr_of(value, 60)
    return f"did you mean {call}({near[0]}={shown})?" if near else f"it does not take {name}={shown}"
