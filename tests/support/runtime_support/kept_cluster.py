"""The topics and offsets of an embedded broker as text, and an application of all kinds of operators on it.

As a program it records the state that a release leaves, or goes on with it; run it with the code of that release first
on the path:

    PYTHONPATH=<clone of the release>:tests/support python -m runtime_support.kept_cluster first FOLDER
    PYTHONPATH=<clone of another>:tests/support python -m runtime_support.kept_cluster second FOLDER
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import os
import random
import sys
import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processor_api.task_id import TopicPartition
from processor_api.topology.partitioner import partition_for_key
from streams.kafka.ports import OffsetAndMetadata
from streams.testing import EmbeddedKafka, TopologyTestDriver
from streams.testing.broker.messages import LogRecord
from waiting import wait_until

__all__ = [
    "APPLICATION",
    "INPUTS",
    "OUTPUTS",
    "as_fields",
    "drawn",
    "expected",
    "keep",
    "load",
    "run",
    "topology",
    "unpack",
]

APPLICATION = "shop"
INPUTS = ("orders", "payments", "rates", "regions")
OUTPUTS = ("events", "tables")
APPS = Path(__file__).resolve().parents[2] / "integration" / "apps"
SPURIOUS = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
SETTINGS = {"commit.interval.ms": 50, "max.task.idle.ms": 40, SPURIOUS: 0, "statestore.cache.max.bytes": 0}
"""Settings by which results depend on the times of records only."""
KEYS = [next(k for n in range(99) if partition_for_key((k := f"edge-{n}").encode(), 2) == one) for one in range(2)]
"""A key of each partition."""
Given = tuple[str, str, str | None, int]


def topology(app: str = "whole_dsl", topics: Sequence[str] = (*INPUTS, *OUTPUTS)) -> Any:
    """Returns the topology of an application of the integration tests, over topics that are called as they are."""
    for name in topics:
        os.environ[name.upper()] = name
    spec = importlib.util.spec_from_file_location(f"{app}_kept", APPS / f"{app}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # whose classes name their types by text
    spec.loader.exec_module(module)
    return module.topology().build()


def drawn(half: int, count: int = 150) -> list[Given]:
    """Returns the records of one of two halves, in the order of their times, deletions among them; those at the end of
    the second one close all windows of each partition."""
    chance, found = random.Random(half), list[Given]()
    for number in range(half * count, (half + 1) * count):
        topic = chance.choice(("orders", "orders", "payments", "rates", "regions"))
        region, at = chance.choice(("north", "south", "west")), 10_000 + number * 4
        if topic == "regions":
            found.append((topic, region, chance.choice((f"Region {number}", None)), at))
        else:
            value = f"{number}:{region}" if topic == "orders" else f"{topic}-{number}"
            found.append((topic, f"c{chance.randrange(9)}", value, at))
    if half == 1:
        ends = [(topic, key, at) for at in (100_000, 200_000) for key in KEYS for topic in ("orders", "payments")]
        found += [(topic, key, f"end-{at}", at + place) for place, (topic, key, at) in enumerate(ends)]
    return found


def expected(given: list[Given]) -> tuple[Counter[tuple[str, str]], dict[str, str | None]]:
    """Returns what the test driver gives: all events, and the last value of each row."""
    with TopologyTestDriver(topology(), {SPURIOUS: 0}) as driver:
        topics = {name: driver.create_input_topic(name, "string", "string") for name in INPUTS}
        for topic, key, value, at in given:
            topics[topic].pipe_input(key, value, timestamp=at)
        events = driver.create_output_topic("events", "string", "string").read_key_values()
        return Counter(events), driver.create_output_topic("tables", "string", "string").read_key_values_to_map()


def run(kafka: EmbeddedKafka, state_dir: Path, given: list[Given], **settings: Any) -> Any:
    """Runs the application on some records until all of them, and what it wrote for itself, are read; returns what
    stands in its output topics as :func:`expected` does."""
    topics = {name: kafka.create_input_topic(name, "string", "string") for name in INPUTS}
    for topic, key, value, at in given:
        topics[topic].pipe_input(key, value, timestamp=at)
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = {**SETTINGS, **named, "application.id": APPLICATION, "state.dir": str(state_dir)}
    app = kafka.start(lambda _: topology(), config)
    wait_until("all is read", lambda: app.failure is not None or not unread(kafka), lambda: unread(kafka))
    app.close()
    if app.failure is not None:
        raise app.failure
    records = [one for name in OUTPUTS for log in kafka.broker.topics[name].partitions for one in committed(log)]
    texts = [(one.topic(), one.key().decode(), one.value() and one.value().decode()) for one in records]
    events = Counter((key, value) for topic, key, value in texts if topic == "events")
    return events, {key: value for topic, key, value in texts if topic == "tables"}


def committed(log: Any, begin: int = 0) -> list[Any]:
    records, position = [], max(begin, log.start_offset)
    while run := log.read(position, 10_000, True)[0]:
        records += run
        position = run[-1].offset() + 1
    return records


def unread(kafka: EmbeddedKafka) -> list[str]:
    """Returns the inputs of which the application has not committed all records."""
    with kafka.broker.lock:
        offsets = kafka.broker.groups.group(APPLICATION).offsets
        read = [n for n in kafka.broker.topics if n in INPUTS or n.endswith(("-repartition", "-topic"))]
        logs = [log for name in read for log in kafka.broker.topics[name].partitions]
        starts = {place: one.offset for place, one in offsets.items()}
        return [log.topic for log in logs if committed(log, starts.get(TopicPartition(log.topic, log.partition), 0))]


# ---------------------------------------------------------------------- as text


def keep(kafka: EmbeddedKafka, folder: Path) -> None:
    """Writes topics and offsets into a folder. There must have been no transaction."""
    broker = kafka.broker
    with broker.lock:
        topics = {
            name: {
                "id": topic.id,
                "configs": topic.configs,
                "partitions": [
                    {"start": log.start_offset, "end": log.end_offset, "records": list(map(as_fields, committed(log)))}
                    for log in topic.partitions
                ],
            }
            for name, topic in broker.topics.items()
        }
        groups = {
            name: [[*place, *one] for place, one in sorted(broker.groups.group(name).offsets.items())]
            for name in (APPLICATION,)
        }
    text = json.dumps({"topics": topics, "groups": groups}, sort_keys=True)
    (folder / "cluster.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def load(kafka: EmbeddedKafka, folder: Path) -> None:
    """Makes the topics and offsets that are in a folder."""
    broker, kept = kafka.broker, json.loads(gzip.decompress((folder / "cluster.json.gz").read_bytes()))
    for name, topic in kept["topics"].items():
        broker.create_topic(name, len(topic["partitions"]), topic["configs"])
        with broker.lock:
            made = broker.topics[name]
            made.id = topic["id"]
            for log, of in zip(made.partitions, topic["partitions"], strict=True):
                log.append([LogRecord(name, log.partition, b"-", b"", (0, 0), None)] * of["start"])
                log.delete_before(of["start"])
                log.append([_record(name, log.partition, one) for one in of["records"]])
                assert log.end_offset == of["end"], "a log with gaps"
    for name, offsets in kept["groups"].items():
        with broker.lock:
            broker.groups.group(name).offsets.update(
                {TopicPartition(t, p): OffsetAndMetadata(offset, text) for t, p, offset, text in offsets}
            )


def unpack(folder: Path, state_dir: Path) -> None:
    """Puts the state directory that is in a folder in its place."""
    with tarfile.open(folder / "state.tar.gz") as archive:
        archive.extractall(state_dir, filter="data")


def as_fields(one: Any) -> list[Any]:
    """Returns what is kept of a record, or of a message of a client."""
    headers = [[name, _base64(value)] for name, value in one.headers() or ()]
    return [_base64(one.key()), _base64(one.value()), list(one.timestamp()), headers]


def _record(topic: str, partition: int, fields: list[Any]) -> LogRecord:
    key, value, stamp, headers = fields
    given = [(name, _bytes(value)) for name, value in headers] or None
    return LogRecord(topic, partition, _bytes(key), _bytes(value), (stamp[0], stamp[1]), given)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def main(half: str, folder: Path) -> None:
    """Records the state after the first half, or checks the results of the second one."""
    import streams

    state_dir = folder / "state"
    with EmbeddedKafka(folder / "unused") as kafka:
        if half == "first":
            for name in (*INPUTS, *OUTPUTS):
                kafka.create_topics(name, partitions=2)
            found = run(kafka, state_dir, drawn(0))
            keep(kafka, folder)
            with tarfile.open(folder / "state.tar.gz", "w:gz") as archive:
                archive.add(state_dir, ".")
        else:
            load(kafka, folder)
            found = run(kafka, state_dir, drawn(1))
            assert found == expected([*drawn(0), *drawn(1)])
    print(
        f"{half} half by the code in {Path(streams.__file__).parent}: {found[0].total()} events, {len(found[1])} rows"
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
