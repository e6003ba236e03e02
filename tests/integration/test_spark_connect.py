"""The bridge over Spark Connect: what works there, and the errors of what does not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration_support.topics import Topics
from spark_support.connect_server import connect_server

MINE = """
from streams import StreamsBuilder, serde_of


def shop():
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("TOPIC").group_by_key().count(materialized="counts")
    return builder


def shouted(text):
    return text.lower().encode()


def read(data):
    return data.decode().upper()


SHOUTED = serde_of(shouted, read)
"""
CLIENT = Path(__file__).parents[1] / "support" / "spark_support" / "connect_client.py"
DEADLINE_S = 1_800
"""Long, since only a client that hangs waits for it."""


@pytest.mark.slow  # a server of Spark, and some thirty small jobs
def test_reading_and_writing_work_and_a_backfill_says_why_not(
    kafka: str, topics: Topics, unique_name: Any, tmp_path: Path
) -> None:
    """What the client sends by reference is found on the server once its module was shipped."""
    pytest.importorskip("grpc")
    pyspark = pytest.importorskip("pyspark")
    topic, application = topics.create("orders"), unique_name("shop")
    topics.create_named(f"{application}-counts-changelog", 1)
    for name in ("written", "loud"):
        topics.create_named(f"{topic}-{name}", 1)
    topics.send(topic, [("ann", "tea"), ("ben", "rum"), ("ann", "tea")], timestamp=1_000)
    counted = [("ann", 1), ("ben", 1), ("ann", 2)]
    changelog = [(key, count.to_bytes(8, "big"), 1_000) for key, count in counted]
    topics.send_timed(f"{application}-counts-changelog", changelog)
    mine = tmp_path / "mine.py"
    mine.write_text(MINE.replace("TOPIC", topic))
    with connect_server(Path(pyspark.__file__).parent, tmp_path) as remote:
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, str(CLIENT), remote, kafka, topic, application, str(tmp_path / "run")],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    table = [["ann", 2], ["ben", 1]]
    refused = {name: found.pop(name) for name in list(found) if name == "backfill" or name.endswith(" before")}
    assert found == {
        "connect": [True, True, True],
        "register": None,
        "read_topic": [["ann", "tea"], ["ann", "tea"], ["ben", "rum"]],
        "offsets_of": True,
        "position_of": 3,
        "read_table": table,
        "diff_tables": [["ann", "different"], ["ben", "only_right"]],
        "sql": 3,
        "write_topic": 2,
        "written": [['{"total":1}'], ['{"total":2}']],
        "read_state": table,
        "result": table,
        "result.diff": [],
        "serde after": [['"RUM"'], ['"TEA"'], ['"TEA"']],
        "serde written after": 1,
        "format after": [["ann"], ["ben"]],
    }
    assert refused.pop("backfill").startswith("UnsupportedForBackfill: a backfill does not run over Spark Connect")
    assert set(refused) == {"serde before", "serde written before", "format before"}
    for text in refused.values():
        assert "SparkBridgeError: " in text, text
        assert re.search("no module (named )?'mine'", text, re.IGNORECASE), text
        assert "spark.addArtifacts" in text, text
