"""The operators of a foreign-key join on the side of the left table: subscribing, and joining the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dsl.processors.joins.foreign_key import (
    ANSWER_ALWAYS,
    ANSWER_IF_FOUND,
    DELETE_AND_ANSWER,
    DELETE_SILENTLY,
    OwnSerdes,
)
from dsl.processors.tables.operator import ChangeReader, dropping_late_changes
from dsl.processors.tables.view import Row, TableView
from dsl.processors.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.processor import Operator
from processor_api.record import DropReason, Forward, HeaderList, Headers
from processor_api.serde import Serde
from state.formats.foreign_keys import murmur3_128, subscription

Again = Callable[[Any, Any, int, "HeaderList | None"], bool]
"""``(key, value, timestamp, headers)`` of a left row asks for its answer again; ``False`` if it has no foreign key."""

Instructions = Callable[[Any, Any, Any, Any], list[tuple[Any, int]]]
"""``(new value, new foreign key, old value, old foreign key)`` to foreign keys and what to do at each."""


KeyWriter = Callable[[Any, "HeaderList | None"], "tuple[bytes, HeaderList | None]"]
"""``(key, headers)`` of a left row to the bytes of its key, and the headers of the subscription that has them."""


@dataclass
class LeftSide:
    """The way from the answers of an inner join back to the subscriptions of the same task."""

    ask_again: Again | None = None


@dataclass(frozen=True, kw_only=True)
class ForeignKeySubscribe(ChangeReader, OwnSerdes):
    """Turns the changes of the left table into subscriptions to the rows of the right one (semantics 27, 67, 68).

    The results have the foreign key as key, which is null where a left join has none, and bytes as value.
    """

    part: ClassVar[str] = "subscribe"
    extractor: Callable[..., Any] = field(metadata=user_function("value", key_if="with_key"))
    with_key: bool
    """Whether the extractor takes the left row's key too."""
    left_join: bool
    topic: str
    """The topic of subscriptions, without the application's id."""
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    foreign_key_serde: Serde[Any] | None

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the changes of one task."""
        process = self._bind(context)
        return dropping_late_changes(context, process) if self.versioned else process

    def _bind(self, context: OperatorContext) -> Forward:
        forward, fail, drop = context.forward, context.fail, context.drop
        extractor, with_key, counts_null = self.extractor, self.with_key, not self.left_join
        key_bytes, write_value = self._key_writer(context), self._value_writer(context)
        instructions, partition = self._instructions(context), context.processing_context().task_id.partition

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            new, old = value[0], value[1]
            new_key = old_key = hash_ = None
            try:
                # It comes back with the answer, which is thrown away if the row has another hash by then.
                if new is not None:
                    new_key = extractor(key, new) if with_key else extractor(new)
                    hash_ = murmur3_128(write_value(new))
                if old is not None:
                    old_key = extractor(key, old) if with_key else extractor(old)
                raw_key, headers = key_bytes(key, headers)
                orders = instructions(new, new_key, old, old_key)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if counts_null and new_key is None and new is not None:
                drop(DropReason.NULL_FOREIGN_KEY)
            for foreign_key, instruction in orders:
                forward(foreign_key, subscription(instruction, hash_, raw_key, partition), timestamp, headers)

        def ask_again(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> bool:
            foreign_key = extractor(key, value) if with_key else extractor(value)
            if foreign_key is None:
                return False
            raw_key, headers = key_bytes(key, headers)
            order = subscription(ANSWER_ALWAYS, murmur3_128(write_value(value)), raw_key, partition)
            forward(foreign_key, order, timestamp, headers)
            return True

        context.shared(self.topic, LeftSide).ask_again = ask_again
        return process

    def _key_writer(self, context: OperatorContext) -> KeyWriter:
        keys = self.bound(context, "key_serde")
        write = keys.serialize
        if not keys.takes_headers:
            return lambda key, headers: (write(key), headers)

        def with_headers(key: Any, headers: HeaderList | None) -> tuple[bytes, HeaderList | None]:
            # The subscription has the headers with which its key is read.
            added = Headers(headers or ())
            return keys.with_headers(added).serialize(key), added

        return with_headers

    def _value_writer(self, context: OperatorContext) -> Callable[[Any], bytes]:
        return self.bound(context, "value_serde").serialize

    def _instructions(self, context: OperatorContext) -> Instructions:
        write = self.bound(context, "foreign_key_serde").serialize

        # By bytes, as the other task sees them (semantics 67).
        def differ(new_key: Any, old_key: Any) -> bool:
            return write(new_key) != write(old_key)

        def inner(new: Any, new_key: Any, old: Any, old_key: Any) -> list[tuple[Any, int]]:
            if new_key is None:
                return [] if old_key is None else [(old_key, DELETE_AND_ANSWER)]
            # Nothing was joined before, or with the same row: without a right row there is nothing to delete.
            if old_key is None or not differ(new_key, old_key):
                return [(new_key, ANSWER_IF_FOUND)]
            return [(old_key, DELETE_SILENTLY), (new_key, ANSWER_ALWAYS)]

        def left(new: Any, new_key: Any, old: Any, old_key: Any) -> list[tuple[Any, int]]:
            if new is None and old is None:
                return []
            if old_key is not None and (new_key is None or differ(new_key, old_key)):
                return [(old_key, DELETE_SILENTLY), (new_key, ANSWER_ALWAYS)]
            return [(new_key, ANSWER_ALWAYS)]

        return left if self.left_join else inner


@dataclass(frozen=True, kw_only=True)
class ForeignKeyAnswers(OwnSerdes, Operator):
    """Joins the answers with the rows of the left table, unless those have changed meanwhile (semantics 66, 69).

    An inner join asks again where it throws an answer without a right row away: the newer change of the left row may
    have none, and what was joined before would stay.
    """

    part: ClassVar[str] = "resolve"
    joiner: Callable[[Any, Any], Any] = field(metadata=user_function("value", "other"))
    left_join: bool
    topic: str
    """The topic of subscriptions, without the application's id."""
    value_serde: Serde[Any] | None
    views: tuple[TableView, ...] = ()
    """The left table's; set by the compiler."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the answers of one task."""
        get = self.views[0].bind(context, forwarded=True)  # the row that was subscribed for, if a newer one waits
        forward, fail, drop = context.forward, context.fail, context.drop
        joiner, left_join, left_side = self.joiner, self.left_join, context.shared(self.topic, LeftSide)
        write_value = self.bound(context, "value_serde").serialize

        def will_be_answered(key: Any, row: Row | None, headers: HeaderList | None) -> bool:
            ask = left_side.ask_again
            if ask is None or row is None:
                return ask is None
            again = get(key)
            if again is None or write_value(again[0]) != write_value(row[0]):
                return True  # no answer would ever be taken (semantics 67)
            return ask(key, row[0], row[1], headers)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            hash_, right = value
            joined = None
            try:
                found = get(key)
                if (None if found is None else murmur3_128(write_value(found[0]))) != hash_:
                    drop(DropReason.CHANGED_MEANWHILE)
                    if left_join or right is not None or will_be_answered(key, found, headers):
                        return
                elif found is not None and (left_join or right is not None):
                    joined = joiner(found[0], right)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return process
