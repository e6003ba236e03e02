"""Records the metrics of applications in the states that alerts are about, for the test of the alerts.

Each state is a real run: most on a broker in memory, one on a real broker that is stopped, one on a file system that is
full. The metrics are read once a second, as Prometheus would. Needs a machine that may mount a file system.

    python -m tools.alert_states            # all states
    python -m tools.alert_states idle       # one
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from processor_api.clock import SystemClock
from streams import Avro, ClientState, KafkaStreams, Materialized, StreamsBuilder, log_and_continue_processing
from streams.http.exposition import exposition
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import NewTopic
from streams.testing import EmbeddedKafka
from tools.kafka.broker import Broker

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "packaging" / "alert_states"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
INTERVAL_S = 1.0
JOB = "streams"
CLOCK = SystemClock()
ENDED = ("ERROR", "NOT_RUNNING", "PENDING_ERROR")

Series = dict[str, list[float | None]]


class Recording:
    """The samples of all workers of an application, one an interval."""

    def __init__(self) -> None:
        self.series: Series = {}
        self.samples = 0

    def sample(self, workers: Mapping[str, KafkaStreams | None]) -> None:
        """Takes the metrics of each worker, by its name; ``None`` is one whose process has ended."""
        found: dict[str, float] = {}
        for instance, app in workers.items():
            alive = app is not None and str(app.state) not in ENDED
            place = {"instance": instance, "job": JOB}
            found[_name("up", place)] = float(alive)
            if alive and app is not None:
                text = exposition(app.metrics, app.is_ready, "text/plain")[0].decode()
                for family in text_string_to_metric_families(text):
                    for one in family.samples:
                        found[_name(one.name, {**one.labels, **place})] = one.value
        for name in self.series.keys() | found.keys():
            values = self.series.setdefault(name, [None] * self.samples)
            values.append(found.get(name))
        self.samples += 1

    def run(self, workers: Mapping[str, KafkaStreams | None], samples: int, step: Callable[[], object] = int) -> None:
        """Takes samples, each after a step."""
        for _ in range(samples):
            step()
            CLOCK.wait(INTERVAL_S)
            self.sample(workers)


def _name(metric: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels.items()))
    return f"{metric}{{{inside}}}"


@dataclass
class Order:
    cents: int


def counts(mapper: Callable[[str], Any] = str) -> StreamsBuilder:
    """A count of words, in two subtopologies."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    words = builder.stream("in").map_values(mapper).group_by(lambda key, value: value, "by-word")
    words.count(materialized=Materialized(name="counts")).to_stream().to("out", value_serde="long")
    return builder


def _settings(**more: Any) -> dict[str, Any]:
    return {
        "application.id": "app",
        "statistics.interval.ms": 1000,
        **{k.replace("_", "."): v for k, v in more.items()},
    }


@contextmanager
def _embedded(*topics: str, state: str | None = None) -> Iterator[tuple[EmbeddedKafka, Callable[..., None]]]:
    with EmbeddedKafka(None if state is None else Path(state)) as kafka:
        kafka.create_topics(*topics, partitions=2)

        def send(number: int, topic: str = "in") -> None:
            inputs = kafka.create_input_topic(topic, "string", "string")
            for _ in range(number):
                inputs.pipe_input(f"k{random.randrange(20)}", f"w{random.randrange(20)}")

        yield kafka, send


def busy(recording: Recording) -> None:
    """Processes records all the time."""
    with _embedded("in", "out") as (kafka, send):
        app = kafka.start(counts(), _settings())
        recording.run({"one": app}, 15, lambda: send(50))


def idle(recording: Recording, guarantee: str = "at_least_once") -> None:
    """Has processed all, and nothing comes."""
    with _embedded("in", "out") as (kafka, send):
        app = kafka.start(counts(), _settings(processing_guarantee=guarantee))
        recording.run({"one": app}, 4, lambda: send(20))
        recording.run({"one": app}, 15)


def idle_exactly_once(recording: Recording) -> None:
    """The same with transactions, whose markers are the last offsets of the topics."""
    idle(recording, "exactly_once_v2")


def quiet_partition(recording: Recording) -> None:
    """Joins two topics, of which one gets nothing more."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").join(builder.table("table", materialized="kept"), lambda left, right: f"{left}{right}").to(
        "out"
    )
    with _embedded("in", "table", "out") as (kafka, send):
        app = kafka.start(builder, _settings())
        send(20, "table")
        recording.run({"one": app}, 15, lambda: send(10))


def restoring(recording: Recording) -> None:
    """Restores its stores, then runs."""
    with _embedded("in", "out") as (kafka, send):
        first = kafka.start(counts(), _settings())
        send(3000)
        kafka.read_records("out", 1, "string", "long")
        recording.run({"one": first}, 3)
        first.close()
        recording.run({"one": None}, 2)
        with tempfile.TemporaryDirectory() as fresh:
            app = kafka.start(counts(), _settings(state_dir=fresh), wait=False)
            recording.sample({"one": app})
            recording.run({"one": app}, 10)
            app.close()


def rebalancing(recording: Recording) -> None:
    """A second worker joins, and leaves again."""
    with _embedded("in", "out") as (kafka, send), tempfile.TemporaryDirectory() as other:
        one = kafka.start(counts(), _settings())
        recording.run({"one": one}, 4, lambda: send(20))
        two = kafka.start(counts(), _settings(state_dir=other), wait=False)
        recording.run({"one": one, "two": two}, 8, lambda: send(20))
        two.close()
        recording.run({"one": one}, 8, lambda: send(20))


def poison_skipped(recording: Recording) -> None:
    """A record fails, and the handler continues."""
    settings = _settings(processing_exception_handler=log_and_continue_processing)
    with _embedded("in", "out") as (kafka, send):
        app = kafka.start(counts(_not_w3), settings)
        recording.run({"one": app}, 15, lambda: send(20))


def poison(recording: Recording) -> None:
    """A record fails, and ends the worker, which meets it again after each restart."""
    with _embedded("in", "out") as (kafka, send):
        app = kafka.start(counts(_not_w3), _settings())
        recording.run({"one": app}, 2)
        recording.run({"one": app}, 13, lambda: send(5))


def _slowly(value: str) -> str:
    CLOCK.wait(0.02)
    return value


def _not_w3(value: str) -> str:
    if value == "w3":
        raise ValueError("no word")
    return value


def without_registry(recording: Recording) -> None:
    """Writes by a schema registry that does not respond."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(lambda value: Order(len(value))).to("out", value_serde=Avro(Order))
    with _embedded("in", "out") as (kafka, send):
        app = kafka.start(builder, _settings(schema_registry_url="http://127.0.0.1:1"))
        recording.run({"one": app}, 2)
        send(5)
        recording.run({"one": app}, 18)


def full_disk(recording: Recording) -> None:
    """Has no room for its stores, and input that waits."""
    with ExitStack() as opened:
        state = opened.enter_context(tempfile.TemporaryDirectory())
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", state], check=True)
        opened.callback(subprocess.run, ["umount", "--lazy", state], check=True)
        kafka, send = opened.enter_context(_embedded("in", "out"))
        app = kafka.start(counts(), _settings(state_dir=state))
        recording.run({"one": app}, 3, lambda: send(20))
        filler = Path(state, "filler")
        with suppress(OSError), filler.open("wb", buffering=0) as file:  # until it is full
            while True:
                file.write(bytes(4096))
        recording.run({"one": app}, 17, lambda: send(200))


def without_broker(recording: Recording) -> None:
    """Its only broker is killed while it has work."""
    with Broker() as broker:
        _outage(recording, broker, broker.kill)


def silent_broker(recording: Recording) -> None:
    """Its only broker does not respond now while it has work."""
    with Broker() as broker:
        _outage(recording, broker, broker.freeze)
        broker.thaw()


def _outage(recording: Recording, broker: Broker, begin: Callable[[], object]) -> None:
    clients = ConfluentClients()
    config = {"bootstrap.servers": broker.bootstrap}
    with closing(clients.admin(config)) as admin:
        admin.create_topics([NewTopic(name=name, partitions=2, replication_factor=1) for name in ("in", "out")])
    producer = clients.producer(config)

    def send() -> None:
        for number in range(100):
            producer.produce("in", f"w{number}".encode(), b"k", number % 2, None, None, 1)
        producer.flush()

    with tempfile.TemporaryDirectory() as state:
        # A request is given up after 6 s instead of 60, so that the recording is short.
        more = {"producer.socket.timeout.ms": 6000, "consumer.socket.timeout.ms": 6000, "commit.interval.ms": 3000}
        app = KafkaStreams(counts(_slowly), {**_settings(state_dir=state), **config, **more})
        app.start()
        assert app.wait(60, state=ClientState.RUNNING), (app.state, app.failure)
        recording.run({"one": app}, 5, send)
        send()
        begin()
        recording.run({"one": app}, 45)  # a request that is not answered is given up after 30 s
        app.close(1)


STATES: dict[str, Callable[[Recording], None]] = {
    one.__name__: one
    for one in (
        busy,
        idle,
        idle_exactly_once,
        quiet_partition,
        restoring,
        rebalancing,
        poison_skipped,
        poison,
        without_registry,
        full_disk,
        without_broker,
        silent_broker,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Records the metrics of applications in the states of alerts.")
    parser.add_argument("states", nargs="*", metavar="STATE", help=f"{', '.join(STATES)}; default: all")
    wanted = frozenset(re.findall(r"\b(?:kafka_streams_\w+|up(?=\{))", RULES.read_text()))
    FOLDER.mkdir(exist_ok=True)
    for name in parser.parse_args().states or STATES:
        recording = Recording()
        STATES[name](recording)
        names = sorted({one.partition("{")[0] for one in recording.series})
        series = {
            _UUID.sub("UUID", one): [None if value is None else round(value, 3) for value in values]
            for one, values in sorted(recording.series.items())
            if one.partition("{")[0] in wanted
        }
        lines = ",\n".join(f"  {json.dumps(one)}: {json.dumps(values)}" for one, values in series.items())
        text = f'{{"interval_s": {INTERVAL_S},\n "names": {json.dumps(names)},\n "series": {{\n{lines}\n}}}}\n'
        (FOLDER / f"{name}.json").write_text(text)
        sys.stdout.write(f"{name}: {recording.samples} samples of {len(series)} series\n")


if __name__ == "__main__":
    main()
