"""Odd values for whatever a user gives: taken, or refused at the call with an error of ours, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from processor_api.errors import ConfigError, StreamsError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.topology.nodes import RepartitionTopic
from streams import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Named,
    Printed,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeToLive,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from streams.config.keys import KEYS


class Liar:
    """Fails whatever it is asked, but for its text."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("a lie")

    __index__ = __int__ = __float__ = __bool__ = __len__ = __fspath__ = __eq__ = __hash__ = _fail  # type: ignore[assignment]
    __str__ = __lt__ = __gt__ = __le__ = __ge__ = _fail

    def __repr__(self) -> str:
        return "Liar()"


class Silent(Liar):
    """Has no text either."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Text(str):
    """A text of a user's own type, which says that it is another."""

    def __str__(self) -> str:
        return "other"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


NAMES: dict[str, Any] = {
    "empty": "", "blank": " ", "slash": "a/b", "dots": "..", "long": "x" * 250, "surrogate": "a\ud800", "nul": "a\0",
    "bytes": b"a", "number": 5, "truth": True, "float": 1.5, "nan": float("nan"), "list": ["a"], "tuple": (),
    "dict": {},
    "class": int, "function": len, "object": object(), "liar": Liar(), "text": Text("a"), "numpy": np.str_("a"),
}  # fmt: skip
NUMBERS: dict[str, Any] = {
    "zero": 0, "minus": -1, "truth": True, "float": 1.0, "fraction": 1.5, "nan": float("nan"), "infinite": float("inf"),
    "decimal": Decimal(5), "text": "5", "bytes": b"5", "numpy": np.int64(5), "numpy float": np.float64(5),
    "largest": (1 << 63) - 1, "too large": 1 << 63, "far too large": 1 << 70, "huge": 10**400, "smallest": -(1 << 63),
    "span": timedelta(days=-1), "long span": timedelta.max, "short span": timedelta(microseconds=1),
    "list": [5], "dict": {}, "class": int, "object": object(), "liar": Liar(),
}  # fmt: skip


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def stream() -> Any:
    return StreamsBuilder(key_serde="string", value_serde="string").stream("in")


def table() -> Any:
    return StreamsBuilder(key_serde="string", value_serde="string").table("in")


def source() -> Topology:
    return Topology().add_source("s", "in")


ZERO = timedelta(0)
TAKES_NAMES: dict[str, Callable[[Any], object]] = {
    "stream": lambda x: StreamsBuilder().stream(x),
    "streams": lambda x: StreamsBuilder().stream([x]),
    "table": lambda x: StreamsBuilder().table(x),
    "global_table": lambda x: StreamsBuilder().global_table(x),
    "to": lambda x: stream().to(x),
    "Named": Named,
    "name=": lambda x: stream().filter(lambda k, v: True, name=x),
    "Consumed": lambda x: Consumed(name=x),
    "Produced": lambda x: Produced(name=x),
    "Grouped": lambda x: Grouped(name=x),
    "Joined": lambda x: Joined(name=x),
    "Repartitioned": lambda x: Repartitioned(name=x),
    "Materialized": lambda x: Materialized(name=x),
    "Materialized.as_": lambda x: Materialized.as_(x),
    "materialized=": lambda x: stream().group_by_key().count(materialized=x),
    "Printed": lambda x: Printed(label=x),
    "Printed.to_file": lambda x: Printed.to_file(x),
    "group_by": lambda x: stream().group_by(lambda k, v: v, x),
    "split": lambda x: stream().split(name=x),
    "process": lambda x: stream().process(Ignore, x),
    "key serde": lambda x: StreamsBuilder(key_serde=x),
    "settings": lambda x: StreamsBuilder(x),
    "store": lambda x: Stores.key_value_store(x, "string", "string"),
    "window store": lambda x: Stores.window_store(x, 10, 10, "string", "string"),
    "add_source": lambda x: Topology().add_source(x, "in"),
    "add_source topic": lambda x: Topology().add_source("s", x),
    "add_processor": lambda x: source().add_processor(x, Ignore, "s"),
    "add_processor parent": lambda x: source().add_processor("p", Ignore, x),
    "add_sink": lambda x: source().add_sink(x, "out", "s"),
    "add_sink topic": lambda x: source().add_sink("k", x, "s"),
    "connect": lambda x: source().add_processor("p", Ignore, "s").connect_processor_and_state_stores("p", x),
    "repartition topic": lambda x: Topology().add_repartition_topic(RepartitionTopic(name=x)),
}
TAKES_NUMBERS: dict[str, Callable[[Any], object]] = {
    "TimeWindows": TimeWindows.of_size_with_no_grace,
    "grace": lambda x: TimeWindows.of_size_and_grace(10, x),
    "advance": lambda x: TimeWindows.of_size_with_no_grace(10).advance_by(x),
    "SlidingWindows": SlidingWindows.of_time_difference_with_no_grace,
    "SessionWindows": SessionWindows.of_inactivity_gap_with_no_grace,
    "session grace": lambda x: SessionWindows.of_inactivity_gap_and_grace(10, x),
    "JoinWindows": JoinWindows.of_time_difference_with_no_grace,
    "before": lambda x: JoinWindows.of_time_difference_with_no_grace(10).before(x),
    "until_time_limit": lambda x: Suppressed.until_time_limit(x, BufferConfig.unbounded()),
    "max_records": BufferConfig.max_records,
    "max_bytes": BufferConfig.max_bytes,
    "retention": lambda x: Materialized(retention=x),
    "TimeToLive": lambda x: TimeToLive(x),
    "Joined.grace": lambda x: Joined(grace=x),
    "partitions": lambda x: Repartitioned(partitions=x),
    "lru": lambda x: Stores.lru_map("s", x),
    "window store": lambda x: Stores.window_store("s", x, 10, "string", "string"),
    "versioned": lambda x: Stores.persistent_versioned_key_value_store("s", x),
    "deduplicate": lambda x: stream().deduplicate(x),
    "clock": lambda x: TopologyTestDriver(StreamsBuilder(), initial_wall_clock_time=x).close(),
    "driver partitions": lambda x: TopologyTestDriver(StreamsBuilder(), partitions={"in": x}).close(),
    "Record": lambda x: Record("k", "v", x),
}


def surprises(takes: dict[str, Callable[[Any], object]], values: dict[str, Any], allowed: Any) -> Iterator[str]:
    for what, call in takes.items():
        for name, value in values.items():
            try:
                call(value)
            except allowed:
                pass
            except BaseException as error:
                yield f"{what}({name}): {type(error).__name__}"


OURS = (StreamsError, TypeError, ValueError)


def test_odd_names_are_taken_or_refused() -> None:
    """An error has a text too: one that shows what was given, or says that it has no text."""
    assert list(surprises(TAKES_NAMES, NAMES, OURS)) == []


def test_odd_numbers_are_taken_or_refused() -> None:
    assert list(surprises(TAKES_NUMBERS, NUMBERS, OURS)) == []


@pytest.mark.parametrize("values", [NAMES, NUMBERS], ids=["names", "numbers"])
def test_odd_settings_are_taken_or_refused(values: dict[str, Any]) -> None:
    """By each setting, as an error of the configuration."""
    required = {"application.id": "a", "bootstrap.servers": "b:9092"}
    takes: dict[str, Callable[[Any], object]] = {
        key.name: lambda x, name=key.name: StreamsConfig.of({**required, name: x})  # type: ignore[misc]
        for key in KEYS
    }
    assert list(surprises(takes, values, ConfigError)) == []
