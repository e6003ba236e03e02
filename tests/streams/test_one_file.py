"""An application in one file: its topology and settings are found by name, and settings have one order."""

import logging
import os
import subprocess
from pathlib import Path

import pytest

from last_lines import as_text
from processor_api.errors import ConfigError
from quick_process import run
from streams.config.sources import Given, file_beside

REPOSITORY = Path(__file__).resolve().parents[2]
APP = """
import dataclasses
from streams import StreamsBuilder

@dataclasses.dataclass
class Order:
    cents: int

settings = {"default.key.serde": "string", "default.value.serde": Order, "poll.ms": 1, "commit.interval.ms": 1}

builder = StreamsBuilder()
builder.stream("orders").to("copies")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def streams(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
    return run(["-m", "streams", *words], folder, {**kept, "PYTHONPATH": str(REPOSITORY), **environment})


def shown(folder: Path, *words: str, **environment: str) -> dict[str, tuple[str, str]]:
    found = streams(folder, "config", "show", "--given", *words, **environment)
    assert found.returncode == 0, found.stderr
    rows = (line.partition("  #") for line in found.stdout.splitlines())
    return {row[0].partition(" =")[0]: (row[0].partition("= ")[2].strip(), row[2].strip()) for row in rows}


def test_each_place_of_settings_wins_over_the_one_before(folder: Path) -> None:
    (folder / "streams.toml").write_text(
        '"commit.interval.ms" = 2\n"max.task.idle.ms" = 2\n[consumer]\n"debug" = "cgrp"'
    )
    (folder / "more.toml").write_text('"max.task.idle.ms" = 3\n"task.timeout.ms" = 3')
    words = ["shop.py", "--config", "more.toml", "-c", "state.cleanup.delay.ms=5", "-c", "bootstrap.servers=a:1"]
    environment = {
        "STREAMS_TASK_TIMEOUT_MS": "4",
        "STREAMS_STATE_CLEANUP_DELAY_MS": "4",
        "STREAMS_CONSUMER_FETCH_MIN_BYTES": "4",
    }
    assert shown(folder, *words, "--bootstrap-servers", "b:1", **environment) == {
        "application.id": ("shop", "name of shop.py"),
        "bootstrap.servers": ("b:1", "--bootstrap-servers"),
        "default.key.serde": ("string", "shop:settings"),
        "default.value.serde": ("shop:Order", "shop:settings"),
        "poll.ms": ("1", "shop:settings"),
        "commit.interval.ms": ("2", "streams.toml"),
        "consumer.debug": ("cgrp", "streams.toml"),
        "max.task.idle.ms": ("3", "more.toml"),
        "task.timeout.ms": ("4", "$STREAMS_TASK_TIMEOUT_MS"),
        "consumer.fetch.min.bytes": ("4", "$STREAMS_CONSUMER_FETCH_MIN_BYTES"),
        "state.cleanup.delay.ms": ("5", "-c"),
    }


def test_what_is_shown_can_be_given_back(folder: Path) -> None:
    value, _ = shown(folder, "shop.py")["default.value.serde"]
    (folder / "shop.py").write_text(APP.replace('"default.value.serde": Order, ', ""))
    assert shown(folder, "-c", f"default.value.serde={value}")["default.value.serde"] == (value, "-c")


def test_settings_of_a_project_are_in_its_own_table(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.streams]\n"application.id" = "till"\n')
    assert shown(folder, "shop.py")["application.id"] == ("till", "pyproject.toml")
    (folder / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert shown(folder, "shop")["application.id"] == ("shop", "name of shop")


def test_files_are_beside_the_application_wherever_the_command_is(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "streams.toml").write_text('"application.id" = "till"\n"default.key.serde" = "keys:KEYS"\n')
    (folder / "sub" / "till.py").write_text("from streams import StreamsBuilder\ntopology = StreamsBuilder\n")
    (folder / "sub" / "keys.py").write_text("from streams import Serdes\nKEYS = Serdes.UUID\n")
    found = shown(folder, "sub/till.py")
    assert found["application.id"] == ("till", os.path.join("sub", "streams.toml"))
    assert found["default.key.serde"][0] == "uuid"


def test_the_application_is_described_and_checked_by_its_file(folder: Path) -> None:
    found = streams(folder, "describe", "shop.py")
    assert (found.returncode, found.stderr) == (0, "")
    assert "(topics: [orders])" in found.stdout
    (folder / "shop.py").write_text(APP.replace('"default.value.serde": Order, ', ""))
    found = streams(folder, "describe", "shop.py")
    assert found.returncode == 0
    assert found.stderr.startswith("warning: serdes are missing")
    source = "source 'KSTREAM-SOURCE-0000000000' of topic 'orders' at shop.py:12"
    assert f"{source}: stream(orders, value_serde=...)" in found.stderr
    found = streams(folder, "run", "shop.py", "--bootstrap-servers", "localhost:1")
    assert found.returncode == 2
    assert "the application id is the name of its file" in found.stderr
    (end,) = (line for line in as_text(found.stderr).splitlines() if line.startswith("error: "))
    assert end.startswith("error: serdes are missing")
    assert "set default.value.serde" in found.stderr


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("streams.toml", "=", "streams.toml is not valid TOML"),
        ("pyproject.toml", "=", "pyproject.toml cannot be read to search for [tool.streams]"),
        ("pyproject.toml", "[tool]\nstreams = 3", "is 3: make it a table of settings, [tool.streams]"),
        ("shop.py", "settings = 3", "settings of module shop is 3: make it a dict of names and values"),
        ("shop.py", "settings = {'colour': 1}\nfrom streams import StreamsBuilder", "colour is not a setting"),
        ("shop.py", "1 / 0", "module shop failed to import (shop.py, line 1)"),
        ("shop.py", "x = 1", "module shop does not have a topology: name the function that makes it topology"),
    ],
)
def test_a_wrong_step_is_one_line_and_status_2(folder: Path, file: str, text: str, words: str) -> None:
    (folder / file).write_text(text)
    found = streams(folder, "run", "shop.py", "--bootstrap-servers", "localhost:1")
    assert found.returncode == 2
    errors = [line for line in found.stderr.splitlines() if not line.startswith(" ")]
    assert words in errors[-1]
    assert "Traceback" not in found.stderr


def test_two_files_beside_the_application_are_refused(tmp_path: Path) -> None:
    assert file_beside(tmp_path) is None
    (tmp_path / "pyproject.toml").write_text("[tool.streams]\n")
    assert file_beside(tmp_path) == (tmp_path / "pyproject.toml", {})
    (tmp_path / "streams.toml").write_text("")
    with pytest.raises(ConfigError, match=r"streams\.toml and \[tool\.streams\] of .* remove one of the two"):
        file_beside(tmp_path)


def test_variables_of_other_programs_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    given = Given()
    with caplog.at_level(logging.WARNING):
        given.add_environment({"STREAMS_SERVICE_HOST": "x", "PATH": "/", "STREAMS_POLL_MS": "5"})
        assert not caplog.records
        given.add_environment({"STREAMS_BOOTSTRAP_SERVER": "a:1"})
    assert given.settings == {"poll.ms": "5"}
    (record,) = caplog.records
    assert vars(record)["perhaps"] == "STREAMS_BOOTSTRAP_SERVERS"
