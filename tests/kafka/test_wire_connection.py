"""One connection: versions, login, TLS, and everything that can come back in place of an answer."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.errors import RetryableError, StreamsError
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.codec import MalformedMessage
from streams.kafka.wire.connection import Connection, Deadline, connect
from streams.kafka.wire.messages import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    LEAVE_GROUP,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    ApiVersionsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    LeaveGroupRequest,
    LeavingMember,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    SupportedApi,
)
from wire_support.fake_broker import CERTIFICATES, CLOSE, HOST, FakeBroker, Request, left, server_tls
from wire_support.scram_server import ScramServer

LEAVE = LeaveGroupRequest("g", (LeavingMember("", "i", "why"),))
WELCOME = SaslHandshakeResponse(0, ())


def soon(seconds: float = 20.0) -> Deadline:
    return Deadline(seconds, SystemClock())


def dotted(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in given.items()}


def connected(broker: FakeBroker, **given: Any) -> Connection:
    settings = {"bootstrap.servers": broker.bootstrap} | dotted(given)
    return connect(broker.address, ClientSettings.of(settings), soon())


def test_a_request_gets_its_answer() -> None:
    """Several on one connection, with the client's name and ids of their own."""
    with FakeBroker({LEAVE_GROUP: [left(), left(member_code=25)]}) as broker:
        with connected(broker, client_id="app-1") as connection:
            assert connection.call(LEAVE_GROUP, LEAVE, soon()) == left()
            assert connection.call(LEAVE_GROUP, LEAVE, soon()) == left(member_code=25)
        assert broker.asked(LEAVE_GROUP) == [LEAVE, LEAVE]
        assert {request.client_id for request in broker.requests} == {"app-1"}
        assert len({request.correlation_id for request in broker.requests}) == 3


def test_the_highest_version_that_both_have_is_spoken() -> None:
    """An older broker is not told the reason, which it could not read."""
    older = ApiVersionsResponse(0, (SupportedApi(LEAVE_GROUP.key, 0, 4),), 0)
    with FakeBroker({API_VERSIONS: older, LEAVE_GROUP: left()}) as broker, connected(broker) as connection:
        connection.call(LEAVE_GROUP, LEAVE, soon())
        assert [request.version for request in broker.requests] == [3, 4]
        assert broker.asked(LEAVE_GROUP)[0].members[0].reason is None


@pytest.mark.parametrize("versions", [(0, 3), (6, 9), None])
def test_a_broker_without_a_version_in_common_is_told(versions: tuple[int, int] | None) -> None:
    """With what it must be; also if it does not have the request at all."""
    apis = (SupportedApi(LEAVE_GROUP.key, *versions),) if versions else ()
    told = pytest.raises(
        StreamsError, match=r"does not have a version of LeaveGroup from 4 to 5: it must be Kafka 2\.4"
    )
    answers = {API_VERSIONS: ApiVersionsResponse(0, apis, 0)}
    with FakeBroker(answers) as broker, connected(broker) as connection, told:
        connection.call(LEAVE_GROUP, LEAVE, soon())


def test_a_broker_before_flexible_versions_is_told() -> None:
    """It answers version 3 of ApiVersions with an error in version 0 (KIP-511)."""

    def old(request: Request) -> bytes:
        return b"\0\0\0\x10" + struct.pack(">ihihhh", request.correlation_id, 35, 1, 18, 0, 2)

    told = pytest.raises(StreamsError, match=r"does not respond like a broker of Kafka 2\.4 or later")
    with FakeBroker({API_VERSIONS: old}) as broker, told:
        connected(broker)


def test_a_broker_that_does_not_tell_its_versions_is_told() -> None:
    told = pytest.raises(StreamsError, match=r"does not report its versions: INVALID_REQUEST \(42\)")
    with FakeBroker({API_VERSIONS: ApiVersionsResponse(42, (), 0)}) as broker, told:
        connected(broker)


def wrong_id(request: Request) -> bytes:
    return request._replace(correlation_id=request.correlation_id + 1).answer(left())


@pytest.mark.parametrize(
    ("answer", "kind", "reason"),
    [
        (CLOSE, RetryableError, "closed the connection"),
        (b"\0\0", RetryableError, "closed the connection"),
        (b"\0\0\0\x0a\0\0", RetryableError, "closed the connection"),
        (wrong_id, RetryableError, "sent the response to request 2 instead of 1"),
        (b"\0\0\0\0", MalformedMessage, "to LeaveGroup cannot be read: it needs 4 more bytes, but has 0"),
        (b"\0\0\0\x02\0\0", MalformedMessage, "to LeaveGroup cannot be read: it needs 4 more bytes, but has 2"),
        (b"\0\0\0\x05\0\0\0\x01\0", MalformedMessage, "to LeaveGroup cannot be read"),
        (
            struct.pack(">i", LEAVE_GROUP.most_answer_bytes + 1),
            StreamsError,
            "announces a response of 65537 bytes to LeaveGroup",
        ),
        (b"HTTP/1.1 400", StreamsError, "security.protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x50", StreamsError, "announces a response of 352518912 bytes"),
        (b"\xff\xff\xff\xff", StreamsError, "announces a response of -1 bytes"),
    ],
)
def test_what_is_no_answer_ends_the_connection(answer: Any, kind: type, reason: str) -> None:
    """With an error that tells whether trying again may help; nothing that follows is taken for an answer."""

    with FakeBroker({LEAVE_GROUP: answer}) as broker, connected(broker) as connection:
        with pytest.raises(StreamsError, match=reason) as caught:
            connection.call(LEAVE_GROUP, LEAVE, soon())
        assert type(caught.value) is kind
        with pytest.raises(RetryableError, match=r"the connection to .* is closed"):
            connection.call(LEAVE_GROUP, LEAVE, soon())
        assert len(broker.asked(LEAVE_GROUP)) == 1


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Connection]]:
    """A broker's end, and a connection whose versions are known."""
    ours, theirs = socket.socketpair()
    with closing(theirs), Connection(ours, Address("kafka", 9092), "c") as connection:
        connection.versions = {LEAVE_GROUP.key: (0, 5)}
        yield theirs, connection


class Dripping(socket.socket):
    """Gives one byte at a time, as a slow line may."""

    def recv(self, *_: Any) -> bytes:
        return super().recv(1)


def test_an_answer_may_come_in_pieces() -> None:
    """The answer is there before the request here, which makes no difference."""
    ours, theirs = socket.socketpair()
    line = Dripping(fileno=ours.detach())
    with closing(theirs), Connection(line, Address("kafka", 9092), "c") as connection:
        connection.versions = {LEAVE_GROUP.key: (0, 5)}
        theirs.sendall(Request(LEAVE_GROUP, 5, 0, "", LEAVE, connection.address).answer(left()))
        assert connection.call(LEAVE_GROUP, LEAVE, soon()) == left()


def test_a_broker_that_does_not_answer_in_time_is_told(pair: tuple[socket.socket, Connection]) -> None:
    """Also when a part of the answer is there; the line is closed, since the rest may come later."""
    theirs, connection = pair
    theirs.send(b"\0\0\0\x20\0\0")
    with pytest.raises(RetryableError, match="kafka:9092 did not respond in time"):
        connection.call(LEAVE_GROUP, LEAVE, soon(0.05))
    assert connection.versions
    with pytest.raises(RetryableError, match=r"the connection to .* is closed"):
        connection.call(LEAVE_GROUP, LEAVE, soon())


@pytest.mark.parametrize("api", [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE], ids=lambda api: api.name)
def test_who_has_not_proved_who_it_is_cannot_send_much(api: Any) -> None:
    """Whatever it claims to be."""
    assert api.most_answer_bytes == 65536


class Jumping:
    """A clock that goes on by a second each time that it is read."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now

    def time_ms(self) -> int:
        return 0

    def wait(self, seconds: float) -> None: ...


def test_reading_an_answer_does_not_go_on_after_the_deadline(pair: tuple[socket.socket, Connection]) -> None:
    """It has as many small things as it may, which took 10 s and more to be read."""
    theirs, connection = pair
    connection.versions = {DESCRIBE_GROUPS.key: (5, 5)}
    member = DescribedGroupMember("", None, "", "", b"", b"")
    described = DescribeGroupsResponse(0, (DescribedGroup(0, "g", "", "", "", (member,) * 10_000),))
    request = DescribeGroupsRequest(("g",), False)
    answer = Request(DESCRIBE_GROUPS, 5, 0, "", request, connection.address).answer(described)

    def send() -> None:
        theirs.sendall(answer)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(RetryableError, match="kafka:9092 did not respond in time"):
        connection.call(DESCRIBE_GROUPS, request, Deadline(30.0, Jumping()))
    sender.join(30)


def test_no_time_is_left_for_a_request(pair: tuple[socket.socket, Connection]) -> None:
    """It is not sent then."""
    theirs, connection = pair
    with pytest.raises(RetryableError, match="did not respond in time"):
        connection.call(LEAVE_GROUP, LEAVE, soon(0))
    assert theirs.recv(1) == b""


def test_a_broker_that_is_not_there_is_told() -> None:
    with socket.create_server((HOST, 0)) as listener:
        address = Address(*listener.getsockname())
    with pytest.raises(RetryableError, match=f"{address} cannot be reached: Connection refused"):
        connect(address, ClientSettings((address,)), soon())


def test_a_host_that_is_not_known_is_told() -> None:
    """The name can never exist (RFC 2606)."""
    address = Address("kafka.invalid", 9092)
    with pytest.raises(RetryableError, match=r"the host of kafka\.invalid:9092 is not known"):
        connect(address, ClientSettings((address,)), soon())


def scram(server: ScramServer) -> Any:
    return lambda request: SaslAuthenticateResponse(0, None, server.answer(request.body.auth_bytes), 0)


def login(**given: Any) -> dict[str, Any]:
    user = {"sasl.username": "user", "sasl.password": "pencil", "sasl.mechanism": "PLAIN"}
    return {"security.protocol": "sasl_plaintext"} | user | dotted(given)


def test_a_login_comes_before_everything_but_the_versions() -> None:
    with FakeBroker({SASL_HANDSHAKE: WELCOME, SASL_AUTHENTICATE: SaslAuthenticateResponse(0, None, b"", 0)}) as broker:
        with connected(broker, **login()):
            pass
        assert [request.api for request in broker.requests] == [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE]
        assert broker.asked(SASL_HANDSHAKE)[0].mechanism == "PLAIN"
        assert broker.asked(SASL_AUTHENTICATE)[0].auth_bytes == b"\0user\0pencil"


def test_a_login_by_scram() -> None:
    """The password is in none of the messages."""
    server = ScramServer("SCRAM-SHA-256", "user", "pencil")
    with FakeBroker({SASL_HANDSHAKE: WELCOME, SASL_AUTHENTICATE: scram(server)}) as broker:
        with connected(broker, **login(sasl_mechanism="SCRAM-SHA-256")):
            pass
        messages = [request.auth_bytes for request in broker.asked(SASL_AUTHENTICATE)]
        assert len(messages) == 2
        assert not any(b"pencil" in message for message in messages)


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    """Its signature is wrong; nothing is asked of it."""
    server = ScramServer("SCRAM-SHA-512", "user", "pencil")
    server.server_key = b"guessed"
    told = pytest.raises(StreamsError, match="the broker did not prove that it has the password")
    with FakeBroker({SASL_HANDSHAKE: WELCOME, SASL_AUTHENTICATE: scram(server)}) as broker, told:
        connected(broker, **login(sasl_mechanism="SCRAM-SHA-512"))


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (
            {SASL_HANDSHAKE: SaslHandshakeResponse(33, ("PLAIN", "GSSAPI"))},
            r"does not accept a login by PLAIN; its sasl\.mechanism is PLAIN, GSSAPI",
        ),
        (
            {SASL_HANDSHAKE: SaslHandshakeResponse(34, ())},
            r"does not accept a login: set security\.protocol to plaintext or ssl",
        ),
        (
            {SASL_HANDSHAKE: WELCOME, SASL_AUTHENTICATE: SaslAuthenticateResponse(58, "Invalid password", b"", 0)},
            r"rejected the login by PLAIN: SASL_AUTHENTICATION_FAILED \(58\): Invalid password",
        ),
    ],
)
def test_a_refused_login_is_told(answers: Mapping[Any, Any], reason: str) -> None:
    """It is nothing to try again."""
    with FakeBroker(answers) as broker:
        with pytest.raises(StreamsError, match=reason) as caught:
            connected(broker, **login())
        assert not isinstance(caught.value, RetryableError)
        assert "pencil" not in str(caught.value)


def trusted(**given: Any) -> dict[str, Any]:
    base = {"security.protocol": "ssl", "ssl.ca.location": str(CERTIFICATES / "authority.pem")}
    return base | dotted(given)


CLIENT = {
    "ssl.certificate.location": str(CERTIFICATES / "client.pem"),
    "ssl.key.location": str(CERTIFICATES / "client.key"),
    "ssl.key.password": "of-the-key",
}


@pytest.mark.parametrize(
    ("certificate", "settings"),
    [
        ("broker", {}),
        ("elsewhere", {"ssl.endpoint.identification.algorithm": "none"}),
        ("elsewhere", {"ssl.ca.location": "", "enable.ssl.certificate.verification": False}),
        ("elsewhere", {"ssl.endpoint.identification.algorithm": "none", "ssl.crl.location": "revoked.pem"}),
    ],
)
def test_a_certificate_that_is_trusted(certificate: str, settings: dict[str, Any]) -> None:
    """By its authority, or because nothing is checked."""
    if "ssl.crl.location" in settings:
        settings = settings | {"ssl.crl.location": str(CERTIFICATES / "revoked.pem")}
    with (
        FakeBroker({LEAVE_GROUP: left()}, tls=server_tls(certificate)) as broker,
        connected(broker, **(trusted() | settings)) as connection,
    ):
        assert connection.call(LEAVE_GROUP, LEAVE, soon()) == left()


def test_authorities_may_be_in_a_folder(tmp_path: Path) -> None:
    """Each in a file that is named by the hash of its subject, as ``openssl rehash`` makes them."""
    (tmp_path / "aabdaf6b.0").write_bytes((CERTIFICATES / "authority.pem").read_bytes())
    with FakeBroker({}, tls=server_tls()) as broker:
        with connected(broker, **(trusted() | {"ssl.ca.location": str(tmp_path)})):
            pass
        assert broker.asked(API_VERSIONS)


@pytest.mark.parametrize(
    ("certificate", "settings", "reason"),
    [
        ("broker", {"ssl.ca.location": "another-authority.pem"}, "unable to get local issuer certificate"),
        ("elsewhere", {}, "certificate is not valid for '127.0.0.1'"),
        ("broker", {"ssl.crl.location": "revoked.pem"}, "certificate revoked"),
    ],
)
def test_a_certificate_that_is_not_trusted_is_told(certificate: str, settings: dict[str, str], reason: str) -> None:
    """It is nothing to try again."""
    given = {name: str(CERTIFICATES / file) for name, file in settings.items()}
    with FakeBroker({}, tls=server_tls(certificate)) as broker:
        with pytest.raises(
            StreamsError, match=f"the certificate of {broker.address} is not trusted: .*{reason}"
        ) as caught:
            connected(broker, **(trusted() | given))
        assert not isinstance(caught.value, RetryableError)
        assert broker.requests == []


def test_a_certificate_of_our_own_is_shown_to_a_broker_that_wants_one() -> None:
    with FakeBroker({}, tls=server_tls(client_authority="authority")) as broker:
        with connected(broker, **trusted(), **CLIENT):
            pass
        assert broker.asked(API_VERSIONS)


def test_a_broker_that_wants_a_certificate_and_gets_none_is_told() -> None:
    """Under TLS 1.3 it says so after the handshake, in place of the first answer."""
    with FakeBroker({}, tls=server_tls(client_authority="authority")) as broker:
        with pytest.raises(
            StreamsError, match=r"rejected the certificate of this client, or requires one: .*CERTIFICATE_REQUIRED"
        ) as caught:
            connected(broker, **trusted())
        assert not isinstance(caught.value, RetryableError)


def test_a_listener_without_tls_is_told() -> None:
    """To it the greeting is a request of several hundred megabytes."""
    with (
        FakeBroker({}) as broker,
        pytest.raises(RetryableError, match=r"security\.protocol is not that of its listener"),
    ):
        connected(broker, **trusted())


def test_a_listener_with_tls_is_told() -> None:
    """It answers with an alert, or not at all."""
    with FakeBroker({}, tls=server_tls()) as broker, pytest.raises(StreamsError, match=r"security\.protocol"):
        connected(broker)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_that_cannot_be_one_is_told(host: str) -> None:
    """It never will."""
    address = Address(host, 9092)
    with pytest.raises(StreamsError, match="is not the name of a host") as caught:
        connect(address, ClientSettings((address,)), soon())
    assert not isinstance(caught.value, RetryableError)
