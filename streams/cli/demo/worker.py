"""The process that the tour kills: it runs the shop on the broker of another process, with its state on disk.

The first line of standard input is a list in JSON: the address of the broker, its key, and the folder of the state.
"""

from __future__ import annotations

import json
import os
import sys

from streams.cli.demo import shop
from streams.cli.run.script import run
from streams.config import StreamsConfig
from streams.testing.broker.remote import RemoteClients
from streams.threads import SYSTEM_THREADS

APPLICATION_ID = "shop"


def main() -> None:
    """Runs until it is killed, asked to stop, or the tour has ended."""
    address, key, state_dir = json.loads(sys.stdin.readline())
    if isinstance(address, list):  # of host and port
        address = tuple(address)
    SYSTEM_THREADS.thread(_end_with_the_tour, "end-with-tour").start()
    config = StreamsConfig.of(
        {
            "application.id": APPLICATION_ID,
            "bootstrap.servers": "embedded:9092",
            "state.dir": state_dir,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 50,
        }
    )
    run(shop.builder, config, clients=RemoteClients(address, bytes.fromhex(key)), log_level="warning")


def _end_with_the_tour() -> None:
    """Ends the process when the tour is gone, which holds the other end of standard input."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
