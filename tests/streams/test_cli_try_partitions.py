"""`streams try --partitions N` says what one partition hides, and nothing where it hides nothing."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from processor_api.topology.partitioner import partition_for_key
from streams.cli.main import main

HEAD = """
from datetime import timedelta
from streams import EmitStrategy, Repartitioned, StreamsBuilder, TimeWindows
builder = StreamsBuilder(key_serde="string", value_serde="string")
minute = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
"""
JOIN = f"""{HEAD}
customers = builder.table("customers")
builder.stream("orders").join(customers, lambda order, name: f"{{name}}: {{order}}").to("named")
"""
CLOSED = """.windowed_by(minute).emit_strategy(EmitStrategy.on_window_close()).count().to_stream()
counted.to("counts", value_serde="long")
"""
VISITS = f'{HEAD}counted = builder.stream("visits").group_by_key(){CLOSED}'
PAGES = f'{HEAD}counted = builder.stream("visits").group_by(lambda _, page: page){CLOSED}'
KEYS = [f"c{number}" for number in range(12)]
_numbers = itertools.count()


class Found(NamedTuple):
    status: int
    records: list[dict[str, object]]
    tasks: list[list[str]]
    hidden: list[str]
    errors: list[str]


Try = Callable[..., Found]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Try:
    """Runs a topology on records, which are dictionaries, in four partitions."""
    monkeypatch.chdir(tmp_path)

    def run(source: str, records: list[dict[str, object]], *words: str) -> Found:
        name = f"spread{next(_numbers)}"  # a module is imported once
        (tmp_path / f"{name}.py").write_text(source)
        (tmp_path / "in.jsonl").write_text("".join(json.dumps({"value": "x", **one}) + "\n" for one in records))
        monkeypatch.setattr(sys, "path", list(sys.path))
        status = main(["try", f"{name}.py", "--input", "in.jsonl", *(words or ("--partitions", "4"))])
        out, err = capfd.readouterr()
        said = err.replace(name, "app").splitlines()
        return Found(
            status,
            [json.loads(line) for line in out.splitlines()],
            [line.split("  ") for line in said if line[:1].isdigit()],
            [line.removeprefix("hidden by one partition: ") for line in said if line.startswith("hidden")],
            [line for line in said if line.startswith("error: ")],
        )

    return run


def at(minute: int, second: int = 0) -> str:
    return f"2025-01-01T12:{minute:02}:{second:02}Z"


def orders_and_customers() -> list[dict[str, object]]:
    names: list[dict[str, object]] = [{"topic": "customers", "key": key, "timestamp": at(0)} for key in KEYS]
    return [*names, *({"topic": "orders", "key": key, "timestamp": at(1)} for key in KEYS)]


def test_each_task_reads_its_partition_and_the_output_has_the_place(trial: Try) -> None:
    found = trial(JOIN, orders_and_customers(), "--partitions", "4", "--workers", "2")
    assert (found.status, found.hidden, found.errors) == (0, [], [])
    assert [task[0] for task in found.tasks] == ["0_0", "0_1", "0_2", "0_3"]
    assert {str(one["key"]): one["partition"] for one in found.records} == {
        key: partition_for_key(key.encode(), 4) for key in KEYS
    }


def test_keys_that_another_producer_placed_are_not_joined_and_named(trial: Try) -> None:
    """By an option, or by the partitions that the records say they were in."""
    found = trial(JOIN, orders_and_customers(), "--partitions", "4", "--crc32", "customers")
    (hidden,) = found.hidden
    assert hidden.startswith(f"{12 - len(found.records)} of 12 keys are in different partitions of 'customers' and")
    assert ": join at app.py:8 never sees such records together." in hidden
    placed = [{**one, "partition": 3 if one["topic"] == "orders" else 0} for one in orders_and_customers()]
    found = trial(JOIN, placed)
    assert found.records == []
    assert "12 of 12 keys are in different partitions" in found.hidden[0]
    assert "'c0' in partition 0 and partition 3: join" in found.hidden[0]


def test_a_key_in_two_partitions_of_a_topic_is_named(trial: Try) -> None:
    records: list[dict[str, object]] = [{"key": "a", "timestamp": at(0), "partition": number} for number in (1, 2)]
    found = trial(VISITS, records)
    assert (
        "1 of 1 keys of 'visits' have records in several partitions, such as 'a' in partitions 1, 2" in found.hidden[0]
    )


def test_a_quiet_partition_holds_its_window_back(trial: Try) -> None:
    quiet, busy = KEYS[0], next(key for key in KEYS if partition_for_key(key.encode(), 4) == 3)
    assert partition_for_key(quiet.encode(), 4) == 2
    found = trial(VISITS, [{"key": quiet, "timestamp": at(0)}, {"key": busy, "timestamp": at(5)}])
    assert found.records == []
    (hidden,) = found.hidden
    assert hidden.startswith(
        f"task 0_2 is at {at(0)} because partition 2 of 'visits' has no later records, and task 0_3 at {at(5)}: count()"
        f" at app.py:6 holds back 1 result of an open window there, the first until a record of {at(1)} or later."
    )


def test_records_of_several_partitions_are_late_behind_a_repartition_topic(trial: Try) -> None:
    """In one partition they come in the order of their times."""
    records: list[dict[str, object]] = [
        {"key": key, "value": "page", "timestamp": at(number)} for number, key in enumerate(KEYS)
    ]
    found = trial(PAGES, records)
    (hidden,) = found.hidden
    assert " were dropped that would be accepted with one partition (task 1_" in hidden
    assert "A longer grace period accepts them" in hidden


def test_a_record_that_is_late_beside_all_others_need_not_be_late_in_its_partition(trial: Try) -> None:
    one, other = KEYS[0], next(key for key in KEYS if partition_for_key(key.encode(), 4) == 3)
    found = trial(VISITS, [{"key": one, "timestamp": at(5)}, {"key": other, "timestamp": at(1)}])
    assert any(text.startswith("1 record was accepted that") for text in found.hidden)


def test_the_numbers_of_partitions_that_a_topology_sets_hold(trial: Try) -> None:
    source = f"""{HEAD}
moved = builder.stream("lines").repartition(Repartitioned(name="moved", number_of_partitions=2))
moved.to("out")
"""
    found = trial(source, [{"key": key, "timestamp": at(0)} for key in KEYS])
    assert [task[0] for task in found.tasks] == ["0_0", "0_1", "0_2", "0_3", "1_0", "1_1"]
    assert len(found.records) == len(KEYS)
    joined = source.replace('moved.to("out")', 'moved.join(builder.table("t"), lambda a, b: a).to("out")')
    (error,) = trial(joined, [{"topic": "lines", "key": "a", "timestamp": at(0)}]).errors
    assert "need the same number of partitions" in error


def test_a_global_table_is_whole_in_each_task(trial: Try) -> None:
    source = JOIN.replace('builder.table("customers")', 'builder.global_table("customers")').replace(
        '{name}: {order}")', '{name}: {order}", key_selector=lambda key, value: key)'
    )
    found = trial(source, orders_and_customers(), "--partitions", "4", "--crc32", "customers")
    assert (found.status, len(found.records), found.hidden) == (0, len(KEYS), [])


def test_a_function_that_fails_ends_it_with_its_line(trial: Try) -> None:
    source = f'{HEAD}builder.stream("lines").map_values(int).to("out", value_serde="long")'
    found = trial(source, [{"key": "a", "timestamp": at(0)}])
    assert found.status == 1
    assert found.errors[0].endswith("made at app.py:6 by map_values(int)")


def test_a_partition_that_is_not_there_is_left_out(trial: Try) -> None:
    found = trial(VISITS, [{"key": "a", "timestamp": at(0), "partition": 7}])
    assert found.status == 1
    assert found.errors == ["error: in.jsonl:1: skipped: partition 7 is out of range: --partitions 4 allows 0 to 3"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--workers", "2"), "--workers needs --partitions: one partition is one task"),
        (("--crc32", "visits"), "--crc32 needs --partitions: one partition is one task"),
        (("--partitions", "2", "--workers", "3"), "--workers 3 is more than --partitions 2: a topic has one task"),
        (("--partitions", "101"), "--partitions must be at most 100, got 101"),
        (("--partitions", "2", "--trace"), "--trace works with one partition only: remove --partitions"),
        (("--partitions", "2", "--tables"), "--tables works with one partition only"),
        (("--partitions", "2", "--advance", "5m"), "--advance works with one partition only"),
        (
            ("--partitions", "2", "--crc32", "visit"),
            "--crc32: the topology does not read topic 'visit'; it reads visits",
        ),
    ],
)
def test_what_cannot_be_is_one_line(trial: Try, words: tuple[str, ...], reason: str) -> None:
    found = trial(VISITS, [], *words)
    assert (found.status, found.records, len(found.errors)) == (2, [], 1)
    assert found.errors[0].startswith(f"error: {reason}")


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_wrong_number_is_refused(trial: Try, number: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        trial(VISITS, [], "--partitions", number)
