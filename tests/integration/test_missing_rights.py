"""What a worker says that Kafka refuses: it ends, and names what to mend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from integration_support.secured_broker import Rights, SecuredListeners
from integration_support.workers import Workers
from waiting import wait_until
from wire_support.fake_broker import CERTIFICATES


@pytest.fixture
def workers(secured: SecuredListeners, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Workers]:
    with closing(Workers(tmp_path, secured.address("SASL_SSL"), unique_name("app"))) as started:
        yield started


def settings_of(secured: SecuredListeners, **given: Any) -> dict[str, Any]:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "reader", "sasl_password": "pencil", **given}
    found = secured.settings("SASL_SSL", **login)
    del found["bootstrap.servers"]
    return found


@pytest.mark.slow
def test_a_worker_without_a_right_ends_and_names_it(
    secured: SecuredListeners, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """One right after another: each time it says which is missing, and on what, with status 1. Without that on its
    transactional id it joined its group for ever, as if another member owned its tasks."""
    with closing(Workers(tmp_path, secured.address("SASL_SSL"), unique_name("app"))) as workers:
        rights = Rights(secured, workers.application)
        topics = [f"{workers.application}-in", f"{workers.application}-out"]
        for future in rights.admin.create_topics([NewTopic(name, 1) for name in topics]).values():
            future.result(30)
        given = settings_of(secured) | {"processing.guarantee": "exactly_once_v2"}
        environment = {"INPUTS": topics[0], "OUTPUT": topics[1]}

        def says(expected: str) -> None:
            """Rights take a moment to reach the brokers."""

            def said() -> bool:
                worker = workers.start("copy_values:topology", settings=given, env=environment)
                assert worker.wait() == 1, worker.tail
                return expected in worker.errors[0]

            wait_until(expected, said, deadline_s=60)

        says(f"topics cannot be described, and may or may not exist: '{topics[0]}'; allow READ")
        rights.allow(ResourceType.TOPIC, AclOperation.DESCRIBE)
        says("cannot start transactions: ")
        says(f"allow WRITE on transactional id '{workers.application}-")
        rights.allow(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
        says(f"allow READ on group '{workers.application}'")
        rights.allow(ResourceType.GROUP, AclOperation.READ)
        says(f"allow CREATE on topic '{workers.application}-0-tasks'")
        rights.allow(ResourceType.TOPIC, AclOperation.CREATE, AclOperation.WRITE)
        says(f"cannot read {topics[0]}-0: ")
        says("; allow READ on the topic")
        rights.allow(ResourceType.TOPIC, AclOperation.READ)
        workers.start("copy_values:topology", settings=given, env=environment).wait_running().stop()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sasl_password": "crayon"}, "Invalid username or password"),
        ({"sasl_mechanism": "SCRAM-SHA-256", "sasl_password": "crayon"}, "invalid credentials"),
        ({"ssl_ca_location": CERTIFICATES / "another-authority.pem"}, "certificate verify failed"),
    ],
)
def test_a_worker_whose_login_or_tls_fails_says_so(
    secured: SecuredListeners, workers: Workers, given: dict[str, Any], words: str
) -> None:
    """It was silent for half a minute, and then said that no broker could be reached."""
    worker = workers.start(
        "copy_values:topology", settings=settings_of(secured, **given), env={"INPUTS": "in", "OUTPUT": "out"}
    )
    assert worker.wait() == 1
    assert "because TLS or the login fails: " in worker.errors[0]
    assert words in worker.errors[0]
    assert "crayon" not in worker.text
