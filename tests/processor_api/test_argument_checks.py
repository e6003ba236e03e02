"""Arguments that Kafka Streams refuses are refused at the call."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsl import Materialized, Printed, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.stores.windowed import Window
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.testing import MockProcessorContext
from streams.testing.driver import TopologyTestDriver


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def connect() -> object:
    topology = Topology().add_source("s", "in").add_processor("p", Ignore, "s")
    return topology.connect_processor_and_state_stores("p")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (connect, "give the names of the stores to connect to processor 'p'"),
        (lambda: Materialized.as_(None), "Materialized.as_ needs the name of a store"),  # type: ignore[arg-type]
        (lambda: Printed.to_file(None), "must be a path, got None"),  # type: ignore[arg-type]
        (lambda: Printed.to_file(Path(__file__).parent / "none" / "x"), "create its directory"),
        (lambda: AutoOffsetReset("never"), "the start must be one of earliest, latest, none, by_duration, got 'never'"),
        (lambda: AutoOffsetReset("by_duration"), "only by_duration accepts a duration"),
        (lambda: Window(-1, 0), "a window must not start before 0 or end before its start, got -1 to 0 ms"),
        (lambda: Window(1, 0), "got 1 to 0 ms"),
        (lambda: Window("a", 1), "a window needs a start and an end in whole ms, got 'a' and 1"),  # type: ignore[arg-type]
        (lambda: Window(0, 1.0), "got 0 and 1.0"),  # type: ignore[arg-type]
    ],
)
def test_it_is_refused(call: Callable[[], object], says: str) -> None:
    """Was taken: a file of None printed to the screen, and one in no directory failed at the start."""
    with pytest.raises((TopologyError, TypeError, ValueError), match=says):
        call()


def test_a_window_may_hold_one_time() -> None:
    """As a session of one record; whole numbers of other types are plain ones."""
    assert Window(5, 5) == (5, 5)
    assert type(Window(np.int64(0), 5).start) is int
    assert pickle.loads(pickle.dumps(Window(1, 2))) == Window(1, 2)
    assert Window(1, 2)._replace(end=9).end_time == datetime(1970, 1, 1, 0, 0, 0, 9_000, tzinfo=UTC)


def test_settings_by_a_prefix() -> None:
    context = MockProcessorContext()
    found = context.app_configs_with_prefix("commit.interval.")
    assert found == {"ms": context.app_configs()["commit.interval.ms"]}
    assert context.app_configs_with_prefix("no.such.") == {}
    with pytest.raises(TypeError, match="prefix must be the start of names of settings, got 5"):
        context.app_configs_with_prefix(5)  # type: ignore[arg-type]


def test_a_prefix_may_have_a_serde_by_its_name() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.table("in", materialized="rows")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_key_values([("ab", "1"), ("ac", "2"), ("b", "3")])
        store = driver.get_key_value_store("rows")
        for serde in ("string", "bytes"):
            prefix: Any = "a" if serde == "string" else b"a"
            with store.prefix_scan(prefix, serde) as found:
                assert [row[0] for row in found] == ["ab", "ac"]
        with pytest.raises(TopologyError, match=r"prefix_scan of store 'rows' takes .* prefix_serde"):
            store.prefix_scan("a", "strng")
