from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.stores.factory import Stores
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


@pytest.fixture(params=["memory", "rocksdb"])
def store(request: pytest.FixtureRequest) -> Any:
    """The supplier of a store ``counts`` on each engine."""
    make = Stores.in_memory_key_value_store if request.param == "memory" else Stores.persistent_key_value_store
    return make("counts")
