"""Topologies whose functions and serdes fail, beside the Java text in the recordings of the same names.

What happens then is up to the handlers in the recordings' configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Grouped, KStream, Materialized, Produced, Repartitioned, StreamsBuilder
from golden_support.calls import call
from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

Text = str | None
Build = Callable[[Any], Topology]

LONGS: Consumed[str, int] = Consumed(key_serde=S, value_serde=L)
TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)


class IllegalArgumentException(Exception):
    """Under Java's name, since handlers and dead letters report it."""

    __module__ = "java.lang"


class IllegalStateException(Exception):
    """Under Java's name, since handlers and dead letters report it."""

    __module__ = "java.lang"


class SerializationException(Exception):
    """Under Java's name, since handlers report it."""


def boom(value: Text) -> Text:
    if value == "r":
        raise IllegalArgumentException(f"boom {value}")
    return value


def write_unless_r(value: str) -> bytes:
    if value == "r":
        raise SerializationException(f"cannot write {value}")
    return value.encode()


PICKY: Serde[str] = Serde(write_unless_r, S.deserialize, name="picky")


class Throwing(Processor[Text, Text, Text, Text]):
    """Its punctuation fails once stream time is above 30."""

    def init(self, context: ProcessorContext[Text, Text]) -> None:
        super().init(context)
        context.schedule(20, PunctuationType.STREAM_TIME, self.punctuate)

    def punctuate(self, now: int) -> None:
        call(f"punctuate {now}")
        if now > 30:
            raise IllegalStateException(f"late {now}")

    def process(self, record: Record[Text, Text]) -> None:
        self.context.forward(record)


def text_input(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("input")


def class_cast(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, Any] = builder.stream("input")
    stream.map_values(lambda v: None if v is None else len(v)).to("output")
    return builder.build(config)


def count_longs(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input", LONGS).group_by_key(Grouped(key_serde=S, value_serde=L))
    store: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L)
    groups.count(materialized=store).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def copied(key_serde: Serde[Any], value_serde: Serde[Any]) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("input", Consumed(key_serde=key_serde, value_serde=value_serde))
        stream.to("output", Produced(key_serde=key_serde, value_serde=value_serde))
        return builder.build(config)

    return build


def mapped(name: str | None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        text_input(builder).map_values(boom, name=name).to("output")
        return builder.build(config)

    return build


def after_repartition(config: Any) -> Topology:
    def no_three(value: str) -> str:
        if len(value) == 3:
            raise IllegalStateException("three")
        return value

    builder = StreamsBuilder()
    groups = text_input(builder).group_by(lambda k, v: v, Grouped(name="g", key_serde=S, value_serde=S))
    store: Materialized[str, str] = Materialized(name="agg", key_serde=S, value_serde=S)
    table = groups.aggregate(str, lambda k, v, a: a + (boom(v) or ""), materialized=store)
    table.map_values(no_three, name="m").to_stream().to("output")
    return builder.build(config)


def siblings(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = text_input(builder)
    stream.map_values(boom, name="m1").to("out-1")
    stream.filter(lambda k, v: True, name="f").to("out-2")
    return builder.build(config)


def downstream(config: Any) -> Topology:
    builder = StreamsBuilder()
    moved = text_input(builder).map(lambda k, v: (v, k)).repartition(Repartitioned.as_("p"))
    moved.filter(lambda k, v: boom(k) == k, name="f").to("output")
    return builder.build(config)


def telling(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = text_input(builder).peek(lambda k, v: None).flat_map_values(lambda v: [v, "r", v])
    stream.map_values(boom, name="boom").to("output")
    return builder.build(config)


def punctuated(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").process(Throwing, name="p").to("output")
    return builder.build(config)


def picky_sink(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_input(builder).to("output", Produced(key_serde=S, value_serde=PICKY))
    return builder.build(config)


CASES: dict[str, Build] = {
    "error-class-cast": class_cast,
    "error-deserialization-continue": count_longs,
    "error-deserialization-dlq": count_longs,
    "error-deserialization-fail": copied(S, L),
    "error-deserialization-fail-dlq": copied(S, L),
    "error-deserialization-key-dlq": copied(L, S),
    "error-processing-after-repartition": after_repartition,
    "error-processing-continue": siblings,
    "error-processing-dlq": mapped("m1"),
    "error-processing-dlq-downstream": downstream,
    "error-processing-fail": mapped(None),
    "error-processing-fail-dlq": mapped(None),
    "error-processing-own-dlq": mapped(None),
    "error-processing-telling": telling,
    "error-punctuate-continue": punctuated,
    "error-punctuate-fail": punctuated,
    "error-serialization-continue": picky_sink,
    "error-serialization-fail": picky_sink,
}
