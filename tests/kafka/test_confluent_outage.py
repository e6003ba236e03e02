"""An outage of all brokers is two lines of the log, whatever the clients of the cluster report meanwhile."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client

from processor_api.clock import ManualClock
from streams.kafka.confluent.admin import ReplaceableAdmin
from streams.kafka.confluent.callbacks import ClientLog
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.confluent.consuming.group_offsets import GroupReader
from streams.kafka.confluent.outage import SILENT_S, ClusterOutage
from streams.kafka.confluent.producer import ConfluentProducer
from streams.kafka.ports import ClientUnusable
from streams.log import retry_level, watch_outage
from waiting import wait_until

DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
REFUSED = KafkaError(
    KafkaError._TRANSPORT, "a:1/bootstrap: Connect to a:1 failed: Connection refused (after 0ms in state CONNECT)"
)
LOGIN = KafkaError(KafkaError._AUTHENTICATION, "bad password")


class Asked:
    """A client, as far as an outage asks it; its broker is away or not."""

    def __init__(self, *, away: bool) -> None:
        self.away = away
        self.names_none = False
        """Whether the broker names none, as one that is fenced."""
        self.asked: list[str | None] = []

    def list_topics(self, topic: str | None = None, *, timeout: float) -> SimpleNamespace:
        self.asked.append(topic)
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no broker"))
        return SimpleNamespace(brokers={} if self.names_none else {1: "broker"})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


@pytest.fixture
def outage(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> ClusterOutage:
    caplog.set_level("DEBUG", "streams")
    return ClusterOutage("a:1", clock)


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[tuple[str, str, dict[str, Any]]]:
    """Level, text and fields of each line of at least a level."""
    known = ("servers", "error", "after_s")
    return [
        (one.levelname, one.getMessage(), {name: one.__dict__[name] for name in known if name in one.__dict__})
        for one in caplog.records
        if one.levelno >= level
    ]


def test_an_outage_is_two_lines(outage: ClusterOutage, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    client = Asked(away=True)
    for _ in range(100):
        outage.report(REFUSED)
        outage.report(DOWN)
        outage.check(client, "orders")
        clock.advance(210)
    client.away = False
    for _ in range(20):
        outage.check(client, "orders")
        clock.advance(210)
    lost, back = lines(caplog)
    lost_fields = {"servers": "a:1", "error": "Connect to a:1 failed: Connection refused"}
    assert lost == ("WARNING", "the brokers are lost: records wait until one answers", lost_fields)
    assert back[:2] == ("INFO", "the brokers are back")
    assert 21 <= back[2]["after_s"] <= 24
    assert set(client.asked) == {"orders"}
    assert len(client.asked) <= 12, "a broker is asked every two seconds"


def test_brokers_that_answer_were_not_lost(outage: ClusterOutage, caplog: pytest.LogCaptureFixture) -> None:
    """A client may report late that all were down, long after another one has reached them."""
    outage.report(DOWN)
    outage.check(Asked(away=False))
    assert not outage.suspected
    assert lines(caplog) == []


def test_a_broker_that_names_no_brokers_is_none(outage: ClusterOutage, caplog: pytest.LogCaptureFixture) -> None:
    """One that is fenced answers, and the client drops all that it knows."""
    outage.report(DOWN)
    client = Asked(away=False)
    client.names_none = True
    assert outage.check(client) is False
    assert outage.suspected
    assert [text for _, text, _ in lines(caplog)] == ["the brokers are lost: records wait until one answers"]


def test_a_call_that_takes_long_has_brokers_asked(outage: ClusterOutage, caplog: pytest.LogCaptureFixture) -> None:
    """A commit waited for its coordinator, and nobody took the report of the client meanwhile: nothing was logged."""
    outage.suspect()
    outage.check(Asked(away=True))
    assert [text for _, text, _ in lines(caplog)] == ["the brokers are lost: records wait until one answers"]


def test_idle_clients_pile_up_nothing_while_it_lasts(clock: ManualClock) -> None:
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    outage, admin = ClusterOutage(nowhere["bootstrap.servers"], clock), ReplaceableAdmin(nowhere, clock)
    outage.watch(admin)
    outage.suspect()

    def reported() -> bool:
        clock.advance(2_000)
        outage.check(Asked(away=True))
        return admin.stale

    wait_until("the admin client has reported that its brokers are down", reported)


def test_the_client_of_a_group_goes_while_it_lasts(clock: ManualClock) -> None:
    outage = ClusterOutage("127.0.0.1:1", clock)
    groups = GroupReader({"bootstrap.servers": "127.0.0.1:1"}, outage)
    outage.watch(groups)
    client = groups._client("group")
    outage.check(Asked(away=True))
    assert groups._client("group") is client, "nobody has reported anything"
    outage.suspect()
    outage.check(Asked(away=True))
    assert groups._client("group") is not client


def test_a_consumer_without_partitions_reports_when_it_is_looked_after(outage: ClusterOutage) -> None:
    with closing(ConfluentConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, outage)) as consumer:

        def reported() -> bool:
            consumer.relieve()
            return outage.suspected

        wait_until("the consumer has reported that its broker is down", reported)


def test_nobody_is_asked_without_a_report(outage: ClusterOutage) -> None:
    client = Asked(away=True)
    outage.check(client)
    outage.report(LOGIN)
    outage.check(client)
    assert client.asked == []


def test_a_connection_that_fails_is_looked_at(outage: ClusterOutage, caplog: pytest.LogCaptureFixture) -> None:
    """The client does not say each time that all brokers are down."""
    outage.report(REFUSED)
    outage.check(Asked(away=True))
    ((_, text, _),) = lines(caplog)
    assert text == "the brokers are lost: records wait until one answers"


def test_one_broker_of_several_that_is_away_is_no_outage(
    outage: ClusterOutage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        outage.report(REFUSED)
        outage.check(Asked(away=False))
        clock.advance(5000)
    assert lines(caplog) == []


def test_other_requests_are_retried_in_silence_meanwhile(outage: ClusterOutage, clock: ManualClock) -> None:
    """Also before the line about the outage, and not for ever when its clients were closed."""
    wait_until("clients of other tests are gone", lambda: retry_level() == logging.WARNING, deadline_s=SILENT_S + 30)
    watch_outage(outage)
    outage.report(DOWN)
    assert retry_level() == logging.DEBUG
    outage.check(Asked(away=True))
    clock.advance(int(SILENT_S * 1000) - 1)
    assert retry_level() == logging.DEBUG
    clock.advance(1)
    assert retry_level() == logging.WARNING
    outage.report(DOWN)
    assert retry_level() == logging.DEBUG
    clock.advance(60_000)
    outage.check(Asked(away=False))
    assert retry_level() == logging.WARNING


def test_a_login_that_is_refused_is_a_warning_once_in_a_while(
    outage: ClusterOutage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(200):
        outage.report(LOGIN)
        clock.advance(100)
    assert lines(caplog) == [("WARNING", "client error", {"error": "bad password (_AUTHENTICATION)"})] * 2


def test_lines_of_the_client_are_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever their level; what ends the client is reported by its owner, which may continue with another one."""
    caplog.set_level("DEBUG", "streams")
    for level in (logging.ERROR, logging.WARNING, logging.INFO, logging.CRITICAL):
        ClientLog().log(level, "%s [%s] %s", "FAIL", "app#producer-1", "Connection refused")
    assert {one.getMessage() for one in caplog.records} == {"FAIL [app#producer-1] Connection refused"}
    assert [one.levelname for one in caplog.records] == ["DEBUG"] * 3 + ["INFO"]


class FastClock(ManualClock):
    """Lets three seconds pass with each look at it."""

    def monotonic(self) -> float:
        self.advance(3000)
        return super().monotonic()


def test_a_long_flush_has_a_broker_asked_though_the_client_reports_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its client does not report each loss of its brokers; this one, which never answers, is not reported for long."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        limits = {"api.version.request.timeout.ms": 300_000, "socket.timeout.ms": 300_000}
        outage = ClusterOutage(server, FastClock(0))
        producer = ConfluentProducer({"bootstrap.servers": server, **limits}, FastClock(0), outage)
        producer.produce("lines", b"a line")
        for _ in range(3):
            assert not producer.flush(1.0)  # as long as a stream thread waits before it looks whether it has to stop
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the brokers are lost: records wait until one answers"
    ]


class Passage:
    """Keeps its first connection silent, and passes all later ones on to a broker."""

    def __init__(self, broker: tuple[str, int]) -> None:
        self._broker = broker
        self._ends: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # the server is closed
            self._ends.append(self._server.accept()[0])
            while True:
                ends = self._server.accept()[0], socket.create_connection(self._broker)
                self._ends += ends
                for one, other in (ends, ends[::-1]):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    @staticmethod
    def _copy(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)

    def close(self) -> None:
        for end in (self._server, *self._ends):
            end.close()


def test_a_producer_that_new_clients_leave_behind_is_given_up() -> None:
    """It may never connect again by itself: its thread rolled back one transaction after the other, and the worker
    committed nothing until the time-out of its tasks."""
    cluster = Client({"bootstrap.servers": "unused", "test.mock.num.brokers": 1})
    (broker,) = cluster.list_topics(timeout=60).brokers.values()
    limits = {"api.version.request.timeout.ms": 300_000, "socket.timeout.ms": 300_000}
    with closing(Passage((broker.host, broker.port))) as passage:
        clock = FastClock(0)
        settings = {"bootstrap.servers": passage.address, "reconnect.backoff.max.ms": 1000, **limits}
        producer = ConfluentProducer(settings, clock, ClusterOutage(passage.address, clock))
        producer.produce("lines", b"a line")
        with pytest.raises(ClientUnusable, match="has lost all brokers, but a new client reaches them"):
            wait_until("the client is found out", lambda: producer.flush(1.0), pauses=False)
