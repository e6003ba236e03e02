"""Runs the commands that work on a cluster, in this process, on a broker in memory."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from streams.app.kafka_streams import KafkaStreams
from streams.cli.main import parser
from streams.cli.output.failures import report
from streams.cli.topology_function import import_from, load_topology, named_app, settings_in
from streams.config import StreamsConfig
from streams.config.sources import Given
from streams.testing import EmbeddedKafka

__all__ = ["ClusterCommands", "Printed", "commands"]

_NUMBERS = itertools.count(1)


class Printed(NamedTuple):
    """The outcome of a command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines on standard output."""
        return self.out.splitlines()


class _Terminal(io.TextIOWrapper):
    """Stands for a terminal."""

    def isatty(self) -> bool:
        return True


def _stream(text: str | bytes, *, terminal: bool) -> io.TextIOWrapper:
    data = text.encode() if isinstance(text, str) else text
    return (_Terminal if terminal else io.TextIOWrapper)(io.BytesIO(data), encoding="utf-8", newline="")


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


class ClusterCommands:
    """The commands, an application in a file of its own, and the broker that both use."""

    def __init__(self, folder: Path, kafka: EmbeddedKafka) -> None:
        self.folder, self.kafka = folder, kafka
        self._path = list(sys.path)
        self._made: list[str] = []

    def app(self, text: str, name: str = "shop", *, before: str = "from streams import *\n", after: str = "") -> str:
        """Writes an application whose id is ``name``, and returns its file; its settings stand behind ``text``."""
        module = f"{name}_{next(_NUMBERS)}".replace("-", "_")
        self._made.append(module)
        file = self.folder / f"{module}.py"
        settings = {
            "application.id": name,
            "bootstrap.servers": "localhost:9092",
            "state.dir": str(self.folder / "state"),
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 0,
        }
        file.write_text(f"{before}{text}\nsettings = {settings!r}\n{after}\n")
        return str(file)

    def start(self, app: str, *, wait: bool = True) -> KafkaStreams:
        """Starts an application on the broker.

        :param wait: until it is running.
        """
        given = Given()
        import_from(str(self.folder))
        given.add_all(settings_in(named_app(app)), "the file")
        return self.kafka.start(
            lambda config: load_topology(app, lambda: config), StreamsConfig.of(given.settings), wait=wait
        )

    def run(self, command: str, *words: str, stdin: str | bytes = "", terminal: bool = False, **more: Any) -> Printed:
        """Runs a command as the command line does; ``more`` goes to its function.

        :param terminal: whether standard input and output are a terminal.
        """
        out, err = _stream("", terminal=terminal), _stream("", terminal=False)
        before, sys.stdin = sys.stdin, _stream(stdin, terminal=terminal)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                parsed = parser([command, *words]).parse_args([command, *words])
                try:
                    more = more if command in ("try", "registry") else {"clients": self.kafka.clients, **more}
                    status = parsed.command(parsed, **more)
                except Exception as error:
                    status = report(error, trace=False)
        finally:
            sys.stdin = before
        return Printed(status, self._readable(_written(out)), self._readable(_written(err)))

    def _readable(self, text: str) -> str:
        """Returns a text with the files of applications by their short names: ``shop.py``."""
        text = text.replace(f"{self.folder}/", "")
        for module in self._made:
            text = text.replace(f"{module}.py", f"{module.rpartition('_')[0]}.py")
        return text

    def close(self) -> None:
        """Forgets the modules of the applications."""
        sys.path[:] = self._path
        for name in self._made:
            sys.modules.pop(name, None)


def commands(folder: Path) -> Iterator[ClusterCommands]:
    """Yields the commands on a broker of their own; for a fixture."""
    with EmbeddedKafka(folder / "state") as kafka:
        made = ClusterCommands(folder, kafka)
        yield made
        made.close()
