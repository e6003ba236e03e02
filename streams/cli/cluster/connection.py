"""The clients of a command that works on a cluster."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.texts import shown
from processor_api.topology.topology import Topology
from streams.cli.output.causes import CannotRun
from streams.cli.output.terminal import say_error
from streams.cli.output.waiting_notice import WaitingNotice
from streams.cli.settings_options import given_settings
from streams.cli.topology_function import load_topology
from streams.kafka.cluster_clients import ClusterClients

if TYPE_CHECKING:  # pydantic and the client are not needed to print the help
    from streams.config import StreamsConfig
    from streams.kafka.ports import KafkaClients

_STAND_IN = "streams-cli"


@dataclass(frozen=True)
class Target:
    """The application that a command is about, and its settings."""

    config: StreamsConfig
    topology: Topology | None
    app: str | None
    """The application as it was given, for hints; ``None`` if none was."""
    has_id: bool
    """Whether an application id is given or follows from the application's file."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings under Kafka's names."""
        return self.config.dotted()

    def known_topology(self) -> Topology:
        """Returns the topology of a command that needs one."""
        if self.topology is None:
            raise CannotRun("specify the application, such as app.py")
        return self.topology


def target_of(arguments: argparse.Namespace) -> Target:
    """Returns the application of a command, loaded.

    Nothing is logged but what the command prints, since its lines say what the clients would log.

    :raises ConfigError: if settings are wrong or missing.
    :raises CannotRun: if the application cannot be loaded.
    """
    from streams.config import StreamsConfig

    logging.getLogger("streams").addHandler(logging.NullHandler())
    given = given_settings(arguments, derives_id=True).settings
    has_id = "application.id" in given
    config = StreamsConfig.of(given if has_id else {**given, "application.id": _STAND_IN})
    app = arguments.topology
    topology = None if app is None else load_topology(app, lambda: config)
    return Target(config, topology, app, has_id)


class ClusterConnection(ClusterClients):
    """Makes the clients of one command, and says on standard error for which broker it waits.

    :param clients: makes them; librdkafka's if not given.
    :param read_only: whether they must not change the cluster, as those of a dry run.
    """

    def __init__(self, config: StreamsConfig, clients: KafkaClients | None = None, *, read_only: bool = False) -> None:
        with nullcontext() if clients is not None else WaitingNotice(f"a broker at {config.bootstrap_servers}"):
            super().__init__(config, f"{config.application_id}-cli", clients, read_only=read_only)


class _LoggedLines(logging.Handler):
    """Writes what is logged to standard error, a line each."""

    def emit(self, record: logging.LogRecord) -> None:
        named = [str(vars(record)[name]) for name in ("servers", "error") if name in vars(record)]
        text = f"{record.getMessage()} ({': '.join(named)})" if named else record.getMessage()
        if (after_s := vars(record).get("after_s")) is not None:
            text += f" after {after_s} s"
        sys.stdout.flush()
        say_error(shown(text))
        sys.stderr.flush()


@contextmanager
def lines_said(name: str) -> Iterator[None]:
    """Has standard error say what a logger logs, for a command that logs nothing; a context manager.

    :param name: of the logger, such as that of the clients, which says when the brokers are lost and back.
    """
    log, handler = logging.getLogger(name), _LoggedLines()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)
