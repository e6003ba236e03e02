"""A broker that is not there is told."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from integration_support.workers import Workers
from tools.kafka.broker import HOST


def test_a_broker_that_is_not_there_is_named(unique_name: Callable[[str], str], tmp_path: Path) -> None:
    """Once the time is over that the error tells; the status is not zero."""
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind((HOST, 0))
        address = f"{HOST}:{taken.getsockname()[1]}"
        with closing(Workers(tmp_path, address, unique_name("app"))) as workers:
            worker = workers.start("copy_values:topology", env={"INPUTS": "input", "OUTPUT": "output"})
            assert worker.wait() == 1
            assert len(worker.errors) == 1, worker.tail
            assert f"cannot reach a broker at {address} within 30 s" in worker.errors[0]
