"""Commits of a member, and reads of what is committed, do not wait for what its client waits for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from integration_support.members import Listener, join
from integration_support.topics import Topics
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent import ConfluentClients
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.ports import OffsetAndMetadata
from waiting import wait_until

POLLS = """
import json, sys
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
"""
PREPARING = "preparing_rebalance"
COMMITS = 40


def test_commits_go_on_while_a_rebalance_waits_for_a_dead_member(
    kafka: str, unique_name: Callable[[str], str], topics: Topics
) -> None:
    """A commit was sent behind the request to join, which the broker answers when the session of the dead one is over.
    At least once, all tasks of all members stood still for so long. So was the request for committed offsets: exactly
    once, where a rebalance aborts a transaction, tasks that went back waited for the other members."""
    topic, group = topics.create("lines", 4), unique_name("group")
    common: dict[str, Any] = {
        "bootstrap.servers": kafka,
        "group.id": group,
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 40_000,
        "heartbeat.interval.ms": 200,
    }
    admin = ConfluentClients(kafka).admin({})
    with ExitStack() as consumers:

        def member(**settings: Any) -> ConfluentConsumer:
            made = ConfluentConsumer({**common, **settings})
            consumers.callback(made.close)
            return made

        living, comes = member(), member()
        place = join(living, topic)
        dies = subprocess.Popen([sys.executable, "-c", POLLS, json.dumps(common), topic])
        consumers.callback(dies.wait)
        consumers.callback(dies.kill)

        def both() -> bool:
            living.poll(0.05)
            info = admin.describe_group(group)
            return info.state == "stable" and sum(bool(one.partitions) for one in info.members) == 2

        wait_until("both are members", both, lambda: admin.describe_group(group), pauses=False)
        dies.kill()
        comes.subscribe([topic], Listener())

        committed: list[int] = []
        nowhere = TopicPartition(topic, 3)

        def many_in_one_rebalance() -> bool:
            comes.poll(0.05)
            with suppress(RetryableError):
                living.poll(0.05)
                if admin.describe_group(group).state != PREPARING:  # such as one that the dead one was part of
                    committed.clear()
                else:
                    offset = OffsetAndMetadata(len(committed), "text")
                    living.commit({place: offset})
                    assert living.committed([place, nowhere]) == {place: offset}
                    committed.append(offset.offset)
            return len(committed) == COMMITS

        wait_until("commits go on in a rebalance that waits", many_in_one_rebalance, lambda: committed, pauses=False)
        assert admin.group_offsets(group, [place])[place].offset == COMMITS - 1
    admin.close()
