"""Writes the input of `tools.chaos.shop`, and reads topics as they are at the end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tools.chaos.patience import PATIENCE_S, wait_for
from tools.chaos.results import END, END_MS, KEYS, ORDERS, USERS, Row

STEP_MS = 40
"""Between the timestamps of two records."""
AGO_MS = END_MS + 2 * 86_400_000
"""So long ago the first record is: brokers refuse timestamps that lie far ahead, as the last ones otherwise would."""
AHEAD = 4_000
"""How many records at most wait for the application, so that a slow machine has no more to do at the end."""

Record = tuple[str, str, "str | None", int]
"""Topic, key, value and timestamp."""


def first_records(first_ms: int) -> Iterator[Record]:
    """Yields the table that does not change, and is earlier than all else: with equal times any of two records may be
    the first."""
    return (("users", f"k{number}", f"name{number}", first_ms - 60_000) for number in range(KEYS))


def drawn_records(chance: random.Random, first_ms: int) -> Iterator[Record]:
    """Yields records for ever. Their timestamps rise by a step, whatever the clock says."""
    for number in count():
        now, key, drawn = first_ms + STEP_MS * number, f"k{chance.randrange(KEYS)}", chance.random()
        if drawn < 0.5:
            yield "events", key, f"e{number}", now
        elif drawn < 0.75:
            for _ in range(chance.choice((1, 1, 1, 2))):  # a copy now and then
                yield "clicks", key, f"c{number}", now
        elif drawn < 0.95:
            order = None if chance.random() < 0.1 else f"u{chance.randrange(USERS)}|{chance.randrange(100)}"
            yield "orders", f"o{chance.randrange(ORDERS)}", order, now
        else:
            profile = None if chance.random() < 0.1 else f"p{number}"
            yield "profiles", f"u{chance.randrange(USERS)}", profile, now


def last_records(first_ms: int) -> Iterator[Record]:
    """Yields for every key a record so late that all windows close."""
    return (("events", f"k{number}", END, first_ms + END_MS) for number in range(KEYS))


class Feed:
    """Writes records until it is stopped.

    :param prefix: of the names of the topics.
    :param read: returns how many records the application has read, or None if that is not known now.
    """

    def __init__(
        self, bootstrap: str, prefix: str, rate: int, seed: int, read: Callable[[], int | None] = lambda: None
    ) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",  # that of Kafka's Java producer: inputs are joined by their keys
                "delivery.timeout.ms": int(10 * PATIENCE_S * 1000),
                "linger.ms": 20,
            }
        )
        self._prefix, self._read = prefix, read
        self._chance = random.Random(seed)
        self._pause_s = 1 / rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.first_ms = int(time.time() * 1000) // 1000 * 1000 - AGO_MS
        self.written = 0

    def start(self) -> None:
        """Writes the table that does not change, then begins with all else."""
        for record in first_records(self.first_ms):
            self._write(*record)
        self.flush()
        self._thread.start()

    def stop(self) -> None:
        """Ends the writing; all that was written is on the brokers when it returns."""
        self._stopping.set()
        self._thread.join()
        self.flush()

    def close_windows(self) -> None:
        """Writes to every key a record so late that all windows close."""
        for record in last_records(self.first_ms):
            self._write(*record)
        self.flush()

    def _run(self) -> None:
        for record in drawn_records(self._chance, self.first_ms):
            if self._stopping.wait(self._pause_s):
                return
            self._write(*record)
            while self.written % 500 == 0 and self._is_ahead() and not self._stopping.wait(0.5):
                pass

    def _is_ahead(self) -> bool:
        read = self._read()
        return read is not None and self.written - read > AHEAD

    def _write(self, topic: str, key: str, value: str | None, timestamp: int) -> None:
        data = None if value is None else value.encode()
        while True:
            try:
                self._producer.produce(
                    self._prefix + topic, data, key.encode(), timestamp=timestamp, on_delivery=_delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self.written += 1
        self._producer.poll(0)

    def flush(self) -> None:
        """Returns when the brokers have all that was written."""
        if self._producer.flush(10 * PATIENCE_S):
            raise RuntimeError("the brokers do not take the input")


def _delivered(error: KafkaError | None, message: object) -> None:
    if error is not None:
        raise RuntimeError(f"a record of the input is lost: {error}")


def read_topics(bootstrap: str, prefix: str, names: Iterable[str]) -> dict[str, list[Row]]:
    """Returns all committed records of topics, those of each partition in their order, by the names without prefix."""
    found: dict[str, list[Row]] = {name: [] for name in names}
    for message in _committed(bootstrap, [prefix + name for name in found]):
        key, (_, at) = message.key() or b"", message.timestamp()
        found[(message.topic() or "").removeprefix(prefix)].append(Row(bytes(key).decode(), message.value(), at))
    return found


def next_offsets(bootstrap: str, names: Iterable[str]) -> dict[tuple[str, int], int]:
    """Returns the offset after the last committed record of each partition that has one."""
    return {
        (message.topic() or "", message.partition() or 0): (message.offset() or 0) + 1
        for message in _committed(bootstrap, names)
    }


def _committed(bootstrap: str, names: Iterable[str]) -> Iterator[Message]:
    """Yields the committed records that topics have now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "group.id": "chaos-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    left: set[tuple[str, int]] = set()
    messages: list[Message] = []

    def is_read() -> bool:
        messages[:] = consumer.consume(1000, 0.5)
        return bool(messages)

    try:
        known = consumer.list_topics(timeout=PATIENCE_S).topics
        left |= {(name, partition) for name in names for partition in known[name].partitions}
        consumer.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for name, partition in left])
        while left:
            if not wait_for(is_read, pause_s=0):
                raise RuntimeError(f"topics cannot be read to their ends: {sorted(left)}")
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic() or "", message.partition() or 0))
    finally:
        consumer.close()
