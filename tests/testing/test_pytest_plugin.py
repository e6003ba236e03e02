"""The plugin as its users meet it: pytest in a process of its own, in a folder of theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

TOPOLOGY = """
from streams import Consumed, Produced, Serdes, StreamsBuilder

def topology(config):
    assert config is not None
    builder = StreamsBuilder()
    texts = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    builder.stream("in", texts).map_values(str.upper).to("out")
    return builder
"""
SETTINGS = """
from streams import Serdes

SETTINGS = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
"""


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Run:
    """``run({file: text}, *arguments)`` writes files and runs pytest on them with this plugin alone."""

    def start(files: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
        for name, text in {"pytest.ini": "[pytest]\nfilterwarnings = error\n", **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, "-X", "importtime", "-m", "pytest", "-q", "-p", "streams_pytest", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return start


def test_a_driver_is_there_and_is_closed(run: Run, tmp_path: Path) -> None:
    """Each test may start several, from a topology, a builder or a function; their state goes with them."""
    found = run(
        {
            "app.py": TOPOLOGY,
            "test_app.py": f"""
from app import topology
from processor_api.errors import StreamsError
{SETTINGS}
drivers = []

def test_upper(streams_driver):
    for made in (topology, topology(1), topology(1).build()):
        driver = streams_driver(made, SETTINGS, initial_wall_clock_time=5)
        drivers.append(driver)
        driver.create_input_topic("in").pipe_input("k", "v")
        assert driver.create_output_topic("out").read_record().timestamp == 5
        assert str(driver.config.state_dir).startswith({str(tmp_path / "temp")!r})

def test_closed():
    assert len(drivers) == 3
    for driver in drivers:
        try:
            driver.get_all_state_stores()
        except StreamsError as error:
            assert "closed" in str(error)
        else:
            raise AssertionError("open")
""",
        },
        f"--basetemp={tmp_path / 'temp'}",
    )
    assert found.returncode == 0, found.stdout
    assert "2 passed" in found.stdout
    assert not [path for path in (tmp_path / "temp").glob("**/*") if path.name.startswith("streams-driver-")]


def test_a_broker_and_applications_on_it(run: Run) -> None:
    """The application is stopped at the end of its test, the broker is another one in the next."""
    found = run(
        {
            "app.py": TOPOLOGY,
            "test_app.py": f"""
from app import topology
{SETTINGS}
apps = []

def test_upper(streams_kafka, streams_application):
    streams_kafka.create_topics("in", "out", partitions=2)
    apps.append(streams_application(topology, SETTINGS))
    streams_kafka.create_input_topic("in").pipe_input("k", "v")
    assert [record.value for record in streams_kafka.read_records("out", 1)] == ["V"]
    assert apps[0].state == "RUNNING"

def test_closed(streams_kafka):
    assert apps[0].state == "NOT_RUNNING"
    assert not streams_kafka.broker.topics
""",
        }
    )
    assert found.returncode == 0, found.stdout
    assert "2 passed" in found.stdout


def test_the_fixtures_are_documented(run: Run) -> None:
    found = run({}, "--fixtures", "--color=no")
    for name in ("streams_driver", "streams_kafka", "streams_application"):
        assert f"\n{name} -- " in found.stdout
        _, _, text = found.stdout.partition(f"\n{name} -- ")
        assert "no docstring available" not in text.splitlines()[1]


HEAVY = ("confluent_kafka", "pydantic", "rocksdict", "structlog", "streams.testing.driver", "dsl", "state")


def test_a_run_that_does_not_use_it_loads_next_to_nothing(run: Run) -> None:
    found = run({"test_other.py": "def test_other(): assert 1 + 1 == 2\n"})
    assert found.returncode == 0, found.stdout
    loaded = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines() if line.startswith("import time:")}
    assert "streams.testing.pytest_plugin" in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("shadow", ["state.py", "streams.py", "streams/__init__.py", "dsl/__init__.py"])
def test_a_project_with_a_package_of_the_same_name_is_left_alone(run: Run, shadow: str) -> None:
    """Its tests run; only a test that wants the fixtures is told that there are none."""
    name = shadow.partition("/")[0].removesuffix(".py")
    found = run({
        shadow: "THEIRS = True\n",
        "test_own.py": f"def test_own():\n    import {name}\n    assert {name}.THEIRS\n",
        "test_ours.py": "def test_ours(streams_driver): pass\n",
    })  # fmt: skip
    assert "1 passed" in found.stdout, found.stdout + found.stderr[-2000:]
    assert "1 error" in found.stdout
    assert "fixture 'streams_driver' not found" in found.stdout


def test_it_is_registered_once_however_often_it_is_named(run: Run) -> None:
    """By the distribution, and by a project that names it itself."""
    found = run({"test_own.py": "def test_own(streams_driver): pass\n"}, "-p", "streams.testing.pytest_plugin")
    assert "1 passed" in found.stdout, found.stdout + found.stderr[-2000:]


def test_the_distribution_names_it(root: Path) -> None:
    """Under a name of its own, and without pytest among what it needs."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"streams": "streams_pytest"}
    assert not [each for each in project["dependencies"] if each.startswith("pytest")]
