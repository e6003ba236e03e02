"""The checks of `streams doctor` on the cluster: brokers, the group, transactions, topics and rights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from processor_api.clock import Clock, SystemClock
from processor_api.errors import ConfigError, StreamsError
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import SourceNode
from processor_api.topology.subtopology import task_subtopologies
from processor_api.topology.topology import Topology
from streams.cli.cluster.groups import MemberTasks, members_of
from streams.cli.cluster.table_topics import table_remarks, table_topics
from streams.cli.cluster.workers import Look, Seen
from streams.cli.doctor.copy_checks import WHAT as COPIES
from streams.cli.doctor.copy_checks import WantedCopies, copy_findings
from streams.cli.output.findings import Finding, Verdict, fail, fails, ok, warn
from streams.kafka.ports import Admin, Consumer
from streams.kafka.producing.key_places import PlacedKeys, disagreeing
from streams.kafka.topics import application
from streams.kafka.topics.internal import (
    TopicRole,
    check_existing_topics,
    full_name,
    internal_topic_counts,
    internal_topics,
    topic_prefix,
)
from streams.kafka.topics.left_behind import find_left_topics
from streams.kafka.topics.readers import matching_topics, reads_pattern
from streams.kafka.wire import error_codes
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.describe import GroupDescription, describe_cluster, describe_group, find_transaction_coordinator
from streams.runtime.plan.co_partitioned import MeetingTopics, meeting_topics
from streams.runtime.plan.task_plan import plan_tasks

# The checks of `streams doctor` on the rights (ACLs) of an application.

Operations = frozenset[str] | None

_OF_ROLE = {
    TopicRole.REPARTITION: {"READ", "WRITE", "DELETE"},  # processed records are deleted from it
    TopicRole.CHANGELOG: {"READ", "WRITE"},
}


class RightsOfClient(Protocol):
    """The rights of a client, as :class:`streams.kafka.confluent.rights.Rights` has them."""

    @property
    def topics(self) -> Mapping[str, Operations]: ...

    @property
    def hidden(self) -> Collection[str]: ...

    @property
    def cluster(self) -> Operations: ...

    @property
    def refused(self) -> Mapping[str, str]: ...


def needed_rights(
    topology: Topology, settings: Mapping[str, Any], existing: Mapping[str, int]
) -> tuple[dict[str, set[str]], list[str]]:
    """Returns the operations that the application needs on each topic, and the topics that it has to create."""
    needed: dict[str, set[str]] = {}
    internal = internal_topics(topology, settings)
    for one in application.application_topics(topology, settings, existing):
        if one.is_external:
            needed[one.name] = {*(["READ"] if one.is_read else []), *(["WRITE"] if one.is_written else [])}
    for name, topic in internal.items():
        if topic.role in _OF_ROLE:
            needed.setdefault(name, set()).update(_OF_ROLE[topic.role])
        if topic.is_cut_by_tasks:
            needed[name].add("DELETE")  # rows of windows that have expired are deleted from it
    control = _control_topics(topology, settings)
    needed |= control
    own = [name for name, topic in internal.items() if topic.role in _OF_ROLE] + list(control)
    return needed, sorted(name for name in own if name not in existing)


def _control_topics(topology: Topology, settings: Mapping[str, Any]) -> dict[str, set[str]]:
    """Returns the control topics by which the group shares its tasks; they grow where a pattern is read. Members of a
    group whose tasks the brokers place neither read nor write them."""
    topics = application.control_topics_of(topology, settings)
    used = {"DESCRIBE"} if str(settings.get("group.protocol")) == "streams" else {"READ", "WRITE"}
    return {
        topics[part.id]: used | ({"ALTER"} if reads_pattern(topology, part) else set())
        for part in task_subtopologies(topology)
        if part.id in topics
    }


def right_findings(
    needed: Mapping[str, set[str]],
    to_be_made: Collection[str],
    rights: RightsOfClient,
    prefix: str,
) -> list[Finding]:
    """Checks whether the application has the rights it needs.

    :param needed: operations by topic; of topics that do not exist, only whether they could be seen is known.
    :param prefix: the start of the names of its own topics.
    """
    what, findings = "rights", []
    usable = 0
    for topic, operations in sorted(needed.items()):
        found = rights.topics.get(topic)
        if topic in rights.hidden:
            place = f"it, or on topics with the prefix {prefix!r}" if topic in to_be_made else "it"
            words = " and ".join(sorted(operations))
            findings.append(fail(what, f"topic {topic!r} cannot be described: allow {words} on {place}"))
        elif topic not in rights.topics:
            continue
        elif found is None:
            findings.append(warn(what, f"the broker does not report the rights on topic {topic!r}"))
        elif lacking := sorted(operations - found):
            words = " and ".join(lacking)
            findings.append(fail(what, f"the rights on topic {topic!r} are not sufficient: allow {words} on it"))
        else:
            usable += 1
    if rights.refused:
        names = ", ".join(sorted(rights.refused))
        hint = f"allow CREATE on topics with the prefix {prefix!r}, or on the cluster"
        findings.append(fail(what, f"the right to create topics is missing: {hint}: {names}"))
    if not findings:
        made = f"; the missing topics ({len(to_be_made)}) can be created" if to_be_made else ""
        findings.append(ok(what, f"the rights on {usable} topics are sufficient{made}"))
    return findings


OWN_PROTOCOLS = ("", "cooperative-sticky")
SAMPLED_PARTITIONS = 16
SAMPLED_RECORDS = 50
"""The number of last records read from each partition, and the number of partitions, to check their keys,"""
SAMPLE_S = 5.0
"""for at most so long."""


@dataclass(frozen=True)
class CheckedCluster:
    """The cluster to check, and the application to check it for."""

    consumer: Mapping[str, Any]
    """The settings of the application's consumers."""
    make_admin: Callable[[], Admin]
    settings: Mapping[str, Any]
    """The settings of the application, under Kafka's names."""
    group: str | None
    """``None`` if the application has no name yet."""
    topology: Topology | None
    timeout_s: float = 10.0
    read_rights: Callable[[Collection[str], Collection[str]], RightsOfClient] | None = None
    """Reads the rights on topics, the second of which are to be created, and on the cluster; ``None`` skips the check
    of rights."""
    make_consumer: Callable[[], Consumer] | None = None
    """Makes a consumer of committed records, for topics that a former version has left; ``None`` skips that check."""
    look: Look = Seen
    """Asks the workers of this machine."""
    clock: Clock = field(default_factory=SystemClock)


def check_cluster(cluster: CheckedCluster) -> Iterable[Finding]:
    """Checks the brokers first; if none can be asked, nothing else is checked.

    The library's own connection is asked before librdkafka, since it answers at once and with a reason. A login that
    only librdkafka has is checked by librdkafka.
    """
    try:
        ClientSettings.of(cluster.consumer)
        alone = True
    except ConfigError as error:
        yield warn("broker", f"{error}; using librdkafka instead")
        alone = False
    if alone:
        brokers = list(_brokers(cluster))
        yield from brokers
        if any(one.verdict is Verdict.FAIL for one in brokers):
            return
        yield from _group(cluster)
        yield from _transactions(cluster)
    yield from _by_librdkafka(cluster, group=None if alone else cluster.group)


def _brokers(cluster: CheckedCluster) -> Iterable[Finding]:
    try:
        found = describe_cluster(cluster.consumer, timeout_s=cluster.timeout_s)
    except StreamsError as error:
        return fails("broker", error)
    names = ", ".join(map(str, found.brokers))
    return [ok("broker", f"{found.address} is Kafka {found.release}; cluster {found.cluster_id} has {names}")]


def _group(cluster: CheckedCluster) -> Iterable[Finding]:
    group = cluster.group
    if group is None:
        return []
    try:
        found = describe_group(cluster.consumer, group, timeout_s=cluster.timeout_s)
        return [group_finding(group, found, str(cluster.settings.get("group.protocol", "classic")))]
    except StreamsError as error:
        refused = error_codes.described(error_codes.GROUP_AUTHORIZATION_FAILED) in str(error)
        return [fail("group", f"{error}; allow READ and DESCRIBE on group {group!r}" if refused else str(error))]


def _transactions(cluster: CheckedCluster) -> Iterable[Finding]:
    """Checks whether the coordinator of the application's transactions may be asked for; none is begun."""
    if cluster.group is None or cluster.settings.get("processing.guarantee") != "exactly_once_v2":
        return []
    own = f"{cluster.group}-"
    try:
        find_transaction_coordinator(cluster.consumer, f"{own}doctor", timeout_s=cluster.timeout_s)
    except StreamsError as error:
        refused = error_codes.described(error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) in str(error)
        hint = f"; allow WRITE on transactional ids with the prefix {own!r}" if refused else ""
        return [fail("transactions", f"{error}{hint}")]
    return [ok("transactions", f"the right to use transactional ids with the prefix {own!r} exists")]


def group_finding(group: str, found: GroupDescription, protocol: str = "classic") -> Finding:
    """Checks whether an application may join its group as it is.

    :param protocol: the group protocol of the application.
    """
    if not found.knows_streams and protocol == "streams":
        return fail(
            "group",
            "the brokers do not support the streams protocol: they must be Kafka 4.2 or later, with the feature"
            " streams.version at 1; or set group.protocol to classic",
        )
    if found.members and "streams" in (found.kind, protocol) and found.kind != protocol:
        return fail(
            "group",
            f"{group!r} is a group of the {found.kind} protocol with {found.members} members, and group.protocol is"
            f" {protocol}: stop its workers",
        )
    if found.state == "NotReady":
        return warn(
            "group",
            f"{group!r} has not assigned tasks to its {found.members} members: topics are missing, or have other"
            " partition counts; the log of a worker and its status list them",
        )
    if found.may_read is False:
        return fail("group", f"{group!r} can be described but not joined: allow READ on it")
    if found.members and found.kind == "classic" and found.protocol not in OWN_PROTOCOLS:
        return fail(
            "group",
            f"{group!r} has {found.members} members that assign by {found.protocol!r}, which this library does not"
            " use: stop them, or set another application.id",
        )
    return ok("group", f"{group!r} can be joined and described; {found.members} members")


def _by_librdkafka(cluster: CheckedCluster, group: str | None) -> Iterable[Finding]:
    try:
        admin = cluster.make_admin()
        try:
            existing = {name: info.partitions for name, info in admin.topics().items()}
            members = None if group is None else len(admin.group_members(group))
            left = list(_left(cluster, admin, existing))
            tables = list(_tables(cluster, admin, existing))
            copies = list(_copies(cluster, admin))
        finally:
            admin.close()
    except StreamsError as error:
        yield from fails("librdkafka", error)
        return
    yield ok("librdkafka", f"reaches the cluster; {len(existing)} topics are visible")
    if members is not None:
        yield ok("group", f"{group!r} can be described; {members} members")
    if cluster.topology is not None:
        yield from _topics_and_rights(cluster, cluster.topology, existing)
        yield from _key_places(cluster, cluster.topology, existing)
    yield from tables
    yield from left
    yield from copies


def _copies(cluster: CheckedCluster, admin: Admin) -> Iterable[Finding]:
    """Looks at the copies of tasks, if the application runs."""
    group = cluster.group
    if group is None:
        return

    def members() -> list[MemberTasks]:
        return members_of(group, admin, admin.describe_group(group), admin.topics())

    try:
        if not admin.group_members(group):
            return
        settings, logged = cluster.settings, None
        if cluster.topology is not None:
            counts = {name: info.partitions for name, info in admin.topics().items()}
            plans = plan_tasks(cluster.topology, settings, counts)
            logged = frozenset(plan.subtopology for plan in plans if plan.changelogs)
        wanted = WantedCopies(
            replicas=int(settings.get("num.standby.replicas") or 0),
            logged=logged,
            acceptable_lag=int(settings.get("acceptable.recovery.lag") or 0),
        )
        yield from copy_findings(members, wanted, cluster.look, cluster.clock)
    except StreamsError as error:
        yield warn(COPIES, f"the standby and warm-up replicas could not be checked: {error}")


def _tables(cluster: CheckedCluster, admin: Admin, existing: Mapping[str, int]) -> Iterable[Finding]:
    """Looks for topics of tables from which Kafka deletes rows."""
    if cluster.topology is None:
        return
    names = [topic for topic in table_topics(cluster.topology) if topic in existing]
    try:
        remarks = table_remarks(cluster.topology, admin.topic_settings(names)) if names else []
    except StreamsError as error:
        yield warn("topics", f"the cleanup.policy of the topics of tables could not be checked: {error}")
        return
    for remark in remarks:
        yield warn("topics", remark)


def _left(cluster: CheckedCluster, admin: Admin, existing: Mapping[str, int]) -> Iterable[Finding]:
    """Looks for topics that a former version has left, as the next start does."""
    if cluster.topology is None or cluster.make_consumer is None:
        return
    consumer = cluster.make_consumer()
    try:
        found = find_left_topics(cluster.topology, cluster.settings, existing, admin, consumer, cluster.clock)
        members = admin.group_members(topic_prefix(cluster.settings)) if found.unread else ()
    except StreamsError as error:
        yield warn("deploy", f"topics of a former version could not be checked: {error}")
        return
    finally:
        consumer.close()
    if found.unread and members:
        yield warn("deploy", f"{found.unread_text()}; its workers run, and may still read them")
    elif (refusal := found.refusal()) is not None:
        yield fail("deploy", refusal.message)
    if found.changelogs:
        yield warn("deploy", found.changelogs_text())


def _key_places(cluster: CheckedCluster, topology: Topology, existing: Mapping[str, int]) -> Iterable[Finding]:
    """Looks whether the keys of topics that are read together lie in the same partitions, by a sample of each."""
    prefix = topic_prefix(cluster.settings)
    sources = {
        full_name(topology, prefix, topic): node.name
        for node in topology.nodes.values()
        if isinstance(node, SourceNode)
        for topic in matching_topics(topology, node, existing)
    }
    meetings = list(meeting_topics(topology, sources))
    topics = {topic for one in meetings for topic in one.topics if existing.get(topic, 0) > 1}
    if not topics or cluster.make_consumer is None:
        return
    consumer = cluster.make_consumer()
    try:
        placed = {topic: sampled_keys(consumer, topic, existing[topic]) for topic in sorted(topics)}
    except StreamsError as error:
        yield warn("keys", f"co-partitioned topics could not be checked: {error}")
        return
    finally:
        consumer.close()
    yield from key_findings(meetings, placed)


def key_findings(meetings: Iterable[MeetingTopics], placed: Mapping[str, PlacedKeys]) -> Iterable[Finding]:
    """Judges the samples of topics that are read together."""
    wrong: dict[str, MeetingTopics] = {}
    for one in meetings:
        known = {topic: placed[topic] for topic in one.topics if topic in placed}
        for topic in disagreeing(known, by_murmur2=one.by_murmur2):
            wrong.setdefault(topic, one)
    for topic, one in wrong.items():
        found = f"topic {topic!r}: {placed[topic].text()}; {one.calls} needs them there: {placed[topic].remedy()}"
        yield warn("keys", found)
    if not wrong and any(keys.looked for keys in placed.values()):
        looked = sum(keys.looked for keys in placed.values())
        yield ok("keys", f"co-partitioned topics have their keys in the same partitions ({looked} checked)")


def sampled_keys(consumer: Consumer, topic: str, partitions: int) -> PlacedKeys:
    """Reads the last records of some partitions of a topic.

    :raises StreamsError: if the broker does not answer.
    """
    places = [TopicPartition(topic, number) for number in range(min(partitions, SAMPLED_PARTITIONS))]
    begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    left = {place: max(begins[place], ends[place] - SAMPLED_RECORDS) for place in places if begins[place] < ends[place]}
    found, clock = PlacedKeys(partitions), SystemClock()
    if not left:
        return found
    consumer.assign(left)
    until = clock.monotonic() + SAMPLE_S
    while left and clock.monotonic() < until:
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            left = {place: at for place, at in left.items() if (consumer.position(place) or at) < ends[place]}
            continue
        place = TopicPartition(message.topic(), message.partition())
        found.look(place.partition, [message.key()])
        if message.offset() + 1 >= ends[place]:
            left.pop(place, None)
    consumer.unassign(consumer.assignment())
    return found


def _topics_and_rights(cluster: CheckedCluster, topology: Topology, existing: Mapping[str, int]) -> Iterable[Finding]:
    if cluster.read_rights is None:
        yield from topic_findings(topology, cluster.settings, existing)
        return
    needed, to_be_made = needed_rights(topology, cluster.settings, existing)
    try:
        found = cluster.read_rights(list(needed), to_be_made)
    except StreamsError as error:
        yield from topic_findings(topology, cluster.settings, existing)
        yield from fails("rights", error)
        return
    yield from topic_findings(topology, cluster.settings, existing, found.hidden)
    yield from right_findings(needed, to_be_made, found, f"{topic_prefix(cluster.settings)}-")


def topic_findings(
    topology: Topology,
    settings: Mapping[str, Any],
    existing: Mapping[str, int],
    hidden: Collection[str] | None = None,
) -> Iterable[Finding]:
    """Checks whether a topology fits the topics that exist, by their partition counts.

    :param hidden: topics that may not be seen, whether they exist or not; ``None`` if that is not known.
    """
    sources = sorted(application.topology_sources(topology))
    missing = [name for name in sources if name not in existing]
    for name in missing:
        if hidden is None:
            text = "does not exist, or cannot be described: create it, or allow DESCRIBE"
        else:
            text = "cannot be described: allow READ on it" if name in hidden else "does not exist: create it"
        yield fail("topics", f"source topic {name!r} {text}")
    for name in sources:
        if name in existing:
            yield ok("topics", f"source topic {name!r} has {existing[name]} partitions")
    for one in application.application_topics(topology, settings, existing):
        if one.is_written and one.name not in existing and one.name not in (hidden or ()):
            yield _unwritable(one.name, one.uses)
    if missing:
        return
    try:
        expected = internal_topic_counts(topology, settings, existing)
        absent = check_existing_topics(expected, existing, sources)
        new = [name for name in absent if name not in (hidden or ())]
    except StreamsError as error:
        yield from fails("topics", error)
        return
    if expected:
        text = f"{len(expected) - len(new)} internal topics exist"
        yield ok("topics", f"{text}; to be created at the start: {', '.join(new)}" if new else text)


def _unwritable(name: str, uses: Collection[application.Use]) -> Finding:
    """Returns the finding of a topic that the application writes and that does not exist."""
    if application.Use.DEAD_LETTERS in uses:
        return fail("topics", f"dead-letter topic {name!r} ({application.DEAD_LETTERS}) does not exist: create it")
    return warn(
        "topics", f"output topic {name!r} does not exist: create it, unless the brokers create topics automatically"
    )
