"""Expectations of records, in a few words and with what differs."""

from __future__ import annotations

import difflib
import pprint
from collections.abc import Callable
from typing import Any

from processor_api.record import HeaderList, Headers
from processor_api.texts import repr_of
from processor_api.user_code.durations import Timestamp, to_timestamp_ms
from streams.testing.topics import TestOutputTopic, TestRecord

ANY: Any = ...
_MOST_SHOWN = 5
_MOST_LINES = 40


class ExpectedRecords:
    """Checks the records of a topic in order, made by :meth:`TopologyTestDriver.expect`.

    Parts that are left out are not compared; ``None`` is null. A difference is an ``AssertionError`` that shows the
    record, the parts that differ and the unread records. Values are compared by ``==``, so ``pytest.approx`` works.

    ::

        inputs.pipe_key_values([("ann", "hello"), ("bob", "hi")], start_timestamp=1_000)
        driver.expect("loud").next("ann", "HELLO", timestamp=1_000).next(value="HI").end()
    """

    def __init__(self, topic: TestOutputTopic, why_nothing: Callable[[], str]) -> None:
        self._topic = topic
        self._why_nothing = why_nothing
        self._count = 0

    def next(
        self,
        key: Any = ANY,
        value: Any = ANY,
        *,
        timestamp: Timestamp | None = None,
        headers: HeaderList | None = None,
        partition: int | None = None,
    ) -> ExpectedRecords:
        """Reads the next record and compares it; returns the same object, for the next call.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000, headers=[("source", b"web")])
            driver.expect("loud").next(key="ann", headers=[("source", b"web")]).end()

        :param key: ``...`` is any key, as if it was left out; so for ``value``.
        :param timestamp: milliseconds, or a ``datetime`` with a zone.
        :param headers: all headers, in order.
        :raises AssertionError: if there is no more record, or a part differs.
        """
        __tracebackhide__ = True
        wanted = _wanted(key, value, timestamp, headers, partition)
        self._require(1, _as_text(wanted))
        record = self._read()
        differences = _differences(wanted, record)
        if differences:
            raise AssertionError(
                f"record {self._count} of topic {self._topic.name!r} differs:{''.join(differences)}\n  read: {record!r}"
                f"{self._unread()}"
            )
        return self

    def in_any_order(self, *records: TestRecord | tuple[Any, Any]) -> ExpectedRecords:
        """Reads as many records as are given, and compares them in any order; returns the same object.

        ::

            inputs.pipe_key_values([("ann", "hello"), ("bob", "hi")])
            driver.expect("loud").in_any_order(("bob", "HI"), ("ann", "HELLO")).end()

        :param records: pairs of a key and a value, or records, of which a timestamp of ``None`` and no headers are not
            compared.
        :raises AssertionError: if there are fewer records, or others.
        """
        __tracebackhide__ = True
        missing = [_wanted_of(one) for one in records]
        self._require(len(missing), f"{len(missing)} records")
        unexpected = []
        for _ in range(len(missing)):
            record = self._read()
            found = next((one for one in missing if not _differences(one, record)), None)
            if found is None:
                unexpected.append(record)
            else:
                missing = [one for one in missing if one is not found]
        if missing:
            raise AssertionError(
                f"{len(missing)} of {len(records)} records of topic {self._topic.name!r} differ:"
                + "".join(f"\n  missing: {_as_text(one)}" for one in missing)
                + "".join(f"\n  unexpected: {one!r}" for one in unexpected)
                + self._unread()
            )
        return self

    def end(self) -> None:
        """Checks that all records were read.

        ::

            inputs.pipe_input("ann", "hello")
            driver.expect("loud").next("ann").end()

        :raises AssertionError: if there are more; it shows them.
        """
        __tracebackhide__ = True
        if not self._topic.is_empty:
            raise AssertionError(
                f"topic {self._topic.name!r} has {self._topic.queue_size} more records after {self._count} that were"
                f" expected:{self._unread('')}"
            )

    def _read(self) -> TestRecord:
        self._count += 1
        return self._topic.read_record()

    def _require(self, count: int, wanted: str) -> None:
        __tracebackhide__ = True
        unread = self._topic.queue_size
        if unread < count:
            raise AssertionError(
                f"topic {self._topic.name!r} ends after {self._count + unread} records, expected {wanted}"
                f"{self._why_nothing()}{self._unread()}"
            )

    def _unread(self, head: str = "\n  not read yet:") -> str:
        shown = self._topic.shown(_MOST_SHOWN)
        more = self._topic.queue_size - len(shown)
        lines = [f"\n    {one}" for one in shown] + ([f"\n    and {more} more"] if more else [])
        return head + "".join(lines) if lines else ""


def _wanted(key: Any, value: Any, timestamp: Any, headers: Any, partition: Any) -> dict[str, Any]:
    parts = {"key": key, "value": value}
    wanted = {name: one for name, one in parts.items() if one is not ANY}
    if timestamp is not None:
        wanted["timestamp"] = to_timestamp_ms(timestamp, "timestamp")
    if headers is not None:
        wanted["headers"] = Headers(headers)
    if partition is not None:
        wanted["partition"] = partition
    return wanted


def _wanted_of(given: TestRecord | tuple[Any, Any]) -> dict[str, Any]:
    if isinstance(given, TestRecord):
        return _wanted(given.key, given.value, given.timestamp, given.headers or None, given.partition)
    pair: Any = given
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"an expected record must be a pair (key, value) or a TestRecord, got {repr_of(pair)}")
    return _wanted(*pair, None, None, None)


def _as_text(wanted: dict[str, Any]) -> str:
    parts = ", ".join(f"{name}={list(one) if name == 'headers' else one!r}" for name, one in wanted.items())
    return f"a record with {parts}" if wanted else "a record"


def _differences(wanted: dict[str, Any], record: TestRecord) -> list[str]:
    found = []
    for name, one in wanted.items():
        own = getattr(record, name)
        if own != one:
            found.append(f"\n  {name}: expected {one!r}, got {own!r}{_lines_that_differ(one, own)}")
    return found


def _lines_that_differ(wanted: Any, found: Any) -> str:
    """Returns the lines of two long values that differ."""
    one, other = (pprint.pformat(value, width=60).splitlines() for value in (wanted, found))
    if max(len(one), len(other)) < 2:
        return ""
    differing = [line for line in difflib.ndiff(one, other) if line[:1] in "-+"]
    return "".join(f"\n      {line}" for line in differing[:_MOST_LINES])
