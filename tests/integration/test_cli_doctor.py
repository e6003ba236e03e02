"""`streams doctor` and a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from integration_support.secured_broker import SecuredListeners
from waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
APP = """
from processor_api.topology.topology import Topology
def topology(config):
    topic = config.application_id + "-in"
    return Topology().add_source("source", topic, key_serde="bytes", value_serde="bytes")
"""


def doctor(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "app.py").write_text(APP)
    found = subprocess.run(
        [sys.executable, "-m", "streams", "doctor", "app:topology", "-c", f"state.dir={folder}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert [line for line in found.stderr.splitlines() if not line.startswith("no response for ")] == []
    return found.returncode, found.stdout


def test_a_cluster_in_order(kafka: str, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    """As soon as the topic is there that the application reads."""
    application = unique_name("app")
    given = ("--application-id", application, "--bootstrap-servers", kafka)
    status, lines = doctor(tmp_path, *given)
    assert status == 1
    assert f"fail  topics: source topic '{application}-in' does not exist" in lines
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(f"{application}-in", 3)])[f"{application}-in"].result(30)
    status, lines = doctor(tmp_path, *given)
    assert status == 0
    assert re.search(rf"^ok    broker: {kafka} is Kafka \d+\.\d+; cluster \S{{22}} has .*{kafka}", lines, re.MULTILINE)
    assert f"ok    group: '{application}' can be joined and described; 0 members" in lines
    assert f"ok    topics: source topic '{application}-in' has 3 partitions" in lines


def test_missing_rights_and_a_wrong_password_are_told(secured: SecuredListeners, tmp_path: Path) -> None:
    """The first by the group and the topic, the second by the broker."""
    settings = secured.settings("SASL_SSL", sasl_mechanism="PLAIN", sasl_username="stranger", sasl_password="pencil")
    given = ["--application-id", "a", *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))]
    status, lines = doctor(tmp_path, *given)
    assert status == 1
    assert "ok    broker: " in lines
    assert re.search(r"^fail  group: .*GROUP_AUTHORIZATION_FAILED \(30\); allow READ and DESCRIBE", lines, re.MULTILINE)
    assert "fail  topics: source topic 'a-in' cannot be described: allow READ on it" in lines
    assert "fail  rights: topic 'a-0-tasks' cannot be described: allow READ and WRITE on it, or on topics with" in lines
    assert (
        "fail  rights: the right to create topics is missing: allow CREATE on topics with the prefix 'a-', or on the c"
        in lines
    )
    status, lines = doctor(tmp_path, *given, "-c", "sasl.password=crayon")
    assert status == 1
    assert "fail  broker: " in lines
    assert "Invalid username or password" in lines
    assert "crayon" not in lines


def test_missing_rights_on_topics_and_transactions_are_told(
    secured: SecuredListeners, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """What may be seen but not used: each line says what to allow. Once it is allowed, all is in order."""
    application = unique_name("app")
    topic = f"{application}-in"
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    whole = ResourcePatternType.LITERAL

    def allow(kind: ResourceType, name: str, operation: AclOperation, pattern: ResourcePatternType = whole) -> None:
        rule = AclBinding(kind, name, pattern, "User:reader", "*", operation, AclPermissionType.ALLOW)
        admin.create_acls([rule])[rule].result(30)

    settings = secured.settings("SASL_SSL", sasl_mechanism="PLAIN", sasl_username="reader", sasl_password="pencil")
    settings["processing.guarantee"] = "exactly_once_v2"
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    given = ["--application-id", application, *words]
    allow(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    allow(ResourceType.GROUP, application, AclOperation.READ)

    def lines_with(expected: str) -> str:
        """Rights take a moment to reach the brokers."""
        return str(
            wait_until(expected, lambda: expected in (found := doctor(tmp_path, *given)[1]) and found, deadline_s=60)
        )

    found = lines_with(f"fail  rights: the rights on topic '{topic}' are not sufficient: allow READ on it")
    assert f"allow WRITE on transactional ids with the prefix '{application}-'" in found
    allow(ResourceType.TOPIC, topic, AclOperation.READ)
    for operation in (AclOperation.READ, AclOperation.WRITE):
        allow(ResourceType.TOPIC, f"{application}-", operation, ResourcePatternType.PREFIXED)
    found = lines_with("fail  rights: the right to create topics is missing: allow CREATE on topics with the prefix")
    assert "may not be seen" not in found
    allow(ResourceType.TOPIC, f"{application}-", AclOperation.CREATE, ResourcePatternType.PREFIXED)
    allow(ResourceType.TRANSACTIONAL_ID, f"{application}-", AclOperation.WRITE, ResourcePatternType.PREFIXED)
    found = lines_with("ok    rights: the rights on 1 topics are sufficient; the missing topics (1) can be created")
    assert f"ok    transactions: the right to use transactional ids with the prefix '{application}-' exists" in found
    assert "fail" not in found
