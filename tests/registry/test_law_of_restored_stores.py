"""Rows of a store with registry serdes are the same after a restore: from changelogs, source topics and snapshots."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from registry_support.drawn import Case, cases, good_records, same, serde
from serde_support.registry_values import AfterInit, Point
from streams import (
    Avro,
    KafkaStreams,
    Materialized,
    QueryableStoreTypes,
    SessionWindows,
    StoreQueryParameters,
    Stores,
    StreamsBuilder,
    TimeWindows,
    list_serde,
)
from streams.testing import EmbeddedKafka
from waiting import wait_until

WINDOW = 10
PARTITIONS = 3
LONG_AGO = 1 << 40
"""How long stores keep what is old, in ms."""
KEPT = ("rows", "sums", "windows", "sessions", "versions", "joined", "shared")
ROUNDS = 3 if settings.default.derandomize else 20


def topology(key: Any, value: Any, store_format: str) -> StreamsBuilder:
    builder = StreamsBuilder({"dsl.store.format": store_format}, key_serde=key, value_serde=value)
    rows = builder.table("rows", materialized="rows")
    stream = builder.stream("lines")
    grouped = stream.group_by(lambda key, _: key, "moved")
    grouped.reduce(lambda _, new: new, materialized="sums")
    windows = TimeWindows.of_size_and_grace(WINDOW, LONG_AGO)
    grouped.windowed_by(windows).reduce(lambda _, new: new, materialized="windows")
    sessions = SessionWindows.of_inactivity_gap_and_grace(WINDOW, LONG_AGO)
    grouped.windowed_by(sessions).reduce(lambda _, new: new, materialized="sessions")
    versions = Stores.persistent_versioned_key_value_store("versions", LONG_AGO)
    stream.to_table(materialized=Materialized(supplier=versions))
    joined: Any = Materialized(name="joined", value_serde=list_serde(value))
    rows.foreign_key_join_with_key(
        builder.table("others"), lambda key, _: key, lambda left, right: [left, right], materialized=joined
    )
    builder.global_table("shared", materialized="shared")
    return builder


def found_in(app: KafkaStreams, key: Any) -> Iterator[tuple[str, Any]]:
    """Yields what each store has for a key."""
    kinds = QueryableStoreTypes

    def opened(name: str, kind: Any) -> Any:
        return app.store(StoreQueryParameters.from_name_and_type(name, kind))

    for name in ("rows", "sums", "joined", "shared"):
        yield name, opened(name, kinds.key_value_store()).get(key)
    yield "windows", opened("windows", kinds.window_store()).fetch(key, 0)
    yield "sessions", opened("sessions", kinds.session_store()).fetch_session(key, 0, 0)
    version = opened("versions", kinds.versioned_key_value_store()).get(key)
    yield "versions", version and version.value


def expected_in(value: Any) -> dict[str, Any]:
    return dict.fromkeys(KEPT, value) | {"joined": [value, value]}


def check_restore(case: Case, ids: str, config: dict[str, Any], prepare: Callable[[Path], dict[str, Any]]) -> None:
    key, value = serde(case.key, ids), serde(case.value, ids)
    by_key = {}
    for record in good_records(case):
        by_key[key.bind("reference", is_key=True).inside().serialize(record[0])] = record
    store_format = config.pop("dsl.store.format")
    with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(Path(folder)) as kafka:
        config |= prepare(Path(folder))
        kafka.create_topics("rows", "others", "lines", partitions=PARTITIONS)
        kafka.create_topics("shared")
        for topic in ("rows", "others", "lines", "shared"):
            given_topic = kafka.create_input_topic(topic, key, value, start_timestamp=0)
            for row in by_key.values():
                given_topic.pipe_input(*row, 0)
        for start in ("first", "restored"):
            settings_of_start = {"application.id": "law", "state.dir": f"{folder}/{start}", **config}
            app = kafka.start(topology(key, value, store_format), settings_of_start)

            def wrong(app: KafkaStreams = app) -> list[str]:
                if app.failure is not None:
                    raise app.failure
                return [
                    f"{name}: {found!r}"
                    for row in by_key.values()
                    for name, found in found_in(app, row[0])
                    if not same(found, expected_in(row[1])[name])
                ]

            wait_until(f"the {start} stores have all rows: {case}", lambda: not wrong())
            if start == "first" and "state.snapshot.dir" in config and by_key:
                wait_until("a snapshot is there", lambda: list(Path(folder).glob("snapshots/*/tasks/*/*.json")))
            app.close()


CONFIGS = st.fixed_dictionaries(
    {
        "dsl.store.format": st.sampled_from(["DEFAULT", "HEADERS"]),
        "topology.optimization": st.sampled_from(["none", "all"]),
        "processing.guarantee": st.sampled_from(["at_least_once", "exactly_once_v2"]),
    }
)


SEVERAL = Case((Avro, Point), (Avro, AfterInit), [(Point(number), AfterInit(number)) for number in range(6)])
"""Keys in all partitions."""


def changelogs(folder: Path) -> dict[str, Any]:
    return {}


def snapshots(folder: Path) -> dict[str, Any]:
    return {"state.snapshot.dir": f"{folder / 'snapshots'}", "state.snapshot.interval.ms": 20}


@pytest.mark.parametrize("prepare", [changelogs, snapshots])
@pytest.mark.parametrize("ids", ["prefix", "header"])
@settings(max_examples=ROUNDS)
@example(case=SEVERAL, config={"dsl.store.format": "DEFAULT", "topology.optimization": "all"})
@given(case=cases(), config=CONFIGS)
def test_rows_are_the_same_after_a_restore(
    prepare: Callable[[Path], dict[str, Any]], ids: str, case: Case, config: dict[str, Any]
) -> None:
    check_restore(case, ids, dict(config), prepare)


@pytest.mark.slow
@pytest.mark.parametrize("prepare", [changelogs, snapshots])
@pytest.mark.parametrize("ids", ["prefix", "header"])
@settings(max_examples=60)
@given(case=cases(), config=CONFIGS)
def test_rows_are_the_same_after_a_restore_for_long(
    prepare: Callable[[Path], dict[str, Any]], ids: str, case: Case, config: dict[str, Any]
) -> None:
    check_restore(case, ids, dict(config), prepare)
