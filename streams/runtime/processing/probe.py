"""The probe of a task: what sees the way of its records, such as a trace.

It is asked when nodes and stores are made, and gives the functions that take the place of theirs. Where there is no
probe, nothing is called, and a task has the same functions as if there were none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from processor_api.context import HandleTogether
from processor_api.record import Forward, HeaderList
from processor_api.topology.nodes import Node
from state.row_format.record_context import Cursor
from state.row_format.row_probe import RowProbe
from state.write_buffer.store_kind import OpenStore
from streams.kafka.producing.record_collector import Changelog, Produced

LogFunctions = tuple[Callable[..., None], Callable[[Iterator[tuple[bytes, bytes | None, int]]], None]]
"""`log` and `log_many` of a changelog."""


class Probe(Protocol):
    """Sees the records of one task, in its nodes and stores."""

    @property
    def rows(self) -> RowProbe | None:
        """Sees the rows of its stores, if anything does."""
        ...

    def node(self, node: Node, call: Forward, *, is_internal: bool, is_below_users: bool) -> Forward:
        """Returns what is called instead of a node; for a source, instead of what it forwards to.

        :param is_internal: whether a source reads, or a sink writes, a topic of the application itself.
        :param is_below_users: whether a processor of the user's is above, which may forward without headers.
        """
        ...

    def forwards(
        self, source: str, seen: Forward, plain: Forward, headers: Sequence[HeaderList | None]
    ) -> Iterator[Forward]:
        """Returns what takes each record of a batch, in order.

        :param source: the node.
        :param seen: what :meth:`node` has returned for it.
        :param plain: what it forwards to: the probe does not see a record that goes there, but in the nodes and stores
            below.
        :param headers: those of the records.
        """
        ...

    def passed(self, records: int) -> None:
        """Notes how many records of the last batch were read: the others come again."""
        ...

    def store(self, node: str, store: OpenStore) -> OpenStore:
        """Returns what a node gets instead of a store."""
        ...

    def changelog(self, store: str, changelog: Changelog) -> LogFunctions:
        """Returns what a store logs by."""
        ...

    def holding(self, node: str, hold: Forward) -> Forward:
        """Returns the function of a node that holds the current record back."""
        ...

    def batch(self, node: str, handle: HandleTogether) -> HandleTogether:
        """Returns the function of a node that handles what it held."""
        ...

    def dropped(self, node: str, why: str) -> None:
        """Notes that a node has dropped the current record."""
        ...

    def unread(self, node: str, key: Any, why: str) -> None:
        """Notes that the current record was dropped before it reached the nodes.

        :param node: its source.
        :param key: the key, if it could be read.
        """
        ...

    def punctuation(self, node: str, now_ms: int) -> AbstractContextManager[None]:
        """Marks what happens within as done by a punctuation."""
        ...

    def committed(self) -> None:
        """Notes that a commit has succeeded."""
        ...

    def rolled_back(self) -> None:
        """Notes that all since the last commit was taken back."""
        ...


ProbeMaker = Callable[[str, Cursor, Callable[[], int]], Probe]
"""``(task, cursor, dropped)`` to the probe of a task; ``dropped`` says how many records the task has dropped."""


@dataclass(frozen=True)
class RecordWatch:
    """Holds what sees the records of all tasks of an application, and what they send."""

    probe: ProbeMaker
    with_headers: Produced
    """Gives what sends the results that have headers, from the client's ``produce``."""
