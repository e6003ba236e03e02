"""Records which headers Kafka Streams 4.4.0 hands to serdes, call by call, by ``tests/golden/header_serdes``.

    python -m tools.golden.header_serdes

Needs a JDK (17 or later) and Maven. ``tests/golden/test_header_serdes.py`` compares with what it writes.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from tools.maven import JavaError, build, class_path, java

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "tests" / "golden" / "header_serdes"
RECORDED = PROJECT / "recorded.json.gz"

__all__ = ["PROJECT", "RECORDED", "main"]


def main() -> int:
    """Builds the recorder, runs it, and writes the recording."""
    target = ROOT / "build" / "header-serdes"
    try:
        classes = class_path(build(PROJECT, target))
    except JavaError as error:
        raise SystemExit(str(error)) from None
    written = target / "recorded.json"
    subprocess.run([java(), "-cp", classes, "headers.Recorder", str(written)], check=True)
    text = json.dumps(json.loads(written.read_text()), separators=(",", ":"))
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
