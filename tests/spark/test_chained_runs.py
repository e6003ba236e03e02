"""A history in several runs that go on with each other gives what one run over all of it gives."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from processor_api.task_id import TopicPartition
from processor_api.topology.function import topology_of
from runtime_support.running_app import Cluster
from spark_support.chained_runs import OTHER_STORES, SHAPES, Drawn, days, drawn, foreign_keys, outputs, run, tables
from spark_support.finished_runs import Sent, processed, send_all
from state.engine.spilling import ROWS_IN_MEMORY_BYTES
from streams.config import StreamsConfig
from streams.spark import BackfillResult, bootstrap

SEEDS = 40
MANY = 500


def check(found: Drawn, path: Path) -> None:
    whole = run(found, found.rows, path / "whole")
    assert chain(found, path) == (outputs(whole), *summary(found, whole)), found


def chain(found: Drawn, path: Path, **options: Any) -> tuple[Any, ...]:
    """Returns what the runs of all days have written, and the end of the last one."""
    written: dict[int, list[Any]] = {}
    last = None
    globals_: dict[str, list[Any]] = {topic: [] for topic in found.shape.global_topics}
    for number, rows in enumerate(days(found)):
        # A global table is not in the order of time: all of it is there before the first record.
        given = {**rows, **{topic: found.rows[topic] if number == 0 else [] for topic in globals_}}
        last = run(found, given, path / f"day-{number}", last, **options)
        for task, records in outputs(last).items():
            written.setdefault(task, []).extend(records)
    assert last is not None
    return (written, *summary(found, last))


def summary(found: Drawn, result: BackfillResult) -> tuple[Any, ...]:
    """Returns the tables of a result, the numbers of their rows, and its position."""
    counts = {topic: count for topic, count in result.stages[-1].counts.items() if topic.endswith("-changelog")}
    return tables(result, found.shape.stores), counts, result.position.offsets(), result.position.times()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_history_cut_into_runs_gives_what_one_run_gives(seed: int, tmp_path: Path) -> None:
    check(drawn(seed), tmp_path)


# ---------------------------------------------------------------------- with state on disk

ALL_SHAPES = {**SHAPES, "other_stores": OTHER_STORES}


def on_disk(seed: int) -> Drawn:
    """Returns a history of more keys, of which a day may change few or many."""
    return drawn(seed, ALL_SHAPES, keys_most=(3, 40), rows_most=200)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_runs_that_write_what_they_change_give_what_those_give_that_write_all(seed: int, tmp_path: Path) -> None:
    check_on_disk(seed, tmp_path)


def check_on_disk(seed: int, path: Path) -> None:
    found = on_disk(seed)
    assert chain(found, path / "on-disk", state_bytes=0) == chain(found, path / "in-memory"), found


def test_the_histories_with_state_on_disk_keep_bases_and_make_new_ones(tmp_path: Path) -> None:
    kept: Counter[str] = Counter()
    for seed in range(SEEDS):
        if on_disk(seed).shape.build.__name__ == "counts":
            chain(on_disk(seed), tmp_path / str(seed), state_bytes=0)
    for stage in tmp_path.glob("*/day-*/stage=0"):
        for base in stage.glob("kind=base/*"):
            kept["kept" if base.stat().st_nlink > 1 else "new"] += 1
    assert kept.keys() == {"kept", "new"}


@pytest.mark.slow
def test_many_histories_cut_into_runs_give_what_one_run_gives(tmp_path: Path) -> None:
    for seed in range(SEEDS, SEEDS + MANY):
        check(drawn(seed), tmp_path / str(seed))
        check_on_disk(seed, tmp_path / f"{seed}-on-disk")


def test_the_drawn_histories_have_every_shape() -> None:
    found = [drawn(seed) for seed in range(SEEDS)]
    assert {one.shape.build.__name__ for one in found} == SHAPES.keys()
    assert {one.optimization for one in found} == {"none", "all"}
    assert {len(one.borders) for one in found} == set(range(5))


# ---------------------------------------------------------------------- and then live

HANDED_OVER = 6


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - {"punctuated"}))  # which a start of live runs once more
def test_live_goes_on_with_runs_as_if_it_had_read_everything(name: str, tmp_path: Path) -> None:
    """The last day of some histories is read by an application that the others were handed over to."""
    seeds = (seed for seed in range(10_000) if (found := drawn(seed)).shape.build.__name__ == name and found.borders)
    for seed in islice(seeds, HANDED_OVER if name != "foreign_keys" else 2):
        hand_over(drawn(seed), tmp_path / str(seed), state_bytes=(0, ROWS_IN_MEMORY_BYTES)[seed % 2])


def hand_over(found: Drawn, path: Path, state_bytes: int) -> None:
    whole = run(found, found.rows, path / "whole")
    earlier: list[BackfillResult] = []
    for number, rows in enumerate(days(found)[:-1]):
        given = {**rows, **{topic: found.rows[topic] if number == 0 else [] for topic in found.shape.global_topics}}
        last = earlier[-1] if earlier else None
        earlier.append(run(found, given, path / f"day-{number}", last, state_bytes=state_bytes))
    counts = dict.fromkeys((*found.shape.topics, "out"), found.partitions)
    counts |= dict.fromkeys(found.shape.global_topics, 1)
    with Cluster(path / "live", topics=counts) as cluster:
        for topic, rows in found.rows.items():
            sent = [Sent(topic, one.partition, one.key, one.value, one.ts) for one in rows]
            send_all(cluster.clients.producer({}), sent)
        emit = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
        config = {"application.id": "shop", "topology.optimization": found.optimization, emit: 0}
        bootstrap(earlier[-1], {**config, "bootstrap.servers": "in-memory:9092"}, clients=cluster.clients)
        app = cluster.app(
            topology_of(found.shape.build, StreamsConfig.of({**config, "bootstrap.servers": "in-memory:9092"})),
            config,
            statestore_cache_max_bytes=0,
        )
        group = cluster.broker.groups.group("shop")
        own = [name for name in cluster.broker.topics if name.endswith(("-repartition", "-topic"))]
        read = [name for name in (*found.shape.topics, *own) if name not in found.shape.global_topics]
        sizes = {name: len(cluster.broker.topics[name].partitions) for name in read}
        places = [TopicPartition(name, one) for name, size in sizes.items() for one in range(size)]
        cluster.until(lambda: all(processed(cluster, group, place) for place in places))
        assert app.close(30)
        for store in found.shape.stores:
            changelog = f"shop-{store}-changelog"
            if changelog in cluster.broker.topics:
                rows = {(one.partition(), one.key()): one.value() for one in cluster.broker.records(changelog)}
                kept = whole.changelog_rows(store).to_pylist()
                expected = {(one["partition"], one["key"]): one["value"] for one in kept}
                assert {place: value for place, value in rows.items() if value is not None} == expected, (store, found)
        if found.shape.repartitions or found.shape.build is foreign_keys:
            return  # between tasks there is no one order of results
        live = Counter((one.key(), one.value(), one.timestamp()[1]) for one in cluster.broker.records("out"))
        assert live + written_by(*earlier) == written_by(whole), found


def written_by(*results: BackfillResult) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for result in results:
        rows = result.output("out").to_pylist()
        found.update((one["key"], one["value"], int(one["timestamp"].timestamp() * 1000)) for one in rows)
    return found
