"""What failed runs once more, alone, and is flaky when it then passes; all else fails as without that."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
ONCE = """
import pathlib, pytest, os, signal

def first_time(name):
    try:
        (pathlib.Path(__file__).parent / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def test_good():
    pass
"""
PASSES_THEN = "def test_second_time():\n    assert not first_time('seen'), 'the first time'\n"
"""A test that fails the first time, and passes then."""


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    plugins = [part for name in ("tools.flaky", *(["xdist"] if "-n" in options else [])) for part in ("-p", name)]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugins, *options],
        cwd=folder,
        env={**environment, "PYTHONPATH": f"{ROOT}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(folder: Path, text: str, *options: str) -> tuple[int, str, str]:
    """The exit status, all that was printed, and the sum in its last line."""
    (folder / "test_it.py").write_text(ONCE + text)
    process = started(folder, *options)
    output, _ = process.communicate(timeout=120)
    last = output.rstrip().splitlines()[-1]
    return process.returncode, output, re.sub(r" in [0-9.]+s.*|=", "", last).strip()


@pytest.mark.parametrize("options", [("-n", "2", "--dist", "loadfile"), ("test_it.py", "-q", "-k", "time or good")])
def test_what_passes_then_is_flaky(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The run ends well; the name stands above the sum, and in the file with how it failed."""
    status, output, total = run(tmp_path, PASSES_THEN, *options)
    assert (status, total) == (0, "1 passed, 1 flaky"), output
    assert "FLAKY test_it.py::test_second_time" in output.splitlines()[-4:]
    kept = (tmp_path / "build" / "flaky.txt").read_text()
    assert kept.startswith("FLAKY test_it.py::test_second_time (")
    assert "in its call:" in kept
    assert "AssertionError: the first time" in kept


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    """With how it failed the second time; what is flaky beside it is named."""
    text = PASSES_THEN + "def test_never():\n    assert False, first_time('never')\n"
    status, output, total = run(tmp_path, text)
    assert (status, total) == (1, "1 failed, 1 passed, 1 flaky"), output
    assert "FAILED test_it.py::test_never" in output
    assert "AssertionError: True" in output
    assert "AssertionError: False" in output
    assert "FAILED test_it.py::test_second_time" not in output
    assert re.findall("[0-9]+ passed", output) == ["1 passed"], "the sums of second tries would be read as results"


SECOND_TRIES = """
def test_left_out():
    if first_time("left out"):
        assert False
    pytest.skip("no")

def test_ends_its_process():
    if first_time("ends"):
        assert False
    os._exit(0)

@pytest.fixture
def ends_badly():
    yield
    assert not first_time("end of a fixture")

def test_end_of_a_fixture(ends_badly):
    pass

@pytest.fixture
def never_begins():
    assert False

def test_begin_of_a_fixture(never_begins):
    pass

@pytest.mark.parametrize("x", ["a//b", "c d::ü"])
def test_odd_name(x):
    assert not first_time(x.encode().hex())
"""


def test_a_second_try_counts_only_when_the_test_passes_in_it(tmp_path: Path) -> None:
    status, output, total = run(tmp_path, SECOND_TRIES)
    assert (status, total) == (1, "2 failed, 1 passed, 1 error, 3 flaky"), output
    flaky = re.findall(r"^FLAKY test_it.py::(\S+)", output, re.MULTILINE)
    assert flaky == ["test_odd_name[a//b]", "test_odd_name[c", "test_end_of_a_fixture"]


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_an_error_of_collection_fails(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Also where the file can be read the second time."""
    (tmp_path / "test_other.py").write_text(ONCE + "assert not first_time('other')\n")
    status, output, total = run(tmp_path, "", *options)
    assert status != 0, output
    assert "error" in total


def test_an_error_of_collection_beside_a_flaky_test_fails(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("raise RuntimeError\n")
    status, output, total = run(tmp_path, PASSES_THEN, "--continue-on-collection-errors")
    assert (status, total) == (1, "1 passed, 1 error, 1 flaky"), output


def test_a_process_that_a_test_ends_fails(tmp_path: Path) -> None:
    """Though the test would pass the second time."""
    text = PASSES_THEN + "def test_end():\n    if first_time('end'): os._exit(3)\n"
    status, output, total = run(tmp_path, text, "-n", "2")
    assert (status, total) == (1, "1 failed, 1 passed, 1 flaky"), output
    assert "crashed while running 'test_it.py::test_end'" in output


def test_a_run_that_stops_at_the_first_failure_fails(tmp_path: Path) -> None:
    """What it left out has not passed."""
    status, output, total = run(tmp_path, PASSES_THEN + "def test_last():\n    pass\n", "-x")
    assert (status, total) == (1, "1 failed, 1 passed"), output


def test_many_failures_are_no_chance(tmp_path: Path) -> None:
    text = "@pytest.mark.parametrize('x', range(21))\ndef test_it(x):\n    assert not first_time(str(x))\n"
    status, output, total = run(tmp_path, text)
    assert (status, total) == (1, "21 failed, 1 passed")
    assert "21 tests failed: more than 20 are not tried again" in output


@pytest.mark.parametrize("again", [False, True])
def test_ctrl_c_fails(tmp_path: Path, again: bool) -> None:
    """In a test, and while what failed is tried again."""
    wait = "(pathlib.Path(__file__).parent / 'waits').touch()\n    signal.pause()\n"
    body = "assert not first_time('x'), 'first'\n" if again else "pass\n"
    (tmp_path / "test_it.py").write_text(f"{ONCE}def test_it():\n    {body}    {wait}")
    process = started(tmp_path)
    wait_until("the test to wait", (tmp_path / "waits").exists)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    if again:
        assert "1 failed, 1 passed" in output.splitlines()[-1], output
        assert "interrupted while what failed was tried again" in output
