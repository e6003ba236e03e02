"""The status of a worker for other processes of the same user on the same machine, over a socket of the file system.

A worker of `streams run` listens at ``<temporary directory>/streams-<user id>/<application>-<process id>.sock``. A
process that connects gets its status as one line of JSON. The directory is the user's own: other users cannot connect.
The state directory is unsuitable for sockets: it is copied, and may be on a file system that has none.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import hashlib
import logging
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from processor_api.clock import SystemClock
from processor_api.texts import plain_str
from streams.observing.answers import status_json
from streams.observing.status import WorkerStatus

log = logging.getLogger("streams.client")

ANSWER_S = 2.0
"""How long a worker waits for a reader that does not read, and a reader for a worker that does not answer."""
MOST_ANSWER_BYTES = 16 << 20
_CLOCK = SystemClock()
LONGEST_PATH = 100
"""Bytes of the path of a socket, which systems limit to 104 or 108."""


def status_line(status: WorkerStatus) -> bytes:
    """Returns a status as one line of JSON."""
    return status_json(status).encode("utf-8", "backslashreplace") + b"\n"


@contextmanager
def serve_status(application_id: str, status: Callable[[], WorkerStatus]) -> Iterator[None]:
    """Lets other processes read the status of this one for some time; a context manager.

    Where no socket can be made, that is logged, and the worker runs without.
    """
    directory = socket_directory()
    try:
        with contextlib.ExitStack() as made:
            server = _listen(directory, application_id, made)
            closing = made.pop_all()
    except (OSError, AttributeError) as error:  # a system without such sockets has no AF_UNIX
        text = "`streams top` cannot see this worker without HTTP: no socket in the temporary directory"
        log.info(text, extra={"directory": str(directory), "error": plain_str(error)})
        yield
        return
    with closing:
        thread = threading.Thread(target=_answer, args=(server, status), name="status-socket", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # which wakes the thread
            thread.join(ANSWER_S)


def socket_directory() -> Path:
    """Returns the directory of the sockets of this user's workers."""
    return Path(tempfile.gettempdir(), f"streams-{os.getuid() if hasattr(os, 'getuid') else getpass.getuser()}")


def _listen(directory: Path, application_id: str, made: contextlib.ExitStack) -> socket.socket:
    directory.mkdir(exist_ok=True, mode=0o700)
    _check_own(directory)
    path = directory / f"{_prefix(application_id)}{os.getpid()}.sock"
    path.unlink(missing_ok=True)  # of a process that had the same id
    server = made.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    with _reachable(path) as address:
        server.bind(address)
    made.callback(path.unlink, missing_ok=True)
    path.chmod(0o600)
    server.listen(8)
    return server


def _check_own(directory: Path) -> None:
    """Raises `PermissionError` if other users can put sockets there."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EACCES, f"{directory} is not a directory of this user alone")


def _answer(server: socket.socket, status: Callable[[], WorkerStatus]) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # closed
            return
        with connection:
            connection.settimeout(ANSWER_S)
            try:
                connection.sendall(status_line(status()))
            except OSError:  # the reader has gone
                continue
            except Exception as error:
                log.warning(
                    "the status of this worker cannot be told", extra={"error": plain_str(error)}, exc_info=error
                )


def local_statuses(application_id: str) -> Iterator[bytes]:
    """Yields the status of each worker of an application that this user runs on this machine, as JSON. A directory of
    others is passed over with a warning."""
    directory = socket_directory()
    try:
        _check_own(directory)
    except FileNotFoundError:
        return
    except (OSError, AttributeError) as error:
        log.warning("workers of this machine are not asked: remove the directory", extra={"error": plain_str(error)})
        return
    for path in sorted(directory.glob(f"{_prefix(application_id)}*.sock")):
        answer = _ask(path)
        if answer:
            yield answer


def _ask(path: Path) -> bytes:
    """Returns the answer of one worker; nothing if it has ended, or does not answer whole in time."""
    parts: list[bytes] = []
    size, until = 0, _CLOCK.monotonic() + ANSWER_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(ANSWER_S)
        try:
            with _reachable(path) as address:
                client.connect(address)
            while part := client.recv(1 << 16):
                parts.append(part)
                size += len(part)
                if size > MOST_ANSWER_BYTES or _CLOCK.monotonic() > until:
                    return b""
        except ConnectionRefusedError:  # killed
            path.unlink(missing_ok=True)
            return b""
        except OSError:
            return b""
    answer = b"".join(parts)
    return answer if answer.endswith(b"\n") else b""


def _prefix(application_id: str) -> str:
    return hashlib.sha256(application_id.encode()).hexdigest()[:16] + "-"


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """Gives an address for a path that may be longer than systems allow; a context manager."""
    if len(os.fsencode(path)) <= LONGEST_PATH or not os.path.isdir("/proc/self/fd"):
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
