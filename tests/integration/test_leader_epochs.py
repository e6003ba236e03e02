"""A leader that was elected again is asked as before."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from integration_support.topics import Topics
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent import ConfluentClients
from tools.kafka.broker import Broker
from waiting import wait_until

SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
FROZEN_S = 6.0


def is_over(time_s: float) -> bool:
    return time.monotonic() > time_s


@pytest.mark.integration
def test_ends_of_logs_are_known_after_a_pause_of_the_broker(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str]
) -> None:
    """The controller fences a broker that stood still for longer than its session, and elects the leaders again. The
    admin client was refused with the leader epochs that it knew, for minutes."""
    broker = start_broker(SESSION)
    place = TopicPartition(Topics(broker.bootstrap, unique_name).create("lines"), 0)
    with closing(ConfluentClients(broker.bootstrap).admin({})) as admin:

        def ends() -> dict[TopicPartition, int] | None:
            try:
                return admin.log_ends([place])
            except RetryableError as error:
                refused.append(error.message)
                return None

        refused: list[str] = []
        assert ends() == {place: 0}
        for _ in range(2):
            broker.freeze()
            over_at = time.monotonic() + FROZEN_S
            try:
                wait_until("the broker's session is over", partial(is_over, over_at))
            finally:
                broker.thaw()
            for _ in range(20):  # also when the controller has fenced the broker, which comes a moment later
                wait_until("the ends are known", ends)
        assert not [text for text in refused if "FENCED_LEADER_EPOCH" in text]
        assert admin.topic_ids([place.topic]).keys() == {place.topic}
        assert admin.group_members(unique_name("group")) == []
