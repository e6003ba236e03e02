"""`streams produce` and `streams consume --follow` say that the brokers are away, and do not wait in silence."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from first_hour_support import environment, streams
from integration_support.topics import Topics
from tools.kafka.broker import Broker
from waiting import wait_until

DEADLINE_S = 180.0
SOON_BACK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
NO_ANSWER = re.compile(r"no response for \d+ s: ")


class Running:
    """A command that goes on, whose outputs are read meanwhile."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streams", *words],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=found, daemon=True)
            for found in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: IO[str], lines: list[str]) -> None:
        lines.extend(iter(stream.readline, ""))

    def give(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ended(self) -> int:
        """Closes its input, and returns its status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(DEADLINE_S)
        for reader in self._readers:
            reader.join()
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    with ExitStack() as stack:

        def start(*words: str) -> Running:
            running = Running(tmp_path, *words)
            stack.callback(running.close)
            return running

        yield start


@pytest.mark.slow
def test_an_outage_is_said(
    run: Callable[..., Running], start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    broker = start_broker(SOON_BACK)
    topic = Topics(broker.bootstrap, unique_name).create("lines")
    where = ("--topic", topic, "--value-serde", "string", "--bootstrap-servers", broker.bootstrap)
    following, producing = run("consume", *where, "--follow"), run("produce", *where, "--timeout", "5")
    producing.give('{"value": "one"}')
    wait_until("the first record is read", lambda: len(following.out) == 1, DEADLINE_S)
    broker.kill()
    producing.give('{"value": "lost"}')
    assert producing.ended() == 1
    count = "1 record was" if producing.out else "2 records were"  # its answer may have been lost with the broker
    assert producing.out in ([], [f"1 record written to {topic}: partition 0 at offset 0\n"])
    *notices, last = producing.err
    waiting = f"waiting for a broker at {broker.bootstrap} to take the records, for 5 s at most\n"
    assert {NO_ANSWER.sub("", notice) for notice in notices} == {waiting}
    assert last == (
        f"error: {count} not delivered to topic {topic!r}: no broker at {broker.bootstrap} accepted them within 5 s\n"
    )

    wait_until("the loss is said", lambda: bool(following.err), DEADLINE_S)
    broker.start()
    wait_until("the end of it is said", lambda: len(following.err) == 2, DEADLINE_S)
    wait_until("a record can be written", lambda: streams(tmp_path, "produce", *where, "--value", "two").status == 0)
    wait_until("the next record is read", lambda: len(following.out) >= 2, DEADLINE_S)
    following.process.send_signal(signal.SIGINT)
    assert following.ended() == 0
    assert [json.loads(line)["value"] for line in following.out][:2] == ["one", "two"]
    lost, back = following.err
    assert lost.startswith(f"the brokers are lost: records wait until one answers ({broker.bootstrap}: ")
    assert re.fullmatch(re.escape(f"the brokers are back ({broker.bootstrap}) after ") + r"[\d.]+ s\n", back)
