"""An application with Avro in a registry that moves between Java and here, and the orders that it adds up.

In Java it is ``shop.Totals`` in ``tests/golden/recorder``, here ``tests/integration/apps/avro_totals.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from integration_support.moving import Moving
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from streams import Avro, SchemaRegistry

PARTITIONS = 2
TOPICS = ("orders", "totals", "minutes")
MINUTE_MS = 60_000
ORDERS, CUSTOMERS = 40, 8
"""Orders of each phase, and customers of all phases, of which each phase leaves out two."""
ORDER = """{"type": "record", "name": "com.shop.Order", "fields": [{"name": "id", "type": "string"},
 {"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}]}"""


class Order(NamedTuple):
    id: str
    customer: str
    cents: int
    timestamp: int


def orders(phase: int, first: int) -> list[Order]:
    """Returns the orders of a phase, in the order of their times: in a minute of its own and the one before.

    :param first: when the first phase begins, in ms.
    """
    found = []
    for number in range(ORDERS):
        customer = (phase * 2 + number * 5 % (CUSTOMERS - 2)) % CUSTOMERS
        minute = max(0, phase - (number < ORDERS // 2))
        cents = phase * 1000 + number * 7
        found.append(Order(f"{phase}-{number}", f"customer-{customer}", cents, first + minute * MINUTE_MS + number))
    return found


def added_up(given: list[Order]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns every total, and every one of a minute, in the order in which they are sent."""
    totals: dict[str, list[str]] = defaultdict(list)
    minutes: dict[str, list[str]] = defaultdict(list)
    for order in given:
        minute = f"{order.customer}@{order.timestamp // MINUTE_MS * MINUTE_MS}"
        for sums, key in ((totals, order.customer), (minutes, minute)):
            count, cents, _ = sums[key][-1].split(":") if sums[key] else ("0", "0", "")
            sums[key].append(f"{int(count) + 1}:{int(cents) + order.cents}:{order.id}")
    return totals, minutes


class AvroTotals(Moving):
    """The application on a real broker and a real registry.

    :param registry: the URL with Confluent's API.
    :param first: when the first phase begins, in ms.
    """

    def __init__(
        self,
        topics: Topics,
        workers: Workers,
        guarantee: str,
        names: Mapping[str, str],
        registry: str,
        first: int,
    ) -> None:
        super().__init__(topics, workers, guarantee, names)
        self._registry, self._first = registry, first
        self._sent: list[Order] = []
        self._phase = 0

    def send(self) -> None:
        """Sends the orders of the next phase; those of a customer go to one partition, and keep their order."""
        topic, given = self.names["orders"], orders(self._phase, self._first)
        serde = Avro(schema=ORDER, registry=SchemaRegistry(self._registry)).bind(topic, is_key=False)
        records = []
        for order in given:
            fields = {"id": order.id, "customer": order.customer, "cents": order.cents}
            records.append((order.customer, serde.serialize(fields), order.timestamp))
        self.topics.send_timed(topic, records)
        self._sent += given
        self._phase += 1
        self.totals, self.minutes = added_up(self._sent)

    def start_java(self, state_dir: Path) -> Worker:
        """Starts the application in Java, whose serdes ask the registry by its own API."""
        workers, url = self.workers, self._registry.replace("/ccompat/v7", "/registry/v2")
        arguments = [workers.bootstrap, workers.application, str(state_dir), self.guarantee, url]
        names = [self.names[kind] for kind in TOPICS]
        return workers.start_java("shop.Totals", *arguments, *names)

    def start(self, state_dir: Path) -> Worker:
        """Starts the application here."""
        return self.start_here("avro_totals:topology", state_dir, {"schema.registry.url": self._registry})
