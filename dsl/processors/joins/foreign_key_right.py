"""The operators of a foreign-key join on the side of the right table: keeping subscriptions, and answering them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from dsl.processors.joins.foreign_key import (
    ANSWER_ALWAYS,
    ANSWER_IF_FOUND,
    DELETE_AND_ANSWER,
    DELETE_SILENTLY,
    InnerTopic,
    OwnSerdes,
)
from dsl.processors.tables.operator import ChangeReader, dropping_late_changes
from dsl.processors.tables.view import TableView
from dsl.processors.windows.emission import rows_of_part
from processor_api.context import OperatorContext
from processor_api.errors import StoreError
from processor_api.processor import Operator
from processor_api.record import DropReason, Forward, HeaderList
from processor_api.serde import Serde
from state.formats.foreign_keys import (
    UNANSWERED,
    Subscription,
    Unanswered,
    read_subscription,
    read_unanswered,
    subscription_key,
    subscription_prefix,
    subscriptions_end,
    unanswered,
    unanswered_key,
)

# The answers of a foreign-key join to one change of the right table: there may be a million (semantics 161).

log = logging.getLogger("streams.runtime")


class RightChange(NamedTuple):
    """A change of the right table, as it is forwarded."""

    key: Any
    value: Any
    """The new value and the old one."""
    timestamp: int
    headers: HeaderList | None


NONE = RightChange(None, (None, None), 0, None)


@dataclass(frozen=True)
class JoinSerdes:
    """The serdes of both tables that answers are made with."""

    left_keys: Serde[Any]
    right_keys: Serde[Any]
    right_values: Serde[Any]


class KeptChanges:
    """The rows of the changes that are answered in parts, by number, in the store of the subscriptions.

    A row outlives the commit behind the last answer: a changelog may have its deletion while a killed producer had not
    delivered the answers.
    """

    def __init__(self, context: OperatorContext, store: str) -> None:
        self._name, self._put = store, context.store(store).put
        self._done = -1
        """The number of the last change that was answered in parts."""
        self._done = context.keep_time(f"{store}/answered", lambda: self._done)
        self._ended: list[bytes] = []
        """Keys of rows of changes that have all their answers, which are not committed yet."""
        self._old: list[bytes] = []
        """Keys of rows that are no longer needed."""
        self._kept = False
        """Whether the store has the change that is being answered."""
        context.on_commit(self._committed)

    def former(self, rows: Iterable[tuple[bytes, Any]], *, begun: bool) -> tuple[Unanswered, int] | None:
        """Returns the change that a former life of the task was answering, with its timestamp; notes the other rows as
        old.

        :param begun: whether it was answering one.
        :raises StoreError: if the row of the change is damaged.
        """
        found = {raw: (row[0], row[1]) for raw, row in rows}
        row = found.pop(unanswered_key(self._done + 1), None) if begun else None
        self._old = list(found)
        if row is None:
            return None
        self._kept = True
        try:
            return read_unanswered(row[0]), row[1]
        except ValueError as error:
            raise StoreError(f"store {self._name!r} has a damaged row: {error}", store=self._name) from error

    def keep(self, row: bytes, timestamp: int, headers: HeaderList | None) -> None:
        """Puts the row of the change that is being answered."""
        self._put(unanswered_key(self._done + 1), row, timestamp, headers)
        self._kept = True

    def end(self) -> None:
        """The change has all its answers: its row is deleted behind the next commit, if there is one."""
        # Its row stays until a later change: see the class.
        if self._kept:
            self._done += 1
            self._ended.append(unanswered_key(self._done))
            self._kept = False

    def delete_old(self, timestamp: int, headers: HeaderList | None) -> None:
        """Deletes the rows that are no longer needed, as a change of the current record."""
        for key in self._old:
            self._put(key, None, timestamp, headers)
        self._old = []

    def _committed(self) -> None:
        self._old += self._ended
        self._ended = []


class RightAnswers:
    """The answers to one change, and how far they are sent.

    What a part leaves is a row in the store of the subscriptions, which has the change, and a number beside the
    committed offsets, which says how many have their answers.

    Subscriptions do not change before all are answered: the task takes no other record before.

    :param store: the name of the store of the subscriptions.
    """

    def __init__(self, context: OperatorContext, store: str, serdes: JoinSerdes) -> None:
        self._context, self._serdes = context, serdes
        self._alone = context.counting(DropReason.NO_PARTNER)
        self._range = context.processing_context().get_state_store(store).range
        self._part_rows = rows_of_part(context)
        self._change = NONE
        self._start = self._end = b""
        """The keys between which no subscription has an answer."""
        self._send: Callable[[], bool] = self._answer
        self.begun = False
        """Whether some may have no answer."""
        self._kept = KeptChanges(context, store)
        self._sent = 0
        """1 and how many have their answers, while the store has the change."""
        self._sent = context.keep_progress(f"{store}/answers", lambda: self._sent, since=f"{store}/answered")
        self._go_on(store)

    def begin(self, prefix: bytes, change: RightChange) -> None:
        """Begins to answer the subscriptions whose keys have a prefix."""
        self._change, self._start, self._end, self.begun = change, prefix, subscriptions_end(prefix), True
        self._sent = 0
        self._kept.delete_old(change.timestamp, change.headers)

    def keep_rest(self) -> None:
        """Keeps what a part of the answers to the current record has left."""
        if not self.begun:
            return
        _, (value, _), timestamp, headers = self._change
        try:
            written = None if value is None else self._serdes.right_values.serialize(value)
        except Exception:  # that of each answer, where it is reported
            self.send_rest()
            return
        self._kept.keep(unanswered(self._foreign_key(), headers, written), timestamp, headers)
        self._sent += 1
        # Later parts come between records, and are still results of this one.
        self._send = self._context.with_record(self._answer)

    def send_part(self) -> bool:
        """Sends a part of the answers; returns whether there are more."""
        if not self.begun:
            return False
        if self._send():
            return True
        self._end_it()
        return False

    def send_rest(self) -> None:
        """Sends all that are left."""
        while self._send():
            pass
        self._end_it()

    def _answer(self, skipped: int = 0) -> bool:
        key, value, timestamp, headers = self._change
        forward, fail, right, left = self._context.forward, self._context.fail, value[0], self._part_rows
        with closing(self._subscriptions(skipped)) as found:
            while True:  # one after the other: they are not held in memory
                try:
                    one = next(found, None)
                except Exception as error:
                    fail(error, key, value, timestamp, headers)
                    return False
                if one is None:
                    if not self._sent:
                        self._alone()
                    return False
                if not left:
                    return True
                left -= 1
                raw, read, left_key = one
                # The next part begins behind it, with a scan of its own: commits write in between.
                self._start = raw + b"\0"
                self._sent += 1
                forward(left_key, (read.hash, right, read.partition), timestamp, headers)

    def _subscriptions(self, skipped: int) -> Generator[tuple[bytes, Subscription, Any]]:
        end, read_left = self._end, self._serdes.left_keys.deserialize
        with self._range(self._start, end) as rows:
            for raw, row in islice(rows, skipped, None):
                if raw == end:
                    return
                read = read_subscription(row[0])
                yield raw, read, read_left(read.key)

    def _foreign_key(self) -> bytes:
        length = int.from_bytes(self._start[:4], "big")
        return self._start[4 : 4 + length]

    def _end_it(self) -> None:
        self._kept.end()
        self.begun, self._sent = False, 0
        self._change, self._send = NONE, self._answer

    # ------------------------------------------------------------------ after a restart

    def _go_on(self, store: str) -> None:
        """Continues the change that the task was responding to before it was restarted."""
        with self._range(UNANSWERED, None) as rows:
            former = self._kept.former(rows, begun=self._sent > 0)
        if former is not None:
            self._resume(*former)
        elif self._sent:
            log.warning(
                "the rest of the answers to a change of the right table is not sent, since the store of subscriptions"
                " has lost the change: send the row of the right table again, or the results of its left rows stay as"
                " they are",
                extra={"node": self._context.node, "store": store, "answered": self._sent - 1},
            )
            self._sent = 0

    def _resume(self, rest: Unanswered, timestamp: int) -> None:
        self._start = subscription_prefix(rest.foreign_key)
        self._end = subscriptions_end(self._start)
        self._change = RightChange(None, (None, None), timestamp, rest.headers or None)
        self.begun = True

        def read_and_answer() -> bool:
            try:
                key = self._serdes.right_keys.deserialize(rest.foreign_key)
                value = None if rest.value is None else self._serdes.right_values.deserialize(rest.value)
            except Exception as error:
                self._context.fail(error, *self._change)
                return False
            self._change = self._change._replace(key=key, value=(value, None))
            self._send = self._answer
            return self._answer(self._sent - 1)

        self._send = read_and_answer


@dataclass(frozen=True, kw_only=True)
class ForeignKeyReceive(OwnSerdes, Operator):
    """Keeps the subscriptions of left rows, or deletes them, and passes them on."""

    part: ClassVar[str] = "keep subscriptions"
    store: str
    topic: str
    """The topic of subscriptions, without the application's id."""
    foreign_key_serde: Serde[Any] | None

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the subscriptions of one task."""
        put, forward, fail, drop = context.store(self.store).put, context.forward, context.fail, context.drop
        write_key = self.bound(context, "foreign_key_serde").serialize

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                read = read_subscription(value)
                if key is not None:
                    kept = None if read.instruction in (DELETE_SILENTLY, DELETE_AND_ANSWER) else value
                    put(subscription_key(write_key(key), read.key), kept, timestamp, headers)
                elif read.instruction != ANSWER_ALWAYS:
                    drop(DropReason.NULL_SUBSCRIPTION)
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

    part: ClassVar[str] = "answer"
    topic: str
    """The topic of subscriptions, without the application's id."""
    key_serde: Serde[Any] | None
    """The serde of the left table's keys."""
    views: tuple[TableView, ...] = ()
    """The right table's; set by the compiler."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the subscriptions of one task."""
        get = self.views[0].bind(context, forwarded=True)  # one that waits in a cache may be deleted and never be told
        forward, fail, alone = context.forward, context.fail, context.counting(DropReason.NO_PARTNER)
        read_key = self.bound(context, "key_serde").deserialize

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            right = None
            try:
                found = None if key is None else get(key)
                if found is None:
                    if value.instruction == ANSWER_IF_FOUND:
                        alone()
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

    part: ClassVar[str] = "answer changes"
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

    def inner_topic(self, name: str) -> InnerTopic:
        """Returns the topic that a serde is bound to: values are those of the answers."""
        if name == "value_serde":
            return InnerTopic(self.response_topic, False, "the right table")
        return super().inner_topic(name)

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the changes of one task."""
        process = self._bind(context)
        return dropping_late_changes(context, process) if self.versioned else process

    def _bind(self, context: OperatorContext) -> Forward:
        fail, bound = context.fail, partial(self.bound, context)
        serdes = JoinSerdes(bound("key_serde"), bound("foreign_key_serde"), bound("value_serde"))
        answers = RightAnswers(context, self.store, serdes)
        send_part, write_key = context.in_parts(answers.send_part, left=answers.begun), serdes.right_keys.serialize

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
