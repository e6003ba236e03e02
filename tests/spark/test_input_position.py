"""The offsets and the end of a changelog that belong to one commit, told from those that do not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from processor_api.clock import ManualClock
from processor_api.task_id import TopicPartition
from streams.kafka.own_names import thread_id
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.wire.codec import BatchHeader
from streams.spark.tables.input_position import FoundPosition, LinkedInputs, MomentSearch

T = TypeVar("T")
IN, LOG = TopicPartition("in", 0), TopicPartition("app-counts-changelog", 0)
OWN = thread_id("app", "0a1b2c3d-0000-1111-2222-0123456789ab-0", 1)
UNSTABLE = None


def _next(answers: list[T]) -> T:
    """The answers in turn, the last one for ever."""
    return answers.pop(0) if len(answers) > 1 else answers[0]


class Cluster:
    """Answers as the brokers of an application with one task do, each question with the next of its answers.

    :param offsets: the committed offset of the input; `UNSTABLE` while a transaction may change it.
    :param states: the states of the application's transaction; ``None`` if it is not listed.
    :param ends: the ends of the changelog.
    :param inputs: the last stable offsets of the input.
    """

    def __init__(
        self,
        *,
        offsets: list[int | None] | None = None,
        states: list[str | None] | None = None,
        ends: list[int] | None = None,
        inputs: list[int] | None = None,
        high: int = 5,
        transactional: bool = True,
    ) -> None:
        self._offsets, self._states = offsets or [5], states or ["Ongoing", None]
        self._ends = {LOG: ends or [8], IN: inputs or [5]}
        self._high, self._transactional = high, transactional
        self.asked: list[str] = []

    def stable_offsets(
        self, group: str, places: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.asked.append("offsets")
        assert (group, set(places)) == ("app", {IN})
        found = _next(self._offsets)
        return {} if found is UNSTABLE else {IN: OffsetAndMetadata(found, "")}

    def transactions(self, states: Collection[str], timeout_s: float) -> dict[str, str]:
        self.asked.append("transactions")
        state = _next(self._states)
        return {} if state is None or (states and state not in states) else {OWN: state, "another": state}

    def offsets_for_time(
        self, times: Mapping[TopicPartition, int], timeout_s: float, isolation: int
    ) -> dict[TopicPartition, int]:
        self.asked += [f"end of {place.topic}" for place in times]
        return {place: _next(self._ends[place]) for place in times}

    def log_ends(self, places: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._high)

    def batch_headers(self, place: TopicPartition, offset: int, timeout_s: float, most_bytes: int) -> list[BatchHeader]:
        return [BatchHeader(offset, offset, 1, self._transactional, self._transactional)]

    def search(self) -> FoundPosition:
        found = FoundPosition("app", {})
        MomentSearch(self, found, {LOG: 8}, ManualClock()).look([LinkedInputs((LOG,), (IN,))])  # type: ignore[arg-type]
        return found


def test_offsets_that_stay_have_the_end_between_them() -> None:
    cluster = Cluster()
    found = cluster.search()
    assert (found.unknown, found.committed[IN].offset, found.ends) == (None, 5, {LOG: 8})
    ends = ["end of in", "end of app-counts-changelog"]
    assert cluster.asked == ["transactions", "offsets", "transactions", *ends, "offsets"]


def test_an_end_is_read_when_all_markers_are_written() -> None:
    """The first offsets may be those of a transaction whose marker the changelog does not have yet."""
    cluster = Cluster(states=["Ongoing", "PrepareCommit", "PrepareCommit", "Ongoing"])
    assert cluster.search().ends == {LOG: 8}
    asked = cluster.asked
    assert asked[:5] == ["transactions", "offsets", *["transactions"] * 3]
    assert asked.index("end of app-counts-changelog") > 4


def test_offsets_that_change_meanwhile_are_looked_at_again() -> None:
    cluster = Cluster(offsets=[5, 6, 6, 6], ends=[8, 10])
    found = cluster.search()
    assert (found.unknown, found.committed[IN].offset, found.ends) == (None, 6, {LOG: 10})
    assert cluster.asked.count("offsets") == 4


def test_an_offset_that_a_transaction_may_change_is_no_offset() -> None:
    found = Cluster(offsets=[UNSTABLE, 6, 6, UNSTABLE, 7]).search()
    assert (found.unknown, found.committed[IN].offset) == (None, 7)


def test_a_transaction_that_does_not_end_is_given_up() -> None:
    found = Cluster(states=["Ongoing", "PrepareCommit"]).search()
    assert found.unknown == "no moment between two commits was found within 5 s, since a transaction is not completed"
    assert found.ends == {}


def test_transactions_that_may_not_be_seen_are_not_taken_for_none() -> None:
    found = Cluster(states=[None]).search()
    assert "allow DESCRIBE on transactional ids that start with 'app'" in (found.unknown or "")


def test_an_application_that_has_committed_nothing_has_no_position() -> None:
    for transactional in (True, False):
        found = Cluster(offsets=[-1], transactional=transactional).search()
        assert "the application has, of in-0, no committed offset" in (found.unknown or "")


def test_without_transactions_there_is_a_position_when_all_is_processed() -> None:
    cluster = Cluster(transactional=False)
    found = cluster.search()
    assert (found.unknown, found.committed[IN].offset, found.ends) == (None, 5, {LOG: 8})
    assert "transactions" not in cluster.asked
    found = Cluster(transactional=False, offsets=[4, 5]).search()
    assert "and the application went on in in-0: its changelog may be ahead of its offsets" in (found.unknown or "")
    found = Cluster(transactional=False, high=7).search()
    assert "since a transaction is open in an input" in (found.unknown or "")
