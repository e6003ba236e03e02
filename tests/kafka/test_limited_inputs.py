"""A consumer with limits shows what is before them, each record once and in order, and an end where the limit is."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata
from streams.log import RepeatedLines
from streams.shadow.limited_inputs import LOOK_S, FixedLimits, FollowedGroup, LimitedConsumer
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

PLACES = [TopicPartition("in", 0), TopicPartition("in", 1)]
OWN = TopicPartition("own", 0)


class StepClock(SystemClock):
    """Goes on by as much as a look takes, each time that it is read."""

    def __init__(self) -> None:
        self._steps = itertools.count()

    def monotonic(self) -> float:  # type: ignore[override]
        return next(self._steps) * LOOK_S


class MovingLimits(FixedLimits):
    """Limits that a test moves, and that cannot be asked at times."""

    def __init__(self) -> None:
        self.now = dict.fromkeys(PLACES, 0)
        self.fails = False
        super().__init__(self.now, {OWN.topic})

    def find(self, places: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        if self.fails:
            raise RetryableError("the coordinator does not answer")
        return super().find(places)


@pytest.fixture
def broker() -> EmbeddedBroker:
    made = EmbeddedBroker()
    made.create_topic("in", 2)
    made.create_topic("own", 1)
    return made


def write(broker: EmbeddedBroker, place: TopicPartition, count: int = 1) -> None:
    producer = EmbeddedClients(broker).producer({})
    for _ in range(count):
        producer.produce(place.topic, b"v", b"k", place.partition, None, None, 1, None)
    producer.flush()
    producer.close()


def limited(broker: EmbeddedBroker, limits: Any) -> LimitedConsumer:
    made = EmbeddedClients(broker).consumer({"group.id": "g", "enable.partition.eof": True})
    return LimitedConsumer(made, limits, StepClock())


def taken(consumer: LimitedConsumer, turns: int = 6) -> Iterator[Any]:
    for turn in range(turns):
        found = list(consumer.consume(3, 0.0)) if turn % 2 else [consumer.poll(0.0)]
        yield from (one for one in found if one is not None)


@pytest.mark.parametrize("seed", range(30))
def test_records_come_once_in_order_and_never_from_behind_the_limit(broker: EmbeddedBroker, seed: int) -> None:
    """Whatever is written, paused, sought and assigned meanwhile, and while the limits cannot be asked."""
    chance, limits = random.Random(seed), MovingLimits()
    consumer = limited(broker, limits)
    consumer.assign(dict.fromkeys([*PLACES, OWN], 0))
    due, written, paused = dict.fromkeys([*PLACES, OWN], 0), dict.fromkeys([*PLACES, OWN], 0), set[TopicPartition]()

    def take() -> None:
        for message in taken(consumer):
            place = TopicPartition(message.topic(), message.partition())
            limit = limits.now.get(place, written[place])
            if message.error() is not None:
                assert message.offset() <= limit
                continue
            assert place not in paused
            assert message.offset() == due[place] < limit
            due[place] += 1

    for _ in range(80):
        place = chance.choice([*PLACES, OWN])
        step = chance.choice(("write", "write", "limit", "limit", "pause", "resume", "seek", "again", "fail"))
        if step == "write":
            written[place] += (count := chance.randrange(1, 6))
            write(broker, place, count)
        elif step == "limit" and place in limits.now:
            limits.now[place] = chance.randint(limits.now[place], max(limits.now[place], written[place]))
        elif step == "pause":
            paused.add(place)
            consumer.pause([place])
        elif step == "resume":
            paused.discard(place)
            consumer.resume([place])
        elif step == "seek":
            due[place] = chance.randint(0, due[place])
            consumer.seek(place, due[place])
        elif step == "again":
            consumer.unassign([place])
            paused.discard(place)
            consumer.assign({place: due[place]})
        elif step == "fail":
            limits.fails = not limits.fails
        take()
    limits.fails = False
    consumer.resume(list(paused))
    paused.clear()
    for _ in range(60):
        take()
    assert due == {**{place: min(limits.now[place], written[place]) for place in PLACES}, OWN: written[OWN]}
    for place in PLACES:
        assert consumer.end_offsets([place])[place] == due[place]
        position = consumer.position(place)
        assert position is None or position >= due[place]
        end = consumer.fetched_end(place)
        assert end is None or end <= due[place]
    consumer.close()


def test_the_limits_are_what_the_other_application_has_committed(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Of an input of which it has committed something; what it does not read has none; without any, nothing is read."""
    broker.create_topic("new", 1)
    clients, new = EmbeddedClients(broker), TopicPartition("new", 0)
    log = logging.getLogger("streams.shadow")
    group = FollowedGroup(clients.admin({}), "shop", {OWN.topic}, ["in"], RepeatedLines(log, SystemClock()))
    places = [*PLACES, new]
    assert group.find(places) == dict.fromkeys(places, 0)
    assert "has committed nothing" in caplog.text
    consumer = clients.consumer({"group.id": "shop"})
    consumer.commit({PLACES[1]: OffsetAndMetadata(7)})
    assert group.find(places) == {PLACES[0]: 0, PLACES[1]: 7, new: float("inf")}
    assert group.find([PLACES[0]]) == {PLACES[0]: 0}
    assert group.is_limited("in")
    assert not group.is_limited("own")
    consumer.close()
    group.close()
