"""A session that ends during an outage is no sign of another process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import pytest

from integration_support.members import join
from integration_support.topics import Topics
from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.ports import InstanceFenced, OffsetAndMetadata
from tools.kafka.broker import Broker
from waiting import wait_until

SESSIONS_S = (12, 18, 27, 40, 60, 90)
"""From the end of the first one until 5/3 of the last, one of the commits waits, whenever the broker comes back."""
PLACE = OffsetAndMetadata(0, "")


class Outage:
    """The time without a broker, as its members know it."""

    def __init__(self) -> None:
        self._begin: float | None = None
        self.over = threading.Event()

    def begins(self) -> None:
        self._begin = time.monotonic()

    def lasts(self, least_s: float) -> bool:
        return self._begin is not None and time.monotonic() > self._begin + least_s


class Member:
    """Commits once two thirds of its session without a broker are over, and waits with this for a broker."""

    def __init__(self, session_s: float, settings: Mapping[str, Any], topic: str) -> None:
        self._session_s, self._settings, self._topic = session_s, settings, topic
        self.joined = threading.Event()

    def commit_in_outage(self, outage: Outage) -> StreamsError | None:
        with closing(ConfluentConsumer(self._settings)) as consumer:
            place = {join(consumer, self._topic): PLACE}
            consumer.commit(place)
            self.joined.set()
            while not outage.lasts(self._session_s * 2 / 3):
                if outage.over.is_set():
                    return None
                with suppress(RetryableError):
                    consumer.poll(0.1)
            try:
                consumer.commit(place)
            except StreamsError as error:
                return error
            return None

    def commit_again(self) -> None:
        with closing(ConfluentConsumer(self._settings)) as consumer:
            consumer.commit({join(consumer, self._topic): PLACE})


@pytest.mark.slow
def test_a_session_that_ends_while_a_commit_waits_does_not_end_the_member(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str]
) -> None:
    """The client forgot its member id and committed by its instance id alone, which the broker refuses as it does a
    second process of that id: after an outage of about a session all workers of an application had ended so. A commit
    over a connection of its own keeps the id, so that it is taken where the group still knows the member."""
    broker = start_broker()
    topic = Topics(broker.bootstrap, unique_name).create("lines")
    members = [
        Member(
            session_s,
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": unique_name("group"),
                "group.instance.id": "one",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session_s * 1000,
            },
            topic,
        )
        for session_s in SESSIONS_S
    ]
    outage = Outage()
    with ThreadPoolExecutor(len(members)) as threads:
        runs = [threads.submit(one.commit_in_outage, outage) for one in members]
        try:
            wait_until("all are members", lambda: all(one.joined.is_set() for one in members))
            broker.kill()
            outage.begins()
            wait_until("the first session is over", lambda: outage.lasts(SESSIONS_S[0] + 1))
            broker.start()
        finally:
            outage.over.set()
    found = {one: run.result() for one, run in zip(members, runs, strict=True)}
    assert not [error for error in found.values() if isinstance(error, InstanceFenced)]
    assert all(error is None or isinstance(error, TaskMigratedError) for error in found.values()), found
    members[0].commit_again()


def test_a_member_that_was_replaced_without_a_poll_since_closes(
    kafka: str, topics: Topics, unique_name: Callable[[str], str]
) -> None:
    """The client has met the fence in the background, and every call of it raises. So did the close, which left it
    open. The other member keeps its place."""
    topic = topics.create("lines")
    settings = {
        "bootstrap.servers": kafka,
        "group.id": unique_name("group"),
        "group.instance.id": "one",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 100,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    first, second = ConfluentConsumer(settings), ConfluentConsumer(settings)
    with closing(second):
        place = {join(first, topic): PLACE}
        join(second, topic)
        begin = time.monotonic()

        def some_heartbeats_later() -> bool:
            second.poll(0.1)
            return time.monotonic() > begin + 1

        wait_until("the first has met the fence", some_heartbeats_later, pauses=False)
        first.close()
        second.commit(place)
