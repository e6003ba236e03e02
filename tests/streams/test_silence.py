"""A library does not touch the root of logging: it is silent unless the application sets up its logs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bad_input_support.rows import run_python

APPLICATION = """
import logging, sys
from streams import *
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

root = logging.getLogger()
before = (list(root.handlers), root.level, logging.lastResort, logging.getLogger("streams").level)
{setup}

builder = StreamsBuilder()
text = Serdes.STRING
numbers = builder.stream("in", Consumed(key_serde=text, value_serde=text)).map_values(int)
numbers.to("out", Produced(key_serde=text, value_serde=Serdes.LONG))
settings = {{
    "application.id": "app",
    "bootstrap.servers": "in-memory:9092",
    "state.dir": sys.argv[1],
    "poll.ms": 10,
    "rack.aware.assignment.strategy": "balance_subtopology",
}}
broker = EmbeddedBroker()
for topic in ("in", "out"):
    broker.create_topic(topic, 1)
clients = EmbeddedClients(broker)
producer = clients.producer({{}})
producer.produce("in", b"no number", b"k", 0, None, None, 5, None)
producer.flush()
app = KafkaStreams(builder.build(), settings, clients=clients)
app.start()
app.wait(60)
app.close()
assert app.state == "ERROR", app.state
settings["processing.exception.handler"] = log_and_continue_processing
with TopologyTestDriver(builder.build(), settings) as driver:
    driver.pipe_raw("in", b"k", b"no number", 0)
{check}
"""
UNTOUCHED = 'assert before == (list(root.handlers), root.level, logging.lastResort, logging.getLogger("streams").level)'


def test_it_says_nothing_unless_asked(tmp_path: Path) -> None:
    """Whatever happens: warnings of settings, dropped records, an application that dies."""
    found = run_python(["-c", APPLICATION.format(setup="", check=UNTOUCHED), str(tmp_path)], tmp_path)
    assert (found.status, found.out, found.err) == (0, "", "")


@pytest.mark.parametrize(
    "setup", ["logging.basicConfig()", "logging.getLogger('streams').addHandler(logging.StreamHandler())"]
)
def test_it_tells_everything_when_asked(setup: str, tmp_path: Path) -> None:
    """By the root, or by the loggers below `streams` alone."""
    found = run_python(["-c", APPLICATION.format(setup=setup, check=""), str(tmp_path)], tmp_path)
    assert found.status == 0, found.err
    told = ("rack.aware.assignment.strategy has no effect", "thread dies", "record dropped: it cannot be processed")
    assert [text for text in told if text not in found.err] == []


def test_every_logger_is_below_streams() -> None:
    """Two were not, so that they spoke unasked, and were not heard by who asked for `streams` alone."""
    packages = [Path(__file__).resolve().parents[2] / name for name in ("streams", "dsl", "state", "processor_api")]
    files = [file for package in packages for file in package.rglob("*.py") if "cli" not in file.parts]
    files.remove(packages[0] / "log.py")  # it holds loggers of other libraries at a level, for commands and `run`
    names = {name for file in files for name in re.findall(r"getLogger\((.*?)\)", file.read_text())}
    assert len(names) > 10
    assert [name for name in names if not re.fullmatch(r'"streams(\.[a-z.]+)?"', name)] == []


def test_only_the_command_line_sets_up_logs() -> None:
    """No other room adds handlers or sets levels, and structlog is loaded by none."""
    packages = [Path(__file__).resolve().parents[2] / name for name in ("streams", "dsl", "state", "processor_api")]
    files = [file for package in packages for file in package.rglob("*.py") if "cli" not in file.parts]
    files.remove(packages[0] / "log.py")  # it holds loggers of other libraries at a level, for commands and `run`
    words = ("basicConfig", "dictConfig", "setLevel", "StreamHandler", "structlog", "getLogger()")
    found = {file.name: word for file in files for word in words if word in file.read_text()}
    assert found == {}
