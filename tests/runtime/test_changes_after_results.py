"""At least once, the changes of a commit are logged when its results have arrived (semantics 172).

A process may end while its producer delivers: each broker has what it had until then. A changelog that has a change
whose result was not delivered loses the result, since a row that left a buffer does not leave it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError, TaskMigratedError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams import (
    BufferConfig,
    JoinWindows,
    Processor,
    Produced,
    Record,
    Serdes,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Suppressed,
)
from streams.kafka.ports import CommitAgain, OffsetAndMetadata
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.commit import Committer
from streams.testing.broker import EmbeddedBroker
from streams.testing.broker.producer import EmbeddedProducer

MINUTE = 60_000
OUT: Produced[str, str] = Produced(key_serde="string", value_serde="string")
FULL = 100
"""Bytes of a cache that is full with the second record, and sends on then what it holds back."""
CACHES = [0, FULL, 10 << 20]


class Events(EmbeddedProducer):
    """A producer that delivers with a flush only, and notes what it sent before each."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker, {"linger.ms": 10})
        self.flushes: list[set[str]] = [set()]

    def poll(self, timeout: float = 0) -> int:
        return 0

    def produce(self, topic: str, value: bytes | None = None, *record: Any, **named: Any) -> None:
        super().produce(topic, value, *record, **named)
        self.flushes[-1].add("result" if topic == "out" else "change")

    def flush(self, timeout_s: float = 0) -> bool:
        super().poll()
        self.flushes.append(set())
        return True


class Group:
    """A membership that takes each offset."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.commits = 0
        self.refuses: Exception | None = None
        self.loses_answer = False
        self.went_back = False
        """Whether an offset was committed that was before the one it replaced."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits += 1
        if self.refuses is not None:
            raise self.refuses
        before = self.committed
        self.went_back |= any(name in before and one.offset < before[name].offset for name, one in offsets.items())
        self.committed = {**before, **offsets}
        if self.loses_answer:
            raise RetryableError("no answer")


class Once(Processor[str, str, str, str]):
    """Sends on the first record of each key."""

    def init(self, context: Any) -> None:
        self.context = context
        self.seen = context.get_state_store("seen")

    def process(self, record: Record[str, str]) -> None:
        if self.seen.put_if_absent(record.key, record.value) is None:
            self.context.forward(record)


def suppressed() -> Topology:
    made = StreamsBuilder(key_serde="string", value_serde="string")
    made.table("in").suppress(Suppressed.until_time_limit(MINUTE, BufferConfig.unbounded())).to_stream().to("out", OUT)
    return made.build()


def unmatched() -> Topology:
    made = StreamsBuilder(key_serde="string", value_serde="string")
    windows = JoinWindows.of_time_difference_and_grace(MINUTE, 0)
    made.stream("in").outer_join(made.stream("other"), lambda one, two: f"{one} {two}", windows=windows).to("out", OUT)
    return made.build()


def once() -> Topology:
    seen: StoreBuilder[str, str] = Stores.key_value_store("seen", Serdes.STRING, Serdes.STRING)
    return (
        Topology()
        .add_source("source", "in")
        .add_processor("once", Once, "source")
        .add_state_store(seen, "once")
        .add_sink("sink", "out", "once")
    )


def counted() -> Topology:
    made = StreamsBuilder(key_serde="string", value_serde="string")
    made.stream("in").group_by_key().count().to_stream().map_values(str).to("out", OUT)
    return made.build()


@pytest.mark.parametrize("updates", ["last", "each"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("build", [suppressed, unmatched, once, counted])
def test_changes_are_sent_when_the_results_of_their_commit_have_arrived(
    build: Callable[[], Topology], cache: int, updates: str, tmp_path: Path
) -> None:
    """What was logged before the commit was sent at once: each update, if so set, records of joins, a full cache."""
    kit = TaskKit(build(), tmp_path, {"statestore.cache.max.bytes": cache, "changelog.updates": updates}, start=False)
    producer = Events(kit.broker)
    kit.collector = RecordCollector(producer, kit.clock)
    clock = ManualClock(0)
    committer = Committer(kit.collector, Group(), clock, Pace(clock, None, 300.0), exactly_once=False)  # type: ignore[arg-type]
    with kit:
        kit.task.start(kit.collector, {})
        for time in (10, 20, 3 * MINUTE, 6 * MINUTE):
            kit.clock.advance(2_000)
            kit.pipe("in", b"a" if time < MINUTE else b"b%d" % time, b"v", time)
        assert committer.commit([kit.task])
        kit.pipe("in", b"c", b"v", 7 * MINUTE)
        assert committer.commit([kit.task])
    sent = [kinds for kinds in producer.flushes if kinds]
    assert sent[:2] == [{"result"}, {"change"}]
    assert {"result", "change"} not in sent


class Frozen(Events):
    """A producer whose process is frozen for a while as it delivers results."""

    def __init__(self, broker: EmbeddedBroker, clock: ManualClock, frozen_s: float) -> None:
        super().__init__(broker)
        self.freeze: Callable[[], None] = lambda: clock.advance(frozen_s * 1000)

    def flush(self, timeout_s: float = 0) -> bool:
        delivered = super().flush(timeout_s)
        self.freeze()
        self.freeze = lambda: None
        return delivered


@contextmanager
def member(directory: Path, frozen_s: float | None = None) -> Iterator[tuple[TaskKit, ManualClock, Group, Committer]]:
    """A task that counts, at least once, in a group whose session is 45 s.

    :param frozen_s: for how long the process is frozen in its first flush.
    """
    kit = TaskKit(counted(), directory, {"statestore.cache.max.bytes": 0}, start=False)
    clock, group = ManualClock(0), Group()
    producer = Events(kit.broker) if frozen_s is None else Frozen(kit.broker, clock, frozen_s)
    kit.collector = RecordCollector(producer, kit.clock)
    committer = Committer(  # type: ignore[arg-type]
        kit.collector, group, clock, Pace(clock, None, 300.0), exactly_once=False, session_timeout_s=45
    )
    with kit:
        kit.task.start(kit.collector, {TopicPartition("in", 0): OffsetAndMetadata(0)})
        yield kit, clock, group, committer


@pytest.mark.parametrize("frozen_s", [60, 6])
@pytest.mark.parametrize(
    "refusal", [TaskMigratedError("another member has the task"), RetryableError("no broker answers")]
)
def test_a_member_that_slept_past_its_session_asks_the_group_before_it_logs(
    refusal: Exception, frozen_s: int, tmp_path: Path
) -> None:
    """The next owner may have logged newer rows of the same keys by then, and the last row of a key is what counts.

    A session that the brokers set can be much shorter than the setting of the client.
    """
    with member(tmp_path, frozen_s) as (kit, _, group, committer):
        producer = kit.collector.producer
        kit.pipe("in", b"a", b"v", 1)
        group.refuses = refusal
        with pytest.raises((TaskMigratedError, CommitAgain)):
            committer.commit([kit.task])
        assert not any("change" in kinds for kinds in producer.flushes)
        group.refuses = None
        if isinstance(refusal, RetryableError):  # it is the owner after all
            assert committer.commit([kit.task])
            assert [kinds for kinds in producer.flushes if kinds] == [{"result"}, {"change"}]
            assert group.committed[TopicPartition("in", 0)].offset == 1


def test_what_the_group_is_asked_with_takes_no_offset_back(tmp_path: Path) -> None:
    """The answer to the commit before was lost, so that the member knows less than the group has."""
    with member(tmp_path) as (kit, clock, group, committer):
        kit.pipe("in", b"a", b"v", 1)
        group.loses_answer = True
        with pytest.raises(CommitAgain):
            committer.commit([kit.task])
        group.loses_answer = False
        kit.pipe("in", b"a", b"v", 2)
        clock.advance(60_000)
        assert committer.commit([kit.task])
        assert group.commits == 3, "the second commit does not ask first"
        assert group.committed[TopicPartition("in", 0)].offset == 2
        assert not group.went_back


def test_a_member_that_has_just_committed_asks_no_group_before_it_logs(tmp_path: Path) -> None:
    with member(tmp_path) as (kit, clock, group, committer):
        for commits in (1, 2):
            kit.pipe("in", b"a", b"v", commits)
            clock.advance(4_000)
            assert committer.commit([kit.task])
            assert group.commits == commits


def test_what_waits_to_be_logged_counts_as_uncommitted(tmp_path: Path) -> None:
    """Else a key that is put very often would fill the memory where each update is logged."""
    settings = {"statestore.cache.max.bytes": 0, "changelog.updates": "each"}
    with TaskKit(counted(), tmp_path, settings, start=False) as kit:
        kit.collector.holds_changes = True
        kit.budget.uncommitted_limit = 100_000
        kit.task.start(kit.collector, {})
        for _ in range(1000):
            kit.pipe("in", b"a", b"v", 1)
        assert kit.budget.is_full()
    assert not kit.budget.reports
