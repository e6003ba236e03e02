"""The plan: the calls of a builder as frozen nodes.

The set of kinds is closed: the compiler and the passes match on it, and the type checker reports where a new kind is
missing. Most operators need no kind of their own: :class:`Process` takes any operator of a stream, :class:`TableStep`
any operator that makes a table. Nodes refer to their parents by number; a node's ``name`` is that of the topology node
from which its children read.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

from dsl.options import Consumed, Produced
from dsl.plan.given_functions import GivenFunction
from dsl.processors.tables.operator import TableOperator
from dsl.settings import BuildSettings
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.defaults import DslStoreSuppliers
from processor_api.stores.suppliers import StoreSupplier
from processor_api.stores.time_to_live import TimeToLive
from processor_api.topology.nodes import TopicNameExtractor
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.user_code.lines import Line, user_line


@dataclass(frozen=True, kw_only=True)
class PlannedWindowStore:
    """The needs of a windowed table for its store; durations are in ms."""

    retention_ms: int
    size_ms: int | None = None
    """The length of a window; ``None`` for sessions."""
    end_of: Callable[[int], int] | None = None
    """The end of the window with a start, where not all have one length."""
    final: bool = False
    """Whether results are sent on when windows close, which reads the store by time."""
    caching: bool = True
    """Whether it may be cached."""
    exact: bool = False
    """Whether rows are hidden as soon as they have expired, and not only when their segment is deleted."""


@dataclass(frozen=True, kw_only=True)
class Materialization:
    """A table's store with everything decided but the application's defaults."""

    name: str
    queryable: bool
    """Whether the user named it."""
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    supplier: StoreSupplier | None = None
    store_type: DslStoreSuppliers | str | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    caching: bool = True
    retention_ms: int | None = None
    time_to_live: TimeToLive | None = None
    windows: PlannedWindowStore | None = None
    """``None`` for tables whose keys are not windowed."""

    @property
    def query_name(self) -> str | None:
        """The name under which the table can be queried; ``None`` if the user did not name its store."""
        return self.name if self.queryable else None


@dataclass(frozen=True, kw_only=True)
class BufferStore:
    """The store in which a suppression lets changes wait."""

    name: str
    named: bool
    """Whether the user named it."""
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)


class OwnStore(Protocol):
    """A store that an operator of a stream brings along, to be made for the application's settings."""

    @property
    def name(self) -> str:
        """The name of the store."""
        ...

    @property
    def named(self) -> bool:
        """Whether the user named it."""
        ...

    @property
    def logging(self) -> bool:
        """Whether it has a changelog."""
        ...

    def builder(self, settings: BuildSettings) -> StoreBuilder[Any, Any]:
        """Returns the builder of the store."""
        ...


class Ask(enum.Enum):
    """Whether an operator asks a table that it reads for old values (semantics 30)."""

    NOTHING = enum.auto()
    IF_AVAILABLE = enum.auto()
    """The table sends them if it can without a store made for this purpose."""
    FORCE = enum.auto()
    """The table sends them; if that takes a store, it gets one."""


class Answer(enum.Enum):
    """The source from which a table can take old values."""

    ALWAYS = enum.auto()
    """Its store, which it has in any case."""
    OWN_STORE = enum.auto()
    """A store of its own, which it gets if it is named, or for this purpose."""
    OWN_STORE_OR_PARENT = enum.auto()
    """Its store if it is named, else values computed from its parent's old ones."""
    BOTH_PARENTS = enum.auto()
    """The two operators above, which compute them of the old values of the tables that they join."""


@dataclass(frozen=True, kw_only=True)
class _Made:
    made_at: Line | None = field(default_factory=user_line, compare=False, repr=False)
    """The line of the user's script that made the node."""


@dataclass(frozen=True, kw_only=True)
class StreamSource(_Made):
    """A source that ``stream(...)`` added: topics, or a pattern."""

    name: str
    consumed: Consumed[Any, Any]
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @property
    def parents(self) -> tuple[int, ...]:
        """The numbers of the nodes above; there are none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class TableSourceNode(_Made):
    """The nodes that ``table(...)`` added: a source, and the processor that turns its records into changes."""

    name: str
    source: str
    topic: str
    consumed: Consumed[Any, Any]
    operator: TableOperator
    store: Materialization

    @property
    def parents(self) -> tuple[int, ...]:
        """The numbers of the nodes above; there are none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class GlobalSource(_Made):
    """The nodes that ``global_table(...)`` or ``add_global_store(...)`` added: source and processor."""

    name: str
    source: str
    topic: str
    consumed: Consumed[Any, Any]
    supplier: Any
    """The table's operator, or a supplier of processors."""
    store: Materialization | StoreBuilder[Any, Any]
    """The table's store, which holds the topic's records as they are; or the builder that the user gave."""

    @property
    def parents(self) -> tuple[int, ...]:
        """The numbers of the nodes above; there are none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class PlannedStore(_Made):
    """A store that ``add_state_store(...)`` added."""

    builder: StoreBuilder[Any, Any]

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.builder.name

    @property
    def parents(self) -> tuple[int, ...]:
        """The numbers of the nodes above; there are none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Process(_Made):
    """A node that makes a stream, or nothing: an operator, or a user's processor."""

    name: str
    parents: tuple[int, ...]
    supplier: Any
    """An :class:`~processor_api.processor.Operator`, or a supplier of processors."""
    stores: tuple[str, ...] = ()
    """Stores added elsewhere, also further down in the plan."""
    fixed_key: bool | None = None
    """The kind of processor that the supplier must make; ``None`` for operators."""
    changes_key: bool = False
    changes_value: bool = False
    merges: bool = False
    asks: Ask = Ask.NOTHING
    own_stores: tuple[OwnStore, ...] = ()
    """Stores that are added with the node, which other nodes may name in their ``stores``."""
    reads: tuple[int, ...] = ()
    """Tables in which the operator looks values up; their views become its field ``views``."""
    copartitions: bool = False
    """Whether what its parents read, and the tables that it reads, must have equal numbers of partitions."""
    takes_null_keys: bool = False
    """Whether it has a use for records without a key, which repartition topics above it let through then."""


@dataclass(frozen=True, kw_only=True)
class TableStep(_Made):
    """A node that makes a table of what one parent sends, except the table's own source."""

    name: str
    parents: tuple[int, ...]
    operator: TableOperator
    store: Materialization | None
    answers: Answer
    asks: Ask = Ask.NOTHING
    stores: tuple[str, ...] = ()
    """Stores that the operator uses and that were added elsewhere."""
    buffer: BufferStore | None = None
    shares_store: bool = False
    """Whether another node, written before it, has added its store."""
    copartitions: bool = False
    """Whether what its parents read must have equal numbers of partitions."""
    grace_ms: int | None = None
    """The time that a window of an aggregation takes records after its end; for sessions, the gap and that."""


@dataclass(frozen=True, kw_only=True)
class Repartition(_Made):
    """An internal topic in a stream: filter, sink and source. Children read from the source, which gives the name."""

    name: str
    parents: tuple[int, ...]
    topic: str
    filter: str
    sink: str
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    partitions: int | None = None
    partitioner: StreamPartitioner | None = None
    optimizable: bool = True
    """Whether it may be merged with others (not the ones the user asked for, semantics 102)."""


@dataclass(frozen=True, kw_only=True)
class TableRepartition(_Made):
    """An internal topic between tables, of changes or of messages of a join: without a filter for null keys."""

    name: str
    parents: tuple[int, ...]
    topic: str
    sink: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any]
    partitioner: StreamPartitioner | None = None


@dataclass(frozen=True, kw_only=True)
class Sink(_Made):
    """A sink that ``to(...)`` added: a topic, or a function that names one for each record."""

    name: str
    parents: tuple[int, ...]
    topic: str | TopicNameExtractor
    produced: Produced[Any, Any]
    topics: tuple[str, ...] = ()
    """The topics that the function may name; empty if they are not known."""


PlanNode = (
    StreamSource
    | TableSourceNode
    | GlobalSource
    | PlannedStore
    | Process
    | TableStep
    | Repartition
    | TableRepartition
    | Sink
)


@dataclass(frozen=True)
class Plan:
    """A plan: nodes by number, in the order of the calls, and their turns when the topology is written."""

    nodes: Mapping[int, PlanNode]
    turns: Mapping[int, int]
    """A node that was asked for again has a later turn than its number says."""
    functions: Mapping[CodeType, Sequence[GivenFunction]] = field(default_factory=dict)
    """The user's functions by their code."""

    def children(self) -> dict[int, list[int]]:
        """Returns the children of each node, by number."""
        found: dict[int, list[int]] = {number: [] for number in self.nodes}
        for number, node in self.nodes.items():
            for parent in dict.fromkeys(node.parents):
                found[parent].append(number)
        return found
