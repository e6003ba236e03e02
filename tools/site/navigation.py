"""The order of the pages on the site. Every page of `docs` is in it once, which a test checks."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DECISIONS = DOCS / "decisions"
DECISION_CHAPTERS = tuple(
    DECISIONS / f"{name}.md"
    for name in (
        "stores",
        "changelogs-and-restore",
        "commits-and-transactions",
        "tasks-and-membership",
        "clients-and-brokers",
        "windows-and-joins",
        "schema-registry",
        "spark",
        "command-line-and-settings",
        "testing-and-repository",
    )
)

NAVIGATION: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Start",
        (
            "README.md",
            "docs/install.md",
            "docs/quick-start.md",
            "docs/try.md",
            "docs/concepts.md",
            "examples/README.md",
        ),
    ),
    (
        "Tutorial",
        (
            "docs/tutorial-01-count.md",
            "docs/tutorial-02-models.md",
            "docs/tutorial-03-tables.md",
            "docs/tutorial-04-joins.md",
            "docs/tutorial-05-windows.md",
            "docs/tutorial-06-bad-records.md",
            "docs/tutorial-07-tests.md",
            "docs/tutorial-08-exactly-once.md",
            "docs/tutorial-09-production.md",
            "docs/tutorial-10-history.md",
        ),
    ),
    (
        "Write",
        (
            "docs/serdes.md",
            "docs/schema-registry.md",
            "docs/stateless.md",
            "docs/aggregations.md",
            "docs/windows.md",
            "docs/joins.md",
            "docs/tables.md",
            "docs/processors-in-a-dsl.md",
            "docs/timestamps.md",
            "docs/recipes.md",
            "docs/beyond-java.md",
        ),
    ),
    (
        "State",
        (
            "docs/stores.md",
            "docs/custom-stores.md",
            "docs/rocksdb.md",
            "docs/queries.md",
            "docs/querying-over-http.md",
        ),
    ),
    (
        "Operate",
        (
            "docs/deployment.md",
            "docs/running.md",
            "docs/guarantees.md",
            "docs/high-availability.md",
            "docs/changing-an-application.md",
            "docs/streams-groups.md",
            "docs/monitoring.md",
        ),
    ),
    (
        "Fix",
        (
            "docs/troubleshooting.md",
            "docs/errors-and-dead-letters.md",
            "docs/following-a-record.md",
        ),
    ),
    ("Test", ("docs/testing.md", "docs/porting-tests.md", "docs/simulation.md")),
    (
        "Coming from",
        (
            "docs/from-java.md",
            "docs/from-other-libraries.md",
        ),
    ),
    ("Spark", ("docs/spark.md", "docs/spark-backfill.md", "docs/spark-handover.md")),
    (
        "Commands and settings",
        (
            "docs/command-line.md",
            "docs/topics-and-records.md",
            "docs/configuration.md",
            "docs/versions.md",
        ),
    ),
    (
        "How it works",
        (
            "docs/semantics.md",
            "docs/conformance.md",
            "docs/compatibility.md",
            "docs/formats.md",
            "docs/performance.md",
            "docs/design.md",
            "CONTRIBUTING.md",
            "CODE_OF_CONDUCT.md",
            "SECURITY.md",
            "CHANGELOG.md",
        ),
    ),
)


def pages() -> list[Path]:
    """All pages of the site that are files of the repository, in their order; the index of `docs` is the home page."""
    listed = [ROOT / name for _, names in NAVIGATION for name in names]
    examples = sorted(path for path in (ROOT / "examples").glob("*/README.md"))
    return [DOCS / "README.md", *listed, *examples, DECISIONS / "README.md", *DECISION_CHAPTERS]
