"""Keeps the batches of producers below what their topics take, so that no good record is refused with its batch.

A broker takes or refuses whole batches. Java's producer splits one that is too large and sends it again (KIP-126);
librdkafka reports each of its records as refused. So a producer is made with a ``batch.size`` that all of its topics
take. A batch that is refused all the same, since a limit was not known or was lowered, is rolled back with what
followed it, and the next producer makes smaller ones.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from processor_api.handlers import ProducerRecord
from streams.kafka.ports import Admin
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.kafka")

BATCH_SIZE = "batch.size"
DEFAULT_BYTES = 1_000_000
"""librdkafka's default of ``batch.size``."""
OVERHEAD = 68
"""Bytes at least of a batch of one record, beside its key, value and headers."""


def topic_limits(admin: Admin, topics: Collection[str]) -> dict[str, int]:
    """Returns ``max.message.bytes`` of those topics that show it; nothing if no broker can be asked."""
    try:
        settings = admin.topic_settings(topics)
    except Exception as error:  # whatever it is, batches of the usual size are right for most topics
        log.info("the limits of topics cannot be read: batches have the usual size", extra={"error": str(error)})
        return {}
    found = {topic: values.get("max.message.bytes", "") for topic, values in settings.items()}
    return {topic: int(limit) for topic, limit in found.items() if limit.isdecimal() and int(limit) > 0}


def limited(settings: Mapping[str, Any], admin: Admin, topics: Collection[str]) -> dict[str, Any]:
    """Returns the settings of a producer whose batches these topics take."""
    size = min([int(settings.get(BATCH_SIZE, DEFAULT_BYTES)), *topic_limits(admin, topics).values()])
    return {**settings, BATCH_SIZE: size}


class TopicBatchLimits:
    """The limits of the topics that the producers of a process write to."""

    def __init__(self, admin: Admin, threads: Threads = SYSTEM_THREADS) -> None:
        self._admin = admin
        self._lock = threads.lock()
        self._limits: dict[str, int] = {}
        self._asked: set[str] = set()
        self._suspects: set[str] = set()
        """Topics that have refused a batch since their limits were read."""
        self._confirmed: dict[str, int] = {}
        """The number of the first producer that was made after a topic's limit was read because of a refusal."""
        self._producers = 0
        self.refused_letters: dict[str, int] = {}
        """The smallest size of a dead letter that each topic has refused."""

    def for_producer(self, settings: Mapping[str, Any], topics: Collection[str]) -> ProducerBatches:
        """Returns what the batches of a new producer may be, by its own settings and by the topics that it writes to.

        Topics whose limits are not known are asked for, with one request."""
        with self._lock:
            self._producers += 1
            suspects, self._suspects = self._suspects, set()
            unknown = set(topics) - self._asked
            self._asked |= unknown
            size = most = int(settings.get(BATCH_SIZE, DEFAULT_BYTES))
            if asked := unknown | suspects:
                found = topic_limits(self._admin, asked)
                self._limits.update(found)
                for topic in suspects:
                    if topic in found:
                        self._confirmed[topic] = self._producers
                    else:  # one that does not show its limit: smaller batches until it takes them
                        self._limits[topic] = max(1, min([most, *self._limits.values()]) // 2)
            size = min([most, *self._limits.values()])
            if size < most:
                log.info("batches are limited by a topic", extra={BATCH_SIZE: size, "topic": self._smallest()})
            return ProducerBatches(self, size, self._producers)

    def _smallest(self) -> str:
        return min(self._limits, key=lambda topic: self._limits[topic])

    def fits_alone(self, topic: str, size: int, batch_bytes: int, producer: int) -> bool:
        """Whether a record that was refused as too large may be taken in a smaller batch; then the next producer asks
        for the topic's limit. One that was made after the limit was read, and that is still the same, made no batch
        larger than that: the record was refused for itself.

        :param size: of its key, value and headers.
        :param producer: the number of the one that sent it."""
        with self._lock:
            if size + OVERHEAD > min(batch_bytes, self._limits.get(topic, batch_bytes)):
                return False  # it was alone in its batch, or would be too large even so
            confirmed = self._confirmed.get(topic)
            if confirmed is not None and producer < confirmed:
                return True
            if confirmed is None or topic_limits(self._admin, [topic]).get(topic) != self._limits.get(topic):
                self._confirmed.pop(topic, None)
                self._suspects.add(topic)
                return True
            return False


class ProducerBatches:
    """The batches of one producer.

    :param number: of the producer.
    """

    def __init__(self, limits: TopicBatchLimits, size: int, number: int) -> None:
        self._limits = limits
        self.bytes = size
        """Its ``batch.size``."""
        self._number = number

    def fits_alone(self, record: ProducerRecord) -> bool:
        """Whether a record that was refused as too large may be taken in a smaller batch, by another producer."""
        return self._limits.fits_alone(record.topic, record_bytes(record), self.bytes, self._number)

    @property
    def refused_letters(self) -> dict[str, int]:
        """The smallest size of a dead letter that each topic has refused, in this process."""
        return self._limits.refused_letters


def record_bytes(record: ProducerRecord) -> int:
    """Returns the bytes of a record's key, value and headers."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers or ())
    return len(record.key or b"") + len(record.value or b"") + headers
