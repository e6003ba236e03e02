"""`streams top`: the workers of this machine by their sockets, a view of them, and the keys that change it."""

from __future__ import annotations

import json
import os
import pty
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runtime_support.running_app import Cluster, counting
from streams.cli.cluster.workers import Seen, parsed
from streams.cli.main import main
from streams.cli.output.terminal import size_text
from streams.cli.top.keys import keys_of
from streams.cli.top.view import SORT_KEYS, SORTS, Choice, amount, duration, view_of
from streams.observing.answers import status_json
from streams.observing.application import MissingWorker, application_status
from streams.observing.local_socket import local_statuses, serve_status, socket_directory, status_line
from streams.observing.status import (
    BrokerStatus,
    CopyingStatus,
    DropStatus,
    HeldStatus,
    NodeStatus,
    PartitionStatus,
    SnapshotStatus,
    StoreStatus,
    TaskStatus,
    WorkerStatus,
)
from waiting import wait_until


@pytest.fixture(autouse=True)
def long_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has sockets made where their paths are longer than systems allow."""
    directory = tmp_path / ("x" * 120)
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)


HOSTILE = "a\x1b[2Jb\nc"


def task(id_: str, processed: int = 0, **given: object) -> TaskStatus:
    fields = {"thread": "t", "state": "RUNNING", "rate": 1.5, "stream_time_ms": 1000, "dropped": 0} | given
    return TaskStatus(id=id_, processed=processed, **fields)  # type: ignore[arg-type]


def worker(*tasks: TaskStatus, at_ms: int = 5000, client_id: str = "me") -> WorkerStatus:
    return WorkerStatus(
        application_id="app",
        client_id=client_id,
        host="here",
        pid=7,
        version="1",
        at_ms=at_ms,
        started_at_ms=0,
        state="RUNNING",
        ready=True,
        paused=False,
        failure=None,
        tasks=tasks,
    )


def full_task() -> TaskStatus:
    """A task that has something of everything, with names that a terminal would obey."""
    return task(
        "0_1",
        partitions=(
            PartitionStatus(
                topic=HOSTILE,
                partition=1,
                position=5,
                committed=3,
                end=9,
                lag=6,
                buffered=1,
                caught_up=False,
                stream_time_ms=1000,
            ),
        ),
        nodes=(NodeStatus(name="KSTREAM-MAP-1", call="map(to_cents)", made_at="app.py:3", rate=12.0, time_share=0.5),),
        stores=(
            StoreStatus(
                name=HOSTILE, kind="window", engine="rocksdb", restoring=True, restore_remaining=12_000, size=3
            ),
        ),
        drops=(
            DropStatus(
                node="KSTREAM-MAP-1",
                call="map(to_cents)",
                made_at="app.py:3",
                reason="late",
                text="late",
                remedy="wait",
                dropped=True,
                expected=False,
                count=4,
                late_by_ms=70,
            ),
        ),
        held=(
            HeldStatus(
                node="S",
                call=None,
                made_at=None,
                what="windows",
                count=2,
                at_least=True,
                next_ms=1500,
                waits_for="in-3",
            ),
        ),
        dropped=4,
    )


def test_a_view_has_everything_that_a_task_says() -> None:
    seen = Seen((worker(full_task(), task("0_0")),))
    view = view_of("app", seen, None, Choice(opened=("me", "0_1")))
    cells = {str(cell) for section in view.sections for row in section.rows for cell in row}
    assert {"map(to_cents)", "app.py:3", "late", "70 ms", "at least 2", "in-3", "12 k to restore", "6", "50%"} <= cells
    assert [section.title for section in view.sections] == [
        "Tasks",
        "Inputs",
        "Nodes",
        "Stores",
        "Held back",
        "Dropped",
    ]


def test_workers_are_shown_with_the_protocol_of_their_group() -> None:
    seen = Seen((worker(), replace(worker(client_id="other"), group_protocol="streams")))
    [workers] = [one for one in view_of("app", seen, None, Choice()).sections if one.title == "Workers"]
    shown = workers.headings.index("GROUP")
    assert [row[shown] for row in workers.rows] == ["classic", "streams"]


def test_snapshots_are_told_of_each_worker_and_what_a_task_copies_in_its_state() -> None:
    """The age is that of the task whose last one is the oldest."""
    tasks = (
        task("0_0", snapshot=SnapshotStatus(made_ms=1_000, size=1 << 20, elapsed_ms=5, failures=0)),
        task("0_1", snapshot=SnapshotStatus(made_ms=4_000, size=1 << 20, elapsed_ms=5, failures=2)),
        task("0_2", state="CREATED", copying=CopyingStatus(bytes=1 << 20, size=4 << 20)),
        task("0_3", state="CREATED", copying=CopyingStatus(bytes=0, size=0)),
    )
    sections = {one.title: one for one in view_of("app", Seen((worker(*tasks),)), None, Choice()).sections}
    assert sections["Snapshots"].headings == ("WORKER", "TASKS", "AGE", "SIZE", "FAILED")
    assert sections["Snapshots"].rows == (("here:7", "2 of 4", "4 s", size_text(2 << 20), 2),)
    states = {row[0]: row[1] for row in sections["Tasks"].rows}
    assert states["0_2"] == f"CREATED, snapshot: 25% of {size_text(4 << 20)}"
    assert states["0_3"] == "CREATED, snapshot: waits for it"
    assert "Snapshots" not in {
        one.title for one in view_of("app", Seen((worker(task("0_0")),)), None, Choice()).sections
    }


def test_rates_are_those_between_two_looks_and_of_the_metrics_at_first_or_after_a_task_was_opened_again() -> None:
    now = Seen((worker(task("0_0", 300), task("0_1", 5), at_ms=7000),))
    before = Seen((worker(task("0_0", 100), task("0_1", 9), at_ms=5000),))
    assert [row.rate for row in view_of("app", now, None, Choice()).tasks] == [1.5, 1.5]
    assert [row.rate for row in view_of("app", now, before, Choice()).tasks] == [100.0, 1.5]


def test_keys_choose_sort_and_open_tasks() -> None:
    seen = Seen((worker(task("0_0"), task("0_10", dropped=3), task("0_2")),))
    view = view_of("app", seen, None, Choice())
    assert [row.task.id for row in view.tasks] == ["0_0", "0_2", "0_10"]
    choice = Choice().after("down", view.tasks).after("down", view.tasks).after("down", view.tasks)
    assert choice.selected == 2
    opened = choice.after("enter", view.tasks)
    assert opened.opened == ("me", "0_10")
    assert opened.after("esc", view.tasks).opened is None
    by_drops = view_of("app", seen, None, choice.after("d", view.tasks))
    assert by_drops.tasks[0].task.id == "0_10"
    assert Choice().after("x", view.tasks) == Choice()
    assert set(SORTS) == set(SORT_KEYS)


@pytest.mark.parametrize(
    ("number", "text"), [(None, ""), (0, "0"), (0.25, "0.25"), (9999, "9999"), (12_345, "12.3 k"), (3.2e9, "3.2 G")]
)
def test_numbers_are_short(number: float | None, text: str) -> None:
    assert amount(number) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, ""), (999, "999 ms"), (1000, "1 s"), (119_999, "120 s"), (120_000, "2 min"), (2**40, "12725 d")],
)
def test_times_are_short(ms: int | None, text: str) -> None:
    assert duration(ms) == text


def test_a_worker_is_seen_by_others_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        app = cluster.start(counting())
        cluster.send("a", "b")
        wait_until("two records", lambda: [one.processed for one in app.status().tasks] == [2])
        command = ["top", "--application-id", "app"]
        with serve_status("app", app.status), serve_status("application", lambda: 1 / 0):  # type: ignore[arg-type, return-value]
            assert main([*command, "--once", "--json"]) == 0
            [found] = json.loads(capsys.readouterr().out)["workers"]
            assert [one["processed"] for one in found["tasks"]] == [2]
            assert main(command) == 0
            assert "app: 1 worker, 1 task" in capsys.readouterr().out
        assert main(command) == 1
        assert "you run no worker of this application" in capsys.readouterr().out


@contextmanager
def answering(status: int, text: str) -> Iterator[tuple[str, list[str]]]:
    """The address of an HTTP port that answers so, and the paths and tokens that it was asked by."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization')}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_workers_of_other_machines_are_seen_by_the_port_of_one_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local, other = worker(task("0_0", dropped=2)), worker(task("0_1", dropped=16), client_id="other")
    missing = [MissingWorker(worker="c:80", reason="silent"), MissingWorker(worker="hidden", reason="it has no port")]
    whole = application_status("app", [local, replace(other, host="there")], missing)
    hidden = worker(task("0_2"), client_id="hidden")
    (token := tmp_path / "token").write_text("the-first-token\nthe-second-token\n")
    arguments = ["top", "--application-id", "app", "--once", "--token-file", str(token)]
    with answering(200, status_json(whole)) as (url, asked):
        with serve_status("app", lambda: replace(local, endpoint=url)):
            assert main(arguments) == 0
            shown = capsys.readouterr().out
            assert "app: 2 workers, 2 tasks" in shown
            assert "18 records dropped" in shown
            assert "the figures of worker c:80 are missing: silent" in shown
            assert "the figures of worker hidden are missing: it has no port" in shown
        assert asked == ["/state Bearer the-first-token"]
        with serve_status("app", lambda: replace(hidden, endpoint=url)):
            main(arguments)
            assert "worker hidden" not in capsys.readouterr().out, "its socket has its figures"


def test_only_the_workers_of_this_machine_are_shown_if_their_port_does_not_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with answering(401, "{}") as (url, _), serve_status("app", lambda: replace(worker(task("0_0")), endpoint=url)):
        assert main(["top", "--application-id", "app", "--once"]) == 0
    shown = capsys.readouterr().out
    assert "app: 1 worker, 1 task" in shown
    assert f"only workers of this machine are shown: {url} answers 401: it requires a token; give --token-file" in shown


def test_a_token_that_is_not_accepted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("x" * 40)
    with answering(401, "{}") as (url, _), serve_status("app", lambda: replace(worker(task("0_0")), endpoint=url)):
        assert main(["top", "--application-id", "app", "--once", "--token-file", str(tmp_path / "token")]) == 0
    assert "answers 401: it does not accept the token of --token-file" in capsys.readouterr().out


def test_records_without_a_result_are_summed_over_the_workers() -> None:
    drop = full_task().drops[0]
    late = task("0_0", drops=(drop,), dropped=4, dead_letters=3)
    seen = Seen((worker(late), replace(worker(replace(late, id="0_1")), client_id="other", pid=8)))
    view = view_of("app", seen, None, Choice())
    assert view.lines[0].endswith("8 records dropped, 6 dead letters")
    sections = {section.title: section for section in view.sections}
    assert [row[3] for row in sections["Dropped"].rows] == [8]
    dropped = sections["Workers"].headings.index("DROPPED")
    assert [row[dropped : dropped + 2] for row in sections["Workers"].rows] == [("4", "3"), ("4", "3")]


def test_a_worker_that_was_killed_leaves_nothing_behind() -> None:
    with serve_status("app", lambda: worker(task("0_0"))):
        [path] = socket_directory().iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert len(list(local_statuses("app"))) == 1
    assert list(local_statuses("app")) == []
    with ExitStack() as dead:
        stale = dead.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        descriptor = os.open(path.parent, os.O_RDONLY)
        dead.callback(os.close, descriptor)
        stale.bind(f"/proc/self/fd/{descriptor}/{path.name}")
    assert path.exists()
    assert list(local_statuses("app")) == []
    assert not path.exists()


@pytest.mark.parametrize("kind", ["a file", "open to others", "a link"])
def test_a_directory_that_is_not_the_users_own_is_not_used(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    directory = socket_directory()
    if kind == "a file":
        directory.write_text(kind)
    elif kind == "a link":
        directory.symlink_to("elsewhere")
        directory.with_name("elsewhere").mkdir(0o700)
    else:
        directory.mkdir()
        directory.chmod(0o777)
    with caplog.at_level("INFO"), serve_status("app", lambda: worker()):
        pass
    assert "cannot see this worker" in caplog.text


def test_nothing_of_strangers_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = replace(worker(full_task()), host=HOSTILE, failure=HOSTILE)
    with serve_status("app", lambda: hostile):
        assert main(["top", "--application-id", "app", "--once"]) == 0
    written = capsys.readouterr().out
    assert "\x1b" not in written
    assert r"a\x1b[2Jb\nc" in written


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give the application as APP or by --application-id, or the HTTP ports"),
        (["--url", "ftp://here"], "an address must start with http:// or https://"),
        (["--url", "http://127.0.0.1:1"], "http://127.0.0.1:1 cannot be reached"),
        (["--url", "http://127.0.0.1:1", "--token-file", "/none"], "the token file '/none' cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", *arguments, "--once"]) in (1, 2)
    written = capsys.readouterr()
    assert text in written.out + written.err


def test_the_workers_behind_a_port_are_seen_and_what_is_none_is_said() -> None:
    state, other = (json.loads(status_line(worker(task("0_0"), client_id=name))) for name in ("me", "other"))
    several = {"workers": [state, other, None]}
    answers = {"one": state, "two": several, "three": {"version": 1}, "four": [1], "five": "no"}
    seen = parsed(
        [(origin, json.dumps(answer).encode()) for origin, answer in answers.items()] + [("six", b"<html>")], []
    )
    assert [one.application_id for one in seen.workers] == ["app", "app"]
    assert [one.client_id for one in seen.workers] == ["me", "other"]
    assert [problem.partition(":")[0] for problem in seen.problems] == [
        "three runs another version of this library",
        "four is not the HTTP port of a worker",
        "five is not the HTTP port of a worker",
        "six is not the HTTP port of a worker",
        "the figures of worker 2 are missing",
    ]


def test_a_person_sees_it_live_and_ends_it_by_a_key() -> None:
    with serve_status("app", lambda: worker(full_task())):
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm", COLUMNS="150", LINES="40")
            arguments = ["top", "--application-id", "app", "--interval", "0.1"]
            os.execv(sys.executable, [sys.executable, "-m", "streams", *arguments])
        shown = reading(terminal)
        ended: list[int] = []

        def is_over() -> bool:
            shown()
            found, status = os.waitpid(pid, os.WNOHANG)
            ended.extend([status] if found else [])
            return bool(found)

        try:
            wait_until("the tasks", lambda: "0_1" in shown())
            os.write(terminal, b"\r")
            wait_until("the inputs of the task", lambda: "PARTITION" in shown())
            os.write(terminal, b"q")
            wait_until("the end", is_over)
        finally:
            os.close(terminal)  # which ends the command, if it goes on
    assert os.waitstatus_to_exitcode(ended[0]) == 0


def reading(terminal: int) -> Callable[[], str]:
    """Returns a function that reads what there is and returns everything that was written."""
    os.set_blocking(terminal, False)
    parts: list[str] = []

    def shown() -> str:
        try:
            while data := os.read(terminal, 65536):
                parts.append(data.decode(errors="replace"))
        except OSError:  # nothing more now, or the end
            pass
        return "".join(parts)

    return shown


def test_keys_are_read_one_at_a_time() -> None:
    controller, terminal = pty.openpty()
    with open(terminal, encoding="ascii") as stream, keys_of(stream) as keys:
        for written, key in [(b"\x1b[A", "up"), (b"Q", "q"), (b"\n", "enter"), (b"\x1b", "esc")]:
            os.write(controller, written)
            assert keys.wait(5) == key
        os.write(controller, b"j\x1b[B\nq")
        assert [keys.wait(5) for _ in range(4)] == ["j", "down", "enter", "q"]
        assert keys.wait(0) is None
    os.close(controller)


def broker(id_: int, **given: Any) -> BrokerStatus:
    fields: dict[str, Any] = {
        "address": f"b{id_}:9092",
        "connected": 2,
        "unreachable": 0,
        "partitions": 4,
        "latency_ms": 2.5,
        "latency_p99_ms": 1250.0,
        "queued": 0,
        "unanswered": 0,
        "disconnects": 1,
    }
    return BrokerStatus(id=id_, **{**fields, **given})


def test_a_slow_broker_and_one_that_is_gone_are_seen() -> None:
    brokers = (broker(1), broker(2, unreachable=1), broker(3, connected=0, latency_ms=None, latency_p99_ms=None))
    view = view_of("app", Seen((replace(worker(task("0_0")), brokers=brokers),)), None, Choice())
    [section] = [one for one in view.sections if one.title == "Brokers"]
    assert ",".join(section.headings) == "BROKER,ADDRESS,STATE,LATENCY,LATENCY 99%,QUEUED,TIMEOUTS,DISCONNECTS"
    assert [row[2] for row in section.rows] == ["connected", "1 client without a connection", "idle"]
    assert [row[3:5] for row in section.rows] == [("2.5 ms", "1250 ms"), ("2.5 ms", "1250 ms"), ("", "")]
    assert any("broker 2 (b2:9092), the leader of 4 partitions" in one for one in view.reasons)
