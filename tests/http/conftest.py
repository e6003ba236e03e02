"""A broker in memory for the applications whose ports are asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_support.running_app import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, partitions=2) as found:
        yield found
