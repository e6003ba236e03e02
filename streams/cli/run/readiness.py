"""Shows Kubernetes, Docker or systemd, whichever runs the process, whether the application is ready: it does its part,
and the next step of a rolling update may follow.

A file is there while it is ready, and systemd gets messages, if the process was started by it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streams.cli.output.causes import CannotRun

log = logging.getLogger("streams.cli")

_MARK = "ready "
_MOST_BYTES = 64

Readiness = Callable[[bool], None]
"""Takes whether the application is ready now; may be called with the same answer again."""


class ReadyFile:
    """A file that exists while the application is ready, and holds the id of its process.

    One that a killed process has left is deleted; any other file at that path is refused.

    :raises CannotRun: if the path cannot be such a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # user code may change the working directory
        self._ready = False
        try:
            if path.is_symlink() or (path.exists() and not _is_ours(path)):
                raise CannotRun(f"--ready-file {path} exists and is not a ready file: give another path")
            self._write()  # so that a folder without the right to write shows at the start
            path.unlink()
        except OSError as error:
            raise CannotRun(f"--ready-file {path} cannot be written: {error.strerror or error}") from None

    def show(self, ready: bool) -> None:
        """Makes the file, or deletes it, if the answer has changed."""
        if ready == self._ready:
            return
        try:
            if ready:
                self._write()
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("the ready file cannot be changed", extra={"path": str(self._path), "error": str(error)})
            return
        self._ready = ready
        log.info("ready" if ready else "not ready any more", extra={"path": str(self._path)})

    def _write(self) -> None:
        self._path.write_text(f"{_MARK}{os.getpid()}\n")


def _is_ours(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        return False
    text = path.read_bytes()
    return text.startswith(_MARK.encode()) or not text  # a process that was killed may have left it empty


class ServiceManager:
    """The messages to systemd, for a service of ``Type=notify``; they go nowhere without the variable NOTIFY_SOCKET."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._last: bool | None = None

    def show(self, ready: bool) -> None:
        """Sends the answer if it has changed; a service that was ready once stays so for systemd."""
        if ready != self._last and (ready or self._last is not None):
            self._last = ready
            self._send("READY=1\nSTATUS=ready" if ready else "STATUS=not ready: tasks are restored or taken over")

    def stopping(self) -> None:
        """Says that the service ends."""
        self._send("STOPPING=1\nSTATUS=closing")

    def _send(self, message: str) -> None:
        if not self._address or not hasattr(socket, "AF_UNIX"):
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(message.encode(), self._address)


@contextmanager
def shown_readiness(
    path: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ
) -> Iterator[Readiness]:
    """Gives a function that shows whether the application is ready; at the end it is not, by whatever way.

    :param path: of the ready file, if one is wanted.
    :raises CannotRun: if that cannot be written.
    """
    file = None if path is None else ReadyFile(Path(path))
    manager = ServiceManager(environment)

    def show(ready: bool) -> None:
        if file is not None:
            file.show(ready)
        manager.show(ready)

    try:
        yield show
    finally:
        manager.stopping()
        if file is not None:
            file.show(False)
