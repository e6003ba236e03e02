"""Login, from librdkafka's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from processor_api.errors import ConfigError, StreamsError, UserCodeError
from streams.kafka.wire.scram import HASHES, ScramLogin

_LIBRDKAFKAS_DEFAULT = "GSSAPI"


class Login(Protocol):
    """One way to say who we are."""

    @property
    def mechanism(self) -> str: ...

    def log_in(self, exchange: Callable[[bytes], bytes]) -> None:
        """Sends what the mechanism wants; ``exchange`` sends some bytes and returns the answer.

        :raises StreamsError: if the broker refuses it, or is not who it should be.
        """
        ...


@dataclass(frozen=True)
class PlainLogin:
    """Login with user and password as plain text (RFC 4616): only for connections with TLS, or for tests."""

    username: str
    password: str = field(repr=False)
    mechanism: str = "PLAIN"

    def log_in(self, exchange: Callable[[bytes], bytes]) -> None:
        exchange(f"\0{self.username}\0{self.password}".encode())


@dataclass(frozen=True)
class OAuthBearerLogin:
    """A token that a function of the user gives (RFC 7628, KIP-255).

    The function is librdkafka's ``oauth_cb``: it takes ``sasl.oauthbearer.config`` (``None`` if there is none) and
    returns the token, its time of expiry, and optionally the principal and a mapping of extensions.
    """

    oauth_cb: Callable[[Any], tuple[Any, ...]] = field(repr=False)
    config: Any = field(default=None, repr=False)
    mechanism: str = "OAUTHBEARER"

    def log_in(self, exchange: Callable[[bytes], bytes]) -> None:
        token, extensions = self._token()
        parts = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items())]
        refusal = exchange(("n,,\x01" + "\x01".join(parts) + "\x01\x01").encode())
        if refusal:  # says why; the broker waits for an acknowledgement and then fails the login itself
            reason = refusal.decode(errors="replace")
            try:
                exchange(b"\x01")
            except StreamsError as error:
                raise StreamsError(
                    f"the login by OAUTHBEARER failed: the broker refused the token: {reason}"
                ) from error
            raise StreamsError(f"the login by OAUTHBEARER failed: the broker refused the token: {reason}")

    def _token(self) -> tuple[str, Mapping[str, str]]:
        try:
            token, _expires_at, *more = self.oauth_cb(self.config)
            return str(token), dict(more[1]) if len(more) > 1 else {}
        except Exception as error:
            raise UserCodeError(f"oauth_cb gave no token: {error}") from error


def login_of(settings: Mapping[str, Any]) -> Login:
    """Returns the login that the settings under ``sasl.`` describe.

    :raises ConfigError: if a setting is missing, or the mechanism is not supported here.
    """
    given = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or _LIBRDKAFKAS_DEFAULT
    mechanism = str(given).upper()
    if mechanism == "PLAIN":
        return PlainLogin(_required(settings, "sasl.username"), _required(settings, "sasl.password"))
    if mechanism in HASHES:
        return ScramLogin(mechanism, _required(settings, "sasl.username"), _required(settings, "sasl.password"))
    if mechanism == "OAUTHBEARER":
        oauth_cb = settings.get("oauth_cb")
        if oauth_cb is None:
            raise ConfigError(
                "a login by OAUTHBEARER needs oauth_cb here: tokens that librdkafka fetches by itself cannot be shared"
            )
        return OAuthBearerLogin(oauth_cb, settings.get("sasl.oauthbearer.config"))
    if mechanism == "GSSAPI":
        raise ConfigError("a login by Kerberos (sasl.mechanism GSSAPI) is not possible here, only by librdkafka")
    raise ConfigError(f"sasl.mechanism is {given!r}; known here are PLAIN, {', '.join(HASHES)} and OAUTHBEARER")


def _required(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    if value is None:
        raise ConfigError(f"{name} is missing: the login needs it")
    return str(value)
