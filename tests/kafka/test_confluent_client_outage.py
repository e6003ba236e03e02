"""A client is given up once a new one has reached the cluster for a while and it has not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError
from streams.kafka.confluent.outage import CHECK_INTERVAL_S, DOUBT_S, ClientOutage, ClusterOutage, lost_after_s
from waiting import wait_until

LOST_AFTER_S = 4.0


def is_asking() -> bool:
    return any(thread.name == "broker-check" for thread in threading.enumerate())


class Cluster:
    """Answers the client, and new ones, or does not."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.answers_client = self.answers_new = self.answers_members = False
        self.outage = self.outage_with(lambda timeout_s: self.answers_members)

    def outage_with(self, members: Callable[[float], bool]) -> ClientOutage:
        return ClientOutage(ClusterOutage("a:1", self.clock), self.new, self.clock, members, LOST_AFTER_S)

    def new(self, timeout_s: float) -> bool:
        return self.answers_new

    def check(self) -> None:
        """Checks once the next check is due, and waits until a new client was asked, if one is."""
        self.clock.advance(int(CHECK_INTERVAL_S * 1000))
        self.outage.check_client(lambda timeout_s: self.answers_client)
        wait_until("the answer of a new client is known", lambda: not is_asking())

    def check_call(self) -> None:
        """Does so while a call is under way."""
        self.clock.advance(int(CHECK_INTERVAL_S * 1000))
        self.outage.check_call()
        wait_until("the answer of a new client is known", lambda: not is_asking())


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.outage.suspect()
    return found


def test_a_client_that_new_ones_leave_behind_is_given_up(cluster: Cluster) -> None:
    cluster.answers_new = True
    for _ in range(int(LOST_AFTER_S / CHECK_INTERVAL_S)):
        cluster.check()
    cluster.clock.advance(int(CHECK_INTERVAL_S * 1000))
    with pytest.raises(RetryableError, match="has lost all brokers, but a new client reaches them"):
        cluster.outage.check_client(lambda timeout_s: False)


def test_a_client_may_wait_before_it_connects_again() -> None:
    """For as long as its settings say, and a moment for the connection."""
    assert lost_after_s({}) == 13.0
    assert lost_after_s({"reconnect.backoff.max.ms": 1000}) == 4.0


def test_a_client_of_a_cluster_that_is_away_is_kept(cluster: Cluster) -> None:
    for _ in range(20):
        cluster.check()
    assert cluster.outage.suspected


def test_the_time_counts_from_the_last_return_of_the_cluster(cluster: Cluster) -> None:
    for reached in (True, True, False, True, True, True):
        cluster.answers_new = reached
        cluster.check()


def test_a_client_that_is_answered_is_not_suspected_any_more(cluster: Cluster) -> None:
    cluster.answers_new = True
    cluster.check()
    cluster.check()
    cluster.answers_client = True
    while cluster.outage.suspected:
        cluster.check()
    assert DOUBT_S <= cluster.clock.monotonic() <= DOUBT_S + CHECK_INTERVAL_S
    cluster.answers_client = False
    cluster.outage.suspect()
    for _ in range(int(LOST_AFTER_S / CHECK_INTERVAL_S)):  # counted anew
        cluster.check()


def test_checks_are_seconds_apart(cluster: Cluster) -> None:
    asked = []
    for _ in range(10):
        cluster.outage.check_client(lambda timeout_s: asked.append(timeout_s) or True)
    assert len(asked) == 1


def test_a_client_that_was_asked_just_now_is_not_asked_again(cluster: Cluster) -> None:
    cluster.outage.check_client(lambda timeout_s: pytest.fail("asked twice"), answered=False)
    assert cluster.outage.suspected
    cluster.clock.advance(int(DOUBT_S * 1000))
    cluster.outage.check_client(lambda timeout_s: pytest.fail("asked twice"), answered=True)
    assert not cluster.outage.suspected


def test_a_client_that_is_answered_once_and_never_again_is_given_up(cluster: Cluster) -> None:
    """A broker that is fenced answers a last time, and names no brokers; the client says nothing when it drops all."""
    cluster.answers_new = cluster.answers_client = True
    cluster.check()
    cluster.answers_client = False
    for _ in range(int(LOST_AFTER_S / CHECK_INTERVAL_S)):
        cluster.check()
    with pytest.raises(RetryableError, match="has lost all brokers, but a new client reaches them"):
        cluster.check()


def test_a_call_that_does_not_come_back_though_others_are_answered_is_given_up(cluster: Cluster) -> None:
    cluster.answers_members = True
    for _ in range(int(LOST_AFTER_S / CHECK_INTERVAL_S)):
        cluster.check_call()
    with pytest.raises(RetryableError, match="has lost all brokers, but a new client reaches them"):
        cluster.check_call()


def test_a_call_of_a_member_that_waits_for_a_rebalance_is_waited_for(cluster: Cluster) -> None:
    cluster.answers_new = True
    for _ in range(20):
        cluster.check_call()
    assert cluster.outage.suspected


def test_a_call_that_comes_back_ends_the_suspicion(cluster: Cluster) -> None:
    cluster.answers_members = True
    for _ in range(5):
        for _ in range(3):
            cluster.check_call()
        cluster.outage.answered()
        assert not cluster.outage.suspected


def test_an_answer_that_comes_after_the_call_did_says_nothing_about_the_next(cluster: Cluster) -> None:
    begun, ends = threading.Event(), threading.Event()

    def late(timeout_s: float) -> bool:
        begun.set()
        return ends.wait(60)

    cluster.outage = cluster.outage_with(late)
    cluster.clock.advance(int(CHECK_INTERVAL_S * 1000))
    cluster.outage.check_call()
    assert begun.wait(60)
    cluster.outage.answered()
    ends.set()
    wait_until("the answer of a new client is known", lambda: not is_asking())
    cluster.clock.advance(int(LOST_AFTER_S * 1000))
    cluster.check_call()
