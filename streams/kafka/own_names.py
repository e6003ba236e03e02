"""The names that this library makes on a cluster besides those of Kafka Streams, all of them.

Names of groups and transactional ids carry `MARK`, which an application id refuses, so that no application can have
one of them as its id, and its offsets are its own. They begin with the application's id, so that rights that are given
for this prefix hold for them too.

Topic names have the characters of application ids only. A control topic ends with a number and a word, so its name is
that of one application: the rest is the id. A shadow topic has two free parts, ``<id>-<topic>-shadow``, which is also
the form of changelogs and repartition topics, as Java makes them: ``green-2-out-shadow`` may be of ``green`` and
``2-out``, or of ``green-2`` and ``out``. `named_after` and `own_shadow_topics` are the one rule by which such a topic
counts as an application's.

Names of clients serve logs and quotas; nothing is looked up by them, but for the hash that
`streams.kafka.membership.topology_gate` adds. State and snapshots are in a directory of the application's id.
"""

from __future__ import annotations

import re
from collections.abc import Collection

MARK = "~"
"""The character that application ids refuse, and groups and transactional ids may have."""
_COPY, _REPLAY, _CORRECTIONS = "clone", "dlq-replay", "corrections"
_TASKS, _SHADOW = "tasks", "shadow"
_CONTROL_TOPIC = re.compile(rf"(?P<id>.+)-\d+-{_TASKS}")
_PROCESS = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+"
_THREAD = rf"{_PROCESS}-\d+"
PROCESS_FORM = re.compile(_PROCESS)
"""The pattern of the id of a process: that of its state directory, and its slot there."""


# ------------------------------------------------------------------ groups and transactional ids


def copy_group(application_id: str) -> str:
    """Returns the group that keeps how far a copy of state to an application is, which is also the transactional id of
    the copy (`streams state clone`, `streams shadow --promote`)."""
    return f"{application_id}{MARK}{_COPY}"


def replay_group(application_id: str) -> str:
    """Returns the group that remembers which dead letters were sent again, which is also the transactional id of the
    replay (`streams dlq replay`)."""
    return f"{application_id}{MARK}{_REPLAY}"


def upgrade_group(application_id: str) -> str:
    """Returns the group that keeps the offsets of a group while that is replaced (`streams groups
    upgrade-topology`)."""
    return f"{application_id}{MARK}upgrade-topology"


def publishing_id(application_id: str) -> str:
    """Returns the transactional id with which outputs of a backfill are published (`streams spark bootstrap`)."""
    return f"{application_id}{MARK}bootstrap"


def corrections_group(application_id: str, id_: str) -> str:
    """Returns the group that keeps how many records of some corrections are published, which is also the transactional
    id that publishes them (`streams spark publish`).

    :param id_: the identity of the records.
    """
    return f"{application_id}{MARK}{_CORRECTIONS}-{id_}"


def former_copy_group(application_id: str) -> str:
    """Returns the name of :func:`copy_group` before it had a mark; an application may have it as its id."""
    return f"{application_id}-{_COPY}"


def former_replay_group(application_id: str) -> str:
    """Returns the name of :func:`replay_group` before it had a mark; an application may have it as its id."""
    return f"{application_id}-{_REPLAY}"


def former_publishing_id(application_id: str) -> str:
    """Returns the name of :func:`publishing_id` before it had a mark."""
    return f"{application_id}-bootstrap"


def thread_id(application_id: str, process: str, number: int) -> str:
    """Returns the transactional id of a stream thread, which is also its instance id in the group, unless that is
    set. It has no mark, because groups of other versions know threads by this form; what follows the application's id
    has a fixed form, so that the ids of two applications are never the same.

    :param process: the id of the state directory and the slot there.
    """
    return f"{application_id}-{process}-{number}"


def thread_id_form(application_id: str) -> re.Pattern[str]:
    """Returns the pattern that all :func:`thread_id` of an application match, and of no other."""
    return re.compile(f"{re.escape(application_id)}-{_THREAD}")


def writer_form(application_id: str) -> re.Pattern[str]:
    """Returns the pattern that the transactional ids of an application's tasks match, also those of Kafka Streams for
    Java, which have one number. For looking only: what is fenced are ids of :func:`thread_id_form`."""
    return re.compile(rf"{re.escape(application_id)}-{_PROCESS}(-\d+)?")


# ------------------------------------------------------------------ topics


def control_topic(prefix: str, subtopology: int) -> str:
    """Returns the name of the control topic of a subtopology, whose partitions stand for its tasks."""
    return f"{prefix}-{subtopology}-{_TASKS}"


def shadow_topic(prefix: str, topic: str) -> str:
    """Returns the topic to which a shadow writes what is for an output topic (semantics 197)."""
    return f"{prefix}-{topic}-{_SHADOW}"


def named_after(application_id: str, existing: Collection[str], groups: Collection[str]) -> dict[str, str]:
    """Returns the topics whose names begin with an application's id, with the rest of their names; not those of
    another one, ``<id>-more``.

    Another application is known by its group, and by its control topics, which stay when its offsets have expired.

    :param groups: all groups of the cluster that may be seen.
    """
    prefix = f"{application_id}-"
    ids = {group.partition(MARK)[0] for group in groups}
    ids |= {found["id"] for name in existing if (found := _CONTROL_TOPIC.fullmatch(name))}
    others = tuple(f"{one}-" for one in ids if one.startswith(prefix))
    return {
        name: name.removeprefix(prefix)
        for name in existing
        if name.startswith(prefix) and len(name) > len(prefix) and not name.startswith(others)
    }


def looking_like_shadow_topics(shadow: str, existing: Collection[str], groups: Collection[str]) -> dict[str, str]:
    """Returns the topics that may be shadow topics of an application, with the output topics that they would stand
    for."""
    end = f"-{_SHADOW}"
    return {
        name: rest.removesuffix(end)
        for name, rest in named_after(shadow, existing, groups).items()
        if rest.endswith(end) and rest != end
    }


def own_shadow_topics(
    shadow: str, existing: Collection[str], groups: Collection[str], outputs: Collection[str]
) -> set[str]:
    """Returns the topics that are shadow topics of an application: those whose output topic it writes, or that exists,
    since a shadow topic is made only beside one.

    :param outputs: the output topics that its topology names.
    """
    found = looking_like_shadow_topics(shadow, existing, groups)
    return {name for name, topic in found.items() if topic in outputs or topic in existing}
