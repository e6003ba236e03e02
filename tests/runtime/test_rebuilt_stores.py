"""What makes an application throw local rows away says so, naming the store and the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.rebuilt import looking_up, rebuilds
from runtime_support.running_app import Cluster, counting
from state.engine.port import OFFSETS, POSITIONS
from state_support.all_kinds import change

CHANGELOG = TopicPartition("app-counts-changelog", 0)
KEY = b"app-counts-changelog-0"
FAMILY = "counts.plain"
S = Serdes.STRING


@pytest.fixture
def database(cluster: Cluster, state: Path) -> Path:
    """Of an application that counted and ended; it holds a wrong count, to tell its rows from restored ones."""
    run(cluster, state, "a=1", "a=2", sent=("a", "a"))
    path = state / "app" / "0_0" / "rocksdb"
    change(path, FAMILY, b"a", (100).to_bytes(8, "big"))
    return path


def topology() -> Topology:
    return counting(store=Stores.persistent_key_value_store("counts"))


def run(cluster: Cluster, state: Path, *out: str, sent: tuple[str, ...]) -> None:
    app = cluster.app(topology(), {"state.dir": str(state)})
    cluster.send(*sent)
    cluster.until_out(*out)
    assert app.close(60)


def forget_positions(database: Path) -> None:
    """Takes away what shows that the store is complete: it would be written into the changelog otherwise."""
    change(database, POSITIONS, b"in-0", None)


def without_an_offset(cluster: Cluster, database: Path) -> None:
    change(database, OFFSETS, KEY, None)


def beyond_the_end(cluster: Cluster, database: Path) -> None:
    forget_positions(database)
    change(database, OFFSETS, KEY, (1000).to_bytes(8, "big"))


def before_the_beginning(cluster: Cluster, database: Path) -> None:
    log = cluster.broker.log(CHANGELOG)
    log.delete_before(log.end_offset)
    forget_positions(database)
    change(database, OFFSETS, KEY, (-1).to_bytes(8, "big", signed=True))


OUTSIDE = "its offset is outside of the changelog"


@pytest.mark.parametrize(
    ("happens", "reason", "next_count"),
    [
        (without_an_offset, "it has rows and no offset", 3),
        (beyond_the_end, OUTSIDE, 3),
        (before_the_beginning, OUTSIDE, 1),
    ],
)
def test_a_store_whose_rows_cannot_be_trusted_is_rebuilt_loudly(
    happens: Callable[[Cluster, Path], None],
    reason: str,
    next_count: int,
    cluster: Cluster,
    state: Path,
    database: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    happens(cluster, database)
    run(cluster, state, "a=1", "a=2", f"a={next_count}", sent=("a",))
    assert rebuilds(caplog) == [(f"store is rebuilt from its changelog: {reason}", "counts", "0_0")]


def test_rows_that_can_be_trusted_stay_and_nothing_is_told(
    cluster: Cluster, state: Path, database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(cluster, state, "a=1", "a=2", "a=101", sent=("a",))
    assert rebuilds(caplog) == []


def test_a_store_that_is_new_is_not_told_of(cluster: Cluster, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(cluster, state, "a=1", sent=("a",))
    assert rebuilds(caplog) == []


# ---------------------------------------------------------------------- global stores


def test_a_global_store_without_an_offset_is_rebuilt_loudly(
    cluster: Cluster, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.broker.create_topic("ref", 1)
    cluster.send("right", topic="ref", key="k")

    def answers(*out: str) -> None:
        app = cluster.app(looking_up(), {"state.dir": str(state)})
        cluster.send("k")
        cluster.until_out(*out)
        assert app.close(60)

    answers("right")
    path = state / "app" / "global" / "0" / "rocksdb"
    change(path, "g.plain", b"k", b"wrong")
    change(path, OFFSETS, b"g.plain/ref-0", None)
    answers("right", "right")
    assert rebuilds(caplog) == [("global store is rebuilt from its topic: it has rows and no offset", "g", None)]
