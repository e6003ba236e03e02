"""A broker that listens in every way, and knows who may do what."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tools.kafka.broker import HOST, free_ports
from tools.kafka.quick_broker import QuickBroker
from wire_support.fake_broker import CERTIFICATES

_MODULES = "org.apache.kafka.common.security"
_JAAS = {
    "plain": f"{_MODULES}.plain.PlainLoginModule required"
    ' user_user="pencil" user_reader="pencil" user_stranger="pencil";',
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}
_LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class SecuredListeners:
    """How a secured broker is reached: `bootstrap` without a login, and each other listener."""

    bootstrap: str
    ports: Mapping[str, int]

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def settings(self, listener: str, **given: Any) -> dict[str, Any]:
        """Of a client of that listener; ``sasl_mechanism`` stands for ``sasl.mechanism``."""
        dotted = {name if name == "oauth_cb" else name.replace("_", "."): value for name, value in given.items()}
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": listener.lower(),
            "ssl.ca.location": str(CERTIFICATES / "authority.pem"),
            **dotted,
        }


class SecuredBroker:
    """``user`` may do everything, with the password ``pencil``, a token, or the certificate ``client``; so may whoever
    comes without a login. ``stranger`` and ``reader``, with PLAIN and the same password, may do nothing unless told.
    """

    def __init__(self, folder: Path) -> None:
        plaintext, controller, *others = free_ports(2 + len(_LISTENERS))
        secured = dict(zip(_LISTENERS, others, strict=True))
        keystore = folder / "broker.pem"
        keystore.write_text("".join((CERTIFICATES / name).read_text() for name in ("broker.key", "broker.pem")))
        ports = {"PLAINTEXT": plaintext, **secured}
        listeners = [f"{name}://{HOST}:{port}" for name, port in ports.items()]
        protocols = [f"{name}:{name}" for name in ports]
        properties = {
            "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{controller}"]),
            "advertised.listeners": ",".join(listeners),
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
            "sasl.enabled.mechanisms": ",".join(_JAAS).upper(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(CERTIFICATES / "authority.pem"),
            "listener.name.ssl.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:user;User:CN=client",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            properties |= {f"listener.name.{listener}.{name}.sasl.jaas.config": jaas for name, jaas in _JAAS.items()}
        self.broker = QuickBroker(port=plaintext, properties=properties)
        self.listeners = SecuredListeners(self.broker.bootstrap, secured)

    def add_users(self) -> None:
        """Those for SCRAM, which are stored in the cluster."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("user", ScramCredentialInfo(mechanism, 4096), b"pencil")
            admin.alter_user_scram_credentials([change])["user"].result(_TIMEOUT_S)


class Rights:
    """Of ``reader``, on what starts with a name."""

    def __init__(self, secured: SecuredListeners, prefix: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": secured.bootstrap})
        self._prefix = prefix

    def allow(self, kind: ResourceType, *operations: AclOperation) -> None:
        pattern = ResourcePatternType.PREFIXED
        for operation in operations:
            rule = AclBinding(kind, self._prefix, pattern, "User:reader", "*", operation, AclPermissionType.ALLOW)
            self.admin.create_acls([rule])[rule].result(30)


def unsecured_token(_: Any) -> tuple[str, float]:
    """What Kafka's validator for tests takes: claims that nobody signed."""
    now = int(time.time())  # a broker's clock reads whole milliseconds: a later part of the same one is in its future
    parts = ({"alg": "none"}, {"sub": "user", "iat": now, "exp": now + 300})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""]), now + 300
