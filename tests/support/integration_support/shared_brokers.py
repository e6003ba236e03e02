"""Brokers that all processes of a test run share: each is started by the first test that asks for it.

A broker that does nothing takes 2 % of a core, and 3 s of processor time to start. The process that the run began in
owns them, so that they end with it.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from integration_support.fierce_broker import FIERCE
from integration_support.secured_broker import SecuredBroker
from tools.kafka.quick_broker import QuickBroker
from waiting import wait_until

SETTLE_TIMEOUT_S = 60.0


def settle(bootstrap: str) -> str:
    """Has the broker make its offsets topic, and returns its address.

    Asking a new broker for a group's offsets by the admin client crashes librdkafka, and with it the whole test run;
    asking by a consumer does not, and leaves the topic behind.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "settle", "log_level": 0})

    def has_answered() -> bool:
        try:
            consumer.committed([TopicPartition("settle", 0)], timeout=10)
        except KafkaException:
            consumer.poll(0.1)
            return False
        return True

    try:
        wait_until("the broker has its offsets topic", has_answered, deadline_s=SETTLE_TIMEOUT_S)
    finally:
        consumer.close()
    return bootstrap


class SharedBrokers:
    """Starts brokers by kind, and keeps them until it is closed; threads may ask at the same time."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._found: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._kinds: dict[str, Callable[[], Any]] = {
            "plain": self._plain,
            "fierce": lambda: self._plain(FIERCE),
            "secured": self._secured,
        }

    def get(self, kind: str) -> Any:
        """The address of a broker; of the secured one its listeners too."""
        with self._lock:
            if kind not in self._found:
                self._found[kind] = self._kinds[kind]()
            return self._found[kind]

    def close(self) -> None:
        with self._lock:
            self._opened.close()

    def _plain(self, properties: dict[str, str] | None = None) -> str:
        return settle(self._opened.enter_context(QuickBroker(properties=properties)).bootstrap)

    def _secured(self) -> Any:
        folder = Path(tempfile.mkdtemp(prefix="streams-secured-"))
        self._opened.callback(shutil.rmtree, folder, ignore_errors=True)
        secured = SecuredBroker(folder)
        settle(self._opened.enter_context(secured.broker).bootstrap)
        secured.add_users()
        return secured.listeners


class BrokerServer:
    """Gives other processes of this machine what `SharedBrokers` has; `place` is what they need to ask."""

    def __init__(self) -> None:
        self._brokers = SharedBrokers()
        key = secrets.token_bytes(16)
        self._listener = Listener(authkey=key)
        self.place: tuple[Any, bytes] = (self._listener.address, key)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._brokers.close()

    def _serve(self) -> None:
        while True:
            try:
                asked = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _answer(self, asked: Connection) -> None:
        with asked, suppress(EOFError, OSError):
            try:
                asked.send(self._brokers.get(asked.recv()))
            except Exception as error:
                asked.send(error)


def ask(place: tuple[Any, bytes], kind: str) -> Any:
    """What the owner of the brokers has; raises what kept it from starting one."""
    address, key = place
    with Client(address, authkey=key) as connection:
        connection.send(kind)
        answer = connection.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer
