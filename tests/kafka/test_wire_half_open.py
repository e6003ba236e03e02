"""Connections that are half open: the broker is gone from their other end, and no word of that has come."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from processor_api.clock import SystemClock
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.connection import Connection, Connections, Deadline, connect
from streams.kafka.wire.coordinator import Coordinator
from streams.kafka.wire.messages import FIND_COORDINATOR, LEAVE_GROUP, LeaveGroupRequest, LeavingMember
from tools.chaos.cluster import Proxy
from tools.kafka.broker import free_ports
from wire_support.fake_broker import HOST, FakeBroker, Request, coordinator_at, left

LEAVE = LeaveGroupRequest("g", (LeavingMember("", "i"),))
TIME_S = 2.0


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Stands before a broker that answers, and is its coordinator."""
    (port,) = free_ports(1)

    def here(request: Request) -> object:
        return coordinator_at(Address(HOST, port))

    with FakeBroker({LEAVE_GROUP: left(), FIND_COORDINATOR: here}) as broker:
        made = Proxy(port, broker.address.port)
        yield made
        made.forget()
        made.cut()


def settings(proxy: Proxy) -> ClientSettings:
    return ClientSettings((Address(HOST, proxy.port),))


def test_a_kept_connection_to_a_coordinator_has_half_of_the_time(proxy: Proxy) -> None:
    """It had all of it, and the call failed though a new connection would have been answered."""
    with Coordinator(settings(proxy), "g", SystemClock()) as coordinator:
        for _ in range(3):
            assert coordinator.call(LEAVE_GROUP, LEAVE, TIME_S) == left()
            proxy.forget()


def test_a_kept_connection_to_a_server_has_half_of_the_time(proxy: Proxy) -> None:
    def ask(broker: Connection, part: Deadline) -> object:
        return broker.call(LEAVE_GROUP, LEAVE, part)

    with closing(Connections(settings(proxy))) as connections:
        for _ in range(3):
            assert connections.any(Deadline(TIME_S, SystemClock()), ask) == left()
            proxy.forget()


def test_others_that_rest_are_closed_with_one_that_fails() -> None:
    """Each of them took the time of a call."""
    with socket.create_server((HOST, 0)) as listener:
        address = Address(*listener.getsockname())
        one, other = (Connection(socket.create_connection(address), address, "c") for _ in range(2))
        with closing(Connections(ClientSettings((address,)))) as connections:
            with connections._used(other):
                assert other.is_open
            assert other.is_open
            with suppress(KeyError), connections._used(one):
                raise KeyError
            assert not one.is_open
            assert not other.is_open


def test_the_system_looks_after_a_connection_that_rests(proxy: Proxy) -> None:
    with connect(Address(HOST, proxy.port), settings(proxy), Deadline(20, SystemClock())) as connection:
        line = connection._line
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
