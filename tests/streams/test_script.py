"""A script runs its application by itself, and ends as the command does."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from last_lines import as_text
from quick_process import run

REPOSITORY = Path(__file__).resolve().parents[2]
BEGIN = """
from streams import StreamsBuilder, run

builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("lines").map_values(str.upper).to("loud")
"""
WITH_BROKER = """
import os, signal, threading
from streams.testing import EmbeddedKafka

def use():
    kafka.create_input_topic("lines").pipe_input("ann", "hello")
    print(kafka.read_records("loud", 1)[0].value, flush=True)
    os.kill(os.getpid(), signal.{signal})

with EmbeddedKafka() as kafka:
    kafka.create_topics("lines", "loud")
    threading.Thread(target=use, daemon=True).start()
    run(builder, {{"commit.interval.ms": 10}}, clients=kafka.clients{more})
    print("closed")
"""


def script(folder: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = folder / "shout.py"
    path.write_text(code)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
    where = {"PYTHONPATH": str(REPOSITORY), "STREAMS_STATE_DIR": str(folder / "state"), **environment}
    return run([str(path)], Path("/"), {**kept, **where})


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_it_runs_until_a_signal_and_closes_cleanly(tmp_path: Path, number: str) -> None:
    """The address comes from the environment, the id from the name of the script."""
    code = BEGIN + WITH_BROKER.format(signal=number, more="")
    found = script(tmp_path, code, STREAMS_BOOTSTRAP_SERVERS="embedded:9092")
    assert (found.returncode, found.stdout) == (0, "HELLO\nclosed\n"), found.stderr
    assert "the application id is the name of its file" in found.stderr
    lines = [json.loads(line) for line in found.stderr.splitlines()]  # JSON, as it is no terminal
    closing = [line for line in lines if line["event"] == "closing"]
    assert [(line["application"], line["reason"]) for line in closing] == [("shout", number)]
    assert "Traceback" not in found.stderr


def test_a_script_with_logging_of_its_own_keeps_it(tmp_path: Path) -> None:
    begin = "import logging, sys\nlogging.basicConfig(level='INFO', stream=sys.stderr, format='mine %(message)s')\n"
    code = begin + BEGIN + WITH_BROKER.format(signal="SIGINT", more="")
    found = script(tmp_path, code, STREAMS_BOOTSTRAP_SERVERS="embedded:9092")
    assert found.returncode == 0, found.stderr
    assert all(line.startswith("mine ") for line in found.stderr.splitlines()), found.stderr


def test_settings_are_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "streams.toml").write_text('"application.id" = "till"\n"bootstrap.servers" = "embedded:9092"\n')
    code = BEGIN + WITH_BROKER.format(signal="SIGINT", more=', log_format="text"')
    found = script(tmp_path, code)
    assert found.returncode == 0, found.stderr
    assert "application=till" in found.stderr.splitlines()[-1]
    assert "name of its file" not in found.stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (BEGIN + "run(builder)", "error: bootstrap.servers is missing: it is the address of Kafka, as host:port"),
        (BEGIN + "run(builder, {'colour': 1, 'bootstrap.servers': 'a:1'})", "error: colour is not a setting"),
        (BEGIN + "run(builder, 3)", "error: settings must be a mapping of names to values or a StreamsConfig, got 3"),
        (BEGIN + "run(3, {'bootstrap.servers': 'a:1'})", "error: expected a topology, a StreamsBuilder or a function"),
        (
            "from streams import *\nrun(Topology().add_source('s', 't'), {'bootstrap.servers': 'a:1'})",
            "each of these one of its own: source 's' of topic 't' at ",
        ),
    ],
)
def test_a_wrong_step_is_one_line_and_status_2(tmp_path: Path, code: str, words: str) -> None:
    found = script(tmp_path, code)
    assert found.returncode == 2
    assert words in as_text(found.stderr).splitlines()[-1]
    assert "Traceback" not in found.stderr


def test_a_signal_while_no_broker_answers_ends_it(tmp_path: Path) -> None:
    begin = f"""
import os, signal, threading, logging
class Seen(logging.Handler):
    def emit(self, record):
        if record.getMessage() == "state":  # it begins to look for the broker
            os.kill(os.getpid(), signal.{signal.SIGTERM.name})
logging.getLogger("streams").addHandler(Seen())
"""
    found = script(tmp_path, begin + BEGIN + "run(builder)", STREAMS_BOOTSTRAP_SERVERS="localhost:1")
    assert found.returncode == 0, found.stderr
    assert "stopped before it started" in found.stderr
