"""Compares what basedpyright says of `program.py` with what stands there: `python -m tools.editors FOLDER`.

The folder has the programs of basedpyright, which brings Node and is in an environment of its own
(docs/decisions/testing-and-repository.md, "Types are tested with mypy and editors on demand"). It checks types and
errors, and that the hover over each name shows the example of its docstring as code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.editors.hovers import hover_problems

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("program.py")
SETTINGS = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}


def diagnostics(programs: Path, folder: Path) -> dict[int, list[str]]:
    """Returns what the checker says of the program, by the number of the line."""
    command = [str(programs / "basedpyright"), "--outputjson", "--project", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    start = done.stdout.find("{")  # notes of its own may come before
    if start < 0:
        raise SystemExit(f"error: basedpyright failed: {done.stderr or done.stdout}")
    found: dict[int, list[str]] = {}
    for one in json.loads(done.stdout[start:])["generalDiagnostics"]:
        if one["severity"] in ("error", "information"):
            found.setdefault(one["range"]["start"]["line"] + 1, []).append(one["message"])
    return found


def problems_of(source: str, found: dict[int, list[str]]) -> Iterator[str]:
    """Yields the lines of which the checker says something else than the comment."""
    for number, line in enumerate(source.splitlines(), start=1):
        code, _, comment = line.partition("  # ")
        said = found.get(number, [])
        if "reveal_type(" in code:
            wanted = f'Type of "{code.strip().removeprefix("reveal_type(").removesuffix(")")}" is "{comment}"'
            if said != [wanted]:
                yield f"line {number}: {comment!r} is expected, and it says {said}"
        elif comment.startswith("error: "):
            if not any(comment.removeprefix("error: ") in one for one in said):
                yield f"line {number}: {comment!r} is expected, and it says {said}"
        elif said:
            yield f"line {number}: nothing is expected, and it says {said}"


def main(programs: Path) -> int:
    source = PROGRAM.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "program.py").write_text(source, encoding="utf-8")
        (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        problems = list(problems_of(source, diagnostics(programs, folder)))
        hovered, missing = hover_problems(programs, folder, source)
    for problem in problems + missing:
        print(problem, file=sys.stderr)
    shown = sum("reveal_type(" in line for line in source.splitlines())
    wrong = sum("  # error: " in line for line in source.splitlines())
    print(f"{shown} types, {wrong} errors and {hovered} hovers: {len(problems + missing)} are not as expected")
    return 1 if problems or missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
