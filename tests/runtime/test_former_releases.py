"""State, topics and offsets that former releases have left, with today's code over them.

`runtime_support/kept_cluster.py` says how a release is recorded, and how its code is run over the state of today.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError
from runtime_support.kept_cluster import APPLICATION, drawn, expected, load, run, unpack
from state.rocksdb.metadata import FORMAT_VERSION
from state_support.all_kinds import set_format
from streams.testing import EmbeddedKafka

RELEASES = Path(__file__).parent / "former_releases"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path / "unused") as made:
        yield made


@pytest.fixture(scope="module")
def wanted() -> tuple[Counter[tuple[str, str]], dict[str, str | None]]:
    """What the test driver gives for all records."""
    return expected([*drawn(0), *drawn(1)])


@pytest.fixture(params=sorted(path.name for path in RELEASES.iterdir()))
def release(request: Any) -> Path:
    return RELEASES / str(request.param)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_its_state_directory_is_gone_on_with(
    release: Path, kafka: EmbeddedKafka, wanted: Any, guarantee: str, tmp_path: Path
) -> None:
    """The release ran at least once; the guarantee may change with it."""
    load(kafka, release)
    unpack(release, tmp_path / "state")
    assert run(kafka, tmp_path / "state", drawn(1), processing_guarantee=guarantee) == wanted


def test_its_changelogs_are_restored(release: Path, kafka: EmbeddedKafka, wanted: Any, tmp_path: Path) -> None:
    load(kafka, release)
    assert run(kafka, tmp_path / "state", drawn(1)) == wanted


def test_the_state_of_a_later_release_is_refused_and_kept(kafka: EmbeddedKafka, wanted: Any, tmp_path: Path) -> None:
    """Its error names the formats. With the format of this release in its place again, the state is whole."""
    release, state_dir = RELEASES / "0.1.0", tmp_path / "state"
    load(kafka, release)
    unpack(release, state_dir)
    databases = sorted((state_dir / APPLICATION).glob("*/rocksdb"))
    assert len(databases) > 2
    for database in databases:
        set_format(database, b"2")
    with pytest.raises(StateError, match="has format 2, but this release reads 1: run the newer release"):
        run(kafka, state_dir, drawn(1))
    for database in databases:
        set_format(database, FORMAT_VERSION)
    assert run(kafka, state_dir, []) == wanted
