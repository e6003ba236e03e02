"""The addresses of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from processor_api.errors import ConfigError

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

    :raises ConfigError: if there is none, or one of them is no address.
    """
    given = str(settings.get("bootstrap.servers", ""))
    found = tuple(_address(part.strip()) for part in given.split(",") if part.strip())
    if not found:
        raise ConfigError("bootstrap.servers is missing: it says where Kafka is, as host:port")
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
