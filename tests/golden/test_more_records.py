"""Records that come beside those of Java are looked at too."""

from __future__ import annotations

from typing import Any

import pytest

from golden_support.more_records import beside, with_more

ROW = (b"a" + (10).to_bytes(8, "big") + bytes(4)).hex()


def row(count: int | None, key: str = ROW) -> dict[str, Any]:
    value = None if count is None else count.to_bytes(8, "big").hex()
    return {"topic": "parity-n-changelog", "key_hex": key, "value_hex": value, "timestamp": 12, "headers": []}


def result(count: Any, timestamp: int = 12, key: str = "a@10-20") -> dict[str, Any]:
    return {"topic": "output", "key": key, "value": count, "timestamp": timestamp, "headers": []}


def step(internal: Any = (), out: Any = ()) -> dict[str, Any]:
    return {"internal": list(internal), "out": list(out)}


def is_right(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> bool:
    """Whether what comes beside the expected records is taken for right."""
    return list(with_more(expected, actual)) == actual


def test_the_lost_result_of_a_window_is_right() -> None:
    """It is what its changelog has last."""
    expected = [step([row(1)]), step([row(2)]), step()]
    assert is_right(expected, [*expected[:2], step(out=[result(2)])])


@pytest.mark.parametrize("wrong", [result(1), result(2, timestamp=13), result(2, key="b@10-20"), result(None)])
def test_another_result_is_wrong(wrong: dict[str, Any]) -> None:
    """Of another count, another time, a window that has no row; and a removal of what was not sent."""
    expected = [step([row(1)]), step([row(2)]), step()]
    assert not is_right(expected, [*expected[:2], step(out=[wrong])])


def test_a_result_that_is_sent_twice_is_wrong() -> None:
    """By us, or by us and by Java."""
    logged = step([row(2)])
    twice = [logged, step(out=[result(2)]), step(out=[result(2)])]
    assert not is_right([logged, step(), step()], twice)
    assert not is_right([logged, step(), step(out=[result(2)])], twice)


def test_only_what_is_there_is_removed() -> None:
    there, gone = [step([row(1)]), step()], [step([row(1)]), step([row(None)]), step()]
    assert is_right(there, [there[0], step([row(None)])])
    assert not is_right(gone, [*gone[:2], step([row(None)])])
    assert not is_right(there, [there[0], step([row(None, key="62")])])


def test_records_keep_their_order() -> None:
    assert beside([1, 3], [1, 2, 3]) == [1]
    assert beside([3, 1], [1, 2, 3]) is None
