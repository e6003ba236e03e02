"""A topology as a user types it. Behind a line stands what an editor says: its type, or its error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import reveal_type

from streams import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    JoinWindows,
    KTable,
    Materialized,
    Processor,
    Produced,
    Record,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyTestDriver,
)


@dataclass(frozen=True)
class Order:
    customer: str
    cents: int


@dataclass(frozen=True)
class Total:
    cents: int


class Shout(Processor[str, int, int, str]):
    def process(self, record: Record[str, int]) -> None:
        reveal_type(record.with_value("!"))  # Record[str, str]
        self.context.forward(record.with_key(1).with_value("!"))
        self.context.forward(record)  # error: "Record[str, int]" is not assignable to "Record[int, str]"


class Length(FixedKeyProcessor[str, int, str]):
    def process(self, record: FixedKeyRecord[str, int]) -> None:
        self.context.forward(record.with_value("!"))
        record.with_key(1)  # error: Cannot access attribute "with_key" for class "FixedKeyRecord[str, int]"


builder = StreamsBuilder()
numbers = builder.stream("numbers", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
orders = builder.stream("orders", Consumed(key_serde=Serdes.STRING, value_serde=Order))
cities = builder.table("cities", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
prices = builder.global_table("prices", Consumed(key_serde=Serdes.LONG, value_serde=Serdes.STRING))
reveal_type(numbers)  # KStream[str, int]
reveal_type(orders)  # KStream[str, Order]
reveal_type(cities)  # KTable[str, str]

# record by record
reveal_type(numbers.filter(lambda k, v: v > 0))  # KStream[str, int]
reveal_type(numbers.map(lambda k, v: (v, k)))  # KStream[int, str]
reveal_type(numbers.map_values(lambda v: None if v > 1 else str(v)))  # KStream[str, str]
reveal_type(numbers.flat_map_values(lambda v: [str(v)]))  # KStream[str, str]
reveal_type(numbers.select_key(lambda k, v: v))  # KStream[int, int]
reveal_type(numbers.process(Shout))  # KStream[int, str]
reveal_type(numbers.process_values(Length))  # KStream[str, str]
reveal_type(orders.deduplicate(within=timedelta(hours=1)))  # KStream[str, Order]
reveal_type(orders.map_values_batch(lambda batch: [order.cents for order in batch]))  # KStream[str, int]
numbers.map_values(lambda v: v.upper())  # error: Cannot access attribute "upper" for class "int"
numbers.filter(lambda v: True)  # error: expected 2 but received 1
numbers.process(Length)  # error: "type[Length]" is not assignable to type "() -> Processor[
of_totals = Produced(value_serde=Total)
orders.to("out", of_totals)  # error: "Produced[Any, Total]" is not assignable to "Produced[str, Order]"

# groups
grouped = orders.group_by_key()
reveal_type(grouped.count())  # KTable[str, int]
reveal_type(numbers.group_by(lambda k, v: v % 2).reduce(lambda a, b: a + b))  # KTable[int, int]
totals = grouped.aggregate(lambda: Total(0), lambda k, order, total: Total(total.cents + order.cents))
reveal_type(totals)  # KTable[str, Total]
grouped.aggregate(lambda: Total(0), lambda k, order, so_far: so_far.nope)  # error: Cannot access attribute "nope"
grouped.aggregate(lambda: Total(0), lambda k, order, so_far: Total(order.nope))  # error: attribute "nope"
wrong: KTable[str, Total] = grouped.aggregate(lambda: Total(0), lambda k, order, so_far: order.cents)  # error: "int"
kept = Materialized(name="kept", value_serde=Serdes.STRING)
numbers.to_table(materialized=kept)  # error: "Materialized[Any, str]" is not assignable to "Materialized[str, int]"

# windows
minutes = grouped.windowed_by(TimeWindows.of_size_with_no_grace(timedelta(minutes=1)))
sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(timedelta(minutes=5)))
reveal_type(minutes)  # TimeWindowedKStream[str, Order]
reveal_type(sessions)  # SessionWindowedKStream[str, Order]
sums = minutes.aggregate(lambda: Total(0), lambda k, order, total: Total(total.cents + order.cents))
reveal_type(sums)  # KTable[Windowed[str], Total]
reveal_type(sums.to_stream(lambda windowed, total: windowed.window.end))  # KStream[int, Total]
sums.to_stream(lambda windowed, total: windowed.upper())  # error: attribute "upper" for class "Windowed[str]"
minutes.aggregate(lambda: Total(0), lambda k, order, total: Total(total.nope))  # error: attribute "nope"
sessions.aggregate(lambda: Total(0), lambda k, order, total: total)  # error: Argument missing for parameter
grouped.windowed_by(timedelta(minutes=1))  # error: No overloads for "windowed_by" match

# joins
within = JoinWindows.of_time_difference_with_no_grace(timedelta(minutes=5))
reveal_type(orders.join(cities, lambda order, city: (order.cents, city)))  # KStream[str, tuple[int, str]]
reveal_type(orders.join(numbers, lambda order, n: order.cents + n, windows=within))  # KStream[str, int]
reveal_type(numbers.left_join(prices, lambda n, price: price or "", key_selector=lambda k, n: n))  # KStream[str, str]
reveal_type(totals.join(cities, lambda total, city: f"{total.cents} in {city}"))  # KTable[str, str]
reveal_type(cities.foreign_key_join(totals, lambda city: city, lambda city, total: total.cents))  # KTable[str, int]
orders.left_join(cities, lambda order, city: city.upper())  # error: "upper" is not a known attribute of "None"
orders.join(numbers, lambda order, n: order.cents + n)  # error: cannot be assigned to parameter "other"
orders.join(cities, lambda order, city: order.nope)  # error: attribute "nope" for class "Order"

# and what else is typed
builder.add_state_store(Stores.key_value_store("counts", "string", "long"))
topology = builder.build()
with TopologyTestDriver(topology) as driver:
    driver.create_input_topic("numbers").pipe_input("ann", 1)
