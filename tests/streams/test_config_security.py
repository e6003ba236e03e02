"""TLS, logins and tokens reach every client, and no secret is ever shown."""

from __future__ import annotations

import logging
import pprint
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bad_input_support.rows import run_python
from processor_api.errors import ConfigError, StreamsError
from streams.config import StreamsConfig, clients
from streams.config.client_properties import ALIASES, PROPERTIES
from streams.config.client_settings import CALLBACKS
from streams.config.secrets import is_secret
from streams.kafka.confluent import ConfluentClients
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.sasl import OAuthBearerLogin, PlainLogin
from wire_support.fake_broker import CERTIFICATES

BASE = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1"}
SECRET = "hunter2-of-the-user"
STARTS = ("ssl.", "sasl.", "security.", "https.", "enable.ssl.", "enable.sasl.")
SECURITY = [name for name in PROPERTIES if name.startswith(STARTS) and name not in ALIASES]
SECRETS = [name for name in PROPERTIES if is_secret(name)]
MAKERS: dict[str, Callable[[StreamsConfig], dict[str, Any]]] = {
    "main.consumer.": lambda config: clients.main_consumer(config, "c", "instance"),
    "restore.consumer.": lambda config: clients.restore_consumer(config, "c"),
    "global.consumer.": lambda config: clients.global_consumer(config, "c"),
    "producer.": lambda config: clients.producer(config, "p", "t" if config.exactly_once else None),
    "admin.": lambda config: clients.admin(config, "a"),
}


def some_value(name: str) -> Any:
    known = PROPERTIES[name]
    text = f"/of {name}"  # a path that is not absolute would be made so
    return {"bool": True, "int": known.low, "choice": (known.choices or ("",))[-1]}.get(known.kind, text)


def token(_: Any) -> tuple[str, float]:
    return SECRET, 0.0


@pytest.mark.parametrize("client", MAKERS)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_every_setting_of_security_reaches_every_client(client: str, guarantee: str) -> None:
    """Given once, without a prefix; the callback is the very function."""
    given = {name: some_value(name) for name in SECURITY}
    config = StreamsConfig.of({**BASE, "processing.guarantee": guarantee, **given, "oauth_cb": token})
    found = MAKERS[client](config)
    assert {name: found.get(name) for name in given} == given
    assert found["oauth_cb"] is token
    assert len(given) > 40


@pytest.mark.parametrize("client", MAKERS)
def test_a_client_may_have_a_login_of_its_own(client: str) -> None:
    given = {
        "sasl.username": "all",
        "sasl.password": "x",
        f"{client}sasl.username": "own",
        f"{client}sasl.password": "y",
    }
    config = StreamsConfig.of({**BASE, **given})
    for other, make in MAKERS.items():
        found = make(config)
        assert (found["sasl.username"], found["sasl.password"]) == (("own", "y") if other == client else ("all", "x"))


def test_callbacks_of_librdkafka_are_known() -> None:
    assert "oauth_cb" in CALLBACKS
    with pytest.raises(ConfigError, match="oauth_cb must be a function"):
        StreamsConfig.of({**BASE, "oauth_cb": "token"})


def test_our_own_connection_takes_them_from_the_consumer() -> None:
    """It is what takes static members out of their group, and what `streams doctor` asks by."""
    common = {**BASE, "security.protocol": "sasl_ssl", "ssl.ca.location": str(CERTIFICATES / "authority.pem")}
    password = {"sasl.mechanism": "PLAIN", "sasl.username": "user", "sasl.password": SECRET}
    found = ClientSettings.of(clients.main_consumer(StreamsConfig.of({**common, **password}), "c"))
    assert found.tls is not None
    assert found.login == PlainLogin("user", SECRET)
    assert SECRET not in repr(found)
    tokens = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token, "sasl.oauthbearer.config": SECRET}
    found = ClientSettings.of(clients.main_consumer(StreamsConfig.of({**common, **tokens}), "c"))
    assert isinstance(found.login, OAuthBearerLogin)
    assert (found.login.oauth_cb, found.login.config) == (token, SECRET)
    assert SECRET not in repr(found)


def test_librdkafka_takes_them() -> None:
    """Certificates, a key with a password and a login; without a connection."""
    given = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "user",
        "sasl.password": SECRET,
        "ssl.ca.location": str(CERTIFICATES / "authority.pem"),
        "ssl.certificate.location": str(CERTIFICATES / "client.pem"),
        "ssl.key.location": str(CERTIFICATES / "client.key"),
        "ssl.key.password": "of-the-key",
        "log_level": 0,
    }
    config, made = StreamsConfig.of({**BASE, **given}), ConfluentClients()
    for prefix in ("main.consumer.", "restore.consumer.", "global.consumer."):
        made.consumer(MAKERS[prefix](config)).close()
    made.producer(MAKERS["producer."](config)).close()
    made.admin(MAKERS["admin."](config)).close()


# ---------------------------------------------------------------------- secrets


def test_the_names_of_secrets_are_known() -> None:
    """A new setting of librdkafka with such a name has to be looked at."""
    words = ("password", "secret", "passphrase", "token", "credential", "private")
    suspects = {name for name in PROPERTIES if any(word in name for word in words)}
    open_ones = {
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.client.credentials.client.id",
    }
    assert suspects - set(SECRETS) == open_ones
    others = {"oauth_cb", "sasl.kerberos.kinit.cmd", "sasl.oauthbearer.extensions"}
    assert {name for name in others if not is_secret(name) or not is_secret(f"producer.{name}")} == set()


@pytest.mark.parametrize("prefix", ["", "consumer.", "producer.", "admin.", "main.consumer."])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_in_no_text_of_a_configuration(name: str, prefix: str) -> None:
    config = StreamsConfig.of({**BASE, f"{prefix}{name}": SECRET})
    texts = [repr(config), str(config), f"{config}", pprint.pformat(config), *config.shown().values()]
    texts += [repr(config.model_dump()), config.model_dump_json(warnings=False), repr(vars(config)), repr(dict(config))]
    assert [text for text in texts if SECRET in text] == []
    assert config.dotted()[f"{prefix}{name}"] == SECRET


@pytest.mark.parametrize("given", [{SECRET: 1}, SECRET.encode(), object()])
@pytest.mark.parametrize("name", [*SECRETS, "consumer.sasl.password", "sasl.pasword", "sasl_password"])
def test_a_secret_that_is_refused_is_in_no_error(name: str, given: Any) -> None:
    """Nor in its traceback, which a crash report may carry."""
    with pytest.raises(ConfigError) as caught:
        StreamsConfig.of({**BASE, name: given})
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    known = name.replace("_", ".")
    unknown = "sasl.pasword is not a setting, did you mean sasl.password?"
    assert caught.value.message == (unknown if name == "sasl.pasword" else f"{known} must be a string, got ********")


class Token:
    """A function of the user's that would show what it holds."""

    def __call__(self, _: Any) -> tuple[str, float]:
        return SECRET, 0.0

    def __repr__(self) -> str:
        return f"Token({SECRET})"


def test_a_function_that_gives_tokens_is_not_shown() -> None:
    config = StreamsConfig.of({**BASE, "oauth_cb": Token(), "consumer.oauth_cb": Token()})
    texts = [repr(config), *config.shown().values(), repr(config.model_dump()), repr(vars(config))]
    assert [text for text in texts if SECRET in text] == []
    with pytest.raises(ConfigError, match=r"^oauth_cb must be a function, got \*{8}$") as caught:
        StreamsConfig.of({**BASE, "oauth_cb": SECRET})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_what_pydantic_says_shows_no_input() -> None:
    config = StreamsConfig.of({**BASE, "sasl.password": SECRET})
    with pytest.raises(ValidationError, match="frozen") as caught:
        config.clients = {"sasl.password": SECRET}  # type: ignore[misc]
    assert SECRET not in str(caught.value)
    for given in ({**BASE, "sasl.password": object(), "clients": {SECRET: 1}}, {"sasl_password": SECRET}):
        with pytest.raises((ConfigError, ValidationError)) as refused:
            StreamsConfig.model_validate(given)
        assert SECRET not in str(refused.value).replace(f"{SECRET} is not a setting", "")


# ---------------------------------------------------------------------- warnings


CLEAR = "sends the password unencrypted"
UNCHECKED = "enable.ssl.certificate.verification is false"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, CLEAR),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "plain"}, CLEAR),
        (
            {
                "security.protocol": "sasl_ssl",
                "producer.security.protocol": "sasl_plaintext",
                "sasl.mechanism": "PLAIN",
            },
            CLEAR,
        ),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}, "sends the token unencrypted"),
        ({"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"}, UNCHECKED),
        ({"security.protocol": "sasl_ssl", "admin.enable.ssl.certificate.verification": False}, UNCHECKED),
        ({"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": ""}, "identification.algorithm is off"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-256"}, None),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, None),
        ({"security.protocol": "plaintext", "enable.ssl.certificate.verification": "false"}, None),
        ({}, None),
    ],
)
def test_what_is_open_to_others_is_warned_of_once(
    given: dict[str, Any], expected: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """However many clients have it."""
    user = {"sasl.username": "u", "sasl.password": SECRET} if "sasl.mechanism" in given else {}
    StreamsConfig.of({**BASE, **user, **given})
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == int(expected is not None)
    assert expected is None or expected in found[0]
    assert SECRET not in caplog.text


def test_workers_leave_warnings_to_their_supervisor(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def topology(): raise SystemExit(0)\n")
    words = ("-c", "security.protocol=ssl", "-c", "enable.ssl.certificate.verification=false", "--workers", "3")
    where = ("--application-id", "a", "--bootstrap-servers", "127.0.0.1:1", "-c", f"state.dir={tmp_path}")
    found = run_python(["-m", "streams", "run", "app:topology", *where, *words], tmp_path)
    assert found.err.count("worker started") == 3
    assert found.err.count(UNCHECKED) == 1


def test_a_client_that_cannot_be_made_does_not_tell_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka complains of a key that is none."""
    config = StreamsConfig.of(
        {**BASE, "security.protocol": "ssl", "ssl.key.pem": SECRET, "ssl.key.password": SECRET, "sasl.password": SECRET}
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(StreamsError, match=r"ssl\.key\.pem failed") as caught:
        ConfluentClients().consumer(MAKERS["main.consumer."](config))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in caplog.text


@pytest.mark.parametrize("words", [("config", "show"), ("doctor",), ("run", "app:topology", "--log-level", "debug")])
def test_no_command_shows_a_secret(words: tuple[str, ...], tmp_path: Path) -> None:
    """Here all of them come from a file; the run is refused by its missing key."""
    (tmp_path / "app.py").write_text(
        "from streams import *\n"
        "def topology(): return Topology().add_source('in', 'a', key_serde='bytes', value_serde='bytes')\n"
    )
    lines = [f"{name}={SECRET}" for name in ("sasl.password", "ssl.key.password", "ssl.keystore.password")]
    lines += ["security.protocol=sasl_ssl", "sasl.mechanism=PLAIN", "sasl.username=user", "ssl.key.location=/none"]
    (tmp_path / "app.properties").write_text("\n".join([*lines, "application.id=a", "bootstrap.servers=127.0.0.1:1"]))
    words = (*words, "--config", "app.properties", "-c", f"state.dir={tmp_path}")
    found = run_python(["-m", "streams", *words], tmp_path)
    assert SECRET not in found.out + found.err
    assert ("Traceback" in found.err) is ("--log-level" in words)
    if words[0] == "config":
        assert found.out.count("********") == 3
    else:
        assert found.status == 1, found.err
