"""A broker that cannot be reached is said after 3 s, with the address and the reason; Ctrl-C then ends the wait at
once, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from first_hour_support import BUILDER, DERIVED, environment, left_behind, said, streams
from quick_process import is_left

NOTICE = re.compile(r"no broker can be reached at (\S+) for (\d+) s: (.*?); trying for 30 s in all")
APP = BUILDER + "builder.stream('lines').to('out')\n"
AS_SCRIPT = APP + "\nif __name__ == '__main__':\n    from streams import run\n    run(builder)\n"
PATIENCE_S = 60


@contextmanager
def http_server() -> Iterator[str]:
    """An address where everything is answered as a web server does, and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)


def started(folder: Path, address: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder, STREAMS_BOOTSTRAP_SERVERS=address),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until_notice(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """Reads what it writes to its notice; gives that, and the lines."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if found := NOTICE.search(line):
            assert 3 <= int(found[2]) <= 10
            return f"{found[1]}: {found[3]}", lines
    raise AssertionError("".join(lines))


def test_it_is_said_early_and_ctrl_c_ends_the_wait(tmp_path: Path) -> None:
    """They run at the same time, since each waits 3 s."""
    with ExitStack() as stack:
        web = stack.enter_context(http_server())
        cases = [
            ("localhost:1", r"Connect to ipv[46]#.*:1 failed: Connection refused", ("-m", "streams", "run", "app.py")),
            ("no-such-host.invalid:9092", "Failed to resolve 'no-such-host.invalid:9092': .*", ("app.py",)),
            (web, "an HTTP server responds there, not a Kafka broker", ("app.py",)),
        ]
        running = []
        for number, (address, reason, words) in enumerate(cases):
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "app.py").write_text(AS_SCRIPT)
            process = stack.enter_context(started(folder, address, *words))
            stack.callback(process.kill)
            running.append((folder, process, f"{re.escape(address)}: {reason}"))
        for _, process, wanted in running:
            masked = wanted.replace(": ", " for N s: ", 1).replace("ipv[46]#.*:1 ", "ADDRESS ")
            told, lines = until_notice(process)
            assert re.fullmatch(wanted, told), told
            process.send_signal(signal.SIGINT)
            out, rest = process.communicate(timeout=PATIENCE_S)
            found = said(process.returncode, out, "".join(lines) + rest)
            assert (found.status, found.out, found.err) == (0, "", ""), found
            notice = found.events[2]
            assert found.events == [
                DERIVED,
                "info streams.client: state [state=REBALANCING, before=CREATED]",
                notice,
                "info streams.client: state [state=PENDING_SHUTDOWN, before=REBALANCING]",
                "info streams.cli: stopped before it started [reason=SIGINT]",
            ]
            assert re.fullmatch(
                rf"warning streams\.kafka\.client: no broker can be reached at {masked}; trying for 30 s in all", notice
            )
        for folder, process, _ in running:
            assert left_behind(folder) == []
            assert not is_left(process.pid)


def test_doctor_says_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    found = streams(tmp_path, "doctor", "app.py", "--bootstrap-servers", "localhost:1")
    assert found.status == 1
    notices = {re.sub(r"\d+ s", "N s", line) for line in found.err.splitlines()}  # on a busy machine
    assert notices <= {"no response for N s: waiting for the cluster"}
    assert found.log == []
    *others, last = found.out.splitlines()
    assert last == "fail  broker: localhost:1 cannot be reached: Connection refused"
    assert not [line for line in others if not line.startswith(("ok ", "warn"))], others
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("address", ["http://localhost:9092", "localhost:kafka", "a:1,b:99999"])
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    """It was tried for 30 s."""
    (tmp_path / "app.py").write_text(APP)
    found = streams(tmp_path, "run", "app.py", "--bootstrap-servers", address)
    wrong = address.rpartition(",")[2]
    wanted = f"error: bootstrap.servers has {wrong!r}, which is not host:port, such as localhost:9092\n"
    assert (found.status, found.out, found.err, found.events) == (2, "", wanted, [])
    assert left_behind(tmp_path) == []
