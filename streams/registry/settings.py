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


def _one_of(known: Mapping[str, Any], word_of: Callable[[str], str] = str) -> Callable[[Any], Any]:
    """Returns the function that reads one of some words, in upper or lower case."""
    *words, last = known

    def read(value: Any) -> Any:
        word = word_of(plain_str(value).lower())
        if word not in known:
            raise ValueError(f"must be {', '.join(words)} or {last}, got {repr_of(value)}")
        return known[word]

    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:  # Not the value, which may be a secret.
        wrong = "an empty one" if isinstance(value, str) else repr_of(type(value).__qualname__)
        raise ValueError(f"must be a string, got {wrong}")
    return value


def _count(value: Any) -> int:
    try:
        found = -1 if isinstance(value, bool) else int(value)
    except (TypeError, ValueError):
        found = -1
    if found < 0:
        raise ValueError(f"must be a whole number, got {repr_of(value)}")
    return found


def _user(value: Any) -> str:
    if ":" not in _text(value):
        raise ValueError("must be user:password")
    return str(value)


def _url(value: Any) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else value
    for one in _text(text).split(","):
        if not one.strip().startswith(("http://", "https://", "mock://")):
            raise ValueError(f"must start with http://, https:// or mock://, got {repr_of(shown_url(one))}")
        if without_logins(one) != one and not one.strip().startswith("mock://"):
            raise ValueError("must not contain a login, because logs would show it: set basic.auth.user.info instead")
    return str(text)


_JAVAS = {f"{name.replace('_', '')}namestrategy": name for name in (TOPIC, RECORD, TOPIC_RECORD, ASSOCIATED)}
"""The strategies by the names of Java's classes."""
_flag = _one_of({"true": True, "false": False})
_strategy = _one_of({name: name for name in _JAVAS.values()}, lambda text: _JAVAS.get(text.rpartition(".")[2], text))
OF_SERDES: Mapping[str, Callable[[Any], Any]] = {
    "auto.register.schemas": _flag,
    "use.latest.version": _flag,
    "normalize.schemas": _flag,
    "subject.name.strategy": _strategy,
    "key.subject.name.strategy": _strategy,
    "value.subject.name.strategy": _strategy,
    "schema.ids": _one_of({"prefix": "prefix", "header": "header"}),
}
"""Settings of serdes, which one of them may have for itself, and how their values are read."""
DEFAULTS: Mapping[str, Any] = {
    "auto.register.schemas": True, "use.latest.version": False, "normalize.schemas": False,
    "subject.name.strategy": ASSOCIATED, "schema.ids": "prefix",
}  # fmt: skip
"""The settings of serdes where they are not given."""
_TEXTS = (
    "proxy", "ssl.key.password", "bearer.auth.token", "bearer.auth.credentials.source", "bearer.auth.client.id",
    "bearer.auth.client.secret", "bearer.auth.scope", "bearer.auth.issuer.endpoint.url", "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
)  # fmt: skip
READERS: Mapping[str, Callable[[Any], Any]] = {
    **OF_SERDES,
    "url": _url,
    "basic.auth.user.info": _user,
    **dict.fromkeys(("timeout.ms", "request.timeout.ms", "cache.capacity", "cache.latest.ttl.sec"), _count),
    **dict.fromkeys(
        ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location"), lambda value: _text(str(value))
    ),
    **dict.fromkeys(_TEXTS, _text),
    # Those of Java's serdes that need nothing here.
    "basic.auth.credentials.source": _one_of({"URL": None, "USER_INFO": None}, str.upper),
    **dict.fromkeys(("specific.avro.reader", "avro.use.logical.type.converters"), lambda value: None),
    "json.fail.invalid.schema": lambda value: None,
}
"""Each setting, and how its value is read: as ``None`` if it does nothing. What is not of serdes is of the client."""
_WITH_LOGINS = frozenset({"proxy", "bearer.auth.issuer.endpoint.url", "url"})
"""Settings whose URLs may have a login in them, or a key in their query."""
_SECRETS = frozenset({"basic.auth.user.info", "bearer.auth.token", "bearer.auth.client.secret", "ssl.key.password"})


def shown_url(url: str) -> str:
    """Returns URLs, separated by commas, without the logins and the queries in them."""
    parts = (one.partition("?") for one in without_logins(url).split(","))
    return ",".join(f"{address}?***" if query else address for address, _, query in parts)


def shown_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as people may see them: without secrets, and without the logins in URLs."""
    shown = {name: shown_url(one) if name in _WITH_LOGINS else one for name, one in settings.items()}
    return {**shown, **{name: "***" for name in shown if name in _SECRETS}}


def secrets_in(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the texts in settings that no message may show, the longest first."""
    found = set()
    for name, value in settings.items():
        text = str(value)
        if name in _SECRETS:
            found |= {text, text.partition(":")[2]} if name == "basic.auth.user.info" else {text}
        elif name in _WITH_LOGINS:
            for one in text.split(","):
                login, at, _ = one.rpartition("://")[2].rpartition("@")
                password = login.partition(":")[2]
                found |= {login, password, unquote(password)} if at else set()
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings under their dotted names; they may be given in snake case. Raises `ConfigError` if one is
    unknown, or its value wrong."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        dotted = str(name).replace("_", ".")
        if value is None:
            continue
        if dotted not in READERS:
            hint = "".join(f"; did you mean {near!r}?" for near in difflib.get_close_matches(dotted, READERS, n=1))
            if dotted.startswith("ssl."):
                hint = ": give certificates as PEM files: ssl.ca.location, ssl.certificate.location, ssl.key.location"
            raise ConfigError(f"a schema registry does not have setting {dotted!r}{hint}")
        try:
            found[dotted] = READERS[dotted](value)
        except ValueError as error:
            raise ConfigError(f"{dotted} of a schema registry {error}") from None
    return {name: one for name, one in found.items() if one is not None}
