"""In a running application too, the error that ended it names the line of the user's script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsl import StreamsBuilder
from processor_api.errors import MissingTopicError, ProcessingError, TopologyError
from processor_api.topology.topology import Topology
from processor_api.user_code.lines import Line, user_line
from runtime_support.running_app import Cluster
from waiting import wait_until

STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}


def line_after(line: Line | None, lines: int = 1) -> str:
    assert line is not None
    return str(line._replace(number=line.number + lines))


def failing() -> tuple[Topology, str]:
    builder = StreamsBuilder()
    orders: Any = builder.stream("in")
    here = user_line()
    orders.map_values(lambda value: 1 // 0, name="divide").to("out")
    return builder.build(), line_after(here)


def test_a_function_that_fails(tmp_path: Path) -> None:
    topology, line = failing()
    with Cluster(tmp_path) as kit:
        app = kit.app(topology, **STRINGS)
        kit.send("x")
        wait_until("the application has failed", lambda: app.failure)
        assert isinstance(app.failure, ProcessingError)
        assert str(app.failure).startswith("ZeroDivisionError in node 'divide': ")
        assert str(app.failure).endswith(f", made at {line} by map_values(lambda)")


def test_topics_that_are_missing_or_do_not_fit(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    here = user_line()
    orders: Any = builder.stream("orders")
    prices: Any = builder.table("prices")
    orders.join(prices, lambda order, price: order).to("out")
    at_orders, at_prices = line_after(here), line_after(here, 2)
    with Cluster(tmp_path / "1", topics={"prices": 2, "out": 1}) as kit:
        app = kit.app(builder.build(), start=False, **STRINGS)
        with pytest.raises(MissingTopicError) as missing:
            app.start()
        assert str(missing.value).endswith(f", made at {at_orders} (topic 'orders')")
    with Cluster(tmp_path / "2", topics={"orders": 3, "prices": 2, "out": 1}) as kit:
        app = kit.app(builder.build(), start=False, **STRINGS)
        with pytest.raises(
            TopologyError, match="the same number of partitions: 'orders' has 3, 'prices' has 2"
        ) as other:
            app.start()
        assert str(other.value).endswith(f", made at {at_orders} (topic 'orders'), {at_prices} (topic 'prices')")
