"""A script that ends with `start()`: the application runs on, as it does in Java, and not in silence.

The process ended at once with status 0, without a line, and had processed nothing.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from waiting import DEADLINE_S

REPOSITORY = Path(__file__).resolve().parents[2]

SCRIPT = """
import atexit, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from streams import KafkaStreams, StreamsBuilder
from streams.testing.broker.clients import EmbeddedClients
from streams.testing import EmbeddedKafka

class Elsewhere(EmbeddedClients):
    ends_with_process = False  # as those of a real cluster

what, state = sys.argv[1:]
kafka = EmbeddedKafka()
kafka.create_topics("in")
helper = ThreadPoolExecutor(1)
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").map_values(lambda value: helper.submit(str.upper, value).result()).foreach(
    lambda key, value: print("PROCESSED", value, flush=True)
)
clients = kafka.clients if what == "memory" else Elsewhere(kafka.broker)
settings = {"application.id": "a", "bootstrap.servers": "e:1", "state.dir": state}
app = KafkaStreams(builder, settings, clients=clients)
app.set_state_listener(lambda new, old: print(new, flush=True))
app.start()
if what == "own handler":
    signal.signal(signal.SIGTERM, lambda *_: app.close())
if what == "error":
    raise ValueError("in the script")
if what == "prompt":
    sys.ps1 = ">>> "
if what == "fork":
    child = os.fork()
    if child == 0:
        sys.exit(6)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
if what == "closed":
    app.close()
if what == "waits":
    import threading
    threading.Timer(1, app.close).start()

def record():
    kafka.create_input_topic("in").pipe_input("k", "v")

import threading
threading._register_atexit(record)  # it comes when the script has ended
"""

RUNS_ON = "streams: the script has ended, and the application runs on until SIGTERM or Ctrl-C closes it\n"


@contextmanager
def script(what: str, state: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SCRIPT, what, str(state)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("what", ["plain", "own handler"])
def test_the_application_runs_on_until_a_signal(tmp_path: Path, what: str, number: signal.Signals) -> None:
    with script(what, tmp_path) as process:
        assert process.stdout is not None
        lines = []
        while not lines or not lines[-1].startswith("PROCESSED"):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        process.send_signal(number)
        printed, errors = process.communicate(timeout=DEADLINE_S)
    assert lines[-1] == "PROCESSED V\n"
    assert printed == "PENDING_SHUTDOWN\nNOT_RUNNING\n"
    assert errors == RUNS_ON
    assert process.returncode == 0


def test_it_ends_when_something_closes_it(tmp_path: Path) -> None:
    with script("waits", tmp_path) as process:
        printed, errors = process.communicate(timeout=DEADLINE_S)
    assert printed.endswith("NOT_RUNNING\n")
    assert (errors, process.returncode) == (RUNS_ON, 0)


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("memory", 0, "the script has ended while the application ran on a cluster in memory, which ends with it"),
        ("error", 1, "the script was ended while the application ran, which is closed now"),
        ("prompt", 0, "the script was ended while the application ran, which is closed now"),
    ],
)
def test_it_is_closed_where_there_is_nothing_to_run_on_for(tmp_path: Path, what: str, status: int, said: str) -> None:
    with script(what, tmp_path) as process:
        printed, errors = process.communicate(timeout=DEADLINE_S)
    states = [line for line in printed.splitlines() if not line.startswith("PROCESSED")]  # a record may come meanwhile
    assert states[-2:] == ["PENDING_SHUTDOWN", "NOT_RUNNING"]
    assert f"streams: {said}" in errors
    assert process.returncode == status


def test_a_script_that_closes_it_ends_without_a_word(tmp_path: Path) -> None:
    with script("closed", tmp_path) as process:
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert (errors, process.returncode) == ("", 0)


def test_a_forked_child_does_not_wait_for_the_application_of_its_parent(tmp_path: Path) -> None:
    with script("fork", tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("child"):
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    assert line == "child 6\n"


RELATIVE = """
import os, sys
from pathlib import Path
from streams import ClientState, KafkaStreams, StreamsBuilder
from streams.testing import EmbeddedKafka

os.chdir(sys.argv[1])
Path("home").mkdir(), Path("elsewhere").mkdir()
os.chdir("home")
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").group_by_key().reduce(lambda _, new: new, materialized="last").to_stream().to("out")
with EmbeddedKafka() as kafka:
    kafka.create_topics("in", "out", partitions=2)
    settings = {"application.id": "a", "bootstrap.servers": "e:1", "state.dir": "state", "commit.interval.ms": 100}
    app = KafkaStreams(builder, settings, clients=kafka.clients)
    os.chdir("../elsewhere")
    with app:
        assert app.wait(60, state=ClientState.RUNNING)
        os.chdir("..")
        app.add_stream_thread()
        for number in range(4):
            kafka.create_input_topic("in").pipe_input(f"k{number}", "v")
        kafka.read_records("out", 4)
print(sorted(str(path) for path in Path(sys.argv[1]).glob("*/*/*")))
"""


def test_the_state_directory_is_where_it_was_when_the_application_was_made(tmp_path: Path) -> None:
    """The next task that was opened or closed looked for it in another working directory."""
    done = subprocess.run(
        [sys.executable, "-c", RELATIVE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert done.stdout == f"['{tmp_path}/home/state/a']\n", done.stderr
