"""The checks of `streams doctor` on the rights (ACLs) of an application."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from processor_api.topology.nodes import SourceNode
from processor_api.topology.subtopology import task_subtopologies
from processor_api.topology.topology import Topology
from streams.cli.output.findings import Finding, fail, ok, warn
from streams.kafka.membership.group_topology import control_topic
from streams.kafka.topics.application import application_topics
from streams.kafka.topics.internal import TopicRole, internal_topics, topic_prefix

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
    prefix = topic_prefix(settings)
    for one in application_topics(topology, settings, existing):
        if one.is_external:
            needed[one.name] = {*(["READ"] if one.is_read else []), *(["WRITE"] if one.is_written else [])}
    for name, topic in internal.items():
        if topic.role in _OF_ROLE:
            needed.setdefault(name, set()).update(_OF_ROLE[topic.role])
        if topic.is_cut_by_tasks:
            needed[name].add("DELETE")  # rows of windows that have expired are deleted from it
    control = _control_topics(topology, prefix)
    needed |= control
    own = [name for name, topic in internal.items() if topic.role in _OF_ROLE] + list(control)
    return needed, sorted(name for name in own if name not in existing)


def _control_topics(topology: Topology, prefix: str) -> dict[str, set[str]]:
    """Returns the control topics by which the group shares its tasks; they grow where a pattern is read."""
    found = {}
    for part in task_subtopologies(topology):
        nodes = [topology.nodes[name] for name in part.sources]
        grows = any(isinstance(node, SourceNode) and node.pattern is not None for node in nodes)
        found[control_topic(prefix, part.id)] = {"READ", "WRITE", *(["ALTER"] if grows else [])}
    return found


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
            findings.append(fail(what, f"topic {topic!r} may not be seen: allow {words} on {place}"))
        elif topic not in rights.topics:
            continue
        elif found is None:
            findings.append(warn(what, f"the broker does not report the rights on topic {topic!r}"))
        elif lacking := sorted(operations - found):
            words = " and ".join(lacking)
            findings.append(fail(what, f"topic {topic!r} may not be used as needed: allow {words} on it"))
        else:
            usable += 1
    if rights.refused:
        names = ", ".join(sorted(rights.refused))
        hint = f"allow CREATE on topics with the prefix {prefix!r}, or on the cluster"
        findings.append(fail(what, f"topics may not be created: {hint}: {names}"))
    if not findings:
        made = f"; those to be created ({len(to_be_made)}) may be created" if to_be_made else ""
        findings.append(ok(what, f"{usable} topics may be used as needed{made}"))
    return findings
