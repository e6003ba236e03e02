"""`streams demo`: counts words on a broker in memory, and shows what an application is made of.

The topology is that of examples/01_word_count/word_count.py; a test keeps the two the same.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial

from processor_api.clock import SystemClock
from processor_api.context import ProcessorContext
from processor_api.nodes import RepartitionTopic
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import TimestampedKeyValueStore, ValueAndTimestamp
from processor_api.stores.factory import StoreBuilder, Stores
from processor_api.topology import Topology
from streams.app.kafka_streams import ClientState, KafkaStreams
from streams.kafka.embedded import EmbeddedBroker, EmbeddedClients

__all__ = ["CountWords", "SplitLines", "main", "topology"]

LINES = ("All streams lead to Kafka", "Hello Kafka Streams", "Join the stream of streams")
DEADLINE_S = 20.0


class SplitLines(Processor[str | None, str, str, str]):
    """Forwards each word of a line, as key and as value."""

    def process(self, record: Record[str | None, str]) -> None:
        for word in record.value.lower().split():
            self.context.forward(Record(word, word, record.timestamp))


class CountWords(Processor[str, str, str, int]):
    """Keeps a count for each word, and forwards it when it changes."""

    @classmethod
    def stores(cls) -> list[StoreBuilder[str, int]]:
        store = Stores.persistent_timestamped_key_value_store("word-counts")
        return [Stores.timestamped_key_value_store_builder(store, Serdes.STRING, Serdes.LONG)]

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.counts: TimestampedKeyValueStore[str, int] = context.get_state_store("word-counts")

    def process(self, record: Record[str, str]) -> None:
        known = self.counts.get(record.key)
        count = 1 if known is None else known.value + 1
        self.counts.put(record.key, ValueAndTimestamp(count, record.timestamp))
        self.context.forward(Record(record.key, count, record.timestamp))


def topology() -> Topology:
    text, number = Serdes.STRING, Serdes.LONG
    made = Topology()
    made.add_source("lines", "lines", key_serde=text, value_serde=text)
    made.add_processor("split", SplitLines, "lines")
    made.add_repartition_topic(RepartitionTopic(name="words-repartition"))
    made.add_sink("to-words", "words-repartition", "split", key_serde=text, value_serde=text)
    made.add_source("from-words", "words-repartition", key_serde=text, value_serde=text)
    made.add_processor("count", CountWords, "from-words")
    made.add_sink("counts", "counts", "count", key_serde=text, value_serde=number)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo to its end; returns the exit status.

    :param argv: lines to count in place of the built-in ones.
    """
    lines = tuple(argv or ()) or LINES
    say("An application is a topology: sources, processors with their stores, and sinks. This one counts words.\n")
    say(topology().describe())
    broker = EmbeddedBroker()
    for topic in ("lines", "counts"):
        broker.create_topic(topic, 2)
    with tempfile.TemporaryDirectory(prefix="streams-demo-") as directory:
        config = {
            "application.id": "word-count",
            "bootstrap.servers": "in-memory:9092",
            "state.dir": directory,
            "commit.interval.ms": 100,
        }
        app = KafkaStreams(topology(), config, clients=EmbeddedClients(broker))
        app.start()
        try:
            finished = _count(app, broker, lines)
        finally:
            app.close(10_000)
    if app.failure is not None or not finished:
        sys.stderr.write(f"error: the demo did not finish: {app.failure or 'the counts did not come in time'}\n")
        return 1
    say(f"The application has closed in state {app.state}. Its topics:")
    for name in sorted(broker.topics):
        say(f"  {name}: {len(broker.records(name))} records")
    say("\nThe code is in the module streams.app.demo. On Kafka, with the topics lines and counts, the same runs with")
    say("  streams run streams.app.demo:topology --application-id word-count --bootstrap-servers HOST:PORT")
    return 0


def _count(app: KafkaStreams, broker: EmbeddedBroker, lines: Sequence[str]) -> bool:
    """Sends the lines one by one and prints the counts as they change; returns whether all came."""
    clock = SystemClock()
    producer = EmbeddedClients(broker).producer({})
    if not _until(lambda: app.wait(50, state=ClientState.RUNNING), clock):
        return False
    tasks = sorted(task for owned in app.tasks().values() for task in owned)
    names = ", ".join(map(str, tasks))
    say(f"It runs as {len(tasks)} tasks, one for each partition of each sub-topology: {names}.")
    say("Each line sent to topic 'lines' changes counts, which go to topic 'counts':")
    shown: set[tuple[int, int]] = set()
    due = 0
    for line in lines:
        say(f"\n> {line}")
        due += len(line.split())
        producer.produce("lines", line.encode(), None, -1, None, None, clock.time_ms(), None)
        producer.flush()
        if not _until(partial(_have_come, app, broker, due), clock):
            return False
        for record in broker.records("counts"):
            place = record.partition(), record.offset()
            if place not in shown:
                shown.add(place)
                word = Serdes.STRING.deserialize(record.key() or b"")
                say(f"  {word:<10} {Serdes.LONG.deserialize(record.value() or b'')}")
    say("")
    return app.failure is None


def _have_come(app: KafkaStreams, broker: EmbeddedBroker, due: int) -> bool:
    return app.wait(10) or len(broker.records("counts")) >= due


def _until(reached: Callable[[], bool], clock: SystemClock) -> bool:
    deadline = clock.monotonic() + DEADLINE_S
    while not reached():
        if clock.monotonic() > deadline:
            return False
    return True


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
