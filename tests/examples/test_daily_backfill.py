"""examples/14_daily_backfill"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streams import KafkaStreams, QueryableStoreTypes, StoreQueryParameters
from streams.cli.main import main
from streams.spark import BackfillResult, bootstrap
from streams.testing import EmbeddedKafka
from waiting import wait_until

FOLDER = "14_daily_backfill"
BACKFILL = (
    "spark backfill revenue.py --application-id revenue --runs runs --history orders=lake --partitions orders=2"
    " --partitions revenue-by-shop=2 --engine local[1]"
)


@pytest.fixture
def in_folder(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example's script, in the current directory."""
    (tmp_path / "revenue.py").write_bytes((root / "examples" / FOLDER / "revenue.py").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "revenue", raising=False)
    return tmp_path


def expected(script: Callable[[str], ModuleType], start: Callable[..., Any], days: range) -> tuple[Any, Any]:
    """The tables of one application that has read the orders of these days, each day as it should be."""
    lake, revenue = script(f"{FOLDER}/lake"), script(f"{FOLDER}/revenue")
    driver = start(revenue.topology())
    orders = driver.create_input_topic("orders", revenue.TEXT, revenue.JSON)
    for row in (row for day in days for row in lake.orders(day)):
        orders.pipe_input(row.key.decode(), json.loads(row.value), timestamp=row.timestamp)
    with driver.get_key_value_store("revenue").all() as rows:
        totals = dict(rows)
    with driver.get_window_store("revenue-by-hour").all() as found:
        hours = {(key.key, key.window.start): value for key, value in found}
    return totals, hours


def found(number: int) -> tuple[Any, Any]:
    """The tables of a run."""
    import revenue  # type: ignore[import-not-found]

    result = BackfillResult.load(None, f"runs/{number:04d}", revenue.topology, {"application.id": "revenue"})
    totals = {row["key"]: row["value"] for row in result.table("revenue").to_pylist()}
    hours = {
        (row["key"], int(row["window_start"].timestamp() * 1000)): row["value"]
        for row in result.table("revenue-by-hour", expired_windows=False).to_pylist()
    }
    return totals, hours


def test_seven_days_then_live_are_one_pass(
    in_folder: Path,
    script: Callable[[str], ModuleType],
    start: Callable[..., Any],
    root: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A holiday, a late file, a retry, a day that was wrong at first: as if one application had read all of it."""
    lake = script(f"{FOLDER}/lake")
    page = (root / "examples" / FOLDER / "README.md").read_text()
    assert " ".join(page.replace("\\\n", " ").split()).count(f"streams {BACKFILL.replace('local[1]', 'local')}") == 3

    def backfill(*more: str) -> str:
        assert main([*shlex.split(BACKFILL), *more]) == 0
        return capsys.readouterr().out

    for day in lake.DAYS:
        lake.write_day(Path("lake"), day)
        backfill()
        if day == lake.HOLIDAY:
            assert "nothing new since run 3: its result is current" in backfill()
    assert found(7) != expected(script, start, range(1, 8)), "one day is wrong"
    lake.write_day(Path("lake"), lake.WRONG, corrected=True)
    assert "run 7 is set aside" in backfill("--since", str(lake.WRONG - 1), "--replace")
    assert found(5) == expected(script, start, range(1, 8))
    assert not Path("runs/0006").exists()
    go_live(lake, script(f"{FOLDER}/revenue"), in_folder, expected(script, start, range(1, 10))[0])


def go_live(lake: ModuleType, revenue: ModuleType, folder: Path, totals: dict[str, int]) -> None:
    """Hands the last run over to an application that reads the days after it."""
    config = {"application.id": "revenue", "bootstrap.servers": "in-memory:9092", "state.dir": str(folder / "state")}
    with EmbeddedKafka() as kafka:
        kafka.create_topics("orders", "revenue-by-shop", partitions=lake.PARTITIONS)
        producer = kafka.clients.producer({})
        for row in (row for day in range(1, 10) for row in lake.orders(day)):
            producer.produce(
                "orders", row.value, row.key, row.partition, timestamp=int(row.timestamp.timestamp() * 1000)
            )
        producer.flush(60)
        bootstrap(folder / "runs" / "0005", config, topology=revenue.topology, clients=kafka.clients)
        app: KafkaStreams = kafka.start(revenue.topology(), config)
        query = StoreQueryParameters.from_name_and_type("revenue", QueryableStoreTypes.key_value_store())

        def is_there() -> bool:
            with app.store(query).all() as rows:
                return dict(rows) == totals

        wait_until("live has the totals of all days", is_there)
