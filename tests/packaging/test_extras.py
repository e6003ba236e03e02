"""What needs an extra that is not installed says which one, with the line to install it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import sys

sys.modules[{absent!r}] = None  # as if it were not installed
try:
    {code}
except Exception as error:
    print(error)
"""
CONFIG = "StreamsConfig.of({'application.id': 'a', 'bootstrap.servers': 'b:1'"
CASES = {
    "http": ("aiohttp", "from streams.app.kafka_streams import http_room\n    with http_room(): import aiohttp"),
    "iceberg": (
        "pyiceberg",
        "from streams.spark.sources.lake_tables import iceberg_table\n    iceberg_table('t', None)",
    ),
    "delta": ("deltalake", "from streams.spark.sources.lake_tables import delta_table\n    delta_table('t', None)"),
    "json": ("orjson", "from streams import json_serde\n    json_serde(use_orjson=True)"),
    "otel": (
        "opentelemetry",
        "from streams import StreamsConfig\n    from streams.telemetry import spans_by\n"
        f"    spans_by({CONFIG}, 'otel.traces': 1}}))",
    ),
    "registry": ("fastavro", "from streams import Avro\n    Avro(schema={'type': 'string'})"),
    "registry ": ("google", "from streams import Protobuf\n    Protobuf(int)"),
    "snapshots": ("obstore", f"from streams import StreamsConfig\n    {CONFIG}, 'state.snapshot.dir': 's3://b/x'}})"),
    "spark": ("pyspark", "from streams.spark import read_topic"),
}


@pytest.mark.parametrize("extra", CASES)
def test_a_missing_extra_is_named_with_the_line_to_install_it(extra: str, tmp_path: Path) -> None:
    absent, code = CASES[extra]
    extra = extra.strip()
    script = WITHOUT.format(absent=absent, code=code)
    found = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert f"pip install 'streams-for-kafka[{extra}]'" in found.stdout
    assert absent.replace("google", "protobuf") in found.stdout.lower()


def test_each_extra_of_users_is_tried() -> None:
    """Here, or with the command that needs it, in an environment without any (`test_fresh_install.py`)."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert extras - {"dev", "docs"} == {*map(str.strip, CASES), "local", "parquet"}
