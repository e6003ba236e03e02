"""The processes of an application with the stores and partitions that they have (Kafka Streams' StreamsMetadata).

The group is asked when someone wants to know, and not before: an application without queries pays nothing.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import StreamsError, UnknownStateStoreError
from processor_api.record import HeaderList, Headers
from processor_api.serde import Serde
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import repr_of
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import sources_above
from processor_api.topology.partitioner import StreamPartitioner, partition_for_key
from processor_api.user_code.checks import PARTITIONED_BY, check_function
from processor_api.user_code.given_serdes import SerdeLike, check_serde
from streams.config import StreamsConfig
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.group_picture import GroupProcess, endpoint_of, process_of, read_picture
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.standby_places import standbys_of
from streams.kafka.ports import Admin
from streams.runtime.plan.task_plan import TaskPlan
from streams.trials import trial_on_this_thread

FRESH_S = 1.0
"""A map of owners that is not older is not asked for again."""


@dataclass(frozen=True, order=True)
class HostInfo:
    """The address at which a process of the application answers queries: its ``application.server``.

    ::

        assert HostInfo.build_from_endpoint("10.1.2.3:8080") == HostInfo("10.1.2.3", 8080)
    """

    host: str
    port: int

    @classmethod
    def build_from_endpoint(cls, endpoint: str) -> HostInfo:
        """Returns the host and port of ``host:port``.

        ::

            assert HostInfo.build_from_endpoint("10.1.2.3:8080").port == 8080

        :raises ValueError: if it is something else.
        """
        host, _, port = endpoint.partition("/")[0].rpartition(":")
        if not (host and port.isascii() and port.isdecimal()):
            raise ValueError(f"an endpoint must be host:port, such as 10.1.2.3:8080, got {endpoint!r}")
        return cls(host.strip("[]"), int(port))

    @classmethod
    def unavailable(cls) -> HostInfo:
        """Returns the address that stands for a process that is not known, or that tells none.

        ::

            assert HostInfo.unavailable() == HostInfo("unavailable", -1)
        """
        return cls("unavailable", -1)


@dataclass(frozen=True)
class KeyQueryMetadata:
    """The process that has a key of a store.

    ::

        found = KeyQueryMetadata(HostInfo("10.1.2.3", 8080), frozenset(), 1)
        assert found.partition == 1
    """

    active_host: HostInfo
    """Its address; `HostInfo.unavailable` while no process is known to have it."""
    standby_hosts: frozenset[HostInfo]
    """The addresses of those that keep a standby copy of it (``num.standby.replicas``)."""
    partition: int
    """The partition of the store that the key is in; -1 for a global store, which each process has."""


@dataclass(frozen=True)
class StreamsMetadata:
    """A process of the application, with what it has.

    ::

        for process in app.metadata_for_all_streams_clients():
            print(process.host_info, sorted(process.state_store_names))
    """

    host_info: HostInfo
    state_store_names: frozenset[str] = frozenset()
    """The stores of its tasks, and the global stores."""
    topic_partitions: frozenset[TopicPartition] = frozenset()
    """The partitions that its tasks read."""
    standby_state_store_names: frozenset[str] = field(default=frozenset())
    """The stores of the tasks of which it keeps standby copies."""
    standby_topic_partitions: frozenset[TopicPartition] = field(default=frozenset())
    """The partitions that these tasks read."""


@dataclass(frozen=True)
class OwnerMap:
    """Holds the owners of tasks, as the group described them at one moment."""

    endpoints: Mapping[TaskId, str | None] = field(default_factory=dict)
    """The address of the owner of each task that has one; ``None`` of an owner that tells none."""
    members: frozenset[str] = frozenset()
    """The addresses of all members."""
    standbys: Mapping[TaskId, frozenset[str]] = field(default_factory=dict)
    """The addresses of the members that keep a standby copy of a task, of those that tell one."""
    processes: frozenset[GroupProcess] = frozenset()
    """The processes of all members, also of those that run another topology."""


def read_owners(admin: Admin, topology: GroupTopology, replicas: int = 0, tags: Sequence[str] = ()) -> OwnerMap:
    """Asks the group which member owns which task; during a rebalance some tasks have no owner.

    :param replicas: the number of copies that members keep of each task (``num.standby.replicas``).
    :param tags: the names of the tags by which these are spread.
    :raises RetryableError: if the coordinator does not answer.
    """
    picture = read_picture(admin, ControlTopics(admin, topology))
    addresses = {name: endpoint_of(client_id) for name, client_id in picture.client_ids.items()}
    kept = standbys_of(picture, topology, replicas, tags) if replicas or picture.copies else {}
    return OwnerMap(
        {task: addresses[name] for name, tasks in picture.held.items() for task in tasks},
        frozenset(one for one in addresses.values() if one is not None),
        {task: frozenset(one for name in names if (one := addresses[name])) for task, names in kept.items()},
        frozenset(map(process_of, (*picture.client_ids.values(), *picture.others))),
    )


class Owners:
    """Knows which process has which partition of a store. Any thread may ask.

    :param own: the address of this process, as it tells the others.
    :param group: returns what the application's group is asked by; ``None`` before the start.
    """

    def __init__(
        self,
        topology: TopologyData,
        own: str | None,
        group: Callable[[], tuple[Admin, GroupTopology, Mapping[int, TaskPlan]] | None],
        clock: Clock,
        config: StreamsConfig,
    ) -> None:
        self.own = own
        self._config = config
        self._topology = topology
        self._group = group
        self._clock = clock
        self._lock = threading.Lock()
        self._known = OwnerMap()
        self._read_at: float | None = None
        self._topics: dict[str, str] = {}
        self._topics_of: Mapping[int, TaskPlan] | None = None
        """The plans of the topics, which change when the partitions or the topics of a pattern do."""

    def current(self, max_age_s: float = FRESH_S) -> OwnerMap:
        """Returns the owners of tasks; asks the group if what is known is older than that.

        :raises StreamsError: if it does not answer.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._read_at is not None and now - self._read_at <= max_age_s:
                return self._known
            group = self._group()
            if group is None:
                return OwnerMap()
            admin, topology, _ = group
            config = self._config
            tags = config.rack_aware_assignment_tags
            self._known = read_owners(admin, topology, config.num_standby_replicas, tags)
            self._read_at = now
            return self._known

    @property
    def known(self) -> OwnerMap:
        """The owners as they were last asked for."""
        return self._known

    def task(self, store: str, partition: int) -> TaskId | None:
        """Returns the task that has a partition of a store; ``None`` if there is none."""
        return next((TaskId(part, partition) for part, plan in self._plans().items() if store in plan.stores), None)

    def _plans(self) -> Mapping[int, TaskPlan]:
        group = self._group()
        return {} if group is None else group[2]

    # ------------------------------------------------------------------ for users

    def of_key(
        self,
        store: str,
        key: Any,
        chosen_by: SerdeLike[Any] | StreamPartitioner,
        count: int | None,
        headers: HeaderList | None = None,
    ) -> KeyQueryMetadata:
        """Returns the process that has a key (`KafkaStreams.query_metadata_for_key`).

        :param chosen_by: serialises the key, or chooses its partition.
        :param count: the partitions of the store; ``None`` for a global one.
        :param headers: those of the record by which a partitioner chooses.
        """
        if count is None:
            own = HostInfo.unavailable() if self.own is None else HostInfo.build_from_endpoint(self.own)
            return KeyQueryMetadata(own, frozenset(), -1)
        partition = self.partition(store, key, chosen_by, count, headers)
        task = self.task(store, partition)
        owners = OwnerMap() if task is None else self.current()
        endpoint = None if task is None else owners.endpoints.get(task)
        host = HostInfo.unavailable() if endpoint is None else HostInfo.build_from_endpoint(endpoint)
        copies = frozenset() if task is None else owners.standbys.get(task, frozenset())
        return KeyQueryMetadata(host, frozenset(map(HostInfo.build_from_endpoint, copies)), partition)

    def partition(
        self,
        store: str,
        key: Any,
        chosen_by: SerdeLike[Any] | StreamPartitioner,
        count: int,
        headers: HeaderList | None = None,
    ) -> int:
        """Returns the partition of a key: that of a record with the key in a topic that the store's processors read.

        The arguments are those of :meth:`of_key`.
        """
        return self._partition(store, self._topic(store), key, chosen_by, count, headers)

    def _topic(self, store: str) -> str:
        plans = self._plans()
        if plans is not self._topics_of:
            self._topics, self._topics_of = {}, plans
        topics = self._topics
        if store not in topics:
            topics[store] = self._topic_of(store, plans)
        return topics[store]

    def _topic_of(self, store: str, plans: Mapping[int, TaskPlan]) -> str:
        """Returns a topic whose records have the keys of a store: one that its processors read, as in Java."""
        topology = self._topology
        for plan in plans.values():
            if store not in plan.stores:
                continue
            users = [name for name in plan.nodes if store in topology.stores_of(name)]
            sources = {source for name in users for source in sources_above(topology.nodes, name)}
            read = [topic for topic, source in plan.topics.items() if source in sources]
            if read:
                return min(read)
        return store

    @staticmethod
    def _partition(
        store: str,
        topic: str,
        key: Any,
        chosen_by: SerdeLike[Any] | StreamPartitioner,
        count: int,
        headers: HeaderList | None,
    ) -> int:
        if count == 0:
            raise StreamsError(f"the partitions of store {store!r} are not known yet: try again later")
        if not callable(chosen_by) or isinstance(chosen_by, type):
            given: Serde[Any]
            if isinstance(chosen_by, Serde):  # each read over HTTP asks
                given = chosen_by
            else:
                given = check_serde(chosen_by, "key_serde", "query_metadata_for_key")
            # A serde that is bound here lives as long as the question, and so does what it learns in the trial: what is
            # not registered is the key of no record.
            with trial_on_this_thread("a query for the owner of a key"):
                serde = given.bind(topic, is_key=True)
                if serde.takes_headers:
                    serde = serde.with_headers(Headers(headers or ()))
                data = serde.serialize(key)
            if data is None:
                raise StreamsError("a key must not be null")
            return partition_for_key(data, count)
        check_function(chosen_by, "partitioner", "query_metadata_for_key", PARTITIONED_BY, returns=True)
        found = chosen_by("", key, None, headers, count)
        chosen = sorted(found) if found is not None else []
        if len(chosen) != 1 or not 0 <= chosen[0] < count:
            raise StreamsError(
                f"the partitioner must choose one of {count} partitions for the key of a query, got {repr_of(found)}"
            )
        return chosen[0]

    def of_store(self, store: str) -> tuple[StreamsMetadata, ...]:
        """Returns the processes that have partitions of a store (`KafkaStreams.streams_metadata_for_store`)."""
        if store not in self._topology.stores and store not in self._topology.global_stores:
            raise UnknownStateStoreError(f"the topology does not have store {store!r}", store=store)
        return tuple(one for one in self.all() if store in one.state_store_names)

    def all(self) -> tuple[StreamsMetadata, ...]:
        """Returns all processes (`KafkaStreams.metadata_for_all_streams_clients`)."""
        owners, plans = self.current(), self._plans()
        hosts = {HostInfo.build_from_endpoint(one) for one in owners.members}
        tasks: defaultdict[HostInfo, set[TaskId]] = defaultdict(set)
        copies: defaultdict[HostInfo, set[TaskId]] = defaultdict(set)
        for task, endpoint in owners.endpoints.items():
            if endpoint is not None and task.subtopology in plans:
                tasks[HostInfo.build_from_endpoint(endpoint)].add(task)
        for task, endpoints in owners.standbys.items():
            for one in endpoints if task.subtopology in plans else ():
                copies[HostInfo.build_from_endpoint(one)].add(task)
        return tuple(self._metadata(host, tasks[host], copies[host], plans) for host in sorted(hosts | tasks.keys()))

    def _metadata(
        self, host: HostInfo, tasks: set[TaskId], copies: set[TaskId], plans: Mapping[int, TaskPlan]
    ) -> StreamsMetadata:
        stores, partitions = _parts(tasks, plans)
        copied, followed = _parts(copies, plans)
        own = frozenset(stores | self._topology.global_stores.keys())
        return StreamsMetadata(host, own, partitions, copied, followed)


def _parts(tasks: set[TaskId], plans: Mapping[int, TaskPlan]) -> tuple[frozenset[str], frozenset[TopicPartition]]:
    """Returns the stores of tasks, and the partitions that these read."""
    stores = frozenset(store for task in tasks for store in plans[task.subtopology].stores)
    return stores, frozenset(one for task in tasks for one in plans[task.subtopology].partitions(task.partition))
