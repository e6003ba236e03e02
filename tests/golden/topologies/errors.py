"""Topologies whose functions and serdes fail, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Produced, StreamsBuilder
from golden_support.calls import call
from golden_support.user_code import StringProcessor, StringRecord
from processor_api.context import ProcessorContext
from processor_api.punctuation import PunctuationType
from processor_api.serde import Serde, Serdes
from processor_api.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

Text = str | None


def boom(value: Text) -> Text:
    """Fails for one value."""
    if value == "r":
        raise ValueError(f"boom {value}")
    return value


def _picky(value: str) -> bytes:
    if value == "r":
        raise ValueError(f"cannot write {value}")
    return value.encode()


PICKY: Serde[str] = Serde(_picky, S.deserialize, name="picky")


class Throwing(StringProcessor):
    """A punctuation that fails once it is late."""

    def init(self, context: ProcessorContext[Text, Text]) -> None:
        super().init(context)
        context.schedule(20, PunctuationType.STREAM_TIME, self.punctuate)

    def punctuate(self, now: int) -> None:
        call(f"punctuate {now}")
        if now > 30:
            raise RuntimeError(f"late {now}")

    def process(self, record: StringRecord) -> None:
        self.context.forward(record)


def class_cast(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").map_values(lambda v: None if v is None else len(v)).to("output")
    return builder.build(config)


def deserialization_fail(config: Any) -> Topology:
    builder = StreamsBuilder()
    consumed: Consumed[str, int] = Consumed(key_serde=S, value_serde=L)
    builder.stream("input", consumed).to("output", Produced(key_serde=S, value_serde=L))
    return builder.build(config)


def processing_fail(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").map_values(boom).to("output")
    return builder.build(config)


def punctuate_fail(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").process(Throwing, name="p").to("output")
    return builder.build(config)


def serialization_fail(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").to("output", Produced(key_serde=S, value_serde=PICKY))
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "error-class-cast": class_cast,
    "error-deserialization-fail": deserialization_fail,
    "error-processing-fail": processing_fail,
    "error-punctuate-fail": punctuate_fail,
    "error-serialization-fail": serialization_fail,
}
