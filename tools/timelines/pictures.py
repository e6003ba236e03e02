"""All pictures by the names of their files."""

from __future__ import annotations

from pathlib import Path

from tools.terminal.drawing import crash_picture
from tools.terminal.recording import CRASH
from tools.timelines import joins, operators, punctuations, suppress, tables, windows
from tools.timelines.drawing import draw
from tools.timelines.strip import draw_strip

__all__ = ["FOLDER", "pictures"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

SCENES = {
    "stream-and-table": tables.stream_and_table,
    "windows-tumbling": windows.tumbling,
    "windows-hopping": windows.hopping,
    "windows-sliding": windows.sliding,
    "windows-session": windows.session,
    "suppress-until-close": windows.suppressed,
    "suppress-time-limit": suppress.time_limit,
    "join-streams": joins.streams_left,
    "join-stream-table": joins.stream_table,
    "join-tables": joins.tables_left,
    "join-versioned-table": joins.table_versions,
    "join-table-grace": joins.table_with_grace,
    "punctuations": punctuations.punctuations,
}
STRIPS = {
    "operators-on-records": operators.single_records,
    "operators-on-streams": operators.whole_streams,
    "operators-on-tables": tables.operators,
    "deduplicate": operators.deduplicated,
    "aggregate-stream": operators.aggregations,
    "aggregate-table": tables.regrouped,
    "join-foreign-key": joins.foreign_key,
    "join-global-table": joins.global_table,
    "processor": operators.processor,
}


def pictures() -> dict[str, str]:
    """Runs every topology, draws what a terminal has shown, and returns the SVGs by name."""
    drawn = {name: draw(scene()) for name, scene in SCENES.items()}
    strips = {name: draw_strip(scene()) for name, scene in STRIPS.items()}
    return {**drawn, **strips, "crash": crash_picture(CRASH.read_text(encoding="utf-8"))}
