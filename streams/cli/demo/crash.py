"""A crash: a process with state on disk is killed while it works, and another one continues with its state.

The broker is in this process, and outlives it. The results are compared with those that plain Python computes from the
same orders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from processor_api.clock import SystemClock
from processor_api.errors import StreamsError
from processor_api.forms.times import iso
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.function import topology_of
from streams.cli.demo import shop
from streams.cli.run.script import run
from streams.cli.try_command.session import Topics
from streams.config import StreamsConfig
from streams.serdes.values import json_reader
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.broker.remote import RemoteClients
from streams.testing.broker.server import BrokerServer
from streams.testing.settings import config_for_tests
from streams.threads import SYSTEM_THREADS

# The process that the tour kills: it runs the shop on the broker of another process, with its state on disk.
#
# The first line of standard input is a list in JSON: the address of the broker, its key, and the folder of the state.

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


ORDERS = 1000
TOPICS = ("orders", "customers", "orders-by-customer", "cents-by-minute", "bills")
PARTITIONS = 2
CUSTOMERS = 40
FIRST_MS = 1_735_732_800_000
"""The time of the first order, 2025-01-01T12:00:00Z; each following one is `STEP_MS` later."""
STEP_MS = 300
MINUTE_MS = 60_000
DEADLINE_S = 180.0
_NAP_S = 0.005
LONGEST_SOCKET_PATH = 100


class Order(NamedTuple):
    """An order of a customer."""

    customer: str
    cents: int
    timestamp_ms: int


def made_orders(count: int, seed: int = 1) -> list[Order]:
    """Returns orders of some customers, the same ones for a seed."""
    random = Random(seed)
    return [
        Order(f"c{random.randrange(CUSTOMERS):02}", random.randint(1, 9999), FIRST_MS + number * STEP_MS)
        for number in range(count)
    ]


def name_of(customer: str) -> str:
    """Returns the name of a customer, for its row in the table."""
    return f"Customer {customer[1:]}"


def expected(orders: list[Order]) -> dict[str, Any]:
    """Returns what the topics of results should have, by topic."""
    sums: dict[tuple[str, str | int], int] = defaultdict(int)
    for order in orders:
        sums[order.customer, iso(order.timestamp_ms // MINUTE_MS * MINUTE_MS)] += order.cents
    return {
        "orders-by-customer": dict(Counter(order.customer for order in orders)),
        "cents-by-minute": dict(sums),
        "bills": Counter((order.customer, f"{name_of(order.customer)} pays {order.cents}") for order in orders),
    }


class Crash:
    """A broker in this process, and the process of an application that works on it. It is a context manager.

    :param say: prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._clock = SystemClock()
        self._opened = ExitStack()
        self._directory = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="streams-demo-")))
        self._state = self._directory / "state"
        self._broker = EmbeddedBroker()
        for topic in TOPICS:
            self._broker.create_topic(topic, PARTITIONS)
        self._clients = EmbeddedClients(self._broker)
        self._admin, self._producer = self._clients.admin({}), self._clients.producer({})
        self._server = self._opened.enter_context(BrokerServer(self._broker, _address(self._directory / "broker")))

    def show(self) -> bool:
        """Runs the application, kills it, runs it again; returns whether the results are exact."""
        orders = made_orders(ORDERS)
        half = ORDERS // 2
        process = self._start()
        self._say(
            f"It runs in its own process (pid {process.pid}), exactly-once, with its state on disk.\n{ORDERS} orders of"
            f" {CUSTOMERS} customers arrive."
        )
        for number in range(CUSTOMERS):
            self._send("customers", f"c{number:02}", Serdes.STRING.serialize(name_of(f"c{number:02}")), FIRST_MS - 1)
        self._wait(process, lambda: self._committed("customers") == CUSTOMERS)
        self._send_orders(orders[:half])
        self._wait(process, lambda: self._committed("orders") >= half // 3)
        self._send_orders(orders[half:])
        process.kill()
        process.wait()
        self._say(f"Killed, as by kill -9, when {self._committed('orders')} orders were committed.")
        databases = sum(1 for _ in self._state.rglob("CURRENT"))
        self._say(f"Its process has ended; {databases} databases (RocksDB) and the topics remain.")
        process = self._start()
        self._say(f"Another process (pid {process.pid}) continues with the databases, from the last commit.")
        self._wait(process, lambda: self._committed("orders") == ORDERS)
        process.terminate()
        process.wait(DEADLINE_S)
        self._say("All orders are processed. Compared with what plain Python computes from the same orders:\n")
        return self._compare(orders)

    def _compare(self, orders: list[Order]) -> bool:
        wanted, found = expected(orders), self._results()
        units = {
            "orders-by-customer": "counts",
            "cents-by-minute": "sums of a customer and a minute",
            "bills": "bills, each exactly once",
        }
        exact = True
        for topic, unit in units.items():
            same = wanted[topic] == found[topic]
            exact = exact and same
            count = sum(wanted[topic].values()) if topic == "bills" else len(wanted[topic])
            self._say(f"  {topic:<20} {count:>5} {unit:<32} {'equal' if same else 'DIFFERENT'}")
        self._say("\nNothing is lost and nothing is counted twice." if exact else "\nThis is a bug: please report it.")
        return exact

    # ------------------------------------------------------------------ the process

    def _start(self) -> subprocess.Popen[str]:
        log = self._opened.enter_context((self._directory / "log").open("a"))
        process = subprocess.Popen(
            [sys.executable, "-m", "streams.cli.demo.crash"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
        )
        self._opened.callback(_end, process)
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended already, which is found when it is waited for
            given = [self._server.address, self._server.key.hex(), str(self._state)]
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
        return process

    def _wait(self, process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
        """Waits for a condition.

        :raises StreamsError: if the process ends, or it takes too long.
        """
        deadline_s = self._clock.monotonic() + DEADLINE_S
        while not reached():
            ended = process.poll()
            if ended is not None or self._clock.monotonic() > deadline_s:
                what = "did not continue in time" if ended is None else f"has ended with status {ended}"
                log = (self._directory / "log").read_text(errors="replace").strip().splitlines()
                raise StreamsError(f"the process of the tour {what}: {log[-1] if log else 'it has logged nothing'}")
            self._clock.wait(_NAP_S)

    # ------------------------------------------------------------------ the broker

    def _send_orders(self, orders: list[Order]) -> None:
        for order in orders:
            self._send("orders", order.customer, Serdes.LONG.serialize(order.cents), order.timestamp_ms)
        self._producer.flush()

    def _send(self, topic: str, key: str, value: bytes, timestamp_ms: int) -> None:
        self._producer.produce(topic, value, key.encode(), -1, None, None, timestamp_ms, None)

    def _committed(self, topic: str) -> int:
        """Returns how many records of a topic are committed."""
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(found.offset for found in self._admin.group_offsets(APPLICATION_ID, partitions).values())

    def _results(self) -> dict[str, Any]:
        """Returns what the topics of results have, in the form of :func:`expected`."""
        latest = ("orders-by-customer", "cents-by-minute")
        return {**{topic: dict(self._records(topic)) for topic in latest}, "bills": Counter(self._records("bills"))}

    def _records(self, topic: str) -> Iterator[tuple[Any, Any]]:
        """Yields the committed records of a topic; a windowed key is the key and the start of its window."""
        config = config_for_tests({"application.id": APPLICATION_ID})
        topics = Topics(topology_of(shop.builder, config), config)
        key_serde, value_serde = topics.serdes_written(topic)
        read_key = json_reader(key_serde)
        for record in self._broker.records(topic):
            key = read_key(record.key() or b"")
            value = value_serde.deserialize(record.value() or b"")
            yield ((key["key"], key["start"]) if isinstance(key, Mapping) else key), value

    def __enter__(self) -> Crash:
        return self

    def __exit__(self, *_: Any) -> None:
        self._opened.close()


def _address(path: Path) -> Any:
    """Returns where the broker listens: at a path, or at a port of this machine where paths cannot be that long."""
    if sys.platform == "win32" or len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        return "127.0.0.1", 0
    return str(path)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process that is no longer needed."""
    process.kill()
    process.wait()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
