"""Records what an application of Kafka Streams whose keys and values are Avro leaves: topics, offsets and schemas.

    python -m tools.golden.avro_changelogs

The application is ``shop.Totals`` in ``tests/golden/recorder``; it adds up the orders of a first phase, at least once,
on a broker and a registry of its own. Needs a JDK (17 or later) and Maven. ``tests/golden/test_avro_changelogs.py``
continues from what it leaves.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from tools.apicurio import Apicurio
from tools.kafka.quick_broker import QuickBroker
from tools.maven import JavaError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from integration_support.avro_totals import MINUTE_MS, PARTITIONS, TOPICS, AvroTotals  # noqa: E402
from integration_support.topics import Topics  # noqa: E402
from integration_support.workers import Workers  # noqa: E402
from runtime_support.kept_cluster import as_fields  # noqa: E402
from streams import SchemaRegistry  # noqa: E402
from streams.registry.client import RegistryClient  # noqa: E402

__all__ = ["APPLICATION", "RECORDED", "main"]

APPLICATION = "shop"
RECORDED = ROOT / "tests" / "golden" / "avro"
"""The folder of the recording, as :func:`runtime_support.kept_cluster.load` takes it."""


def main() -> int:
    """Runs the application, and writes the recording."""
    first = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS
    try:
        with QuickBroker() as broker, Apicurio() as registry, tempfile.TemporaryDirectory() as folder:
            workers = Workers(Path(folder), broker.bootstrap, APPLICATION)
            topics = Topics(broker.bootstrap, lambda kind: kind)
            names = {kind: topics.create(kind, PARTITIONS) for kind in TOPICS}
            app = AvroTotals(topics, workers, "at_least_once", names, registry.url, first)
            with closing(workers), app.readers() as readers:
                app.run_java(Path(folder) / "state", readers)
            found = {"first": first, **_cluster(broker.bootstrap), "schemas": _schemas(registry.url)}
    except JavaError as error:
        raise SystemExit(str(error)) from None
    RECORDED.mkdir(exist_ok=True)
    text = json.dumps(found, sort_keys=True)
    (RECORDED / "cluster.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return 0


def _cluster(bootstrap: str) -> dict[str, Any]:
    """Returns topics with their settings and records, and the offsets of the application."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"bootstrap.servers": bootstrap, "group.id": APPLICATION, "enable.auto.commit": False}
    topics: dict[str, Any] = {}
    offsets = []
    with closing(Consumer({**settings, "enable.partition.eof": True})) as consumer:
        for name, topic in sorted(consumer.list_topics(timeout=60).topics.items()):
            if name.startswith("__"):
                continue
            resource = ConfigResource(ConfigResource.Type.TOPIC, name)
            configs = admin.describe_configs([resource])[resource].result(60)
            own = {
                one.name: one.value for one in configs.values() if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            }
            places = [TopicPartition(name, number) for number in sorted(topic.partitions)]
            topics[name] = {"id": name, "configs": own, "partitions": [_log(consumer, place) for place in places]}
            committed = consumer.committed(places, timeout=60)
            offsets += [
                [one.topic, one.partition, one.offset, one.metadata or ""] for one in committed if one.offset >= 0
            ]
    return {"topics": topics, "groups": {APPLICATION: offsets}}


def _log(consumer: Consumer, place: TopicPartition) -> dict[str, Any]:
    start, end = consumer.get_watermark_offsets(place, timeout=60)
    consumer.assign([TopicPartition(place.topic, place.partition, start)])
    records: list[Any] = []
    while len(records) < end - start:  # at least once, so that there are no markers of transactions
        message = consumer.poll(60)
        if message is None:
            raise SystemExit(f"{place.topic} cannot be read to its end")
        if message.error() is None:
            records.append(message)
    return {"start": start, "end": end, "records": list(map(as_fields, records))}


def _schemas(url: str) -> list[list[Any]]:
    """Returns subject, id and schema of each registration, in the order of their ids."""
    client: RegistryClient = SchemaRegistry(url).client
    found = [client.version(subject, version) for subject in client.subjects() for version in client.versions(subject)]
    return sorted([one.id, one.subject, one.schema.text] for one in found)


if __name__ == "__main__":
    sys.exit(main())
