"""The settings that follow records: how they are read, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from last_lines import as_text
from processor_api.errors import ConfigError
from processor_api.stores.windowed import Window, Windowed
from streams.cli.main import main, parser
from streams.cli.settings_options import given_settings
from streams.config import StreamsConfig
from streams.runtime.tracing.rules import TraceRules

GIVEN: dict[str, Any] = {"application.id": "a", "bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ("a, b", ("a", "b")),
        ("a", ("a",)),
        ("", ()),
        (None, ()),
        ('["a,b", 42, null, {"id": 1}]', ("a,b", 42, None, {"id": 1})),
        (["a", 42], ("a", 42)),
        ((b"a",), (b"a",)),
    ],
)
def test_keys_are_read(given: Any, keys: tuple[Any, ...]) -> None:
    assert StreamsConfig.of({**GIVEN, "trace.keys": given}).trace_keys == keys


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"trace.keys": '["a"'}, "trace.keys starts like a JSON array but cannot be read as one"),
        ({"trace.keys": "a,,b"}, "trace.keys must not have an empty key between two commas, got 'a,,b'"),
        ({"trace.keys": {"a": 1}}, "trace.keys must be keys separated by commas, a JSON array or a list of keys"),
        ({"trace.every": 0}, "trace.every must be at least 1, got 0"),
        ({"trace.every": "x"}, "trace.every must be a whole number, got 'x'"),
        ({"trace.every": 1, "trace.keys": "a"}, "trace.keys and trace.every are both set"),
        (
            {"trace.topics": "in"},
            "trace.topics limits where records are followed, but does not choose records: set trace.keys",
        ),
        ({"trace.topics": 5, "trace.every": 1}, "trace.topics must be names separated by commas or a list of them"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StreamsConfig.of({**GIVEN, **given})
    assert wanted in str(caught.value)


def test_nothing_is_followed_unless_it_is_asked_for() -> None:
    assert TraceRules.of(StreamsConfig.of(GIVEN)) is None
    assert TraceRules.of(StreamsConfig.of({**GIVEN, "trace.every": "3"})) is not None


@pytest.mark.parametrize(
    ("keys", "found", "other"),
    [
        (["a"], "a", "b"),
        (["42"], 42, 43),
        (["a"], b"a", b"\xff"),
        ([b"\xff"], b"\xff", b"a"),
        (["a"], Windowed("a", Window(0, 10)), Windowed("b", Window(0, 10))),
        ([{"id": 1}], {"id": 1}, {"id": 2}),
        ([None], None, "None"),
        (["None"], "None", None),
    ],
)
def test_a_key_is_found_in_the_form_that_it_has_or_as_text(keys: list[Any], found: Any, other: Any) -> None:
    rules = TraceRules(keys, None, ())
    assert rules.has_key(found)
    assert not rules.has_key(other)


def test_one_in_n_takes_the_first_and_each_nth() -> None:
    rules = TraceRules((), 3, ())
    assert [rules.takes_next("in") for _ in range(7)] == [True, False, False, True, False, False, True]
    assert not rules.takes_next("internal", internal=True)


def test_the_command_has_options_for_them() -> None:
    words = ["run", "json:loads", "--trace-keys", "a,b", "--trace-topics", "in", "--trace-every", "7"]
    given = given_settings(parser().parse_args(words)).settings
    assert {name: value for name, value in given.items() if name.startswith("trace.")} == {
        "trace.keys": "a,b",
        "trace.topics": "in",
        "trace.every": "7",
    }


def test_the_command_refuses_what_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "json:loads", "--application-id", "a", "--bootstrap-servers", "b:1", "--trace-every", "0"]
    assert main(words) == 2
    assert "error: trace.every must be at least 1, got 0" in as_text(capsys.readouterr().err)
