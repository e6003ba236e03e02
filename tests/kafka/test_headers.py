"""What headers may be sent: one rule in front of every client (semantics 150)."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from processor_api.record import Headers
from streams.kafka.headers import UnsendableHeaders, mended, sendable


class Name(enum.StrEnum):
    TRACE = "trace"

    def __str__(self) -> str:
        return "\ud800"


@pytest.mark.parametrize(
    "headers",
    [[], [("a", b"1"), ("a", None)], [("größe", b"")], [("", b"1")], Headers([("a", b"1")]), [("\U0001f600", b"")]],
)
def test_headers_as_they_should_be_are_given_on(headers: Any) -> None:
    """The same list, the first time and each time after it."""
    assert sendable(headers) == headers
    assert sendable(headers) is headers or not headers


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ((("a", b"1"),), [("a", b"1")]),
        ([["a", b"1"]], [("a", b"1")]),
        ([("a", "größe")], [("a", "größe".encode())]),
        ([("a", "x\0y")], [("a", b"x\0y")]),
        ([("a", bytearray(b"1"))], [("a", b"1")]),
        ([("a", memoryview(b"1"))], [("a", b"1")]),
        ([(Name.TRACE, b"1")], [("trace", b"1")]),
    ],
)
def test_other_forms_become_pairs_of_text_and_bytes(given: Any, sent: Any) -> None:
    assert sendable([("trace", b"")]) == [("trace", b"")]  # known: an enumeration is equal to it
    found = sendable(given)
    assert found == sent
    assert {type(name) for name, _ in found} == {str}


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([("\ud800", b"1")], "half of a surrogate pair"),
        ([("fine", b"1"), ("\udc80x", b"1")], "half of a surrogate pair"),
        ([("a\0b", b"1")], "NUL"),
        ([(None, b"1")], "must be a string, got NoneType"),
        ([(b"a", b"1")], "must be a string, got bytes"),
        ([([], b"1")], "must be a string, got list"),
        ([("a", 1)], "bytes, a string or None, got int"),
        ([("a", "\ud800")], "half of a surrogate pair"),
        ([("a", b"1", 2)], "a pair"),
        ([("a",)], "a pair"),
        (["ab"], "a pair"),
        ([None], "a pair"),
        ({"a": b"1"}, "a list of pairs"),
        (iter([("a", b"1")]), "a list of pairs"),
        (7, "a list of pairs"),
    ],
)
def test_what_no_client_can_send_is_refused_with_the_reason(headers: Any, why: str) -> None:
    for _ in range(2):
        with pytest.raises(UnsendableHeaders, match=why):
            sendable(headers)
    for name, value in mended(headers):
        assert name.encode()
        assert type(value) in (bytes, type(None))


def test_what_a_dead_letter_shows_is_mended() -> None:
    """Question marks as Java's client writes; what is no header is left out."""
    assert mended([("a\ud800", b"1"), ("b\0", None), ("c", 7), ("d", "\ud800"), None, (8, b"2")]) == [  # type: ignore[list-item]
        ("a?", b"1"),
        ("b?", None),
        ("c", b"int"),
        ("d", b"?"),
        ("8", b"2"),
    ]


def test_names_made_of_data_are_not_kept_for_ever() -> None:
    from streams.kafka import headers as module

    for number in range(5_000):
        sendable([(f"name-{number}", b"1")])
    assert len(module._good) <= module._MOST_NAMES
