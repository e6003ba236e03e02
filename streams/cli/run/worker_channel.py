"""The messages of a supervisor and its worker, over a pair of sockets that only the two have.

The supervisor sends one line: the settings that were given by ``-c``, which may be secrets and so are not among the
arguments of the worker, where every user of the machine could read them. To a spare it sends another one when that
becomes a worker. It sends nothing after that; when the supervisor dies, in whatever way, the worker reads the end of
the stream. The worker sends a line when it has loaded its topology, one about each stream thread that it makes, one
when it runs, one when it becomes ready or is no longer ready, and one about the error that ends it.

A line is a JSON object.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError
from streams.cli.output.causes import remedy_of
from streams.cli.output.failures import described

_CHUNK = 65536
_SLICE_S = 0.2


class SupervisorLine:
    """The worker's end of the sockets."""

    def __init__(self, descriptor: int, clock: Clock | None = None) -> None:
        self._descriptor = descriptor
        self.since_ms = (clock or SystemClock()).time_ms()
        """The time at which the process was made; it has loaded nothing of the application."""
        self._reported_running = self._reported_ready = False
        self.is_spare = False
        """Whether the process waits for a call once it has loaded the application (:meth:`wait_for_call`)."""
        self.waits = False
        """Whether a start waits for brokers that do not answer: they did so before."""
        self._called = threading.Event()
        self._call: list[str] | None = None

    def settings(self) -> list[str] | None:
        """Returns the pairs ``key=value`` that were given to the supervisor; ``None`` if it has died. To be called
        once, before anything else."""
        line = bytearray()
        while not line.endswith(b"\n"):
            part = self._read(1)
            if not part:
                return None
            line += part
        message = json.loads(line)
        self.is_spare, self.waits = bool(message.get("spare")), bool(message.get("waits"))
        found: list[str] = message["settings"]
        return found

    def wait_for_the_end(self) -> None:
        """Returns when the supervisor has died. Takes its call of a spare meanwhile."""
        received = bytearray()
        while part := self._read(_CHUNK):
            received += part
            if self._call is None and received.endswith(b"\n"):
                self._call = json.loads(received)["settings"]
                self._called.set()

    def wait_for_call(self, is_over: Callable[[], bool]) -> list[str] | None:
        """Waits until a spare that has loaded all is to be a worker; returns the settings that it has besides the
        others.

        :param is_over: whether to wait no longer; then it returns ``None``.
        """
        while not self._called.wait(_SLICE_S):
            if is_over():
                return None
        return self._call

    def loaded(self, topology: str) -> None:
        """Reports that the application is loaded. A spare may be called from then on.

        :param topology: a text that is the same for the same topology.
        """
        self._report({"topology": topology})

    def refused(self, reason: str) -> None:
        """Reports that a spare does not become a worker."""
        self._report({"refused": reason})

    def thread(self, process: str, number: int) -> None:
        """Reports a stream thread that is made: the brokers will know it by the id of the process and its number."""
        self._report({"process": process, "thread": number})

    def running(self) -> None:
        """Reports, once, that the application runs."""
        if not self._reported_running:
            self._reported_running = True
            self._report({"state": "RUNNING"})

    def ready(self, ready: bool) -> None:
        """Reports whether the application is ready, if that has changed."""
        if ready != self._reported_ready:
            self._reported_ready = ready
            self._report({"ready": ready})

    def failed(self, error: BaseException) -> None:
        """Reports the error by which the application ends."""
        fields = {"error": described(error), "remedy": remedy_of(error)}
        self._report({**fields, "passes": isinstance(error, RetryableError)})

    def _read(self, count: int) -> bytes:
        try:
            return os.read(self._descriptor, count)
        except ConnectionError:
            return b""

    def _report(self, fields: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the supervisor has died
            os.write(self._descriptor, _line(fields))


class ReportedError(NamedTuple):
    """An error that ended a process."""

    text: str
    remedy: str
    passes: bool = False
    """Whether trying again may help."""


class WorkerLine:
    """The supervisor's end of the sockets, for one process of a worker.

    :param is_spare: whether the process waits for a :meth:`call` before it is one.
    """

    def __init__(self, *, is_spare: bool = False) -> None:
        self._own, self._theirs = socket.socketpair()
        self.is_spare = is_spare
        self.ran = False
        """Whether the worker has reported that it runs."""
        self.ready = False
        """Whether the worker has reported that it is ready, and not since that it is not."""
        self.failure: ReportedError | None = None
        """The error that ended the process, if it could report one."""
        self.process: str | None = None
        """The id of its process at the brokers; ``None`` while it has no stream thread."""
        self.threads = 0
        """The highest number of a stream thread that it had."""
        self.topology: str | None = None
        """The topology that the process has loaded; ``None`` before."""
        self.refused: str | None = None
        """Why the spare did not become a worker when it was called."""
        self._received = bytearray()

    @property
    def descriptor(self) -> int:
        """Returns the descriptor that the worker inherits."""
        return self._theirs.fileno()

    def send_settings(self, settings: Sequence[str], *, waits: bool = False) -> None:
        """Sends the settings to the worker, which has started.

        :param waits: whether a start waits for brokers that do not answer.
        """
        self._theirs.close()
        kind = ({"spare": True} if self.is_spare else {}) | ({"waits": True} if waits else {})
        with contextlib.suppress(OSError):  # the worker has ended already
            self._own.sendall(_line({"settings": list(settings), **kind}))
        self._own.setblocking(False)

    def call(self, settings: Sequence[str]) -> None:
        """Makes a worker of the spare.

        :param settings: those that it has besides the ones before.
        """
        with contextlib.suppress(OSError):  # it has ended, and is started again as any worker
            self._own.sendall(_line({"settings": list(settings)}))

    def listen(self) -> None:
        """Reads the messages that have come from the worker; does not wait."""
        with contextlib.suppress(OSError):
            while part := self._own.recv(_CHUNK):
                self._received += part
        *lines, rest = bytes(self._received).split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            message = json.loads(line)
            self.ran = self.ran or message.get("state") == "RUNNING"
            self.ready = bool(message.get("ready", self.ready))
            self.process = message.get("process", self.process)
            self.threads = max(self.threads, message.get("thread", 0))
            self.topology = message.get("topology", self.topology)
            self.refused = message.get("refused", self.refused)
            if "error" in message:
                self.failure = ReportedError(str(message["error"]), str(message["remedy"]), bool(message["passes"]))

    def close(self) -> None:
        """Closes the socket; may be called again."""
        self._theirs.close()
        self._own.close()


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def without_settings(words: Sequence[str]) -> list[str]:
    """Returns the arguments of a command without ``-c KEY=VALUE``, however it is written."""
    found: list[str] = []
    skip = False
    for word in words:
        if skip or word.startswith("-c"):
            skip = not skip and word == "-c"
        else:
            found.append(word)
    return found
