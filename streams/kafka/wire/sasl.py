"""Login, from librdkafka's settings."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from processor_api.errors import ConfigError, StreamsError, UserCodeError

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_LEAST_ITERATIONS = 4096
_MOST_ITERATIONS = 1_000_000
"""A broker may not have us compute for minutes; Kafka itself allows 16384."""
_NONCE_BYTES = 24


@dataclass(frozen=True)
class ScramLogin:
    """A user and a password for one of the SCRAM mechanisms (RFC 5802, with SHA-256 by RFC 7677).

    The password is proved, not sent, and the broker proves that it knows it too.
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    make_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(_NONCE_BYTES)

    def log_in(self, exchange: Callable[[bytes], bytes]) -> None:
        """Logs in; both sides prove that they know the password.

        :raises StreamsError: if the broker does not prove that it knows the password."""
        nonce = self.make_nonce()
        name = self.username.replace("=", "=3D").replace(",", "=2C")
        client_first = f"n={name},r={nonce}"
        server_first = exchange(f"n,,{client_first}".encode())
        attributes = self._attributes(server_first)
        full_nonce = attributes.get("r", "")
        if not full_nonce.startswith(nonce):
            raise self._refusal("responded with another nonce than that of this client")
        if full_nonce == nonce:  # then an answer to an earlier login would do
            raise self._refusal("did not extend the nonce")
        salted = self._salted_password(attributes)
        client_final = f"c=biws,r={full_nonce}"  # "n,,": no channel binding
        signed = b",".join((client_first.encode(), server_first, client_final.encode()))
        proof = base64.b64encode(self._proof(salted, signed)).decode()
        server_final = self._attributes(exchange(f"{client_final},p={proof}".encode()))
        if "e" in server_final:
            raise self._refusal(f"rejected the login of {self.username!r}: {server_final['e']}")
        signature = self._mac(self._mac(salted, b"Server Key"), signed)
        if not hmac.compare_digest(self._decoded(server_final.get("v", "")), signature):
            raise self._refusal("did not prove that it has the password, so it may be another server")

    def _attributes(self, message: bytes) -> dict[str, str]:
        try:
            parts = [part.partition("=") for part in message.decode().split(",")]
        except UnicodeDecodeError:
            raise self._refusal("sent a response that is not SCRAM") from None
        found = {name: value for name, _, value in parts}
        if "m" in found:  # RFC 5802: a later version of SCRAM, which a client that does not know it must refuse
            raise self._refusal("requires an extension that is not supported")
        if len(found) != len(parts):
            raise self._refusal("sent a response that is not SCRAM")
        return found

    def _salted_password(self, attributes: dict[str, str]) -> bytes:
        text = attributes.get("i", "")
        iterations = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if not _LEAST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            raise self._refusal(
                f"requires {text!r} iterations, which is not between {_LEAST_ITERATIONS} and {_MOST_ITERATIONS}"
            )
        salt = self._decoded(attributes.get("s", ""))
        return hashlib.pbkdf2_hmac(HASHES[self.mechanism], self.password.encode(), salt, iterations)

    def _proof(self, salted: bytes, signed: bytes) -> bytes:
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(HASHES[self.mechanism], client_key).digest(), signed)
        return bytes(ours ^ theirs for ours, theirs in zip(client_key, signature, strict=True))

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, HASHES[self.mechanism])

    def _decoded(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise self._refusal("sent a response that is not SCRAM") from None

    def _refusal(self, what: str) -> StreamsError:
        return StreamsError(f"the login by {self.mechanism} failed: the broker {what}")


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
                    f"the login by OAUTHBEARER failed: the broker rejected the token: {reason}"
                ) from error
            raise StreamsError(f"the login by OAUTHBEARER failed: the broker rejected the token: {reason}")

    def _token(self) -> tuple[str, Mapping[str, str]]:
        try:
            token, _expires_at, *more = self.oauth_cb(self.config)
            return str(token), dict(more[1]) if len(more) > 1 else {}
        except Exception as error:
            raise UserCodeError(f"oauth_cb did not return a token: {error}") from error


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
                "a login by OAUTHBEARER needs oauth_cb for this connection: tokens that librdkafka fetches cannot be"
                " shared"
            )
        return OAuthBearerLogin(oauth_cb, settings.get("sasl.oauthbearer.config"))
    if mechanism == "GSSAPI":
        raise ConfigError(
            "a login by Kerberos (sasl.mechanism GSSAPI) works for librdkafka only, not for this connection"
        )
    raise ConfigError(
        f"sasl.mechanism must be PLAIN, {', '.join(HASHES)} or OAUTHBEARER for this connection, got {given!r}"
    )


def _required(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    if value is None:
        raise ConfigError(f"{name} is missing: the login needs it")
    return str(value)
