"""The client of a registry that is away, rejects the login, is not trusted, or answers nonsense."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import UnreachableError
from registry_server import RegistryServer
from streams import Avro, ConfigError, SchemaRegistry
from streams.outages import GoesBack, patient
from streams.registry.client import MOST_REFUSALS, REFUSED_S, RegistryClient
from streams.registry.schemas import NotInRegistry, RegistryAway, SchemaError, SchemaText

SCHEMA = SchemaText('"string"')


class FakeRegistry(RegistryServer):
    """A registry that answers what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[int, Any]] = []
        """The status and body of the next answers; the last one stays."""
        self.requests: list[tuple[str, str, Mapping[str, str]]] = []

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """Returns the next answer."""
        self.requests.append((method, path, headers))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as made:
        yield made


GOOD = (200, {"schema": '"string"'})
AWAY = (503, {"error_code": 50301, "message": "no leader"})


def test_a_registry_that_is_away_for_a_time_is_waited_for(fake: FakeRegistry) -> None:
    fake.answers = [AWAY, AWAY, AWAY, GOOD]
    clock = ManualClock()
    client = RegistryClient({"url": fake.url}, clock)
    assert client.by_id(7).schema == SCHEMA
    assert len(fake.requests) == 4
    assert 300 <= clock.time_ms() <= 60_000


def test_after_the_deadline_the_error_names_what_was_asked_for(fake: FakeRegistry) -> None:
    fake.answers = [AWAY]
    clock = ManualClock()
    client = RegistryClient({"url": fake.url, "timeout.ms": 5_000}, clock)
    with pytest.raises(RegistryAway, match=r"schema id 7: the registry http.* has not responded for 5 s"):
        client.by_id(7)
    assert clock.time_ms() == 5_000


def test_an_outage_is_waited_for_once_and_then_each_record_fails_at_once(fake: FakeRegistry) -> None:
    fake.answers = [AWAY]
    clock = ManualClock()
    client = RegistryClient({"url": fake.url, "timeout.ms": 5_000}, clock)
    for schema_id in (7, 8, 9):
        with pytest.raises(RegistryAway):
            client.by_id(schema_id)
    assert clock.time_ms() == 5_000
    fake.answers = [GOOD]
    assert client.by_id(7).schema == SCHEMA
    fake.answers = [AWAY, GOOD]
    assert client.by_id(8).schema == SCHEMA


def test_what_is_known_is_not_asked_for_again(fake: FakeRegistry) -> None:
    fake.answers = [(200, {"schema": '"string"'})]
    serde = Avro(registry=SchemaRegistry(fake.url, timeout_ms=0)).bind("orders", is_key=False)
    data = b"\x00\x00\x00\x00\x07\x06tea"
    assert serde.deserialize(data) == "tea"
    fake.answers = [AWAY]
    assert serde.deserialize(data) == "tea"
    with pytest.raises(RegistryAway, match=r"schema id 8 \(subject orders-value\).*has not responded"):
        serde.deserialize(b"\x00\x00\x00\x00\x08\x06tea")
    assert len(fake.requests) == 2


def test_a_registry_that_is_not_there_is_waited_for_too() -> None:
    with FakeRegistry() as gone:
        url = gone.url
    clock = ManualClock()
    with pytest.raises(RegistryAway, match="schema id 1"):
        RegistryClient({"url": url, "timeout.ms": 1_000}, clock).by_id(1)
    assert clock.time_ms() == 1_000


def test_the_next_url_is_asked_where_the_first_does_not_answer(fake: FakeRegistry) -> None:
    with FakeRegistry() as gone:
        url = gone.url
    fake.answers = [GOOD]
    assert RegistryClient({"url": f"{url},{fake.url}", "timeout.ms": 0}).by_id(1).schema == SCHEMA


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (404, "does not have the schema"),
        (409, "rejects it because it is not compatible"),
        (413, r"rejects it \(413"),
        (422, r"rejects it \(422"),
    ],
)
def test_what_would_be_answered_again_is_not_asked_again(fake: FakeRegistry, status: int, why: str) -> None:
    fake.answers = [(status, {"error_code": status * 100, "message": "no"})]
    with pytest.raises(SchemaError, match=f"subject orders-value: the registry {fake.url} {why}"):
        RegistryClient({"url": fake.url}).register("orders-value", SCHEMA)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b"<html>", "sent a response that is not from a schema registry.*check the url"),
        (200, b'{"schema": "\\"str', "sent a response that is not from a schema registry"),
        (200, {}, "sent a response that is not from a schema registry"),
        (200, [], "sent a response that is not from a schema registry"),
        (200, b"", "sent a response that is not from a schema registry"),
        (302, b"", r"is unavailable \(302"),
        (401, {"error_code": 40101, "message": "no"}, r"rejects the login \(401: no\); check basic\.auth"),
        (403, {"error_code": 40301, "message": "no"}, "rejects the login"),
        (404, b"<html>no such page</html>", r"is unavailable \(404"),
        (404, {"error": "no route"}, r"is unavailable \(404"),
        (407, b"the proxy wants a login", r"is unavailable \(407"),
        (429, {"error_code": 42901, "message": "slowly"}, r"is unavailable \(429"),
        (500, {"error_code": 50001, "message": "the store"}, r"is unavailable \(500"),
        (502, b"bad gateway", r"is unavailable \(502"),
    ],
)
def test_what_is_not_the_answer_of_a_registry_is_an_outage(
    fake: FakeRegistry, status: int, body: Any, why: str
) -> None:
    fake.answers = [(status, body)]
    client = RegistryClient({"url": fake.url, "timeout.ms": 0})
    with pytest.raises(RegistryAway, match=f"schema id 1: the registry {fake.url} {why}"):
        client.by_id(1)
    fake.answers = [GOOD]
    assert client.by_id(1).schema == SCHEMA


def test_a_refusal_is_remembered_for_some_seconds(fake: FakeRegistry) -> None:
    fake.answers = [(404, {"error_code": 40403, "message": "Schema not found"})]
    clock = ManualClock()
    client = RegistryClient({"url": fake.url}, clock)
    for _ in range(3):
        with pytest.raises(NotInRegistry, match=r"schema id 7: .* does not have the schema"):
            client.by_id(7)
    assert len(fake.requests) == 1
    fake.answers = [GOOD]
    clock.wait(REFUSED_S - 0.001)
    with pytest.raises(NotInRegistry):
        client.by_id(7)
    assert client.by_id(8).schema == SCHEMA
    clock.wait(0.001)
    assert client.by_id(7).schema == SCHEMA


def test_refusals_of_more_ids_than_are_remembered_make_room(fake: FakeRegistry) -> None:
    fake.answers = [(404, {"error_code": 40403, "message": "Schema not found"})]
    client = RegistryClient({"url": fake.url}, ManualClock())
    for number in (*range(MOST_REFUSALS + 1), 1, 0):
        with pytest.raises(NotInRegistry):
            client.by_id(number)
    assert len(fake.requests) == MOST_REFUSALS + 2


def test_a_registration_forgets_refusals(fake: FakeRegistry) -> None:
    fake.answers = [(404, {"error_code": 40403, "message": "Schema not found"}), (200, {"id": 5})]
    client = RegistryClient({"url": fake.url}, ManualClock())
    with pytest.raises(NotInRegistry):
        client.lookup("orders-value", SCHEMA)
    assert client.register("orders-value", SCHEMA).id == 5
    assert client.lookup("orders-value", SCHEMA).id == 5


class Waits:
    """A patience that waits a number of times."""

    def __init__(self, times: int) -> None:
        self.left, self.answers = times, 0

    def waits(self, error: UnreachableError) -> bool:
        self.left -= 1
        return self.left >= 0

    def answered(self) -> None:
        self.answers += 1


@pytest.mark.parametrize("outage", [AWAY, (401, {"error_code": 40101, "message": "no"}), (200, b"<html>")])
def test_a_thread_with_a_patience_of_its_own_decides_how_long_calls_wait(
    fake: FakeRegistry, outage: tuple[int, Any]
) -> None:
    client = RegistryClient({"url": fake.url}, ManualClock())
    fake.answers = [outage]
    with patient(GoesBack()), pytest.raises(RegistryAway):
        client.by_id(7)
    assert len(fake.requests) == 1
    fake.answers = [outage, outage, GOOD]
    with patient(waits := Waits(2)):
        assert client.by_id(7).schema == SCHEMA
    assert (waits.left, waits.answers) == (0, 1)


def test_logins_are_sent(fake: FakeRegistry) -> None:
    fake.answers = [GOOD]
    RegistryClient({"url": fake.url, "basic.auth.user.info": "ann:rosebud"}).by_id(1)
    RegistryClient({"url": fake.url, "bearer.auth.token": "t0k3n"}).by_id(1)
    sent = [{name.lower(): value for name, value in headers.items()}["authorization"] for *_, headers in fake.requests]
    assert sent == [f"Basic {base64.b64encode(b'ann:rosebud').decode()}", "Bearer t0k3n"]


def test_a_token_is_fetched_by_oauth(fake: FakeRegistry) -> None:
    fake.answers = [
        (200, {"access_token": "fresh", "token_type": "Bearer", "expires_in": 3600}),
        GOOD,
    ]
    settings = {
        "url": fake.url,
        "bearer.auth.client.id": "shop",
        "bearer.auth.client.secret": "rosebud",
        "bearer.auth.scope": "schemas",
        "bearer.auth.issuer.endpoint.url": f"{fake.url}/token",
    }
    assert RegistryClient(settings).by_id(1).schema == SCHEMA
    (_, path, _), (_, _, headers) = fake.requests
    assert path == "/token"
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == "Bearer fresh"


def test_a_server_without_tls_is_named_as_not_trusted(fake: FakeRegistry) -> None:
    fake.answers = [GOOD]
    url = fake.url.replace("http:", "https:")
    with pytest.raises(RegistryAway, match=r"is not trusted.* check the settings that begin with ssl\."):
        RegistryClient({"url": url}).by_id(1)


def test_a_certificate_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SchemaError, match="the client of the registry https://localhost:1 cannot be created"):
        RegistryClient({"url": "https://localhost:1", "ssl.ca.location": "/nowhere.pem"})


def test_equal_settings_share_one_client_and_serdes_have_their_own() -> None:
    first = SchemaRegistry("mock://shared", auto_register_schemas=False)
    assert first.client is SchemaRegistry("mock://shared").client
    assert first.client is not SchemaRegistry("mock://shared", timeout_ms=3).client


def test_a_forked_child_has_a_client_of_its_own() -> None:
    registry = SchemaRegistry("http://localhost:1")
    before = registry.client
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"same" if registry.client is before else b"other")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"other"
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"url": "ftp://x"}, "must start with http://"),
        ({"url": "http://ann:rosebud@x"}, "must not contain a login"),
        ({"url": "mock://x", "auto_register": True}, "does not have setting 'auto.register'; did you mean"),
        ({"url": "mock://x", "subject_name_strategy": "mine"}, "must be topic, record, topic_record or associated"),
        ({"url": "mock://x", "timeout_ms": -1}, "must be a whole number"),
        ({"url": "mock://x", "schema_ids": "footer"}, "must be prefix or header"),
        ({"url": "mock://x", "ssl.truststore.location": "a.jks"}, "as PEM files"),
        ({"url": "mock://x", "basic.auth.credentials.source": "SASL_INHERIT"}, "must be URL or USER_INFO"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as failed:
        SchemaRegistry.of(settings)
    assert "rosebud" not in str(failed.value)


def test_no_text_of_a_registry_has_its_secrets() -> None:
    registry = SchemaRegistry(
        "http://x",
        basic_auth_user_info="ann:rosebud",
        bearer_auth_token="t0k3n",
        proxy="http://ann:sled@proxy:3128",
        bearer_auth_issuer_endpoint_url="https://ann:winter@login/token?key=snow",
    )
    shown = repr(registry)
    assert [one for one in ("rosebud", "t0k3n", "sled", "winter", "snow") if one in shown] == []
    assert "proxy:3128" in shown


@pytest.mark.parametrize("url", ["ftp://ann:rosebud@x", "ann:rosebud@x:8081", "http://ann:rose/bud@x"])
def test_a_url_that_is_refused_is_shown_without_its_login(url: str) -> None:
    with pytest.raises(ConfigError) as failed:
        SchemaRegistry(url)
    assert "bud" not in str(failed.value)


def test_an_error_of_a_proxy_is_shown_without_its_login() -> None:
    settings = {"url": "http://registry", "proxy": "nonsense://ann:rosebud@proxy", "timeout.ms": 0}
    with pytest.raises((SchemaError, RegistryAway)) as failed:
        RegistryClient(settings).by_id(1)
    assert "rosebud" not in str(failed.value)


@dataclass
class Order:
    customer: str


def test_known_schemas_go_on_in_both_directions_while_the_registry_is_away(fake: FakeRegistry) -> None:
    fake.answers = [(404, {"error_code": 40401, "message": "no associations"}), (200, {"id": 5}), AWAY]
    serde = Avro(Order, registry=SchemaRegistry(fake.url, timeout_ms=1)).bind("orders", is_key=False)
    first = serde.serialize(Order("ann"))
    assert serde.serialize(Order("ann")) == first == b"\x00\x00\x00\x00\x05\x06ann"
