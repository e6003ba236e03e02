"""Writes one record for each visit of a user to a shop: how long it was, which pages it had, and what was bought.

A visit ends with half an hour without a page. Its result is held back until then, and for five more minutes in which
late pages are still added; such a page may merge two visits.
"""

from datetime import timedelta
from typing import Any

from streams import (
    BufferConfig,
    Materialized,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    Windowed,
    json_serde,
    run,
)

TEXT, JSON = Serdes.STRING, json_serde()

VISITS = SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=30), grace=timedelta(minutes=5))

Json = dict[str, Any]


def add_page(user: str, page: Json, visit: Json) -> Json:
    """Returns a visit with another page."""
    return {"pages": [*visit["pages"], page["path"]], "cents": visit["cents"] + page.get("cents", 0)}


def merge_visits(user: str, one: Json, other: Json) -> Json:
    """Returns the visit that two visits are together."""
    return {"pages": one["pages"] + other["pages"], "cents": one["cents"] + other["cents"]}


def row(visit: Windowed[str], found: Json) -> tuple[str, Json]:
    """Returns the record of a visit, with the user as key."""
    seconds = (visit.window.end - visit.window.start) // 1000
    return visit.key, {"began": visit.window.start, "seconds": seconds, **found}


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    pages = builder.stream("pages", key_serde=TEXT, value_serde=JSON).group_by_key()
    visits = pages.windowed_by(VISITS).aggregate(
        lambda: {"pages": [], "cents": 0},
        add_page,
        merge_visits,
        materialized=Materialized(name="visits", key_serde=TEXT, value_serde=JSON),
    )
    memory = BufferConfig.max_bytes(64 * 1024 * 1024).shut_down_when_full()
    final = visits.suppress(Suppressed.until_window_closes(memory).with_name("final-visits"))
    final.to_stream().map(row).to("visits", key_serde=TEXT, value_serde=JSON)
    return builder


if __name__ == "__main__":
    run(topology)
