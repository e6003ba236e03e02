"""Decides which settings are secrets, and which let others on the network read or change data; removes secrets from
texts that are meant for the public."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from processor_api.texts import plain_str, shown, without_logins

MASK = "********"

_PARTS = (
    "password", "passphrase", "secret", "jaas.config", "key.pem", "keystore.key", "oauthbearer.config",
    "auth.user.info",
    # A function that holds a token, an address with a password or a key in it, a command and pairs that may have one.
    "oauth.cb", "token.endpoint.url", "kinit.cmd", "oauthbearer.extensions",
)  # fmt: skip
_WHOLE_WORDS = frozenset({"token", "tokens", "credentials"})


def is_secret(name: str) -> bool:
    """Whether the value of a setting, under any prefix, must stay hidden; decided by the name alone."""
    dotted = name.replace("_", ".").lower()
    return any(part in dotted for part in _PARTS) or dotted.rpartition(".")[2] in _WHOLE_WORDS


def holds_secret(name: str, value: Any) -> bool:
    """Whether a setting is a secret, or its value has a login in a URL, as that of a proxy may have."""
    return is_secret(name) or (isinstance(value, str) and without_logins(value) != value)


def shown_value(name: str, value: Any) -> Any:
    """Returns the value of a setting with what is secret of it masked: all of it, or the logins in its URLs."""
    if is_secret(name) and value:
        return MASK
    return without_logins(value) if isinstance(value, str) else value


def masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings by name, with what is secret of them masked."""
    return {name: shown_value(str(name), value) for name, value in settings.items()}


class SecretSettings(dict[str, Any]):
    """Client settings whose secrets do not appear in their text."""

    def __repr__(self) -> str:
        return repr(masked(self))


class ClientLevels(Protocol):
    """The client settings of a :class:`streams.config.StreamsConfig`."""

    @property
    def clients(self) -> Mapping[str, Any]: ...
    @property
    def consumer(self) -> Mapping[str, Any]: ...
    @property
    def main_consumer(self) -> Mapping[str, Any]: ...
    @property
    def restore_consumer(self) -> Mapping[str, Any]: ...
    @property
    def global_consumer(self) -> Mapping[str, Any]: ...
    @property
    def producer(self) -> Mapping[str, Any]: ...
    @property
    def admin(self) -> Mapping[str, Any]: ...


def insecure(config: ClientLevels) -> list[str]:
    """Returns a sentence for each insecure setting, whichever client has it."""
    common = config.clients
    consumers = [config.main_consumer, config.restore_consumer, config.global_consumer]
    found: dict[str, None] = {}
    for settings in (
        *({**common, **config.consumer, **own} for own in consumers),
        {**common, **config.producer},
        {**common, **config.admin},
    ):
        found |= dict.fromkeys(_of_client(settings))
    return list(found)


def _of_client(settings: Mapping[str, Any]) -> list[str]:
    protocol = str(settings.get("security.protocol", "plaintext")).strip().lower()
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))).strip().upper()
    if protocol == "sasl_plaintext" and mechanism in ("PLAIN", "OAUTHBEARER"):
        sent = "the password" if mechanism == "PLAIN" else "the token"
        return [
            f"security.protocol SASL_PLAINTEXT with sasl.mechanism {mechanism} sends {sent} unencrypted: anyone on the"
            " network can read it; use SASL_SSL"
        ]
    if not protocol.endswith("ssl"):
        return []
    if str(settings.get("enable.ssl.certificate.verification", True)).strip().lower() == "false":
        return [
            "enable.ssl.certificate.verification is false: anyone on the network can pretend to be a"
            " broker, read everything and change it; set ssl.ca.location instead"
        ]
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).strip().lower() != "https":
        return [
            "ssl.endpoint.identification.algorithm is off: anyone with a certificate of the same authority can"
            " pretend to be a broker"
        ]
    return []


_NEUTRAL = frozenset({"sasl.mechanism", "sasl.mechanisms", "ssl.endpoint.identification.algorithm"})
_MARKED_LOGIN = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_MARKED_VALUE = re.compile(
    r"(?i)((?:password|passphrase|passwd|secret|token|credentials?|api[._-]?key)[\"']?\s*[=:]\s*)"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"'}\])]+)"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_LONG = 6
"""The length from which a secret is masked inside words too; shorter ones would mask parts of ordinary words."""


def is_private(name: str) -> bool:
    """Whether a report leaves out the value of a setting: secrets, logins, and the places of keys and certificates."""
    dotted = name.replace("_", ".").lower()
    of_login = "sasl." in dotted or "ssl." in dotted
    return is_secret(name) or (of_login and not any(dotted.endswith(neutral) for neutral in _NEUTRAL))


def public_value(name: str, value: Any) -> str:
    """Returns the value of a setting as a report shows it."""
    return MASK if is_private(name) else shown(plain_str(shown_value(name, value)))


class Redaction:
    """Masks the secrets among the settings, and what looks like one, wherever it appears in a text.

    :param settings: the settings under any of their names, as they were given.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        found = {secret for name, value in settings.items() for secret in _secrets(name, value) if secret.strip()}
        words = sorted(found, key=len, reverse=True)  # a secret may contain another one
        parts = [re.escape(one) if len(one) >= _LONG else rf"(?<!\w){re.escape(one)}(?!\w)" for one in words]
        self._known = re.compile("|".join(parts)) if parts else None
        self._home = str(Path.home())

    def text(self, text: str) -> str:
        """Returns a text without secrets, and with ``~`` for the home directory."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _PRIVATE_KEY.sub(MASK, without_logins(text))
        text = _MARKED_VALUE.sub(rf"\1{MASK}", _MARKED_LOGIN.sub(rf"\1 {MASK}", text))
        return text.replace(self._home, "~") if len(self._home) > 1 else text


def _secrets(name: str, value: Any) -> Iterator[str]:
    """Yields the texts that would give a setting away: its value, the lines of a key, and the parts of a login."""
    dotted = name.replace("_", ".").lower()
    if not isinstance(value, str) or not (is_secret(name) or dotted.endswith("sasl.username")):
        return
    yield value
    yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= _LONG)
    yield from (one or other for one, other in _QUOTED.findall(value))
    if dotted.endswith("auth.user.info"):
        yield from value.split(":", 1)
