"""The table of what each error of a client makes necessary."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from streams.kafka import client_errors
from streams.kafka.client_errors import HEALED, LOST, Renewal, renewal
from streams.kafka.confluent.errors import AUTHENTICATION, AUTHORIZATION, Resources, mapped
from streams.kafka.ports import ClientUnusable, CommitAgain, TransactionAborted

CONSUMER = Resources()
NO_ERRORS = {"NO_ERROR", "_PARTITION_EOF"}
NAMES = sorted({
    name
    for name in dir(KafkaError)
    if name.removeprefix("_").isupper() and isinstance(getattr(KafkaError, name), int)
} - NO_ERRORS)  # fmt: skip


def test_every_error_of_the_client_is_in_the_table() -> None:
    """An error of a newer client or broker may pass until it is in it."""
    assert len(NAMES) > 150
    assert [name for name in NAMES if renewal(name) is None] == []
    assert renewal("SOMETHING_NEW") is None


def test_no_error_is_in_it_twice() -> None:
    listed = [name for names in client_errors._NAMES.values() for name in names.split()]
    assert sorted(set(listed)) == sorted(listed)
    assert client_errors._NAMES.keys() == set(Renewal)


def test_rights_and_logins_are_final() -> None:
    assert {renewal(name) for name in AUTHORIZATION | AUTHENTICATION} == {Renewal.FINAL}


def test_a_consumer_recovers_from_no_error_that_might_skip_records() -> None:
    assert not HEALED & LOST
    assert {renewal(name) for name in HEALED} == {
        Renewal.NOTHING, Renewal.METADATA, Renewal.REBALANCE, Renewal.TOPIC, Renewal.MEMBERSHIP,
    }  # fmt: skip


def raised(name: str, resources: Resources = CONSUMER, **flags: bool) -> type[StreamsError]:
    error = KafkaError(getattr(KafkaError, name), "the reason", **flags)
    return type(mapped(KafkaException(error), "do it", resources))


@pytest.mark.parametrize("name", NAMES)
def test_each_error_becomes_that_of_its_renewal(name: str) -> None:
    """Whatever is not final may be tried again: by the same call, a new client or a new member."""
    kinds = {
        Renewal.NOTHING: RetryableError,
        Renewal.METADATA: RetryableError,
        Renewal.REBALANCE: CommitAgain,
        Renewal.TRANSACTION: ClientUnusable,
        Renewal.CLIENT: ClientUnusable,
        Renewal.MEMBERSHIP: TaskMigratedError,
        Renewal.POSITION: StreamsError,
        Renewal.TOPIC: StreamsError,
        Renewal.FINAL: StreamsError,
    }
    needed = renewal(name)
    assert needed is not None
    found = raised(name)
    if needed is Renewal.FINAL:
        assert not issubclass(found, (RetryableError, TaskMigratedError))
    else:
        assert issubclass(found, kinds[needed])


def test_a_state_that_is_not_expected_rolls_a_transaction_back() -> None:
    """A worker that was suspended for longer than its transaction may take died of it."""
    producer = Resources(transactional_id="a-0-1")
    assert raised("_STATE", producer) is TransactionAborted
    assert raised("_STATE") is ClientUnusable
    assert raised("_STATE", producer, fatal=True) is ClientUnusable


def test_a_broker_that_the_client_has_dropped_is_looked_for_again() -> None:
    """It ended workers whose broker had stood still for ten seconds."""
    assert raised("_DESTROY_BROKER") is RetryableError
    assert "_DESTROY_BROKER" in HEALED


@pytest.mark.parametrize("flags", [{}, {"fatal": True}])
def test_an_error_that_nothing_knows_may_pass(flags: dict[str, bool]) -> None:
    error = KafkaException(KafkaError(9999, "of the future", **flags))
    assert isinstance(mapped(error, "do it"), RetryableError)
