"""An application whose keys and values are Avro moves from Java to here and back, with one registry."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from integration_support.avro_totals import MINUTE_MS, PARTITIONS, TOPICS, AvroTotals
from integration_support.topics import Topics
from integration_support.workers import Workers
from streams import SchemaRegistry
from tools.apicurio import Apicurio


@pytest.mark.slow
def test_an_application_with_avro_moves_from_java_and_back(topics: Topics, workers: Workers, tmp_path: Path) -> None:
    """Each side reads the other's changelogs and repartition topic, though their schemas differ, and every order is
    added up once."""
    names = {kind: topics.create(kind, PARTITIONS) for kind in TOPICS}
    # Of today: a broker deletes rows of windows from their changelog some time after the timestamps of these.
    first = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS
    with Apicurio() as registry:
        app = AvroTotals(topics, workers, "exactly_once_v2", names, registry.url, first)
        client, subject = SchemaRegistry(registry.url).client, f"{workers.application}-totals-changelog"
        with app.readers() as readers:
            app.run_java(tmp_path / "java", readers)
            assert client.versions(f"{subject}-value") == [1]
            app.run_here(tmp_path / "here", readers)
            assert client.versions(f"{subject}-key") == [1]
            assert client.versions(f"{subject}-value") == [1, 2]
            app.run_java(tmp_path / "java-again", readers)
            app.run_here(tmp_path / "here", readers)
