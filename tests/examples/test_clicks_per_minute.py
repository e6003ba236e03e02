"""examples/09_windows"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from streams import Serdes


def test_a_minute_has_one_final_count(script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    """Its late click is in it, and one that is too late is dropped."""
    clicks = script("09_windows/clicks_per_minute")
    driver = start(clicks.topology())
    sent = driver.create_input_topic("clicks", Serdes.STRING, clicks.JSON)
    counts = driver.create_output_topic("clicks-per-minute", Serdes.STRING, clicks.JSON)
    for second, url in ((3, "/"), (40, "/?from=mail"), (65, "/cart"), (59, "/"), (69, "/")):
        sent.pipe_input("ann", {"url": url}, timestamp=second * 1000)
    assert counts.is_empty
    for second, url in ((71, "/cart"), (58, "/"), (131, "/")):
        sent.pipe_input("bob", {"url": url}, timestamp=second * 1000)
    assert counts.read_key_values() == [
        ("/", {"minute": "1970-01-01T00:00+00:00", "clicks": 3}),
        ("/", {"minute": "1970-01-01T00:01+00:00", "clicks": 1}),
        ("/cart", {"minute": "1970-01-01T00:01+00:00", "clicks": 2}),
    ]
    assert driver.metrics()["dropped-records-total"] == 1
