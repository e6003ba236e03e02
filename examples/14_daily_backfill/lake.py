"""Writes the orders of one day into a lake, as a connector would: `python lake.py 3` writes those of 3 March.

Each file has the records of a topic with their partitions and offsets. One day is a holiday of the first shops, so that
one partition has no record; a part of another day comes a day late; and one day is written wrongly at first.
"""

import argparse
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

PARTITIONS = 2
SHOPS = {0: ("aachen", "berlin"), 1: ("cologne", "dresden")}
"""The keys of each partition."""
ORDERS = 60
"""The number of orders in each partition and day."""
DAYS = range(1, 8)
HOLIDAY, LATE, WRONG = 3, 4, 5


class Order(NamedTuple):
    """One record of the topic."""

    partition: int
    offset: int
    timestamp: datetime
    key: bytes
    value: bytes


def orders(day: int, *, corrected: bool = True) -> Iterator[Order]:
    """Yields the orders of a day of March 2026.

    :param corrected: whether the day that was wrong at first is right.
    """
    factor = 1 if corrected or day != WRONG else 100
    for partition, shops in SHOPS.items():
        if (partition, day) == (0, HOLIDAY):
            continue
        before = sum(ORDERS for earlier in range(1, day) if (partition, earlier) != (0, HOLIDAY))
        for number in range(ORDERS):
            when = datetime(2026, 3, day, tzinfo=UTC) + timedelta(minutes=number * 24)
            value = json.dumps({"cents": factor * (100 + 7 * number + day)})
            yield Order(partition, before + number, when, shops[number % 2].encode(), value.encode())


def write(path: Path, rows: list[Order]) -> None:
    """Writes a file under a hidden name first, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [list(column) for column in zip(*rows, strict=True)]
    types = [pa.int32(), pa.int64(), pa.timestamp("ms", "UTC"), pa.binary(), pa.binary()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    unfinished = path.with_name(f".{path.name}")
    pq.write_table(pa.table(arrays, names=list(Order._fields)), unfinished)
    unfinished.replace(path)


def write_day(lake: Path, day: int, *, corrected: bool = False) -> None:
    """Writes the file of a day, and with it what came late of the day before."""
    rows = list(orders(day, corrected=corrected))
    if day == LATE:
        rows = [row for row in rows if row.partition == 0]
    if day == LATE + 1:
        late = [row for row in orders(LATE) if row.partition == 1]
        write(lake / f"2026-03-{LATE:02d}-late.parquet", late)
    write(lake / f"2026-03-{day:02d}.parquet", rows)


def send_day(servers: str, day: int) -> None:
    """Sends the orders of a day to the topic, from which a connector would have written the files."""
    producer = Producer({"bootstrap.servers": servers})
    for one in orders(day):
        time_ms = int(one.timestamp.timestamp() * 1000)
        producer.produce("orders", one.value, one.key, one.partition, timestamp=time_ms)
    producer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("day", type=int, choices=DAYS)
    parser.add_argument("--corrected", action="store_true", help="write the day that was wrong as it should be")
    parser.add_argument("--send", metavar="SERVERS", help="send the orders to Kafka, instead of writing a file")
    given = parser.parse_args()
    if given.send:
        send_day(given.send, given.day)
    else:
        write_day(Path("lake"), given.day, corrected=given.corrected)
