"""What a task writes arrives, and what did not arrive is known before a commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import (
    InternalError,
    ProductionError,
    RetryableError,
    SerializationError,
    StreamsError,
    TaskMigratedError,
)
from processor_api.handlers import ProducerRecord
from processor_api.record import DropReason, Forward, HeaderList
from processor_api.serde import Serde, Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import SinkNode
from runtime_support.zero_clients import ZeroIsNowClients
from state.row_format.record_context import Cursor
from streams.kafka.ports import NotDelivered
from streams.kafka.producing.record_collector import RecordCollector
from streams.kafka.producing.zero_timestamps import TIME_HEADER, as_written
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

S, L = Serdes.STRING, Serdes.LONG


class Told:
    """A :class:`streams.kafka.producing.record_collector.SinkErrors` that goes on, and remembers what it was told."""

    wants_refused = False
    task = "0_0"

    def __init__(self) -> None:
        self.failed: list[tuple[str, Any, Any, int]] = []
        self.unwritten: list[tuple[str, str, ProducerRecord]] = []
        self.refused: list[tuple[StreamsError, ProducerRecord]] = []
        self.dropped: list[DropReason] = []
        self.verdict: StreamsError | None = None
        self.letters: list[ProducerRecord] = []

    def fail(self, error: Exception, key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        self.failed.append((str(error), key, value, timestamp))

    def unserializable(self, error: Exception, part: str, record: ProducerRecord) -> None:
        self.unwritten.append((str(error), part, record))

    def undelivered(
        self, failure: StreamsError, record: ProducerRecord
    ) -> tuple[StreamsError | None, Iterable[ProducerRecord]]:
        self.refused.append((failure, record))
        return self.verdict, self.letters

    def unwritable(self, failure: NotDelivered, record: ProducerRecord) -> None:
        self.refused.append((failure, record))

    def drop(self, reason: DropReason) -> None:
        self.dropped.append(reason)


class Kit:
    """A collector on an embedded broker with the topic ``out``."""

    def __init__(self, partitions: int = 1, **producer: Any) -> None:
        self.clock = ManualClock(1000)
        self.broker = EmbeddedBroker(self.clock, auto_create_topics=True)
        self.broker.create_topic("out", partitions)
        self.producer = EmbeddedClients(self.broker).producer(producer)
        self.collector = RecordCollector(self.producer, self.clock)
        self.told = Told()

    def sink(self, key: Serde[Any] = S, value: Serde[Any] = S, topic: str = "out", **node: Any) -> Forward:
        described = SinkNode(name="sink", parents=("p",), topic=topic, **node)
        return self.collector.sink(described, topic, key, value, self.told)

    def sent(self, topic: str = "out") -> list[tuple[int, bytes | None, bytes | None, int]]:
        return [(r.partition(), r.key(), r.value(), r.timestamp()[1]) for r in self.broker.records(topic)]


@pytest.fixture
def kit() -> Kit:
    return Kit()


# -------------------------------------------------------------------------- sinks


def test_a_sink_writes_what_it_is_given(kit: Kit) -> None:
    """Null keys and values stay null, and a timestamp of 0 is one."""
    sink = kit.sink()
    sink("k", "v", 5, [("h", None)])
    sink(None, None, 0, None)
    kit.collector.flush()
    assert kit.sent() == [(0, b"k", b"v", 5), (0, None, None, 0)]
    assert [record.headers() for record in kit.broker.records("out")] == [[("h", None)], None]


def test_a_timestamp_of_more_than_64_bits_is_an_error(kit: Kit) -> None:
    """As on a cluster, and in the test driver; the broker in memory took it."""
    with pytest.raises(ProductionError, match="topic='out'"):
        kit.sink()("k", "v", 2**63, None)
    kit.collector.forget_failure()
    kit.sink()("k", "v", 2**63 - 1, None)
    kit.collector.flush()
    assert kit.sent() == [(0, b"k", b"v", 2**63 - 1)]


def test_a_key_or_value_that_cannot_be_written_is_told_and_not_sent(kit: Kit) -> None:
    """The key is written first."""
    kit.sink(L, L)("k", "v", 5, None)
    kit.sink(S, L)("k", "v", 5, None)
    assert [(part, record) for _, part, record in kit.told.unwritten] == [
        ("key", ProducerRecord("out", "k", "v", 5)),
        ("value", ProducerRecord("out", "k", "v", 5)),
    ]
    kit.collector.flush()
    assert kit.sent() == []


@pytest.mark.parametrize(("chosen", "partitions"), [(None, None), ([1], [1]), ((2, 0, 2), [0, 2]), ({1}, [1])])
def test_a_partitioner_chooses(chosen: Any, partitions: list[int] | None) -> None:
    """``None`` leaves it to the default; several partitions get a record each."""
    kit = Kit(partitions=3)
    asked: list[Any] = []

    def partitioner(*arguments: Any) -> Any:
        asked.append(arguments)
        return chosen

    kit.sink(partitioner=partitioner)("k", "v", 5, [("h", b"1")])
    plain = Kit(partitions=3)
    plain.sink()("k", "v", 5, None)
    assert [record[0] for record in kit.sent()] == (partitions or [plain.sent()[0][0]])
    assert asked == [("out", "k", "v", [("h", b"1")], 3)]


def test_a_partitioner_that_chooses_nothing_drops_the_record(kit: Kit) -> None:
    kit.sink(partitioner=lambda *arguments: ())("k", "v", 5, None)
    assert kit.sent() == []
    assert kit.told.dropped == [DropReason.NO_PARTITION]


@pytest.mark.parametrize("chosen", [[-1], [3], ["0"], [True], 1])
def test_a_partition_that_is_none_is_told_with_the_name_of_the_sink(chosen: Any) -> None:
    """Nothing is written then, not even to partitions that exist."""
    kit = Kit(partitions=3)
    kit.sink(partitioner=lambda *arguments: chosen if chosen == 1 else [0, *chosen])("k", "v", 5, None)
    assert kit.sent() == []
    ((why, *record),) = kit.told.failed
    assert record == ["k", "v", 5]
    if chosen == 1:
        assert "the partitioner of sink 'sink' must return a collection of partitions" in why
    else:
        assert f"the partitioner of sink 'sink' chose partition {chosen[0]!r}, but the topic has 3 partitions" in why


def test_a_topic_that_a_partitioner_cannot_be_asked_about_is_an_error() -> None:
    """It is not the user's function that failed: no handler is asked."""
    kit = Kit()
    kit.broker.auto_create_topics = False
    with pytest.raises(ProductionError, match="sink 'sink' cannot write to topic 'gone'") as caught:
        kit.sink(topic="gone", partitioner=lambda *arguments: [0])("k", "v", 5, None)
    assert (caught.value.node, caught.value.topic) == ("sink", "gone")
    assert kit.told.failed == []


def dynamic(kit: Kit, extractor: Any) -> tuple[Forward, list[str]]:
    made: list[str] = []

    def sink_for(topic: str) -> Forward:
        made.append(topic)
        return kit.sink(topic=topic)

    cursor = Cursor()
    node = SinkNode(name="dynamic", parents=("p",), topic_extractor=extractor)
    return kit.collector.dynamic_sink(node, sink_for, kit.told, cursor), made


def test_a_topic_extractor_chooses_for_each_record(kit: Kit) -> None:
    """A sink is made once for each topic; the context has the record's own timestamp and headers."""
    contexts: list[Any] = []

    def extractor(key: str, value: str, context: Any) -> str:
        contexts.append(context)
        return f"out-{value}"

    sink, made = dynamic(kit, extractor)
    for value in ("a", "b", "a"):
        sink("k", value, 5, [("h", b"1")])
    assert made == ["out-a", "out-b"]
    assert len(kit.sent("out-a")) == 2
    assert contexts[0] == (None, -1, -1, 5, [("h", b"1")])


@pytest.mark.parametrize("topic", [None, "", 5, b"out", ["out"]])
def test_a_topic_extractor_that_returns_no_name_is_told(kit: Kit, topic: Any) -> None:
    sink, made = dynamic(kit, lambda key, value, context: topic)
    sink("k", "v", 5, None)
    assert made == []
    assert [record[1:] for record in kit.told.failed] == [("k", "v", 5)]


# -------------------------------------------------------------------- refused records


def test_what_the_broker_refuses_is_known_at_the_next_flush_or_poll(kit: Kit) -> None:
    """With what the sink says; the first failure stays until it is forgotten. The client does not tell a refused
    record's timestamp and headers."""
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    kit.told.verdict = ProductionError("verdict")
    kit.sink()("k", "v", 5, [("h", b"1")])
    kit.sink()("k", "second", 6, None)
    with pytest.raises(ProductionError, match="verdict"):
        kit.collector.poll()
    with pytest.raises(ProductionError, match="verdict"):
        kit.collector.flush()
    ((failure, record),) = kit.told.refused
    assert isinstance(failure, ProductionError)
    assert (failure.reason, failure.topic, failure.partition) == ("MSG_SIZE_TOO_LARGE", "out", 0)
    assert record == ProducerRecord("out", b"k", b"v", None, None, 0)
    kit.collector.forget_failure()
    kit.collector.flush()


@pytest.mark.parametrize("partitioner", [None, lambda topic, key, value, headers, count: [0]])
def test_a_handler_that_may_look_at_refused_records_gets_all_of_them(kit: Kit, partitioner: Any) -> None:
    """Dead letters lost the headers and the time of the record."""
    kit.told.wants_refused = True
    sink = kit.sink(partitioner=partitioner)
    sink("k", "taken", 4, [("h", b"0")])
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    sink("k", "v", 5, [("h", b"1"), ("h", None)])
    sink("k", "w", 0, None)
    kit.collector.flush()
    assert [record for _, record in kit.told.refused] == [
        ProducerRecord("out", b"k", b"v", 5, [("h", b"1"), ("h", None)], 0),
        ProducerRecord("out", b"k", b"w", 0, None, 0),
    ]
    assert kit.sent() == [(0, b"k", b"taken", 4)]


def test_going_on_loses_only_the_refused_record(kit: Kit) -> None:
    sink = kit.sink()
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    sink("k", "lost", 5, None)
    kit.broker.accept("out")
    sink("k", "kept", 6, None)
    kit.collector.flush()
    assert kit.sent() == [(0, b"k", b"kept", 6)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", ProductionError),
        ("INVALID_TOPIC_EXCEPTION", ProductionError),
        ("UNKNOWN", ProductionError),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", TaskMigratedError),
    ],
)
def test_nobody_is_asked_when_no_record_would_fare_better(kit: Kit, name: str, kind: type[StreamsError]) -> None:
    """Security, the topic itself, or a newer producer (semantics 114)."""
    kit.broker.refuse("out", name)
    kit.sink()("k", "v", 5, None)
    with pytest.raises(kind, match="the broker rejected a record for topic 'out'"):
        kit.collector.flush()
    assert kit.told.refused == []


@pytest.mark.parametrize("name", ["REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE"])
def test_what_may_succeed_later_is_told_as_such(kit: Kit, name: str) -> None:
    kit.broker.refuse("out", name)
    kit.sink()("k", "v", 5, None)
    kit.collector.flush()
    ((failure, _),) = kit.told.refused
    assert isinstance(failure, NotDelivered)
    assert failure.reason == name


def test_dead_letters_of_refused_records_are_sent_by_the_flush(kit: Kit) -> None:
    """With the time of now if they have none, and to the partition that the handler chose."""
    kit.broker.create_topic("dlq", 2)
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    kit.told.letters = [ProducerRecord("dlq", b"k", b"v"), ProducerRecord("dlq", b"k", b"v", 0, [("h", b"1")], 1)]
    kit.sink()("k", "v", 5, None)
    assert kit.sent("dlq") == []
    kit.collector.flush()
    assert sorted(record[1:] for record in kit.sent("dlq")) == [(b"k", b"v", 0), (b"k", b"v", 1000)]
    assert (1, b"k", b"v", 0) in kit.sent("dlq")


def test_dead_letters_of_refused_records_are_sent_by_a_poll(kit: Kit) -> None:
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    kit.told.letters = [ProducerRecord("dlq", b"k", b"v", 5)]
    kit.sink()("k", "v", 5, None)
    kit.collector.poll()
    assert kit.sent("dlq") == [(0, b"k", b"v", 5)]


def test_a_refused_dead_letter_is_an_error(kit: Kit) -> None:
    """Nobody is asked about it, so that dead letters do not go round in circles."""
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    kit.told.letters = [ProducerRecord("out", b"k", b"v", 5)]
    kit.sink()("k", "v", 5, None)
    with pytest.raises(ProductionError, match="rejected a record for topic 'out'"):
        kit.collector.flush()
    assert len(kit.told.refused) == 1


def test_dead_letters_wait_for_nothing_unless_told_to() -> None:
    kit = Kit(**{"linger.ms": 5})
    kit.collector.send_dead_letters([ProducerRecord("dlq", b"k", b"1", 5)])
    assert kit.sent("dlq") == []
    kit.collector.send_dead_letters([ProducerRecord("dlq", b"k", b"2", 5)], wait=True)
    assert [record[2] for record in kit.sent("dlq")] == [b"1", b"2"]


# -------------------------------------------------------------------------- changelogs


def test_a_changelog_counts_its_offsets() -> None:
    """From where it ended; the marker of a transaction takes one, where the transaction wrote anything."""
    kit = Kit(partitions=2)
    changelog = kit.collector.changelog("out", 1)
    assert changelog.offset is None
    changelog.log(b"k", b"v", 5)
    changelog.log(b"k", None, 0)
    changelog.log(b"k", b"untimed", -1)
    kit.collector.flush()
    assert changelog.offset == 2
    later = kit.collector.changelog("out", 1, 10)
    later.transaction_committed()
    later.log(b"k", b"v", 5)
    assert later.offset == 10
    later.transaction_committed()
    later.transaction_committed()
    later.log(b"k", b"v", 5)
    later.log(b"k", b"v", 5)
    assert later.offset == 13
    assert kit.sent()[:3] == [(1, b"k", b"v", 5), (1, b"k", None, 0), (1, b"k", b"untimed", 1000)]


@pytest.mark.parametrize("clients", [EmbeddedClients, ZeroIsNowClients])
def test_headers_of_a_user_that_look_like_the_mark_stay_what_they_are(clients: Any) -> None:
    """A record came back from its changelog with timestamp 0 and without a header that a user had given it."""
    kit = Kit()
    kit.collector.replace(clients(kit.broker).producer({}))
    changelog = kit.collector.changelog("out", 0)
    rows: list[tuple[int, Any]] = [
        (time, headers)
        for time in (0, 1, 2, 1_700_000_000_000)
        for headers in (
            None,
            [("h", b"1")],
            [(TIME_HEADER, bytes(8))],
            [(TIME_HEADER, bytes(7) + b"\1")],
            [(TIME_HEADER, None)],
            [("h", b"1"), (TIME_HEADER, bytes(8)), (TIME_HEADER, bytes(8))],
            [(TIME_HEADER, bytes(8)), ("h", b"1")],
        )
    ]
    for number, (time, headers) in enumerate(rows):
        changelog.log(b"%d" % number, b"v", time, headers)
    kit.collector.flush()
    records = kit.broker.records("out")
    times, found = as_written([one.timestamp()[1] for one in records], [one.headers() for one in records])
    assert list(zip(times, found, strict=True)) == rows


def test_timestamp_0_is_told_where_the_client_cannot_send_it(caplog: pytest.LogCaptureFixture) -> None:
    """Of a changelog record in a header, behind those of the row; of a sink's in the log, once for each topic."""
    kit = Kit(2)
    kit.collector.replace(ZeroIsNowClients(kit.broker).producer({}))
    changelog = kit.collector.changelog("out", 1)
    changelog.log(b"k", b"1", 0)
    changelog.log(b"k", b"2", 0, [("h", b"v")])
    changelog.log(b"k", b"3", 1, [("h", b"v")])
    changelog.log(b"k", b"4", -1)
    changelog.log_many(iter([(b"k", b"5", 0), (b"k", None, 7)]))
    sink = kit.sink()
    with caplog.at_level("WARNING", "streams"):
        for _ in range(3):
            sink("k", "v", 0, None)
        sink("k", "v", 1, None)
        kit.collector.send_dead_letters([ProducerRecord("letters", b"k", b"v", 0)])
    kit.collector.flush()
    mark, now = (TIME_HEADER, bytes(8)), kit.clock.time_ms()
    records = [record for record in kit.broker.records("out") if record.partition() == 1 and record.value() != b"v"]
    changes = [(record.timestamp()[1], record.headers()) for record in records]
    assert changes == [
        (1, [mark]), (1, [("h", b"v"), mark]), (1, [("h", b"v")]), (now, None), (1, [mark]), (7, None)
    ]  # fmt: skip
    times, headers = as_written([time for time, _ in changes], [found for _, found in changes])
    assert times == [0, 0, 1, now, 0, 7]
    assert headers == [None, [("h", b"v")], [("h", b"v")], None, None, None]
    sent = [record for record in kit.broker.records("out") if record.value() == b"v"]
    assert {(record.timestamp()[1], record.headers() is None) for record in sent} == {(1, True)}
    told = [(one.levelname, one.topic) for one in caplog.records]  # type: ignore[attr-defined]
    assert told == [("WARNING", "out"), ("WARNING", "letters")]


class Counting:
    """The producer of a kit, which counts its calls and, like some, wants every argument."""

    zero_timestamp_ms = 0

    def __init__(self, producer: Any) -> None:
        self.producer = producer
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.producer, name)

    @property
    def produce(self) -> Any:
        def produce(*arguments: Any) -> None:
            self.calls += 1
            topic, value, key, partition, callback, on_delivery, timestamp, *headers = arguments
            self.producer.produce(topic, value, key, partition, callback, on_delivery, timestamp, *headers)

        return produce

    @property
    def produce_plain(self) -> Any:
        return self.produce


def test_a_record_is_given_to_the_client_once(kit: Kit) -> None:
    """What the client cannot take is tried again in a slower way: it must not be the way of every record."""
    producer = Counting(kit.producer)
    kit.collector = RecordCollector(producer, kit.clock)  # type: ignore[arg-type]
    changelog = kit.collector.changelog("out", 0)
    changelog.log(b"k", b"1", 5)
    changelog.log(b"k", b"2", 6, [("h", b"v")])
    changelog.log_many(iter([(b"k", b"3", 7), (b"k", None, 8)]))
    kit.sink()("k", "v", 9, None)
    kit.collector.flush()
    assert producer.calls == len(kit.sent()) == 5


def test_a_changelog_without_a_record_is_never_gone_on_with(kit: Kit) -> None:
    """A restored store would be wrong, so no handler is asked."""
    changelog = kit.collector.changelog("out", 0)
    changelog.log(b"k", b"1", 5)
    kit.collector.flush()
    kit.broker.refuse("out", "MSG_SIZE_TOO_LARGE")
    changelog.log(b"k", b"2", 5)
    with pytest.raises(ProductionError, match="MSG_SIZE_TOO_LARGE"):
        kit.collector.flush()


# ------------------------------------------------------------------------ headers

BAD_NAME = [("\ud800", b"1")]


@pytest.mark.parametrize("partitioner", [None, lambda *arguments: [0]])
def test_headers_that_cannot_be_sent_are_told_and_not_sent(kit: Kit, partitioner: Any) -> None:
    """The handler of serialisation errors is asked, as about a key; the records before and after are sent."""
    sink = kit.sink(partitioner=partitioner)
    sink("k", "1", 5, None)
    sink("k", "2", 6, BAD_NAME)
    sink("k", "3", 7, [("h", b"1")])
    kit.collector.flush()
    ((why, part, record),) = kit.told.unwritten
    assert (part, record.topic, record.key, record.value, record.headers) == ("headers", "out", b"k", b"2", BAD_NAME)
    assert "half of a surrogate pair" in why
    assert [value for _, _, value, _ in kit.sent()] == [b"1", b"3"]
    assert kit.told.refused == []


def test_a_changelog_record_whose_headers_cannot_be_sent_fails_the_task(kit: Kit) -> None:
    """A changelog without it would restore another store."""
    changelog = kit.collector.changelog("out", 0)
    with pytest.raises(SerializationError, match="topic='out'"):
        changelog.log(b"k", b"1", 5, BAD_NAME)
    assert changelog.sent == 0


def test_a_dead_letter_is_sent_with_headers_that_no_client_could_send(kit: Kit) -> None:
    """With question marks: the letter is about a record with such headers."""
    kit.collector.send_dead_letters([ProducerRecord("out", b"k", b"v", 5, [*BAD_NAME, ("h", b"1")])])
    kit.collector.flush()
    assert [record.headers() for record in kit.broker.records("out")] == [[("?", b"1"), ("h", b"1")]]


# -------------------------------------------------------------------- producers in trouble


@pytest.mark.parametrize("kind", ["sink", "partitioned", "changelog", "dead letters"])
def test_a_full_queue_is_waited_for(kind: str) -> None:
    """Nothing is lost or sent twice."""
    kit = Kit(**{"queue.buffering.max.messages": 2})
    log = kit.collector.changelog("out", 0).log
    sink = kit.sink(partitioner=(lambda *arguments: [0]) if kind == "partitioned" else None)
    for i in range(10):
        if kind == "changelog":
            log(b"k", b"%d" % i, i)
        elif kind == "dead letters":
            kit.collector.send_dead_letters([ProducerRecord("out", b"k", b"%d" % i, i)])
        else:
            sink("k", str(i), i, None)
    kit.collector.flush()
    assert [record[2] for record in kit.sent()] == [b"%d" % i for i in range(10)]


@pytest.mark.parametrize(
    ("refusal", "kind"), [("REQUEST_TIMED_OUT", NotDelivered), ("MSG_SIZE_TOO_LARGE", ProductionError)]
)
def test_a_transaction_that_failed_in_the_middle_of_a_call_fails_by_its_reason(refusal: str, kind: type[Any]) -> None:
    """The client takes no more records then, with an error that says nothing: what failed before decides."""
    kit = Kit(**{"transactional.id": "t"})
    kit.producer.init_transactions()
    kit.producer.begin_transaction()
    kit.broker.refuse("out", refusal)
    sink, changelog = kit.sink(), kit.collector.changelog("out", 0)
    kit.told.verdict = kind("what the policy says")
    sink("k", "1", 5, None)
    for send in (lambda: sink("k", "2", 5, None), lambda: changelog.log(b"k", b"3", 5)):
        with pytest.raises(kind, match="what the policy says"):
            send()
    assert len(kit.told.refused) == 1
    kit.producer.abort_transaction()
    kit.collector.forget_failure()
    kit.broker.accept("out")
    kit.producer.begin_transaction()
    sink("k", "4", 5, None)
    kit.collector.flush()


class Stuck:
    """A producer whose calls raise, in place of one that reaches no broker."""

    zero_timestamp_ms = 1

    def __init__(self, error: Exception, clock: ManualClock) -> None:
        self.error, self.clock = error, clock
        self.calls = 0

    def produce(self, *record: Any) -> None:
        self.calls += 1
        raise self.error

    produce_plain = produce

    def poll(self, timeout_s: float) -> int:
        self.clock.advance(int(timeout_s * 1000))
        return 0

    def flush(self, timeout_s: float = 0.0) -> bool:
        self.clock.advance(int(timeout_s * 1000))
        return False

    def partition_count(self, topic: str) -> int:
        raise self.error

    def refused(self, error: Exception, topic: str) -> None:
        raise ProductionError(str(error), topic=topic)


def stuck(error: Exception) -> tuple[Kit, Stuck]:
    kit = Kit()
    producer = Stuck(error, kit.clock)
    kit.collector.replace(producer)  # type: ignore[arg-type]
    return kit, producer


def test_a_queue_that_stays_full_is_an_error_in_the_end() -> None:
    """Two minutes by the clock."""
    kit, _ = stuck(BufferError("full"))
    with pytest.raises(RetryableError, match="the producer's queue has been full for two minutes"):
        kit.sink()("k", "v", 5, None)
    assert 120_000 < kit.clock.time_ms() - 1000 < 121_000


@pytest.mark.parametrize("error", [RetryableError("later"), TaskMigratedError("fenced"), InternalError("bug")])
def test_the_ports_own_errors_pass(error: StreamsError) -> None:
    kit, _ = stuck(error)
    with pytest.raises(type(error), match=error.message):
        kit.sink()("k", "v", 5, None)
    with pytest.raises(type(error), match=error.message):
        kit.collector.changelog("out", 0).log(b"k", b"v", 5)
    if not isinstance(error, InternalError):
        with pytest.raises(type(error), match=error.message):
            kit.sink(partitioner=lambda *arguments: [0])("k", "v", 5, None)
    assert kit.told.refused == []


class ClientError(Exception):
    """As the client's own: its argument is the error."""


class Kind:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


def test_a_record_refused_before_it_is_sent_is_refused_all_the_same() -> None:
    """The client itself refuses one that is too large: the sink is told, and may go on."""
    kit, _ = stuck(ClientError(Kind("MSG_SIZE_TOO_LARGE")))
    sink = kit.sink()
    sink("k", "v", 5, None)
    ((failure, record),) = kit.told.refused
    assert isinstance(failure, ProductionError)
    assert failure.reason == "MSG_SIZE_TOO_LARGE"
    assert record == ProducerRecord("out", b"k", b"v", 5)
    kit.told.verdict = ProductionError("verdict")
    with pytest.raises(ProductionError, match="verdict"):
        sink("k", "v", 5, None)


def test_a_record_that_the_client_cannot_take_at_all_fails_at_once() -> None:
    """An error without a name is nobody's to decide."""
    kit, _ = stuck(StreamsError("a transactional producer can produce only inside a transaction"))
    with pytest.raises(ProductionError, match="only inside a transaction"):
        kit.sink()("k", "v", 5, None)
    assert kit.told.refused == []


def test_a_new_producer_starts_without_the_failures_of_the_old_one(kit: Kit) -> None:
    kit.broker.refuse("out", "UNKNOWN")
    kit.sink()("k", "v", 5, None)
    with pytest.raises(ProductionError, match="UNKNOWN"):
        kit.collector.flush()
    kit.broker.accept("out")
    kit.collector.replace(EmbeddedClients(kit.broker).producer({}))
    kit.collector.flush()
    kit.sink()("k", "again", 6, None)
    kit.collector.flush()
    assert kit.broker.log(TopicPartition("out", 0)).end_offset == 1


def test_what_an_abort_threw_away_is_no_failure_of_the_next_transaction() -> None:
    """It is told after the abort: the application ended with it, or its handler was asked about it."""
    kit = Kit(**{"transactional.id": "t", "linger.ms": 100})
    kit.producer.init_transactions()
    kit.producer.begin_transaction()
    sink = kit.sink()
    sink("k", "thrown away", 5, None)
    kit.producer.abort_transaction()
    kit.collector.forget_failure()
    kit.producer.begin_transaction()
    sink("k", "kept", 6, None)
    kit.collector.flush()
    kit.producer.commit_transaction()
    assert kit.sent() == [(0, b"k", b"kept", 6)]
    assert kit.told.refused == []


def test_a_stop_ends_the_wait_for_a_broker_that_does_not_answer() -> None:
    """It was waited for until the time-out of the delivery, minutes later by default."""
    kit, producer = stuck(BufferError())
    before = kit.clock.monotonic()
    kit.collector.patience.stopping = lambda: kit.clock.monotonic() >= before + 30.0
    with pytest.raises(RetryableError, match="not delivered within 5 s of the stop"):
        kit.collector.flush()
    assert kit.clock.monotonic() - before == pytest.approx(36.0, abs=1.0)
    changelog = kit.collector.changelog("out", 0)
    with pytest.raises(RetryableError, match="not delivered within 5 s of the stop"):
        changelog.log(b"k", b"v", 1)
    assert producer.calls <= 2
