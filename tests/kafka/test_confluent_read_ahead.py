"""What was fetched of paused partitions: kept in order, given out in turns, and bounded."""

from __future__ import annotations

import random
from collections.abc import Collection

from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.read_ahead import MESSAGE_BYTES, ReadAhead
from streams.testing.broker.messages import ErrorInfo, LogRecord, PartitionEvent

A, B, C = (TopicPartition("t", number) for number in range(3))


def records(partition: TopicPartition, first: int, end: int, size: int = 0) -> list[LogRecord]:
    made = [LogRecord(*partition, None, bytes(size), (1, 5), None) for _ in range(first, end)]
    for offset, record in enumerate(made, first):
        record.log_offset = offset
    return made


class Kit:
    def __init__(self, limit: int = 10**9) -> None:
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self.ahead = ReadAhead(limit, self.note("stop"), self.note("fetch"))

    def note(self, call: str):  # type: ignore[no-untyped-def]
        def noted(partitions: Collection[TopicPartition]) -> None:
            self.calls.append((call, sorted(partitions)))

        return noted


def places(messages: list[LogRecord]) -> list[tuple[int, int]]:
    return [(message.partition(), message.offset()) for message in messages]


def test_what_is_paused_is_kept_and_the_rest_passes() -> None:
    ahead = Kit().ahead
    assert not ahead.active
    ahead.pause([A])
    assert ahead.active
    passed = ahead.keep([*records(A, 0, 3), *records(B, 0, 2), *records(A, 3, 5)])
    assert places(passed) == [(1, 0), (1, 1)]
    assert ahead.take(10) == []
    assert ahead.next_offset(A) == 0
    assert ahead.next_offset(B) is None
    ahead.resume([A])
    assert places(ahead.take(4)) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert ahead.next_offset(A) == 4
    assert ahead.active
    assert places(ahead.keep(records(A, 5, 6))) == []  # behind what is kept
    assert places(ahead.take(4)) == [(0, 4), (0, 5)]
    assert not ahead.active


def test_events_keep_their_place() -> None:
    ahead = Kit().ahead
    ahead.pause([A])
    end = PartitionEvent(*A, 2, ErrorInfo("_PARTITION_EOF"))
    assert ahead.keep([end, *records(A, 2, 4)]) == []
    assert ahead.next_offset(A) == 2
    ahead.resume([A])
    assert places(ahead.take(9)) == [(0, 2), (0, 2), (0, 3)]


def test_what_is_about_no_partition_passes() -> None:
    ahead = Kit().ahead
    ahead.pause([A])
    event = PartitionEvent(None, None, -1, ErrorInfo("UNKNOWN"))  # type: ignore[arg-type]
    assert ahead.keep([event]) == [event]


def test_partitions_take_turns() -> None:
    ahead = Kit().ahead
    ahead.keep_all([*records(A, 0, 4), *records(B, 0, 4)])
    assert places(ahead.take(2)) == [(0, 0), (0, 1)]
    assert places(ahead.take(2)) == [(1, 0), (1, 1)]
    assert places(ahead.take(9)) == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_what_is_left_or_sought_is_thrown_away() -> None:
    ahead = Kit().ahead
    ahead.pause([A, B])
    ahead.keep([*records(A, 0, 4), *records(B, 0, 4)])
    ahead.clear([A])
    ahead.forget([B])
    assert places(ahead.keep([*records(A, 8, 9), *records(B, 8, 9)])) == [(1, 8)]
    ahead.resume([A])
    assert places(ahead.take(9)) == [(0, 8)]
    assert not ahead.active


def test_too_much_stops_those_that_have_more_than_their_part() -> None:
    """They are fetched again when half of that is left, before the rest is processed."""
    kit = Kit(limit=100 * (MESSAGE_BYTES + 100))
    ahead = kit.ahead
    ahead.pause([A, B])
    ahead.keep([*records(A, 0, 80, 100), *records(B, 0, 20, 100)])
    assert kit.calls == []
    ahead.keep(records(B, 20, 21, 100))
    assert kit.calls == [("stop", [A])]
    ahead.keep(records(B, 21, 22, 100))
    ahead.resume([A])
    assert len(ahead.take(54)) == 54
    assert kit.calls == [("stop", [A])]
    assert len(ahead.take(1)) == 1  # 25 are left, of a part of 50
    assert kit.calls == [("stop", [A]), ("fetch", [A])]


def test_a_stopped_partition_is_fetched_again_once_it_is_left() -> None:
    kit = Kit(limit=1)
    kit.ahead.pause([A])
    kit.ahead.keep(records(A, 0, 5))
    kit.ahead.forget([A])
    assert kit.calls == [("stop", [A]), ("fetch", [A])]


def test_nothing_is_lost_or_reordered_in_random_turns() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        kit = Kit(limit=chance.choice([3, 10, 10**6]) * MESSAGE_BYTES)
        ahead, fetched, paused = kit.ahead, dict.fromkeys((A, B, C), 0), set[TopicPartition]()
        got: dict[TopicPartition, list[int]] = {A: [], B: [], C: []}
        while min(fetched.values()) < 60 or any(len(got[one]) < fetched[one] for one in got):
            stopped: set[TopicPartition] = set()
            for call, partitions in kit.calls:
                (stopped.update if call == "stop" else stopped.difference_update)(partitions)
            messages = []
            for partition in (A, B, C):
                if partition not in stopped and fetched[partition] < 60:
                    count = chance.randrange(4)
                    messages += records(partition, fetched[partition], fetched[partition] + count)
                    fetched[partition] += count
            if ahead.active:
                found = ahead.take(chance.randrange(1, 6)) + ahead.keep(messages)
            else:
                found = messages
            for message in found:
                partition = TopicPartition(message.topic(), message.partition())
                assert partition not in paused
                got[partition].append(message.offset())
            change = chance.choice((A, B, C))
            (ahead.resume if change in paused else ahead.pause)([change])
            paused ^= {change}
        assert all(offsets == list(range(len(offsets))) for offsets in got.values())
