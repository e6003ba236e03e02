"""Taking a static member out of its group."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import ConfigError, RetryableError, StreamsError
from streams.kafka.wire import leave_group
from streams.kafka.wire.messages import FIND_COORDINATOR, LEAVE_GROUP, SASL_HANDSHAKE, LeavingMember
from wire_support.fake_broker import FakeBroker, here, left


def answered(answer: Any) -> FakeBroker:
    return FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: answer})


def leave(broker: FakeBroker, **more: Any) -> None:
    leave_group({"bootstrap.servers": broker.bootstrap}, "g", "i", clock=ManualClock(), **more)


def test_the_member_is_named_by_its_instance_id() -> None:
    """With a reason for the broker's log."""
    with answered(left()) as broker:
        leave(broker)
        (request,) = broker.asked(LEAVE_GROUP)
        assert request.group_id == "g"
        assert request.members == (LeavingMember("", "i", "the application closed for good"),)


def test_a_successor_can_be_spared() -> None:
    """With the member id, the broker refuses when another has the instance id by now, and that is fine."""
    with answered(left(member_code=82)) as broker:
        leave(broker, member_id="m-1")
        assert broker.asked(LEAVE_GROUP)[0].members[0].member_id == "m-1"


@pytest.mark.parametrize("answer", [left(), left(25), left(69), left(member_code=25), left(member_code=69)])
def test_a_member_that_is_not_there_is_fine(answer: Any) -> None:
    """So the call may be repeated; neither has the group to be there."""
    with answered(answer) as broker:
        leave(broker)
        assert len(broker.asked(LEAVE_GROUP)) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (left(30), r"GROUP_AUTHORIZATION_FAILED \(30\)"),
        (left(member_code=30), r"GROUP_AUTHORIZATION_FAILED \(30\)"),
        (left(-1), r"UNKNOWN_SERVER_ERROR \(-1\)"),
        (left(member_code=12345), "error 12345"),
    ],
)
def test_a_refusal_is_told_with_what_follows_from_it(answer: Any, reason: str) -> None:
    """That the tasks stand still until the session times out."""
    with answered(answer) as broker, pytest.raises(StreamsError) as caught:
        leave(broker)
    assert caught.match(
        "^static member 'i' could not leave group 'g', so it keeps its partitions until its session times out:"
        f" {reason}$"
    )
    assert type(caught.value) is StreamsError


def test_a_coordinator_that_does_not_come_is_told_as_such() -> None:
    """The same call may succeed later."""
    told = pytest.raises(RetryableError, match=r"could not leave group 'g'.*NOT_COORDINATOR \(16\)$")
    with answered(left(16)) as broker, told:
        leave(broker, timeout_s=1)


def test_wrong_settings_are_told_before_anything_is_sent() -> None:
    with answered(left()) as broker:
        given = {"bootstrap.servers": broker.bootstrap, "security.protocol": "sasl_plaintext"}
        with pytest.raises(ConfigError, match=r"could not leave group 'g'.*Kerberos"):
            leave_group(given, "g", "i")
        assert broker.connections == 0


def test_the_settings_of_a_consumer_are_enough() -> None:
    """What is about something else is passed over."""
    with answered(left()) as broker:
        given = {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "app-1",
            "group.id": "g",
            "group.instance.id": "i",
            "enable.partition.eof": True,
            "sasl.mechanism": "PLAIN",
        }
        leave_group(given, "g", "i", clock=ManualClock())
        assert {request.client_id for request in broker.requests} == {"app-1"}
        assert broker.asked(SASL_HANDSHAKE) == []
