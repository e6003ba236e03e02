"""The answers of a foreign-key join to one change of the right table leave in parts, like final results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dsl.processors.joins.foreign_key import ANSWER_ALWAYS
from dsl.processors.windows.emission import PART_ROWS
from processor_api.errors import ProcessingError, StoreError
from processor_api.handlers import Response
from processor_api.serde import Serde, Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.parts_kit import Case, Given, PartsKit, Row, all_at_once, killed_after_each_commit
from state.formats.foreign_keys import UNANSWERED, read_unanswered, subscription, unanswered_key
from streams import Consumed, Materialized, StreamsBuilder
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.tasks.task import TaskState

PART = 3
MANY = 11
ASKED, ANSWERED = "app-j-subscription-registration-topic", "app-j-subscription-response-topic"
SUBSCRIBED: list[Given] = [
    *((ASKED, b"x", number, None) for number in range(MANY)),
    *((ASKED, b"y", number, None) for number in range(MANY, MANY + 4)),
    (ASKED, b"x2", MANY + 4, None),
]
DELETED = 999
HEADERS = [("h", b"1"), ("none", None)]
CHANGES: list[Given] = [
    ("right", b"x", 100, HEADERS),
    ("right", b"y", 101, None),
    ("right", b"x2", 102, None),
    ("right", b"x", DELETED, None),
    (ASKED, b"y", 1000, None),
    ("right", b"y", 1001, None),
]


def joined(*, left_join: bool = False, materialized: Any = None, serde: Serde[Any] = Serdes.STRING) -> Topology:
    builder = StreamsBuilder()
    left = builder.table("left")
    right = builder.table("right", Consumed(value_serde=serde), materialized=materialized)
    join = left.foreign_key_left_join if left_join else left.foreign_key_join
    join(right, str, lambda one, other: f"{one} {other}", joined="j").to_stream().to("out")
    return builder.build()


def value_of(record: Given) -> bytes | None:
    """The subscription of a left row, or a right row."""
    topic, _, time, _ = record
    if topic == ASKED:
        return subscription(ANSWER_ALWAYS, b"%16d" % time, b"left-%02d" % time, 0)
    return None if time == DELETED else b"v%d" % time


def case(topology: Topology, *, records: list[Given] | None = None, **settings: Any) -> Case:
    return Case(
        topology=topology,
        settings={"statestore.cache.max.bytes": 0, PART_ROWS: PART, **settings},
        records=records or [*SUBSCRIBED, *CHANGES],
        value_of=value_of,
        out=ANSWERED,
    )


def left_of(kit: PartsKit) -> list[tuple[bytes, Any]]:
    """The rows of changes that may have subscriptions without an answer."""
    return list(kit.store("j-subscription-store").prefix_scan(UNANSWERED))


@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("left_join", [False, True])
def test_the_parts_are_the_same_answers_in_the_same_order(engine: str, left_join: bool, tmp_path: Path) -> None:
    """All were sent in the call for the change: a million of them took longer than a transaction."""
    made = case(joined(left_join=left_join), **{"default.dsl.store": engine})
    expected = all_at_once(tmp_path / "at-once", made)
    with PartsKit(tmp_path / "parts", made) as kit:
        kit.feed()
        assert max(kit.steps()) <= 2 * PART
        assert kit.results() == expected
        assert len(left_of(kit)) == 1  # the last one: it outlives a commit
    assert len(expected) == len(SUBSCRIBED) + 1 + (2 * MANY + 1) + 2 * 5 - 1


def test_each_commit_between_two_parts_is_where_the_next_life_goes_on(tmp_path: Path) -> None:
    made = case(joined())
    expected = all_at_once(tmp_path / "at-once", made)
    lives = killed_after_each_commit(tmp_path, made)
    assert lives == [expected] * len(lives)


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


def next_life(place: Path, offsets: Offsets, made: Case) -> PartsKit:
    """The task as it is opened after a kill, with what is behind the committed offsets."""
    kit = PartsKit(place, made, start=False)
    kit.task.become(TaskState.RESTORING)
    kit.task.start(kit.collector, offsets)
    kit.feed({partition.topic: one.offset for partition, one in offsets.items()})
    return kit


def until_a_part_is_left(kit: PartsKit) -> Offsets:
    """Goes on until a part of the answers to the first change of the right table is committed."""
    kit.feed()
    while len(kit.results()) < len(SUBSCRIBED) + PART:
        kit.turn()
        kit.commit()
    return kit.task.inputs.known_offsets


def headers_of(kit: PartsKit) -> list[Any]:
    return [record.headers() for record in kit.broker.records(ANSWERED, read_committed=False)]


def test_answers_have_the_headers_of_the_change_in_the_next_life_too(tmp_path: Path) -> None:
    made = case(joined())
    with PartsKit(tmp_path, made) as kit:
        offsets = until_a_part_is_left(kit)
        sent = headers_of(kit)[len(SUBSCRIBED) :]
    with next_life(tmp_path, offsets, made) as again:
        again.turns()
        assert [*sent, *headers_of(again)][: MANY + 1] == [HEADERS] * MANY + [None]
    assert PART <= len(sent) < MANY


def test_what_a_part_leaves_is_on_the_changelog_with_the_commit_of_the_part(tmp_path: Path) -> None:
    with PartsKit(tmp_path, case(joined())) as kit:
        until_a_part_is_left(kit)
        changelog = "app-j-subscription-store-changelog"
        ((row, time),) = [(value, time) for key, value, time in kit.sent(changelog) if key == unanswered_key(0)]
        assert (read_unanswered(row or b"")[1:], time) == ((HEADERS, b"v100"), 100)
        kit.turns()
        assert [value for key, value, _ in kit.sent(changelog) if key == unanswered_key(0)] == [row, None]


def test_what_is_left_outlives_the_answers_until_they_are_committed(tmp_path: Path) -> None:
    """At least once, the changelog had the deletion while a killed producer had not delivered the answers."""
    made = case(joined())
    expected = all_at_once(tmp_path / "at-once", made)
    with PartsKit(tmp_path / "parts", made) as kit:
        offsets = until_a_part_is_left(kit)
        committed = kit.results()
        for _ in range(8):
            kit.turn()
        assert [key for key, _ in left_of(kit)] == [unanswered_key(number) for number in range(4)]
    with next_life(tmp_path / "parts", offsets, made) as again:
        again.turns()
        assert [*committed, *again.results()] == expected
        assert len(left_of(again)) == 1


def test_a_change_that_the_store_has_lost_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = case(joined())
    with PartsKit(tmp_path, made) as kit:
        offsets = until_a_part_is_left(kit)
        answers = len(kit.results())
        kit.store("j-subscription-store").put(unanswered_key(0), None)
        kit.commit()
    with next_life(tmp_path, offsets, made) as again:
        again.turns()
        lost = len(SUBSCRIBED) + MANY - answers
        assert len(again.results()) == len(all_at_once(tmp_path / "at-once", made)) - answers - lost
    assert "the rest of the answers to a change of the right table is not sent" in caplog.text


def test_another_change_of_the_same_drain_waits_for_the_rest(tmp_path: Path) -> None:
    """A drain of a cache brings many changes of the right table; nothing is overtaken."""
    cached = {"statestore.cache.max.bytes": 1 << 20}
    changes: list[Given] = [("right", key, 100 + n, None) for n, key in enumerate((b"x", b"y", b"x2"))]
    made = case(joined(materialized=Materialized(name="r")), records=[*SUBSCRIBED, *changes], **cached)
    sent: list[list[Row]] = []
    for in_parts in (False, True):
        with PartsKit(tmp_path / str(in_parts), made, in_parts=in_parts) as kit:
            kit.feed()
            for number in range(len(made.records)):
                kit.turn()
                if number == len(SUBSCRIBED) - 1:
                    kit.commit()
            kit.commit()
            kit.turns()
            sent.append(kit.results())
    assert sent[0] == sent[1]
    assert len(sent[0]) == len(SUBSCRIBED) * 2


def test_a_value_that_cannot_be_written_leaves_nothing_for_later(tmp_path: Path) -> None:
    """Each answer fails in the sink, and is reported there."""
    builder = StreamsBuilder()
    right: Any = builder.table("right", materialized="r").map_values(lambda value: 1)
    left: Any = builder.table("left")
    left.foreign_key_join(right, str, lambda one, other: f"{one} {other}", joined="j").to_stream().to("out")
    handler = {"production.exception.handler": lambda *asked: Response.resume()}
    with PartsKit(tmp_path, case(builder.build(), records=[*SUBSCRIBED, CHANGES[0]], **handler)) as kit:
        kit.feed()
        kit.turns()
        assert kit.dropped == MANY


def test_a_damaged_row_names_its_store(tmp_path: Path) -> None:
    made = case(joined())
    with PartsKit(tmp_path, made) as kit:
        offsets = until_a_part_is_left(kit)
        kit.store("j-subscription-store").put(unanswered_key(0), (b"?", 0))
        kit.commit()
    with pytest.raises(StoreError, match="store 'j-subscription-store' has a damaged row: not a row of a change"):
        next_life(tmp_path, offsets, made)


def test_a_right_value_that_cannot_be_read_any_more_is_an_error_of_the_change(tmp_path: Path) -> None:
    """As after a deployment with another serde."""
    with PartsKit(tmp_path, case(joined())) as kit:
        offsets = until_a_part_is_left(kit)
    other = case(joined(serde=Serdes.LONG))
    with next_life(tmp_path, offsets, other) as again, pytest.raises(ProcessingError) as raised:
        again.turns()
    assert raised.value.place()["node"] == "j-foreign-join-subscription"
