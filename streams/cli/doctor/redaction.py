"""Removes secrets from a text that is meant for a public issue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from processor_api.texts import plain_str, shown, without_logins
from streams.config.secrets import MASK, is_secret, shown_value

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
