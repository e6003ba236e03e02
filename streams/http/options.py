"""The options of the HTTP port, from the settings: address, token, certificate, share of a core."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field

from processor_api.errors import ConfigError
from streams.config import StreamsConfig
from streams.http.access.credentials import Credentials

BEHIND = "fd"
"""Stands instead of a host: the port is then the number of a descriptor that the process inherits."""


@dataclass(frozen=True, kw_only=True)
class HttpOptions:
    """Holds how the port is opened, and who may ask."""

    host: str
    port: int
    credentials: Credentials = field(default_factory=Credentials, repr=False)
    """The tokens that requests must have one of, and the certificate."""
    cpu_share: float = 0.05
    """The part of the processor time of a busy application that the server may use besides."""
    server: str = ""
    """The ``host:port`` of ``application.server``."""
    answer_s: float = 30.0
    """The time that an answer may take, with the time in which its client does not read."""
    idle_s: float = 30.0
    """The time after which a connection is closed on which no request was made."""
    capacity: int = 1
    """How many times the usual connections and requests the port takes."""
    known_hosts: frozenset[str] = frozenset()
    """Names of hosts that requests may be meant for, besides addresses, where no token protects the port."""

    @classmethod
    def of(cls, config: StreamsConfig) -> HttpOptions:
        """Reads the files that the settings name.

        :raises ConfigError: if the port is not asked for, or a file cannot be used.
        """
        if config.http_listen is None:
            raise ConfigError(
                "http.listen is missing: set it to the address on which the worker listens, such as 127.0.0.1:8080"
            )
        host, _, port = config.http_listen.rpartition(":")
        server = config.application_server.rpartition(":")[0].strip("[]").lower()
        return cls(
            host=host.strip("[]"),
            port=int(port),
            credentials=Credentials.of(config),
            cpu_share=config.http_max_cpu_percent / 100,
            server=config.application_server,
            known_hosts=frozenset({"localhost", server} - {""}),
        )

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of the port; ``None`` if it serves HTTP."""
        return self.credentials.tls

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_behind(self) -> bool:
        """Whether a supervisor listens for the worker, which inherits a socket on loopback."""
        return self.host == BEHIND

    def listens_at(self, port: int) -> str:
        """Returns the ``host:port`` where it listens.

        :param port: the one that was taken, where 0 was asked for.
        """
        return f"{self.address.rpartition(':')[0]}:{port}"

    def reached_at(self, port: int) -> str | None:
        """Returns the ``host:port`` by which others reach the port: ``application.server``, or where it listens;
        ``None`` if it listens on all addresses, and none is named."""
        if self.server or self.host not in ("0.0.0.0", "::"):
            return self.server or self.listens_at(port)
        return None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.is_behind:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
