"""A broker whose disk is an older copy: logs lost their ends, and have grown again past the offsets of a worker."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from integration_support.topics import Topics
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.confluent import ConfluentClients
from tools.kafka.broker import Broker
from waiting import wait_until

S = Serdes.STRING


class Aged:
    """A broker for one application, and copies of its logs."""

    def __init__(self, broker: Broker, topics: Topics, root: Path, guarantee: str) -> None:
        self.broker = broker
        self.topics = topics
        self.root = root
        self.application = "truncated"
        self.changelog = f"{self.application}-counts-changelog"
        self.given, self.counts = topics.create("in"), topics.create("out")
        self._guarantee = guarantee

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        counts = (
            builder.stream(self.given, Consumed(key_serde=S, value_serde=S))
            .group_by_key(Grouped(key_serde=S, value_serde=S))
            .count(materialized=Materialized(name="counts"))
        )
        counts.to_stream().map_values(str).to(self.counts, Produced(key_serde=S, value_serde=S))
        return builder.build()

    def count(self, *keys: str, **expected: str) -> None:
        """Runs a worker on what was sent until now and some more records, until the last count of keys is as expected;
        closes it."""
        settings = {
            "application.id": self.application,
            "bootstrap.servers": self.broker.bootstrap,
            "processing.guarantee": self._guarantee,
            "state.dir": str(self.root / "state"),
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 0,
        }
        self.topics.send(self.given, [(key, "x") for key in keys])
        app = KafkaStreams(self.topology(), settings)
        app.start()
        try:
            with self.topics.reader(self.counts) as reader:
                reader.until(f"{expected}", lambda found: expected.items() <= dict(found.latest).items())
            assert app.state is ClientState.RUNNING
        finally:
            assert app.close(60)

    def folder(self, topic: str) -> Path:
        return self.broker.folder / "data" / f"{topic}-0"

    def keep(self, topic: str) -> None:
        """Copies the log of a topic as it is now."""
        self.broker.stop()
        shutil.copytree(self.folder(topic), self.root / topic)
        self.broker.start()

    def lose(self, topic: str, rows: Mapping[str, bytes]) -> None:
        """Puts the copy back, and writes other records than those that are gone, and more."""
        self.broker.stop()
        shutil.rmtree(self.folder(topic))
        shutil.copytree(self.root / topic, self.folder(topic))
        self.broker.start()
        with closing(ConfluentClients(self.broker.bootstrap).producer({})) as producer:
            for key, value in rows.items():
                producer.produce(topic, value, key.encode(), 0, None, None, 5, None)
            assert producer.flush(60)


@pytest.fixture(name="aged", params=[pytest.param("at_least_once", marks=pytest.mark.slow), "exactly_once_v2"])
def aged_fixture(
    start_broker: Callable[..., Broker],
    unique_name: Callable[[str], str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> Aged:
    caplog.set_level(logging.INFO, "streams")
    broker = start_broker()
    return Aged(broker, Topics(broker.bootstrap, unique_name), tmp_path, request.param)


OTHERS = {"a": (70).to_bytes(8, "big"), **{f"other-{number}": (7).to_bytes(8, "big") for number in range(12)}}


def test_a_complete_store_is_written_into_a_changelog_of_a_broker_with_an_older_disk(
    aged: Aged, caplog: pytest.LogCaptureFixture
) -> None:
    aged.count("a", "b", a="1", b="1")
    aged.keep(aged.changelog)
    aged.count("a", "a", "c", a="3", c="1")
    aged.lose(aged.changelog, OTHERS)
    aged.count("a", "other-1", a="4", **{"other-1": "1"})
    assert "store is written back into its changelog: it has lost records" in caplog.messages
    caplog.clear()
    shutil.rmtree(aged.root / "state")
    aged.count("a", "b", "c", "other-1", a="5", b="2", c="2", **{"other-1": "2"})
    assert not [text for text in caplog.messages if "its changelog" in text]


def test_an_older_store_is_rebuilt_and_an_input_read_from_where_it_differs(
    aged: Aged, caplog: pytest.LogCaptureFixture
) -> None:
    aged.count("a", "b", a="1", b="1")
    aged.keep(aged.changelog)
    aged.keep(aged.given)
    aged.count("c", "d", "e", c="1", d="1", e="1")
    shutil.copytree(aged.root / "state", aged.root / "older")
    aged.count("f", f="1")
    shutil.rmtree(aged.root / "state")
    shutil.copytree(aged.root / "older", aged.root / "state")
    aged.lose(aged.changelog, OTHERS)
    # Six offsets were committed, and the log has two of these records.
    aged.lose(aged.given, dict.fromkeys(("a", "b", "c", "other-1", "g", "h", "i"), b"x"))
    wait_until("the broker is there", lambda: aged.topics.names())
    aged.count(a="71", b="2", c="1", g="1", h="1", i="1", **{"other-1": "8"})
    assert "store is rebuilt from its changelog: that has lost records which the store has" in caplog.messages
    (line,) = [one for one in caplog.records if "its log was truncated" in one.msg]
    assert (line.offset, line.goes_on_at) == (6, 2)  # type: ignore[attr-defined]
