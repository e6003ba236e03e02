"""The offsets at which a command begins to read, and those at which an application begins after a reset."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from processor_api.forms.times import time_ms
from processor_api.task_id import TopicPartition
from streams.cli.output.causes import CannotRun

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer


@dataclass(frozen=True)
class Start:
    """A point in a topic, which is another offset in each of its partitions."""

    kind: str
    """``beginning``, ``end``, ``offset`` (negative: this many before the end) or ``time``."""
    number: int = 0
    """The offset, or the ms since 1970."""


def start_of(text: str) -> Start:
    """Reads a point as the option ``--from`` has it.

    :raises CannotRun: if it is none.
    """
    if text in ("beginning", "earliest"):
        return Start("beginning")
    if text in ("end", "latest"):
        return Start("end")
    if re.fullmatch(r"-?\d{1,19}", text):
        return Start("offset", int(text))
    try:
        return Start("time", time_ms(text))
    except ValueError:
        raise CannotRun(
            f"--from {text!r} is not a position: give beginning, end, an offset, -5 for the last five of each"
            " partition, or an ISO 8601 time such as 2026-01-31T12:00:00Z"
        ) from None


def start_offsets(
    start: Start,
    consumer: Consumer,
    partitions: Collection[TopicPartition],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Returns the offset of a point in each partition; offsets that do not exist become the nearest that do.

    :param ends: the ends of the partitions.
    """
    if not partitions:
        return {}
    if start.kind == "end":
        return {one: ends[one] for one in partitions}
    beginnings = consumer.beginning_offsets(partitions)
    if start.kind == "beginning":
        return {one: beginnings[one] for one in partitions}
    if start.kind == "time":
        found = consumer.offsets_for_time(dict.fromkeys(partitions, start.number))
        return {one: min(found[one], ends[one]) for one in partitions}
    number = start.number
    wanted = {one: ends[one] + number if number < 0 else number for one in partitions}
    return {one: max(beginnings[one], min(offset, ends[one])) for one, offset in wanted.items()}
