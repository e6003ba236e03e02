"""What Kafka Streams 4.3.1 did otherwise, of which `older` has recordings, and what becomes of it here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden_support.recordings import read_json
from processor_api.serde import Serdes
from processor_api.stores.builder import change_buffer_builder
from state_support.store_kit import LogRecord, restored

HERE = Path(__file__).parent
CHANGELOG = "parity-buffer-store-changelog"


def recorded(name: str, kind: str) -> tuple[Any, Any]:
    """A recording of 4.3.1, and the project's own that stands in its place."""
    return read_json(HERE / "older" / "4.3.1" / name), read_json(HERE / "recordings" / kind / name)


def changelog(run: dict[str, Any]) -> list[LogRecord]:
    return [
        (
            bytes.fromhex(record["key_hex"]),
            None if record["value_hex"] is None else bytes.fromhex(record["value_hex"]),
            record["timestamp"],
            [(name, bytes.fromhex(value)) for name, value in record["headers"]],
        )
        for record in run["topics"][CHANGELOG]
    ]


def buffered(records: list[LogRecord], directory: Path) -> list[tuple[Any, ...]]:
    """What a suppression sends on that was restored from a changelog, and the bytes that it counts then."""
    builder = change_buffer_builder("s", Serdes.BYTES, Serdes.BYTES, headers=True)
    kit = restored(builder, records, directory)
    found: list[tuple[Any, ...]] = []
    kit.store.operator.evict_while(lambda: True, lambda *change: found.append(change))
    found.append((kit.facade.buffer_size(),))
    kit.close()
    return found


@pytest.mark.parametrize("number", [0, 1])
def test_a_suppression_reads_what_older_releases_have_logged(number: int, tmp_path: Path) -> None:
    """With headers in stores, their changelogs have no headers of old values; what waits is the same at each record."""
    older, newer = (data["topologies"] for data in recorded("internal_topics.json.gz", "formats"))
    run = older[number]
    newer = next(one for one in newer if (one["name"], one["settings"]) == (run["name"], run["settings"]))
    before, now = changelog(run), changelog(newer)
    assert {name for *_, headers in before for name, _ in headers or ()} == {"v"}
    assert "vh.old" in {name for *_, headers in now for name, _ in headers or ()}
    waited = 0
    for end in range(len(now) + 1):
        expected = buffered(now[:end], tmp_path / "now")
        assert buffered(before[:end], tmp_path / "before") == expected
        waited += len(expected) - 1
    assert waited > len(now)


def test_processors_that_share_a_builder_were_two_subtopologies() -> None:
    """Two tasks with a store each, and one changelog for both; all else was the same."""
    before, now = recorded("papi-shared-builder.json.gz", "topologies")
    assert {name for name in now if now[name] != before[name]} == {"kafka", "describe"}
    assert (before["describe"].count("Sub-topology"), now["describe"].count("Sub-topology")) == (2, 1)
    assert list(before["internal_topics"]) == ["parity-shared-changelog"]
