"""The recorded topologies do in runners of single tasks what they do in the test driver: records and changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from golden_support.java_names import config_of
from golden_support.replay import raw_record
from golden_support.session import Golden, golden
from golden_support.topologies import TopologyFunction
from processor_api.topology.function import topology_of
from processor_api.topology.topology import Topology
from runtime_support.staged_run import Piped, StagedRun, Written, compacted
from samples import sample_of
from state.formats.keys import read_window_key
from streams.config import StreamsConfig
from streams.testing import TopologyTestDriver
from streams.testing.settings import config_for_tests

RUNS = 1
"""Runs of each recording that are compared; the others have other random records."""
BATCH = 7
"""Records between two commits."""
WITHOUT_CACHE = {"statestore.cache.max.bytes": 0}
STACK_TRACE, ORIGIN_HEADER = "__streams.errors.stacktrace", "__streams.origin"


@dataclass(frozen=True)
class Run:
    """One recorded run, as what is piped."""

    config: StreamsConfig
    start_ms: int
    globals_: list[Piped]
    records: list[Piped]
    topics: set[str]

    @classmethod
    def of(cls, case: Mapping[str, Any], run: Mapping[str, Any], made: Topology, **settings: Any) -> Run:
        """A run up to the first step that fails, without those that move the wall clock."""
        piped: list[Piped] = []
        for step in run["steps"]:
            if "throws" in step:
                break
            if "in" in step:
                piped.append(raw_record(case, step))
        filling = {store.topic for store in made.global_stores.values()}
        config = config_for_tests(config_of({**case["config"], **WITHOUT_CACHE, **settings}))
        return cls(
            config,
            run["start_time_ms"],
            [one for one in piped if one[0] in filling],
            [one for one in piped if one[0] not in filling],
            {*case["topics"], *(one[0] for one in piped)},
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Recorded topologies that run: those of others are refused when they are built, or nothing is piped."""
    files = [file for file in golden(metafunc.config).of_kind("topology") if runs_of(file.data)]
    files = sample_of(files, 3, metafunc.function.__name__, lambda file: file.name)
    metafunc.parametrize("case", [file.data for file in files], ids=[file.name for file in files])


def runs_of(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [run for run in case["runs"][:RUNS] if "throws" not in run["steps"][0]]


def in_driver(build: TopologyFunction, run: Run) -> tuple[dict[str, list[Written]], float]:
    """What the test driver produces, and how many records it drops."""
    with TopologyTestDriver(build(run.config), run.config, initial_wall_clock_time=run.start_ms) as driver:
        for topic, key, value, timestamp, headers in [*run.globals_, *run.records]:
            driver.pipe_raw(topic, key, value, timestamp, headers)
        produced = driver.take_produced()
        dropped = driver.metrics()["dropped-records-total"]
    return {topic: [(*one[:3], plain(one[3])) for one in records] for topic, records in produced.items()}, dropped


def plain(headers: Any) -> list[tuple[str, bytes | None]]:
    """Headers without the text of a traceback, whose lines depend on the caller, and without the origins of records,
    which a run does not write."""
    return [one for one in headers or () if one[0] not in (STACK_TRACE, ORIGIN_HEADER)]


def staged(build: TopologyFunction, run: Run, **how: Any) -> StagedRun:
    return StagedRun(build(run.config), run.config, run.topics, run.globals_, start_ms=run.start_ms, **how)


def kept_log(made: Topology, topic: str, records: list[Written]) -> list[Written]:
    """The rows of a changelog that a runner keeps: the last of each key, and of each time where versions are kept.

    Where every put adds a row, they are not older than the retention and a segment, by Java's rule for its length.
    """
    store = max((name for name in made.stores if topic.endswith(f"-{name}-changelog")), key=len)
    kept = made.stores[store].supplier.parameters
    rows = compacted(records, versioned="history_retention_ms" in kept)
    if not kept.get("retain_duplicates"):
        return rows
    starts = [read_window_key(row[0])[1] for row in rows if row[0] is not None]
    segment = kept.get("segment_interval_ms", max(kept["retention_ms"] // 2, 60_000))
    oldest = max(starts, default=0) - kept["retention_ms"] - segment
    return [row for row, start in zip(rows, starts, strict=True) if start >= oldest]


@pytest.mark.sampled
def test_stages_in_batches_write_what_the_driver_does(golden: Golden, case: dict[str, Any]) -> None:
    """Each subtopology over all its records before the next, with commits between and with changelogs on disk.

    Where subtopologies that take turns would give another order (tasks with several inputs, topics that two write),
    they take turns here too.
    """
    build = golden.topologies[case["case"]]
    made = topology_of(build(config_of(case["config"])), None)
    run = Run.of(case, runs_of(case)[0], made, **{"changelog.updates": "each"})
    with staged(build, run, capture_bytes=0) as ours:
        want, _ = in_driver(build, run)
        if ours.in_order:
            ours.run_stages(run.records, BATCH)
        for start in range(0, 0 if ours.in_order else len(run.records), BATCH):
            ours.pipe(run.records[start : start + BATCH])
            ours.commit()
        ours.commit()
        logs = ours.changelogs()
        for topic in {*logs, *want}:
            found = logs[topic] if topic in logs else ours.produced[topic]
            expected = want.get(topic, [])
            expected = kept_log(made, topic, expected) if topic in logs else expected
            assert [(*one[:3], plain(one[3])) for one in found] == expected, topic


@pytest.mark.sampled
def test_records_and_changelogs_are_those_of_the_driver(golden: Golden, case: dict[str, Any]) -> None:
    """Byte for byte, with each record processed to the end before the next, and one commit at the end."""
    build = golden.topologies[case["case"]]
    made = topology_of(build(config_of(case["config"])), None)
    for recording in runs_of(case):
        run = Run.of(case, recording, made, **{"changelog.updates": "each"})
        want, dropped = in_driver(build, run)
        with staged(build, run) as ours:
            ours.pipe(run.records)
            ours.commit()
            logs = ours.changelogs()
            produced = {topic: [(*one[:3], plain(one[3])) for one in found] for topic, found in ours.produced.items()}
            assert ours.dropped == dropped or run.globals_
        expected_logs = {topic: kept_log(made, topic, want.get(topic, [])) for topic in logs}
        assert {topic: rows for topic, rows in want.items() if topic not in logs} == produced
        assert logs == expected_logs
