"""Each kind of membership passes the contract on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_contracts.membership import MembershipContract
from membership_kit import ClientsKit, StreamsGroupKit
from processor_api.clock import ManualClock, SystemClock
from streams.testing.broker import EmbeddedBroker, EmbeddedClients


class TestControlTopics(MembershipContract):
    @pytest.fixture(autouse=True)
    def _kit(self) -> Iterator[None]:
        clock = ManualClock(SystemClock().time_ms())
        clients = EmbeddedClients(EmbeddedBroker(clock, blocking=False))
        self.kit = ClientsKit(clients, clock, lambda seconds: clock.advance(int(seconds * 1000)), "group", 30)
        yield
        self.kit.close()


class TestStreamsGroup(MembershipContract):
    @pytest.fixture(autouse=True)
    def _kit(self) -> Iterator[None]:
        self.kit = StreamsGroupKit(
            EmbeddedClients(EmbeddedBroker()), SystemClock(), "group", 30, spreads_subtopologies=True
        )
        yield
        self.kit.close()
