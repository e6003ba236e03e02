"""Translates one client setting, given under Java's or librdkafka's name, to the settings that librdkafka takes.

Every complaint is a ``ValueError`` whose text continues after the setting's name ("must be ...", "has no counterpart
...").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from processor_api.texts import repr_of
from processor_api.user_code.checks import takes
from processor_api.user_code.durations import to_ms
from processor_api.user_code.function_code import why_not_plain
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.config.client_properties import ALIASES, PROPERTIES, ClientProperty
from streams.config.java_clients import HANDLED, OURS, REFUSED, RENAMED
from streams.config.secrets import MASK, is_secret

CALLBACKS = {"oauth_cb": ("config",)}
"""Functions that the Python client takes among its settings and that are the user's to give, with their arguments."""

KNOWN = frozenset({*PROPERTIES, *HANDLED, *OURS, *REFUSED, *RENAMED, *CALLBACKS})

_DEMANDED: dict[str, tuple[object, str]] = {
    "acks": (-1, "a record counts as written when all replicas have it"),
    "allow.auto.create.topics": (False, "a missing source topic is an error"),
    "enable.auto.commit": (False, "offsets are committed with the state"),
    "enable.auto.offset.store": (False, "offsets are committed with the state"),
    "enable.idempotence": (True, "without it a retry may repeat or reorder records, also those of a changelog"),
    "enable.partition.eof": (True, "restoring ends at the end of a partition"),
}
"""Settings that no application may change: the value that each must have, and why."""
_MOST_IN_FLIGHT = 5

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)
_RESETS = {
    "smallest": "earliest",
    "beginning": "earliest",
    "earliest": "earliest",
    "largest": "latest",
    "end": "latest",
    "latest": "latest",
    "error": "none",
    "none": "none",
}


def fits(name: str, scope: str) -> bool:
    """Whether a client of this kind (``C``, ``P`` or ``A``) has the setting; one that no kind has fits everywhere."""
    found = PROPERTIES.get(RENAMED.get(name, name))
    return found is None or found.scope in ("*", scope)


def client_setting(name: str, value: Any, *, exactly_once: bool, scope: str = "*") -> Mapping[str, Any]:
    """Returns librdkafka's settings for one that was given; none for those the runtime reads itself.

    :param scope: the kind of client it was given for (``C``, ``P``, ``A``), or ``*`` for all.

    :raises ValueError: if the setting does not exist for this client, may not be changed, or the value does not fit.
    """
    if name in REFUSED:
        raise ValueError(f"has no equivalent in librdkafka: {REFUSED[name].replace('`', '')}")
    name = ALIASES.get(name, name)
    if name in OURS:
        raise ValueError(f"cannot be set for a client: {OURS[name].replace('`', '')}")
    if name in CALLBACKS:
        if not callable(value):
            raise ValueError(f"must be a function, got {MASK}")
        if why := why_not_plain(value):
            raise ValueError(f"must be a plain function, but the given one {why}")
        if not takes(value, CALLBACKS[name]):
            raise ValueError(f"is called with ({', '.join(CALLBACKS[name])}), and the given function takes others")
        return {name: value}
    if name == "auto.offset.reset":
        offset_reset(value)
        return {}
    target = RENAMED.get(name, name)
    converted = _value(name, PROPERTIES[target], _translated(name, value))
    if not (name == "allow.auto.create.topics" and scope == "P"):  # writing to an output topic may create it
        _check_demands(name, converted, exactly_once)
    if name in HANDLED:
        return {}
    if name == "metadata.max.age.ms":  # librdkafka's own default keeps this ratio
        return {target: converted, "metadata.max.age.ms": min(3 * converted, PROPERTIES[name].high)}
    return {target: converted // 1024 if name == "buffer.memory" else converted}


def offset_reset(value: Any) -> AutoOffsetReset:
    """Returns librdkafka's word for ``auto.offset.reset`` as Java takes it since KIP-1106; librdkafka's own words are
    taken too.

    :raises ValueError: if it is none of these.
    """
    if isinstance(value, AutoOffsetReset):
        return value
    text = str(value).lower()
    kind, _, duration = text.partition(":")
    if kind == "by_duration":
        match = _DURATION.fullmatch(duration)
        if match and any(match.groups()):
            days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
            return AutoOffsetReset.by_duration(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))
    elif text in _RESETS:
        return AutoOffsetReset(_RESETS[text])
    raise ValueError(f"must be earliest, latest, none or by_duration:PnDTnHnMnS, got {repr_of(value)}")


def _translated(name: str, value: Any) -> Any:
    """Translates values that Java has and librdkafka has not."""
    text = str(value).strip().lower()
    if name in ("receive.buffer.bytes", "send.buffer.bytes") and text == "-1":
        return 0
    if name == "ssl.endpoint.identification.algorithm" and not text:
        return "none"
    if name == "acks" and text == "all":
        return -1
    return value


def _check_demands(name: str, value: Any, exactly_once: bool) -> None:
    if name in _DEMANDED:
        demanded, reason = _DEMANDED[name]
        if value != demanded:
            shown = "all" if name == "acks" else str(demanded).lower()
            raise ValueError(f"must be {shown}: {reason}")
    if name == "isolation.level" and exactly_once and value != "read_committed":
        raise ValueError("must be read_committed under exactly_once_v2")
    if name == "max.in.flight.requests.per.connection" and value > _MOST_IN_FLIGHT:
        raise ValueError(f"must be at most {_MOST_IN_FLIGHT}: producers are idempotent")
    if name == "retries" and value < 1:
        raise ValueError("must be at least 1: producers are idempotent")


def _value(name: str, expected: ClientProperty, value: Any) -> Any:
    match expected.kind:
        case "bool":
            return _flag(value)
        case "int":
            return _in_range(_whole(name, value), name, expected)
        case "number":
            return _in_range(_number(name, value), name, expected)
        case "choice":
            return _choice(value, expected.choices)
        case _:
            return _text(name, value)


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"must be true or false, got {repr_of(value)}")
    return text == "true"


def _whole(name: str, value: Any) -> int:
    if isinstance(value, timedelta) and name.endswith(".ms"):
        try:
            return to_ms(value, name)
        except TypeError as error:
            raise ValueError(str(error).removeprefix(f"{name} ")) from None
    if not isinstance(value, (bool, float)):
        try:
            return int(value)
        except (TypeError, ValueError):
            pass
    raise ValueError(f"must be a whole number, got {repr_of(value)}")


def _number(name: str, value: Any) -> float:
    if isinstance(value, (float, str)):
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"must be a number, got {repr_of(value)}") from None
        return int(number) if number.is_integer() else number
    return _whole(name, value)


def _in_range(value: int | float, name: str, expected: ClientProperty) -> Any:
    low, high = expected.low, expected.high
    if name == "buffer.memory":
        low, high = 1024, high * 1024
    if not low <= value <= high:
        raise ValueError(f"must be from {low} to {high}, got {value}")
    return value


def _choice(value: Any, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if str(value).strip().lower() == choice.lower():
            return choice
    raise ValueError(f"must be one of {', '.join(choices)}; got {repr_of(value)}")


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"must be a string, got {MASK if is_secret(name) else repr(value)}")
