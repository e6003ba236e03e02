"""A backfill that is cancelled ends what it runs, keeps what was done, and goes on later; notebooks show its parts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from backfill_kit import Row, write_history
from streams import StreamsBuilder
from streams.spark import Backfill, BackfillCancelled, History
from waiting import wait_until


def held(flag: Path) -> StreamsBuilder:
    """A task that is not the first waits until a file is there."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")

    def hold(key: str, value: str) -> str:
        if key != "k0":
            flag.with_suffix(".seen").touch()
            wait_until("the flag is there", flag.exists, deadline_s=300)
        return value

    builder.stream("events").map_values_with_key(hold).to("out")
    return builder


def backfill(session: Any, engine: str, path: Path) -> Backfill:
    lake, flag = path / "lake", path / "flag"
    if not lake.exists():
        write_history(lake, [Row(b"k%d" % (one % 2), b"v", 1_000 + one, partition=one % 2) for one in range(40)])
    return Backfill(
        session, lambda: held(flag), {"events": History.parquet(session, str(lake), partitions=2)},
        application_id="app", run_dir=path / "run", partitions={"out": 2}, engine=engine,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["spark", "local[2]"])
def test_a_run_that_is_cancelled_goes_on_later(spark: Any, tmp_path: Path, engine: str) -> None:
    session = spark if engine == "spark" else None
    made, failed = backfill(session, engine, tmp_path), list[BaseException]()

    def run() -> None:
        try:
            made.run()
        except BackfillCancelled as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until("a task waits", (tmp_path / "flag.seen").exists, deadline_s=120)
    made.cancel()
    thread.join(120)
    assert [str(error) for error in failed] == ["stage 0 of the backfill was cancelled: run it again to continue"]
    (tmp_path / "flag").touch()
    result = backfill(session, engine, tmp_path).run()
    out = result.output("out")
    assert (out.count() if engine == "spark" else out.num_rows) == 40


def test_notebooks_show_the_parts(tmp_path: Path) -> None:
    (tmp_path / "flag").touch()
    made = backfill(None, "local[1]", tmp_path)
    result = made.run()
    for part, words in (
        (made, ("backfill of app", "<td>events</td>")),
        (made.plan(), ("<td>events (history by offset, 2 partitions)</td>", "<td>out</td>")),
        (result, ("backfill of app in", "<td>40</td>")),
        (result.position, ("position of app", "<td>1970-01-01T00:00:01.039+00:00</td>", "<td>20</td>")),
    ):
        shown = part._repr_html_()  # type: ignore[attr-defined]
        assert all(word in shown for word in words), shown
