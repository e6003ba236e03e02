"""What errors of librdkafka mean: who has to act, and on what."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from processor_api.errors import (
    AuthenticationError,
    AuthorizationError,
    RetryableError,
    StreamsError,
    TaskMigratedError,
)
from streams.kafka.confluent import errors
from streams.kafka.confluent.errors import Resources, caught, mapped, mapping
from streams.kafka.ports import ClientUnusable, InstanceFenced, TransactionAborted

RESOURCES = Resources.of({"group.id": "g", "transactional.id": "a-0-1"}, "WRITE", "IDEMPOTENT_WRITE")


def told(name: str, **flags: bool) -> KafkaException:
    codes = (getattr(KafkaError, name), "the broker's reason")
    return KafkaException(KafkaError(*codes, **flags))


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "WRITE on transactional id 'a-0-1', or on all that start with"),
        ("GROUP_AUTHORIZATION_FAILED", "READ on group 'g'"),
        ("TOPIC_AUTHORIZATION_FAILED", "WRITE on topic 't'"),
        ("CLUSTER_AUTHORIZATION_FAILED", "IDEMPOTENT_WRITE on the cluster"),
    ],
)
@pytest.mark.parametrize("flags", [{}, {"fatal": True}, {"txn_requires_abort": True}, {"retriable": True}])
def test_a_missing_right_ends_the_application(name: str, right: str, flags: dict[str, bool]) -> None:
    """Every fatal error was taken for a migration, which joined anew for ever; and an abort would do it again. What is
    missing is named with what it is on."""
    found = mapped(told(name, **flags), "do it", RESOURCES, topic="t")
    assert type(found) is AuthorizationError
    assert str(found).startswith(f"cannot do it: the broker's reason ({name}); allow {right}")


def test_rights_are_named_also_where_their_place_is_not_known() -> None:
    found = [str(mapped(told(name), "do it")) for name in sorted(errors.AUTHORIZATION)]
    assert [text.partition("allow ")[2] for text in found] == [
        "DESCRIBE on the cluster",
        "READ on the group of the application.id",
        "READ on its topics",
        "WRITE on the transactional id of the producer, or on all that start with the application.id",
    ]


@pytest.mark.parametrize("name", ["_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"])
def test_a_login_that_fails_is_told_as_such(name: str) -> None:
    assert type(mapped(told(name), "do it")) is AuthenticationError


@pytest.mark.parametrize(
    ("name", "flags", "kind", "words"),
    [
        ("_FENCED", {"fatal": True}, TaskMigratedError, "another member owns the tasks"),
        ("INVALID_PRODUCER_EPOCH", {"fatal": True}, TaskMigratedError, "another member owns the tasks"),
        ("_FATAL", {}, TaskMigratedError, "another member owns the tasks"),
        ("UNKNOWN_MEMBER_ID", {}, TaskMigratedError, "another member owns the tasks"),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", {"fatal": True}, TaskMigratedError, "a new one replaces it"),
        ("UNKNOWN_PRODUCER_ID", {"fatal": True}, TaskMigratedError, "a new one replaces it"),
        ("INVALID_TRANSACTION_TIMEOUT", {"fatal": True}, StreamsError, "cannot do it"),
        ("_UNSUPPORTED_FEATURE", {"fatal": True}, StreamsError, "cannot do it"),
        ("FENCED_INSTANCE_ID", {"fatal": True}, InstanceFenced, "another process has joined"),
        ("UNKNOWN_MEMBER_ID", {"txn_requires_abort": True}, TransactionAborted, "cannot do it"),
        ("REQUEST_TIMED_OUT", {}, RetryableError, "cannot do it"),
    ],
)
def test_only_what_a_new_producer_mends_is_tried_with_one(
    name: str, flags: dict[str, bool], kind: type[StreamsError], words: str
) -> None:
    found = mapped(told(name, **flags), "do it", RESOURCES)
    assert type(found) is kind
    assert words in str(found)


def test_calls_of_a_client_know_what_it_works_on() -> None:
    class Client:
        resources = RESOURCES

        @mapping("do it")
        def call(self) -> Any:
            raise told("GROUP_AUTHORIZATION_FAILED")

    with pytest.raises(AuthorizationError, match="allow READ on group 'g'"):
        Client().call()


@pytest.mark.parametrize(
    "name",
    [
        "BROKER_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "OFFSET_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    ],
)
def test_a_leader_that_has_just_changed_is_asked_again(name: str) -> None:
    """A thread died of offsets that it asked for just after its broker had come back; Java's client tries again."""
    assert type(mapped(told(name), "read offsets of partitions")) is RetryableError


def raise_bare(error: KafkaError) -> None:
    """Raises an error of the client as its binding does, which keeps only the value of an exception."""
    for one in (KafkaError, error):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))  # the next call takes references over
    ctypes.pythonapi.PyErr_Restore(ctypes.py_object(KafkaError), ctypes.py_object(error), None)


def test_an_error_that_is_no_exception_can_be_caught() -> None:
    """No `except` with a type catches a `KafkaError`: a fenced thread ended without a word."""
    error = KafkaError(KafkaError._FENCED, "fenced by a newer producer", fatal=True)
    with pytest.raises(KafkaException) as raised:
        caught(raise_bare, error)
    assert raised.value.args == (error,)
    assert raised.value.__context__ is None
    assert isinstance(mapped(raised.value, "send records"), TaskMigratedError)


def test_other_errors_and_results_pass() -> None:
    assert caught(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        caught(divmod, 7, 0)


def test_an_error_that_the_client_has_lost_is_for_a_new_one() -> None:
    """A fenced worker ended with the text of a SystemError, and not with what to do."""
    lost = SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")
    assert type(mapped(lost, "send records")) is ClientUnusable
    lost.__cause__ = told("_FENCED")
    assert type(mapped(lost, "send records")) is TaskMigratedError
