"""The settings of a registry under Confluent's names, checked before anything is asked."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from processor_api.errors import ConfigError
from processor_api.texts import plain_str, repr_of, without_logins

DEFAULT_TIMEOUT_MS = 60_000

TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED = "topic", "record", "topic_record", "associated"
_STRATEGIES = {
    **{name: name for name in (TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED)},
    "topicnamestrategy": TOPIC,
    "recordnamestrategy": RECORD,
    "topicrecordnamestrategy": TOPIC_RECORD,
    "associatednamestrategy": ASSOCIATED,
}


def _flag(value: Any) -> bool:
    known = {"true": True, "false": False}.get(str(value).lower())
    if known is None:
        raise ValueError(f"is true or false, not {repr_of(value)}")
    return known


def _text(value: Any) -> str:
    if not isinstance(value, str):  # Not the value, which may be a secret.
        raise ValueError(f"is a text, not {repr_of(type(value).__qualname__)}")
    if not value:
        raise ValueError("is a text, not an empty one")
    return value


def _path(value: Any) -> str:
    return _text(str(value))


def _count(value: Any) -> int:
    try:
        found = int(value)
    except (TypeError, ValueError):
        found = -1
    if found < 0 or isinstance(value, bool):
        raise ValueError(f"is a whole number, not {repr_of(value)}")
    return found


def _strategy(value: Any) -> str:
    """Reads the name of a strategy, or the class of one of Java's."""
    name = plain_str(value).rpartition(".")[2].lower()
    if name not in _STRATEGIES:
        raise ValueError(f"is topic, record, topic_record or associated, not {repr_of(value)}")
    return _STRATEGIES[name]


def _ids(value: Any) -> str:
    name = plain_str(value).lower()
    if name not in ("prefix", "header"):
        raise ValueError(f"is prefix or header, not {repr_of(value)}")
    return name


def _user(value: Any) -> str:
    if ":" not in _text(value):
        raise ValueError("is user:password")
    return str(value)


def _url(value: Any) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else value
    for one in _text(text).split(","):
        if not one.strip().startswith(("http://", "https://", "mock://")):
            raise ValueError(f"begins with http://, https:// or mock://, not {repr_of(shown_url(one))}")
        if without_logins(one) != one and not one.strip().startswith("mock://"):
            raise ValueError("has a login in it, which logs would show: set basic.auth.user.info in its place")
    return str(text)


READERS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "auto.register.schemas": _flag,
    "use.latest.version": _flag,
    "normalize.schemas": _flag,
    "subject.name.strategy": _strategy,
    "key.subject.name.strategy": _strategy,
    "value.subject.name.strategy": _strategy,
    "schema.ids": _ids,
    "timeout.ms": _count,
    "request.timeout.ms": _count,
    "cache.capacity": _count,
    "cache.latest.ttl.sec": _count,
    "proxy": _text,
    "ssl.ca.location": _path,
    "ssl.certificate.location": _path,
    "ssl.key.location": _path,
    "ssl.key.password": _text,
    "basic.auth.user.info": _user,
    "bearer.auth.token": _text,
    "bearer.auth.credentials.source": _text,
    "bearer.auth.client.id": _text,
    "bearer.auth.client.secret": _text,
    "bearer.auth.scope": _text,
    "bearer.auth.issuer.endpoint.url": _text,
    "bearer.auth.logical.cluster": _text,
    "bearer.auth.identity.pool.id": _text,
}
"""Each setting, and how its value is read."""

_WITH_LOGINS = frozenset({"proxy", "bearer.auth.issuer.endpoint.url", "url"})
"""Settings whose URLs may have a login in them, or a key in their query."""
SECRETS = frozenset({"basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret", "ssl.key.password"})
OF_SERDES = frozenset(
    {
        "auto.register.schemas",
        "use.latest.version",
        "normalize.schemas",
        "subject.name.strategy",
        "key.subject.name.strategy",
        "value.subject.name.strategy",
        "schema.ids",
    }
)
"""Settings of serdes, which one of them may have for itself; all others are those of the client."""


def shown_url(url: str) -> str:
    """Returns URLs, separated by commas, without the logins and the queries in them."""
    return ",".join(_without_query(one) for one in without_logins(url).split(","))


def _without_query(url: str) -> str:
    address, query, _ = url.partition("?")
    return f"{address}?***" if query else url


def shown_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as people may see them: without secrets, and without the logins in URLs."""
    return {name: shown_setting(name, value) for name, value in settings.items()}


def shown_setting(name: str, value: Any) -> Any:
    """Returns the value of a setting as people may see it."""
    dotted = name.replace("_", ".")
    if dotted in SECRETS:
        return "***"
    return shown_url(value) if dotted in _WITH_LOGINS and isinstance(value, str) else value


def secrets_in(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the texts in settings that no message may show, the longest first."""
    found = set()
    for name, value in settings.items():
        text = str(value)
        if name in SECRETS:
            found |= {text, text.partition(":")[2]} if name == "basic.auth.user.info" else {text}
        elif name in _WITH_LOGINS:
            for one in text.split(","):
                login, at, _ = one.rpartition("://")[2].rpartition("@")
                password = login.partition(":")[2]
                found |= {login, password, unquote(password)} if at else set()
    return tuple(sorted(filter(None, found), key=len, reverse=True))


_NOTHING_TO_DO = {
    "basic.auth.credentials.source": ("URL", "USER_INFO"),
    "specific.avro.reader": None,
    "avro.use.logical.type.converters": None,
    "json.fail.invalid.schema": None,
}
"""Settings of Java's serdes that need nothing here; with values, only those."""
_JAVA_TLS = "give certificates as PEM files: ssl.ca.location, ssl.certificate.location, ssl.key.location"


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings under their dotted names; they may be given in snake case.

    :raises ConfigError: if one is unknown, or its value wrong.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        dotted = str(name).replace("_", ".")
        if dotted in _NOTHING_TO_DO:
            allowed = _NOTHING_TO_DO[dotted]
            if allowed is not None and str(value) not in allowed:
                raise ConfigError(f"{dotted} of a schema registry is {' or '.join(allowed)}, not {repr_of(value)}")
            continue
        if value is None:
            continue
        if dotted not in READERS:
            raise ConfigError(f"a schema registry has no setting {dotted!r}{_hint(dotted)}")
        try:
            found[dotted] = READERS[dotted](value)
        except ValueError as error:
            raise ConfigError(f"{dotted} of a schema registry {error}") from None
    return found


def _hint(name: str) -> str:
    if name.startswith("ssl."):
        return f": {_JAVA_TLS}"
    near = difflib.get_close_matches(name, READERS, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
