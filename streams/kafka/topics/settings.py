"""Compares the settings of an internal topic that exists with those it would be made with.

Only settings that decide which records stay, and with which time, are compared. Others are the user's: replication,
``min.insync.replicas``, sizes of segments.
"""

from __future__ import annotations

from collections.abc import Mapping

POLICY = "cleanup.policy"
TIMESTAMP_TYPE = "message.timestamp.type"
AT_LEAST = ("retention.ms", "min.compaction.lag.ms")
UNLIMITED = -1


def harmful_settings(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which a topic loses records or their times, each with the value that it needs.

    A topic that keeps more than is needed is left as it is.

    :param wanted: the settings that the topic would be made with; those that are not in it are not compared.
    :param found: the settings that it has.
    """
    needed = {}
    policies = _words(wanted.get(POLICY, ""))
    has_policies = _words(found.get(POLICY, ""))
    if policies and has_policies - policies:
        needed[POLICY] = wanted[POLICY]
    deletes = "delete" in has_policies & policies
    for name in AT_LEAST:
        if name not in wanted or name not in found or (name == "retention.ms" and not deletes):
            continue
        if _number(found[name]) < _number(wanted[name]):
            needed[name] = wanted[name]
    if TIMESTAMP_TYPE in wanted and found.get(TIMESTAMP_TYPE, wanted[TIMESTAMP_TYPE]) != wanted[TIMESTAMP_TYPE]:
        needed[TIMESTAMP_TYPE] = wanted[TIMESTAMP_TYPE]
    return needed


def _words(policies: str) -> set[str]:
    return {word.strip() for word in policies.split(",")} - {""}


def _number(text: str) -> float:
    number = int(text)
    return float("inf") if number == UNLIMITED else number
