"""A clone and a shadow of an application on a real broker: a worker and the clone are killed, each word counts once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration_support.counting import PARTITIONS, WORDS, Counting
from integration_support.topics import Topics
from integration_support.workers import APPS, ROOT, Workers
from waiting import wait_until

KILLED = """
import os, signal, sys
from runtime_support.failing_clients import Trapped
from streams.cli.main import parser
from streams.kafka.confluent import ConfluentClients

of, left = sys.argv[1], int(sys.argv[2])


def count(call):
    global left
    left -= call == of
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)


class Clients:
    def __getattr__(self, name):
        make = getattr(ConfluentClients(), name)
        return lambda config: Trapped(make(config), count, {of})


words = sys.argv[3:]
parsed = parser(words).parse_args(words)
sys.exit(parsed.command(parsed, clients=Clients()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guarantee", "protocol"),
    [("exactly_once_v2", "classic"), ("at_least_once", "classic"), ("exactly_once_v2", "streams")],
)
def test_a_clone_goes_on_where_a_killed_worker_ended(
    guarantee: str, protocol: str, kafka: str, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """Its transactions are open, and repartition records are unread, when the clone begins; the clone is killed, too.

    At least once, the words since the last commit are counted again, as by the former application itself."""
    session = {"consumer_session_timeout_ms": 6000, "consumer_heartbeat_interval_ms": 500}
    if protocol == "streams":  # whose sessions the broker has settings for
        session = {"group_protocol": "streams"}
    counting = Counting(topics, workers, guarantee, **session, transaction_timeout_ms=10_000)
    with topics.reader(counting.output) as reader:
        worker = counting.start()
        counting.send()
        reader.until("some words are counted", lambda found: len(found.latest) > 100)
        worker.kill()
        clone = f"{workers.application}-2"
        env = {**os.environ, "PYTHONPATH": f"{ROOT}:{APPS}:{ROOT / 'tests' / 'support'}"}
        env |= {"INPUTS": counting.input, "OUTPUT": counting.output, "VERSION": "1"}
        options = ["word_count:topology", "--application-id", workers.application, "--as", clone, "--wait"]
        options += ["--bootstrap-servers", kafka, "-c", f"processing.guarantee={guarantee}"]
        options += ["-c", f"group.protocol={protocol}"]
        for of, left in (("commit_transaction", 0), ("commit", 1), ("commit", 1)):
            command = [sys.executable, "-c", KILLED, of, str(left), "state", "clone", *options]
            killed = subprocess.run(command, env=env, timeout=120, check=False, capture_output=True, text=True)
            assert killed.returncode == -9, killed.stderr
        command = [sys.executable, "-m", "streams", "state", "clone", *options]
        done = subprocess.run(command, env=env, timeout=120, check=False, capture_output=True, text=True)
        assert "done: start workers" in done.stdout, done.stderr
        state = tmp_path / "clone"
        state.mkdir()
        others = Workers(state, kafka, clone)
        try:
            counting_on = Counting.__new__(Counting)
            counting_on.__dict__.update({**counting.__dict__, "_workers": others})
            started = counting_on.start(version=2)
            counting_on.send()
            if guarantee == "exactly_once_v2":
                counting_on.read_round(reader)
                started.stop()
                counting_on.check(reader)
            else:
                counting_on.read_round_or_more(reader)
                started.stop()
        finally:
            others.close()
    wait_until(
        "the group that kept the progress is gone", lambda: not topics.committed(f"{clone}-clone", counting.input)
    )
    assert len(topics.committed(clone, counting.input, PARTITIONS)) == PARTITIONS


@pytest.mark.slow
def test_a_shadow_runs_on_the_state_of_a_running_application(
    kafka: str, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """Its state is in the changelogs, its next records come while the command gathers them."""
    counting = Counting(topics, workers)
    other = (APPS / "word_count.py").read_text().replace("words = lines.flat_map_values(str.split)", OTHER)
    (tmp_path / "other_count.py").write_text(other)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{APPS}", "INPUTS": counting.input, "OUTPUT": counting.output}
    options = ["--against", str(APPS / "word_count.py"), "--application-id", workers.application]
    options += ["--bootstrap-servers", kafka, "--for", "5s"]
    with topics.reader(counting.output) as reader:
        worker = counting.start()
        counting.send()
        counting.read_round(reader)
        command = [sys.executable, "-m", "streams", "shadow", str(tmp_path / "other_count.py"), *options]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shadow:
            assert shadow.stdout is not None
            assert "gathering what comes" in shadow.stdout.readline()
            counting.send()
            out, errors = shadow.communicate(timeout=120)
        counting.read_round(reader)
        worker.stop()
        counting.check(reader)
    assert shadow.returncode == 1, errors
    assert f"table counts: 1 of {WORDS} rows differ" in out
    cells = [re.split(r"\s{2,}", line)[1:] for line in out.splitlines() if line.startswith('"word-7"')]
    assert cells == [["2", "3"], ['["2"]', '["2", "3"]']]


OTHER = 'words = lines.flat_map_values(lambda line: line.split() * (1 + (line == "word-7")))'
