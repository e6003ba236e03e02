"""`streams demo --http`: an application that runs until it is stopped, and answers on its port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from streams.cli.demo.live import endless_orders
from streams.cli.main import main
from waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def demo(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it prints."""
    command = [sys.executable, "-m", "streams", "demo", "--http", "127.0.0.1:0"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            shown = "".join(iter(process.stdout.readline, "Ctrl-C ends it; it ends automatically after 30 minutes.\n"))
            yield process, re.findall(r"http://\S+", shown)[0]
        finally:
            process.kill()


def answer(address: str) -> bytes:
    with urlopen(address, timeout=30) as response:
        found: bytes = response.read()
    return found


def state_of(address: str) -> Any:
    return json.loads(answer(f"{address}state?worker=self"))


def reasons(state: Any) -> set[str]:
    return {drop["reason"] for task in state["tasks"] for drop in task["drops"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_orders_and_drops_until_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    """And leaves nothing behind."""
    with demo(tmp_path) as (process, address):
        assert b"<!doctype html>" in answer(address)
        wait_until("records that are dropped", lambda: reasons(state_of(address)) >= {"window-closed", "no-partner"})
        wait_until("both tasks", lambda: all(task["processed"] for task in state_of(address)["tasks"]))
        calls = {node["call"] for task in state_of(address)["tasks"] for node in task["nodes"]}
        assert {"stream(orders)", "count()"} <= calls
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert out == ""
    assert list(tmp_path.glob("streams-kafka-*")) == []


def test_a_port_that_is_taken_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert main(["demo", "--http", f"127.0.0.1:{number}"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"error: cannot listen on http.listen 127.0.0.1:{number}: ")


def test_an_address_that_is_none_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--http", "nowhere"]) == 2
    assert "http.listen" in capfd.readouterr().err


def test_some_orders_are_late_and_some_have_no_customer() -> None:
    orders = list(islice(endless_orders(), 200))
    assert [number for number, order in enumerate(orders, 1) if order.timestamp_ms] == [40, 80, 120, 160, 200]
    assert sum(order.customer == "guest" for order in orders) == 8
    assert orders == list(islice(endless_orders(), 200))
