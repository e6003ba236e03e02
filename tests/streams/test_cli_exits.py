"""Functions of an application that end by `SystemExit`, or another error that no `except Exception` catches, run by a
command: one line says which function did so, and the status is that of an application that cannot run."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.cli.main import main
from streams.cli.output.causes import CANNOT_RUN, FAILED

APP = """
import asyncio, sys
from streams import Serde, Serdes, StreamsBuilder

class End(BaseException):
    "Stands for the cancellations of libraries."

def end(where):
    if where == {place!r}:
        {statement}

def topology():
    end("function")
    builder = StreamsBuilder(key_serde="string", value_serde=Serde(Serdes.STRING.serialize, read))
    builder.stream("in").map_values(mapped).to("out")
    return Built(builder)

class Built:
    def __init__(self, builder):
        self.builder = builder
    def build(self, config):
        end("build")
        return self.builder.build(config)

def mapped(value):
    end("mapper")
    return value

def read(data):
    end("serde")
    return data.decode()

end("import")
"""
RAISES = {
    "exit": ("sys.exit(0)", "SystemExit"),
    "other": ('raise End("no more")', "End"),
    "generator": ("raise GeneratorExit", "GeneratorExit"),
    "cancelled": ("raise asyncio.CancelledError", "CancelledError"),
}
_NUMBERS = itertools.count(1)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on an application that ends in a place; returns its status and what it said."""

    def call(command: str, place: str, how: str, *words: str) -> tuple[int, str]:
        name = f"exits{next(_NUMBERS)}"  # a module is imported once
        (tmp_path / f"{name}.py").write_text(APP.format(place=place, statement=RAISES[how][0]))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        text = ["--log-format", "text"] if command == "run" else []
        status = main([command, f"{name}.py", *words, *text])
        return status, capfd.readouterr().err.replace(name, "app")

    return call


@pytest.mark.parametrize("how", RAISES)
@pytest.mark.parametrize("place", ["import", "function", "build"])
@pytest.mark.parametrize("command", ["run", "try", "describe"])
def test_an_exit_while_a_topology_is_made_is_an_error_that_says_where(
    run: Run, command: str, place: str, how: str
) -> None:
    """`sys.exit(0)` would have been a success, and other errors a traceback."""
    words = ["--bootstrap-servers", "b:1"] if command == "run" else []
    status, said = run(command, place, how, *words)
    assert status == CANNOT_RUN
    [line] = [one for one in said.splitlines() if one.startswith("error: ")]
    assert f"; caused by {RAISES[how][1]}" in line
    assert "failed" in line
    assert "(app.py, line 10)" in line
    assert "Traceback" not in said


@pytest.mark.parametrize("how", RAISES)
@pytest.mark.parametrize("place", ["mapper", "serde"])
def test_an_exit_while_a_record_is_tried_is_an_error_of_the_command(
    run: Run, tmp_path: Path, place: str, how: str
) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"key": "k", "value": "a"}')
    status, said = run("try", place, how, "--input", str(lines))
    assert status == FAILED
    assert RAISES[how][1] in said
    assert "Traceback" not in said


@pytest.mark.parametrize("place", ["import", "function", "build"])
def test_ctrl_c_while_a_topology_is_made_ends_as_anywhere(
    run: Run, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setitem(RAISES, "ctrl-c", ("raise KeyboardInterrupt", ""))
    status, said = run("describe", place, "ctrl-c")
    assert (status, said) == (130, "")
