"""Redirects from the addresses of pages that were merged or renamed, so that old links still work."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path

from tools.site.navigation import ROOT
from tools.site.stage import staged

REDIRECTS: dict[str, str] = {
    "docs/blue-green.md": "docs/changing-an-application.md#clone-an-application",
    "docs/blue-green.md#a-live-shadow": "docs/changing-an-application.md#live-shadow",
    "docs/blue-green.md#blue-and-green": "docs/changing-an-application.md#blue-green-deployment",
    "docs/blue-green.md#compare-before": "docs/changing-an-application.md#compare-two-versions",
    "docs/blue-green.md#promote-it": "docs/changing-an-application.md#promote-a-shadow",
    "docs/blue-green.md#what-a-clone-refuses": "docs/changing-an-application.md#interrupted-clones",
    "docs/blue-green.md#when-a-clone-is-killed": "docs/changing-an-application.md#interrupted-clones",
    "docs/elsewhere.md": "docs/compatibility.md#problems-elsewhere",
    "docs/elsewhere.md#what-goes-wrong-here-too": "docs/compatibility.md#also-problems-here",
    "docs/first-topology.md": "docs/quick-start.md",
    "docs/from-bytewax.md": "docs/from-other-libraries.md#bytewax",
    "docs/from-faust.md": "docs/from-other-libraries.md#faust",
    "docs/from-quix.md": "docs/from-other-libraries.md#quix-streams",
    "docs/global-stores.md": "docs/stores.md#global-tables",
    "docs/global-stores.md#read-only-stores": "docs/stores.md#read-only-stores",
    "docs/glossary.md": "docs/concepts.md#glossary",
    "docs/invariants.md": "docs/design.md#invariants",
    "docs/invariants.md#commit": "docs/design.md#commit",
    "docs/invariants.md#inputs": "docs/design.md#inputs",
    "docs/invariants.md#membership": "docs/design.md#membership",
    "docs/invariants.md#state": "docs/design.md#state",
    "docs/javas-defects.md": "docs/compatibility.md#defects-of-kafka-streams",
    "docs/javas-defects.md#cured-always": "docs/compatibility.md#always-fixed",
    "docs/javas-defects.md#cured-unless-dsljavadefectskeep": "docs/compatibility.md#fixed-unless-you-keep-them",
    "docs/javas-defects.md#kept": "docs/compatibility.md#kept",
    "docs/journey-of-a-record.md": "docs/design.md#path-of-a-record",
    "docs/live-page.md": "docs/monitoring.md#live-page",
    "docs/metrics.md": "docs/monitoring.md#metrics",
    "docs/metrics.md#beside-kafka-streams-metrics": "docs/monitoring.md#differences-from-kafka-streams",
    "docs/metrics.md#clients-and-brokers": "docs/monitoring.md#clients-and-brokers",
    "docs/metrics.md#rebalances": "docs/monitoring.md#built-in-metrics",
    "docs/metrics.md#stores": "docs/monitoring.md#store-metrics",
    "docs/metrics.md#the-runtimes-own": "docs/monitoring.md#built-in-metrics",
    "docs/metrics.md#your-own": "docs/monitoring.md#your-own-metrics",
    "docs/migration.md": "docs/from-java.md#move-an-application",
    "docs/migration.md#from-kafka-streams-before-44": "docs/from-java.md#from-kafka-streams-before-44",
    "docs/migration.md#what-carries-over": "docs/from-java.md#what-moves",
    "docs/migration.md#what-does-not": "docs/from-java.md#what-moves",
    "docs/migration.md#with-avro-in-a-schema-registry": "docs/from-java.md#with-avro-in-a-schema-registry",
    "docs/mistakes.md": "docs/troubleshooting.md#errors-in-a-topology",
    "docs/mistakes.md#at-a-record": "docs/troubleshooting.md#errors-of-a-record",
    "docs/mistakes.md#functions": "docs/troubleshooting.md#functions",
    "docs/no-output.md": "docs/troubleshooting.md#no-output",
    "docs/no-output.md#an-inner-join-has-no-partner": "docs/troubleshooting.md#an-inner-join-has-no-partner",
    "docs/no-output.md#it-began-at-the-end-of-the-topic": (
        "docs/troubleshooting.md#the-application-started-at-the-end-of-the-topic"
    ),
    "docs/no-output.md#it-does-not-run": "docs/troubleshooting.md#the-application-is-not-running",
    "docs/no-output.md#keys-lie-in-other-partitions": "docs/troubleshooting.md#keys-in-different-partitions",
    "docs/no-output.md#keys-or-values-are-null": "docs/troubleshooting.md#keys-or-values-are-null",
    "docs/no-output.md#one-partition-is-quiet": "docs/troubleshooting.md#one-partition-is-quiet",
    "docs/no-output.md#records-cannot-be-read": "docs/troubleshooting.md#records-cannot-be-read",
    "docs/no-output.md#results-wait-for-a-commit": "docs/troubleshooting.md#results-wait-for-a-commit",
    "docs/no-output.md#the-input-is-not-committed": "docs/troubleshooting.md#the-input-is-not-committed",
    "docs/no-output.md#the-output-is-not-committed": "docs/troubleshooting.md#the-output-is-not-committed",
    "docs/no-output.md#the-record-is-late": "docs/troubleshooting.md#the-record-is-late",
    "docs/no-output.md#the-window-is-still-open": "docs/troubleshooting.md#the-window-is-still-open",
    "docs/no-output.md#where-does-a-record-stop": "docs/troubleshooting.md#still-no-cause",
    "docs/observing.md": "docs/monitoring.md",
    "docs/observing.md#records-without-a-result": "docs/monitoring.md#records-without-a-result",
    "docs/observing.md#results-that-wait": "docs/monitoring.md#results-that-wait",
    "docs/observing.md#what-nodes-do": "docs/monitoring.md#node-statistics",
    "docs/observing.md#why-is-there-no-output": "docs/monitoring.md#causes-of-missing-output",
    "docs/operations.md": "docs/running.md#worker-failures",
    "docs/operations.md#before-and-after": "docs/running.md#changes",
    "docs/operations.md#brokers": "docs/running.md#broker-failures",
    "docs/operations.md#changes": "docs/running.md#changes",
    "docs/operations.md#scaling": "docs/running.md#scaling",
    "docs/partitioning.md": "docs/troubleshooting.md#keys-in-different-partitions",
    "docs/partitioning.md#repair": "docs/troubleshooting.md#repair",
    "docs/partitioning.md#see-the-difference": "docs/troubleshooting.md#detection",
    "docs/partitioning.md#see-where-a-key-is": "docs/troubleshooting.md#detection",
    "docs/partitioning.md#what-goes-wrong": "docs/troubleshooting.md#detection",
    "docs/snapshots.md": "docs/high-availability.md#snapshots",
    "docs/snapshots.md#in-an-object-store": "docs/high-availability.md#object-stores",
    "docs/snapshots.md#limits": "docs/high-availability.md#limits-of-snapshots",
    "docs/snapshots.md#what-is-taken": "docs/high-availability.md#restoring-from-a-snapshot",
    "docs/snapshots.md#what-is-written": "docs/high-availability.md#contents",
    "docs/snapshots.md#when-something-fails": "docs/high-availability.md#monitoring-snapshots",
    "docs/standby-tasks.md": "docs/high-availability.md#standby-tasks",
    "docs/standby-tasks.md#reading-them": "docs/high-availability.md#queries",
    "docs/standby-tasks.md#seeing-them": "docs/high-availability.md#monitoring",
    "docs/standby-tasks.md#what-is-not-there": "docs/high-availability.md#when-a-worker-joins",
    "docs/standby-tasks.md#what-they-cost": "docs/high-availability.md#cost",
    "docs/standby-tasks.md#what-to-expect": "docs/high-availability.md#takeover-time",
    "docs/standby-tasks.md#when-a-task-moves": "docs/high-availability.md#when-a-task-moves",
    "docs/standby-tasks.md#when-a-worker-comes": "docs/high-availability.md#when-a-worker-joins",
    "docs/standby-tasks.md#where-the-copies-are": "docs/high-availability.md#placement",
    "docs/state-evolution.md": "docs/changing-an-application.md#changed-values",
    "docs/state-evolution.md#before-a-deploy": "docs/changing-an-application.md#check-before-a-deploy",
    "docs/state-evolution.md#convert-old-values": "docs/changing-an-application.md#migrate-old-values",
    "docs/state-evolution.md#topics": "docs/changing-an-application.md#repartition-topics",
    "docs/suppression.md": "docs/windows.md#suppression",
    "docs/suppression.md#from-java": "docs/windows.md#from-java",
    "docs/table-joins.md": "docs/joins.md#a-table-with-a-table",
    "docs/table-joins.md#by-a-foreign-key": "docs/joins.md#a-table-with-a-table-by-foreign-key",
    "docs/table-joins.md#from-java": "docs/joins.md#from-java",
    "docs/time-to-live.md": "docs/beyond-java.md#rows-that-expire",
    "docs/time-to-live.md#expired-keys": "docs/beyond-java.md#expired-rows",
    "docs/time-to-live.md#the-start-of-the-time-to-live": "docs/beyond-java.md#start-of-the-time-to-live",
    "docs/time-to-live.md#turning-it-on-and-off": "docs/beyond-java.md#enable-and-disable",
    "docs/tracing.md": "docs/monitoring.md#tracing",
    "docs/tracing.md#the-spans": "docs/monitoring.md#spans",
    "docs/tracing.md#where-traces-meet": "docs/monitoring.md#joined-and-cached-records",
    "docs/tutorial-exactly-once.md": "docs/tutorial-08-exactly-once.md",
    "docs/tutorial-exactly-once.md#run-it": "docs/tutorial-08-exactly-once.md#cost",
    "docs/tutorial-exactly-once.md#the-application": "docs/tutorial-08-exactly-once.md#application",
    "docs/tutorial-exactly-once.md#try-it-with-crashes": "docs/tutorial-08-exactly-once.md#test-it-with-crashes",
    "docs/tutorial-joins.md": "docs/tutorial-04-joins.md",
    "docs/tutorial-joins.md#a-stream-with-a-table": "docs/tutorial-04-joins.md#application",
    "docs/tutorial-joins.md#test-it": "docs/tutorial-04-joins.md#test-it",
    "docs/tutorial-joins.md#try-it": "docs/tutorial-04-joins.md#try-it",
    "docs/tutorial-pyspark.md": "docs/tutorial-10-history.md",
    "docs/tutorial-pyspark.md#backfill": "docs/tutorial-10-history.md#backfill",
    "docs/tutorial-pyspark.md#history": "docs/tutorial-10-history.md#history",
    "docs/tutorial-pyspark.md#next-steps": "docs/tutorial-10-history.md#next",
    "docs/tutorial-tables.md": "docs/tutorial-03-tables.md",
    "docs/tutorial-tables.md#a-table-and-an-aggregation": "docs/tutorial-03-tables.md#application",
    "docs/tutorial-tables.md#test-it": "docs/tutorial-03-tables.md#test-it",
    "docs/tutorial-tables.md#try-it": "docs/tutorial-03-tables.md#try-it",
    "docs/tutorial-testing.md": "docs/tutorial-07-tests.md",
    "docs/tutorial-testing.md#faults": "docs/tutorial-08-exactly-once.md#test-it-with-crashes",
    "docs/tutorial-testing.md#one-processor": "docs/tutorial-07-tests.md#one-processor",
    "docs/tutorial-testing.md#the-application": "docs/tutorial-07-tests.md#application",
    "docs/tutorial-testing.md#the-running-application": "docs/tutorial-07-tests.md#the-running-application",
    "docs/tutorial-testing.md#the-topology": "docs/tutorial-07-tests.md#the-topology",
    "docs/tutorial-windows.md": "docs/tutorial-05-windows.md",
    "docs/tutorial-windows.md#count-in-windows": "docs/tutorial-05-windows.md#application",
    "docs/tutorial-windows.md#late-records": "docs/tutorial-05-windows.md#test-it",
    "docs/tutorial-windows.md#sliding-windows": "docs/windows.md#sliding-windows",
    "docs/tutorial-windows.md#try-it": "docs/tutorial-05-windows.md#try-it",
    "docs/versioned-stores.md": "docs/stores.md#versioned-stores",
    "docs/versioned-stores.md#from-a-plain-store-to-a-versioned-one": "docs/stores.md#upgrades-of-a-store",
    "docs/versioned-stores.md#lru-maps-and-lists": "docs/stores.md#lru-maps-and-lists",
    "docs/versioned-stores.md#plain-timestamped-with-headers": "docs/stores.md#upgrades-of-a-store",
    "docs/versioned-stores.md#versioned-tables": "docs/tables.md#versioned-tables",
    "docs/versioned-tables.md": "docs/tables.md#versioned-tables",
    "docs/versioned-tables.md#from-java": "docs/tables.md#from-java",
    "docs/windows-and-sessions.md": "docs/stores.md#window-and-session-stores",
    "docs/windows-and-sessions.md#expiry": "docs/stores.md#expiry-of-windows",
    "docs/windows-and-sessions.md#from-plain-to-timestamped-and-to-headers": "docs/stores.md#upgrades-of-a-store",
    "docs/windows-and-sessions.md#headers": "docs/stores.md#headers-in-windows-and-sessions",
}
"""The current page of each page that was merged or renamed, with the heading where its text is now.

Keys and values are paths in the repository. A key with an anchor, such as `docs/old.md#heading`, gives one heading of
an old page its own target. A value is never an old page.
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Page moved</title>
<script>
const targets = {targets};
location.replace(targets[decodeURIComponent(location.hash.slice(1))] ?? {default});
</script>
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript>
</head>
<body>
<p>This page has moved:</p>
<ul>
{links}
</ul>
</body>
</html>
"""


def address(path: str) -> str:
    """Returns the address on the site for a path in the repository, which may end with an anchor."""
    page, mark, anchor = path.partition("#")
    return staged(ROOT / page).with_suffix(".html").as_posix() + mark + anchor


def redirect_page(page: str, redirects: dict[str, str]) -> str:
    """Returns the HTML that leads from an old page to its current one, and from its headings to theirs."""
    folder = Path(address(page)).parent

    def relative(path: str) -> str:
        place, mark, anchor = address(path).partition("#")
        return Path(os.path.relpath(place, folder)).as_posix() + mark + anchor

    target = relative(redirects[page])
    of_headings = {old.partition("#")[2]: relative(new) for old, new in redirects.items() if old.startswith(f"{page}#")}
    links = [
        f'<li><a href="{escape(link)}">{escape(link)}</a></li>'
        for link in dict.fromkeys([target, *of_headings.values()])
    ]
    return PAGE.format(
        target=escape(target), targets=json.dumps(of_headings), default=json.dumps(target), links="\n".join(links)
    )


def write_redirects(folder: Path, redirects: dict[str, str] = REDIRECTS) -> None:
    """Writes a page that redirects for each old page to the built site in `folder`."""
    for page in (path for path in redirects if "#" not in path):
        file = folder / address(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(redirect_page(page, redirects), encoding="utf-8")
