"""A real Apache Kafka on this machine: one KRaft node on the loopback address, for the tests and for `make kafka`.

Standard library only, so that `make kafka` needs no environment. Run as a program it prints its address and goes on
until it is interrupted: `python -m tools.kafka.broker --port 9092`.
"""

import argparse
import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tools.kafka.folder_lock import FolderInUse, FolderLock
from tools.kafka.jars import libs, version
from tools.maven import JavaError, java

HOST = "127.0.0.1"
POLL_S = 0.1
STOP_TIMEOUT_S = 30.0

# Replication and partition counts of a single node; no waiting for further members of a group, and dead members are
# noticed soon; data stays however old its timestamps are. The cleaner's default buffer would be an eighth of the
# heap. Tests wait for the retention or compaction of a topic: the broker checks twice a second, from the start on.
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "log.retention.ms": "-1",
    "log.segment.bytes": "268435456",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
}


def new_id() -> str:
    """Returns a random id as Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class BrokerError(RuntimeError):
    """Raised when the broker did not start, or ended by itself; the message ends with the last lines of its log."""


class Broker:
    """One node, its ports and its data.

    `stop` and `kill` end the process and keep port and data, so that `start` continues with them, as after an outage.
    `close` also removes the data, unless the folder was given. As a context manager it is started and closed.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        folder: Path | None = None,
        properties: Mapping[str, str] | None = None,
        heap: str = "1g",
        start_timeout_s: float = 90.0,
    ) -> None:
        """`port` 0 takes a free one; `properties` add to the server's settings or replace them."""
        free, self._controller_port = free_ports(2)
        self.port = port or free
        self.bootstrap = f"{HOST}:{self.port}"
        self.folder = folder or Path(tempfile.mkdtemp(prefix="streams-kafka-"))
        self._is_temporary = folder is None
        self._properties = PROPERTIES | self._places() | dict(properties or {})
        self._heap = heap
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: FolderLock | None = None

    def __enter__(self) -> Self:
        with ExitStack() as unless_started:
            unless_started.callback(self.close)
            self.start()
            unless_started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the node; returns when it answers and is a live broker. Raises BrokerError when it does not, and
        before anything is touched where another broker runs on the folder."""
        assert not self.is_running
        self._require_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._release()  # of a node that ended by itself
        try:
            self._lock = FolderLock(self.folder)
        except FolderInUse as error:
            raise BrokerError(str(error)) from None
        try:
            self._start(self._lock)
        except BaseException:
            self.kill()
            raise

    def _start(self, lock: FolderLock) -> None:
        command = [java(), "-cp", f"{libs()}/*", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        config = self.folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
        with open(self._log, "ab") as log:
            if not (self._data / "meta.properties").exists():
                self._format([*command, "-XX:TieredStopAtLevel=1"], config)
            # In a session of its own: Ctrl-C reaches this program, which then stops the node in order.
            self._process = subprocess.Popen(
                [*command, *self._options(), f"-Xmx{self._heap}", "kafka.Kafka", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock.descriptor,),
            )
        lock.note(f"process {os.getpid()}, by its broker, process {self._process.pid},")
        self._wait_until_live()

    def wait(self) -> None:
        """Waits for as long as the node runs; raises BrokerError when it has ended by itself."""
        assert self._process is not None
        self._process.wait()
        raise self._error(f"ended by itself with status {self._process.returncode}")

    def stop(self) -> None:
        """Ends the node in order."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        self._release()

    def kill(self) -> None:
        """Ends the node as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._release()

    def freeze(self) -> None:
        """Stops the node where it is, as a pause of its machine does: connections stay open, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Has a frozen node go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the node and removes its data, unless the folder was given. May be called again."""
        if self._is_temporary:
            self.kill()  # the data is deleted, so an orderly end would only take time
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.stop()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _places(self) -> dict[str, str]:
        # A static quorum: unlike a dynamic one it does not write the port into the data, so a kept folder may be
        # started on other ports.
        return {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            "log.dirs": str(self._data),
        }

    def _require_port(self) -> None:
        # Otherwise the broker that has the port would answer instead of this one.
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise BrokerError(f"Kafka cannot have port {self.port}: {error.strerror}") from error

    def _options(self) -> list[str]:
        """Further options of Java."""
        return []

    def _format(self, start: Sequence[str], config: Path) -> None:
        # Joined by "=", since an id may begin with a dash.
        command = [*start, "kafka.tools.StorageTool", "format", f"--cluster-id={new_id()}", "--config", str(config)]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if result.returncode != 0:
            raise BrokerError(f"Kafka could not format {self._data}:\n{result.stdout}{result.stderr}")

    def _wait_until_live(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._start_timeout_s
        while not is_live(HOST, self.port):
            try:
                self._process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise self._error(f"did not answer within {self._start_timeout_s:.0f} s") from None
            else:
                raise self._error(f"ended with status {self._process.returncode} while starting")

    def _error(self, what: str) -> BrokerError:
        lines = self._log.read_text(errors="replace").splitlines()
        return BrokerError("\n".join([f"Kafka on {self.bootstrap} {what}. Its log ends:", *lines[-40:]]))


def free_ports(count: int) -> list[int]:
    """Returns different ports that were free a moment ago."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def is_live(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether a broker there answers and knows of a live broker, which while starting comes later than answering."""
    # Metadata, version 4: header (key, version, correlation, client), no topics, no automatic creation.
    body = struct.pack(">hhih5si?", 3, 4, 1, 5, b"probe", 0, False)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as answer:
                head = answer.read(16)
    except OSError:
        return False
    if len(head) < 16:
        return False
    _, correlation, _, brokers = struct.unpack(">iiii", head)
    return bool(correlation == 1 and brokers > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a single Apache Kafka node until interrupted.")
    parser.add_argument("--port", type=int, default=9092, help="0 takes a free one (default: %(default)s)")
    parser.add_argument(
        "--dir", type=Path, help="keep the data there (default: a temporary folder, removed at the end)"
    )
    parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", help="a server setting")
    args = parser.parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    properties = dict(each.split("=", 1) for each in args.property)
    try:
        with Broker(port=args.port, folder=args.dir and args.dir.resolve(), properties=properties) as broker:
            where = f"on {broker.bootstrap}, data in {broker.folder}"
            print(f"Apache Kafka {version()} {where}; Ctrl-C stops it", flush=True)
            broker.wait()
    except KeyboardInterrupt:
        print("Apache Kafka stopped")
    except (BrokerError, JavaError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
