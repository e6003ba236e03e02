"""A static member leaves a real group, over every kind of line and login."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from integration_support.secured_broker import SecuredListeners, unsecured_token
from processor_api.errors import RetryableError, StreamsError
from streams.kafka.wire import leave_group
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.coordinator import Coordinator
from streams.kafka.wire.messages import DESCRIBE_GROUPS, DescribeGroupsRequest
from tools.kafka.broker import HOST, free_ports
from waiting import wait_until
from wire_support.fake_broker import CERTIFICATES

PARTITIONS = 4
SESSION_TIMEOUT_S = 45
DEADLINE_S = 30.0


def static_consumer(bootstrap: str, group: str, instance_id: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": instance_id,
            "session.timeout.ms": SESSION_TIMEOUT_S * 1000,
            "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": "cooperative-sticky",
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    consumer.subscribe([topic])
    return consumer


def poll_until(condition: Callable[[], bool], *consumers: Consumer, within_s: float = DEADLINE_S) -> float:
    """Polls the consumers; returns how long it took."""

    def come_to() -> bool:
        if condition():
            return True
        for consumer in consumers:
            consumer.poll(0.05)
        return False

    start = time.monotonic()
    wait_until("the condition of the members holds", come_to, deadline_s=within_s, pauses=False)
    return time.monotonic() - start


def members(bootstrap: str, group: str) -> set[str | None]:
    """The instance ids of a group's members."""
    with Coordinator(ClientSettings.of({"bootstrap.servers": bootstrap}), group) as coordinator:
        (found,) = coordinator.call(DESCRIBE_GROUPS, DescribeGroupsRequest((group,), False), DEADLINE_S).groups
    return {member.group_instance_id for member in found.members}


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(DEADLINE_S)


def test_the_others_get_the_partitions_of_a_static_member_at_once(
    kafka: str, unique_name: Callable[[str], str]
) -> None:
    """Its own close tells nobody: without leaving, they would wait for the session to time out."""
    topic, group = unique_name("input"), unique_name("group")
    create_topic(kafka, topic)
    with ExitStack() as consumers:
        one, two = (static_consumer(kafka, group, name, topic) for name in ("one", "two"))
        consumers.callback(two.close)
        poll_until(lambda: len(one.assignment()) == len(two.assignment()) == PARTITIONS // 2, one, two)
        one.close()
        assert members(kafka, group) == {"one", "two"}
        leave_group({"bootstrap.servers": kafka}, group, "one")
        assert members(kafka, group) == {"two"}
        assert poll_until(lambda: len(two.assignment()) == PARTITIONS, two, within_s=SESSION_TIMEOUT_S / 2) < 10


def test_leaving_again_or_as_nobody_changes_nothing(kafka: str, unique_name: Callable[[str], str]) -> None:
    """Neither does a group that is not there."""
    topic, group = unique_name("input"), unique_name("group")
    create_topic(kafka, topic)
    settings = {"bootstrap.servers": kafka}
    leave_group(settings, group, "one")
    with closing(static_consumer(kafka, group, "one", topic)) as one:
        poll_until(lambda: len(one.assignment()) == PARTITIONS, one)
        leave_group(settings, group, "two")
        assert members(kafka, group) == {"one"}
        leave_group(settings, group, "one", member_id="not-that-of-one")
        assert members(kafka, group) == {"one"}
        member_id = one.memberid()
    leave_group(settings, group, "one", member_id=member_id)
    assert members(kafka, group) == set()
    leave_group(settings, group, "one")


PASSWORD = {"sasl_username": "user", "sasl_password": "pencil"}
CLIENT = {
    "ssl_certificate_location": str(CERTIFICATES / "client.pem"),
    "ssl_key_location": str(CERTIFICATES / "client.key"),
    "ssl_key_password": "of-the-key",
}
LOGINS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "a certificate": ("SSL", CLIENT),
    "PLAIN": ("SASL_PLAINTEXT", PASSWORD | {"sasl_mechanism": "PLAIN"}),
    "SCRAM-SHA-256": ("SASL_PLAINTEXT", PASSWORD | {"sasl_mechanism": "SCRAM-SHA-256"}),
    "SCRAM-SHA-512 over TLS": ("SASL_SSL", PASSWORD | {"sasl_mechanism": "SCRAM-SHA-512"}),
    "OAUTHBEARER over TLS": ("SASL_SSL", {"sasl_mechanism": "OAUTHBEARER", "oauth_cb": unsecured_token}),
}


@pytest.mark.parametrize("login", LOGINS)
def test_a_member_leaves_over_a_secured_line(
    secured: SecuredListeners, unique_name: Callable[[str], str], login: str
) -> None:
    """The address of the coordinator is that of the listener that was asked."""
    protocol, given = LOGINS[login]
    bootstrap, topic, group = secured.bootstrap, unique_name("input"), unique_name("group")
    create_topic(bootstrap, topic)
    with closing(static_consumer(bootstrap, group, "one", topic)) as one:
        poll_until(lambda: len(one.assignment()) == PARTITIONS, one)
    assert members(bootstrap, group) == {"one"}
    leave_group(secured.settings(protocol, **given), group, "one")
    assert members(bootstrap, group) == set()


WRONG: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "password for PLAIN": (
        "SASL_PLAINTEXT",
        PASSWORD | {"sasl_mechanism": "PLAIN", "sasl_password": "crayon"},
        "SASL_AUTHENTICATION_FAILED.*Invalid username or password",
    ),
    "password for SCRAM": (
        "SASL_SSL",
        PASSWORD | {"sasl_mechanism": "SCRAM-SHA-256", "sasl_password": "crayon"},
        "SASL_AUTHENTICATION_FAILED.*invalid credentials",
    ),
    "token": (
        "SASL_SSL",
        {"sasl_mechanism": "OAUTHBEARER", "oauth_cb": lambda _: ("no-token", 0)},
        "rejected the token.*invalid_token",
    ),
    "right to the group": (
        "SASL_PLAINTEXT",
        PASSWORD | {"sasl_mechanism": "PLAIN", "sasl_username": "stranger"},
        "GROUP_AUTHORIZATION_FAILED",
    ),
    "authority": (
        "SSL",
        CLIENT | {"ssl_ca_location": str(CERTIFICATES / "another-authority.pem")},
        "certificate of .* is not trusted",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_somebody_must_mend_is_told_at_once(secured: SecuredListeners, what: str) -> None:
    """Also when other servers do not answer."""
    protocol, given, reason = WRONG[what]
    settings = secured.settings(protocol, **given)
    (nobody,) = free_ports(1)
    settings["bootstrap.servers"] += f",{HOST}:{nobody}"
    started = time.monotonic()
    with pytest.raises(StreamsError, match=reason) as caught:
        leave_group(settings, "g", "one", timeout_s=60)
    assert not isinstance(caught.value, RetryableError)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("listener", "protocol", "reason"),
    [
        ("SASL_PLAINTEXT", "plaintext", r"closed the connection: .* security\.protocol is not that of its listener"),
        ("SASL_PLAINTEXT", "sasl_ssl", r"closed the connection: .* security\.protocol is not that of its listener"),
        ("SASL_SSL", "sasl_plaintext", r"announces a response of \d+ bytes.* security\.protocol"),
        ("SSL", "plaintext", r"announces a response of \d+ bytes.* security\.protocol"),
        ("SSL", "ssl", r"rejected the certificate of this client, or requires one|wants a certificate"),
    ],
)
def test_the_wrong_protocol_for_a_listener_is_told(
    secured: SecuredListeners, listener: str, protocol: str, reason: str
) -> None:
    """Whatever the listener makes of it: to most it is what they may answer later."""
    settings = secured.settings(listener, **PASSWORD, sasl_mechanism="PLAIN") | {"security.protocol": protocol}
    with pytest.raises(StreamsError, match=reason):
        leave_group(settings, "g", "one", timeout_s=2)
