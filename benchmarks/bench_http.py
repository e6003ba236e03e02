"""The cost of the HTTP port for the records that a worker processes meanwhile.

    python -m benchmarks http [ROUNDS]

An application on a broker in memory counts records by key, on one stream thread: without the port, with one that is not
asked, with one that is scraped each second, and with one that another process asks for keys as fast as it can. The
figure is the part of the process's processor time that the thread of the port takes, which other load of the machine
hardly changes; beside it stand the microseconds of processor time of the process for a record. The best of the rounds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from streams import Consumed, Grouped, KafkaStreams, Materialized, Serdes, StreamsBuilder
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

RECORDS = 150_000
KEYS = 10_000
WAYS = ("no port", "not asked", "scraped each second", "asked by 8 threads")
CLIENT = """
import http.client, random, sys, threading, time
port, way = int(sys.argv[1]), sys.argv[2]
def ask(path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while True:
        connection.request("GET", path())
        connection.getresponse().read()
        yield
def flood():
    for _ in ask(lambda: f"/stores/counts/get?key=k{random.randrange(10000):07}"):
        pass
if way.startswith("scraped"):
    for _ in ask(lambda: "/metrics"):
        time.sleep(1)
else:
    for _ in range(8):
        threading.Thread(target=flood, daemon=True).start()
    time.sleep(600)
"""


def run(way: str, folder: Path) -> tuple[float, float]:
    """Returns the part of the processor time that the port takes, and the processor time of a record in us."""
    broker = EmbeddedBroker()
    broker.create_topic("in", 1)
    clients = EmbeddedClients(broker)
    producer = clients.producer({})
    for number in range(RECORDS):
        producer.produce("in", b"v", b"k%07d" % (number * 7919 % KEYS), 0, None, None, 1000 + number, None)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    builder = StreamsBuilder()
    text = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    builder.stream("in", text).group_by_key(Grouped(key_serde=Serdes.STRING)).count(
        materialized=Materialized(name="counts", key_serde=Serdes.STRING)
    )
    settings = {"application.id": "bench", "bootstrap.servers": "b:1", "state.dir": str(folder)}
    if way != WAYS[0]:
        settings["http.listen"] = "127.0.0.1:0"
    app = KafkaStreams(builder, settings, clients=clients)
    with app:
        endpoint = app.status().endpoint
        client = None
        if way in WAYS[2:]:
            client = subprocess.Popen([sys.executable, "-c", CLIENT, str(endpoint).rpartition(":")[2], way])
        while _processed(app) < RECORDS // 10:
            time.sleep(0.001)
        first, cpu, port = _processed(app), time.process_time(), _port_s()
        while (last := _processed(app)) < RECORDS:
            time.sleep(0.05)
        cpu, port = time.process_time() - cpu, _port_s() - port
        if client is not None:
            client.kill()
            client.wait()
    return port / cpu, cpu / (last - first) * 1e6


def _port_s() -> float:
    """Returns the processor time of the thread of the port; 0 without one."""
    found = [thread.native_id for thread in threading.enumerate() if thread.name == "http"]
    return sum(int(Path(f"/proc/self/task/{one}/schedstat").read_text().split()[0]) for one in found) / 1e9


def _processed(app: KafkaStreams) -> int:
    return sum(thread.processed for thread in app.status().threads)


def main(rounds: int) -> None:
    best = {way: (float("inf"), float("inf")) for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as folder:
                found = run(way, Path(folder))
            best[way] = (min(best[way][0], found[0]), min(best[way][1], found[1]))
    for way, (port, cpu) in best.items():
        print(f"{way:22} {port:6.1%} of {cpu:6.2f} us a record")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
