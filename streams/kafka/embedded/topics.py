"""Topics and what their configuration means to the broker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.record import TimestampType
from streams.kafka.embedded.messages import ErrorInfo, Record
from streams.kafka.embedded.partition_log import PartitionLog

__all__ = ["Topic"]

_DAY_MS = 24 * 60 * 60 * 1000
_NO_LIMIT = 2**63 - 1
_RECORD_OVERHEAD = 70
"""Bytes of a batch with one small record beside its key and value, as Kafka counts them, roughly."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Topic:
    """A topic: its partitions, and whether it takes a batch of records.

    Settings with a meaning here: ``cleanup.policy``, ``retention.ms``, ``delete.retention.ms``, ``max.message.bytes``,
    ``message.timestamp.type``, ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms``. Others are
    kept and ignored. Unlike a broker since Kafka 4.0, timestamps have no limit unless one is set, because a test's
    records are seldom of today.

    :raises StreamsError: if the name or a setting is not one that Kafka takes.
    """

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_max_bytes",
        "_plain",
        "_refusal",
        "append_time",
        "compacted",
        "configs",
        "delete_retention_ms",
        "deleted",
        "expires",
        "name",
        "partitions",
        "retention_ms",
    )

    def __init__(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
            raise StreamsError(
                f"topic {name!r} cannot be created: a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'"
            )
        if partitions < 1:
            raise StreamsError(f"topic {name!r} cannot be created with {partitions} partitions: give at least one")
        self.name = name
        self.configs = dict(configs)
        self.deleted = False
        self.partitions = [PartitionLog(name, partition) for partition in range(partitions)]
        policies = {policy.strip() for policy in self._setting("cleanup.policy", "delete").split(",")} - {""}
        if not policies <= {"compact", "delete"}:
            raise self._invalid("cleanup.policy", "compact, delete or both")
        self.compacted = "compact" in policies
        self.expires = "delete" in policies
        kind = self._setting("message.timestamp.type", "CreateTime")
        if kind not in ("CreateTime", "LogAppendTime"):
            raise self._invalid("message.timestamp.type", "CreateTime or LogAppendTime")
        self.append_time = kind == "LogAppendTime"
        self.retention_ms = self._number("retention.ms", 7 * _DAY_MS, minimum=-1)
        self.delete_retention_ms = self._number("delete.retention.ms", _DAY_MS)
        self._max_bytes = self._number("max.message.bytes", 1_048_588) - _RECORD_OVERHEAD
        self._before_max_ms = self._number("message.timestamp.before.max.ms", _NO_LIMIT)
        self._after_max_ms = self._number("message.timestamp.after.max.ms", _NO_LIMIT)
        self._refusal: str | None = None
        self._plain = False
        self.refuse(None)

    def refuse(self, error_name: str | None) -> None:
        """Refuses every batch with this error from now on; takes them again with ``None``."""
        self._refusal = error_name
        limited = min(self._before_max_ms, self._after_max_ms) < _NO_LIMIT
        self._plain = not (error_name or self.append_time or self.compacted or limited)

    def admit(self, records: Sequence[Record], clock: Clock) -> ErrorInfo | None:
        """Why the broker does not take the batch, or ``None``; stamps the records if the topic has the broker's time.
        As in Kafka, one bad record spoils its batch."""
        most = self._max_bytes
        for record in records:
            if len(record.value() or b"") + len(record.key() or b"") > most:
                return ErrorInfo("MSG_SIZE_TOO_LARGE", f"a record is larger than max.message.bytes of {self.name!r}")
        return None if self._plain else self._admit_strictly(records, clock.time_ms())

    def _admit_strictly(self, records: Sequence[Record], now_ms: int) -> ErrorInfo | None:
        if self._refusal is not None:
            return ErrorInfo(self._refusal, f"topic {self.name!r} was told to refuse records")
        if self.compacted and any(record.key() is None for record in records):
            return ErrorInfo("INVALID_RECORD", f"a record without a key cannot go to compacted topic {self.name!r}")
        if self.append_time:
            stamp = (int(TimestampType.LOG_APPEND_TIME), now_ms)
            for record in records:
                record.stamp = stamp
            return None
        earliest, latest = now_ms - self._before_max_ms, now_ms + self._after_max_ms
        for record in records:
            if not earliest <= record.stamp[1] <= latest and record.stamp[1] != -1:
                return ErrorInfo(
                    "INVALID_TIMESTAMP", f"timestamp {record.stamp[1]} is outside the limits of topic {self.name!r}"
                )
        return None

    def _setting(self, key: str, default: str) -> str:
        return str(self.configs.get(key, default))

    def _number(self, key: str, default: int, minimum: int = 0) -> int:
        try:
            number = int(self._setting(key, str(default)))
        except ValueError:
            number = minimum - 1
        if number < minimum:
            raise self._invalid(key, f"a number not below {minimum}")
        return number

    def _invalid(self, key: str, expected: str) -> StreamsError:
        value: Any = self.configs[key]
        return StreamsError(f"topic {self.name!r} cannot be created: {key} must be {expected}, got {value!r}")
