"""Asks an HTTP port for keys as fast as it answers, and prints what it got as JSON.

    python -m benchmarks.http_client PORT WAY SECONDS KEYS CONNECTIONS

``single`` asks for one key and waits for the answer, ``pipelined`` sends 16 such requests before it waits, ``many``
asks for 100 keys at a time. ``remote`` has a thread instead of each connection, which asks for one key after the other
by `streams.remote`. Latencies are from a request to its answer.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from streams.remote import RemoteStreams

DEPTH = {"single": 1, "pipelined": 16, "many": 1}
MANY = 100
HEAD = b"HTTP/1.1 "


@dataclass
class Connection:
    """One connection, with the answers that it waits for."""

    socket: socket.socket
    waiting: int = 0
    sent_at: float = 0.0
    got: bytearray = field(default_factory=bytearray)


def request(way: str, keys: int) -> bytes:
    if way != "many":
        return b"GET /stores/counts/get?key=k%07d HTTP/1.1\r\nHost: localhost\r\n\r\n" % random.randrange(keys)
    asked = [f"k{random.randrange(keys):07}" for _ in range(MANY)]
    body = json.dumps({"keys": asked}).encode()
    return b"POST /stores/counts/get HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def taken(got: bytearray) -> list[int]:
    """Takes the whole answers off the front, and returns their statuses."""
    found = []
    while (end := got.find(b"\r\n\r\n")) > 0:
        head = bytes(got[:end]).lower()
        size = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(got) < end + 4 + size:
            break
        found.append(int(head.split(b" ", 2)[1]))
        if found[-1] != 200:
            print(bytes(got[end + 4 : end + 4 + size]), file=sys.stderr, flush=True)
        del got[: end + 4 + size]
    return found


def remote(port: int, seconds: float, keys: int, threads: int) -> None:
    latencies: list[float] = []
    end = time.monotonic() + seconds

    def ask_on() -> None:
        counts = app.store("counts")
        while (since := time.monotonic()) < end:
            if counts.get(f"k{random.randrange(keys):07}") is None:
                raise SystemExit("a key is not there")
            latencies.append(time.monotonic() - since)

    with RemoteStreams(f"http://127.0.0.1:{port}", wait=10) as app:
        asking = [threading.Thread(target=ask_on) for _ in range(threads)]
        for one in asking:
            one.start()
        for one in asking:
            one.join()
    show(len(latencies), seconds, {200: len(latencies)}, latencies)


def main(port: int, way: str, seconds: float, keys: int, connections: int) -> None:
    if way == "remote":
        return remote(port, seconds, keys, connections)
    chosen, latencies, statuses = selectors.DefaultSelector(), [], dict[int, int]()
    for _ in range(connections):
        one = Connection(socket.create_connection(("127.0.0.1", port)))
        one.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen.register(one.socket, selectors.EVENT_READ, one)
        ask(one, way, keys)
    begun = time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        for key, _ in chosen.select(1):
            one = key.data
            part = one.socket.recv(1 << 20)
            if not part:
                raise SystemExit("the port has closed a connection")
            one.got += part
            for status in taken(one.got):
                statuses[status] = statuses.get(status, 0) + 1
                one.waiting -= 1
            if one.waiting == 0:
                latencies.append(time.monotonic() - one.sent_at)
                ask(one, way, keys)
    show(sum(statuses.values()) * (MANY if way == "many" else 1), now - begun, statuses, latencies)


def show(keys: int, seconds: float, statuses: dict[int, int], latencies: list[float]) -> None:
    latencies.sort()
    found: dict[str, Any] = {
        "answers": sum(statuses.values()),
        "keys": keys,
        "seconds": seconds,
        "statuses": statuses,
        "p50_ms": 1000 * latencies[len(latencies) // 2] if latencies else None,
        "p99_ms": 1000 * latencies[len(latencies) * 99 // 100] if latencies else None,
    }
    print(json.dumps(found), flush=True)


def ask(one: Connection, way: str, keys: int) -> None:
    one.waiting, one.sent_at = DEPTH[way], time.monotonic()
    one.socket.sendall(b"".join(request(way, keys) for _ in range(DEPTH[way])))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
