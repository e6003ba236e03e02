"""A process whose user has no home directory: what keeps no state works, and what does says which setting it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = """
import pwd

def nobody(uid):
    raise KeyError(uid)  # as for a user that is not in the list of users, such as an arbitrary one of a container

pwd.getpwuid = nobody
from streams import KafkaStreams, Materialized, StreamsBuilder, TopologyTestDriver
from streams.testing import EmbeddedKafka

builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").map_values(str.upper).to("out")
counting = StreamsBuilder(key_serde="string", value_serde="string")
counting.stream("in").group_by_key().count(materialized=Materialized(name="counts"))
SETTINGS = {"application.id": "a", "bootstrap.servers": "127.0.0.1:1"}
"""


def run(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process without HOME, whose user the machine does not know."""
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", NOBODY + code], env=kept, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "code",
    [
        "TopologyTestDriver(builder, {}).close()",
        "TopologyTestDriver(counting, {}).close()",
        "StreamsBuilder({'application.id': 'a'})",
        "KafkaStreams(builder, SETTINGS)",
        f"KafkaStreams(counting, SETTINGS | {{'state.dir': {'state'!r}}})",
    ],
    ids=["driver", "driver with a store", "builder with settings", "application", "application with a directory"],
)
def test_what_needs_no_home_works_without_one(code: str, tmp_path: Path) -> None:
    """All ended with "RuntimeError: Could not determine home directory."."""
    found = run(tmp_path, code)
    assert (found.returncode, found.stderr) == (0, "")


def test_an_application_with_state_says_which_setting_it_needs(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
with EmbeddedKafka() as kafka:
    kafka.create_input_topic("in", "string", "string")
    KafkaStreams(counting, SETTINGS, clients=kafka.clients).start()
""",
    )
    assert found.returncode == 1
    last = found.stderr.strip().splitlines()[-1]
    assert "set state.dir or XDG_STATE_HOME" in last
    assert not (tmp_path / "no-home-directory").exists()
