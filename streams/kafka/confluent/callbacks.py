"""Functions and objects that a client calls: its reports, which do not keep the object they belong to, its log and its
statistics.

A client holds a key of the process for thread-local data, of which there are 1,024. So it must be freed when nothing
no longer uses it, not when the garbage collector finds a cycle, which in a large process may be much later.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any
from weakref import WeakMethod

from processor_api.texts import plain_str
from streams.kafka.client_statistics import BrokerFigures, ClientStatistics, TopicFigures

log = logging.getLogger("streams.kafka.client")


class ClientLog:
    """Receives the lines that librdkafka logs, instead of a logger; without one, it writes them to standard error.

    They are logged at level debug, and those of a client that takes no more calls at level info: what follows from
    them is reported as an error or an event as well, and a thread that continues with new clients is no error.
    """

    def log(self, level: int, template: str, *fields: str) -> None:
        log.log(logging.INFO if level >= logging.CRITICAL else logging.DEBUG, template, *fields)


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that calls a method while its object exists, and does nothing afterwards."""
    reference = WeakMethod(method)

    def call(*arguments: Any) -> None:
        found = reference()
        if found is not None:
            found(*arguments)

    return call


# librdkafka's statistics, which it gives as JSON every ``statistics.interval.ms``. The text is kept, and read when
# somebody asks for it (docs/decisions/clients-and-brokers.md, "Client statistics are parsed only when they are read").

_US_PER_MS = 1000


class LatestStatistics:
    """Keeps the newest statistics of one client. The client's thread gives them; any thread may ask."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._read: tuple[str, ClientStatistics | None] | None = None
        self._is_over = False

    def take(self, text: str) -> None:
        """Takes statistics, as the client's callback."""
        if not self._is_over:
            self._text = text

    def forget(self) -> None:
        """Forgets them, also those that the client gives while it is closed."""
        self._is_over = True
        self._text = self._read = None

    def get(self) -> ClientStatistics | None:
        """Returns the newest; ``None`` before the first, or of a client that is closed."""
        text, known = self._text, self._read
        if text is None:
            return None
        # By identity: the text of many partitions has 100 kB and more.
        if known is None or known[0] is not text:
            known = self._read = text, _read(text)
        return known[1]


def _read(text: str) -> ClientStatistics | None:
    try:
        return statistics_of(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:  # of a version of the library that has another form
        log.debug("the statistics of a client cannot be read", extra={"error": plain_str(error)})
        return None


def statistics_of(found: dict[str, Any]) -> ClientStatistics:
    """Returns the figures of statistics as librdkafka gives them.

    :raises KeyError: if a field is missing.
    """
    is_producer = found["type"] == "producer"
    parts = [part for topic in found["topics"].values() for part in topic["partitions"].values()]
    return ClientStatistics(
        client_id=found["client_id"],
        is_producer=is_producer,
        brokers=tuple(_brokers(found["brokers"].values())),
        topics=tuple(_topic(one) for one in found["topics"].values() if is_producer and one["batchsize"]["cnt"]),
        queued_records=found["msg_cnt"] if is_producer else sum(part["fetchq_cnt"] for part in parts),
        queued_bytes=found["msg_size"] if is_producer else sum(part["fetchq_size"] for part in parts),
        queue_bytes_max=found["msg_size_max"] if is_producer else None,
    )


def _brokers(found: Collection[dict[str, Any]]) -> Iterator[BrokerFigures]:
    """Yields the brokers of the cluster; before the client knows them, and when it has lost all of them, the addresses
    that it was given. What is neither, such as the coordinator of a group, is one of them by another name."""
    learned = [one for one in found if one["nodeid"] >= 0]
    for one in learned or [one for one in found if one["source"] == "configured"]:
        yield _broker(one)


def _broker(one: dict[str, Any]) -> BrokerFigures:
    latency, throttle = one["rtt"], one["throttle"]
    return BrokerFigures(
        node=one["nodeid"],
        address=one["nodename"],
        state=one["state"],
        partitions=len(one["toppars"]),
        latency_avg_ms=_figure(latency, "avg", _US_PER_MS),
        latency_p99_ms=_figure(latency, "p99", _US_PER_MS),
        latency_max_ms=_figure(latency, "max", _US_PER_MS),
        throttle_avg_ms=_figure(throttle, "avg"),
        requests=one["tx"],
        responses=one["rx"],
        bytes_out=one["txbytes"],
        bytes_in=one["rxbytes"],
        queued=one["outbuf_cnt"],
        in_flight=one["waitresp_cnt"],
        timeouts=one["req_timeouts"],
        connects=one["connects"],
        disconnects=one["disconnects"],
    )


def _topic(one: dict[str, Any]) -> TopicFigures:
    return TopicFigures(
        topic=one["topic"],
        batch_bytes_avg=_figure(one["batchsize"], "avg"),
        batch_bytes_max=_figure(one["batchsize"], "max"),
        batch_records_avg=_figure(one["batchcnt"], "avg"),
    )


def _figure(window: dict[str, Any], name: str, units: int = 1) -> float | None:
    """Returns a figure of what was seen in the interval; ``None`` if nothing was."""
    return window[name] / units if window["cnt"] else None
