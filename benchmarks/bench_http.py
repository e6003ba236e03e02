"""The cost of the HTTP port for the records that a worker processes meanwhile.

    python -m benchmarks http [ROUNDS]

An application on a broker in memory counts records by key, on one stream thread: without the port, with one that is not
asked, with one that is scraped each second, and with one that two clients ask for keys (`benchmarks/http_client.py`)
at the default share of the processor and at larger ones. The figure is the part of the process's processor time that
the thread of the port takes, which other load of the machine hardly changes; beside it stand the microseconds of
processor time of a record without that of the port, and the keys that it answers in a second. Medians of the rounds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from benchmarks.http_client import MANY
from streams import Consumed, Grouped, KafkaStreams, Materialized, Serdes, StreamsBuilder
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

RECORDS = 1_200_000
KEYS = 10_000
SECONDS, BEFORE_S = 1.2, 0.6
"""The time that is measured, and that clients have to begin."""
WAYS: tuple[tuple[str, int, int], ...] = (
    ("no port", 0, 0),
    ("not asked", 0, 5),
    ("scraped", 0, 5),
    *((way, connections, percent) for percent in (5, 25, 100)
      for way, connections in (("single", 8), ("single", 32), ("pipelined", 8), ("remote", 64), ("many", 8))),
)  # fmt: skip
"""The way of asking, the connections or threads of each client, and ``http.max.cpu.percent``."""
SCRAPE = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen("http://127.0.0.1:" + sys.argv[1] + "/metrics").read()
    time.sleep(1)
"""


def filled() -> EmbeddedBroker:
    """Returns a broker with the records."""
    broker = EmbeddedBroker()
    broker.create_topic("in", 1)
    producer = EmbeddedClients(broker).producer({})
    for number in range(RECORDS):
        producer.produce("in", b"v", b"k%07d" % (number * 7919 % KEYS), 0, None, None, 1000 + number, None)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    return broker


def run(way: tuple[str, int, int], broker: EmbeddedBroker, folder: Path) -> tuple[float, float, float]:
    """Returns the part of the processor time that the port takes, the other processor time of a record in us, and the
    keys that are answered in a second."""
    builder = StreamsBuilder()
    text = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    builder.stream("in", text).group_by_key(Grouped(key_serde=Serdes.STRING)).count(
        materialized=Materialized(name="counts", key_serde=Serdes.STRING)
    )
    name, connections, percent = way
    settings = {"application.id": f"bench-{uuid.uuid4().hex[:8]}", "bootstrap.servers": "b:1", "state.dir": str(folder)}
    if percent:
        settings |= {"http.listen": "127.0.0.1:0", "http.max.cpu.percent": str(percent)}
    app = KafkaStreams(builder, settings, clients=EmbeddedClients(broker))
    with app:
        while _processed(app) < 2 * KEYS:
            time.sleep(0.001)
        asking = _asking(name, connections, str(app.status().endpoint).rpartition(":")[2])
        time.sleep(BEFORE_S if asking else 0)
        first, cpu, port, begun = _processed(app), time.process_time(), _port_s(), time.monotonic()
        while (last := _processed(app)) < RECORDS and time.monotonic() < begun + SECONDS:
            time.sleep(0.05)
        cpu, port = time.process_time() - cpu, _port_s() - port
        keys = 0.0
        for one in asking:
            if name == "scraped":
                one.kill()
            answered = one.communicate()[0]
            found = json.loads(answered or "{}")
            keys += found["answers"] / found["seconds"] * (MANY if name == "many" else 1) if found else 0
    return port / cpu, (cpu - port) / (last - first) * 1e6, keys


def _asking(name: str, connections: int, port: str) -> list[subprocess.Popen[str]]:
    if name == "scraped":
        commands = [[sys.executable, "-c", SCRAPE, port]]
    else:
        client = ["-m", "benchmarks.http_client", port, name, str(SECONDS + 1), str(KEYS), str(connections)]
        commands = [[sys.executable, *client]] * (2 if connections else 0)
    return [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in commands]


def _port_s() -> float:
    """Returns the processor time of the thread of the port; 0 without one."""
    found = [thread.native_id for thread in threading.enumerate() if thread.name == "http"]
    return sum(int(Path(f"/proc/self/task/{one}/schedstat").read_text().split()[0]) for one in found) / 1e9


def _processed(app: KafkaStreams) -> int:
    return sum(thread.processed for thread in app.status().threads)


def main(rounds: int) -> None:
    found: dict[tuple[str, int, int], list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    broker = filled()
    for _ in range(rounds):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                found[way].append(run(way, broker, Path(folder)))
    print("way            cpu %  of the processor  us a record  keys/s")
    for (name, connections, percent), rows in found.items():
        part, cost, keys = (statistics.median(one) for one in zip(*rows, strict=True))
        print(f"{name:9} x{connections:2}  {percent:5}  {part:16.1%}  {cost:11.2f}  {keys:6.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
