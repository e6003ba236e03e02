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
            "docs/first-topology.md",
            "docs/try.md",
            "docs/concepts.md",
            "examples/README.md",
            "docs/glossary.md",
        ),
    ),
    (
        "Tutorials",
        (
            "docs/tutorial-windows.md",
            "docs/tutorial-joins.md",
            "docs/tutorial-tables.md",
            "docs/tutorial-exactly-once.md",
            "docs/tutorial-testing.md",
            "docs/tutorial-pyspark.md",
        ),
    ),
    (
        "How-to",
        (
            "docs/no-output.md",
            "docs/errors-and-dead-letters.md",
            "docs/timestamps.md",
            "docs/partitioning.md",
            "docs/deployment.md",
            "docs/operations.md",
            "docs/guarantees.md",
            "docs/streams-groups.md",
            "docs/troubleshooting.md",
        ),
    ),
    (
        "Coming from",
        (
            "docs/from-java.md",
            "docs/from-other-libraries.md",
            "docs/elsewhere.md",
        ),
    ),
    (
        "Records and tables",
        (
            "docs/serdes.md",
            "docs/schema-registry.md",
            "docs/stateless.md",
            "docs/aggregations.md",
            "docs/windows.md",
            "docs/joins.md",
            "docs/tables.md",
            "docs/processors-in-a-dsl.md",
            "docs/beyond-java.md",
            "docs/mistakes.md",
        ),
    ),
    (
        "Stores",
        (
            "docs/stores.md",
            "docs/custom-stores.md",
            "docs/rocksdb.md",
            "docs/snapshots.md",
            "docs/state-evolution.md",
            "docs/blue-green.md",
            "docs/queries.md",
            "docs/querying-over-http.md",
        ),
    ),
    (
        "Running and testing",
        (
            "docs/command-line.md",
            "docs/topics-and-records.md",
            "docs/configuration.md",
            "docs/running.md",
            "docs/standby-tasks.md",
            "docs/observing.md",
            "docs/live-page.md",
            "docs/metrics.md",
            "docs/testing.md",
            "docs/following-a-record.md",
            "docs/tracing.md",
            "docs/simulation.md",
            "docs/performance.md",
            "docs/versions.md",
        ),
    ),
    ("Spark", ("docs/spark.md", "docs/spark-backfill.md", "docs/spark-handover.md")),
    (
        "How it works",
        (
            "docs/semantics.md",
            "docs/conformance.md",
            "docs/javas-defects.md",
            "docs/formats.md",
            "docs/design.md",
            "docs/journey-of-a-record.md",
            "docs/invariants.md",
            "CONTRIBUTING.md",
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
