"""The shop of the tour as an application that keeps running, with its live page. Its Kafka is in this process."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from itertools import count
from random import Random

from processor_api.clock import SystemClock
from processor_api.serde import Serdes
from processor_api.topology.function import TopologyLike
from streams.cli.demo import shop
from streams.cli.demo.crash import CUSTOMERS, MINUTE_MS, PARTITIONS, TOPICS, Order, name_of
from streams.cli.output.causes import CLEAN
from streams.cli.output.terminal import say_lines
from streams.cli.run.signals import on_stop_signals
from streams.cli.run.worker import Stopped, StopRequest
from streams.testing.embedded_kafka import EmbeddedKafka

MINUTES = 30
"""The time after which it ends, because a Kafka in memory keeps all records."""
_PAUSES_S = (0.05, 0.02)
"""The pauses between orders, in turn for `_TURN` orders each, so that the rates on the page change."""
_TURN = 300
_UNKNOWN_EVERY, _LATE_EVERY = 25, 40


def endless_orders(seed: int = 1) -> Iterator[Order]:
    """Yields orders without an end, the same ones for a seed. Their times are in ms after the moment at which each is
    sent, so most are 0: some orders come two minutes late, and some are from a customer that no table has."""
    random = Random(seed)
    for number in count(1):
        customer = "guest" if number % _UNKNOWN_EVERY == 0 else f"c{random.randrange(CUSTOMERS):02}"
        late_ms = 2 * MINUTE_MS if number % _LATE_EVERY == 0 else 0
        yield Order(customer, random.randint(1, 9999), -late_ms)


def _shop() -> TopologyLike:
    """Returns the topology of the shop as a script of yours has it: the page names the calls and lines of a script, and
    takes those of this library for its own."""
    topology: TopologyLike = runpy.run_path(str(shop.__file__), run_name="shop")["builder"]
    return topology


def show(address: str) -> int:
    """Runs the shop until Ctrl-C, SIGTERM or the end of its time; returns the exit status.

    :param address: the host and port of the page.
    :raises ConfigError: if the extra `http` is missing, or the address is not one.
    :raises StreamsError: if the port is taken, or the application fails.
    """
    stop = StopRequest()
    with EmbeddedKafka() as kafka, on_stop_signals(stop.on_signal):
        kafka.create_topics(*TOPICS, partitions=PARTITIONS)
        try:
            with stop.loading():
                settings = {"application.id": "shop", "http.listen": address, "commit.interval.ms": 500}
                application = kafka.start(_shop(), settings)
        except Stopped:
            return CLEAN
        say_lines(
            "The shop of the tour runs, on a Kafka in this process. A browser shows its topology live:\n\n"
            f"  {application.status().endpoint}/\n\nRates are on the arrows. One order in 40 is too late for its"
            " window, and one in 25 is from a customer\nwithout a name: click a red mark, a store or a topic to see"
            f" more.\nCtrl-C ends it; it ends automatically after {MINUTES} minutes."
        )
        sys.stdout.flush()
        clock = SystemClock()
        customers = kafka.create_input_topic("customers")
        orders = kafka.create_input_topic("orders", value_serde=Serdes.LONG)
        for number in range(CUSTOMERS):
            customers.pipe_input(f"c{number:02}", name_of(f"c{number:02}"), timestamp=clock.time_ms())
        end_s = clock.monotonic() + 60 * MINUTES
        for number, order in enumerate(endless_orders()):
            if stop.asked.is_set() or clock.monotonic() > end_s:
                break
            if application.failure is not None:
                raise application.failure
            orders.pipe_input(order.customer, order.cents, timestamp=clock.time_ms() + order.timestamp_ms)
            clock.wait(_PAUSES_S[number // _TURN % len(_PAUSES_S)])
    return CLEAN
