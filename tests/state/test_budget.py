"""When the bytes that wait for a commit ask for one (KIP-892)."""

from __future__ import annotations

from state.write_buffer.memory_budget import Budget


def asked(budget: Budget, *rounds: int) -> list[bool]:
    """Whether a commit is asked for in rounds of a thread that leave so many bytes waiting."""
    answers = []
    for waits in rounds:
        budget.uncommitted = waits
        answers.append(budget.wants_commit())
    return answers


def test_a_commit_is_asked_for_over_the_limit() -> None:
    assert asked(Budget(0, 100), 0, 10, 20, 100, 101) == [False, False, False, True, True]


def test_a_commit_is_asked_for_when_the_next_round_would_be_over_the_limit() -> None:
    """As much comes again as came in the last round."""
    assert asked(Budget(0, 100), 30, 60, 90) == [False, False, True]
    assert asked(Budget(0, 100), 51) == [True]
    assert asked(Budget(0, 100), 45, 90, 90, 90) == [False, True, False, False]


def test_what_came_since_a_commit_counts_in_full() -> None:
    """Less waits than before, all of it new."""
    assert asked(Budget(0, 100), 40, 80, 60) == [False, True, True]
    assert asked(Budget(0, 100), 40, 30, 40) == [False, False, False]


def test_what_a_cache_holds_back_and_custom_stores_report_counts_too() -> None:
    budget = Budget(1 << 20, 100)
    reported = 20
    budget.reports.append(lambda: reported)
    budget.dirty = 20
    assert asked(budget, 0, 20) == [False, False]
    reported = 41
    assert asked(budget, 20) == [True]


def test_without_a_limit_no_commit_is_asked_for() -> None:
    assert asked(Budget(0), 1 << 40) == [False]
    assert asked(Budget(0, 0), 0, 1) == [False, True]
