"""Sorts what was given, under Kafka's dotted names or in snake case, into the fields of the model.

The function is pure: it collects all problems and remarks, and neither raises nor logs at the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from processor_api.texts import plain_str
from streams.config import values
from streams.config.client_properties import ALIASES
from streams.config.client_settings import KNOWN, client_setting, fits
from streams.config.java_clients import RENAMED
from streams.config.keys import BY_FIELD, BY_NAME, IGNORED, PREFIXES, REFUSED, Key, Prefix

TOPIC_SETTINGS = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "errors.deadletterqueue.group.enable",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.decompressed.message.bytes",
        "max.message.bytes",
        "message.downconversion.enable",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
"""The topic settings of Apache Kafka's brokers. Others have more, so an unknown one is refused only when it looks like
a misspelling of one of these."""


CLIENTS = "clients"
"""The field of client settings without a prefix: each client takes those it has."""

_EXACTLY_ONCE = "exactly_once_v2"
_PROTOCOL = "group.protocol"
_AT_BROKER = {
    "num.standby.replicas": "streams.num.standby.replicas",
    "max.warmup.replicas": "streams.num.warmup.replicas",
    "acceptable.recovery.lag": "streams.acceptable.recovery.lag",
    "session.timeout.ms": "streams.session.timeout.ms",
    "heartbeat.interval.ms": "streams.heartbeat.interval.ms",
}
"""The settings instead of which groups of the streams protocol have some at the brokers."""
_OLDER_NAMES = {
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
    "default.deserialization.exception.handler": "deserialization.exception.handler",
    "default.production.exception.handler": "production.exception.handler",
}
"""Names that Kafka Streams still takes, to those that it has now, which win when both are given."""
_OTHER_NAMES = {"default.state.isolation.level": "default.interactive.query.isolation.level"}
"""Names that a KIP gave and Kafka Streams does not have (KIP-892)."""
_OF_REGISTRY = frozenset(
    {
        "auto.register.schemas",
        "use.latest.version",
        "normalize.schemas",
        "key.subject.name.strategy",
        "value.subject.name.strategy",
        "basic.auth.credentials.source",
        "basic.auth.user.info",
        "bearer.auth.credentials.source",
        "bearer.auth.token",
        "specific.avro.reader",
    }
)
"""Settings of Java's serdes with schema registries, which have no prefix there."""
_REGISTRY = next(prefix for prefix in PREFIXES if prefix.field == "schema_registry")
_KINDS = {"C": "consumer", "P": "producer", "A": "admin client"}
_FIXED_STARTS = ("restore.consumer.", "global.consumer.")


class SettingPlace(NamedTuple):
    """The place of a setting in the model: a key of Kafka Streams, or a name under a prefix (``None``: for all
    clients)."""

    key: Key | None
    prefix: Prefix | None
    name: str
    """The dotted name, without the prefix."""

    @property
    def kafka_name(self) -> str:
        return self.prefix.name + self.name if self.prefix else self.name


class SortedSettings:
    """The values by field of the model, and the problems and remarks about them."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.problems: list[str] = []
        self.remarks: list[str] = []


def kafka_name(name: str) -> str:
    """Returns Kafka's dotted name of a setting given in either form; an unknown one is returned as it is."""
    place = _locate(name)
    return place.kafka_name if place else name


def is_setting(name: str) -> bool:
    """Returns whether a name, in either form, is that of a setting."""
    return _locate(name) is not None


def sort_settings(given: Mapping[str, Any]) -> SortedSettings:
    """Sorts each setting to its field; the class describes what is collected."""
    result = SortedSettings()
    places: dict[str, tuple[str, SettingPlace, Any]] = {}
    for name, value in _flat(given):
        place = _locate(name)
        if place is None:
            result.problems.append(_unknown(name))
            continue
        identity = _identity(place)
        if identity in places:
            result.problems.append(f"{name} is set twice, also as {places[identity][0]}")
        places[identity] = (name, place, value)
    exactly_once = any(
        place.kafka_name == "processing.guarantee" and plain_str(value).strip().lower() == _EXACTLY_ONCE
        for _, place, value in places.values()
    )
    for name, place, value in places.values():
        if place.key is not None:
            _sort_key(result, place.key, value, also_given=places)
        else:
            _sort_prefixed(result, name, place, value, exactly_once)
    protocols = (plain_str(value).strip() for _, place, value in places.values() if place.kafka_name == _PROTOCOL)
    result.remarks += _of_the_broker(next(protocols, ""), places.values())
    return result


def _of_the_broker(protocol: str, given: Iterable[tuple[str, SettingPlace, Any]]) -> Iterator[str]:
    """Yields a remark for each setting that brokers have for groups of a protocol, and members do not."""
    for name, place, _ in given if protocol == "streams" else ():
        if (at_broker := _AT_BROKER.get(place.name)) is not None:
            yield f"{name} has no effect with group.protocol=streams: the group's setting {at_broker} applies"


def _flat(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Replaces a mapping that is given for a whole prefix, as ``consumer={...}`` or ``clients={...}``, by its
    settings."""
    wholes = {prefix.field: prefix.name for prefix in PREFIXES} | {CLIENTS: ""}
    for name, value in given.items():
        start = wholes.get(name.replace(".", "_"))
        if start is not None and isinstance(value, Mapping):
            yield from ((start + str(inner), inner_value) for inner, inner_value in value.items())
        else:
            yield name, value


def _locate(name: str) -> SettingPlace | None:
    dotted = name if "." in name else name.replace("_", ".")
    if dotted in _OTHER_NAMES:
        name = dotted = _OTHER_NAMES[dotted]
    key = BY_NAME.get(name) or BY_FIELD.get(name) or BY_NAME.get(dotted)
    if key is not None:
        passed_on = key.field is None and key.status != REFUSED and key.name not in _OLDER_NAMES
        return SettingPlace(None if passed_on else key, None, key.name)
    if dotted in _OF_REGISTRY:
        return SettingPlace(None, _REGISTRY, dotted)
    for prefix in PREFIXES:
        if dotted.startswith(prefix.name) and len(dotted) > len(prefix.name):
            rest = name[len(prefix.name) :]
            if prefix is _REGISTRY:
                return SettingPlace(None, prefix, rest.replace("_", "."))
            return SettingPlace(None, prefix, rest if prefix.scope == "-" else _dotted_client_name(rest))
    client_name = _dotted_client_name(name)
    return SettingPlace(None, None, client_name) if client_name in KNOWN else None


def _dotted_client_name(name: str) -> str:
    return name if name in KNOWN else name.replace("_", ".")


def _identity(place: SettingPlace) -> str:
    """Returns the same for every spelling of one setting."""
    if place.key is not None:
        return place.key.name
    name = ALIASES.get(place.name, place.name)
    return (place.prefix.name if place.prefix else "") + RENAMED.get(name, name)


def _sort_key(result: SortedSettings, key: Key, value: Any, also_given: Mapping[str, Any]) -> None:
    if key.status == REFUSED:
        result.problems.append(f"{key.name} cannot be set: {key.note.replace('`', '')}")
        return
    if key.status == IGNORED:
        result.remarks.append(f"{key.name} has no effect: {key.note.replace('`', '')}")
    if (newer := _OLDER_NAMES.get(key.name)) is not None:
        result.remarks.append(f"{key.name} is an older name of {newer}")
        if newer in also_given:
            return
        key = BY_NAME[newer]
    assert key.field is not None
    result.fields[key.field] = value


def _sort_prefixed(result: SortedSettings, name: str, place: SettingPlace, value: Any, exactly_once: bool) -> None:
    prefix = place.prefix
    field = prefix.field if prefix else CLIENTS
    if prefix is not None and prefix.scope == "T":
        if place.name not in TOPIC_SETTINGS and (near := _nearest(place.name, TOPIC_SETTINGS, cutoff=0.8)):
            result.problems.append(f"{name} is not a setting of topics, did you mean {prefix.name}{near}?")
    elif prefix is None or prefix.scope != "-":  # tags have any name and value
        problem = _client_problem(name, place, value, exactly_once)
        if problem:
            result.problems.append(problem)
    result.fields.setdefault(field, {})[place.name] = value


def _client_problem(name: str, place: SettingPlace, value: Any, exactly_once: bool) -> str:
    prefix = place.prefix
    if place.name not in KNOWN:
        assert prefix is not None
        return _unknown(name, (prefix.name + known for known in KNOWN if fits(known, prefix.scope)))
    if prefix is not None and not fits(place.name, prefix.scope):
        return f"{place.kafka_name} cannot be set: {_KINDS[prefix.scope]}s do not have a setting {place.name}"
    if place.name == "auto.offset.reset" and prefix is not None and prefix.name in _FIXED_STARTS:
        return f"{place.kafka_name} cannot be set: a restore continues from the position of the store"
    try:
        client_setting(place.name, value, exactly_once=exactly_once, scope=prefix.scope if prefix else "*")
    except ValueError as error:
        return f"{place.kafka_name} {plain_str(error)}"
    except Exception as error:
        return f"{place.kafka_name} {values.unreadable(error)}"
    return ""


def _unknown(name: str, candidates: Iterable[str] = ()) -> str:
    in_snake_case = "." not in name and "_" in name
    known = list(candidates) or [*BY_NAME, *KNOWN]
    if in_snake_case:
        known = [each.replace(".", "_") for each in known]
    near = _nearest(name, known, cutoff=0.6)
    return f"{name} is not a setting" + (f", did you mean {near}?" if near else "")


def _nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return found[0] if found else None
