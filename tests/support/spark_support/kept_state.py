"""Days of counts whose state is on disk, and one that is killed.

    python -m spark_support.kept_state ROOT

runs the third day below a directory, which ends at the key that the environment says (``KILLED_AT``).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams import KTable, StreamsBuilder
from streams.spark import Backfill, BackfillResult, History

COUNTS = "counts"
PARTITIONS = 2
NAME = "spark_support.kept_state:changed_counts"


def changed_counts() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    _counted(builder)
    return builder


def with_an_output() -> StreamsBuilder:
    """The same stores in another topology."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    _counted(builder).to_stream().map_values(str).to("out")
    return builder


def _counted(builder: StreamsBuilder) -> KTable[str, int]:
    grouped = builder.stream("events").peek(lambda key, value: _kill_at(key)).group_by_key()
    return grouped.count(materialized=COUNTS)


def _kill_at(key: str) -> None:
    if key == os.environ.get("KILLED_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


def day(
    root: Path,
    number: int,
    counts: Mapping[str, int],
    last: BackfillResult | None,
    path: Path | None = None,
    **more: Any,
) -> Backfill:
    """Returns the backfill of a day.

    :param counts: the number of records of each key.
    """
    keys = [key for key, count in counts.items() for _ in range(count)]
    columns = {
        "key": pa.array(keys, pa.string()),
        "value": pa.array(["x"] * len(keys), pa.string()),
        "timestamp": pa.array([1_000 * number + place for place in range(len(keys))], pa.timestamp("ms", "UTC")),
    }
    history = History(
        pa.table(columns), partition=None, offset=None, encoded=False, partitions=PARTITIONS, name=f"day {number}"
    )
    options = {"topology": NAME, "state_bytes": 0, **more}
    return Backfill(
        None, inputs={"events": history}, application_id="shop", run_dir=path or root / f"run-{number}",
        initial_state=last, engine="local[1]", **options,
    )  # fmt: skip


if __name__ == "__main__":
    root = Path(sys.argv[1])
    earlier = BackfillResult.load(None, root / "run-1", changed_counts, {"application.id": "shop"})
    day(root, 2, {"k1": 1, "k2": 3, "gone": 0}, earlier).run()
