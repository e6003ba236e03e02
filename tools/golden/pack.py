"""Packs recordings into the project: one compressed file each, the same bytes for the same content.

    python tools/golden/pack.py SOURCE [NAME ...] [--to tests/golden/recordings] [--remove]

SOURCE is a directory of plain or compressed recordings; NAMEs are file names without their suffix, and may be globs
(all if none is given). Recordings of topologies go to ``topologies/``, traces of stores to ``stores/``, the rest to
``formats/``. Files whose content is there already are left untouched; with ``--remove``, packed files that match a NAME
and are no longer in SOURCE go.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from golden_support.recordings import Recordings, read_json, stem  # noqa: E402

FOLDERS = {"topology": "topologies", "store": "stores"}


def pack(source: Path, target: Path, names: Sequence[str], *, remove: bool = False) -> list[str]:
    """Packs the chosen recordings and returns a line for each change, in the order of their names.

    :raises ValueError: if a name matches nothing, or a file is of no known kind.
    """
    chosen = [file for file in Recordings(source, is_default=False).files if _matches(file.name, names)]
    for name in names:
        if not any(fnmatchcase(file.name, name) for file in chosen):
            raise ValueError(f"no recording in {source} is named {name!r}")
    changes = []
    for file in chosen:
        if file.kind == "unknown":
            raise ValueError(f"{file.path} is no recording of a known kind")
        path = target / FOLDERS.get(file.kind, "formats") / f"{file.name}.json.gz"
        if path.exists() and read_json(path) == file.data:
            continue
        changes.append(f"{'changed' if path.exists() else 'added'} {path.relative_to(target)}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed(file.data))
    if remove:
        kept = {file.name for file in chosen}
        for path in sorted(target.rglob("*.json.gz")):
            if _matches(stem(path), names) and stem(path) not in kept:
                path.unlink()
                changes.append(f"removed {path.relative_to(target)}")
    return changes


def _matches(name: str, names: Sequence[str]) -> bool:
    return not names or any(fnmatchcase(name, pattern) for pattern in names)


def packed(data: Any) -> bytes:
    """Returns compact JSON, compressed without a date; fields keep their order, in which outputs are listed."""
    text = json.dumps(data, separators=(",", ":"))
    return gzip.compress(text.encode("ascii"), compresslevel=9, mtime=0)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--to", type=Path, default=ROOT / "tests" / "golden" / "recordings", metavar="DIR")
    parser.add_argument("--remove", action="store_true")
    options = parser.parse_args(arguments)
    changes = pack(options.source, options.to, options.names, remove=options.remove)
    print("\n".join(changes) or "nothing changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
