"""Dead letters are read, grouped and sent back by calls from Python, as `streams dlq` does it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import ManualClock, SystemClock
from processor_api.errors import ConfigError, MissingTopicError, RetryableError
from streams import StreamsBuilder
from streams.dead_letters import DeadLetter, DeadLetterError, DeadLetterQueue, LetterFilter, ReplayReport
from streams.testing import EmbeddedKafka

NOW_MS = SystemClock().time_ms()
SETTINGS = {
    "application.id": "shop",
    "bootstrap.servers": "localhost:9092",
    "commit.interval.ms": 100,
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "payments-dead",
}
FAILED = {"exception": "builtins.KeyError", "message": "'XYZ'", "topic": "payments", "partition": "0", "offset": "7"}


def application(rates: dict[str, float]) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    payments = builder.stream("payments")
    payments.map_values(lambda payment: payment["amount"] * rates[payment["currency"]]).to("euros")
    return builder


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path) as found:
        found.create_topics("payments", "euros", "payments-dead")
        yield found


def queue_on(kafka: EmbeddedKafka, **given: Any) -> DeadLetterQueue:
    return DeadLetterQueue(application({}), SETTINGS, clients=kafka.clients, **given)


def letter(kafka: EmbeddedKafka, key: str, time_ms: int = NOW_MS, **more: str) -> None:
    """Writes a dead letter as a handler does."""
    said = {f"__streams.errors.{name}": value.encode() for name, value in (FAILED | {"node": "map"} | more).items()}
    kafka.produce("payments-dead", key.encode(), b"{}", time_ms, list(said.items()))


def sent(kafka: EmbeddedKafka, count: int) -> list[str]:
    return [one.key for one in kafka.read_records("payments", count, key_serde="string", value_serde="string")]


def test_letters_of_a_running_application_are_grouped_and_replayed(kafka: EmbeddedKafka) -> None:
    failing = kafka.start(application({}), SETTINGS)
    payments = kafka.create_input_topic("payments", value_serde="json", start_timestamp=NOW_MS)
    for key, currency in enumerate(("USD", "XYZ")):
        payments.pipe_input(str(key), {"amount": 10, "currency": currency})
    kafka.read_records("payments-dead", 2, value_serde="string")
    failing.close()

    mended = application({"USD": 0.9, "XYZ": 2.0})
    queue = DeadLetterQueue(mended, SETTINGS, clients=kafka.clients)
    (group,) = queue.groups()
    assert (group.count, group.left, group.first_ms, group.last_ms) == (2, 2, NOW_MS, NOW_MS)
    assert (group.last.exception, group.last.topic, group.last.key) == ("KeyError", "payments", b"1")
    usd = LetterFilter(error="USD")
    assert [(one.key, one.source_offset) for one in queue.letters(usd)] == [(b"0", 0)]
    assert queue.plan_replay(usd) == ReplayReport(topics={"payments": 1}, left={})
    assert queue.replay(usd).count == 1
    assert queue.groups()[0].left == 1
    assert queue.replay().count == 1
    assert queue.plan_replay() == queue.replay() == ReplayReport(topics={}, left={})
    running = kafka.start(mended, SETTINGS)
    assert sorted(one.value for one in kafka.read_records("euros", 2, value_serde="json")) == [9.0, 20.0]
    running.close()


def test_replay_that_its_caller_ends_continues_behind_what_it_told(kafka: EmbeddedKafka) -> None:
    """Each transaction has up to 500 letters."""
    for number in range(1_200):
        letter(kafka, f"{number:04}")
    told: list[int] = []

    def stop_after_the_first_transaction(report: ReplayReport) -> None:
        told.append(report.count)
        if report.count:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue_on(kafka).replay(progress=stop_after_the_first_transaction)
    assert told == [0, 500]
    assert queue_on(kafka).replay(progress=lambda report: told.append(report.count)).count == 700
    assert told == [0, 500, 0, 500, 700]
    assert sent(kafka, 1_200) == [f"{number:04}" for number in range(1_200)]


def test_replay_leaves_what_it_cannot_send_with_the_reason(kafka: EmbeddedKafka) -> None:
    letter(kafka, "a", topic="euros")
    letter(kafka, "b")
    wanted = ReplayReport(topics={"payments": 1}, left={"the application does not read their source topic 'euros'": 1})
    assert queue_on(kafka).plan_replay() == wanted
    assert queue_on(kafka).replay() == wanted
    assert sent(kafka, 1) == ["b"]


def test_replay_sends_no_more_in_a_second_than_its_rate(kafka: EmbeddedKafka) -> None:
    for key in "abcde":
        letter(kafka, key)
    clock = ManualClock(NOW_MS)
    assert queue_on(kafka, clock=clock).replay(rate=2).count == 5
    assert clock.time_ms() - NOW_MS == 2_000


def test_replay_of_letters_of_more_than_seven_days_is_confirmed(kafka: EmbeddedKafka) -> None:
    letter(kafka, "a", NOW_MS - 8 * 24 * 3_600_000)
    for call in (queue_on(kafka).plan_replay, queue_on(kafka).replay):
        with pytest.raises(DeadLetterError, match="Give first=True"):
            call()
    assert queue_on(kafka).plan_replay(first=True).count == 1
    assert queue_on(kafka).replay(first=True).count == 1


class OneMoreSecond(ManualClock):
    """Is a second later each time that it is asked."""

    def monotonic(self) -> float:
        self.advance(1000)
        return super().monotonic()


def test_reading_ends_when_its_time_is_up(kafka: EmbeddedKafka) -> None:
    """Nothing is sent then."""
    letter(kafka, "a")
    queue = queue_on(kafka, clock=OneMoreSecond(NOW_MS), timeout=timedelta(milliseconds=500))
    for call in (queue.groups, lambda: queue.newest(10), queue.plan_replay, queue.replay):
        with pytest.raises(RetryableError, match=r"could not be read in 0\.5 s"):
            call()
    assert [is_replayed for _, is_replayed in queue_on(kafka).newest(10)] == [False]


def test_newest_letters_are_of_all_partitions_behind_each_other(kafka: EmbeddedKafka) -> None:
    kafka.broker.create_topic("three", 3)
    times = [NOW_MS + number for number in range(30)]
    for number, time_ms in enumerate(times):
        producer = kafka.clients.producer({"transactional.id": "t"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("three", b"v", b"k", number % 3, None, None, time_ms, None)
        producer.commit_transaction()
        producer.close()
    found = [one.timestamp for one, _ in queue_on(kafka, topic="three").newest(5)]
    assert found == sorted(times, reverse=True)[:5]


def test_filter_takes_datetimes_and_milliseconds(kafka: EmbeddedKafka) -> None:
    letter(kafka, "a", NOW_MS)
    letter(kafka, "b", NOW_MS + 10)
    later = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=NOW_MS + 10)
    found = [[one.key for one in queue_on(kafka).letters(LetterFilter(since=at))] for at in (later, NOW_MS + 10)]
    assert found == [[b"b"], [b"b"]]
    assert [one.key for one in queue_on(kafka).letters(LetterFilter(until=later))] == [b"a"]


def test_letter_is_found_by_its_place(kafka: EmbeddedKafka) -> None:
    letter(kafka, "a")
    letter(kafka, "b")
    found = queue_on(kafka).letter(0, 1)
    assert isinstance(found, DeadLetter)
    assert (found.key, found.message, found.node, found.replays) == (b"b", "'XYZ'", "map", 0)
    with pytest.raises(DeadLetterError, match=r"no record at offset 2: give an offset from 0 to 1.*is 0:1"):
        queue_on(kafka).letter(0, 2)
    with pytest.raises(DeadLetterError, match="has partitions 0 to 0"):
        queue_on(kafka).letter(1, 0)


def test_reading_works_with_clients_that_cannot_write(kafka: EmbeddedKafka) -> None:
    """All but the replay itself: what a mistake there would send goes nowhere."""
    from streams.kafka.read_only import ReadOnlyClients, WriteRefused

    letter(kafka, "a")
    queue = DeadLetterQueue(application({}), SETTINGS, clients=ReadOnlyClients(kafka.clients))
    assert len(queue.groups()) == len(list(queue.letters())) == queue.plan_replay().count == 1
    with pytest.raises(WriteRefused):
        queue.replay()


def test_topic_is_named_where_it_is_missing(kafka: EmbeddedKafka) -> None:
    without = {name: value for name, value in SETTINGS.items() if not name.startswith("errors.")}
    with pytest.raises(ConfigError, match=r"errors\.dead\.letter\.queue\.topic\.name is not set.*topic="):
        DeadLetterQueue(application({}), without, clients=kafka.clients)
    queue = queue_on(kafka, topic="other-dead")
    for call in (queue.letters, queue.groups, queue.plan_replay, queue.replay):
        with pytest.raises(MissingTopicError, match=r"does not exist.*topic='other-dead'"):
            call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda _: LetterFilter(offset=3), "offset needs partition"),
        (lambda _: LetterFilter(since="yesterday"), "since must be"),  # type: ignore[arg-type]
        (lambda _: LetterFilter(until=datetime(2026, 1, 31)), "until must be"),  # noqa: DTZ001
        (lambda queue: queue.replay(rate=0), "rate must be more than 0, got 0"),
        (lambda queue: queue.replay(rate=float("nan")), "rate must be more than 0"),
        (lambda queue: queue.replay(max_replays=0), "max_replays must be 1 or more, got 0"),
        (lambda queue: queue.plan_replay(max_replays=1.5), "max_replays must be 1 or more, got 1.5"),
    ],
)
def test_bad_argument_is_named(kafka: EmbeddedKafka, call: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        call(queue_on(kafka))
