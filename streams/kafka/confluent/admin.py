"""The admin client of librdkafka.

What members ask for again and again, also while brokers are away or have just come back, goes to the brokers directly
(`streams.kafka.wire.cluster_queries`). librdkafka's admin client answers these where only it can log in.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupType, IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions
from confluent_kafka.cimpl import NewTopic as ClientNewTopic

from processor_api.clock import Clock, SystemClock
from processor_api.errors import AuthenticationError, AuthorizationError, ConfigError, RetryableError, StreamsError
from processor_api.forks import belongs_to_this_process, never_free
from processor_api.task_id import TopicPartition
from streams.kafka import ports
from streams.kafka.confluent.callbacks import ClientLog, weakly
from streams.kafka.confluent.consuming.group_offsets import GroupReader
from streams.kafka.confluent.errors import AUTHENTICATION, Resources, kafka_error, mapped, mapping, offsets_error
from streams.kafka.confluent.outage import ClusterOutage, OutageNotice, plain_reason
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.wire.cluster_queries import ClusterQueries

T = TypeVar("T")

log = logging.getLogger("streams.kafka.client")

TIMEOUT_S = 30.0
REFUSED_S = 3.0
"""Time after which a request fails if all that happened were failed logins or TLS handshakes."""
DESCRIBE_S = 5.0
VISIBLE_DEADLINE_S = 30.0
PAUSE_S = 0.05
FREED_AFTER_S = 90.0
"""The time after which all requests of a client have ended."""
HALF_ID = (1 << 64) - 1
NOT_SHOWN = ("UNKNOWN_TOPIC_OR_PART", "TOPIC_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE")


class ReplaceableAdmin:
    """Holds the admin client, and makes a new one when the present one may never find a broker or coordinator again."""

    def __init__(self, config: Mapping[str, Any], clock: Clock) -> None:
        self._clock = clock
        self._config: dict[str, Any] = {**config, "error_cb": weakly(self._on_error)}
        self.stale = False
        """Whether the next request needs another client: this one had no broker, or no answer in time."""
        self.refused = ""
        """The last error of TLS or of a login that the client reported."""
        self._last_error = ""
        self._client = self._new()
        self._former: list[tuple[AdminClient, float]] = []
        """Clients that were replaced, and since when; librdkafka may abort the process where one is freed that still
        waits for an answer."""

    def _new(self) -> AdminClient:
        try:
            return AdminClient(self._config, logger=ClientLog())
        except KafkaException as error:
            raise mapped(error, "make an admin client") from error

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            # It names no reason: the last error of a connection does.
            self.stale = True
            return
        self._last_error = error.str()
        if error.name() in AUTHENTICATION or "certificate" in error.str():
            self.refused = error.str()

    def forget_errors(self) -> None:
        """Forgets what was reported before the request that comes next."""
        self.refused = self._last_error = ""

    def reason(self, wait_s: float = 0.0) -> str:
        """Returns why there is no answer, in plain words and as far as the client says."""
        self._client.poll(wait_s)  # has it report
        return plain_reason(self._last_error)

    def for_request(self) -> AdminClient:
        """Returns the client for a request; a new one if the present one may have lost its brokers."""
        # Here the client reports, and by that says whether it is stale.
        self._client.poll(0)
        if self.stale:
            now, former = self._clock.monotonic(), self._client
            self._client, self.stale = self._new(), False
            kept = [(one, since) for one, since in self._former if now - since < FREED_AFTER_S]
            self._former = [*kept, (former, now)]
        return self._client

    def relieve(self) -> None:
        """Takes what the clients have to report."""
        for client in self.all():
            client.poll(0)

    def all(self) -> list[AdminClient]:
        """Returns the present client and the former ones."""
        return [self._client, *(one for one, _ in self._former)]


class ConfluentAdmin:
    """Implements `streams.kafka.ports.Admin`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        clock: Clock | None = None,
        timeout_s: float = TIMEOUT_S,
        outage: ClusterOutage | None = None,
    ) -> None:
        """Makes the client; nothing is requested yet.

        :param timeout_s: how long a request may take.
        :param outage: that of its cluster; one of its own if not given."""
        self._timeout_s = timeout_s
        self._clock = clock or SystemClock()
        self.resources = Resources.of(config, "DESCRIBE", "DESCRIBE")
        self._servers = config.get("bootstrap.servers")
        self._config = config
        self._client = ReplaceableAdmin(config, self._clock)
        self._outage = outage or ClusterOutage(self._servers, self._clock)
        self._groups = GroupReader(config, self._outage)
        self._outage.watch(self._client)
        self._outage.watch(self._groups)
        self._queries: ClusterQueries | None = None
        self._is_logged = False
        """Whether the log says that the admin client asks instead of our own."""
        try:
            self._queries = ClusterQueries(config, self._clock)
        except ConfigError as error:  # such as a login by Kerberos
            self._log_once(error)
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Keeps a forked child from freeing the client, which waits for its threads."""
        never_free(self._client.all())
        return ()

    def _log_once(self, error: StreamsError) -> None:
        if not self._is_logged:
            self._is_logged = True
            log.info("only the admin client sends requests to the cluster", extra={"error": str(error)})

    def _ask(self, what: str, ask: Callable[[ClusterQueries, float], T], otherwise: Callable[[], T]) -> T:
        """Returns the answer of the cluster, asked directly if that is possible.

        :param otherwise: asks by the admin client.
        :raises RetryableError: if there is none in time.
        """
        if self._queries is None:
            return otherwise()
        timeout_s = min(DESCRIBE_S, self._timeout_s)
        try:
            return ask(self._queries, timeout_s)
        except (AuthorizationError, ports.UnknownPartitionError):
            raise
        except RetryableError as error:
            self._outage.suspect()
            text = f"cannot {what}: no response within {timeout_s:g} s: {error.message}"
            raise RetryableError(text, **error.place()) from error
        except StreamsError as error:  # such as a broker that is older than our requests
            self._log_once(error)
            return otherwise()

    def topics(self, names: Collection[str] | None = None) -> dict[str, ports.TopicInfo]:
        found = self._list_topics()
        if names is not None and (absent := sorted(set(names) - found.keys())):
            self._refuse_hidden(absent)
        return {
            name: ports.TopicInfo(name, len(topic.partitions), _replicas(topic))
            for name, topic in found.items()
            if (names is None or name in names) and topic.error is None
        }

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        if not names:
            return {}
        what = f"describe topic {min(names)!r}" if len(names) == 1 else "describe topics"
        return self._ask(
            what, lambda queries, limit_s: queries.topic_ids(names, limit_s), lambda: self._ids_by_client(names)
        )

    def topic_states(self, names: Collection[str]) -> dict[str, ports.TopicState]:
        if not names:
            return {}
        return self._ask(
            "describe topics",
            lambda queries, limit_s: queries.topic_states(names, limit_s),
            lambda: {name: ports.TopicState(id_, {}) for name, id_ in self._ids_by_client(names).items()},
        )

    def divergences(
        self, points: Collection[tuple[TopicPartition, LogPoint]]
    ) -> dict[tuple[TopicPartition, LogPoint], int]:
        if not points:
            return {}
        # The client has no such request: where only it can log in, nothing is compared.
        return self._ask("read leader epochs", lambda queries, limit_s: queries.divergences(points, limit_s), dict)

    @mapping("describe topics")
    def _ids_by_client(self, names: Collection[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        asked = self._client.for_request().describe_topics(TopicCollection(sorted(names)), request_timeout=DESCRIBE_S)
        for name, future in asked.items():
            topic = self._shown(future, f"describe topic {name!r}")
            raw = b"" if topic is None else _raw_id(topic.topic_id)
            if any(raw):
                found[name] = urlsafe_b64encode(raw).decode().rstrip("=")
        return found

    @mapping("read the settings of topics")
    def topic_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(names)]
        found: dict[str, dict[str, str]] = {}
        for resource, future in self._client.for_request().describe_configs(asked, request_timeout=DESCRIBE_S).items():
            settings = self._shown(future, f"read the settings of topic {resource.name!r}")
            if settings is not None:
                found[resource.name] = {name: one.value for name, one in settings.items() if one.value is not None}
        return found

    def _shown(self, future: Any, what: str) -> Any:
        """Returns the answer about one topic; ``None`` if it is not there, may not be seen, or a broker is too old."""
        try:
            return self._result(future, what)
        except KafkaException as error:
            reason = kafka_error(error)
            if reason is None or reason.name() not in NOT_SHOWN:
                raise
            return None

    def _refuse_hidden(self, names: list[str]) -> None:
        """Raises an error for topics that exist but may not be seen: a list of all topics leaves them out, and only a
        request by name shows the reason."""
        hidden = []
        futures = self._client.for_request().describe_topics(TopicCollection(names), request_timeout=self._timeout_s)
        for name, future in futures.items():
            try:
                self._result(future, f"describe topic {name!r}")
            except KafkaException as error:
                reason = kafka_error(error)
                if reason is not None and reason.name() == "TOPIC_AUTHORIZATION_FAILED":
                    hidden.append(name)
        if hidden:
            raise AuthorizationError(
                f"topics cannot be described, and may or may not exist: {', '.join(map(repr, hidden))}; allow READ on"
                " input topics and WRITE on output topics",
                topic=hidden[0] if len(hidden) == 1 else None,
            )

    def _list_topics(self) -> Mapping[str, Any]:
        """Lists all topics; errors of TLS and of the login are raised after `REFUSED_S`, while the client would try
        again until the time-out. Meanwhile the log says that no broker is reached."""
        client, start = self._client, self._clock.monotonic()
        early, late = start + min(REFUSED_S, self._timeout_s), start + self._timeout_s
        notice = OutageNotice(f"no broker can be reached at {self._servers}", self._clock, self._timeout_s)
        client.forget_errors()
        while True:
            now = self._clock.monotonic()
            until = early if now < early else min(late, notice.due)
            try:
                topics: Mapping[str, Any] = client.for_request().list_topics(timeout=max(PAUSE_S, until - now)).topics
                return topics
            except KafkaException as error:
                reason, now = client.reason(PAUSE_S), self._clock.monotonic()
                why = mapped(error, f"reach a broker at {self._servers}", self.resources)
                if client.refused and now >= early:
                    raise AuthenticationError(
                        f"cannot reach a broker at {self._servers} because TLS or the login fails: {client.refused}"
                    ) from error
                if not isinstance(why, RetryableError):
                    raise why from error
                if now < late:
                    client.stale = client.stale or now >= early  # it may have lost its brokers, which a new one finds
                    notice.say(reason or why.message)
                    continue
                raise RetryableError(
                    f"cannot reach a broker at {self._servers} within {self._timeout_s:g} s: {reason or why.message};"
                    " check that it runs, that bootstrap.servers is its address, and that security.protocol is that of"
                    " its listener"
                ) from None

    def create_topics(self, topics: Collection[ports.NewTopic]) -> None:
        if not topics:
            return
        wanted = [
            ClientNewTopic(one.name, one.partitions, one.replication_factor, config=dict(one.configs)) for one in topics
        ]
        counts = {one.name: one.partitions for one in topics}
        for name, future in self._client.for_request().create_topics(wanted).items():
            try:
                self._result(future, f"create topic {name!r}", topic=name)
            except KafkaException as error:
                found = kafka_error(error)
                if found is None or found.name() != "TOPIC_ALREADY_EXISTS":
                    raise mapped(error, f"create topic {name!r}", Resources("CREATE", "CREATE"), topic=name) from error
                counts[name] = 1  # it was created by another member, with partitions of its own
        self._wait_visible(counts)

    def add_partitions(self, topic: str, partitions: int) -> None:
        existing = self.topics([topic])
        if topic in existing and existing[topic].partitions >= partitions:
            return
        future = self._client.for_request().create_partitions([NewPartitions(topic, partitions)])[topic]
        try:
            self._result(future, f"add partitions to topic {topic!r}", topic=topic)
        except KafkaException as error:
            found = kafka_error(error)
            grown = self.topics([topic]).get(topic) if found and found.name() == "INVALID_PARTITIONS" else None
            if grown is None or grown.partitions < partitions:  # otherwise another member has added them
                raise mapped(error, f"add partitions to topic {topic!r}", Resources("ALTER"), topic=topic) from error
        self._wait_visible({topic: partitions})

    def _wait_visible(self, wanted: Mapping[str, int]) -> None:
        # The controller has answered; the brokers that clients ask learn of the topics and leaders a moment later. The
        # leader of a group asks any of them for the partitions that it assigns, and asks again after minutes only.
        deadline = self._clock.monotonic() + VISIBLE_DEADLINE_S
        while True:
            found = self._list_topics()
            ready = [
                name
                for name in wanted
                if name in found
                and len(found[name].partitions) >= max(1, wanted[name])
                and all(p.leader >= 0 for p in found[name].partitions.values())
            ]
            unknown = set(wanted) - set(ready) or self._ask(
                "check which brokers have new topics",
                lambda queries, limit_s: queries.unknown_somewhere(wanted, limit_s),
                set[str],
            )
            if not unknown:
                return
            if self._clock.monotonic() > deadline:
                missing = ", ".join(sorted(unknown))
                raise RetryableError(f"topics were created but are not visible at all brokers yet: {missing}")
            self._clock.wait(PAUSE_S)

    def delete_topics(self, names: Collection[str]) -> None:
        if not names:
            return
        for name, future in self._client.for_request().delete_topics(list(names)).items():
            try:
                self._result(future, f"delete topic {name!r}", topic=name)
            except KafkaException as error:
                found = kafka_error(error)
                if found is None or found.name() != "UNKNOWN_TOPIC_OR_PART":
                    raise mapped(error, f"delete topic {name!r}", Resources("DELETE"), topic=name) from error

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        if not before:
            return
        wanted = [ClientPartition(*name, offset) for name, offset in before.items()]
        for name, future in self._client.for_request().delete_records(wanted).items():
            try:
                self._result(future, "delete records", topic=name.topic, partition=name.partition)
            except KafkaException as error:
                place = {"topic": name.topic, "partition": name.partition}
                raise mapped(error, "delete records", Resources("DELETE"), **place) from error

    def groups(self) -> list[str]:
        return self._ask("list the groups", lambda queries, limit_s: queries.groups(limit_s), self._groups_by_client)

    @mapping("list the groups")
    def _groups_by_client(self) -> list[str]:
        future = self._client.for_request().list_consumer_groups(request_timeout=DESCRIBE_S)
        found = self._result(future, "list the groups")
        if found.errors and not found.valid:
            raise KafkaException(found.errors[0])
        return sorted(group.group_id for group in found.valid)

    def group_members(self, group: str) -> list[ports.GroupMember]:
        return list(self.describe_group(group).members)

    def describe_group(self, group: str) -> ports.GroupInfo:
        return self._ask(
            "describe the group",
            lambda queries, limit_s: queries.describe_group(group, limit_s),
            lambda: self._group_by_client(group),
        )

    @mapping("describe the group")
    def _group_by_client(self, group: str) -> ports.GroupInfo:
        future = self._client.for_request().describe_consumer_groups([group], request_timeout=DESCRIBE_S)[group]
        try:
            found = self._result(future, "describe the group")
        except KafkaException as error:
            reason = kafka_error(error)
            if reason is not None and reason.name() in ("GROUP_ID_NOT_FOUND", "_NOENT"):
                return ports.GroupInfo(group, "dead", "", ())
            if reason is not None and reason.name() == "_TIMED_OUT":
                self._client.stale = True  # it may wait for a coordinator that is gone, and never ask for another
            raise mapped(error, "describe the group", Resources(group=group)) from error
        protocol = "consumer" if found.type == ConsumerGroupType.CONSUMER else "classic"
        members = tuple(replace(_member(one), protocol=protocol) for one in found.members)
        return ports.GroupInfo(group, found.state.name.lower(), found.partition_assignor or "", members, protocol)

    def delete_group(self, group: str) -> None:
        self._ask(
            "delete the group",
            lambda queries, limit_s: queries.delete_group(group, limit_s),
            lambda: self._delete_by_client(group),
        )

    @mapping("delete the group")
    def _delete_by_client(self, group: str) -> None:
        future = self._client.for_request().delete_consumer_groups([group], request_timeout=DESCRIBE_S)[group]
        try:
            self._result(future, "delete the group")
        except KafkaException as error:
            reason = kafka_error(error)
            name = None if reason is None else reason.name()
            if name == "NON_EMPTY_GROUP":
                raise ports.GroupHasMembers(f"group {group!r} has members: stop its workers first") from error
            if name != "GROUP_ID_NOT_FOUND":
                raise

    def remove_members(self, group: str, members: Collection[ports.GroupMember]) -> None:
        from streams.kafka.wire.leave import remove_members

        remove_members(self._config, group, members, clock=self._clock)

    def release_instance(self, group: str, member: ports.GroupMember) -> None:
        from streams.kafka.wire.leave import release_instance

        release_instance(self._config, group, member, clock=self._clock)

    def open_transactions(self) -> list[str]:
        # The admin client of the binding has no such request: where only that can ask, none are known.
        return self._ask("list open transactions", lambda queries, limit_s: queries.open_transactions(limit_s), list)

    def fence_producer(self, transactional_id: str) -> None:
        self._ask(
            f"fence transactional id {transactional_id!r}",
            lambda queries, limit_s: queries.fence_producer(transactional_id, limit_s),
            lambda: False,
        )

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        latest: Any = OffsetSpec.latest
        what = "read end offsets"
        return self._ask(
            what,
            lambda queries, limit_s: queries.log_ends(partitions, limit_s),
            lambda: self._listed_by_client({name: latest() for name in partitions}, what),
        )

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if not times:
            return {}
        at: Any = OffsetSpec.for_timestamp
        what = "look up offsets by time"
        found = self._ask(
            what,
            lambda queries, limit_s: queries.offsets_for_time(times, limit_s),
            lambda: self._listed_by_client({name: at(time) for name, time in times.items()}, what),
        )
        return {name: offset for name, offset in found.items() if offset >= 0}

    @mapping("look up offsets")
    def _listed_by_client(self, wanted: Mapping[TopicPartition, Any], what: str) -> dict[TopicPartition, int]:
        self._list_topics()  # the client keeps the leader epochs that it knows, and is refused after an election
        futures = self._client.for_request().list_offsets(
            {ClientPartition(*name): spec for name, spec in wanted.items()},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=DESCRIBE_S,
        )
        try:
            return {
                TopicPartition(one.topic, one.partition): self._result(future, what).offset
                for one, future in futures.items()
            }
        except KafkaException as error:
            raise offsets_error(error, wanted) from error

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        if not partitions:
            return {}
        return self._ask(
            "read the offsets of the group",
            lambda queries, limit_s: queries.group_offsets(group, partitions, limit_s),
            lambda: self._offsets_by_client(group, partitions),
        )

    @mapping("read the offsets of the group")
    def _offsets_by_client(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        return self._groups.offsets(group, partitions, DESCRIBE_S)

    def _result(self, future: Any, what: str, **place: Any) -> Any:
        """Returns the answer of the cluster to a request.

        :raises KafkaException: if that is an error.
        :raises RetryableError: if there is no answer in time; the request may have been carried out.
        """
        notice = OutageNotice(f"no response to the request to {what}", self._clock, self._timeout_s)
        late = self._clock.monotonic() + self._timeout_s
        self._client.forget_errors()
        while True:
            now = self._clock.monotonic()
            try:
                return future.result(max(0.0, min(notice.due, late) - now))
            except TimeoutError as error:
                reason = self._client.reason()
                if self._clock.monotonic() < late:
                    notice.say(reason)
                    continue
                self._client.stale = True
                hint = (
                    f": {reason}; clients reach brokers at the addresses of their advertised.listeners"
                    if reason
                    else ""
                )
                raise RetryableError(
                    f"cannot {what}: no response within {self._timeout_s:g} s{hint}", **place
                ) from error

    def close(self) -> None:
        """Closes the connections; the admin client closes with its last reference."""
        self._groups.close()
        if self._queries is not None:
            self._queries.close()


def _replicas(topic: Any) -> int | None:
    first = topic.partitions.get(0)
    return None if first is None else len(first.replicas)


def _member(found: Any) -> ports.GroupMember:
    assigned = found.assignment.topic_partitions if found.assignment else ()
    return ports.GroupMember(
        client_id=found.client_id,
        member_id=found.member_id,
        instance_id=found.group_instance_id,
        partitions=frozenset(TopicPartition(one.topic, one.partition) for one in assigned),
        host=(found.host or "").lstrip("/"),
    )


def _raw_id(topic_id: Any) -> bytes:
    """Returns the 16 bytes of a topic's id; all are 0 if the broker gives topics none."""
    # The binding gives each half as a signed number.
    halves = (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    return b"".join((half & HALF_ID).to_bytes(8, "big") for half in halves)
