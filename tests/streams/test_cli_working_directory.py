"""User code that changes the working directory: what was given to the command leads where it did at the start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from quick_process import run

REPOSITORY = Path(__file__).resolve().parents[2]

APP = """
import os
from streams import StreamsBuilder

def turn(where):
    if where in os.environ["TURNS"]:
        os.chdir("elsewhere")

turn("import")
settings = {"application.id": "a", "bootstrap.servers": "e:1", "commit.interval.ms": 50}

def seen(key, value):
    turn("record")
    return value

def topology():
    if "fail" in os.environ["TURNS"]:
        raise ValueError("no topology today")
    turn("topology")
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("in").map_values_with_key(seen) if os.environ["TURNS"] == "record" else builder.stream("in")
    stream.group_by_key().reduce(lambda _, new: new, materialized="last").to_stream().to("out")
    return builder
"""
COMMAND = """
import sys, threading
from streams import KafkaStreams
from streams.cli.main import main
from streams.testing import EmbeddedKafka

with EmbeddedKafka() as kafka:
    kafka.create_topics("in", "out")
    kafka.create_input_topic("in").pipe_input("k", "v")

    def run(topology, config):
        app = KafkaStreams(topology, config, clients=kafka.clients)
        def end():
            kafka.read_records("out", 1)
            app.close()
        threading.Thread(target=end).start()
        return app

    sys.exit(main(sys.argv[1:], runner=run))
"""
WORKERS = """
import sys
from streams.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def streams(folder: Path, code: str, turns: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "elsewhere").mkdir(exist_ok=True)
    (folder / "app.py").write_text(APP)
    return run(["-c", code, *words], folder, {**os.environ, "PYTHONPATH": str(REPOSITORY), "TURNS": turns})


@pytest.mark.parametrize("turns", ["import", "topology", "record"])
def test_a_relative_state_directory_is_where_it_was_at_the_start(turns: str, tmp_path: Path) -> None:
    done = streams(tmp_path, COMMAND, turns, "run", "app.py", "-c", "state.dir=state")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "state" / "a" / "0_0").is_dir()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_module_that_changes_the_directory_is_found_again(tmp_path: Path) -> None:
    """By its relative name, with a relative file of settings; `file ... does not exist` ended the command."""
    (tmp_path / "more.toml").write_text('"poll.ms" = 50')
    done = streams(tmp_path, WORKERS, "import", "describe", "app.py")
    assert (done.returncode, done.stderr) == (0, "")
    done = streams(
        tmp_path, WORKERS, "import", "config", "show", "app.py", "--config", "more.toml", "-c", "state.dir=s"
    )
    assert done.returncode == 0, done.stderr
    assert f"state.dir = {tmp_path}/s " in done.stdout
    assert "poll.ms = 50 " in done.stdout


def test_workers_of_a_supervisor_start_where_it_did(tmp_path: Path) -> None:
    """It has imported the module, and they find it by the same arguments: the error is that of the topology."""
    done = streams(tmp_path, WORKERS, "import, then fail", "run", "app.py", "--workers", "2")
    assert "does not exist" not in done.stderr
    assert "ValueError: no topology today" in done.stderr
    assert done.returncode == 2
