"""A window's bounds as points in time."""

from datetime import UTC, datetime

import pytest

from processor_api.stores.windowed import Window


def test_bounds_are_points_in_time_too() -> None:
    window = Window(0, 1_700_000_000_123)
    assert window.start_time == datetime(1970, 1, 1, tzinfo=UTC)
    assert window.end_time == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert window == (0, 1_700_000_000_123)


def test_the_end_of_an_unlimited_window_is_no_date() -> None:
    with pytest.raises(OverflowError):
        _ = Window(0, (1 << 63) - 1).end_time
