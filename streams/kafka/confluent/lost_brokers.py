"""Finds clients that will never reach their cluster again, so that new ones take their place.

When an answer about metadata names topics but no broker, as that of a broker which is fenced for a moment, librdkafka
drops all brokers that it knew. If the second answer is the same it drops those of ``bootstrap.servers`` too, and never
asks a broker again (2.16; its issue 5301).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from streams.kafka.confluent.outage import ClientLog, OutageLog
from streams.kafka.ports import ClientUnusable
from streams.kafka.wire.describe import describe_group

CHECK_INTERVAL_S = 1.0
OWN_ANSWER_S = 1.0
NEW_ANSWER_S = 10.0
CONNECT_S = 3.0
"""Time that a healthy client needs at most, beside its wait, to connect again to a broker that new clients reach."""
DOUBT_S = 15.0
"""How long a client is asked again and again after it said that brokers are down, though it is answered: it may have
been answered by a broker that it drops a moment later, about which it says nothing."""
RECONNECT_MAX_MS = 10_000
"""librdkafka's default of ``reconnect.backoff.max.ms``, the longest wait of a client that lost a connection."""


REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})


def lost_after_s(config: Mapping[str, Any]) -> float:
    """Returns how long new clients have to be answered, and this one not, until it has surely lost its brokers."""
    return int(config.get("reconnect.backoff.max.ms", RECONNECT_MAX_MS)) / 1000 + CONNECT_S


def reaches_brokers(config: Mapping[str, Any], timeout_s: float) -> bool:
    """Whether a new client with this configuration gets an answer that names brokers."""
    try:
        client = Consumer(
            {name: value for name, value in config.items() if name != "group.instance.id"}, logger=ClientLog()
        )
        found = client.list_topics(config["group.id"], timeout=timeout_s)  # no such topic: the answer stays small
    except (KafkaException, SystemError):
        return False
    return bool(found.brokers)


def answers_members(config: Mapping[str, Any], outage: OutageLog, timeout_s: float) -> bool:
    """Whether the coordinator of a consumer's group answers a new client, and has its members wait for no rebalance."""
    try:
        found = describe_group(config, config["group.id"], timeout_s=timeout_s)
    except RetryableError as error:
        outage.missed(str(error))
        return False
    except StreamsError:  # such as a login that only librdkafka has
        return False
    outage.answered()
    return found.state not in REBALANCING


class GivenUpClient:
    """Stands in for a consumer's client that is inside of a call which is not waited for any more.

    The client takes one call at a time (confluent-kafka 2.16): any other would wait for that one too.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_args: object, **_options: object) -> Any:
            raise ClientUnusable("this client was given up while it committed; a new one has to take its place")

        return refuse


class LostBrokers:
    """Compares one client with a new one, once it says that a connection or all brokers are down.

    :param new: returns whether a broker answers a new client, and names brokers. It is called on a thread of its own.
    :param answers_members: returns whether a member of the group would be answered now. It is called like that too.
    :param lost_after_s: see :func:`lost_after_s`.
    """

    def __init__(
        self,
        new: Callable[[float], bool],
        clock: Clock,
        answers_members: Callable[[float], bool],
        lost_after_s: float,
    ) -> None:
        self.suspected = False
        """Whether the client said that a broker is down, and none has answered it since; for a quick look."""
        self._new, self._clock, self._answers_members = new, clock, answers_members
        self._lost_after_s = lost_after_s
        self._next_check = self._doubt_until = 0.0
        self._answers = 0
        self._reached_since: float | None = None
        """The time since when new clients get an answer while this one gets none."""
        self._asking: threading.Thread | None = None

    def suspect(self) -> None:
        """Takes the client's report that a connection failed, that all brokers are down, or that it lost its place in
        the group."""
        self.suspected = True
        self._doubt_until = self._clock.monotonic() + DOUBT_S

    def check(self, own: Callable[[float], bool], answered: bool | None = None) -> None:
        """Asks for an answer if none was asked for in the last seconds; takes a second at most.

        :param own: returns whether a broker answers this client within a time in seconds.
        :param answered: whether one did just now, if the client was asked for another reason: it is not asked again.
        :raises ClientUnusable: if new clients have reached the cluster for a while, and this one has not.
        """
        if not self._is_due(answered):
            return
        if own(OWN_ANSWER_S) if answered is None else answered:
            in_doubt = self._clock.monotonic() < self._doubt_until
            self.answered()
            self.suspected = in_doubt
            return
        self._compare(self._new)

    def check_call(self) -> None:
        """Does the same while a call that only the coordinator ends takes long, and the client takes no other call.

        :raises ClientUnusable: if the coordinator has answered members for a while, and the call has not come back.
        """
        self.suspect()
        if self._is_due():
            self._compare(self._answers_members)

    def answered(self) -> None:
        """Takes that a broker has answered this client."""
        self.suspected, self._reached_since = False, None
        self._answers += 1

    def _is_due(self, answered: bool | None = None) -> bool:
        now = self._clock.monotonic()
        if not answered and now < self._next_check:
            return False
        self._next_check = now + CHECK_INTERVAL_S
        return True

    def _compare(self, new: Callable[[float], bool]) -> None:
        now, reached = self._clock.monotonic(), self._reached_since
        if reached is not None and now - reached >= self._lost_after_s:
            raise ClientUnusable("this client has lost all brokers, which a new client reaches; it has to be replaced")
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(
                target=self._ask, args=(new, now, self._answers), name="broker-check", daemon=True
            )
            self._asking.start()

    def _ask(self, new: Callable[[float], bool], now: float, answers: int) -> None:
        if not new(NEW_ANSWER_S):
            self._reached_since = None
        elif self._reached_since is None and self._answers == answers:
            self._reached_since = now
