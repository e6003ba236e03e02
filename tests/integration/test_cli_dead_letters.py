"""Dead letters of a real cluster are listed, and sent back once."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from integration_support.topics import Topics
from integration_support.workers import Workers
from streams.cli.main import main
from waiting import wait_until

APP = """
from streams import StreamsBuilder

settings = {settings!r}
RATES = {rates!r}
builder = StreamsBuilder(key_serde="string", value_serde="json")
builder.stream("{name}-in").map_values(lambda payment: payment["amount"] * RATES[payment["currency"]]).to("{name}-out")
"""


class PaymentCommands:
    """Runs commands on an application whose rates change."""

    def __init__(self, folder: Path, kafka: str, name: str) -> None:
        self.name, self._folder = name, folder
        self._settings = {
            "application.id": name,
            "bootstrap.servers": kafka,
            "state.dir": str(folder / "state"),
            "processing.guarantee": "exactly_once_v2",
            "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
            "errors.dead.letter.queue.topic.name": f"{name}-dead",
        }
        self.rates(EUR=1)

    def rates(self, **rates: int) -> None:
        """Changes the rates; the application is a module of another name."""
        self.app = self._folder / f"payments_{'_'.join(rates)}.py"
        self.app.write_text(APP.format(name=self.name, settings=self._settings, rates=rates))

    def __call__(self, *words: str, status: int = 0) -> str:
        """Runs a command in this process, and returns what it printed."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            found = main([str(self.app) if word == "APP" else word for word in words])
        assert (found, err.getvalue()) == (status, ""), f"{out.getvalue()}\n{err.getvalue()}"
        return out.getvalue()

    def values(self, topic: str) -> list[int]:
        return sorted(json.loads(line)["value"] for line in self("consume", "APP", topic).splitlines())


@pytest.fixture
def run(tmp_path: Path, kafka: str, workers: Workers) -> Iterator[PaymentCommands]:
    path, modules = list(sys.path), set(sys.modules)
    yield PaymentCommands(tmp_path, kafka, workers.application)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("payments_"):
            del sys.modules[name]


def test_what_died_goes_back_once(run: PaymentCommands, workers: Workers, topics: Topics) -> None:
    """Under exactly-once, with a filter first, and then the rest."""
    run("topics", "APP", "--create", "--partitions", "2")
    worker = workers.start(str(run.app)).wait_running()
    payments = [
        json.dumps({"key": f"{currency}{number}", "value": {"amount": 1, "currency": currency}})
        for number in range(3)
        for currency in ("EUR", "USD", "XYZ")
    ]
    run("produce", "APP", f"{run.name}-in", *payments)

    def count() -> int:
        causes = json.loads(run("dlq", "list", "APP", "--json"))["causes"]
        return sum(cause["left"] for cause in causes)

    wait_until("the dead letters are there", lambda: count() == 6)
    worker.stop()
    run.rates(EUR=1, USD=2, XYZ=3)
    assert run("dlq", "replay", "APP", "--error", "XYZ") == f"3 dead letters sent: 3 to {run.name}-in\n"
    assert run("dlq", "replay", "APP", "--error", "XYZ") == "0 dead letters sent\n"
    assert count() == 3
    assert run("dlq", "replay", "APP", "--rate", "2") == f"3 dead letters sent: 3 to {run.name}-in\n"
    assert run("dlq", "replay", "APP") == "0 dead letters sent\n"
    workers.start(str(run.app)).wait_running()
    wait_until("all are processed", lambda: run.values(f"{run.name}-out") == [1, 1, 1, 2, 2, 2, 3, 3, 3])
