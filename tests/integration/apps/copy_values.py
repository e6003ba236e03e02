"""Copies a topic, record by record."""

import os
import re

from streams import (
    Consumed,
    ErrorHandlerContext,
    Processor,
    Produced,
    Record,
    Response,
    Serdes,
    StreamsBuilder,
    dead_letter_queue_records,
)

TEXT = Serdes.STRING


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    stream = builder.stream(os.environ["INPUTS"].split(","), Consumed(key_serde=TEXT, value_serde=TEXT))
    stream.to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder


def only_short() -> StreamsBuilder:
    """The same; it fails for each value of more than ten characters."""

    def short(value: str) -> str:
        if len(value) > 10:
            raise ValueError("too long")
        return value

    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
    builder.stream(os.environ["INPUTS"].split(",")).map_values(short).to(os.environ["OUTPUT"])
    return builder


def matching() -> StreamsBuilder:
    """The environment has a pattern of topics."""
    builder = StreamsBuilder()
    stream = builder.stream(re.compile(os.environ["PATTERN"]), Consumed(key_serde=TEXT, value_serde=TEXT))
    stream.to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder


def counted() -> StreamsBuilder:
    """The same, with the number of records of each key."""
    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
    counts = builder.stream(re.compile(os.environ["PATTERN"])).group_by_key().count(materialized="counts")
    counts.to_stream().map_values(str).to(os.environ["OUTPUT"], Produced(value_serde=TEXT))
    return builder


def chosen() -> StreamsBuilder:
    """The topic is named for each record, so that it is not known before."""
    builder = StreamsBuilder()
    stream = builder.stream(os.environ["INPUTS"], Consumed(key_serde=TEXT, value_serde=TEXT))
    stream.to(lambda key, value, context: os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder


def dropping(*_: object) -> Response:
    return Response.resume()


class Tag(Processor[str, str, str, str]):
    """Gives records a time and a header of their own."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(Record(record.key, record.value, 7, [("tag", record.value[:1].encode())]))


def tagged() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream(os.environ["INPUTS"], Consumed(key_serde=TEXT, value_serde=TEXT))
    stream.process(Tag).to(os.environ["OUTPUT"], Produced(key_serde=TEXT, value_serde=TEXT))
    return builder


def as_dead_letter(context: ErrorHandlerContext, record: object, error: Exception, origin: object) -> Response:
    """A short one: what was too large would be so again."""
    (letter,) = dead_letter_queue_records(context, error)
    return Response.resume([letter._replace(value=letter.value[:1] + b" (shortened)")])
