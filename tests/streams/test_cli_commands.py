"""The command as a user meets it: a process, its output and its status."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from last_lines import as_text
from quick_process import run

REPOSITORY = Path(__file__).resolve().parents[2]

APP = """
from processor_api.topology.topology import Topology
def topology(): return Topology().add_source("source", "in").add_sink("sink", "out", "source")
def of(config): return Topology().add_source("source", config.application_id)
"""
DESCRIPTION = """Topologies:
   Sub-topology: 0
    Source: source (topics: [in])
      --> sink
    Sink: sink (topic: out)
      <-- source

"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def streams(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(["-m", "streams", *arguments], folder, {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment})


def in_a_fresh_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With nothing imported before."""
    return subprocess.run(
        [sys.executable, "-m", "streams", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_version_is_printed(folder: Path) -> None:
    found = streams(folder, "--version")
    assert found.returncode == 0
    assert found.stdout.startswith("streams ")
    assert found.stdout.split()[1][0].isdigit()


@pytest.mark.parametrize("arguments", [(), ("fly",), ("run",), ("run", "app:topology", "--workers", "0"), ("config",)])
def test_wrong_usage_is_status_2(folder: Path, arguments: tuple[str, ...]) -> None:
    found = streams(folder, *arguments)
    assert found.returncode == 2
    assert "usage: streams" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_topology_is_described_without_a_broker_or_settings(folder: Path) -> None:
    found = streams(folder, "describe", "app:topology")
    assert (found.returncode, found.stdout, found.stderr) == (0, DESCRIPTION, "")
    assert "(topics: [described])" in streams(folder, "describe", "app:of").stdout
    assert "(topics: [mine])" in streams(folder, "describe", "app:of", "--application-id", "mine").stdout


def test_describing_loads_no_client_no_store_and_no_pydantic(folder: Path) -> None:
    (folder / "spy.py").write_text(
        "import sys, atexit\nfrom app import topology\n"
        "heavy = {'confluent_kafka', 'rocksdict', 'pydantic', 'structlog'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
    )
    found = in_a_fresh_python(folder, "describe", "spy:topology")
    assert (found.returncode, found.stderr) == (0, "[]\n")


CHANGED = """
from app import *
def rolls(): return topology().add_sink("more", "copies", "source")
def waits(): return topology().add_source("other", "others")
"""


@pytest.mark.parametrize(
    ("new", "status", "texts"),
    [
        ("app:topology", 0, ["The layouts are the same.", "replace them one by one"]),
        ("new:rolls", 0, ["rolls  subtopology 0 writes to copies, which is new", "replace them one by one"]),
        ("new:waits", 1, ["waits  subtopology 1 is new: reads others", "until the last of the old ones"]),
    ],
)
def test_two_versions_are_compared(folder: Path, new: str, status: int, texts: list[str]) -> None:
    """With a file that was kept, and with the other version itself."""
    (folder / "new.py").write_text(CHANGED)
    (folder / "layout.json").write_text(streams(folder, "describe", "app:topology", "--layout").stdout)
    for old in ("layout.json", "app.py:topology"):
        found = streams(folder, "describe", new, "--diff", old)
        assert found.returncode == status, found.stderr
        assert [text in found.stdout for text in texts] == [True, True], found.stdout


@pytest.mark.parametrize(
    ("old", "text"),
    [
        ("layout", "layout is not the layout of a topology"),
        ("none.json", "none.json does not exist: create one by streams describe APP --layout"),
        ("none.py", "the topology of none.py cannot be read: file "),
        ("none:topology", "the topology of none:topology cannot be read: "),
    ],
)
def test_a_version_that_is_not_there_is_named(folder: Path, old: str, text: str) -> None:
    (folder / "layout").write_text("{}")
    found = streams(folder, "describe", "app:topology", "--diff", old)
    assert (found.returncode, found.stdout) == (2, "")
    assert text in found.stderr


@pytest.mark.parametrize("command", ["run", "describe"])
def test_a_module_that_fails_to_import_is_one_line(folder: Path, command: str) -> None:
    (folder / "broken.py").write_text("import app\n\nraise RuntimeError('out of cheese')\n")
    text = ("--log-format", "text") if command == "run" else ()
    found = streams(folder, command, "broken:topology", "--application-id", "a", "--bootstrap-servers", "b:1", *text)
    assert found.returncode == 2
    assert found.stderr == (
        "error: module broken failed to import (broken.py, line 3); caused by RuntimeError: out of cheese\n"
        f'  File "{folder}/broken.py", line 3, in <module>\n'
        "    raise RuntimeError('out of cheese')\n"
    )


def test_the_traceback_is_there_when_debugging(folder: Path) -> None:
    (folder / "broken.py").write_text("raise RuntimeError('out of cheese')\n")
    settings = ("--application-id", "a", "--bootstrap-servers", "b:1")
    found = streams(folder, "run", "broken:topology", *settings, "--log-level", "debug", "--log-format", "text")
    assert "raise RuntimeError('out of cheese')" in found.stderr
    assert "\nerror: module broken failed to import (broken.py, line 1)" in found.stderr


def test_every_wrong_setting_is_told_at_once(folder: Path) -> None:
    found = streams(folder, "run", "app:topology", "-c", "num.stream.threads=none", "-c", "colour=blue")
    assert found.returncode == 2
    assert as_text(found.stderr).splitlines() == [
        "error: 3 settings are wrong:",
        "  colour is not a setting",
        "  bootstrap.servers is missing: it is the address of Kafka, as host:port; set it in streams.toml next to the"
        " application, by the variable STREAMS_BOOTSTRAP_SERVERS or by -c bootstrap.servers=host:port",
        "  num.stream.threads must be a whole number, got 'none'",
    ]


def test_a_file_named_like_one_of_our_packages_is_told(folder: Path) -> None:
    (folder / "state.py").write_text("")
    found = in_a_fresh_python(folder, "describe", "app:topology")
    assert found.returncode != 0
    assert "streams needs its own package 'state', but" in found.stderr


def test_the_settings_in_effect_are_shown_with_where_they_came_from(folder: Path) -> None:
    (folder / "app.properties").write_text(
        "application.id=orders\nsasl.password=hunter2\nenable.transactional.statestores=true\n"
    )
    arguments = ("--config", "app.properties", "-c", "poll_ms=7", "--bootstrap-servers", "kafka:9092")
    found = streams(folder, "config", "show", *arguments, XDG_STATE_HOME="/var/state")
    assert found.returncode == 0
    assert "hunter2" not in found.stdout + found.stderr
    rows = dict(line.split("  # ") for line in found.stdout.splitlines())
    shown = {setting.rstrip(): origin for setting, origin in rows.items()}
    assert shown["application.id = orders"] == "app.properties"
    assert shown["sasl.password = ********"] == "app.properties"
    assert shown["enable.transactional.statestores = true"] == "app.properties; no effect"
    assert shown["poll.ms = 7"] == "-c"
    assert shown["bootstrap.servers = kafka:9092"] == "--bootstrap-servers"
    assert shown["commit.interval.ms = 1000"] == "default"
    assert shown["state.dir = /var/state/streams"] == "default"
    assert shown["default.key.serde ="] == "default"
    given = streams(folder, "config", "show", "--given", *arguments).stdout
    assert len(given.splitlines()) == 5
    assert "default" not in given


def test_the_settings_are_shown_before_there_are_all(folder: Path) -> None:
    """Nothing was shown without an application id and servers; now they are shown as missing."""
    found = streams(folder, "config", "show", "-c", "poll.ms=7", XDG_STATE_HOME="/var/state")
    assert (found.returncode, found.stderr) == (0, "")
    rows = [line.split("  # ") for line in found.stdout.splitlines()]
    shown = {setting.rstrip(): origin for setting, origin in rows}
    assert shown["poll.ms = 7"] == "-c"
    assert shown["commit.interval.ms = 1000"] == "default"
    assert shown["state.dir = /var/state/streams"] == "default"
    assert shown["bootstrap.servers ="].startswith(
        "missing: it is the address of Kafka, as host:port; set it in streams.toml"
    )
    assert shown["application.id ="].startswith("missing: it names the consumer group")
    given = streams(folder, "config", "show", "--given", "--application-id", "orders").stdout.splitlines()
    assert [line.split("  # ")[0].rstrip() for line in given] == ["application.id = orders", "bootstrap.servers ="]
    assert streams(folder, "config", "show", "-c", "poll.ms=x").returncode == 2


def test_the_commands_for_state_are_loaded_only_for_them(folder: Path) -> None:
    code = (
        "import sys\nfrom streams.cli.main import main\n"
        "assert main(['describe', 'app:topology']) == 0\n"
        "loaded = [name for name in sys.modules if name.startswith(('streams.cli.state.', 'state.directory.state'))]\n"
        "assert loaded == [], loaded\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{folder}"}
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, timeout=60)
    assert "export" in streams(folder, "state", "--help").stdout


def test_output_into_a_closed_pipe_ends_quietly(folder: Path) -> None:
    command = [sys.executable, "-m", "streams", "config", "show"]
    command += ["--application-id", "a", "--bootstrap-servers", "b:1"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    read_end, write_end = os.pipe()
    os.close(read_end)
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=write_end, stderr=subprocess.PIPE) as process:
        os.close(write_end)
        assert process.communicate(timeout=60)[1] == b""
        assert process.returncode == 141


def test_the_supervisor_runs_from_the_command_line_and_gives_up_what_cannot_run(folder: Path) -> None:
    """The workers are the real command; their topology is refused, so none is started a second time."""
    (folder / "none.py").write_text("def topology(): return None\n")
    found = streams(
        folder, "run", "none:topology", "--application-id", "a", "--bootstrap-servers", "b:1", "--workers", "2"
    )
    assert found.returncode == 2
    assert "error: none:topology must return a topology" in as_text(found.stderr)
    assert "worker given up, stopping all" in found.stderr
    assert "Traceback" not in found.stderr


def test_ctrl_c_while_a_command_loads_is_quiet(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(600)\ndef topology(): return None\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "streams", "describe", "slow:topology"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "loading\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()
