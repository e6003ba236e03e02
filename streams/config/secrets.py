"""Decides which settings are secrets: they are never shown, logged or put into an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def masked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings by name, with secrets masked."""
    return {name: MASK if is_secret(name) and value else value for name, value in settings.items()}


class SecretSettings(dict[str, Any]):
    """Client settings whose secrets do not appear in their text."""

    def __repr__(self) -> str:
        return repr(masked(self))
