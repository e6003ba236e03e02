"""An application with something wrong in it, as a script of a user's: ``python app.py CASE STATE_DIR [mend]``.

It runs on a broker in memory, exactly once, on three records of which the second is the bad one. As it ends it prints
what is committed and written by then; asked to mend, it then runs on without the mistake, and prints what is written in
the end.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from streams import (
    Consumed,
    KafkaStreams,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Response,
    Serde,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

TEXT = Serdes.STRING
DEADLINE_S = 30.0
broken = True


def fails(*_: Any) -> Any:
    raise KeyError("user's own")


def when_bad(value: Any) -> bool:
    return broken and value in ("bad", b"bad")


def read(data: bytes) -> str:
    return fails() if when_bad(data) else data.decode()


def write(text: str) -> bytes:
    return fails() if when_bad(text) else text.encode()


BROKEN = Serde(write, read, name="broken")


def upper(value: str) -> str:
    return str(fails()) if when_bad(value) else value.upper()


class Upper(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(Record(record.key, upper(record.value), record.timestamp))


class Same(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


class FailsInInit(Same):
    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        if broken:
            fails()


class FailsInClose(Same):
    def close(self) -> None:
        if broken:
            fails()


class Punctual(Same):
    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(10, PunctuationType.STREAM_TIME, lambda _: fails() if broken else None)


class PunctualWithoutPause(Same):
    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(0 if broken else 10, PunctuationType.STREAM_TIME, lambda _: None)


class ToNobody(Same):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record, "nobody" if when_bad(record.value) else None)


class Keeps(Same):
    wanted = "kept"

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.store: KeyValueStore[str, str] | None = None
        if self.wanted == "kept" or broken:
            self.store = context.get_state_store(self.wanted)

    def process(self, record: Record[str, str]) -> None:
        if self.store is not None:
            self.store.put(record.key, record.value)
        super().process(record)


class KeepsElsewhere(Keeps):
    wanted = "not-connected"


class WritesGlobal(Same):
    def process(self, record: Record[str, str]) -> None:
        if when_bad(record.value):
            self.context.get_state_store("everywhere").put(record.key, record.value)
        super().process(record)


def dsl(make: Callable[[StreamsBuilder], Any]) -> Topology:
    builder = StreamsBuilder()
    make(builder)
    return builder.build()


def processors(supplier: Any, *stores: Any, extractor: Any = None, partitioner: Any = None) -> Topology:
    made = Topology().add_source("in", "events", key_serde=TEXT, value_serde=TEXT, timestamp_extractor=extractor)
    made.add_processor("user", supplier, "in")
    for store in stores:
        made.add_state_store(store, "user")
    return made.add_sink("out", "out", "user", key_serde=TEXT, value_serde=TEXT, partitioner=partitioner)


def store(name: str, value_serde: Any = TEXT) -> Any:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), TEXT, value_serde)


def with_global(*names: str, topic: str = "table", logs: bool = False, supplier: Any = Same) -> Topology:
    made = processors(supplier)
    for name in names:
        builder = store(name) if logs else store(name).with_logging_disabled()
        made.add_global_store(builder, f"{name}-in", topic, f"{name}-fill", Same, key_serde=TEXT, value_serde=TEXT)
    return made


def counted_twice(builder: StreamsBuilder) -> None:
    builder.stream("events").group_by_key().count(materialized="counts")
    builder.stream("others").group_by_key().count(materialized="counts")


def aggregated(builder: StreamsBuilder) -> None:
    grouped = builder.stream("events").group_by_key()
    table = grouped.aggregate(str, lambda key, value, _: upper(value))
    table.to_stream().to("out")


def with_extractor(wrong: Callable[[], Any]) -> Topology:
    return processors(Same, extractor=lambda record, _: wrong() if when_bad(record.value) else record.timestamp)


def with_partitioner(wrong: Callable[[], Any]) -> Topology:
    return processors(Same, partitioner=lambda topic, key, value, headers, count: wrong() if when_bad(value) else [0])


def uppered() -> Topology:
    return processors(Upper)


def unreadable() -> Topology:
    return dsl(lambda b: b.stream("events", Consumed(value_serde=BROKEN)).to("out"))


one = Same()
CASES: dict[str, Callable[[], Topology]] = {
    "read-value": unreadable,
    "read-key": lambda: dsl(lambda b: b.stream("events", Consumed(key_serde=BROKEN)).to("out")),
    "write-value": lambda: dsl(lambda b: b.stream("events").to("out", Produced(value_serde=BROKEN))),
    "write-key": lambda: dsl(lambda b: b.stream("events").to("out", Produced(key_serde=BROKEN))),
    "write-type": lambda: dsl(lambda b: b.stream("events").map_values(lambda v: 3 if when_bad(v) else v).to("out")),
    "store-write": lambda: processors(Keeps, store("kept", BROKEN)),
    "function": lambda: dsl(lambda b: b.stream("events").map_values(upper).to("out")),
    "aggregator": lambda: dsl(aggregated),
    "process": uppered,
    "init": lambda: processors(FailsInInit),
    "close": lambda: processors(FailsInClose),
    "punctuation": lambda: processors(Punctual),
    "punctuation-interval": lambda: processors(PunctualWithoutPause),
    "child": lambda: processors(ToNobody),
    "store-not-connected": lambda: processors(KeepsElsewhere, store("kept")),
    "same-processor": lambda: processors((lambda: one) if broken else Same),
    "store-twice": lambda: processors(Same, store("kept"), store("kept", BROKEN)),
    "store-twice-dsl": lambda: dsl(counted_twice),
    "no-serde": lambda: Topology().add_source("in", "events").add_sink("out", "out", "in"),
    "extractor-raises": lambda: with_extractor(fails),
    "extractor-negative": lambda: with_extractor(lambda: -7),
    "extractor-no-number": lambda: with_extractor(lambda: "soon"),
    "partitioner-raises": lambda: with_partitioner(fails),
    "partitioner-range": lambda: with_partitioner(lambda: [1]),
    "partitioner-negative": lambda: with_partitioner(lambda: [-2]),
    "partitioner-no-number": lambda: with_partitioner(lambda: ["one"]),
    "read-handler-raises": unreadable,
    "read-handler-nothing": unreadable,
    "process-handler-raises": uppered,
    "process-handler-nothing": uppered,
    "write-handler-nothing": lambda: dsl(lambda b: b.stream("events").to("out", Produced(value_serde=BROKEN))),
    "state-listener-raises": lambda: processors(Same),
    "global-written": lambda: with_global("everywhere", supplier=WritesGlobal),
    "global-logged": lambda: with_global("everywhere", logs=True),
    "global-topic-twice": lambda: with_global("everywhere", "again"),
    "global-topic-read": lambda: with_global("everywhere", topic="events"),
    "global-missing": lambda: with_global("everywhere", topic="no-such-topic"),
    "source-missing": lambda: dsl(lambda b: b.stream("no-such-topic").to("out")),
}
GOES_ON = {"extractor-negative": 2, "state-listener-raises": 3, "close": 3}
"""These are no reason to stop while it runs: how much is written then."""
READ, PROCESS, WRITE = (f"{kind}.exception.handler" for kind in ("deserialization", "processing", "production"))
SETTINGS: dict[str, dict[str, Any]] = {
    "read-handler-raises": {READ: fails},
    "read-handler-nothing": {READ: lambda *_: None},
    "process-handler-raises": {PROCESS: fails},
    "process-handler-nothing": {PROCESS: lambda *_: None},
    "write-handler-nothing": {WRITE: lambda *_: Response},
    "no-serde": {"default.key.serde": None, "default.value.serde": None},
}


class Lines(logging.StreamHandler[Any]):
    """A line for each record of the log, with its fields."""

    def format(self, record: logging.LogRecord) -> str:
        names = ("node", "topic", "partition", "offset", "time", "error")
        fields = [str(vars(record)[name]) for name in names if name in vars(record)]
        return " ".join([record.levelname, record.getMessage(), *fields])


class Run:
    """The application on its broker."""

    def __init__(self, case: str, directory: str) -> None:
        self.case = case
        self.ended = threading.Event()
        self.broker = EmbeddedBroker()
        self.clients = EmbeddedClients(self.broker)
        for topic in ("events", "out", "table"):
            self.broker.create_topic(topic, 1)
        self.settings = {
            "application.id": "app",
            "bootstrap.servers": "in-memory:9092",
            "state.dir": directory,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 10,
            "poll.ms": 10,
            "default.key.serde": TEXT,
            "default.value.serde": TEXT,
            **SETTINGS.get(case, {}),
        }

    def send(self, numbers: range) -> None:
        producer = self.clients.producer({})
        for number in numbers:
            value = ("good", "bad", "good")[number]
            key = value if self.case in ("read-key", "write-key") else f"key-{number}"
            producer.produce("events", value.encode(), key.encode(), 0, None, None, 100 * number, None)
        producer.flush()

    def run(self) -> None:
        """The bad record comes when the first is committed."""
        self.send(range(1))
        feeder = threading.Thread(target=self._feed, daemon=True)
        feeder.start()
        try:
            app = KafkaStreams(CASES[self.case](), self.settings, clients=self.clients)
            if self.case == "state-listener-raises":
                app.set_state_listener(fails)
            with app:
                app.wait(self.until_written(GOES_ON[self.case]) if self.case in GOES_ON else DEADLINE_S)
        finally:
            self.ended.set()
            feeder.join()

    def _feed(self) -> None:
        while not self.written() and not self.ended.wait(0.005):
            pass
        self.send(range(1, 3))

    def until_written(self, records: int) -> int:
        """How long, in seconds, to wait for the end once so many records are written."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.written()) < records and time.monotonic() < deadline:
            time.sleep(0.01)
        return 0

    def run_on(self) -> None:
        """With what was wrong mended, until everything is written."""
        deadline = time.monotonic() + DEADLINE_S
        with KafkaStreams(CASES[self.case](), self.settings, clients=self.clients) as app:
            while len(self.written()) < 3 and time.monotonic() < deadline:
                app.wait(0.02)

    def written(self) -> list[str]:
        return [(record.value() or b"").decode().lower() for record in self.broker.records("out")]

    def committed(self) -> int | None:
        from streams import TopicPartition

        consumer = self.clients.consumer({"group.id": "app"})
        found = consumer.committed([TopicPartition("events", 0)])
        return next((one.offset for one in found.values() if one is not None), None)


def main(case: str, directory: str, mend: str = "") -> None:
    global broken
    run = Run(case, directory)
    if case in GOES_ON:
        logging.basicConfig(handlers=[Lines()])
    try:
        run.run()
    finally:
        facts: dict[str, Any] = {"committed": run.committed(), "written": run.written()}
        if mend:
            broken = False
            run.run_on()
            facts["in the end"] = run.written()
        print(json.dumps(facts))


if __name__ == "__main__":
    main(*sys.argv[1:])
