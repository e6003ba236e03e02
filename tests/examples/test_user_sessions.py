"""examples/11_sessions"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from streams import Serdes

MINUTE = 60_000


def test_a_visit_is_written_when_it_is_over(script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    """A late page merges two visits, whose pages are in the order of the visits."""
    sessions = script("11_sessions/user_sessions")
    driver = start(sessions.topology())
    pages = driver.create_input_topic("pages", Serdes.STRING, sessions.JSON)
    visits = driver.create_output_topic("visits", Serdes.STRING, sessions.JSON)
    for minute, user, page in (
        (0, "ann", {"path": "/"}),
        (34, "ann", {"path": "/cart", "cents": 250}),
        (20, "ann", {"path": "/tea"}),
        (40, "bob", {"path": "/", "cents": 100}),
        (68, "cid", {"path": "/"}),
    ):
        pages.pipe_input(user, page, timestamp=minute * MINUTE)
    assert visits.is_empty
    pages.pipe_input("cid", {"path": "/"}, timestamp=69 * MINUTE + 1)
    merged = {"began": 0, "seconds": 34 * 60, "pages": ["/", "/cart", "/tea"], "cents": 250}
    assert visits.read_key_values() == [("ann", merged)]
    pages.pipe_input("cid", {"path": "/"}, timestamp=75 * MINUTE + 1)
    assert visits.read_key_values() == [("bob", {"began": 40 * MINUTE, "seconds": 0, "pages": ["/"], "cents": 100})]
