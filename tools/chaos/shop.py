"""An application with each kind of state, whose results can be computed from its input alone.

Late records are not dropped: the grace periods are a day, and the input is minutes long. `tools.chaos.results` computes
what has to come out.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from streams import (
    BufferConfig,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from tools.chaos.results import BUCKETS, GAP_MS, JOIN_MS, SIZE_MS, bucket_of, order_of

GRACE = timedelta(days=1)


def of_window(key: Any, value: Any) -> tuple[str, str | None]:
    """Returns the key of a window or session, and its value, as text."""
    window = key.window
    return f"{key.key}@{window.start}-{window.end}", None if value is None else str(value)


def topology() -> StreamsBuilder:
    """Returns the builder that `streams run` is given.

    The environment has its version (``VERSION``) and what the names of its topics begin with (``TOPICS``).
    """
    prefix = os.environ.get("TOPICS", "")
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    events, clicks = builder.stream(f"{prefix}events"), builder.stream(f"{prefix}clicks")
    if os.environ.get("VERSION") == "2":  # of the same layout
        events = events.peek(lambda key, value: None).filter(lambda key, value: True)

    by_bucket = events.group_by(lambda key, value: bucket_of(key), Grouped(name="buckets"))
    windows = by_bucket.windowed_by(TimeWindows.of_size_and_grace(SIZE_MS, GRACE))
    counts = windows.count(materialized=Materialized(name="windows"))
    counts.to_stream().map(of_window).to(f"{prefix}windows")
    closed = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed")
    counts.suppress(closed).to_stream().map(of_window).to(f"{prefix}final")

    sessions = events.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(GAP_MS, GRACE))
    sessions.count(materialized=Materialized(name="sessions")).to_stream().map(of_window).to(f"{prefix}sessions")

    around = JoinWindows.of_time_difference_and_grace(JOIN_MS, GRACE)
    pairs = StreamJoined(name="pairs", store_name="pairs")
    events.join(clicks, lambda event, click: f"{event}+{click}", windows=around, joined=pairs).to(f"{prefix}joined")

    users = builder.table(f"{prefix}users", materialized=Materialized(name="users"))
    events.join(users, lambda event, user: f"{event}:{user}").to(f"{prefix}enriched")

    clicks.deduplicate(within=GRACE, id_selector=lambda key, value: value, materialized="seen").to(f"{prefix}once")

    orders = builder.table(f"{prefix}orders", materialized=Materialized(name="orders"))
    profiles = builder.table(f"{prefix}profiles", materialized=Materialized(name="profiles"))
    named = orders.foreign_key_join(
        profiles,
        lambda order: order_of(order)[0],
        lambda order, profile: f"{order}@{profile}",
        joined="profiles",
        materialized=Materialized(name="named"),
    )
    named.to_stream().to(f"{prefix}named")

    amounts = orders.group_by(lambda key, order: order_of(order), Grouped(name="amounts", value_serde="long"))
    sums = amounts.aggregate(
        lambda: 0,
        lambda key, amount, total: total + amount,
        lambda key, amount, total: total - amount,
        materialized=Materialized(name="sums", value_serde="long"),
    )
    sums.to_stream().to(f"{prefix}sums", Produced(value_serde="long"))
    assert BUCKETS > 0
    return builder
