"""The operators of a foreign-key join on the side of the right table: keeping subscriptions, and answering them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from dsl.processors.joins.foreign_key import (
    ANSWER_ALWAYS,
    ANSWER_IF_FOUND,
    DELETE_AND_ANSWER,
    DELETE_SILENTLY,
    OwnSerdes,
    bound_serde,
)
from dsl.processors.joins.right_answers import RightAnswers, RightChange
from dsl.table_operator import ChangeReader, dropping_late_changes
from dsl.table_view import TableView
from processor_api.context import OperatorContext
from processor_api.processor import Operator
from processor_api.record import Forward, HeaderList
from processor_api.serde import Serde
from state.formats.foreign_keys import read_subscription, subscription_key, subscription_prefix

NULL_FOREIGN_KEY = "a subscription without a foreign key"


@dataclass(frozen=True, kw_only=True)
class ForeignKeyReceive(OwnSerdes, Operator):
    """Keeps the subscriptions of left rows, or deletes them, and passes them on."""

    store: str
    topic: str
    """The topic of subscriptions, without the application's id."""
    foreign_key_serde: Serde[Any] | None

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the subscriptions of one task."""
        put, forward, fail, drop = context.store(self.store).put, context.forward, context.fail, context.drop
        write_key = bound_serde(
            context, self.foreign_key_serde, f"{self.topic}-fk", is_key=True, whose="the right table"
        ).serialize

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                read = read_subscription(value)
                if key is not None:
                    kept = None if read.instruction in (DELETE_SILENTLY, DELETE_AND_ANSWER) else value
                    put(subscription_key(write_key(key), read.key), kept, timestamp, headers)
                elif read.instruction != ANSWER_ALWAYS:
                    drop(NULL_FOREIGN_KEY)
                    return
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if read.instruction != DELETE_SILENTLY:
                forward(key, read, timestamp, headers)

        return process


@dataclass(frozen=True, kw_only=True)
class ForeignKeyAnswer(OwnSerdes, Operator):
    """Answers a subscription with the value of the right row (semantics 18, 68, 69)."""

    topic: str
    """The topic of subscriptions, without the application's id."""
    key_serde: Serde[Any] | None
    """The serde of the left table's keys."""
    views: tuple[TableView, ...] = ()
    """The right table's; set by the compiler."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the subscriptions of one task."""
        get = self.views[0].bind(context, forwarded=True)  # one that waits in a cache may be deleted and never be told
        forward, fail = context.forward, context.fail
        read_key = bound_serde(
            context, self.key_serde, f"{self.topic}-pk", is_key=True, whose="the left table"
        ).deserialize

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            right = None
            try:
                found = None if key is None else get(key)
                if found is None:
                    if value.instruction == ANSWER_IF_FOUND:
                        return
                else:
                    timestamp = max(timestamp, found[1])
                    if value.instruction != DELETE_AND_ANSWER:
                        right = found[0]
                left_key = read_key(value.key)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(left_key, (value.hash, right, value.partition), timestamp, headers)

        return process


@dataclass(frozen=True, kw_only=True)
class ForeignKeyRightChanges(ChangeReader, OwnSerdes):
    """Answers all subscriptions of a row of the right table when it changes, in parts (semantics 66, 161)."""

    store: str
    topic: str
    """The topic of subscriptions, without the application's id."""
    response_topic: str
    """The topic of answers, without the application's id."""
    key_serde: Serde[Any] | None
    """The serde of the left table's keys."""
    value_serde: Serde[Any] | None
    """The serde of the right table's values."""
    foreign_key_serde: Serde[Any] | None

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the changes of one task."""
        process = self._bind(context)
        return dropping_late_changes(context, process) if self.versioned else process

    def _bind(self, context: OperatorContext) -> Forward:
        fail, serde = context.fail, partial(bound_serde, context)
        keys = serde(self.key_serde, f"{self.topic}-pk", is_key=True, whose="the left table")
        right_keys = serde(self.foreign_key_serde, f"{self.topic}-fk", is_key=True, whose="the right table")
        values = serde(self.value_serde, self.response_topic, is_key=False, whose="the right table")
        answers = RightAnswers(context, self.store, keys=keys, right_keys=right_keys, right_values=values)
        send_part, write_key = context.in_parts(answers.send_part, left=answers.begun), right_keys.serialize

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if answers.begun:  # those to another change of the same call or drain
                answers.send_rest()
            try:
                prefix = subscription_prefix(write_key(key))
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            answers.begin(prefix, RightChange(key, value, timestamp, headers))
            send_part()
            answers.keep_rest()

        return process
