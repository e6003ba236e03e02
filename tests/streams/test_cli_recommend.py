"""`streams recommend` computes a number of workers from what a group and its threads did, and says how."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster_cli import ClusterCommands, commands
from http_support.asking import free_port
from processor_api.clock import SystemClock
from streams.cli.cluster.recommend import SeenLoad, recommendation
from streams.observing.local_socket import serve_status
from waiting import wait_until

APP = """
builder = StreamsBuilder(key_serde="string", value_serde="string")
builder.stream("in").to("out")
"""
LOAD = SeenLoad(seconds=10, arrived=12_000, processed=10_000, lag=60_000, threads=2, tasks=8, busy=0.8)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


class LookingClock(SystemClock):
    """A clock whose wait, between the two looks, is what a test does meanwhile."""

    def __init__(self, meanwhile: object) -> None:
        self._meanwhile = meanwhile

    def wait(self, seconds: float) -> None:
        assert callable(self._meanwhile)
        self._meanwhile()


# ------------------------------------------------------------------ computing


def test_each_number_is_written_with_what_it_is_made_of() -> None:
    found = recommendation(LOAD, 600, 0.7)
    assert found.because == (
        "arriving    1200.0 records/s, over 10 s",
        "processed   1000.0 records/s, by 2 threads",
        "lag         60000 records",
        "busy        80% of the time of a thread, as reported by the workers",
        "one thread  625.0 records/s = 1000.0 / 2 / 0.80",
        "needed      1300.0 records/s = 1200.0 + 60000 / 600 s to catch up",
        "workers     3 of one thread each: 1300.0 / (625.0 x 70%); 2 threads run now",
    )
    assert found.workers == 3


@pytest.mark.parametrize(
    ("load", "workers"),
    [
        (replace(LOAD, arrived=10_000, lag=0, busy=0.35), 1),  # one thread would be as busy as it may be
        (replace(LOAD, arrived=10_000, lag=0, busy=0.36), 2),
        (replace(LOAD, arrived=200_000), 8),  # no more than tasks
        (replace(LOAD, arrived=200_000, tasks=None), 46),
        (replace(LOAD, busy=None), 4),  # so much lag: they had work all the time
        (replace(LOAD, busy=None, lag=100), 2),  # they keep up, and that is all that is known
        (replace(LOAD, busy=0.0, arrived=0, processed=0, lag=0), 1),
        (replace(LOAD, arrived=0, processed=0, lag=0, busy=None), 2),
    ],
)
def test_a_number_is_never_below_one_nor_above_the_tasks(load: SeenLoad, workers: int) -> None:
    assert recommendation(load, 600, 0.7).workers == workers


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (replace(LOAD, threads=0), "no worker runs"),
        (replace(LOAD, processed=0), "nothing was processed in the interval"),
        (replace(LOAD, processed=0, busy=None), "nothing was processed in the interval"),
    ],
)
def test_without_a_base_there_is_no_number(load: SeenLoad, text: str) -> None:
    found = recommendation(load, 600, 0.7)
    assert found.workers is None
    assert text in found.because[-1]


# ------------------------------------------------------------------ the command


def test_an_application_is_looked_at_twice(
    cli: ClusterCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers on this machine say how busy they are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other test has workers
    cli.kafka.create_topics("in", "out", partitions=2)
    app = cli.app(APP)
    running = cli.start(app)
    topic = cli.kafka.create_input_topic("in")

    def meanwhile() -> None:
        topic.pipe_key_values([(str(number), "v") for number in range(50)])
        cli.kafka.read_records("out", 50)
        wait_until("all is committed", lambda: json.loads(cli.run("groups", app, "--json").out)["total_lag"] == 0)

    with serve_status("shop", running.status):
        found = cli.run("recommend", app, "--json", clock=LookingClock(meanwhile))
    seen = json.loads(found.out)
    assert (found.status, found.err) == (0, "")
    assert (seen["arrived"], seen["processed"], seen["lag"], seen["threads"], seen["tasks"]) == (50, 50, 0, 1, 2)
    assert 0 <= seen["busy"] <= 1
    assert seen["workers"] == 1


def test_workers_are_asked_over_http(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("in", "out")
    port = free_port()
    app = cli.app(APP, after=f'settings["http.listen"] = "127.0.0.1:{port}"')
    cli.start(app)
    found = cli.run("recommend", app, "--url", f"http://127.0.0.1:{port}", clock=LookingClock(lambda: None))
    assert found.lines[-1].startswith("workers     1 of one thread each")
    assert found.err == ""


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--url", "http://127.0.0.1:1"], 2, "http://127.0.0.1:1 cannot be reached"),
        (["--url", "http://127.0.0.1:1"], 2, "no worker at --url reports how busy it is"),
        (["--token-file", "/none"], 2, "the token file '/none' cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_said(cli: ClusterCommands, options: list[str], status: int, text: str) -> None:
    cli.kafka.create_topics("in", "out")
    found = cli.run("recommend", cli.app(APP), *options, clock=LookingClock(lambda: None))
    assert found.status == status
    assert text in found.err


def test_an_application_that_does_not_run_has_no_number(cli: ClusterCommands) -> None:
    cli.kafka.create_topics("in", "out")
    found = cli.run("recommend", cli.app(APP), clock=LookingClock(lambda: None))
    assert found.status == 1
    assert found.lines[-1].startswith("workers     no worker runs")


@pytest.mark.parametrize(
    "words", [["--busy", "0"], ["--busy", "101"], ["--interval", "0s"], ["--catch-up", "soon"], ["--busy", "nan"]]
)
def test_bad_options_are_refused(cli: ClusterCommands, words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.run("recommend", "app.py", *words)
