"""What runs the process sees whether the application is ready: by a file, and by the messages to systemd."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.cli.output.causes import CannotRun
from streams.cli.run.readiness import shown_readiness
from streams.cli.run.worker_channel import SupervisorLine, WorkerLine


@pytest.fixture(name="manager")
def manager_fixture(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(10)
        yield bound


def heard(manager: socket.socket) -> list[str]:
    manager.setblocking(False)
    found = []
    while True:
        try:
            found.append(manager.recv(1000).decode())
        except BlockingIOError:
            return found


def test_the_file_is_there_while_it_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    with shown_readiness(path, {}) as show:
        assert not path.exists()
        show(False)
        show(True)
        assert path.read_text() == f"ready {os.getpid()}\n"
        show(True)
        show(False)
        assert not path.exists()
        show(True)
    assert not path.exists()


def test_it_is_gone_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    shown = shown_readiness(path, {})
    shown.__enter__()(True)
    assert path.exists()
    assert not shown.__exit__(ValueError, ValueError("failed"), None)
    assert not path.exists()


@pytest.mark.parametrize("left", ["ready 4711\n", ""])
def test_a_file_that_a_killed_process_has_left_is_deleted(tmp_path: Path, left: str) -> None:
    """A container that is started again may have its files still."""
    path = tmp_path / "ready"
    path.write_text(left)
    with shown_readiness(path, {}):
        assert not path.exists()


def test_a_file_of_somebody_else_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("from streams import run\n")
    with pytest.raises(CannotRun, match=r"app\.py exists and is not a ready file: give another path"):
        shown_readiness(path, {}).__enter__()
    assert path.read_text() == "from streams import run\n"


def test_a_link_and_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("link", "."):
        with pytest.raises(CannotRun, match="is not a ready file"):
            shown_readiness(tmp_path / name, {}).__enter__()
    assert (tmp_path / "target").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match=r"--ready-file .*/none/ready cannot be written: No such file or directory"):
        shown_readiness(tmp_path / "none" / "ready", {}).__enter__()


def test_systemd_is_told(tmp_path: Path, manager: socket.socket) -> None:
    """That it has started, when it is ready first; what changes later; and that it ends."""
    with shown_readiness(None, {"NOTIFY_SOCKET": str(tmp_path / "notify")}) as show:
        show(False)
        assert heard(manager) == []
        show(True)
        show(True)
        assert heard(manager) == ["READY=1\nSTATUS=ready"]
        show(False)
        assert heard(manager) == ["STATUS=not ready: tasks are restored or taken over"]
    assert heard(manager) == ["STOPPING=1\nSTATUS=closing"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nonexistent/notify"}, {"NOTIFY_SOCKET": "@none"}])
def test_it_goes_on_without_systemd(environment: dict[str, str]) -> None:
    with shown_readiness(None, environment) as show:
        show(True)


def test_a_worker_reports_to_its_supervisor() -> None:
    line = WorkerLine()
    worker = SupervisorLine(os.dup(line.descriptor))
    line.send_settings([])
    assert worker.settings() == []
    answers = []
    for ready in (True, True, False, True):
        worker.ready(ready)
        line.listen()
        answers.append(line.ready)
    worker.running()
    line.listen()
    assert (answers, line.ready, line.ran) == ([True, True, False, True], True, True)
    line.close()
