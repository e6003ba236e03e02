"""What `streams doctor` looks at among the rights (ACLs) of an application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from processor_api.nodes import SinkNode, SourceNode
from processor_api.topology import Topology
from streams.cli.findings import Finding, fail, ok, warn
from streams.kafka.internal_topics import TopicRole, internal_topics, source_topics, topic_prefix

__all__ = ["needed_rights", "right_findings"]

Operations = frozenset[str] | None

_OF_ROLE = {
    TopicRole.REPARTITION: {"READ", "WRITE", "DELETE"},  # what was read is deleted from it
    TopicRole.CHANGELOG: {"READ", "WRITE"},
}


def needed_rights(
    topology: Topology, settings: Mapping[str, Any], existing: Mapping[str, int]
) -> tuple[dict[str, set[str]], list[str]]:
    """What the application does with each topic that exists, and the internal topics that it has to make."""
    needed: dict[str, set[str]] = {}
    internal = internal_topics(topology, settings)
    prefix = topic_prefix(settings)
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            for read in source_topics(topology, node, existing):
                needed.setdefault(read, set()).add("READ")
        elif isinstance(node, SinkNode) and node.topic is not None:
            needed.setdefault(node.topic, set()).add("WRITE")
    short = set(topology.repartition_topics)
    needed = {name: operations for name, operations in needed.items() if name not in short}
    for name, topic in internal.items():
        if topic.role in _OF_ROLE:
            needed.setdefault(name, set()).update(_OF_ROLE[topic.role])
    missing = sorted(name for name in internal if name.startswith(prefix) and name not in existing)
    return {name: operations for name, operations in needed.items() if name in existing}, missing


def right_findings(
    needed: Mapping[str, set[str]],
    to_be_made: Iterable[str],
    topics: Mapping[str, Operations],
    cluster: Operations,
) -> list[Finding]:
    """Whether the application may do what it has to.

    :param needed: operations by topic.
    :param topics: the rights on topics; those that nobody tells are not looked at.
    :param cluster: the rights on the cluster.
    """
    what, findings = "rights", []
    for topic, operations in sorted(needed.items()):
        found = topics.get(topic)
        if found is None:
            findings.append(warn(what, f"the broker does not tell what may be done with topic {topic!r}"))
        elif lacking := sorted(operations - found):
            words = " and ".join(lacking)
            findings.append(fail(what, f"topic {topic!r} may not be used as needed: allow {words} on it"))
    if not findings:
        findings.append(ok(what, f"{len(needed)} topics may be used as needed"))
    made = ", ".join(sorted(to_be_made))
    if made and cluster is not None and "CREATE" not in cluster:
        text = "topics may not be created by the rights on the cluster: allow CREATE on it, or on topics with the"
        findings.append(warn(what, f"{text} application's prefix (a right that cannot be seen); to be made: {made}"))
    return findings
