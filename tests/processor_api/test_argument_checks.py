"""Arguments that Kafka Streams refuses are refused at the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl import Materialized, Printed, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.topology import Topology
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
        (connect, "name the stores that are connected to processor 'p'"),
        (lambda: Materialized.as_(None), "Materialized.as_ takes the name of a store"),  # type: ignore[arg-type]
        (lambda: Printed.to_file(None), "the path of a file, got None"),  # type: ignore[arg-type]
        (lambda: Printed.to_file(Path(__file__).parent / "none" / "x"), "its directory must be there"),
    ],
)
def test_it_is_refused(call: Callable[[], object], says: str) -> None:
    """Was taken: a file of None printed to the screen, and one in no directory failed at the start."""
    with pytest.raises(TopologyError, match=says):
        call()


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
