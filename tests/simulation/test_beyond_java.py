"""Batches and deduplication under kills, freezes and faults: nothing is lost, and nothing comes twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import pytest

from processor_api.record import Record
from processor_api.serde import Serdes
from streams import BatchProcessor, StreamsBuilder
from streams.testing.simulation import InputRecord, Outcome, simulate

S = Serdes.STRING
KEYS, RECORDS, SEEDS = 5, 80, 12


def settings(guarantee: str) -> dict[str, Any]:
    return {"default.key.serde": S, "default.value.serde": S, "processing.guarantee": guarantee}


def upper(values: list[str]) -> list[str]:
    if "v13" in values and len(values) > 1:
        raise ValueError("too many")  # each is tried alone
    return [value.upper() for value in values]


class Twice(BatchProcessor[str, str, str, str]):
    def process_batch(self, records: list[Record[str, str]]) -> list[list[Record[str, str]]]:
        return [[record, record.with_value(f"{record.value}+")] for record in records]


def batches() -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in").map_values_batch(upper, max_records=7, max_wait=2000)
    stream.process_batch(Twice, max_records=3).to("out")
    return builder


def of_key(outcome: Outcome) -> dict[bytes | None, list[str]]:
    found: dict[bytes | None, list[str]] = defaultdict(list)
    for record in outcome.records("out"):
        found[record.key].append((record.value or b"").decode())
    return found


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_no_record_of_a_batch_is_lost_or_comes_twice(guarantee: str) -> None:
    inputs = [InputRecord(f"k{n % KEYS}", f"v{n}", n) for n in range(RECORDS)]
    wanted: dict[bytes, list[str]] = defaultdict(list)
    for one in inputs:
        value = str(one.value).upper()
        wanted[str(one.key).encode()] += [value, value + "+"]

    def check(outcome: Outcome) -> None:
        found = of_key(outcome)
        if outcome.exactly_once:
            assert found == wanted, f"{found} is not {wanted}"
        missing = {key: Counter(values) - Counter(found[key]) for key, values in wanted.items()}
        assert not any(missing.values()), missing

    topics = {"in": 2, "out": 2}
    simulate(batches, {"in": inputs}, [check], seeds=range(SEEDS), topics=topics, settings=settings(guarantee))


def deduplicated() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in").deduplicate(within=50, id_selector=lambda key, value: value, materialized="kept").to("out")
    return builder


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_the_first_of_equal_records_comes_once(guarantee: str) -> None:
    chance = Random(5)
    once = [InputRecord(f"k{n % KEYS}", f"v{n}", 10 * n) for n in range(RECORDS)]
    inputs = sorted((*once, *chance.choices(once, k=RECORDS)), key=lambda one: one.timestamp)

    def check(outcome: Outcome) -> None:
        found = Counter(value for values in of_key(outcome).values() for value in values)
        missing = {str(one.value) for one in once} - found.keys()
        assert not missing, missing
        assert not outcome.exactly_once or set(found.values()) == {1}, found

    topics = {"in": 2, "out": 2}
    # rows that have expired may be there a little longer in one store than in another
    simulate(
        deduplicated,
        {"in": inputs},
        [check],
        seeds=range(SEEDS),
        topics=topics,
        settings={**settings(guarantee), "windowstore.changelog.additional.retention.ms": 10**13},
        restores=False,
    )
