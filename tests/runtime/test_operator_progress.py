"""How far something is done that a commit leaves in the middle, beside the time since which it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from streams.kafka.offset_metadata import TopicPartitionMetadata, time_mark
from streams.runtime.processing.operator_times import OperatorTimes

SENT = time_mark("s/sent")


class Operator:
    """One that sends results on, in a task that begins with what was committed."""

    def __init__(self, *committed: Mapping[str, int]) -> None:
        self.times = OperatorTimes()
        self.times.start(committed)
        self.last = -1
        self.last = self.times.keep("s", lambda: self.last, named=True)
        self.sent = 0
        self.sent = self.times.keep_progress("s/sent", lambda: self.sent, since="s")


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ([], (-1, 0)),
        ([{SENT: 3}], (-1, 3)),  # before anything was completed
        ([{"s": 10, SENT: 3}, {"s": 10, SENT: 5}], (10, 5)),  # the first partition had no record since
        ([{"s": 20}, {"s": 10, SENT: 5}], (20, 0)),  # the second had none since before all was sent
        ([{"s": 20, SENT: 1}, {"s": 10, SENT: 5}], (20, 1)),
        ([{SENT: 7}, {"s": 20, SENT: 2}], (20, 2)),
    ],
)
def test_the_number_beside_the_latest_time_holds(
    committed: Iterable[Mapping[str, int]], expected: tuple[int, int]
) -> None:
    found = Operator(*committed)
    assert (found.last, found.sent) == expected


def test_it_is_committed_while_it_is_in_the_middle_only() -> None:
    operator = Operator({"s": 10})
    assert operator.times.current() == {"s": 10}
    assert not operator.times.progressed
    operator.sent = 4
    assert operator.times.progressed
    current = operator.times.current()
    assert current == {SENT: 4, "s": 10}
    again = Operator(TopicPartitionMetadata.decode(TopicPartitionMetadata(7, current).encode()).processors)
    assert (again.last, again.sent) == (10, 4)
    operator.times.committed()
    assert not operator.times.progressed
    operator.last, operator.sent = 20, 0
    assert operator.times.progressed
    assert operator.times.current() == {"s": 20}
