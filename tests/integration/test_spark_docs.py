"""The examples of docs/spark.md run, in order, on a real Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration_support.topics import Topics
from processor_api.serde import Serdes
from spark_support.stores_app import recreate, write
from streams.testing import TopologyTestDriver

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOUR = 3_600_000
ORDERS = [("ann", "book", 0), ("ann", "pen", 10), ("bob", "map", 20), ("ann", "ink", HOUR)]


def test_examples_of_the_page_run(
    spark: Any, kafka: str, root: Path, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    blocks = BLOCK.findall((root / "docs" / "spark.md").read_text())
    assert len(blocks) > 5
    space: dict[str, Any] = {"__name__": "example", "KAFKA": kafka, "TMP": tmp_path}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/spark.md, block {number}", "exec"), space)
        if "def shop()" in block:
            prepare(kafka, space["shop"], Topics(kafka, unique_name))


def prepare(kafka: str, shop: Any, topics: Topics) -> None:
    """Makes the topics of the page's application, as if it had run."""
    for name in ("orders", "discounts", "shop-counts-changelog", "shop-hours-changelog"):
        recreate(topics, name)
    topics.send("orders", [(key, value) for key, value, _ in ORDERS])
    with TopologyTestDriver(shop, {"application.id": "shop"}) as driver:
        source = driver.create_input_topic("orders", Serdes.STRING, Serdes.STRING)
        for key, value, time in ORDERS:
            source.pipe_input(key, value, timestamp=time)
        write(kafka, driver.take_produced())
