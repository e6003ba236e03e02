"""What one test run replays: recordings, topologies and differences, as the command line says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from golden_support.composed import topology_of
from golden_support.differences import Difference, Differences
from golden_support.recordings import Recording, Recordings
from golden_support.store_traces import expected_trace
from golden_support.topologies import TopologyFunction, load_module, load_topologies

__all__ = ["GOLDEN", "Golden", "golden", "is_composed"]

GOLDEN = Path(__file__).parents[2] / "golden"
"""``tests/golden``"""


def is_composed(file: Recording) -> bool:
    """Whether a recording is of a topology that was drawn, and has the statements to build it."""
    return bool(file.data.get("group") == "composed")


_KEY = pytest.StashKey["Golden"]()


@dataclass
class Golden:
    """Read once for a whole test run."""

    recordings: Recordings
    extra_topologies: str | None

    @cached_property
    def topologies(self) -> Mapping[str, TopologyFunction]:
        composed = {file.data["case"]: file.data["java"] for file in self.of_kind("topology") if is_composed(file)}
        topologies = {name: topology_of(text) for name, text in composed.items()}
        return topologies | load_topologies(GOLDEN / "topologies", self.extra_topologies)

    @cached_property
    def differences(self) -> Differences:
        return Differences.load(GOLDEN / "differences.toml")

    @cached_property
    def formats(self) -> ModuleType:
        return load_module(str(GOLDEN / "formats_table.py"))

    def of_kind(self, kind: str) -> list[Recording]:
        return list(self.recordings.of_kind(kind))

    def store_trace(self, store: str, trace: str) -> Any:
        """What is expected of a recorded trace of a store; ``None`` if there is none of these names."""
        traces = [one for file in self.of_kind("store") if file.name == store for one in file.data["traces"]]
        return next((expected_trace(one) for one in traces if one["name"] == trace), None)

    def expected_of_store(self, store: str, trace: Mapping[str, Any]) -> tuple[Any, list[Difference]]:
        """What is expected of a trace here, as the differences say, and those that changed something."""
        names = {"store": store, "trace": str(trace["name"])}
        document = expected_trace(trace)
        return self.differences.apply("store", names, document, source=trace, recorded=self.store_trace)

    def settle(self, report: str, applied: Sequence[Difference], *, untold: int = 0) -> None:
        """Fails the test for what is reported.

        :param untold: how much was not compared, since what these recordings have does not tell it; the test is listed
            as skipped then.
        """
        entries = "\n".join(f"  {entry}" for entry in applied)
        if report and applied:
            report += f"\napplied from differences.toml (remove what does not differ any more):\n{entries}"
        assert not report, report
        if untold:
            pytest.skip(f"{untold} results are not compared: the recordings of the engine that tells them are not here")

    def list_not_built(self, what: str, names: Iterable[str], *, fail: bool) -> None:
        """Ends the test with the names that are recorded and not built: skipped, or failed where it is asked for and
        these are the project's own recordings."""
        listed = sorted(set(names))
        if not listed:
            return
        message = f"{len(listed)} {what}: {', '.join(listed)}"
        if fail and self.recordings.is_default:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


def golden(config: pytest.Config) -> Golden:
    """What this test run replays."""
    if _KEY not in config.stash:
        given = config.getoption("golden_dir", default=None)
        directory = Path(given).resolve() if given else GOLDEN / "recordings"
        if not directory.is_dir():
            raise pytest.UsageError(f"--golden-dir: there is no directory {directory}")
        recordings = Recordings(directory, is_default=given is None)
        if not recordings.files:
            raise pytest.UsageError(f"--golden-dir: {directory} holds no recordings (*.json, *.json.gz, *.json.xz)")
        config.stash[_KEY] = Golden(recordings, config.getoption("golden_topologies", default=None))
    return config.stash[_KEY]
