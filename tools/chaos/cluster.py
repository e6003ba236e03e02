"""Three brokers of Apache Kafka in one cluster, each behind a proxy that can be slow or swallow what it is sent."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

from tools.chaos.patience import wait_for
from tools.kafka.broker import HOST, PROPERTIES, free_ports, is_live
from tools.kafka.jars import libs
from tools.kafka.quick_broker import quick_options
from tools.maven import java

__all__ = ["SESSION_S", "Cluster", "Node", "Proxy", "processes", "state_of"]

SESSION_S = 10.0
"""The session of the members of groups."""
START_S = 180.0
BLOCK = 1 << 16


class Proxy:
    """Passes bytes on to a broker and back, later or not at all where that is set."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.delay_s = 0.0
        self.swallows = False
        """Whether bytes are taken and not passed on, in both directions, while connections stay open."""
        self._forgotten: set[socket.socket] = set()
        self._lines: dict[socket.socket, socket.socket] = {}
        self._target = target
        self._listener = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            try:
                other = socket.create_connection((HOST, self._target), 5)
            except OSError:
                line.close()
                continue
            other.settimeout(None)
            self._lines[line] = other
            for one, two in ((line, other), (other, line)):
                threading.Thread(target=self._pass_on, args=(one, two), daemon=True).start()

    def forget(self) -> None:
        """Has the connections that there are swallow what comes, for ever; the broker sees them closed, its client sees
        nothing. New ones are passed on."""
        lines, self._lines = self._lines, {}
        self._forgotten.update(lines)
        for other in lines.values():
            with suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        forgotten = self._forgotten
        try:
            while data := source.recv(BLOCK):
                if self.delay_s:
                    time.sleep(self.delay_s)
                if not self.swallows and source not in forgotten:
                    target.sendall(data)
        except OSError:
            pass
        if target not in forgotten:
            self._lines.pop(source, None)
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        forgotten.discard(source)
        source.close()

    def cut(self) -> None:
        """Takes no more connections."""
        self._listener.close()


def _command() -> list[str]:
    return [java(), "-cp", f"{libs()}/*", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Xmx512m", *quick_options()]


def processes() -> dict[int, tuple[int, str]]:
    """Returns the parent of each process of this machine, and the letter of its state."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,state="], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {int(pid): (int(parent), state[0]) for pid, parent, state in rows}


def state_of(pid: int) -> str:
    """Returns the letter of a process's state, such as ``T`` for one that is stopped, or nothing if it has ended."""
    return processes().get(pid, (0, ""))[1]


class Node:
    """One broker of the cluster, which is a controller too."""

    def __init__(self, number: int, folder: Path, port: int, properties: dict[str, str]) -> None:
        self.number = number
        self.port = port
        self._folder = folder
        self._properties = properties
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster_id: str) -> None:
        """Starts it; returns at once."""
        self._folder.mkdir(parents=True)
        config = self._folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
        with open(self._folder / "broker.log", "ab") as log:
            format_ = [*_command(), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config"]
            subprocess.run([*format_, str(config)], check=True, stdout=log, stderr=log)
        self.restart()

    def restart(self) -> None:
        """Starts it again with its data; returns at once."""
        config = self._folder / "server.properties"
        with open(self._folder / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                [*_command(), "kafka.Kafka", str(config)], stdout=log, stderr=log, start_new_session=True
            )

    def freeze(self) -> None:
        """Stops it where it is; returns when it stands."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        wait_for(lambda: self.is_frozen)

    @property
    def is_frozen(self) -> bool:
        """Whether it is stopped and has not ended."""
        return self._process is not None and state_of(self._process.pid) == "T"

    def thaw(self) -> None:
        """Has it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> bool:
        """Ends it; returns whether it was this that ended it."""
        if self._process is None:
            return False
        self._process.kill()
        return self._process.wait() == -signal.SIGKILL


class Cluster:
    """Three nodes on the loopback address; clients reach each through its proxy."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        inner, outer, controllers = ports[:3], ports[3:6], ports[6:]
        voters = ",".join(f"{n + 1}@{HOST}:{port}" for n, port in enumerate(controllers))
        self.proxies = [Proxy(out, to) for out, to in zip(outer, inner, strict=True)]
        inside, session_ms = free_ports(3), str(int(SESSION_S * 1000))
        self.nodes = []
        for n in range(3):
            properties = PROPERTIES | {
                "node.id": str(n + 1),
                "listeners": f"OUT://{HOST}:{inner[n]},IN://{HOST}:{inside[n]},CONTROLLER://{HOST}:{controllers[n]}",
                "advertised.listeners": f"OUT://{HOST}:{outer[n]},IN://{HOST}:{inside[n]}",
                "listener.security.protocol.map": "OUT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "IN",
                "controller.quorum.voters": voters,
                "log.dirs": str(folder / f"node-{n + 1}" / "data"),
                "default.replication.factor": "3",
                "offsets.topic.replication.factor": "3",
                "transaction.state.log.replication.factor": "3",
                "min.insync.replicas": "1",
                # Classic members bring their session along; these groups have that of the brokers.
                "group.consumer.session.timeout.ms": session_ms,
                "group.streams.min.session.timeout.ms": session_ms,
                "group.streams.session.timeout.ms": session_ms,
            }
            self.nodes.append(Node(n + 1, folder / f"node-{n + 1}", inner[n], properties))
        self.bootstrap = ",".join(f"{HOST}:{port}" for port in outer)
        self.past_proxies = ",".join(f"{HOST}:{port}" for port in inside)
        """The addresses for the bench's own clients, which are to see what the brokers have and no pause of a line."""

    def start(self) -> None:
        """Starts the nodes; returns when all answer."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        for node in self.nodes:
            node.start(cluster_id)
        self.wait()

    def wait(self) -> None:
        """Returns when all nodes answer."""
        if not wait_for(lambda: all(is_live(HOST, node.port) for node in self.nodes), within_s=START_S):
            raise RuntimeError(f"the cluster did not start within {START_S:.0f} s of a quiet machine")

    def heal(self) -> None:
        """Ends everything that was done to nodes and proxies."""
        for proxy in self.proxies:
            proxy.delay_s, proxy.swallows = 0.0, False
        for node in self.nodes:
            node.thaw()

    def close(self) -> None:
        """Ends the nodes."""
        for node in self.nodes:
            node.kill()
        for proxy in self.proxies:
            proxy.cut()
