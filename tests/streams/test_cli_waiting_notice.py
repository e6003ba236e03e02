"""A command that waits says so, again and again, and no longer than it waits."""

from queue import Queue

from streams.cli.waiting_notice import WaitingNotice

PATIENCE_S = 30


def test_it_writes_while_there_is_no_answer() -> None:
    lines: Queue[str] = Queue()
    with WaitingNotice("the broker", first_s=0.01, again_s=0.01, write=lines.put) as notice:
        assert [lines.get(timeout=PATIENCE_S) for _ in range(3)] == ["no answer for 0 s: waiting for the broker"] * 3
        notice.answered()
        assert lines.get(timeout=PATIENCE_S).startswith("no answer for ")
    written = lines.qsize()
    assert not notice._thread.is_alive()
    assert lines.qsize() == written


def test_it_is_silent_while_there_are_answers() -> None:
    lines: Queue[str] = Queue()
    with WaitingNotice("the broker", first_s=PATIENCE_S, write=lines.put) as notice:
        for _ in range(100):
            notice.answered()
    assert lines.empty()
