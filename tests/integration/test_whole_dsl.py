"""An application of all kinds of stateful operators, of which a worker is killed, gives what the test driver gives."""

from __future__ import annotations

import importlib.util
import itertools
import random
import time
from collections import Counter
from typing import Any, NamedTuple

import pytest

from integration_support.topics import Reader, Topics
from integration_support.workers import APPS, Workers
from processor_api.topology.partitioner import partition_for_key
from streams import Serdes, Topology
from streams.testing import TopologyTestDriver
from waiting import wait_until

TEXT = Serdes.STRING
PARTITIONS = 4
ORDERS = 500
PAYMENTS = 300
LATE_MS = 15
"""How much a record may come after a later one: less than the grace periods and the window of the join, so that none is
late, whether stream time is that of a partition or of all."""
SETTINGS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": 100,
    "max.poll.records": 50,
    "max.task.idle.ms": 1000,
    "consumer.session.timeout.ms": 6000,
    "consumer.heartbeat.interval.ms": 500,
    "auto.offset.reset": "earliest",
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
}
KEYS = [
    next(key for n in itertools.count() if partition_for_key((key := f"edge-{n}").encode(), PARTITIONS) == partition)
    for partition in range(PARTITIONS)
]
"""One of each partition."""


class Given(NamedTuple):
    arrival: int
    topic: str
    key: str
    value: str | None
    time: int


def drawn(first: int) -> list[Given]:
    """In the order in which they come, from a time on.

    Orders and payments are out of order a little, and some come twice; rates and regions change, regions go. No time is
    that of records of two topics that are joined. The last records of each partition close all windows.
    """
    chance = random.Random(5)
    found = []
    length = 3 * ORDERS
    for number in range(ORDERS):
        at = chance.randrange(0, length, 3)
        region = chance.choice(["north", "south", "west", "nowhere"])
        order = Given(at + chance.randrange(LATE_MS), "orders", f"c{chance.randrange(12)}", f"{number}:{region}", at)
        found += [order] * chance.choice([1, 1, 2])
    for number in range(PAYMENTS):
        at = chance.randrange(1, length, 3)
        found.append(
            Given(at + chance.randrange(LATE_MS), "payments", f"c{chance.randrange(12)}", f"paid-{number}", at)
        )
    for number in range(60):
        at = chance.randrange(2, length, 3)
        found.append(Given(at, "rates", f"c{chance.randrange(12)}", f"rate-{number}", at))
        name = chance.choice([f"Region {number}", None])
        found.append(Given(at, "regions", chance.choice(["north", "south", "west"]), name, at))
    for key in KEYS:
        found.append(Given(length // 2, "orders", key, "wait:middle", length // 2))
        for end in (100_000, 200_000):
            found += [Given(end, topic, key, f"end-{end}", end) for topic in ("orders", "payments")]
    starts = [Given(-1, "orders", key, "wait:start", 0) for key in KEYS]
    return [one._replace(time=first + one.time) for one in sorted([*starts, *found], key=lambda one: one.arrival)]


def app_topology(monkeypatch: pytest.MonkeyPatch, names: dict[str, str]) -> Topology:
    for kind, name in names.items():
        monkeypatch.setenv(kind.upper(), name)
    spec = importlib.util.spec_from_file_location("whole_dsl", APPS / "whole_dsl.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Topology = module.topology().build()
    return made


Events = Counter[tuple[str, str]]


def expected(made: Topology, names: dict[str, str], given_records: list[Given]) -> tuple[Events, dict[str, Any]]:
    """What the test driver gives: all events, and the last value of each row."""
    with TopologyTestDriver(made, {name: SETTINGS[name] for name in SETTINGS if name.startswith("__")}) as driver:
        topics = {kind: driver.create_input_topic(name, TEXT, TEXT) for kind, name in names.items()}
        for one in given_records:
            topics[one.topic].pipe_input(one.key, one.value, timestamp=one.time)
        events = driver.create_output_topic(names["events"], TEXT, TEXT).read_key_values()
        rows = driver.create_output_topic(names["tables"], TEXT, TEXT).read_key_values_to_map()
    return Counter(events), rows


def told(reader: Reader) -> Events:
    return Counter((key, value) for key, values in reader.values.items() for value in values)  # type: ignore[misc]


def without_nulls(rows: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in rows.items() if value is not None}


def send(topics: Topics, names: dict[str, str], given_records: list[Given]) -> None:
    for kind in ("regions", "rates", "payments", "orders"):
        topics.send_timed(names[kind], [(one.key, one.value, one.time) for one in given_records if one.topic == kind])


@pytest.mark.slow
def test_two_workers_of_which_one_is_killed_give_what_the_driver_gives(
    topics: Topics, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows, sessions, an outer join, a foreign-key join, a suppression, a versioned table, a cogroup, a
    deduplication and batches, exactly once. The worker dies in the middle of its input, and comes back."""
    kinds = ("orders", "payments", "rates", "regions", "events", "tables")
    names = {kind: topics.create(kind, PARTITIONS) for kind in kinds}
    given_records = drawn(int(time.time() * 1000) - 3_600_000)
    events, rows = expected(app_topology(monkeypatch, names), names, given_records)
    gates = workers.folder / "gates"
    gates.mkdir()
    env = {**{kind.upper(): name for kind, name in names.items()}, "GATES": str(gates)}
    running = [workers.start("whole_dsl:topology", settings=SETTINGS, env=env) for _ in range(2)]
    for worker in running:
        worker.wait_for("task runs")
    starts = [one for one in given_records if one.value == "wait:start"]
    send(topics, names, starts)
    wait_until("a worker waits at its first record", lambda: any(gates.glob("start-*")))
    send(topics, names, [one for one in given_records if one not in starts])  # all of it, so that time decides
    (gates / "start").touch()
    victim = wait_until(
        "a worker is in the middle", lambda: [w for w in running if (gates / f"middle-{w.pid}").exists()]
    )
    victim[0].kill()
    (gates / "middle").touch()
    again = workers.start("whole_dsl:topology", settings=SETTINGS, env=env)
    with topics.reader(names["events"]) as seen, topics.reader(names["tables"]) as table:
        seen.until("all events are there", lambda found: told(found) >= events, tell=lambda: events - told(seen))
        last = without_nulls(rows)
        table.until(
            "all rows are there",
            lambda found: without_nulls(found.latest) == last,
            tell=lambda: without_nulls(table.latest).items() ^ last.items(),
        )
        again.wait_for("task runs")
        for worker in (*(one for one in running if one is not victim[0]), again):
            worker.stop()
        for reader in (seen, table):
            reader.to_end()
        assert told(seen) == events
        assert without_nulls(table.latest) == last
