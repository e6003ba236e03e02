from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.house import product
from tools.parsed_sources import forget_parsed

PACKAGES = ("processor_api", "state", "dsl", "streams")


@pytest.fixture(scope="session")
def sources(root: Path) -> dict[str, str]:
    """The text of every source file of the four packages, by its path from the root."""
    found = {module.path: module.source for module in product(root)}
    assert {path.partition("/")[0] for path in found} == set(PACKAGES)
    return found


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    """Keeps the syntax trees of all files while the tests of this folder run."""
    yield
    forget_parsed()
