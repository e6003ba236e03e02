"""An application whose user code forks: its tasks move, and its children end, as if there were none."""

import subprocess
import sys
from pathlib import Path

import pytest

from waiting import DEADLINE_S

REPOSITORY = Path(__file__).resolve().parents[2]

APPLICATION = """
import logging, multiprocessing, os, sys
from streams import ClientState, KafkaStreams, StreamsBuilder, StreamsError
from streams.testing import EmbeddedKafka

logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
what, state = sys.argv[1:]
parent, children, pool = os.getpid(), [], None

def use(value):
    global pool
    if what == "pool":
        pool = pool or multiprocessing.get_context("fork").Pool(2)
        return pool.apply(str.upper, (value,))
    child = os.fork()
    if child == 0:
        if what == "exits":
            sys.exit(7)
        if what == "raises":
            raise ValueError("in the child")
        if what == "returns":
            return value
    children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return value.upper()

def send(values):
    records = kafka.create_input_topic("in")
    for number, value in enumerate(values):
        records.pipe_input(f"k{number}", value)

builder = StreamsBuilder(key_serde="string", value_serde="string")
counted = builder.stream("in").map_values(use if what != "main" else str.upper).group_by_key()
counted.reduce(lambda _, new: new, materialized="s").to_stream().to("out")
kafka = EmbeddedKafka()
kafka.create_topics("in", "out", partitions=2)
app = KafkaStreams(builder, {"application.id": "forked", "bootstrap.servers": "e:1", "state.dir": state,
                             "commit.interval.ms": 100}, clients=kafka.clients)
with app:
    assert app.wait(60, state=ClientState.RUNNING)
    if what == "main":
        child = os.fork()
        if child == 0:
            try:
                app.wait()
            except StreamsError as error:
                assert str(error).startswith(f"the application runs in process {parent}, and this process")
            assert not app.close()
            sys.exit(5)
        children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    send("abcd")
    first = kafka.read_records("out", 4)
    app.add_stream_thread()  # it takes one of the two tasks
    send("efgh")
    second = kafka.read_records("out", 4)
    assert app.wait(60, state=ClientState.RUNNING)
print(sorted(record.value for record in (*first, *second)), sorted(set(children)), app.state)
if pool is not None:
    pool.terminate()
    pool.join()
"""


def run(what: str, state: Path) -> tuple[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION, what, str(state)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


UPPER = "['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H']"


def test_a_task_moves_while_a_pool_lives(tmp_path: Path) -> None:
    """Its lock stayed with the children of the pool, and it never ran again."""
    assert run("pool", tmp_path) == (f"{UPPER} [] NOT_RUNNING\n", [])


def test_a_child_of_a_stream_thread_that_exits_ends_with_its_status(tmp_path: Path) -> None:
    """It closed the copies of its parent's clients, or waited for them."""
    assert run("exits", tmp_path) == (f"{UPPER} [7] NOT_RUNNING\n", [])


@pytest.mark.parametrize("what", ["raises", "returns"])
def test_a_child_that_comes_back_is_ended_and_told(tmp_path: Path, what: str) -> None:
    """It went on as a second stream thread, on the stores and clients of its parent."""
    printed, errors = run(what, tmp_path)
    assert printed == f"{UPPER} [1] NOT_RUNNING\n"
    ended = "ERROR a child that a function of the user had forked came back from it, and is ended: it has to end itself"
    assert errors.count(ended) == 8


def test_a_child_of_the_main_thread_leaves_the_application_to_its_parent(tmp_path: Path) -> None:
    """It waited for ever for the threads of the parent."""
    assert run("main", tmp_path) == (f"{UPPER} [5] NOT_RUNNING\n", [])
