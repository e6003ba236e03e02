"""The settings of librdkafka that a connection needs."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from processor_api.errors import ConfigError
from streams.kafka.wire.sasl import Login, login_of

_DEFAULT_PORT = 9092


class Address(NamedTuple):
    """The host and port of one broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bootstrap_servers(settings: Mapping[str, Any]) -> tuple[Address, ...]:
    """Returns the addresses in ``bootstrap.servers``, as librdkafka reads them: ``host:port`` with commas between; a
    protocol in front is ignored, and the port is 9092 unless it is there.

    :raises ConfigError: if there is none, or one of them is not an address.
    """
    given = str(settings.get("bootstrap.servers", ""))
    found = tuple(_address(part.strip()) for part in given.split(",") if part.strip())
    if not found:
        raise ConfigError("bootstrap.servers is missing: it is the address of Kafka, as host:port")
    return found


def _address(text: str) -> Address:
    place = text.rpartition("://")[2].rstrip("/")
    if place.startswith("["):
        host, bracket, port = place[1:].partition("]")
        well_formed = bool(bracket) and (not port or port.startswith(":"))
        port = port[1:]
    else:
        host, _, port = place.partition(":")
        well_formed = True
    port = port or str(_DEFAULT_PORT)
    if not well_formed or not host or not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF:
        raise ConfigError(f"bootstrap.servers has {text!r}, which is not host:port")
    return Address(host, int(port))


_REFUSED = {
    "ssl.curves.list": "Python cannot set OpenSSL's curves",
    "ssl.engine.location": "Python cannot use engines of OpenSSL",
    "ssl.keystore.location": "Python cannot read PKCS#12: set ssl.certificate.location and ssl.key.location (PEM)",
    "ssl.providers": "Python cannot choose providers of OpenSSL",
    "ssl.sigalgs.list": "Python cannot set OpenSSL's signature algorithms",
}

USUAL_PLACES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Paths of certificates of authorities on several systems, for a Python that was built for another system."""


def tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Returns the TLS context that the settings under ``ssl.`` describe.

    :raises ConfigError: if a file cannot be read, or a setting has no counterpart here.
    """
    for name, reason in _REFUSED.items():
        if settings.get(name):
            raise ConfigError(f"{name} works for librdkafka only, not for the connections of this library: {reason}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _trust(context, settings)
    _revocations(context, settings)
    _own_certificate(context, settings)
    if settings.get("ssl.cipher.suites"):
        try:
            context.set_ciphers(str(settings["ssl.cipher.suites"]))
        except ssl.SSLError:
            raise ConfigError("ssl.cipher.suites does not have a cipher that OpenSSL supports") from None
    return context


def _trust(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    # Only a plain "false" switches it off: in doubt a check stays on.
    if str(settings.get("enable.ssl.certificate.verification", True)).strip().lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() != "https":
        context.check_hostname = False
    place, pem = settings.get("ssl.ca.location"), settings.get("ssl.ca.pem")
    if place and place != "probe":
        _load("ssl.ca.location", place, lambda: _load_authorities(context, str(place)))
    if pem:
        _load("ssl.ca.pem", None, lambda: context.load_verify_locations(cadata=str(pem)))
    if not pem and (not place or place == "probe"):
        _trust_the_system(context)


def _trust_the_system(context: ssl.SSLContext) -> None:
    context.load_default_certs()
    folder = ssl.get_default_verify_paths().capath
    if context.cert_store_stats()["x509_ca"] or (folder and os.listdir(folder)):
        return
    for place in USUAL_PLACES:
        if os.path.exists(place):
            context.load_verify_locations(place)
            return


def _load_authorities(context: ssl.SSLContext, place: str) -> None:
    if os.path.isdir(place):
        context.load_verify_locations(capath=place)
    else:
        context.load_verify_locations(cafile=place)


def _revocations(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    place = settings.get("ssl.crl.location")
    if place:
        _load("ssl.crl.location", place, lambda: _load_authorities(context, str(place)))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _own_certificate(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    certificate, chain = settings.get("ssl.certificate.location"), settings.get("ssl.certificate.pem")
    key, key_text = settings.get("ssl.key.location"), settings.get("ssl.key.pem")
    if not (certificate or chain):
        return
    # An empty password for a key without one; without any, OpenSSL would ask for it on the terminal.
    password = str(settings.get("ssl.key.password") or "")
    made: list[str] = []
    try:
        certificate_file = str(certificate) if certificate else _written(str(chain), made)
        key_file = str(key) if key else _written(str(key_text), made) if key_text else None
        names = f"{'ssl.certificate.location' if certificate else 'ssl.certificate.pem'} with its key"
        _load(names, None, lambda: context.load_cert_chain(certificate_file, key_file, password))
    finally:
        for path in made:
            os.unlink(path)


def _written(text: str, made: list[str]) -> str:
    """Python reads certificates of our own from files only; this one is readable by us alone, and for a moment."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    made.append(path)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _load(name: str, place: Any, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
        detail = reason or getattr(error, "reason", None) or type(error).__name__
        what = f"{name} {str(place)!r}" if place else name
        raise ConfigError(f"{what} cannot be used: {detail}") from error


_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


@dataclass(frozen=True)
class ClientSettings:
    """The brokers' addresses, the client's identity, and how the connection is secured."""

    servers: tuple[Address, ...]
    client_id: str = "streams"
    tls: ssl.SSLContext | None = None
    login: Login | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ClientSettings:
        """Reads the settings of a librdkafka client; those about other things are ignored.

        :raises ConfigError: if a setting is missing, wrong, or not possible here.
        """
        given = settings.get("security.protocol") or "plaintext"
        protocol = str(given).lower()
        if protocol not in _PROTOCOLS:
            raise ConfigError(f"security.protocol must be one of {', '.join(_PROTOCOLS)}; got {given!r}")
        return cls(
            servers=bootstrap_servers(settings),
            client_id=str(settings.get("client.id") or cls.client_id),
            tls=tls_context(settings) if protocol.endswith("ssl") else None,
            login=login_of(settings) if protocol.startswith("sasl") else None,
        )
