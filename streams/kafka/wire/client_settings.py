"""The settings of librdkafka that a connection needs."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.errors import ConfigError
from streams.kafka.wire.addresses import Address, bootstrap_servers
from streams.kafka.wire.sasl import Login, login_of
from streams.kafka.wire.tls import tls_context

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
