from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime_support.running_app import Cluster


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Makes brokers in memory; the applications on them are closed at the end of the test."""
    made: list[Cluster] = []

    def make(partitions: int = 1) -> Cluster:
        made.append(Cluster(tmp_path / f"cluster-{len(made)}", partitions))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """One broker, whose topics have one partition."""
    return make_cluster()
