from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_support.running_app import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One broker in memory; the applications on it are closed at the end of the test."""
    made = Cluster(tmp_path)
    yield made
    made.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory that one application after the other has."""
    return tmp_path / "state"
