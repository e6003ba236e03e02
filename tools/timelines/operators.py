"""Strips of the operators of streams: those without state, aggregations, and processors with a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from processor_api.topology.partitioner import partition_for_key
from streams import (
    Branched,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    KStream,
    KTable,
    Produced,
    Serde,
    Serdes,
    Stores,
    StreamsBuilder,
    TopologyTestDriver,
)
from tools.timelines.play import Play, Step
from tools.timelines.strip import Cell, Chip, ChipKind, Panel, Strip

__all__ = ["aggregations", "deduplicated", "processor", "results", "single_records", "steps", "whole_streams"]

ORDERS = "orders"
Records = Sequence[tuple[str, str, str | None]]
"""Topics, keys and values."""
FEW: Records = ((ORDERS, "ann", "tea 3"), (ORDERS, "bob", "rice 9"))
IN_OUT = ("record", "result")


def steps(builder: StreamsBuilder, records: Records, value_serde: Serde[Any] = Serdes.STRING) -> list[Step]:
    """Returns what each record did in a topology whose results go to ``out``."""
    with Play(builder, value_serde=value_serde) as play:
        for number, (topic, key, value) in enumerate(records):
            play.pipe(topic, [(number, value)], key)
    return play.steps


def results(step: Step, nothing: str = "dropped", kind: ChipKind = ChipKind.RESULT) -> Cell:
    """Returns the results of a record as a cell."""
    chips = (Chip(str(each.key), None if each.value is None else str(each.value), kind) for each in step.results)
    return tuple(chips) or nothing


def _operator(
    name: str,
    about: str,
    operator: Callable[[KStream[str, str]], KStream[str, str]],
    records: Records = FEW,
    nothing: str = "dropped",
) -> Panel:
    """Returns the panel of an operator: each record, and its results."""
    builder = StreamsBuilder()
    orders: KStream[str, str] = builder.stream(ORDERS)
    operator(orders).to("out")
    rows = [((Chip(step.key, step.value),), results(step, nothing)) for step in steps(builder, records)]
    return Panel(name, about, IN_OUT, tuple(rows))


def _product(value: str) -> str:
    return value.split()[0]


def _cents(value: str) -> int:
    return int(value.split()[1])


def single_records() -> Strip:
    """Draws the operators that look at one record at a time."""
    several: Records = ((ORDERS, "ann", "tea, milk"), (ORDERS, "bob", ""))
    return Strip(
        "Operators on single records",
        (
            _operator("filter", "keeps prices above 5", lambda s: s.filter(lambda _, value: _cents(value) > 5)),
            _operator("map_values", "only the product", lambda s: s.map_values(_product)),
            _operator(
                "flat_map_values",
                "one result for each product",
                lambda s: s.flat_map_values(lambda value: value.split(", ") if value else []),
                several,
                "no result",
            ),
            _operator("select_key", "the product as key", lambda s: s.select_key(lambda _, value: _product(value))),
            _operator(
                "map",
                "product and price",
                lambda s: s.map(lambda _, value: (_product(value), str(_cents(value)))),
            ),
            _peek(),
        ),
    )


def _peek() -> Panel:
    seen: list[str] = []
    panel = _operator("peek", "calls print", lambda s: s.peek(lambda key, value: seen.append(f"print {key}")))
    rows = tuple((record, note, result) for (record, result), note in zip(panel.rows, seen, strict=True))
    return Panel(panel.name, panel.about, ("record", "call", "result"), rows)


def whole_streams() -> Strip:
    """Draws the operators that divide, join and redistribute streams."""
    return Strip("Operators on whole streams", (_split(), _merge(), _repartition(), _to()))


def _split() -> Panel:
    builder = StreamsBuilder()
    orders: KStream[str, str] = builder.stream(ORDERS)
    branches = orders.split(name="to-").branch(lambda _, value: _cents(value) > 5, Branched.as_("large"))
    parts = branches.default_branch(Branched.as_("small"))
    for name, part in parts.items():
        part.map_values(partial("{1}|{0}".format, name)).to("out")
    rows = []
    for step in steps(builder, (*FEW, (ORDERS, "ann", "oil 6"))):
        value, _, name = str(step.results[0].value).partition("|")
        rows.append(((Chip(step.key, step.value),), (Chip(step.key, value, ChipKind.RESULT, name),)))
    return Panel("split", "the first branch that fits", ("record", "stream"), tuple(rows))


def _merge() -> Panel:
    builder = StreamsBuilder()
    web: KStream[str, str] = builder.stream("web")
    shop: KStream[str, str] = builder.stream("shop")
    web.merge(shop).to("out")
    records = (("web", "ann", "tea 3"), ("shop", "bob", "rice 9"), ("web", "cid", "oil 6"))
    rows = (((Chip(step.key, step.value, note=step.topic),), results(step)) for step in steps(builder, records))
    return Panel("merge", "two streams become one", IN_OUT, tuple(rows))


def _repartition() -> Panel:
    """Returns records with the partitions in which they are before and after the key has changed."""
    builder = StreamsBuilder(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    orders: KStream[str, str] = builder.stream(ORDERS)
    orders.select_key(lambda _, value: _product(value)).to("out")
    rows = []
    with TopologyTestDriver(builder, partitions={"out": 2}) as driver:
        inputs, outputs = driver.create_input_topic(ORDERS), driver.create_output_topic("out")
        for key, value in (("ann", "tea 3"), ("bob", "tea 9"), ("cid", "oil 6")):
            inputs.pipe_input(key, value)
            found = outputs.read_record()
            before = Chip(key, value, note=f"partition {partition_for_key(key.encode(), 2)}")
            after = Chip(found.key, found.value, ChipKind.RESULT, f"partition {found.partition}")
            rows.append(((before,), (after,)))
    return Panel(
        "select_key, repartition", "equal keys meet in one partition", ("orders", "repartition topic"), tuple(rows)
    )


def _to() -> Panel:
    builder = StreamsBuilder(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    orders: KStream[str, str] = builder.stream(ORDERS)
    orders.to(lambda key, value, context: f"orders-of-{key}")
    rows = []
    with TopologyTestDriver(builder) as driver:
        for _, key, value in FEW:
            driver.create_input_topic(ORDERS).pipe_input(key, value)
            topic = next(name for name in driver.produced_topic_names() if name.endswith(key))
            found = driver.create_output_topic(topic, "string", "string").read_record()
            rows.append(((Chip(key, value),), (Chip(found.key, found.value, ChipKind.RESULT, topic),)))
    return Panel("to", "a function names the topic", ("record", "topic"), tuple(rows))


def deduplicated() -> Strip:
    """Draws a deduplication: it keeps the first record of each key within an hour."""
    builder = StreamsBuilder()
    payments: KStream[str, str] = builder.stream("payments")
    payments.deduplicate(within=timedelta(hours=1), materialized="seen").to("out")
    rows = []
    with Play(builder) as play:
        for minute, key in ((0, "p1"), (5, "p2"), (6, "p1"), (70, "p1")):
            play.pipe("payments", [(60 * minute, f"at minute {minute}")], key)
        for step in play.steps:
            rows.append(((Chip(step.key, step.value),), results(step, "a duplicate, dropped")))
    about = "keeps the first record of each key within an hour"
    return Strip("Deduplication by key", (Panel("deduplicate", about, IN_OUT, tuple(rows)),))


def aggregations() -> Strip:
    """Draws aggregations of streams: each record makes a new row, which goes to the changelog and on."""
    products = ((ORDERS, "ann", "tea"), (ORDERS, "bob", "rice"), (ORDERS, "ann", "milk"))
    points = ((ORDERS, "ann", "3"), (ORDERS, "bob", "9"), (ORDERS, "ann", "2"))
    return Strip(
        "Aggregations of a stream: each record makes a new row of its key",
        (
            _aggregation("count", "records of each key", lambda g: g.count(), products),
            _aggregation("reduce", "with max", lambda g: g.reduce(max), points),
            _aggregation(
                "aggregate",
                'starts with "", adds products',
                lambda g: g.aggregate(str, lambda _, value, so_far: f"{so_far}+{value}".strip("+")),
                products,
            ),
            _cogroup(),
        ),
    )


def _aggregation(name: str, about: str, aggregate: Callable[[Any], KTable[str, Any]], records: Records) -> Panel:
    builder = StreamsBuilder()
    table = aggregate(builder.stream(ORDERS).group_by_key())
    serde: Serde[Any] = Serdes.LONG if name == "count" else Serdes.STRING
    table.to_stream().to("out", Produced(value_serde=serde))
    return Panel(name, about, ("record", "row before", "new row"), tuple(_folded(steps(builder, records, serde))))


def _folded(played: Iterable[Step], *, with_topic: bool = False) -> Iterable[tuple[Cell, ...]]:
    """Yields each record, the row of its key before, and the row that it made."""
    rows: dict[str, str] = {}
    for step in played:
        before: Cell = (Chip(step.key, rows[step.key], ChipKind.ROW),) if step.key in rows else "none"
        rows[step.key] = str(step.results[0].value)
        yield (Chip(step.key, str(step.value), note=step.topic if with_topic else ""),), before, results(step)


def _cogroup() -> Panel:
    builder = StreamsBuilder(key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    bought, returned = (builder.stream(topic).group_by_key() for topic in ("bought", "returned"))
    together = bought.cogroup(lambda _, cents, total: total + cents)
    table = together.cogroup(returned, lambda _, cents, total: total - cents).aggregate(int, name="balance")
    table.to_stream().to("out")
    records = (("bought", "ann", 9), ("bought", "bob", 4), ("returned", "ann", 2))
    with Play(builder, value_serde=Serdes.LONG) as play:
        for number, (topic, key, value) in enumerate(records):
            play.pipe(topic, [(number, value)], key)
    return Panel(
        "cogroup, aggregate",
        "bought minus returned, starts with 0",
        ("record", "row before", "new row"),
        tuple(_folded(play.steps, with_topic=True)),
    )


class _Difference(FixedKeyProcessor[str, str, str]):
    """Forwards the difference to the last reading of the key, and keeps what it read in between."""

    def __init__(self, found: list[str | None]) -> None:
        self.found = found

    def init(self, context: FixedKeyProcessorContext[str, str]) -> None:
        super().init(context)
        self.last: Any = context.get_state_store("last")

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        before = self.last.get(record.key)
        self.found.append(before)
        self.last.put(record.key, record.value)
        if before is not None:
            self.context.forward(record.with_value(f"{int(record.value) - int(before):+}"))


def processor() -> Strip:
    """Draws a processor that reads a store, writes it, and forwards at most one result."""
    builder, found = StreamsBuilder(), list[str | None]()
    builder.add_state_store(Stores.key_value_store("last", Serdes.STRING, Serdes.STRING))
    readings: KStream[str, str] = builder.stream("readings")
    readings.process_values(lambda: _Difference(found), "last").to("out")
    records = (("readings", "a", "20"), ("readings", "b", "21"), ("readings", "a", "25"), ("readings", "b", "19"))
    rows = []
    for step, before in zip(steps(builder, records), found, strict=True):
        got: Cell = "none" if before is None else (Chip(step.key, before, ChipKind.ROW),)
        put = (Chip(step.key, step.value, ChipKind.ROW),)
        rows.append(((Chip(step.key, step.value),), got, put, results(step, "nothing forwarded")))
    columns = ("record", "get from the store", "put into the store", "forward")
    return Strip(
        "A processor with a store",
        (Panel("process_values", "forwards the difference to the last reading of the same key", columns, tuple(rows)),),
    )
