"""What is public stays so: docs/versions.md says for how long."""

from __future__ import annotations

from tools.public_names import PATH, public_names


def test_nothing_public_is_gone() -> None:
    """Since the list was written. A removal needs a release with a warning first; a new name needs nothing here."""
    assert sorted(set(PATH.read_text().splitlines()) - set(public_names())) == []


def test_the_list_has_names_and_members() -> None:
    names = PATH.read_text().splitlines()
    assert len(names) == len(set(names)) > 300
    assert {"streams.KafkaStreams.close", "streams.Serdes.LONG", "streams.testing.TopologyTestDriver"} <= set(names)
    assert "streams.StreamsConfig.commit_interval_ms" in names
    assert "streams.StreamsConfig.model_dump" not in names
