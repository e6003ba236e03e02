"""Input partitions of a task: buffered messages, the head decoded, and the loops that feed the chain.

A task with one partition runs through each batch in one loop. A task with several takes the head with the smallest
timestamp. A head is decoded when it becomes the head, not when it is fetched (semantics 4, 5).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from processor_api.context import TakeRun
from processor_api.errors import StreamsError, UserCodeError, outage_behind
from processor_api.forms.times import short_iso
from processor_api.record import NO_TIMESTAMP, DropReason, Forward, HeaderList, Headers
from processor_api.task_id import TopicPartition
from processor_api.texts import kind_and_text, repr_of
from processor_api.timestamps import (
    ConsumedRecord,
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
)
from processor_api.user_code.durations import LAST_MS, whole_ms
from state.row_format.record_context import message_bytes
from streams.kafka.offset_metadata import LogPoint, SkipRule
from streams.runtime.processing.environment import Environment
from streams.runtime.processing.pace import Pace
from streams.runtime.processing.punctuations import Punctuations

log = logging.getLogger("streams.tasks")

SIZES_READ = 4
"""How many messages of a batch are measured, for the metrics."""
SIZES_SAMPLED = 16
"""How many messages of a batch are measured, for all of them."""

Head = tuple[int, Any, Any, HeaderList | None, Any]
"""``(timestamp, key, value, headers, message)`` of the next record of a partition."""


@dataclass(frozen=True)
class BoundSource:
    """Holds what one task reads one topic with: a source node with its serdes, and the function behind it."""

    node: str
    read_key: Callable[[bytes], Any]
    read_value: Callable[[bytes], Any]
    extractor: TimestampExtractor | None
    forward: Forward
    unprobed: Forward
    """The same without a probe."""
    with_headers: Callable[[Headers], tuple[Callable[[bytes], Any], Callable[[bytes], Any]]] | None = None
    """Returns `read_key` and `read_value` for a record with these headers, if a serde takes headers."""
    checks_values: bool = True
    """Whether `read_value` may fail, or return ``None``."""
    take_run: TakeRun | None = None
    """Takes a run of records instead of `forward`, if what is behind the source can."""

    @property
    def reads_alone(self) -> bool:
        """Whether key, value and time of a record can be read without the rest of it."""
        return self.extractor is None and self.with_headers is None


@dataclass(frozen=True)
class RecordForm:
    """The form of the records of a repartition topic, which versions of the application write and read."""

    now: str
    """The form in which this version writes and reads them."""
    before: str = ""
    """The form in which records were written that wait to be processed, if it is another one."""
    until: int = 0
    """Records before this offset may have the other form."""
    refuse: Callable[[int, str, Exception], StreamsError] | None = None
    """Takes the offset of such a record that cannot be read, ``key`` or ``value``, and the error of its serde; returns
    the error with which the task ends. ``None`` leaves it to the handler, as every other record."""

    def at(self, position: int) -> str:
        """Returns what is to be committed with a position."""
        return self.before if position < self.until else self.now


class ReadSoFar:
    """Counts what was read of an input partition; its bytes are those of keys, values and headers, of which a few of
    each batch are measured."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0.0

    def add(self, messages: Sequence[Any]) -> None:
        """Adds a batch."""
        if messages:
            some = messages[:: len(messages) // SIZES_READ + 1]
            self.records += len(messages)
            self.bytes += len(messages) / len(some) * sum(map(message_bytes, some))


class InputReader:
    """Reads the messages of one input partition as its source says: decodes them, finds their times, and drops those
    that cannot be read or are too far ahead of the clock."""

    def __init__(self, partition: TopicPartition, source: BoundSource, environment: Environment) -> None:
        self.partition = partition
        self.source = source
        self.cursor = environment.cursor
        self.time_limit = environment.time_limit
        self.consumed = ReadSoFar()
        self.form: RecordForm | None = None
        """The form of its records, if they are those of a repartition topic."""
        self._environment = environment

    def place(self, message: Any) -> dict[str, Any]:
        """Returns the place of a record, for errors and logs."""
        topic, partition = self.partition
        place = {"topic": topic, "partition": partition, "offset": message.offset(), "node": self.source.node}
        return {**place, "task": str(self._environment.task_id)}

    def decode(self, message: Any, partition_time: int) -> Head | None:
        """Returns what a message holds; ``None`` if it is dropped.

        :param partition_time: the largest timestamp before, for an extractor.
        """
        source, headers = self.source, message.headers()
        read_key, read_value = source.read_key, source.read_value
        if source.with_headers is not None:
            headers = Headers(headers or ())
            read_key, read_value = source.with_headers(headers)
        part = "key"
        try:
            raw = message.key()
            key = None if raw is None else read_key(raw)
            part = "value"
            raw = message.value()
            value = None if raw is None else read_value(raw)
        except Exception as error:
            form, cursor = self.form, self.cursor
            cursor.message, cursor.source = message, self.partition
            refuse = None if form is None or outage_behind(error) is not None else form.refuse
            if form is not None and refuse is not None and message.offset() < form.until:
                raise refuse(message.offset(), part, error) from error
            self._environment.errors.deserialization(source.node, error, part, cursor)
            why = f"the {part} cannot be read: {kind_and_text(error)}"
            self._environment.drop_unread(source.node, None if part == "key" else key, DropReason.UNREADABLE, why)
            return None
        timestamp: int = message.timestamp()[1]
        if timestamp < 0 or source.extractor is not None:
            self.cursor.message, self.cursor.source = message, self.partition
            timestamp = self.extract(message, key, value, headers, partition_time)
            if timestamp < 0:
                self._drop_untimed(message, timestamp, key)
                return None
        if timestamp > self.time_limit.latest and self.leaves_out(message, timestamp, key):
            return None
        return timestamp, key, value, headers, message

    def _drop_untimed(self, message: Any, timestamp: int, key: Any) -> None:
        """Drops a record with a negative time: as in Java, that is not an error but the extractor's way to drop it."""
        why = f"its timestamp extractor returned a negative time, {timestamp}"
        self._environment.drop_unread(self.source.node, key, DropReason.NEGATIVE_TIME, why)
        if self.source.extractor is not log_and_skip_on_invalid_timestamp:  # that one has logged it
            topic, partition = self.partition
            place = {"node": self.source.node, "topic": topic, "partition": partition, "offset": message.offset()}
            log.warning(
                "record dropped: its timestamp extractor gave a negative time", extra={**place, "time": timestamp}
            )

    def leaves_out(self, message: Any, timestamp: int, key: Any) -> bool:
        """Decides on a record that seems to be too far ahead of the clock; returns whether it is dropped."""
        environment = self._environment
        self.cursor.message, self.cursor.source = message, self.partition
        try:
            dropped = self.time_limit.leaves_out(timestamp, self.place(message))
        except UserCodeError as error:
            environment.errors.too_late(self.source.node, error, self.cursor)
        if dropped:
            why = f"its time, {timestamp}, is too far ahead of the clock (timestamp.after.max.ms)"
            environment.drop_unread(self.source.node, key, DropReason.AHEAD_OF_CLOCK, why)
        return dropped

    def extract(self, message: Any, key: Any, value: Any, headers: HeaderList | None, partition_time: int) -> int:
        """Returns the time that the extractor gives to the current record; without one, its own, which is none if it
        is negative."""
        timestamp: int = message.timestamp()[1]
        extractor = self.source.extractor
        if extractor is None:
            if timestamp >= 0:
                return timestamp
            extractor = fail_on_invalid_timestamp
        topic, partition = self.partition
        record = ConsumedRecord(topic, partition, message.offset(), timestamp, key, value, headers)
        try:
            extracted = extractor(record, partition_time)
        except StreamsError as error:
            raise error.locate(**self.place(message))  # noqa: B904 - the same error, with its place
        except Exception as error:
            self._environment.errors.extraction(self.source.node, error, self.cursor)
        if type(extracted) is not int or extracted > LAST_MS:
            # Integers of other types, such as numpy's, are times too.
            time = whole_ms(extracted)
            if time is not None and time <= LAST_MS:
                return time
            wrong = TypeError(f"expected an int (ms) or a datetime with a zone, got {repr_of(extracted)}")
            self._environment.errors.extraction(self.source.node, wrong, self.cursor)
        return extracted


class SkippedRecords:
    """The records of a partition that a backfill has processed already."""

    def __init__(self, rule: SkipRule) -> None:
        self._rule = rule
        self._passed = False

    def others(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Returns the messages that are not among them, of some that were consumed."""
        if self._passed or not messages:
            return messages
        before_ms, until = self._rule
        self._passed = messages[-1].offset() + 1 >= until
        return [one for one in messages if one.offset() >= until or one.timestamp()[1] >= before_ms]

    def rule_at(self, position: int) -> SkipRule | None:
        """Returns what is to be committed with a position: the rule, until the position is behind it."""
        return self._rule if position < self._rule.until_offset else None


class MeanSize:
    """The mean size of records, in bytes of keys, values and headers, of which some are measured."""

    def __init__(self) -> None:
        self._bytes = 0.0
        self._records = 0

    def measure(self, messages: Sequence[Any]) -> None:
        """Measures some of the messages."""
        some = messages[:: len(messages) // SIZES_SAMPLED + 1]
        self._bytes += len(messages) / len(some) * sum(map(message_bytes, some))
        self._records += len(messages)

    def of(self, records: int) -> int:
        """Estimates the size of this many records."""
        return int(records * self._bytes / max(1, self._records))


class KnownEnds:
    """Holds where an input partition ended, and how far it was read; written by the task's thread, read by any."""

    __slots__ = ("delivered", "epochs", "log", "reached", "read_ms", "records", "stalled")

    def __init__(self) -> None:
        self.epochs = ReadEpochs()
        self.delivered: int | None = None
        """The offset of the record that the consumer delivers next, if no offset is left out."""
        self.stalled = False
        """Whether the partition has records that the consumer does not deliver."""
        self.reached: int | None = None
        """Where the partition ended when that was last reached."""
        self.log: int | None = None
        """Where its log ended when that was last measured, behind the records of open transactions."""
        self.records = 0
        """How many records of it were read when that was last looked at,"""
        self.read_ms: int | None = None
        """and when so many were first seen, in ms since 1970."""

    def look(self, log: int | None, records: int, now_ms: int) -> None:
        """Notes the end of the log, if it is known, and how many records of the partition were read until now."""
        if log is not None:
            self.log = log
        if records != self.records:
            self.records, self.read_ms = records, now_ms


def quiet_in_words(partition: str, time_ms: int | None, read_ms: int | None) -> str:
    """Returns the sentence about a partition that holds stream time back.

    :param time_ms: the time of its latest record; ``None`` if it has had none.
    :param read_ms: when a record of it was last read, by the clock; ``None`` if that is not known.
    """
    later = "" if time_ms is None else f" than {short_iso(time_ms)}"
    read = "" if read_ms is None else f", and none at all since {short_iso(read_ms)} by the clock"
    return f"{partition} has had no record later{later}{read}"


class ReadEpochs:
    """Knows the leader epochs of the records that were read of an input partition."""

    __slots__ = ("_last", "_runs")

    def __init__(self) -> None:
        self._last = -1
        self._runs: list[LogPoint] = []
        """The first record of each leader, from that of the last processed record on."""

    def begin(self, point: LogPoint | None) -> None:
        """Begins again, after the record that was committed."""
        self._last, self._runs = (-1, []) if point is None else (point.offset, [point])

    def add(self, messages: Sequence[Any]) -> None:
        """Takes a batch, whose records are mostly of the leader of those before them."""
        first, last = messages[0], messages[-1]
        known = self._runs[-1].leader_epoch if self._runs else None
        if not first.leader_epoch() == last.leader_epoch() == known:
            for message in messages:
                epoch = message.leader_epoch()
                if epoch is None:
                    self.begin(None)  # the broker gives none: nothing is known of later records
                elif epoch != known:
                    self._runs.append(LogPoint(message.offset(), epoch))
                known = epoch
        self._last = last.offset()

    def before(self, position: int) -> LogPoint | None:
        """Returns the last record that was read before a position, which never goes back; ``None`` if it is not
        known."""
        runs = self._runs
        while len(runs) > 1 and runs[1].offset < position:
            del runs[0]
        if not runs or runs[0].offset >= position:
            return None
        return LogPoint(min(position - 1, self._last), runs[0].leader_epoch)


class InputQueue:
    """Buffers the messages of one input partition of a task, with how far the task has come in it."""

    def __init__(self, partition: TopicPartition, source: BoundSource, environment: Environment) -> None:
        self.partition = partition
        self.reader = InputReader(partition, source, environment)
        self.messages: deque[Any] = deque()
        self.head: Head | None = None
        self.position: int | None = None
        """Offset of the next record to process; ``None`` while nothing was processed."""
        self.start: int | None = None
        """Offset of the first record to process, if it is known."""
        self.partition_time = NO_TIMESTAMP
        self._skipped: SkippedRecords | None = None
        self.caught_up = False
        """Whether the end of the partition was reached after the last record that was added."""
        self.ends = KnownEnds()
        self._size = MeanSize()
        timed = self.messages if source.reads_alone else deque[Any]()
        self.parts = timed, partition, source.read_key, source.read_value, source.forward
        """Messages, place and functions, for a loop over several inputs; no messages if an extractor gives their
        times, or their headers are read by a serde."""

    def __len__(self) -> int:
        return len(self.messages) + (self.head is not None)

    @property
    def next_offset(self) -> int | None:
        """Offset of the next record to process, if it is known."""
        return self.start if self.position is None else self.position

    @property
    def end(self) -> int | None:
        """The latest end of the partition that is known, behind the records of open transactions; any thread may read
        it."""
        at, known = self.next_offset, [end for end in (self.ends.log, self.ends.reached) if end is not None]
        if not known:
            return None
        return max(known) if at is None else max(*known, at + len(self))  # there is at least what is buffered

    @property
    def lag(self) -> int | None:
        """The offsets that are left to process up to the end of the partition; ``None`` while the end, or where to
        begin, is not known. Any thread may read it.

        What is processed does not count, committed or not, nor do markers of transactions behind the last record that
        was read. Records of open transactions do.
        """
        at, end = self.next_offset, self.end
        return None if at is None or end is None else max(0, end - at)

    def add(self, messages: Sequence[Any]) -> bool:
        """Adds consumed messages, in order; returns whether the position has moved, because all were skipped."""
        self.caught_up = False
        self.reader.consumed.add(messages)
        if messages:
            self.ends.epochs.add(messages)
        kept = messages if self._skipped is None else self._skipped.others(messages)
        self.messages.extend(kept)
        if kept or not messages or len(self):
            return False
        self.position = messages[-1].offset() + 1
        return True

    def skip(self, rule: SkipRule | None) -> None:
        """Skips records that a backfill has processed already, in what is added from now on."""
        self._skipped = None if rule is None else SkippedRecords(rule)

    def skip_rule(self, position: int) -> SkipRule | None:
        """Returns what is to be committed with a position, so that the next owner of the task skips what is left."""
        return None if self._skipped is None else self._skipped.rule_at(position)

    def at_end(self, offset: int) -> None:
        """Records that the end of the partition was reached at ``offset``, past control records."""
        self.ends.reached = offset
        self.caught_up = True
        if self.next_offset is None and not self.reader.consumed.records:
            self.start = offset
        self.pass_markers()

    def pass_markers(self) -> None:
        """Moves the position to the end if the partition was read and processed to it: only markers of transactions
        and aborted records are left. To be called between two records."""
        at, end = self.next_offset, self.ends.reached
        if self.caught_up and at is not None and end is not None and at < end and not len(self):
            self.position = end

    def continue_at(self, offset: int) -> None:
        """Continues at another offset, where nothing is buffered."""
        self.position = self.ends.delivered = offset
        self.ends.epochs.begin(None)
        self.caught_up = False

    def measure(self, messages: Sequence[Any]) -> None:
        """Measures some of the messages that were just added."""
        if len(self) <= len(messages):
            self._size = MeanSize()
        self._size.measure(messages)

    def buffered_bytes(self) -> int:
        """Estimates how many bytes of keys, values and headers are buffered, by the mean size of what was added since
        it was last empty."""
        return self._size.of(len(self))

    def fill(self) -> bool:
        """Makes the next good record the head, if there is no head; returns whether there is one."""
        messages, decode = self.messages, self.reader.decode
        while messages:
            message = messages.popleft()
            head = decode(message, self.partition_time)
            if head is not None:
                self.head = head
                return True
            self.position = message.offset() + 1
        return False

    def take(self) -> Head | None:
        """Removes and returns the next good record."""
        if self.head is None:
            self.fill()
        head, self.head = self.head, None
        return head

    def take_all(self, limit: int) -> list[Any]:
        """Removes and returns up to this many messages after the head."""
        messages = self.messages
        if len(messages) <= limit:
            taken = list(messages)
            messages.clear()
            return taken
        return [messages.popleft() for _ in range(limit)]

    def run(self, head: Head) -> None:
        """Processes a record that :meth:`take` returned."""
        timestamp, key, value, headers, message = head
        reader = self.reader
        cursor = reader.cursor
        cursor.message, cursor.source, cursor.timestamp = message, reader.partition, timestamp
        if timestamp > self.partition_time:
            self.partition_time = timestamp
        if timestamp > cursor.stream_time:
            cursor.stream_time = timestamp
        reader.source.forward(key, value, timestamp, headers)
        self.position = message.offset() + 1


class BatchLoop:
    """Runs through the records of a task's only input, a batch at a time where it can, and checks the clock between
    them."""

    def __init__(self, queue: InputQueue, environment: Environment) -> None:
        self.queue = queue
        self._environment = environment
        self._run = 1
        """Records between two checks of the clock."""
        self._checked = 0
        """Records before the last check."""
        self._done = 0

    def run(self, limit: int, punctuations: Punctuations, punctuate: Callable[[], None]) -> int:
        """Processes up to ``limit`` buffered records; returns how many."""
        queue, reader = self.queue, self.queue.reader
        is_ahead = reader.cursor.stream_time > reader.time_limit.latest  # each record is compared with the clock then
        one_by_one = limit == 1 or queue.head is not None or not reader.source.reads_alone or is_ahead
        pace = self._environment.thread.pace
        if pace is not None:
            pace.calls.cursor = reader.cursor
        try:
            return (self._run_one_by_one if one_by_one else self._run_together)(limit, punctuations, punctuate)
        except BaseException:
            message = reader.cursor.message
            if pace is not None:  # the record may have failed because a slow one before it was too late
                pace.check(self._run, lambda: ("a record", reader.place(message)))
            raise
        finally:
            if pace is not None:
                pace.calls.cursor = None

    def _run_together(self, limit: int, punctuations: Punctuations, punctuate: Callable[[], None]) -> int:
        queue, reader = self.queue, self.queue.reader
        messages = queue.take_all(limit)
        if not messages:
            return 0
        pace, self._done = self._environment.thread.pace, len(messages)
        checked = messages if pace is None else chain.from_iterable(self._runs(messages, pace))
        late: Sequence[bool] = () if pace is None else pace.calls.late
        cursor, source = reader.cursor, reader.source
        read_key, read_value = source.read_key, source.read_value
        stream_time, time_limit = cursor.stream_time, reader.time_limit
        cursor.source = queue.partition
        kind = type(messages[0])
        keys, values = map(kind.key, messages), map(kind.value, messages)
        found, forwards = self._forwards(source, map(kind.headers, messages))
        # No `strict`: what takes the records may have no end.
        rest = zip(map(kind.timestamp, messages), found, forwards, strict=False)
        # `checked` comes first and ends where the turn is over: nothing is taken of the others behind it.
        for message, raw_key, raw_value, (stamp, headers, forward) in zip(checked, keys, values, rest, strict=False):
            cursor.message = message
            try:
                key = None if raw_key is None else read_key(raw_key)
                value = None if raw_value is None else read_value(raw_value)
            except Exception:
                # finds the same error again, with its part, and handles it
                head = reader.decode(message, queue.partition_time)
                if head is None:
                    continue
                key, value = head[1], head[2]  # a serde that failed only once
            timestamp = stamp[1]
            if timestamp > stream_time:
                if timestamp > time_limit.latest and reader.leaves_out(message, timestamp, key):
                    continue
                cursor.stream_time = stream_time = timestamp
            elif timestamp < 0:
                # Here no source has an extractor, so this raises.
                reader.extract(message, key, value, headers, queue.partition_time)
            cursor.timestamp = timestamp
            forward(key, value, timestamp, headers)
            if stream_time >= punctuations.next_stream_time:
                punctuate()
                # A punctuation has no source, and left none.
                cursor.source = queue.partition
                if self._environment.operators.remainders:  # the turn is over before the rest of the results is sent
                    self._done = _count_up_to(messages, message)
                    break
            if late:
                assert pace is not None
                self._end_early(messages, message, pace)
                break
        queue.partition_time = max(queue.partition_time, stream_time)
        done = self._done
        if self._environment.probe is not None:
            self._environment.probe.passed(done)
        queue.position = messages[done - 1].offset() + 1
        queue.messages.extendleft(reversed(messages[done:]))
        return done

    def _end_early(self, messages: list[Any], last: Any, pace: Pace) -> None:
        """Ends the turn behind a record, in the middle of a run."""
        self._done = _count_up_to(messages, last)
        self._run = pace.check(self._done - self._checked, lambda: ("a record", self.queue.reader.place(last)))

    def _forwards(self, source: BoundSource, headers: Iterable[Any]) -> tuple[Iterable[Any], Iterator[Forward]]:
        """Returns the headers of a batch, and what takes each of its records."""
        probe = self._environment.probe
        if probe is None:
            return headers, repeat(source.forward)
        headers = list(headers)
        return headers, probe.forwards(source.node, source.forward, source.unprobed, headers)

    def _runs(self, messages: list[Any], pace: Pace) -> Iterator[list[Any]]:
        """Yields the messages in runs, and checks the clock between them; leaves the rest when the turn is over."""
        done, run, total, check = 0, self._run, len(messages), pace.check

        def last() -> tuple[str, dict[str, Any]]:
            return "a record", self.queue.reader.place(messages[done - 1])

        pace.begin_run()
        while done < total:
            self._checked = done
            some = messages[done : done + run]
            yield some
            done += len(some)
            self._run = run = check(run, last)
            if pace.over:
                break
        self._done = done

    def _run_one_by_one(self, limit: int, punctuations: Punctuations, punctuate: Callable[[], None]) -> int:
        count, pace, queue, cursor = 0, self._environment.thread.pace, self.queue, self.queue.reader.cursor
        late: Sequence[bool] = () if pace is None else pace.calls.late
        if pace is not None:
            pace.begin_run()
        checked, check_at = 0, min(self._run, limit)
        while count < limit:
            head = queue.take()
            if head is None:
                break
            queue.run(head)
            count += 1
            if cursor.stream_time >= punctuations.next_stream_time:
                punctuate()
                if self._environment.operators.remainders:
                    break
            if pace is not None and (count >= check_at or late):
                message = head[-1]
                self._run = pace.check(count - checked, lambda: ("a record", queue.reader.place(message)))  # noqa: B023 - called at once
                if pace.over:
                    break
                checked, check_at = count, count + self._run
        return count


def _count_up_to(messages: list[Any], last: Any) -> int:
    """Returns how many messages there are up to one of them: to count with each record would cost something."""
    return next(number for number, one in enumerate(messages, 1) if one is last)
