"""Sends everything that a task writes to Kafka (records of sinks, changelogs, dead letters) and follows each delivery.

A record that could not be delivered is never followed by a commit, unless the production handler says so: each has a
delivery callback, the first failure is kept and raised at the next flush or batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import (
    AuthorizationError,
    InternalError,
    ProductionError,
    RetryableError,
    StreamsError,
    TaskMigratedError,
)
from processor_api.handlers import ProducerRecord
from processor_api.record import DropReason, Forward, HeaderList
from processor_api.serde import Serde, never_null
from processor_api.texts import repr_of
from processor_api.topology.nodes import RecordContext, SinkNode
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.topology.topic_names import check_topic_name
from processor_api.user_code.durations import whole_number
from state.formats.windowed_serdes import windowed_partitioner
from state.row_format.record_context import Cursor
from streams.kafka.headers import UnsendableHeaders
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.ports import NotDelivered, Producer, TransactionAborted, UnknownTopicError
from streams.kafka.producing.batch_limits import ProducerBatches
from streams.kafka.producing.dead_letters import DeadLetters
from streams.kafka.producing.deliveries import (
    batch_too_large,
    is_fatal,
    is_purged,
    is_too_large,
    not_delivered,
    produced_record,
)
from streams.kafka.producing.header_serdes import with_own_headers
from streams.kafka.producing.zero_timestamps import ZERO_SENT, looks_marked, with_time

log = logging.getLogger("streams.kafka")

QUEUE_FULL_WAIT_S = 0.1
QUEUE_FULL_DEADLINE_S = 120.0
FLUSH_SLICE_S = 1.0
REPORT_WAIT_S = 0.1
"""How long the report of the record is waited for that made a transaction fail."""
ABSENT_TRIES = 8
ABSENT_PAUSE_S = 0.1
ABSENT_S = 1.0
STOPPING_S = 5.0
"""How long deliveries are waited for once the thread is asked to end."""

Send = Callable[[str, bytes | None, bytes | None, int, int, HeaderList | None], None]
"""``(topic, value, key, partition or -1, timestamp_ms, headers)``"""


Sent = Callable[[str, bytes | None, bytes | None, int, int], None]
"""``(topic, value, key, partition or -1, timestamp_ms)`` of a record that was handed to the producer."""


class SinkErrors(Protocol):
    """Decides about the errors of sinks: whether the record is dropped or the task fails."""

    @property
    def task(self) -> str | None:
        """The task of the sink; ``None`` if it is not known."""
        ...

    @property
    def wants_refused(self) -> bool:
        """Whether :meth:`undelivered` needs the timestamp and headers of a record, which the client's report lacks."""
        ...

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Handles an error of a partitioner or topic extractor: returns to drop the record, else raises."""
        ...

    def unserializable(self, error: Exception, part: str, record: ProducerRecord) -> None:
        """Handles a ``key`` or ``value`` that cannot be serialised, or ``headers`` that cannot be sent: returns to drop
        the record, else raises."""
        ...

    def undelivered(
        self, failure: StreamsError, record: ProducerRecord
    ) -> tuple[StreamsError | None, Iterable[ProducerRecord]]:
        """Handles a record that the broker refused: returns the error to raise, or ``None`` to continue without the
        record, and dead letters. Does not raise."""
        ...

    def unwritable(self, failure: NotDelivered, record: ProducerRecord) -> None:
        """Handles a record that was not sent, since its topic does not exist: returns to drop the record, else
        raises."""
        ...

    def drop(self, reason: DropReason) -> None:
        """Counts a record that is dropped on purpose."""
        ...


def _no() -> bool:
    return False


class Changelog:
    """One partition of a changelog topic, as its task, its only writer, writes it.

    Offsets are counted, not asked for: a delivery report for each record costs a fifth of sending it. The count is
    right once everything was delivered, which each commit waits for. Records of a writer that was fenced make it too
    small; then some records are restored again, and none is missed (docs/decisions/changelogs-and-restore.md,
    "Changelog offsets are counted").

    :param end: offset that the next record gets.
    """

    __slots__ = (
        "_committed",
        "_end",
        "applied",
        "held",
        "log",
        "log_end",
        "log_many",
        "partition",
        "point",
        "sent",
        "topic",
    )

    def __init__(self, topic: str, partition: int, end: int = 0) -> None:
        self.topic = topic
        self.partition = partition
        self._end = end
        self._committed = 0
        self.applied = end - 1
        """The offset of the last record that is in the engine of the store too."""
        self.log_end = end
        """Where the log ended after the last commit."""
        self.point: LogPoint | None = None
        """The record that the engine has noted with the epoch of a leader that had it."""
        self.sent = 0
        self.held: list[tuple[bytes, bytes | None, int, HeaderList | None]] | None = None
        """Records that wait until what was sent before them has arrived; ``None`` if records are sent at once."""
        self.log: Callable[..., None]
        """``(key, value, timestamp_ms, headers)``; the headers may be left out."""
        self.log_many: Callable[[Iterator[tuple[bytes, bytes | None, int]]], None]
        """``(key, value, timestamp_ms)`` of one record after the other. After an error, neither what is left in the
        iterator was sent nor the one before."""

    def send_held(self) -> bool:
        """Sends the records that were held, and keeps what it could not send; those that follow are held again.

        :returns: whether there were any."""
        # While it is None, `log` sends at once.
        held, self.held, sent = self.held, None, 0
        if held is None:
            return False
        try:
            for record in held:
                self.log(*record)
                sent += 1
        finally:
            self.held = held[sent:]
        return bool(held)

    @property
    def offset(self) -> int | None:
        """The offset of the last record sent; ``None`` before the first."""
        return self._end + self.sent - 1 if self.sent else None

    @property
    def end(self) -> int:
        """The offset that the next record gets, behind those that are held."""
        return self._end + self.sent + len(self.held or ())

    def was_applied(self) -> None:
        """Notes that the engine has what was sent."""
        if self.sent > self._committed:
            self.applied = self._end + self.sent - 1
            self.log_end = self.applied + 1

    def transaction_committed(self) -> None:
        """Counts the marker of a transaction, which takes an offset in each partition that the transaction wrote to."""
        if self.sent > self._committed:
            self._committed = self.sent
            self._end += 1
            self.log_end = self._end + self.sent

    def point_to_note(self, leaders: Mapping[str, int]) -> LogPoint | None:
        """Returns the record that the engine has to note, if it is another one than it has noted.

        It is the last one of the commit before: the leader of the next one is not known to have what it writes, which
        arrives after it was asked for.

        :param leaders: the epochs of the leaders of topics, which have what was applied.
        """
        epoch = leaders.get(self.topic)
        found = None if epoch is None or self.applied < 0 else LogPoint(self.applied, epoch)
        return None if found == self.point else found


class Patience:
    """Knows for how long deliveries are waited for: once the thread is asked to end, not for long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stopping: Callable[[], bool] = _no
        """Whether the thread is asked to end."""
        self._stopped_at: float | None = None

    def check(self) -> None:
        """Raises an error when it is over.

        :raises RetryableError: if the broker has not answered for some time.
        """
        if not self.stopping():
            return
        now = self._clock.monotonic()
        self._stopped_at = now if self._stopped_at is None else self._stopped_at
        if now - self._stopped_at > STOPPING_S:
            raise RetryableError(
                f"records were not delivered within {STOPPING_S:.0f} s of the stop: check that the broker is reachable"
            )


Produced = Callable[[Callable[..., None]], Callable[..., None]]
"""Maps the client's ``produce`` to the function that is called instead."""


class RecordCollector:
    """The record collector of one stream thread; its tasks share the producer."""

    def __init__(
        self,
        producer: Producer,
        clock: Clock,
        batches: ProducerBatches | None = None,
        sent: Sent | None = None,
        with_headers: Produced | None = None,
    ) -> None:
        """Makes one that has sent nothing.

        :param batches: those of the producer, where a new one can make smaller ones.
        :param sent: is called with each record.
        :param with_headers: gives what sends the results that have headers, from the client's ``produce``."""
        self._producer = producer
        self._clock = clock
        self._batches = batches
        self._sent, self._with_headers = sent, with_headers
        self._failure: StreamsError | None = None
        self._refused_of: set[str | None] = set()
        """The tasks of the records because of which tasks go back; ``None`` stands for one that is not known."""
        self._absent: dict[str, float] = {}
        """Topics that did not exist when they were asked for, and until when they are not asked for again."""
        self._letters = DeadLetters(None if batches is None else batches.refused_letters)
        self._warned_of_zero: set[str] = set()
        self.holds_changes = False
        """Whether changelogs keep what is logged until the results of its commit have arrived."""
        self.patience = Patience(clock)

    @property
    def producer(self) -> Producer:
        return self._producer

    def replace(self, producer: Producer) -> None:
        """Continues with a new producer; functions made before belong to the old one and must be made again."""
        self._producer = producer
        self.forget_failure()

    # ------------------------------------------------------------------ results

    def delivered(self, error: Any, message: Any) -> None:
        """Handles the delivery report of a record that no handler is asked about: a dead letter, or one of a changelog,
        since a store whose changelog has a gap would be restored wrong."""
        if error is not None:
            self._refused(error, None if message is None else produced_record(message), None)

    def _raise_unless_refused(self, error: Exception, topic: str) -> None:
        """Raises an error that is about the producer, and not about the record that it did not take.

        A transaction that can only be rolled back has failed because of a record before, whose report says more."""
        try:
            if isinstance(error, (InternalError, RetryableError, TaskMigratedError)):
                raise error
            self._producer.refused(error, topic)
        except TransactionAborted:
            self._producer.poll(REPORT_WAIT_S)
            if self._failure is not None:
                raise self._failure from error
            raise
        except (AuthorizationError, InternalError, RetryableError, TaskMigratedError):
            raise
        except StreamsError:
            return

    def _refused(
        self, error: Any, record: ProducerRecord | None, errors: SinkErrors | None, *, alone: bool = False
    ) -> None:
        """Handles a refused record.

        :param alone: whether it was refused for itself, and not with its batch."""
        if is_purged(error):
            return
        task = None if errors is None else errors.task
        goes_back = isinstance(self._failure, NotDelivered)
        # Behind a failure that only takes tasks back, one of another task counts too: then that one goes back as well.
        if self._failure is not None and (not goes_back or not self._refused_of.isdisjoint({None, task})):
            return
        topic, partition = (None, None) if record is None else (record.topic, record.partition)
        failure: StreamsError | None = not_delivered(error, topic, partition)
        if not alone and is_too_large(failure) and self._may_be_smaller(record):
            failure, errors = batch_too_large(topic, partition), None
        if errors is not None and record is not None and failure is not None and not is_fatal(failure):
            failure, letters = errors.undelivered(failure, record)
            self._letters.waiting.extend(letters)  # sent later: this may be a callback inside of poll
        if isinstance(failure, NotDelivered):
            self._refused_of.add(task)
        if failure is not None and not (goes_back and isinstance(failure, NotDelivered)):
            self._failure = failure

    def _may_be_smaller(self, record: ProducerRecord | None) -> bool:
        return record is not None and self._batches is not None and self._batches.fits_alone(record)

    def check(self) -> None:
        """Raises the first failure, if there was one, once the dead letters that came with it are delivered."""
        if self._failure is not None:
            if self._letters.waiting:
                self._send_waiting()
                self._flush()
            if isinstance(self._failure, NotDelivered):
                self._failure.tasks = frozenset(self._refused_of)
            raise self._failure

    def forget_failure(self) -> None:
        """Forgets the failure, when the tasks concerned have been taken back, or an abort has rolled them back."""
        self._failure = None
        self._refused_of.clear()
        self._letters.waiting.clear()

    def flush(self) -> None:
        """Waits for all deliveries.

        :raises ProductionError: if one failed.
        :raises NotDelivered: if one failed and the handler wants the records processed again.
        :raises TaskMigratedError: if the producer is fenced.
        :raises RetryableError: if the thread is asked to end and they take too long.
        """
        self._flush_letters()
        self.check()

    def _flush_letters(self) -> None:
        self._flush()
        while self._letters.waiting:
            self._send_waiting()
            self._flush()

    def _flush(self) -> None:
        while not self._producer.flush(FLUSH_SLICE_S):
            self.patience.check()

    def poll(self) -> None:
        """Serves callbacks; to be called once per batch."""
        self._producer.poll(0)
        if self._failure is not None:
            self.check()
        if self._letters.waiting:
            self._send_waiting()

    def send_dead_letters(self, records: Iterable[ProducerRecord], *, wait: bool = False) -> None:
        """Sends what a handler made, inside the transaction if there is one (semantics 115).

        :param wait: until they are delivered, because the task is about to fail.
        """
        letters = list(records)
        for name in dict.fromkeys(letter.topic for letter in letters):
            if self._is_absent(name):
                raise NotDelivered(f"the dead-letter topic {name!r} does not exist: create it", topic=name)
        for letter in letters:
            self._send_letter(self._letters.fitting(letter))
        if wait:
            self._flush_letters()

    def _send_letter(self, letter: ProducerRecord) -> None:
        topic, key, value, timestamp, headers, partition = letter
        stamp = self._clock.time_ms() if timestamp is None else timestamp or self._zero_of(topic)()
        errors = self._letters.errors_of(letter, goes_back=not self.holds_changes)

        def delivered(error: Any, message: Any) -> None:
            if error is not None:  # The client's report lacks the headers.
                self._refused(error, letter, errors)

        self._sender(delivered, errors)(topic, value, key, -1 if partition is None else partition, stamp, headers)

    def _send_waiting(self) -> None:
        self.send_dead_letters(self._letters.take())

    # ------------------------------------------------------------------ writers

    def _produce_for(self, errors: SinkErrors | None) -> tuple[Callable[..., None], Callable[..., None]]:
        """Returns the client's ``produce`` and ``produce_plain``; for a sink whose handler may look at refused records,
        one whose reports have their timestamps and headers too, which costs such sinks an object for each record in
        flight."""
        produce, plain, complete = self._producer.produce, self._producer.produce_plain, self._complete_report
        if self._sent is not None:
            produce = plain = _reporting(produce, self._sent)
        if errors is not None and self._with_headers is not None:
            produce = self._with_headers(produce)
        if errors is None or not errors.wants_refused:
            return produce, plain

        def keeping(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int,
            _delivered: Any,
            _none: None,
            timestamp: int,
            headers: HeaderList | None = None,
        ) -> None:
            kept = partial(complete, errors, timestamp, headers)
            produce(topic, value, key, partition, kept, None, timestamp, headers)

        return keeping, keeping

    def _complete_report(
        self, errors: SinkErrors, timestamp: int, headers: HeaderList | None, error: Any, message: Any
    ) -> None:
        if error is not None:
            found = None if message is None else produced_record(message)._replace(timestamp=timestamp, headers=headers)
            self._refused(error, found, errors)

    def _make_room(self, since: float) -> None:
        self._producer.poll(QUEUE_FULL_WAIT_S)
        self.check()
        self.patience.check()
        if self._clock.monotonic() - since > QUEUE_FULL_DEADLINE_S:
            raise RetryableError(
                "the producer's queue has been full for two minutes: check that the broker is reachable"
            )

    def _sender(self, delivered: Callable[[Any, Any], None], errors: SinkErrors | None) -> Send:
        """Returns the slow path of sending: it waits while the queue is full, and maps an immediate refusal."""
        (produce, _), make_room, now = self._produce_for(errors), self._make_room, self._clock.monotonic
        refused = self._refused

        def send(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int,
            timestamp: int,
            headers: HeaderList | None,
        ) -> None:
            since = None
            while True:
                try:
                    produce(topic, value, key, partition, delivered, None, timestamp, headers)
                    return
                except BufferError:
                    since = now() if since is None else since
                    make_room(since)
                except UnsendableHeaders as error:
                    if errors is None:
                        raise error.locate(topic=topic)  # noqa: B904 - the same error, with its place
                    unsent = _record(topic, value, key, partition, timestamp, headers)
                    return errors.unserializable(error, "headers", unsent)
                except Exception as error:
                    self._raise_unless_refused(error, topic)
                    refused(error, _record(topic, value, key, partition, timestamp, headers), errors, alone=True)
                    self.check()
                    return

        return send

    def prepare(self, topics: Collection[str]) -> None:
        """Prepares writing to topics (:meth:`streams.kafka.ports.Producer.prepare`)."""
        self._producer.prepare(topics)

    def changelog(self, topic: str, partition: int, end: int = 0) -> Changelog:
        """Returns a writer to one partition of a changelog, which ends at ``end``."""
        changelog = Changelog(topic, partition, end)
        changelog.held = [] if self.holds_changes else None
        delivered, untimed = self.delivered, self._untimed
        (produce, plain), send = self._produce_for(None), self._sender(delivered, None)

        def log(key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
            if changelog.held is not None:
                changelog.held.append((key, value, timestamp, headers))
                return
            if timestamp <= ZERO_SENT:
                timestamp, headers = untimed(timestamp, headers)
            try:
                if headers:
                    produce(topic, value, key, partition, delivered, None, timestamp, headers)
                else:
                    plain(topic, value, key, partition, delivered, None, timestamp)
            except Exception:
                send(topic, value, key, partition, timestamp, headers)
            changelog.sent += 1

        def log_many(rows: Iterator[tuple[bytes, bytes | None, int]]) -> None:
            if changelog.held is not None:
                # Rows that are logged together have no headers.
                changelog.held.extend((*row, None) for row in rows)
                return
            # Counted in a local name: this is the loop of each commit.
            sent = changelog.sent
            try:
                for key, value, timestamp in rows:
                    headers = None
                    # Without headers a time of 1 cannot be taken for the mark of 0, as it can in `log`.
                    if timestamp <= 0:
                        timestamp, headers = untimed(timestamp, None)
                    try:
                        if headers:
                            produce(topic, value, key, partition, delivered, None, timestamp, headers)
                        else:
                            plain(topic, value, key, partition, delivered, None, timestamp)
                    except Exception:
                        send(topic, value, key, partition, timestamp, headers)
                    sent += 1
            finally:
                changelog.sent = sent

        changelog.log, changelog.log_many = log, log_many
        return changelog

    def _untimed(self, timestamp: int, headers: HeaderList | None) -> tuple[int, HeaderList | None]:
        """Returns the timestamp and headers of a changelog record with timestamp 0 or `ZERO_SENT`, or none: such a row
        has no time that a restore would give back, and the record gets that of the clock, for retention."""
        if timestamp < 0:
            return self._clock.time_ms(), headers
        if timestamp:
            return timestamp, with_time(headers, timestamp) if looks_marked(headers) else headers
        zero = self._producer.zero_timestamp_ms
        return (zero, with_time(headers, 0)) if zero else (0, headers)

    def _zero_of(self, topic: str) -> Callable[[], int]:
        """Returns a function that gives the timestamp that is sent instead of 0; where that is another one, it warns
        once."""
        zero, warned = self._producer.zero_timestamp_ms, self._warned_of_zero

        def sent_for_zero() -> int:
            if zero and topic not in warned:
                warned.add(topic)
                log.warning(
                    "records with timestamp 0 are sent with another one, since the client takes 0 as the time of"
                    " sending",
                    extra={"topic": topic, "timestamp": zero},
                )
            return zero

        return sent_for_zero

    def sink(
        self, node: SinkNode, topic: str, key_serde: Serde[Any], value_serde: Serde[Any], errors: SinkErrors
    ) -> Forward:
        """Returns the function of a sink with a fixed topic."""
        partitioner = node.partitioner or windowed_partitioner(key_serde)
        if key_serde.takes_headers or value_serde.takes_headers:
            return with_own_headers(partial(self._sink, node, topic, errors, partitioner), key_serde, value_serde)
        return self._sink(node, topic, errors, partitioner, key_serde, value_serde)

    def _sink(
        self,
        node: SinkNode,
        topic: str,
        errors: SinkErrors,
        partitioner: StreamPartitioner | None,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
    ) -> Forward:
        delivered = self._delivery(errors)
        send = self._sender(delivered, errors)
        write_key, write_value = never_null(key_serde.serialize), never_null(value_serde.serialize)
        if partitioner is not None:
            return self._partitioned(node, partitioner, topic, write_key, write_value, send, errors)
        (produce, plain), zero = self._produce_for(errors), self._zero_of(topic)

        def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            part = "key"
            try:
                raw_key = None if key is None else write_key(key)
                part = "value"
                raw_value = None if value is None else write_value(value)
            except Exception as error:
                return errors.unserializable(error, part, ProducerRecord(topic, key, value, timestamp, headers))
            try:
                if headers:
                    produce(topic, raw_value, raw_key, -1, delivered, None, timestamp or zero(), headers)
                else:
                    plain(topic, raw_value, raw_key, -1, delivered, None, timestamp or zero())
            except Exception:
                send(topic, raw_value, raw_key, -1, timestamp or zero(), headers)

        return sink

    def _delivery(self, errors: SinkErrors) -> Callable[[Any, Any], None]:
        refused = self._refused

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                refused(error, None if message is None else produced_record(message), errors)

        return delivered

    def _partitioned(
        self,
        node: SinkNode,
        partitioner: StreamPartitioner,
        topic: str,
        write_key: Callable[[Any], bytes],
        write_value: Callable[[Any], bytes],
        send: Send,
        errors: SinkErrors,
    ) -> Forward:
        zero, name = self._zero_of(topic), node.name

        def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            total = self._partition_count(topic, name)
            try:
                partitions = _chosen(partitioner(topic, key, value, headers, total), total, name)
            except Exception as error:
                return errors.fail(error, key, value, timestamp, headers)
            if not partitions:
                return errors.drop(DropReason.NO_PARTITION)
            part = "key"
            try:
                raw_key = None if key is None else write_key(key)
                part = "value"
                raw_value = None if value is None else write_value(value)
            except Exception as error:
                return errors.unserializable(error, part, ProducerRecord(topic, key, value, timestamp, headers))
            for partition in partitions:
                send(topic, raw_value, raw_key, partition, timestamp or zero(), headers)

        return sink

    def _is_absent(self, topic: str) -> bool:
        """Whether the brokers say that there is no such topic, the first time also some moments later, since they may
        be making it. Where it cannot be asked for, the delivery of the record says what is wrong."""
        now = self._clock.monotonic
        asked_again_at = self._absent.pop(topic, None)
        if asked_again_at is not None and now() < asked_again_at:
            self._absent[topic] = asked_again_at
            return True
        for number in range(ABSENT_TRIES if asked_again_at is None else 1):
            if number:
                self._clock.wait(ABSENT_PAUSE_S)
            try:
                self._producer.partition_count(topic)
                return False
            except UnknownTopicError:
                continue
            except StreamsError:
                return False
        self._absent[topic] = now() + ABSENT_S
        return True

    def _partition_count(self, topic: str, node: str) -> int:
        try:
            return self._producer.partition_count(topic)
        except (AuthorizationError, RetryableError, TaskMigratedError):
            raise
        except StreamsError as error:
            raise ProductionError(
                f"sink {node!r} cannot write to topic {topic!r}: {error.message}", topic=topic, node=node
            ) from error

    def dynamic_sink(
        self, node: SinkNode, sink_for: Callable[[str], Forward], errors: SinkErrors, cursor: Cursor
    ) -> Forward:
        """Returns the function of a sink that names a topic for each record."""
        extractor: Any = node.topic_extractor
        sinks: dict[str, Forward] = {}
        declared = node.declared_topics

        def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                topic = extractor(
                    key, value, RecordContext(*cursor.source, cursor.message.offset(), timestamp, headers)
                )
                found = sinks.get(topic)
                if found is None:
                    what = f"the topic extractor of sink {node.name!r}"
                    if type(topic) is not str or not topic:
                        raise TypeError(f"{what} must return the name of a topic, got {repr_of(topic)}")
                    check_topic_name(topic, what)
                    if declared and topic not in declared:
                        raise ValueError(f"{what} must return one of its topics {', '.join(declared)}, got {topic!r}")
            except Exception as error:
                return errors.fail(error, key, value, timestamp, headers)
            if found is None and self._is_absent(topic):
                failure = NotDelivered(f"topic {topic!r} does not exist: create it", topic=topic)
                return errors.unwritable(failure, ProducerRecord(topic, key, value, timestamp, headers))
            if found is None:
                found = sinks[topic] = sink_for(topic)
            found(key, value, timestamp, headers)

        return sink


def _reporting(produce: Callable[..., None], sent: Sent) -> Callable[..., None]:
    """Returns a ``produce`` that reports each record that it has handed over."""

    def produce_and_report(
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        delivered: Any,
        none: None,
        timestamp: int,
        headers: HeaderList | None = None,
    ) -> None:
        produce(topic, value, key, partition, delivered, none, timestamp, headers)
        sent(topic, value, key, partition, timestamp)

    return produce_and_report


def _record(
    topic: str, value: bytes | None, key: bytes | None, partition: int, timestamp: int, headers: HeaderList | None
) -> ProducerRecord:
    return ProducerRecord(topic, key, value, timestamp, headers, None if partition < 0 else partition)


def _chosen(partitions: Any, total: int, node: str) -> list[int]:
    """Returns the partition that a partitioner's answer stands for; -1 leaves the choice to the producer."""
    if partitions is None:
        return [-1]
    try:
        chosen = set(partitions)
    except TypeError:
        raise TypeError(
            f"the partitioner of sink {node!r} must return a collection of partitions, such as {{0}}, or None for the"
            f" default, got {repr_of(partitions)}"
        ) from None
    numbers = []
    for partition in chosen:
        number = whole_number(partition)
        if number is None or not 0 <= number < total:
            raise ValueError(
                f"the partitioner of sink {node!r} chose partition {repr_of(partition)}, but the topic has {total}"
                f" partition{'' if total == 1 else 's'}"
            )
        numbers.append(number)
    return sorted(numbers)
