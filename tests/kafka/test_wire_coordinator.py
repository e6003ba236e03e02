"""Finding the coordinator of a group, and finding it again."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError, StreamsError
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.connection import Deadline
from streams.kafka.wire.coordinator import Coordinator, through_any_server
from streams.kafka.wire.messages import (
    FIND_COORDINATOR,
    LEAVE_GROUP,
    SASL_HANDSHAKE,
    FindCoordinatorResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    SaslHandshakeResponse,
)
from streams.kafka.wire.sasl import PlainLogin
from wire_support.fake_broker import CLOSE, HOST, FakeBroker, Request, coordinator_at, here, left

LEAVE = LeaveGroupRequest("g", (LeavingMember("", "i"),))


def nobody() -> Address:
    """An address where nobody listens."""
    with socket.create_server((HOST, 0)) as listener:
        return Address(*listener.getsockname())


def call(
    servers: Sequence[Address], clock: ManualClock, *, timeout_s: float = 10, login: PlainLogin | None = None
) -> LeaveGroupResponse:
    with Coordinator(ClientSettings(tuple(servers), login=login), "g", clock) as coordinator:
        return coordinator.call(LEAVE_GROUP, LEAVE, timeout_s)


def test_any_bootstrap_server_tells_where_the_coordinator_is() -> None:
    """The first one that can be asked."""
    with FakeBroker({LEAVE_GROUP: left()}) as coordinator:
        with FakeBroker({FIND_COORDINATOR: coordinator_at(coordinator.address)}) as other:
            assert call([nobody(), other.address], ManualClock()) == left()
        assert [request.api for request in other.requests][1:] == [FIND_COORDINATOR]
        assert other.asked(FIND_COORDINATOR)[0].coordinator_keys == ("g",)
        assert coordinator.asked(LEAVE_GROUP) == [LEAVE]


def test_a_connection_is_kept_for_the_next_request() -> None:
    with FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: left()}) as broker:
        with Coordinator(ClientSettings((broker.address,)), "g", ManualClock()) as coordinator:
            for _ in range(3):
                coordinator.call(LEAVE_GROUP, LEAVE, 10)
        assert len(broker.asked(FIND_COORDINATOR)) == 1
        assert broker.connections == 2


@pytest.mark.parametrize("first", [CLOSE, b"\0\0", left(14), left(15), left(16)])
def test_a_coordinator_that_moves_is_looked_for_again(first: Any) -> None:
    """Whether it says so, or is gone; after a pause."""
    clock = ManualClock()
    with FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: [first, left()]}) as broker:
        assert call([broker.address], clock) == left()
        assert len(broker.asked(FIND_COORDINATOR)) == len(broker.asked(LEAVE_GROUP)) == 2
    assert clock.monotonic() == pytest.approx(0.1)


def test_a_coordinator_that_died_is_looked_for_again() -> None:
    """The brokers go on naming it until another has taken over."""
    dead = nobody()
    with FakeBroker({FIND_COORDINATOR: [coordinator_at(dead), here], LEAVE_GROUP: left()}) as broker:
        assert call([broker.address], ManualClock()) == left()


def test_a_cluster_that_has_no_coordinator_yet_is_asked_again() -> None:
    """As a new one that still has to make its offsets topic."""
    answers = [coordinator_at(Address("", -1), 15), coordinator_at(Address("", -1), 14), here]
    with FakeBroker({FIND_COORDINATOR: answers, LEAVE_GROUP: left()}) as broker:
        assert call([broker.address], ManualClock()) == left()


def test_the_pauses_grow_and_end_with_the_time() -> None:
    """100 ms, doubled up to a second; the last failure is told, and nothing waits beyond the deadline."""
    clock = ManualClock()
    told = pytest.raises(RetryableError, match=r"group 'g' is not ready: COORDINATOR_LOAD_IN_PROGRESS \(14\)")
    with FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: left(14)}) as broker:
        with told:
            call([broker.address], clock, timeout_s=5)
        # Pauses of 0.1, 0.2, 0.4, 0.8, 1, 1, 1 s; one more would end after the deadline.
        assert len(broker.asked(LEAVE_GROUP)) == 8
    assert clock.monotonic() == pytest.approx(4.5)


def test_the_failure_before_the_time_was_over_is_told() -> None:
    """Not that the last attempt had no time left."""
    clock = ManualClock()

    def slow(answer: Any) -> Any:
        def late(_: Request) -> Any:
            clock.advance(900)
            return answer

        return late

    told = pytest.raises(RetryableError, match="COORDINATOR_NOT_AVAILABLE")
    answers = [slow(left(15)), slow(left(15)), slow(CLOSE)]
    with FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: answers}) as broker, told:
        call([broker.address], clock, timeout_s=2.5)


def test_the_last_failure_is_told() -> None:
    """While there was time for it."""
    told = pytest.raises(RetryableError, match="NOT_COORDINATOR")
    with FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: [CLOSE, left(15), left(16)]}) as broker, told:
        call([broker.address], ManualClock(), timeout_s=1)


def test_no_time_at_all_is_told() -> None:
    with FakeBroker({}) as broker, pytest.raises(RetryableError, match="did not respond in time"):
        call([broker.address], ManualClock(), timeout_s=0)


@pytest.mark.parametrize("code", [0, 25, 30, 77])
def test_other_answers_are_the_callers(code: int) -> None:
    with FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: left(code)}) as broker:
        assert call([broker.address], ManualClock()).error_code == code


def test_a_group_that_we_may_not_see_is_told_at_once() -> None:
    clock = ManualClock()
    told = pytest.raises(StreamsError, match=r"group 'g' cannot be found: GROUP_AUTHORIZATION_FAILED \(30\)")
    with FakeBroker({FIND_COORDINATOR: coordinator_at(Address("", -1), 30)}) as broker, told as caught:
        call([broker.address], clock)
    assert not isinstance(caught.value, RetryableError)
    assert clock.monotonic() == 0


def test_an_answer_about_no_group_is_refused() -> None:
    told = pytest.raises(StreamsError, match="named 0 coordinators of group 'g', not one")
    with FakeBroker({FIND_COORDINATOR: FindCoordinatorResponse(0, ())}) as broker, told:
        call([broker.address], ManualClock())


@pytest.mark.parametrize("first", [True, False])
def test_a_refused_login_is_told_rather_than_a_server_that_is_not_there(first: bool) -> None:
    """At once, and whichever was tried last: it is what somebody must mend."""
    clock = ManualClock()
    with FakeBroker({SASL_HANDSHAKE: SaslHandshakeResponse(33, ("GSSAPI",))}) as broker:
        servers = [broker.address, nobody()] if first else [nobody(), broker.address]
        with pytest.raises(StreamsError, match="does not accept a login by PLAIN") as caught:
            call(servers, clock, login=PlainLogin("u", "p"))
    assert not isinstance(caught.value, RetryableError)
    assert clock.monotonic() == 0


def test_a_server_that_refuses_us_does_not_hide_one_that_does_not() -> None:
    """One broker with a wrong certificate or an old version is not the whole cluster."""
    old = b"\0\0\0\0"
    with FakeBroker({FIND_COORDINATOR: old}) as bad, FakeBroker({FIND_COORDINATOR: here, LEAVE_GROUP: left()}) as good:
        assert call([bad.address, good.address], ManualClock()) == left()


def test_servers_share_the_time() -> None:
    """One that does not answer leaves some to the others."""
    parts: list[float] = []

    def ask(_: Any, part: Deadline) -> None:
        parts.append(part.left_s())
        raise RetryableError("not now")

    clock = ManualClock()
    with FakeBroker({}) as one, FakeBroker({}) as two:
        settings = ClientSettings((one.address, two.address, one.address))
        with pytest.raises(RetryableError, match="not now"):
            through_any_server(settings, Deadline(9, clock), ask)
    assert parts == [pytest.approx(3), pytest.approx(4.5), pytest.approx(9)]
