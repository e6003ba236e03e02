"""Topics, and what their configuration means to the broker."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.record import TimestampType
from processor_api.texts import repr_of
from streams.testing.broker.messages import ErrorInfo, LogRecord
from streams.testing.broker.partition_log import PartitionLog
from streams.testing.broker.segments import BATCH_OVERHEAD, LogSegments, record_bytes

_DAY_MS = 24 * 60 * 60 * 1000
_NO_LIMIT = 2**63 - 1
SETTINGS = frozenset({
    "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "delete.retention.ms", "errors.deadletterqueue.group.enable", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
    "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.decompressed.message.bytes",
    "max.message.bytes",
    "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type",
    "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate",
    "remote.copy.lag.bytes", "remote.copy.lag.ms", "remote.log.copy.disable", "remote.log.delete.on.disable",
    "remote.storage.enable", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes",
    "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
})  # fmt: skip
"""Every setting of a topic that Kafka 4.4 knows."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicSettings:
    """The settings that a topic was given, read as Kafka reads them."""

    def __init__(self, topic: str, given: Mapping[str, str]) -> None:
        self._topic = topic
        self._given = given

    def text(self, key: str, default: str) -> str:
        return str(self._given.get(key, default))

    def number(self, key: str, default: int, minimum: int = 0) -> int:
        """Returns a setting that is a number.

        :raises StreamsError: if it is none, or too small.
        """
        try:
            number = int(self.text(key, str(default)))
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise self.invalid(key, f"a number not below {minimum}")
        return number

    def invalid(self, key: str, expected: str) -> StreamsError:
        value: Any = self._given[key]
        return StreamsError(f"topic {self._topic!r} cannot be created: {key} must be {expected}, got {repr_of(value)}")


@dataclass(frozen=True)
class CleanupPolicy:
    """Says which records of a topic are deleted when."""

    compacts: bool
    deletes: bool
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int

    @classmethod
    def of(cls, settings: TopicSettings) -> CleanupPolicy:
        policies = {policy.strip() for policy in settings.text("cleanup.policy", "delete").split(",")} - {""}
        if not policies <= {"compact", "delete"}:
            raise settings.invalid("cleanup.policy", "compact, delete or both")
        return cls(
            compacts="compact" in policies,
            deletes="delete" in policies,
            retention_ms=settings.number("retention.ms", 7 * _DAY_MS, minimum=-1),
            retention_bytes=settings.number("retention.bytes", -1, minimum=-_NO_LIMIT),
            delete_retention_ms=settings.number("delete.retention.ms", _DAY_MS),
            min_compaction_lag_ms=settings.number("min.compaction.lag.ms", 0),
        )

    def clean(self, log: PartitionLog, now_ms: int) -> None:
        """Compacts and deletes what is due in the log of a partition."""
        if self.deletes:
            oldest_ms = now_ms - self.retention_ms if self.retention_ms >= 0 else None
            log.delete_expired(oldest_ms, self.retention_bytes if self.retention_bytes >= 0 else None)
        if self.compacts:
            youngest_ms = now_ms - self.min_compaction_lag_ms if self.min_compaction_lag_ms else None
            log.compact(now_ms, delete_retention_ms=self.delete_retention_ms, youngest_ms=youngest_ms)


@dataclass(frozen=True)
class RecordLimits:
    """Says which records a topic takes, and with which timestamp."""

    max_bytes: int
    append_time: bool
    """Whether records get the broker's time."""
    before_max_ms: int
    after_max_ms: int

    @classmethod
    def of(cls, settings: TopicSettings) -> RecordLimits:
        kind = settings.text("message.timestamp.type", "CreateTime")
        if kind not in ("CreateTime", "LogAppendTime"):
            raise settings.invalid("message.timestamp.type", "CreateTime or LogAppendTime")
        return cls(
            max_bytes=settings.number("max.message.bytes", 1_048_588),
            append_time=kind == "LogAppendTime",
            before_max_ms=settings.number("message.timestamp.before.max.ms", _NO_LIMIT),
            after_max_ms=settings.number("message.timestamp.after.max.ms", _NO_LIMIT),
        )

    @property
    def is_plain(self) -> bool:
        """Whether the timestamp of a record makes no difference."""
        return not self.append_time and min(self.before_max_ms, self.after_max_ms) >= _NO_LIMIT


class Topic:
    """A topic with its partitions, which decides whether it takes a batch of records.

    Settings with a meaning here: ``cleanup.policy``, ``retention.ms``, ``retention.bytes``, ``segment.ms``,
    ``segment.bytes``, ``delete.retention.ms``, ``min.compaction.lag.ms``, ``max.message.bytes``,
    ``message.timestamp.type``, ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms``. Other
    settings of Kafka's are kept and ignored. Unlike a broker since Kafka 4.0, which refuses what is more than an hour
    ahead, timestamps have no limit unless one is set, because a test's records are seldom of today.

    :param number: what its id is made of, unlike those of all other topics; 0: it has no id.
    :raises StreamsError: if the name or a setting is not one that Kafka takes.
    """

    __slots__ = ("_limits", "_plain", "_refusal", "cleanup", "configs", "deleted", "id", "name", "partitions")

    def __init__(self, name: str, partitions: int, configs: Mapping[str, str], number: int = 0) -> None:
        if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
            raise StreamsError(
                f"topic {name!r} cannot be created: a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'"
            )
        if partitions < 1:
            raise StreamsError(f"topic {name!r} cannot be created with {partitions} partitions: give at least one")
        if unknown := sorted(set(configs) - SETTINGS):
            raise StreamsError(f"topic {name!r} cannot be created: Kafka has no setting {unknown[0]!r} of a topic")
        self.name = name
        self.id = urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=") if number else None
        """The topic's id as Kafka's tools print it; ``None`` where topics have none."""
        self.configs = dict(configs)
        self.deleted = False
        settings = TopicSettings(name, self.configs)
        self.cleanup = CleanupPolicy.of(settings)
        self._limits = RecordLimits.of(settings)
        segment_bytes = settings.number("segment.bytes", 1 << 30, minimum=1 << 20)
        segment_ms = settings.number("segment.ms", 7 * _DAY_MS, minimum=1)
        self.partitions = [
            PartitionLog(name, partition, LogSegments(segment_bytes, segment_ms)) for partition in range(partitions)
        ]
        self.refuse(None)

    def configure(self, configs: Mapping[str, str]) -> None:
        """Changes limits of the topic, or what it is stamped with, from the next batch on.

        :raises StreamsError: if a setting is not one that Kafka takes.
        """
        if unknown := sorted(set(configs) - SETTINGS):
            raise StreamsError(f"Kafka has no setting {unknown[0]!r} of a topic", topic=self.name)
        self.configs.update(configs)
        self._limits = RecordLimits.of(TopicSettings(self.name, self.configs))
        self.refuse(self._refusal)

    def settings(self) -> dict[str, str]:
        """Returns the settings that have a meaning here, and those that were given."""
        return {
            "cleanup.policy": "delete",
            "delete.retention.ms": str(self.cleanup.delete_retention_ms),
            "max.message.bytes": str(self._limits.max_bytes),
            "message.timestamp.type": "CreateTime",
            "min.compaction.lag.ms": str(self.cleanup.min_compaction_lag_ms),
            "retention.bytes": str(self.cleanup.retention_bytes),
            "retention.ms": str(self.cleanup.retention_ms),
            **self.configs,
        }

    def refuse(self, error_name: str | None) -> None:
        """Refuses every batch with this error from now on; takes them again with ``None``."""
        self._refusal: str | None = error_name
        self._plain = error_name is None and self._limits.is_plain and not self.cleanup.compacts

    def admit(self, records: Sequence[LogRecord], clock: Clock) -> Sequence[ErrorInfo] | None:
        """Returns for each record of a batch why the broker does not take it, or ``None``; stamps the records if the
        topic has the broker's time. As in Kafka, one bad record spoils its batch."""
        size = BATCH_OVERHEAD
        for record in records:
            size += record_bytes(record)
        if size > self._limits.max_bytes:
            why = f"the batch is larger than max.message.bytes of topic {self.name!r}"
            return [ErrorInfo("MSG_SIZE_TOO_LARGE", why)] * len(records)
        return None if self._plain else self._admit_strictly(records, clock.time_ms())

    def _admit_strictly(self, records: Sequence[LogRecord], now_ms: int) -> Sequence[ErrorInfo] | None:
        limits = self._limits
        if self._refusal is not None:
            return [ErrorInfo(self._refusal, f"topic {self.name!r} is set to refuse records")] * len(records)
        if self.cleanup.compacts:
            bad = [record.key() is None for record in records]
            if any(bad):
                return _refused(bad, "INVALID_RECORD", f"topic {self.name!r} is compacted and takes no null keys")
        if limits.append_time:
            stamp = (int(TimestampType.LOG_APPEND_TIME), now_ms)
            for record in records:
                record.stamp = stamp
            return None
        earliest, latest = now_ms - limits.before_max_ms, now_ms + limits.after_max_ms
        bad = [not earliest <= record.stamp[1] <= latest and record.stamp[1] != -1 for record in records]
        if any(bad):
            return _refused(bad, "INVALID_TIMESTAMP", f"a timestamp is outside the limits of topic {self.name!r}")
        return None


def _refused(bad: Sequence[bool], error: str, why: str) -> Sequence[ErrorInfo]:
    """Returns the errors that librdkafka reports for a refused batch: a single bad record gives its error to all; of
    several each is only called invalid, and the other records get an error that says so (KIP-467)."""
    if sum(bad) == 1:
        return [ErrorInfo(error, why)] * len(bad)
    invalid = ErrorInfo("INVALID_RECORD", why)
    other = ErrorInfo("_INVALID_DIFFERENT_RECORD", f"in one batch with refused records: {why}")
    return [invalid if one else other for one in bad]
