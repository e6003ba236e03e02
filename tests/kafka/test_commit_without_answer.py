"""A client whose commit does not come back takes no other call, which is told from a rebalance that passes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.group_offsets import GivenUpClient, GroupOffsets
from streams.kafka.ports import ClientUnusable, CommitAgain, OffsetAndMetadata

OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(7)}


class Silent:
    """A client whose call ends with the test."""

    def __init__(self) -> None:
        self.ends = threading.Event()

    def commit(self, **_: Any) -> list[Any]:
        self.ends.wait(30)
        return []


def offsets(check_call: Any, limit_ms: int = 50) -> GroupOffsets:
    outage: Any = SimpleNamespace(check_call=check_call, answered=lambda: None, suspected=False)
    found = GroupOffsets(
        {"group.id": "g", "max.poll.interval.ms": limit_ms, "bootstrap.servers": "127.0.0.1:1"}, outage
    )
    found.direct.connection = None  # so that the client is asked
    return found


def is_lost() -> None:
    raise ClientUnusable("this client has lost all brokers")


@pytest.mark.parametrize(
    ("check", "limit_ms", "said"),
    [(lambda: None, 50, "did not respond within 0 s"), (is_lost, 30_000, "has lost all")],
)
def test_the_client_is_given_up(check: Any, limit_ms: int, said: str) -> None:
    client = Silent()
    tried = offsets(check, limit_ms)
    try:
        with pytest.raises(ClientUnusable, match=said):
            tried.commit(client, b"", OFFSETS, is_calling_back=False)
        assert tried.is_given_up
        with pytest.raises(ClientUnusable, match="this client was abandoned"):
            GivenUpClient().unsubscribe()
    finally:
        client.ends.set()


def test_what_no_broker_answers_is_not_taken_for_a_rebalance() -> None:
    """The error of the thread that commits says that the client is to be replaced."""

    class Direct:
        connection = object()

        def commit(self, *_: Any) -> bool:
            raise RetryableError("no broker answers")

    tried = offsets(lambda: None)
    tried.direct = Direct()  # type: ignore[assignment]
    with pytest.raises(ClientUnusable, match="no broker answers") as raised:
        tried.commit(Silent(), b"", OFFSETS, is_calling_back=False)
    assert not isinstance(raised.value, CommitAgain)
