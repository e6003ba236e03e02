"""What a connection takes from librdkafka's settings: addresses, login and TLS."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ConfigError, StreamsError, UserCodeError
from streams.kafka.wire.client_settings import USUAL_PLACES, Address, ClientSettings, bootstrap_servers, tls_context
from streams.kafka.wire.sasl import OAuthBearerLogin, PlainLogin, ScramLogin, login_of
from wire_support.fake_broker import CERTIFICATES


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("kafka:9092", [("kafka", 9092)]),
        ("a:1, b:2 ,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("SASL_SSL://a:1,PLAINTEXT://[::1]:2", [("a", 1), ("::1", 2)]),
        ("[2001:db8::1]", [("2001:db8::1", 9092)]),
        ("a:1,", [("a", 1)]),
        ("a:65535", [("a", 65535)]),
    ],
)
def test_bootstrap_servers_are_read_as_librdkafka_does(given: str, addresses: list[tuple[str, int]]) -> None:
    """Protocols in front are passed over; the port may be left out."""
    assert list(bootstrap_servers({"bootstrap.servers": given})) == addresses


@pytest.mark.parametrize("given", ["", " , ", ":9092", "a:b", "a:65536", "[::1", "[::1]x:9", "a:\N{SUPERSCRIPT TWO}"])
def test_what_is_no_address_is_told(given: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        bootstrap_servers({"bootstrap.servers": given})


def test_addresses_are_shown_as_they_are_given() -> None:
    """Those of IPv6 with brackets."""
    assert (str(Address("kafka", 9092)), str(Address("::1", 9092))) == ("kafka:9092", "[::1]:9092")


SERVERS = {"bootstrap.servers": "kafka:9092"}
USER = {"sasl.username": "u", "sasl.password": "p"}


@pytest.mark.parametrize(
    ("protocol", "secured", "login"),
    [
        (None, False, False),
        ("plaintext", False, False),
        ("SSL", True, False),
        ("sasl_plaintext", False, True),
        ("SASL_SSL", True, True),
    ],
)
def test_the_protocol_says_what_is_done(protocol: str | None, secured: bool, login: bool) -> None:
    """In either case of letters; settings that it does not need are passed over."""
    given = SERVERS | USER | {"sasl.mechanism": "PLAIN", "security.protocol": protocol, "fetch.min.bytes": 1}
    found = ClientSettings.of(given)
    assert (found.tls is not None, found.login is not None) == (secured, login)


def test_an_unknown_protocol_is_told() -> None:
    with pytest.raises(ConfigError, match=r"security\.protocol must be one of .*; got 'tls'"):
        ClientSettings.of(SERVERS | {"security.protocol": "tls"})


def test_the_client_id_is_taken() -> None:
    """Brokers log it and have quotas for it."""
    assert ClientSettings.of(SERVERS | {"client.id": "app-1"}).client_id == "app-1"
    assert ClientSettings.of(SERVERS).client_id == "streams"


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_logins_with_a_password(name: str) -> None:
    """Both names of the setting; the mechanism in either case of letters."""
    assert login_of({name: "PLAIN", **USER}) == PlainLogin("u", "p")
    found = login_of({name: "scram-sha-512", **USER})
    assert isinstance(found, ScramLogin)
    assert (found.mechanism, found.username, found.password) == ("SCRAM-SHA-512", "u", "p")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.password": "hunter2"}, r"sasl\.username is missing"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u"}, r"sasl\.password is missing"),
        ({"sasl.mechanism": "GSSAPI"}, "Kerberos"),
        ({}, "Kerberos"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, "needs oauth_cb"),
        ({"sasl.mechanism": "DIGEST-MD5"}, "must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
    ],
)
def test_a_login_that_is_not_possible_is_told(given: Mapping[str, Any], reason: str) -> None:
    """Kerberos is what librdkafka takes when no mechanism is given."""
    with pytest.raises(ConfigError, match=reason) as caught:
        login_of(given)
    assert "hunter2" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(PlainLogin("u", "hunter2"))
    assert "hunter2" not in repr(OAuthBearerLogin(lambda _: ("t", 0), "hunter2"))


def test_a_plain_login_is_one_message() -> None:
    """RFC 4616, without an identity to act for."""
    sent: list[bytes] = []
    PlainLogin("us\u00e9r", "p,=").log_in(lambda data: sent.append(data) or b"")
    assert sent == [b"\0us\xc3\xa9r\0p,="]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("t.0k", 1e12), b"n,,\x01auth=Bearer t.0k\x01\x01"),
        (("t.0k", 1e12, "me"), b"n,,\x01auth=Bearer t.0k\x01\x01"),
        (("t.0k", 1e12, "me", {"a": "1", "b": "2"}), b"n,,\x01auth=Bearer t.0k\x01a=1\x01b=2\x01\x01"),
    ],
)
def test_a_token_is_one_message(given: tuple[Any, ...], message: bytes) -> None:
    """RFC 7628; extensions by KIP-342. The function gets the setting that is meant for it."""
    sent: list[bytes] = []
    asked: list[Any] = []
    login = login_of(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.config": "scope=x",
            "oauth_cb": lambda config: asked.append(config) or given,
        }
    )
    login.log_in(lambda data: sent.append(data) or b"")
    assert (asked, sent) == (["scope=x"], [message])


def test_a_refused_token_is_told_with_the_reason() -> None:
    """The reason comes as a challenge, which is to be acknowledged before the broker fails the login."""
    sent: list[bytes] = []

    def exchange(data: bytes) -> bytes:
        sent.append(data)
        if len(sent) == 2:
            raise StreamsError("refused")
        return b'{"status":"invalid_token"}'

    with pytest.raises(StreamsError, match=r'the broker rejected the token: \{"status":"invalid_token"\}') as caught:
        OAuthBearerLogin(lambda _: ("t.0k", 0)).log_in(exchange)
    assert sent[1] == b"\x01"
    assert "t.0k" not in str(caught.value)


def test_a_function_that_gives_no_token_is_told() -> None:
    def oauth_cb(_: Any) -> tuple[Any, ...]:
        raise ValueError("no network")

    with pytest.raises(UserCodeError, match="oauth_cb did not return a token: no network"):
        OAuthBearerLogin(oauth_cb).log_in(lambda _: b"")


def path(name: str) -> str:
    return str(CERTIFICATES / name)


def text(name: str) -> str:
    return (CERTIFICATES / name).read_text()


def test_certificates_are_checked_unless_told_otherwise() -> None:
    """As librdkafka does: with the host's name, and either can be switched off, given as such or as text."""
    checks = {
        (None, None): (True, ssl.CERT_REQUIRED),
        ("https", True): (True, ssl.CERT_REQUIRED),
        ("none", True): (False, ssl.CERT_REQUIRED),
        ("https", False): (False, ssl.CERT_NONE),
        ("https", "False"): (False, ssl.CERT_NONE),
        ("https", "no"): (True, ssl.CERT_REQUIRED),
    }
    for (names, verification), expected in checks.items():
        given = {
            "ssl.endpoint.identification.algorithm": names,
            "enable.ssl.certificate.verification": verification,
        }
        context = tls_context({name: value for name, value in given.items() if value is not None})
        assert (context.check_hostname, context.verify_mode) == expected


def test_authorities_are_read_from_a_file_a_text_or_the_system() -> None:
    """Those that are given replace the system's."""
    both = tls_context({"ssl.ca.location": path("authority.pem"), "ssl.ca.pem": text("another-authority.pem")})
    assert authorities(both) == ["another-authority", "authority"]
    assert authorities(tls_context({"ssl.ca.pem": text("authority.pem")})) == ["authority"]
    system = authorities(tls_context({}))
    assert "authority" not in system
    assert authorities(tls_context({"ssl.ca.location": "probe"})) == system


def test_the_systems_authorities_are_those_openssl_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that was built for another place of them looks where systems usually keep them, as librdkafka does."""
    monkeypatch.setenv("SSL_CERT_FILE", path("authority.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert authorities(tls_context({})) == ["authority"]
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    usual = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    known = [place for place in USUAL_PLACES if Path(place).exists()]
    if known:
        usual.load_verify_locations(known[0])
    assert authorities(tls_context({})) == authorities(usual)
    (tmp_path / "a-hash.0").touch()
    assert authorities(tls_context({})) == []


def authorities(context: ssl.SSLContext) -> list[str]:
    subjects = [dict(part[0] for part in one["subject"]) for one in context.get_ca_certs()]
    return sorted(str(subject.get("commonName")) for subject in subjects)


def test_a_certificate_of_our_own_is_read_from_files_or_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts go through files that are gone afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    password = {"ssl.key.password": "of-the-key"}
    texts = {"ssl.certificate.pem": text("client.pem"), "ssl.key.pem": text("client.key")}
    tls_context(texts | password)
    with pytest.raises(ConfigError, match=r"^ssl\.certificate\.pem with its key cannot be used"):
        tls_context(texts)
    assert list(tmp_path.iterdir()) == []
    files = {"ssl.certificate.location": path("client.pem"), "ssl.key.location": path("client.key")}
    tls_context(files | password)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ssl.ca.location": "/no/such.pem"}, r"ssl\.ca\.location '/no/such.pem' cannot be used: No such file"),
        ({"ssl.ca.location": path("broker.key")}, r"ssl\.ca\.location .* cannot be used: NO_CERTIFICATE"),
        ({"ssl.ca.pem": "hunter2"}, r"ssl\.ca\.pem cannot be used"),
        ({"ssl.crl.location": "/no/such.pem"}, r"ssl\.crl\.location '/no/such.pem' cannot be used: No such file"),
        ({"ssl.certificate.location": path("client.pem"), "ssl.key.location": "/no"}, "No such file"),
        (
            {"ssl.certificate.location": path("client.pem"), "ssl.key.location": path("broker.key")},
            r"ssl\.certificate\.location with its key cannot be used: KEY_VALUES_MISMATCH",
        ),
        ({"ssl.certificate.location": path("client.pem"), "ssl.key.location": path("client.key")}, "cannot be used"),
        (
            {
                "ssl.certificate.location": path("client.pem"),
                "ssl.key.location": path("client.key"),
                "ssl.key.password": "hunter2",
            },
            "cannot be used",
        ),
        ({"ssl.keystore.location": "a.p12"}, r"ssl\.keystore\.location works for librdkafka only.*PKCS#12"),
        ({"ssl.sigalgs.list": "RSA+SHA256"}, r"ssl\.sigalgs\.list works for librdkafka only"),
        ({"ssl.cipher.suites": "NONSENSE"}, r"ssl\.cipher\.suites does not have a cipher"),
    ],
)
def test_a_setting_of_tls_that_cannot_be_had_is_told(given: Mapping[str, Any], reason: str) -> None:
    """By its name, never with a password."""
    with pytest.raises(ConfigError, match=reason) as caught:
        tls_context(given)
    assert "hunter2" not in str(caught.value)
