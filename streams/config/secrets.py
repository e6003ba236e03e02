"""Which settings are secrets: they are never shown, logged or put into an error."""

from __future__ import annotations

__all__ = ["MASK", "is_secret"]

MASK = "********"

_PARTS = ("password", "passphrase", "secret", "jaas.config", "key.pem", "keystore.key", "oauthbearer.config")
_WHOLE_WORDS = frozenset({"token", "tokens", "credentials"})


def is_secret(name: str) -> bool:
    """Whether the value of a setting, under any prefix, must stay hidden; decided by the name alone."""
    dotted = name.replace("_", ".").lower()
    return any(part in dotted for part in _PARTS) or dotted.rpartition(".")[2] in _WHOLE_WORDS
