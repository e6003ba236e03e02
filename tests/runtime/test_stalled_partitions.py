"""A partition that the client does not deliver, without a word: it looked as if it had no records."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.task_id import TopicPartition
from runtime_support.failing_clients import trapped
from runtime_support.running_app import Cluster, JumpingClock, passing_on
from streams.app.states import ClientState
from streams.kafka.ports import Consumer
from streams.observing.diagnosis import why_no_output
from streams.runtime.threads.undelivered import AGAIN_S, QUIET_S, STALLED_S
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from waiting import wait_until

IN = TopicPartition("in", 0)
NOT_READ, READ = "partition is not read", "partition is read again"


class RememberingClients(EmbeddedClients):
    """Clients whose consumers a test can reach."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker)
        self.consumers: list[Consumer] = []

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        self.consumers.append(super().consumer(config))
        return self.consumers[-1]

    def reader(self) -> Consumer:
        return next(one for one in self.consumers if IN in one.assignment())


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.msg.startswith(text)]


def test_a_partition_that_the_client_stops_is_named_and_counted_and_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = JumpingClock()
    caplog.set_level(logging.INFO, "streams")
    with Cluster(tmp_path, clients=RememberingClients) as cluster:
        app = cluster.start(passing_on(), clock=clock)
        cluster.send("a")
        cluster.until_out("a")
        assert app.is_ready()
        reader = cluster.clients.reader()
        reader.pause([IN])
        cluster.send("b")

        def is_not_ready() -> bool:
            clock.ahead_s += 1
            return not app.is_ready()

        wait_until("it is not ready", is_not_ready)
        (told,) = lines(caplog, NOT_READ)
        assert (told.topic, told.partition, told.position, told.end) == ("in", 0, 1, 2)  # type: ignore[attr-defined]
        (found,) = app.status().tasks[0].partitions
        assert found.stalled
        assert [one.cause for one in why_no_output(app.status())][:1] == ["stalled"]
        counted = [one.metric_value() for name, one in app.metrics().items() if name.name == "stalled-partitions"]
        assert counted == [1]
        clock.ahead_s += AGAIN_S
        wait_until("it is named again", lambda: len(lines(caplog, NOT_READ)) == 2)
        reader.resume([IN])
        cluster.until_out("a", "b")
        clock.ahead_s += QUIET_S
        wait_until("it is ready", app.is_ready)
        wait_until("it is said that it is read again", lambda: lines(caplog, READ))
        assert app.state is ClientState.RUNNING


def test_a_partition_whose_end_is_not_reported_is_not_stalled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The client loses that event where partitions are removed at the same time."""
    clock, asked = JumpingClock(), []
    trap = trapped(lambda call: asked.append(call) if call == "end_offsets" else None, deaf=True)
    caplog.set_level(logging.INFO, "streams")
    with Cluster(tmp_path, clients=trap) as cluster:
        app = cluster.start(passing_on(), clock=clock)
        cluster.send("a")
        cluster.until_out("a")
        asked.clear()
        for count in range(1, 4):
            clock.ahead_s += STALLED_S + 1
            wait_until("the end is requested", lambda count=count: len(asked) >= count)  # type: ignore[misc]
        assert app.is_ready()
        assert not lines(caplog, NOT_READ)
