"""Login by SCRAM: by the example of its RFC, against a server written to the RFC, and against servers that lie."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_api.errors import StreamsError
from streams.kafka.wire.sasl import ScramLogin
from wire_support.scram_server import ScramServer

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


def test_the_example_of_rfc_7677_comes_out() -> None:
    """Message by message."""
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    talk = {
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO": f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=": (
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        ),
    }
    sent = []

    def exchange(message: bytes) -> bytes:
        sent.append(message.decode())
        return talk[sent[-1]].encode()

    ScramLogin("SCRAM-SHA-256", "user", "pencil", lambda: "rOprNGfwEbeRWgbNEkqO").log_in(exchange)
    assert sent == list(talk)


@settings(max_examples=25)
@given(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), NAMES, NAMES)
def test_user_and_password_may_have_any_characters(mechanism: str, username: str, password: str) -> None:
    """Also commas and equals signs, which separate the parts of a message."""
    server = ScramServer(mechanism, username, password)
    ScramLogin(mechanism, username, password).log_in(server.answer)


def test_a_wrong_password_is_told() -> None:
    server = ScramServer("SCRAM-SHA-512", "user", "pencil")
    with pytest.raises(StreamsError, match="rejected the login of 'user': invalid-proof") as caught:
        ScramLogin("SCRAM-SHA-512", "user", "crayon").log_in(server.answer)
    assert "crayon" not in str(caught.value)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    """It answers the proof with a signature, but not with the right one."""
    server = ScramServer("SCRAM-SHA-256", "user", "pencil")
    server.server_key = b"guessed"
    with pytest.raises(StreamsError, match="did not prove that it has the password"):
        ScramLogin("SCRAM-SHA-256", "user", "pencil").log_in(server.answer)


def altered(change: Callable[[str], str | bytes], when: int) -> Callable[[bytes], bytes]:
    """A server whose answer number ``when`` is changed."""
    server = ScramServer("SCRAM-SHA-256", "user", "pencil")
    answers = iter(range(2))

    def exchange(message: bytes) -> bytes:
        answer = server.answer(message)
        if next(answers) != when:
            return answer
        found = change(answer.decode())
        return found if isinstance(found, bytes) else found.encode()

    return exchange


@pytest.mark.parametrize(
    ("when", "change", "reason"),
    [
        (0, lambda answer: "r=theirs" + answer[2:], "another nonce than that of this client"),
        (0, lambda answer: "s=c2FsdA==,i=4096", "another nonce than that of this client"),
        (0, lambda answer: answer.replace("theirs,", ","), "did not extend the nonce"),
        (0, lambda answer: f"m=x,{answer}", "an extension that is not supported"),
        (0, lambda answer: f"{answer},m=x", "an extension that is not supported"),
        (0, lambda answer: f"{answer},i=8192", "not SCRAM"),
        (1, lambda answer: f"{answer},m=", "an extension that is not supported"),
        (0, lambda answer: answer.replace("i=4096", "i=4095"), "requires '4095' iterations"),
        (0, lambda answer: answer.replace("i=4096", "i=2000000000"), "requires '2000000000' iterations"),
        (0, lambda answer: answer.replace("i=4096", "i=-1"), "requires '-1' iterations"),
        (0, lambda answer: answer.replace("s=c2FsdA==", "s=c2Fsd"), "not SCRAM"),
        (0, lambda answer: answer.replace("s=c2FsdA==", "s=c2F!sdA=="), "not SCRAM"),
        (0, lambda answer: b"\xff\xfe", "not SCRAM"),
        (0, lambda answer: "", "another nonce than that of this client"),
        (1, lambda answer: "", "did not prove"),
        (1, lambda answer: "v=" + base64.b64encode(b"x" * 32).decode(), "did not prove"),
        (1, lambda answer: answer.replace("v=", "v=\N{DEGREE SIGN}"), "not SCRAM"),
        (1, lambda answer: "e=other-error", "other-error"),
    ],
)
def test_what_no_honest_server_says_is_refused(when: int, change: Callable[[str], str | bytes], reason: str) -> None:
    """Before the password is proved to it, if it is the first answer."""
    with pytest.raises(StreamsError, match=reason):
        ScramLogin("SCRAM-SHA-256", "user", "pencil").log_in(altered(change, when))


def test_a_nonce_is_never_used_twice() -> None:
    """Else an old proof could be replayed."""
    login = ScramLogin("SCRAM-SHA-256", "user", "pencil")
    assert len({login.make_nonce() for _ in range(100)}) == 100


def test_the_password_is_not_shown() -> None:
    assert "pencil" not in repr(ScramLogin("SCRAM-SHA-256", "user", "pencil"))
