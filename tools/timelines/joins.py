"""Pictures of joins in time: windows of two streams, versions of a table, and records that wait for late updates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from streams import Joined, JoinWindows, KStream, KTable, Materialized, Stores, StreamJoined, StreamsBuilder
from tools.timelines.operators import results, steps
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span, SpanKind
from tools.timelines.play import SECOND, Play, Step, seconds
from tools.timelines.strip import Cell, Chip, ChipKind, Panel, Strip

__all__ = [
    "foreign_key",
    "global_table",
    "stream_table",
    "streams_left",
    "table_versions",
    "table_with_grace",
    "tables_left",
]

HISTORY_MS = 600 * SECOND
ORDERS, PAYMENTS, PRICES = "orders", "payments", "prices"
NAMES, CITIES = "names", "cities"
CUSTOMERS, COUNTRIES = "customers", "countries"


def streams_left() -> Picture:
    """Draws a left join of two streams: matches within the window, and a record without one after its grace period."""
    windows = JoinWindows.of_time_difference_and_grace(20 * SECOND, 10 * SECOND)
    builder = StreamsBuilder()
    orders: KStream[str, str] = builder.stream(ORDERS)
    paid: KStream[str, str] = builder.stream(PAYMENTS)
    joined = orders.left_join(paid, lambda o, p: f"{o} + {p or 'none'}", windows=windows, joined=StreamJoined())
    joined.to("out")
    with Play(builder) as play:
        play.pipe(ORDERS, [(40, "tea")])
        play.pipe(PAYMENTS, [(25, "A"), (60, "B")])
        play.pipe(ORDERS, [(75, "milk")])
        play.pipe(PAYMENTS, [(50, "C")])
        play.pipe(ORDERS, [(110, "salt")])
        play.pipe(PAYMENTS, [(145, "D")])
    lanes = [_records(ORDERS, play.steps), _records(PAYMENTS, play.steps)]
    for step in (step for step in play.steps if step.topic == ORDERS):
        start, end = step.time - windows.before_ms, step.time + windows.after_ms
        spans = (Span(start, end, SpanKind.WINDOW), Span(end, end + windows.grace_ms, SpanKind.GRACE))
        partners = tuple(
            Dot(other.time, number=other.number)
            for other in play.steps
            if any(result.value == f"{step.value} + {other.value}" for each in play.steps for result in each.results)
        )
        lanes.append(Lane(f"window of {step.value}", LaneKind.SPANS, partners, spans))
    sent = Lane("results", LaneKind.RESULTS, tuple(_results(play.steps)))
    title = "Left join of two streams: at most 20 s apart, with a grace period of 10 s"
    return Picture(title, _description(play.steps), (*lanes, sent), tick_ms=20 * SECOND, extra_ms=5 * SECOND)


def stream_table() -> Picture:
    """Draws a join with a table: an order meets the row that is there when it comes, also if it is late."""
    builder = StreamsBuilder()
    orders: KStream[str, str] = builder.stream(ORDERS)
    prices: KTable[str, str] = builder.table(PRICES)
    orders.join(prices, lambda order, price: f"{order} at {price}").to("out")
    with Play(builder) as play:
        play.pipe(ORDERS, [(5, "rice")])
        play.pipe(PRICES, [(10, "3.10")])
        play.pipe(ORDERS, [(30, "tea")])
        play.pipe(PRICES, [(50, "3.50")])
        play.pipe(ORDERS, [(40, "milk"), (65, "salt")])
    lanes = [_records(PRICES, play.steps), _records(ORDERS, play.steps)]
    title = "A stream joined with a table: the row that is there when the record comes"
    return _with_results(title, play, lanes, extra_ms=25 * SECOND)


def tables_left() -> Picture:
    """Draws a left join of two tables: each change of a side is a change of the result, with the larger timestamp."""
    builder = StreamsBuilder()
    names: KTable[str, str] = builder.table(NAMES)
    cities: KTable[str, str] = builder.table(CITIES)
    names.left_join(cities, lambda name, city: f"{name} of {city or 'nowhere'}").to_stream().to("out")
    with Play(builder) as play:
        play.pipe(NAMES, [(10, "Ann")])
        play.pipe(CITIES, [(25, "Oslo"), (50, "Rome")])
        play.pipe(NAMES, [(35, "Anna")])
    lanes = [_records(NAMES, play.steps), _records(CITIES, play.steps)]
    title = "Left join of two tables: the result has the larger timestamp of its two rows"
    return _with_results(title, play, lanes, extra_ms=35 * SECOND)


def table_versions() -> Picture:
    """Draws a join with a versioned table: each order meets the version that was valid at its time."""
    builder, orders, prices = _orders_and_prices()
    orders.join(prices, lambda order, price: f"{order} at {price}").to("out")
    with Play(builder) as play:
        play.pipe(PRICES, [(10, "3.10"), (50, "3.50")])
        play.pipe(ORDERS, [(65, "tea"), (30, "milk")])
        play.pipe(PRICES, [(35, "3.30")])
        play.pipe(ORDERS, [(42, "salt")])
        versions = _versions(play)
    lanes = [_records(PRICES, play.steps), versions, _records(ORDERS, play.steps)]
    title = "A stream joined with a versioned table: the row as it was at the record's time"
    return _with_results(title, play, lanes, extra_ms=15 * SECOND)


def foreign_key() -> Strip:
    """Draws joins by foreign key: a change of either side changes every row of the result that it has a part in."""
    panels = (
        _by_foreign_key("foreign_key_join", "an order names its customer"),
        _by_foreign_key("foreign_key_left_join", "keeps orders without a customer"),
    )
    return Strip("Joins of two tables by foreign key", panels)


def _by_foreign_key(name: str, about: str) -> Panel:
    builder = StreamsBuilder()
    orders: KTable[str, str] = builder.table(ORDERS)
    customers: KTable[str, str] = builder.table(CUSTOMERS)
    shown: KTable[str, str] = getattr(orders, name)(
        customers, lambda order: order.split()[1], lambda order, who: f"{order.split()[0]}, {who}", joined="shown"
    )
    shown.to_stream().to("out")
    changes = (
        (ORDERS, "1", "tea ann"),
        (CUSTOMERS, "ann", "Ann"),
        (ORDERS, "2", "oil ann"),
        (CUSTOMERS, "ann", "Anna"),
        (ORDERS, "1", None),
    )
    rows = []
    for step in steps(builder, changes):
        record: Cell = (Chip(step.key, step.value),)
        sides = (record, ()) if step.topic == ORDERS else ((), record)
        rows.append((*sides, results(step, "no partner yet")))
    return Panel(name, about, (ORDERS, CUSTOMERS, "result"), tuple(rows))


def global_table() -> Strip:
    """Draws a join with a global table: a function selects the key of the row, and only orders have results."""
    builder = StreamsBuilder()
    asked: list[str] = []

    def country(_: str, order: str) -> str:
        asked.append(order.split()[1])
        return asked[-1]

    orders: KStream[str, str] = builder.stream(ORDERS)
    countries = builder.global_table(COUNTRIES)
    orders.join(countries, lambda order, name: f"{order.split()[0]} to {name}", key_selector=country).to("out")
    records = (
        (COUNTRIES, "NO", "Norway"),
        (ORDERS, "1", "tea NO"),
        (ORDERS, "2", "oil IT"),
        (COUNTRIES, "IT", "Italy"),
    )
    known: dict[str, str] = {}
    rows: list[tuple[Cell, ...]] = []
    for step in steps(builder, records):
        if step.topic == COUNTRIES:
            known[step.key] = step.value
            rows.append(((), (), (Chip(step.key, step.value),), results(step, "no result")))
            continue
        key = asked.pop(0)
        row: Cell = (Chip(key, known[key], ChipKind.ROW),) if key in known else "none"
        rows.append(((Chip(step.key, step.value),), key, row, results(step)))
    columns = (ORDERS, "selected key", COUNTRIES, "result")
    panel = Panel("join with key_selector", "the value of an order names its country", columns, tuple(rows))
    return Strip("A stream joined with a global table", (panel,))


def _with_results(title: str, play: Play, lanes: list[Lane], *, extra_ms: int) -> Picture:
    """Returns a picture of some lanes, with the results below them, each at its own time."""
    results = Lane("results", LaneKind.RESULTS, tuple(_results(play.steps, at_own_time=True)))
    return Picture(title, _description(play.steps), (*lanes, results), extra_ms=extra_ms)


def table_with_grace() -> Picture:
    """Draws a join with a versioned table and grace: orders wait, so that they meet late prices."""
    grace_ms = 20 * SECOND
    builder, orders, prices = _orders_and_prices()
    orders.join(prices, lambda order, price: f"{order} at {price}", joined=Joined(grace=grace_ms)).to("out")
    with Play(builder) as play:
        play.pipe(PRICES, [(10, "3.10")])
        play.pipe(ORDERS, [(32, "tea")])
        play.pipe(PRICES, [(25, "3.50")])
        play.pipe(ORDERS, [(45, "milk"), (56, "salt"), (18, "rice"), (80, "oil")])
        versions = _versions(play)
    lanes = [_records(PRICES, play.steps), versions, _records(ORDERS, play.steps)]
    sent = {dot.text.partition(" at ")[0]: dot for dot in _results(play.steps, topic=ORDERS)}
    lanes += [_waiting(step, sent.get(step.value), grace_ms) for step in play.steps if step.topic == ORDERS]
    title = "A stream joined with a versioned table, with a grace period of 20 s"
    return Picture(title, _description(play.steps), tuple(lanes), notes_title="results")


def _waiting(step: Step, result: Dot | None, grace_ms: int) -> Lane:
    """Returns the lane of an order: how long it waits, unless its result came at once, and when the result left."""
    at_once = any(each.value.startswith(step.value) for each in step.results)
    spans = () if at_once else (Span(step.time, step.time + grace_ms, SpanKind.WAIT),)
    dots = () if result is None else (replace(result, text=""),)
    label = f"{step.value} {'comes too late' if at_once else 'waits'}"
    return Lane(label, LaneKind.SPANS, dots, spans, result.text if result else "none yet")


def _orders_and_prices() -> tuple[StreamsBuilder, KStream[str, str], KTable[str, str]]:
    builder = StreamsBuilder()
    history: Materialized[str, str] = Materialized(
        supplier=Stores.persistent_versioned_key_value_store(PRICES, HISTORY_MS)
    )
    return builder, builder.stream(ORDERS), builder.table(PRICES, materialized=history)


def _records(topic: str, steps: Iterable[Step]) -> Lane:
    dots = (Dot(step.time, DotKind.RECORD, step.number, step.value) for step in steps if step.topic == topic)
    return Lane(topic, LaneKind.RECORDS, tuple(dots))


def _results(steps: Iterable[Step], *, topic: str | None = None, at_own_time: bool = False) -> Iterator[Dot]:
    """Yields the results, each at the stream time at which it left, or at its timestamp.

    :param topic: the one whose records make stream time; ``None`` is both.
    """
    stream_time = 0
    for step in steps:
        if topic is None or step.topic == topic:
            stream_time = max(stream_time, step.time)
        for result in step.results:
            time, kind = stream_time, DotKind.RESULT
            if at_own_time:
                time, kind = result.timestamp or 0, DotKind.TIMED_RESULT
            yield Dot(time, kind, text=f"{result.value} (when {step.number} arrives)")


def _versions(play: Play) -> Lane:
    """Returns the versions that the table has at the end of the run."""
    store = play.driver.get_versioned_key_value_store(PRICES)
    with store.versions("k", 0, HISTORY_MS) as found:
        spans = [Span(row.timestamp, row.valid_to, SpanKind.VERSION, row.value) for row in found]
    return Lane("versions", LaneKind.SPANS, spans=tuple(spans))


def _description(steps: Iterable[Step]) -> str:
    arrived = [f"record {step.number} of {step.topic}, {step.value}, at {seconds(step.time)}" for step in steps]
    sent = [
        f"{result.value}, with timestamp {seconds(result.timestamp or 0)}, when record {step.number} arrives"
        for step in steps
        for result in step.results
    ]
    return f"In order of arrival: {'; '.join(arrived)}. Results: {'; '.join(sent)}."
