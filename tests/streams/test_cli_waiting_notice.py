"""A command that waits says so, again and again, and no longer than it waits."""

from collections.abc import Iterator
from queue import Queue

from streams.cli.output.waiting_notice import WaitingNotice, with_notice

PATIENCE_S = 30


def test_it_writes_while_there_is_no_answer() -> None:
    lines: Queue[str] = Queue()
    with WaitingNotice("the broker", first_s=0.01, again_s=0.01, write=lines.put) as notice:
        assert [lines.get(timeout=PATIENCE_S) for _ in range(3)] == ["no response for 0 s: waiting for the broker"] * 3
        notice.answered()
        assert lines.get(timeout=PATIENCE_S).startswith("no response for ")
    written = lines.qsize()
    assert not notice._thread.is_alive()
    assert lines.qsize() == written


def test_it_is_silent_while_there_are_answers() -> None:
    lines: Queue[str] = Queue()
    with WaitingNotice("the broker", first_s=PATIENCE_S, write=lines.put) as notice:
        for _ in range(100):
            notice.answered()
    assert lines.empty()


def test_an_input_that_is_silent_is_told_of_once() -> None:
    """As that of `tail -f` on a file to which nobody writes."""
    said: Queue[str] = Queue()

    def silent() -> Iterator[bytes]:
        assert said.get(timeout=PATIENCE_S).startswith("no input yet: waiting for lines on standard input")
        yield b"first"
        yield b"second"

    assert list(with_notice(silent(), after_s=0.01, write=said.put)) == [b"first", b"second"]
    assert said.empty()


def test_an_input_that_speaks_or_ends_is_not_told_of() -> None:
    said: Queue[str] = Queue()
    lines = with_notice([b"first"], after_s=PATIENCE_S, write=said.put)
    assert next(lines) == b"first"
    assert list(lines) == []
    assert list(with_notice([], after_s=PATIENCE_S, write=said.put)) == []
    assert said.empty()
