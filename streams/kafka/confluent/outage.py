"""Outages, as librdkafka's clients see them: of a whole cluster, and of one client that new ones would replace.

:class:`ClusterOutage` logs the loss of all brokers and their return, one line each, whatever the clients report
meanwhile. :class:`ClientOutage` finds a client that will never reach its cluster again, so that a new one takes its
place. :class:`OutageNotice` says during a request that there is no answer, so that a start does not wait in silence.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from streams.kafka.confluent.callbacks import ClientLog
from streams.kafka.ports import ClientUnusable
from streams.kafka.wire.describe import describe_group

log = logging.getLogger("streams.kafka.client")

FIRST_S = 3.0
REPEAT_S = 10.0
PROBE_S = 1.0
PROBE_INTERVAL_S = 2.0
SILENT_S = 120.0
"""Time after which an outage of which no client says anything more is forgotten: the clients were closed."""
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
CONNECTION = frozenset({"_RESOLVE", "_TIMED_OUT", "_TRANSPORT"})
"""Errors of one connection. The client connects again, or continues with another broker."""
OWN_IDS = frozenset({"group.instance.id", "transactional.id"})
NO_GROUP = "streams-broker-check"
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance"})
_FRAME = re.compile(r"^\S+/(?:bootstrap|\d+): |^\S+/(?:bootstrap|\d+)$| \((?:after|in) .*state \w+.*\)$")
# The first four bytes of an answer are its size; those of a web server are HTTP.
_HTTP = f"Invalid response size {int.from_bytes(b'HTTP')}"


def failure_of_request(client: Any, topic: str | None, timeout_s: float) -> str | None:
    """Asks for metadata; returns the text of the error, or ``None`` if a broker answers in time and names brokers. One
    that is fenced names none, and then the client drops those that it knows.

    :param topic: an existing topic to ask for; without one, the answer is about all topics.
    """
    try:
        asked = client.list_topics
        found = asked(topic, timeout=timeout_s) if topic is not None else asked(timeout=timeout_s)
    except (KafkaException, SystemError, RuntimeError) as error:  # the last: the client is closed
        return str(error)  # the error itself would keep the frames, and so the client, alive
    return None if found.brokers else "the response does not contain brokers"


def plain_reason(text: str) -> str:
    """Returns the reason that librdkafka gives for an error of a connection, without the names of its own states."""
    if _HTTP in text:
        return "an HTTP server responds there, not a Kafka broker"
    while (shorter := _FRAME.sub("", text)) != text:
        text = shorter
    return text


class OutageNotice:
    """Logs that a request has no answer, ``FIRST_S`` after it was made and then every ``REPEAT_S``.

    :param what: the beginning of the line, such as ``no broker can be reached at localhost:9092``.
    :param timeout_s: how long is tried in all, for the log.
    """

    def __init__(self, what: str, clock: Clock, timeout_s: float) -> None:
        self._what = what
        self._clock = clock
        self._timeout_s = timeout_s
        self._start = clock.monotonic()
        self.due = self._start + FIRST_S
        """The next time to call :meth:`say`, by the clock's monotonic time."""

    def say(self, reason: str) -> None:
        """Logs it if it is due."""
        now = self._clock.monotonic()
        if now < self.due:
            return
        self.due = now + REPEAT_S
        log.warning(
            "%s for %.0f s%s; trying for %.0f s in all",
            self._what,
            now - self._start,
            f": {reason}" if reason else "",
            self._timeout_s,
        )


class IdleClients(Protocol):
    """Holds clients that may not be called for a while.

    During an outage librdkafka queues a dozen lines and errors a second for each client, until the next poll; each is
    put into its place among all that wait (2.16), so memory and processor time grow with the outage
    (docs/decisions/clients-and-brokers.md, "Idle clients are polled during an outage").
    """

    def relieve(self) -> None:
        """Takes what the clients have to report, or drops them; waits for nothing."""


class ClusterOutage:
    """Logs the errors of connections that the clients of one cluster report. May be used by any thread.

    When a client reports that a connection failed, or that all brokers are down, or a call takes long, the next call of
    :meth:`check` asks a broker for an answer: the report may be old, or about one broker of several, and the one about
    all of them does not come each time. The outage is logged when there is no answer, and its end when there is one
    again.

    :param servers: the ``bootstrap.servers``, for the log.
    """

    def __init__(self, servers: str | None, clock: Clock | None = None) -> None:
        self.suspected = False
        """Whether a client reported a failed connection, and no broker has answered since; for a quick look."""
        self._servers = servers
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._since = 0.0
        self._is_logged = False
        self._reason = ""
        self._next_probe = 0.0
        self._last_sign = 0.0
        self._logged_at: dict[str, float] = {}
        self._broken_at = -math.inf
        self._idle: weakref.WeakSet[IdleClients] = weakref.WeakSet()

    def watch(self, idle: IdleClients) -> None:
        """Has clients relieved as long as the outage lasts, and something else keeps the object."""
        self._idle.add(idle)

    def was_broken(self, within_s: float) -> bool:
        """Whether a client has reported a failed connection, or that all brokers are down, in the last seconds."""
        return self._clock.monotonic() - self._broken_at < within_s

    @property
    def lasts(self) -> bool:
        return self.suspected and self._clock.monotonic() - self._last_sign < SILENT_S

    def report(self, error: KafkaError) -> None:
        """Takes an error that a client reports by itself.

        Errors of connections are at level debug; any other, such as one of TLS or of a login, is a warning, which is
        repeated once in a while.
        """
        name, now = error.name(), self._clock.monotonic()
        fields = {"error": f"{error.str()} ({name})"}
        if name in CONNECTION:  # the report that all brokers are down gives no reason
            self._reason = plain_reason(error.str())
        if name in CONNECTION or error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._broken_at = now
            self.suspect()
            log.debug("client error", extra=fields)
        elif now - self._logged_at.get(name, -math.inf) >= REPEAT_S:
            self._logged_at[name] = now
            log.warning("client error", extra=fields)

    def suspect(self) -> None:
        """Has the next :meth:`check` ask, as if a client had reported that all brokers are down.

        For calls that take long: a client reports nothing while its thread is inside of one.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._last_sign = now
            if not self.suspected:
                self.suspected, self._since, self._next_probe = True, now, now

    def check(self, client: Any, topic: str | None = None) -> bool | None:
        """Asks a broker for an answer, if all seem to be down and none was asked in the last seconds.

        It takes a second at most. To be called where the thread waits for the brokers in any case.

        :param client: the client that asks.
        :param topic: an existing topic to ask for; without one, the answer is about all topics.
        :returns: whether a broker has answered this client, ``None`` if none was asked.
        """
        now = self._clock.monotonic()
        with self._lock:
            if not self.suspected or now < self._next_probe:
                return None
            self._next_probe = now + PROBE_INTERVAL_S  # under the lock: one client asks for all of the cluster
        for idle in list(self._idle):
            idle.relieve()
        error = failure_of_request(client, topic, PROBE_S)
        if error is not None:
            self.missed(error)
        else:
            self.answered()
        return error is None

    def missed(self, error: str) -> None:
        """Takes that no broker answered a client, which may be none of those that report errors here."""
        with self._lock:
            self._last_sign = self._clock.monotonic()
            if self._is_logged or not self.suspected:
                return
            self._is_logged = True
        log.warning(
            "the brokers are lost: records wait until one answers",
            extra={"servers": self._servers, "error": self._reason or plain_reason(error)},
        )

    def answered(self) -> None:
        """Takes that a broker has answered a client."""
        with self._lock:
            was_logged, after_s = self._is_logged, self._clock.monotonic() - self._since
            self.suspected = self._is_logged = False
            self._reason = ""
        if was_logged:
            log.info("the brokers are back", extra={"servers": self._servers, "after_s": round(after_s, 1)})


def lost_after_s(config: Mapping[str, Any]) -> float:
    """Returns how long new clients have to be answered, and this one not, until it has surely lost its brokers."""
    return int(config.get("reconnect.backoff.max.ms", RECONNECT_MAX_MS)) / 1000 + CONNECT_S


def reaches_brokers(config: Mapping[str, Any], timeout_s: float) -> bool:
    """Whether a new client with this configuration gets an answer that names brokers."""
    # With its id it would take the place of the very member or producer that it is compared with.
    settings = {name: value for name, value in config.items() if name not in OWN_IDS}
    name = settings.setdefault("group.id", NO_GROUP)  # which a producer does not have; only members use it
    try:
        client = Consumer(settings, logger=ClientLog())
        found = client.list_topics(name, timeout=timeout_s)  # no such topic: the answer stays small
    except (KafkaException, SystemError):
        return False
    return bool(found.brokers)


def answers_members(config: Mapping[str, Any], cluster: ClusterOutage, timeout_s: float) -> bool:
    """Whether the coordinator of a consumer's group answers a new client, and has its members wait for no rebalance."""
    try:
        found = describe_group(config, config["group.id"], timeout_s=timeout_s)
    except RetryableError as error:
        cluster.missed(str(error))
        return False
    except StreamsError:  # such as a login that only librdkafka has
        return False
    cluster.answered()
    return found.state not in REBALANCING


class ClientOutage:
    """Compares a client with a new one, once it says that a connection or all brokers are down.

    When an answer about metadata names topics but no broker, as that of a broker which is fenced for a moment,
    librdkafka drops all brokers that it knew. If the second answer is the same it drops those of ``bootstrap.servers``
    too, and never asks a broker again (2.16; its issue 5301).

    :param cluster: the outage of its cluster.
    :param new: returns whether a broker answers a new client, and names brokers. It is called on a thread of its own.
    :param answers_members: returns whether a member of the group would be answered now. It is called like that too.
    :param lost_after_s: see :func:`lost_after_s`.
    """

    def __init__(
        self,
        cluster: ClusterOutage,
        new: Callable[[float], bool],
        clock: Clock,
        answers_members: Callable[[float], bool],
        lost_after_s: float,
    ) -> None:
        self.cluster = cluster
        self.suspected = False
        """Whether the client said that a broker is down, and none has answered it since; for a quick look."""
        self._new, self._clock, self._answers_members = new, clock, answers_members
        self._lost_after_s = lost_after_s
        self._next_check = self._doubt_until = 0.0
        self._answers = 0
        self._reached_since: float | None = None
        """The time since when new clients get an answer while this one gets none."""
        self._asking: threading.Thread | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], cluster: ClusterOutage | None, clock: Clock | None = None) -> ClientOutage:
        """Returns that of a consumer or producer with this configuration.

        :param cluster: the outage of its cluster; one of its own if not given.
        """
        clock = clock or SystemClock()
        cluster = cluster or ClusterOutage(config.get("bootstrap.servers"), clock)
        new, members = partial(reaches_brokers, config), partial(answers_members, config, cluster)
        return cls(cluster, new, clock, members, lost_after_s(config))

    def report(self, error: KafkaError) -> None:
        """Takes an error that the client reports by itself."""
        self.cluster.report(error)
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self.suspect()

    def suspect(self) -> None:
        """Takes the client's report that a connection failed, that all brokers are down, or that it lost its place in
        the group."""
        self.suspected = True
        self._doubt_until = self._clock.monotonic() + DOUBT_S

    def check(self, client: Any, topic: str | None) -> None:
        """Has the client ask a broker if none seems to be there: once, for the log and for the client itself.

        :param topic: an existing topic to ask for; without one, the answer is about all topics.
        :raises ClientUnusable: if new clients have reached the cluster for a while, and this one has not.
        """
        answered = self.cluster.check(client, topic) if self.cluster.suspected else None
        if self.suspected:
            self.check_client(lambda timeout_s: failure_of_request(client, topic, timeout_s) is None, answered)

    def check_client(self, own: Callable[[float], bool], answered: bool | None = None) -> None:
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
        self.cluster.suspect()
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
            raise ClientUnusable("this client has lost all brokers, but a new client reaches them: replace the client")
        if self._asking is None or not self._asking.is_alive():
            self._asking = threading.Thread(
                target=self._ask, args=(new, now, self._answers), name="broker-check", daemon=True
            )
            self._asking.start()

    def _ask(self, new: Callable[[float], bool], now: float, answers: int) -> None:
        if not new(NEW_ANSWER_S):
            self._reached_since = None
        elif self._reached_since is None and self._answers == answers:
            self._reached_since = now  # no answer came to the client itself while the new one was asked
