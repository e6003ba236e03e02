"""The options that say which state a command works on, and the state that they find."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.errors import StateError
from processor_api.topology.topology import Topology
from state.directory.inspect import StoredTask, applications_in, tasks_of
from streams.cli.output.causes import CannotRun
from streams.cli.settings_options import add_settings_options, given_settings
from streams.cli.topology_function import load_topology

if TYPE_CHECKING:
    from state.offline.stores import StoredStore
    from state.rocksdb.reader import DatabaseReader
    from streams.config import StreamsConfig


class StorePlace:
    """A state directory, and the tasks and store requested in it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        found = given_settings(arguments, derives_id=True)
        given = found.settings
        self.root: Path
        self.application_id: str | None = given.get("application.id")
        self.names: list[str] = arguments.task
        self._topology_path: str | None = getattr(arguments, "topology", None)
        self._given = given
        self._config: StreamsConfig | None = None
        self.root = self.config.state_dir
        if found.origins.get("application.id", "").startswith(
            "name of "
        ) and self.application_id not in applications_in(self.root):
            self.application_id = None  # the file may have another name than the application that has state here

    @property
    def config(self) -> StreamsConfig:
        from streams.config import StreamsConfig

        if self._config is None:
            stand_ins = {"application.id": "streams-state", "bootstrap.servers": "localhost:9092"}
            self._config = StreamsConfig.of({**stand_ins, **self._given})
        return self._config

    def topology(self) -> Topology | None:
        """Returns the topology that was named, if one was."""
        return None if self._topology_path is None else load_topology(self._topology_path, lambda: self.config)

    def tasks(self) -> list[StoredTask]:
        return tasks_of(self.root, self.application_id, self.names)

    def stores(self, store: str) -> Generator[tuple[DatabaseReader, StoredStore]]:
        """Yields the store in each task that has it, open for reading.

        :raises CannotRun: no task has it; the error names the stores there are.
        """
        from state.offline.stores import stores_in
        from state.rocksdb.reader import DatabaseReader

        there: set[str] = set()
        found = False
        failure: StateError | None = None
        for task in self.tasks():
            with DatabaseReader(task.database) as reader:
                try:
                    stores = {one.name: one for one in stores_in(reader, task)}
                except StateError as error:
                    failure = failure or error
                    continue
                there |= stores.keys()
                if store in stores:
                    found = True
                    yield reader, stores[store]
        if failure is not None:
            raise failure
        if not found:
            names = ", ".join(sorted(there)) or "none"
            raise CannotRun(f"store {store!r} does not exist on disk in {self.root}; existing stores: {names}")


def place_of(arguments: argparse.Namespace) -> StorePlace:
    return StorePlace(arguments)


def add_place_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filters")
    group.add_argument("--state-dir", metavar="DIR", help="the root of the state directories (state.dir)")
    group.add_argument(
        "--task",
        metavar="TASK",
        action="append",
        default=[],
        help="0_1, or global/0 for global stores; repeatable",
    )
    add_settings_options(parser)


def add_store_argument(parser: argparse.ArgumentParser, **how: Any) -> None:
    parser.add_argument("store", metavar="STORE", help="name of the store", **how)


def add_topology_option(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--topology", metavar="APP", help=what)


def add_format_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text, or one JSON object per line")
