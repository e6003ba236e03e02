"""Options of the golden tests, which replay what Kafka Streams for Java was recorded to do."""

from __future__ import annotations

import pytest

from golden_support.session import Golden, golden


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("golden", "recordings of Kafka Streams for Java")
    group.addoption(
        "--golden-dir",
        metavar="DIR",
        help="replay the recordings in DIR (.json, .json.gz, .json.xz; flat or nested) in place of the project's own;"
        " names without a topology are listed as skipped there",
    )
    group.addoption(
        "--golden-topologies",
        metavar="MODULE",
        help="a module (importable name, or path of a .py file) whose TOPOLOGIES go before those of the project",
    )


@pytest.fixture(name="golden", scope="session")
def golden_fixture(request: pytest.FixtureRequest) -> Golden:
    return golden(request.config)
