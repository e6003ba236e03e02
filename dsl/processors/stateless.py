"""Operators that look at one record at a time. They keep its timestamp and headers (semantics 12).

A user's function that raises goes to the processing handler, and the record is dropped there or the task fails; what
comes from further down passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dsl.processors.user_functions import NoPairError, no_iterable, no_pair, user_function
from processor_api.context import OperatorContext
from processor_api.processor import Operator
from processor_api.record import DropReason, Forward, HeaderList

KeyAndValue = tuple[Any, Any]


@dataclass(frozen=True)
class PassThrough(Operator):
    """Passes records on as they are: merges, and the branches of a split."""

    def bind(self, context: OperatorContext) -> Forward:
        return context.forward


@dataclass(frozen=True)
class Filter(Operator):
    """Passes on the records for which a predicate holds, or those for which it does not."""

    predicate: Callable[[Any, Any], object] = field(metadata=user_function("key", "value"))
    negate: bool = False

    def bind(self, context: OperatorContext) -> Forward:
        predicate, forward, fail = self.predicate, context.forward, context.fail

        # Two functions, so that it is not asked for each record which one is meant.
        def keep(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                if not predicate(key, value):
                    return
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        def drop(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                if predicate(key, value):
                    return
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return drop if self.negate else keep


def paired(given: Any) -> KeyAndValue:
    """Returns the key and value that a function returned.

    :raises NoPairError: if it is not a pair. A text of two characters is none, though Python would take it for one.
    """
    try:
        key, value = given
    except (TypeError, ValueError):
        raise NoPairError(given) from None
    if type(given) is str:
        raise NoPairError(given)
    return key, value


@dataclass(frozen=True)
class Map(Operator):
    """Replaces each record by the key and value that a function returns."""

    mapper: Callable[[Any, Any], KeyAndValue] = field(metadata=user_function("key", "value"))

    def bind(self, context: OperatorContext) -> Forward:
        mapper, forward, fail = self.mapper, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                pair: Any = mapper(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            try:
                # `paired` without its call: this runs for each record.
                new_key, new_value = pair
            except (TypeError, ValueError):
                fail(no_pair(mapper, pair), key, value, timestamp, headers)
                return
            if type(pair) is str:  # of two characters
                fail(no_pair(mapper, pair), key, value, timestamp, headers)
                return
            forward(new_key, new_value, timestamp, headers)

        return process


@dataclass(frozen=True)
class MapValues(Operator):
    """Replaces each value by the one that a function returns."""

    mapper: Callable[..., Any] = field(metadata=user_function("value", key_if="with_key"))
    with_key: bool = False

    def bind(self, context: OperatorContext) -> Forward:
        mapper, forward, fail = self.mapper, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                new = mapper(value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, new, timestamp, headers)

        def process_with_key(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                new = mapper(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, new, timestamp, headers)

        return process_with_key if self.with_key else process


@dataclass(frozen=True)
class SelectKey(Operator):
    """Replaces each key by the one that a function returns."""

    mapper: Callable[[Any, Any], Any] = field(metadata=user_function("key", "value"))

    def bind(self, context: OperatorContext) -> Forward:
        mapper, forward, fail = self.mapper, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                new = mapper(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(new, value, timestamp, headers)

        return process


@dataclass(frozen=True)
class FlatMap(Operator):
    """Replaces each record by any number of others.

    All results are known before the first is forwarded, so that a generator that fails forwards nothing.
    """

    mapper: Callable[[Any, Any], Iterable[KeyAndValue]] = field(metadata=user_function("key", "value", generates=True))

    def bind(self, context: OperatorContext) -> Forward:
        mapper, forward, fail = self.mapper, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                found: Any = mapper(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            try:
                if type(found) is str:
                    raise TypeError
                results = [paired(each) for each in found]
            except Exception as error:
                fail(no_iterable(mapper, found, "pairs (key, value)", error), key, value, timestamp, headers)
                return
            for new_key, new_value in results:
                forward(new_key, new_value, timestamp, headers)

        return process


@dataclass(frozen=True)
class FlatMapValues(Operator):
    """Replaces each record by any number of others with its key, all known before the first is forwarded."""

    mapper: Callable[..., Iterable[Any]] = field(metadata=user_function("value", key_if="with_key", generates=True))
    with_key: bool = False

    def bind(self, context: OperatorContext) -> Forward:
        mapper, forward, fail = self.mapper, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                found: Any = mapper(value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            try:
                if type(found) is str:
                    raise TypeError
                results = tuple(found)
            except Exception as error:
                fail(no_iterable(mapper, found, "values", error), key, value, timestamp, headers)
                return
            for new in results:
                forward(key, new, timestamp, headers)

        def process_with_key(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                found: Any = mapper(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            try:
                if type(found) is str:
                    raise TypeError
                results = tuple(found)
            except Exception as error:
                fail(no_iterable(mapper, found, "values", error), key, value, timestamp, headers)
                return
            for new in results:
                forward(key, new, timestamp, headers)

        return process_with_key if self.with_key else process


@dataclass(frozen=True)
class Peek(Operator):
    """Calls a function for each record and passes the record on."""

    action: Callable[[Any, Any], object] = field(metadata=user_function("key", "value", returns=False))

    def bind(self, context: OperatorContext) -> Forward:
        action, forward, fail = self.action, context.forward, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                action(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return process


@dataclass(frozen=True)
class Foreach(Operator):
    """Calls a function for each record, which ends there."""

    action: Callable[[Any, Any], object] = field(metadata=user_function("key", "value", returns=False))

    def bind(self, context: OperatorContext) -> Forward:
        action, fail = self.action, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                action(key, value)
            except Exception as error:
                fail(error, key, value, timestamp, headers)

        return process


@dataclass(frozen=True)
class Branch(Operator):
    """Sends a record to the child of the first predicate that holds, else to the default child, if there is one."""

    predicates: tuple[Callable[[Any, Any], object], ...] = ()
    children: tuple[str, ...] = ()
    default: str | None = None

    def bind(self, context: OperatorContext) -> Forward:
        routes = [(test, context.child(name)) for test, name in zip(self.predicates, self.children, strict=True)]
        otherwise = None if self.default is None else context.child(self.default)
        fail = context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            chosen = otherwise
            try:
                for predicate, child in routes:
                    if predicate(key, value):
                        chosen = child
                        break
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if chosen is not None:
                chosen(key, value, timestamp, headers)

        return process


@dataclass(frozen=True)
class DropNullKeys(Operator):
    """Drops records without a key before a repartition topic: they have no partition of their own (semantics 28)."""

    part: ClassVar[str] = "drop null keys"

    def bind(self, context: OperatorContext) -> Forward:
        forward, count = context.forward, context.counting(DropReason.UNKEYED_REPARTITION)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None:
                count()
            else:
                forward(key, value, timestamp, headers)

        return process


@dataclass(frozen=True)
class ToStream(Operator):
    """Turns a table's changes into records: the new values, tombstones among them (semantics 31)."""

    passes_on: ClassVar[bool] = True

    def bind(self, context: OperatorContext) -> Forward:
        forward = context.forward

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            forward(key, value[0], timestamp, headers)

        return process
