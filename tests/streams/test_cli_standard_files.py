"""Commands whose standard input, output or errors are closed, or whose reader goes away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli.output.failures import READER_GONE

APP = """
from streams import StreamsBuilder

builder = StreamsBuilder(key_serde="string", value_serde="string")
for number in range(300):
    builder.stream(f"in-{number}-{'x' * 200}").filter(lambda key, value: True).to(f"out-{number}-{'x' * 200}")
"""
"""Its description is long."""
COMMAND = [sys.executable, "-m", "streams"]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def in_shell(words: str, app: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command by a shell, which can close descriptors."""
    first, _, rest = words.partition(" ")
    line = f"{' '.join(COMMAND)} {first} {app.name} {rest}"
    return subprocess.run(["sh", "-c", line], cwd=app.parent, capture_output=True, text=True, timeout=120)


def test_a_reader_that_goes_away_ends_a_command_without_a_word(app: Path) -> None:
    """With the status that a shell gives a program which SIGPIPE has ended. How much a pipe holds for a reader that has
    read one line is up to the system, so this one goes before that."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, "describe", app.name]
    with subprocess.Popen(command, cwd=app.parent, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        assert process.communicate(timeout=120)[1] == b""
    assert process.returncode == READER_GONE == 141


def test_a_closed_output_is_told_where_it_is_written_to(app: Path) -> None:
    done = in_shell("describe 1>&-", app)
    assert (
        done.stderr
        == "error: the standard output is closed, but the command writes to it: run it with an open standard output\n"
    )
    assert done.returncode == 1


def test_so_is_one_to_which_help_is_written(app: Path) -> None:
    done = in_shell("--version 1>&-", app)
    assert (
        done.stderr
        == "error: the standard output is closed, but the command writes to it: run it with an open standard output\n"
    )
    assert done.returncode == 1


def test_closed_errors_change_nothing(app: Path) -> None:
    whole = in_shell("describe", app)
    assert len(whole.stdout) > 1 << 17
    assert in_shell("describe 2>&-", app).stdout == whole.stdout
    assert in_shell("describe 2>&- 1>&-", app).returncode == 1


def test_a_closed_input_has_no_records(app: Path) -> None:
    done = in_shell("try 0<&-", app)
    assert (done.returncode, done.stderr) == (0, "")


HOLDS = """
import os, sys
from streams import KafkaStreams, StreamsBuilder

builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").to("out")
app = KafkaStreams(builder.build(), {"application.id": "a", "bootstrap.servers": "127.0.0.1:1", "state.dir": "state"})
with open("data", "wb") as file:  # such as a file of a database
    file.write(b"row")
    file.flush()
    try:
        os.write(2, b"librdkafka says something")
    except OSError:
        pass
"""


@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_no_file_of_an_application_gets_the_number_of_what_was_closed(tmp_path: Path, closed: str) -> None:
    """What a library wrote as an error was written into the file that had got its number."""
    line = f"{sys.executable} script.py {closed}"
    (tmp_path / "script.py").write_text(HOLDS)
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "data").read_bytes() == b"row"
