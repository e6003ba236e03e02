"""One release of Apache Kafka is meant wherever none is chosen: that of `tools/kafka/pom.xml`."""

from __future__ import annotations

import re
from pathlib import Path

from ruamel.yaml import YAML

from tools.kafka.jars import POM

ROOT = Path(__file__).resolve().parents[2]


def release_of(pom: Path) -> str:
    (found,) = re.findall("<kafka.version>(.+)</kafka.version>", pom.read_text())
    return found


KAFKA_VERSION = release_of(POM)
RELEASE = re.compile(r"(?<![\w.-])(?<!Spark )(?<!pandas )([34]\.\d\.\d)(?![\w-]|\.\d)")
PAGES = sorted(
    page
    for pattern in (
        "*.md",
        "docs/*.md",
        "deploy/**/*",
        "examples/**/*.md",
        ".github/**/*",
        "streams/cli/new/project/*.yaml",
    )
    for page in ROOT.glob(pattern)
    if page.is_file() and page.name != "CHANGELOG.md"
)
SPARKS = {"4.1.0", "4.2.1", "4.3.0"}
"""The releases of Spark that look like releases of Kafka."""
OTHERS = {
    "CONTRIBUTING.md": {"4.2.0", "4.2.1", "4.3.0", "4.3.1"},  # how another release, or another Spark, is chosen
    "README.md": {"4.3.1"},  # what the figures were measured with
    "docs/conformance.md": {"4.2.0", "4.3.1"},  # what `make test-brokers` runs on
    "docs/from-java.md": {"4.3.1"},  # what older releases do otherwise
    "docs/high-availability.md": {"4.3.1"},
    "docs/performance.md": {"4.3.1"},
    "docs/semantics.md": {"4.3.1"},
    "docs/streams-groups.md": {"4.2.0", "4.2.1", "4.3.1"},  # where a defect was, and what older brokers lack
    "docs/versions.md": {"4.2.0", "4.3.1", *SPARKS},  # what `make test-brokers` and `make test-sparks` run on
}
"""Pages that mean another release, by name, and only that one."""


def releases(text: str) -> set[str]:
    return set(RELEASE.findall(text))


def test_pages_name_the_release_of_the_tests_or_one_that_they_are_about() -> None:
    others = {
        str(page.relative_to(ROOT)): releases(page.read_text(errors="replace")) - {KAFKA_VERSION} for page in PAGES
    }
    assert {name: found for name, found in others.items() if found} == OTHERS


def test_releases_are_told_from_other_numbers() -> None:
    text = "Kafka 4.3.1, (4.2.0); PySpark 4.3.0, 14.3.1, 4.3.1.2, version-4.3.1, ends with 4.1.0. Also 3.9.1-rc2"
    assert releases(text) == {"4.3.1", "4.2.0", "4.1.0"}


def test_the_compose_file_and_the_first_page_have_that_release() -> None:
    image = YAML(typ="safe", pure=True).load(ROOT / "streams/cli/new/project/compose.yaml")["services"]["kafka"][
        "image"
    ]
    assert image == f"apache/kafka:{KAFKA_VERSION}"
    assert f"| Kafka Streams {KAFKA_VERSION} |" in (ROOT / "README.md").read_text()
    assert f"Apache Kafka {KAFKA_VERSION}: one node in `make test`" in (ROOT / "docs" / "versions.md").read_text()


def test_recordings_are_of_that_release() -> None:
    for folder in ("recorder", "header_serdes"):
        assert release_of(ROOT / "tests" / "golden" / folder / "pom.xml") == KAFKA_VERSION


def test_other_releases_are_those_of_make_test_brokers() -> None:
    line = re.search(r"^BROKERS \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line is not None
    assert KAFKA_VERSION in line[1].split()
    assert OTHERS["docs/versions.md"] - SPARKS == set(line[1].split()) - {KAFKA_VERSION}
