"""Each kind of table with each consumer of tables: the topology starts, and has the right row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    ValueTransformerWithKey,
    Windows,
)
from processor_api.errors import TopologyError
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.time_to_live import TimeToLive
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde
from streams.testing.driver import TopologyTestDriver

S = Serdes.STRING
Builder = StreamsBuilder
Table = KTable[Any, Any]

ROW = ("k", 5)
"""The key and time of the record that makes the row which is looked at; its value is "v"."""


@dataclass(frozen=True)
class Kind:
    """A kind of table over topic ``a``, of which one row is known when the record is in."""

    make: Callable[[Builder], Table]
    key: Any = "k"
    value: str = "v"
    serde: Serde[Any] = S
    more: tuple[tuple[str, str, str, int], ...] = ()
    """Records of other topics, which come first."""
    after: tuple[tuple[str, str, str, int], ...] = ()
    """Records that come last, for the rows that wait for stream time."""


class Again(ValueTransformerWithKey[Any, Any, Any]):
    """Leaves values as they are."""

    def transform(self, key: Any, value: Any) -> Any:
        return value


class Tens(Windows):
    """Windows of ten milliseconds, as a user writes them."""

    size_ms = 10
    grace_ms = 0

    def windows_for(self, timestamp: int) -> list[Window]:
        return [Window(timestamp - timestamp % 10, timestamp - timestamp % 10 + 10)]


def grouped(builder: Builder) -> Any:
    return builder.stream("a").group_by_key()


def last(key: Any, value: Any, so_far: Any) -> Any:
    return value


def windowed(windows: Any, *, final: bool = False, **options: Any) -> Callable[[Builder], Table]:
    def make(builder: Builder) -> Table:
        found = grouped(builder).windowed_by(windows)
        found = found.emit_strategy(EmitStrategy.on_window_close()) if final else found
        if isinstance(windows, SessionWindows):
            return found.aggregate(str, last, lambda key, one, other: other, materialized=stored(**options))
        return found.aggregate(str, last, materialized=stored(**options))

    return make


def cogrouped(windows: Any) -> Callable[[Builder], Table]:
    def make(builder: Builder) -> Table:
        group = grouped(builder).cogroup(last)
        if windows is None:
            return group.aggregate(str, materialized=stored())
        if isinstance(windows, SessionWindows):
            return group.windowed_by(windows).aggregate(str, lambda key, one, other: other, materialized=stored())
        return group.windowed_by(windows).aggregate(str, materialized=stored())

    return make


def stored(**options: Any) -> Materialized[Any, Any]:
    return Materialized(value_serde=S, **options)


def source(builder: Builder) -> Table:
    return builder.table("a")


def joined(how: str, *, other_first: bool = True, **options: Any) -> Callable[[Builder], Table]:
    def make(builder: Builder) -> Table:
        left, right = (
            (builder.table("b"), source(builder)) if not other_first else (source(builder), builder.table("b"))
        )
        return getattr(left, how)(right, lambda one, other: "v", **options)

    return make


MINE = timedelta(milliseconds=10)
TIME = TimeWindows.of_size_with_no_grace(MINE)
GRACE = TimeWindows.of_size_and_grace(MINE, MINE)
HOPS = TimeWindows.of_size_with_no_grace(MINE).advance_by(timedelta(milliseconds=5))
SLIDES = SlidingWindows.of_time_difference_with_no_grace(MINE)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(MINE)
TIME_KEY, TIME_SERDE = Windowed("k", Window(0, 10)), TimeWindowedSerde(S, 10)
SLIDE_KEY = Windowed("k", Window(0, 10))
SESSION_KEY, SESSION_SERDE = Windowed("k", Window(5, 5)), SessionWindowedSerde(S)
B = (("b", "k", "x", 1),)
LATER = (("a", "z", "z", 1_000), ("a", "z", "z", 2_000))
KEPT = Kind(windowed(TIME, retention=timedelta(days=1)), TIME_KEY, serde=TIME_SERDE)
KEPT_SESSIONS = Kind(windowed(SESSIONS, retention=timedelta(days=1)), SESSION_KEY, serde=SESSION_SERDE)
OVER_TIME = Kind(windowed(TIME), TIME_KEY, serde=TIME_SERDE)
OVER_SESSIONS = Kind(windowed(SESSIONS), SESSION_KEY, serde=SESSION_SERDE)
KEEP = Materialized(key_serde=S, value_serde=S)


def of(kind: Kind, change: Callable[[Table], Table], after: tuple[Any, ...] = ()) -> Kind:
    """The kind of what is made of a table of another kind."""
    return Kind(lambda builder: change(kind.make(builder)), kind.key, kind.value, kind.serde, kind.more, after)


SOURCE = Kind(source)

KINDS: dict[str, Kind] = {
    "source": SOURCE,
    "source with a store": Kind(lambda b: b.table("a", materialized="s")),
    "source in memory": Kind(
        lambda b: b.table("a", materialized=Materialized(supplier=Stores.in_memory_key_value_store("s")))
    ),
    "source without a cache": Kind(lambda b: b.table("a", materialized=Materialized(name="s", caching=False))),
    "plain store": Kind(
        lambda b: b.table("a", materialized=Materialized(supplier=Stores.persistent_key_value_store("s")))
    ),
    "LRU": Kind(lambda b: b.table("a", materialized=Materialized(supplier=Stores.lru_map("s", 100)))),
    "versioned": Kind(
        lambda b: b.table(
            "a", materialized=Materialized(supplier=Stores.persistent_versioned_key_value_store("s", timedelta(days=1)))
        )
    ),
    "with a time to live": Kind(
        lambda b: b.table("a", materialized=Materialized(name="s", time_to_live=TimeToLive(timedelta(days=1))))
    ),
    "to_table": Kind(lambda b: b.stream("a").to_table()),
    "reduced": Kind(lambda b: grouped(b).reduce(lambda one, other: other)),
    "aggregated": Kind(lambda b: grouped(b).aggregate(str, last, materialized=stored())),
    "cogrouped": Kind(cogrouped(None)),
    "grouped again": Kind(
        lambda b: source(b).group_by(lambda key, value: (key, value)).reduce(lambda one, new: new, lambda one, old: one)
    ),
    "filtered": of(SOURCE, lambda t: t.filter(lambda key, value: True)),
    "filtered with a store": of(SOURCE, lambda t: t.filter(lambda key, value: True, materialized=KEEP)),
    "filtered twice": of(SOURCE, lambda t: t.filter(lambda key, value: True).filter_not(lambda key, value: False)),
    "mapped": of(SOURCE, lambda t: t.map_values(lambda value: value)),
    "mapped with its key": of(SOURCE, lambda t: t.map_values_with_key(lambda key, value: value, materialized=KEEP)),
    "transformed": of(SOURCE, lambda t: t.transform_values(Again)),
    "transformed with a store": of(SOURCE, lambda t: t.transform_values(Again, materialized=KEEP)),
    "joined": Kind(joined("join"), more=B),
    "joined with a store": Kind(joined("join", materialized=KEEP), more=B),
    "joined on the right": Kind(joined("join", other_first=False), more=B),
    "left joined": Kind(joined("left_join")),
    "outer joined": Kind(joined("outer_join", other_first=False)),
    "joined by a foreign key": Kind(
        lambda b: source(b).foreign_key_join(b.table("b"), lambda value: "k", lambda one, other: "v"), more=B
    ),
    "left joined by a foreign key": Kind(
        lambda b: source(b).foreign_key_left_join(
            b.table("b"), lambda value: "k", lambda one, other: "v", materialized=KEEP
        )
    ),
    "joined with itself": Kind(lambda b: (lambda t: t.join(t, lambda one, other: one))(source(b))),
    "suppressed": of(SOURCE, lambda t: t.suppress(Suppressed.until_time_limit(MINE, BufferConfig.unbounded())), LATER),
    "suppressed at once": of(
        SOURCE, lambda t: t.suppress(Suppressed.until_time_limit(timedelta(0), BufferConfig.unbounded()))
    ),
    "time windows": OVER_TIME,
    "time windows in memory": Kind(
        windowed(TIME, supplier=Stores.in_memory_window_store("w", MINE, MINE)), TIME_KEY, serde=TIME_SERDE
    ),
    "time windows without a cache": Kind(windowed(TIME, caching=False), TIME_KEY, serde=TIME_SERDE),
    "final time windows": Kind(
        windowed(TIME, final=True, retention=timedelta(days=1)), TIME_KEY, serde=TIME_SERDE, after=LATER
    ),
    "hopping windows": Kind(windowed(HOPS), Windowed("k", Window(5, 15)), serde=TIME_SERDE),
    "windows with a grace period": Kind(windowed(GRACE), TIME_KEY, serde=TIME_SERDE),
    "sliding windows": Kind(windowed(SLIDES), SLIDE_KEY, serde=TIME_SERDE),
    "final sliding windows": Kind(
        windowed(SLIDES, final=True, retention=timedelta(days=1)), SLIDE_KEY, serde=TIME_SERDE, after=LATER
    ),
    "sessions": OVER_SESSIONS,
    "sessions in memory": Kind(
        windowed(SESSIONS, supplier=Stores.in_memory_session_store("w", MINE)), SESSION_KEY, serde=SESSION_SERDE
    ),
    "final sessions": Kind(
        windowed(SESSIONS, final=True, retention=timedelta(days=1)), SESSION_KEY, serde=SESSION_SERDE, after=LATER
    ),
    "unlimited windows": Kind(
        windowed(UnlimitedWindows.of()),
        Windowed("k", Window(0, (1 << 63) - 1)),
        serde=TimeWindowedSerde(S, (1 << 63) - 1),
    ),
    "windows of a user": Kind(windowed(Tens()), TIME_KEY, serde=TIME_SERDE),
    "cogrouped windows": Kind(cogrouped(TIME), TIME_KEY, serde=TIME_SERDE),
    "cogrouped sliding windows": Kind(cogrouped(SLIDES), SLIDE_KEY, serde=TIME_SERDE),
    "cogrouped sessions": Kind(cogrouped(SESSIONS), SESSION_KEY, serde=SESSION_SERDE),
    "filtered windows": of(OVER_TIME, lambda t: t.filter(lambda key, value: True)),
    "mapped sessions": of(OVER_SESSIONS, lambda t: t.map_values(lambda value: value)),
    "transformed windows": of(OVER_TIME, lambda t: t.transform_values(Again)),
    "suppressed windows": of(
        KEPT, lambda t: t.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())), LATER
    ),
    "suppressed sessions": of(
        KEPT_SESSIONS, lambda t: t.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())), LATER
    ),
    "joined windows": of(OVER_TIME, lambda t: t.left_join(t.filter(lambda key, value: True), lambda one, other: one)),
}


@dataclass(frozen=True)
class Consumer:
    """What is made of a table, with the records of its other input and what comes last for the row's key."""

    make: Callable[[Builder, Table, Kind], None]
    result: Callable[[str], str]
    other: str | None = None
    """The key of the record of topic ``other``: of the table's keys if it is "own"."""
    first: bool = False
    """Whether that comes before the table's row; else behind it."""


def text(key: Any) -> str:
    """The key of an output record."""
    return repr(key)


def out(table: Table) -> None:
    table.to_stream().map(lambda key, value: (text(key), value)).to("out")


def with_other(builder: Builder, kind: Kind) -> Table:
    return builder.table("other", Consumed(key_serde=kind.serde, value_serde=S))


def pair(one: Any, other: Any) -> str:
    return f"{one}/{other}"


def table_join(how: str, *, own: bool) -> Callable[[Builder, Table, Kind], None]:
    def make(builder: Builder, table: Table, kind: Kind) -> None:
        other = with_other(builder, kind)
        left, right = (table, other) if own else (other, table)
        out(getattr(left, how)(right, pair))

    return make


def stream_join(how: str) -> Callable[[Builder, Table, Kind], None]:
    def make(builder: Builder, table: Table, kind: Kind) -> None:
        stream = builder.stream("other", Consumed(key_serde=kind.serde, value_serde=S))
        getattr(stream, how)(table, pair).map(lambda key, value: (text(key), value)).to("out")

    return make


def foreign_left(how: str) -> Callable[[Builder, Table, Kind], None]:
    """The table's rows name rows of another table."""

    def make(builder: Builder, table: Table, kind: Kind) -> None:
        other = builder.table("other", Consumed(key_serde=S, value_serde=S))
        options = Materialized(key_serde=kind.serde, value_serde=S)
        out(getattr(table, how)(other, lambda value: "f", pair, materialized=options))

    return make


def foreign_right(how: str) -> Callable[[Builder, Table, Kind], None]:
    """The rows of another table name rows of the table."""

    def make(builder: Builder, table: Table, kind: Kind) -> None:
        other = builder.table("other", Consumed(key_serde=kind.serde, value_serde=S))
        out(getattr(other, how)(table, lambda value: kind.key, pair))

    return make


def group(builder: Builder, table: Table, kind: Kind) -> None:
    groups = table.group_by(lambda key, value: (text(key), value), Grouped(key_serde=S, value_serde=S))
    groups.reduce(lambda one, new: new, lambda one, old: one).to_stream().to("out")


def keep(kind: Kind) -> Materialized[Any, Any]:
    return Materialized(key_serde=kind.serde, value_serde=S)


CONSUMERS: dict[str, Consumer] = {
    **{f"{how} of a stream": Consumer(stream_join(how), lambda v: f"o/{v}", "own") for how in ("join", "left_join")},
    **{
        f"{how} {'on the left' if own else 'on the right'}, {'behind' if first else 'before'}": Consumer(
            table_join(how, own=own), (lambda v: f"{v}/o") if own else (lambda v: f"o/{v}"), "own", first
        )
        for how in ("join", "left_join", "outer_join")
        for own in (False, True)
        for first in (False, True)
    },
    **{
        f"{how} on the left, {'behind' if first else 'before'}": Consumer(
            foreign_left(how), lambda v: f"{v}/o", "f", first
        )
        for how in ("foreign_key_join", "foreign_key_left_join")
        for first in (False, True)
    },
    **{
        f"{how} on the right, {'behind' if first else 'before'}": Consumer(
            foreign_right(how), lambda v: f"o/{v}", "own", first
        )
        for how in ("foreign_key_join", "foreign_key_left_join")
        for first in (False, True)
    },
    "to_stream": Consumer(lambda b, t, k: out(t), str),
    "filter": Consumer(lambda b, t, k: out(t.filter(lambda key, value: True)), str),
    "filter with a store": Consumer(lambda b, t, k: out(t.filter(lambda key, value: True, materialized=keep(k))), str),
    "map_values": Consumer(lambda b, t, k: out(t.map_values(lambda value: value + "!")), lambda v: v + "!"),
    "map_values with a store": Consumer(
        lambda b, t, k: out(t.map_values(lambda value: value + "!", materialized=keep(k))), lambda v: v + "!"
    ),
    "transform_values": Consumer(lambda b, t, k: out(t.transform_values(Again)), str),
    "transform_values with a store": Consumer(
        lambda b, t, k: out(t.transform_values(Again, materialized=keep(k))), str
    ),
    "group_by": Consumer(group, str),
    "suppress": Consumer(
        lambda b, t, k: out(t.suppress(Suppressed.until_time_limit(timedelta(0), BufferConfig.unbounded()))), str
    ),
    "join with itself": Consumer(lambda b, t, k: out(t.join(t, pair)), lambda v: f"{v}/{v}"),
    "join with its filter": Consumer(
        lambda b, t, k: out(t.join(t.filter(lambda key, value: True), pair)), lambda v: f"{v}/{v}"
    ),
}

REFUSED = {("versioned", "suppress")}
"""What does not build: updates of a versioned table may come out of order."""

IN_SHORT = (
    "join of a stream",
    "join on the right, behind",
    "outer_join on the left, before",
    "foreign_key_join on the left, behind",
    "foreign_key_left_join on the right, before",
    "transform_values",
    "group_by",
    "suppress",
    "join with its filter",
)
"""The consumers that the short test takes; the long one takes all, also with headers in the stores."""


def records(kind: Kind, consumer: Consumer) -> Iterator[tuple[str, Any, str, int]]:
    key, time = ROW
    other = (
        None if consumer.other is None else ("other", kind.key if consumer.other == "own" else consumer.other, "o", 6)
    )
    yield from kind.more
    if other is not None and consumer.first:
        yield other
    yield ("a", key, "v", time)
    yield from kind.after
    if other is not None and not consumer.first:
        yield other


def results(kind: Kind, consumer: Consumer, settings: dict[str, Any]) -> dict[str, str]:
    """Runs the topology; returns the last result of each key."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    consumer.make(builder, kind.make(builder), kind)
    with TopologyTestDriver(builder, settings) as driver:
        own = kind.serde if consumer.other == "own" else S
        serdes = {"a": S, "b": S, "other": own}
        for topic, key, value, time in records(kind, consumer):
            driver.create_input_topic(topic, serdes[topic], S).pipe_input(key, value, timestamp=time)
        return dict(driver.create_output_topic("out", S, S).read_key_values())


def wrong_results(kind: str, consumers: Iterable[str], settings: dict[str, Any]) -> dict[str, str]:
    wrong = {}
    for name in consumers:
        if (kind, name) in REFUSED:
            continue
        consumer = CONSUMERS[name]
        expected = consumer.result(KINDS[kind].value)
        try:
            found = results(KINDS[kind], consumer, settings).get(text(KINDS[kind].key))
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}"
        else:
            if found != expected:
                wrong[name] = f"{found!r} in place of {expected!r}"
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_consumers_start_and_have_the_right_row(kind: str) -> None:
    """Was that every look-up in a windowed table ended the application at its start."""
    assert wrong_results(kind, IN_SHORT, {}) == {}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"dsl.store.format": "headers"}], ids=["plain", "headers"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_consumers_start_and_have_the_right_row(kind: str, settings: dict[str, Any]) -> None:
    assert wrong_results(kind, CONSUMERS, settings) == {}


def test_a_versioned_table_is_not_suppressed() -> None:
    with pytest.raises(TopologyError, match="only unversioned tables"):
        results(KINDS["versioned"], CONSUMERS["suppress"], {})
