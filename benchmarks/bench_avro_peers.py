"""W1 with Avro in a schema registry, beside Kafka Streams for Java and Quix Streams, by turns on one broker.

    python -m benchmarks avro_peers
    python -m benchmarks avro_peers --records 3000000 --quix-records 300000 --rounds 5

W1 keeps half of the records and adds a field. Input, output and schemas are the same for all; the registry is Apicurio,
with ids as Confluent's, and Java's serde is Apicurio's. Processor seconds count from when an application runs until all
of its input is committed; of each the least of the rounds is shown, and its ratio to that of this library with dicts.
Needs a JDK, Maven and pip, which installs Quix Streams into an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from benchmarks.cluster import Cluster, watch
from benchmarks.first_hour.contestants import QUIX, environment
from streams import Avro, SchemaRegistry
from tools.apicurio import Apicurio
from tools.golden.record import RECORDER, TARGET
from tools.kafka.broker import Broker
from tools.maven import build, class_path, java

HERE = Path(__file__).parent
QUIX_PYTHON = Path(tempfile.gettempdir()) / "streams-avro-quix"
BEGIN_MS = 1_704_067_200_000
KEYS = 100_000
TYPES = ("view", "click", "cart", "purchase")
FIELDS = {
    "id": "long", "user": "string", "type": "string", "amount": "double", "country": "string", "active": "boolean",
    "note": "string",
}  # fmt: skip


def schema(name: str, **more: str) -> str:
    fields = [{"name": one, "type": kind} for one, kind in {**FIELDS, **more}.items()]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields})


ORDER, TOTALLED = schema("Order"), schema("Totalled", total="double")


def orders(records: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(7)
    for number in range(records):
        amount = int(chance.random() * 10_000) / 100
        yield {
            "id": number, "user": f"k{chance.randrange(KEYS):06d}", "type": TYPES[number & 3], "amount": amount,
            "country": "DE", "active": True, "note": "a short free text note",
        }  # fmt: skip


class Rig:
    """The broker, the registry and the runners."""

    def __init__(self, cluster: Cluster, registry: Apicurio) -> None:
        self._cluster, self._url = cluster, registry.url
        own_api = registry.url.replace("/ccompat/v7", "/registry/v2")
        command = [java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"]
        filter_in_java = [*command, class_path(build(RECORDER, TARGET)), "shop.Filter"]
        ours = [sys.executable, "-m", "benchmarks.avro_peers.ours"]
        quix = [environment(QUIX_PYTHON, QUIX.replace("==", "[avro]==")), str(HERE / "avro_peers" / "quix.py")]
        self.commands: dict[str, Callable[..., list[str]]] = {
            "streams, dicts": lambda *words: [*ours, *self._words(*words, self._url), "dict"],
            "streams, dataclasses": lambda *words: [*ours, *self._words(*words, self._url), "dataclass"],
            "Kafka Streams": lambda *words: [*filter_in_java, *self._words(*words, own_api)],
            "Quix Streams": lambda *words: [*quix, *self._words(*words, self._url)],
        }

    def _words(self, group: str, folder: str, source: str, target: str, url: str) -> list[str]:
        return [self._cluster.bootstrap, group, folder, url, source, target, TOTALLED]

    def load(self, topic: str, records: int) -> tuple[int, float]:
        """Fills a topic; returns how many records are kept, and the sum of their amounts in cents."""
        self._cluster.create(topic)
        serde = Avro(schema=ORDER, registry=SchemaRegistry(self._url)).bind(topic, is_key=False)
        kept = cents = 0

        def messages() -> Iterator[dict[str, Any]]:
            nonlocal kept, cents
            for order in orders(records):
                if order["amount"] >= 50.0:
                    kept, cents = kept + 1, cents + round(order["amount"] * 100)
                at = BEGIN_MS + order["id"]
                yield {"topic": topic, "key": order["user"], "value": serde.serialize(order), "timestamp": at}

        self._cluster.write(messages())
        return kept, cents

    def run(self, runner: str, source: str, due: int, expected: tuple[int, float]) -> tuple[float, float]:
        """Returns records per second, and seconds of processor time per million records."""
        group = f"avro-{uuid.uuid4().hex[:8]}"
        target = f"{group}-out"
        self._cluster.create(target)
        with tempfile.TemporaryDirectory() as folder:
            words = self.commands[runner](group, folder, source, target)
            with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=HERE.parent) as process:
                try:
                    rate, seconds = watch(self._cluster, process, group, [source], target, due)
                finally:
                    process.terminate()
        if (found := self._totals(target)) != expected:
            raise SystemExit(f"{runner} sent {found}, expected {expected}: records, and cents before they were doubled")
        self._cluster.admin.delete_topics([target])[target].result()
        return rate, seconds / due * 1e6

    def _totals(self, topic: str) -> tuple[int, float]:
        """Returns how many records a topic has, and half the sum of their totals in cents."""
        read = Avro(registry=SchemaRegistry(self._url)).bind(topic, is_key=False).deserialize
        left, records, cents = self._cluster.end([topic]), 0, 0
        settings = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        with closing(Consumer({"bootstrap.servers": self._cluster.bootstrap, **settings})) as consumer:
            consumer.subscribe([topic])
            while records < left:
                for message in consumer.consume(10_000, 1.0):
                    if message.error() is None:
                        records, cents = records + 1, cents + round(read(message.value())["total"] * 50)
        return records, cents


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--quix-records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = arguments.bootstrap or stack.enter_context(Broker()).bootstrap
        rig = Rig(Cluster(bootstrap), stack.enter_context(Apicurio()))
        name = f"avro-in-{uuid.uuid4().hex[:8]}"
        inputs = {name: arguments.records, f"{name}-short": arguments.quix_records}
        expected = {topic: rig.load(topic, records) for topic, records in inputs.items()}
        least: dict[str, float] = {}
        for number in range(arguments.rounds):
            for runner in rig.commands:
                topic = f"{name}-short" if runner.startswith("Quix") else name
                rate, seconds = rig.run(runner, topic, inputs[topic], expected[topic])
                least[runner] = min(seconds, least.get(runner, seconds))
                print(
                    f"round {number + 1}, {runner:20} {rate:9,.0f} records/s {seconds:7.2f} s per million", flush=True
                )
        for runner, seconds in least.items():
            print(
                f"{runner:20} {seconds:7.2f} s of the processor per million, {seconds / least['streams, dicts']:6.2f}"
            )


if __name__ == "__main__":
    main()
