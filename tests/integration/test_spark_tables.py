"""Tables of stores, read from changelogs: what the stores hold, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from integration_support.topics import Topics
from spark_support.stores_app import HOUR, copied, topology
from streams.spark import UnknownPartitionCount, UnsupportedStore, offsets_of, pin_offsets, read_table

PATH = "spark_support.stores_app:topology"


def ms(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def app(kafka: str) -> Iterator[tuple[str, Any, Topics]]:
    """The application's id, its driver and its topics."""
    import uuid

    name = f"tables-{uuid.uuid4().hex[:8]}"
    topics = Topics(kafka, lambda kind: f"{kind}-{name}")
    with copied(topics, name) as driver:
        yield name, driver, topics


@pytest.fixture
def rows(spark: Any, app: tuple[str, Any, Topics]) -> Callable[..., list[Any]]:
    """Reads a store's table: `rows(store, columns...)`, times in ms, in order."""
    name, _, topics = app

    def read(store: str, *columns: str, **options: Any) -> list[Any]:
        from pyspark.sql.functions import col, unix_millis

        df = read_table(
            spark, {"bootstrap.servers": topics.bootstrap, "default.key.serde": "string",
                    "default.value.serde": "string"}, topology, store, application_id=name, **options,
        )  # fmt: skip
        times = {field for field, kind in df.dtypes if kind == "timestamp"}
        shown = [unix_millis(col(each)).alias(each) if each in times else col(each) for each in columns]
        return sorted((tuple(row) for row in df.select(*shown).collect()), key=repr)

    return read


def test_key_value_stores(rows: Any, app: Any) -> None:
    driver = app[1]
    plain = dict(driver.get_key_value_store("plain").all())
    assert len(plain) > 3
    assert "" in plain.values() or "é" in plain.values()
    assert rows("plain", "partition", "key", "value") == sorted((0, *row) for row in plain.items())
    stamped = driver.get_timestamped_key_value_store("timestamped").all()
    assert rows("timestamped", "key", "value", "timestamp") == sorted((key, *value) for key, value in stamped)


def test_keys_whose_time_to_live_is_over_are_left_out(rows: Any, app: Any) -> None:
    """By the largest timestamp of the partition; the application may not have deleted them yet."""
    truth = sorted((key, *value) for key, value in app[1].get_timestamped_key_value_store("expiring").all())
    assert rows("expiring", "key", "value", "timestamp") == truth
    assert len(rows("expiring", "key", expired_windows=True)) > len(truth) > 0


def test_headers_and_json_and_lists(rows: Any, app: Any) -> None:
    import json

    driver = app[1]
    found = rows("headers", "key", "value", "timestamp", "headers")
    truth = driver.get_timestamped_key_value_store_with_headers("headers").all()
    assert [(*row[:3], [tuple(each) for each in row[3]]) for row in found] == sorted(
        (key, value.value, value.timestamp, list(value.headers)) for key, value in truth
    )
    assert any(row[3] for row in found)
    documents = dict(driver.get_key_value_store("json").all())
    assert {key: json.loads(value) for key, value in rows("json", "key", "value")} == documents
    lists = {key: list(driver.get_state_store("list").get(key)) for key in documents}
    assert dict(rows("list", "key", "value")) == {key: value for key, value in lists.items() if value}


def test_windows_and_sessions_leave_out_what_expired(rows: Any, app: Any) -> None:
    driver = app[1]
    truth = [
        (windowed.key, windowed.window.start, windowed.window.start + HOUR, value)
        for windowed, value in driver.get_window_store("window").all()
    ]
    columns = ("key", "window_start", "window_end", "value")
    assert rows("window", *columns) == sorted(truth, key=repr)
    assert len(rows("window", *columns, expired_windows=True)) > len(truth) > 3
    doubles = [
        (windowed.key, windowed.window.start, value) for windowed, value in driver.get_window_store("doubles").all()
    ]
    found = rows("doubles", "key", "window_start", "value", "sequence")
    assert sorted((row[:3] for row in found), key=repr) == sorted(doubles, key=repr)
    assert len({row[3] for row in found}) == len(found)
    sessions = []
    for key in {row[0] for row in rows("session", *columns, expired_windows=True)}:
        sessions += [
            (key, *windowed.window, value) for windowed, value in driver.get_session_store("session").fetch(key)
        ]
    assert rows("session", *columns) == sorted(sessions, key=repr)
    assert sessions


def test_versions_have_intervals(rows: Any, app: Any) -> None:
    store = app[1].get_versioned_key_value_store("versioned")
    columns = ("key", "value", "valid_from", "valid_to")
    latest = rows("versioned", *columns)
    assert latest == sorted(
        ((row[0], found.value, found.timestamp, None) for row in latest if (found := store.get(row[0]))), key=repr
    )
    every = rows("versioned", *columns, versions="all")
    truth = []
    for key in sorted({row[0] for row in every}):
        truth += [(key, one.value, one.timestamp, one.valid_to) for one in store.versions(key)]
    assert every == sorted(truth, key=repr)
    assert any(row[3] is not None for row in every)


def test_more_keys_than_the_memory_takes_give_the_same_table(rows: Any) -> None:
    """All rows go to disk and back."""
    for store in ("plain", "headers", "window"):
        columns = ("key", "value", "timestamp", "changelog_offset")
        assert rows(store, *columns, memory_bytes=1) == rows(store, *columns)


def test_raw_keys_and_values_are_bytes(rows: Any) -> None:
    assert all(
        isinstance(value, bytearray | bytes) for row in rows("timestamped", "key", "value", raw=True) for value in row
    )


def test_a_table_in_sql(spark: Any, app: Any) -> None:
    name, driver, topics = app
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW plain USING streams_table OPTIONS (topology '{PATH}', store 'plain',"
        f" `application.id` '{name}', `bootstrap.servers` '{topics.bootstrap}', `default.key.serde` 'string',"
        " `default.value.serde` 'string')"
    )
    found = spark.sql("SELECT key, value FROM plain WHERE key >= 'key-3' ORDER BY key").collect()
    assert [tuple(row) for row in found] == sorted(
        (key, value) for key, value in driver.get_key_value_store("plain").all() if key >= "key-3"
    )


def test_two_actions_see_the_same_rows_though_the_topic_grows(spark: Any, app: Any) -> None:
    from spark_support.stores_app import write
    from streams.testing import RawRecord

    name, _, topics = app
    topics.create_named(f"{name}-grows-changelog", 1)
    topic = f"{name}-json-changelog"
    settings = {"bootstrap.servers": topics.bootstrap, "application.id": name, "default.key.serde": "string"}
    pinned = pin_offsets(settings, topic)
    df = read_table(spark, settings, PATH, "json", offsets=pinned)
    assert offsets_of(df) == pinned
    before = df.count()
    write(topics.bootstrap, {topic: [RawRecord(b"new", b"{}", 5, [])]}, partition=1)
    assert df.count() == before
    assert read_table(spark, settings, PATH, "json").count() == before + 1


def test_stores_without_a_table_are_refused_before_anything_is_read(spark: Any, kafka: str, app: Any) -> None:
    settings = {"bootstrap.servers": kafka, "application.id": app[0]}
    with pytest.raises(UnsupportedStore, match="no store 'plane'; it has: doubles, expiring, headers"):
        read_table(spark, settings, topology, "plane")
    with pytest.raises(UnsupportedStore, match=r"no key serde .* raw=True"):
        read_table(spark, settings, topology, "plain")
    with pytest.raises(UnknownPartitionCount, match="not-run-plain-changelog"):
        read_table(spark, settings, topology, "plain", raw=True, application_id="not-run")
